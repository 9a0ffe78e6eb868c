"""The messages that users meet most, as the code says them: each is made by what leads to it."""

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
        "the file is not there": lambda: pinion.load("arm.urdf"),
        "a name that is neither built in nor a file": lambda: pinion.load("iiwa15"),
        "a link that moves has no mass, and others have": lambda: _loaded(LOOSE),
        "nothing that moves has mass, and dynamics is asked for": lambda: dynamics.crba(
            _loaded(BARE), [0.0]
        ),
        "an inertia that no body has": lambda: _loaded(HEAVY),
        "a joint to lock that is not there": lambda: pinion.load("two_link", lock={"elbow": 0.3}),
        "a link to keep that is not there": lambda: pinion.load("iiwa14", tip="hand"),
        "a robot of several ends, and no tip named": lambda: pinion.backend(
            "hyq", "frame_jacobian", device="float"
        )([0.0] * 12),
    },
    "Functions and arrays": {
        "a function that no table has": lambda: pinion.backend("two_link", "rne", device="float"),
        "an array is left out": lambda: _rnea(*TWO),
        "one array too many": lambda: _rnea(*TWO, *TWO),
        "an array of another robot": lambda: _rnea(*TWO, [0.0, 0.0, 0.0]),
        "a number that is none": lambda: _rnea(*TWO, [0.0, float("nan")]),
        "an option that the device has not": lambda: pinion.backend(
            "two_link", "rnea", device="float", threads=2
        ),
        "a function of your own branches on a value": _branching,
    },
    "Builds and formats": {
        "a folder that is no build": lambda: pinion.open_build("build"),
        "a manifest that is cut short": _cut,
        "a format that is none": lambda: Format.parse("q16"),
        "a target that is none": lambda: pinion.build("two_link", "rnea", "b", target="vcu119"),
        "a largest error that is none": lambda: pinion.build(
            "two_link", "rnea", "b", formats="q16.16", max_error=-1.0
        ),
    },
    "Devices": {
        "a device of no kind": lambda: pinion.backend("two_link", "rnea", device="fpga"),
        "a card for a folder that is no build": lambda: open_device("build", device="sim"),
        "a compiler that is not there": lambda: cpu.compile(
            "two_link", "rnea", compiler="no-such-compiler"
        ),
    },
}


class NoErrorError(AssertionError):
    """A situation of the table leads to no error any more; its row has to go or change."""


def rows() -> dict[str, list[tuple[str, type[Exception], str]]]:
    """Situation, class and message, by heading.

    Raises
    ------
    NoErrorError : a situation passes.
    """
    rows_by_heading: dict[str, list[tuple[str, type[Exception], str]]] = {}
    for heading, situations in SITUATIONS.items():
        rows_by_heading[heading] = [(name, *_said(name, act)) for name, act in situations.items()]
    return rows_by_heading


def tables() -> str:
    """The tables as a part of a page."""
    parts = []
    for heading, situations in rows().items():
        parts.append(f"\n### {heading}\n\n| when | error | message |\n| --- | --- | --- |\n")
        for name, kind, message in situations:
            parts.append(f"| {name} | `{kind.__name__}` | {_cell(message)} |\n")
    return "".join(parts)


def _said(name: str, act: Callable[[], Any]) -> tuple[type[Exception], str]:
    """What a situation ends with, in an empty folder."""
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        try:
            act()
        except (ValueError, RuntimeError, TypeError, OSError) as error:
            # Where this file stands is no part of the message.
            message = str(error).replace(str(Path(__file__).parent) + "/", "")
            return type(error), " ".join(message.replace(place, "").split())
    raise NoErrorError(f"'{name}' leads to no error.")


def _cell(text: str) -> str:
    """A message in a cell of a table, as it is."""
    text = html.escape(text, quote=False).replace("$", "&#36;")
    return re.sub(r"([\\`*_|\[\]])", r"\\\1", text)
