# Arguments after -tclargs: names of strategies, to try only these; "die" or "dies", to set the
# floorplan instead of letting the script choose it; "@EXPLICIT@", for explicit DSP48E2 blocks where
# synthesis would infer them.
set asked {}
if {[info exists argv]} {
    set asked $argv
}

# What is open in Vivado: a path of a checkpoint, or nothing.
set opened ""

# Check that a clock on a pin has the period that the design was made for.
proc expect_clock {pin period} {
    set clocks [get_clocks -of_objects [get_pins $pin]]
    if {[llength $clocks] == 0} {
        error "no clock arrives at $pin"
    }
    foreach clock $clocks {
        set found [get_property PERIOD $clock]
        if {abs($found - $period) > 0.002} {
            error "the clock at $pin has a period of $found ns instead of $period ns"
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

# Everything that decides the result: files of an earlier run are used only if it is unchanged.
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
        say "continuing the earlier run in @OUT@"
        # Its result would be mistaken for that of this run.
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

# The netlist that strategies begin with, created if it is missing: synthesised, linked with the
# DMA engine, optimised once, constrained.
proc begin_with {directive} {
    global here out reports opened
    set start [file join $out start_$directive.dcp]
    if {$opened eq $start} {
        # The following steps change it.
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
    create_ip -name @IP@ -vendor xilinx.com -library ip -module_name @MODULE@ \
        -dir [file join $out ip]
    set_property -dict [list \
@CONFIGURATION@
    ] [get_ips @MODULE@]
    generate_target all [get_ips @MODULE@]
    synth_ip [get_ips @MODULE@]

    say "2/8 read sources"
    read_verilog [file join $here @TOP@.v]
    read_xdc [file join $here @BOARD@.xdc]

    say "3/8 synthesise"
    synth_design -top @TOP@ -part @PART@ -directive $directive \
        {*}[blocks] \
        @SYNTHESIS@
    report_utilization -hierarchical -file [file join $reports utilization_synth.rpt]

    say "4/8 optimise"
    opt_design
    # The DMA engine is linked by now at the latest, and its clocks exist: constraints that name
    # them are checked and read only here.
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

# One die holds the design, unless it would be more than @SHARE@ % full: then placement and routing
# would have too little room.
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
        say "the design is placed on several dies: @BOARD@_dies.xdc"
    }
    write_pairs $file [list floorplan $plan]
    return $plan
}

# Result of a strategy: its outcome (met, missed, failed, died), slacks, a message. It is recorded
# when the strategy has finished, so that no run repeats it.
proc attempt {strategy about} {
    global out opened
    set name [dict get $strategy name]
    set folder [file join $out attempts $name]
    set result [file join $folder result.txt]
    if {[file exists $result]} {
        return [read_pairs $result]
    }
    # Each start leaves a mark. Vivado may have crashed, or someone may have stopped it: the
    # strategy is started once more, and then skipped.
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
        # The router may give up without an error, and an unrouted net has no delay.
        if {![report_route_status -boolean_check ROUTED_FULLY]} {
            error "some nets are not routed"
        }
        set setup [worst_slack max]
        set hold [worst_slack min]
        save [file join $folder route.dcp]
    } message]} {
        # A command's error is not a crash: the next run may have the licence, or the disk space.
        file delete $begun
        catch {close_opened}
        return [list outcome failed message [string map [list "\n" " "] $message]]
    }
    set opened [file join $folder route.dcp]
    set outcome [expr {$setup >= 0 && $hold >= 0 ? "met" : "missed"}]
    set pairs [list outcome $outcome setup_slack_ns $setup hold_slack_ns $hold]
    write_pairs $result $pairs
    return $pairs
}

# Whether one result is better than another: a slower clock does not fix a hold violation.
proc better {one other} {
    set keys {}
    foreach pairs [list $one $other] {
        set hold [dict get $pairs hold_slack_ns]
        lappend keys [expr {min($hold, 0)}] [dict get $pairs setup_slack_ns]
    }
    lassign $keys hold setup other_hold other_setup
    return [expr {$hold > $other_hold || ($hold == $other_hold && $setup > $other_setup)}]
}

# Try strategies in turn until one meets timing; return name and result of the best.
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
            set text "$outcome, setup slack [dict get $result setup_slack_ns] ns,\
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
        error "no strategy finished: $message"
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

    # Read from the open design, not from the recorded result.
    set setup [worst_slack max]
    set hold [worst_slack min]
    set met [expr {$setup >= 0 && $hold >= 0}]
    set pairs [list build @HASH@ board @BOARD@ part @PART@ vivado $vivado strategy $best \
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
    write_cfgmem -force -format mcs -size @FLASH_MB@ -interface @FLASH@ \
        -loadbit {up 0x00000000 pinion.bit} -file pinion.mcs
    write_pairs [file join $out @RESULT@] $pairs
    say "done: @OUT@/pinion.bit"
    return 0
}

run build
