"""Units that depend on the joint type: ``N m | N`` is N m for rotation and N for translation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pinion.link import Array

BAR = " | "

BETWEEN: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "N m/rad | N/m": ("N/rad", "N m/m"),
        "N m s/rad | N s/m": ("N s/rad", "N m s/m"),
        "kg m^2 | kg": ("kg m", "kg m"),
        "1/(kg m^2) | 1/kg": ("1/(kg m)", "1/(kg m)"),
        "1/s^2": ("m/(rad s^2)", "rad/(m s^2)"),
        "1/s": ("m/(rad s)", "rad/(m s)"),
        "1, s; 1/s, 1": ("m/rad, m s/rad; m/(rad s), m/rad", "rad/m, rad s/m; rad/(m s), rad/m"),
        "rad/(N m), rad/(N m s) | m/N, m/(N s)": ("m/(N m), m/(N m s)", "rad/N, rad/(N s)"),
    }
)
"""Units of a matrix's elements between two kinds of joints, by the unit that the row writes: for a
joint that translates in the row and one that rotates in the column, and the reverse. (The
row's unit is for two joints of the same kind.)"""


def mixed_units_sentence(arrays: Iterable[Array]) -> str:
    """Return an explanation of arrays with two units, or an empty string if there are none.

    Parameters
    ----------
    arrays : all inputs and results of a function, with units for a robot
        (:func:`pinion.functions.unit_for`).

    Returns
    -------
    Sentences; empty if no array has two units, because the robot's joints are of one kind.
    """
    arrays = list(arrays)
    if not any(BAR in array.unit for array in arrays):
        return ""
    text = "Of two units the first is for joints that rotate, the second for joints that translate."
    names: dict[tuple[str, str], list[str]] = {}
    for array in arrays:
        if len(array.shape) == 2 and array.unit in BETWEEN:
            names.setdefault(BETWEEN[array.unit], []).append(array.name)
    for (sliding_row, turning_row), those in names.items():
        words = " and ".join([", ".join(those[:-1])] * (len(those) > 1) + those[-1:])
        text += f" An element of {words} between the two kinds is in {sliding_row}"
        if sliding_row != turning_row:
            text += f" if its row's joint translates and in {turning_row} if its column's does"
        text += "."
    return text
