"""The scripts that the vendor tool runs: the whole board, and the core alone."""

from __future__ import annotations

from pinion.link import Manifest

from .board import Board
from .clocking import Mmcm
from .top import CORE_CLOCK_CELL, TOP, XDMA_CELL
from .xdc import PBLOCK
from .xdma import IP, MODULE, configuration

BUILD_TCL, CORE_TCL, RESULT, CORE_RESULT = (
    "build.tcl",
    "synth_core.tcl",
    "result.txt",
    "core_result.txt",
)
OUT = "out"
"""Folder that the scripts write into, beside them."""

PROGRESS = "PINION: "
"""How a line begins that reports progress."""

MISSED, FAILED = 1, 2
"""Exit codes: timing is missed, and anything else that went wrong."""

_HEAD = """\
# @WHAT@
# Written by Pinion @VERSION@ for @ROBOT@, @FUNCTION@, build @HASH@. Never run by its authors:
# README.md says what was checked instead.
set here [file dirname [file normalize [info script]]]
set out [file join $here @OUT@]
set reports [file join $out reports]

proc say {text} {
    puts "@PROGRESS@$text"
    flush stdout
}

# Worst slack in ns: max is setup, min is hold.
proc worst_slack {kind} {
    set paths [get_timing_paths -delay_type $kind -max_paths 1]
    if {[llength $paths] == 0} {
        error "there is no path to time ($kind): the design is empty or has no clock"
    }
    return [get_property SLACK [lindex $paths 0]]
}

proc write_result {name pairs} {
    global out
    set file [open [file join $out $name] w]
    foreach {key value} $pairs {
        puts $file "$key $value"
    }
    close $file
}

# Ends with one exit code: 0 good, @MISSED@ timing missed, @FAILED@ anything else.
proc run {job} {
    if {[catch {$job} code]} {
        say "failed: $code"
        exit @FAILED@
    }
    exit $code
}
"""

_BOARD = """
# A clock on a pin has the period that the design was made for.
proc expect_clock {pin period} {
    set clocks [get_clocks -of_objects [get_pins $pin]]
    if {[llength $clocks] == 0} {
        error "no clock arrives at $pin"
    }
    foreach clock $clocks {
        set found [get_property PERIOD $clock]
        if {abs($found - $period) > 0.002} {
            error "the clock at $pin has a period of $found ns, the design was made for $period"
        }
    }
}

proc build {} {
    global here out reports
    # What an earlier run left would be taken for this one's.
    file delete -force $out
    file mkdir $reports [file join $out ip]
    set vivado [version -short]
    say "Vivado $vivado, part @PART@"
    create_project -in_memory -part @PART@

    say "1/8 DMA engine: generate and synthesise"
    create_ip -name @IP@ -vendor xilinx.com -library ip -module_name @MODULE@ \\
        -dir [file join $out ip]
    set_property -dict [list \\
@CONFIGURATION@
    ] [get_ips @MODULE@]
    generate_target all [get_ips @MODULE@]
    synth_ip [get_ips @MODULE@]

    say "2/8 read sources"
    read_verilog [file join $here @TOP@.v]
    read_xdc [file join $here @BOARD@.xdc]

    say "3/8 synthesise"
    synth_design -top @TOP@ -part @PART@ -flatten_hierarchy rebuilt
    write_checkpoint -force [file join $out synth.dcp]
    report_utilization -hierarchical -file [file join $reports utilization_synth.rpt]

    say "4/8 optimise"
    opt_design
    # The DMA engine is linked by now at the latest, and with it come its clocks: what names them
    # is checked and read only here.
@CLOCKS@
    read_xdc [file join $here @BOARD@_timing.xdc]
    set marked 0
    foreach cell [get_cells -quiet -hierarchical -filter {ASYNC_REG == TRUE}] {
        incr marked [string match *stage0_reg* $cell]
    }
    if {$marked < @SYNCHRONISERS@} {
        say "warning: $marked of at least @SYNCHRONISERS@ synchronisers are marked; see cdc.rpt"
    }
    say "5/8 place"
    place_design
    phys_opt_design
    say "6/8 route"
    route_design
    if {[worst_slack max] < 0} {
        say "6/8 setup is missed by [worst_slack max] ns: optimise once more"
        phys_opt_design
    }
    write_checkpoint -force [file join $out route.dcp]

    say "7/8 report"
    report_utilization -file [file join $reports utilization.rpt]
    report_utilization -hierarchical -file [file join $reports utilization_hierarchical.rpt]
    report_timing_summary -max_paths 10 -file [file join $reports timing_summary.rpt]
    report_clock_utilization -file [file join $reports clocks.rpt]
    report_cdc -file [file join $reports cdc.rpt]
    report_power -file [file join $reports power.rpt]
    report_io -file [file join $reports io.rpt]
    report_drc -file [file join $reports drc.rpt]
    report_methodology -file [file join $reports methodology.rpt]
    report_route_status -file [file join $reports route_status.rpt]

    set setup [worst_slack max]
    set hold [worst_slack min]
    set met [expr {$setup >= 0 && $hold >= 0}]
    write_result @RESULT@ [list build @HASH@ board @BOARD@ part @PART@ vivado $vivado \\
        link_mhz @LINK_MHZ@ core_mhz @CORE_MHZ@ setup_slack_ns $setup hold_slack_ns $hold met $met]
    say "worst setup slack $setup ns, worst hold slack $hold ns"
    if {!$met} {
        say "timing is missed: no bitstream is written; see @OUT@/reports/timing_summary.rpt"
        return @MISSED@
    }

    say "8/8 write the bitstream and the flash image"
    # Paths without folders: a blank in one would end the word inside -loadbit.
    cd $out
    write_bitstream -force pinion.bit
    write_cfgmem -force -format mcs -size @FLASH_MB@ -interface @FLASH@ \\
        -loadbit {up 0x00000000 pinion.bit} -file pinion.mcs
    say "done: @OUT@/pinion.bit"
    return 0
}

run build
"""

_CORE = """
# How fast is the core alone? Nothing around it is built: no pads, no DMA engine, one die.
# Another clock to aim at than @CORE_MHZ@ MHz: vivado ... -tclargs MHZ
set mhz @CORE_MHZ@
if {[info exists argv] && [llength $argv] > 0} {
    set mhz [lindex $argv 0]
}

proc synth_core {} {
    global here out reports mhz
    file mkdir $reports
    set period [format %.3f [expr {1000.0 / $mhz}]]
    say "Vivado [version -short], part @PART@, aiming at $mhz MHz"
    create_project -in_memory -part @PART@
    read_verilog [file join $here .. core.v]
    say "1/3 synthesise"
    synth_design -top pinion_core -part @PART@ -mode out_of_context -flatten_hierarchy rebuilt
    create_clock -period $period -name core [get_ports clk]
    create_pblock @PBLOCK@
    add_cells_to_pblock [get_pblocks @PBLOCK@] [get_cells *]
    resize_pblock [get_pblocks @PBLOCK@] -add {@SLR@}
    set_property IS_SOFT FALSE [get_pblocks @PBLOCK@]
    say "2/3 place"
    opt_design
    place_design
    phys_opt_design
    say "3/3 route"
    route_design
    write_checkpoint -force [file join $out core.dcp]
    report_utilization -hierarchical -file [file join $reports core_utilization.rpt]
    report_timing_summary -max_paths 10 -file [file join $reports core_timing_summary.rpt]
    set setup [worst_slack max]
    set fmax [format %.1f [expr {1000.0 / ($period - $setup)}]]
    write_result @CORE_RESULT@ [list build @HASH@ part @PART@ aimed_mhz $mhz \\
        setup_slack_ns $setup fmax_mhz $fmax]
    say "the core alone reaches $fmax MHz (worst setup slack $setup ns at $mhz MHz)"
    return 0
}

run synth_core
"""


def build_tcl(
    board: Board, manifest: Manifest, core_clock: Mmcm | None, *, synchronisers: int
) -> str:
    """The script that makes the bitstream, and refuses to where timing is missed.

    Parameters
    ----------
    synchronisers : how many the design has; each has one register or more.
    """
    clocks = [_expect(f"{XDMA_CELL}/axi_aclk", board.link.clock_mhz)]
    if core_clock is not None:
        clocks.append(_expect(f"{CORE_CLOCK_CELL}/O", core_clock.mhz))
    configured = configuration(board).items()
    return _fill(
        _HEAD + _BOARD,
        board,
        manifest,
        core_clock,
        WHAT=f"{board.title}: from Verilog to a bitstream.",
        CONFIGURATION=" \\\n".join(f"        {name} {{{value}}}" for name, value in configured)
        + " \\",
        CLOCKS="\n".join(clocks),
        SYNCHRONISERS=str(synchronisers),
    )


def core_tcl(board: Board, manifest: Manifest, core_clock: Mmcm | None) -> str:
    """The script that places and routes the core alone, to learn how fast it can be."""
    return _fill(_HEAD + _CORE, board, manifest, core_clock, WHAT=f"{board.title}: the core alone.")


def _expect(pin: str, mhz: float) -> str:
    return f"    expect_clock {{{pin}}} {1000.0 / mhz:.3f}"


def _fill(
    text: str, board: Board, manifest: Manifest, core_clock: Mmcm | None, **words: str
) -> str:
    core_mhz = board.link.clock_mhz if core_clock is None else core_clock.mhz
    words |= {
        "VERSION": manifest.version,
        "ROBOT": manifest.robot,
        "FUNCTION": manifest.function,
        "HASH": f"{manifest.hash:016x}",
        "OUT": OUT,
        "PROGRESS": PROGRESS,
        "MISSED": str(MISSED),
        "FAILED": str(FAILED),
        "PART": board.part,
        "BOARD": board.name,
        "IP": IP,
        "MODULE": MODULE,
        "TOP": TOP,
        "PBLOCK": PBLOCK,
        "SLR": board.floorplan.slr,
        "RESULT": RESULT,
        "CORE_RESULT": CORE_RESULT,
        "LINK_MHZ": f"{board.link.clock_mhz:g}",
        "CORE_MHZ": f"{core_mhz:.6g}",
        "FLASH": board.flash.interface,
        "FLASH_MB": str(board.flash.size_mb),
    }
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return text
