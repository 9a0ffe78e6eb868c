"""Folders with C libraries: sources for all instruction sets, header, CMake, pkg-config files."""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pinion.base import installation
from pinion.base.escaping import comment, identifier
from pinion.base.places import scratch_beside, settle
from pinion.base.progress import Progress
from pinion.native import ComputeError, InstructionSet, StorageError, find_compiler
from pinion.native.isa import INSTRUCTION_SETS, processor
from pinion.native.toolchain import FLAGS, compile_library

PORTABLE = next(isa for isa in INSTRUCTION_SETS if isa.machine == "any")

# Headers and libraries of C, beginnings of its functions, targets of CMake, the runtime's header.
_RESERVED = (
    *("complex", "ctype", "errno", "fcntl", "limits", "locale", "math", "memory", "sched"),
    *("setjmp", "signal", "stddef", "stdint", "stdio", "stdlib", "string", "time", "unistd"),
    *("c", "dl", "m", "mq", "pthread", "read", "rt", "sem", "shm"),
    *("all", "clean", "help", "install", "test", "abi"),
)

# How the C++ preprocessor and CMake name the architectures of instruction sets.
_MACROS = {"x86_64": "__x86_64__", "aarch64": "__aarch64__"}
_CMAKE = {"x86_64": "^(x86_64|AMD64)$", "aarch64": "^(aarch64|arm64)$"}


def library_name(name: str | None, *parts: str) -> str:
    """Return a valid library name: `name`, or by default the parts joined by underscores.

    Raises
    ------
    ComputeError
        If it is not a C identifier that starts with a letter, or a name of C or CMake.
    """
    text = identifier("_".join(parts)) if name is None else name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", text):
        raise ComputeError(
            f"'{text[:80]}' is not a valid name for a C library: use at most 63 letters, "
            "digits and underscores, starting with a letter."
        )
    if text in _RESERVED:
        raise ComputeError(
            f"'{text}' is reserved by C's headers and libraries or by CMake: choose another name, "
            f"such as robot_{text}."
        )
    return text


def _check_free(folder: Path) -> None:
    """Raise an error if a path exists and is not an empty folder.

    Raises
    ------
    ComputeError
        If it exists and is not an empty folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ComputeError(
            f"'{folder}' exists and is not an empty folder: give the name of a new folder, so "
            "that nothing is overwritten."
        )


def host_sets() -> tuple[InstructionSet, ...]:
    """Return the instruction sets of this machine's architecture, best first."""
    machine, _ = processor()
    return tuple(isa for isa in INSTRUCTION_SETS if isa.machine in (machine, "any"))


@dataclass(frozen=True, kw_only=True)
class LibraryFolder(ABC):
    """A C library with sources that also compile on other machines.

    Members
    -------
    name : of the library, its header and its functions.
    title : a few words on what it computes.
    """

    name: str
    title: str

    @abstractmethod
    def units(self) -> dict[str, InstructionSet]:
        """Return the instruction set of each source file that is specific to one."""

    @abstractmethod
    def sources(self, progress: Progress) -> dict[str, str]:
        """Return the contents of all sources and headers, by file name."""

    @abstractmethod
    def header(self) -> str:
        """Return the library's C header."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """Return the contents of all other files, by path."""

    def export(self, folder: Path, *, compiler: str | None, progress: Progress) -> list[str]:
        """Write the folder, compile the library for this machine, and return the files' paths.

        Raises
        ------
        InputError
            If the folder is not empty or not writable, or the sources do not compile. Nothing is
            left behind.
        """
        _check_free(folder)
        command = find_compiler(compiler)
        with undone_on_failure(folder, "library"), scratch_beside(folder) as scratch:
            work = scratch / "new"
            sources = self.sources(progress)
            self._write(work, sources)
            progress.step("compiling the library")
            other = {file for file, isa in self.units().items() if isa not in host_sets()}
            compile_library(
                {file: text for file, text in sources.items() if file not in other},
                out=work / "lib" / f"lib{self.name}.so",
                compiler=command,
                isa=PORTABLE,
                include=(work / "include",),
                unit_flags={file: isa.flags for file, isa in self.units().items()},
                extra_flags=("-fvisibility=hidden",),
            )
            files = sorted(str(p.relative_to(work)) for p in work.rglob("*") if p.is_file())
            settle(work, folder)
        return files

    def _write(self, folder: Path, sources: Mapping[str, str]) -> None:
        """Write everything except the compiled library into a new folder."""
        for part in ("include", "src", "lib/pkgconfig"):
            (folder / part).mkdir(parents=True)
        for file, text in sources.items():
            (folder / "src" / file).write_text(text)
        (folder / "include" / f"{self.name}.h").write_text(self.header())
        (folder / "CMakeLists.txt").write_text(self._cmake())
        (folder / "lib/pkgconfig" / f"{self.name}.pc").write_text(self._pkg_config())
        for file, data in self.files().items():
            (folder / file).write_bytes(data)

    def machine(self, rows: Mapping[str, str]) -> str:
        """Return the C++ function ``machine()``, which selects the best supported instruction set.

        ``rows`` has the initialiser of each set's ``Machine``.
        """
        lines = []
        for isa in INSTRUCTION_SETS:
            tests = [f'__builtin_cpu_supports("{f}")' for f in sorted(isa.features)]
            condition = f"if ({' && '.join(tests)}) " if tests else ""
            text = (
                f"  static const Machine {isa.name} = {rows[isa.name]};\n"
                f"  {condition}return {isa.name};"
            )
            macro = _MACROS.get(isa.machine)
            lines.append(f"#if defined({macro})\n{text}\n#endif" if macro else text)
        body = "\n".join(lines)
        return f"const Machine &machine() {{\n{body}\n}}"

    def description(self) -> str:
        """Return paragraphs for a README: how to link the library, and where it runs."""
        return f"""\
With pkg-config: `PKG_CONFIG_PATH=lib/pkgconfig pkg-config --cflags --libs {self.name}`. With CMake:
`add_subdirectory` of this folder compiles the sources, also for another machine; link your program
with `{self.name}`. The library in `lib` was compiled for {processor()[0]}; at run time it chooses
among {", ".join(isa.name for isa in host_sets())}.
"""

    def _cmake(self) -> str:
        units = self.units()
        options = "\n".join(
            f"set_source_files_properties(src/{file} PROPERTIES COMPILE_OPTIONS "
            f'"{";".join(isa.flags)}")'
            for file, isa in units.items()
            if isa.flags
        )
        common = " ".join(
            flag for flag in FLAGS if flag not in ("-shared", "-fPIC") and "-std" not in flag
        )

        def listed(machine: str) -> str:
            return "\n".join(
                f"  src/{file}" for file, isa in units.items() if isa.machine == machine
            )

        return f"""\
# add_subdirectory(this folder), then target_link_libraries(yours {self.name}).
cmake_minimum_required(VERSION 3.13)
project({self.name} CXX)
find_package(Threads REQUIRED)

set({self.name}_sources
  src/{self.name}.cpp
{listed("any")})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "{_CMAKE["x86_64"]}")
  list(APPEND {self.name}_sources
{listed("x86_64")})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "{_CMAKE["aarch64"]}")
  list(APPEND {self.name}_sources
{listed("aarch64")})
endif()
add_library({self.name} SHARED ${{{self.name}_sources}})
{options}
target_include_directories({self.name} PUBLIC include PRIVATE src)
target_compile_features({self.name} PRIVATE cxx_std_17)
target_compile_options({self.name} PRIVATE {common} -fvisibility=hidden)
target_link_libraries({self.name} PRIVATE Threads::Threads)
"""

    def _pkg_config(self) -> str:
        return f"""\
prefix=${{pcfiledir}}/../..
Name: {self.name}
Description: {comment(self.title)}
Version: {installation.version().split("+")[0]}
Cflags: -I${{prefix}}/include
Libs: -L${{prefix}}/lib -l{self.name}
"""


@contextlib.contextmanager
def undone_on_failure(folder: Path, kind: str) -> Iterator[None]:
    """Remove the folders made for an export that fails; report a failed write as an error.

    Raises
    ------
    StorageError
        If the export fails with an `OSError`.
    """
    new = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        yield
    except BaseException as error:
        for parent in new:
            with contextlib.suppress(OSError):  # it has other files, or was never made
                parent.rmdir()
        if not isinstance(error, OSError):
            raise
        reason = error.strerror or str(error)
        raise StorageError(
            f"The {kind} cannot be written to '{folder}' ({reason}): check that the folder is "
            "writable and its disk has space, or choose another folder.",
            reason=reason,
        ) from error
