"""Arrays of a function for a robot, and what else a robot asks of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.batch import InputError
from pinion.dynamics.checks import UNIT_TOLERANCE, DynamicsError, rotation_slices, unit_lengths
from pinion.link import Array
from pinion.robot import Model, coupled

from .blocks import Block, Quantity
from .units import unit_for


def arrays_of(blocks: Sequence[Block], model: Model) -> tuple[Array, ...]:
    """The arrays of a function's inputs or results for a robot, every element travelling."""
    return tuple(
        Array(name=b.name, shape=b.dims(model), unit=unit_for(b.unit, model)) for b in blocks
    )


Rotations = Mapping[str, Sequence[tuple[slice, str]]]
"""For inputs by name, where a sample holds vectors of unit length, and what each of them is."""


def rotations_of(blocks: Sequence[Block], model: Model) -> Rotations:
    """Where a function's inputs hold vectors of unit length for a robot: in its positions."""
    slices = rotation_slices(coupled(model))
    return {b.name: slices for b in blocks if slices and b.sampling is Quantity.POSITION}


def check_rotations(
    rotations: Rotations, arrays: Mapping[str, NDArray[Any]], *, finite: bool = True
) -> None:
    """Refuse quaternions, and planar joints' cosine and sine, that the float model refuses.

    Parameters
    ----------
    arrays : by name, with the elements of a sample last.
    finite : False lets those pass that hold a NaN or an infinity.

    Raises
    ------
    InputError
        One is longer or shorter than 1 by more than 1e-6; the message names index and length.
    """
    for name, slices in rotations.items():
        for vector, what in slices:
            x = np.asarray(arrays[name][..., vector], dtype=np.float64)
            # Cheaper than lengths, and a little narrower.
            if (np.abs(np.einsum("...i,...i->...", x, x) - 1.0) <= 1.9 * UNIT_TOLERANCE).all():
                continue
            positions = np.asarray(arrays[name], dtype=np.float64)
            try:
                unit_lengths(name, positions, vector, what, finite=finite)
            except DynamicsError as error:
                raise InputError(str(error)) from None
