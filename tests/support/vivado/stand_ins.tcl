# Stand-ins for Vivado's commands: each knows its own options, the properties of the table, and the
# ports, cells and clocks of the design, and refuses everything else. Nothing is built.
#
# Set before this file is read: ::commands (name -> {flags least most returns xdc}), ::properties
# ({kind name} -> pattern, "" for read only), ::values ({command option} -> words), ::facts (ports,
# cells, pins, slacks, ip, amounts, faults), ::log.

set ::refused {}
set ::done {}
set ::ips {}
set ::pblocks {}
set ::clocks {}
set ::routes 0
set ::calls {}
set ::project 0
set ::journal [open $::log w]

proc note {args} {
    puts $::journal [join $args "\t"]
}

proc refuse {text} {
    lappend ::refused $text
    note refused $text
    error "REFUSED: $text"
}

# What must have run before a command may.
proc after {command} {
    set needs {
        synth_ip generate_target  generate_target create_ip  create_ip create_project
        read_verilog create_project  synth_design read_verilog  opt_design synth_design
        place_design opt_design  route_design place_design  write_bitstream route_design
        write_checkpoint synth_design  write_cfgmem write_bitstream  get_timing_paths route_design
        report_timing_summary route_design  report_utilization synth_design
        phys_opt_design place_design  report_power route_design  report_route_status route_design  report_drc route_design
    }
    if {[dict exists $needs $command]} {
        return [dict get $needs $command]
    }
    return ""
}

# Splits a call into options and other arguments; refuses what the table does not have.
proc parse {command words} {
    lassign [dict get $::commands $command] flags least most
    set options {}
    set others {}
    for {set i 0} {$i < [llength $words]} {incr i} {
        set word [lindex $words $i]
        # A dash and a letter: -1 is a number, not an option.
        if {[regexp {^-[a-z]} $word] && [string first " " $word] < 0} {
            set flag [string range $word 1 end]
            if {![dict exists $flags $flag]} {
                refuse "$command has no option $word"
            }
            set value 1
            if {[dict get $flags $flag]} {
                if {[incr i] >= [llength $words]} {
                    refuse "$command: $word wants a value"
                }
                set value [lindex $words $i]
                set key [list $command $flag]
                if {[dict exists $::values $key]} {
                    if {$value ni [dict get $::values $key]} {
                        refuse "'$value' is not a valid value of $command $word"
                    }
                    note value $command $flag $value
                }
            }
            note option $command $flag
            dict set options $flag $value
        } else {
            lappend others $word
        }
    }
    if {[llength $others] < $least || [llength $others] > $most} {
        refuse "$command takes $least to $most arguments, not [llength $others]: $words"
    }
    set needed [after $command]
    if {$needed ne "" && $needed ni $::done} {
        refuse "$command comes before $needed"
    }
    return [list $options $others]
}

# Names are patterns with * and ? alone: brackets are part of the name of a bit.
proc matching {kind patterns names} {
    set found {}
    foreach pattern $patterns {
        set literal [string map {\\ \\\\ [ \\[ ] \\]} $pattern]
        set these {}
        foreach name $names {
            if {[string match $literal $name]} {
                lappend these $kind:$name
            }
        }
        if {[llength $these] == 0} {
            refuse "there is no $kind '$pattern'"
        }
        lappend found {*}$these
    }
    return $found
}

proc kind_of {object} { return [lindex [split $object :] 0] }
proc name_of {object} { return [string range $object [string length [kind_of $object]:] end] }

proc pattern_of {object property} {
    set key [list [kind_of $object] $property]
    if {![dict exists $::properties $key]} {
        refuse "a [kind_of $object] has no property '$property'"
    }
    note property {*}$key
    return [dict get $::properties $key]
}

proc need_netlist {what} {
    if {"synth_design" ni $::done} {
        refuse "$what is asked for before synthesis"
    }
}

proc written {path} {
    if {![file isdirectory [file dirname [file normalize $path]]]} {
        refuse "there is no folder for $path"
    }
    close [open $path w]
}

proc there {path} {
    if {![file isfile $path]} {
        refuse "there is no file $path"
    }
}

# ---- commands that do more than nothing ---------------------------------------------------------

proc do_set_property {options others} {
    if {[dict exists $options dict]} {
        lassign $others pairs objects
        if {[llength $pairs] % 2} {
            refuse "set_property -dict wants pairs, not: $pairs"
        }
    } else {
        if {[llength $others] != 3} {
            refuse "set_property wants a name, a value and an object"
        }
        lassign $others name value objects
        set pairs [list $name $value]
    }
    if {[llength $objects] == 0} {
        refuse "set_property $pairs has no object"
    }
    foreach object $objects {
        foreach {name value} $pairs {
            set pattern [pattern_of $object $name]
            if {$pattern eq "" || ![regexp "^(?:$pattern)\$" $value]} {
                refuse "'$value' is not a valid value of $name ([kind_of $object] [name_of $object])"
            }
            note set [kind_of $object] [name_of $object] $name $value
        }
    }
}

proc do_get_property {options others} {
    lassign $others name object
    pattern_of $object $name
    switch $name {
        SLACK { return [slack [name_of $object]] }
        PERIOD { return [dict get $::facts pins [name_of $object]] }
    }
    refuse "nothing is known of $name"
}

# What timing came out as: of the last route, as far as there are slacks for it.
proc slack {kind} {
    set all [dict get $::facts slacks]
    return [dict get [lindex $all [expr {min($::routes, [llength $all]) - 1}]] $kind]
}

# A checkpoint holds what had been done to the design.
proc do_write_checkpoint {options others} {
    written [lindex $others 0]
    set file [open [lindex $others 0] w]
    puts $file [list $::done $::routes $::clocks]
    close $file
}
proc do_open_checkpoint {options others} {
    if {$::project} {
        refuse "open_checkpoint: a project is open"
    }
    there [lindex $others 0]
    set file [open [lindex $others 0]]
    lassign [read $file] ::done ::routes_of_it ::clocks
    close $file
    set ::project 1
    set ::routes [expr {$::routes_of_it ? $::routes_of_it : $::routes}]
}
proc do_create_project {options others} {
    if {$::project} {
        refuse "create_project: a project is open"
    }
    set ::project 1
}
proc do_close_project {options others} {
    if {!$::project} {
        refuse "close_project: no project is open"
    }
    set ::project 0
    set ::done {}
    set ::ips {}
    set ::pblocks {}
    set ::clocks {}
}

# Each step runs once on a design, unless it may go over it again.
proc once {command} {
    if {$command in $::done} {
        refuse "$command has run on this design"
    }
}
proc do_place_design {options others} {
    once place_design
    if {[llength $::clocks] == 0} {
        refuse "place_design: there is no clock"
    }
}
proc do_route_design {options others} {
    once route_design
    if {[dict size $::margins]} {
        refuse "route_design: clocks are still tightened"
    }
    incr ::routed
    set ::routes $::routed
}
set ::routed 0
set ::unrouted {}
proc do_report_route_status {options others} {
    if {[dict exists $options boolean_check]} {
        return [expr {$::routes ni $::unrouted}]
    }
    written [dict get $options file]
}
set ::margins {}
proc do_set_clock_uncertainty {options others} {
    lassign $others value clocks
    if {![dict exists $options setup]} {
        refuse "set_clock_uncertainty wants -setup: hold is not to be tightened"
    }
    if {![string is double -strict $value] || [llength $clocks] == 0} {
        refuse "set_clock_uncertainty: '$others' is no time and clocks"
    }
    foreach clock $clocks {
        if {[kind_of $clock] ne "clock"} {
            refuse "set_clock_uncertainty: $clock is no clock"
        }
        note margin [name_of $clock] $value
        if {$value == 0} {
            dict unset ::margins $clock
        } else {
            dict set ::margins $clock $value
        }
    }
}

proc do_create_ip {options others} {
    foreach flag {name vendor library module_name dir} {
        if {![dict exists $options $flag]} {
            refuse "create_ip wants -$flag"
        }
    }
    if {[dict get $options name] ne [dict get $::facts ip]} {
        refuse "there is no IP '[dict get $options name]'"
    }
    if {![file isdirectory [dict get $options dir]]} {
        refuse "there is no folder [dict get $options dir]"
    }
    lappend ::ips [dict get $options module_name]
}

proc do_get_ips {options others} { return [matching ip [lindex $others 0] $::ips] }
proc do_get_ports {options others} {
    return [matching port [lindex $others 0] [dict get $::facts ports]]
}
proc do_get_pins {options others} {
    need_netlist [lindex $others 0]
    return [matching pin [lindex $others 0] [dict keys [dict get $::facts pins]]]
}
proc do_current_design {options others} { return design:top }

proc do_get_cells {options others} {
    need_netlist "get_cells $others"
    if {[dict exists $options filter]} {
        if {![regexp {^(\w+) (==|=~) ([\w*]+)$} [dict get $options filter] all name how value]} {
            refuse "the filter '[dict get $options filter]' is not one comparison"
        }
        pattern_of cell:any $name
        set cells {}
        if {$name eq "REF_NAME"} {
            # As many as the design has of what the pattern names: LUT*, DSP48E2.
            return [lrepeat [dict get $::facts amounts $value] cell:any]
        }
        for {set i 0} {$i < [dict get $::facts $name]} {incr i} {
            lappend cells cell:pinion/synchroniser_$i/stage0_reg cell:pinion/synchroniser_$i/stage1_reg
        }
        return $cells
    }
    return [matching cell [lindex $others 0] [dict get $::facts cells]]
}

proc do_get_clocks {options others} {
    if {![dict exists $options of_objects]} {
        return [matching clock [lindex $others 0] $::clocks]
    }
    set clocks {}
    foreach object [dict get $options of_objects] {
        lappend clocks clock:[name_of $object]
    }
    return $clocks
}

proc do_get_timing_paths {options others} {
    set kind [dict get $options delay_type]
    if {[slack $kind] eq ""} {
        return {}
    }
    return path:$kind
}

proc do_create_pblock {options others} {
    lappend ::pblocks [lindex $others 0]
    return pblock:[lindex $others 0]
}
proc do_get_pblocks {options others} { return [matching pblock [lindex $others 0] $::pblocks] }
proc do_add_cells_to_pblock {options others} {
    lassign $others pblock cells
    if {[kind_of $pblock] ne "pblock" || ![llength $cells] || [kind_of [lindex $cells 0]] ne "cell"} {
        refuse "add_cells_to_pblock wants a pblock and cells, not: $others"
    }
    note placed [name_of $pblock] {*}$cells
}
proc do_resize_pblock {options others} {
    if {![regexp {^SLR[0-3]$} [dict get $options add]]} {
        refuse "there is no die '[dict get $options add]'"
    }
    note region [name_of [lindex $others 0]] [dict get $options add]
}

proc do_create_clock {options others} {
    set object [lindex $others 0]
    if {[llength $object] != 1 || [kind_of $object] ne "port"} {
        refuse "create_clock wants one port, not: $object"
    }
    if {![string is double -strict [dict get $options period]]} {
        refuse "create_clock: '[dict get $options period]' is no period"
    }
    note clock [name_of $object] [dict get $options period]
    set name [name_of $object]
    if {[dict exists $options name]} {
        set name [dict get $options name]
    }
    lappend ::clocks $name
}

proc do_set_false_path {options others} {
    foreach {flag objects} $options {
        foreach object $objects { note false_path $flag [name_of $object] }
    }
}

proc do_set_max_delay {options others} {
    foreach flag {datapath_only from to} {
        if {![dict exists $options $flag]} {
            refuse "set_max_delay wants -$flag: a crossing has no hold"
        }
    }
    if {![string is double -strict [lindex $others 0]]} {
        refuse "set_max_delay: '$others' is no delay"
    }
    note max_delay [dict get $options from] [dict get $options to] [lindex $others 0]
}

proc do_read_verilog {options others} { there [lindex $others 0] }
proc do_read_xdc {options others} {
    there [lindex $others 0]
    set file [open [lindex $others 0]]
    set text [read $file]
    close $file
    xdc eval $text
}

proc do_synth_design {options others} {
    if {[dict get $options top] ni [dict get $::facts tops]} {
        refuse "there is no module '[dict get $options top]'"
    }
    note top [dict get $options top] [dict get $options part]
}

proc do_write_bitstream {options others} { written [lindex $others 0] }
proc do_write_cfgmem {options others} {
    there [lindex [dict get $options loadbit] 2]
    written [dict get $options file]
}
proc do_version {options others} { return 0.0-stand-in }

# Faults on order: at its so-manieth call a command fails, or Vivado dies of it.
proc fault {command} {
    dict incr ::calls $command
    foreach {name number kind} [dict get $::facts faults] {
        if {$name eq $command && $number == [dict get $::calls $command]} {
            if {$kind eq "dies"} {
                close $::journal
                flush stdout
                leave 139
            }
            if {$kind eq "unrouted"} {
                lappend ::unrouted [expr {$::routed + 1}]
                return
            }
            error "ERROR: \[Common 17-49\] $command failed\n    in two lines, with a \{ brace"
        }
    }
}

# ---- making them --------------------------------------------------------------------------------

foreach command [dict keys $::commands] {
    proc $command {args} [string map [list @ $command] {
        note call @ $args
        fault @
        lassign [parse @ $args] options others
        set result ""
        if {[llength [info procs do_@]]} {
            set result [do_@ $options $others]
        } elseif {[dict exists $options file]} {
            written [dict get $options file]
        }
        lappend ::done @
        return $result
    }]
}

# A constraints file is no script: of Tcl it may use what UG903 allows and nothing else.
interp create xdc
foreach command [xdc eval {info commands}] {
    if {$command ni {set list expr}} {
        xdc hide $command
    }
}
foreach command [dict keys $::commands] {
    if {[lindex [dict get $::commands $command] 4]} {
        interp alias xdc $command {} $command
    }
}
proc not_in_xdc {command args} { refuse "'$command' may not stand in a constraints file" }
interp alias xdc unknown {} not_in_xdc

proc unknown {command args} { refuse "there is no command '$command'" }
rename exec {}

rename exit leave
proc exit {{code 0}} {
    note exit $code
    close $::journal
    flush stdout
    leave [expr {[llength $::refused] ? 99 : $code}]
}
