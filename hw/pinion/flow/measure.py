"""Figures of a design that is not built: its hardware, and its errors against the float model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed
from pinion.functions import Block, Function, sample
from pinion.graph import names, node_integers
from pinion.graph.evaluate import formats
from pinion.hls import Design
from pinion.hls.budget import undecided
from pinion.link.accuracy import margins, quantiles, relative_errors
from pinion.robot import Model


def hardware(made: Design) -> dict[str, Any]:
    """Operations, units, latency in cycles and words of storage; what an interval needs at least.

    ``multipliers_least`` is what the products would take if every multiplier were always busy.
    """
    ops, modulo = made.ops, made.binding.schedule
    return {
        "ops": ops,
        "units": made.units(),
        "multipliers": made.multipliers,
        "multipliers_least": -(-(ops["mul"] + ops["mul_const"]) // modulo.ii),
        "adders": made.adders,
        "latency_cycles": modulo.latency_cycles,
        "registers": made.binding.registers,
    }


def measure(model: Model, row: Function, made: Design, *, states: int, seed: int) -> dict[str, Any]:
    """Run the integer model of a design, which is what its RTL does, beside the float model.

    Parameters
    ----------
    states, seed : how many states of the reference distribution, and which.

    Returns
    -------
    Quantiles of the relative error by block, how far budgets are from the largest errors, whether
    they hold, and how many states are flagged.
    """
    arrays = sample(model, row, states, distribution="reference", seed=seed)
    sent = _words(row.inputs, model, arrays)
    graph = made.fixed
    fmts = formats(graph)
    inputs, flags = {}, np.zeros(states, dtype=np.bool_)
    for node, fmt in zip(graph.nodes, fmts, strict=True):
        if node.op == names.INPUT:
            name = str(node.params[0])
            bits = np.ascontiguousarray(sent[name], dtype=np.float32).view(np.uint32)
            inputs[name], bad = float32_to_fixed(bits, fmt)
            flags |= bad
    values = node_integers(graph, inputs)
    flags |= values.any_saturated(states)
    flagged = int(flags.sum())
    columns = {str(name): np.asarray(sent[name], np.float64) for name in graph.inputs}
    good = ~(flags | undecided(graph, columns, made.decisions, states))
    doubles = {name: array.astype(np.float64) for name, array in arrays.items()}
    floats = _words(row.results, model, row.evaluate(model, doubles))
    error: dict[str, NDArray[Any]] = {}
    for name, number in graph.outputs:
        integers = np.broadcast_to(np.asarray(values.nodes[number]), (states,))
        bits = np.ascontiguousarray(fixed_to_float32(integers, fmts[number]), dtype=np.uint32)
        error[name] = np.abs(bits.view(np.float32).astype(np.float64) - floats[name])[good]
    blocks = {
        block.name: [word for word in block.words(model) if word in error] for block in row.results
    }
    blocks = {name: words for name, words in blocks.items() if words}
    relative = relative_errors(
        {n: np.stack([error[word] for word in words], axis=1) for n, words in blocks.items()},
        {n: np.stack([floats[w][good] for w in words], axis=1) for n, words in blocks.items()},
    )
    errors = np.stack(list(error.values()), axis=1)
    budget = np.array([made.budget[word] for word in error])
    return {
        "flagged": flagged,
        **quantiles(relative),
        "budget_held": bool((errors <= budget).all()),  # NaN is outside
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
