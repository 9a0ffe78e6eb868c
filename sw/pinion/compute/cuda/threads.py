"""CUDA source of kernels with one thread per sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from pinion.base import installation
from pinion.base.escaping import comment
from pinion.compute import LAYOUTS
from pinion.compute.arguments import dtype_name
from pinion.compute.program.instructions import select
from pinion.compute.program.printer import print_program
from pinion.compute.program.source import SCALARS
from pinion.functions import Block
from pinion.graph import Graph, Word
from pinion.native import ComputeError

from .parts import WORKSPACE, Part, Room, plan

# A value takes one of a thread's 255 registers, or two. The share for addresses and for the
# compiler's scheduling was found by compiling: these numbers fill the registers without spills.
_ROOMS = MappingProxyType(
    {
        "float32": Room(plain=256, registers=200, slots=384),
        "float64": Room(plain=125, registers=108, slots=192),
    }
)

# Available without a request to the device; several blocks of a multiprocessor get this much each.
SHARED_BYTES = 48 << 10
MOST_THREADS = 128
WARP = 32


@dataclass(frozen=True, slots=True)
class ThreadKernel:
    """One kernel of a function's CUDA source.

    Members
    -------
    name : of the function, with C linkage.
    text : CUDA C++ of this kernel alone, which includes headers of ``runtime/``. Compiling several
        kernels one by one takes less time.
    threads : threads per block; each computes one sample.
    shared_bytes : dynamic shared memory.
    arithmetic : instructions except moves, sines and cosines.
    angles : pairs of sine and cosine.
    live : largest number of values alive at once.
    moves : moves of intermediate values to and from shared memory.
    reads, writes : number of words of the workspace that it reads and writes.
    far : number of values of a thread in local memory because they do not fit in shared memory.
    """

    name: str
    text: str
    threads: int
    shared_bytes: int
    arithmetic: int
    angles: int
    live: int
    moves: int
    reads: int
    writes: int
    far: int


@dataclass(frozen=True, slots=True)
class ThreadSource:
    """Kernels that together compute a function.

    Members
    -------
    kernels : in the order in which they run.
    workspace : words per sample between the kernels; the array has blocks of 32 samples.
    layout, dtype : of the arrays.

    The parameters of every kernel are the number of samples, the inputs, the results and the
    workspace, if there is one. In the layout ``blocks`` each array is a pointer; otherwise it is a
    pointer, the distance of samples and the distance of elements (``long long``, in elements; the
    distance of elements is 1 in the layout ``aos``, and a distance of samples of 0 lets one sample
    serve all).
    """

    kernels: tuple[ThreadKernel, ...]
    workspace: int
    layout: str
    dtype: str


# Many parameters: a graph, its arrays and options of the text; tests vary each.
def thread_source(
    graph: Graph,
    *,
    inputs: Sequence[Block],
    results: Sequence[Block],
    dtype: str,
    layout: str,
    name: str,
    title: str,
    comments: bool = False,
    room: Room | None = None,
) -> ThreadSource:
    """Generate the CUDA kernels for a graph, with one thread per sample.

    Parameters
    ----------
    graph : its words must be those of the arrays.
    inputs, results : arrays with every axis a number.
    dtype : ``float32`` or ``float64``.
    layout : of inputs and results: ``aos`` (n, size), ``soa`` (size, n) or ``blocks``.
    name : of the kernels, a C identifier.
    title : description for the first line.
    comments : whether to annotate every line with the line of the mechanics that it comes from.
    room : capacity of a thread; by default all 255 registers.

    Raises
    ------
    ComputeError
        If an argument is invalid, or an array has the workspace's name.
    """
    dtype = dtype_name(dtype)
    if layout not in LAYOUTS:
        raise ComputeError(f"Unknown layout '{layout}': choose one of {', '.join(LAYOUTS)}.")
    if not (name.isascii() and name.isidentifier()):
        raise ComputeError(
            f"'{name}' is not a valid name for a kernel: use letters, digits and underscores, "
            "not starting with a digit."
        )
    if any(block.name == WORKSPACE for block in (*inputs, *results)):
        raise ComputeError(f"The array name '{WORKSPACE}' is reserved: choose another name.")
    parts = plan(select(graph), room or _ROOMS[dtype])
    workspace = sum(word.block == WORKSPACE for part in parts for word, _ in part.program.outputs)
    printer = _Printer(
        graph=graph if comments else None,
        inputs=tuple(inputs),
        results=tuple(results),
        workspace=workspace,
        dtype=dtype,
        layout=layout,
        only=len(parts) == 1,
        title=title,
    )
    kernels = tuple(
        printer.kernel(part, name if len(parts) == 1 else f"{name}_{k}")
        for k, part in enumerate(parts)
    )
    return ThreadSource(kernels, workspace, layout, dtype)


@dataclass(frozen=True, slots=True)
class ThreadBody:
    """The computation of one thread, for use in other kernels.

    Members
    -------
    text : definitions of ``angles`` and ``kernel`` (:mod:`pinion.compute.program.printer`).
    threads : largest number of threads per block.
    turns : angles whose sines and cosines are stored, in registers or, if there are slots, after
        them.
    slots : values that the text allocates, without sines and cosines; None if the compiler
        allocates all.
    near, far : number of slots, sines and cosines in shared memory and in local memory.
    pitch : distance from an element of a thread in shared memory to its next one.
    arithmetic : instructions except moves, sines and cosines.
    """

    text: str
    threads: int
    turns: int
    slots: int | None
    near: int
    far: int
    pitch: int
    arithmetic: int


def thread_body(
    graph: Graph, *, inputs: Sequence[Block], results: Sequence[Block], dtype: str
) -> ThreadBody | None:
    """Generate the computation of one thread; return None if it needs several kernels.

    Parameters
    ----------
    graph, inputs, results, dtype : as for `thread_source`.
    """
    parts = plan(select(graph), _ROOMS[dtype])
    if len(parts) != 1:
        return None
    (part,) = parts
    printed = print_program(
        part.program, inputs=inputs, results=results, allocation=part.allocation, literals=True
    )
    place = _place(part, 0, 4 if dtype == "float32" else 8)
    return ThreadBody(
        text=printed.text,
        threads=place.threads,
        turns=printed.turns,
        slots=None if part.allocation is None else part.allocation.slots,
        near=place.near,
        far=part.slots - place.near,
        pitch=place.pitch,
        arithmetic=part.program.arithmetic,
    )


@dataclass(frozen=True)
class _Printer:
    graph: Graph | None
    inputs: tuple[Block, ...]
    results: tuple[Block, ...]
    workspace: int
    dtype: str
    layout: str
    only: bool  # whether there is one kernel
    title: str

    def kernel(self, part: Part, name: str) -> ThreadKernel:
        """Return the CUDA source and the operation counts of a part."""
        work = (Block(name=WORKSPACE, shape=(self.workspace,), unit=""),) if self.workspace else ()
        inputs, results = (*self.inputs, *work), (*self.results, *work)
        printed = print_program(
            part.program,
            inputs=inputs,
            results=results,
            allocation=part.allocation,
            graph=self.graph,
            literals=True,
        )
        place = _place(part, self._staged(part), self.size)
        text = f"""\
// {comment(self.title)}
// Generated by Pinion {installation.version()}. {part.program.arithmetic} arithmetic instructions,
// {part.angles} sines and cosines, {part.moves} loads and stores of intermediate values.
#include "thread.cuh"

#define PINION_THREADS {place.threads}

namespace pinion {{
namespace in_{name} {{
typedef {SCALARS[self.dtype]} T;

{printed.text}
{self._accessor("In", "Input", inputs, place)}
{self._accessor("Out", "Result", results, place)}
}} // namespace in_{name}
}} // namespace pinion

extern "C" __global__ void __launch_bounds__(PINION_THREADS)
{name}({", ".join(self._parameters())}) {{
  using namespace pinion;
  using namespace pinion::in_{name};
{"".join(f"  {line}{chr(10)}" for line in self._body(part, printed.turns, place))}}}
"""
        return ThreadKernel(
            name=name,
            text=text,
            threads=place.threads,
            shared_bytes=place.pitch * (place.staged + place.near) * self.size,
            arithmetic=part.program.arithmetic,
            angles=part.angles,
            live=part.live,
            moves=part.moves,
            reads=sum(
                isinstance(it.value, Word) and it.value.block == WORKSPACE
                for it in part.program.instructions
            ),
            writes=sum(word.block == WORKSPACE for word, _ in part.program.outputs),
            far=part.slots - place.near,
        )

    @property
    def size(self) -> int:
        """Size of a number in bytes."""
        return 4 if self.dtype == "float32" else 8

    def _staged(self, part: Part) -> int:
        """Return the number of words per sample that pass through shared memory.

        0 means that threads access the arrays directly. Arrays of structures are staged if those of
        a warp fit; with several kernels, which each write a part of the results, it gains little.
        """
        words = sum(map(_words, (*self.inputs, *self.results)))
        fits = (words + part.slots) * (WARP + 1) * self.size <= SHARED_BYTES
        return words if self.layout == "aos" and self.only and fits else 0

    def _parameters(self) -> list[str]:
        scalar = SCALARS[self.dtype]
        sides = (("in", f"const {scalar} *", self.inputs), ("out", f"{scalar} *", self.results))
        parameters = ["long long n"]
        for side, kind, blocks in sides:
            for k, _ in enumerate(blocks):
                parameters.append(f"{kind}{side}{k}")
                if self.layout != "blocks":
                    parameters += [f"long long {side}{k}_step", f"long long {side}{k}_apart"]
        return parameters + ([f"{scalar} *workspace"] if self.workspace else [])

    def _type(self, kind: str, block: Block, place: _Place) -> str:
        if block.name == WORKSPACE:
            return f"Block{kind}<T, {self.workspace}, PINION_WARP>"
        if self.layout == "blocks":
            return f"Block{kind}<T, {_words(block)}, PINION_BLOCK>"
        return f"Shared{kind}<T, {place.pitch}>" if place.staged else f"Strided{kind}<T>"

    def _accessor(self, name: str, kind: str, blocks: Sequence[Block], place: _Place) -> str:
        """Return a C++ struct that accesses elements of arrays by the array's number."""
        method, result = ("get(int e)", "T") if kind == "Input" else ("put(int e, T x)", "void")
        call = "get(e)" if kind == "Input" else "put(e, x)"
        members = "".join(f"  {self._type(kind, b, place)} a{k};\n" for k, b in enumerate(blocks))
        cases = "".join(
            f"    if constexpr (A == {k}) return a{k}.{call};\n" for k, _ in enumerate(blocks)
        )
        return (
            f"struct {name} {{\n{members}"
            f"  template <int A> PINION_INLINE {result} {method} const {{\n{cases}  }}\n}};"
        )

    def _made(self, side: str, blocks: Sequence[Block], place: _Place) -> list[str]:
        """Return the C++ initialisers of a thread's accessors."""
        kind = "Input" if side == "in" else "Result"
        at = 0 if side == "in" else sum(map(_words, self.inputs))
        views = []
        for k, block in enumerate(blocks):
            if self.layout == "blocks":
                views.append(f"{self._type(kind, block, place)}({side}{k}, sample)")
            elif place.staged:
                views.append(
                    f"{self._type(kind, block, place)}{{shared + {place.pitch * at} + threadIdx.x}}"
                )
            else:
                views.append(
                    f"Strided{kind}<T>({side}{k}, sample, {side}{k}_step, {side}{k}_apart)"
                )
            at += _words(block)
        if self.workspace:
            views.append(f"Block{kind}<T, {self.workspace}, PINION_WARP>(workspace, sample)")
        return views

    def _body(self, part: Part, turns: int, place: _Place) -> list[str]:
        lines = [
            "const long long begin = (long long)blockIdx.x * PINION_THREADS;",
            "const long long end = begin + PINION_THREADS < n ? begin + PINION_THREADS : n;",
            "const long long sample = begin + threadIdx.x;",
        ]
        if place.staged or place.near:
            lines += [
                "extern __shared__ double shared_memory[];",
                "T *const shared = (T *)shared_memory;",
            ]
        at = 0
        if place.staged:
            for k, block in enumerate(self.inputs):
                lines.append(
                    f"stage_in<T, {_words(block)}, {place.pitch}>(shared + {place.pitch * at}, "
                    f"in{k}, in{k}_step, begin, end);"
                )
                at += _words(block)
            lines.append("__syncthreads();")
        lines.append("if (sample < n) {")
        lines.append(f"  const In in = {{{', '.join(self._made('in', self.inputs, place))}}};")
        lines.append(f"  const Out out = {{{', '.join(self._made('out', self.results, place))}}};")
        if part.allocation is None:
            lines += [
                f"  T angle_values[{2 * turns + 1}];",
                "  const RegisterTurns<T> turns = {angle_values};",
                "  const Nothing slots;",
            ]
        else:
            far = part.slots - place.near
            lines += [
                f"  volatile T far[{far + 1}];" if far else "  volatile T *const far = nullptr;",
                f"  typedef Slots<T, {place.near}, {place.pitch}> Here;",
                f"  T *const near = shared + {place.pitch * place.staged} + threadIdx.x;",
                "  const Here slots = {near, far};",
                f"  const SlotTurns<T, {part.allocation.slots}, Here> turns = {{slots}};",
            ]
        lines += [
            "  angles<T>(in, turns, Nothing());",
            "  kernel<T>(in, turns, Nothing(), slots, out);",
            "}",
        ]
        if place.staged:
            lines.append("__syncthreads();")
            for k, block in enumerate(self.results):
                lines.append(
                    f"stage_out<T, {_words(block)}, {place.pitch}>(out{k}, "
                    f"shared + {place.pitch * at}, out{k}_step, begin, end);"
                )
                at += _words(block)
        return lines


@dataclass(frozen=True, slots=True)
class _Place:
    """Threads and shared memory of a block.

    Members
    -------
    threads : threads per block.
    staged : words of requests and results per sample.
    near : slots per thread.
    pitch : distance from an element of a thread to its next one.
    """

    threads: int
    staged: int
    near: int
    pitch: int


def _place(part: Part, staged: int, size: int) -> _Place:
    # Staged elements are copied in the order of addresses: a gap of one avoids bank conflicts.
    gap = 1 if staged else 0
    threads = MOST_THREADS
    while threads > WARP and (staged + part.slots) * (threads + gap) * size > SHARED_BYTES:
        threads //= 2
    room = SHARED_BYTES // ((threads + gap) * size) - staged
    return _Place(threads, staged, min(part.slots, room), threads + gap)


def _words(block: Block) -> int:
    return prod(map(int, block.shape))
