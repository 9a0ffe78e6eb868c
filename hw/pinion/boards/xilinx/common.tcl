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

# The option that selects the Verilog's explicit DSP48E2 blocks, if they are requested.
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

# A file is written completely or not at all, so an interrupted run leaves no partial file.
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
    set lines [split [string trim [read $file]] "\n"]
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

# From the open netlist to a routed one. The margin is for placement alone: a router that works to
# meet it would lengthen wires elsewhere.
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
        say "6/8 worst setup slack [worst_slack max] ns: optimise once more"
        phys_opt_design -directive AggressiveExplore
    } elseif {[worst_slack min] < 0} {
        say "6/8 worst hold slack [worst_slack min] ns: optimise once more"
        phys_opt_design -directive ExploreWithAggressiveHoldFix
    }
}

# Exits with code 0 on success, @MISSED@ if timing is missed, @FAILED@ for anything else.
proc run {job} {
    if {[catch {$job} code]} {
        say "failed: $code"
        exit @FAILED@
    }
    exit $code
}
