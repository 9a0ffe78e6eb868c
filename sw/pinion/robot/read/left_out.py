"""URDF elements that affect dynamics in other programs but are not part of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from xml.etree import ElementTree

from pinion.base.amounts import decimal
from pinion.base.escaping import one_line

_SHOWN = 4
"""Largest number of joints or links in a sentence."""

_LONGEST = 60
"""Largest number of characters of a repeated name or figure."""

_ROTOR = "the inertia of a rotor"
_SPRING = "the stiffness of a spring"
_LOOP = "a joint that closes a loop"

_WHAT: Mapping[str, str] = MappingProxyType(
    {
        "rotorinertia": _ROTOR,
        "motorinertia": _ROTOR,
        "springstiffness": _SPRING,
        "dampingfactor": "a decay of its velocity",
        "turngravityoff": "no gravity",
    }
)
"""Meanings by an element's name in lower case, without its prefix and underscores."""

_OF_ROBOT: Mapping[str, str] = MappingProxyType(
    {"loop_joint": _LOOP, "drake:linear_spring_damper": "a spring with a damper"}
)
"""Elements of the robot itself."""

_REMEDY: Mapping[str, str] = MappingProxyType(
    {
        _ROTOR: 'write <pinion rotor_inertia="..." gear_ratio="..."/> in the joint',
        _SPRING: 'write <pinion stiffness="..." rest="..."/> in the joint',
    }
)

_COUNTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {_ROTOR: ("armature", "rotor_inertia"), _SPRING: ("stiffness",)}
)
"""Attributes of a joint's ``<pinion>`` that put it into the model."""


def left_out(robot: ElementTree.Element) -> list[str]:
    """Return a sentence on each kind of element in the file that the model leaves out."""
    holders: dict[tuple[str, str], dict[str, None]] = {}
    pinion_keys = {
        joint.get("name", "").strip(): {
            key for each in joint.findall("pinion")[:1] for key in each.attrib
        }
        for joint in robot.findall("joint")
    }
    for tag, meaning, holding in _elements(robot):
        keys = _COUNTED.get(meaning, ())
        names = [name for name in holding if pinion_keys.get(name, set()).isdisjoint(keys)]
        if names:
            holders.setdefault((tag, meaning), {}).update(dict.fromkeys(names))
    return [_sentence(tag, meaning, list(names)) for (tag, meaning), names in holders.items()]


def _elements(robot: ElementTree.Element) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the parent's tag, the meaning, and the joints or links of each ignored element."""
    for holder in (*robot.findall("transmission"), *robot.findall("gazebo")):
        for element in holder.iter():
            meaning = _WHAT.get(element.tag.rpartition(":")[2].replace("_", "").lower(), "")
            if meaning and _says(element):
                yield holder.tag, meaning, list(_holders(holder))
    for joint in robot.findall("gazebo/joint"):
        yield "gazebo", _LOOP, [joint.get("name", "").strip()]
    for tag, meaning in _OF_ROBOT.items():
        for element in robot.findall(tag):
            yield tag, meaning, [element.get("name", "").strip()]


def _says(element: ElementTree.Element) -> bool:
    """Return whether an element has children, or a value other than zero or false."""
    text = element.get("value", element.text or "").strip().lower()
    return bool(len(element)) or not (text in ("", "false") or decimal(text) == 0.0)


def _holders(element: ElementTree.Element) -> Iterator[str]:
    """Yield the joints of a transmission, or the reference of a ``<gazebo>``."""
    if element.tag == "gazebo":
        yield element.get("reference", "").strip()
        return
    joints = [joint.get("name", joint.text or "").strip() for joint in element.findall("joint")]
    yield from joints or [element.get("name", "").strip()]


def _sentence(tag: str, meaning: str, holders: list[str]) -> str:
    names = [name for name in holders if name]
    listed = ", ".join(repr(one_line(name)[:_LONGEST]) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    preposition = "" if tag in _OF_ROBOT else "of "
    subject = f"The <{tag}> {preposition}{listed}{more}" if names else f"A <{tag}>"
    if tag in _OF_ROBOT:
        return f"{subject} is {meaning}, left out of the model."
    remedy = f"; to include it, {_REMEDY[meaning]}" if meaning in _REMEDY else ""
    return f"{subject} has {meaning}, left out of the model{remedy}."
