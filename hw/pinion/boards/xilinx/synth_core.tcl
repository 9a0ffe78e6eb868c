# How fast is the core alone? Nothing around it is built: no pads, no DMA engine, one die.
# For another target clock than @CORE_MHZ@ MHz, or another strategy than the first:
# vivado ... -tclargs MHZ STRATEGY, followed by "@EXPLICIT@" for explicit DSP48E2 blocks
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
    say "Vivado [version -short], part @PART@, target $mhz MHz"
    create_project -in_memory -part @PART@
    read_verilog [file join $here @TOP@.v]
    say "3/8 synthesise"
    synth_design -top @CORE_TOP@ -part @PART@ -mode out_of_context \
        -directive [dict get $strategy synth] \
        {*}[blocks] \
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
    write_pairs [file join $out @CORE_RESULT@] [list build @HASH@ part @PART@ aimed_mhz $mhz \
        strategy $name setup_slack_ns $setup fmax_mhz $fmax]
    say "the core alone reaches $fmax MHz (worst setup slack $setup ns at $mhz MHz)"
    return 0
}

run synth_core
