"""Digests of Pinion's own sources, so that results of older sources are never reused."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from .installation import version

__all__ = ["PACKAGES", "SourceError", "package_digest", "source_digest", "up_to"]

PACKAGES = (
    *("base", "fixedpoint", "robot", "dynamics", "graph", "link", "batch", "formats", "functions"),
    *("native", "request", "compute", "driver", "hls", "processor", "chains", "gateware"),
    *("synthesis", "boards", "flow", "cosim", "card", "campaign"),
)
"""Packages that figures, kernels and cores come from, in import order, the lowest first.

`report`, `api`, `control`, `console`, `bench` and `cli` only show and use their results.
"""


class SourceError(RuntimeError):
    """Error for sources of Pinion that cannot be read as files; the message says what to do."""


def up_to(package: str) -> tuple[str, ...]:
    """Return the packages of `PACKAGES` up to and including one, which cover all its imports."""
    return PACKAGES[: PACKAGES.index(package) + 1]


def package_digest(packages: Sequence[str]) -> str:
    """Return a digest that changes when a file of the packages does, headers and data included.

    It covers Pinion's version and every file's path, size and modification time, so no file is
    read, and it is valid on this machine only. Takes 2 ms, of which 1.2 ms are for the version.

    Parameters
    ----------
    packages : names below ``pinion``.

    Raises
    ------
    SourceError : a package is missing or is not in a folder.
    """
    state = hashlib.sha256(version().encode())
    for package in sorted(packages):
        for folder in _folders(package):
            for entry in _files(folder):
                with contextlib.suppress(FileNotFoundError):  # a broken link
                    status = entry.stat()
                    line = f"{entry.path}\0{status.st_size}\0{status.st_mtime_ns}\n"
                    state.update(line.encode(errors="surrogateescape"))
    return state.hexdigest()


def source_digest(packages: Sequence[str]) -> str:
    """Return Pinion's version and a digest of the packages' code, the same on every machine.

    Between releases only the sources differ, not the version number.

    Parameters
    ----------
    packages : names below ``pinion``.

    Raises
    ------
    SourceError : as for :func:`package_digest`.
    """
    state = hashlib.sha256()
    for package in packages:
        for folder in _folders(package):
            for path in sorted(Path(folder).rglob("*.py")):
                state.update(path.name.encode() + path.read_bytes())
    return f"{version()}+{state.hexdigest()[:12]}"


def _folders(package: str) -> Sequence[str]:
    spec = importlib.util.find_spec(f"pinion.{package}")
    if spec is None or not spec.submodule_search_locations:
        raise SourceError(f"The package pinion.{package} is missing: reinstall Pinion.")
    return list(spec.submodule_search_locations)


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield every file below a folder in order, except hidden files and ``__pycache__``."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        raise SourceError(
            f"Pinion's sources cannot be read in '{folder}' ({error.strerror}): check that it is a "
            "readable folder; Pinion must be installed unpacked, not as an archive."
        ) from error
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _files(entry.path)
        else:
            yield entry
