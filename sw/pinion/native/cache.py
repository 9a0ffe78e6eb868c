"""A cache of compiled files by key, safe to share between processes.

A file is written under another name and renamed, and a metadata file has its size and checksum, so
no process uses a half-written one. A lock per key lets one process compile while the others wait;
the operating system releases the lock of a process that dies. If the folder cannot be used, a
private one replaces it until the process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pwd
import shutil
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import ComputeError, StorageError

__all__ = ["Cache", "default_folder"]

FORMAT = 1
"""Version of keys, names and metadata; entries of other versions are not found."""

WAIT = 1500.0
"""Seconds to wait for another process that makes the same entry: longer than any compilation."""

SCRATCH = "making-"
"""Prefix of folders for entries in preparation."""

# Seconds until leftovers of a killed process and unused entries are removed, and until the time of
# an entry in use is updated.
ABANDONED = 3600.0
UNUSED = 90 * 86400.0
TOUCHED = 86400.0

MOST = 4 << 30
"""Largest total size of a folder in bytes; the least recently used entries are removed."""

_METADATA, _LOCK = ".json", ".lock"

# On a file system without locks two processes may make the same entry; either is correct.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

# Errors of the folder; other errors come from making the entry.
_NO_PLACE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS),
    *(errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE),
)


def default_folder(environment: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    """Return Pinion's folder in the user's cache folder; it need not exist.

    Parameters
    ----------
    environment : variables of the process; ``XDG_CACHE_HOME`` and ``HOME`` are read.
    platform : as ``sys.platform``.
    """
    home = environment.get("HOME", "")
    if not os.path.isabs(home):
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:  # a container's user without an entry
            return Path(tempfile.gettempdir()) / f"pinion-{os.getuid()}"
    if platform == "darwin":
        return Path(home, "Library/Caches/pinion")
    # The specification says to ignore a relative path.
    xdg = environment.get("XDG_CACHE_HOME", "")
    return Path(xdg if os.path.isabs(xdg) else Path(home, ".cache")) / "pinion"


class Cache:
    """A folder of compiled files, each found by its key.

    Any number of processes and threads may share the folder, and threads may share an instance. Its
    libraries run as the user, so nobody else may write to the folder.

    Parameters
    ----------
    folder : created for the user alone when it is first needed. If it cannot be used (full disk, no
        permission, another owner, mounted without execution), a temporary folder is used from then
        on, which is removed when the process ends; `problem` says why.
    wait : seconds to wait for another process that makes the same entry.
    """

    def __init__(self, folder: Path, *, wait: float = WAIT) -> None:
        self.folder = Path(os.path.abspath(folder))
        self.wait = wait
        self._private: Path | None = None
        self._problem = ""

    @property
    def problem(self) -> str:
        """Reason for using a temporary folder, as a sentence; empty while `folder` works."""
        return self._problem

    @property
    def lifetime(self) -> str:
        """How long new entries last, as the end of a sentence."""
        return "it lasts for this process only" if self._problem else "it is kept for later"

    def library(self, key: Mapping[str, Any], make: Callable[[Path], None]) -> Path:
        """Return the path of the shared library for a key, creating it if it is missing or damaged.

        An existing library of 100 kB takes 0.2 ms.

        Parameters
        ----------
        key : everything that the library depends on, as JSON.
        make : writes the library to a path, in an empty folder that it may use.

        Raises
        ------
        StorageError
            If neither the folder nor a temporary one can hold it.
        ComputeError
            If another process has been making it for longer than ``wait``.
        Exception
            Any error of ``make``; nothing is kept then. After a StorageError or an OSError such as
            ENOSPC it is called again for a temporary folder.
        """
        return self._entry(key, make, suffix=".so")

    def holds_library(self, key: Mapping[str, Any]) -> bool:
        """Return whether the folder has an intact shared library for a key."""
        return _is_ours(self.folder) and _intact(self.folder / _name(key, ".so")[0])

    def text(self, key: Mapping[str, Any], make: Callable[[], str]) -> str:
        """Return the text stored for a key, creating it if it is missing or damaged.

        If no folder can hold it, it is made and returned all the same. Parameters and errors are
        those of `library`.
        """
        return self._contents(key, lambda: make().encode(), suffix=".txt").decode()

    def data(self, key: Mapping[str, Any], make: Callable[[], bytes]) -> bytes:
        """Return the bytes stored for a key, creating them as `text` does."""
        return self._contents(key, make, suffix=".bin")

    def _contents(self, key: Mapping[str, Any], make: Callable[[], bytes], *, suffix: str) -> bytes:
        contents: list[bytes] = []

        def write(path: Path) -> None:
            if not contents:
                contents.append(make())
            path.write_bytes(contents[0])

        try:
            content = self._entry(key, write, suffix=suffix).read_bytes()
        except (OSError, StorageError):
            if not contents:
                contents.append(make())
        return contents[0] if contents else content

    def _entry(self, key: Mapping[str, Any], make: Callable[[Path], None], *, suffix: str) -> Path:
        name, content = _name(key, suffix)
        write_errors: list[OSError] = []

        def watched(path: Path) -> None:
            try:
                make(path)
            except OSError as error:
                if error.errno not in _NO_PLACE:
                    write_errors.append(error)
                raise

        if self._private is None:
            try:
                return _obtain(self.folder, name, content=content, make=watched, wait=self.wait)
            except (OSError, StorageError) as error:
                if error in write_errors:
                    raise
                self._problem = (
                    f"Compiled code lasts for this process only, since the cache folder "
                    f"'{self.folder}' cannot be used ({_reason(error)}): correct that, or choose "
                    "another folder."
                )
                self._private = _private_folder(self.folder, error)
        elif _is_ours(self.folder) and _intact(self.folder / name):
            return self.folder / name
        try:
            return _obtain(self._private, name, content=content, make=watched, wait=self.wait)
        except (OSError, StorageError) as error:
            if error in write_errors:
                raise
            raise StorageError(
                f"Compiled code can be stored neither in '{self.folder}' nor in "
                f"'{self._private}' ({_reason(error)}): free some space there, or choose another "
                "cache folder.",
                reason=_reason(error),
            ) from error


def _name(key: Mapping[str, Any], suffix: str) -> tuple[str, dict[str, Any]]:
    """Return the file name of a key, and the content of its metadata."""
    content = {"format": FORMAT, "kind": suffix, "key": dict(key)}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest() + suffix, content


def _obtain(
    folder: Path, name: str, *, content: object, make: Callable[[Path], None], wait: float
) -> Path:
    """Return the path of a file by name, creating it unless it is intact."""
    target = folder / name
    if _is_ours(folder) and _intact(target):
        return target
    _prepare(folder)
    with _locked(folder / (name + _LOCK), wait=wait):
        # Another process may have made it while this one waited.
        if not _intact(target):
            _sweep(folder)
            _make(target, content=content, make=make)
    return target


def _make(target: Path, *, content: object, make: Callable[[Path], None]) -> None:
    """Create a file and its metadata, and move both into place when they are complete."""
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=SCRATCH))
    try:
        fresh = scratch / target.name
        make(fresh)
        data = fresh.read_bytes()
        note = {
            "size": len(data),
            "crc32": zlib.crc32(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "content": content,
        }
        beside = scratch / (target.name + _METADATA)
        beside.write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
        for path in (fresh, beside):
            path.chmod(0o600)
            _flush(path)
        # A process that dies between the two leaves a mismatched pair, which is made again.
        os.replace(fresh, target)
        os.replace(beside, _beside(target))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _intact(target: Path) -> bool:
    """Return whether a file exists, belongs to the user and is unchanged.

    CRC-32 detects truncation and bit errors as well as SHA-256 would, in a tenth of the time
    (0.03 ms for 100 kB, 1.3 ms for 4 MB). Neither protects against those who may write here.
    """
    try:
        note = json.loads(_read(_beside(target)))
        size, checksum = note["size"], note["crc32"]
        if os.stat(target).st_size != size or zlib.crc32(_read(target)) != checksum:
            return False
        # Keeps entries in use from being swept.
        if time.time() - _beside(target).stat().st_mtime > TOUCHED:
            with contextlib.suppress(OSError):
                os.utime(_beside(target))
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def _read(path: Path) -> bytes:
    """Read a file; raise PermissionError unless it is regular and belongs to the user."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, "not a file of this user", str(path))
        return file.read()


def _beside(target: Path) -> Path:
    return target.with_name(target.name + _METADATA)


def _is_ours(folder: Path) -> bool:
    """Return whether a folder exists, belongs to the user and is writable by nobody else."""
    try:
        status = folder.stat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _prepare(folder: Path) -> None:
    """Create the folder, or check that it is a safe place for libraries.

    Raises
    ------
    OSError
        If it is not; its text says why.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was faster
            path.mkdir(mode=0o700)
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(folder))
    if status.st_uid != os.geteuid():
        # That user could put a library there that would run as us.
        raise PermissionError(errno.EPERM, f"it belongs to user {status.st_uid}", str(folder))
    if not _is_ours(folder):
        # Files that others wrote before belong to them and are not used.
        folder.chmod(stat.S_IMODE(status.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
        if not _is_ours(folder):
            raise PermissionError(errno.EPERM, "others can write to it", str(folder))
    _check_executable(folder)


def _check_executable(folder: Path) -> None:
    """Raise PermissionError if no library can be loaded from a folder."""
    if sys.platform == "linux" and os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise PermissionError(errno.EPERM, "it is mounted with noexec", str(folder))


def _private_folder(instead_of: Path, reason: Exception) -> Path:
    """Create a temporary folder, which is removed when the process ends."""
    places = tuple(dict.fromkeys((_temporary(), "/var/tmp", "/dev/shm")))
    for place in places:
        try:
            folder = Path(tempfile.mkdtemp(prefix="pinion-cache-", dir=place))
        except OSError:
            continue
        # A forked child runs the handler as well, but must not remove its parent's folder.
        atexit.register(_remove, folder, owner=os.getpid())
        try:
            _check_executable(folder)
        except OSError:
            _remove(folder, owner=os.getpid())
            continue
        return folder
    raise StorageError(
        f"The cache folder '{instead_of}' cannot be used ({_reason(reason)}), nor can a temporary "
        f"folder in {', '.join(map(repr, places))}: choose another cache folder.",
        reason=_reason(reason),
    ) from reason


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:  # nothing can be written anywhere
        return "/tmp"


def _remove(folder: Path, *, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path, *, wait: float) -> Iterator[None]:
    """Hold a file lock that excludes all other processes and threads.

    The holder removes the file. A waiter that gets the lock of a removed file tries again with the
    file that has the name now.
    """
    deadline = time.monotonic() + wait
    pause = 0.002
    while (handle := _try_lock(path)) is None:
        if time.monotonic() > deadline:
            raise ComputeError(
                f"{_holder(path)} has been compiling the same code for more than {wait:g} s: wait "
                f"for it or end it, or choose a cache folder other than '{path.parent}'."
            )
        time.sleep(pause)
        pause = min(1.5 * pause, 0.05)
    try:
        with contextlib.suppress(OSError):  # only informs others, and there may be no room
            os.truncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        _unlock(path, handle)


def _try_lock(path: Path) -> int | None:
    """Open and lock a file; return None while another process or thread holds the lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            os.close(handle)
            raise
    if _has_name(path, handle):
        return handle
    os.close(handle)
    return None


def _unlock(path: Path, handle: int) -> None:
    with contextlib.suppress(OSError):
        if _has_name(path, handle):
            path.unlink()
        # Closing alone would leave it locked if a child forked meanwhile has the file open.
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def _has_name(path: Path, handle: int) -> bool:
    """Return whether a path still refers to the open file of a handle."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _holder(path: Path) -> str:
    """Return the holder of a lock, as the beginning of a sentence."""
    try:
        number = path.read_text(errors="replace").strip()
    except OSError:
        number = ""
    return f"Process {number}" if number.isdecimal() else "Another process"


def _sweep(folder: Path) -> None:
    """Remove leftovers of killed processes, entries unused for months, and excess entries."""
    now = time.time()
    libraries: list[tuple[float, int, Path]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                age = now - entry.stat(follow_symlinks=False).st_mtime
                path = folder / entry.name
                if entry.name.startswith(SCRATCH) and age > ABANDONED:
                    shutil.rmtree(path, ignore_errors=True)
                elif entry.name.endswith(_LOCK) and age > ABANDONED:
                    handle = _try_lock(path)
                    if handle is not None:
                        _unlock(path, handle)
                elif entry.name.endswith(_METADATA) and age > UNUSED:
                    _forget(path)
                elif entry.name.endswith(_METADATA):
                    libraries.append((age, _target(path).stat().st_size, path))
    room = MOST
    for _, size, path in sorted(libraries):
        room -= size
        if room < 0:
            with contextlib.suppress(OSError):
                _forget(path)


def _target(beside: Path) -> Path:
    """Return the path of the file that a metadata file describes."""
    return beside.with_name(beside.name.removesuffix(_METADATA))


def _forget(beside: Path) -> None:
    """Remove a file and its metadata."""
    _target(beside).unlink(missing_ok=True)
    beside.unlink()


def _flush(path: Path) -> None:
    """Flush a file to the disk, so that a power cut cannot leave a name without content."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _reason(error: Exception) -> str:
    """Return the cause of an error in a few words."""
    if isinstance(error, StorageError):
        return error.reason
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
