"""A stand-in in a process of its own, its device files mounted in a folder."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from pinion.batch import Closing
from pinion.link import register

from .faults import FaultPlan, Record
from .xdma import NO_FAULTS

NAME = "xdma0"
TEMPORARY = "pinion-card-"
PATIENCE = 60.0
"""Seconds that the process has to answer, and to end."""


class StandInError(RuntimeError):
    """The stand-in cannot be started, or ended by itself; the message says why."""


class StandIn(Closing):
    """A card for ``driver.open(folder, device=card.device)``; use it as a context manager.

    Parameters
    ----------
    folder : the build folder.
    faults : what goes wrong, a plan or the path of one.
    timeout : seconds that a transfer may stand still; the vendor's driver has 10.
    timeout_errno : what it ends with; FUSE carries 511 at most, which then stands for 512.
    model : ``packet``, ``rtl`` or ``file.py:function``, as for
        `pinion.card.stand_in.build.make_card`.
    at : folder for the device files, made if it is not there; a temporary one by default.
    start : seconds that the start may take: a core may have to be compiled.
    sound_timeout : as of `XdmaModel`.

    Members
    -------
    prefix : path of the device files up to the underscore.
    device : what `pinion.driver.open` wants.

    Raises
    ------
    StandInError
        When it cannot be mounted, or the card not be made.
    """

    def __init__(
        self,
        *,
        folder: str | Path,
        faults: FaultPlan | str | Path = NO_FAULTS,
        timeout: float = 0.05,
        timeout_errno: int = errno.ETIMEDOUT,
        model: str = "packet",
        at: str | Path | None = None,
        start: float = 600.0,
        sound_timeout: float | None = None,
    ) -> None:
        if reason := why_no_fuse():
            raise StandInError(reason)
        plan = faults if isinstance(faults, FaultPlan) else FaultPlan.read(Path(faults))
        self._made = at is None
        self.at = (fresh() if at is None else Path(at)).resolve()
        clear(self.at)
        task = {
            "folder": str(Path(folder).resolve()),
            "at": str(self.at),
            "model": model,
            "name": NAME,
            "plan": plan.text(),
            "timeout": timeout,
            "timeout_errno": timeout_errno,
            "sound_timeout": sound_timeout,
        }
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pinion.card.stand_in.serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self._say(task, wait=start)
        except BaseException:
            self.close()
            raise

    @property
    def prefix(self) -> str:
        """Path of the device files up to the underscore."""
        return str(self.at / NAME)

    @property
    def device(self) -> str:
        """What `pinion.driver.open` wants."""
        return f"xdma:{self.prefix}"

    def log(self, start: int = 0) -> list[Record]:
        """What happened so far, from a record's number on."""
        found = self._ask({"do": "log", "from": start})["log"]
        return [Record(**record) for record in found]

    def read_register(self, name: str) -> int:
        """A register by its name, past the device files."""
        return int(self._ask({"do": "read", "offset": register(name).offset})["value"])

    def write_register(self, name: str, value: int) -> None:
        """A register by its name, past the device files."""
        self._ask({"do": "write", "offset": register(name).offset, "value": value})

    def set_plan(self, plan: FaultPlan) -> None:
        """Go on with another plan; packets are counted from 0 again."""
        self._ask({"do": "plan", "text": plan.text()})

    def close(self) -> None:
        """End the process and unmount, whatever state they are in; a second call does nothing."""
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # it ended before
                process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        unmount(self.at)
        if self._made and self.at.is_dir():
            self.at.rmdir()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        return self._say(command, wait=PATIENCE)

    def _say(self, message: dict[str, Any], *, wait: float) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with self._lock:
            watch = threading.Timer(wait, process.kill)
            watch.daemon = True
            watch.start()
            try:
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except (BrokenPipeError, ValueError):
                line = ""
            finally:
                watch.cancel()
        if not line:
            raise StandInError(
                f"The stand-in's process ended without an answer, or did not give one within "
                f"{wait:g} s: what it printed says why."
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise StandInError(f"The stand-in cannot work. {answer['error']}")
        return answer


def why_no_fuse() -> str | None:
    """What is missing for mounting a stand-in, as a sentence; None where nothing is."""
    device = Path("/dev/fuse")
    if not device.exists():
        return "There is no /dev/fuse here: the kernel lacks FUSE, or a container hides it."
    try:
        with device.open("r+b", buffering=0):
            pass
    except OSError as error:
        return f"/dev/fuse cannot be opened ({error.strerror}): give this user access to it."
    try:
        import mfusepy  # noqa: F401  # only whether it can be imported counts
    except (ImportError, OSError) as error:
        return f"mfusepy or libfuse is missing ({error}): install mfusepy and fuse3."
    if not (shutil.which("fusermount3") or shutil.which("fusermount")):
        return "There is no fusermount3: install the package fuse3."
    return None


def unmount(folder: Path) -> None:
    """Unmount a folder, also while somebody uses it, also when what served it is dead."""
    for tool in ("fusermount3", "fusermount"):
        try:
            done = subprocess.run(
                [tool, "-u", "-z", "-q", str(folder)], check=False, capture_output=True
            )
        except FileNotFoundError:
            continue
        if done.returncode == 0:
            return


def fresh() -> Path:
    """A temporary folder.

    Those of stand-ins that were killed together with their programs are unmounted and removed.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
        try:
            folder.stat()
        except OSError as error:
            if error.errno == errno.ENOTCONN:
                unmount(folder)
                with contextlib.suppress(OSError):
                    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=TEMPORARY))


def clear(folder: Path) -> None:
    """Make the folder, free of the mount of a stand-in that died."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        filled = any(folder.iterdir())
    except OSError as error:
        if error.errno != errno.ENOTCONN and not isinstance(error, FileExistsError):
            raise StandInError(f"'{folder}' cannot hold device files ({error}).") from None
        unmount(folder)
        try:
            filled = any(folder.iterdir())
        except OSError as second:
            raise StandInError(f"'{folder}' holds a stale mount ({second}).") from None
    if filled:
        raise StandInError(
            f"'{folder}' is not empty, or another stand-in is mounted there: give a free folder."
        )
