"""Reading of a URDF's text, with checks of its size and XML and for unexpanded xacro."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree
from xml.parsers import expat

from pinion.robot.errors import RobotError
from pinion.robot.naming import visible

LARGEST_FILE = 64 << 20
"""Largest file size that is read [bytes]; robots' files have a few hundred thousand."""

_READ: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "link": ("inertial",),
        "inertial": ("origin", "mass", "inertia", "pinion"),
        "fixed joint": ("origin", "parent", "child"),
        "joint": ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "pinion"),
    }
)
"""Elements that are read inside another one, once each; nothing else in a file is checked."""

_ENDS = ("parent", "child")
"""Elements that a joint has once: a second one may be meant for a loop, which no tree has."""

_DEFINITIONS = ("xacro:property", "xacro:macro", "xacro:arg")
"""Elements of xacro that add nothing to a robot."""

_LATE_DECLARATION = re.compile(rb"(\xef\xbb\xbf)?([ \t\r\n]+)(<\?xml[^>]*\?>)")
"""White space before the XML declaration, which other URDF readers skip."""


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a robot's file, at most :data:`LARGEST_FILE` bytes.

    Errors
    ------
    RobotError : the file is missing, not regular (a directory, a pipe, a device), larger than
        ``LARGEST_FILE``, or unreadable.
    """
    name = os.fspath(path)
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None
    if stat.S_ISDIR(status.st_mode):
        raise RobotError(f"{name!r} is a directory; give the path of a URDF file inside it.")
    # Opening a pipe waits for its other end, and a device may never end.
    if not stat.S_ISREG(status.st_mode):
        raise RobotError(
            f"{name!r} is {_kind(status.st_mode)}, not a regular file; "
            "write the robot to a file and give its path."
        )
    if status.st_size > LARGEST_FILE:
        raise RobotError(
            f"The file {name!r} is {status.st_size} bytes long, more than the {LARGEST_FILE} "
            "allowed for a robot file; give the path of a URDF file."
        )
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: Exception) -> RobotError:
    if isinstance(error, FileNotFoundError):
        return RobotError(f"There is no file {name!r}; give the path of a URDF file.")
    reason = getattr(error, "strerror", None) or str(error)
    return RobotError(
        f"The file {name!r} cannot be read ({reason}); give a URDF file that you may read."
    )


def robot_element(text: str | bytes, *, source: str) -> tuple[ElementTree.Element, list[str]]:
    """Return the ``<robot>`` of a URDF's text, and sentences on repeated elements that are ignored.

    Tags keep their prefixes, declared or not: URDF readers ignore namespaces.

    Errors
    ------
    RobotError : not XML, not a robot, unexpanded xacro in an element that is read, or a joint with
        two parents or children.
    """
    try:
        root = _element(text)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise RobotError(
            f"{source!r} cannot be read as XML ({error}); correct it: a URDF is an XML file whose "
            "root element is <robot>."
        ) from None
    if root.tag != "robot":
        raise RobotError(
            f"{source!r} is not a URDF: its root element is <{root.tag}>, not <robot>."
        )
    _check_expanded(root, source)
    return root, _repeated(root)


def root_tag(data: bytes) -> str:
    """Return the tag of the root element; "" if an error comes before it."""
    tags: list[str] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, _: tags.append(tag)
    with suppress(expat.ExpatError, ValueError, LookupError):
        parser.Parse(_declared_first(data), True)
    return tags[0] if tags else ""


def _element(text: str | bytes) -> ElementTree.Element:
    """Return the root element from a parser without namespaces, so prefixes need no declaration."""
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate("utf-8" if isinstance(text, str) else None)
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.DefaultHandlerExpand = _refuse_entity
    parser.NotStandaloneHandler = _refuse_declarations
    parser.Parse(_declared_first(text.encode() if isinstance(text, str) else text), True)
    return builder.close()


def _refuse_entity(text: str) -> None:
    """Raise `ValueError` for an undefined entity, which is neither fetched nor dropped."""
    if text.startswith("&"):
        raise ValueError(f"undefined entity {text}")


def _refuse_declarations() -> int:
    """Raise `ValueError` for an external DTD: Expat would drop its entities in attributes."""
    raise ValueError("its DOCTYPE refers to external declarations, which are not read")


def _declared_first(data: bytes) -> bytes:
    """Move the XML declaration to the front, without changing line numbers."""
    return _LATE_DECLARATION.sub(rb"\3\2", data) if _LATE_DECLARATION.match(data) else data


def name_of(element: ElementTree.Element, kind: str, number: int) -> str:
    """Return the name of the link or joint with this number in the file, counted from 0.

    Errors
    ------
    RobotError : no name, or one with control characters.
    """
    name = (text_of(element, "name", f"<{kind}> number {number + 1}") or "").strip()
    if not name:
        raise RobotError(
            f"<{kind}> number {number + 1} of the file has no name; give it a name attribute."
        )
    return visible(name, kind)


def text_of(element: ElementTree.Element, key: str, where: str) -> str | None:
    """Return an attribute's text, None if it is missing.

    Errors
    ------
    RobotError : it contains a xacro expression.
    """
    text = element.get(key)
    if text is not None and ("${" in text or "$(" in text):
        content = f"the xacro expression {text[:80]!r} in its <{element.tag}>"
        raise _unexpanded(where, content)
    return text


def _check_expanded(root: ElementTree.Element, source: str) -> None:
    """Raise `RobotError` for xacro elements in places where URDF elements are read."""
    holders = [root, *root.findall("link"), *root.findall("joint"), *root.findall("link/inertial")]
    for element in (child for holder in holders for child in holder):
        if element.tag.startswith("xacro:") and element.tag not in _DEFINITIONS:
            raise _unexpanded(repr(source), f"the xacro element <{element.tag}>")
    if root.find("link") is None:
        for element in root:
            if element.tag in _DEFINITIONS:
                raise _unexpanded(repr(source), f"no links, but <{element.tag}>")


def _unexpanded(where: str, content: str) -> RobotError:
    return RobotError(
        f"{where[:1].upper()}{where[1:]} contains {content}; expand the file first, with "
        "'xacro FILE > OUT.urdf', and load the result."
    )


def _repeated(root: ElementTree.Element) -> list[str]:
    """Return a sentence on each element whose repeats are ignored; raise for a parent or child."""
    notes = []
    for category, number, element in _numbered(root):
        kind = "fixed joint" if element.get("type") == "fixed" else category
        inertial = element.find("inertial") if category == "link" else None
        holders = [(kind, "", element), ("inertial", "<inertial> of the ", inertial)]
        for holder_kind, inside, holder in holders:
            for tag in _READ[holder_kind]:
                count = 0 if holder is None else len(holder.findall(tag))
                if count < 2:
                    continue
                name = name_of(element, category, number)
                text = f"The {inside}{category} {name!r} has {count} <{tag}>"
                if tag in _ENDS:
                    raise RobotError(f"{text} elements; keep one.")
                notes.append(f"{text} elements: only the first is used.")
    return notes


def _numbered(root: ElementTree.Element) -> Iterator[tuple[str, int, ElementTree.Element]]:
    for tag in ("link", "joint"):
        for number, element in enumerate(root.findall(tag)):
            yield tag, number, element


def _kind(mode: int) -> str:
    for test, kind in (
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if test(mode):
            return kind
    return "a special file"
