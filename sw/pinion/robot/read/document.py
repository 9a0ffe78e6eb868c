"""The text of a URDF: a file of sensible size, well-formed XML, expanded where it is read."""

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
"""Bytes of the largest file that is read; robots' files have a few hundred thousand."""

_READ: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "link": ("inertial",),
        "inertial": ("origin", "mass", "inertia", "pinion"),
        "fixed joint": ("origin", "parent", "child"),
        "joint": ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "pinion"),
    }
)
"""What is read inside another element, once each; nothing else of a file is judged."""

_ENDS = ("parent", "child")
"""A joint that names two of them may be meant for a loop, which no tree has."""

_DEFINITIONS = ("xacro:property", "xacro:macro", "xacro:arg")
"""Elements of xacro that add nothing to a robot by themselves."""

_LATE_DECLARATION = re.compile(rb"(\xef\xbb\xbf)?([ \t\r\n]+)(<\?xml[^>]*\?>)")
"""White space before the XML declaration, which other readers of robots skip."""


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a robot's file.

    Errors
    ------
    RobotError : the file is missing, no regular file (a directory, a pipe, a device), larger than
        ``LARGEST_FILE``, or cannot be read.
    """
    shown = os.fspath(path)
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        raise _unreadable(shown, error) from None
    if stat.S_ISDIR(found.st_mode):
        raise RobotError(f"{shown!r} is a directory; give the path of a URDF file inside it.")
    # Opening a pipe waits for its other end, and a device may never end.
    if not stat.S_ISREG(found.st_mode):
        raise RobotError(
            f"{shown!r} is {_kind(found.st_mode)}, not a regular file; "
            "write the robot to a file and give its path."
        )
    if found.st_size > LARGEST_FILE:
        raise RobotError(
            f"The file {shown!r} has {found.st_size} bytes, more than the {LARGEST_FILE} that "
            "a robot's file may have; give the path of a URDF file."
        )
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise _unreadable(shown, error) from None


def _unreadable(shown: str, error: Exception) -> RobotError:
    if isinstance(error, FileNotFoundError):
        return RobotError(f"There is no file {shown!r}; give the path of a URDF file.")
    reason = getattr(error, "strerror", None) or str(error)
    return RobotError(
        f"The file {shown!r} cannot be read ({reason}); give a URDF file that you may read."
    )


def robot_element(text: str | bytes, *, source: str) -> tuple[ElementTree.Element, list[str]]:
    """The ``<robot>`` of a URDF's text, and a sentence on each repeated element that is not read.

    Tags keep their prefixes, declared or not: namespaces mean nothing to a URDF's readers.

    Errors
    ------
    RobotError : not XML, not a robot, xacro that nobody expanded where something is read, or a
        joint with two parents or children.
    """
    try:
        root = _element(text)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise RobotError(
            f"{source!r} is not XML, or not all of it ({error}); correct it there: a URDF is an "
            "XML file whose root is <robot>."
        ) from None
    if root.tag != "robot":
        raise RobotError(
            f"{source!r} is not a robot: its root element is <{root.tag}>, a URDF's is <robot>."
        )
    _check_expanded(root, source)
    return root, _repeated(root)


def root_tag(data: bytes) -> str:
    """The tag of the root element; "" where there is none before an error."""
    tags: list[str] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, _: tags.append(tag)
    with suppress(expat.ExpatError, ValueError, LookupError):
        parser.Parse(_declared_first(data), True)
    return tags[0] if tags else ""


def _element(text: str | bytes) -> ElementTree.Element:
    """The root element, by a parser without namespaces, so that no prefix has to be declared."""
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
    """Raise for an entity that the file does not define itself: none is fetched, none is lost."""
    if text.startswith("&"):
        raise ValueError(f"undefined entity {text}")


def _refuse_declarations() -> int:
    """Raise for a DTD elsewhere: it may define entities, which Expat would drop in attributes."""
    raise ValueError("its DOCTYPE takes declarations from elsewhere, which are not read")


def _declared_first(data: bytes) -> bytes:
    """The text with its declaration first and as many lines before each place as there were."""
    return _LATE_DECLARATION.sub(rb"\3\2", data) if _LATE_DECLARATION.match(data) else data


def name_of(element: ElementTree.Element, what: str, number: int) -> str:
    """The name of the link or joint with this number in the file, from 0.

    Errors
    ------
    RobotError : no name, or one with control characters.
    """
    name = (text_of(element, "name", f"<{what}> number {number + 1}") or "").strip()
    if not name:
        raise RobotError(
            f"<{what}> number {number + 1} of the file has no name; give it a name attribute."
        )
    return visible(name, what)


def text_of(element: ElementTree.Element, key: str, where: str) -> str | None:
    """An attribute as it is written; None where there is none.

    Errors
    ------
    RobotError : it holds a xacro expression.
    """
    text = element.get(key)
    if text is not None and ("${" in text or "$(" in text):
        what = f"the xacro expression {text[:80]!r} in its <{element.tag}>"
        raise _unexpanded(where, what)
    return text


def _check_expanded(root: ElementTree.Element, source: str) -> None:
    """Raise for elements of xacro in the place of what is read."""
    holders = [root, *root.findall("link"), *root.findall("joint"), *root.findall("link/inertial")]
    for element in (child for holder in holders for child in holder):
        if element.tag.startswith("xacro:") and element.tag not in _DEFINITIONS:
            raise _unexpanded(repr(source), f"the xacro element <{element.tag}>")
    if root.find("link") is None:
        for element in root:
            if element.tag in _DEFINITIONS:
                raise _unexpanded(repr(source), f"no links, but <{element.tag}>")


def _unexpanded(where: str, what: str) -> RobotError:
    return RobotError(
        f"{where[:1].upper()}{where[1:]} holds {what}; expand the file first, with "
        "'xacro FILE > OUT.urdf', and give what that writes."
    )


def _repeated(root: ElementTree.Element) -> list[str]:
    """A sentence on each element that stands twice where one is read: the first counts."""
    notes = []
    for what, number, element in _numbered(root):
        kind = "fixed joint" if element.get("type") == "fixed" else what
        inertial = element.find("inertial") if what == "link" else None
        holders = [(kind, "", element), ("inertial", "<inertial> of the ", inertial)]
        for holder_kind, inside, holder in holders:
            for tag in _READ[holder_kind]:
                count = 0 if holder is None else len(holder.findall(tag))
                if count < 2:
                    continue
                text = f"The {inside}{what} {name_of(element, what, number)!r} has {count} <{tag}>"
                if tag in _ENDS:
                    raise RobotError(f"{text} elements; keep one.")
                notes.append(f"{text} elements: the first counts.")
    return notes


def _numbered(root: ElementTree.Element) -> Iterator[tuple[str, int, ElementTree.Element]]:
    for what in ("link", "joint"):
        for number, element in enumerate(root.findall(what)):
            yield what, number, element


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
