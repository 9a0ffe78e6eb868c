"""Digests of the files in a folder: damage is noticed, and a sentence names the file."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from pinion.link import ManifestError
from pinion.link.digests import DIGESTS, LARGEST, check_digests, read_digests, write_digests

CONTENTS = {
    "board/pins.lpf": b"LOCATE COMP\n",
    "board-2": b"before the other in the order of texts, after it in that of paths",
    "core.v": b"module core;\nendmodule\n",
    "empty": b"",
    "large": bytes(range(256)) * 4097,  # more than is read at once
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "build"
    for name, content in CONTENTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    write_digests(folder)
    return folder


def sealed(files: Any) -> str:
    """Return the text of a list of digests with its own digest, which fits."""
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    return json.dumps({"version": 1, "files": files, "sha256": digest}, indent=1) + "\n"


def refused(folder: Path, sentence: str, *names: str) -> None:
    with pytest.raises(ManifestError, match=rf"^'{re.escape(str(folder))}{sentence}\.$"):
        check_digests(folder, names or None)


def test_the_list_has_all_files_but_itself(folder: Path) -> None:
    expected = {name: hashlib.sha256(text).hexdigest() for name, text in CONTENTS.items()}
    assert DIGESTS == "digests.json" and read_digests(folder) == expected
    assert (folder / DIGESTS).read_text() == sealed(expected)
    write_digests(folder)
    assert read_digests(folder) == expected
    check_digests(folder)


def test_no_bit_of_the_digests_flips_unseen(folder: Path) -> None:
    path = folder / DIGESTS
    content = path.read_bytes()
    for byte in range(len(content)):
        path.write_bytes(
            content[:byte] + bytes((content[byte] ^ 1 << byte % 8,)) + content[byte + 1 :]
        )
        with pytest.raises(ManifestError):
            read_digests(folder)
    path.write_bytes(content)
    read_digests(folder)


def test_a_changed_a_missing_and_a_strange_file_are_named(folder: Path) -> None:
    before, after = CONTENTS["core.v"], CONTENTS["core.v"].replace(b"core", b"card")
    (folder / "core.v").write_bytes(after)
    was, now = (hashlib.sha256(text).hexdigest()[:16] for text in (before, after))
    refused(
        folder,
        rf"/core\.v' is not the file that was built \(its SHA-256 is {now}\.\.\., "
        rf"digests\.json has {was}\.\.\.\): build the folder again",
    )
    check_digests(folder, ("large", "board/pins.lpf"))
    (folder / "core.v").unlink()
    missing = r"/core\.v' is missing from the build: build the folder again"
    refused(folder, missing)
    refused(folder, missing, "large", "core.v")
    os.mkfifo(folder / "core.v")
    refused(
        folder,
        r"/core\.v' cannot be read \(it is not a regular file\): build the folder again",
    )
    (folder / "mine.txt").write_text("x")
    refused(
        folder,
        r"/mine\.txt' is not among the files in digests\.json: build the folder again",
        "mine.txt",
    )


def test_a_folder_without_a_readable_list_is_refused(folder: Path) -> None:
    (folder / DIGESTS).unlink()
    refused(
        folder, r"' has no digests\.json, so its files cannot be checked: build the folder again"
    )
    os.mkfifo(folder / DIGESTS)
    refused(
        folder,
        r"/digests\.json' is damaged \(it is not a regular file\): build the folder again",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "it lacks 'files'"),
        ("[" * 100_000, ".*recursion.*"),
        (sealed(["core.v"]), "'list' object has no attribute '.*"),
        (sealed({"core.v": 5}), "it contains something other than names and digests"),
        (sealed({"core.v": "a"})[:-1], "it was changed after it was written"),
        *(
            (sealed({name: "a"}), f"it names '{name}', which is outside the folder")
            for name in ("/etc/passwd", "board/../../file", "..", ".", "")
        ),
        (" " * LARGEST, "Expecting value: .*"),
        (" " * (LARGEST + 1), "it has more than 16777216 bytes"),
    ],
    ids=lambda text: text[:40],
)
def test_a_damaged_list_says_why(text: str, why: str, folder: Path) -> None:
    (folder / DIGESTS).write_text(text)
    refused(folder, rf"/digests\.json' is damaged \({why}\): build the folder again")
