"""The mounted stand-in: its device files from another process's view."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from pinion.card.stand_in import Fault, FaultPlan, StandIn, StandInError, why_no_fuse
from pinion.card.stand_in.caller import current_call
from pinion.card.stand_in.nodes import CARRIED
from pinion.driver import CardTimeoutError, WrongBuildError
from pinion.driver.nodes import FileNodes
from pinion.driver.session import with_signals_blocked
from pinion.driver.xdma import XdmaTransport
from pinion.link import Layout, read_response, register
from tests.support.breadth import some

pytestmark = pytest.mark.skipif(why_no_fuse() is not None, reason=str(why_no_fuse()))

ECHO = f"{Path(__file__).with_name('conftest.py')}:echo"


def stand_in(**options) -> StandIn:
    return StandIn(folder=".", model=ECHO, **{"timeout": 0.3, "sound_timeout": 60.0} | options)


def exchange(card, transport: XdmaTransport, count: int, sequence: int) -> list:
    """Exchange one packet as the driver does; return results or exceptions."""
    packet = transport.allocate(card.layout.request_bytes(count))
    packet[:] = card.request(count, sequence)
    response = transport.allocate(card.layout.response_bytes(count))
    raised: list = []

    def guarded(call, buffer) -> None:
        try:
            call(buffer)
        except Exception as error:
            raised.append(error)

    threads = [
        threading.Thread(target=guarded, args=(transport.receive, response)),
        threading.Thread(target=guarded, args=(transport.send, packet)),
    ]
    with_signals_blocked(threads)
    for thread in threads:
        thread.join()
    if not raised:
        read_response(card.layout, response, count, sequence)
        words, _ = card.expected(card.words(packet, count))
        assert np.array_equal(card.layout.response_words(response, count), words)
    return raised


def opened(stand: StandIn, layout: Layout) -> XdmaTransport:
    return XdmaTransport(nodes=FileNodes(prefix=stand.prefix), layout=layout)


def test_packets_travel_through_the_files(card):
    with stand_in() as stand:
        transport = opened(stand, card.layout)
        for sequence, count in enumerate((1, 64, 3000, 16384)):
            assert exchange(card, transport, count, sequence) == []
        assert stand.log() == []
        transport.write_register(register("SCRATCH").offset, 0xABCD)
        assert stand.read_register("SCRATCH") == 0xABCD
        with pytest.raises(OSError, match=os.strerror(errno.EBUSY)):
            os.open(stand.prefix + "_c2h_0", os.O_RDONLY)
        transport.close()
        opened(stand, card.layout).close()
    assert not stand.at.exists()


def test_an_opening_waits_until_a_closed_file_is_released(card):
    """The kernel releases a file some time after `close` has returned, without a second program."""
    from pinion.card.stand_in.files import CardFiles

    path = "/xdma0_c2h_0"
    files = CardFiles(model=card.model())
    first = files.open(path, os.O_RDONLY)
    with pytest.raises(OSError, match=os.strerror(errno.EBUSY)):
        files.open(path, os.O_RDONLY)
    files.flush(path, first)
    opened: list = []

    def again() -> None:
        try:
            opened.append(files.open(path, os.O_RDONLY))
        except OSError as error:
            opened.append(error)

    thread = threading.Thread(target=again)
    thread.start()
    _until(lambda: files._released._waiters or not thread.is_alive())
    files.release(path, first)
    thread.join()
    assert opened == [first + 1]


@pytest.mark.slow
def test_a_stream_opens_again_as_soon_as_it_is_closed():
    with stand_in() as stand:
        for _ in range(300):
            os.close(os.open(stand.prefix + "_c2h_0", os.O_RDONLY))


def test_faults_arrive_and_are_logged(card):
    faults = (
        Fault(kind="etimedout", at=(1,), side="response"),
        Fault(kind="errno512", at=(2,)),
        Fault(kind="other_build", at=(3,), seconds=60.0),
    )
    with stand_in(faults=FaultPlan(faults=faults)) as stand:
        transport = opened(stand, card.layout)
        assert exchange(card, transport, 64, 0) == []
        assert isinstance(exchange(card, transport, 64, 1)[0], CardTimeoutError)
        transport.write_register(register("CONTROL").offset, 1)
        while transport.read_register(register("STATUS").offset) & 4:
            transport.drain()
        transport.write_register(register("CONTROL").offset, 0)
        raised = [error for error in exchange(card, transport, 64, 2)]
        assert any(str(CARRIED) in str(error) for error in raised)
        transport.close()
        stand.write_register("CONTROL", 1)
        stand.write_register("CONTROL", 0)
        transport = opened(stand, card.layout)
        exchange(card, transport, 64, 3)
        transport.close()
        with pytest.raises(WrongBuildError):
            opened(stand, card.layout)
        # The drain in this thread, whose signals are not blocked, is recorded as well.
        log = [record for record in stand.log() if record.kind != "trap_5"]
        assert [record.kind for record in log] == ["etimedout", "errno512", "other_build"]
        assert [record.sequence for record in log] == [1, 2, 3]


def test_a_short_read_at_the_files(card):
    plan = FaultPlan(faults=(Fault(kind="short_read", at=(0,), beats=2),))
    with stand_in(faults=plan) as stand:
        raised = exchange(card, opened(stand, card.layout), 64, 0)
        assert "returned 128 of" in str(raised[0])


def test_callers_are_watched_through_the_files(card):
    """The kernel's view of the calling thread: lists of buffers, addresses, signals."""
    if not Path("/proc/self/syscall").exists():
        pytest.skip("This kernel does not show system calls in /proc.")
    with stand_in() as stand:
        h2c = os.open(stand.prefix + "_h2c_0", os.O_WRONLY)
        memory = mmap.mmap(-1, 8192)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            os.writev(h2c, [memory])
        packet = card.request(64, 0)
        start = 4096 - 40
        memory[start : start + len(packet)] = packet.tobytes()
        os.write(h2c, memoryview(memory)[start : start + len(packet)])
        kinds = {record.kind for record in stand.log()}
        assert kinds == {"trap_2", "trap_4", "trap_5"}
        assert stand.read_register("ERROR") == 8
        os.close(h2c)


def test_a_card_that_cannot_be_made_is_told(tmp_path):
    with pytest.raises(StandInError, match="manifest"):
        StandIn(folder=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StandInError, match="not empty"):
        stand_in(at=tmp_path)


def _mounted(folder: Path) -> bool:
    return any(
        line.split()[1] == str(folder) for line in Path("/proc/mounts").read_text().splitlines()
    )


def _close(file: int) -> None:
    """Close a file whose file system is gone, and ignore the error."""
    with contextlib.suppress(OSError):
        os.close(file)


def _until(condition) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, "nothing happened for 300 s"
        time.sleep(0.02)


def _reads(thread: threading.Thread) -> bool:
    """Return whether a thread is inside a read; true if the kernel does not report it."""
    assert thread.is_alive() and thread.native_id is not None
    if not Path("/proc/self/syscall").exists():
        return True
    caller = current_call(thread.native_id)
    return caller is not None and caller.call == "read"


@pytest.mark.parametrize("number", some([signal.SIGTERM, signal.SIGKILL], (signal.SIGKILL,)))
def test_the_death_of_the_program_unmounts(tmp_path, number):
    code = (
        "import sys, time; from pinion.card.stand_in import StandIn\n"
        f"card = StandIn(folder='.', model={ECHO!r}, at={str(tmp_path / 'at')!r})\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None and program.stdout.readline() == "ready\n"
    assert _mounted(tmp_path / "at")
    program.send_signal(number)
    program.wait()
    program.stdout.close()
    _until(lambda: not _mounted(tmp_path / "at"))


def test_the_death_of_the_stand_in_is_an_error_and_its_mount_is_cleared(card, tmp_path):
    stand = stand_in(at=tmp_path / "at")
    read = os.open(stand.prefix + "_c2h_0", os.O_RDONLY)
    raised: list = []

    def wait() -> None:
        try:
            os.read(read, 256)
        except OSError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    _until(lambda: _reads(thread))
    stand._process.kill()
    thread.join()
    assert raised and raised[0].errno != errno.ETIMEDOUT
    _close(read)
    with pytest.raises(StandInError, match="ended or did not answer"):
        stand.log()
    second = stand_in(at=tmp_path / "at")  # clears the stale mount
    assert exchange(card, opened(second, card.layout), 5, 0) == []
    second.close()
    stand.close()


@pytest.mark.slow
def test_closing_ends_a_program_that_waits(card):
    stand = stand_in()
    raised: list = []
    read = os.open(stand.prefix + "_c2h_0", os.O_RDONLY)

    def wait() -> None:
        try:
            os.read(read, 256)
        except OSError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    _until(lambda: _reads(thread))
    stand.close()
    thread.join()
    assert raised and raised[0].errno != errno.ETIMEDOUT
    _close(read)
