"""Kernels for small batches: the threads of a block compute one sample together.

The mechanics are in ``runtime/block.cuh``, as phases of Algorithm 4 of Plancher et al. 2021 and its
prerequisites. Here a function's phases are ordered, with a barrier wherever one reads what another
has written, and the robot's numbers are printed.

>>> from pinion.compute.cuda import cooperative
>>> from pinion.robot import load
>>> kernel = cooperative.source(load("iiwa14"), "fd_derivatives", dtype="float32")
>>> kernel.name, kernel.threads, kernel.shared_bytes
('pinion_fd_derivatives', 32, 5716)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pinion.base import installation
from pinion.base.amounts import amount
from pinion.base.escaping import comment
from pinion.batch import InputError
from pinion.compute.arguments import dtype_name
from pinion.compute.program.source import SCALARS
from pinion.functions import Block, Function, row_of
from pinion.functions.partitions import RNEA_DERIVATIVES_FROM_LINKS
from pinion.functions.table import table_function as named_function
from pinion.native import ComputeError
from pinion.robot import JointKind, Model, load

__all__ = ["FUNCTIONS", "CooperativeSource", "source"]

LARGEST = 227 * 1024
"""Largest shared memory of a block in bytes, on Hopper and Blackwell."""

_OTHER = "use the kernel with one thread per sample"
_WARP = 32
_BYTES = {"float32": 4, "float64": 8}
_KINDS = (JointKind.REVOLUTE, JointKind.PRISMATIC, JointKind.HELICAL)


@dataclass(frozen=True, kw_only=True)
class CooperativeSource:
    """Source text and launch configuration of a kernel with one block per sample.

    Its parameters are the number of samples (``long long``), then the arrays of ``inputs`` and of
    ``results``, each (n, ...) and C-contiguous. Any one-dimensional grid computes all samples; the
    block is one-dimensional too.

    Members
    -------
    text : CUDA C++17 for NVRTC; it includes ``block.cuh`` of ``pinion/compute/runtime``. The text
        says which products are fused, so it must be compiled with ``-fmad=false``.
    name : of the kernel, ``extern "C"``.
    dtype : of all arrays.
    inputs, results : blocks of the function, in the order of the parameters.
    threads : threads per block.
    shared_bytes : dynamic shared memory; above 48 KiB a kernel must request it
        (``cudaFuncAttributeMaxDynamicSharedMemorySize``).
    barriers : number of barriers per sample.
    links, pairs, levels : number of the robot's joints, of pairs of a joint and one that it carries
        (or itself), and of joints on the longest path to the base.
    """

    text: str
    name: str
    dtype: str
    inputs: tuple[Block, ...]
    results: tuple[Block, ...]
    threads: int
    shared_bytes: int
    barriers: int
    links: int
    pairs: int
    levels: int


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """A phase of a kernel: a call, and the arrays and tables that it uses.

    Members
    -------
    call : a function of ``runtime/block.cuh``.
    memory : arrays in shared memory that it reads or writes, except the constants.
    tables : tables of the tree that it reads.
    """

    call: str
    memory: tuple[str, ...]
    tables: tuple[str, ...] = ()


_WAYS = ("level", "paths", "path")  # from the base to a link
_IN_PLACE = ("dof", "place")  # the last ones, which are not copied to shared memory
_CARRIED = ("parent", "start")  # from a link to the base, with a number for each pair

_TRANSFORMS = _Phase(call="transforms({q})", memory=("X",), tables=("dof",))
_RATES = _Phase(call="take(At::qd, {qd})", memory=("qd",), tables=("dof",))
_GIVEN_QDD = _Phase(call="take(At::qdd, {qdd})", memory=("qdd",), tables=("dof",))
_GIVEN_MINV = _Phase(
    call="take_symmetric(At::minv, {minv})", memory=("minv",), tables=("dof", "place")
)
_GIVEN_LINKS = tuple(
    _Phase(call=f"take_links(At::{array}, {{{name}}})", memory=(array,), tables=("place",))
    for array, name in (("v", "v"), ("a", "a"), ("net", "f"))
)
_DRAGS = _Phase(call="drags()", memory=("v", "drag"))
_INVERSE_DYNAMICS = _Phase(
    call="inverse_dynamics<true, false>()",
    memory=("X", "qd", "qdd", "carried_effort"),
    tables=(*_WAYS, *_CARRIED),
)
_BIAS = _Phase(
    call="inverse_dynamics<false, false>()",
    memory=("X", "qd", "carried_effort"),
    tables=(*_WAYS, *_CARRIED),
)
_KEPT_BIAS = _Phase(
    call="inverse_dynamics<false, true>()",
    memory=("X", "qd", "v", "a", "carried_effort"),
    tables=(*_WAYS, *_CARRIED),
)
_EFFORTS = _Phase(
    call="efforts({tau})", memory=("carried_effort",), tables=("start", "size", "dof")
)
_RESIDUAL = _Phase(
    call="residual({tau})", memory=("carried_effort", "residual"), tables=("start", "size", "dof")
)
_STATES = _Phase(
    call="states()",
    memory=("X", "qd", "qdd", "v", "a", "drag", "carried_force"),
    tables=(*_WAYS, *_CARRIED),
)
_ACCELERATED_STATES = _Phase(
    call="accelerated_states()",
    memory=("X", "qdd", "v", "a", "drag", "carried_force"),
    tables=(*_WAYS, *_CARRIED),
)
_NET_FORCES = _Phase(call="net_forces()", memory=("carried_force", "net"), tables=("start", "size"))
_COLUMNS = _Phase(
    call="columns()", memory=("X", "qd", "v", "a", "columns"), tables=("start", "size", "parent")
)
_COLUMN_FORCES = _Phase(call="column_forces()", memory=("v", "drag", "columns"), tables=("link",))
_COLUMN_EFFORTS = _Phase(
    call="column_efforts()",
    memory=("X", "net", "columns", "dtau"),
    tables=("start", "size", "parent"),
)
_COMPOSITES = _Phase(call="composites()", memory=("X", "carried_inertia"), tables=_CARRIED)
_NET_COMPOSITES = _Phase(
    call="net_composites()", memory=("carried_inertia", "composite"), tables=("start", "size")
)
_INERTIA_MATRIX = _Phase(call="inertia_matrix()", memory=("X", "composite", "M"), tables=_CARRIED)
_ELIMINATE = _Phase(
    call="eliminate(level)",
    memory=("M", "pivot"),
    tables=("levels", "order", "link", "start", "size"),
)
_INVERSE_COLUMNS = _Phase(
    call="inverse_columns()", memory=("M", "pivot", "minv"), tables=(*_WAYS, "start", "size")
)
_ACCELERATIONS = _Phase(
    call="accelerations({qdd})",
    memory=("minv", "residual"),
    tables=("paths", "path", "size", "dof"),
)
_KEPT_ACCELERATIONS = _Phase(
    call="kept_accelerations({qdd})",
    memory=("minv", "residual", "qdd"),
    tables=("paths", "path", "size", "dof"),
)
_FORWARD_GRADIENT = _Phase(
    call="forward_gradient({dqdd_dq}, {dqdd_dqd})",
    memory=("minv", "dtau"),
    tables=("paths", "path", "size", "place"),
)
_GIVE_GRADIENT = (
    _Phase(call="give_matrix(At::dtau, {dtau_dq})", memory=("dtau",), tables=("place",)),
    _Phase(call="give_matrix(At::dtau + n * n, {dtau_dqd})", memory=("dtau",), tables=("place",)),
)
_GIVE_MINV = _Phase(call="give_matrix(At::minv, {minv})", memory=("minv",), tables=("place",))
_GIVE_M = _Phase(call="give_inertia_matrix({M})", memory=("M",), tables=("place", "start", "size"))


@dataclass(frozen=True, kw_only=True)
class _Step:
    """Phases between two barriers; with ``each_level``, repeated with a barrier per level."""

    title: str
    phases: tuple[_Phase, ...]
    each_level: bool = False


def _step(title: str, *phases: _Phase, each_level: bool = False) -> _Step:
    return _Step(title=title, phases=phases, each_level=each_level)


_FORWARD = "Algorithm 1: every link from the base to itself and back."
_MATRIX = (
    _step("M by columns.", _INERTIA_MATRIX),
    _step("M = L^T D L, from the leaves.", _ELIMINATE, each_level=True),
    _step("M^-1 by columns.", _INVERSE_COLUMNS),
)
_GRADIENT = (
    _step("Algorithm 4, lines 5 to 10: dv and da by columns.", _COLUMNS, _NET_FORCES),
    _step("Lines 11 and 12: df by columns and links.", _COLUMN_FORCES),
    _step("Lines 13 to 16: dtau by columns.", _COLUMN_EFFORTS),
)

_STEPS: Mapping[str, tuple[_Step, ...]] = MappingProxyType(
    {
        "rnea": (
            _step("X(q).", _TRANSFORMS, _RATES, _GIVEN_QDD),
            _step(_FORWARD, _INVERSE_DYNAMICS),
            _step("tau = S^T f.", _EFFORTS),
        ),
        "crba": (
            _step("X(q).", _TRANSFORMS),
            _step("Composite inertias: every link on its way to the base.", _COMPOSITES),
            _step("Their sums.", _NET_COMPOSITES),
            _step("M by columns.", _INERTIA_MATRIX),
            _step("The result.", _GIVE_M),
        ),
        "minv": (
            _step("X(q).", _TRANSFORMS),
            _step("Composite inertias: every link on its way to the base.", _COMPOSITES),
            _step("Their sums.", _NET_COMPOSITES),
            *_MATRIX,
            _step("The result.", _GIVE_MINV),
        ),
        "aba": (
            _step("X(q).", _TRANSFORMS, _RATES),
            _step(f"{_FORWARD} Composite inertias likewise.", _BIAS, _COMPOSITES),
            _step("Their sums; tau - c.", _NET_COMPOSITES, _RESIDUAL),
            *_MATRIX,
            _step("qdd = M^-1 (tau - c).", _ACCELERATIONS),
        ),
        "rnea_derivatives": (
            _step("X(q).", _TRANSFORMS, _RATES, _GIVEN_QDD),
            _step(_FORWARD, _STATES),
            *_GRADIENT,
            _step("The result.", *_GIVE_GRADIENT),
        ),
        RNEA_DERIVATIVES_FROM_LINKS.name: (
            _step("X(q); v', a' and f' as given.", _TRANSFORMS, _RATES, *_GIVEN_LINKS),
            _step("Algorithm 4, lines 1 to 10: dv and da by columns.", _COLUMNS, _DRAGS),
            *_GRADIENT[1:],
            _step("The result.", *_GIVE_GRADIENT),
        ),
        "fd_derivatives": (
            _step("X(q).", _TRANSFORMS, _RATES),
            _step(f"{_FORWARD} Composite inertias likewise.", _KEPT_BIAS, _COMPOSITES),
            _step("Their sums; tau - c.", _NET_COMPOSITES, _RESIDUAL),
            *_MATRIX,
            _step("qdd = M^-1 (tau - c).", _KEPT_ACCELERATIONS),
            _step("Algorithm 3, line 1: what qdd adds.", _ACCELERATED_STATES),
            *_GRADIENT,
            _step("Algorithm 3, line 3: -M^-1 dtau.", _FORWARD_GRADIENT),
        ),
        "fd_derivatives_from_minv": (
            _step("X(q).", _TRANSFORMS, _RATES, _GIVEN_QDD),
            _step(_FORWARD, _STATES),
            *_GRADIENT[:-1],
            _step(f"{_GRADIENT[-1].title} M^-1 as given.", *_GRADIENT[-1].phases, _GIVEN_MINV),
            _step("Algorithm 3, line 3: -M^-1 dtau.", _FORWARD_GRADIENT),
        ),
    }
)

FUNCTIONS = tuple(_STEPS)
"""Functions with such a kernel: some of the table, and
:data:`pinion.functions.partitions.RNEA_DERIVATIVES_FROM_LINKS`."""


def source(
    model: Model | str,
    function: str | Function,
    *,
    dtype: str = "float32",
    outputs: Sequence[str] = (),
) -> CooperativeSource:
    """Generate the kernel for a function of a robot, with one block per sample.

    Parameters
    ----------
    model : a robot, or the name or path of one; a tree of joints with one degree of freedom, none
        of which mimics another.
    function : a row of the table of functions or of :mod:`pinion.functions.partitions`, or its
        name. Both formulations of a gradient have the same kernel.
    dtype : ``float32`` or ``float64``.
    outputs : optional results to add, as for :func:`pinion.functions.named_function`.

    Raises
    ------
    ComputeError
        If the function or the robot has no such kernel, or it needs more shared memory than a block
        has.
    """
    model = load(model) if isinstance(model, str) else model
    dtype = dtype_name(dtype)
    row = _row(function, outputs)
    for body in model.bodies:
        if body.joint.mimic is not None:
            raise ComputeError(
                f"The joint '{body.joint.name}' mimics '{body.joint.mimic.joint}', but kernels "
                f"with one block per sample do not support mimic joints: {_OTHER}."
            )
        if body.joint.kind not in _KINDS:
            raise ComputeError(
                f"The joint '{body.joint.name}' is {body.joint.kind.value}, but kernels with one "
                f"block per sample support only joints with one degree of freedom: {_OTHER}."
            )
        if body.joint.armature != 0.0:
            raise ComputeError(
                f"The joint '{body.joint.name}' has an armature of {body.joint.armature:g}, which "
                f"kernels with one block per sample do not support: {_OTHER}."
            )
    if not model.bodies:
        raise ComputeError(f"The robot '{model.name}' has no joints: give a robot with joints.")
    steps = list(_STEPS[row.name])
    if row.name == "fd_derivatives" and "minv" in row.added:
        last = steps[-1]
        steps[-1] = _step(last.title, *last.phases, _GIVE_MINV)
    return _Printer(model, row, dtype, steps).printed()


def _row(function: str | Function, outputs: Sequence[str]) -> Function:
    """Return the function with these outputs; raise an error unless it equals the built-in one."""
    name = function if isinstance(function, str) else function.name
    if name not in _STEPS:
        raise ComputeError(
            f"'{name}' has no kernel with one block per sample: choose one of "
            f"{', '.join(FUNCTIONS)}."
        )
    if isinstance(function, str):
        return _known(name, "composite", outputs)
    try:
        reference = _known(name, function.options.get("derivatives", "composite"), function.added)
    except InputError:
        reference = None
    if reference != function:
        raise ComputeError(
            f"The function '{name}' differs from the built-in function of that name, and only "
            f"built-in functions have kernels with one block per sample: {_OTHER}."
        )
    return row_of(function, outputs=outputs)


def _known(name: str, formulation: str, outputs: Sequence[str]) -> Function:
    """Return the built-in function of this name in a formulation and with the given outputs."""
    if name == RNEA_DERIVATIVES_FROM_LINKS.name:
        return RNEA_DERIVATIVES_FROM_LINKS.formulated(formulation).asked(outputs)
    return named_function(name, derivatives=formulation, outputs=outputs)


class _Tree:
    """A model's links in depth-first order, with the tables that block.cuh describes."""

    def __init__(self, parents: Sequence[int]) -> None:
        n = len(parents)
        children: list[list[int]] = [[] for _ in range(n + 1)]  # the base's are last
        for i, above in enumerate(parents):
            children[above].append(i)
        self.dof: list[int] = []
        waiting = children[-1][::-1]
        while waiting:
            self.dof.append(waiting.pop())
            waiting += children[self.dof[-1]][::-1]
        self.place = [self.dof.index(i) for i in range(n)]
        self.parent = [-1 if parents[d] < 0 else self.place[parents[d]] for d in self.dof]
        self.ways: list[list[int]] = []
        for i, above in enumerate(self.parent):
            self.ways.append([*(self.ways[above] if above >= 0 else ()), i])
        self.size = [sum(i in way for way in self.ways) for i in range(n)]
        self.start = _starts(self.size)
        self.pairs = sum(self.size)
        self.levels = max(map(len, self.ways))
        self.trees = sum(above < 0 for above in self.parent)
        self.branched = any(above not in (-1, i - 1) for i, above in enumerate(self.parent))

    @property
    def tables(self) -> dict[str, list[int]]:
        """All tables, by their names in ``block.cuh``."""
        level = [len(way) - 1 for way in self.ways]
        link = [i + k for i, size in enumerate(self.size) for k in range(size)]
        # Backwards within a level: then different threads compute a pivot and its column of M, and
        # a missing barrier between the two shows on a CPU too.
        order = sorted(range(self.pairs), key=lambda pair: (level[link[pair]], -pair))
        at_level = [sum(level[k] == depth for k in link) for depth in range(self.levels)]
        return {
            "parent": self.parent,
            "size": self.size,
            "start": self.start,
            "level": level,
            "paths": _starts([len(way) for way in self.ways]),
            "path": [i for way in self.ways for i in way],
            "link": link,
            "order": order,
            "levels": [*_starts(at_level), self.pairs],
            "dof": self.dof,
            "place": self.place,
        }


class _Printer:
    def __init__(self, model: Model, row: Function, dtype: str, steps: Sequence[_Step]) -> None:
        self.model = model
        self.row = row
        self.dtype = dtype
        self.steps = steps
        self.n = model.nv
        self.tree = _Tree(model.parents)
        self.turning = all(body.joint.kind is JointKind.REVOLUTE for body in model.bodies)
        # Warps for the links, or for two columns per link; excess threads wait at the barriers.
        width = self.n if row.name == "rnea" else 2 * self.n
        self.threads = _WARP * -(-width // _WARP)

    def printed(self) -> CooperativeSource:
        """Return the kernel's source and launch configuration."""
        n, row, tree = self.n, self.row, self.tree
        phases = [phase for step in self.steps for phase in step.phases]
        cleared = self._cleared({name for phase in phases for name in phase.memory})
        places, words = self._places(cleared)
        needed = {name for phase in phases for name in phase.tables}
        tables = {name: table for name, table in tree.tables.items() if name in needed}
        indices = [entry for table in tables.values() for entry in table]
        copied = sum(len(table) for name, table in tables.items() if name not in _IN_PLACE)
        begins = dict(zip(tables, _starts(list(map(len, tables.values()))), strict=True))
        size = _BYTES[self.dtype]
        shared_bytes = -(-(words * size + 2 * copied) // size) * size
        if shared_bytes > LARGEST or self.threads > 1024 or tree.pairs > 32767:
            raise ComputeError(
                f"'{row.name}' of '{self.model.name}' ({amount(n, 'joint')}) needs "
                f"{shared_bytes:,} bytes of shared memory, {self.threads:,} threads and "
                f"{tree.pairs:,} pairs of joints, but a block has at most {LARGEST:,} bytes, "
                f"1,024 threads and 32,767 pairs: {_OTHER}."
            )
        name = f"pinion_{row.name}"
        scalar = SCALARS[self.dtype]
        x, y, z = self.model.gravity
        second = _WARP * -(-n // _WARP) % self.threads
        text = f"""\
// {comment(f"{row.name} of {self.model.name}, {self.dtype}: one block per sample")}
// Generated by Pinion {installation.version()}.
#include "block.cuh"

namespace {{
struct Robot {{
  typedef {scalar} T;
  static constexpr int n = {n}, pairs = {tree.pairs}, levels = {tree.levels};
  static constexpr int trees = {tree.trees}, threads = {self.threads}, second = {second};
  static constexpr bool turning = {_bool(self.turning)}, branched = {_bool(tree.branched)};
  static constexpr bool renumbered = {_bool(tree.dof != list(range(n)))};
  static constexpr double gravity_x = {x!r}, gravity_y = {y!r}, gravity_z = {z!r};
  static constexpr int constants = {self._words("constants")}, words = {words};
  struct At {{
    static constexpr int {_settings(places)};
  }};
  struct Index {{
    static constexpr int {_settings(begins)};
    static constexpr int count = {copied};
  }};
}};
// Placements of the joints, inertias of the links, kinds of the joints.
__device__ const {scalar} numbers[] = {{{", ".join(map(repr, self._numbers()))}}};
__device__ const short tables[] = {{{", ".join(map(str, indices))}}};
}} // namespace

extern "C" __global__ void __launch_bounds__({self.threads})
{name}(long long count, {self._parameters(scalar)}) {{
  extern __shared__ __align__(16) {scalar} shared[];
  typedef Robot::At At;
  constexpr int n = Robot::n;
  const pinion::Block<Robot> block(shared, numbers, tables);
{"".join(f"  block.clear(At::{array}, {self._words(array)});{chr(10)}" for array in cleared)}\
  for (long long sample = blockIdx.x; sample < count; sample += gridDim.x) {{
{self._body()}  }}
}}
"""
        levels = sum(tree.levels - 1 for step in self.steps if step.each_level)
        return CooperativeSource(
            text=text,
            name=name,
            dtype=self.dtype,
            inputs=row.inputs,
            results=row.results,
            threads=self.threads,
            shared_bytes=shared_bytes,
            barriers=len(self.steps) - 1 + levels,
            links=n,
            pairs=tree.pairs,
            levels=tree.levels,
        )

    def _parameters(self, scalar: str) -> str:
        inputs = [f"const {scalar} *const __restrict__ {block.name}" for block in self.row.inputs]
        results = [f"{scalar} *const __restrict__ {block.name}" for block in self.row.results]
        return ", ".join([*inputs, *results])

    def _body(self) -> str:
        """Return the kernel's body: its steps, with barriers between them."""
        samples = {
            block.name: f"{block.name} + sample * {_size(block)}"
            for block in (*self.row.inputs, *self.row.results)
        }
        lines: list[str] = []
        for number, step in enumerate(self.steps):
            lines.append(f"// {step.title}")
            calls = [f"block.{phase.call.format(**samples)};" for phase in step.phases]
            if step.each_level:
                lines.append("for (int level = Robot::levels - 1; level >= 0; --level) {")
                lines += [f"  {line}" for line in (*calls, "__syncthreads();")]
                lines.append("}")
            else:
                lines += calls
                if number < len(self.steps) - 1:
                    lines.append("__syncthreads();")
        return "".join(f"    {line}\n" for line in lines)

    def _numbers(self) -> list[float]:
        """Return the links' constants for the kernel's table, by component, then by link."""
        columns: list[list[float]] = []
        for dof in self.tree.dof:
            body = self.model.bodies[dof]
            placed, inertia = body.joint.tree, body.inertia
            column = [*(x for line in placed.E for x in line), *placed.r]
            column += [inertia.mass, *inertia.h, *inertia.I]
            if not self.turning:
                kind = body.joint.kind
                column.append(0.0 if kind is JointKind.PRISMATIC else 1.0)
                column.append(1.0 if kind is JointKind.PRISMATIC else body.joint.pitch)
            columns.append(column)
        return [float(column[k]) for k in range(len(columns[0])) for column in columns]

    def _words(self, array: str) -> int:
        """Return the number of words of an array in shared memory."""
        n, pairs = self.n, self.tree.pairs
        links = {"constants": 10 if self.turning else 12, "X": 12, "qd": 1, "qdd": 1, "v": 6}
        links |= {"a": 6, "drag": 27, "net": 6, "composite": 10, "pivot": 1, "residual": 1}
        of_pairs = {"carried_effort": 1, "carried_force": 6, "carried_inertia": 10, "M": 1}
        of_pairs |= {"columns": 24}
        if array in links:
            return links[array] * n
        return (
            of_pairs[array] * pairs if array in of_pairs else {"minv": 1, "dtau": 2}[array] * n * n
        )

    def _cleared(self, used: set[str]) -> list[str]:
        """Return the arrays to fill with zeros, because no phase writes some of their entries."""
        sums = []
        if "dtau" in used and 2 * self.tree.pairs - self.n < self.n**2:
            sums.append("dtau")
        # Products with M^-1 skip entries between trees.
        has_inverse = any(block.name == "minv" for block in self.row.results)
        if has_inverse and self.tree.trees > 1:
            sums.append("minv")
        return sums

    def _places(self, cleared: Sequence[str]) -> tuple[dict[str, int], int]:
        """Return each array's offset in shared memory and the total size, in words.

        Arrays share words if at least one barrier separates the last read of one from the first
        write of the other. There is no barrier between the last step of a sample and the first of
        the next.
        """
        last = len(self.steps) - 1
        lives: dict[str, tuple[int, int]] = {"constants": (0, last)}
        for number, step in enumerate(self.steps):
            for array in (name for phase in step.phases for name in phase.memory):
                lives[array] = (lives.get(array, (number, 0))[0], number)
        for array, life in lives.items():
            assert life != (0, last) or array == "constants", f"{array} meets the next sample's"
        lives |= dict.fromkeys(cleared, (0, last))

        def meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
            wrapped = (a[0] == 0 and b[1] == last) or (b[0] == 0 and a[1] == last)
            return (a[0] <= b[1] and b[0] <= a[1]) or wrapped

        places: dict[str, int] = {}
        for array in sorted(lives, key=lambda name: (-self._words(name), name)):
            occupied = sorted(
                (places[other], places[other] + self._words(other))
                for other in places
                if meet(lives[array], lives[other])
            )
            at = 0
            for begin, end in occupied:
                if at + self._words(array) <= begin:
                    break
                at = max(at, end)
            places[array] = at
        return places, max(at + self._words(name) for name, at in places.items())


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return the start offsets of consecutive parts of the given sizes."""
    return [sum(sizes[:k]) for k in range(len(sizes))]


def _size(block: Block) -> str:
    """Return a C++ expression for the number of elements per sample; named axes have length n."""
    return " * ".join(str(axis) if isinstance(axis, int) else "n" for axis in block.shape)


def _settings(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _bool(value: bool) -> str:
    return "true" if value else "false"
