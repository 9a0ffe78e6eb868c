"""The numbered traps of the vendor's driver: a driver that falls into one is caught.

Each test runs the driver as it is on device files that spring the trap, and then a mutant of it. A
mutant that passes would mean that the files are not strict enough, and that the driver is right by
accident.
"""

from __future__ import annotations

import ast
import errno
import mmap
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.card.packets import PacketCard
from pinion.driver import (
    BusyError,
    CardFaultError,
    CardTimeoutError,
    Device,
    DmaBufferError,
    LinkError,
    WrongCardError,
    session,
    xdma,
)
from pinion.driver import nodes as nodes_module
from pinion.driver.nodes import FileNodes, translate
from pinion.driver.session import ResponseReader
from pinion.driver.state import SessionState
from pinion.driver.xdma import XdmaTransport
from pinion.link import Cause, layout_of
from tests.driver.cards import WAIT, compute, expected, manifest, states
from tests.driver.strict import StrictNodes, failure

LAYOUT = layout_of(manifest())
LARGE = 400  # requests with packets of several pages, beyond the strict card's buffers


def run(nodes: StrictNodes, transport: type[XdmaTransport] = XdmaTransport) -> None:
    """Send batches through the driver and check every result."""
    card = transport(nodes=nodes, layout=LAYOUT)
    with Device(manifest=manifest(), transport=card, timeout=WAIT, patience=WAIT) as device:
        sizes = (1, LARGE, 7, 2 * LARGE, LARGE)
        futures = [device.submit(**states(n, seed=i)) for i, n in enumerate(sizes)]
        for i, (n, future) in enumerate(zip(sizes, futures, strict=True)):
            tau, scaled = expected(**states(n, seed=i))
            result = future.result(WAIT)
            assert np.array_equal(result.tau, tau) and np.array_equal(result.scaled, scaled)
        assert device.profile.faults == 0


def test_the_driver_as_it_is_falls_into_none() -> None:
    nodes = StrictNodes()
    run(nodes)
    assert not nodes.wedged and nodes.writes == nodes.reads == 5


def test_trap_2_memory_that_is_not_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(XdmaTransport):
        def allocate(self, length: int) -> Any:
            memory = np.zeros(length + 4096, np.uint8)
            start = -memory.__array_interface__["data"][0] % 4096
            return memory[start + 16 : start + 16 + length]

    # The check in front of the system call is the first to notice ...
    with pytest.raises(DmaBufferError, match="must be multiples of 64 bytes"):
        run(StrictNodes(), Plain)
    # ... and the card is the second.
    monkeypatch.setattr(xdma, "check_buffer", lambda packet: None)
    with pytest.raises(CardFaultError, match="not aligned") as caught:
        run(StrictNodes(), Plain)
    assert caught.value.cause is Cause.PARTIAL_BEAT


def test_trap_3_a_read_longer_than_its_packet() -> None:
    class Generous(XdmaTransport):
        def receive(self, packet: Any) -> None:
            room = self.allocate(-(-len(packet) // 4096) * 4096 + 4096)
            self._read(room)
            packet[:] = room[: len(packet)]

    with pytest.raises(CardTimeoutError):
        run(StrictNodes(), Generous)


@pytest.fixture
def no_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 4: calls that crash the kernel, on any file, fail the test instead."""

    def crash(*_: object) -> None:
        raise SystemError("kernel crash")

    for name in ("readv", "writev", "preadv", "pwritev", "sendfile", "splice"):
        if hasattr(os, name):
            monkeypatch.setattr(os, name, crash)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A card on plain files, with one response to read."""
    prefix = tmp_path / "xdma0"
    card = PacketCard(layout=LAYOUT, compute=compute)
    registers = b"".join(card.read_register(i).to_bytes(4, "little") for i in range(0, 256, 4))
    Path(f"{prefix}_user").write_bytes(registers)
    Path(f"{prefix}_c2h_0").write_bytes(bytes(640))
    Path(f"{prefix}_h2c_0").write_bytes(b"")
    return prefix


def use(nodes: FileNodes) -> None:
    card = XdmaTransport(nodes=nodes, layout=LAYOUT)
    card.send(card.allocate(640))
    card.receive(card.allocate(640))
    card.write_register(0x3C, 1)
    card.close()


@pytest.mark.usefixtures("no_vectors")
def test_trap_4_lists_of_buffers(files: Path) -> None:
    class Vectors(FileNodes):
        def write_stream(self, data: memoryview) -> int:
            return os.writev(self._h2c, [data])

    use(FileNodes(prefix=files))
    with pytest.raises(SystemError, match="kernel crash"):
        use(Vectors(prefix=files))


def test_trap_4_no_other_system_call_is_written_down_anywhere() -> None:
    """Check which names of `os` the driver's modules use, and that only one of them opens files."""
    used: dict[str, set[str]] = {}
    for path in Path(nodes_module.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.value if isinstance(node, ast.Attribute) else None
            if isinstance(module, ast.Name) and module.id in ("os", "io", "mmap"):
                used.setdefault(path.name, set()).add(ast.unparse(node))
    calls = {name for name in used.pop("nodes.py") if name.split(".")[1].islower()}
    assert calls == {"os.open", "os.close", "os.write", "os.pread", "os.pwrite", "os.strerror"}
    # These are for a serial port's pipes and the process number, not for device files.
    assert used.pop("tty.py") == {"os.close"} and used.pop("process.py") == {"os.getpid"}
    assert used == {"memory.py": {"mmap.mmap", "mmap.PAGESIZE"}}
    assert mmap.PAGESIZE >= 4096


@pytest.fixture
def alarms() -> Iterator[None]:
    """Continual signals to any thread that accepts them."""
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarms")
def test_trap_5_signals_in_a_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    run(StrictNodes())
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])

    def plain(threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.start()

    monkeypatch.setattr(session, "with_signals_blocked", plain)
    nodes = StrictNodes()
    with pytest.raises(LinkError, match="errno 5"):
        run(nodes)
    assert nodes.wedged
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask, "the program's own mask changed"


def test_trap_6_a_write_before_its_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Obedient(XdmaTransport):
        """Read after the end of the write, as the simplest driver would."""

        written = threading.Semaphore(0)

        def send(self, packet: Any) -> None:
            try:
                super().send(packet)
            finally:
                self.written.release()

        def receive(self, packet: Any) -> None:
            assert self.written.acquire(timeout=WAIT)
            super().receive(packet)

    with pytest.raises(CardTimeoutError, match="accepted no more data"):
        run(StrictNodes(sound=0.1), Obedient)


@pytest.mark.parametrize("mutant", [False, True])
def test_trap_6_the_writer_waits_for_the_reader(
    monkeypatch: pytest.MonkeyPatch, mutant: bool
) -> None:
    """With a late reader, nothing is written until its read is posted."""
    go = threading.Event()
    read = ResponseReader.run

    def late(self: ResponseReader) -> None:
        assert go.wait(WAIT)
        read(self)

    monkeypatch.setattr(ResponseReader, "run", late)
    if mutant:
        launch = SessionState._launch

        def hasty(self: SessionState) -> None:
            launch(self)
            self._to_write.notify()

        monkeypatch.setattr(SessionState, "_read_is_posted", lambda self: True)
        monkeypatch.setattr(SessionState, "_launch", hasty)
    nodes, written = StrictNodes(), threading.Event()
    nodes.on_write = lambda call, data: written.set()
    card = XdmaTransport(nodes=nodes, layout=LAYOUT)
    with Device(manifest=manifest(), transport=card, timeout=WAIT) as device:
        future = device.submit(**states(3, seed=1))
        # What the mutant does is waited for; that nothing happens takes some time to believe.
        written.wait(WAIT if mutant else 0.2)
        early = nodes.writes
        go.set()
        assert early == (1 if mutant else 0)
        assert np.array_equal(future.result(WAIT).tau, expected(**states(3, seed=1))[0])


def test_trap_8_a_second_opening_and_other_peoples_timeouts() -> None:
    class Twice(StrictNodes):
        def open_streams(self) -> None:
            super().open_streams()
            super().open_streams()

    with pytest.raises(BusyError, match="serves one program at a time"):
        run(Twice())
    assert isinstance(
        translate(failure(512), node="/dev/xdma0_c2h_0", action="read"), CardTimeoutError
    )
    number = translate(failure(errno.EIO), node="/dev/xdma0_c2h_0", action="read")
    assert not isinstance(number, CardTimeoutError)


def test_trap_8_memory_that_is_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Locked(XdmaTransport):
        def send(self, packet: Any) -> None:
            packet = packet.view()
            packet.flags.writeable = False
            super().send(packet)

    with pytest.raises(DmaBufferError, match="read-only"):
        run(StrictNodes(), Locked)
    monkeypatch.setattr(xdma, "check_buffer", lambda packet: None)
    with pytest.raises(DmaBufferError, match="EFAULT"):
        run(StrictNodes(), Locked)


def test_trap_9_registers_of_more_than_32_bits(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wide(FileNodes):
        """Read 64 bits and use the upper half."""

        def read_user(self, offset: int) -> bytes:
            pair = os.pread(self._user, 8, offset & ~7)
            return pair[offset & 4 :][:4]

    plain: Callable[..., bytes] = os.pread
    odd: list[tuple[int, int]] = []

    def pread(number: int, length: int, offset: int) -> bytes:
        if length != 4 or offset % 4:
            odd.append((length, offset))
        # The bus transfers one word, whatever the requested length.
        return plain(number, 4, offset & ~3).ljust(length, b"\0")

    monkeypatch.setattr(os, "pread", pread)
    use(FileNodes(prefix=files))
    assert not odd
    Path(f"{files}_c2h_0").write_bytes(bytes(640))
    with pytest.raises(WrongCardError, match="version 0"):
        use(Wide(prefix=files))
    assert odd
