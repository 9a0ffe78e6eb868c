"""Stand-in in a separate process, with its device files mounted in a folder."""

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

from .faults import FaultPlan, FaultRecord
from .xdma import NO_FAULTS

NAME = "xdma0"
TEMPORARY = "pinion-card-"
PATIENCE = 60.0
"""Seconds within which the process must answer or end."""


class StandInError(RuntimeError):
    """Error for a stand-in that cannot start or ends unexpectedly; the message says why."""


class StandIn(Closing):
    """Card for ``driver.open(folder, device=card.device)``, as a context manager.

    Parameters
    ----------
    folder : the build folder.
    faults : the fault plan, or its path.
    timeout : seconds that a transfer may stall; 10 in the vendor's driver.
    timeout_errno : error number of a timeout; FUSE carries at most 511, which then means 512.
    model : ``packet``, ``rtl`` or ``file.py:function``, as for
        `pinion.card.stand_in.build.make_card`.
    at : folder for the device files, created if missing; a temporary one by default.
    start : seconds that the start may take, which may include the compilation of a core.
    sound_timeout : as for `XdmaModel`.

    Members
    -------
    prefix : path of the device files up to the underscore.
    device : the device's name for `pinion.driver.open`.

    Raises
    ------
    StandInError
        If it cannot be mounted, or the card cannot be made.
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
        """Common prefix of the device files' paths, without the underscore."""
        return str(self.at / NAME)

    @property
    def device(self) -> str:
        """The device's name for `pinion.driver.open`."""
        return f"xdma:{self.prefix}"

    def log(self, start: int = 0) -> list[FaultRecord]:
        """Return the recorded events from number ``start`` on."""
        records = self._ask({"do": "log", "from": start})["log"]
        return [FaultRecord(**record) for record in records]

    def read_register(self, name: str) -> int:
        """Read a register by name, bypassing the device files."""
        return int(self._ask({"do": "read", "offset": register(name).offset})["value"])

    def write_register(self, name: str, value: int) -> None:
        """Write a register by name, bypassing the device files."""
        self._ask({"do": "write", "offset": register(name).offset, "value": value})

    def set_plan(self, plan: FaultPlan) -> None:
        """Switch to another plan and count packets from 0 again."""
        self._ask({"do": "plan", "text": plan.text()})

    def close(self) -> None:
        """End the process and unmount its files, in any state; a second call does nothing."""
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # it has already ended
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
                f"The stand-in's process ended or did not answer within {wait:g} s: see what it "
                "wrote to standard error."
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise StandInError(f"The stand-in failed: {answer['error']}")
        return answer


def why_no_fuse() -> str | None:
    """Return the reason why no stand-in can be mounted here, or None if it can."""
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
    """Unmount a folder, even if it is in use or its server has died."""
    for tool in ("fusermount3", "fusermount"):
        try:
            process = subprocess.run(
                [tool, "-u", "-z", "-q", str(folder)], check=False, capture_output=True
            )
        except FileNotFoundError:
            continue
        if process.returncode == 0:
            return


def fresh() -> Path:
    """Create and return a temporary folder for a mount.

    Folders of stand-ins that were killed with their programs are unmounted and removed.
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
    """Create the folder if needed and unmount a dead stand-in.

    Raises
    ------
    StandInError
        Unless the folder is then empty.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        filled = any(folder.iterdir())
    except OSError as error:
        if error.errno != errno.ENOTCONN and not isinstance(error, FileExistsError):
            raise StandInError(_unusable(folder, error)) from None
        unmount(folder)
        try:
            filled = any(folder.iterdir())
        except OSError as second:
            raise StandInError(_unusable(folder, second)) from None
    if filled:
        raise StandInError(
            f"'{folder}' is not empty, or another stand-in is mounted there: give an empty folder."
        )


def _unusable(folder: Path, error: OSError) -> str:
    return f"'{folder}' cannot be used for device files ({error.strerror}): give another folder."
