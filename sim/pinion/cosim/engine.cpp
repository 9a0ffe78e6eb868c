// Drives one core, compiled by CXXRTL, through whole batches of stream beats.
//
// Compiled together with the generated C++ of the core (PINION_CORE names that file), loaded by
// compiled.py. Everything that happens once a cycle is here, so a batch runs at compiled speed.
//
// One cycle: inputs are driven while the clock is low and the combinational outputs settle;
// handshakes are sampled; then the clock rises. Cycle numbers count from the start of the batch.
//
// Nothing is shared between two engines: no globals.

#include PINION_CORE

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Core = cxxrtl_design::p_pinion__core;

// A port is a plain value or a double-buffered wire, as CXXRTL found cheapest.
template <size_t Bits> const cxxrtl::value<Bits> &now(const cxxrtl::value<Bits> &port) { return port; }
template <size_t Bits> const cxxrtl::value<Bits> &now(const cxxrtl::wire<Bits> &port) { return port.curr; }
template <size_t Bits> cxxrtl::value<Bits> &drive(cxxrtl::value<Bits> &port) { return port; }
template <size_t Bits> cxxrtl::value<Bits> &drive(cxxrtl::wire<Bits> &port) { return port.next; }
template <size_t Bits> constexpr size_t bits(const cxxrtl::value<Bits> &) { return Bits; }
template <size_t Bits> constexpr size_t bits(const cxxrtl::wire<Bits> &) { return Bits; }

struct Watched {
    std::vector<cxxrtl::debug_item> parts;
    size_t chunks;
};

struct Engine {
    Core core;
    cxxrtl::debug_items items;
    std::vector<Watched> watched;
    std::string names;
};

}  // namespace

extern "C" {

// Mirrored field by field by `_Batch` in compiled.py.
struct Batch {
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

Engine *pinion_create() {
    Engine *engine = new Engine;
#ifdef PINION_DEBUG
    engine->core.debug_info(&engine->items, nullptr, "");
    for (const auto &entry : engine->items.table) engine->names += entry.first + "\n";
#endif
    return engine;
}

void pinion_destroy(Engine *engine) { delete engine; }

uint64_t pinion_input_bits(Engine *engine) { return bits(engine->core.p_i__tdata); }

uint64_t pinion_output_bits(Engine *engine) { return bits(engine->core.p_o__tdata); }

uint64_t pinion_build_hash(Engine *engine) {
    return now(engine->core.p_build__hash).template get<uint64_t>();
}

static void tick(Core &core) {
    drive(core.p_clk).template set<bool>(true);
    core.step();
    drive(core.p_clk).template set<bool>(false);
}

void pinion_reset(Engine *engine) {
    Core &core = engine->core;
    drive(core.p_clk).template set<bool>(false);
    drive(core.p_i__tvalid).template set<bool>(false);
    drive(core.p_o__tready).template set<bool>(false);
    drive(core.p_rst).template set<bool>(true);
    for (int cycle = 0; cycle < 4; cycle++) {
        core.step();
        tick(core);
    }
    drive(core.p_rst).template set<bool>(false);
    core.step();
}

const char *pinion_names(Engine *engine) { return engine->names.c_str(); }

void pinion_watch_none(Engine *engine) { engine->watched.clear(); }

// Adds a signal to the trace; returns its width in bits, or -1 where there is no such signal.
int64_t pinion_watch(Engine *engine, const char *name) {
    auto found = engine->items.table.find(name);
    if (found == engine->items.table.end()) return -1;
    size_t width = 0;
    for (const auto &part : found->second) {
        if (part.type == cxxrtl::debug_item::MEMORY) return -1;
        width = std::max(width, part.lsb_at + part.width);
    }
    engine->watched.push_back({found->second, (width + 31) / 32});
    return int64_t(width);
}

static uint32_t *record(Engine *engine, uint32_t *row) {
    for (auto &signal : engine->watched) {
        std::memset(row, 0, signal.chunks * sizeof(uint32_t));
        for (auto &part : signal.parts) {
            // An outline is a signal that was optimised away: its value is computed on demand.
            if (part.outline != nullptr) part.outline->eval();
            for (size_t chunk = 0; chunk * 32 < part.width; chunk++) {
                size_t bit = part.lsb_at + chunk * 32;
                uint64_t shifted = uint64_t(part.curr[chunk]) << (bit % 32);
                row[bit / 32] |= uint32_t(shifted);
                if (shifted >> 32) row[bit / 32 + 1] |= uint32_t(shifted >> 32);
            }
        }
        row += signal.chunks;
    }
    return row;
}

void pinion_run(Engine *engine, Batch *batch) {
    Core &core = engine->core;
    constexpr size_t lanes_in = sizeof(drive(core.p_i__tdata).data) / sizeof(uint32_t);
    constexpr size_t lanes_out = sizeof(now(core.p_o__tdata).data) / sizeof(uint32_t);
    uint64_t accepted = 0, emitted = 0, launched = 0, surplus = 0, violations = 0;
    uint64_t waited = 0, drained = 0, cycle = 0;
    uint64_t idle_phase = 0, stall_phase = 0;
    uint32_t *row = batch->trace;
    bool valid = false;    // an input beat is on offer
    bool offered = false;  // the core offered an output beat that the host did not take
    uint32_t held[lanes_out];
    bool held_last = false, held_user = false;
    batch->deadlock = 0;

    for (;; cycle++) {
        bool complete = accepted == batch->n_beats && emitted == batch->n_expected;
        if (batch->n_trace != 0) {
            if (cycle == batch->n_trace) break;
        } else if (complete && drained++ == batch->drain) {
            break;
        }

        bool idle = batch->n_idle != 0 && batch->idle[idle_phase] != 0;
        bool stall = batch->n_stall != 0 && batch->stall[stall_phase] != 0;
        if (++idle_phase >= batch->n_idle) idle_phase = 0;
        if (++stall_phase >= batch->n_stall) stall_phase = 0;
        // Once a beat is on offer it stays until it is accepted: pauses fall between beats.
        if (!valid && !idle && accepted < batch->n_beats) {
            valid = true;
            std::memcpy(drive(core.p_i__tdata).data, batch->beats + accepted * lanes_in,
                        lanes_in * sizeof(uint32_t));
            drive(core.p_i__tlast).template set<bool>(batch->last[accepted] != 0);
        }
        bool ready = complete || !stall;
        drive(core.p_i__tvalid).template set<bool>(valid);
        drive(core.p_o__tready).template set<bool>(ready);
        core.step();

        bool in_ready = now(core.p_i__tready).template get<bool>();
        bool out_valid = now(core.p_o__tvalid).template get<bool>();
        bool out_last = now(core.p_o__tlast).template get<bool>();
        bool out_user = now(core.p_o__tuser).template get<bool>();
        const uint32_t *out = now(core.p_o__tdata).data;

        if (offered &&
            (!out_valid || out_last != held_last || out_user != held_user ||
             std::memcmp(out, held, sizeof held) != 0))
            violations++;
        offered = out_valid && !ready;
        if (offered) {
            std::memcpy(held, out, sizeof held);
            held_last = out_last;
            held_user = out_user;
        }
        if (now(core.p_launch).template get<bool>()) {
            if (launched < batch->launch_capacity) batch->launched[launched] = int64_t(cycle);
            launched++;
        }
        if (batch->n_trace != 0) row = record(engine, row);

        // Only cycles in which the host did its part count towards the limit.
        bool willing = ready && (valid || accepted == batch->n_beats);
        if (willing) waited++;
        if (valid && in_ready) {
            batch->accepted[accepted++] = int64_t(cycle);
            valid = false;
            waited = 0;
        }
        if (out_valid && ready) {
            if (emitted < batch->n_expected) {
                std::memcpy(batch->out + emitted * lanes_out, out, sizeof held);
                batch->out_last[emitted] = out_last;
                batch->out_user[emitted] = out_user;
                batch->emitted[emitted++] = int64_t(cycle);
                waited = 0;
            } else {
                surplus++;
            }
        }
        tick(core);
        if (waited > batch->limit && batch->n_trace == 0 && !complete) {
            batch->deadlock = 1;
            cycle++;
            break;
        }
    }
    drive(core.p_i__tvalid).template set<bool>(false);
    drive(core.p_o__tready).template set<bool>(false);
    core.step();
    batch->n_accepted = accepted;
    batch->n_emitted = emitted;
    batch->n_launched = launched;
    batch->surplus = surplus;
    batch->violations = violations;
    batch->cycles = cycle;
}

}  // extern "C"
