"""Hardware of a design and its errors relative to the float model, without a build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats
from pinion.formats.budget import undecided
from pinion.formats.scales import result_blocks
from pinion.functions import Block, BuiltFunction, Function, sample
from pinion.functions.row import mapped_arrays, unmapped_arrays
from pinion.graph import Graph, sticky, stream_integers
from pinion.graph.evaluate import Integers
from pinion.hls import Design
from pinion.link.accuracy import margins
from pinion.link.comparison import Comparison
from pinion.robot import Model


def hardware(design: Design) -> dict[str, Any]:
    """Return counts of operations, units and registers, and the schedule's length, by name.

    ``multipliers_least`` is the number of multipliers if each were always busy.
    """
    ops, modulo = design.ops, design.binding.schedule
    return {
        "ops": ops,
        "units": design.units(),
        "multipliers": design.multipliers,
        "multipliers_least": -(-(ops["mul"] + ops["mul_const"]) // modulo.ii),
        "adders": design.adders,
        "schedule_cycles": modulo.schedule_cycles,
        "registers": design.binding.registers,
    }


def compare(
    model: Model,
    function: BuiltFunction,
    graph: Graph,
    arrays: Mapping[str, NDArray[np.float32]],
    *,
    scales: Mapping[str, float],
    decisions: Mapping[int, float],
    times: float = 1.0,
) -> Comparison:
    """Compare the integer model of a design, to which its RTL is bit-exact, with the float model.

    Parameters
    ----------
    function, graph : the function traced for the robot, and its graph in fixed point.
    arrays : requests by input block; one stream if the function has states.
    scales : of the result blocks.
    decisions : error bounds of compared values, by node, multiplied by ``times``.
    """
    states = len(next(iter(arrays.values())))
    mapped = mapped_arrays(arrays, function.parameter_map)
    sent = _words(function.inputs, model, mapped)
    integers = Integers(graph)
    inputs, flags = integers.received(sent, states)
    doubles = unmapped_arrays(mapped, function.parameter_map)
    next_states: dict[str, Floats] = {}
    if graph.states:
        # Each request alone, from the integers' states.
        values, stream = stream_integers(graph, inputs)
        flags = sticky(flags | values.any_saturated(states))
        next_states = {
            str(state.word): stream.states[state.word] * integers.formats[i].lsb
            for i, state in graph.state_nodes().items()
        }
        # A state that no result depends on is only in the float graph.
        unread = {str(state.word): np.zeros(states) for state in function.graph.states}
        results = function.step(model, doubles, unread | next_states)
    else:
        values = integers(inputs)
        flags |= values.any_saturated(states)
        results = function.evaluate(model, doubles)
    floats = _words(function.results, model, results)
    columns = {name: np.asarray(sent[name], np.float64) for name in graph.inputs} | next_states
    bounds = {node: bound * times for node, bound in decisions.items()}
    return Comparison.of(
        integers.sent(values, states).astype(np.float64),
        np.stack([floats[word] for word, _ in graph.outputs], axis=1),
        blocks=result_blocks(graph),
        scales=scales,
        flagged=flags,
        undecided=undecided(graph, columns, bounds, states),
    )


def measure(
    model: Model, row: Function, design: Design, *, states: int, seed: int
) -> dict[str, Any]:
    """Return the errors of a design, measured with its integer model.

    Parameters
    ----------
    states, seed : number of states of the reference distribution, and their seed.

    Returns
    -------
    Numbers of flagged and of valid states (neither flagged nor undecided); of the valid ones
    quantiles of the relative error by block, ratios of budgets to the largest errors, and whether
    the budgets hold, None without valid states.
    """
    arrays = sample(model, row, states, distribution="reference", seed=seed)
    function = BuiltFunction.of(row, model)
    comparison = compare(
        model, function, design.fixed, arrays, scales=design.scales, decisions=design.decisions
    )
    budget = np.array([design.budget[word] for word, _ in design.fixed.outputs])
    return {
        "flagged": int(comparison.flagged.sum()),
        "valid": int(comparison.valid.sum()),
        **comparison.quantiles(),
        "budget_held": comparison.held(comparison.outside(budget)),
        "budget_over_largest": margins(comparison.error[comparison.valid], budget),
    }


def _words(
    blocks: Sequence[Block], model: Model, arrays: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Split arrays (n, ...) by block into columns (n,) by word name."""
    return {
        word: arrays[block.name].reshape(len(arrays[block.name]), -1)[:, position]
        for block in blocks
        for word, position in block.positions(model).items()
    }
