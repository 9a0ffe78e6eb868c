// Drives one core, compiled by CXXRTL or Verilator, through whole batches of stream beats.
//
// Compiled together with the generated C++ of the core, loaded by compiled.py. PINION_MODEL names
// the header with the class Model, the one place that knows which generator it was. Everything that
// happens once a cycle is here, so a batch runs at compiled speed.
//
// One cycle: inputs are driven while the clock is low and the combinational outputs settle;
// handshakes are sampled; then the clock rises. Cycle numbers count from the start of the batch.
//
// Nothing is shared between two engines: no globals.

#include PINION_MODEL

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

void tick(Model &core) {
    core.clk(true);
    core.step();
    core.clk(false);
}

}  // namespace

// Whatever else the library holds is hidden, so that two libraries cannot mix.
#pragma GCC visibility push(default)

extern "C" {

// Mirrored field by field by `_Run` in compiled.py.
struct Run {
    const uint32_t *beats;  // (n_beats, lanes_in)
    const uint8_t *last;    // (n_beats,)
    uint64_t n_beats;
    const uint8_t *idle;  // (n_idle,) repeated: nonzero keeps a new beat from being offered
    uint64_t n_idle;
    const uint8_t *stall;  // (n_stall,) repeated: nonzero keeps o_tready low
    uint64_t n_stall;
    uint64_t n_expected;  // output beats to wait for
    uint64_t limit;       // give up after so many cycles without progress (host willing)
    uint64_t drain;       // cycles to run after the last expected beat, looking for surplus ones
    uint64_t n_trace;     // trace mode when not 0: run exactly so many cycles
    uint32_t *trace;      // (n_trace, chunks of all watched signals)
    uint32_t *out;        // (n_expected, lanes_out)
    uint8_t *out_last;    // (n_expected,)
    uint8_t *out_user;    // (n_expected,)
    int64_t *accepted;    // (n_beats,) cycle of each input handshake
    int64_t *emitted;     // (n_expected,) cycle of each output handshake
    int64_t *launched;    // (launch_capacity,) cycle of each launch
    uint64_t launch_capacity;
    uint64_t n_accepted, n_emitted, n_launched;  // results
    uint64_t surplus, violations, cycles, deadlock;
};

Model *pinion_create() { return new Model; }

void pinion_destroy(Model *core) { delete core; }

uint64_t pinion_input_bits(Model *core) { return core->input_bits(); }

uint64_t pinion_output_bits(Model *core) { return core->output_bits(); }

uint64_t pinion_build_hash(Model *core) { return core->build_hash(); }

void pinion_reset(Model *engine) {
    Model &core = *engine;
    core.clk(false);
    core.i_tvalid(false);
    core.o_tready(false);
    core.reset_state(false);
    core.rst(true);
    for (int cycle = 0; cycle < 4; cycle++) {
        core.step();
        tick(core);
    }
    core.rst(false);
    core.step();
}

// Holds reset_state for one cycle; a core without states goes on by one.
void pinion_reset_state(Model *engine) {
    Model &core = *engine;
    core.reset_state(true);
    core.step();
    tick(core);
    core.reset_state(false);
    core.step();
}

// Names of all signals, one a line, levels separated by a space.
const char *pinion_names(Model *core) { return core->names(); }

void pinion_watch_none(Model *core) { core->watch_none(); }

// Adds a signal to the trace; returns its width in bits, or -1 where there is no such signal.
int64_t pinion_watch(Model *core, const char *name) { return core->watch(name); }

void pinion_run(Model *engine, Run *run) {
    Model &core = *engine;
    const size_t lanes_in = core.input_bits() / 32, lanes_out = core.output_bits() / 32;
    const size_t out_bytes = lanes_out * sizeof(uint32_t);
    uint64_t accepted = 0, emitted = 0, launched = 0, surplus = 0, violations = 0;
    uint64_t waited = 0, drained = 0, cycle = 0;
    uint64_t idle_phase = 0, stall_phase = 0;
    uint32_t *row = run->trace;
    bool valid = false;    // an input beat is on offer
    bool offered = false;  // the core offered an output beat that the host did not take
    std::vector<uint32_t> held(lanes_out);
    bool held_last = false, held_user = false;
    run->deadlock = 0;

    for (;; cycle++) {
        bool complete = accepted == run->n_beats && emitted == run->n_expected;
        if (run->n_trace != 0) {
            if (cycle == run->n_trace) break;
        } else if (complete && drained++ == run->drain) {
            break;
        }

        bool idle = run->n_idle != 0 && run->idle[idle_phase] != 0;
        bool stall = run->n_stall != 0 && run->stall[stall_phase] != 0;
        if (++idle_phase >= run->n_idle) idle_phase = 0;
        if (++stall_phase >= run->n_stall) stall_phase = 0;
        // Once a beat is on offer it stays until it is accepted: pauses fall between beats.
        if (!valid && !idle && accepted < run->n_beats) {
            valid = true;
            core.i_tdata(run->beats + accepted * lanes_in);
            core.i_tlast(run->last[accepted] != 0);
        }
        bool ready = complete || !stall;
        core.i_tvalid(valid);
        core.o_tready(ready);
        core.step();

        bool in_ready = core.i_tready();
        bool out_valid = core.o_tvalid();
        bool out_last = core.o_tlast();
        bool out_user = core.o_tuser();
        const uint32_t *out = core.o_tdata();

        if (offered &&
            (!out_valid || out_last != held_last || out_user != held_user ||
             std::memcmp(out, held.data(), out_bytes) != 0))
            violations++;
        offered = out_valid && !ready;
        if (offered) {
            std::memcpy(held.data(), out, out_bytes);
            held_last = out_last;
            held_user = out_user;
        }
        if (core.launch()) {
            if (launched < run->launch_capacity) run->launched[launched] = int64_t(cycle);
            launched++;
        }
        if (run->n_trace != 0) row = core.record(row);

        // Only cycles in which the host did its part count towards the limit.
        bool willing = ready && (valid || accepted == run->n_beats);
        if (willing) waited++;
        if (valid && in_ready) {
            run->accepted[accepted++] = int64_t(cycle);
            valid = false;
            waited = 0;
        }
        if (out_valid && ready) {
            if (emitted < run->n_expected) {
                std::memcpy(run->out + emitted * lanes_out, out, out_bytes);
                run->out_last[emitted] = out_last;
                run->out_user[emitted] = out_user;
                run->emitted[emitted++] = int64_t(cycle);
                waited = 0;
            } else {
                surplus++;
            }
        }
        tick(core);
        if (waited > run->limit && run->n_trace == 0 && !complete) {
            run->deadlock = 1;
            cycle++;
            break;
        }
    }
    core.i_tvalid(false);
    core.o_tready(false);
    core.step();
    run->n_accepted = accepted;
    run->n_emitted = emitted;
    run->n_launched = launched;
    run->surplus = surplus;
    run->violations = violations;
    run->cycles = cycle;
}

}  // extern "C"

#pragma GCC visibility pop
