"""What becomes of a build where another one takes its place.

What ``verify`` and ``synth`` found of it goes, since it is found again in minutes. What the build
did not write, or not as it is, stays: the bitstream of a board's tools, a file of the user's, a
plan or a script that was edited.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pinion.base.places import BEFORE, settle
from pinion.link import Manifest, ManifestError
from pinion.link.accuracy import ERRORS
from pinion.link.digests import DIGESTS, check_digests, read_digests

SIMULATION = "sim"
"""Waveforms and mapped netlists of simulations. What is compiled goes into the user's cache."""

_FOUND, _SYNTHESIS = (ERRORS.name, SIMULATION), "synth."


class OccupiedError(ValueError):
    """An earlier build cannot make way; the message says why."""


def exchange(folder: Path, parts: Path, manifest: Manifest) -> Path | None:
    """Put a build where it belongs, in the place of an earlier one if there is one.

    Where both are the same build, down to the files of the board, what others wrote into the
    earlier one moves over. Else it is kept beside the new one, if it holds any of that.

    Parameters
    ----------
    folder : of the build.
    parts : the new build, complete, in a folder for temporary files near the other one.
    manifest : of the new build.

    Returns
    -------
    The folder where the earlier build is from now on, if it is kept; `folder` if what others wrote
    moved over; else None.

    Raises
    ------
    OccupiedError
        When the earlier build cannot be moved; it is as it was then.
    """
    if not folder.exists() or not any(folder.iterdir()):
        settle(parts, folder)
        return None
    others, carried = _left_by_others(folder), list[Path]()
    same = others != [Path()] and _same(folder, parts, manifest)
    # Moved in one step either way, and removed with the folder that the new one was made in.
    place = _free(folder) if others and not same else parts.with_name(BEFORE)
    try:
        folder.rename(place)
        for path in others if same else ():
            (place / path).rename(parts / path)
            carried.append(path)
        settle(parts, folder)
    except BaseException as error:
        if place.exists() and not folder.exists():
            for path in carried:
                (parts / path).rename(place / path)
            place.rename(folder)
        if isinstance(error, OSError):
            raise OccupiedError(
                f"The build in '{folder}' cannot be replaced ({error.strerror}), since it is a "
                "mount point, or you may not change it: remove it, or give another folder."
            ) from None
        raise
    if not others:
        return None
    return folder if same else place


def _left_by_others(folder: Path) -> list[Path]:
    """What neither a build nor `verify` nor `synth` wrote, by path in its folder.

    The folder itself where files were changed or nobody can tell any more.
    """
    try:
        check_digests(folder)
        listed = {*read_digests(folder), DIGESTS}
    except ManifestError:
        return [Path()]
    return [path.relative_to(folder) for path in _others(folder, folder, listed)]


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
    place, count = folder.with_name(f"{folder.name}-{BEFORE}"), 1
    while place.exists():
        count += 1
        place = folder.with_name(f"{folder.name}-{BEFORE}-{count}")
    return place
