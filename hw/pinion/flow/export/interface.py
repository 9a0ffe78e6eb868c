"""Ports of an exported core: the table that Verilog, IP-XACT, README and tests read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pinion.base.escaping import comment
from pinion.link import Manifest

from .reserved import RESERVED

WORD = 32

# Nets of the core behind the wrapper, by port; the wrapper makes the other ports itself.
CORE_PORTS = {
    "aclk": "clk",
    "s_axis_tdata": "i_tdata",
    "s_axis_tvalid": "i_tvalid",
    "s_axis_tready": "i_tready",
    "s_axis_tlast": "i_tlast",
    "m_axis_tdata": "o_tdata",
    "m_axis_tvalid": "o_tvalid",
    "m_axis_tready": "o_tready",
    "m_axis_tlast": "o_tlast",
    "m_axis_tuser": "o_tuser",
    "protocol_error": "protocol_error",
    "build_hash": "build_hash",
    "reset_state": "reset_state",
}

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class ExportError(ValueError):
    """Error for a build that cannot be exported, or a folder that cannot hold the export."""


@dataclass(frozen=True, kw_only=True)
class CorePort:
    """Port of the top module of an exported core.

    Members
    -------
    name : as in the Verilog.
    direction : ``input`` or ``output``.
    width : in bits.
    bus : its interface (``aclk``, ``aresetn``, ``s_axis``, ``m_axis``), or "".
    logical : its name in that interface's definition.
    doc : what it carries, in one line.
    """

    name: str
    direction: str
    width: int
    bus: str
    logical: str
    doc: str


def core_ports(manifest: Manifest) -> tuple[CorePort, ...]:
    """Return the ports of a build's exported core, in the order of the module."""
    wide_in, wide_out = WORD * manifest.lanes_in, WORD * manifest.lanes_out
    rows = (
        ("aclk", "input", 1, "aclk", "CLK", "clock of both streams, rising edge"),
        ("aresetn", "input", 1, "aresetn", "RST", "reset, active low, synchronous to aclk"),
        ("s_axis_tdata", "input", wide_in, "s_axis", "TDATA", "request words, the first lowest"),
        ("s_axis_tvalid", "input", 1, "s_axis", "TVALID", "a request beat is offered"),
        ("s_axis_tready", "output", 1, "s_axis", "TREADY", "it is taken at this edge"),
        ("s_axis_tlast", "input", 1, "s_axis", "TLAST", "last beat of a request"),
        ("m_axis_tdata", "output", wide_out, "m_axis", "TDATA", "result words, the first lowest"),
        ("m_axis_tvalid", "output", 1, "m_axis", "TVALID", "a result beat is offered"),
        ("m_axis_tready", "input", 1, "m_axis", "TREADY", "it is taken at this edge"),
        ("m_axis_tlast", "output", 1, "m_axis", "TLAST", "last beat of a result"),
        ("m_axis_tuser", "output", 1, "m_axis", "TUSER", "flag of the result, on its last beat"),
        (
            "protocol_error",
            "output",
            1,
            "",
            "",
            "a request's TLAST was on the wrong beat; stays set until reset",
        ),
        ("build_hash", "output", 64, "", "", "identifies the build, a constant"),
        *(
            [("reset_state", "input", 1, "", "", "the next request starts from the initial states")]
            if manifest.states
            else []
        ),
    )
    return tuple(
        CorePort(name=n, direction=d, width=w, bus=b, logical=lg, doc=doc)
        for n, d, w, b, lg, doc in rows
    )


def module_name(manifest: Manifest) -> str:
    """Return a top module name from robot and function, valid in Verilog, VHDL and C."""
    words = re.findall(r"[a-z0-9]+", f"{manifest.robot}_{manifest.function}".lower())
    name = "_".join(words)
    return name if name[0].isalpha() else f"robot_{name}"


def core_description(manifest: Manifest) -> str:
    """Return the function's and the robot's names as text that is safe in comments."""
    return f"{comment(manifest.function)} of {comment(manifest.robot)}"


def check_name(name: str) -> str:
    """Return a chosen module name, or raise if it is invalid.

    Raises
    ------
    ExportError
        If it is not an identifier in every language, is a keyword, or could clash with inner
        modules.
    """
    if not _NAME.fullmatch(name):
        raise ExportError(
            f"'{name}' cannot name a module: begin with a lower-case letter, and use lower-case "
            "letters, digits, and single underscores in between."
        )
    if name in RESERVED:
        raise ExportError(
            f"'{name}' cannot name a module, because it is a keyword of {RESERVED[name]}: use "
            f"another name, such as {name}_core."
        )
    return name
