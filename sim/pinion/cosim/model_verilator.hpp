// The model that engine.cpp drives, as Verilator generates it. PINION_CORE names its header.
//
// Signals inside cannot be read: debug builds are CXXRTL's.

#pragma once

#include "verilated.h"

#include PINION_CORE

#include <cstdint>
#include <cstring>
#include <memory>

// Verilator's run-time library asks for the time, which this engine does not keep.
double sc_time_stamp() { return 0; }

class Model {
    // A context of its own, so that two engines may run in two threads.
    VerilatedContext context;
    Vcore core{&context, ""};

public:
    // Little-endian words of 32 bits, whatever integer or array Verilator chose for the width.
    size_t input_bits() const { return 8 * sizeof core.i_tdata; }
    size_t output_bits() const { return 8 * sizeof core.o_tdata; }
    uint64_t build_hash() const { return core.build_hash; }

    void clk(bool level) { core.clk = level; }
    void rst(bool level) { core.rst = level; }
    void i_tvalid(bool level) { core.i_tvalid = level; }
    void i_tlast(bool level) { core.i_tlast = level; }
    void o_tready(bool level) { core.o_tready = level; }
#ifdef PINION_STATES
    void reset_state(bool level) { core.reset_state = level; }
#else
    void reset_state(bool) {}
#endif
    void i_tdata(const uint32_t *beat) { std::memcpy(&core.i_tdata, beat, sizeof core.i_tdata); }
    void step() { core.eval(); }

    bool i_tready() const { return core.i_tready; }
    bool o_tvalid() const { return core.o_tvalid; }
    bool o_tlast() const { return core.o_tlast; }
    bool o_tuser() const { return core.o_tuser; }
    bool launch() const { return core.launch; }
    const uint32_t *o_tdata() const { return reinterpret_cast<const uint32_t *>(&core.o_tdata); }

    const char *names() const { return ""; }
    void watch_none() {}
    int64_t watch(const char *) { return -1; }
    uint32_t *record(uint32_t *row) { return row; }

    ~Model() { core.final(); }
};
