"""Forked children of a process with an open device, and sequence numbers."""

from __future__ import annotations

import os
import select
import signal
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.driver import Device, DriverError
from pinion.driver.nodes import FileNodes
from pinion.driver.xdma import XdmaTransport
from pinion.link import register
from tests.driver.cards import WAIT, Card, manifest, sequence_of, states
from tests.driver.strict import StrictNodes
from tests.driver.test_xdma import LAYOUT

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_child(work: Callable[[], str]) -> str:
    """Return the answer of some work in a forked child, which is killed if it hangs."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = work()
        except BaseException:
            answer = traceback.format_exc()
        os.write(writer, answer.encode()[-60_000:])
        os._exit(0)
    os.close(writer)
    try:
        readable, _, _ = select.select([reader], [], [], WAIT)
        return os.read(reader, 65_536).decode() if readable else "it hangs"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)


def refusal(call: Callable[[], object]) -> str:
    """Return the message of a call's `DriverError`, or that there is none."""
    try:
        call()
    except DriverError as error:
        return str(error)
    return "it went through"


def test_each_call_of_a_forked_child_is_refused_at_once() -> None:
    arrays = states(8, seed=1)
    with Device(manifest=manifest(), transport=Card()) as device:
        buffers, registers = device.allocate(4), device.registers
        release = threading.Event()
        card: Any = device._connection.transport
        card.hook = lambda words: release.wait(WAIT)
        waiting = device.submit(**arrays)
        calls: dict[str, Callable[[], object]] = {
            "run": lambda: device.run(**arrays),
            "submit": lambda: device.submit(**arrays),
            "submit_buffers": lambda: device.submit_buffers(buffers),
            "allocate": lambda: device.allocate(4),
            "reset": device.reset,
            "recover": device.recover,
            "profile": lambda: device.profile,
            "reset_profile": device.reset_profile,
            "registers": lambda: registers.STATUS,
            "dump": registers.dump,
            "result": waiting.result,
            "exception": waiting.exception,
        }
        answers = in_child(lambda: "\n".join(f"{n}: {refusal(c)}" for n, c in calls.items()))
        release.set()
        lines = answers.splitlines()
        assert [line.partition(":")[0] for line in lines] == list(calls), answers
        for line in lines:
            assert f"opened by process {os.getpid()}, and process" in line
            assert "after the fork" in line
        # The parent is not affected.
        np.testing.assert_array_equal(waiting.result().tau, device.run(**arrays).tau)
        # Results from before the fork are available in the child.
        assert in_child(lambda: str(waiting.result().tau.shape)) == "(8, 2)"


@pytest.fixture
def files(tmp_path: Path) -> FileNodes:
    for name in ("user", "h2c_0", "c2h_0"):
        (tmp_path / f"xdma0_{name}").write_bytes(bytes(4096))
    return FileNodes(prefix=tmp_path / "xdma0")


def test_a_child_closes_its_copies_and_leaves_the_card_to_its_parent(files: FileNodes) -> None:
    class Nodes(StrictNodes):
        """A card in memory, and real files beside it."""

        def open_user(self) -> None:
            super().open_user()
            files.open_user()

        def open_streams(self) -> None:
            super().open_streams()
            files.open_streams()

        def close(self) -> None:
            files.close()

    device = Device(manifest=manifest(), transport=XdmaTransport(nodes=Nodes(), layout=LAYOUT))
    numbers = [int(n) for n in os.listdir("/proc/self/fd")]
    ours = [n for n in numbers if files.prefix in _target(n)]
    assert len(ours) == 3

    def child() -> str:
        with device:  # as a worker that leaves a block which its parent has entered
            pass
        device.close()
        return str([n for n in ours if _target(n)])

    assert in_child(child) == "[]"
    # At the end of a child, too, while a thread that it does not have held the lock.
    with device._session._state._lock:
        assert in_child(child) == "[]"
        ended = in_child(
            lambda: str(device._connection._finalizer()) + str(device._connection._finalizer.alive)
        )
    assert ended == "NoneFalse"
    assert all(_target(n) for n in ours)
    assert device.run(**states(3, seed=2)).tau.shape == (3, 2)
    device.close()
    assert not any(_target(n) for n in ours)


def _target(number: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return ""


def test_sequence_numbers_start_anywhere_and_wrap() -> None:
    def seen(**options: Any) -> list[int]:
        numbers: list[int] = []
        card = Card()
        feed = card.card.feed

        def noted(packet: np.ndarray) -> Any:
            numbers.append(sequence_of(packet))
            return feed(packet)

        card.card.feed = noted  # type: ignore[method-assign]  # to look at what is sent
        with Device(manifest=manifest(), transport=card, chunk=2, **options) as device:
            device.run(**states(8, seed=3))
        return numbers

    assert seen(first_sequence=0xFFFFFFFE) == [0xFFFFFFFE, 0xFFFFFFFF, 0, 1]
    starts = {seen()[0] for _ in range(8)}
    # That two of eight agree has a chance of 28 in 2**32.
    assert len(starts) == 8 and max(starts) > 1 << 16


def test_a_register_is_where_it_was() -> None:
    """The check of the process does not hide a register of the card."""
    with Device(manifest=manifest(), transport=Card()) as device:
        offset = register("STATUS").offset
        assert device._connection.transport.read_register(offset) == device.registers.STATUS
