"""Arrays of a function for a robot, and the robot's constraints on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.batch import InputError
from pinion.dynamics import DynamicsError
from pinion.dynamics.checks import UNIT_TOLERANCE, rotation_slices, unit_lengths
from pinion.link import Array
from pinion.robot import Model, coupled

from .blocks import Block, Quantity
from .units import unit_for


def arrays_of(blocks: Sequence[Block], model: Model) -> tuple[Array, ...]:
    """Return the arrays of a function's inputs or results for a robot, every element included."""
    return tuple(
        Array(name=b.name, shape=b.dims(model), unit=unit_for(b.unit, model)) for b in blocks
    )


Rotations = Mapping[str, Sequence[tuple[slice, str]]]
"""For inputs by name, slices of a sample that are vectors of unit length, and what each one is."""


def unit_vectors_of(blocks: Sequence[Block], model: Model) -> Rotations:
    """Return the slices of unit vectors in a function's position inputs, by input name."""
    slices = rotation_slices(coupled(model))
    return {b.name: slices for b in blocks if slices and b.sampling is Quantity.POSITION}


def check_rotations(
    rotations: Rotations, arrays: Mapping[str, NDArray[Any]], *, finite: bool = True
) -> None:
    """Raise `InputError` for quaternions and cosine-sine pairs that are not unit vectors.

    Parameters
    ----------
    arrays : by name, with the elements of a sample last.
    finite : False accepts those with a NaN or an infinity.

    Raises
    ------
    InputError
        If one is longer or shorter than 1 by more than 1e-6; the message has index and length.
    """
    for name, slices in rotations.items():
        for vector, noun in slices:
            x = np.asarray(arrays[name][..., vector], dtype=np.float64)
            # Cheaper than lengths, and slightly stricter.
            if (np.abs(np.einsum("...i,...i->...", x, x) - 1.0) <= 1.9 * UNIT_TOLERANCE).all():
                continue
            positions = np.asarray(arrays[name], dtype=np.float64)
            try:
                unit_lengths(name, positions, vector, noun, finite=finite)
            except DynamicsError as error:
                raise InputError(str(error)) from None
