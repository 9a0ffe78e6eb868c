"""The identity of Pinion's own sources, so that edited ones never meet what older ones compiled."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
from collections.abc import Iterator, Sequence

from pinion.installation import version

from .errors import ComputeError

__all__ = ["PACKAGES", "package_digest"]

PACKAGES = ("compute", "dynamics", "fixedpoint", "functions", "graph", "robot")
"""What a compiled kernel comes from."""


def package_digest(packages: Sequence[str] = PACKAGES) -> str:
    """A text that changes when a file of the packages does, headers and data included.

    It is made of Pinion's version and every file's path, size and time of change, so no file is
    read. Takes 2 ms, of which 1.2 ms are for the version.

    Parameters
    ----------
    packages : names below ``pinion``.

    Raises
    ------
    ComputeError : a package is missing or is not in a folder.
    """
    state = hashlib.sha256(version().encode())
    for package in sorted(packages):
        for folder in _folders(package):
            for line in _files(folder):
                state.update(line.encode(errors="surrogateescape"))
    return state.hexdigest()


def _folders(package: str) -> Sequence[str]:
    spec = importlib.util.find_spec(f"pinion.{package}")
    if spec is None or not spec.submodule_search_locations:
        raise ComputeError(f"There is no package pinion.{package}: install Pinion as a whole.")
    return list(spec.submodule_search_locations)


def _files(folder: str) -> Iterator[str]:
    """A line for every file below a folder, in order; not those that Python or an editor made."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise ComputeError(
            f"Pinion's sources cannot be read in '{folder}' ({error.strerror}): install Pinion "
            "unpacked."
        ) from error
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _files(entry.path)
        else:
            with contextlib.suppress(FileNotFoundError):  # a link to nowhere
                status = entry.stat()
                yield f"{entry.path}\0{status.st_size}\0{status.st_mtime_ns}\n"
