"""Figures of a design that is not built: its hardware, and its errors against the float model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.formats.budget import undecided
from pinion.formats.scales import result_blocks
from pinion.functions import Block, BuiltFunction, Function, sample
from pinion.graph import Graph, sticky, stream_integers
from pinion.graph.evaluate import Integers
from pinion.hls import Design
from pinion.link.accuracy import margins
from pinion.link.comparison import Comparison
from pinion.robot import Model

Floats = NDArray[np.float64]


def hardware(design: Design) -> dict[str, Any]:
    """Operations, units, the schedule's length, words of storage; what an interval needs at least.

    ``multipliers_least`` is what the products would take if every multiplier were always busy.
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
    """Run the integer model of a design, which is what its RTL does, beside the float model.

    Parameters
    ----------
    function, graph : what was designed, traced for the robot and in fixed point.
    arrays : requests by input block; one stream, where the function has states.
    scales : of the result blocks.
    decisions : how far what a comparison decides by may be off, by node, ``times`` as much.
    """
    states = len(next(iter(arrays.values())))
    sent = _words(function.inputs, model, arrays)
    integers = Integers(graph)
    inputs, flags = integers.received(sent, states)
    doubles = {name: array.astype(np.float64) for name, array in arrays.items()}
    next_states: dict[str, Floats] = {}
    if graph.states:
        # Each request alone, from the states that the integers had.
        values, stream = stream_integers(graph, inputs)
        flags = sticky(flags | values.any_saturated(states))
        next_states = {
            str(state.word): stream.found[state.word] * integers.formats[i].lsb
            for i, state in graph.state_nodes().items()
        }
        # A state that no result depends on is in the float graph alone.
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
    """Errors of a design, by its integer model.

    Parameters
    ----------
    states, seed : how many states of the reference distribution, and which.

    Returns
    -------
    How many states are flagged, and how many valid (neither flagged nor undecided); of those
    quantiles of the relative error by block, how far budgets are from the largest errors, and
    whether they hold, None without any.
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
    """Columns (n,) by word name."""
    return {
        word: arrays[block.name].reshape(len(arrays[block.name]), -1)[:, position]
        for block in blocks
        for word, position in block.positions(model).items()
    }
