// Drives a whole card, compiled by Verilator, at its AXI side: two clocks, two streams, registers.
//
// Compiled together with the generated C++ of the top, loaded by top.py. Everything that happens
// once a cycle is here. Nothing is shared between two cards: no globals.
//
// One cycle of the link: inputs are driven right after the edge, the core's edges that fall before
// the link's next one happen, handshakes are sampled, and the link's clock rises, together with the
// core's where both rise at once: each side then sees what the other held before, as registers do.

#include "verilated.h"

#include PINION_CORE

#include <cstdint>
#include <cstring>

// Verilator's run-time library asks for the time, which this engine does not keep.
double sc_time_stamp() { return 0; }

namespace {

constexpr size_t BEAT = 64;

// A top without a clock of its own for the core has no such port.
template <class Top> auto core_clock(Top &top, bool level, int) -> decltype(top.core_clk, void()) {
    top.core_clk = level;
}
template <class Top> void core_clock(Top &, bool, long) {}
template <class Top> auto has_core_clock(Top &top, int) -> decltype(top.core_clk, true) {
    return true;
}
template <class Top> bool has_core_clock(Top &, long) { return false; }

class Card {
    // A context of its own, so that two cards may run in two threads.
    VerilatedContext context;
    Vtop top{&context, ""};
    uint64_t link = 1, core = 1;  // periods
    uint64_t until_core = 1;      // time from the link's last edge to the core's next one
    bool on_offer = false;        // a request beat that the card did not take
    bool waits = false;           // a result beat that the host did not take, kept to compare
    uint8_t kept[BEAT];
    uint64_t kept_keep = 0;
    bool kept_last = false;

    static_assert(sizeof Vtop::h2c_tdata == BEAT && sizeof Vtop::c2h_tdata == BEAT,
                  "streams of 512 bits");

    // What the card offered must still be there as long as the host did not take it.
    void watch(bool ready) {
        bool valid = top.c2h_tvalid;
        if (waits && (!valid || top.c2h_tkeep != kept_keep || bool(top.c2h_tlast) != kept_last ||
                      std::memcmp(&top.c2h_tdata, kept, BEAT) != 0))
            violations++;
        bool goes_on = waits && valid;
        waits = valid && !ready;
        if (waits && !(goes_on && std::memcmp(&top.c2h_tdata, kept, BEAT) == 0))
            std::memcpy(kept, &top.c2h_tdata, BEAT);
        kept_keep = top.c2h_tkeep;
        kept_last = top.c2h_tlast;
    }

public:
    uint64_t now = 0;  // cycles of the link since configuration
    uint64_t violations = 0;  // since the last run ended

    Card() {
        top.clk = 0;
        core_clock(top, false, 0);
        top.rst = 0;
        top.h2c_tvalid = top.c2h_tready = 0;
        top.s_axil_awvalid = top.s_axil_wvalid = top.s_axil_arvalid = 0;
        top.s_axil_bready = top.s_axil_rready = 0;
        top.s_axil_awprot = top.s_axil_arprot = 0;
        top.eval();
    }
    ~Card() { top.final(); }

    Vtop &ports() { return top; }
    bool crossing() { return has_core_clock(top, 0); }
    bool offering() const { return on_offer; }
    bool answering() const { return waits; }

    void clocks(uint64_t link_period, uint64_t core_period) {
        link = link_period;
        core = until_core = core_period;
    }

    void offer(const uint32_t *beat, uint64_t keep, bool last) {
        std::memcpy(&top.h2c_tdata, beat, BEAT);
        top.h2c_tkeep = keep;
        top.h2c_tlast = last;
        on_offer = true;
    }

    // Brings everything up to just before the link's edge: outputs are what the edge will see.
    void settle(bool ready) {
        top.h2c_tvalid = on_offer;
        top.c2h_tready = ready;
        top.eval();
        for (; until_core < link; until_core += core) {
            core_clock(top, true, 0);
            top.eval();
            core_clock(top, false, 0);
            top.eval();
        }
        watch(ready);
    }

    // Returns whether the card took the request beat on offer.
    bool edge() {
        bool taken = on_offer && top.h2c_tready;
        if (taken) on_offer = false;
        bool both = until_core == link;
        top.clk = 1;
        if (both) core_clock(top, true, 0);
        top.eval();
        top.clk = 0;
        core_clock(top, false, 0);
        until_core = (both ? until_core + core : until_core) - link;
        now++;
        return taken;
    }

    // Long enough for both clocks to see it.
    void reset() {
        on_offer = waits = false;
        top.rst = 1;
        for (uint64_t cycle = 0; cycle < 8 + 8 * core / link; cycle++) {
            settle(false);
            waits = false;
            edge();
        }
        top.rst = 0;
        violations = now = 0;
    }

    // Returns the response, or -1 where the card did not answer.
    int write(uint32_t offset, uint32_t value, uint32_t strobes, uint64_t limit) {
        top.s_axil_awaddr = offset;
        top.s_axil_wdata = value;
        top.s_axil_wstrb = strobes;
        top.s_axil_awvalid = top.s_axil_wvalid = top.s_axil_bready = 1;
        int response = -1;
        for (uint64_t cycle = 0; cycle < limit && response < 0; cycle++) {
            settle(false);
            bool address = top.s_axil_awready, data = top.s_axil_wready;
            if (top.s_axil_bvalid) response = top.s_axil_bresp;
            edge();
            if (address) top.s_axil_awvalid = 0;
            if (data) top.s_axil_wvalid = 0;
        }
        top.s_axil_awvalid = top.s_axil_wvalid = top.s_axil_bready = 0;
        return response;
    }

    int read(uint32_t offset, uint32_t *value, uint64_t limit) {
        top.s_axil_araddr = offset;
        top.s_axil_arvalid = top.s_axil_rready = 1;
        int response = -1;
        for (uint64_t cycle = 0; cycle < limit && response < 0; cycle++) {
            settle(false);
            bool address = top.s_axil_arready;
            if (top.s_axil_rvalid) {
                response = top.s_axil_rresp;
                *value = top.s_axil_rdata;
            }
            edge();
            if (address) top.s_axil_arvalid = 0;
        }
        top.s_axil_arvalid = top.s_axil_rready = 0;
        return response;
    }
};

// A pattern of pauses, repeated; an empty one never pauses.
class Pauses {
    const uint8_t *pattern;
    uint64_t length, phase = 0;

public:
    Pauses(const uint8_t *pattern, uint64_t length) : pattern(pattern), length(length) {}
    bool next() {
        if (length == 0) return false;
        bool pause = pattern[phase] != 0;
        if (++phase == length) phase = 0;
        return pause;
    }
};

}  // namespace

// Whatever else the library holds is hidden, so that two libraries cannot mix.
#pragma GCC visibility push(default)

extern "C" {

// Mirrored field by field by `_Run` in top.py.
struct Run {
    const uint32_t *beats;  // (n_beats, 16)
    const uint64_t *keep;   // (n_beats,), or null for whole beats
    const uint8_t *last;    // (n_beats,)
    uint64_t n_beats;
    uint64_t room;        // result beats to take
    const uint8_t *idle;  // (n_idle,) repeated: nonzero keeps a new beat from being offered
    uint64_t n_idle;
    const uint8_t *stall;  // (n_stall,) repeated: nonzero keeps c2h_tready low
    uint64_t n_stall;
    uint64_t limit;        // stop after so many cycles without progress (host willing)
    uint64_t max_cycles;   // or after so many cycles
    uint64_t wait;         // or when all beats are in and the room is used
    uint32_t *out;         // (room, 16)
    uint64_t *out_keep;    // (room,)
    uint8_t *out_last;     // (room,)
    int64_t *accepted_at;  // (n_beats,)
    int64_t *emitted_at;   // (room,)
    uint64_t accepted, emitted, cycles, violations, held, waiting;  // results
};

Card *pinion_top_create() { return new Card; }

void pinion_top_destroy(Card *card) { delete card; }

uint64_t pinion_top_crossing(Card *card) { return card->crossing(); }

void pinion_top_clocks(Card *card, uint64_t link, uint64_t core) { card->clocks(link, core); }

void pinion_top_reset(Card *card) { card->reset(); }

uint64_t pinion_top_now(Card *card) { return card->now; }

int pinion_top_write(Card *card, uint32_t offset, uint32_t value, uint32_t strobes,
                     uint64_t limit) {
    return card->write(offset, value, strobes, limit);
}

int pinion_top_read(Card *card, uint32_t offset, uint32_t *value, uint64_t limit) {
    return card->read(offset, value, limit);
}

void pinion_top_run(Card *engine, Run *run) {
    Card &card = *engine;
    auto &ports = card.ports();
    Pauses idles(run->idle, run->n_idle), stalls(run->stall, run->n_stall);
    uint64_t offered = 0, emitted = 0, waited = 0, cycle = 0;

    for (;; cycle++) {
        bool all_in = offered == run->n_beats && !card.offering();
        if (run->wait && all_in && emitted == run->room) break;
        if (cycle == run->max_cycles || waited == run->limit) break;

        bool idle = idles.next(), stall = stalls.next();
        // Once a beat is on offer it stays until it is taken: pauses fall between beats.
        if (!idle && !card.offering() && offered < run->n_beats) {
            card.offer(run->beats + offered * (BEAT / 4),
                       run->keep != nullptr ? run->keep[offered] : ~uint64_t(0),
                       run->last[offered] != 0);
            offered++;
        }
        bool ready = !stall && emitted < run->room;
        card.settle(ready);

        // Only cycles in which the host did its part count towards the limit.
        if (!stall && (card.offering() || offered == run->n_beats)) waited++;
        if (ready && ports.c2h_tvalid) {
            std::memcpy(run->out + emitted * (BEAT / 4), &ports.c2h_tdata, BEAT);
            run->out_keep[emitted] = ports.c2h_tkeep;
            run->out_last[emitted] = ports.c2h_tlast;
            run->emitted_at[emitted++] = int64_t(card.now);
            waited = 0;
        }
        const int64_t stamp = int64_t(card.now);
        if (card.edge()) {
            // A beat carried over from an earlier run has no place in this one's stamps.
            if (offered > 0) run->accepted_at[offered - 1] = stamp;
            waited = 0;
        }
    }
    run->accepted = offered;
    run->emitted = emitted;
    run->cycles = cycle;
    run->violations = card.violations;
    card.violations = 0;
    run->held = card.offering();
    run->waiting = card.answering();
}

}  // extern "C"

#pragma GCC visibility pop
