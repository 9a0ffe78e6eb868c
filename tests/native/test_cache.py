"""The cache of compiled files: found, shared, damaged, locked, and moved entries."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pinion.native import cache as module
from pinion.native.cache import Cache, default_folder
from pinion.native.errors import ComputeError, StorageError
from pinion.native.isa import named
from pinion.native.toolchain import Compiler, compile_library

LIMIT = 300.0  # seconds; ends a hang
KEY = {"robot": "iiwa14", "formats": [1, 2.5, None]}
ANSWER = 'extern "C" int answer() { return 42; }\n'

Until = Callable[[Callable[[], object]], None]


class Maker:
    """A maker that writes a file and counts its calls."""

    def __init__(self, content: bytes = b"library") -> None:
        self.content = content
        self.made: list[Path] = []

    def __call__(self, path: Path) -> None:
        path.write_bytes(self.content)
        self.made.append(path)


def names(folder: Path) -> list[str]:
    """Return the suffixes of the names in a folder."""
    return sorted("".join(Path(name).suffixes) or name for name in os.listdir(folder))


def sentence(error: BaseException) -> str:
    text = str(error)
    assert text.endswith(".") and "\n" not in text
    return text


def no_room(path: Path) -> None:
    path.write_bytes(b"half")
    raise OSError(errno.ENOSPC, "No space left on device", str(path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "caches" / "pinion"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for temporary folders."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def other_users(tmp_path: Path) -> Path:
    """A folder that belongs to another user."""
    if os.geteuid() != 0:
        return Path("/")
    place = tmp_path / "others"
    place.mkdir(mode=0o777)
    os.chown(place, 65534, 65534)
    return place


def test_the_default_folder_is_the_platforms() -> None:
    home = {"HOME": "/h/u"}
    assert default_folder(home, platform="linux") == Path("/h/u/.cache/pinion")
    assert default_folder(home, platform="darwin") == Path("/h/u/Library/Caches/pinion")
    assert default_folder({**home, "XDG_CACHE_HOME": "/c"}, platform="linux") == Path("/c/pinion")
    # The specification ignores relative paths.
    assert default_folder({**home, "XDG_CACHE_HOME": "c"}) == default_folder(home)
    assert default_folder({**home, "XDG_CACHE_HOME": ""}) == default_folder(home)
    assert default_folder({}).is_absolute() and "pinion" in default_folder({}).name


def test_a_library_is_made_once(folder: Path) -> None:
    make = Maker()
    path = Cache(folder).library(KEY, make)
    assert path.parent == folder and path.suffix == ".so" and path.read_bytes() == b"library"
    again = Cache(folder).library(dict(reversed(KEY.items())), make)
    assert again == path and len(make.made) == 1
    other = Cache(folder).library({**KEY, "robot": "hyq"}, make)
    assert other != path and len(make.made) == 2
    assert names(folder) == [".so", ".so", ".so.json", ".so.json"]
    assert make.made[0].parent.parent == folder and not make.made[0].parent.exists()


def test_a_note_tells_what_a_file_is(folder: Path) -> None:
    path = Cache(folder).library(KEY, Maker())
    note = json.loads(Path(f"{path}.json").read_text())
    assert note["size"] == 7 and note["content"]["key"] == KEY and len(note["sha256"]) == 64


def test_nobody_else_may_write(folder: Path) -> None:
    before = os.umask(0)
    try:
        path = Cache(folder).library(KEY, Maker())
    finally:
        os.umask(before)
    for place in (folder, folder.parent):
        assert place.stat().st_mode & 0o777 == 0o700
    for file in folder.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
    folder.chmod(0o777)
    make = Maker()
    assert Cache(folder).library(KEY, make) == path and not make.made
    assert folder.stat().st_mode & 0o777 == 0o755


SPOILERS: dict[str, Callable[[Path, Path], object]] = {
    "truncated": lambda path, note: os.truncate(path, 3),
    "longer": lambda path, note: path.write_bytes(b"library!"),
    "another bit": lambda path, note: path.write_bytes(b"lhbrary"),
    "no library": lambda path, note: path.unlink(),
    "no note": lambda path, note: note.unlink(),
    "half a note": lambda path, note: os.truncate(note, 20),
    "empty note": lambda path, note: os.truncate(note, 0),
    "strange note": lambda path, note: note.write_text("[1]"),
    "a link": lambda path, note: (path.rename(path.with_name("x")), path.symlink_to("x")),
    "a link to itself": lambda path, note: (path.unlink(), path.symlink_to(path.name)),
    "a pipe": lambda path, note: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS.keys())
def test_a_spoilt_library_is_made_again(
    spoil: Callable[[Path, Path], object], folder: Path
) -> None:
    cache, make = Cache(folder), Maker()
    path = cache.library(KEY, make)
    spoil(path, Path(f"{path}.json"))
    assert cache.library(KEY, make) == path and len(make.made) == 2
    assert path.read_bytes() == b"library" and not path.is_symlink()
    assert cache.library(KEY, make) == path and len(make.made) == 2
    assert cache.problem == ""


def test_somebody_elses_library_is_not_used(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = Cache(folder).library(KEY, Maker())
    for file in (path, Path(f"{path}.json")):
        os.chown(file, 65534, 65534)
        make = Maker()
        assert Cache(folder).library(KEY, make) == path and len(make.made) == 1
        assert file.stat().st_uid == 0


def test_processes_at_the_same_time_compile_once(
    folder: Path, compiler: Compiler, fork: Callable[..., Any], tmp_path: Path, until: Until
) -> None:
    ready, go, log = tmp_path / "ready", tmp_path / "go", tmp_path / "log"
    ready.mkdir()

    def make(path: Path) -> None:
        with log.open("a") as lines:
            lines.write("made\n")
        compile_library({"a.cpp": ANSWER}, out=path, compiler=compiler, isa=named("portable"))

    def load() -> None:
        (ready / str(os.getpid())).touch()
        until(go.exists)
        answer = ctypes.CDLL(str(Cache(folder).library(KEY, make))).answer()
        os._exit(answer)

    children = [fork(load) for _ in range(8)]
    until(lambda: len(os.listdir(ready)) == len(children))
    go.touch()
    for child in children:
        child.join(LIMIT)
    assert [child.exitcode for child in children] == [42] * len(children)
    assert log.read_text() == "made\n"
    assert names(folder) == [".so", ".so.json"]


def test_threads_share_an_instance(folder: Path) -> None:
    cache, make, barrier = Cache(folder), Maker(), threading.Barrier(8)
    paths: list[Path] = []

    def load() -> None:
        barrier.wait(LIMIT)
        paths.append(cache.library(KEY, make))

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert len(make.made) == 1 and len(paths) == 8 and len(set(paths)) == 1


def test_when_one_is_killed_another_goes_on(
    folder: Path, fork: Callable[..., Any], tmp_path: Path, until: Until
) -> None:
    begun, waits = tmp_path / "begun", tmp_path / "waits"

    def make_for_ever(path: Path) -> None:
        path.write_bytes(b"lib")
        begun.touch()
        time.sleep(1000.0)

    def wait_and_make() -> None:
        waits.touch()
        path = Cache(folder).library(KEY, Maker())
        os._exit(42 if path.read_bytes() == b"library" else 1)

    killed = fork(lambda: Cache(folder).library(KEY, make_for_ever))
    until(begun.exists)
    other = fork(wait_and_make)
    until(waits.exists)
    os.kill(killed.pid, signal.SIGKILL)
    other.join(LIMIT)
    assert other.exitcode == 42
    # Leftovers of the killed process may belong to a slow one; after an hour they do not.
    (left,) = (path for path in folder.iterdir() if path.is_dir())
    os.utime(left, (time.time() - 4000.0,) * 2)
    Cache(folder).library({**KEY, "more": 1}, Maker())
    assert names(folder) == [".so", ".so", ".so.json", ".so.json"]


def test_locks_of_the_dead_are_swept_and_of_the_living_are_not(folder: Path) -> None:
    Cache(folder).library(KEY, Maker())
    dead, living, young = (folder / f"{name}.so.lock" for name in ("dead", "living", "young"))
    for lock in (dead, young):
        lock.touch()
    with module._locked(living, wait=0.0):
        for lock in (dead, living):
            os.utime(lock, (time.time() - 4000.0,) * 2)
        Cache(folder).library({**KEY, "more": 1}, Maker())
        assert [lock.exists() for lock in (dead, living, young)] == [False, True, True]


def test_what_was_used_longest_ago_makes_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(folder)
    monkeypatch.setattr(module, "MOST", 3 * len(b"library"))
    libraries = [cache.library({"name": name}, Maker()) for name in "abc"]
    for age, path in zip((100, 300, 200), libraries, strict=True):
        os.utime(f"{path}.json", (time.time() - age,) * 2)
    newest = cache.library({"name": "d"}, Maker())
    assert all(path.exists() for path in (*libraries, newest)), (
        "what is full makes room for the next"
    )
    last = cache.library({"name": "e"}, Maker())
    present = [path.exists() for path in (*libraries, newest, last)]
    assert present == [True, False, True, True, True]
    assert len(names(folder)) == 2 * sum(present)


def test_what_nobody_used_for_months_is_swept(folder: Path) -> None:
    cache, long_ago = Cache(folder), time.time() - 100 * 86400.0
    old, used = (cache.library({"name": name}, Maker()) for name in ("old", "used"))
    text = cache.text({"name": "old"}, lambda: "text")
    for file in folder.iterdir():
        os.utime(file, (long_ago, long_ago))
    make = Maker()
    assert cache.library({"name": "used"}, make) == used and not make.made
    cache.library({"name": "new"}, Maker())
    assert not old.exists() and used.exists() and text == "text"
    assert names(folder) == [".so", ".so", ".so.json", ".so.json"]


def test_an_interrupt_leaves_nothing(folder: Path) -> None:
    def make(path: Path) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Cache(folder).library(KEY, make)
    assert os.listdir(folder) == []


def test_what_the_maker_raises_comes_through(folder: Path) -> None:
    errors = (ComputeError("The compiler refused."), FileNotFoundError(2, "gone"), OSError("odd"))
    cache = Cache(folder)
    for raised in errors:

        def make(path: Path, raised: Exception = raised) -> None:
            raise raised

        with pytest.raises(type(raised)) as caught:
            cache.library(KEY, make)
        assert caught.value is raised
        with pytest.raises(type(raised)) as caught:
            cache.text(KEY, lambda: make(folder) or "")
        assert caught.value is raised
    assert os.listdir(folder) == [] and cache.problem == ""
    assert cache.library(KEY, Maker()).parent == folder


def test_waiting_for_a_lock_has_an_end(folder: Path) -> None:
    path = Cache(folder).library(KEY, Maker())
    path.unlink()
    with (
        module._locked(Path(f"{path}.lock"), wait=0.0),
        pytest.raises(ComputeError, match=rf"^Process {os.getpid()} has been compiling") as caught,
    ):
        Cache(folder, wait=0.05).library(KEY, Maker())
    assert str(folder) in sentence(caught.value) and not isinstance(caught.value, StorageError)


def test_a_lock_that_was_removed_is_no_lock(folder: Path) -> None:
    folder.mkdir(parents=True)
    lock = folder / "a.lock"
    with module._locked(lock, wait=0.0):
        first = os.open(lock, os.O_RDWR)  # as one that waits for it
    assert not lock.exists() and not module._has_name(lock, first)
    lock.touch()
    assert not module._has_name(lock, first)
    os.close(first)


def test_a_file_system_without_locks_serves_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(module.fcntl, "flock", flock)
    make = Maker()
    assert Cache(folder).library(KEY, make).parent == folder
    assert Cache(folder).library(KEY, make).parent == folder and len(make.made) == 1
    assert names(folder) == [".so", ".so.json"]


def test_a_full_disk_is_replaced_by_another(folder: Path, temporary: Path) -> None:
    Cache(folder).library({**KEY, "before": 1}, Maker())
    cache, written = Cache(folder), []

    def make(path: Path) -> None:
        written.append(path)
        if folder in path.parents:
            no_room(path)
        path.write_bytes(b"library")

    path = cache.library(KEY, make)
    assert temporary in path.parents and path.read_bytes() == b"library" and len(written) == 2
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "(No space left on device)" in cache.problem and str(folder) in cache.problem
    assert cache.problem.endswith(".")
    # From now on nothing is made twice, and earlier entries are still found.
    assert cache.library(KEY, make) == path and len(written) == 2
    assert temporary in cache.library({**KEY, "more": 1}, make).parents and len(written) == 3
    make_not = Maker()
    assert cache.library({**KEY, "before": 1}, make_not).parent == folder and not make_not.made
    assert names(folder) == [".so", ".so.json"]


def test_a_compiler_without_room_is_given_another_folder(folder: Path, temporary: Path) -> None:
    def make(path: Path) -> None:
        if folder in path.parents:
            raise StorageError("The compiler could not.", reason="Disk quota exceeded")
        path.write_bytes(b"library")

    cache = Cache(folder)
    assert temporary in cache.library(KEY, make).parents
    assert "(Disk quota exceeded)" in cache.problem


def test_no_room_anywhere_is_one_sentence(folder: Path, temporary: Path) -> None:
    with pytest.raises(StorageError) as caught:
        Cache(folder).library(KEY, no_room)
    message = sentence(caught.value)
    assert (
        str(folder) in message
        and str(temporary) in message
        and "No space left on device" in message
    )
    assert os.listdir(folder) == []


def test_no_temporary_folder_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mkdtemp(**_: object) -> str:
        raise OSError(errno.EROFS, "Read-only file system")

    (tmp_path / "file").touch()
    cache = Cache(tmp_path / "file" / "pinion")
    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with pytest.raises(StorageError) as caught:
        cache.library(KEY, Maker())
    assert str(tmp_path / "file") in sentence(caught.value)
    # A text needs no folder.
    assert cache.text(KEY, lambda: "text") == "text"


@pytest.mark.parametrize("place", ["file/pinion", "file", "/proc/pinion", "/dev/null/pinion"])
def test_a_folder_that_cannot_be_made_is_replaced(
    place: str, tmp_path: Path, temporary: Path
) -> None:
    (tmp_path / "file").touch()
    cache, make = Cache(tmp_path / place), Maker()
    path = cache.library(KEY, make)
    assert temporary in path.parents and cache.library(KEY, make) == path and len(make.made) == 1
    assert str(cache.folder) in cache.problem


def test_a_folder_that_cannot_be_written_is_still_read(fork: Callable[..., Any]) -> None:
    # Not below pytest's folder, which other users cannot enter.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder, temporary = Path(name, "cache"), Path(name, "temporary")

        def read() -> None:
            if os.geteuid() == 0:  # root may write everywhere
                os.chown(name, 65534, 65534)
                os.seteuid(65534)
            temporary.mkdir()
            tempfile.tempdir = str(temporary)
            before = Cache(folder).library(KEY, Maker())
            folder.chmod(0o500)
            cache, make = Cache(folder), Maker()
            assert cache.library(KEY, make) == before and not make.made and cache.problem == ""
            assert temporary in cache.library({**KEY, "more": 1}, make).parents
            assert "(Permission denied)" in cache.problem
            assert cache.library(KEY, make) == before and len(make.made) == 1
            folder.chmod(0o700)
            os._exit(42)

        child = fork(read)
        child.join(LIMIT)
        assert child.exitcode == 42


def test_somebody_elses_folder_is_neither_read_nor_written(
    other_users: Path, temporary: Path
) -> None:
    before = sorted(os.listdir(other_users))
    cache = Cache(other_users)
    assert temporary in cache.library(KEY, Maker()).parents
    assert "it belongs to user" in cache.problem
    assert sorted(os.listdir(other_users)) == before


def test_a_library_planted_in_somebody_elses_folder_is_not_used(
    folder: Path, temporary: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    Cache(folder).library(KEY, Maker(b"planted"))
    os.chown(folder, 65534, 65534)
    for _ in range(2):
        path = Cache(folder).library(KEY, Maker())
        assert temporary in path.parents and path.read_bytes() == b"library"


def test_a_temporary_folder_goes_with_its_process_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    script = f"""
import os, sys, tempfile
from pathlib import Path
from pinion.native.cache import Cache
tempfile.tempdir = {str(tmp_path)!r}
path = Cache(Path({str(tmp_path / "file")!r})).library({{}}, lambda path: path.touch())
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(path, path.exists())
"""
    completed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=LIMIT
    )
    path, existed = completed.stdout.split()
    assert existed == "True" and Path(path).parent.parent == tmp_path
    assert os.listdir(tmp_path) == ["file"]


def test_a_limit_on_file_sizes_is_one_sentence(folder: Path, fork: Callable[..., Any]) -> None:
    report = folder.parent.parent / "said"

    def make() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            Cache(folder).library(KEY, Maker(bytes(200_000)))
        except StorageError as error:
            report.write_text(sentence(error))

    fork(make).join(LIMIT)
    assert "File too large" in report.read_text() and names(folder) == []


def test_a_real_disk_that_is_full(mounted: Callable[..., str], compiler: Compiler) -> None:
    script = f"""
import ctypes, os, subprocess, sys
from pathlib import Path
from pinion.native.cache import Cache
from pinion.native.isa import named
from pinion.native.toolchain import compile_library, find_compiler
place = Path(sys.argv[1]) / "pinion"
cache = Cache(place)
path = cache.library({{}}, lambda path: path.write_bytes(bytes(500_000)))
print(place in path.parents, path.stat().st_size, "No space left on device" in cache.problem)
cache, compiler = Cache(place), find_compiler({str(compiler)!r})
text = {ANSWER!r} + "char c[400000] = {{1}};"
def make(path):
    compile_library({{"a.cpp": text}}, out=path, compiler=compiler, isa=named("portable"))
path = cache.library({{"other": 1}}, make)
print(place in path.parents, ctypes.CDLL(str(path)).answer(), cache.problem != "")
print(os.listdir(place))
(place / "filler").write_bytes(bytes(150_000))
cache = Cache(place)
path = cache.library({{}}, lambda path: path.write_bytes(bytes(100_000)))
print(place in path.parents, path.stat().st_size)
(place / "filler").unlink()
Cache(place).library({{"kept": 1}}, Path.touch)
subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
cache = Cache(place)
print(*(place in cache.library({{key: 1}}, Path.touch).parents for key in ("kept", "new")))
print("Read-only file system" in cache.problem)
"""
    printed = mounted(script, options="size=200k").splitlines()
    assert printed[:4] == ["False 500000 True", "False 42 True", "[]", "False 100000"]
    assert printed[4:] == ["True False", "True"]


def test_a_disk_without_execution_is_not_used(mounted: Callable[..., str]) -> None:
    if os.statvfs(tempfile.gettempdir()).f_flag & os.ST_NOEXEC:
        pytest.skip("nothing in the folder for temporary files can be executed here")
    script = """
import sys
from pathlib import Path
from pinion.native.cache import Cache
place = Path(sys.argv[1]) / "pinion"
cache = Cache(place)
path = cache.library({}, lambda path: path.touch())
print(place in path.parents, "noexec" in cache.problem)
"""
    assert mounted(script, options="noexec") == "False True\n"


def test_a_text_is_made_once(folder: Path) -> None:
    counter = itertools.count()
    text = "τ = M q̈\r\n\n\x00"

    def make() -> str:
        next(counter)
        return text

    assert [Cache(folder).text(KEY, make) for _ in range(3)] == [text] * 3
    (file,) = folder.glob("*.txt")
    file.write_text("spoilt")
    assert Cache(folder).text(KEY, make) == text
    # A library of the same key is a different entry.
    assert Cache(folder).library(KEY, Maker()).read_bytes() == b"library"
    assert next(counter) == 2


def test_a_text_outlives_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.os, "replace", full)
    counter = itertools.count()
    assert Cache(folder).text(KEY, lambda: f"made {next(counter)}") == "made 0"
    assert next(counter) == 1


def test_a_folder_that_vanishes_meanwhile_is_no_error(folder: Path, temporary: Path) -> None:
    def make(path: Path) -> None:
        with _moved(folder):
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"library")

    assert Cache(folder).library(KEY, make).read_bytes() == b"library"


@contextlib.contextmanager
def _moved(folder: Path) -> Iterator[None]:
    if folder.exists():
        folder.rename(folder.with_name("moved"))
    yield


def test_keys_must_be_json(folder: Path) -> None:
    with pytest.raises(TypeError):
        Cache(folder).library({"path": Path("/")}, Maker())
