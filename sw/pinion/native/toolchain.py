"""The machine's C++ compiler: finding it and compiling shared libraries."""

from __future__ import annotations

import _thread
import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from .errors import ComputeError, StorageError
from .isa import InstructionSet

__all__ = ["FLAGS", "Compiler", "compile_library", "find_compiler"]

Family = Literal["gcc", "clang", "zig"]

FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fPIC")
"""Flags of every compilation: products are fused only where a kernel says so."""

TIMEOUT = 1200.0
"""Seconds after which a compiler counts as hanging; the largest kernels take minutes."""

# By default zig compiles for the processor that it runs on, and checks for undefined behaviour at
# -O0.
_ZIG = ("-mcpu=baseline", "-fno-sanitize=undefined")

# Zig builds its own copies of libc++ and compiler-rt before it links with them, which takes more
# than a minute, but kernels need only libc, which is loaded already.
_ZIG_LINK = ("-shared", "-nostdlib")

_HEADERS = (".h", ".hpp", ".inc")

# Messages of compilers and linkers on a full disk; gold and lld, which write through a memory map,
# die of a bus error.
_NO_ROOM = re.compile(
    "No space left on device|Disk quota exceeded|Read-only file system|File too large"
    "|[Ff]ile size limit exceeded|Bus error"
)

_LOG_BYTES = 4_000_000  # of a compiler's output searched for the first error
_PIPE_BYTES = 1 << 20  # at least a pipe's capacity


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A C++ compiler of this machine: its command, the flags it accepts, and its identity.

    Members
    -------
    command : words of its command line.
    family : family of compilers, which determines the flags.
    identity : file, size and time of the compiler, for cache keys. A wrapper such as ccache or
        Apple's ``/usr/bin/c++`` hides a change of the compiler behind it; libraries of the older
        one then stay in use, which is correct.
    """

    command: tuple[str, ...]
    family: Family
    identity: str

    @cached_property
    def version(self) -> str:
        """First line of the compiler's version output, for reports; runs the compiler."""
        lines = _version_text(self.command).splitlines()
        return lines[0].strip() if lines else "unknown version"

    def __str__(self) -> str:
        return shlex.join(self.command)


def find_compiler(choice: str | None = None) -> Compiler:
    """Find the compiler of this machine: c++, g++ or clang++ on the search path, or zig.

    Takes 0.2 ms and starts no process, except for a compiler with an uncommon name.

    Parameters
    ----------
    choice : the user's compiler: a name on the search path, a path, or a command with arguments
        such as ``ccache g++``; ``zig`` is also found as the Python package ``ziglang``.

    Raises
    ------
    ComputeError
        If there is no compiler.
    """
    if choice is not None:
        return _chosen(choice)
    for name in ("c++", "g++", "clang++"):
        path = shutil.which(name)
        if path is not None:
            return _compiler((path,))
    zig = _zig()
    if zig is not None:
        return _compiler((zig, "c++"))
    raise ComputeError(
        "There is no C++ compiler (c++, g++, clang++ or zig) on the search path: install one, for "
        "example with `apt-get install g++`, `xcode-select --install` or `pip install ziglang`."
    )


# Many parameters: those of a compiler's command line.
def compile_library(
    sources: Mapping[str, str],
    *,
    out: Path,
    compiler: Compiler,
    isa: InstructionSet,
    include: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
    extra_flags: Sequence[str] = (),
    unit_flags: Mapping[str, Sequence[str]] | None = None,
    jobs: int | None = None,
    timeout: float = TIMEOUT,
) -> None:
    """Compile C++17 sources into a shared library.

    Intermediate files are in a temporary folder beside ``out``, which is removed in any case, as
    are all processes, even after an exception such as a KeyboardInterrupt. ``out`` is written last,
    atomically.

    Parameters
    ----------
    sources : contents by file name; headers (.h, .hpp, .inc) can be included by the others.
    out : the library, in an existing folder.
    include : folders of other headers.
    defines : macros by name; an empty string defines just the name.
    extra_flags : appended last, so that they take precedence.
    unit_flags : appended after those for the sources of these names.
    jobs : number of parallel compilers; by default the number of this process's CPUs.
    timeout : seconds for everything.

    Raises
    ------
    ComputeError
        If the compiler refuses a source, crashes or takes too long.
    StorageError
        If there is no room for its files, or no permission to write them.
    ValueError
        If there is no source, or a name is not a plain file name.
    """
    units = [name for name in sources if Path(name).suffix not in _HEADERS]
    if not units:
        raise ValueError("There is no source to compile: give at least one .cpp file.")
    strange = [name for name in sources if Path(name).name != name or name.startswith((".", "-"))]
    if strange:
        raise ValueError(
            f"{strange[0]!r} is not a plain file name: use names such as 'kernel.cpp'."
        )
    out = Path(os.path.abspath(out))
    macros = [f"-D{name}={text}" if text else f"-D{name}" for name, text in (defines or {}).items()]
    folders = [f"-I{os.path.abspath(folder)}" for folder in include]
    family_flags = _ZIG if compiler.family == "zig" else ()
    flags = [*FLAGS, *family_flags, *isa.flags, *macros, *folders, *extra_flags]
    # Largest first, so that no long one is left for the end.
    units.sort(key=lambda name: len(sources[name]), reverse=True)
    deadline = time.monotonic() + timeout

    def work(signs: _Signs) -> None:
        with tempfile.TemporaryDirectory(
            dir=out.parent, prefix=".compile-", ignore_cleanup_errors=True
        ) as scratch:
            folder = Path(scratch)
            for name, text in sources.items():
                (folder / name).write_text(text, encoding="utf-8")
            run = _Run(compiler=compiler, folder=folder, deadline=deadline, signs=signs)
            library = run.library(
                {unit: (*flags, *(unit_flags or {}).get(unit, ())) for unit in units},
                jobs=_processors() if jobs is None else jobs,
            )
            if not signs.stop:
                os.replace(library, out)

    try:
        _undisturbed(work)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"No library can be compiled in '{out.parent}' ({reason}): check that it is a "
            "writable folder with free space, or choose another one.",
            reason=reason,
        ) from error


@dataclass(frozen=True, kw_only=True)
class _Run:
    """Runs of one compiler in one folder, each in a separate process group.

    Members
    -------
    signs : their ``stop`` ends all runs without a result.
    """

    compiler: Compiler
    folder: Path
    deadline: float
    signs: _Signs

    def library(self, units: Mapping[str, Sequence[str]], *, jobs: int) -> Path:
        """Compile sources, at most ``jobs`` at a time, and link them; return the library's path."""
        path = self.folder / "library.so"
        link = [*_link_flags(self.compiler), "-o", path.name]
        if len(units) == 1 and self.compiler.family != "zig":
            ((unit, flags),) = units.items()
            self._all([(unit, [*flags, *link, unit])], jobs=1)
        else:
            objects = [f"{number}.o" for number in range(len(units))]
            self._all(
                [
                    (unit, [*flags, "-c", "-o", target, unit])
                    for (unit, flags), target in zip(units.items(), objects, strict=True)
                ],
                jobs=jobs,
            )
            self._all([("the library", [*link, *objects])], jobs=1)
        if not path.is_file() and not self.signs.stop:
            raise ComputeError(
                f"The compiler '{self.compiler}' reported success but wrote no library: "
                "check that it is a C++ compiler, or choose another one."
            )
        return path

    def _all(self, commands: Sequence[tuple[str, Sequence[str]]], *, jobs: int) -> None:
        """Run the compiler for each pair of name and arguments, at most ``jobs`` at a time."""
        waiting = list(commands)[::-1]
        running: dict[subprocess.Popen[bytes], tuple[str, bytearray]] = {}
        pause = 0.001
        try:
            while (waiting or running) and not self.signs.stop:
                while waiting and len(running) < max(jobs, 1):
                    name, arguments = waiting.pop()
                    running[self._start(arguments)] = (name, bytearray())
                ended = [process for process in running if process.poll() is not None]
                busy = [process for process, (_, log) in running.items() if _read(process, log)]
                for process in ended:
                    name, log = running.pop(process)
                    _close(process)
                    if process.returncode < 0:
                        _stop(process)  # a killed compiler leaves its child processes
                    if process.returncode != 0:
                        text = log.decode(errors="replace")
                        raise self._refusal(name, text, status=process.returncode)
                if ended:
                    continue
                if time.monotonic() > self.deadline:
                    name = next(iter(running.values()))[0]
                    raise ComputeError(
                        f"The compiler '{self.compiler}' did not finish {name} in time and was "
                        "stopped: try again when the machine is less busy, or choose another one."
                    )
                if not busy:
                    time.sleep(pause)
                    pause = min(1.5 * pause, 0.01)
        finally:
            left = [process for process in running if process.returncode is None]
            for process in left:
                _stop(process)
            for process in left:
                process.wait()
            for process in running:
                _close(process)

    def _start(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        cache = str(self.folder / "zig-cache")
        environment = {
            **os.environ,
            "LC_ALL": "C",  # the search for errors needs English messages
            "TMPDIR": str(self.folder),
            "ZIG_GLOBAL_CACHE_DIR": cache,
            "ZIG_LOCAL_CACHE_DIR": cache,
        }
        try:
            process = subprocess.Popen(
                [*self.compiler.command, *arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                # Not a file, which a full disk would leave empty.
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal reaches only this process, which stops the whole group.
                start_new_session=True,
            )
        except OSError as error:
            raise ComputeError(
                f"The compiler '{self.compiler}' cannot be started ({error.strerror}): choose "
                "another one."
            ) from error
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        return process

    def _refusal(self, name: str, log: str, *, status: int) -> ComputeError:
        reason = _reason(log, status=status)
        no_room = _NO_ROOM.search(log)
        if no_room is not None:
            return StorageError(
                f"The compiler '{self.compiler}' could not write its files in "
                f"'{self.folder.parent}' ({no_room[0]}): free space there, or use another folder.",
                reason=no_room[0],
            )
        if status < 0 or "terminated program" in log:
            return ComputeError(
                f"The compiler '{self.compiler}' crashed on {name} ({reason}): check that it has "
                "enough memory, or choose another one."
            )
        return ComputeError(
            f"The compiler '{self.compiler}' failed on {name} ({reason}): choose another one, such "
            "as g++ 11 or clang++ 14 or newer."
        )


class _Signs:
    """Flags shared by a worker thread and the thread that waits for it; each is set once."""

    go = stop = finished = False
    raised: BaseException | None = None


def _undisturbed(work: Callable[[_Signs], None]) -> None:
    """Run work in a separate thread, out of reach of KeyboardInterrupt.

    In the main thread an interrupt between the start of a process and the line that stores it would
    leave the process running. An interrupt while the main thread waits here sets ``stop``, which
    makes ``work`` end, and continues afterwards.

    An interrupt may leave Python's objects with locks (Event, Condition, Thread.start) locked for
    ever, so this uses plain values and one lock that only shortens a wait.
    """
    signs = _Signs()
    bell = _thread.allocate_lock()
    bell.acquire()

    def body() -> None:
        while not signs.go and not signs.stop:
            time.sleep(0.0005)
        try:
            if not signs.stop:
                work(signs)
        except BaseException as error:
            signs.raised = error
        finally:
            signs.finished = True
            bell.release()

    try:
        # An interrupt here may leave a thread, which does nothing without a signal.
        _thread.start_new_thread(body, ())
        signs.go = True
        while not signs.finished:
            bell.acquire(timeout=0.05)
    finally:
        signs.stop = True
        while signs.go and not signs.finished:
            bell.acquire(timeout=0.05)
    error, signs.raised = signs.raised, None
    try:
        if error is not None:
            raise error
    finally:
        del error  # breaks its reference cycle with the traceback


def _chosen(choice: str) -> Compiler:
    """Return the compiler that the user chose."""
    try:
        words = [choice] if shutil.which(choice) else shlex.split(choice)
    except ValueError:  # an unmatched quotation mark
        words = [choice]
    if not words:
        raise ComputeError("The compiler's name is empty: give a name such as g++ or clang++.")
    if words == ["zig"]:
        zig = _zig()
        if zig is None:
            raise ComputeError(
                "There is no compiler 'zig' on the search path: install it, for example with "
                "`pip install ziglang`, or choose g++ or clang++."
            )
        return _compiler((zig, "c++"))
    path = shutil.which(words[0])
    if path is None:
        raise ComputeError(
            f"There is no executable '{words[0]}': give the path of a C++ compiler, or the name of "
            "one on the search path, such as g++, clang++ or zig."
        )
    return _compiler((path, *words[1:]))


def _zig() -> str | None:
    """Return the path of zig, on the search path or in the package ``ziglang``, or None."""
    path = shutil.which("zig")
    if path is not None:
        return path
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        return None
    binary = Path(package.origin).with_name("zig")
    return str(binary) if os.access(binary, os.X_OK) else None


def _compiler(command: tuple[str, ...]) -> Compiler:
    # Absolute, since it runs in another folder; not resolved, since ccache depends on its name.
    command = (os.path.abspath(command[0]), *command[1:])
    family = _family(command)
    # All words, since in `ccache g++` the compiler is the second; zig's second is not a command.
    words = command[:1] if family == "zig" else command
    files = (os.path.realpath(shutil.which(word) or "") for word in words)
    stamps = [_stamp(Path(file)) for file in files if os.path.isfile(file)]
    identity = "; ".join([shlex.join(command), *stamps])
    return Compiler(command=command, family=family, identity=identity)


def _stamp(file: Path) -> str:
    status = file.stat()
    return f"{file} {status.st_size} {status.st_mtime_ns}"


def _family(command: tuple[str, ...]) -> Family:
    """Return a compiler's family by its name or by its link's target, such as g++-12 for c++."""
    if "zig" in (Path(command[0]).name, Path(os.path.realpath(command[0])).name):
        return "zig"
    apple = sys.platform == "darwin" and command[0].startswith("/usr/bin/")
    for name in (Path(command[0]).name, Path(os.path.realpath(command[0])).name):
        if "clang" in name or (apple and name in ("c++", "g++")):
            return "clang"
        if re.search(r"(^|-)g\+\+(-[\d.]+)?$", name):
            return "gcc"
    return "clang" if "clang" in _version_text(command).lower() else "gcc"


def _version_text(command: tuple[str, ...]) -> str:
    # `zig c++ --version` prints clang's version.
    zig = Path(os.path.realpath(command[0])).name == "zig"
    version_command = (command[0], "version") if zig else (*command, "--version")
    try:
        completed = subprocess.run(
            version_command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20.0,
            check=True,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ("zig " if zig else "") + completed.stdout.decode(errors="replace")


def _link_flags(compiler: Compiler) -> tuple[str, ...]:
    if compiler.family == "zig":
        return _ZIG_LINK
    # C++ compilers link with the C++ standard library, which no kernel needs: loading it takes
    # longer than loading a kernel, and it may differ from the one already loaded. A closed library
    # stays loaded, since threads of its pool may be sleeping in it.
    linux = ("-shared", "-Wl,--as-needed", "-Wl,-z,nodelete")
    return linux if sys.platform == "linux" else ("-shared",)


def _processors() -> int:
    """Return the number of CPUs that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and everything it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _read(process: subprocess.Popen[bytes], log: bytearray) -> bool:
    """Append a process's new output, at most a pipe's content; return whether there was any."""
    size = 0
    with contextlib.suppress(BlockingIOError):
        assert process.stdout is not None
        while size < _PIPE_BYTES and (part := os.read(process.stdout.fileno(), 1 << 16)):
            size += len(part)
            log += part[: max(_LOG_BYTES - len(log), 0)]
    return size > 0


def _close(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.stdout.close()


def _reason(log: str, *, status: int) -> str:
    """Return the first error in a compiler's output, or how the compiler ended."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    if status < 0:
        return _signal(-status)
    # The message of g++ on a failed linker follows the linker's own.
    errors = [line for line in lines if "error:" in line and "ld returned" not in line]
    errors += [line for line in lines if "undefined" in line]
    reason = (errors or lines or [f"exit status {status}"])[0]
    return reason if len(reason) <= 300 else f"{reason[:297]}..."


def _signal(number: int) -> str:
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"killed by signal {number}"
