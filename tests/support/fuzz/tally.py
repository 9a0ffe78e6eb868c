"""Counts and failures of a fuzzing campaign."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

KEPT = 10
"""Number of failures that are kept in words; all are counted."""


@dataclass(kw_only=True)
class Tally:
    """Counts and first failures of a running campaign.

    Members
    -------
    name : of the campaign.
    seed : that repeats it; a case's number counts from the campaign's start.
    cases : inputs that were tried.
    refused : of those, how many were refused in the words that the interface promises.
    accepted : of those, how many were rightly taken.
    failed : of those, how many did neither.
    failures : the first of them, in words.
    slowest : the longest case [s].
    seconds : from the start to the last case.
    more : further counts, by name.
    """

    name: str
    seed: int
    cases: int = 0
    refused: int = 0
    accepted: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    seconds: float = 0.0
    more: dict[str, int] = field(default_factory=dict)
    _began: float = field(default_factory=time.perf_counter)
    _case: float = field(default_factory=time.perf_counter)

    def refuse(self) -> None:
        """Count a case that was correctly rejected."""
        self.refused += 1
        self._next()

    def accept(self) -> None:
        """Count a case that was correctly accepted."""
        self.accepted += 1
        self._next()

    def fail(self, text: str) -> None:
        """Count a case that broke a rule, and keep the text of the first ones."""
        self.failed += 1
        if len(self.failures) < KEPT:
            self.failures.append(f"{self.name}, seed {self.seed}, case {self.cases}: {text}")
        self._next()

    def count(self, **amounts: int) -> None:
        """Add amounts to further counts, by name."""
        for name, amount in amounts.items():
            self.more[name] = self.more.get(name, 0) + amount

    def _next(self) -> None:
        now = time.perf_counter()
        self.cases += 1
        self.slowest = max(self.slowest, now - self._case)
        self._case, self.seconds = now, now - self._began

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as a JSON-able dictionary."""
        return {
            **{"name": self.name, "seed": self.seed, "cases": self.cases},
            **{"refused": self.refused, "accepted": self.accepted, "failed": self.failed},
            **{"failures": self.failures, "seconds": self.seconds, "slowest": self.slowest},
            **self.more,
        }


def error_text(error: BaseException) -> str:
    """Return an error's type, the line that raised it, and its message, cut to 200 characters."""
    where, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        where = f" in {code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}{where}: {str(error)[:200]}"
