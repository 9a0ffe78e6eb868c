"""Messages that users meet most, produced by the situations that lead to them."""

from __future__ import annotations

import contextlib
import html
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pinion.api as pinion
from pinion import dynamics
from pinion.compute import cpu
from pinion.driver import open as open_device
from pinion.fixedpoint import Format
from pinion.link import Manifest

BARE = """<robot name="arm"><link name="base"/><link name="rod"/>
<joint name="swing" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" velocity="5" effort="10"/></joint></robot>"""

HEAVY = BARE.replace(
    '<link name="rod"/>',
    '<link name="rod"><inertial><mass value="1"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1"'
    ' iyz="0" izz="0.5"/></inertial></link>',
)

LOOSE = BARE.replace(
    "</robot>",
    '<link name="tool"><inertial><mass value="1"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1"'
    ' iyz="0" izz="0.1"/></inertial></link><joint name="twist" type="continuous">'
    '<parent link="base"/><child link="tool"/></joint></robot>',
)


def _loaded(text: str) -> Any:
    Path("arm.urdf").write_text(text, encoding="utf-8")
    return pinion.load("arm.urdf")


def _rnea(*arrays: Any, **named: Any) -> Any:
    return pinion.backend("two_link", "rnea", device="float")(*arrays, **named)


def _branching() -> Any:
    @pinion.function(
        inputs={"x": pinion.array(sampling=pinion.uniform(-1.0, 1.0))},
        outputs={"y": pinion.array()},
    )
    def branching(x: Any) -> Any:
        """Absolute value, with an `if`."""
        return x if x > 0.0 else -x

    return pinion.backend(None, branching, device="cpu")


def _cut() -> Any:
    Path("build").mkdir()
    Path("build/manifest.json").write_text('{"version": ', encoding="utf-8")
    return Manifest.read(Path("build"))


TWO = ([0.0, 0.0], [0.0, 0.0])

SITUATIONS: dict[str, dict[str, Callable[[], Any]]] = {
    "Robots": {
        "a missing file": lambda: pinion.load("arm.urdf"),
        "a name that is neither built in nor a file": lambda: pinion.load("iiwa15"),
        "a moving link without mass, among others with mass": lambda: _loaded(LOOSE),
        "dynamics of a robot without moving mass": lambda: dynamics.crba(_loaded(BARE), [0.0]),
        "an inertia that no body can have": lambda: _loaded(HEAVY),
        "an unknown joint to lock": lambda: pinion.load("two_link", lock={"elbow": 0.3}),
        "an unknown link to keep": lambda: pinion.load("iiwa14", tip="hand"),
        "a robot with several ends, and no tip": lambda: pinion.backend(
            "hyq", "frame_jacobian", device="float"
        )([0.0] * 12),
    },
    "Functions and arrays": {
        "an unknown function": lambda: pinion.backend("two_link", "rne", device="float"),
        "a missing array": lambda: _rnea(*TWO),
        "one array too many": lambda: _rnea(*TWO, *TWO),
        "an array of another robot": lambda: _rnea(*TWO, [0.0, 0.0, 0.0]),
        "a number that is not finite": lambda: _rnea(*TWO, [0.0, float("nan")]),
        "an option that the device does not have": lambda: pinion.backend(
            "two_link", "rnea", device="float", threads=2
        ),
        "your own function branches on a value": _branching,
    },
    "Builds and formats": {
        "a folder that is not a build": lambda: pinion.open_build("build"),
        "a truncated manifest": _cut,
        "an invalid format": lambda: Format.parse("q16"),
        "an unknown target": lambda: pinion.build("two_link", "rnea", "b", target="vcu119"),
        "an invalid largest error": lambda: pinion.build(
            "two_link", "rnea", "b", formats="q16.16", max_error=-1.0
        ),
    },
    "Devices": {
        "an unknown device": lambda: pinion.backend("two_link", "rnea", device="fpga"),
        "a card for a folder that is not a build": lambda: open_device("build", device="sim"),
        "a missing compiler": lambda: cpu.compile("two_link", "rnea", compiler="no-such-compiler"),
    },
}


class NoErrorError(AssertionError):
    """A situation of the table no longer leads to an error; remove or change its row."""


def rows() -> dict[str, list[tuple[str, type[Exception], str]]]:
    """Return situation, class and message, by heading.

    Raises
    ------
    NoErrorError : a situation leads to no error.
    """
    rows_by_heading: dict[str, list[tuple[str, type[Exception], str]]] = {}
    for heading, situations in SITUATIONS.items():
        rows_by_heading[heading] = [(name, *_said(name, act)) for name, act in situations.items()]
    return rows_by_heading


def tables() -> str:
    """Return the tables as a part of a page."""
    parts = []
    for heading, situations in rows().items():
        parts.append(f"\n### {heading}\n\n| when | error | message |\n| --- | --- | --- |\n")
        for name, kind, message in situations:
            parts.append(f"| {name} | `{kind.__name__}` | {_cell(message)} |\n")
    return "".join(parts)


def _said(name: str, act: Callable[[], Any]) -> tuple[type[Exception], str]:
    """Return class and message of the error that a situation raises in an empty folder."""
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        try:
            act()
        except (ValueError, RuntimeError, TypeError, OSError) as error:
            # The place of this file is not part of the message.
            message = str(error).replace(str(Path(__file__).parent) + "/", "")
            return type(error), " ".join(message.replace(place, "").split())
    raise NoErrorError(f"'{name}' leads to no error.")


def _cell(text: str) -> str:
    """Return a message escaped for a table cell."""
    text = html.escape(text, quote=False).replace("$", "&#36;")
    return re.sub(r"([\\`*_|\[\]])", r"\\\1", text)
