"""JSON files of a build folder besides the manifest, with its schedule and measurements.

Each is one object with a ``version`` and, so that damage is noticed, a ``digest`` (SHA-256) of
everything else in it. Tools in higher layers write them; programs that show or check a build read
them through this module and need not import those tools.

============================ ===================================================================
`SCHEDULE`                   operations with unit, start, latency and region (``pinion build``)
:mod:`.accuracy`             distribution of the errors (``pinion verify``, ``pinion demo``)
`RESOURCES`                  what Yosys counted, estimated delays (``pinion synth``)
`BOARD_REPORT`               clock and counts of a board's own tools (``pinion bitstream``)
`NETLIST_CHECK`              the check of a mapped netlist (``pinion verify --netlist``)
============================ ===================================================================

The last two are in the folder's sub-folder of the board.
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
"""Maximum size of a file in bytes; the schedule of a humanoid has about ten million."""

MODEL = "model.json"
"""The robot of a build, as :func:`pinion.robot.model_to_dict` describes it."""


class Number:
    """Placeholder for any number in the fields of a `BuildFile`: JSON writes 50.0 as 50."""


@dataclass(frozen=True, kw_only=True)
class BuildFile:
    """Name, version and required fields of a JSON file in a build folder.

    Members
    -------
    name : name of the file.
    version : version that is written.
    fields : required fields with their types; a file may have more. A type in a tuple means a list
        of such values, a mapping an object with these fields.
    remedy : how to make the file again, as the end of a sentence.
    older : older versions that are read as well, each with its missing fields, which read as None.
    """

    name: str
    version: int
    fields: Mapping[str, Any]
    remedy: str
    older: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def write(self, folder: Path, data: Mapping[str, Any], *, indent: int = 2) -> None:
        """Write the file atomically, with its version and a digest.

        Parameters
        ----------
        folder : the build folder.
        data : JSON-able values with finite numbers.
        """
        path = folder / self.name
        content = {"version": self.version, **data}
        text = json.dumps({**content, "digest": _digest(content)}, indent=indent, allow_nan=False)
        part = path.with_name(f"{path.name}.part")
        part.write_text(text + "\n")
        os.replace(part, path)

    def find(self, folder: Path) -> dict[str, Any] | None:
        """Return the file's content without version and digest, or None if there is no file.

        Raises
        ------
        ManifestError
            If it cannot be read, has another version, lacks a field, or was changed.
        """
        path = folder / self.name
        try:
            data = json.loads(read_file(path, LARGEST))
            if not isinstance(data, dict):
                raise TypeError("it is not an object")
            version = data["version"]
            if type(version) is int and version > self.version:
                raise ManifestError(
                    f"'{path}' has version {version}, but this Pinion reads version "
                    f"{self.version}: use the Pinion version that wrote it, or {self.remedy}."
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
        """Return the content of a required file, without version and digest.

        Raises
        ------
        ManifestError
            As for `find`, or if there is no file.
        """
        data = self.find(folder)
        if data is None:
            raise ManifestError(f"'{folder}' has no {self.name}: {self.remedy}.")
        return data

    def damaged(self, folder: Path, why: str) -> ManifestError:
        """Return the error for a damaged file."""
        return ManifestError(f"'{folder / self.name}' is damaged ({why}): {self.remedy}.")


def _digest(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a file's content, independent of the order of JSON keys."""
    read = json.loads(json.dumps(data))
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def _check(value: Any, expected: Any, where: str) -> None:
    """Raise KeyError for a missing field, TypeError for a value of the wrong type."""
    if isinstance(expected, Mapping):
        if not isinstance(value, dict):
            raise TypeError(f"{where or 'it'} is not an object")
        for name, inner in expected.items():
            if name not in value:
                raise KeyError(f"{where}.{name}".lstrip("."))
            _check(value[name], inner, f"{where}.{name}".lstrip("."))
    elif isinstance(expected, tuple):
        if not isinstance(value, list):
            raise TypeError(f"{where} is not a list")
        for number, item in enumerate(value):
            _check(item, expected[0], f"{where}[{number}]")
    elif expected is Number:
        if type(value) not in (int, float):
            raise TypeError(f"{where} is not a number")
    # Not isinstance, which accepts a bool as an int.
    elif type(value) is not expected:
        raise TypeError(f"{where} is {type(value).__name__}, not {expected.__name__}")


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
"""Cycle and unit of each operation; the manifest's digest covers it, without the version."""

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
"""Yosys' counts for the core alone, and an estimate of its clock."""

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
"""Results of a board's tools: the clock after routing, counts of the mapped netlist."""

NETLIST_CHECK = BuildFile(
    name="netlist.json",
    version=1,
    fields={"requests": int, "mismatches": int, "sha256": str},
    remedy="run `pinion verify --netlist` on the build again",
)
"""Outcome of the check of a mapped netlist, and the netlist's hash."""
