"""The text of a URDF: a file of sensible size, well-formed XML, expanded, nothing said twice."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree

from pinion.robot.errors import RobotError
from pinion.robot.naming import visible

LARGEST_FILE = 64 << 20
"""Bytes of the largest file that is read; robots' files have a few hundred thousand."""

_ONCE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "link": ("inertial",),
        "inertial": ("origin", "mass", "inertia", "pinion"),
        "joint": (
            *("origin", "parent", "child", "axis", "limit", "dynamics", "mimic"),
            *("calibration", "safety_controller", "pinion"),
        ),
    }
)
"""Elements that another may hold once: with two, readers disagree on which of them counts."""


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


def robot_element(text: str | bytes, *, source: str) -> ElementTree.Element:
    """The ``<robot>`` of a URDF's text; ``source`` stands for it in messages.

    Errors
    ------
    RobotError : not XML, not a robot, xacro that nobody expanded, or an element repeated where
        one is allowed.
    """
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raw = text.encode(errors="replace") if isinstance(text, str) else text
        if "unbound prefix" in str(error) and b"<xacro:" in raw:
            raise _unexpanded(source, "elements with the prefix 'xacro:'") from None
        raise RobotError(
            f"{source!r} is not XML, or not all of it ({error}); correct it there: a URDF is an "
            "XML file whose root is <robot>."
        ) from None
    if root.tag != "robot":
        raise RobotError(
            f"{source!r} is not a robot: its root element is <{root.tag}>, a URDF's is <robot>."
        )
    _check_expanded(root, source)
    _check_single(root)
    return root


def name_of(element: ElementTree.Element, what: str, number: int) -> str:
    """The name of the link or joint with this number in the file, from 0.

    Errors
    ------
    RobotError : no name, or one with control characters.
    """
    name = element.get("name", "").strip()
    if not name:
        raise RobotError(
            f"<{what}> number {number + 1} of the file has no name; give it a name attribute."
        )
    return visible(name, what)


def _check_expanded(root: ElementTree.Element, source: str) -> None:
    for element in root.iter():
        tag = str(element.tag)
        if "xacro" in tag:
            plain = tag.rpartition("}")[2].removeprefix("xacro:")  # without its namespace's address
            raise _unexpanded(source, f"the xacro element <xacro:{plain}>")
        found = [value for value in element.attrib.values() if "${" in value]
        if element.text and "${" in element.text:
            found.append(" ".join(element.text.split()))
        if found:
            raise _unexpanded(source, f"the xacro expression {found[0][:80]!r} in its <{tag}>")


def _unexpanded(source: str, what: str) -> RobotError:
    return RobotError(
        f"{source!r} holds {what}; expand the file first, with 'xacro FILE > OUT.urdf', and "
        "give what that writes."
    )


def _check_single(root: ElementTree.Element) -> None:
    for what in ("link", "joint"):
        for number, element in enumerate(root.findall(what)):
            for holder in (element, *element.findall("inertial")):
                for tag in _ONCE[holder.tag]:
                    count = len(holder.findall(tag))
                    if count > 1:
                        inside = "" if holder is element else "<inertial> of the "
                        raise RobotError(
                            f"The {inside}{what} {name_of(element, what, number)!r} has {count} "
                            f"<{tag}> elements; keep one."
                        )


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
