"""Bit-for-bit check of a core's mapped netlist against the integer model.

The netlist of ECP5 cells is compiled with behavioural models of the cells and answers requests.
The models are Yosys' own, except for the multiplier and the block RAM, for which Yosys has
only ports.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pinion.base.progress import SILENT, Progress
from pinion.boards.ecp5.bitstream import MAPPED, SYNTH, board_folder
from pinion.flow import Build, BuildError
from pinion.functions import sample
from pinion.gateware import run_yosys
from pinion.gateware.emit import RTLIL
from pinion.gateware.yosys import yosys_path
from pinion.link.build_files import NETLIST_CHECK
from pinion.link.replaced import SIMULATION
from pinion.synthesis.synth import TOP

from .compiled import CompiledCore
from .reference import Reference, checked_words, request_words
from .stream import pack_records, unpack_records

_WORD = 18

# Models of these cells as Yosys' mapping uses them, written without the vendor's guides
# (FPGA-TN-02204 and -02205). MULT18X18D, the product of two signed or unsigned words, and DP16KD
# have the registers that pinion.boards.ecp5.registers uses, with a synchronous reset. DP16KD, 36
# bits wide: port A writes, the lower half of a word comes in at DIA and leaves at DOA; ADA[3:0]
# enable bytes; each half of an initial word has two bits of padding. In a narrower memory both
# ports have one width, write and read; with initial words it has no model and fails, as does every
# other kind.
_MODELS = """\
module MULT18X18D(
  input {a}, input {b}, input {c},
  input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, CLK0, CE0, RST0,
  output {p});
{settings}
  parameter RESETMODE = "SYNC";
  wire signed [18:0] now_a = {{SIGNEDA & A17, {abus}}};
  wire signed [18:0] now_b = {{SIGNEDB & B17, {bbus}}};
  wire signed [18:0] a, b;
  wire signed [37:0] p = a * b;
  generate
    if (REG_INPUTA_CLK != REG_INPUTB_CLK || RESETMODE != "SYNC")
      multiplier_of_this_kind_has_no_model missing();
    if (REG_INPUTA_CLK == "NONE") begin
      assign a = now_a;
      assign b = now_b;
    end else begin
      reg signed [18:0] late_a, late_b;
      always @(posedge CLK0) if (RST0) begin
        late_a <= 0;
        late_b <= 0;
      end else if (CE0) begin
        late_a <= now_a;
        late_b <= now_b;
      end
      assign a = late_a;
      assign b = late_b;
    end
    if (REG_OUTPUT_CLK == "NONE")
      assign {{{pbus}}} = p[35:0];
    else begin
      reg [35:0] late;
      always @(posedge CLK0) if (RST0) late <= 0; else if (CE0) late <= p[35:0];
      assign {{{pbus}}} = late;
    end
  endgenerate
endmodule
module DP16KD(
  input {dia}, {dib}, {ada}, {adb},
  input CEA, OCEA, CLKA, WEA, RSTA, CSA0, CSA1, CSA2,
  input CEB, OCEB, CLKB, WEB, RSTB, CSB0, CSB1, CSB2,
  output {doa}, {dob});
  parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18, REGMODE_A = "NOREG", REGMODE_B = "NOREG";
  parameter RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC", GSR = "ENABLED";
  parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", CLKAMUX = "CLKA", CLKBMUX = "CLKB";
  parameter WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL";
{inits}
  localparam W = DATA_WIDTH_A;
  localparam LOW = W == 18 ? 4 : W == 9 ? 3 : W == 4 ? 2 : W == 2 ? 1 : 0;
  localparam [20479:0] first = {{{firsts}}};
  generate
    if (W != DATA_WIDTH_B || REGMODE_A != (W == 36 ? REGMODE_B : "NOREG") || W != 36 && first != 0)
      block_ram_of_this_kind_has_no_model missing();
    if (W == 36) begin
      reg [35:0] words [0:511];
      reg [35:0] out;
      integer k;
      if (first != 0) initial for (k = 0; k < 512; k = k + 1)
        words[k] = {{first[40 * k + 20 +: 18], first[40 * k +: 18]}};
      wire [35:0] in = {{{dibbus}, {diabus}}};
      always @(posedge CLKA) if (CEA & WEA) begin
        if (ADA0) words[{{{ahigh}}}][8:0] <= in[8:0];
        if (ADA1) words[{{{ahigh}}}][17:9] <= in[17:9];
        if (ADA2) words[{{{ahigh}}}][26:18] <= in[26:18];
        if (ADA3) words[{{{ahigh}}}][35:27] <= in[35:27];
      end
      always @(posedge CLKB) if (CEB) out <= words[{{{bhigh}}}];
      if (REGMODE_B == "NOREG")
        assign {{{dobbus}, {doabus}}} = out;
      else begin
        reg [35:0] late;
        always @(posedge CLKB) if (RSTB) late <= 0; else if (OCEB) late <= out;
        assign {{{dobbus}, {doabus}}} = late;
      end
    end else begin
      reg [W-1:0] words [0:(1 << 14 - LOW) - 1];
      reg [17:0] out_a, out_b;
      wire [13-LOW:0] at_a = {{{ada}}} >> LOW;
      wire [13-LOW:0] at_b = {{{adb}}} >> LOW;
      wire [17:0] in_a = {{{diabus}}};
      wire [17:0] in_b = {{{dibbus}}};
      // Of words of 18 bits the address enables bytes.
      localparam HALF = W == 18 ? 9 : W;
      always @(posedge CLKA) if (CEA) begin
        if (WEA & (W != 18 | ADA0)) words[at_a][HALF-1:0] <= in_a[HALF-1:0];
        if (W == 18) if (WEA & ADA1) words[at_a][W-1:W-HALF] <= in_a[W-1:W-HALF];
        out_a <= words[at_a];
      end
      always @(posedge CLKB) if (CEB) begin
        if (WEB & (W != 18 | ADB0)) words[at_b][HALF-1:0] <= in_b[HALF-1:0];
        if (W == 18) if (WEB & ADB1) words[at_b][W-1:W-HALF] <= in_b[W-1:W-HALF];
        out_b <= words[at_b];
      end
      assign {{{doabus}}} = out_a;
      if (REGMODE_B == "NOREG")
        assign {{{dobbus}}} = out_b;
      else begin
        reg [17:0] late;
        always @(posedge CLKB) if (RSTB) late <= 0; else if (OCEB) late <= out_b;
        assign {{{dobbus}}} = late;
      end
    end
  endgenerate
endmodule
"""


def _list(name: str, count: int, first: int = 0) -> str:
    return ", ".join(f"{name}{index}" for index in reversed(range(first, count)))


def cell_models() -> str:
    """Return Verilog models of the cells for which Yosys has no behavioural model."""
    names = {"a": "A", "b": "B", "c": "C"} | {n: n.upper() for n in ("dia", "dib", "doa", "dob")}
    fields = {key: _list(name, _WORD) for key, name in names.items()}
    fields |= {f"{key}bus": text for key, text in fields.items()}
    fields |= {"p": _list("P", 36), "pbus": _list("P", 36)}
    fields |= {"ada": _list("ADA", 14), "adb": _list("ADB", 14)}
    fields |= {"ahigh": _list("ADA", 14, 5), "bhigh": _list("ADB", 14, 5)}
    inits = [f"INITVAL_{i:02X}" for i in range(64)]
    fields["inits"] = "\n".join(f"  parameter [319:0] {name} = 320'b0;" for name in inits)
    fields["firsts"] = ", ".join(reversed(inits))
    fields["settings"] = "\n".join(
        f'  parameter REG_{group}_{kind} = "{"NONE" if kind == "CLK" else kind + "0"}";'
        for group in ("INPUTA", "INPUTB", "OUTPUT")
        for kind in ("CLK", "CE", "RST")
    )
    return _MODELS.format(**fields)


def map_core(folder: Path, *, progress: Progress = SILENT) -> Path:
    """Map a build's core alone, as the board's flow does; return the mapped Verilog's path."""
    step = "Mapping the core"
    progress.step(step)
    work = Path(folder) / SIMULATION / "netlist"
    path = work / MAPPED
    run_yosys(
        [
            f"read_rtlil {yosys_path(Path(folder) / RTLIL, folder=work)}",
            f"{SYNTH} -top {TOP}",
            f"write_verilog -noattr {MAPPED}",
        ],
        folder=work,
        name="map",
        step=step,
        progress=progress,
    )
    return path


def netlist_rtlil(mapped: Path, work: Path, *, top: str = TOP) -> Path:
    """Replace the cells of a mapped design with their models, and return the RTLIL's path.

    No trace of the cells is left: before compilation, a design is checked to hold only logic.

    Parameters
    ----------
    mapped : Verilog file with the mapped design.
    work : folder for the output.
    top : its module.
    """
    work.mkdir(parents=True, exist_ok=True)
    (work / "models.v").write_text(cell_models())
    path = work / "netlist.il"
    run_yosys(
        [
            f"read_verilog {yosys_path(mapped, folder=work)}",
            f"hierarchy -top {top}",
            # Cells are flattened into their modules, but the modules stay separate.
            "setattr -mod -set keep_hierarchy 1 *",
            "read_verilog -D NO_INCLUDES +/ecp5/cells_sim.v",
            "delete =DP16KD",  # has only ports
            # Deferred, because a block RAM of the default width has no model.
            "read_verilog -defer models.v",
            f"hierarchy -check -top {top} -purge_lib",
            "proc",
            "flatten -noscopeinfo",
            "opt_expr",
            "opt_clean",
            "setattr -mod -unset keep_hierarchy *",
            "write_rtlil netlist.il",
        ],
        folder=work,
        name="netlist",
    )
    return path


def netlist_core(folder: Path, *, progress: Progress = SILENT) -> CompiledCore:
    """Return a simulation of a build's core, compiled from its mapped netlist.

    The netlist is the bitstream's if ``pinion bitstream`` was run; otherwise the core alone is
    mapped by the same commands.

    Parameters
    ----------
    folder : the build folder.
    progress : receives each step, and the completed share of a step if known.

    Raises
    ------
    pinion.link.manifest.ManifestError
        If the folder is not a build.
    """
    mapped = _mapped(Path(folder), Build.read(folder), progress)
    progress.step("Replacing the cells by their behaviour")
    rtlil = netlist_rtlil(mapped, Path(folder) / SIMULATION / "netlist")
    progress.step("Compiling the netlist")
    return CompiledCore.build(rtlil=rtlil, progress=progress)


def _mapped(folder: Path, build: Build, progress: Progress) -> Path:
    """Map a build's core unless that is done already; return the path of the mapped Verilog."""
    mapped = board_folder(folder, build.manifest) / MAPPED
    if not mapped.is_file():
        mapped = map_core(folder, progress=progress)
    return mapped


def check_netlist(
    folder: Path,
    requests: int = 200,
    *,
    seed: int = 0,
    arrays: Mapping[str, ArrayLike] | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Send requests through `netlist_core`, and compare every answer with the integer model.

    Parameters
    ----------
    folder : the build folder.
    requests, seed : number and seed of random states of the reference distribution.
    arrays : requests to send instead, by name, (n, ...) each, such as a recorded control loop.
    progress : as for `netlist_core`.

    Returns
    -------
    ``requests, seed`` (None with ``arrays``), ``mismatches`` (requests with a wrong bit in words
    or flag), ``cells`` (LUT4 in the netlist's text, which proves that it is not the RTL),
    ``netlist``, ``ok``, ``sha256`` (of the netlist). The same figures are in ``netlist.json``
    beside the netlist.

    Raises
    ------
    pinion.link.manifest.ManifestError
        If the folder is not a build.
    pinion.batch.InputError
        If the arrays are not requests of this build.
    BuildError
        If there is no request.
    pinion.cosim.stream.StreamError
        If the netlist does not answer.
    """
    build = Build.read(folder)
    manifest, reference = build.manifest, Reference(build)
    if arrays is None:
        inputs = sample(build.model, build.function, requests, distribution="reference", seed=seed)
        words = request_words(manifest, inputs)
    else:
        words = checked_words(manifest, arrays)
        requests = len(words)
    if requests < 1:
        raise BuildError(f"A netlist check needs at least 1 request, not {requests}.")
    mapped = _mapped(Path(folder), build, progress)
    core = netlist_core(folder, progress=progress)
    expected, flags = reference.expected(words)
    beats, last = pack_records(words, lanes=manifest.lanes_in, beats=manifest.beats_in)
    progress.step(f"Simulating {requests} requests")
    beats_out = requests * manifest.beats_out
    run = core.run(beats, last, expected_beats=beats_out, progress=progress).check()
    answers = unpack_records(
        run.beats, words=manifest.words_out, beats=manifest.beats_out, records=requests
    )
    flagged = run.user[manifest.beats_out - 1 :: manifest.beats_out]
    wrong = (answers != expected).any(axis=1) | (flagged != flags)
    mismatches = int(np.count_nonzero(wrong))
    text = mapped.read_text()
    cells = text.count("LUT4 #")
    result = {
        "requests": requests,
        "seed": seed if arrays is None else None,
        "mismatches": mismatches,
        "cells": cells,
        "netlist": str(mapped),
        "ok": mismatches == 0 and cells > 0,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    # Beside the netlist, so that reports know which one was checked.
    NETLIST_CHECK.write(mapped.parent, result)
    return result
