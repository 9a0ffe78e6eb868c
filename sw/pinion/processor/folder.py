"""Program folders: a program with the robot and the function that it was compiled from.

=================== ============================================================================
``manifest.json``   the program in numbers (:class:`pinion.link.Manifest`)
`PROGRAM`           its rows and constants
``model.json``      the robot
``function.json``   the function with its float model (:class:`pinion.functions.BuiltFunction`)
`LISTING`           the program as text, for people
`PICTURE`           its schedule
``digests.json``    the files' digests
=================== ============================================================================
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.amounts import amount
from pinion.base.escaping import one_line
from pinion.base.places import check_place, scratch_beside
from pinion.base.progress import SILENT, Progress
from pinion.batch import Backend
from pinion.fixedpoint import Format
from pinion.functions import BuiltFunction, Function
from pinion.graph import Word
from pinion.link import Manifest, ManifestError
from pinion.link.build_files import MODEL, BuildFile
from pinion.link.digests import check_digests, write_digests
from pinion.link.replaced import exchange
from pinion.robot import Model, model_from_dict, model_to_dict
from pinion.robot.naming import check_names

from .accuracy import ProgramErrors, program_scales
from .backend import open_program
from .compile import CompiledProgram
from .errors import ProgramError
from .listing import listing
from .machine import Machine
from .manifest import content_digest, program_manifest
from .picture import picture
from .program import LANE_FIELDS, TEAM_FIELDS, Program

PROGRAM = BuildFile(
    name="program.json",
    version=1,
    fields={
        "machine": dict,
        "rows": int,
        "constants": (dict,),
        "inputs": ({"word": str, "frac": int},),
        "outputs": ({"word": str, "frac": int},),
        "lanes": dict.fromkeys(LANE_FIELDS.names or (), str),
        "team": dict.fromkeys(TEAM_FIELDS.names or (), str),
    },
    remedy="compile the program again",
)
"""The program; fields of rows are 32-bit integers, row by row and lane by lane, in base 64."""

DEVICE = "processor"
"""Kind of the devices that run programs."""

FUNCTION, LISTING, PICTURE = "function.json", "program.txt", "schedule.svg"

_NUMBERS = np.dtype("<i4")


@dataclass(frozen=True, kw_only=True)
class ProgramFolder:
    """The contents of an intact program folder.

    Members
    -------
    folder : its path.
    manifest : the program in numbers.
    model : the robot.
    function : the function with its float model, as it was when the program was compiled.
    program : the program for its machine.
    """

    folder: Path
    manifest: Manifest
    model: Model
    function: BuiltFunction
    program: Program

    @classmethod
    def read(cls, folder: Path) -> ProgramFolder:
        """Read a program folder, whose files must all be unchanged since it was written.

        Raises
        ------
        pinion.link.ManifestError
            When a file is missing, unreadable or not the one that was written.
        """
        folder = Path(folder)
        manifest = Manifest.read(folder)
        if not manifest.is_program:
            raise ManifestError(
                f"'{folder}' holds a core, but a program is needed: give a folder made by "
                "`pinion program`."
            )
        check_digests(folder)
        data = PROGRAM.read(folder)
        try:
            program = _program(data, manifest.interleave)
            if content_digest(program) != manifest.content:
                raise ValueError(f"{PROGRAM.name} does not match the manifest")
            model = check_names(model_from_dict(json.loads((folder / MODEL).read_text())))
            function = BuiltFunction.from_json(json.loads((folder / FUNCTION).read_text()))
        except _DAMAGE as error:
            raise ManifestError(
                f"The program folder '{folder}' is not intact ({error}): compile the program again."
            ) from None
        return cls(
            folder=folder, manifest=manifest, model=model, function=function, program=program
        )


_DAMAGE = (
    *(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError),
    *(AssertionError, IndexError),
)
"""What the numbers of a damaged program raise where they are used."""


def open_program_folder(
    folder: ProgramFolder, device: str = DEVICE, *, progress: Progress = SILENT
) -> Backend:
    """Open the program in a program folder as a backend.

    Parameters
    ----------
    device : ``processor`` for the model, ``processor:sim`` for the simulated card, or
        ``processor:serial:PORT`` for a card with this processor.

    Raises
    ------
    ProgramError
        If the device is of another kind.
    pinion.driver.DriverError, pinion.driver.TransportError
        If there is no such card, it holds another machine, or it does not work.
    """
    return open_program(folder.manifest, folder.program, program_address(device), progress=progress)


def program_address(device: str) -> str:
    """Return the card's address in a device name such as ``processor:sim``, empty for the model.

    Raises
    ------
    ProgramError
        If the device is of another kind.
    """
    kind, _, address = device.partition(":")
    if kind != DEVICE:
        raise ProgramError(
            f"A program does not run on '{device}': give '{DEVICE}', '{DEVICE}:sim' or "
            f"'{DEVICE}:serial:PORT'."
        )
    return address


def write_program(
    model: Model,
    function: Function,
    compiled: CompiledProgram,
    folder: Path,
    errors: Sequence[ProgramErrors],
) -> tuple[ProgramFolder, Path | None]:
    """Write a program folder, which appears complete or not at all.

    An earlier folder there is replaced, or kept beside it if it holds files of the user
    (:mod:`pinion.link.replaced`).

    Parameters
    ----------
    errors : of the program, by distribution; the folder promises them.

    Returns
    -------
    The folder, and where an earlier one was moved, or `folder` if it already held this program.

    Raises
    ------
    ProgramError
        If nothing can be written there.
    pinion.link.replaced.OccupiedError
        If an earlier folder cannot be replaced.
    """
    folder = Path(folder)
    check_place(folder, "program", ProgramError)
    if folder.exists() and not folder.is_dir():
        raise ProgramError(f"'{folder}' is a file: give the name of a folder for the program.")
    manifest = program_manifest(
        model,
        function,
        compiled,
        errors=errors,
        scales=program_scales(model, function, compiled.graph),
    )
    built = BuiltFunction.of(function, model)
    with scratch_beside(folder) as scratch:
        parts = scratch / "program"
        parts.mkdir()
        manifest.write(parts)
        PROGRAM.write(parts, _data(compiled.program))
        (parts / MODEL).write_text(json.dumps(model_to_dict(model), indent=2) + "\n")
        (parts / FUNCTION).write_text(json.dumps(built.to_json(), indent=1) + "\n")
        title = one_line(f"{function.name} of {model.name}, {compiled.precision}")
        (parts / LISTING).write_text(listing(compiled))
        (parts / PICTURE).write_text(picture(compiled, title=title))
        write_digests(parts)
        earlier = exchange(folder, parts)
    return ProgramFolder.read(folder), earlier


def _data(program: Program) -> dict[str, Any]:
    """Return a program as JSON data."""
    return {
        "machine": asdict(program.machine),
        "rows": program.cycles,
        "constants": [
            {str(place): integer for place, integer in constants.items()}
            for constants in program.constants
        ],
        **{
            name: [{"word": str(word), "frac": fmt.frac} for word, fmt in words]
            for name, words in (("inputs", program.inputs), ("outputs", program.outputs))
        },
        "lanes": _columns(program.lanes),
        "team": _columns(program.team),
    }


def _columns(rows: NDArray[np.void]) -> dict[str, str]:
    names = rows.dtype.names or ()
    return {
        name: base64.b64encode(rows[name].astype(_NUMBERS).tobytes()).decode() for name in names
    }


def _program(data: Mapping[str, Any], interleave: int) -> Program:
    """Return the program of so many samples a request that JSON data describes.

    Raises
    ------
    ValueError, KeyError, TypeError, AssertionError, IndexError, OverflowError
        If the data are not a program.
    """
    machine = Machine(**data["machine"])
    count = data["rows"]
    if not 0 < count <= machine.rows or len(data["constants"]) != machine.lanes:
        raise ValueError(
            f"it must have 1 to {machine.rows} rows and constants of "
            f"{amount(machine.lanes, 'lane')}, not {count} and {len(data['constants'])}"
        )
    inputs, outputs = (
        tuple((Word.of(entry["word"]), Format(machine.word, entry["frac"])) for entry in data[name])
        for name in ("inputs", "outputs")
    )
    return Program(
        machine=machine,
        lanes=_rows(data["lanes"], LANE_FIELDS, (count, machine.lanes)),
        team=_rows(data["team"], TEAM_FIELDS, (count,)),
        constants=tuple(
            {int(place): integer for place, integer in constants.items()}
            for constants in data["constants"]
        ),
        inputs=inputs,
        outputs=outputs,
        interleave=interleave,
    )


def _rows(
    columns: Mapping[str, str], fields: np.dtype[np.void], shape: tuple[int, ...]
) -> NDArray[np.void]:
    rows = np.zeros(shape, dtype=fields)
    for name in fields.names or ():
        numbers = np.frombuffer(base64.b64decode(columns[name], validate=True), dtype=_NUMBERS)
        rows[name] = numbers.reshape(shape)
        if not np.array_equal(rows[name], numbers.reshape(shape)):
            raise ValueError(f"a number in '{name}' does not fit its field")
    return rows
