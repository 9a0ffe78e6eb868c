"""Output paths: checks before any work starts, and folders that are replaced as a whole."""

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
"""Name, in a scratch folder, of an earlier build while a new one takes its place."""

_CLAIM = ".pinion-scratch"


def check_place(path: Path, noun: str, error: Callable[[str], Exception]) -> None:
    """Raise an error if nothing can be written to a path.

    Parameters
    ----------
    path : a file or folder; missing parent folders would be created.
    noun : what is to be written there, such as ``build``.
    error : builds the error from its message.
    """
    if why := obstacle(path):
        raise error(refusal(path, noun, why))


def refusal(path: Path, noun: str, why: str) -> str:
    """Return the error message for a path to which nothing can be written."""
    return (
        f"No {noun} can be written to '{path}' ({why}): check that its folder is writable and has "
        "room, or give another path."
    )


def obstacle(path: Path) -> str:
    """Return why nothing can be written to a path, in a few words; empty if writing is possible.

    An empty folder is created and removed in the nearest existing folder: permissions alone do not
    tell what a file system accepts.
    """
    near = Path(os.path.abspath(path)).parent
    # Not Path.exists, which raises if a parent folder may not be searched.
    while not os.path.lexists(near):
        near = near.parent
    if not near.is_dir():
        return f"'{near}' is not a folder"
    try:
        os.rmdir(tempfile.mkdtemp(dir=near, prefix=".pinion-"))
    except OSError as error:
        return f"{error.strerror} in '{near}'"
    return ""


@contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """Yield a scratch folder next to an output folder, on the same file system; then remove it.

    Scratch folders of killed processes are removed, except those that hold an earlier build,
    `BEFORE`: their process ended while it exchanged the two.
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
            shutil.rmtree(scratch, ignore_errors=True)  # the interrupted rest
            raise


@contextmanager
def _claimed(scratch: Path) -> Iterator[None]:
    """Hold a lock on a file in a scratch folder; the kernel releases it when the process dies.

    The file gets its name once it is locked, so that the folder never looks abandoned.
    """
    unnamed = scratch / f"{_CLAIM}-new"
    with unnamed.open("wb") as file:
        if _lock(file):
            unnamed.rename(scratch / _CLAIM)
        yield


def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove the scratch folders of dead processes."""
    with suppress(OSError):
        for path in list(parent.iterdir()):
            if path.name.startswith(prefix) and not (path / BEFORE).exists():
                with suppress(OSError), (path / _CLAIM).open("r+b") as file:
                    if _lock(file):
                        shutil.rmtree(path, ignore_errors=True)


def _lock(file: BinaryIO) -> bool:
    """Try to lock an open file; return False if another process holds it, and always on Windows."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def settle(completed: Path, folder: Path) -> None:
    """Move a completed folder to a path that does not exist or is an empty folder.

    An empty folder that cannot be replaced, the working directory or a mount point, is filled.
    """
    with suppress(OSError):
        if not folder.samefile(os.curdir):
            folder.rmdir()
    if folder.exists():
        for part in completed.iterdir():
            shutil.move(part, folder)
    else:
        completed.rename(folder)


def holds_us(folder: Path) -> bool:
    """Return whether a folder is or contains the working directory, and so cannot be replaced."""
    return Path(os.path.realpath(os.curdir)).is_relative_to(os.path.realpath(folder))
