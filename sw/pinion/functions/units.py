"""Units of arrays for a robot: those of joints that turn, of joints that slide, or of both.

A row writes ``N m | N`` for "N m where the joint turns, N where it slides".
"""

from __future__ import annotations

from pinion.batch.units import BAR
from pinion.robot import Model
from pinion.robot.model import JointKind


def unit_for(unit: str, model: Model) -> str:
    """A row's unit as it is for one robot: without the kind of joints that it has not."""
    turning, bar, sliding = unit.partition(BAR)
    kinds = {body.joint.kind for body in model.bodies}
    if not bar or not kinds:
        return unit
    if all(kind.unit == JointKind.REVOLUTE.unit for kind in kinds):
        return turning
    return sliding if kinds == {JointKind.PRISMATIC} else unit
