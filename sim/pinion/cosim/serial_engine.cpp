// Drives a card, compiled by Verilator, at its serial line: bytes in, bytes out.
//
// Compiled together with the generated C++ of the card, loaded by serial.py. Nothing is shared
// between two cards: no globals.

#include "verilated.h"

#include PINION_CORE

#include <cstdint>

// Verilator's run-time library asks for the time, which this engine does not keep.
double sc_time_stamp() { return 0; }

namespace {

class Card {
    VerilatedContext context;
    Vserial top{&context, ""};
    uint64_t bit;            // cycles
    uint64_t out_left = 0;   // cycles until the next bit goes on the line
    unsigned out_bits = 0;   // of the byte on the line
    unsigned out_byte = 0;
    uint64_t in_left = 0;    // cycles until the next bit is sampled
    unsigned in_bits = 0;    // left of the byte that comes
    unsigned in_byte = 0;

public:
    explicit Card(uint64_t cycles) : bit(cycles) {
        top.clk = 0;
        top.rx = 1;
        top.rst = 1;
        for (int i = 0; i < 16; i++) edge();
        top.rst = 0;
    }
    ~Card() { top.final(); }

    void edge() {
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
    }

    uint64_t run(const uint8_t *data, uint64_t n, uint64_t cycles, int64_t level, uint8_t *out,
                 uint64_t room) {
        uint64_t at = 0, count = 0;
        for (uint64_t cycle = 0; cycle < cycles || at < n || out_bits; cycle++) {
            if (out_left) {
                out_left--;
            } else if (out_bits) {
                top.rx = out_byte & 1;
                out_byte >>= 1;
                out_bits--;
                out_left = bit - 1;
            } else if (at < n) {
                out_byte = data[at++] | 0x100;  // and the stop bit
                out_bits = 9;
                top.rx = 0;
                out_left = bit - 1;
            } else {
                top.rx = level < 0 ? 1 : level;
            }
            edge();
            if (in_left) {
                in_left--;
            } else if (in_bits) {
                in_byte = in_byte >> 1 | unsigned(top.tx) << 8;
                in_left = bit - 1;
                if (--in_bits == 0) {
                    in_left = 0;
                    // A byte without its stop bit shows as one that nobody sends.
                    if (count < room) out[count++] = in_byte & 0x100 ? in_byte & 0xFF : 0xFF;
                }
            } else if (!top.tx) {
                in_bits = 9;
                in_left = bit + bit / 2 - 1;
            }
        }
        return count;
    }
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void *pinion_serial_create(uint64_t bit) { return new Card(bit); }
EXPORT void pinion_serial_destroy(void *card) { delete static_cast<Card *>(card); }
EXPORT uint64_t pinion_serial_run(void *card, const uint8_t *data, uint64_t n, uint64_t cycles,
                                  int64_t level, uint8_t *out, uint64_t room) {
    return static_cast<Card *>(card)->run(data, n, cycles, level, out, room);
}
