"""Digests of a build folder: what each file was when the core was built, and whether it still is.

``digests.json`` stands beside the manifest and outside the build's hash, which is a constant inside
the core and cannot cover the core's own files. It holds the SHA-256 of every file that ``pinion
build`` wrote. What tools make later (bitstreams, reports, waveforms) is not listed: reports say
themselves which build they are of, and what they hold (:mod:`.build_files`).

Digests find damage: a bit that flipped, a file that was edited, a folder that was copied in part.
They are no signature, since whoever forges a file can forge its digest as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from .manifest import ManifestError, open_file, read_file

DIGESTS = "digests.json"

VERSION = 1

LARGEST = 16 << 20
"""Bytes of the largest list: a build has a dozen files."""

_CHUNK = 1 << 20


def write_digests(folder: Path) -> None:
    """Write the digests of all files that stand in a folder and below it."""
    files = {
        path.relative_to(folder).as_posix(): _digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / DIGESTS
    }
    (folder / DIGESTS).write_text(_text(files), encoding="utf-8")


def read_digests(folder: Path) -> dict[str, str]:
    """The digests of a build folder by path, which has forward slashes and begins in the folder.

    Raises
    ------
    ManifestError
        There are none, or their file is damaged.
    """
    path = folder / DIGESTS
    try:
        text = read_file(path, LARGEST).decode("utf-8")
        files = json.loads(text)["files"]
        if any(type(name) is not str or type(digest) is not str for name, digest in files.items()):
            raise TypeError("it holds something else than names and digests")
        # Down to the last blank: a bit that flipped anywhere makes another text.
        if text != _text(files):
            raise ValueError("it is not as it was written")
        for name in files:
            inside = PurePosixPath(name)
            if inside.is_absolute() or not inside.parts or ".." in inside.parts:
                raise ValueError(f"it names {name!r}, which is not in the folder")
    except FileNotFoundError:
        raise ManifestError(
            f"'{folder}' has no {DIGESTS}, so nobody can tell whether its files are those that "
            "were built: build the folder again."
        ) from None
    except (*_UNREADABLE, KeyError, AttributeError) as error:
        raise ManifestError(f"'{path}' is damaged ({error}): build the folder again.") from None
    return dict(files)


def check_digests(folder: Path, names: Iterable[str] | None = None) -> None:
    """Refuse a build folder with a file that is not as it was built.

    Parameters
    ----------
    folder : the build folder.
    names : files to check, which must be listed; None for all that are.

    Raises
    ------
    ManifestError
        A file differs, is missing or not listed, or the digests themselves are; names the file.
    """
    files = read_digests(folder)
    for name in files if names is None else names:
        path = folder / name
        if name not in files:
            raise ManifestError(
                f"'{path}' is not among the files in {DIGESTS}: build the folder again."
            )
        try:
            found = _digest(path)
        except FileNotFoundError:
            raise ManifestError(
                f"'{path}' is missing, and the build had it: build the folder again."
            ) from None
        except _UNREADABLE as error:
            raise ManifestError(
                f"'{path}' cannot be read ({error}): build the folder again."
            ) from None
        if found != files[name]:
            raise ManifestError(
                f"'{path}' is not the file that was built (its SHA-256 is {found[:16]}..., "
                f"{DIGESTS} has {files[name][:16]!s}...): build the folder again."
            )


_UNREADABLE = (OSError, ValueError, TypeError, RecursionError)


def _text(files: dict[str, str]) -> str:
    """The file: its own digest is that of the others', so that no name or digest in it changes."""
    content = json.dumps(files, sort_keys=True)
    own = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    return json.dumps({"version": VERSION, "files": files, "sha256": own}, indent=1) + "\n"


def _digest(path: Path) -> str:
    with open_file(path) as file:
        state = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()
