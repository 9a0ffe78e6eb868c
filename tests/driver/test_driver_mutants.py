"""Rules of the driver that ordinary cards do not test, with mutants that lack them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from pinion.card.packets import Answers, PacketCard, respond
from pinion.card.serial_ports import ModelPort
from pinion.driver import (
    CardFaultError,
    Device,
    DriverError,
    TornStreamError,
    TransportError,
    serial,
    session,
    state,
)
from pinion.driver.serial import SerialTransport
from pinion.link import BEAT, Cause, Status, layout_of, register
from pinion.link.registers import HALTED
from pinion.link.uart_framing import END, FrameKind, beats, unwrap, wrap
from tests.driver.cards import WAIT, Card, compute, manifest, sequence_of, states
from tests.driver.strict import STATUS, StrictNodes
from tests.driver.test_faults import check, flip, open_device
from tests.gateware.link.mutants import mutant

LAYOUT = layout_of(manifest())

Check = Callable[[], None]

# A card that reports a failed core, with results that look normal.


def core_errors_are_faults() -> None:
    card = Card()

    def spoil(packet: np.ndarray) -> np.ndarray:
        words = LAYOUT.response_words(packet, 8).copy()
        answers = Answers(words=words, flagged=np.zeros(8, dtype=np.bool_))
        return respond(
            LAYOUT, answers, sequence=sequence_of(packet), status=Status.OK | Status.CORE_ERROR
        )

    with Device(manifest=manifest(), transport=card, timeout=WAIT, patience=WAIT) as device:
        check(device.run(**states(8, seed=1)), 1)
        card.spoil = spoil
        error = device.submit(**states(8, seed=2)).exception(WAIT)
        assert isinstance(error, CardFaultError) and error.cause is Cause.CORE_ERROR, error
        assert "the core lost its record boundaries" in str(error)
        card.spoil = lambda packet: packet
        check(device.run(**states(8, seed=3)), 3)


# A card that seems stopped for a moment, but whose answer still arrives.


class Slow(StrictNodes):
    """Device files that hold back the second request until the driver has polled twice."""

    withheld: memoryview | None = None
    looks = 0

    def _feed(self, data: memoryview) -> None:
        if self.writes == 2 and self.withheld is None:
            # A copy aligned to a beat, so that no beat is partial (trap 2).
            room = np.empty(len(data) + BEAT, dtype=np.uint8)
            start = -room.__array_interface__["data"][0] % BEAT
            room[start : start + len(data)] = data
            self.withheld = room[start : start + len(data)].data
        else:
            super()._feed(data)

    def hopeless(self) -> bool:
        return self.card.in_reset

    def read_user(self, offset: int) -> bytes:
        value = super().read_user(offset)
        if offset == STATUS and self.withheld is not None:
            self.looks += 1
            if self.looks == 1:
                return (int.from_bytes(value, "little") | HALTED).to_bytes(4, "little")
            if self.looks == 2:
                super()._feed(self.withheld)
        return value


def one_look_is_no_fault() -> None:
    nodes = Slow()
    with open_device(nodes) as device:
        check(device.run(**states(8, seed=1)), 1)
        check(device.submit(**states(8, seed=2)).result(WAIT), 2)
        assert nodes.looks >= 2 and device.profile.recoveries == 0


# A packet that arrives during the read of another's response is sent at once, not after that read.


def a_packet_goes_out_beside_a_read() -> None:
    nodes = StrictNodes()
    reading, second = threading.Event(), threading.Event()

    def note(call: int, data: memoryview) -> None:
        if call == 2:
            second.set()

    def wait(call: int, data: memoryview) -> None:
        if call == 1:
            reading.set()
            assert second.wait(WAIT)

    nodes.on_write, nodes.on_read = note, wait
    with open_device(nodes, window=4) as device:
        first = device.submit(**states(8, seed=1))
        assert reading.wait(WAIT)
        # The first request is out, and the writer sleeps.
        inside = device._session._state
        while not nodes.writes or inside._writing is not None or not inside._to_write._waiters:
            threading.Event().wait(0.001)
        other = device.submit(**states(8, seed=2))
        check(first.result(WAIT), 1)
        check(other.result(WAIT), 2)


# An answer to the first launch of a packet must not be taken for the answer to the second.


def each_launch_has_a_number_of_its_own() -> None:
    nodes, numbers = StrictNodes(), []
    third, reset = threading.Event(), threading.Event()

    def note(call: int, data: memoryview) -> None:
        numbers.append(sequence_of(np.frombuffer(data, dtype=np.uint8)))
        if call == 3:
            third.set()

    def wait(call: int, data: memoryview) -> None:
        # The third request is sent beside the second, and its response is read too late.
        assert call != 2 or third.wait(WAIT)
        assert call != 3 or reset.wait(WAIT)

    nodes.on_reset = lambda: third.is_set() and reset.set()
    nodes.on_write, nodes.on_read = note, wait
    nodes.spoil = flip(70, at=2)
    with open_device(nodes, window=4) as device:
        futures = [device.submit(**states(8, seed=seed)) for seed in range(6)]
        assert [future.exception(WAIT) is None for future in futures].count(False) == 1
        assert device.profile.resent >= 1
    assert len(set(numbers)) == len(numbers) > 6


# A serial line with late frames, or frames of other lengths.


def line_to(port: ModelPort) -> SerialTransport:
    return SerialTransport(port=port, layout=LAYOUT, where="the line", patience=WAIT)


class Late(ModelPort):
    """A line on which the first answer to a read of INTERVAL replaces the next register's."""

    late = b""
    reads = 0

    def _answer(self, frame: bytes) -> bytes:
        answer = super()._answer(frame)
        body = unwrap(frame)
        if body is not None and body[0] == FrameKind.READ:
            if body[2] == register("INTERVAL").offset:
                self.reads += 1
                if self.reads == 1:
                    self.late, answer = answer, b""
            elif self.late:
                answer, self.late = self.late, b""
        return answer


def a_late_answer_is_nobodys() -> None:
    port = Late(card=PacketCard(layout=LAYOUT, compute=compute, interval=77))
    transport = line_to(port)
    try:
        assert transport.read_register(register("INTERVAL").offset) == 77
        assert transport.read_register(register("CORE_KHZ").offset) == 250_000
        assert port.reads == 2 and not port.late
    finally:
        transport.close()


class Fed(ModelPort):
    """A line with unsolicited frames."""

    def give(self, data: bytes) -> None:
        with self._changed:
            self._out += data
            self._changed.notify_all()


def responses_have_their_length() -> None:
    port = Fed(card=PacketCard(layout=LAYOUT, compute=compute))
    transport = line_to(port)
    try:
        whole = np.zeros(3 * BEAT, dtype=np.uint8)
        for count in (2, 4):
            port.give(beats(bytes(count * BEAT), last=True))
            with pytest.raises(TornStreamError, match=f"{count * BEAT} bytes instead of 192"):
                transport.receive(whole)
        port.give(beats(bytes(range(192)), last=True))
        transport.receive(whole)
        assert whole.tolist() == list(range(192))
    finally:
        transport.close()


def beats_have_their_length() -> None:
    """Two wrong lengths that add up are not a response: its bytes would be misplaced."""
    port = Fed(card=PacketCard(layout=LAYOUT, compute=compute))
    transport = line_to(port)
    try:
        short, long = bytes((FrameKind.BEAT,)) + bytes(63), bytes((FrameKind.BEAT,)) + bytes(65)
        port.give(wrap(short) + wrap(long) + beats(bytes(BEAT), last=True) + END)
        with pytest.raises(TornStreamError, match="64 bytes instead of 192"):
            transport.receive(np.zeros(3 * BEAT, dtype=np.uint8))
    finally:
        transport.close()


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        core_errors_are_faults,
        one_look_is_no_fault,
        a_packet_goes_out_beside_a_read,
        each_launch_has_a_number_of_its_own,
        a_late_answer_is_nobodys,
        responses_have_their_length,
        beats_have_their_length,
    )
}

# The check that must fail, the module and class to mutate, and the change.
MUTANTS: dict[str, tuple[Check, Any, str, tuple[str, str]]] = {
    "CORE_ERROR is ignored": (
        *(core_errors_are_faults, session, "ResponseHandler"),
        ("(Status.PAYLOAD_CRC, 9), (Status.CORE_ERROR, 10)", "(Status.PAYLOAD_CRC, 9),"),
    ),
    "CORE_ERROR has another cause": (
        *(core_errors_are_faults, session, "ResponseHandler"),
        ("(Status.CORE_ERROR, 10)", "(Status.CORE_ERROR, 9)"),
    ),
    "one look at HALTED": (
        *(one_look_is_no_fault, session, "Supervisor"),
        ("if self._halted is None or previous is not packet:", "if self._halted is None:"),
    ),
    "sent again under the old sequence number": (
        *(each_launch_has_a_number_of_its_own, session, "Supervisor"),
        ("self._sealer.seal(packet)\n                resealed", "resealed"),
    ),
    "one tag for all commands": (
        *(a_late_answer_is_nobodys, serial, "SerialTransport"),
        ("self._tag = self._tag % 255 + 1", "self._tag = 1"),
    ),
    "the length of a response is not looked at": (
        *(responses_have_their_length, serial, "SerialTransport"),
        ("if len(response) != len(packet):", "if False:"),
    ),
    "the length of a beat is not looked at": (
        *(beats_have_their_length, serial, "SerialTransport"),
        (" and len(body) == 1 + BEAT:", ":"),
    ),
}


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat a lost request soon; the mutants' classes read the constant when they are made."""
    monkeypatch.setattr(serial, "ANSWER", 0.2)


@pytest.mark.parametrize("name", CHECKS)
def test_the_driver_holds(name: str) -> None:
    CHECKS[name]()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_driver_without_the_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holds, module, cls, change = MUTANTS[name]
    broken = mutant(getattr(module, cls), *change)
    monkeypatch.setattr(module, cls, broken)
    if module is serial:
        monkeypatch.setitem(globals(), cls, broken)
    with pytest.raises((AssertionError, ValueError, TransportError, pytest.fail.Exception)):
        holds()


def test_a_writer_that_nobody_wakes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace one method only, because phases are compared by identity."""
    wakes = "if self._read_is_posted():\n                    self._to_write.notify()"
    broken = mutant(state.SessionState, wakes, "pass")
    code = broken._launch.__code__
    monkeypatch.setattr(state.SessionState, "_launch", FunctionType(code, vars(state)))
    # Shorten the wait that nothing ends.
    monkeypatch.setitem(globals(), "WAIT", 1.0)
    with pytest.raises((AssertionError, TransportError, DriverError, TimeoutError)):
        a_packet_goes_out_beside_a_read()
