"""Comparison of a device's results for a chunk with the integer and the float model."""

from __future__ import annotations

import math

import numpy as np

from pinion.base.arrays import Words
from pinion.card.programs import Models
from pinion.flow.states import STRAY, stray
from pinion.processor.folder import ProgramFolder

from .devices import Answer, Computes
from .plan import GIVEN, Plan
from .store import packed
from .tally import FigureTally

# Node values kept in memory at a time: 64 MB of integers.
_HELD = 1 << 23


class MeasuredDevice:
    """Open device whose answers are compared with the models."""

    def __init__(self, reference: Models, device: Computes) -> None:
        self._reference = reference
        self._device = device

    def chunk(
        self, plan: Plan, number: int, requests: Words | None
    ) -> tuple[FigureTally, bytes | None]:
        """Run a chunk and compare it; return its statistics, and its results if they are stored."""
        return measure(plan, number, self._reference, self._device, requests)

    def close(self) -> None:
        """Close the device."""
        self._device.close()


def measure(
    plan: Plan,
    number: int,
    reference: Models,
    device: Computes,
    words: Words | None = None,
) -> tuple[FigureTally, bytes | None]:
    """Run a chunk on a device and compare it; return its statistics, and its results if stored.

    Parameters
    ----------
    words : the chunk's requests (n, words_in), None to sample them.
    """
    build = reference.build
    if words is None:
        words = plan.words(build, number)
    start, _ = plan.span(number)
    # States need the stream in one piece; otherwise take as many requests as fit into memory.
    graph = build.function.graph if isinstance(build, ProgramFolder) else build.graph
    step = len(words) if graph.states else max(1, _HELD // len(graph.nodes))
    tally, answers = FigureTally(), list[Answer]()
    device.begin()
    for at in range(0, len(words), step):
        part = words[at : at + step]
        answer = device.run(part)
        judge(tally, plan, reference, part, answer, start + at)
        if plan.keep:
            answers.append(answer)
    return tally, _results(reference, answers) if plan.keep else None


def judge(
    tally: FigureTally,
    plan: Plan,
    reference: Models,
    words: Words,
    answer: Answer,
    start: int,
) -> None:
    """Compare a device's answers with those of the models, and add their errors to a tally.

    ``words`` : (n, words_in) requests; ``start`` : index of the first one in the campaign.
    """
    manifest = reference.build.manifest
    home = manifest.budget_distribution
    sampled = plan.distribution != GIVEN
    times = stray(plan.distribution, home) if sampled else STRAY
    comparison = reference.comparison(words, answer.values, answer.flags, times=times)
    flags, valid = comparison.flagged, comparison.valid
    tally.count("requests", np.ones_like(valid), start)
    tally.count("flagged", flags, start)
    tally.count("undecided", comparison.undecided & ~flags, start)
    tally.count("valid", valid, start)
    if answer.bits is not None and not answer.exact:
        expected, should = reference.expected(words)
        differ = (answer.bits != expected).any(axis=1) | (flags != should)
        tally.count(
            "mismatches", differ if answer.broken is None else differ | answer.broken, start
        )
    indices = start + np.flatnonzero(valid)
    for block, errors in comparison.relative.items():
        tally.spread(block, errors[valid], indices)
    limit = largest_allowed(plan, reference, fixed=answer.bits is not None)
    tally.count("wrong", comparison.wrong(math.inf if limit is None else limit), start)
    if has_budget(plan, reference, fixed=answer.bits is not None):
        tally.count("outside", comparison.outside(reference.budget), start)
    tally.extremes(map(str, reference.outputs), comparison.error[valid], indices)


def largest_allowed(plan: Plan, reference: Models, *, fixed: bool) -> float | None:
    """Return the largest relative error that passes, or None if no limit applies.

    Parameters
    ----------
    fixed : whether the device computes as the build does, so that the build's promises apply.
    """
    if plan.max_error is not None:
        return plan.max_error
    if not fixed or plan.distribution == GIVEN:
        return None
    return reference.build.manifest.promise(plan.distribution)


def has_budget(plan: Plan, reference: Models, *, fixed: bool) -> bool:
    """Return whether the build's error budget applies to the device and the states."""
    manifest = reference.build.manifest
    return fixed and bool(manifest.budget) and plan.distribution == manifest.budget_distribution


def _results(reference: Models, answers: list[Answer]) -> bytes:
    """Return a chunk's results by name, in the device's precision, as the bytes of a record."""
    manifest = reference.build.manifest
    values = np.concatenate([answer.values for answer in answers])
    if answers[0].bits is not None:
        values = values.astype(np.float32)  # the device's own precision
    arrays, start = {}, 0
    for array in manifest.outputs:
        block = values[:, start : start + array.words]
        arrays[array.name] = array.scatter(block.reshape(len(values), *array.record_shape))
        start += array.words
    flags = [answer.flags for answer in answers if answer.flags is not None]
    if flags:
        arrays["saturated"] = np.concatenate(flags)
    return packed(arrays)
