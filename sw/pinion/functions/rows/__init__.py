"""Rows of the table of functions by subject."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pinion.functions.row import Function

from . import (
    centroidal,
    contact,
    dynamics,
    energy,
    external,
    identification,
    kinematics,
    operational,
    second_order,
    simulation,
)

__all__ = ["SUBJECTS"]

SUBJECTS: Mapping[str, tuple[Function, ...]] = MappingProxyType(
    {
        "dynamics": dynamics.ROWS,
        "external forces": external.ROWS,
        "kinematics": kinematics.ROWS,
        "energy and terms": energy.ROWS,
        "operational space": operational.ROWS,
        "simulation": simulation.ROWS,
        "second order": second_order.ROWS,
        "identification": identification.ROWS,
        "centroidal": centroidal.ROWS,
        "contact": contact.ROWS,
    }
)
"""The rows of each subject, in the order of the command line's help."""
