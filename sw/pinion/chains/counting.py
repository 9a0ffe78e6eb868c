"""Depth and work of an algorithm, counted during the computation and independent of any machine.

A *level* is a set of combines that run in parallel: they need only results of earlier levels. A
*combine* is one use of an associative operator, or one elimination of a block by its neighbour, for
one state of a batch. Steps from link to link are not levels; they are counted by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Count:
    """Depth and work of an algorithm: pass a new `Count` as ``count=`` and read it afterwards.

    Members
    -------
    levels : number of successive levels.
    combines : operations of all levels.
    solves : steps in which all blocks are solved independently.
    sequential : number of successive steps by name, a lower bound on the time on any number of
        processors.
    """

    levels: int = 0
    combines: int = 0
    solves: int = 0
    sequential: dict[str, int] = field(default_factory=dict)

    def level(self, combines: int) -> None:
        """Count a level of `combines` operations, or nothing if there are none."""
        if combines:
            self.levels += 1
            self.combines += combines

    def solve(self) -> None:
        """Count a step in which all blocks are solved independently."""
        self.solves += 1

    def steps(self, name: str, steps: int) -> None:
        """Count sequential steps, such as those of a recursion over links or of a factorisation."""
        if steps:
            self.sequential[name] = self.sequential.get(name, 0) + steps
