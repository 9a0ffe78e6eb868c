"""Replacing an earlier build folder without losing a file that Pinion did not write."""

from __future__ import annotations

from pathlib import Path

from pinion.base.places import BEFORE, settle

from .accuracy import ERRORS
from .digests import DIGESTS, check_digests, read_digests
from .manifest import ManifestError

SIMULATION = "sim"
"""Waveforms and mapped netlists of simulations. What is compiled goes into the user's cache."""

# What `verify` and `synth` write: they find it again in minutes.
_RESULTS = (ERRORS.name, SIMULATION, "synth.json", "synth.log", "synth.ys")


class OccupiedError(ValueError):
    """An earlier build cannot be replaced; the message says why."""


def exchange(folder: Path, parts: Path) -> Path | None:
    """Move a complete build into its folder, in place of an earlier one.

    If the earlier build is the same, it stays as it is. Otherwise it is removed, or moved beside
    the new one if it holds files that Pinion did not write or that were changed since.

    Parameters
    ----------
    folder : the build folder.
    parts : the new build, in a folder for temporary files near `folder`.

    Returns
    -------
    `folder` if the earlier build stays, its new place if it was moved, otherwise None.

    Raises
    ------
    OccupiedError
        If the earlier build cannot be moved; it is unchanged then.
    """
    if not folder.exists() or not any(folder.iterdir()):
        settle(parts, folder)
        return None
    try:
        check_digests(folder)
        digests = read_digests(folder)
    except ManifestError:
        digests = {}
    if _without_logs(digests) == _without_logs(read_digests(parts)):
        return folder
    moved = not digests or _holds_others(folder, {*digests, DIGESTS})
    place = _free_name(folder) if moved else parts.with_name(BEFORE)  # removed with the parts
    try:
        folder.rename(place)
        settle(parts, folder)
    except BaseException as error:
        if place.exists() and not folder.exists():
            place.rename(folder)
        if isinstance(error, OSError):
            raise OccupiedError(
                f"The build in '{folder}' cannot be replaced ({error.strerror}): give another "
                "folder, or one that you may rename and that is not a mount point."
            ) from None
        raise
    return place if moved else None


def _without_logs(digests: dict[str, str]) -> dict[str, str]:
    """Return the digests without those of logs, which contain times."""
    return {name: digest for name, digest in digests.items() if not name.endswith(".log")}


def _holds_others(folder: Path, listed: set[str]) -> bool:
    """Return whether a folder holds more than a build and the results of `verify` and `synth`."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    names = (path.relative_to(folder) for path in paths)
    return any(name.as_posix() not in listed and name.parts[0] not in _RESULTS for name in names)


def _free_name(folder: Path) -> Path:
    """Return an unused path beside a folder."""
    place, count = folder.with_name(f"{folder.name}-{BEFORE}"), 1
    while place.exists():
        count += 1
        place = folder.with_name(f"{folder.name}-{BEFORE}-{count}")
    return place
