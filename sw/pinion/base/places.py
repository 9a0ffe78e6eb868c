"""Whether a file or a folder can be made at a place: asked before minutes of work go into it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

BEFORE = "before"
"""Where an earlier build is, in a folder for temporary files, while another one takes its place."""

_CLAIM = ".pinion-scratch"


def check_place(path: Path, what: str, error: Callable[[str], Exception]) -> None:
    """Refuse a place where nothing can be made.

    Parameters
    ----------
    path : of the file or the folder; folders above it that are missing would be made.
    what : what shall be written there, to begin a sentence: ``build``.
    error : makes the error of a sentence.
    """
    if why := obstacle(path):
        raise error(refusal(path, what, why))


def refusal(path: Path, what: str, why: str) -> str:
    """The sentence about a place where nothing can be made."""
    return (
        f"No {what} can be written to '{path}' ({why}): see that the folder around it can be "
        "written and has room, or give another place."
    )


def obstacle(path: Path) -> str:
    """Why nothing can be made at a path, in a few words; empty where nothing speaks against it.

    An empty folder is made and removed in the nearest folder that is there: rights alone do not say
    what a file system takes.
    """
    near = Path(os.path.abspath(path)).parent
    # Not Path.exists, which raises where a folder above may not be searched.
    while not os.path.lexists(near):
        near = near.parent
    if not near.is_dir():
        return f"'{near}' is no folder"
    try:
        os.rmdir(tempfile.mkdtemp(dir=near, prefix=".pinion-"))
    except OSError as error:
        return f"{error.strerror} in '{near}'"
    return ""


@contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """A folder for temporary files next to one that shall be made, on the same file system.

    What a killed process left of such a folder goes. One that has an earlier build in it, `BEFORE`,
    stays: its process ended while it exchanged the two.
    """
    place = Path(os.path.abspath(folder))
    place.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{place.name}-"
    _remove_abandoned(place.parent, prefix)
    scratch = Path(tempfile.mkdtemp(dir=place.parent, prefix=prefix))
    try:
        with _claimed(scratch):
            yield scratch
    finally:
        try:
            shutil.rmtree(scratch, ignore_errors=True)
        except KeyboardInterrupt:
            shutil.rmtree(scratch, ignore_errors=True)  # from where it was
            raise


@contextmanager
def _claimed(scratch: Path) -> Iterator[None]:
    """Hold the lock of a file in a folder; the kernel releases it when the process dies.

    The file gets its name when it is locked, so that nobody takes a folder for abandoned before.
    """
    unnamed = scratch / f"{_CLAIM}-new"
    with unnamed.open("wb") as file:
        if _lock(file):
            unnamed.rename(scratch / _CLAIM)
        yield


def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove folders for temporary files whose process has died."""
    with suppress(OSError):
        for path in list(parent.iterdir()):
            if path.name.startswith(prefix) and not (path / BEFORE).exists():
                with suppress(OSError), (path / _CLAIM).open("r+b") as file:
                    if _lock(file):
                        shutil.rmtree(path, ignore_errors=True)


def _lock(file: BinaryIO) -> bool:
    """Lock an open file, if nobody else has and the system can."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def settle(made: Path, folder: Path) -> None:
    """Move a folder that is complete to its place, where nothing is or an empty folder.

    An empty one is filled where it cannot be exchanged: the working directory, or a mount point.
    """
    with suppress(OSError):
        if not folder.samefile(os.curdir):
            folder.rmdir()
    if folder.exists():
        for part in made.iterdir():
            shutil.move(part, folder)
    else:
        made.rename(folder)


def holds_us(folder: Path) -> bool:
    """Whether the working directory is a folder or in it, so that it cannot be exchanged."""
    return Path(os.path.realpath(os.curdir)).is_relative_to(os.path.realpath(folder))
