"""JSON files of a build folder besides the manifest: what was made, and what was measured of it.

Each is one object with a ``version`` and, so that a damaged figure is noticed, a ``digest`` of
all else in it (SHA-256). Tools above write them, and everybody who shows or checks a
build reads them here, so that no reader needs the tool that wrote the file.

============================ ===================================================================
`SCHEDULE`                   operations with unit, start, latency and region (``pinion build``)
:mod:`.accuracy`             distribution of the errors (``pinion verify``, ``pinion demo``)
`RESOURCES`                  what Yosys counted, estimated delays (``pinion synth``)
`BOARD_REPORT`               clock and counts of a board's own tools (``pinion bitstream``)
`NETLIST_CHECK`              the check of a mapped netlist (``pinion verify --netlist``)
============================ ===================================================================

The last two stand in the folder's sub-folder of the board.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .manifest import ManifestError, read_file

LARGEST = 1 << 30
"""Bytes of the largest file that is read; a schedule of a humanoid has some ten million."""

MODEL = "model.json"
"""The robot of a build, as :func:`pinion.robot.model_to_dict` describes it."""


class Number:
    """Stands for any number in the fields of a `BuildFile`: JSON writes 50.0 and 50 alike."""


@dataclass(frozen=True, kw_only=True)
class BuildFile:
    """A kind of file in a build folder.

    Members
    -------
    name : of the file.
    version : what is written.
    fields : what must stand in it, each with its type; more may. A type in a tuple stands for a
        list of such values, a mapping for an object with these fields.
    remedy : what makes the file anew, as the end of a sentence.
    older : versions that are read as well, each with the fields that it lacks; they read as None.
    """

    name: str
    version: int
    fields: Mapping[str, Any]
    remedy: str
    older: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def write(self, folder: Path, data: Mapping[str, Any], *, indent: int = 2) -> None:
        """Write the file as a whole, with its version in front.

        Parameters
        ----------
        folder : where it goes.
        data : JSON-able; numbers are finite.
        """
        path = folder / self.name
        whole = {"version": self.version, **data}
        text = json.dumps({**whole, "digest": _digest(whole)}, indent=indent, allow_nan=False)
        part = path.with_name(f"{path.name}.part")
        part.write_text(text + "\n")
        os.replace(part, path)

    def find(self, folder: Path) -> dict[str, Any] | None:
        """Read the file, without its version and its digest; None where there is none.

        Raises
        ------
        ManifestError
            It cannot be read, is of another version, lacks a field, or was changed.
        """
        path = folder / self.name
        try:
            data = json.loads(read_file(path, LARGEST))
            if not isinstance(data, dict):
                raise TypeError("it is no object")
            version = data["version"]
            if type(version) is int and version > self.version:
                raise ManifestError(
                    f"'{path}' is of version {version}, and this Pinion reads version "
                    f"{self.version}: use the Pinion that wrote it, or {self.remedy}."
                )
            if type(version) is not int or version not in (self.version, *self.older):
                raise ValueError(f"its version is {version!r}, not {self.version}")
            digest = data.pop("digest", None)
            lacking = self.older.get(version, ())
            _check(data, {k: v for k, v in self.fields.items() if k not in lacking}, "")
            if digest != _digest(data):
                raise ValueError("it was changed after it was written")
            del data["version"]
            data |= dict.fromkeys(lacking)
        except FileNotFoundError:
            return None
        except ManifestError:
            raise
        except KeyError as error:
            raise self.damaged(folder, f"it lacks {error}") from None
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise self.damaged(folder, str(error)) from None
        return data

    def read(self, folder: Path) -> dict[str, Any]:
        """Read a file that must be there, without its version and its digest.

        Raises
        ------
        ManifestError
            As from `find`, or there is none.
        """
        found = self.find(folder)
        if found is None:
            raise ManifestError(f"'{folder}' has no {self.name}: {self.remedy}.")
        return found

    def damaged(self, folder: Path, why: str) -> ManifestError:
        """The error for a file that holds what it must not."""
        return ManifestError(f"'{folder / self.name}' is damaged ({why}): {self.remedy}.")


def _digest(data: Mapping[str, Any]) -> str:
    """Of what a file holds, as JSON has it: its keys are texts there, and their order is none."""
    read = json.loads(json.dumps(data))
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def _check(value: Any, wanted: Any, where: str) -> None:
    """Refuse a value that is not of a field's type.

    Raises
    ------
    KeyError : a field is missing.
    TypeError : a value is of another type.
    """
    if isinstance(wanted, Mapping):
        if not isinstance(value, dict):
            raise TypeError(f"{where or 'it'} is no object")
        for name, inner in wanted.items():
            if name not in value:
                raise KeyError(f"{where}.{name}".lstrip("."))
            _check(value[name], inner, f"{where}.{name}".lstrip("."))
    elif isinstance(wanted, tuple):
        if not isinstance(value, list):
            raise TypeError(f"{where} is no list")
        for number, item in enumerate(value):
            _check(item, wanted[0], f"{where}[{number}]")
    elif wanted is Number:
        if type(value) not in (int, float):
            raise TypeError(f"{where} is no number")
    # Not isinstance: true would do for a whole number.
    elif type(value) is not wanted:
        raise TypeError(f"{where} is {type(value).__name__}, not {wanted.__name__}")


SCHEDULE = BuildFile(
    name="schedule.json",
    version=1,
    fields={
        **dict.fromkeys(("ii", "length", "first_operand", "last_beat"), int),
        "units": dict,
        "operations": (
            {
                **dict.fromkeys(("node", "unit", "start", "latency"), int),
                **dict.fromkeys(("kind", "region", "line"), str),
            },
        ),
        "outputs": ({"name": str, **dict.fromkeys(("node", "lane", "beat", "cycle"), int)},),
    },
    remedy="build the folder again",
)
"""When and where each operation runs; the manifest's digest covers it, without the version."""

RESOURCES = BuildFile(
    name="synth.json",
    version=3,
    fields={
        **dict.fromkeys(("dsp", "lut", "ff", "srl", "lutram", "levels", "dies"), int),
        "bram": Number,
        **dict.fromkeys(("dsp_use", "capacity", "share", "by_kind"), dict),
        "multipliers": (dict,),
        "timing": {"table": str, "note": str, "ns": dict, "mhz": dict, "paths": (dict,)},
        **dict.fromkeys(("tool", "part", "note", "dsp_note"), str),
    },
    remedy="run `pinion synth` on the build again",
)
"""What Yosys counted of the core alone, and an estimate of its clock."""

BOARD_REPORT = BuildFile(
    name="report.json",
    version=1,
    fields={
        **dict.fromkeys(("build", "netlist_sha256"), str),
        **dict.fromkeys(("fmax_mhz", "clock_mhz"), Number),
        "use": dict,
    },
    remedy="run `pinion bitstream` on the build again",
)
"""What the tools of a board found: the clock after routing, counts of the mapped netlist."""

NETLIST_CHECK = BuildFile(
    name="netlist.json",
    version=1,
    fields={"requests": int, "mismatches": int, "sha256": str},
    remedy="run `pinion verify --netlist` on the build again",
)
"""How a mapped netlist answered, and which one it was."""
