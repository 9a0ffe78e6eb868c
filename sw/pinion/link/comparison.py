"""Comparison of results with the float model, common to all checks.

A request is **valid** if it is neither *flagged*, because then a value overflowed its format, nor
*undecided*, because then rounding may reverse a comparison in it. NaN is wrong and outside any
budget. Without valid requests figures are None, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from pinion.base.arrays import Flags, Floats

from .accuracy import quantile
from .relative import relative_errors


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The errors of a set of requests, and which requests are valid.

    Members
    -------
    error : (n, words) absolute errors, each in its word's unit.
    relative : (n,) relative errors per block (:mod:`pinion.link.relative`).
    flagged, undecided : (n,) requests, which may be both.
    """

    error: Floats
    relative: Mapping[str, Floats]
    flagged: Flags
    undecided: Flags

    @classmethod
    def of(
        cls,
        values: Floats,
        references: Floats,
        *,
        blocks: Mapping[str, Sequence[int]],
        scales: Mapping[str, float],
        flagged: Flags | None = None,
        undecided: Flags | None = None,
    ) -> Self:
        """Compare results with references, word by word.

        Parameters
        ----------
        values, references : (n, words) actual and expected results, each in its word's unit.
        blocks : columns of each block of results; each word is in one block.
        scales : :attr:`pinion.link.Manifest.scales`, by block.
        flagged, undecided : (n,) requests; none by default.

        Raises
        ------
        ValueError
            If shapes differ, or a word is in no block or in several.
        """
        no_requests = np.zeros(len(references), dtype=np.bool_)
        flagged = no_requests if flagged is None else flagged
        undecided = no_requests if undecided is None else undecided
        shapes = [array.shape for array in (values, references, flagged, undecided)]
        if shapes != [references.shape] * 2 + [no_requests.shape] * 2:
            raise ValueError(
                "The shapes must be (n, words) for values and references, and (n,) for flagged and "
                f"undecided, not {shapes}."
            )
        columns = sorted(column for block in blocks.values() for column in block)
        if columns != list(range(references.shape[1])):
            raise ValueError(
                f"The blocks must contain each of the {references.shape[1]} columns of the results "
                f"exactly once, not {columns}."
            )
        with np.errstate(invalid="ignore"):  # NaN counts as wrong; no warning
            error = np.abs(values - references)
            relative = relative_errors(
                {name: error[:, block] for name, block in blocks.items()},
                {name: references[:, block] for name, block in blocks.items()},
                scales,
            )
        return cls(error=error, relative=relative, flagged=flagged, undecided=undecided)

    @property
    def valid(self) -> Flags:
        """Requests (n,) that are neither flagged nor undecided."""
        return ~(self.flagged | self.undecided)

    @property
    def largest(self) -> dict[str, float]:
        """Largest relative error (or NaN) of valid requests by block; empty if none is valid."""
        valid = self.valid
        return {name: float(e[valid].max()) for name, e in self.relative.items() if valid.any()}

    @property
    def largest_error(self) -> Floats:
        """Largest absolute error (words,) of valid requests; NaN if no request is valid."""
        error = self.error[self.valid]
        return np.asarray(error.max(axis=0)) if len(error) else np.full(error.shape[1], np.nan)

    def wrong(self, limit: float = math.inf) -> Flags:
        """Return the mask (n,) of valid requests with a relative error above a limit, or NaN."""
        right = np.isfinite(self.error).all(axis=1)
        for errors in self.relative.values():
            right &= errors <= limit  # NaN is not
        return self.valid & ~right

    def outside(self, budget: Floats) -> Flags:
        """Return the mask (n,) of valid requests with an absolute error above a budget (words,)."""
        return self.valid & ~(self.error <= budget).all(axis=1)

    def held(self, broken: Flags) -> bool | None:
        """Return whether no request is marked in ``broken`` (n,); None if nothing was compared.

        Nothing is compared if no request is valid or no word is sent.
        """
        return not broken.any() if self.valid.any() and self.error.size else None

    def quantiles(self) -> dict[str, dict[str, float | None]]:
        """Return the median, 99th percentile and maximum of the relative errors, each by block.

        Only valid requests count. A figure is None if there are none, or if an error is not finite.
        """
        valid = self.valid
        return {
            f"rel_err_{key}": {name: quantile(e[valid], q) for name, e in self.relative.items()}
            for key, q in (("median", 0.5), ("p99", 0.99), ("max", 1.0))
        }
