"""Tools end with the program that started them, together with their child processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pinion.boards.tools import running

WAIT = 30.0

TOOL = """
sleep 1000 &
echo $! > second.part; mv second.part second
echo $$ > first.part; mv first.part first
{then}
wait
"""
"""Writes its process id and that of its child, and waits for the child."""


def alive(number: int) -> bool:
    """Return whether a process runs; a zombie counts as ended."""
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def ends(number: int) -> None:
    end = time.monotonic() + WAIT
    while alive(number):
        assert time.monotonic() < end, f"process {number} is still there"
        time.sleep(0.01)


def numbers(folder: Path) -> list[int]:
    """Return the process ids of the tool and its child, once they run."""
    files, end = (folder / "first", folder / "second"), time.monotonic() + WAIT
    while not all(file.exists() for file in files):
        assert time.monotonic() < end
        time.sleep(0.01)
    return [int(file.read_text()) for file in files]


def command(then: str = "") -> list[str]:
    return ["bash", "-c", TOOL.format(then=then)]


@contextlib.contextmanager
def interrupted_behind(target: object, name: str, ready: Path) -> Iterator[None]:
    """Raise SIGINT once, when a library function returns and the tool runs."""
    plain = getattr(target, name)

    def changed(*values: Any, **named: Any) -> Any:
        result = plain(*values, **named)
        setattr(target, name, plain)
        numbers(ready)
        signal.raise_signal(signal.SIGINT)
        return result

    setattr(target, name, changed)
    try:
        yield
    finally:
        setattr(target, name, plain)


def test_an_interrupt_during_the_start_ends_the_tool(tmp_path: Path) -> None:
    """Within the library's code the caller has no process yet."""
    reached = False
    for name in ("_execute_child", "__init__"):
        folder = tmp_path / name
        folder.mkdir()
        with (
            interrupted_behind(subprocess.Popen, name, folder),
            pytest.raises(KeyboardInterrupt),
            running(command(), folder=folder, output=subprocess.DEVNULL),
        ):
            reached = True
        for number in numbers(folder):
            ends(number)
    assert not reached


def interrupted(folder: Path, then: str, work: Callable[[subprocess.Popen[str]], object]) -> None:
    """Check that SIGINT during work with a tool ends the tool and its child."""

    def run() -> None:
        with running(command(then), folder=folder, output=subprocess.PIPE) as process:
            work(process)

    with pytest.raises(KeyboardInterrupt):
        run()
    for number in numbers(folder):
        ends(number)


def test_an_interrupt_during_output_ends_the_tool(tmp_path: Path) -> None:
    def read(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        signal.raise_signal(signal.SIGINT)

    interrupted(tmp_path, "echo up", read)


def test_an_interrupt_after_closed_output_ends_the_tool(tmp_path: Path) -> None:
    def interrupt() -> None:
        numbers(tmp_path)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def wait(process: subprocess.Popen[str]) -> None:
        threading.Thread(target=interrupt).start()
        assert process.stdout is not None and process.stdout.read() == ""
        process.wait()

    interrupted(tmp_path, "exec >&- 2>&-", wait)


def test_a_second_interrupt_leaves_nothing_either(tmp_path: Path) -> None:
    """During the tool's end, which the first one caused."""

    def twice(process: subprocess.Popen[str]) -> None:
        numbers(tmp_path)
        signal.raise_signal(signal.SIGINT)

    with interrupted_behind(subprocess.Popen, "wait", tmp_path):
        interrupted(tmp_path, "", twice)


def test_a_normal_end_keeps_exit_code_and_output(tmp_path: Path) -> None:
    code = "for k in 1 2 3; do echo $k; echo error >&2; done; cat; exit 3"
    with running(["bash", "-c", code], folder=tmp_path, output=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read().split() == ["1", "error", "2", "error", "3", "error"]
    assert process.returncode == 3 and process.stdout.closed
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with (
        pytest.raises(FileNotFoundError),
        running(["/nothing"], folder=tmp_path, output=subprocess.DEVNULL),
    ):
        pass
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_a_thread_of_the_caller_may_run_it(tmp_path: Path) -> None:
    """Only the main thread handles signals, so other threads defer none."""
    codes: list[int | None] = []

    def work() -> None:
        with running(["true"], folder=tmp_path, output=subprocess.DEVNULL) as process:
            pass
        codes.append(process.returncode)

    run_in_thread(work)
    assert codes == [0]


def run_in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive()


def test_children_end_with_their_tool(tmp_path: Path) -> None:
    """A script that fails while its child runs, as without a licence."""
    with running(command("exit 3"), folder=tmp_path, output=subprocess.DEVNULL) as process:
        pass
    assert process.returncode == 3
    ends(numbers(tmp_path)[1])


def test_every_handler_is_put_back_although_one_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGINT while the handlers of other signals are still to be restored."""
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    plain, raised = signal.signal, []

    def other(number: int, frame: object) -> None:
        del number, frame

    def interrupted(number: Any, handler: Any) -> Any:
        result = plain(number, handler)
        if handler is other and not raised:
            raised.append(number)
            raise KeyboardInterrupt
        return result

    handlers = {number: plain(number, other) for number in kinds}
    try:
        monkeypatch.setattr(signal, "signal", interrupted)
        with (
            pytest.raises(KeyboardInterrupt),
            running(["true"], folder=tmp_path, output=subprocess.DEVNULL),
        ):
            pass
        assert raised and all(signal.getsignal(number) is other for number in kinds)
    finally:
        monkeypatch.undo()
        for number, handler in handlers.items():
            plain(number, handler)


def test_tools_end_where_processes_have_no_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows: without ``waitid`` and ``killpg``."""
    monkeypatch.delattr(os, "waitid")
    monkeypatch.delattr(os, "killpg")
    with running(
        ["bash", "-c", "sleep 0.1; exit 3"], folder=tmp_path, output=subprocess.DEVNULL
    ) as process:
        pass
    assert process.returncode == 3
    with (
        pytest.raises(KeyboardInterrupt),
        running(["sleep", "1000"], folder=tmp_path, output=subprocess.DEVNULL) as process,
    ):
        raise KeyboardInterrupt
    assert process.returncode == -signal.SIGKILL
