// The model that engine.cpp drives, as CXXRTL generates it. PINION_CORE names the generated C++.
//
// With PINION_DEBUG every named signal can be read.

#pragma once

#include PINION_CORE

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

class Model {
    // A port is a plain value or a double-buffered wire, as CXXRTL found cheapest.
    template <size_t Bits> using Value = cxxrtl::value<Bits>;
    template <size_t Bits> using Wire = cxxrtl::wire<Bits>;
    template <size_t Bits> static const Value<Bits> &now(const Value<Bits> &port) { return port; }
    template <size_t Bits> static const Value<Bits> &now(const Wire<Bits> &port) { return port.curr; }
    template <size_t Bits> static Value<Bits> &drive(Value<Bits> &port) { return port; }
    template <size_t Bits> static Value<Bits> &drive(Wire<Bits> &port) { return port.next; }
    template <size_t Bits> static constexpr size_t bits(const Value<Bits> &) { return Bits; }
    template <size_t Bits> static constexpr size_t bits(const Wire<Bits> &) { return Bits; }
    template <class Port> static bool flag(const Port &port) {
        return now(port).template get<bool>();
    }
    template <class Port> static void set(Port &port, bool level) {
        drive(port).template set<bool>(level);
    }

    struct Watched {
        std::vector<cxxrtl::debug_item> parts;
        size_t chunks;
    };

    cxxrtl_design::p_pinion__core core;
    cxxrtl::debug_items items;
    std::vector<Watched> watched;
    std::string list;

public:
    Model() {
#ifdef PINION_DEBUG
        core.debug_info(&items, nullptr, "");
        for (const auto &entry : items.table) list += entry.first + "\n";
#endif
    }

    size_t input_bits() const { return bits(core.p_i__tdata); }
    size_t output_bits() const { return bits(core.p_o__tdata); }
    uint64_t build_hash() const { return now(core.p_build__hash).template get<uint64_t>(); }

    void clk(bool level) { set(core.p_clk, level); }
    void rst(bool level) { set(core.p_rst, level); }
    void i_tvalid(bool level) { set(core.p_i__tvalid, level); }
    void i_tlast(bool level) { set(core.p_i__tlast, level); }
    void o_tready(bool level) { set(core.p_o__tready, level); }
#ifdef PINION_STATES
    void reset_state(bool level) { set(core.p_reset__state, level); }
#else
    void reset_state(bool) {}
#endif
    void i_tdata(const uint32_t *beat) {
        auto &data = drive(core.p_i__tdata).data;
        std::memcpy(data, beat, sizeof data);
    }
    // Settles the outputs; a clock that has risen since the last call takes effect.
    void step() { core.step(); }

    bool i_tready() const { return flag(core.p_i__tready); }
    bool o_tvalid() const { return flag(core.p_o__tvalid); }
    bool o_tlast() const { return flag(core.p_o__tlast); }
    bool o_tuser() const { return flag(core.p_o__tuser); }
    bool launch() const { return flag(core.p_launch); }
    const uint32_t *o_tdata() const { return now(core.p_o__tdata).data; }

    const char *names() const { return list.c_str(); }
    void watch_none() { watched.clear(); }

    int64_t watch(const char *name) {
        auto found = items.table.find(name);
        if (found == items.table.end()) return -1;
        size_t width = 0;
        for (const auto &part : found->second) {
            if (part.type == cxxrtl::debug_item::MEMORY) return -1;
            width = std::max(width, part.lsb_at + part.width);
        }
        watched.push_back({found->second, (width + 31) / 32});
        return int64_t(width);
    }

    uint32_t *record(uint32_t *row) {
        for (auto &signal : watched) {
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
};
