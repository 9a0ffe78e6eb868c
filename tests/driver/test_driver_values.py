"""Small parts of the driver against explicit values: steps of a reset, limits, messages."""

from __future__ import annotations

import errno
import sys
import threading
import time
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pinion.card.packets import PacketCard
from pinion.card.serial_ports import ModelPort
from pinion.driver import (
    CardFaultError,
    CardTimeoutError,
    Device,
    DriverError,
    LinkError,
    MissingCardError,
    TornStreamError,
    recovery,
    transport,
)
from pinion.driver.errors import AccessError, BusyError, DmaBufferError
from pinion.driver.memory import aligned, check_buffer
from pinion.driver.packing import record_columns
from pinion.driver.profile import Profile
from pinion.driver.recovery import explain, release_reset, soft_reset
from pinion.driver.serial import SerialTransport
from pinion.driver.tty import TtyPort, _refused
from pinion.driver.xdma import XdmaTransport
from pinion.link import Array, Cause, FrameError, layout_of, register
from pinion.link.registers import HALTED, IN_RESET, OPEN, QUIET, RESET
from tests.driver.cards import WAIT, Card, compute, manifest, states
from tests.driver.strict import StrictNodes, failure
from tests.driver.test_faults import check, flip, open_device

LAYOUT = layout_of(manifest())
CONTROL = register("CONTROL").offset


def test_a_profile_begins_at_zero() -> None:
    zero = Profile()
    assert {field.name: getattr(zero, field.name) for field in fields(zero)} == dict.fromkeys(
        (
            *("pack_seconds", "unpack_seconds", "flight_seconds", "device_cycles"),
            *("stalled_cycles", "starved_cycles", "link_mhz", "batches", "packets", "records"),
            *("bytes_in", "bytes_out", "faults", "recoveries", "resent"),
        ),
        0,
    )


def test_the_time_of_a_flight_is_no_longer_than_the_clock_on_the_wall() -> None:
    before = time.perf_counter()
    with Device(manifest=manifest(), transport=Card(), timeout=WAIT) as device:
        for seed in range(3):
            device.run(**states(5, seed=seed))
        profile = device.profile
    spent = time.perf_counter() - before
    for seconds in (profile.flight_seconds, profile.pack_seconds, profile.unpack_seconds):
        assert 0 < seconds <= spent


# The serial port of the system.


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        *((n, MissingCardError, "There is no serial port '/dev/x'") for n in (2, 6, 19)),
        *((n, AccessError, "may not be opened by this user") for n in (1, 13)),
        *((n, BusyError, "is in use") for n in (11, 16)),
        *((n, DriverError, "cannot be opened: ") for n in (0, 3, 5, 7, 10, 12, 14, 15, 17, 18, 20)),
    ],
)
def test_a_port_that_cannot_be_opened_says_why(number: int, kind: type, words: str) -> None:
    error = _refused("/dev/x", OSError(number, "reason"))
    assert type(error) is kind and words in str(error) and "/dev/x" in str(error)


def test_a_port_that_another_program_locked_is_busy() -> None:
    assert type(_refused("/dev/x", OSError("Could not exclusively lock port"))) is BusyError


class FakeSerial:
    """A stand-in for pyserial's `Serial`."""

    def __init__(self, path: str, baud: int, **options: Any) -> None:
        self.given = (path, baud, options)
        self.in_waiting = 0
        self.calls: list[Any] = []

    def set_low_latency_mode(self, on: bool) -> None:
        self.calls.append(("low latency", on))

    def read(self, size: int) -> bytearray:
        self.calls.append(("read", size))
        return bytearray(b"ab")

    def write(self, data: bytes) -> None:
        self.calls.append(("write", data))

    def close(self) -> None:
        self.calls.append("close")


def test_the_port_is_opened_alone_and_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serial", SimpleNamespace(Serial=FakeSerial))
    port = TtyPort(path="/dev/x", baud=115_200)
    fake: Any = port._port
    assert fake.given == ("/dev/x", 115_200, {"timeout": 0.1, "exclusive": True})
    assert port.read() == b"ab"
    fake.in_waiting = 7
    port.read()
    port.write(b"xy")
    port.close()
    expected = [("low latency", True), ("read", 1), ("read", 7), ("write", b"xy"), "close"]
    assert fake.calls == expected


def test_a_port_without_quick_answers_or_without_pyserial(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(FakeSerial):
        def set_low_latency_mode(self, on: bool) -> None:
            raise NotImplementedError

    monkeypatch.setitem(sys.modules, "serial", SimpleNamespace(Serial=Old))
    assert TtyPort(path="/dev/x", baud=9600).read() == b"ab"
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(DriverError, match="Serial ports need pyserial"):
        TtyPort(path="/dev/x", baud=9600)


# The reset, step by step.


class Steps:
    """A transport with a sequence of STATUS values, which records other accesses."""

    where = "here"

    def __init__(self, *status: int, error: int = 0, drained: Any = None) -> None:
        self.card = PacketCard(layout=LAYOUT, compute=compute)
        self.status, self.error, self.drained = list(status), error, drained
        self.did: list[Any] = []

    def read_register(self, offset: int) -> int:
        if offset == register("STATUS").offset:
            return self.status.pop(0) if len(self.status) > 1 else self.status[0]
        if offset == register("ERROR").offset:
            return self.error
        return self.card.read_register(offset)

    def write_register(self, offset: int, value: int) -> None:
        assert offset == CONTROL
        self.did.append(value)

    def drain(self) -> None:
        self.did.append("drain")
        if self.drained is not None:
            raise self.drained


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


DOWN = IN_RESET | QUIET


def steps(*status: int, patience: float = WAIT, **options: Any) -> list[Any]:
    transport: Any = Steps(*status, **options)
    release_reset(transport, LAYOUT, patience=patience)
    return list(transport.did)


def test_a_reset_ends_when_the_card_is_at_rest(naps: list[float]) -> None:
    assert steps(DOWN, QUIET) == [0] and naps == []
    # Busy, then a response is open, then at rest, then slow to come up.
    assert steps(IN_RESET, IN_RESET | OPEN, DOWN | OPEN, DOWN, DOWN, QUIET) == ["drain", "drain", 0]
    assert naps == [recovery.PAUSE] * 4


def test_a_card_that_forgot_its_reset_is_told_again(naps: list[float]) -> None:
    assert steps(QUIET, DOWN, QUIET) == [RESET, 0]
    # Other bits of STATUS do not matter.
    assert steps(DOWN | HALTED, QUIET | HALTED) == [0]


def test_nothing_to_drain_is_tried_again(naps: list[float]) -> None:
    lost = TornStreamError("nothing came")
    assert steps(DOWN | OPEN, DOWN | OPEN, DOWN, QUIET, drained=lost) == ["drain", "drain", 0]


def test_a_reset_that_takes_too_long_says_at_what(naps: list[float]) -> None:
    with pytest.raises(CardTimeoutError, match=r"did not become idle within 0 s .*STATUS = 0x"):
        steps(IN_RESET, patience=0)
    with pytest.raises(CardTimeoutError, match="The card stayed in reset for 0 s"):
        steps(DOWN, DOWN, patience=0)


def test_a_fault_right_after_the_reset_is_named(naps: list[float]) -> None:
    with pytest.raises(CardFaultError, match=r"right after its reset \(a request header") as caught:
        steps(DOWN, QUIET, error=int(Cause.HEADER_CRC))
    assert caught.value.cause is Cause.HEADER_CRC


def test_a_whole_reset_holds_and_releases(naps: list[float]) -> None:
    transport: Any = Steps(DOWN, QUIET)
    soft_reset(transport, LAYOUT, patience=WAIT)
    assert transport.did == [RESET, 0]


def test_the_cards_account_carries_that_of_the_host() -> None:
    host = LinkError("torn")
    explained = explain(lambda offset: int(Cause.BUILD), host)
    assert isinstance(explained, CardFaultError) and explained.cause is Cause.BUILD
    assert explained.__cause__ is host and "On the host: torn" in str(explained)
    for nothing in (0, 0xFFFFFFFF):
        assert explain(lambda offset, value=nothing: value, host) is host
    card_error = CardFaultError("known", cause=Cause.CORE_ERROR)
    assert explain(lambda offset: int(Cause.BUILD), card_error) is card_error

    def gone(offset: int) -> int:
        raise LinkError("gone")

    assert explain(gone, host) is host
    odd = explain(lambda offset: 99, host)
    assert isinstance(odd, CardFaultError) and odd.cause is Cause.NONE
    assert "unknown cause 99" in str(odd)


def test_a_damaged_response_says_what_is_wrong_with_it() -> None:
    nodes = StrictNodes()
    nodes.spoil = flip(70, at=2)
    with open_device(nodes) as device:
        check(device.run(**states(8, seed=0)), 0)
        error = device.submit(**states(8, seed=1)).exception(WAIT)
        assert isinstance(error, TornStreamError) and isinstance(error.__cause__, FrameError)
        assert "The response to 8 requests is damaged." in str(error)
        assert (device.profile.faults, device.profile.recoveries) == (1, 1)


# Limits.


def test_a_packet_of_one_request_is_the_least() -> None:
    with Device(manifest=manifest(), transport=Card(), chunk=1, timeout=WAIT) as device:
        device.run(**states(3, seed=1))
        assert device.chunk == 1 and device.profile.packets == 3
    huge = manifest(inputs=(Array(name="q", shape=(300_000,), unit=""),))
    card = Card(m=huge)
    with Device(manifest=huge, transport=card, timeout=WAIT) as device:
        assert device.chunk == 1, "a request of more than a megabyte"


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_time_that_is_none_is_refused(timeout: float) -> None:
    with pytest.raises(DriverError, match="The timeout must be positive"):
        Device(manifest=manifest(), transport=Card(), timeout=timeout)


def test_the_parts_of_a_symmetric_array_follow_each_other() -> None:
    arrays = (
        Array(name="a", shape=(2,), unit=""),
        Array(name="M", shape=(2, 2), unit="", sent=(0, 2, 3), symmetric=True),
        Array(name="b", shape=(3,), unit=""),
    )
    columns = record_columns(arrays)
    assert [(c.start, c.stop, c.size) for c in columns] == [(0, 2, 2), (2, 5, 4), (5, 8, 3)]
    target, source = columns[1].target, columns[1].source
    assert target is not None and target.tolist() == [0, 1, 2, 3]
    assert source is not None and source.tolist() == [0, 1, 1, 2]
    assert [c.lump.itemsize for c in columns] == [8, 12, 12]


# Transports.


def read_only(buffer: np.ndarray) -> np.ndarray:
    buffer.flags.writeable = False
    return buffer


def line(**options: Any) -> SerialTransport:
    port = ModelPort(card=PacketCard(layout=LAYOUT, compute=compute))
    return SerialTransport(port=port, layout=LAYOUT, where="the line", **options)


def test_a_forked_child_lets_go_of_the_port() -> None:
    port = ModelPort(card=PacketCard(layout=LAYOUT, compute=compute))
    transport = SerialTransport(port=port, layout=LAYOUT, where="the line")
    closed: list[bool] = []
    close = port.close
    port.close = lambda: closed.append(True)  # type: ignore[method-assign]
    transport.abandon()
    assert closed == [True] and repr(transport) == "<SerialTransport the line, closed>"
    close()


def test_an_answer_waits_for_the_beats_in_front_of_it() -> None:
    transport = line(slots=10, baud=1000.0)
    # Half a second, and 10 bits a byte for 10 beats of 69 bytes and 2 commands of 11.
    assert transport._answer == pytest.approx(0.5 + 10 * (10 * 69 + 2 * 11) / 1000.0)
    assert repr(transport) == "<SerialTransport the line, open>"
    transport.close()
    assert repr(transport) == "<SerialTransport the line, closed>"
    assert not transport._reader.is_alive()
    transport.close()


def test_a_stopped_driver_leaves_no_thread() -> None:
    device = Device(manifest=manifest(), transport=Card(), timeout=WAIT)
    mine = device._session._threads
    assert len(mine) == 3 and {t.name for t in mine} == {
        *("pinion-read", "pinion-write", "pinion-supervise"),
    }
    assert all(thread.daemon and thread.is_alive() for thread in mine)
    device.close()
    assert not any(thread.is_alive() for thread in mine)
    assert not [t for t in threading.enumerate() if t in mine]


def test_registers_that_time_out_are_told_as_reads_and_writes() -> None:
    nodes = StrictNodes()
    transport = XdmaTransport(nodes=nodes, layout=LAYOUT)
    assert repr(transport) == "<XdmaTransport /dev/xdma0, open>"

    def late(offset: int) -> None:
        raise failure(errno.ETIMEDOUT)

    nodes.on_user = late
    with pytest.raises(CardTimeoutError, match=r"/dev/xdma0_user' sent nothing"):
        transport.read_register(0)
    with pytest.raises(CardTimeoutError, match=r"/dev/xdma0_user' accepted no more data"):
        transport.write_register(0, 1)
    nodes.on_user = lambda offset: None
    nodes.read_user = lambda offset: b"\0\0\0"  # type: ignore[method-assign]
    with pytest.raises(LinkError, match="returned 3 of 4 bytes for the register at 0x8"):
        transport.read_register(8)
    nodes.write_user = lambda offset, data: 5  # type: ignore[method-assign]
    with pytest.raises(LinkError, match="accepted 5 of 4 bytes for the register at 0x8"):
        transport.write_register(8, 1)
    nodes.read_stream = lambda data: 0  # type: ignore[method-assign]
    with pytest.raises(TornStreamError, match="has nothing to discard"):
        transport.drain()
    transport.close()
    transport.close()
    assert nodes.opened.count("close") == 1 and repr(transport).endswith("closed>")


def test_a_stream_that_fails_says_in_which_direction() -> None:
    nodes = StrictNodes()
    transport = XdmaTransport(nodes=nodes, layout=LAYOUT)

    def broken(data: memoryview) -> int:
        raise OSError(errno.EIO, "Input/output error")

    nodes.write_stream = broken  # type: ignore[method-assign]
    with pytest.raises(LinkError, match=r"^Cannot write '/dev/xdma0_h2c_0' \(errno 5, Input"):
        transport.send(transport.allocate(64))
    nodes.read_stream = broken  # type: ignore[method-assign]
    with pytest.raises(LinkError, match=r"^Cannot read '/dev/xdma0_c2h_0' \(errno 5, Input"):
        transport.receive(transport.allocate(64))
    transport.abandon()
    assert nodes.opened.count("close") == 1 and repr(transport).endswith("closed>")
    transport.close()
    assert nodes.opened.count("close") == 1


@pytest.mark.parametrize(
    ("buffer", "state"),
    [
        (aligned(128)[::2], "uint8 buffer is not contiguous and writable"),
        (aligned(128).view(np.int8), "int8 buffer is contiguous and writable"),
        (read_only(aligned(64)), "uint8 buffer is contiguous and read-only"),
    ],
)
def test_memory_that_no_engine_can_use_is_described(buffer: np.ndarray, state: str) -> None:
    check_buffer(aligned(64))
    with pytest.raises(DmaBufferError) as refused:
        check_buffer(buffer)
    assert str(refused.value) == (
        "The DMA engine needs contiguous writable uint8, even for sending, but this "
        f"{state}: use the transport's allocate()."
    )


def test_an_unknown_transport_lists_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    start, end = "There is no transport for 'abacus:7' (installed: ", "; for CPUs and GPUs use "
    for names, rest in (
        (
            ("xdma", "sim"),
            "sim, xdma): choose an installed one, followed by a colon and an address "
            "if it needs one",
        ),
        ((), "none): reinstall Pinion, which includes transports"),
    ):
        monkeypatch.setattr(transport, "transports", lambda names=names: dict.fromkeys(names))
        with pytest.raises(DriverError) as refused:
            transport.find_transport("abacus:7")
        assert str(refused.value).startswith(start + rest + end)
