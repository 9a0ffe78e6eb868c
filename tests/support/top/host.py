"""Host for benches inside a simulator: batches, expected results, registers, counters."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.task import Task
from cocotb.triggers import ClockCycles, First
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp
from numpy.typing import NDArray

from pinion.base.arrays import Words
from pinion.boards.top import top_parameters
from pinion.cosim.bench import differing_records
from pinion.cosim.reference import make, request_words
from pinion.functions import sample
from pinion.link import (
    BEAT,
    HEADER,
    Cause,
    FrameError,
    Magic,
    Status,
    layout_of,
    read_response,
    register,
)

from .batches import request_packet
from .dma import Bytes, Dma
from .monitor import ComplaintError, TopMonitor

NOT_A_NUMBER = 0x7FC0_0000


@dataclass(frozen=True, kw_only=True)
class Packet:
    """Request packet, and the indices of its requests in the pool."""

    data: Bytes
    rows: NDArray[np.int64]
    sequence: int
    first: int = -1


class Host:
    """Host of the card, with a DMA engine, register accesses and the expected counters.

    Parameters
    ----------
    dut : module ``pinion_top``.
    folder : of its build.
    spec : the scenario.
    rng : for everything that is left to chance.
    """

    def __init__(self, *, dut: Any, folder: Path, spec: dict[str, Any], rng: random.Random) -> None:
        self.dut, self.rng = dut, rng
        self.limit: int = spec["limit"]
        self.monitor = TopMonitor(dut=dut)
        self.dma = Dma(dut=dut, monitor=self.monitor, rng=rng)
        self._axil = AxiLiteMaster(
            AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst, reset_active_level=True
        )
        self._reference = make(folder)
        manifest = self._reference.build.manifest
        if manifest.states:
            raise ValueError(
                "The bench of the whole top sends requests in any order, and the function "
                f"'{manifest.function}' keeps states: run it on the device 'sim:top'."
            )
        self.layout = layout_of(manifest)
        parameters = top_parameters(manifest, crossing=hasattr(dut, "core_clk"))
        self.constants = parameters.constants()
        self._pool = self._requests(spec["pool"], seed=spec["seed"])
        self._expected, self._flags = self._reference.expected(self._pool)
        self._answered: list[tuple[NDArray[np.int64], Words]] = []
        self._next = 0
        self.totals: Counter[str] = Counter()
        self.configured()

    def _requests(self, count: int, *, seed: int) -> Words:
        build = self._reference.build
        states = sample(build.model, build.function, count, distribution="reference", seed=seed)
        words = request_words(build.manifest, states)
        # Some requests are not numbers, so that flagged results are mixed with others.
        rows = self.rng.sample(range(count), count // 8)
        words[rows, [self.rng.randrange(words.shape[1]) for _ in rows]] = NOT_A_NUMBER
        return words

    # ---- tasks ----

    def spawn(self, work: Coroutine[Any, Any, None]) -> Task[None]:
        """Start a background task; a `ComplaintError` in it stops the bench."""

        async def guarded() -> None:
            try:
                await work
            except ComplaintError as complaint:
                self.monitor.complain(str(complaint))

        return cocotb.start_soon(guarded())

    async def finish(self, *tasks: Task[None]) -> None:
        """Wait for tasks; raise `ComplaintError` if no beat moves for `limit` cycles."""
        while left := [task for task in tasks if not task.done()]:
            await First(*(task.complete for task in left), ClockCycles(self.dut.clk, 100))
            if self.monitor.unread > self.limit:
                await self.check_fault()
                raise ComplaintError(
                    f"The card is stuck: {len(self.monitor.accepted)} request beats accepted and "
                    f"{self.monitor.emitted} result beats given, none in {self.limit} cycles."
                )

    # ---- registers ----

    async def get(self, name: str) -> int:
        """Read a register."""
        reply = await self._axil.read(register(name).offset, 4)
        self._check_reply(name, reply.resp, "read")
        return int.from_bytes(reply.data, "little")

    async def put(self, name: str, value: int) -> None:
        """Write a register."""
        reply = await self._axil.write(register(name).offset, value.to_bytes(4, "little"))
        self._check_reply(name, reply.resp, "written")

    async def pair(self, name: str) -> int:
        """Read a 64-bit counter from its two registers."""
        low = await self.get(f"{name}_LOW")
        return low | await self.get(f"{name}_HIGH") << 32

    async def expect(self, name: str, value: int) -> None:
        """Check the value of a register."""
        reading = await self.get(name)
        if reading != value:
            raise ComplaintError(f"Register {name} reads {reading:#x} instead of {value:#x}.")

    async def check_card(self) -> None:
        """Check the card as a driver does before it uses it."""
        for name in ("IDENTITY", "VERSION", "BUILD_LOW", "BUILD_HIGH", "FUNCTION_0"):
            await self.expect(name, self.constants[name])

    async def check_fault(self) -> None:
        """Check that the card reports no fault for correct requests."""
        code = await self.get("ERROR")
        if code:
            cause = Cause(code).sentence if code in list(Cause) else "an unknown cause"
            raise ComplaintError(f"The card rejects valid requests: ERROR is {code} ({cause}).")

    def _check_reply(self, name: str, response: AxiResp, action: str) -> None:
        self.totals["registers"] += 1
        if response != AxiResp.OKAY:
            raise ComplaintError(
                f"Register {name} cannot be {action}: the card answers {response!s}."
            )

    async def chatter(self) -> None:
        """Read and write random registers until the task is cancelled."""
        before = Counter[str]()
        while True:
            await ClockCycles(self.dut.clk, self.rng.randint(1, 60))
            await self.expect(*self.rng.choice(list(self.constants.items())))
            await self.check_fault()
            value = self.rng.getrandbits(32)
            await self.put("SCRATCH", value)
            name = self.rng.choice(("BUSY", "STALLED", "STARVED"))
            count = await self.pair(name) - self.deposited * (name == "STALLED")
            if not before[name] <= count <= self.monitor.cycle:
                raise ComplaintError(
                    f"Counter {name} reads {count} after {before[name]}, in cycle "
                    f"{self.monitor.cycle}: it must count cycles, and never decrease."
                )
            before[name] = count
            await self.expect("SCRATCH", value)

    # ---- batches ----

    def packets(self, counts: Sequence[int]) -> list[Packet]:
        """Create request packets with these numbers of records, drawn from the pool."""
        packets = []
        for count in counts:
            rows = np.array([self.rng.randrange(len(self._pool)) for _ in range(count)])
            beats = request_packet(self.layout, self._pool[rows], self._next)
            data = beats.reshape(-1).view(np.uint8)
            packets.append(Packet(data=data, rows=rows, sequence=self._next))
            self._next += 1
        return packets

    async def exchange(self, counts: Sequence[int], *, late: bool = False) -> None:
        """Send batches back to back, check the answers, and access registers meanwhile."""
        packets = self.packets(counts)
        chatter = self.spawn(self.chatter())
        writer = self.spawn(self.write(packets))
        await self.finish(writer, self.spawn(self.answers(packets, late=late)))
        chatter.cancel()
        # An access that was under way ends first.
        await self._axil.wait()

    async def write(self, packets: list[Packet]) -> None:
        """Send packets and record the beat with which each begins."""
        for k, packet in enumerate(packets):
            packets[k] = replace(packet, first=len(self.monitor.accepted))
            await self.dma.write(packet.data)

    async def answers(self, packets: list[Packet], *, late: bool = False) -> None:
        """Receive the responses to packets and check them; ``late`` posts some reads late."""
        for k in range(len(packets)):
            if late and self.rng.random() < 0.5:
                await ClockCycles(self.dut.clk, self.rng.randint(1, 400))
            length = self.layout.response_bytes(len(packets[k].rows))
            data = await self.dma.read_exactly(length, packet_name=_name(packets[k]))
            self._whole(packets[k], data)

    async def cut_answers(self, packets: list[Packet]) -> None:
        """Receive the responses around a reset: whole ones, then at most one that is cut off."""
        cut = False
        for k in range(len(packets)):
            length = self.layout.response_bytes(len(packets[k].rows))
            data = await self.dma.read(length, packet_name=_name(packets[k]))
            if cut:
                raise ComplaintError(
                    f"{_name(packets[k])} came after the abort beat, in the reset."
                )
            if data[-BEAT:].view("<u4")[0] == Magic.ABORT:
                self._cut(packets[k], data)
                cut = True
            elif len(data) == length:
                self._whole(packets[k], data)
            else:
                raise ComplaintError(
                    f"{_name(packets[k])} was cut off after {len(data) // BEAT} of "
                    f"{length // BEAT} beats without an abort beat."
                )
        await self.dma.read(BEAT, packet_name="A packet after the last response")
        raise ComplaintError("A response arrived without a request.")

    def _whole(self, packet: Packet, data: Bytes) -> None:
        name, count = _name(packet), len(packet.rows)
        try:
            head = read_response(self.layout, data, count, packet.sequence)
        except FrameError as error:
            raise ComplaintError(f"{name} is not a valid response: {error}") from None
        words, flags = self._expected[packet.rows], self._flags[packet.rows]
        answer_words = self.layout.response_words(data, count)
        answer_flags = self.layout.response_flags(data, count)
        wrong = differing_records(answer_words, words, name="the integer model's words")
        wrong += differing_records(
            answer_flags[:, None], flags[:, None], name="the integer model's flags"
        )
        flagged = int(flags.sum())
        status = Status.FLAGGED if flagged else Status.OK
        if (head.flagged, head.status) != (flagged, status):
            wrong.append(
                f"The trailer says {head.flagged} flagged and status {head.status!r} instead of "
                f"{flagged} and {status!r}."
            )
        passed = self.monitor.ended[-1] - self.monitor.accepted[packet.first]
        if not 0 < head.cycles <= passed:
            wrong.append(
                f"The trailer says that the batch took {head.cycles} cycles; from its first beat "
                f"in to its last beat out it was {passed}."
            )
        if wrong:
            raise ComplaintError(f"{name}: {' '.join(wrong)}")
        self._answered.append((packet.rows, answer_words.copy()))
        self.totals.update(batches=1, records=count, flagged=flagged)
        self.known.update(BATCHES=1, ACCEPTED=count, ANSWERED=count, FLAGGED=flagged)
        self.last = {"SEQUENCE": packet.sequence, "BATCH_CYCLES": head.cycles}

    def _cut(self, packet: Packet, data: Bytes) -> None:
        name = _name(packet)
        header = data[:BEAT].view(HEADER)[0]
        if len(data) < 2 * BEAT or data[-BEAT + 4 :].any():
            raise ComplaintError(
                f"{name} is an abort beat alone, or its abort beat is not zero after the magic."
            )
        if (header["magic"], header["sequence"]) != (Magic.RESPONSE, packet.sequence):
            raise ComplaintError(f"{name} was cut off, and its header does not match the request.")
        expected = self._expected[packet.rows].reshape(-1)
        delivered = data[BEAT:-BEAT].view(np.uint32)[: len(expected)]
        if not np.array_equal(delivered, expected[: len(delivered)]):
            raise ComplaintError(f"{name} was cut off, and the results before the cut are wrong.")
        self.totals["cut"] += 1

    def check_floats(self) -> None:
        """Check the results since the last call against the float model, within the budget."""
        if not self._answered:
            return
        rows = np.concatenate([rows for rows, _ in self._answered])
        words = np.concatenate([words for _, words in self._answered])
        self._answered.clear()
        self.totals["floats"] += len(rows)
        wrong = self._reference.check_floats(self._pool[rows], words)
        if wrong:
            raise ComplaintError(" ".join(wrong))

    # ---- counters ----

    def configured(self) -> None:
        """Expect the counters of a newly configured card."""
        names = ("ACCEPTED", "ANSWERED", "FLAGGED", "BATCHES", "DROPPED", "ERRORS")
        self.known = Counter(dict.fromkeys(names, 0))
        self.last = {"SEQUENCE": 0, "BATCH_CYCLES": 0}
        self.deposited = 0

    async def learn(self) -> None:
        """Read the counters after a reset, as they may include records of a cut-off packet."""
        counters = {name: await self.get(name) for name in ("ACCEPTED", "ANSWERED", "FLAGGED")}
        order = [counters["ACCEPTED"], counters["ANSWERED"], self.known["ANSWERED"]]
        if order != sorted(order, reverse=True) or counters["FLAGGED"] < self.known["FLAGGED"]:
            raise ComplaintError(
                f"The counters contradict each other: {counters}, known {dict(self.known)}."
            )
        self.known.update({name: counters[name] - self.known[name] for name in counters})
        self.known["DROPPED"] = await self.get("DROPPED")

    async def check_counters(self) -> None:
        """Check every counter while the card is idle."""
        await ClockCycles(self.dut.clk, 10)
        for name, value in (self.known | Counter(self.last)).items():
            await self.expect(name, value)
        await self.check_stalled()
        busy, starved = await self.pair("BUSY"), await self.pair("STARVED")
        if not 0 < busy <= self.monitor.cycle or not 0 < starved <= busy:
            raise ComplaintError(
                f"BUSY reads {busy} and STARVED {starved}, but 0 < STARVED <= BUSY <= "
                f"{self.monitor.cycle} must hold."
            )

    async def settle(self) -> None:
        """Measure a counter's offset exactly, at rest: it was written while the counter ran."""
        await ClockCycles(self.dut.clk, 10)
        exact = await self.pair("STALLED") - self.monitor.stalled
        if abs(exact - self.deposited) > 5:
            raise ComplaintError(
                f"STALLED reads {exact - self.deposited} more than the cycles in which a result "
                "waited."
            )
        self.deposited = exact

    async def check_stalled(self) -> None:
        """Check the cycles in which a result waited, to within those of the access if it still
        waits."""
        before = self.monitor.stalled
        count = await self.pair("STALLED") - self.deposited
        after = self.monitor.stalled
        if not before - 5 <= count <= after or (before == after != count):
            raise ComplaintError(
                f"STALLED reads {count} after {before} cycles in which a result waited."
            )

    def figures(self) -> dict[str, int]:
        """Return the totals of the bench, by name."""
        return dict(self.totals) | {
            "cycles": self.monitor.cycle,
            "transfers": self.dma.transfers,
            "splits": self.dma.splits,
            "partial_beats": self.dma.partial,
            "request_beats": len(self.monitor.accepted),
            "result_beats": self.monitor.emitted,
        }


def _name(packet: Packet) -> str:
    return f"The answer to batch {packet.sequence} of {len(packet.rows)} requests"
