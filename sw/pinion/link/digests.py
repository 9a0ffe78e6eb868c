"""Digests of the files in a build folder, to check that they are unchanged.

``digests.json`` is beside the manifest and outside the build's hash, which is a constant inside the
core and cannot cover the core's own files. It lists the SHA-256 of every file that ``pinion build``
wrote. Later files (bitstreams, reports, waveforms) are not listed: reports name their build and
have their own digests (:mod:`.build_files`).

Digests reveal damage: a flipped bit, an edited file, a partly copied folder. They are not
signatures: whoever forges a file can forge its digest as well.
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
"""Maximum size of the list in bytes: a build has a dozen files."""

_CHUNK = 1 << 20


def write_digests(folder: Path) -> None:
    """Write the digests of all files in a folder and below it."""
    files = {
        path.relative_to(folder).as_posix(): _digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / DIGESTS
    }
    (folder / DIGESTS).write_text(_text(files), encoding="utf-8")


def read_digests(folder: Path) -> dict[str, str]:
    """Return the digests of a build folder by path, relative to it and with forward slashes.

    Raises
    ------
    ManifestError
        If there are none, or their file is damaged.
    """
    path = folder / DIGESTS
    try:
        text = read_file(path, LARGEST).decode("utf-8")
        files = json.loads(text)["files"]
        if any(type(digest) is not str for digest in files.values()):
            raise TypeError("it contains something other than names and digests")
        # Exact comparison, so that any flipped bit is noticed.
        if text != _text(files):
            raise ValueError("it was changed after it was written")
        for name in files:
            inside = PurePosixPath(name)
            if inside.is_absolute() or not inside.parts or ".." in inside.parts:
                raise ValueError(f"it names {name!r}, which is outside the folder")
    except FileNotFoundError:
        raise ManifestError(
            f"'{folder}' has no {DIGESTS}, so its files cannot be checked: build the folder again."
        ) from None
    except (*_UNREADABLE, KeyError, AttributeError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise ManifestError(f"'{path}' is damaged ({why}): build the folder again.") from None
    return dict(files)


def check_digests(folder: Path, names: Iterable[str] | None = None) -> None:
    """Raise an error if a file of a build folder changed since it was built.

    Parameters
    ----------
    folder : the build folder.
    names : files to check, which must be listed; None for all listed files.

    Raises
    ------
    ManifestError
        If a file, or the list of digests, differs or is missing, or a file is not listed;
        the message names it.
    """
    files = read_digests(folder)
    for name in files if names is None else names:
        path = folder / name
        if name not in files:
            raise ManifestError(
                f"'{path}' is not among the files in {DIGESTS}: build the folder again."
            )
        try:
            digest = _digest(path)
        except FileNotFoundError:
            raise ManifestError(
                f"'{path}' is missing from the build: build the folder again."
            ) from None
        except _UNREADABLE as error:
            raise ManifestError(
                f"'{path}' cannot be read ({error}): build the folder again."
            ) from None
        if digest != files[name]:
            raise ManifestError(
                f"'{path}' is not the file that was built (its SHA-256 is {digest[:16]}..., "
                f"{DIGESTS} has {files[name][:16]!s}...): build the folder again."
            )


_UNREADABLE = (OSError, ValueError, TypeError, RecursionError)


def _text(files: dict[str, str]) -> str:
    """Return the file's text, which ends with a digest of the list itself."""
    content = json.dumps(files, sort_keys=True)
    list_digest = hashlib.sha256(content.encode()).hexdigest()
    return json.dumps({"version": VERSION, "files": files, "sha256": list_digest}, indent=1) + "\n"


def _digest(path: Path) -> str:
    with open_file(path) as file:
        state = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()
