"""The scripts that the vendor tool runs: the whole board, and the core alone."""

from __future__ import annotations

from pinion.base.escaping import comment
from pinion.gateware.dsp48e2 import MACRO
from pinion.link import Manifest
from pinion.synthesis.synth import TOP as CORE

from .board import Board
from .clocking import Mmcm
from .floorplan import PBLOCK, SHARE_PERCENT
from .strategies import SYNTHESIS, strategies_tcl
from .top import CORE_CLOCK_CELL, TOP, XDMA_CELL
from .xdma import IP, MODULE, configuration

BUILD_TCL, CORE_TCL, RESULT, CORE_RESULT, ATTEMPTS = (
    "build.tcl",
    "synth_core.tcl",
    "result.txt",
    "core_result.txt",
    "attempts.txt",
)
OUT = "out"
"""Folder that the scripts write into, beside them."""

PROGRESS = "PINION: "
"""How a line begins that reports progress."""

EXPLICIT = "dsp48e2"
"""The word behind ``-tclargs`` for explicit DSP48E2 blocks."""

MISSED, FAILED = 1, 2
"""Exit codes: timing is missed, and anything else that went wrong."""

TRIES = 2
"""How often a strategy is begun that ends without a result, as when Vivado itself dies."""

_HEAD = """\
# @WHAT@
# Written by Pinion @VERSION@ for @ROBOT@, @FUNCTION@, build @HASH@. Never run by its authors:
# README.md says what was checked instead.
set here [file dirname [file normalize [info script]]]
set out [file join $here @OUT@]
set reports [file join $out reports]

# What is tried in turn: names of the strategies, and a directive for each step.
set strategies {
@STRATEGIES@
}

proc say {text} {
    puts "@PROGRESS@$text"
    flush stdout
}

# The option for which the Verilog shows explicit DSP48E2 blocks, if they are asked for.
proc blocks {} {
    global asked
    if {"@EXPLICIT@" in $asked} {
        say "explicit DSP48E2 blocks"
        return {-verilog_define @MACRO@}
    }
    return {}
}

# Worst slack in ns: max is setup, min is hold.
proc worst_slack {kind} {
    set paths [get_timing_paths -delay_type $kind -max_paths 1]
    if {[llength $paths] == 0} {
        error "there is no path to time ($kind): the design is empty or has no clock"
    }
    return [get_property SLACK [lindex $paths 0]]
}

# A file is there whole or not at all: whoever finds it need not ask who was interrupted.
proc write_pairs {path pairs} {
    set file [open $path.part w]
    foreach {key value} $pairs {
        puts $file "$key $value"
    }
    close $file
    file rename -force $path.part $path
}

proc read_pairs {path} {
    set file [open $path]
    set lines [split [string trim [read $file]] "\\n"]
    close $file
    set pairs {}
    foreach line $lines {
        set blank [string first " " $line]
        dict set pairs [string range $line 0 $blank-1] [string range $line $blank+1 end]
    }
    return $pairs
}

proc save {path} {
    set part [file rootname $path]_part.dcp
    write_checkpoint -force $part
    file rename -force $part $path
}

# From the netlist that is open to a routed one. The margin is for placing alone: a router that
# works for it would lengthen wires elsewhere.
proc implement {strategy clocks} {
    dict with strategy {}
    if {$opt ne "Default"} {
        opt_design -directive $opt
    }
    if {$margin > 0} {
        set_clock_uncertainty -setup $margin $clocks
    }
    place_design -directive $place
    phys_opt_design -directive $phys_opt
    if {$margin > 0} {
        set_clock_uncertainty -setup 0 $clocks
    }
    say "6/8 route ($name)"
    route_design -directive $route
    if {[worst_slack max] < 0} {
        say "6/8 setup is missed by [worst_slack max] ns: optimise once more"
        phys_opt_design -directive AggressiveExplore
    } elseif {[worst_slack min] < 0} {
        say "6/8 hold is missed by [worst_slack min] ns: optimise once more"
        phys_opt_design -directive ExploreWithAggressiveHoldFix
    }
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
# Words behind -tclargs: names of strategies, to try these alone; "die" or "dies", where the
# script shall not choose the floorplan itself; "@EXPLICIT@", for explicit DSP48E2 blocks where
# synthesis would infer them.
set asked {}
if {[info exists argv]} {
    set asked $argv
}

# What is open in Vivado: a path of a checkpoint, or nothing.
set opened ""

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

proc choose_strategies {} {
    global strategies asked
    set wanted {}
    foreach word $asked {
        if {$word in {die dies @EXPLICIT@}} {
            continue
        }
        set found {}
        foreach strategy $strategies {
            if {[dict get $strategy name] eq $word} {
                lappend found $strategy
            }
        }
        if {![llength $found]} {
            error "there is no strategy '$word'"
        }
        lappend wanted {*}$found
    }
    return $wanted
}

# Made of what decides the result: what an earlier run left is used only where it is the same.
proc fingerprint {} {
    global here asked
    set words [list @HASH@ [version -short]]
    foreach word {die dies @EXPLICIT@} {
        if {$word in $asked} {
            lappend words $word
        }
    }
    foreach name {@SOURCES@} {
        set path [file join $here $name]
        lappend words $name [file size $path] [file mtime $path]
    }
    return $words
}

proc take_up {} {
    global out reports
    set state [file join $out state.txt]
    set now [fingerprint]
    if {[file exists $state] && [read_pairs $state] eq [dict create made $now]} {
        say "taking up what an earlier run left in @OUT@"
        # Its result would be taken for this one's.
        file delete [file join $out @RESULT@] [file join $out @ATTEMPTS@]
        return
    }
    file delete -force $out
    file mkdir $reports [file join $out attempts]
    write_pairs $state [list made $now]
}

proc close_opened {} {
    global opened
    if {$opened ne ""} {
        set opened ""
        close_project
    }
}

# The netlist that strategies begin with, made where it is not there: synthesised, linked with the
# DMA engine, optimised once, constrained.
proc begin_with {directive} {
    global here out reports opened
    set start [file join $out start_$directive.dcp]
    if {$opened eq $start} {
        # What comes changes it.
        set opened changed
        return
    }
    close_opened
    if {[file exists $start]} {
        open_checkpoint $start
        set opened changed
        return
    }
    set opened changed
    create_project -in_memory -part @PART@

    say "1/8 DMA engine: generate and synthesise"
    file delete -force [file join $out ip]
    file mkdir [file join $out ip]
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
    synth_design -top @TOP@ -part @PART@ -directive $directive \\
        {*}[blocks] \\
        @SYNTHESIS@
    report_utilization -hierarchical -file [file join $reports utilization_synth.rpt]

    say "4/8 optimise"
    opt_design
    # The DMA engine is linked by now at the latest, and with it come its clocks: what names them
    # is checked and read only here.
@CLOCKS@
    read_xdc [file join $here @BOARD@_timing.xdc]
    read_xdc [file join $here @BOARD@_[floorplan].xdc]
    set marked 0
    foreach cell [get_cells -quiet -hierarchical -filter {ASYNC_REG == TRUE}] {
        incr marked [string match *stage0_reg* $cell]
    }
    if {$marked < @SYNCHRONISERS@} {
        say "warning: $marked of at least @SYNCHRONISERS@ synchronisers are marked; see cdc.rpt"
    }
    save $start
}

# One die holds the design, unless it would be more than @SHARE@ % full: then placing and routing
# have no room to be good.
proc floorplan {} {
    global out asked
    set file [file join $out floorplan.txt]
    if {[file exists $file]} {
        return [dict get [read_pairs $file] floorplan]
    }
    set plan ""
    foreach word {die dies} {
        if {$word in $asked} {
            set plan $word
        }
    }
    if {$plan eq ""} {
        set luts [llength [get_cells -quiet -hierarchical -filter {REF_NAME =~ LUT*}]]
        set blocks [llength [get_cells -quiet -hierarchical -filter {REF_NAME == DSP48E2}]]
        say "$luts LUTs and $blocks DSP blocks; one die has @DIE_LUT@ and @DIE_DSP@"
        set full [expr {100 * $luts > @SHARE@ * @DIE_LUT@ || 100 * $blocks > @SHARE@ * @DIE_DSP@}]
        set plan [expr {$full ? "dies" : "die"}]
    }
    if {$plan eq "dies"} {
        say "the design goes over several dies: @BOARD@_dies.xdc"
    }
    write_pairs $file [list floorplan $plan]
    return $plan
}

# What came of a strategy: its outcome (met, missed, failed, died), slacks, a message. Recorded when
# it came to its end, so that no run does it twice.
proc attempt {strategy about} {
    global out opened
    set name [dict get $strategy name]
    set folder [file join $out attempts $name]
    set result [file join $folder result.txt]
    if {[file exists $result]} {
        return [read_pairs $result]
    }
    # Each beginning leaves a mark. Vivado may have died of it, or someone may have ended it: it is
    # begun once more, and then passed over.
    set begun [file join $folder begun]
    set times [expr {[file exists $begun] ? [file size $begun] : 0}]
    if {$times >= @TRIES@} {
        return {outcome died message {ended twice without a result; remove its folder to try again}}
    }
    if {[catch {
        begin_with [dict get $strategy synth]
        file mkdir $folder
        set file [open $begun a]
        puts -nonewline $file x
        close $file
        say "5/8 place ($name, $about)"
        implement $strategy [get_clocks -of_objects [get_pins {@CORE_CLOCK@}]]
        # The router may give up without an error, and what has no wire has no delay.
        if {![report_route_status -boolean_check ROUTED_FULLY]} {
            error "wires are left that are not routed"
        }
        set setup [worst_slack max]
        set hold [worst_slack min]
        save [file join $folder route.dcp]
    } message]} {
        # An error of a command is no death: the next run may have the licence, or the room.
        file delete $begun
        catch {close_opened}
        return [list outcome failed message [string map [list "\\n" " "] $message]]
    }
    set opened [file join $folder route.dcp]
    set outcome [expr {$setup >= 0 && $hold >= 0 ? "met" : "missed"}]
    set pairs [list outcome $outcome setup_slack_ns $setup hold_slack_ns $hold]
    write_pairs $result $pairs
    return $pairs
}

# Whether one result is better than another: a missed hold cannot be helped by a slower clock.
proc better {one other} {
    set keys {}
    foreach pairs [list $one $other] {
        set hold [dict get $pairs hold_slack_ns]
        lappend keys [expr {min($hold, 0)}] [dict get $pairs setup_slack_ns]
    }
    lassign $keys hold setup other_hold other_setup
    return [expr {$hold > $other_hold || ($hold == $other_hold && $setup > $other_setup)}]
}

# Strategies in turn, to the first that meets timing; name and result of the best.
proc try_all {} {
    global out strategies
    set chosen [choose_strategies]
    set all [expr {![llength $chosen]}]
    if {$all} {
        # The first netlist decides whether strategies for several dies are among them.
        set first [dict get [lindex $strategies 0] synth]
        if {![file exists [file join $out floorplan.txt]]} {
            begin_with $first
            set ::opened [file join $out start_$first.dcp]
        }
        set dies [expr {[dict get [read_pairs [file join $out floorplan.txt]] floorplan] eq "dies"}]
        foreach strategy $strategies {
            if {$dies || ![dict get $strategy dies]} {
                lappend chosen $strategy
            }
        }
    }
    set best ""
    set lines {}
    set message ""
    foreach strategy $chosen {
        set name [dict get $strategy name]
        set about "[expr {[llength $lines] / 2 + 1}] of [llength $chosen]"
        set result [attempt $strategy $about]
        set outcome [dict get $result outcome]
        if {$outcome in {failed died}} {
            set message [dict get $result message]
            set text "$outcome ($message)"
        } else {
            set text "$outcome, setup slack [dict get $result setup_slack_ns] ns,\\
                hold slack [dict get $result hold_slack_ns] ns"
            if {$best eq "" || [better $result $kept]} {
                set best $name
                set kept $result
            }
        }
        say "strategy $name: $text"
        lappend lines $name $text
        write_pairs [file join $out @ATTEMPTS@] $lines
        if {$outcome eq "met"} {
            set best $name
            set kept $result
            break
        }
    }
    if {$best eq ""} {
        error "no strategy came to its end: $message"
    }
    return [list $best $kept]
}

proc build {} {
    global out reports opened
    set vivado [version -short]
    say "Vivado $vivado, part @PART@"
    take_up
    lassign [try_all] best result
    set routed [file join $out attempts $best route.dcp]
    if {$opened ne $routed} {
        close_opened
        open_checkpoint $routed
        set opened $routed
    }

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

    # Asked of the design that is open, not of what was written down about it.
    set setup [worst_slack max]
    set hold [worst_slack min]
    set met [expr {$setup >= 0 && $hold >= 0}]
    set pairs [list build @HASH@ board @BOARD@ part @PART@ vivado $vivado strategy $best \\
        link_mhz @LINK_MHZ@ core_mhz @CORE_MHZ@ setup_slack_ns $setup hold_slack_ns $hold met $met]
    say "worst setup slack $setup ns, worst hold slack $hold ns (strategy $best)"
    if {!$met} {
        write_pairs [file join $out @RESULT@] $pairs
        say "timing is missed: no bitstream is written; see @OUT@/reports/timing_summary.rpt"
        return @MISSED@
    }

    say "8/8 write the bitstream and the flash image"
    # Paths without folders: a blank in one would end the word inside -loadbit.
    cd $out
    write_bitstream -force pinion.bit
    write_cfgmem -force -format mcs -size @FLASH_MB@ -interface @FLASH@ \\
        -loadbit {up 0x00000000 pinion.bit} -file pinion.mcs
    write_pairs [file join $out @RESULT@] $pairs
    say "done: @OUT@/pinion.bit"
    return 0
}

run build
"""

_CORE = """
# How fast is the core alone? Nothing around it is built: no pads, no DMA engine, one die.
# Another clock to aim at than @CORE_MHZ@ MHz, another strategy than the first:
# vivado ... -tclargs MHZ STRATEGY, and "@EXPLICIT@" behind them for explicit DSP48E2 blocks
set mhz @CORE_MHZ@
set strategy [lindex $strategies 0]
set asked {}
if {[info exists argv] && [llength $argv] > 0} {
    set mhz [lindex $argv 0]
    set asked [lrange $argv 1 end]
    if {[llength $asked] > 0 && [lindex $asked 0] ne "@EXPLICIT@"} {
        set strategy ""
        foreach one $strategies {
            if {[dict get $one name] eq [lindex $asked 0]} {
                set strategy $one
            }
        }
    }
}

proc synth_core {} {
    global here out reports mhz strategy asked
    if {$strategy eq ""} {
        error "there is no strategy '[lindex $asked 0]'"
    }
    set name [dict get $strategy name]
    file mkdir $reports
    set period [format %.3f [expr {1000.0 / $mhz}]]
    say "Vivado [version -short], part @PART@, aiming at $mhz MHz"
    create_project -in_memory -part @PART@
    read_verilog [file join $here @TOP@.v]
    say "3/8 synthesise"
    synth_design -top @CORE_TOP@ -part @PART@ -mode out_of_context \\
        -directive [dict get $strategy synth] \\
        {*}[blocks] \\
        @SYNTHESIS@
    create_clock -period $period -name core [get_ports clk]
    create_pblock @PBLOCK@
    add_cells_to_pblock [get_pblocks @PBLOCK@] [get_cells *]
    resize_pblock [get_pblocks @PBLOCK@] -add {@SLR@}
    set_property IS_SOFT FALSE [get_pblocks @PBLOCK@]
    say "4/8 optimise"
    opt_design
    say "5/8 place ($name)"
    implement $strategy [get_clocks core]
    save [file join $out core.dcp]
    report_utilization -hierarchical -file [file join $reports core_utilization.rpt]
    report_timing_summary -max_paths 10 -file [file join $reports core_timing_summary.rpt]
    set setup [worst_slack max]
    set fmax [format %.1f [expr {1000.0 / ($period - $setup)}]]
    write_pairs [file join $out @CORE_RESULT@] [list build @HASH@ part @PART@ aimed_mhz $mhz \\
        strategy $name setup_slack_ns $setup fmax_mhz $fmax]
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
        SOURCES=" ".join(sources(board)),
        CORE_CLOCK=f"{XDMA_CELL}/axi_aclk" if core_clock is None else f"{CORE_CLOCK_CELL}/O",
        TRIES=str(TRIES),
        SHARE=str(SHARE_PERCENT),
        DIE_LUT=str(board.die()["lut"]),
        DIE_DSP=str(board.die()["dsp"]),
    )


def sources(board: Board) -> tuple[str, ...]:
    """Files of a board's folder that decide what comes of the script."""
    name = board.name
    plans = (f"{name}{part}.xdc" for part in ("", "_timing", "_die", "_dies"))
    return (f"{TOP}.v", *plans, BUILD_TCL)


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
        "VERSION": comment(manifest.version),
        "ROBOT": comment(manifest.robot),
        "FUNCTION": comment(manifest.function),
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
        "SYNTHESIS": SYNTHESIS,
        "STRATEGIES": strategies_tcl(),
        "CORE_TOP": CORE,
        "EXPLICIT": EXPLICIT,
        "MACRO": MACRO,
        "RESULT": RESULT,
        "ATTEMPTS": ATTEMPTS,
        "CORE_RESULT": CORE_RESULT,
        "LINK_MHZ": f"{board.link.clock_mhz:g}",
        "CORE_MHZ": f"{core_mhz:.6g}",
        "FLASH": board.flash.interface,
        "FLASH_MB": str(board.flash.size_mb),
    }
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return text
