"""Cocotb test of the whole top at its AXI ports, run inside Icarus or Verilator.

The working directory is the bench's folder. `.runner` leaves ``spec.json`` there; this module
leaves ``complaints.json`` and ``outcome.json``. A host with a model of the DMA engine
(`.dma`) sends batches and reads registers at the same time; every answer is compared with
the build's integer model, without tolerance, and with its float model, within the build's budget.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.task import Task
from cocotb.triggers import ClockCycles, First, Timer

from pinion.cosim.runner import COMPLAINTS, SPEC
from pinion.cosim.stream import PATTERNS
from pinion.link import BEAT, REGISTERS, Cause
from pinion.link.registers import BUSY, HALTED, IN_RESET, OPEN, QUIET

from .host import Host, Packet
from .monitor import ComplaintError
from .runner import OUTCOME

LINK_PS = 4000
"""The link's period: 250 MHz."""

WRAP = 1 << 32


# Registers besides counters that a card shows as zero before it has worked.
_SHOWN = ("ERROR", "CONTROL", "BATCH_CYCLES", "SEQUENCE")


class Bench:
    """Steps that a scenario consists of, each of them a method."""

    def __init__(self, *, host: Host, spec: dict[str, Any], rng: random.Random) -> None:
        self.host = host
        self.spec = spec
        self.rng = rng

    async def identity(self) -> None:
        """Check that constants identify card and build, and that counters begin at zero."""
        for name, value in self.host.constants.items():
            await self.host.expect(name, value)
        for row in REGISTERS:
            if row.kind == "counter" or row.name in _SHOWN:
                await self.host.expect(row.name, 0)
        for value in (0xA5A5_5A5A, self.rng.getrandbits(32), 0):
            await self.host.put("SCRATCH", value)
            await self.host.expect("SCRATCH", value)

    async def traffic(self) -> None:
        """Send batches back to back under pauses on both sides, and read registers meanwhile."""
        for _ in range(self.spec["rounds"]):
            self.pauses()
            await self.host.exchange(self.counts(), late=self.rng.random() < 0.3)
        self.host.dma.flow()
        await self.host.check_counters()
        self.host.check_floats()

    async def back_pressure(self) -> None:
        """Post no read until all buffers are full, and for long after."""
        host = self.host
        packets = host.packets([self.spec["flood"]] * self.spec["flood_batches"])
        writer = host.spawn(host.write(packets))
        full = self.spec["full"]
        await self.until(
            lambda: host.monitor.unread > full,
            "The card keeps moving beats although no read is posted",
            times=10,
        )
        if writer.done():
            raise ComplaintError(
                f"The card took {len(packets)} batches of {self.spec['flood']} requests although "
                "no read is posted: its buffers cannot hold so many."
            )
        status = await host.get("STATUS")
        if status & (BUSY | OPEN) != BUSY | OPEN:
            raise ComplaintError(
                f"STATUS is {status:#x} while the card waits for a read: BUSY and OPEN must be set."
            )
        await ClockCycles(host.dut.clk, self.spec["stall"])
        await host.check_stalled()
        await self.snapshot()
        await host.finish(writer, host.spawn(host.answers(packets)))
        await host.settle()
        host.check_floats()

    async def snapshot(self) -> None:
        """Check that low and high word of a counter belong together while it wraps between their
        reads."""
        block = getattr(self.host.dut, "registers", None)
        count = getattr(block, "stalled_count", None)
        if count is None or not self.spec["deposits"]:
            return
        host, ahead = self.host, 60
        await ClockCycles(host.dut.clk, 2)
        count.value = WRAP - ahead
        host.deposited += WRAP - ahead - host.monitor.stalled
        await ClockCycles(host.dut.clk, 2)
        for wrapped in (False, True):
            low, passed = await host.get("STALLED_LOW"), host.monitor.cycle
            await ClockCycles(host.dut.clk, 2 * ahead)
            high = await host.get("STALLED_HIGH")
            if high != wrapped or (low < WRAP // 2) != wrapped:
                raise ComplaintError(
                    f"STALLED reads {high << 32 | low:#x} at cycle {passed} while it wraps around "
                    f"{WRAP:#x}: the high word does not belong to the low word."
                )
        host.totals["snapshots"] += 1

    async def partial_beat(self) -> None:
        """Send from an unaligned buffer: a partial beat at a page's end stops the card."""
        host = self.host
        for head in (40, 3 * BEAT + 24):
            errors, dropped = await host.get("ERRORS"), await host.get("DROPPED")
            packets, sent = host.packets([60]), len(host.monitor.accepted)
            reader = host.spawn(host.cut_answers(packets))
            await self.send(packets[0], address=4096 - head)
            await ClockCycles(host.dut.clk, 40)
            status = await host.get("STATUS")
            error = await host.get("ERROR")
            if error != Cause.PARTIAL_BEAT or not status & HALTED:
                raise ComplaintError(
                    f"After a beat of less than {BEAT} bytes in mid-packet, ERROR is {error} and "
                    f"STATUS {status:#x}: it must be {Cause.PARTIAL_BEAT}, and HALTED set."
                )
            behind = len(host.monitor.accepted) - sent - 1 - head // BEAT
            await host.expect("DROPPED", dropped + behind)
            await host.expect("ERRORS", errors + 1)
            host.known["ERRORS"] += 1
            await self.recover(reader)
            await host.exchange([3, 20])
            host.totals["partial"] += 1
        await host.check_counters()

    async def send(self, packet: Packet, *, address: int) -> None:
        """Write one packet from an address; the card must take all of it."""
        host = self.host

        async def write() -> None:
            await host.dma.write(packet.data, address=address)

        writer = host.spawn(write())
        await self.until(writer.done, "A card that has stopped must take and drop all beats")

    async def soft_resets(self) -> None:
        """Reset at random times, in requests and in responses, and send good batches afterwards."""
        host = self.host
        for turn in range(self.spec["resets"]):
            self.pauses()
            packets = host.packets(self.large())
            writer = host.spawn(host.write(packets))
            reader = host.spawn(host.cut_answers(packets)) if turn % 3 else None
            # With nobody to read, late enough for a response to wait.
            latest = self.spec["latest"]
            await ClockCycles(
                host.dut.clk, self.rng.randint(1 if reader else latest // 2 + 1, latest)
            )
            writer.cancel()
            if not reader:
                reader = await self.held_reset(packets)
            await self.recover(reader)
            host.dma.flow()
            await host.exchange([1, self.rng.randint(2, self.spec["largest"])])
            host.totals["resets"] += 1
        await host.check_counters()
        host.check_floats()

    async def held_reset(self, packets: list[Packet]) -> Task[None]:
        """Begin a reset while nobody reads: the offer must stay, and be closed."""
        host = self.host
        await host.put("CONTROL", 1)
        await ClockCycles(host.dut.clk, self.rng.randint(1, 80))
        status = await host.get("STATUS")
        waiting = str(host.dut.c2h_tvalid.value) == "1"
        if waiting != bool(status & OPEN) or (waiting and status & IN_RESET):
            raise ComplaintError(
                f"STATUS is {status:#x} in a reset while "
                f"{'a beat' if waiting else 'nothing'} is on offer to the host: OPEN must be "
                f"{'set, and IN_RESET clear' if waiting else 'clear'}."
            )
        return host.spawn(host.cut_answers(packets))

    async def recover(self, reader: Task[None]) -> None:
        """Recover as the host does, step by step; ``reader`` takes what still comes."""
        host = self.host
        await host.check_card()
        await host.put("CONTROL", 1)
        host.dma.abandon()
        await self.until(
            host.dma.rests, "The card stopped accepting beats although it is held in soft reset"
        )
        for _ in range(self.spec["polls"]):
            status = await host.get("STATUS")
            if status & (IN_RESET | QUIET | OPEN) == IN_RESET | QUIET:
                break
            await ClockCycles(host.dut.clk, 10)
        else:
            raise ComplaintError(
                f"The card did not become idle in soft reset: STATUS is {status:#x}, but "
                "IN_RESET and QUIET must be set, and OPEN clear."
            )
        if str(host.dut.c2h_tvalid.value) != "0":
            raise ComplaintError(
                f"A beat is on offer although STATUS ({status:#x}) says that no packet is open."
            )
        reader.cancel()
        await host.put("CONTROL", 0)
        for _ in range(self.spec["polls"]):
            if not await host.get("STATUS") & IN_RESET:
                break
        else:
            raise ComplaintError("The card stays in soft reset although CONTROL is 0.")
        await host.check_card()
        await host.expect("ERROR", Cause.NONE)
        status = await host.get("STATUS")
        if status & (HALTED | OPEN | BUSY):
            raise ComplaintError(
                f"STATUS is {status:#x} after the soft reset: HALTED, OPEN and BUSY must be clear."
            )
        await host.learn()

    async def configuration(self) -> None:
        """Reset the configuration in mid-batch: everything begins again, including counters."""
        host = self.host
        self.pauses()
        packets = host.packets(self.counts())
        writer = host.spawn(host.write(packets))
        reader = host.spawn(host.cut_answers(packets))
        await ClockCycles(host.dut.clk, self.rng.randint(50, self.spec["latest"]))
        for task in (writer, reader):
            task.cancel()
        host.dma.flow()
        host.dut.rst.value = 1
        host.dma.configure()
        await ClockCycles(host.dut.clk, 4)
        host.dut.rst.value = 0
        host.configured()
        await ClockCycles(host.dut.clk, 40)
        await self.identity()
        await host.exchange([2, 30, 1])
        await host.check_counters()
        host.check_floats()

    def counts(self) -> list[int]:
        """Return random packet sizes (records): a large one, then many smaller ones."""
        largest = self.spec["largest"]
        sizes = [self.rng.randint(largest // 2, largest)]
        while len(sizes) < self.spec["batches"]:
            sizes.append(self.rng.choice((1, 2, *(self.rng.randint(1, largest) for _ in "ab"))))
        return sizes

    def large(self) -> list[int]:
        """Return the sizes (records) of four packets that keep the card busy for a while."""
        largest = self.spec["largest"]
        return [self.rng.randint(largest // 2, largest) for _ in range(4)]

    def pauses(self) -> None:
        """Choose a random pause pattern for each side."""
        names = self.spec["patterns"]
        idle, stall = (
            PATTERNS[self.rng.choice(names)](seed=self.rng.randrange(1000)).tolist()
            for _ in range(2)
        )
        self.host.dma.pause(idle, stall)

    async def until(self, condition: Callable[[], bool], sentence: str, *, times: int = 1) -> None:
        """Wait for a condition, for at most this multiple of the scenario's limit."""
        cycles = times * self.spec["limit"]
        for _ in range(cycles):
            if condition():
                return
            await ClockCycles(self.host.dut.clk, 1)
        raise ComplaintError(f"{sentence}: this did not change in {cycles} cycles.")


def _start(dut: Any, spec: dict[str, Any], rng: random.Random) -> None:
    """Start the link's clock and, if there is one, the core's with an unrelated phase."""
    Clock(dut.clk, LINK_PS, unit="ps").start()
    if not hasattr(dut, "core_clk"):
        return
    period = 2 * round(LINK_PS / spec["core_rate"] / 2)
    later = rng.randrange(1, period)

    async def start() -> None:
        await Timer(later, unit="ps")
        Clock(dut.core_clk, period, unit="ps").start()

    dut.core_clk.value = 0
    cocotb.start_soon(start())


@cocotb.test()
async def top(dut: Any) -> None:
    """Run the scenario's steps; leave complaints and figures behind."""
    for name in (dut._name, f"{dut._name}.h2c", f"{dut._name}.c2h", f"{dut._name}.s_axil"):
        logging.getLogger(f"cocotb.{name}").setLevel(logging.ERROR)
    folder = Path.cwd()
    spec = json.loads((folder / SPEC).read_text())
    rng = random.Random(spec["seed"])
    dut.rst.value = 1
    _start(dut, spec, rng)
    host = Host(dut=dut, folder=Path(spec["build"]), spec=spec, rng=rng)
    bench = Bench(host=host, spec=spec, rng=rng)
    await ClockCycles(dut.clk, 5)
    dut.rst.value = 0
    cocotb.start_soon(host.monitor.run())
    await ClockCycles(dut.clk, 40)
    for step in spec["steps"]:
        # A step's chance does not hang on the steps before it.
        rng.seed(f"{spec['seed']} {step}")
        work: Coroutine[Any, Any, None] = getattr(bench, step)()
        running = host.spawn(work)
        await First(running.complete, host.monitor.noticed.wait())
        if host.monitor.complaints:
            break
    complaints = host.monitor.complaints
    figures = host.figures()
    (folder / OUTCOME).write_text(json.dumps(figures))
    (folder / COMPLAINTS).write_text(json.dumps(complaints))
    assert not complaints, " ".join(complaints[:5])
