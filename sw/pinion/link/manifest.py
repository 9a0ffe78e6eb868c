"""The manifest: the one description of a build that driver, simulation and host code share.

It is a JSON file whose ``hash`` covers everything else in it; the same 64 bits are a constant of
the RTL, so that a driver can tell whether card and manifest belong together.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pinion.base.escaping import control_in

MANIFEST = "manifest.json"

MOST_WORDS = 1 << 16
"""Elements of an array, and words of a record: no robot comes near, and a file may say anything."""

MOST = 1 << 31
"""No count of cycles or of units reaches it."""


LARGEST = 64 << 20
"""Bytes of the largest manifest that is read; those of large robots have some hundred thousand."""


class ManifestError(ValueError):
    """A build folder is not one, or not intact; the message says what to do."""


_OPTIONAL = (
    *(
        "request",
        "snapping",
        "states",
        "decisions",
        "scales",
        "measured",
        "promises",
        "task",
        "tracking",
    ),
)
"""Members that are not in the file where they are empty."""


@dataclass(frozen=True, kw_only=True)
class Array:
    """A named array of a record: its shape without the batch axis, its unit.

    What is known beforehand does not travel: elements that are constants of the robot (structural
    zeros), and one half of a symmetric matrix.

    Members
    -------
    sent : flat positions of the elements that travel, in word order; None when all do.
    constants : flat position and value of elements that never change.
    symmetric : element (i, j) stands for (j, i) as well; of the two the lower travels.
    """

    name: str
    shape: tuple[int, ...]
    unit: str
    sent: tuple[int, ...] | None = None
    constants: tuple[tuple[int, float], ...] = ()
    symmetric: bool = False

    @property
    def words(self) -> int:
        """Number of 32-bit words in the record."""
        return math.prod(self.shape) if self.sent is None else len(self.sent)

    @property
    def record_shape(self) -> tuple[int, ...]:
        """Shape of the array's part of a record: its own, or flat where only a part travels."""
        return self.shape if self.sent is None else (self.words,)

    def gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """The elements that travel: (..., *shape) to (..., *record_shape)."""
        if self.sent is None:
            return values
        batch = values.shape[: values.ndim - len(self.shape)]
        flat = values.reshape(*batch, math.prod(self.shape))
        return flat[..., list(self.sent)]

    def scatter(self, sent: NDArray[Any]) -> NDArray[Any]:
        """The whole array from the elements that travel: (n, *record_shape) to (n, *shape)."""
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
    """A build in numbers.

    Members
    -------
    version : of Pinion.
    robot, robot_source, function, formats, target : what was built.
    objective : what the latencies of its units were chosen for.
    max_error : largest relative error (:mod:`pinion.link.relative`) that a result of the core's own
        distribution may have: what formats by signal were chosen for, and what a uniform format has
        to pass.
    options : variants of the function, such as ``derivatives``.
    ii : cycles between results.
    clock_mhz : the clock that the build is meant for; assumed, no tool confirmed it.
    inputs, outputs : arrays of the request and result records, in word order.
    lanes_in, beats_in, lanes_out, beats_out : 32-bit words a beat, beats a record.
    schedule_cycles : from the first sine or cosine being available to the last result.
    latency_cycles : from the first input beat to the last output beat on an idle core with
        a host that is always ready, at the worst phase of the slot counter.
    multipliers, adders, units : hardware of the datapath; ``table_multipliers`` are those inside
        the sine and the reciprocal units.
    ops : scalar operations: mul, mul_const, add, reciprocal, trig.
    registers : words of storage between units.
    budget : bound of the error against the float model, by result word, in its unit, on the
        distribution ``budget_distribution``.
    decisions : how far what a comparison or choice decides by may be from its float value, by node
        of the graph; where it is nearer to changing sides, no budget holds. Without comparisons not
        in the file.
    content : digest of graph, schedule and binding.
    request : what was asked for, with its defaults (:meth:`pinion.request.BuildRequest.plain`).
    snapping : where the robot has right angles in place of its file's rounded ones, what that
        changed (:class:`pinion.functions.Snapping`); empty for the robot as read, and then not in
        the file.
    states : words that go on from request to request, and their initial values; empty, and then
        not in the file, for a function without.
    scales : by result block, in its unit, what its errors are relative to near zero.
    measured : by distribution, the largest relative error that the build has seen of the integers;
        without those where every request was flagged or undecided.
    promises : by distribution, the largest relative error of a result that is neither; without
        those where every request was, as in ``measured``. Empty, as are the other two, in folders
        of versions that promised none.
    task : where a task chose the formats, its ``name`` and the SHA-256 of its file and of the
        record of what was tried (``task.toml``, ``task.json``); else empty, and not in the file.
    tracking : its figures: ``loss`` and ``held_out_loss`` that were stated, ``found`` and
        ``held_out`` that were measured of the core's integers.
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
    decisions: dict[str, float] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    promises: dict[str, float] = field(default_factory=dict)
    task: dict[str, str] = field(default_factory=dict)
    tracking: dict[str, float] = field(default_factory=dict)

    def promise(self, distribution: str) -> float:
        """Largest relative error that a result without a flag may have there: that of the build's
        own distribution where no request had a valid result when it was built."""
        return self.promises.get(distribution, self.promises[self.budget_distribution])

    @property
    def words_in(self) -> int:
        """Words of a request."""
        return sum(array.words for array in self.inputs)

    @property
    def words_out(self) -> int:
        """Words of a result."""
        return sum(array.words for array in self.outputs)

    @property
    def hash(self) -> int:
        """64 bits that identify the build, also a constant of its RTL."""
        text = json.dumps(self._members(), sort_keys=True, allow_nan=False)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form, with ``words_in``, ``words_out`` and ``hash`` (hexadecimal) added."""
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
        return members

    def write(self, folder: Path) -> None:
        """Write ``manifest.json`` into a folder.

        Raises
        ------
        ManifestError
            When `read` would not take it, because of a text in it.
        """
        text = json.dumps(self.to_dict(), indent=2) + "\n"
        try:
            self._parsed(text.encode())
        except _NO_MANIFEST as error:
            raise ManifestError(
                f"No build is written that cannot be read again ({_short(error)}): give names, "
                "units and paths other characters."
            ) from None
        (folder / MANIFEST).write_text(text)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read a build folder's manifest and check its hash.

        Raises
        ------
        ManifestError
            When the folder or the file is missing, unreadable, holds what no build has, or its
            hash does not fit.
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
    def parse(cls, data: bytes, *, path: Path) -> Manifest:
        """A manifest from a file's content.

        Parameters
        ----------
        data : what `write` wrote.
        path : of the file, for messages.

        Raises
        ------
        ManifestError
            When the content is no manifest, holds what no build has, or its hash does not fit.
        """
        try:
            manifest, stated = cls._parsed(data)
        except _NO_MANIFEST as error:
            raise _unreadable(path, error) from None
        if f"{manifest.hash:016x}" != stated:
            raise ManifestError(
                f"'{path}' was changed after it was built (its hash is {manifest.hash:016x}, it "
                f"says {_short(stated)}): build the folder again."
            )
        return manifest

    @classmethod
    def _parsed(cls, data: bytes) -> tuple[Manifest, object]:
        """A manifest from a file's content, and the hash that it states."""
        found = json.loads(data.decode("utf-8"))
        _check_members(found, fields(cls))
        stated, words = found.pop("hash"), (found.pop("words_in"), found.pop("words_out"))
        arrays: dict[str, Any] = {
            key: tuple(_array(a) for a in found.pop(key)) for key in ("inputs", "outputs")
        }
        manifest = cls(**arrays, **found)
        _check(manifest, words)
        return manifest, stated


_NO_MANIFEST = (
    *(ValueError, TypeError, KeyError, AttributeError),
    # A number too large for a float, and brackets nested by the thousand.
    *(OverflowError, RecursionError),
)
"""What content that is no manifest raises."""


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading; a pipe is not waited for, a device not read without end.

    Raises
    ------
    OSError
        The file is missing or cannot be opened.
    ValueError
        It is no regular file.
    """
    flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, os.O_RDONLY | flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError("it is no regular file")
    return os.fdopen(handle, "rb")


def read_file(path: Path, most: int) -> bytes:
    """The content of a regular file.

    Raises
    ------
    OSError, ValueError
        As from `open_file`, or it has more than ``most`` bytes.
    """
    with open_file(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    return data


def _no_build(folder: Path) -> str:
    """What is wrong with a folder without a manifest, and what to give in its place."""
    wrong = f"'{folder}' is not a build folder"
    give = "Give the folder that `pinion build ROBOT FUNCTION -o DIR` made."
    make = f"`pinion build ROBOT FUNCTION -o {quote(str(folder))}`"
    if not os.path.lexists(folder):
        return f"{wrong}: it does not exist. Make one with {make}."
    if not folder.is_dir():
        return f"{wrong}: it is a file. {give}"
    try:
        found = sorted(folder.iterdir())
    except OSError as error:
        return f"{wrong} that can be read ({error.strerror}): see that you may read it."
    wrong += f": it has no {MANIFEST}"
    if inner := next((path for path in found if (path / MANIFEST).is_file()), None):
        return f"{wrong}, and '{inner}' in it has one: give that."
    if found:
        return f"{wrong}. {give}"
    return f"{wrong}. Make one with {make}."


def _unreadable(path: Path, error: Exception) -> ManifestError:
    return ManifestError(f"'{path}' cannot be read ({_short(error)}): build the folder again.")


def _check_members(found: Any, members: Sequence[Field[Any]]) -> None:
    """See that a manifest has what manifests have; else another Pinion wrote it, or none."""
    if not isinstance(found, dict):
        raise TypeError("it is no manifest")
    wanted = {member.name for member in members} | {"hash", "words_in", "words_out"}
    optional = {m.name for m in members if (m.default, m.default_factory) != (MISSING, MISSING)}
    if missing := wanted - optional - found.keys():
        raise ValueError(f"it is of another version of Pinion, without {sorted(missing)[0]}")
    if strange := found.keys() - wanted:
        raise ValueError(f"it is of another version of Pinion, with {_short(sorted(strange)[0])}")


def _array(data: dict[str, Any]) -> Array:
    """An array from its JSON form, lists back to tuples."""
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
    )


def _check(manifest: Manifest, words: tuple[object, object]) -> None:
    """Refuse what no build has, so that nobody behind this has to reckon with it."""
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
                    what = f"{member.name} {key}"
                    if member.type == "dict[str, int]":
                        _count(item, what, False)
                    elif member.type == "dict[str, str]":
                        _typed(item, str, what)
                    else:
                        _number(item, what)
    if manifest.clock_mhz <= 0:
        raise ValueError(f"clock_mhz is {manifest.clock_mhz}")
    for way, arrays, said in zip(
        ("in", "out"), (manifest.inputs, manifest.outputs), words, strict=True
    ):
        for array in arrays:
            _check_array(array)
        names = [array.name for array in arrays]
        if len(set(names)) != len(names):
            raise ValueError(f"arrays share a name: {', '.join(names)}")
        total = sum(array.words for array in arrays)
        beat, beats = getattr(manifest, f"lanes_{way}"), getattr(manifest, f"beats_{way}")
        if total > min(beat * beats, MOST_WORDS) or type(said) is not int or said != total:
            raise ValueError(
                f"words_{way} is {_short(said)}, the arrays have {total}, {beats} beats of {beat} "
                f"hold {beat * beats}, a record at most {MOST_WORDS}"
            )


_AT_LEAST_ONE = ("ii", "lanes_in", "lanes_out", "beats_in", "beats_out")


def _check_array(array: Array) -> None:
    if not array.name.isidentifier():
        raise ValueError(f"an array has the name {array.name!r}")
    elements = 1
    for size in array.shape:  # not math.prod: it takes its time with a thousand large numbers
        elements *= size
        if not 0 <= size <= MOST_WORDS or elements > MOST_WORDS:
            raise ValueError(f"the shape of {array.name} holds {_short(size)}: too large")
    travel = () if array.sent is None else array.sent
    places = (*travel, *(position for position, _ in array.constants))
    if any(not 0 <= place < elements for place in places) or len(set(places)) != len(places):
        raise ValueError(f"{array.name} has elements outside of its shape, or twice")
    if array.symmetric and (len(array.shape) != 2 or array.shape[0] != array.shape[1]):
        raise ValueError(f"{array.name} is symmetric with the shape {array.shape}")


def _typed(value: Any, wanted: type, what: str) -> Any:
    # Not isinstance: true would do for a whole number.
    if type(value) is not wanted:
        raise TypeError(f"{what} is {_short(value)}")
    if isinstance(value, str):
        value.encode()  # halves of a character pass JSON, and nothing behind it
        if control_in(value):  # a terminal that shows it would obey
            raise ValueError(f"{what} is {value[:100]!a}")
    return value


def _whole(value: Any, what: str) -> tuple[int, ...]:
    return tuple(_typed(item, int, what) for item in _typed(value, list, what))


def _count(value: Any, what: str, some: bool) -> None:
    if not int(some) <= _typed(value, int, what) < MOST:
        raise ValueError(f"{what} is {_short(value)}")


def _number(value: Any, what: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError(f"{what} is {_short(value)}")
    return float(value)


def _short(value: object) -> str:
    try:
        text = str(value) if isinstance(value, Exception) else repr(value)
    except ValueError:  # an integer of more digits than Python prints
        text = "a very large number"
    return text if len(text) <= 100 else f"{text[:100]}..."
