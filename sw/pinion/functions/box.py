"""The box of a distribution's requests: smallest and largest value of each input word."""

from __future__ import annotations

import numpy as np

from pinion.base.arrays import Floats
from pinion.dynamics.checks import rotation_slices
from pinion.robot import Model, coupled

from .blocks import Block, Quantity, Table, Uniform
from .built import BuiltFunction
from .errors import FunctionError
from .row import Function
from .samples import (
    DISTRIBUTIONS,
    QDD_RANGE,
    force_ends,
    parameter_ends,
    position_limits,
    rate_share,
    velocity_limits,
)

Box = dict[str, tuple[float, float]]


def request_box(model: Model, function: Function | BuiltFunction, distribution: str) -> Box:
    """Return bounds of each input word, in its unit, for all requests of a distribution.

    Bounds are float32 numbers, like requests, just outside the range of the draws.

    Raises
    ------
    FunctionError
        For an unknown distribution, or an input that is not a position, velocity, acceleration or
        external force and is not sampled between bounds: its range follows from the others.
    """
    if distribution not in DISTRIBUTIONS:
        raise FunctionError(
            f"There is no distribution '{distribution}'; choose one of {', '.join(DISTRIBUTIONS)}."
        )
    model = coupled(model)
    box: Box = {}
    for block in function.inputs:
        box |= _block_box(model, function, block, distribution)
    return box


def parameter_box(model: Model, function: Function | BuiltFunction) -> Box:
    """Return the bounds of each word of a function's parameters, as `request_box` does."""
    if not function.parameters:
        return {}
    return _block_box(coupled(model), function, function.inputs[-1], "reference")


def _block_box(
    model: Model, function: Function | BuiltFunction, block: Block, distribution: str
) -> Box:
    low, high = _ends(model, function, block, distribution)
    shape = (block.dims(model), np.float32)
    below = np.nextafter(np.broadcast_to(low, shape[0]).astype(shape[1]), np.float32(-np.inf))
    above = np.nextafter(np.broadcast_to(high, shape[0]).astype(shape[1]), np.float32(np.inf))
    flat = below.ravel(), above.ravel()
    return {
        str(word): (float(flat[0][k]), float(flat[1][k]))
        for word, k in block.positions(model).items()
    }


def _ends(
    model: Model, function: Function | BuiltFunction, block: Block, distribution: str
) -> tuple[Floats | float, Floats | float]:
    scale = 2.0 if distribution == "beyond" else 1.0
    share = rate_share(distribution)
    match block.sampling:
        case Quantity.POSITION:
            low, high = (scale * end for end in position_limits(model))
            for joint_slice, _ in rotation_slices(model):
                low[joint_slice], high[joint_slice] = -1.0, 1.0
            return low, high
        case Quantity.VELOCITY:
            speed = velocity_limits(model, distribution)
            if "friction" in function.joint_terms:
                # Low rates are drawn from a separate range, which calm states scale down.
                speed = np.maximum(speed, 2.0 * function.friction_width * min(share, 1.0))
            return -speed, speed
        case Quantity.ACCELERATION:
            return -share * QDD_RANGE, share * QDD_RANGE
        case Quantity.PARAMETER:
            return parameter_ends(model, function)
        case Quantity.CONTACT_MASK:
            return 0.0, 1.0
        case Quantity.EXTERNAL_FORCE:
            force = share * force_ends(model)
            return -force, force
        case Uniform(low=start, high=end):
            middle, half = (start + end) / 2, scale * (end - start) / 2
            return middle - half, middle + half
        case Table(values=rows):
            dims = block.dims(model)
            values = scale * np.asarray(rows)
            return values.min(axis=0).reshape(dims), values.max(axis=0).reshape(dims)
    raise FunctionError(
        f"The input '{block.name}' of '{function.name}' has no bounds of its own: its range "
        "follows from the robot's state. Error bounds need a function of positions, velocities, "
        "accelerations and inputs sampled between bounds, such as rnea and rnea_derivatives; "
        f"verify {function.name} without bound=True (--bound)."
    )
