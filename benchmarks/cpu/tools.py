"""Compilers and headers that the opponents are built with, and a sentence where one is missing."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / "build" / "opponents"
"""Where programs and libraries are built; git ignores it and `make clean` removes it."""

PINOCCHIO_DEFINES = (
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
)
"""What Pinocchio's own CMake files define for whoever includes its headers."""


class MissingToolError(RuntimeError):
    """A tool or package is not on this machine; the message is one sentence that says which."""


def compilers(names: Sequence[str]) -> list[str]:
    """Those of the names that are programs here, in the given order, one of each real program."""
    found: dict[Path, str] = {}
    for name in names:
        path = shutil.which(name)
        if path is not None:
            found.setdefault(Path(path).resolve(), name)
    return list(found.values())


def first_compiler(names: Sequence[str], language: str) -> str:
    """The first of the names that is a program here.

    Errors
    ------
    MissingToolError : none is.
    """
    found = compilers(names)
    if not found:
        raise MissingToolError(
            f"No {language} compiler is installed: install one of {', '.join(names)}, "
            "for example with apt-get install g++."
        )
    return found[0]


def compiler_version(name: str) -> str:
    """The first line that a compiler says of itself."""
    done = subprocess.run([name, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def package_folder(package: str) -> Path:
    """The folder of an installed package, without importing it.

    Errors
    ------
    MissingToolError : it is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingToolError(f"The package {package!r} is not installed: pip install {package}.")
    return Path(spec.origin).parent


def pinocchio_headers() -> Path:
    """The headers in Pinocchio's wheel, with Boost's beside them.

    Errors
    ------
    MissingToolError : the wheel is not installed, or it is a build without headers.
    """
    for folder in package_folder("pinocchio").resolve().parents:
        if (folder / "include" / "pinocchio" / "fwd.hpp").is_file():
            return folder / "include"
    raise MissingToolError("The installed Pinocchio has no C++ headers: pip install pin.")


def eigen_headers() -> Path:
    """Eigen's headers.

    Errors
    ------
    MissingToolError : they are in none of the usual folders.
    """
    for folder in (
        "/usr/include/eigen3",
        "/usr/local/include/eigen3",
        "/opt/homebrew/include/eigen3",
    ):
        if (Path(folder) / "Eigen" / "Core").is_file():
            return Path(folder)
    raise MissingToolError("Eigen's headers are not installed: apt-get install libeigen3-dev.")
