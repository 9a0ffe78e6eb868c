"""An earlier build makes room for a new one, and no file of the user is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pinion.link.digests import DIGESTS, check_digests, write_digests
from pinion.link.replaced import OccupiedError, exchange


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two builds, the first with a folder of a board."""
    builds = tmp_path / "builds" / "first", tmp_path / "builds" / "second"
    for path in builds:
        _write(path, "core.v", "schedule.json", "core_verilog.log", *_BOARD[path.name])
        (path / "core.v").write_text(path.name)
        write_digests(path)
    return builds


_BOARD = {"first": ("board/pins.lpf",), "second": ()}


def _write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def _put(source: Path, folder: Path, *, log: str = "core_verilog.log") -> Path | None:
    """Put a build into a folder as `build` does; return where the earlier one is, if kept."""
    scratch = folder.with_name("scratch")
    shutil.copytree(source, scratch / "build")
    (scratch / "build" / "core_verilog.log").write_text(log)
    write_digests(scratch / "build")
    earlier = exchange(folder, scratch / "build")
    shutil.rmtree(scratch)
    return earlier


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_missing_and_an_empty_folder_are_filled(two: tuple[Path, Path], tmp_path: Path) -> None:
    for name in ("missing", "empty"):
        folder = tmp_path / name
        if name == "empty":
            folder.mkdir()
        assert _put(two[0], folder) is None
        check_digests(folder)
        assert (folder / "core.v").read_text() == "first"


def test_an_earlier_build_with_other_files_is_kept(two: tuple[Path, Path], tmp_path: Path) -> None:
    (first, other), folder = two, tmp_path / "b"
    assert _put(first, folder) is None
    _write(folder, "board/out/pinion.bit")
    assert _put(other, folder) == tmp_path / "b-before"
    assert (tmp_path / "b-before" / "board" / "out" / "pinion.bit").is_file()
    assert (tmp_path / "b-before" / "core.v").read_text() == "first"
    assert (folder / "core.v").read_text() == "second" and not (folder / "board").exists()
    for source, place in ((first, "b-before-2"), (other, "b-before-3")):
        _write(folder, "measured.csv")
        assert _put(source, folder) == tmp_path / place
        assert (tmp_path / place / "measured.csv").is_file()
        assert not (folder / "measured.csv").exists()
    names = ["b", "b-before", "b-before-2", "b-before-3", "builds"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.parametrize(
    "name", ["notes.txt", "mine/deep/file", "mine/errors.json", "board/synth.json"]
)
def test_the_same_build_leaves_its_folder_as_it_is(
    name: str, two: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "b"
    _put(two[0], folder)
    _write(folder, name)
    # Logs hold times, so that they differ from one run to the next.
    assert _put(two[0], folder, log="later") == folder
    assert (folder / "core_verilog.log").read_text() == "core_verilog.log"
    assert (folder / name).read_text() == name
    check_digests(folder)
    assert _put(two[1], folder) == tmp_path / "b-before"
    assert (tmp_path / "b-before" / name).read_text() == name


def test_what_is_found_again_in_minutes_goes(two: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "b"
    _put(two[0], folder)
    results = ("errors.json", "synth.json", "synth.log", "synth.ys", "sim/netlist/core.v")
    _write(folder, *results)
    assert _put(two[1], folder) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "builds"]
    assert not any((folder / name).exists() for name in results)
    check_digests(folder)


def test_a_link_to_another_folder_is_a_file_of_the_user(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "b"
    _put(two[0], folder)
    (folder / "data").symlink_to(tmp_path / "builds")
    assert _put(two[1], folder) == tmp_path / "b-before"
    assert (tmp_path / "b-before" / "data").is_symlink()


@pytest.mark.parametrize("name", [DIGESTS, "schedule.json", "board/pins.lpf", "core_verilog.log"])
def test_a_build_that_was_changed_is_kept_whole(
    name: str, two: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "b"
    _put(two[0], folder)
    (folder / name).write_text("{}")
    earlier = _put(two[0], folder)
    assert earlier == tmp_path / "b-before"
    assert (earlier / name).read_text() == "{}" and (earlier / "core.v").is_file()
    check_digests(folder)


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
    _put(two[0], folder)
    _write(folder, "notes.txt", "board/pinion.bit")
    before = _names(folder)
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
    sentence = rf"^The build in '{folder}' cannot be replaced \(Device or resource busy\): give "
    with pytest.raises(expected, match=sentence if expected is OccupiedError else None):
        exchange(folder, parts)
    assert moves >= at
    assert _names(folder) == before
    check_digests(folder)


def test_an_interrupt_after_the_moves_leaves_both_builds(
    two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, moves = tmp_path / "b", 0
    _put(two[0], folder)
    _write(folder, "notes.txt")
    parts = tmp_path / "scratch" / "build"
    shutil.copytree(two[1], parts)
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        nonlocal moves
        moves += 1
        place = rename(self, target)
        if moves == 2:
            raise KeyboardInterrupt
        return place

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        exchange(folder, parts)
    assert (folder / "core.v").read_text() == "second"
    assert (tmp_path / "b-before" / "notes.txt").is_file()
