"""Unwritable paths and folders that are not builds: an error before any work."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pinion.base.places import BEFORE, check_place, holds_us, obstacle, scratch_beside, settle
from pinion.link import Manifest, ManifestError


def test_a_place_that_can_be_had_is_left_as_it_was(tmp_path: Path) -> None:
    for path in (tmp_path / "new", tmp_path / "a" / "b" / "new", tmp_path):
        assert obstacle(path) == ""
        check_place(path, "build", ValueError)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "new", tmp_path / "file" / "a" / "new"):
        with pytest.raises(
            ValueError, match=r"^No build can be written to '.*new' \('.*file' is not"
        ):
            check_place(path, "build", ValueError)


def test_the_reason_of_a_file_system_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(dir: Path, prefix: str) -> str:
        raise OSError(errno.EROFS, "Read-only file system", str(dir / f"{prefix}x"))

    monkeypatch.setattr("tempfile.mkdtemp", refuses)
    assert obstacle(tmp_path / "a" / "new") == f"Read-only file system in '{tmp_path}'"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("none", "it does not exist. Make one with `pinion build ROBOT FUNCTION -o {}`."),
        ("empty", "it has no manifest.json. Make one with `pinion build ROBOT FUNCTION -o {}`."),
        # Nothing is built into a folder that holds something else.
        (
            "other",
            "it has no manifest.json. Give a folder made by `pinion build ROBOT FUNCTION -o DIR`",
        ),
        ("file", "it is a file. Give a folder made by `pinion build ROBOT FUNCTION -o DIR`."),
        ("no ne", "Make one with `pinion build ROBOT FUNCTION -o '{}'`."),
        ("above", "it has no manifest.json, but '{}/inner' in it has one: give that folder."),
    ],
)
def test_other_folders_are_refused_with_advice(tmp_path: Path, name: str, sentence: str) -> None:
    for folder in ("empty", "other", "above/inner"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("file", "other/readme", "above/inner/manifest.json"):
        (tmp_path / file).write_text("{}")
    with pytest.raises(ManifestError) as caught:
        Manifest.read(tmp_path / name)
    message = str(caught.value)
    assert message.startswith(f"'{tmp_path / name}' is not a build folder: ")
    assert sentence.format(tmp_path / name) in message


def test_a_complete_folder_settles_where_nothing_or_an_empty_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for place in (tmp_path / "new" / "one", tmp_path / "empty", Path()):
        with scratch_beside(place) as scratch:
            assert scratch.parent == Path(os.path.abspath(place)).parent
            (scratch / "made" / "deep").mkdir(parents=True)
            (scratch / "made" / "deep" / "file").write_text("x")
            settle(scratch / "made", place)
        assert [path.name for path in place.iterdir()] == ["deep"]
        assert (place / "deep" / "file").read_text() == "x"
    # Still the shell's working directory, not another folder of the same name.
    assert Path(os.curdir).samefile(tmp_path / "here")
    assert holds_us(tmp_path) and holds_us(Path()) and not holds_us(tmp_path / "empty")


_HOLDS = """
import sys, time
from pathlib import Path
from pinion.base.places import scratch_beside
with scratch_beside(Path(sys.argv[1])) as scratch:
    (scratch / sys.argv[2]).mkdir()
    print(scratch, flush=True)
    time.sleep(300)
"""


def test_what_a_killed_process_left_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / ".b-original").mkdir()  # a user's folder whose name could be ours

    def holder(content: str) -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", _HOLDS, str(tmp_path / "b"), content],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    holders = [holder(content) for content in ("build", BEFORE, "build")]
    (killed, left), (exchanging, earlier), (_, used) = holders
    try:
        for process in (killed, exchanging):
            process.kill()
            process.wait()
        assert left.is_dir() and earlier.is_dir() and used.is_dir()
        with scratch_beside(tmp_path / "b") as scratch:
            assert {path.name for path in tmp_path.iterdir()} == {
                *(path.name for path in (scratch, earlier, used)),
                ".b-original",
            }
    finally:
        for process, _ in holders:
            process.kill()
            process.communicate()


def test_an_interrupted_clean_up_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rmtree, calls = shutil.rmtree, 0

    def interrupted(path: str, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyboardInterrupt
        rmtree(path, **options)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), scratch_beside(tmp_path / "b") as scratch:
        (scratch / "file").write_text("x")
    assert calls == 2 and list(tmp_path.iterdir()) == []
