"""Export of a function as a C library with header and sources, independent of Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from pinion.base import installation
from pinion.base.escaping import comment, markdown
from pinion.base.progress import SILENT, Progress
from pinion.functions import Block, Function
from pinion.native import ComputeError, InstructionSet
from pinion.native.isa import INSTRUCTION_SETS
from pinion.robot import Model
from pinion.robot.c_names import c_names

from . import cpu
from .library_folder import LibraryFolder, host_sets, library_name
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
    checked_name = library_name(name, model.name, function.name)
    unknown = [dtype for dtype in dtypes if dtype not in _TYPES]
    if unknown or not dtypes:
        fault = f"Unknown dtype '{unknown[0]}'" if unknown else "No dtype is given"
        raise ComputeError(f"{fault}: choose from {', '.join(_TYPES)}.")
    inputs, results = (
        [b.resolved(model) for b in blocks] for blocks in (function.inputs, function.results)
    )
    free = c_names([b.name for b in (*inputs, *results)], _TAKEN)
    named = [replace(b, name=name) for b, name in zip((*inputs, *results), free, strict=True)]
    library = _FunctionLibrary(
        name=checked_name,
        title=f"{function.name} of {model.name}",
        model=model,
        function=function,
        inputs=tuple(named[: len(inputs)]),
        results=tuple(named[len(inputs) :]),
        dtypes=tuple(dtypes),
    )
    files = library.export(folder, compiler=compiler, progress=progress)
    return {
        "name": library.name,
        "files": files,
        "instruction_sets": [isa.name for isa in host_sets()],
        "dtypes": list(dtypes),
    }


@dataclass(frozen=True, kw_only=True)
class _FunctionLibrary(LibraryFolder):
    model: Model
    function: Function
    inputs: tuple[Block, ...]
    results: tuple[Block, ...]
    dtypes: tuple[str, ...]

    def _unit(self, dtype: str, isa: InstructionSet) -> str:
        return f"{self.name}_{_TYPES[dtype][1]}_{isa.name}.cpp"

    def units(self) -> dict[str, InstructionSet]:
        """Return the instruction set of each source file that is specific to one."""
        units = {self._unit(dtype, isa): isa for dtype in self.dtypes for isa in INSTRUCTION_SETS}
        return units | {f"runtime_{isa.name}.cpp": isa for isa in INSTRUCTION_SETS}

    def sources(self, progress: Progress) -> dict[str, str]:
        """Return the contents of all sources and headers, by file name."""
        model, function = self.model, self.function
        texts = {file: (HEADERS / file).read_text() for file in _RUNTIME}
        progress.step("tracing")
        graph = cpu.graph_of(model, function)
        for isa in INSTRUCTION_SETS:
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
                texts[self._unit(dtype, isa)] = (
                    f"#define PINION_API\n#define PINION_GET_KERNEL {getter}\n{text}"
                )
        texts[f"{self.name}.cpp"] = self._dispatcher()
        return texts

    def files(self) -> dict[str, bytes]:
        """Return the contents of the example and of the README, by file name."""
        return {"example.c": self._example().encode(), "README.md": self._readme().encode()}

    def _arguments(self, dtype: str) -> str:
        kind = _TYPES[dtype][0]
        inputs = [f"const {kind} *{b.name}" for b in self.inputs]
        return ", ".join(["size_t n", *inputs, *(f"{kind} *{b.name}" for b in self.results)])

    def _signatures(self) -> list[tuple[str, str, str]]:
        """Return the name, arguments and layout of each function."""
        signatures = []
        for dtype in self.dtypes:
            arguments = f"{self._arguments(dtype)}, unsigned threads"
            suffix = _TYPES[dtype][1]
            signatures.append((f"{self.name}_{suffix}", arguments, "PINION_AOS"))
            signatures.append((f"{self.name}_blocks_{suffix}", arguments, "PINION_BLOCKS"))
        return signatures

    def header(self) -> str:
        """Return the library's C header."""
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
        title = comment(f"{self.title}: {self.function.doc}")
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

/* The instruction set that is used: {", ".join(isa.name for isa in INSTRUCTION_SETS)}. */
const char *{self.name}_isa(void);

#ifdef __cplusplus
}}
#endif

#endif
"""

    def _dispatcher(self) -> str:
        """Return the C++ source that selects the best instruction set and calls its runtime."""
        declared, rows = [], {}
        for isa in INSTRUCTION_SETS:
            declared += [
                f"const pinion_kernel *{self.name}_{_TYPES[dtype][1]}_{isa.name}(void);"
                for dtype in self.dtypes
            ]
            declared.append(
                f"int {self.name}_run_{isa.name}(const pinion_kernel *, size_t, "
                "const pinion_view *, const pinion_view *, unsigned);"
            )
            row = ", ".join(f"{self.name}_{_TYPES[dtype][1]}_{isa.name}" for dtype in self.dtypes)
            rows[isa.name] = f'{{"{isa.name}", {self.name}_run_{isa.name}, {{{row}}}}}'
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

{self.machine(rows)}

}} // namespace

extern "C" {{
{newline.join(functions)}
const char *{self.name}_isa(void) {{ return machine().name; }}
}}
"""

    def _example(self) -> str:
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

    def _readme(self) -> str:
        return f"""\
# {self.name}

{markdown(self.title)}, as a C library; `include/{self.name}.h` says how to call it.

    cc example.c -Iinclude -Llib -l{self.name} -Wl,-rpath,'$ORIGIN/lib' -o example && ./example

{self.description()}"""


def _size(block: Block) -> int:
    return prod(map(int, block.shape))
