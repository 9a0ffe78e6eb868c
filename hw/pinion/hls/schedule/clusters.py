"""Units in groups by link: the units of one link's computations are placed close together.

A robot's computations follow its links, and a value mostly goes to the same link or to the next one
on the tree. Where every link has its units to itself, long wires are those between neighbours only.
The price is rounding: each group rounds up its number of units of each kind. Most of that is saved
again where the operations that would fill a unit only in part are done by the units of the parent
link.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pinion.hls.operations import Operation, UnitKind

# The choices of --clusters.
NONE, LINK = "none", "link"
CLUSTERS = (NONE, LINK)

# Where operations go that nothing ties to a link, and what is left over from several trees.
_BASE = 0


class ClusterError(ValueError):
    """What was asked for is no way to group units; the message names the ways."""


def link_parents(clusters: str, parents: Sequence[int]) -> tuple[int, ...]:
    """Parent link of each link, as :func:`clustered` takes them; none without clusters.

    Parameters
    ----------
    clusters : ``none`` or ``link``.
    parents : parent of each body as models number them: from 0 on, -1 for the base.

    Raises
    ------
    ClusterError
        When there is no such way to group units.
    """
    if clusters not in CLUSTERS:
        raise ClusterError(
            f"There are no clusters '{clusters}'; choose one of {', '.join(CLUSTERS)}."
        )
    return tuple(parent + 1 for parent in parents) if clusters == LINK else ()


def clustered(
    operations: tuple[Operation, ...], *, parents: Sequence[int], ii: int
) -> tuple[Operation, ...]:
    """The same operations, each with a kind that only the units of its cluster have.

    An operation belongs to the link of its region (every pass names the body that it is at; column
    and row of joint 3 move link 3), one without a link to the cluster of most of its
    producers and users. Then, kind by kind, a link may hand operations to its parent, as many as
    leave no unit of its own partly used, where that takes fewer units in all; those go that have
    the most to do with the parent's cluster.

    Parameters
    ----------
    parents : parent of each link, links counted from 1; 0 for the base.
    ii : initiation interval: how many operations fill a unit.
    """
    near = _neighbours(operations)
    home = _homes(operations, near, len(parents))
    by_kind: dict[UnitKind, list[int]] = defaultdict(list)
    for i, operation in enumerate(operations):
        by_kind[operation.kind].append(i)
    for members in by_kind.values():
        counts = Counter(home[i] for i in members)
        for link, number in _handed_up(counts, parents, ii).items():
            _hand_up(members, home, near, link, parents[link - 1], number)
    return tuple(
        replace(operation, kind=replace(operation.kind, cluster=cluster_name(home[i])))
        for i, operation in enumerate(operations)
    )


def cluster_name(link: int) -> str:
    """Name of a link's cluster."""
    return "base" if link == _BASE else f"link{link}"


def _neighbours(operations: Sequence[Operation]) -> list[list[int]]:
    """Producers and users of each operation, one entry an operand."""
    at = {operation.node: i for i, operation in enumerate(operations)}
    near: list[list[int]] = [[] for _ in operations]
    for i, operation in enumerate(operations):
        for operand in operation.operands:
            if operand.constant is None and operand.node in at:
                near[i].append(at[operand.node])
                near[at[operand.node]].append(i)
    return near


def _homes(operations: Sequence[Operation], near: Sequence[Sequence[int]], links: int) -> list[int]:
    """Each operation's link, before any is handed on."""
    home: list[int | None] = []
    for operation in operations:
        link = operation.region.body if operation.region else None
        home.append(link if link is not None and 1 <= link <= links else None)
    lost = [i for i, link in enumerate(home) if link is None]
    while lost:
        left: list[int] = []
        for i in lost:
            votes = Counter(link for j in near[i] if (link := home[j]) is not None)
            if votes:
                home[i] = min(votes, key=lambda link: (-votes[link], link))
            else:
                left.append(i)
        if len(left) == len(lost):
            break  # nothing around them has a link either
        lost = left
    return [_BASE if link is None else link for link in home]


def _handed_up(counts: Mapping[int, int], parents: Sequence[int], ii: int) -> dict[int, int]:
    """How many operations of one kind each link hands to its parent, for the fewest units.

    Among equals the fewest change hands. Links are numbered parents first, so the children of a
    link are decided before it: for each number that may arrive, the best way to get there is kept.
    """
    # By number that arrives from the children so far: units, moves, what each link hands up.
    Ways = dict[int, tuple[int, int, dict[int, int]]]
    arriving: dict[int, Ways] = {link: {0: (0, 0, {})} for link in range(len(parents) + 1)}
    for link in range(len(parents), -1, -1):
        ways: Ways = {}
        for number, (units, moves, choices) in arriving[link].items():
            have = counts.get(link, 0) + number
            extra = have % ii if link else 0
            for up in {0, extra}:
                way = (units + -(-(have - up) // ii), moves + up, choices | {link: up})
                if up not in ways or way[:2] < ways[up][:2]:
                    ways[up] = way
        if link == _BASE:
            return {k: n for k, n in ways[0][2].items() if n}
        above: Ways = {}
        for have, (units, moves, choices) in arriving[parents[link - 1]].items():
            for up, (more, others, chosen) in ways.items():
                way = (units + more, moves + others, choices | chosen)
                if have + up not in above or way[:2] < above[have + up][:2]:
                    above[have + up] = way
        arriving[parents[link - 1]] = above
    raise AssertionError("the base is the last link")


def _hand_up(
    members: Sequence[int],
    home: list[int],
    near: Sequence[Sequence[int]],
    link: int,
    parent: int,
    number: int,
) -> None:
    """Move operations of a link to its parent: those with the most to do with the parent's."""

    def drawn(i: int) -> int:
        return sum((home[j] == parent) - (home[j] == link) for j in near[i])

    own = [i for i in members if home[i] == link]
    for i in sorted(own, key=lambda i: (-drawn(i), i))[:number]:
        home[i] = parent
