"""Compilers and headers of the opponents, and errors for missing ones."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / "build" / "opponents"
"""Folder of compiled programs and libraries; git ignores it, and `make clean` removes it."""

PINOCCHIO_DEFINES = (
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
    # Pinocchio asks joints whether they mimic others, even in a collection without mimic joints.
    "-DBOOST_VARIANT_USE_RELAXED_GET_BY_DEFAULT",
)
"""Definitions of Pinocchio's CMake files for users of its headers, and one of ours."""


class MissingToolError(RuntimeError):
    """Error for a tool or package that is missing on this machine; the message names it."""


def compilers(names: Sequence[str]) -> list[str]:
    """Return the names of the compilers that are installed, in order, without aliases."""
    versions: dict[Path, str] = {}
    for name in names:
        path = shutil.which(name)
        if path is not None:
            versions.setdefault(Path(path).resolve(), name)
    return list(versions.values())


def first_compiler(names: Sequence[str], language: str) -> str:
    """Return the first name of an installed compiler, or raise `MissingToolError`."""
    available = compilers(names)
    if not available:
        raise MissingToolError(
            f"No {language} compiler is installed: install one of {', '.join(names)}, "
            "for example with apt-get install g++."
        )
    return available[0]


def compiler_version(name: str) -> str:
    """Return the first line of a compiler's version."""
    completed = subprocess.run([name, "--version"], capture_output=True, text=True, check=True)
    return completed.stdout.splitlines()[0]


def package_folder(package: str) -> Path:
    """Return the folder of an installed package without importing it.

    Errors
    ------
    MissingToolError : if it is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingToolError(
            f"The package {package!r} is not installed: run pip install {package}."
        )
    return Path(spec.origin).parent


def pinocchio_headers() -> Path:
    """Return the folder of the headers in Pinocchio's wheel, which include Boost's.

    Errors
    ------
    MissingToolError : if the wheel is not installed, or it is a build without headers.
    """
    for folder in package_folder("pinocchio").resolve().parents:
        if (folder / "include" / "pinocchio" / "fwd.hpp").is_file():
            return folder / "include"
    raise MissingToolError("The installed Pinocchio has no C++ headers: run pip install pin.")


def eigen_headers() -> Path:
    """Return the folder of Eigen's headers, or raise `MissingToolError`."""
    for folder in (
        "/usr/include/eigen3",
        "/usr/local/include/eigen3",
        "/opt/homebrew/include/eigen3",
    ):
        if (Path(folder) / "Eigen" / "Core").is_file():
            return Path(folder)
    raise MissingToolError("Eigen's headers are not installed: run apt-get install libeigen3-dev.")


def native_flag() -> str:
    """Return the compiler flag for all of this machine's instructions."""
    return "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"


def build_once(
    command: Sequence[str], output: Path, sources: Sequence[Path], *, note: str = ""
) -> Path:
    """Compile, unless done before with the same sources, flags, compiler and CPU; return the path.

    Parameters
    ----------
    command : the compiler, its flags and its source files, without ``-o``.
    output : the program or library; a hash of all its dependencies becomes part of its name.
    sources : files whose content is hashed.
    note : a message for standard error if compiling takes long.
    """
    key_parts = [*command, compiler_version(command[0]), _processor()]
    key_parts += [hashlib.sha256(path.read_bytes()).hexdigest() for path in sources]
    key = hashlib.sha256("\n".join(key_parts).encode()).hexdigest()[:16]
    library = output.with_name(f"{output.stem}-{key}{output.suffix}")
    if not library.exists():
        if note:
            print(note, file=sys.stderr)
        output.parent.mkdir(parents=True, exist_ok=True)
        # Under another name until it is complete: two runs may build it at once.
        part = library.with_name(f"{library.name}.{os.getpid()}.part")
        subprocess.run([*command, "-o", str(part)], check=True)
        part.replace(library)
    return library


def _processor() -> str:
    """Return the CPU's model and flags, which determine ``-march=native``, as text."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))


@contextmanager
def one_core() -> Iterator[None]:
    """Pin this thread and its child processes to one core, the last one allowed."""
    if not hasattr(os, "sched_setaffinity"):  # macOS
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
