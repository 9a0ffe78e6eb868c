"""The serial link's gateware against the frames of `pinion.link.uart_framing`, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from pinion.gateware.link.bus import FULL, Bus
from pinion.gateware.link.frames import FrameReader, FrameWriter
from pinion.gateware.link.serial_link import SerialLink
from pinion.gateware.link.uart import FRACTION, LEAST, UartReceiver, UartTransmitter, bit_length
from pinion.link import BEAT
from pinion.link.uart_framing import WIRE_BEAT, FrameKind, beats, command, unwrap
from tests.support.breadth import some

Bench = Callable[[Any], Any]


def simulate(dut: Any, *benches: Bench) -> None:
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()


class Wire(wiring.Component):
    """Transmitter and receiver with slightly different bit lengths."""

    def __init__(self, *, sends: int, receives: int) -> None:
        super().__init__({"data": Out(8), "valid": Out(1), "broken": Out(1)})
        self.transmitter = UartTransmitter(length=sends)
        self.receiver = UartReceiver(length=receives)
        self.low = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.transmitter, m.submodules.receiver = self.transmitter, self.receiver
        m.d.comb += [
            self.receiver.line.eq(self.transmitter.line & ~self.low),
            self.data.eq(self.receiver.data),
            self.valid.eq(self.receiver.valid),
            self.broken.eq(self.receiver.broken),
        ]
        return m


@pytest.mark.parametrize("percent", [-3, 0, 3])
@pytest.mark.parametrize("length", [LEAST << FRACTION, 16 * 16 + 11])
def test_bytes_come_through_clocks_that_differ(length: int, percent: int) -> None:
    if length == LEAST << FRACTION and percent:
        percent //= 3  # sampling of such short bits is off by a cycle
    dut = Wire(sends=length, receives=length + length * percent // 100)
    text = bytes(np.random.default_rng(length).integers(0, 256, size=40, dtype=np.uint8))
    received = bytearray()

    async def send(ctx: Any) -> None:
        for byte in text:
            ctx.set(dut.transmitter.i.payload, byte)
            ctx.set(dut.transmitter.i.valid, 1)
            await ctx.tick().until(dut.transmitter.i.ready)
        ctx.set(dut.transmitter.i.valid, 0)

    async def receive(ctx: Any) -> None:
        while len(received) < len(text):
            data, broken = await ctx.tick().sample(dut.data, dut.broken).until(dut.valid)
            received.append(data)
            assert not broken

    simulate(dut, send, receive)
    assert bytes(received) == text


@pytest.mark.parametrize("cycles", [LEAST, 5, 17])
def test_bytes_without_a_gap_are_received(cycles: int) -> None:
    dut = UartReceiver(length=cycles << FRACTION)
    text = bytes(np.random.default_rng(cycles).integers(0, 256, size=40, dtype=np.uint8))
    received = bytearray()

    async def send(ctx: Any) -> None:
        ctx.set(dut.line, 1)
        await ctx.tick().repeat(5)
        for byte in text:
            for bit in (0, *(byte >> place & 1 for place in range(8)), 1):
                ctx.set(dut.line, bit)
                await ctx.tick().repeat(cycles)

    async def receive(ctx: Any) -> None:
        while len(received) < len(text):
            data, broken = await ctx.tick().sample(dut.data, dut.broken).until(dut.valid)
            received.append(data)
            assert not broken

    simulate(dut, send, receive)
    assert bytes(received) == text


def test_a_break_is_one_broken_byte() -> None:
    dut = Wire(sends=64, receives=64)
    received = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.low, 1)
        for cycle in range(400):
            ctx.set(dut.low, cycle < 200)
            await ctx.tick()
            if ctx.get(dut.valid):
                received.append((ctx.get(dut.data), ctx.get(dut.broken)))

    simulate(dut, bench)
    assert received == [(0, 1)]


def test_a_clock_too_slow_for_the_rate_is_refused() -> None:
    assert bit_length(clock_hz=50e6, baud=3e6) == 267
    with pytest.raises(ValueError, match="10 MHz is too slow for 3e\\+06 bit/s: use at most"):
        bit_length(clock_hz=10e6, baud=3e6)


BUSES = [Bus(words=n) for n in (2, 4, 8, 16)]


def read(
    text: bytes, *, slots: int = 4, stall: int = 0, bus: Bus = FULL
) -> tuple[list[tuple[int, bool]], list[Any]]:
    """Return the beats, with whether they are whole, and the commands of a reader."""
    dut = FrameReader(slots=slots, bus=bus)
    slices: list[tuple[int, bool]] = []
    commands: list[Any] = []

    async def send(ctx: Any) -> None:
        for byte in text:
            ctx.set(dut.data, byte)
            ctx.set(dut.valid, 1)
            await ctx.tick()
            ctx.set(dut.valid, 0)
            await ctx.tick()
        await ctx.tick().repeat(90 * (slots + 1) + stall)

    async def take(ctx: Any) -> None:
        await ctx.tick().repeat(stall + 1)
        ctx.set(dut.beat.ready, 1)
        async for _, _, valid, payload in ctx.tick().sample(dut.beat.valid, dut.beat.payload):
            if valid:
                slices.append((payload.data, bool(payload.whole)))

    async def listen(ctx: Any) -> None:
        async for _, _, valid, payload in ctx.tick().sample(dut.commanded, dut.command):
            if valid:
                commands.append((payload.kind, payload.tag, payload.offset, payload.value))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(send)
    simulator.add_testbench(take, background=True)
    simulator.add_testbench(listen, background=True)
    simulator.run()
    cut = [slices[at : at + bus.slices] for at in range(0, len(slices), bus.slices)]
    assert all(len({whole for _, whole in beat}) == 1 for beat in cut), "a beat is whole, or not"
    return [
        (sum(data << k * bus.bits for k, (data, _) in enumerate(beat)), beat[0][1]) for beat in cut
    ], commands


def packet(count: int, *, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    return (
        (rng.integers(0, 256, size=count * BEAT) * (rng.random(count * BEAT) < 0.7))
        .astype(np.uint8)
        .tobytes()
    )


def numbers(text: bytes) -> list[int]:
    return [int.from_bytes(text[at : at + BEAT], "little") for at in range(0, len(text), BEAT)]


@pytest.mark.parametrize("bus", BUSES, ids=str)
def test_a_reader_finds_beats_and_commands(bus: Bus) -> None:
    text = packet(3, seed=1)
    stream = (
        beats(text[:BEAT])
        + command(FrameKind.READ, tag=9, offset=0x34)
        + beats(text[BEAT:])
        + command(FrameKind.WRITE, tag=255, offset=0x30, value=0xFF00_0001)
        + command(FrameKind.SYNC, tag=1)
        + command(FrameKind.VALUE, tag=2)
    )
    beats_read, commands = read(stream, bus=bus)
    assert beats_read == [(number, True) for number in numbers(text)]
    assert commands == [
        (FrameKind.READ, 9, 0x34, 0),
        (FrameKind.WRITE, 255, 0x30, 0xFF00_0001),
        (FrameKind.SYNC, 1, 0, 0),
    ]


@pytest.mark.parametrize("place", some([0, 1, 40, 67, 68], (0, 68)))
@pytest.mark.parametrize("by", [b"\x5a", b"", b"\x11\0\0"])
@pytest.mark.parametrize("bus", some([FULL, Bus(words=4)], 1), ids=str)
def test_a_damaged_beat_is_not_whole_and_the_next_is(place: int, by: bytes, bus: Bus) -> None:
    text = packet(3, seed=2)
    stream = beats(text[:BEAT])
    damaged = stream[:place] + by + stream[place + 1 :]
    assert damaged != stream
    beats_read, commands = read(damaged + beats(text[BEAT:]), bus=bus)
    assert not commands
    assert any(not whole for _, whole in beats_read)
    whole_beats = [number for number, whole in beats_read if whole]
    # A frame without its end merges with the next one.
    assert whole_beats == (
        numbers(text)[2:] if place == 68 and by != b"\x11\0\0" else numbers(text)[1:]
    )


def test_short_garbage_is_dropped() -> None:
    text = packet(1, seed=3)
    bad = bytearray(command(FrameKind.WRITE, tag=1, offset=0x30, value=1))
    bad[5] ^= 1
    beats_read, commands = read(bytes(bad) + b"\0\0\x01\0\x05\x02\0" + beats(text))
    assert beats_read == [(number, True) for number in numbers(text)]
    assert not commands


def test_beats_without_room_are_missed_by_the_next_one() -> None:
    text = packet(5, seed=4)
    wait = 2 * 3 * WIRE_BEAT + 30
    beats_read, _ = read(beats(text), slots=2, stall=wait)
    assert beats_read[:2] == [(number, True) for number in numbers(text)[:2]]
    assert not beats_read[2][1], "a beat was lost, so the one behind it must not pass for whole"
    assert beats_read[3:] == [(number, True) for number in numbers(text)[4:]]


@pytest.mark.parametrize("bus", BUSES, ids=str)
def test_a_writer_sends_what_the_host_reads(bus: Bus) -> None:
    """Send beats, with commands between any two slices."""
    dut = FrameWriter(bus=bus)
    text = packet(2, seed=5) + bytes(BEAT) + b"\xff" * BEAT
    out = bytearray()
    answer = {"offset": 0x10, "value": 0xAB00_00CD}

    async def give(ctx: Any) -> None:
        step = bus.bytes
        for at in range(0, len(text), step):
            ctx.set(dut.command.p, {"kind": FrameKind.VALUE, "tag": at // step, **answer})
            ctx.set(dut.command.valid, 1)
            await ctx.tick().until(dut.command.ready)
            ctx.set(dut.command.valid, 0)
            ctx.set(dut.beat.p.data, int.from_bytes(text[at : at + step], "little"))
            ctx.set(dut.beat.p.last, at + step == len(text))
            ctx.set(dut.beat.valid, 1)
            await ctx.tick().until(dut.beat.ready)
            ctx.set(dut.beat.valid, 0)
        await ctx.tick().repeat(400)

    async def take(ctx: Any) -> None:
        ctx.set(dut.o.ready, 1)
        async for _, _, valid, payload in ctx.tick().sample(dut.o.valid, dut.o.payload):
            if valid:
                out.append(payload)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(give)
    simulator.add_testbench(take, background=True)
    simulator.run()
    expected = b""
    for index, at in enumerate(range(0, len(text), bus.bytes)):
        expected += command(FrameKind.VALUE, tag=index, **answer)
        if at % BEAT == BEAT - bus.bytes:
            start = at // BEAT * BEAT
            expected += beats(text[start : start + BEAT], last=start == len(text) - BEAT)
    assert bytes(out) == expected


def test_the_link_answers_on_its_line() -> None:
    """Send a SYNC, a READ that the registers answer, and a beat that returns to the host."""
    dut = SerialLink(length=LEAST << FRACTION, slots=2)
    host = UartTransmitter(length=LEAST << FRACTION)
    ears = UartReceiver(length=LEAST << FRACTION)
    m = Module()
    m.submodules.dut, m.submodules.host, m.submodules.ears = dut, host, ears
    m.d.comb += [dut.rx.eq(host.line), ears.line.eq(dut.tx), dut.rdata.eq(dut.araddr + 1)]
    m.d.comb += [dut.arready.eq(1), dut.c2h.valid.eq(dut.h2c.valid), dut.c2h.p.last.eq(1)]
    m.d.comb += [dut.c2h.p.data.eq(dut.h2c.p.data), dut.h2c.ready.eq(dut.c2h.ready)]
    m.d.sync += dut.rvalid.eq(dut.arvalid & ~dut.rvalid)
    text = packet(1, seed=6)
    stream = b"\0" + command(FrameKind.SYNC, tag=4) + command(FrameKind.READ, tag=5, offset=0x20)
    out = bytearray()

    async def send(ctx: Any) -> None:
        for byte in stream + beats(text):
            ctx.set(host.i.payload, byte)
            ctx.set(host.i.valid, 1)
            await ctx.tick().until(host.i.ready)
        ctx.set(host.i.valid, 0)
        await ctx.tick().repeat(90 * 40 + 400)

    async def listen(ctx: Any) -> None:
        async for _, _, valid, data in ctx.tick().sample(ears.valid, ears.data):
            if valid:
                out.append(data)

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(send)
    simulator.add_testbench(listen, background=True)
    simulator.run()
    bodies = [unwrap(frame) for frame in bytes(out).split(b"\0")[:-1]]
    assert bodies[:2] == [
        bytes((FrameKind.ROOM, 4, 0, 0, 0, 0, 0)),
        bytes((FrameKind.VALUE, 5, 0x20, 0x21, 0, 0, 0)),
    ]
    assert sorted(map(repr, bodies[2:])) == sorted(
        map(repr, [bytes((FrameKind.LAST,)) + text, bytes((FrameKind.ROOM, 0, 0, 1, 0, 0, 0))])
    )
