"""Export of a function as a C library with header and sources, independent of Python."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from pinion.base import installation
from pinion.base.escaping import comment, identifier, markdown
from pinion.base.places import scratch_beside, settle
from pinion.base.progress import SILENT, Progress
from pinion.functions import Block, Function
from pinion.native import Compiler, ComputeError, InstructionSet, StorageError, find_compiler
from pinion.native.isa import INSTRUCTION_SETS, processor
from pinion.native.toolchain import FLAGS, compile_library
from pinion.robot import Model
from pinion.robot.c_names import c_names

from . import cpu
from .native import HEADERS

__all__ = ["export_library"]

_TAKEN = (
    *("n", "threads", "in", "out", "machine", "machines", "Machine"),
    *("N", "answer", "main", "printf", "fprintf"),
)
"""Names that the generated functions and the example use."""

# C type and suffix of each dtype.
_TYPES = {"float32": ("float", "f32"), "float64": ("double", "f64")}

_RUNTIME = (
    "abi.h",
    "vec.hpp",
    "sincos.hpp",
    "kernel.hpp",
    "transpose.hpp",
    "batch.hpp",
    "pool.hpp",
    "scratch.hpp",
)


def export_library(
    model: Model,
    function: Function,
    folder: Path,
    *,
    name: str | None = None,
    dtypes: Sequence[str] = ("float32", "float64"),
    compiler: str | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Write a folder with a C library for a function of a robot.

    The folder contains ``include/NAME.h``, ``lib/libNAME.so`` for this machine's architecture (the
    instruction set is chosen at run time), ``lib/pkgconfig/NAME.pc``, the sources in ``src``, a
    ``CMakeLists.txt`` that compiles them anywhere, ``example.c`` and ``README.md``.

    Parameters
    ----------
    folder : created; it must not exist, or be empty.
    name : name of the library and its functions; by default robot and function.
    dtypes : number types, each with separate functions.
    compiler : as for :func:`pinion.compute.cpu.compile`.
    progress : receives each step.

    Returns
    -------
    Name, files and instruction sets, for reports.

    Raises
    ------
    InputError
        If the folder is not empty or not writable, the name is not a valid C name, or the function
        does not compile. Nothing is left behind.
    """
    library_name = identifier(f"{model.name}_{function.name}") if name is None else name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", library_name):
        raise ComputeError(
            f"'{library_name[:80]}' is not a valid name for a C library: use at most 63 letters, "
            "digits and underscores, starting with a letter."
        )
    unknown = [dtype for dtype in dtypes if dtype not in _TYPES]
    if unknown or not dtypes:
        fault = f"Unknown dtype '{unknown[0]}'" if unknown else "No dtype is given"
        raise ComputeError(f"{fault}: choose from {', '.join(_TYPES)}.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ComputeError(
            f"'{folder}' exists and is not an empty folder: give the name of a new folder, so "
            "that nothing is overwritten."
        )
    command = find_compiler(compiler)
    machine, _ = processor()
    sets = [isa for isa in INSTRUCTION_SETS if isa.machine in (machine, "any")]
    inputs, results = (
        [b.resolved(model) for b in blocks] for blocks in (function.inputs, function.results)
    )
    free = c_names([b.name for b in (*inputs, *results)], _TAKEN)
    named = [replace(b, name=name) for b, name in zip((*inputs, *results), free, strict=True)]
    library = _Library(
        name=library_name,
        title=f"{function.name} of {model.name}",
        doc=function.doc,
        inputs=tuple(named[: len(inputs)]),
        results=tuple(named[len(inputs) :]),
        dtypes=tuple(dtypes),
        sets=tuple(sets),
    )
    with undone_on_failure(folder, "library"), scratch_beside(folder) as scratch:
        work = scratch / "new"
        sources = library.sources(model, function, progress)
        library.write(work, sources)
        progress.step("compiling the library")
        library.compile(work, sources, command)
        files = sorted(str(p.relative_to(work)) for p in work.rglob("*") if p.is_file())
        settle(work, folder)
    return {
        "name": library_name,
        "files": files,
        "instruction_sets": [isa.name for isa in sets],
        "dtypes": list(dtypes),
    }


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


@dataclass(frozen=True, kw_only=True)
class _Library:
    name: str
    title: str
    doc: str
    inputs: tuple[Block, ...]
    results: tuple[Block, ...]
    dtypes: tuple[str, ...]
    sets: tuple[InstructionSet, ...]

    def unit(self, dtype: str, isa: InstructionSet) -> str:
        return f"{self.name}_{_TYPES[dtype][1]}_{isa.name}.cpp"

    def unit_flags(self) -> dict[str, tuple[str, ...]]:
        flags = {self.unit(dtype, isa): isa.flags for dtype in self.dtypes for isa in self.sets}
        return flags | {f"runtime_{isa.name}.cpp": isa.flags for isa in self.sets}

    def sources(self, model: Model, function: Function, progress: Progress) -> dict[str, str]:
        """Return all sources and their headers by file name."""
        texts = {file: (HEADERS / file).read_text() for file in _RUNTIME}
        progress.step("tracing")
        graph = cpu.graph_of(model, function)
        for isa in self.sets:
            runtime = (HEADERS / "runtime.cpp").read_text()
            macros = "".join(
                f"#define {macro} {self.name}_{suffix}_{isa.name}\n"
                for macro, suffix in (
                    ("PINION_RUN", "run"),
                    ("PINION_RUN_FLAGGED", "run_flagged"),
                    ("PINION_FIRST_NONFINITE", "first_nonfinite"),
                )
            )
            texts[f"runtime_{isa.name}.cpp"] = f"#define PINION_API\n{macros}{runtime}"
            for dtype in self.dtypes:
                progress.step(f"printing {dtype} for {isa.name}")
                text = cpu.kernel_of(model, function, graph, dtype=dtype, machine=isa).text
                getter = f"{self.name}_{_TYPES[dtype][1]}_{isa.name}"
                texts[self.unit(dtype, isa)] = (
                    f"#define PINION_API\n#define PINION_GET_KERNEL {getter}\n{text}"
                )
        texts[f"{self.name}.cpp"] = self.dispatcher()
        return texts

    def write(self, folder: Path, sources: Mapping[str, str]) -> None:
        """Write everything except the compiled library into a new folder."""
        for part in ("include", "src", "lib/pkgconfig"):
            (folder / part).mkdir(parents=True)
        for file, text in sources.items():
            (folder / "src" / file).write_text(text)
        (folder / "include" / f"{self.name}.h").write_text(self.header())
        (folder / "example.c").write_text(self.example())
        (folder / "CMakeLists.txt").write_text(self.cmake())
        (folder / "lib/pkgconfig" / f"{self.name}.pc").write_text(self.pkg_config())
        (folder / "README.md").write_text(self.readme())

    def compile(self, folder: Path, sources: Mapping[str, str], compiler: Compiler) -> None:
        """Compile the library from the sources that `write` has written."""
        compile_library(
            sources,
            out=folder / "lib" / f"lib{self.name}.so",
            compiler=compiler,
            isa=next(isa for isa in INSTRUCTION_SETS if isa.name == "portable"),
            include=(folder / "include",),
            unit_flags=self.unit_flags(),
            extra_flags=("-fvisibility=hidden",),
        )

    def arguments(self, dtype: str) -> str:
        kind = _TYPES[dtype][0]
        inputs = [f"const {kind} *{b.name}" for b in self.inputs]
        return ", ".join(["size_t n", *inputs, *(f"{kind} *{b.name}" for b in self.results)])

    def _signatures(self) -> list[tuple[str, str, str]]:
        """Return the name, arguments and layout of each function."""
        signatures = []
        for dtype in self.dtypes:
            arguments = f"{self.arguments(dtype)}, unsigned threads"
            suffix = _TYPES[dtype][1]
            signatures.append((f"{self.name}_{suffix}", arguments, "PINION_AOS"))
            signatures.append((f"{self.name}_blocks_{suffix}", arguments, "PINION_BLOCKS"))
        return signatures

    def header(self) -> str:
        lines = []
        for blocks, direction in ((self.inputs, "in"), (self.results, "out")):
            for b in blocks:
                shape = " x ".join(map(str, b.shape)) or "1"
                unit = comment(b.unit)
                lines.append(f"     {direction:3} {b.name}: {shape}, {unit}")
        arrays = "\n".join(lines)
        blocks = (*self.inputs, *self.results)
        sizes = "".join(
            f"  {self.name.upper()}_{name} = {_size(b)},\n"
            for b, name in zip(blocks, c_names([b.name.upper() for b in blocks]), strict=True)
        )
        functions = "\n".join(
            f"int {name}({arguments});" for name, arguments, _ in self._signatures()
        )
        title = comment(f"{self.title}: {self.doc}")
        return f"""\
/* {title}
   Generated by Pinion {installation.version()}.

   Arrays of n samples:
{arrays}
   Matrices are stored row by row. In the plain functions the numbers of a sample are contiguous:
   {self.inputs[0].name} of sample s begins at {self.inputs[0].name} + s * {_size(self.inputs[0])}.
   In those with "blocks" 16 samples stand side by side, which needs no conversion: element e of
   sample s of an array of m elements is at (s / 16 * m + e) * 16 + s % 16, and arrays must have
   room for whole blocks.

   threads: the largest number of threads, including the caller's; 0 for all CPU cores. Outputs must
   not overlap each other or an input. NaN and infinities propagate to the results that depend on
   them. The functions may be called from several threads at once. They return 0; 2 for a null
   pointer; 3 if there is no memory left. */
#ifndef {self.name.upper()}_H
#define {self.name.upper()}_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* Elements of a sample. */
enum {{
{sizes}}};

{functions}

/* The instruction set that is used: {", ".join(isa.name for isa in self.sets)}. */
const char *{self.name}_isa(void);

#ifdef __cplusplus
}}
#endif

#endif
"""

    def dispatcher(self) -> str:
        """Return the source that picks the best instruction set and calls the runtime."""
        declared, cases = [], []
        for isa in self.sets:
            declared += [
                f"const pinion_kernel *{self.name}_{_TYPES[dtype][1]}_{isa.name}(void);"
                for dtype in self.dtypes
            ]
            declared.append(
                f"int {self.name}_run_{isa.name}(const pinion_kernel *, size_t, "
                "const pinion_view *, const pinion_view *, unsigned);"
            )
            row = ", ".join(f"{self.name}_{_TYPES[dtype][1]}_{isa.name}" for dtype in self.dtypes)
            cases.append(f'    {{"{isa.name}", {self.name}_run_{isa.name}, {{{row}}}}},')
        choice = []
        for k, isa in enumerate(self.sets):
            tests = [f'__builtin_cpu_supports("{f}")' for f in sorted(isa.features)]
            choice.append(f"  if ({' && '.join(tests) or 'true'}) return machines[{k}];")
            if not tests:
                break
        functions = []
        for name, arguments, layout in self._signatures():
            column = next(k for k, d in enumerate(self.dtypes) if name.endswith(f"_{_TYPES[d][1]}"))
            ins = ", ".join(f"{{(void *){b.name}, {layout}, {_size(b)}}}" for b in self.inputs)
            outs = ", ".join(f"{{{b.name}, {layout}, {_size(b)}}}" for b in self.results)
            functions.append(
                f"int {name}({arguments}) {{\n"
                f"  const pinion_view in[] = {{{ins}}};\n"
                f"  const pinion_view out[] = {{{outs}}};\n"
                f"  return machine().run(machine().kernel[{column}](), n, in, out, threads);\n"
                "}\n"
            )
        newline = "\n"
        return f"""\
// {comment(self.title)}: chooses the instruction set, then runs.
#define PINION_API
#define PINION_RUN {self.name}_run_unused
#define PINION_RUN_FLAGGED {self.name}_run_flagged_unused
#define PINION_FIRST_NONFINITE {self.name}_first_nonfinite_unused
#define PINION_GET_KERNEL {self.name}_get_kernel_unused
#include "abi.h"

#pragma GCC visibility push(default)
#include "{self.name}.h"
#pragma GCC visibility pop

extern "C" {{
{newline.join(declared)}
}}

namespace {{

struct Machine {{
  const char *name;
  int (*run)(const pinion_kernel *, size_t, const pinion_view *, const pinion_view *, unsigned);
  const pinion_kernel *(*kernel[{len(self.dtypes)}])(void);
}};

const Machine machines[] = {{
{newline.join(cases)}
}};

const Machine &machine() {{
{newline.join(choice)}
}}

}} // namespace

extern "C" {{
{newline.join(functions)}
const char *{self.name}_isa(void) {{ return machine().name; }}
}}
"""

    def example(self) -> str:
        dtype = self.dtypes[-1]
        kind, suffix = _TYPES[dtype]
        declared = "".join(
            f"  static {kind} {b.name}[N * {_size(b)}];\n" for b in (*self.inputs, *self.results)
        )
        names = ", ".join(b.name for b in (*self.inputs, *self.results))
        fill = "".join(
            f"  for (int k = 0; k < N * {_size(b)}; ++k) {b.name}[k] = 0.1 * (k % 7);\n"
            for b in self.inputs
        )
        first = self.results[0]
        return f"""\
/* cc example.c -Iinclude -Llib -l{self.name} -Wl,-rpath,'$ORIGIN/lib' -o example */
#include <stdio.h>

#include "{self.name}.h"

enum {{ N = 100 }};

int main(void) {{
{declared}{fill}  const int answer = {self.name}_{suffix}(N, {names}, 1);
  if (answer) {{
    fprintf(stderr, "{self.name} answered %d\\n", answer);
    return 1;
  }}
  printf("%s\\n", {self.name}_isa());
  for (int k = 0; k < {_size(first)}; ++k) printf("%.9g\\n", (double){first.name}[k]);
  return 0;
}}
"""

    def cmake(self) -> str:
        units = "\n".join(f"  src/{file}" for file in [*self.unit_flags(), f"{self.name}.cpp"])
        options = "\n".join(
            f"set_source_files_properties(src/{file} PROPERTIES COMPILE_OPTIONS "
            f'"{";".join(flags)}")'
            for file, flags in self.unit_flags().items()
            if flags
        )
        common = " ".join(
            flag for flag in FLAGS if flag not in ("-shared", "-fPIC") and "-std" not in flag
        )
        return f"""\
# add_subdirectory(this folder), then target_link_libraries(yours {self.name}).
cmake_minimum_required(VERSION 3.13)
project({self.name} CXX)
find_package(Threads REQUIRED)

add_library({self.name} SHARED
{units})
{options}
target_include_directories({self.name} PUBLIC include PRIVATE src)
target_compile_features({self.name} PRIVATE cxx_std_17)
target_compile_options({self.name} PRIVATE {common} -fvisibility=hidden)
target_link_libraries({self.name} PRIVATE Threads::Threads)
"""

    def pkg_config(self) -> str:
        return f"""\
prefix=${{pcfiledir}}/../..
Name: {self.name}
Description: {comment(self.title)}
Version: {installation.version().split("+")[0]}
Cflags: -I${{prefix}}/include
Libs: -L${{prefix}}/lib -l{self.name}
"""

    def readme(self) -> str:
        return f"""\
# {self.name}

{markdown(self.title)}, as a C library; `include/{self.name}.h` says how to call it.

    cc example.c -Iinclude -Llib -l{self.name} -Wl,-rpath,'$ORIGIN/lib' -o example && ./example

With pkg-config: `PKG_CONFIG_PATH=lib/pkgconfig pkg-config --cflags --libs {self.name}`. With CMake:
`add_subdirectory` of this folder compiles the sources; link your program with `{self.name}`. The
library in `lib` was compiled for {processor()[0]}; at run time it chooses among
{", ".join(isa.name for isa in self.sets)}.
"""


def _size(block: Block) -> int:
    return prod(map(int, block.shape))
