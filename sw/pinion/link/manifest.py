"""The manifest: the description of a build for driver, simulation and host code.

It is a JSON file whose ``hash`` covers everything else in it; the same 64 bits are a constant of
the RTL, by which a driver can tell whether card and manifest belong together.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pinion.base.amounts import amount
from pinion.base.arrays import Floats
from pinion.base.escaping import control_in

MANIFEST = "manifest.json"

MOST_WORDS = 1 << 16
"""Maximum number of elements of an array and words of a record, more than any robot needs."""

MOST = 1 << 31
"""Limit of every count of cycles or units."""

PROCESSOR = "processor"
"""Target of programs of the dynamics processor, which have no hardware of their own."""

LARGEST = 64 << 20
"""Maximum size of a manifest in bytes; those of large robots have a few hundred thousand."""


class ManifestError(ValueError):
    """A folder is not an intact build folder; the message has advice."""


_OPTIONAL = (
    *("request", "snapping", "states", "parameter_low", "parameter_high", "decisions", "scales"),
    *("measured", "promises", "task", "tracking"),
)
"""Members that are left out of the file if empty."""


def mapped(values: NDArray[Any], matrix: Floats) -> Floats:
    """Return a matrix (n, n + 1) times the values (..., n) with a 1 appended."""
    return np.asarray(values @ matrix[:, :-1].T + matrix[:, -1])


def unmapped(values: NDArray[Any], matrix: Floats) -> Floats:
    """Invert :func:`mapped`: return the arguments (m, n) whose mapped values are (m, n)."""
    solved = np.linalg.solve(matrix[:, :-1], (values - matrix[:, -1]).T)
    return np.asarray(solved.T, np.float64)


MASK_UNIT = "0 or 1"
"""Unit of arrays that hold nothing else, such as which contacts are on the ground."""


@dataclass(frozen=True, kw_only=True)
class Array:
    """A named array of a record, with its shape without the batch axis and its unit.

    Two kinds of elements are not sent: constants of the robot (structural zeros), and one half of a
    symmetric matrix.

    Members
    -------
    sent : flat positions of the elements that are sent, in word order; None if all are.
    constants : flat position and value of elements that never change.
    symmetric : element (i, j) equals (j, i); only the lower one is sent.
    linear_map : of parameters of links: the core computes with this matrix (words, words + 1) times
        the elements and a 1 (:func:`pinion.dynamics.parameter_map`), which is what is sent.
    """

    name: str
    shape: tuple[int, ...]
    unit: str
    sent: tuple[int, ...] | None = None
    constants: tuple[tuple[int, float], ...] = ()
    symmetric: bool = False
    linear_map: tuple[tuple[float, ...], ...] = ()

    @cached_property
    def _matrix(self) -> Floats:
        return np.array(self.linear_map)

    @property
    def words(self) -> int:
        """Number of 32-bit words of the array in a record."""
        return math.prod(self.shape) if self.sent is None else len(self.sent)

    @property
    def record_shape(self) -> tuple[int, ...]:
        """Shape of the array in a record: its own, or (words,) if only a part is sent."""
        return self.shape if self.sent is None else (self.words,)

    def gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sent parts of whole arrays: (..., *shape) to (..., *record_shape)."""
        if self.linear_map:
            return mapped(values, self._matrix)
        if self.sent is None:
            return values
        batch = values.shape[: values.ndim - len(self.shape)]
        flat = values.reshape(*batch, math.prod(self.shape))
        return flat[..., list(self.sent)]

    def scatter(self, sent: NDArray[Any]) -> NDArray[Any]:
        """Return whole arrays from their sent parts: (n, *record_shape) to (n, *shape)."""
        if self.linear_map:
            return unmapped(sent, self._matrix)
        if self.sent is None:
            return sent
        values = np.zeros((len(sent), math.prod(self.shape)), dtype=sent.dtype)
        for position, value in self.constants:
            values[:, position] = value
        values[:, list(self.sent)] = sent
        values = values.reshape(len(sent), *self.shape)
        if self.symmetric:
            lower = np.tril(values, -1)
            values = values + np.swapaxes(lower, -1, -2)
        return values


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The description of a build; optional members are left out of its file if empty.

    Members
    -------
    version : version of Pinion.
    robot, robot_source, function, formats, target : what was built.
    objective : objective of the latencies of its units.
    max_error : largest relative error (:mod:`pinion.link.relative`) that a result of the core's own
        distribution may have: the goal of per-signal formats, and the limit of a uniform format.
    options : variants of the function, such as ``derivatives``.
    ii : cycles between results.
    clock_mhz : the intended clock; an assumption, not confirmed by a tool.
    inputs, outputs : arrays of the request and result records, in word order.
    lanes_in, beats_in, lanes_out, beats_out : 32-bit words per beat, beats per record.
    schedule_cycles : from the first sine or cosine being available to the last result.
    latency_cycles : from the first input beat to the last output beat on an idle core with
        a host that is always ready, at the worst phase of the slot counter.
    multipliers, adders, units : hardware of the datapath; ``table_multipliers`` are those inside
        the sine and the reciprocal units.
    ops : scalar operations: mul, mul_const, add, reciprocal, trig.
    registers : words of storage between units.
    budget : bound of the error against the float model, by result word, in its unit, on the
        distribution ``budget_distribution``.
    decisions : optional: largest error of the value that a comparison or choice decides by, by node
        of the graph; closer to the threshold, no budget applies.
    content : digest of graph, schedule and binding.
    request : the request with its defaults (:meth:`pinion.request.BuildRequest.plain`).
    snapping : optional: what changed if the robot has right angles instead of its file's rounded
        ones (:class:`pinion.functions.Snapping`).
    states : optional: words that persist from request to request, and their initial values.
    parameter_low, parameter_high : optional: bounds of the words of the last input, parameters of
        the robot, for which the formats were chosen. A packet has them once, before its records
        (:class:`pinion.link.Layout`).
    scales : by result block, in its unit, what its errors are relative to near zero.
    measured : by distribution, the largest relative error of the integers that the build has seen;
        without distributions of which every request was flagged or undecided.
    promises : by distribution, the largest relative error of a valid result; without the same
        distributions. ``scales``, ``measured`` and ``promises`` are empty in folders of versions
        that promised no errors.
    task : optional: if a task chose the formats, its ``name`` and the SHA-256 of its file and of
        the record of its tries (``task.toml``, ``task.json``).
    tracking : optional: its figures: ``loss`` and ``held_out_loss`` as stated, ``found`` and
        ``held_out`` as measured with the core's integers.
    interleave : optional: of a program, samples of a record, one after another; 1 if left out.
        ``inputs``, ``outputs`` and ``ii`` are of one sample.
    """

    version: str
    robot: str
    robot_source: str
    function: str
    options: dict[str, str]
    formats: str
    objective: str
    max_error: float
    target: str
    ii: int
    clock_mhz: float
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    lanes_in: int
    beats_in: int
    lanes_out: int
    beats_out: int
    schedule_cycles: int
    latency_cycles: int
    multipliers: int
    table_multipliers: int
    adders: int
    units: dict[str, int]
    ops: dict[str, int]
    registers: int
    budget: dict[str, float]
    budget_distribution: str
    content: str
    request: dict[str, Any] = field(default_factory=dict)
    snapping: dict[str, float] = field(default_factory=dict)
    states: dict[str, float] = field(default_factory=dict)
    parameter_low: dict[str, float] = field(default_factory=dict)
    parameter_high: dict[str, float] = field(default_factory=dict)
    decisions: dict[str, float] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    promises: dict[str, float] = field(default_factory=dict)
    task: dict[str, str] = field(default_factory=dict)
    tracking: dict[str, float] = field(default_factory=dict)
    interleave: int = 1

    def promise(self, distribution: str) -> float:
        """Return the largest relative error that a valid result of a distribution may have.

        If the build saw no valid result there, the promise of its own distribution applies.
        """
        return self.promises.get(distribution, self.promises[self.budget_distribution])

    @property
    def parameters(self) -> Array | None:
        """The input that a packet contains once, for all its records, or None."""
        return self.inputs[-1] if self.parameter_low else None

    @property
    def records(self) -> tuple[Array, ...]:
        """Inputs that every record of a packet contains."""
        return self.inputs[:-1] if self.parameter_low else self.inputs

    @property
    def words_in(self) -> int:
        """Number of words in a request, with parameters."""
        return sum(array.words for array in self.inputs)

    @property
    def words_out(self) -> int:
        """Number of words in a result."""
        return sum(array.words for array in self.outputs)

    @property
    def is_program(self) -> bool:
        """Whether this is a program of the dynamics processor, not a core."""
        return self.target == PROCESSOR

    @property
    def hash(self) -> int:
        """64 bits that identify the build, also a constant of its RTL."""
        text = json.dumps(self._members(), sort_keys=True, allow_nan=False)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able form, with ``words_in``, ``words_out`` and hexadecimal ``hash``."""
        return {
            **self._members(),
            "words_in": self.words_in,
            "words_out": self.words_out,
            "hash": f"{self.hash:016x}",
        }

    def _members(self) -> dict[str, Any]:
        members = asdict(self)
        for optional in _OPTIONAL:
            if not members[optional]:
                del members[optional]
        if self.interleave == 1:
            del members["interleave"]
        for array in (*members["inputs"], *members["outputs"]):
            if not array["linear_map"]:
                del array["linear_map"]
        return members

    def write(self, folder: Path) -> None:
        """Write ``manifest.json`` into a folder.

        Raises
        ------
        ManifestError
            If a string in it would make it unreadable.
        """
        text = json.dumps(self.to_dict(), indent=2) + "\n"
        try:
            self._parsed(text.encode())
        except _NO_MANIFEST as error:
            raise ManifestError(
                f"The manifest cannot be read back ({_reason(error)}): change the name, unit, "
                "path or number at fault."
            ) from None
        (folder / MANIFEST).write_text(text)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read a build folder's manifest and check its hash.

        Raises
        ------
        ManifestError
            If the folder or the file is missing, unreadable or invalid, or its hash is wrong.
        """
        path = Path(folder) / MANIFEST
        try:
            data = read_file(path, LARGEST)
        except (FileNotFoundError, NotADirectoryError):
            raise ManifestError(_no_build(Path(folder))) from None
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from None
        return cls.parse(data, path=path)

    @classmethod
    def read_core(cls, folder: Path) -> Manifest:
        """Read the manifest of a core, as `read` does, and refuse that of a program.

        Raises
        ------
        ManifestError
            As `read`, and if the folder holds a program.
        """
        manifest = cls.read(folder)
        if manifest.is_program:
            raise ManifestError(
                f"'{folder}' holds a program of the dynamics processor, but a core is needed: "
                "give a folder made by `pinion build`."
            )
        return manifest

    @classmethod
    def parse(cls, data: bytes, *, path: Path) -> Manifest:
        """Parse a manifest from a file's content.

        Parameters
        ----------
        data : content of the file.
        path : path of the file, for messages.

        Raises
        ------
        ManifestError
            If the content is not a valid manifest, or its hash is wrong.
        """
        try:
            manifest, stated = cls._parsed(data)
            # No hash of a number that is not finite, in a member of any content.
            actual = f"{manifest.hash:016x}"
        except _NO_MANIFEST as error:
            raise _unreadable(path, error) from None
        if actual != stated:
            raise ManifestError(
                f"'{path}' was changed after it was built (its hash is {actual} instead of "
                f"{_short(stated)}): build the folder again."
            )
        return manifest

    @classmethod
    def _parsed(cls, data: bytes) -> tuple[Manifest, object]:
        """Parse a file's content; return the manifest and the hash that the file states."""
        members = json.loads(data.decode("utf-8"))
        _check_members(members, fields(cls))
        stated, words = members.pop("hash"), (members.pop("words_in"), members.pop("words_out"))
        arrays: dict[str, Any] = {
            key: tuple(_array(a) for a in members.pop(key)) for key in ("inputs", "outputs")
        }
        manifest = cls(**arrays, **members)
        _check(manifest, words)
        return manifest, stated


_NO_MANIFEST = (
    *(ValueError, TypeError, KeyError, AttributeError),
    # A number too large for a float, and brackets nested by the thousand.
    *(OverflowError, RecursionError),
)
"""Exceptions from content that is not a manifest."""


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading; refuse a pipe, which could block, and a device.

    Raises
    ------
    OSError
        If the file is missing or cannot be opened.
    ValueError
        If it is not a regular file.
    """
    flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, os.O_RDONLY | flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError("it is not a regular file")
    return os.fdopen(handle, "rb")


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes.

    Raises
    ------
    OSError, ValueError
        As for `open_file`, or if it has more than ``most`` bytes.
    """
    with open_file(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    return data


def _no_build(folder: Path) -> str:
    """Describe what is wrong with a folder without a manifest, with advice."""
    wrong = f"'{folder}' is not a build folder"
    give = "Give a folder made by `pinion build ROBOT FUNCTION -o DIR`."
    make = f"`pinion build ROBOT FUNCTION -o {quote(str(folder))}`"
    if not os.path.lexists(folder):
        return f"{wrong}: it does not exist. Make one with {make}."
    if not folder.is_dir():
        return f"{wrong}: it is a file. {give}"
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        return f"{wrong} that can be read ({error.strerror}): check its permissions."
    wrong += f": it has no {MANIFEST}"
    if inner := next((path for path in entries if (path / MANIFEST).is_file()), None):
        return f"{wrong}, but '{inner}' in it has one: give that folder."
    if entries:
        return f"{wrong}. {give}"
    return f"{wrong}. Make one with {make}."


def _unreadable(path: Path, error: Exception) -> ManifestError:
    return ManifestError(f"'{path}' cannot be read ({_reason(error)}): build the folder again.")


def _check_members(content: Any, members: Sequence[Field[Any]]) -> None:
    """Raise an error if a manifest's members are not those of this version of Pinion."""
    if not isinstance(content, dict):
        raise TypeError("it is not a manifest")
    expected = {member.name for member in members} | {"hash", "words_in", "words_out"}
    optional = {m.name for m in members if (m.default, m.default_factory) != (MISSING, MISSING)}
    if missing := expected - optional - content.keys():
        raise ValueError(f"it is from another version of Pinion: it has no {sorted(missing)[0]}")
    if strange := content.keys() - expected:
        raise ValueError(
            f"it is from another version of Pinion: it has {_short(sorted(strange)[0])}, which "
            "this version does not know"
        )


def _array(data: dict[str, Any]) -> Array:
    """Return an array from its JSON form."""
    sent = data["sent"]
    return Array(
        name=_typed(data["name"], str, "a name"),
        shape=_whole(data["shape"], "a shape"),
        unit=_typed(data["unit"], str, "a unit"),
        sent=None if sent is None else _whole(sent, "what is sent"),
        constants=tuple(
            (_typed(position, int, "a position"), _number(value, "a constant"))
            for position, value in _typed(data["constants"], list, "constants")
        ),
        symmetric=_typed(data["symmetric"], bool, "symmetric"),
        linear_map=tuple(
            tuple(_number(value, "a number of a map") for value in _typed(row, list, "a row"))
            for row in _typed(data.get("linear_map", []), list, "a map")
        ),
    )


def _check(manifest: Manifest, words: tuple[object, object]) -> None:
    """Raise an error for values that no build can have; later code relies on this check."""
    for member in fields(manifest):
        value = getattr(manifest, member.name)
        match member.type:
            case "str":
                _typed(value, str, member.name)
            case "int":
                _count(value, member.name, member.name in _AT_LEAST_ONE)
            case "float":
                _number(value, member.name)
            case "dict[str, Any]":
                _typed(value, dict, member.name)
            case "dict[str, str]" | "dict[str, int]" | "dict[str, float]":
                for key, item in _typed(value, dict, member.name).items():
                    label = f"{member.name} {key}"
                    if member.type == "dict[str, int]":
                        _count(item, label, False)
                    elif member.type == "dict[str, str]":
                        _typed(item, str, label)
                    else:
                        _number(item, label)
    if manifest.clock_mhz <= 0:
        raise ValueError(f"clock_mhz is {manifest.clock_mhz}, which is not positive")
    if manifest.interleave > 1 and not manifest.is_program:
        raise ValueError(f"a core has a record of {manifest.interleave} samples")
    _check_parameters(manifest)
    for way, arrays, stated in zip(
        ("in", "out"), (manifest.inputs, manifest.outputs), words, strict=True
    ):
        for array in arrays:
            _check_array(array)
        names = [array.name for array in arrays]
        if len(set(names)) != len(names):
            raise ValueError(f"two arrays have the same name: {', '.join(names)}")
        total = sum(array.words for array in arrays)
        beat, beats = getattr(manifest, f"lanes_{way}"), getattr(manifest, f"beats_{way}")
        most = min(beat * beats, MOST_WORDS) // manifest.interleave
        if total > most or type(stated) is not int or stated != total:
            raise ValueError(
                f"words_{way} is {_short(stated)}, but the arrays have {amount(total, 'word')}; "
                f"{amount(beats, 'beat')} of {amount(beat, 'word')} can hold {beat * beats}, and "
                f"records have at most {MOST_WORDS}"
            )


def _check_parameters(manifest: Manifest) -> None:
    low, high, array = manifest.parameter_low, manifest.parameter_high, manifest.parameters
    if low.keys() != high.keys() or any(low[word] > high[word] for word in low):
        raise ValueError("the low and high bounds of the parameters do not match")
    if array is not None and len(low) != array.words:
        raise ValueError(f"the number of bounds of parameters is {len(low)}, not {array.words}")
    if array is not None and not any(other.words for other in manifest.records):
        raise ValueError("a request has parameters but no other words")


_AT_LEAST_ONE = ("ii", "lanes_in", "lanes_out", "beats_in", "beats_out", "interleave")


def _check_array(array: Array) -> None:
    if not array.name.isidentifier():
        raise ValueError(f"an array has the invalid name {array.name!r}")
    elements = 1
    for size in array.shape:  # not math.prod, which is slow with many large numbers
        elements *= size
        if not 0 <= size <= MOST_WORDS or elements > MOST_WORDS:
            raise ValueError(
                f"the shape {_short(array.shape)} of {array.name} has a negative size "
                f"or more than {MOST_WORDS} elements"
            )
    travel = () if array.sent is None else array.sent
    places = (*travel, *(position for position, _ in array.constants))
    if any(not 0 <= place < elements for place in places) or len(set(places)) != len(places):
        raise ValueError(f"{array.name} lists an element outside its shape, or twice")
    if array.linear_map:
        sizes = (len(array.linear_map), *{len(row) for row in array.linear_map})
        if array.sent is not None or (*array.shape, elements + 1) != sizes:
            raise ValueError(f"the map of {array.name} does not match its shape")
        if np.linalg.matrix_rank(np.array(array.linear_map)[:, :-1]) < elements:
            raise ValueError(f"the map of {array.name} cannot be inverted")
    if array.symmetric and (len(array.shape) != 2 or array.shape[0] != array.shape[1]):
        raise ValueError(f"{array.name} is marked as symmetric, but its shape is {array.shape}")


def _typed(value: Any, kind: type, label: str) -> Any:
    # Not isinstance, which accepts a bool as an int.
    if type(value) is not kind:
        raise TypeError(f"{label} is {_short(value)}, not of type {kind.__name__}")
    if isinstance(value, str):
        value.encode()  # JSON accepts lone surrogates, later code does not
        if control_in(value):  # a terminal would execute control characters
            raise ValueError(f"{label} has a control character: {value[:100]!a}")
    return value


def _whole(value: Any, label: str) -> tuple[int, ...]:
    return tuple(_typed(item, int, label) for item in _typed(value, list, label))


def _count(value: Any, label: str, some: bool) -> None:
    if not int(some) <= _typed(value, int, label) < MOST:
        raise ValueError(f"{label} is {_short(value)}, not between {int(some)} and {MOST - 1}")


def _number(value: Any, label: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError(f"{label} is {_short(value)}, not a finite number")
    return float(value)


def _reason(error: Exception) -> str:
    text = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
    return _cut(text, 250)  # any of its sentences with a value or two


def _short(value: object) -> str:
    return _cut(repr(value), 100)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
