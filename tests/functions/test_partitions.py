"""The 2021 paper's partitions: all give the same gradient, and read their inputs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion.compute.cpu import graph_of
from pinion.dynamics import rnea_derivatives_from_links_scalars
from pinion.functions import FUNCTIONS, Function, FunctionError, sample
from pinion.functions.partitions import (
    LINK_STATES,
    MINUS_MINV_TIMES,
    PARTITIONS,
    RNEA_DERIVATIVES_FROM_LINKS,
)
from pinion.functions.row import word_columns
from pinion.graph import Graph, evaluate_floats
from pinion.robot import Model, load, load_text, random_tree
from tests.support.breadth import some

COUNT, SEED = 12, 5
ROBOTS = ("iiwa14", "hyq", "atlas", "slides")
FROM_LINKS = (RNEA_DERIVATIVES_FROM_LINKS, RNEA_DERIVATIVES_FROM_LINKS.formulated("column"))

Arrays = dict[str, NDArray[np.float64]]


@cache
def robot(name: str) -> Model:
    """A robot; "slides" has only prismatic joints, oblique ones and branches."""
    if name != "slides":
        return load(name)
    rng = np.random.default_rng(8)
    text = random_tree(rng, 6, prismatic=True, continuous=False)
    model = load_text(text.replace('type="revolute"', 'type="prismatic"'))
    assert {body.joint.kind.value for body in model.bodies} == {"prismatic"}
    return model


@cache
def state(name: str) -> Arrays:
    """q, qd, qdd and M^-1 (n, ...)."""
    row = FUNCTIONS["fd_derivatives_from_minv"]
    requests = sample(robot(name), row, COUNT, distribution="reference", seed=SEED)
    return {key: values.astype(np.float64) for key, values in requests.items()}


def taken(row: Function, arrays: Arrays) -> Arrays:
    return {block.name: arrays[block.name] for block in row.inputs}


@cache
def program(name: str, row: Function) -> Graph:
    return graph_of(next(m for m in map(robot, ROBOTS) if m.name == name), row)


def traced(row: Function, model: Model, arrays: Arrays) -> Arrays:
    """Results of the graph that programs are made from."""
    columns = word_columns(row.inputs, model, arrays)
    values = evaluate_floats(program(model.name, row), columns)
    return {
        block.name: np.stack(
            [np.broadcast_to(values[word], (COUNT,)) for word in block.words(model)], axis=-1
        ).reshape(COUNT, *block.dims(model))
        for block in row.results
    }


def on_scalars(row: Function, model: Model, arrays: Arrays) -> Arrays:
    """Results of the formulation without any pass."""
    plain = row if row.variant is None else replace(row, scalars=row.variant.scalars, variant=None)
    return plain.evaluate(model, taken(row, arrays))


def far(results: Arrays, exact: Arrays) -> float:
    """The largest error relative to the largest element of its result; NaN counts as largest."""
    assert list(results) == list(exact)
    worst = 0.0
    for name, values in exact.items():
        # Nothing of a robot that only slides depends on rates or positions.
        scale = np.max(np.abs(values)) or 1.0
        error = float(np.max(np.abs(results[name] - values)) / scale)
        worst = error if np.isnan(error) or error > worst else worst
    return worst


@pytest.mark.parametrize("name", ROBOTS)
def test_every_partition_is_the_gradient_of_forward_dynamics(name: str) -> None:
    model, arrays = robot(name), state(name)
    want = FUNCTIONS["fd_derivatives_from_minv"].evaluate(model, arrays)
    for partition in PARTITIONS.values():
        arrays_so_far = dict(arrays)
        for row in (partition.before, partition.device, partition.after):
            if row is not None:
                arrays_so_far |= row.evaluate(model, taken(row, arrays_so_far))
        assert far({key: arrays_so_far[key] for key in want}, want) <= 1e-12


@pytest.mark.parametrize("name", some(ROBOTS, ("slides", "atlas")))
@pytest.mark.parametrize("row", FROM_LINKS, ids=["composite", "column"])
def test_the_gradient_from_links_is_that_from_accelerations(row: Function, name: str) -> None:
    model, arrays = robot(name), state(name)
    fused = FUNCTIONS["rnea_derivatives"]
    want = fused.evaluate(model, taken(fused, arrays))
    arrays_of_row = {**arrays, **LINK_STATES.evaluate(model, taken(LINK_STATES, arrays))}
    if name != "atlas" or not row.published:  # seconds, and 30 columns say no more than 12
        assert far(traced(row, model, arrays_of_row), want) <= 1e-11


@pytest.mark.parametrize("name", ["iiwa14", "hyq", "slides"])
def test_programs_compute_the_parts_of_the_host(name: str) -> None:
    model, arrays_of_state = robot(name), state(name)
    for row in (LINK_STATES, MINUS_MINV_TIMES):
        requests = sample(model, row, COUNT, distribution="reference", seed=SEED)
        arrays = {**arrays_of_state, **{key: x.astype(np.float64) for key, x in requests.items()}}
        assert far(traced(row, model, arrays), row.evaluate(model, taken(row, arrays))) <= 1e-12


@pytest.mark.parametrize("name", some(["iiwa14", "slides"], ("slides",)))
@pytest.mark.parametrize("row", FROM_LINKS, ids=["composite", "column"])
def test_what_is_given_is_read_and_not_computed_anew(row: Function, name: str) -> None:
    """Programs follow the algorithm if v, a and f are not those of q, qd and qdd.

    Numeric passes that derived them from the state, the zeros of the first links included, would
    fail here.
    """
    model, arrays = robot(name), state(name)
    links = LINK_STATES.evaluate(model, taken(LINK_STATES, arrays))
    rng = np.random.default_rng(SEED)
    independent = {
        **taken(row, {**arrays, **links}),
        **{key: rng.uniform(-1.0, 1.0, x.shape) * np.max(np.abs(x)) for key, x in links.items()},
    }
    right = on_scalars(row, model, independent)
    assert far(traced(row, model, independent), right) <= 1e-11
    # All that the axis z of a revolute joint leaves. No joint below the first one carries its f;
    # the first one's axis meets the second joint, so its force there has no effect.
    read = [(key, link, k) for key in ("v", "a") for link in range(7) for k in (0, 1, 3, 4)]
    read += [("f", link, k) for link in range(1, 7) for k in (0, 1, 3, 4) if link > 1 or k < 2]
    for key, link, k in read if name == "iiwa14" else ():
        changed = {**independent, key: independent[key].copy()}
        changed[key][:, link, k] *= 1.1
        exact = on_scalars(row, model, changed)
        results = traced(row, model, changed)
        assert far(results, exact) <= 1e-11
        assert far(results, right) > 1e-9, (key, link, k)


@pytest.mark.parametrize("size", [4, 8])
def test_bytes_are_those_of_the_arrays(size: int) -> None:
    model = robot("iiwa14")
    words = {
        "split": (7 + 7 + 3 * 42, 98),
        "fused": (21, 98),
        "completely fused": (21 + 49, 98),
    }
    for name, partition in PARTITIONS.items():
        assert partition.bytes_of(model, size) == tuple(size * n for n in words[name])
        requests = sample(model, partition.device, 3, distribution="reference", seed=1)
        assert sum(prod(x.shape[1:]) for x in requests.values()) == words[name][0]


def test_what_they_cannot_do_is_said_in_a_sentence() -> None:
    floating = load("hyq", floating_base=True)
    with pytest.raises(FunctionError, match="cannot be computed by columns"):
        FROM_LINKS[1].trace(floating)
    with pytest.raises(ValueError, match="method is 'rows'"):
        rnea_derivatives_from_links_scalars(floating, [], [], [], [], [], method="rows")
    with pytest.raises(FunctionError, match="has no formulation 'rows'"):
        RNEA_DERIVATIVES_FROM_LINKS.formulated("rows")
