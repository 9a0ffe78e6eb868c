"""The serial transport with a model of the card, on good and bad lines, and through a pty."""

from __future__ import annotations

import os
import pty
import re
import threading
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.base.progress import SILENT
from pinion.card.packets import PacketCard
from pinion.card.serial_ports import ModelPort
from pinion.driver import (
    Device,
    DriverError,
    MissingCardError,
    TransportError,
    WrongBuildError,
    serial,
)
from pinion.driver.errors import CardTimeoutError, LinkError
from pinion.driver.serial import SerialTransport, open_transport, split_address
from pinion.driver.tty import TtyPort
from pinion.link import Layout, layout_of
from pinion.link.uart_framing import (
    SHORT,
    SLOTS,
    WIRE_BEAT,
    WIRE_COMMAND,
    FrameKind,
    beats,
    command,
    unwrap,
    wrap,
)
from tests.driver.cards import WAIT, compute, expected, manifest, states

LAYOUT = layout_of(manifest())


def model(**changes: object) -> ModelPort:
    card = PacketCard(layout=LAYOUT, compute=compute)
    return ModelPort(card=card, **changes)  # type: ignore[arg-type] # of the keywords alone


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permit slow answers; a test that loses answers uses `hasty`."""
    monkeypatch.setattr(serial, "ANSWER", WAIT)


@pytest.fixture
def hasty(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat a lost request soon."""
    monkeypatch.setattr(serial, "ANSWER", 0.2)


def line_to(port: object, **options: Any) -> SerialTransport:
    return SerialTransport(
        port=port,  # type: ignore[arg-type] # what a test gives
        layout=LAYOUT,
        where="the line",
        **{"patience": WAIT, **options},
    )


def device(port: object) -> Device:
    return Device(manifest=manifest(), transport=line_to(port), chunk=40)


def check(result: Any, arrays: dict[str, np.ndarray]) -> None:
    tau, scaled = expected(**arrays)
    np.testing.assert_array_equal(result.tau, tau)
    np.testing.assert_array_equal(result.scaled, scaled)


def requests(count: int) -> dict[str, np.ndarray]:
    return states(count, seed=count)


# Frames.


@pytest.mark.parametrize("seed", range(5))
def test_frames_come_back_and_hold_no_zero(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for length in (1, 7, 65, 252):
        body = rng.integers(0, 1 + 255 * (seed % 2), size=length, dtype=np.uint8).tobytes()
        text = wrap(body)
        assert text.endswith(b"\0") and 0 not in text[:-1]
        assert len(text) == length + 4
        assert unwrap(text[:-1]) == body


def test_frames_have_the_lengths_that_are_documented() -> None:
    assert len(beats(bytes(128))) == 2 * WIRE_BEAT
    assert len(command(FrameKind.READ, tag=1)) == WIRE_COMMAND
    assert WIRE_COMMAND - 2 <= SHORT < WIRE_BEAT // 4
    with pytest.raises(ValueError, match="252 bytes, not 253"):
        wrap(bytes(253))
    with pytest.raises(ValueError, match="not 63 bytes"):
        beats(bytes(63))


def test_every_damaged_byte_is_noticed() -> None:
    text = command(FrameKind.WRITE, tag=7, offset=0x30, value=1)[:-1]
    good = unwrap(text)
    for place in range(len(text)):
        for change in (1, 0x80, 0xFF):
            bad = text[:place] + bytes((text[place] ^ change,)) + text[place + 1 :]
            assert unwrap(bad) is None or 0 in bad, (place, change)
        assert unwrap(text[:place] + text[place + 1 :]) != good
    assert unwrap(b"") is None


# The driver on a good line.


def test_batches_of_any_length_come_back() -> None:
    with device(model()) as card:
        for count in (1, 3, 40, 500):
            arrays = requests(count)
            check(card.run(**arrays), arrays)


def test_many_threads_and_registers_beside_them() -> None:
    with device(model()) as card:
        futures = [
            (arrays, card.submit(**arrays)) for arrays in (requests(n) for n in (90, 7, 300))
        ]
        assert int.from_bytes(b"PNIN", "little") == card.registers.IDENTITY
        for arrays, future in futures:
            check(future.result(WAIT), arrays)


class Hoarder(ModelPort):
    """A card that takes beats only on request, and records how many wait."""

    slots = 8

    def __init__(self) -> None:
        super().__init__(card=PacketCard(layout=LAYOUT, compute=compute))
        self.waiting: list[bytes] = []
        self.most = 0

    def write(self, data: bytes) -> None:
        for frame in data.split(b"\0")[:-1]:
            if len(frame) == WIRE_BEAT - 1:
                self.waiting.append(frame)
                self.most = max(self.most, len(self.waiting))
            else:
                super().write(frame + b"\0")

    def take(self) -> None:
        waiting, self.waiting = self.waiting[:3], self.waiting[3:]
        for frame in waiting:
            super().write(frame + b"\0")


def test_no_more_is_under_way_than_there_is_room_for() -> None:
    port = Hoarder()
    transport = line_to(port, slots=port.slots)
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.001):
            port.take()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with Device(manifest=manifest(), transport=transport) as card:
            arrays = requests(200)
            check(card.run(**arrays), arrays)
    finally:
        stop.set()
        thread.join()
    assert port.most == port.slots


# Bad lines.


class Line:
    """A line that damages bytes of the next beats, counted from the end."""

    def __init__(self) -> None:
        self.next: list[tuple[int, bytes | None]] = []

    def __call__(self, data: bytes) -> bytes:
        if len(data) > WIRE_BEAT:
            for back, by in self.next:
                place = len(data) - 1 - back
                data = data[:place] + (by or b"") + data[place + 1 :]
            self.next = []
        return data


@pytest.mark.parametrize("way", ["down", "up"])
@pytest.mark.parametrize("back", [5, 68, 69, 69 + 30])
@pytest.mark.parametrize("by", [b"\x5a", None, b"a\0\0b"])
def test_a_damaged_batch_fails_and_the_next_succeeds(way: str, back: int, by: bytes | None) -> None:
    line = Line()
    transport = line_to(model(**{way: line}))
    with Device(manifest=manifest(), transport=transport, chunk=40) as card:
        arrays = requests(20)
        line.next = [(back, by)]
        transport._patience = 0.1  # as long as the line is bad
        with pytest.raises(TransportError):
            card.run(**arrays)
        transport._patience = WAIT
        check(card.run(**arrays), arrays)


def test_garbage_before_the_first_frame_does_no_harm() -> None:
    port = model()
    port.write(np.random.default_rng(500).integers(1, 256, size=500, dtype=np.uint8).tobytes())
    with device(port) as card:
        arrays = requests(5)
        check(card.run(**arrays), arrays)


@pytest.mark.usefixtures("hasty")
def test_a_register_access_that_is_lost_is_sent_again() -> None:
    port = model()
    with device(port) as card:
        lost = [b""]

        def drop(data: bytes) -> bytes:
            return lost.pop() if lost else data

        port.down = drop
        assert card.registers.SCRATCH == 0
        assert not lost


@pytest.mark.usefixtures("hasty")
def test_a_dead_line_is_a_sentence() -> None:
    def silent(data: bytes) -> bytes:
        return b""

    with pytest.raises(CardTimeoutError, match="Nothing at the line answered in 4 attempts"):
        device(model(up=silent))


def test_a_transfer_without_progress_says_which() -> None:
    transport = line_to(model(), patience=0.05)
    with pytest.raises(CardTimeoutError) as late:
        transport.receive(transport.allocate(64))
    end = "for 0.05 s: it stopped, or data was lost."
    assert str(late.value) == f"The card at the line sent nothing {end}"
    transport.close()
    port = Hoarder()
    transport = line_to(port, slots=port.slots, patience=0.05)
    with pytest.raises(CardTimeoutError) as late:
        transport.send(transport.allocate(64 * 9))
    assert str(late.value) == f"The card at the line accepted no more data {end}"
    assert len(port.waiting) == 8
    transport.close()


def test_a_port_is_opened_with_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, int]] = []

    def port(*, path: str, baud: int) -> ModelPort:
        opened.append((path, baud))
        return model()

    monkeypatch.setattr(serial, "TtyPort", port)
    for transport in (
        open_transport(Path(), manifest(), "/dev/ttyUSB1@115200"),
        serial.open_processor(None, LAYOUT, "/dev/ttyUSB1", progress=SILENT),
    ):
        assert transport.where == "/dev/ttyUSB1"
        assert transport.read_register(0) == int.from_bytes(b"PNIN", "little")
        transport.close()
    assert opened == [("/dev/ttyUSB1", 115_200), ("/dev/ttyUSB1", 3_000_000)]


def test_a_line_that_goes_away_is_a_sentence() -> None:
    port = model()
    with device(port) as card:

        def gone() -> bytes:
            raise OSError("unplugged")

        port.read = gone  # type: ignore[method-assign] # what a pulled plug does
        with pytest.raises((LinkError, TransportError), match=r"is gone \(unplugged\)"):
            card.run(**requests(3))


def test_another_build_is_refused() -> None:
    other = Layout(
        function=LAYOUT.function,
        build=LAYOUT.build ^ 1,
        words_in=LAYOUT.words_in,
        words_out=LAYOUT.words_out,
    )
    port = ModelPort(card=PacketCard(layout=other, compute=compute))
    with pytest.raises(WrongBuildError, match="holds another build"):
        device(port)


# Real ports.


@pytest.fixture
def line() -> Iterator[tuple[str, int]]:
    """A pseudo terminal: the path of the host's end, and the descriptor of the card's."""
    card, host = pty.openpty()
    tty.setraw(host)
    yield os.ttyname(host), card
    os.close(host)
    os.close(card)


def test_a_device_works_through_a_terminal(
    line: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("serial", reason="pyserial is not installed")
    # A terminal may lose data written while it is being opened.
    monkeypatch.setattr(serial, "ANSWER", 10.0)
    path, descriptor = line
    port = model()
    stop = threading.Event()

    def card() -> None:
        os.set_blocking(descriptor, False)
        while not stop.is_set():
            try:
                port.write(os.read(descriptor, 4096))
            except (BlockingIOError, OSError):
                stop.wait(0.002)
            out = port.read()
            while out:
                try:
                    out = out[os.write(descriptor, out) :]
                except BlockingIOError:
                    stop.wait(0.002)

    thread = threading.Thread(target=card)
    thread.start()
    try:
        transport = line_to(TtyPort(path=path, baud=3_000_000))
        with Device(manifest=manifest(), transport=transport) as opened:
            arrays = requests(100)
            check(opened.run(**arrays), arrays)
    finally:
        stop.set()
        thread.join()


def test_addresses(tmp_path: object) -> None:
    assert split_address("/dev/ttyUSB0") == ("/dev/ttyUSB0", 3_000_000)
    assert split_address("/dev/serial@x@115200") == ("/dev/serial@x", 115200)
    for bad in ("", "@", "@9600", "/dev/ttyUSB0@fast", "/dev/ttyUSB0@0"):
        with pytest.raises(DriverError, match="not the address of a serial card"):
            split_address(bad)
    pytest.importorskip("serial", reason="pyserial is not installed")
    with pytest.raises(MissingCardError, match=r"There is no serial port '.*/nowhere'"):
        open_transport(None, manifest(), f"{tmp_path}/nowhere")  # type: ignore[arg-type] # unused


def test_the_slots_are_those_of_the_card() -> None:
    assert SLOTS & (SLOTS - 1) == 0


def test_the_page_has_every_kind_of_frame() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ulx3s.md").read_text()
    for kind in FrameKind:
        size = WIRE_BEAT if kind in (FrameKind.BEAT, FrameKind.LAST) else WIRE_COMMAND
        assert re.search(rf"^\| {kind.value} \| `{kind.name}` \|.*\| {size} \|$", page, re.M), kind
