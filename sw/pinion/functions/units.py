"""Units of arrays for a robot, depending on whether its joints are revolute or prismatic.

A row writes ``N m | N`` for "N m if the joint turns, N if it slides".
"""

from __future__ import annotations

from pinion.batch.units import BAR
from pinion.robot import JointKind, Model


def unit_for(unit: str, model: Model) -> str:
    """Return a row's unit for one robot, without the unit of joints that it does not have."""
    turning, bar, sliding = unit.partition(BAR)
    kinds = {body.joint.kind for body in model.bodies}
    if not bar or not kinds:
        return unit
    if all(kind.unit == JointKind.REVOLUTE.unit for kind in kinds):
        return turning
    return sliding if kinds == {JointKind.PRISMATIC} else unit
