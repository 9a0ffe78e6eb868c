"""Blocks of a function as arrays of the records that a card exchanges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import replace

from pinion.link import Array
from pinion.robot import Model

from .blocks import PARAMETERS, Block
from .row import Function
from .units import unit_for


def array_of(block: Block, model: Model, sent: Set[str], constants: Mapping[str, float]) -> Array:
    """Return a block as an array of the records, with its sent positions and its constants."""
    positions = block.positions(model)
    travels = tuple(position for word, position in positions.items() if word in sent)
    dims = block.dims(model)
    whole = len(travels) == math.prod(dims)
    return Array(
        name=block.name,
        shape=dims,
        unit=unit_for(block.unit, model),
        sent=None if whole else travels,
        constants=tuple((positions[w], v) for w, v in constants.items() if w in positions),
        symmetric=block.symmetric,
    )


def mapped_array(array: Array, row: Function, model: Model) -> Array:
    """Return an array, with its linear map added if it contains the function's parameters."""
    if array.name != PARAMETERS or not row.parameters:
        return array
    return replace(array, linear_map=row.parameter_map(model))
