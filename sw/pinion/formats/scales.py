"""Typical sizes of a graph's result blocks, to which errors are relative near zero."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pinion.base.arrays import Floats
from pinion.graph import Graph, Word, node_floats
from pinion.graph.ranges import chunks

# Digits of a scale: more would depend on the order of a graph's operations.
_DIGITS = 6


def result_blocks(graph: Graph) -> dict[str, list[int]]:
    """Return the positions of the result words of each block, by block name."""
    return blocks_of([word for word, _ in graph.outputs])


def blocks_of(words: Sequence[Word]) -> dict[str, list[int]]:
    """Return the positions of the words of each block, by block name."""
    blocks: dict[str, list[int]] = {}
    for position, word in enumerate(words):
        blocks.setdefault(word.block, []).append(position)
    return blocks


def block_scales(graph: Graph, states: Mapping[str, Floats]) -> dict[str, float]:
    """Return the RMS, over states, of each block's largest word, in the block's unit.

    Parameters
    ----------
    graph : in floats, with the results that are transmitted.
    states : a column (n,) for each input word.
    """
    blocks = result_blocks(graph)
    squares, count = dict.fromkeys(blocks, 0.0), 0
    with np.errstate(over="ignore", invalid="ignore"):  # of what grows without end
        for part in chunks(states):
            size = np.size(next(iter(part.values())))
            values = node_floats(graph, part)
            for name, words in blocks.items():
                largest = np.zeros(size)
                for word in words:
                    np.maximum(largest, np.abs(values[graph.outputs[word][1]]), out=largest)
                squares[name] += float(np.sum(np.square(largest)))
            count += size
    return {
        name: float(f"{math.sqrt(total / count):.{_DIGITS}g}") for name, total in squares.items()
    }
