"""Units by link: who goes where, that no unit is lost to it, and that the design stays correct."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from pinion.formats.lower import lower
from pinion.functions import named_function
from pinion.graph import Graph, Region
from pinion.hls import DesignSettings, Operand, Operation, UnitKind, design, operations
from pinion.hls.operations import kind_names
from pinion.hls.schedule.clusters import ClusterError, cluster_name, clustered, link_parents
from pinion.hls.schedule.modulo import unit_counts
from tests.graph.helpers import Q16, TIMING, folded, model, states, traced
from tests.support.breadth import some

ADD = UnitKind("add", 0, (32, 32), 0, 32, "floor", "saturate")


def operation(node: int, region: Region | None, *reads: int, kind: UnitKind = ADD) -> Operation:
    """An operation that reads other operations; negative numbers are inputs."""
    operands = tuple(Operand(1000 - r if r < 0 else r) for r in reads)
    return Operation(node, kind, operands, (), 1, region, "")


def links(made: tuple[Operation, ...]) -> list[str]:
    return [operation.kind.cluster for operation in made]


def robot_operations(robot: str) -> tuple[Operation, ...]:
    return operations(lower(folded(robot), Q16), TIMING)


def robot_parents(robot: str) -> tuple[int, ...]:
    return link_parents("link", model(robot).parents)


def test_every_region_of_the_algorithms_has_a_link_of_the_robot() -> None:
    for name in ("rnea", "rnea_derivatives", "aba", "minv", "crba", "fd_derivatives"):
        graph: Graph = named_function(name).trace(model("chain_3"))
        made = {n.region for n in graph.nodes if n.op not in ("input", "const") and n.region}
        assert made and {region.body for region in made} <= {1, 2, 3}, name


def test_parents_are_numbered_from_one() -> None:
    assert link_parents("link", (-1, 0, 1, 0)) == (0, 1, 2, 1)
    assert link_parents("none", (-1, 0)) == ()
    with pytest.raises(ClusterError, match="'joint'; choose one of none, link"):
        link_parents("joint", (-1,))


def test_nothing_but_the_cluster_changes() -> None:
    before = robot_operations("hyq")
    after = clustered(before, parents=robot_parents("hyq"), ii=4)
    assert tuple(replace(o, kind=o.kind.plain) for o in after) == before
    assert "" not in links(after)


@pytest.mark.parametrize("ii", [1, 2, 3, 8])
@pytest.mark.parametrize("robot", ["chain_3", "iiwa14", "hyq", "baxter"])
def test_no_unit_is_lost_to_clusters(robot: str, ii: int) -> None:
    before = robot_operations(robot)
    after = clustered(before, parents=robot_parents(robot), ii=ii)
    by_kind: Counter[UnitKind] = Counter()
    for kind, count in unit_counts(after, ii).items():
        by_kind[kind.plain] += count
    assert by_kind == unit_counts(before, ii)


@pytest.mark.parametrize("robot", ["iiwa14", "hyq", "baxter"])
def test_operations_stay_at_their_link_or_go_towards_the_base(robot: str) -> None:
    before, parents = robot_operations(robot), robot_parents(robot)
    after = clustered(before, parents=parents, ii=4)
    stayed = 0
    for old, new in zip(before, after, strict=True):
        assert old.region is not None and old.region.body is not None
        link = old.region.body
        path = [link]
        while path[-1]:
            path.append(parents[path[-1] - 1])
        assert new.kind.cluster in [cluster_name(at) for at in path]
        stayed += new.kind.cluster == cluster_name(link)
    assert stayed > 0.7 * len(before)


def test_with_an_interval_of_one_nothing_moves() -> None:
    before = robot_operations("iiwa14")
    after = clustered(before, parents=robot_parents("iiwa14"), ii=1)
    assert links(after) == [cluster_name(o.region.body or 0) for o in before]


def test_operations_without_a_link_go_where_their_neighbours_are() -> None:
    made = clustered(
        (
            operation(0, Region("forward", 1), -1, -2),
            operation(1, Region("forward", 2), -1, -2),
            operation(2, None, 0, 4),  # reads link 1 once, is read by link 2 twice
            operation(3, Region("forward", 2), 2, 2),
            operation(4, None, 1, -1),  # reads link 2 once
            operation(5, None, 4, -1),  # has a link's operation behind its neighbour only
            operation(6, None, -1, -2),  # nothing ties it to a link
            operation(7, Region("forward", 9), 0, -2),  # the robot has no such link
        ),
        parents=(0, 1),
        ii=1,
    )
    assert links(made) == [
        "link1", "link2", "link2", "link2", "link2", "link2", "base", "link1",
    ]  # fmt: skip


def test_what_is_handed_up_reads_the_parents_values() -> None:
    child = [operation(i, Region("forward", 2), -1, -2) for i in range(4)]
    parent = [operation(i, Region("forward", 1), -1, -2) for i in range(4, 7)]
    near = operation(7, Region("forward", 2), 5, 6)
    made = clustered((*child, *parent, near), parents=(0, 1), ii=4)
    assert Counter(links(made)) == {"link1": 4, "link2": 4}
    assert made[7].kind.cluster == "link1"


def test_where_no_unit_is_saved_nothing_moves() -> None:
    regions = [Region("forward", 1)] * 7 + [Region("forward", 2)] * 6
    before = tuple(operation(i, region, -1, -2) for i, region in enumerate(regions))
    made = clustered(before, parents=(0, 1), ii=4)
    assert links(made) == ["link1"] * 7 + ["link2"] * 6


@pytest.mark.parametrize("seed", range(20))
def test_units_and_moves_are_the_fewest_of_all_ways(seed: int) -> None:
    """Against every combination of handing all, the rest or nothing up, on random trees."""
    random = Random(seed)
    size, ii = random.randint(1, 5), random.randint(2, 4)
    parents = tuple(random.randint(0, link) for link in range(size))
    counts = [random.randint(0, 6) for _ in range(size)]
    regions = [Region("forward", link + 1) for link, n in enumerate(counts) for _ in range(n)]
    before = tuple(operation(i, region, -1, -2) for i, region in enumerate(regions))

    def cost(choice: tuple[bool, ...]) -> tuple[int, int]:
        have = [0, *counts]
        moves = 0
        for link in range(size, 0, -1):
            up = have[link] % ii if choice[link - 1] else 0
            have[link] -= up
            have[parents[link - 1]] += up
            moves += up
        return sum(-(-n // ii) for n in have), moves

    best = min(cost(choice) for choice in product((False, True), repeat=size))
    after = clustered(before, parents=parents, ii=ii)
    assert sum(unit_counts(after, ii).values()) == best[0], f"seed {seed}"
    # An operation that goes two links up counts once here and twice above.
    moved = sum(o.kind.cluster != n for o, n in zip(after, map(_home, regions), strict=True))
    assert moved <= best[1], f"seed {seed}"


def _home(region: Region) -> str:
    return cluster_name(region.body or 0)


def test_names_tell_clusters_apart_and_share_the_units_name() -> None:
    wide = replace(ADD, width=40)
    kinds = [replace(kind, cluster=c) for kind in (ADD, wide) for c in ("link1", "link2")]
    names = kind_names(kinds)
    assert sorted(names.values()) == [
        "add_k0_link1", "add_k0_link2", "add_k1_link1", "add_k1_link2",
    ]  # fmt: skip
    assert kind_names({kind.plain for kind in kinds}) == {ADD: "add_k0", wide: "add_k1"}
    assert names[replace(wide, cluster="link2")].startswith("add_k1")


@pytest.mark.parametrize("robot", some(["chain_3", "hyq"], ("chain_3",)))
def test_a_design_with_clusters_passes_the_checker_with_as_many_multipliers(robot: str) -> None:
    def made(parents: tuple[int, ...]) -> tuple[int, int, set[str]]:
        settings = DesignSettings(
            ii=4, plan=Q16, timing=TIMING, states=states(robot, 20, seed=1),
            effort=1, link_parents=parents,
        )  # fmt: skip
        plan = design(traced(robot), settings)
        clusters = {kind.cluster for kind in plan.binding.schedule.units}
        return plan.multipliers, plan.adders, clusters

    shared, apart = made(()), made(robot_parents(robot))
    assert apart[0] == shared[0]
    assert shared[2] == {""}
    assert apart[2] <= {"base", *(f"link{n}" for n in range(1, len(model(robot).parents) + 1))}
    assert len(apart[2]) > len(model(robot).parents) // 2
