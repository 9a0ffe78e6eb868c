"""Cards that vanish at any time: unplugged, their bus reset, their module unloaded."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pinion.driver import Device, DriverError, TransportError
from pinion.driver.nodes import FileNodes
from pinion.driver.tty import TtyPort
from pinion.driver.xdma import XdmaTransport
from tests.driver.cards import Card, manifest, states
from tests.driver.strict import StrictNodes, failure
from tests.driver.test_xdma import LAYOUT


class Unplugged(StrictNodes):
    """A card in memory beside real files; once it vanishes every call fails, even `close`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.files = FileNodes(prefix=folder / "xdma0")
        self.gone = False
        self.on_write = self.on_read = lambda call, data: self.check()
        self.on_user = lambda offset: self.check()

    def check(self) -> None:
        if self.gone:
            raise failure(errno.ENODEV)

    def open_user(self) -> None:
        super().open_user()
        self.files.open_user()

    def open_streams(self) -> None:
        super().open_streams()
        self.files.open_streams()

    def close(self) -> None:
        self.files.close()
        if self.gone:
            raise failure(errno.EIO)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("user", "h2c_0", "c2h_0"):
        (tmp_path / f"xdma0_{name}").write_bytes(bytes(4096))
    return tmp_path


def counted() -> tuple[int, int, int]:
    """Return the open files, threads and maps of this process."""
    gc.collect()
    # Linux's name for anonymous shared memory, which packets use.
    maps = Path("/proc/self/maps").read_text().count("/dev/zero")
    return len(os.listdir("/proc/self/fd")), threading.active_count(), maps


def in_flight(device: Device, nodes: Unplugged) -> None:
    def goes(call: int, data: memoryview) -> None:
        nodes.gone = True
        nodes.check()

    nodes.on_read = goes
    with pytest.raises((TransportError, DriverError)):
        device.run(**states(20, seed=1))


def between(device: Device, nodes: Unplugged) -> None:
    device.run(**states(20, seed=1))
    nodes.gone = True
    with pytest.raises((TransportError, DriverError)):
        device.run(**states(20, seed=1))


def unnoticed(device: Device, nodes: Unplugged) -> None:
    device.run(**states(20, seed=1))
    nodes.gone = True


@pytest.mark.parametrize("goes", [in_flight, between, unnoticed])
def test_closing_raises_nothing_and_leaves_nothing(
    goes: Callable[[Device, Unplugged], None], folder: Path
) -> None:
    def once() -> None:
        nodes = Unplugged(folder)
        device = Device(
            manifest=manifest(), transport=XdmaTransport(nodes=nodes, layout=LAYOUT), patience=5.0
        )
        goes(device, nodes)
        device.close()
        device.close()
        with pytest.raises(DriverError, match="closed"):
            device.run(**states(2, seed=1))

    once()  # warm up persistent allocations
    before = counted()
    for _ in range(5):
        once()
    assert counted() == before


def test_a_card_that_goes_while_it_is_opened_leaves_nothing(folder: Path) -> None:
    before = counted()[:2]
    for calls in range(12):
        nodes = Unplugged(folder)
        left = [calls]

        def count(offset: int, left: list[int] = left, nodes: Unplugged = nodes) -> None:
            nodes.gone = nodes.gone or left[0] == 0
            left[0] -= 1
            nodes.check()

        nodes.on_user = count
        with pytest.raises((TransportError, DriverError)):
            Device(manifest=manifest(), transport=XdmaTransport(nodes=nodes, layout=LAYOUT))
    assert counted()[:2] == before


def test_a_transport_of_ones_own_may_fail_to_close() -> None:
    class Failing(Card):
        def close(self) -> None:
            super().close()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    card = Failing()
    Device(manifest=manifest(), transport=card).close()
    assert card.calls[-1] == "close"
    card = Failing(build_hash=3)
    with pytest.raises(DriverError, match="another build"):
        Device(manifest=manifest(), transport=card)


def test_every_file_is_closed_whatever_one_of_them_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = FileNodes(prefix=folder / "xdma0")
    nodes.open_user()
    nodes.open_streams()
    numbers = [n for n in os.listdir("/proc/self/fd") if _is_in(folder, n)]
    assert len(numbers) == 3
    close = os.close

    def failing(number: int) -> None:
        close(number)  # Linux frees the number in any case
        raise failure(errno.EIO)

    monkeypatch.setattr(os, "close", failing)
    nodes.close()
    monkeypatch.undo()
    assert not any(_is_in(folder, n) for n in numbers)
    nodes.close()


def _is_in(folder: Path, number: str) -> bool:
    try:
        return str(folder) in os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return False


def test_a_serial_port_that_is_gone_leaves_no_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    before = len(os.listdir("/proc/self/fd"))
    port = TtyPort(path=os.ttyname(theirs), baud=115200)
    number, close = port._port.fd, os.close

    def failing(descriptor: int) -> None:
        close(descriptor)
        if descriptor == number:
            raise failure(errno.EIO)

    monkeypatch.setattr(os, "close", failing)
    port.close()
    monkeypatch.undo()
    assert len(os.listdir("/proc/self/fd")) == before
    port.close()
    os.close(ours)
    os.close(theirs)
