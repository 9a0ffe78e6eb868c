"""Folders that device files are mounted in: whether one can, making them, clearing them."""

from __future__ import annotations

import contextlib
import errno
import shutil
import subprocess
import tempfile
from pathlib import Path

TEMPORARY = "pinion-card-"


class StandInError(RuntimeError):
    """The stand-in cannot be started, or ended by itself; the message says why."""


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
