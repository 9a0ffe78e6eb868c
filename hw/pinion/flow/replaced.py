"""What becomes of a build where another one takes its place.

What ``verify`` and ``synth`` found of it goes, since it is found again in minutes. What the build
did not write, or not as it is, stays: the bitstream of a board's tools, a file of the user's, a
plan or a script that was edited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pinion.link import Manifest, ManifestError
from pinion.link.accuracy import ERRORS
from pinion.link.digests import DIGESTS, check_digests, read_digests

SIMULATION = "sim"
"""Waveforms and mapped netlists of simulations. What is compiled goes into the user's cache."""

_FOUND, _SYNTHESIS = (ERRORS.name, SIMULATION), "synth."
_BEFORE = "before"


def make_way(folder: Path, parts: Path, manifest: Manifest, kept: Callable[[Path], None]) -> None:
    """Take an earlier build away from where another one goes.

    Where both are the same build, down to the files of the board, what others wrote into it moves
    over. Else the earlier one is kept beside the new one, if it holds any of that.

    Parameters
    ----------
    folder : of the earlier build; where there is none, or an empty folder, nothing
        happens.
    parts : the new build, complete, in a folder for temporary files near the other one.
    manifest : of the new build.
    kept : called with the folder where the earlier build is from now on, if it is kept.

    Raises
    ------
    OSError
        When it cannot be moved; it is where it was then.
    """
    if not folder.exists() or not any(folder.iterdir()):
        return
    try:
        check_digests(folder)
        listed = {*read_digests(folder), DIGESTS}
    except ManifestError:
        others = [folder]  # changed by hand, or nobody can tell what the build wrote
    else:
        others = list(_others(folder, folder, listed))
        if _same(folder, parts, manifest):
            for path in others:
                path.rename(parts / path.relative_to(folder))
            others = []
    # Moved in one step either way, and removed with the folder that the new one was made in.
    place = _free(folder) if others else parts.with_name(_BEFORE)
    folder.rename(place)
    if others:
        kept(place)


def _others(within: Path, folder: Path, listed: set[str]) -> Iterator[Path]:
    """Files and folders of a build that neither the build wrote nor `verify` nor `synth`."""
    for path in sorted(within.iterdir()):
        name = path.relative_to(folder).as_posix()
        if name in _FOUND or name.startswith(_SYNTHESIS) or name in listed:
            continue
        if path.is_dir() and any(one.startswith(f"{name}/") for one in listed):
            yield from _others(path, folder, listed)
        else:
            yield path


def _same(old: Path, new: Path, manifest: Manifest) -> bool:
    """Whether two folders hold one build, for one board.

    The manifest's hash does not cover the files of the board, which other versions write otherwise.
    """
    try:
        if Manifest.read(old).hash != manifest.hash:
            return False
    except ManifestError:
        return False
    board = new / manifest.target
    written = [path.relative_to(new) for path in board.rglob("*") if path.is_file()]
    return all(_equal(old / path, new / path) for path in written)


def _equal(one: Path, other: Path) -> bool:
    return one.is_file() and one.read_bytes() == other.read_bytes()


def _free(folder: Path) -> Path:
    """A name beside a folder that nothing has."""
    place, count = folder.with_name(f"{folder.name}-{_BEFORE}"), 1
    while place.exists():
        count += 1
        place = folder.with_name(f"{folder.name}-{_BEFORE}-{count}")
    return place
