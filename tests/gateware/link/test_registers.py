"""The register block against its table, and the order of the reset sequence."""

from __future__ import annotations

import inspect
import random
from typing import Any

import pytest
from amaranth.sim import Simulator

from pinion.gateware.link.registers import RegisterBlock, counter_names
from pinion.gateware.link.sequencer import SETTLE, ResetSequencer
from pinion.link import REGISTERS, register
from pinion.link.registers import SPACE
from tests.gateware.link.mutants import mutant, noticed
from tests.gateware.link.streams import StreamError

CONSTANTS = {row.name: 0x1000_0000 + row.offset for row in REGISTERS if row.kind == "constant"}
WRITABLE = {"CONTROL": 1, "SCRATCH": 0xFFFF_FFFF}
STATES = [row.name for row in REGISTERS if row.kind == "state"]


class Master:
    """AXI4-Lite master with random pauses that checks the slave's contract."""

    def __init__(self, ctx: Any, dut: RegisterBlock, rng: random.Random) -> None:
        self.ctx, self.dut, self.rng = ctx, dut, rng
        self.cycle = 0
        self.held: dict[str, int] = {}

    async def tick(self) -> None:
        """Advance a cycle and check that an offered response stays until accepted."""
        for kind, payload in (("b", "bresp"), ("r", "rdata")):
            dut, get = self.dut, self.ctx.get
            valid, ready = get(getattr(dut, f"{kind}valid")), get(getattr(dut, f"{kind}ready"))
            value = get(getattr(dut, payload))
            if kind in self.held and (not valid or value != self.held[kind]):
                raise StreamError(f"The response {kind} changed while it waited.")
            self.held.pop(kind, None)
            if valid and not ready:
                self.held[kind] = value
        self.cycle += 1
        if self.cycle > 20_000:
            raise StreamError("The slave does not answer.")
        await self.ctx.tick()

    async def send(self, kind: str, **payload: int) -> None:
        """Send a payload on channel ``aw``, ``w`` or ``ar`` after a pause."""
        for _ in range(self.rng.choice((0, 0, 1, 5))):
            await self.tick()
        for name, value in payload.items():
            self.ctx.set(getattr(self.dut, name), value)
        self.ctx.set(getattr(self.dut, f"{kind}valid"), 1)
        while not self.ctx.get(getattr(self.dut, f"{kind}ready")):
            await self.tick()
        await self.tick()
        self.ctx.set(getattr(self.dut, f"{kind}valid"), 0)
        for name in payload:  # the slave must not read it later
            width = len(getattr(self.dut, name))
            self.ctx.set(getattr(self.dut, name), self.rng.getrandbits(width))

    async def take(self, kind: str) -> int:
        """Return the response on channel ``b`` or ``r`` after a pause."""
        for _ in range(self.rng.choice((0, 0, 1, 5))):
            await self.tick()
        self.ctx.set(getattr(self.dut, f"{kind}ready"), 1)
        while not self.ctx.get(getattr(self.dut, f"{kind}valid")):
            await self.tick()
        assert self.ctx.get(getattr(self.dut, f"{kind}resp")) == 0, "OKAY"
        value = self.ctx.get(self.dut.rdata)
        await self.tick()
        self.ctx.set(getattr(self.dut, f"{kind}ready"), 0)
        return value

    async def read(self, offset: int) -> int:
        await self.send("ar", araddr=offset)
        return await self.take("r")

    async def write(self, offset: int, value: int, strobe: int = 0xF) -> None:
        """Write with address and data in any order or at once."""
        parts = [("aw", {"awaddr": offset}), ("w", {"wdata": value, "wstrb": strobe})]
        if self.rng.random() < 0.3:
            for kind, payload in parts:
                assert self.ctx.get(getattr(self.dut, f"{kind}ready"))
                for name, item in payload.items():
                    self.ctx.set(getattr(self.dut, name), item)
                self.ctx.set(getattr(self.dut, f"{kind}valid"), 1)
            await self.tick()
            self.ctx.set(self.dut.awvalid, 0)
            self.ctx.set(self.dut.wvalid, 0)
        else:
            self.rng.shuffle(parts)
            for kind, payload in parts:
                assert not self.ctx.get(self.dut.bvalid), "a response before the request"
                await self.send(kind, **payload)
        await self.take("b")


def simulate(bench: Any, dut: Any) -> None:
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def block(component: Any = RegisterBlock) -> RegisterBlock:
    return component(constants=CONSTANTS, writable=WRITABLE)


def access(component: Any, seed: int) -> str:
    """Compare random accesses with a model in Python; return a difference or ""."""
    rng = random.Random(seed)
    dut = block(component)
    wrong: list[str] = []

    async def bench(ctx: Any) -> None:
        master = Master(ctx, dut, rng)
        model = dict(CONSTANTS)
        for name in STATES:
            model[name] = rng.getrandbits(32)
            ctx.set(getattr(dut, name.lower()), model[name])
        control = dict.fromkeys(WRITABLE, 0)
        by_offset = {row.offset: row.name for row in REGISTERS}
        for _ in range(250):
            offset = rng.choice((*by_offset, *range(0, SPACE, 4)))
            # Bits above the decoded space and within the word are ignored.
            address = offset | rng.getrandbits(24) << 8 | rng.randrange(4)
            name = by_offset.get(offset, "")
            if rng.random() < 0.5:
                if rng.random() < 0.6:
                    address, name = register("SCRATCH").offset, "SCRATCH"
                value, strobe = rng.getrandbits(32), rng.choice((0xF, rng.getrandbits(4)))
                await master.write(address, value, strobe)
                if name in control:
                    mask = sum(0xFF << 8 * k for k in range(4) if strobe >> k & 1)
                    mask &= WRITABLE[name]
                    control[name] = (control[name] & ~mask) | (value & mask)
                for written, value in control.items():
                    if ctx.get(getattr(dut, written.lower())) != value:
                        wrong.append(f"{written} after a write to {address:#x}")
            else:
                value = await master.read(address)
                if value != (model | control).get(name, 0):
                    wrong.append(f"{name or hex(offset)} reads as {value:#x}")

    simulate(bench, dut)
    return "; ".join(wrong[:3])


@pytest.mark.parametrize("seed", [1, 2])
def test_every_register_reads_and_writes_as_its_row_says(seed: int) -> None:
    print("seed", seed)
    assert not access(RegisterBlock, seed)


ACCESS_MUTANTS = {
    "strobes ignored": ("with m.If(strobe[bit // 8]):", "with m.If(1):"),
    "data without address": ("has_address & has_data", "has_data"),
    "response withdrawn": ("with m.If(self.bvalid & self.bready):", "with m.If(self.bvalid):"),
    "read data withdrawn": ("with m.If(self.rvalid & self.rready):", "with m.If(self.rvalid):"),
    "bytes counted as registers": ("return (address % SPACE) // BYTES", "return address % SPACE"),
}


@pytest.mark.parametrize("name", ACCESS_MUTANTS)
def test_the_check_of_accesses_notices(name: str) -> None:
    broken = mutant(RegisterBlock, *ACCESS_MUTANTS[name])
    assert noticed(lambda: access(broken, 3))


def count(component: Any, seed: int) -> str:
    """Compare counters with a model; return a difference or ""."""
    rng = random.Random(seed)
    dut = block(component)
    wrong: list[str] = []
    wide = [
        name for name in counter_names() if f"{name.upper()}_LOW" in {r.name for r in REGISTERS}
    ]

    async def bench(ctx: Any) -> None:
        total = dict.fromkeys(counter_names(), 0)
        for _ in range(100):
            for name in total:
                step = rng.randrange(4)
                total[name] += step
                ctx.set(getattr(dut, name), step)
            await ctx.tick()
        for name in total:
            ctx.set(getattr(dut, name), 0)
        await ctx.tick().repeat(2)
        master = Master(ctx, dut, rng)
        for name, value in total.items():
            upper = f"{name.upper()}_LOW" if name in wide else name.upper()
            total_read = await master.read(register(upper).offset)
            if total_read != value:
                wrong.append(f"{name} is {total_read} instead of {value}")

    simulate(bench, dut)
    return "; ".join(wrong)


def test_counters_count() -> None:
    assert len(counter_names()) == 9
    assert not count(RegisterBlock, 1)
    broken = mutant(RegisterBlock, "low + step", "low + 1")
    assert count(broken, 1)


def test_the_high_word_belongs_to_the_low_word() -> None:
    """Read the low word, let the counter carry, then read the latched high word."""
    source = 'low = Signal(WORD, name=f"{name}_count"'
    near = mutant(RegisterBlock, source, f"{source}, init=(1 << 32) - 40")
    for component, latches in (
        (near, True),
        (mutant_of_mutant(source), False),
    ):
        dut = block(component)
        words: list[int] = []

        async def bench(ctx: Any, dut: Any = dut, words: list[int] = words) -> None:
            master = Master(ctx, dut, random.Random(1))
            ctx.set(dut.busy, 1)
            words.append(await master.read(register("BUSY_LOW").offset))
            for _ in range(100):
                await master.tick()
            words.append(await master.read(register("BUSY_HIGH").offset))
            words.append(await master.read(register("BUSY_LOW").offset))
            words.append(await master.read(register("BUSY_HIGH").offset))

        simulate(bench, dut)
        low, high, later, carried = words
        assert low > 1 << 31 and later < 1 << 31
        assert (high, carried) == (0 if latches else 1, 1)


PAIR = """highs[upper + _LOW] = latched, high + carry"""


def carried(old: str, new: str) -> set[tuple[int, int]]:
    """Return both words of a counter, read in every cycle around a carry."""
    from pinion.gateware.link import registers

    low = 'low = Signal(WORD, name=f"{name}_count"'
    text = inspect.getsource(registers)
    for original, changed in ((low, f"{low}, init=(1 << 32) - 1"), (old, new)):
        assert text.count(original) == 1
        text = text.replace(original, changed)
    space: dict[str, Any] = {"__name__": registers.__name__}
    exec(compile(text, "mutant", "exec"), space)
    pairs: set[tuple[int, int]] = set()
    for delay in range(1, 8):
        dut = block(space["RegisterBlock"])

        async def bench(ctx: Any, dut: Any = dut, delay: int = delay) -> None:
            words = []
            for name in ("BUSY_LOW", "BUSY_HIGH"):
                ctx.set(dut.araddr, register(name).offset)
                ctx.set(dut.rready, 1)
                for cycle in range(12):
                    ctx.set(dut.busy, name == "BUSY_LOW" and cycle == delay)
                    ctx.set(dut.arvalid, cycle == 5)
                    if ctx.get(dut.rvalid):
                        words.append(ctx.get(dut.rdata))
                    await ctx.tick()
            pairs.add((words[1], words[0]))

        simulate(bench, dut)
    return pairs


def test_a_carry_under_way_is_in_the_high_word() -> None:
    expected = {(0, (1 << 32) - 1), (1, 0)}
    assert carried(PAIR, PAIR) == expected, "before or after, and never half of each"
    for old, new in (
        (PAIR, "highs[upper + _LOW] = latched, high"),
        ("high.eq(high + carry)", "high.eq(high + 0)"),
        ("high.eq(high + carry)", "high.eq(high + carry + carry)"),
        ("Cat(low, carry).eq(low + step)", "[low.eq(low + step), carry.eq(0)]"),
    ):
        assert carried(old, new) != expected, new


def mutant_of_mutant(source: str) -> Any:
    """Return a mutant with a counter near its carry and without the high word's latch."""
    from pinion.gateware.link import registers

    text = inspect.getsource(registers)
    text = text.replace(source, f"{source}, init=(1 << 32) - 40")
    latch = "values[upper + _HIGH] = latched"
    assert text.count(latch) == 1
    text = text.replace(latch, "values[upper + _HIGH] = high")
    text = text.replace("m.d.sync += latched.eq(", "m.d.sync += Signal(WORD).eq(")
    space: dict[str, Any] = {"__name__": registers.__name__}
    exec(compile(text, "mutant", "exec"), space)
    return space["RegisterBlock"]


def test_values_are_given_for_the_table_and_nothing_else() -> None:
    with pytest.raises(ValueError, match="IDENTITY"):
        RegisterBlock(constants={}, writable=WRITABLE)
    with pytest.raises(ValueError, match="NONSENSE"):
        RegisterBlock(constants=CONSTANTS, writable=WRITABLE | {"NONSENSE": 1})


def sequence(component: Any, seed: int) -> str:
    """Apply random resets with a slow core and a slow host; return what goes wrong."""
    rng = random.Random(seed)
    dut = component()
    wrong: list[str] = []

    async def bench(ctx: Any) -> None:
        down, opened, since = 1, 0, 0
        core: list[int] = [1] * rng.randint(3, 12)  # the core's domain responds late
        request, until = 0, 30
        entered = left = 0
        resets_before, since_before, opened_before = (1, 1), 0, 0
        for cycle in range(1500):
            if cycle == until:
                request ^= 1
                until = cycle + rng.choice((1, 3, 40, 120))
            ctx.set(dut.held, request)
            ctx.set(dut.core_down, down)
            ctx.set(dut.open, opened)
            stream, clear = ctx.get(dut.stream_clear), ctx.get(dut.core_clear)
            since = since + 1 if stream and clear and down else 0
            if stream > resets_before[0] and not clear:
                wrong.append("the stream path is cleared alone")
            if not stream and clear:
                wrong.append("the core is cleared alone")
            if resets_before[1] and not clear and (since_before < SETTLE or opened_before):
                wrong.append("the core is let go too early")
            if resets_before[0] and not stream and down:
                wrong.append("requests may come before the core is there")
            if ctx.get(dut.in_reset):
                entered += 1
                if not (stream and clear and ctx.get(dut.drain)):
                    wrong.append("in reset, it says")
            if ctx.get(dut.drain) and not stream:
                wrong.append("requests are dropped without a reset")
            left += resets_before[0] and not stream
            resets_before, since_before, opened_before = (stream, clear), since, opened
            # While the path is cleared, a packet may close and none opens.
            opened = int(opened and rng.random() < 0.95) if stream else rng.randrange(2)
            core.append(clear)
            down = core.pop(0)
            await ctx.tick()
        if entered < 10 or left < 5:
            wrong.append(f"only {entered} cycles in reset, {left} times let go")

    simulate(bench, dut)
    return "; ".join(sorted(set(wrong)))


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_core_and_stream_path_are_reset_in_order(seed: int) -> None:
    print("seed", seed)
    assert not sequence(ResetSequencer, seed)


def test_a_pulse_has_the_whole_sequence_and_configuration_drops_nothing() -> None:
    dut = ResetSequencer()

    async def bench(ctx: Any) -> None:
        for _ in range(60):  # the core's domain responds at once
            assert not ctx.get(dut.drain) and not ctx.get(dut.in_reset)
            ctx.set(dut.core_down, ctx.get(dut.core_clear))
            await ctx.tick()
        assert not ctx.get(dut.stream_clear)
        ctx.set(dut.held, 1)
        await ctx.tick()
        ctx.set(dut.held, 0)
        cleared = 0
        for _ in range(60):
            cleared += ctx.get(dut.stream_clear) and ctx.get(dut.drain)
            ctx.set(dut.core_down, ctx.get(dut.core_clear))
            await ctx.tick()
        assert cleared > SETTLE and not ctx.get(dut.stream_clear)

    simulate(bench, dut)


SEQUENCE_MUTANTS = {
    "an open packet is forgotten": (" & ~self.open", ""),
    "the core is not waited for": (
        "with m.If(~self.core_down):\n                    m.d.sync += settled",
        "with m.If(0):\n                    m.d.sync += settled",
    ),
    "all is let go at once": (
        "self.core_clear.eq(0), ",
        "self.core_clear.eq(0), self.stream_clear.eq(0), ",
    ),
}


@pytest.mark.parametrize("name", SEQUENCE_MUTANTS)
def test_the_check_of_the_sequence_notices(name: str) -> None:
    assert sequence(mutant(ResetSequencer, *SEQUENCE_MUTANTS[name]), 1)
