"""Errors against the float model: of a design that was not built, and how they are summed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pinion.graph import names

FLOAT_NOISE = 1e-12
"""Errors below it are those of the float model: some results are 0 for reasons that neither model
sees in its formulas, and floats miss that by a few last bits."""

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pinion.functions import Block, Function
    from pinion.hls import Design
    from pinion.robot import Model


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
    import numpy as np

    from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed
    from pinion.functions import sample
    from pinion.graph import node_integers
    from pinion.graph.evaluate import formats

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
    good = ~(flags | values.any_saturated(states))
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
        "flagged": states - int(good.sum()),
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


def relative_errors(
    errors: Mapping[str, NDArray[Any]], floats: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """By block (n,): the largest error of its words over the largest of their values.

    Parameters
    ----------
    errors, floats : (n, words) absolute errors and values by block; blocks without words are left
        out, and where all values are 0 the error is absolute.
    """
    import numpy as np

    relative = {}
    for name, block in errors.items():
        if block.shape[1]:
            scale = np.abs(floats[name]).max(axis=1)
            relative[name] = block.max(axis=1) / np.where(scale > 0, scale, 1.0)
    return relative


def quantiles(relative: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, float | None]]:
    """Median, 99 % and largest by block, under the names that ``verify`` gives them."""
    import numpy as np

    return {
        f"rel_err_{key}": {
            name: float(np.quantile(error, q)) if len(error) else None
            for name, error in relative.items()
        }
        for key, q in (("median", 0.5), ("p99", 0.99), ("max", 1.0))
    }


def margins(error: NDArray[Any], budget: NDArray[Any]) -> dict[str, float | None]:
    """How many times its largest error a word's budget is: the nearest and the farthest word.

    Exact words are left out; where all are exact there are no figures.

    Parameters
    ----------
    error : (n, words) absolute errors.
    budget : (words,) their bounds.
    """
    largest = error.max(axis=0, initial=0.0)
    inexact = largest > FLOAT_NOISE
    ratios = (budget[inexact] / largest[inexact]).tolist()
    return {"min": min(ratios, default=None), "max": max(ratios, default=None)}


def margin_words(ratios: Mapping[str, float | None]) -> str | None:
    """The same in words, None without any error at all."""
    low, high = ratios["min"], ratios["max"]
    return None if low is None or high is None else f"{low:.2g} to {high:.2g}"
