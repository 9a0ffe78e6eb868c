"""Publish a built site next to its other versions: ``python -m docs.site.publish FOLDER``.

FOLDER gets the site as a folder of its version, the newest release again as ``latest``,
``versions.json``, which the theme's list of versions reads, and an ``index.html`` that leads to
``latest``. All links are relative, so any file server can serve it under any address.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SITE = "build/site"
VERSION = "version.json"
"""File in a built site with its version."""

LATEST = "latest"
SWITCH = "assets/versions.js"
NUMBER = re.compile(r"(\d+(?:\.\d+)*)(.*)")

START = """<!doctype html>
<meta charset="utf-8">
<title>Pinion</title>
<meta http-equiv="refresh" content="0; url=latest/index.html">
<a href="latest/index.html">Pinion</a>
"""


class PublishError(ValueError):
    """No site to publish, or a folder with something else; the message says what to do."""


def publish(site: Path, folder: Path) -> list[str]:
    """Put a built site into a folder of versions, and return its versions, the newest first.

    Parameters
    ----------
    site : as ``make docs`` wrote it.
    folder : of versions; created if missing. The same version is replaced.

    Raises
    ------
    PublishError : there is no site, or the folder holds something else.
    """
    version = _version(site)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "versions.json").is_file():
        raise PublishError(
            f"'{folder}' holds files but no versions.json, so it is not a folder of versions. "
            "Give an empty or a new one."
        )
    folder.mkdir(parents=True, exist_ok=True)
    _copy(site, folder / version)
    published = [version_of for path in folder.iterdir() if (version_of := _published(path))]
    versions = sorted(published, key=order, reverse=True)
    releases = [name for name in versions if not _numbered(name)[1]]
    newest = (releases or versions)[0]
    _copy(folder / newest, folder / LATEST)
    listed = [
        {"version": name, "title": name, "aliases": [LATEST] if name == newest else []}
        for name in versions
    ]
    (folder / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(START, encoding="utf-8")
    return versions


def order(version: str) -> tuple[tuple[int, ...], bool, str]:
    """Return the sort key of a version; a pre-release comes before its release."""
    number, rest = _numbered(version)
    return tuple(int(part) for part in number.split(".")), not rest, rest


def _numbered(version: str) -> tuple[str, str]:
    match = NUMBER.fullmatch(version)
    if match is None:
        raise PublishError(
            f"'{version}' is not a version: a version begins with a number, such as 0.1.0."
        )
    return match[1], match[2]


def _version(site: Path) -> str:
    try:
        version = json.loads((site / VERSION).read_text("utf-8"))["version"]
    except (OSError, ValueError, KeyError) as error:
        raise PublishError(f"'{site}' is not a built site ({error}): run make docs.") from None
    _numbered(version)
    return str(version)


def _published(path: Path) -> str | None:
    """Return the version of a folder, or None; the copy ``latest`` does not count."""
    if path.name == LATEST or not (path / VERSION).is_file():
        return None
    version = _version(path)
    if version != path.name:
        raise PublishError(f"'{path}' holds version {version}: rename the folder or remove it.")
    return version


def _copy(site: Path, target: Path) -> None:
    """Copy a site with the list of versions switched on, completely or not at all."""
    switch = (site / SWITCH).read_text("utf-8")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".publish-") as place:
        copy = Path(place) / "site"
        shutil.copytree(site, copy)
        switched = switch.replace("const published = false;", "const published = true;")
        if "const published = true;" not in switched:
            raise PublishError(f"'{site / SWITCH}' has no switch: build the site again, make docs.")
        (copy / SWITCH).write_text(switched, encoding="utf-8")
        if target.exists():
            target.rename(Path(place) / "old")
        copy.rename(target)


def main(arguments: Sequence[str]) -> int:
    """Publish ``build/site``, and print the versions in the folder."""
    if len(arguments) != 1 or not arguments[0] or arguments[0].startswith("-"):
        print("usage: make docs-publish TO=FOLDER", file=sys.stderr)
        return 2
    try:
        versions = publish(Path(SITE), Path(arguments[0]))
    except PublishError as error:
        print(f"publish: {error}", file=sys.stderr)
        return 2
    print(f"publish: {arguments[0]} has {', '.join(versions)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
