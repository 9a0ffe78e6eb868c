"""Replacing a build: no file of the user is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import pinion.api as pinion
from pinion.flow.build import Build, BuildError
from pinion.flow.targets import TargetError
from tests.support.builds import build


def _write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def test_the_working_directory_takes_a_build_but_replaces_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    build("pendulum", "gravity", Path())
    build_hash = Build.read(tmp_path).manifest.hash
    for place in (Path(), tmp_path):
        with pytest.raises(BuildError, match="cannot be replaced from inside"):
            build("pendulum", "gravity", place, ii=4)
    assert Build.read(tmp_path).manifest.hash == build_hash
    assert all(not path.name.startswith(".") for path in tmp_path.iterdir())


def test_what_became_of_the_earlier_build_is_said(tmp_path: Path) -> None:
    place = tmp_path / "b"
    assert pinion.build("pendulum", "gravity", place).notes.replaced == ""
    core = pinion.build("pendulum", "gravity", place, ii=2)
    assert "earlier build was replaced" in core.notes.replaced
    assert core.notes.replaced in core.notes.sentences
    _write(place, "mine")
    core = pinion.build("pendulum", "gravity", place, ii=2)
    assert "is unchanged" in core.notes.replaced
    core = pinion.build("pendulum", "gravity", place, ii=4)
    assert f"is kept as '{place}-before'" in core.notes.replaced
    assert (tmp_path / "b-before" / "mine").is_file() and not (place / "mine").exists()


def test_a_link_to_a_build_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "b")
    for ii in (8, 4):  # in an empty place, and over a build
        build("pendulum", "gravity", link, ii=ii)
        assert link.is_symlink() and Build.read(tmp_path / "b").manifest.ii == ii
    _write(link, "mine")
    same = pinion.build("pendulum", "gravity", link, ii=4)
    assert "is unchanged" in same.notes.replaced and (tmp_path / "b" / "mine").is_file()


@pytest.mark.parametrize("ii", [1.5, True, 0])
def test_an_interval_that_is_no_number_of_cycles_is_refused(tmp_path: Path, ii: int) -> None:
    with pytest.raises(TargetError, match="cannot be built: give ii"):
        build("pendulum", "gravity", tmp_path / "b", ii=ii)
    assert not (tmp_path / "b").exists()
