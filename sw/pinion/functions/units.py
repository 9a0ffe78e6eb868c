"""Units of arrays for a robot: those of joints that turn, of joints that slide, or of both.

A row writes ``N m | N`` for "N m where the joint turns, N where it slides".
"""

from __future__ import annotations

from collections.abc import Iterable

from pinion.link import Array
from pinion.robot import Model
from pinion.robot.model import JointKind

_BAR = " | "


def unit_for(unit: str, model: Model) -> str:
    """A row's unit as it is for one robot: without the kind of joints that it has not."""
    turning, bar, sliding = unit.partition(_BAR)
    kinds = {body.joint.kind for body in model.bodies}
    if not bar or not kinds:
        return unit
    if all(kind.unit == JointKind.REVOLUTE.unit for kind in kinds):
        return turning
    return sliding if kinds == {JointKind.PRISMATIC} else unit


def mixed_units_sentence(arrays: Iterable[Array]) -> str:
    """What two units of an array mean; empty where none has two.

    Parameters
    ----------
    arrays : with units as `unit_for` gives them.
    """
    mixed = [array for array in arrays if _BAR in array.unit]
    if not mixed:
        return ""
    said = "Of two units the first is of joints that turn, the second of joints that slide."
    if any(len(array.shape) > 1 for array in mixed):
        said += (
            " An element of a matrix for one joint of each kind has the quantity of its row by "
            "that of its column: a derivative of efforts by positions is in N/rad where the row "
            "slides and the column turns, in N m/m where it is the other way round."
        )
    return said
