"""Rehearsal of the vendor tool's scripts under ``tclsh``, with stand-ins for its commands.

The stand-ins (``stand_ins.tcl``) know the table of names and the design's ports, cells and clocks.
They refuse an unknown command, option, property or value, a port that is not there, a constraints
file that is a script, and commands in an order that cannot work.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pinion.boards.xilinx.names import Names, load_names
from pinion.boards.xilinx.script import OUT
from pinion.boards.xilinx.xdma import IP

STAND_INS = "stand_ins.tcl"
REFUSED = 99
"""Exit code of a rehearsal in which anything was refused."""


@dataclass(frozen=True, kw_only=True)
class DesignFacts:
    """Facts of a design that the stand-ins know.

    Members
    -------
    ports : every bit, ``led[0]`` and ``pcie_perst_n``.
    cells : of the top level.
    pins : pins with a clock on them, and its period [ns].
    tops : modules that may be synthesised.
    synchronisers : how many have registers that carry the mark of one.
    luts, dsp : cells of these kinds after synthesis.
    """

    ports: tuple[str, ...]
    cells: tuple[str, ...]
    pins: Mapping[str, float]
    tops: tuple[str, ...]
    synchronisers: int
    luts: int = 1000
    dsp: int = 10


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """Result of a rehearsal: exit code, output, refusals and journal.

    Members
    -------
    code : exit code of the script; `REFUSED` if anything was refused.
    output : the output of the script.
    refused : sentences of the stand-ins.
    journal : the events, a tuple of words each: ``call``, ``set``, ``property``, ...
    """

    code: int
    output: str
    refused: tuple[str, ...]
    journal: tuple[tuple[str, ...], ...]

    def of(self, kind: str) -> list[tuple[str, ...]]:
        """Return the journal's entries of one kind, without their first word."""
        return [entry[1:] for entry in self.journal if entry[0] == kind]


def rehearse(
    script: Path,
    *,
    design: DesignFacts,
    tclsh: str,
    setup_slack: float | None = 0.1,
    hold_slack: float | None = 0.01,
    slacks: Sequence[tuple[float | None, float | None]] = (),
    faults: Sequence[tuple[str, int, str]] = (),
    arguments: Sequence[str] = (),
    work: Path | None = None,
    names: Names | None = None,
) -> Rehearsal:
    """Run a script of a board's folder against the stand-ins.

    Parameters
    ----------
    script : ``build.tcl`` or ``synth_core.tcl``.
    design : the design that it is about.
    tclsh : the interpreter.
    setup_slack, hold_slack : the timing to report [ns]; None for no path at all.
    slacks : both after each run of the router in turn, the last for all that follow.
    faults : a command, at which of its calls, and what happens: "fails" or "dies".
    arguments : as after ``-tclargs``.
    work : a folder to run in that is kept, with the files of an earlier rehearsal.
    names : the table; that of the repository by default.
    """
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as scratch:
        log, prelude = Path(scratch) / "journal", Path(scratch) / "prelude.tcl"
        # A copy: the scripts delete and write files, and a real result may be there.
        stage = (work or Path(scratch) / "build") / script.parent.name
        if not stage.is_dir():
            shutil.copytree(script.parent, stage, ignore=shutil.ignore_patterns(OUT))
        slacks = slacks or [(setup_slack, hold_slack)]
        prelude.write_text(
            "\n".join(
                [
                    _commands(names or load_names()),
                    _values(names or load_names()),
                    _properties(names or load_names()),
                    _facts(design, slacks, faults),
                    f"set ::log {_word(str(log))}",
                    f"source {_word(str(Path(__file__).with_name(STAND_INS)))}",
                    f"set argv {_words(arguments)}",
                    f"source {_word(str(stage / script.name))}",
                    "exit 0",
                ]
            )
        )
        process = subprocess.run(
            [tclsh, str(prelude)],
            cwd=stage,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        lines = log.read_text().splitlines() if log.exists() else []
    journal = tuple(tuple(line.split("\t")) for line in lines)
    refused = tuple(entry[1] for entry in journal if entry[0] == "refused")
    output = process.stdout + process.stderr
    return Rehearsal(code=process.returncode, output=output, refused=refused, journal=journal)


def _commands(names: Names) -> str:
    rows = []
    for name, command in names.commands.items():
        flags = _words([text for flag, takes in command.flags.items() for text in (flag, takes)])
        row = [command.least, command.most, command.returns or "{}", int(command.xdc)]
        rows.append(f"    {name} {{{flags} {' '.join(map(str, row))}}}")
    return "set ::commands {\n" + "\n".join(rows) + "\n}"


def _properties(names: Names) -> str:
    rows = [
        f"    {{{kind} {name}}} {_word(row.values)}"
        for kind, properties in names.properties.items()
        for name, row in properties.items()
    ]
    return "set ::properties {\n" + "\n".join(rows) + "\n}"


def _values(names: Names) -> str:
    rows = [
        f"    {{{command} {flag}}} {_words(row.values)}"
        for (command, flag), row in names.values.items()
    ]
    return "set ::values {\n" + "\n".join(rows) + "\n}"


def _facts(
    design: DesignFacts,
    slacks: Sequence[tuple[float | None, float | None]],
    faults: Sequence[tuple[str, int, str]],
) -> str:
    pins = _words([text for name, period in design.pins.items() for text in (name, period)])
    pairs = [f"{{max {_slack(setup)} min {_slack(hold)}}}" for setup, hold in slacks]
    facts = {
        "ip": IP,
        "ports": _words(design.ports),
        "cells": _words(design.cells),
        "pins": pins,
        "tops": _words(design.tops),
        "slacks": f"{{{' '.join(pairs)}}}",
        "amounts": f"{{LUT* {design.luts} DSP48E2 {design.dsp}}}",
        "faults": _words([word for fault in faults for word in fault]),
        "ASYNC_REG": str(design.synchronisers),
    }
    return "set ::facts {\n" + "\n".join(f"    {k} {v}" for k, v in facts.items()) + "\n}"


def _slack(value: float | None) -> str:
    return "{}" if value is None else str(value)


def _words(items: Iterable[object]) -> str:
    return "{" + " ".join(_word(_text(item)) for item in items) + "}"


def _text(item: object) -> str:
    return str(int(item)) if isinstance(item, bool) else str(item)


def _word(text: str) -> str:
    if text.count("{") != text.count("}") or text[-1:] == "\\":
        raise ValueError(f"{text!r} cannot be an element of a Tcl list.")
    return f"{{{text}}}"
