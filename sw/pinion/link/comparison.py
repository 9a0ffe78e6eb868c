"""Results beside references: the one judgement of every check that holds words against floats.

A request is **valid** when its result may be judged: it is not *flagged*, for then its numbers
left their format, and not *undecided*, for then rounding may turn a comparison in it. What is not a
number is wrong and outside any budget, and what compared nothing has no figures, never zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .accuracy import quantile
from .relative import relative_errors

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The errors of some requests, and which of them count.

    Members
    -------
    error : (n, words) absolute errors, each in its word's unit.
    relative : (n,) relative errors by block (:mod:`pinion.link.relative`).
    flagged, undecided : (n,) requests; one may be both.
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
        """Compare.

        Parameters
        ----------
        values, references : (n, words) results and what they should be, each in its word's unit.
        blocks : columns of each block of results; each word is in one.
        scales : by block, those of :attr:`pinion.link.Manifest.scales`.
        flagged, undecided : (n,) requests; none by default.

        Raises
        ------
        ValueError
            Shapes that differ, or words in no block or in two.
        """
        nobody = np.zeros(len(references), dtype=np.bool_)
        flagged = nobody if flagged is None else flagged
        undecided = nobody if undecided is None else undecided
        shapes = [array.shape for array in (values, references, flagged, undecided)]
        if shapes != [references.shape] * 2 + [nobody.shape] * 2:
            raise ValueError(f"The shapes {shapes} must be two of (n, words) and two of (n,).")
        columns = sorted(column for block in blocks.values() for column in block)
        if columns != list(range(references.shape[1])):
            raise ValueError(
                f"Blocks of the columns {columns} must have each of {references.shape[1]} words "
                "once."
            )
        with np.errstate(invalid="ignore"):  # NaN is judged, not warned about
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
        """Largest relative error of valid requests by block, NaN where one is no number; empty
        where no request is valid."""
        valid = self.valid
        return {name: float(e[valid].max()) for name, e in self.relative.items() if valid.any()}

    @property
    def largest_error(self) -> Floats:
        """Largest absolute error (words,) of valid requests; NaN where none is valid."""
        error = self.error[self.valid]
        return np.asarray(error.max(axis=0)) if len(error) else np.full(error.shape[1], np.nan)

    def wrong(self, limit: float = math.inf) -> Flags:
        """Valid requests (n,) with a relative error above a limit, or an error that is no finite
        number."""
        right = np.isfinite(self.error).all(axis=1)
        for errors in self.relative.values():
            right &= errors <= limit  # NaN is not
        return self.valid & ~right

    def outside(self, budget: Floats) -> Flags:
        """Valid requests (n,) with an absolute error that is not within a budget (words,)."""
        return self.valid & ~(self.error <= budget).all(axis=1)

    def held(self, broken: Flags) -> bool | None:
        """Whether no request is `wrong` or `outside`; None where no request is valid or no word
        travels, so that nothing was compared."""
        return not broken.any() if self.valid.any() and self.error.size else None

    def quantiles(self) -> dict[str, dict[str, float | None]]:
        """Median, 99 % and largest of valid requests' relative errors by block, under the names
        that ``verify`` gives them; None where no request is valid or one is no finite number."""
        valid = self.valid
        return {
            f"rel_err_{key}": {name: quantile(e[valid], q) for name, e in self.relative.items()}
            for key, q in (("median", 0.5), ("p99", 0.99), ("max", 1.0))
        }
