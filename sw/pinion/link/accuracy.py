"""Statistics of the errors against the float model, and their file in a build folder.

``errors.json`` stores a distribution, not the errors themselves: a matrix of a humanoid on 10,000
states would take a hundred megabytes. A group is a word of a vector or a row of a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.amounts import amount
from pinion.base.arrays import Floats

from .build_files import BuildFile, Number

FLOAT_NOISE = 1e-12
"""Errors below it are attributed to the float model: results that are always 0, for reasons not in
the formulas, are off by a few units in the last place in floats."""

BINS = 89
"""Bins of a block's histograms, evenly spaced on a logarithmic axis."""

# Limits of a histogram's axis: its beginning relative to the largest error and the least budget,
# its least value, and its end.
_BELOW_ERROR, _BELOW_BUDGET, _LEAST = 1e-5, 1e-6, 1e-12
_BEYOND = 3.0

CHECKS = {
    "bits": "a result word or a flag differs from the exact integers",
    "valid": "every request is flagged or undecided, so that no error was checked",
    "budget": "an error is outside the budget",
    "accuracy": "a relative error is above the build's promise",
    "flags": "more requests are flagged than the number formats permit",
    "rate": "results are slower than the interval",
    "task": "the figures of the task that chose the formats are inconsistent",
}
"""Checks of a verification by name, each with a description of its failure."""

ERRORS = BuildFile(
    name="errors.json",
    version=2,
    fields={
        **dict.fromkeys(("build", "distribution", "simulator"), str),
        **dict.fromkeys(("requests", "seed", "flagged"), int),
        "blocks": (
            {
                **dict.fromkeys(("name", "unit"), str),
                "lsb": Number,
                "words": (str,),
                **dict.fromkeys(("budget", "largest", "edges"), (Number,)),
                "invalid": int,
                "groups": ({"name": str, "words": (int,), "counts": (int,)},),
            },
        ),
        "verdict": {"mismatches": int, "failed": (str,)},
    },
    remedy="run `pinion verify` on the build again",
    # Version 1 did not record whether the RTL was right.
    older={1: ("verdict",)},
)
"""The file of an :class:`ErrorDistribution`."""


@dataclass(frozen=True, kw_only=True)
class ErrorGroup:
    """Statistics of the errors of one word of a vector, or of all words in a row of a matrix.

    Members
    -------
    name : ``tau[0]`` or ``M[2, :]``.
    words : indices into the block's words.
    counts : number of errors in each bin; smaller errors are in the first bin.
    median, p99, largest : quantiles of the errors, None without errors.
    """

    name: str
    words: tuple[int, ...]
    counts: tuple[int, ...]
    median: float | None
    p99: float | None
    largest: float | None


@dataclass(frozen=True, kw_only=True)
class BlockErrors:
    """Statistics of the errors of one block of results.

    Groups of a matrix count errors as shares of each word's budget, because the budgets in a row
    differ by more than the errors do; groups of a vector count them in its unit.

    Members
    -------
    name, unit : name and unit of the block, such as ``dtau_dq`` in ``N m/rad``.
    lsb : weight of a result's LSB.
    words : names of the words that are sent, ``tau[0]`` or ``dtau_dq[1,0]``, row by row.
    budget, largest : bound and largest error of each word, in its unit.
    edges : rising edges of the bins of every group.
    invalid : number of results that are not finite, which no other figure counts.
    groups : groups of the words, in order.
    """

    name: str
    unit: str
    lsb: float
    words: tuple[str, ...]
    budget: tuple[float, ...]
    largest: tuple[float, ...]
    edges: tuple[float, ...]
    invalid: int
    groups: tuple[ErrorGroup, ...]

    @property
    def is_matrix(self) -> bool:
        """Whether the block is a matrix."""
        return _is_matrix(self.words)

    @property
    def shares(self) -> tuple[float, ...]:
        """Largest error of each word as a share of its budget."""
        return tuple(e / b if b > 0 else e for e, b in zip(self.largest, self.budget, strict=True))

    @classmethod
    def of(
        cls,
        *,
        name: str,
        unit: str,
        lsb: float,
        words: Sequence[str],
        error: Floats,
        budget: Floats,
    ) -> BlockErrors:
        """Compute the statistics of a block from its absolute errors.

        Parameters
        ----------
        name, unit, lsb, words : as the members; at least one word.
        error : (n, words) absolute errors.
        budget : (words,) their bounds; errors of a word with bound 0 are not scaled.
        """
        finite = np.isfinite(error)
        finite_error = np.where(finite, error, np.nan)
        scaled, bound = finite_error, budget
        if _is_matrix(words):
            scaled, bound = finite_error / np.where(budget > 0, budget, 1.0), np.ones_like(budget)
        every = scaled[finite]
        top = float(every.max(initial=0.0))
        low = float(np.quantile(every, 0.01)) if every.size else 0.0
        least, most = float(bound.min()), float(bound.max())
        start = max(low, top * _BELOW_ERROR, least * _BELOW_BUDGET, _LEAST)
        edges = np.geomspace(start, max(top, most, start) * _BEYOND, BINS + 1)
        groups = _groups(words)
        return cls(
            name=name,
            unit=unit,
            lsb=lsb,
            words=tuple(words),
            budget=tuple(budget.tolist()),
            largest=tuple(np.where(finite, error, 0.0).max(axis=0, initial=0.0).tolist()),
            edges=tuple(edges.tolist()),
            invalid=int(np.count_nonzero(~finite)),
            groups=tuple(
                _group(label, columns, scaled[:, columns][finite[:, columns]], edges)
                for label, columns in groups.items()
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Outcome of a verification: its mismatches and failed checks.

    Members
    -------
    mismatches : requests whose result words or flag differ from the exact integers in any bit.
    failed : failed checks in the order of `CHECKS`.
    """

    mismatches: int
    failed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [name for name in self.failed if name not in CHECKS]
        if unknown or self.mismatches < 0 or bool(self.mismatches) != ("bits" in self.failed):
            raise ValueError(
                f"its verdict is invalid: mismatches {self.mismatches}, failed checks "
                f"{', '.join(self.failed) or 'none'}"
            )

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return not self.failed

    @classmethod
    def of(
        cls,
        mismatches: int,
        *,
        valid: bool,
        budget: bool,
        accuracy: bool,
        rate: bool,
        flags: bool = True,
        task: bool = True,
    ) -> Verdict:
        """Return the verdict from the number of mismatches and whether each other check passed."""
        passed = {"bits": not mismatches, "valid": valid, "budget": budget, "accuracy": accuracy}
        passed |= {"flags": flags, "rate": rate, "task": task}
        return cls(mismatches=mismatches, failed=tuple(name for name in CHECKS if not passed[name]))


@dataclass(frozen=True, kw_only=True)
class ErrorDistribution:
    """Distribution of the errors of a build in a verification.

    Members
    -------
    build : hash of the build, 16 hexadecimal digits.
    distribution, requests, seed : the states.
    flagged : number of flagged requests, whose errors are not counted.
    simulator : the simulator of the results.
    blocks : blocks of results of which at least one word is sent.
    verdict : the verdict, None in files of version 1.
    """

    build: str
    distribution: str
    requests: int
    seed: int
    flagged: int
    simulator: str
    blocks: tuple[BlockErrors, ...]
    verdict: Verdict | None

    def write(self, folder: Path) -> None:
        """Write ``errors.json`` into the build folder."""
        ERRORS.write(folder, asdict(self), indent=0)

    @classmethod
    def find(cls, folder: Path) -> ErrorDistribution | None:
        """Read the distribution from a build folder; return None if there is none.

        Raises
        ------
        pinion.link.ManifestError
            If the file is damaged or of another version.
        """
        data = ERRORS.find(folder)
        if data is None:
            return None
        try:
            blocks, verdict = tuple(_block(block) for block in data["blocks"]), data["verdict"]
            if verdict is not None:
                verdict = Verdict(**{**verdict, "failed": tuple(verdict["failed"])})
                if verdict.mismatches > data["requests"]:
                    raise ValueError(
                        f"it has more mismatches ({verdict.mismatches}) than requests "
                        f"({data['requests']})"
                    )
            return cls(**{**data, "blocks": blocks, "verdict": verdict})
        except (TypeError, ValueError) as error:
            raise ERRORS.damaged(folder, str(error)) from None


def quantile(errors: NDArray[Any], share: float) -> float | None:
    """Return a quantile of errors (n,), or None if there are none or one is not finite."""
    finite = len(errors) > 0 and bool(np.isfinite(errors).all())
    return float(np.quantile(errors, share)) if finite else None


def margins(error: NDArray[Any], budget: NDArray[Any]) -> dict[str, float | None]:
    """Return the smallest and the largest ratio of a word's budget to its largest error.

    Exact words are left out; if all are exact, the figures are None. An error that is not finite
    counts as infinite.

    Parameters
    ----------
    error : (n, words) absolute errors.
    budget : (words,) their bounds.
    """
    largest = error.max(axis=0, initial=0.0)
    inexact = ~(largest <= FLOAT_NOISE)
    largest = np.where(np.isfinite(largest), largest, np.inf)
    ratios = (budget[inexact] / largest[inexact]).tolist()
    return {"min": min(ratios, default=None), "max": max(ratios, default=None)}


def _is_matrix(words: Sequence[str]) -> bool:
    return "," in words[0]


def _groups(words: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices of each group's words, by the group's name."""
    groups: dict[str, list[int]] = {}
    for column, word in enumerate(words):
        row, comma, _ = word.partition(",")
        groups.setdefault(f"{row}, :]" if comma else word, []).append(column)
    return groups


def _group(name: str, columns: Sequence[int], errors: Floats, edges: Floats) -> ErrorGroup:
    counts = np.histogram(np.clip(errors, edges[0], None), bins=edges)[0]
    median, p99, largest = (quantile(errors, q) for q in (0.5, 0.99, 1.0))
    return ErrorGroup(
        name=name,
        words=tuple(columns),
        counts=tuple(counts.tolist()),
        median=median,
        p99=p99,
        largest=largest,
    )


def _block(data: Mapping[str, Any]) -> BlockErrors:
    """Return a block from its JSON form; raise TypeError or ValueError if it is inconsistent."""
    lists = {key: tuple(data[key]) for key in ("words", "budget", "largest", "edges")}
    groups = tuple(
        ErrorGroup(**{**group, "words": tuple(group["words"]), "counts": tuple(group["counts"])})
        for group in data["groups"]
    )
    block = BlockErrors(**{**data, **lists, "groups": groups})
    count, bins = len(block.words), len(block.edges) - 1
    places = [place for group in groups for place in group.words]
    if not count or len(block.budget) != count or len(block.largest) != count:
        raise ValueError(
            f"{block.name} has {amount(count, 'word')}, {amount(len(block.budget), 'budget')} and "
            f"{amount(len(block.largest), 'largest error')}"
        )
    if sorted(places) != list(range(count)) or not all(group.words for group in groups):
        raise ValueError(f"the groups of {block.name} do not match its words")
    if bins < 1 or any(len(group.counts) != bins for group in groups):
        raise ValueError(f"the counts of {block.name} do not match its bins ({bins})")
    quantiles = [x for group in groups for x in (group.median, group.p99, group.largest)]
    if not all(x is None or type(x) in (int, float) for x in quantiles):
        raise TypeError(f"a quantile of {block.name} is not a number")
    figures = (block.lsb, *block.budget, *block.largest, *block.edges)
    if not all(math.isfinite(x) and x >= 0 for x in figures) or block.edges[0] == 0:
        raise ValueError(
            f"a value of {block.name} is negative or not finite, or its first edge is 0"
        )
    return block
