"""What a URDF says for other programs that would change the dynamics, and is no part of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from xml.etree import ElementTree

from pinion.base.amounts import decimal
from pinion.base.escaping import one_line

_SHOWN = 4
"""Joints or links that a sentence names at most."""

_LONGEST = 60
"""Characters of a name or a figure that a sentence repeats."""

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
"""By an element's name in small letters, without its prefix and underscores."""

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
"""Attributes of a joint's ``<pinion>`` that say it in the model."""


def left_out(robot: ElementTree.Element) -> list[str]:
    """A sentence on each kind of such elements: inside ``<transmission>`` and ``<gazebo>``, and
    those of the robot itself.
    """
    holders: dict[tuple[str, str], dict[str, None]] = {}
    own = {
        joint.get("name", "").strip(): {
            key for each in joint.findall("pinion")[:1] for key in each.attrib
        }
        for joint in robot.findall("joint")
    }
    for tag, what, holding in _elements(robot):
        keys = _COUNTED.get(what, ())
        names = [name for name in holding if own.get(name, set()).isdisjoint(keys)]
        if names:
            holders.setdefault((tag, what), {}).update(dict.fromkeys(names))
    return [_sentence(tag, what, list(names)) for (tag, what), names in holders.items()]


def _elements(robot: ElementTree.Element) -> Iterator[tuple[str, str, list[str]]]:
    """Of each element its holder's tag, what it says, and of which joints or links."""
    for holder in (*robot.findall("transmission"), *robot.findall("gazebo")):
        for element in holder.iter():
            what = _WHAT.get(element.tag.rpartition(":")[2].replace("_", "").lower(), "")
            if what and _says(element):
                yield holder.tag, what, list(_holders(holder))
    for joint in robot.findall("gazebo/joint"):
        yield "gazebo", _LOOP, [joint.get("name", "").strip()]
    for tag, what in _OF_ROBOT.items():
        for element in robot.findall(tag):
            yield tag, what, [element.get("name", "").strip()]


def _says(element: ElementTree.Element) -> bool:
    """Whether an element says anything else than its absence: some figures inside, or its own."""
    text = element.get("value", element.text or "").strip().lower()
    return bool(len(element)) or not (text in ("", "false") or decimal(text) == 0.0)


def _holders(element: ElementTree.Element) -> Iterator[str]:
    """The joints of a transmission, or what a ``<gazebo>`` refers to."""
    if element.tag == "gazebo":
        yield element.get("reference", "").strip()
        return
    joints = [joint.get("name", joint.text or "").strip() for joint in element.findall("joint")]
    yield from joints or [element.get("name", "").strip()]


def _sentence(tag: str, what: str, holders: list[str]) -> str:
    names = [name for name in holders if name]
    shown = ", ".join(repr(one_line(name)[:_LONGEST]) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    of = "" if tag in _OF_ROBOT else "of "
    subject = f"The <{tag}> {of}{shown}{more}" if names else f"A <{tag}>"
    if tag in _OF_ROBOT:
        return f"{subject} is {what}, left out of the model."
    remedy = f"; to count it {_REMEDY[what]}" if what in _REMEDY else ""
    return f"{subject} has {what}, left out of the model{remedy}."
