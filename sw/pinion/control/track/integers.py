"""A build's integer model as a backend, and a card whose results are compared with it.

Both need Pinion's hardware packages, imported when one of them is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pinion.base.arrays import Flags, Words
from pinion.base.installation import missing_module
from pinion.batch import Backend, Result, by_name, check_arrays
from pinion.control.errors import ControlError
from pinion.link import Manifest

if TYPE_CHECKING:
    from pinion.cosim import Reference


BLOCK = 2048
"""Requests compared at a time: the integers of one request take as long as those of hundreds."""


class IntegerModel(Backend):
    """Integer model of a build's core, bit-exact, as a backend that needs no simulation.

    Parameters
    ----------
    folder : the build folder of a function without states.

    Members
    -------
    folder, model, function : the build's folder, robot and function.

    Raises
    ------
    ControlError
        If the function has states, or Pinion's hardware packages are not installed.
    pinion.link.ManifestError
        If the folder holds no build.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._reference = _reference(self.folder)
        build = self._reference.build
        if build.manifest.states:
            raise ControlError(
                f"'{build.function.name}' has states: control needs a function without states."
            )
        self.model, self.function = build.model, build.function
        self._manifest = build.manifest

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch (n, ...) in float32, as the card does.

        Raises
        ------
        pinion.batch.InputError
            As from a card.
        """
        arrays = by_name(self._manifest.inputs, values, arrays)
        requests, single = _requests(self._manifest, arrays)
        out, flags = self.words(requests)
        results, start = {}, 0
        for array in self._manifest.outputs:
            block = out[:, start : start + array.words].view(np.float32)
            results[array.name] = array.scatter(block.reshape(len(out), *array.record_shape))
            start += array.words
        if single:
            results = {name: array[0, ...] for name, array in results.items()}
            return Result(arrays=results, saturated=flags[0, ...], cycles=None)
        return Result(arrays=results, saturated=flags, cycles=None)

    def words(self, requests: Words) -> tuple[Words, Flags]:
        """Return result words (n, words_out) and flags (n,) for request words (n, words_in)."""
        return self._reference.expected(requests)


class Compared(Backend):
    """A card whose results are compared bit for bit with its build's integer model.

    Requests are compared in blocks; :meth:`flush` and closing compare the remaining ones.

    Parameters
    ----------
    backend : the card, closed with this backend.
    integers : of the build that is on the card.
    block : requests compared at a time.

    Members
    -------
    backend, integers : the arguments.
    model, function : of the build.
    compared, mismatches : numbers of requests; a mismatch has a wrong result bit or flag.
    first : description of the first mismatch, empty if there is none.
    """

    def __init__(self, backend: Backend, integers: IntegerModel, *, block: int = BLOCK) -> None:
        if block < 1:
            raise ControlError(f"A block needs at least 1 request, not {block}.")
        self.backend = backend
        self.integers = integers
        self.model, self.function = integers.model, integers.function
        self.compared = 0
        self.mismatches = 0
        self.first = ""
        self._block = block
        self._manifest = integers._manifest
        self._waiting: list[tuple[Words, Words, Flags]] = []
        self._count = 0

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch on the card, and queue it for comparison."""
        arrays = by_name(self._manifest.inputs, values, arrays)
        result = self.backend.run(**arrays)
        requests, _ = _requests(self._manifest, arrays)
        # Copies, because a driver may reuse the buffers of a result.
        answers = _answers(self._manifest, result, len(requests)).copy()
        self._waiting.append((requests, answers, np.array(result.saturated).reshape(-1)))
        self._count += len(requests)
        if self._count >= self._block:
            self.flush()
        return result

    def flush(self) -> None:
        """Compare the remaining requests."""
        if not self._waiting:
            return
        columns: tuple[Any, ...] = tuple(zip(*self._waiting, strict=True))
        requests, answers, flags = (np.concatenate(parts) for parts in columns)
        self._waiting, self._count = [], 0
        expected, expected_flags = self.integers.words(requests)
        wrong = (answers != expected).any(axis=1) | (flags != expected_flags)
        if wrong.any() and not self.first:
            row = int(np.argmax(wrong))
            self.first = self._sentence(
                self.compared + row, answers[row], expected[row], bool(flags[row])
            )
        self.compared += len(requests)
        self.mismatches += int(wrong.sum())

    def close(self) -> None:
        """Compare the remaining requests, and close the card."""
        try:
            self.flush()
        finally:
            self.backend.close()

    def _sentence(self, number: int, answers: Words, expected: Words, flag: bool) -> str:
        words = [name for name, _ in self.integers._reference.graph.outputs]
        differ = np.flatnonzero(answers != expected)
        if not len(differ):
            return (
                f"Request {number} is flagged by the {'card' if flag else 'integer model'}, but "
                f"not by the {'integer model' if flag else 'card'}."
            )
        at = int(differ[0])
        return (
            f"Request {number} has {words[at]} = {answers[at]:#010x} from the card and "
            f"{expected[at]:#010x} from the integer model; differing words: {len(differ)} of "
            f"{len(answers)}."
        )


def _reference(folder: Path) -> Reference:
    # Not at the top: a host that only drives a card has neither package.
    try:
        from pinion.cosim import Reference
        from pinion.flow import Build
    except ModuleNotFoundError as error:
        raise ControlError(missing_module(error) or str(error)) from error
    return Reference(Build.read(folder))


def _requests(manifest: Manifest, arrays: Mapping[str, ArrayLike]) -> tuple[Words, bool]:
    """Return requests as float32 bits in record order, (n, words_in), and whether one was given.

    Invalid arrays raise the same errors as on a card.
    """
    batch = check_arrays(manifest.inputs, dict(arrays))
    parts = []
    for array in manifest.inputs:
        values = np.broadcast_to(batch.arrays[array.name], (batch.count, *array.shape))
        parts.append(array.gather(values).reshape(batch.count, -1))
    words = np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32)
    return words.view(np.uint32), batch.single


def _answers(manifest: Manifest, result: Result, count: int) -> Words:
    """Return results as float32 bits in record order, (n, words_out)."""
    parts = [
        np.asarray(a.gather(np.asarray(result[a.name]).reshape(count, *a.shape))).reshape(count, -1)
        for a in manifest.outputs
    ]
    return np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32).view(np.uint32)
