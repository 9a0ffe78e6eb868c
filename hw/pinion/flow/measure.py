"""Figures of a design that is not built: its hardware, and its errors against the float model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed
from pinion.formats.budget import undecided
from pinion.functions import Block, BuiltFunction, Function, sample
from pinion.graph import Graph, names, node_integers, sticky, stream_integers
from pinion.graph.evaluate import formats
from pinion.hls import Design
from pinion.link.accuracy import margins, quantiles
from pinion.link.relative import relative_errors
from pinion.robot import Model

Floats = NDArray[np.float64]


def hardware(made: Design) -> dict[str, Any]:
    """Operations, units, the schedule's length, words of storage; what an interval needs at least.

    ``multipliers_least`` is what the products would take if every multiplier were always busy.
    """
    ops, modulo = made.ops, made.binding.schedule
    return {
        "ops": ops,
        "units": made.units(),
        "multipliers": made.multipliers,
        "multipliers_least": -(-(ops["mul"] + ops["mul_const"]) // modulo.ii),
        "adders": made.adders,
        "schedule_cycles": modulo.schedule_cycles,
        "registers": made.binding.registers,
    }


@dataclass(frozen=True)
class Compared:
    """Requests in a design's integers, beside the floats.

    Members
    -------
    error, floats : (n,) absolute errors and values by result word, of those that travel.
    flags, undecided : (n,).
    """

    error: Mapping[str, Floats]
    floats: Mapping[str, Floats]
    flags: NDArray[np.bool_]
    undecided: NDArray[np.bool_]

    def relative(
        self, blocks: Sequence[Block], model: Model, scales: Mapping[str, float]
    ) -> dict[str, Floats]:
        """Relative errors (n,) by block, of the requests that are judged."""
        good = ~(self.flags | self.undecided)
        words = {b.name: [w for w in b.words(model) if w in self.error] for b in blocks}

        def columns(values: Mapping[str, Floats]) -> dict[str, Floats]:
            return {
                name: np.stack([values[word][good] for word in own], axis=1)
                for name, own in words.items()
                if own
            }

        return relative_errors(columns(self.error), columns(self.floats), scales)


class Integers(Protocol):
    """What a comparison reads of a design or of a build that was read back.

    Members
    -------
    fixed : the fixed graph.
    decisions : how far what a comparison decides by may be off, by node.
    """

    @property
    def fixed(self) -> Graph:
        """The fixed graph."""

    @property
    def decisions(self) -> Mapping[int, float]:
        """Bounds by node."""


def compare(
    model: Model,
    function: BuiltFunction,
    made: Integers,
    arrays: Mapping[str, NDArray[np.float32]],
    *,
    times: float = 1.0,
) -> Compared:
    """Run the integer model of a design, which is what its RTL does, beside the float model.

    Parameters
    ----------
    function : what was designed, traced for the robot.
    arrays : requests by input block; one stream, where the function has states.
    times : what is compared may be off by so many times what the design states.
    """
    states = len(next(iter(arrays.values())))
    sent = _words(function.inputs, model, arrays)
    graph = made.fixed
    fmts = formats(graph)
    inputs, flags = {}, np.zeros(states, dtype=np.bool_)
    words = graph.state_nodes()
    for i, (node, fmt) in enumerate(zip(graph.nodes, fmts, strict=True)):
        if node.op == names.INPUT and i not in words:
            name = str(node.params[0])
            bits = np.ascontiguousarray(sent[name], dtype=np.float32).view(np.uint32)
            inputs[name], bad = float32_to_fixed(bits, fmt)
            flags |= bad
    doubles = {name: array.astype(np.float64) for name, array in arrays.items()}
    found: dict[str, Floats] = {}
    if graph.states:
        # Each request alone, from the states that the integers had.
        values, stream = stream_integers(graph, inputs)
        flags = sticky(flags | values.any_saturated(states))
        found = {
            str(state.word): stream.found[state.word] * fmts[i].lsb
            for i, state in graph.state_nodes().items()
        }
        # A state that no result depends on is in the float graph alone.
        unread = {str(state.word): np.zeros(states) for state in function.graph.states}
        results = function.step(model, doubles, unread | found)
    else:
        values = node_integers(graph, inputs)
        flags |= values.any_saturated(states)
        results = function.evaluate(model, doubles)
    floats = _words(function.results, model, results)
    columns = {name: np.asarray(sent[name], np.float64) for name in graph.inputs} | found
    bounds = {node: bound * times for node, bound in made.decisions.items()}
    error: dict[str, Floats] = {}
    for name, number in graph.outputs:
        integers = np.broadcast_to(np.asarray(values.nodes[number]), (states,))
        bits = np.ascontiguousarray(fixed_to_float32(integers, fmts[number]), dtype=np.uint32)
        error[name] = np.abs(bits.view(np.float32).astype(np.float64) - floats[name])
    return Compared(
        error=error,
        floats={name: floats[name] for name in error},
        flags=flags,
        undecided=undecided(graph, columns, bounds, states),
    )


def measure(model: Model, row: Function, made: Design, *, states: int, seed: int) -> dict[str, Any]:
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
    seen = compare(model, BuiltFunction.of(row, model), made, arrays)
    errors = np.stack(list(seen.error.values()), axis=1)[~(seen.flags | seen.undecided)]
    budget = np.array([made.budget[word] for word in seen.error])
    return {
        "flagged": int(seen.flags.sum()),
        "valid": len(errors),
        **quantiles(seen.relative(row.results, model, made.scales)),
        "budget_held": bool((errors <= budget).all()) if len(errors) else None,  # NaN is outside
        "budget_over_largest": margins(errors, budget),
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
