"""One mutant for each trap of the vendor's driver, each of which the stand-in catches.

Mutants of the host (2 to 6, 8, 9) are the real driver with one thing done as one would do it who
does not know the trap. Mutants of the card (1, 7, 10) are the card's model with one of its own
rules broken. Each runs a scenario that the sound pair passes.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pinion.card.stand_in import (
    Fault,
    FaultPlan,
    MountedNodes,
    PacketAxiCard,
    StandIn,
    StandInNodes,
    XdmaModel,
    why_no_fuse,
)
from pinion.card.stand_in.axi_card import CONTROL
from pinion.driver import Device, DriverError, TransportError
from pinion.driver import session as session_module
from pinion.driver import xdma as xdma_module
from pinion.driver.errors import LinkError
from pinion.driver.xdma import XdmaTransport
from pinion.link import Cause
from tests.support.breadth import some

LONG, SOON = 60.0, 0.2
"""Seconds that a transfer may stall, without a mutant that stops one, and with one."""

CALM = FaultPlan()
SPLIT = FaultPlan(faults=(Fault(kind="ring_wrap", at=(0, 1, 2), beat=4),))
SHORT = FaultPlan(faults=(Fault(kind="partial_tkeep", at=(0,), beat=3, size=24),))
LATE = FaultPlan(faults=(Fault(kind="errno512", at=(0,), side="response"),))
TORN = FaultPlan(faults=(Fault(kind="corrupt_beat", at=(0,), beat=0, bit=0),))


# ---- mutants of the host ----


class Unaligned(XdmaTransport):
    """Trap 2: packets at NumPy's addresses."""

    def send(self, packet: np.ndarray) -> None:
        memory = np.zeros(len(packet) + 8192, dtype=np.uint8)
        start = -memory.__array_interface__["data"][0] % 4096 + 4096 - 40
        memory[start : start + len(packet)] = packet
        self._nodes.write_stream(memory[start : start + len(packet)].data)


class RoundedUp(XdmaTransport):
    """Trap 3: reads of whole pages, and one more."""

    def receive(self, packet: np.ndarray) -> None:
        room = self.allocate(-(-len(packet) // 4096) * 4096 + 4096)
        count = self._read(room)
        packet[:] = room[: len(packet)]
        assert count >= len(packet)


class ReadOnly(XdmaTransport):
    """Trap 8: bytes objects, which cannot be pinned."""

    def send(self, packet: np.ndarray) -> None:
        try:
            self._nodes.write_stream(memoryview(packet.tobytes() + b"").toreadonly())
        except OSError as error:
            raise xdma_module.translate(error, node="h2c", action="write") from error


class Vectored(MountedNodes):
    """Trap 4: header and records from two buffers."""

    def write_stream(self, data: memoryview) -> int:
        return os.writev(self._h2c, [data[:64], data[64:]])


class TwoOpens(StandInNodes):
    """Trap 8: the stream is opened again for each packet."""

    def read_stream(self, data: memoryview) -> int:
        self.model.open_c2h()
        return super().read_stream(data)


class LateRead(StandInNodes):
    """Trap 6: the read is posted after the request has been sent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._sent = threading.Event()

    def write_stream(self, data: memoryview) -> int:
        try:
            return super().write_stream(data)
        finally:
            self._sent.set()

    def read_stream(self, data: memoryview) -> int:
        assert self._sent.wait(LONG)
        self._sent.clear()
        return super().read_stream(data)


class WideRegisters(StandInNodes):
    """Trap 9: registers read as 64-bit words."""

    def read_user(self, offset: int) -> bytes:
        wide = self.model.read_register(offset & ~7, 8)
        return wide[offset % 8 : offset % 8 + 4]


# ---- mutants of the card ----


class BoundaryCard(PacketAxiCard):
    """Trap 1: a request ends at TLAST."""

    def advance(self, beats, keep, last, room):
        step = super().advance(beats, keep, last, room)
        if last[: step.accepted].any():
            self.card._header = None
        return step


class ImpatientCard(PacketAxiCard):
    """Trap 7: results that nobody takes for a while are dropped for newer ones."""

    def advance(self, beats, keep, last, room):
        step = super().advance(beats, keep, last, room)
        if not room and self._out and len(self._out[0]) > 2:
            self._out[0] = self._out[0][1:]
        return step


class NoResetCard(PacketAxiCard):
    """Trap 10: the reset register clears nothing."""

    def write(self, offset: int, value: int) -> None:
        if offset != CONTROL:
            super().write(offset, value)
            return
        values = self.card._values
        values["CONTROL"] = value & 1


class CarelessCard(PacketAxiCard):
    """No error bit for a partial beat in the middle of a packet."""

    def advance(self, beats, keep, last, room):
        return super().advance(beats, np.full_like(keep, (1 << 64) - 1), last, room)


def _unblocked(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()


def _one_errno(error: OSError, **names: str) -> DriverError | TransportError:
    if error.errno == errno.ETIMEDOUT:
        return _translate(error, **names)
    return LinkError(f"errno {error.errno}")


_translate = xdma_module.translate


@dataclass(kw_only=True)
class Mutant:
    """A broken part, its scenario, and the test that catches it.

    A mutant that ``stops`` makes transfers stand still on a card where nothing else is wrong.
    """

    trap: str
    caught: Callable[[Outcome], bool]
    plan: FaultPlan = CALM
    transport: type[XdmaTransport] = XdmaTransport
    nodes: type[Any] = StandInNodes
    axi_card: type[PacketAxiCard] = PacketAxiCard
    patch: tuple[Any, str, Any] | None = None
    depth: int = 512
    mounted: bool = False
    late: bool = False
    stops: bool = False


@dataclass(kw_only=True)
class Outcome:
    """Outcome of a scenario: errors of three batches, wrong results, broken rules."""

    errors: list[Exception | None]
    wrong: int
    rules: set[str]

    @property
    def sound(self) -> bool:
        return self.wrong == 0 and not self.rules and self.errors[1:] == [None, None]

    def failed(self) -> bool:
        return any(error is not None for error in self.errors)

    def says(self, name: str) -> bool:
        return any(type(error).__name__ == name for error in self.errors)


MUTANTS = [
    Mutant(trap="1", axi_card=BoundaryCard, plan=SPLIT, caught=Outcome.failed),
    Mutant(trap="2", transport=Unaligned, caught=lambda o: "trap_2" in o.rules and o.failed()),
    Mutant(
        trap="2, the card",
        axi_card=CarelessCard,
        plan=SHORT,
        caught=lambda o: not any(getattr(e, "cause", None) == Cause.PARTIAL_BEAT for e in o.errors),
    ),
    Mutant(trap="3", transport=RoundedUp, stops=True, caught=lambda o: o.says("CardTimeoutError")),
    Mutant(trap="4", nodes=Vectored, mounted=True, caught=lambda o: "trap_4" in o.rules),
    Mutant(
        trap="5",
        patch=(session_module, "with_signals_blocked", _unblocked),
        caught=lambda o: "trap_5" in o.rules,
    ),
    Mutant(
        trap="5, mounted",
        nodes=MountedNodes,
        mounted=True,
        patch=(session_module, "with_signals_blocked", _unblocked),
        caught=lambda o: "trap_5" in o.rules,
    ),
    Mutant(
        trap="6", nodes=LateRead, depth=8, stops=True, caught=lambda o: o.says("CardTimeoutError")
    ),
    Mutant(trap="7", axi_card=ImpatientCard, late=True, stops=True, caught=Outcome.failed),
    Mutant(
        trap="8, errno",
        plan=LATE,
        patch=(xdma_module, "translate", _one_errno),
        caught=lambda o: not o.says("CardTimeoutError"),
    ),
    Mutant(trap="8, busy", nodes=TwoOpens, caught=lambda o: o.says("BusyError")),
    Mutant(
        trap="8, read-only",
        transport=ReadOnly,
        caught=lambda o: "trap_8" in o.rules and o.says("DmaBufferError"),
    ),
    Mutant(trap="9", nodes=WideRegisters, caught=lambda o: "trap_9" in o.rules and o.failed()),
    Mutant(trap="10", axi_card=NoResetCard, plan=TORN, caught=lambda o: o.errors[1] is not None),
]


@contextmanager
def nodes_of(card: Any, mutant: Mutant, kind: type[Any]) -> Iterator[tuple[Any, Callable]]:
    """Yield nodes of a stand-in, in this process or mounted, and its log."""
    limits = {"timeout": SOON, "sound_timeout": SOON if mutant.stops else LONG}
    if mutant.mounted:
        with StandIn(folder=".", model=card.echo, faults=mutant.plan, **limits) as stand:
            yield kind(prefix=stand.prefix), stand.log
        return
    axi_card = mutant.axi_card(card=card.axi_card().card, depth=mutant.depth)
    model = XdmaModel(card=axi_card, layout=card.layout, plan=mutant.plan, **limits)
    yield kind(model=model), model.log
    model.stop()


def scenario(card: Any, mutant: Mutant) -> Outcome:
    """Run three batches, the first of which a fault may affect."""
    workload = card.workload(300, seed=1)
    errors: list[Exception | None] = []
    wrong = 0
    with nodes_of(card, mutant, mutant.nodes) as (nodes, log):
        if mutant.late:
            _dawdle(nodes)
        try:
            device = Device(
                manifest=card.manifest,
                transport=mutant.transport(nodes=nodes, layout=card.layout),
                timeout=2 * LONG,
                patience=2 * LONG,
            )
        except (DriverError, TransportError) as error:
            errors = [error, error, error]
        else:
            with device:
                for number in range(3):
                    rows = np.arange(100 * number, 100 * number + 100)
                    try:
                        result = device.run(**workload.take(rows))
                        wrong += workload.wrong(rows, result)
                        errors.append(None)
                    except (DriverError, TransportError) as error:
                        errors.append(error)
        return Outcome(
            errors=errors,
            wrong=wrong,
            rules={r.kind for r in log() if r.kind.startswith("trap")},
        )


def _dawdle(nodes: StandInNodes) -> None:
    """A host that pauses in the middle of a response, so that the card must wait."""
    model, read = nodes.model, nodes.model.read

    def slowly(length: int, *, address: int = 0) -> bytes:
        first = read(64, address=address)
        with model._changed:
            for _ in range(3):
                model._advance()
                model._card.advance(*model._pending, 0)
        return first + read(length - 64, address=address + 64)

    model.read = slowly  # type: ignore[method-assign]  # a double of this one model


@pytest.mark.parametrize(
    "mutant",
    some(MUTANTS, lambda mutant: mutant.trap not in ("4", "5, mounted")),
    ids=[mutant.trap for mutant in MUTANTS],
)
def test_a_mutant_that_falls_into_a_trap_is_caught(card, mutant, monkeypatch):
    if mutant.mounted and (reason := why_no_fuse()):
        pytest.skip(reason)
    whole = Mutant(
        trap=mutant.trap,
        caught=mutant.caught,
        plan=mutant.plan,
        nodes=MountedNodes if mutant.mounted else StandInNodes,
        mounted=mutant.mounted,
        late=mutant.late,
    )
    sound = scenario(card, whole)
    assert sound.sound and not mutant.caught(sound), f"the sound pair fails: {sound}"
    if mutant.patch is not None:
        monkeypatch.setattr(*mutant.patch)
    outcome = scenario(card, mutant)
    print(outcome)
    assert mutant.caught(outcome), f"the mutant passes: {outcome}"


def test_every_trap_has_a_mutant():
    assert {int(mutant.trap.partition(",")[0]) for mutant in MUTANTS} == set(range(1, 11))
