"""Options of a row that is requested by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class RowOptions(TypedDict, total=False):
    """Options of a row, as :func:`pinion.functions.named_function` takes them.

    Members
    -------
    derivatives : ``composite`` or ``column``, for functions that contain a gradient.
    outputs : optional results to add: names, or one text with commas.
    joint_terms : names of ``damping``, ``friction`` and ``stiffness``; True for all.
    friction_width : rate within which friction changes sign smoothly [rad/s | m/s].
    """

    derivatives: str
    outputs: Sequence[str]
    joint_terms: bool | Sequence[str]
    friction_width: float
