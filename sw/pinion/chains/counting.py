"""Depth and work of an algorithm, counted while it computes and independent of any machine.

A *level* is what computes at once: its combines need only results of earlier levels. A *combine* is
one use of an associative operator, or one elimination of a block by its neighbour, for one state of
a batch. What goes on link by link is no level and is kept by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Count:
    """What an algorithm did so far: hand a fresh one in as ``count=``, and read it afterwards.

    Members
    -------
    levels : depth in levels, one after another.
    combines : operations in all levels together.
    solves : steps in which every block is solved by itself, all at once.
    sequential : by name, steps that follow one another: they bound the time from below on any
        number of processors.
    """

    levels: int = 0
    combines: int = 0
    solves: int = 0
    sequential: dict[str, int] = field(default_factory=dict)

    def level(self, combines: int) -> None:
        """Note a level of so many combines; a level of none is none."""
        if combines:
            self.levels += 1
            self.combines += combines

    def solve(self) -> None:
        """Note a step in which every block is solved by itself."""
        self.solves += 1

    def steps(self, name: str, steps: int) -> None:
        """Note steps that follow one another: a recursion over links, or a factorisation's rows."""
        if steps:
            self.sequential[name] = self.sequential.get(name, 0) + steps
