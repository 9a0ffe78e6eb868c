"""What a URDF says for other programs that would change the dynamics, and is no part of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from xml.etree import ElementTree

from pinion.robot.escaping import one_line

_SHOWN = 4
"""Joints or links that a sentence names at most."""

_LONGEST = 60
"""Characters of a name or a figure that a sentence repeats."""

_ROTOR = "the inertia of a rotor"

_WHAT: Mapping[str, str] = MappingProxyType(
    {
        "rotorinertia": _ROTOR,
        "motorinertia": _ROTOR,
        "springstiffness": "the stiffness of a spring",
        "linearspringdamper": "a spring with a damper",
        "turngravityoff": "no gravity",
    }
)
"""By an element's name in small letters, without its prefix and underscores."""

_REMEDY: Mapping[str, str] = MappingProxyType(
    {
        _ROTOR: 'write <pinion rotor_inertia="..." gear_ratio="..."/> in the joint',
        "the stiffness of a spring": 'write <pinion stiffness="..."/> in the joint',
    }
)

_OFF = ("", "0", "0.0", "false")
"""Figures that say the same as no element."""


def left_out(robot: ElementTree.Element) -> list[str]:
    """A sentence on each kind of such elements inside ``<transmission>`` and ``<gazebo>``."""
    holders: dict[tuple[str, str], dict[str, None]] = {}
    for holder in (*robot.findall("transmission"), *robot.findall("gazebo")):
        for element in holder.iter():
            plain = element.tag.rpartition(":")[2].replace("_", "").lower()
            what = _WHAT.get(plain, "")
            if what and _figure(element) not in _OFF:
                names = holders.setdefault((holder.tag, what), {})
                names.update(dict.fromkeys(_holders(holder)))
    return [_sentence(tag, what, list(names)) for (tag, what), names in holders.items()]


def _figure(element: ElementTree.Element) -> str:
    """What an element says; of one with several figures inside, that it is there."""
    if len(element):
        return element.tag
    return element.get("value", element.text or "").strip().lower()


def _holders(element: ElementTree.Element) -> Iterator[str]:
    """The joints of a transmission, or what a ``<gazebo>`` refers to."""
    if element.tag == "gazebo":
        yield element.get("reference", "").strip()
        return
    joints = [joint.get("name", joint.text or "").strip() for joint in element.findall("joint")]
    yield from joints or [element.get("name", "").strip()]


def _sentence(tag: str, what: str, names: list[str]) -> str:
    shown = ", ".join(repr(one_line(name)[:_LONGEST]) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    remedy = f"; to count it {_REMEDY[what]}" if what in _REMEDY else ""
    return f"The <{tag}> of {shown}{more} has {what}, left out of the model{remedy}."
