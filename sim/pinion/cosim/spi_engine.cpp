// Drives a card, compiled by Verilator, at its SPI line: a transfer in, a transfer out.
//
// Compiled together with the generated C++ of the card, loaded by pinion.card.spi_ports. Nothing is
// shared between two cards: no globals.

#include "verilated.h"

#include PINION_CORE

#include <cstdint>

// Verilator's run-time library asks for the time, which this engine does not keep.
double sc_time_stamp() { return 0; }

namespace {

class Card {
    VerilatedContext context;
    Vspi top{&context, ""};
    uint64_t now = 0;

public:
    Card() {
        top.clk = 0;
        top.sck = 0;
        top.cs = 1;
        top.mosi = 0;
        top.rst = 1;
        wait(16);
        top.rst = 0;
        now = 0;
    }
    ~Card() { top.final(); }

    void wait(uint64_t cycles) {
        for (uint64_t i = 0; i < cycles; i++) {
            top.clk = 0;
            top.eval();
            top.clk = 1;
            top.eval();
        }
        now += cycles;
    }

    // Mode 0: the master's bit is there before the rising edge, at which both sides sample.
    void transfer(const uint8_t *data, uint64_t n, uint64_t bit, uint8_t *out) {
        top.cs = 0;
        wait(bit);
        for (uint64_t at = 0; at < n; at++) {
            unsigned byte = 0;
            for (int place = 7; place >= 0; place--) {
                top.mosi = data[at] >> place & 1;
                wait(bit - bit / 2);
                byte = byte << 1 | unsigned(top.miso);
                top.sck = 1;
                wait(bit / 2);
                top.sck = 0;
            }
            out[at] = uint8_t(byte);
        }
        wait(bit);
        top.cs = 1;
        wait(bit);
    }

    uint64_t cycles() const { return now; }
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void *pinion_spi_create() { return new Card(); }
EXPORT void pinion_spi_destroy(void *card) { delete static_cast<Card *>(card); }
EXPORT void pinion_spi_wait(void *card, uint64_t cycles) { static_cast<Card *>(card)->wait(cycles); }
EXPORT uint64_t pinion_spi_now(void *card) { return static_cast<Card *>(card)->cycles(); }
EXPORT void pinion_spi_transfer(void *card, const uint8_t *data, uint64_t n, uint64_t bit,
                                uint8_t *out) {
    static_cast<Card *>(card)->transfer(data, n, bit, out);
}
