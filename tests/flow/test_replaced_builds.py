"""Replacing a build: no file of the user is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import pinion.api as pinion
from pinion.flow.build import Build, BuildError
from pinion.flow.targets import TargetError
from pinion.link.digests import DIGESTS
from pinion.link.replaced import OccupiedError, exchange
from tests.support.builds import build


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A build of a function for a board, and another one without a board."""
    place = tmp_path_factory.mktemp("builds")
    build("pendulum", "gravity", place / "ii8", ii=8, target="ulx3s")
    build("pendulum", "gravity", place / "ii4", ii=4)
    return place / "ii8", place / "ii4"


def _put(source: Path, folder: Path, *, scratch: Path) -> list[Path]:
    """Put a build into a folder as `build` does; return where the earlier one is, if kept."""
    parts = scratch / source.parent.name / "build"
    shutil.copytree(source, parts)
    earlier = exchange(folder, parts)
    shutil.rmtree(parts.parent)
    return [] if earlier is None else [earlier]


def _write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


@pytest.mark.slow
def test_a_bitstream_outlives_another_build_in_its_place(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    (first, other), folder = two, tmp_path / "b"
    assert _put(first, folder, scratch=tmp_path) == []
    _write(folder, "ulx3s/out/pinion.bit")
    assert _put(other, folder, scratch=tmp_path) == [tmp_path / "b-before"]
    assert (tmp_path / "b-before/ulx3s/out/pinion.bit").is_file()
    before, now = Build.read(tmp_path / "b-before"), Build.read(folder)
    assert (before.manifest.ii, now.manifest.ii) == (8, 4)
    assert not (folder / "ulx3s" / "out").exists()
    _write(folder, "measured.csv")
    assert _put(first, folder, scratch=tmp_path) == [tmp_path / "b-before-2"]
    assert (tmp_path / "b-before-2" / "measured.csv").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "b-before", "b-before-2"]


def test_the_same_build_leaves_its_folder_as_it_is(two: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "b"
    _put(two[0], folder, scratch=tmp_path)
    user_files = ("notes.txt", "ulx3s/pinion.bit", "ulx3s/project/run/log", "mine/deep/file")
    _write(folder, *user_files, "core_verilog.log")
    # The log holds times, so that it differs from one run to the next; here it was edited.
    (earlier,) = _put(two[0], folder, scratch=tmp_path)
    assert earlier == tmp_path / "b-before"
    _write(folder, *user_files)
    assert _put(two[0], folder, scratch=tmp_path) == [folder]
    assert [(folder / name).read_text() for name in user_files] == list(user_files)
    Build.read(folder)


@pytest.mark.slow
def test_what_is_found_again_in_minutes_goes(two: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "b"
    _put(two[0], folder, scratch=tmp_path)
    results = ("errors.json", "synth.json", "synth.log", "sim/netlist/core.v")
    _write(folder, *results)
    assert _put(two[1], folder, scratch=tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert not any((folder / name).exists() for name in results)


@pytest.mark.slow
@pytest.mark.parametrize("name", [DIGESTS, "schedule.json", "ulx3s/pinion.lpf"])
def test_a_build_that_was_changed_is_kept_whole(
    two: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "b"
    _put(two[0], folder, scratch=tmp_path)
    (folder / name).write_text("{}")
    (earlier,) = _put(two[0], folder, scratch=tmp_path)
    assert (earlier / name).read_text() == "{}" and (earlier / "core.v").is_file()
    Build.read(folder)


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


@pytest.mark.parametrize("stop", [OSError(16, "Device or resource busy"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [1, 2])
def test_a_move_that_fails_leaves_the_earlier_build_as_it_was(
    two: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: BaseException,
    at: int,
) -> None:
    folder, moves = tmp_path / "b", 0
    _put(two[0], folder, scratch=tmp_path)
    _write(folder, "notes.txt", "ulx3s/pinion.bit")
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    parts = tmp_path / "scratch" / "build"
    shutil.copytree(two[1], parts)
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        nonlocal moves
        moves += 1
        if moves == at:
            raise stop
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    expected = OccupiedError if isinstance(stop, OSError) else KeyboardInterrupt
    with pytest.raises(expected, match="busy" if expected is OccupiedError else None):
        exchange(folder, parts)
    assert moves >= at
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == before
    Build.read(folder)
