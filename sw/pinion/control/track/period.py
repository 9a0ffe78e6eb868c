"""A controller's period as one call of compiled code.

``period.hpp`` has the period; compiled kernels of the robot and the cost are linked with it. All
memory is allocated when a controller is opened.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from pinion.base import package_digest
from pinion.base.arrays import Floats
from pinion.base.sources import up_to
from pinion.compute import cpu
from pinion.compute.layouts import BLOCK
from pinion.compute.native import HEADERS, aligned, cached_library
from pinion.control.errors import ControlError, check_whole
from pinion.control.limits import effort_limits
from pinion.control.plant import check_step, contacts_in
from pinion.control.solve.cost import CostModel
from pinion.control.solve.engine import LOST
from pinion.control.solve.ilqr import Options
from pinion.control.solve.weights import Cost
from pinion.control.state import StateSpace
from pinion.functions import Function
from pinion.native import Cache, InstructionSet, default_folder, find_compiler
from pinion.robot import Model, model_to_dict

from .motion import Motion
from .period_functions import PeriodFunctions

PARTS = ("gradients", "backward", "rest")
"""Parts of a period's time: the backend, the backward pass, and everything else."""

NO_PERIOD, NOT_FINITE, DIVERGED, ALL_FLAGGED = 1, 2, 3, 4
"""Statuses of ``period.hpp``: the motion has no such period; the state is not finite; the horizon
diverged; no gradient of the first one is finite."""

KERNELS = (
    *("forward", "gradient", "running", "final"),
    *("moved", "difference", "gains", "planned", "plan"),
)
"""Compiled functions of a period, as ``Problem`` of ``problem.hpp`` has them; the second line is
that of robots with joints whose positions do not add."""

WEIGHTS = ("rate_weights", "final_rate_weights", "effort_weights")
"""Weights of the joints, as ``Problem`` has them; the others are part of the kernels."""

LawParts = tuple[Floats, Floats, Floats, Floats]
"""u, K, begin and rate of a :class:`.mpc.Law`."""

LAW = ("law's u", "law's K", "law's begin", "law's rate", "law's limit", "state")
"""Arrays from which efforts are computed, as messages name them."""

TYPES = {"float32": "float", "float64": "double"}

_HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """A controller without its motion: robot, cost and knots, for which code is compiled.

    Members
    -------
    model, cost : the robot and the cost of its motions.
    knots : of the horizon.
    dtype : ``float32`` or ``float64``.
    step, period : between two knots, and two updates [s].
    iterations : in each period.
    method, velocity_gain, damping : of the plant's steps.

    Raises
    ------
    ControlError
        If the step is not a multiple of the period, there are too few knots or iterations, the cost
        does not fit the robot, or the dtype is unknown.
    """

    model: Model
    cost: Cost
    knots: int
    dtype: str
    step: float
    period: float
    iterations: int = 1
    method: str = "semi_implicit"
    velocity_gain: float = 0.0
    damping: float = 0.0

    def __post_init__(self) -> None:
        if self.dtype not in TYPES:
            raise ControlError(f"Unknown dtype '{self.dtype}': choose one of {', '.join(TYPES)}.")
        check_step(self.step, self.method)
        check_step(self.period, name="period")
        check_whole("'knots'", self.knots)
        check_whole("'iterations'", self.iterations)
        if self.stride < 1 or abs(self.stride * self.period - self.step) > 1e-9:
            raise ControlError(
                f"The plant's step of {self.step} s is not a multiple of the period of "
                f"{self.period} s: choose a period that divides the step."
            )
        if self.knots < 2 or self.iterations < 1:
            raise ControlError(
                f"At least 2 knots and 1 iteration are needed, not {self.knots} and "
                f"{self.iterations}."
            )
        # Also checks weights and frame, before anything is compiled.
        CostModel(self.model, self.cost)
        if not self.space.nu:
            raise ControlError(
                f"{self.model.name} has no actuators: give a robot with an actuated joint."
            )

    @property
    def space(self) -> StateSpace:
        """States and actuators of the robot."""
        return StateSpace(self.model)

    @property
    def stride(self) -> int:
        """Number of periods in a step."""
        return round(self.step / self.period)

    @property
    def limits(self) -> Floats:
        """Largest efforts, (nu,) [N m | N]."""
        return effort_limits(self.model)

    @property
    def weights(self) -> dict[str, Floats]:
        """Weights of the joints, (nv,) or (nu,), by the names in `WEIGHTS`."""
        running, final, nv = self.cost.running, self.cost.final, self.model.nv
        arrays = (
            running.by_joint("qd", nv),
            final.by_joint("qd", nv),
            running.by_joint("tau", self.space.nu),
        )
        return {
            name: np.ascontiguousarray(array) for name, array in zip(WEIGHTS, arrays, strict=True)
        }

    @property
    def tip(self) -> int:
        """Number of tip coordinates in the cost, 3 or 0."""
        return 3 if self.cost.has_tip else 0

    def check(self, motion: Motion) -> None:
        """Raise `ControlError` if a controller with this horizon cannot track a motion.

        Raises
        ------
        ControlError
            If it is of another robot, tip or period, or shorter than the horizon.
        """
        sizes = {
            "positions": (motion.q, self.model.nq),
            "rates": (motion.qd, self.model.nv),
            "efforts": (motion.tau, len(self.limits)),
        }
        if motion.active is not None:
            sizes["contacts"] = (motion.active, contacts_in(self.model))
        for name, (array, size) in sizes.items():
            if np.shape(array) != (motion.rows, size):
                raise ControlError(
                    f"The {name} of the motion have the shape {np.shape(array)}, but "
                    f"{self.model.name} needs {(motion.rows, size)}."
                )
        self.cost.check_compiled(
            "A controller", "weight one tip's position, with the same weights at all knots"
        )
        if self.cost.has_tip and self.cost.frame != motion.frame:
            raise ControlError(
                f"The cost is for the tip '{self.cost.frame}', but the motion is for "
                f"'{motion.frame}': use the same tip for both."
            )
        if abs(motion.dt - self.period) > 1e-9:
            raise ControlError(
                f"The motion has a row every {motion.dt} s, but the period is {self.period} s: "
                "make the motion with the period as its dt."
            )
        if self.knots * self.stride >= motion.rows:
            raise ControlError(
                f"The motion of {(motion.rows - 1) * self.period:.3g} s is shorter than a horizon "
                f"of {self.knots * self.step:.3g} s: use fewer knots, or a longer motion."
            )

    def functions(self, isa: InstructionSet) -> PeriodFunctions:
        """Return the functions to compile, with rows padded to an instruction set's vectors."""
        lanes = isa.vector_bytes // np.dtype(self.dtype).itemsize
        return PeriodFunctions(
            model=self.model,
            cost=self.cost,
            step=self.step,
            velocity_gain=self.velocity_gain,
            damping=self.damping,
            width=(self.model.nv // lanes + 1) * lanes,
            effort_width=-(-self.space.nu // lanes) * lanes,
        )

    def files(self, prefix: str) -> list[str]:
        """Return the file names of `sources`."""
        names = KERNELS[:4] if self.space.flat else KERNELS
        return [*(f"{prefix}_{name}.cpp" for name in names), f"{prefix}.cpp"]

    def sources(self, isa: InstructionSet, prefix: str) -> dict[str, str]:
        """Return a library's sources by file name; its functions' names begin with ``prefix``."""
        texts, scratch, functions = {}, 0, self.functions(isa)
        kernels = functions.all()
        for name, (row, vector) in kernels.items():
            graph = cpu.graph_of(self.model, row)
            text = cpu.kernel_of(
                self.model, row, graph, dtype=self.dtype, machine=isa, vector=vector
            ).text
            texts[f"{prefix}_{name}.cpp"] = (
                f"#define PINION_API\n#define PINION_GET_KERNEL {prefix}_{name}\n{text}"
            )
            scratch = max(scratch, _scratch(self.model, row, np.dtype(self.dtype).itemsize))
        kind = TYPES[self.dtype]
        getters = "\n".join(f"const pinion_kernel *{prefix}_{name}(void);" for name in kernels)
        opened = "\n".join(f"  problem->{name} = {prefix}_{name}();" for name in kernels)
        space = self.space
        masks, forces = contacts_in(self.model), functions.forces
        shape = (space.nq, space.nv, space.nu, masks, forces, self.knots, self.tip)
        texts[f"{prefix}.cpp"] = f"""\
#include "period.hpp"

extern "C" {{
{getters}
}}

namespace {{
using namespace pinion;
typedef {kind} T;
typedef Controller<T, {", ".join(map(str, shape))}, {scratch}> Mine;
static_assert(Mine::WIDTH == {functions.width} && Mine::EFFORT_WIDTH == {functions.effort_width},
              "rows of the kernels");

void use_kernels(Problem<T> *problem) {{
{opened}
}}
}} // namespace

extern "C" {{
size_t {prefix}_bytes(void) {{ return sizeof(Mine); }}
void {prefix}_open(void *memory, Problem<T> *problem) {{
  use_kernels(problem);
  ((Mine *)memory)->open(*problem);
}}
void {prefix}_efforts(const void *law, const double *limit, double seconds, const double *x,
                      double *u) {{
  Problem<T> problem = {{}};
  use_kernels(&problem);
  problem.limit = limit;
  typedef Law<T, {space.nq}, {space.nv}, {space.nu}> Own;
  Mine::efforts(*(const Own *)law, problem, seconds, x, u);
}}
int {prefix}_update(void *memory, int64_t number, const double *x) {{
  return ((Mine *)memory)->update(number, x);
}}
void {prefix}_simulate(void *memory, int64_t number, double seconds, double *x, const double *u) {{
  ((Mine *)memory)->simulate(number, seconds, x, u);
}}
}}
"""
        return texts


def _scratch(model: Model, row: Function, itemsize: int) -> int:
    """Return the size [bytes] of the scratch memory that a kernel's batch is rearranged in."""
    sizes = [prod(b.dims(model)) for b in (*row.inputs, *row.results)]
    return 1024 + (sum(sizes) + max(sizes)) * BLOCK * itemsize


class _Problem(ctypes.Structure):
    """The C struct ``Problem`` of ``problem.hpp``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in KERNELS),
        *((name, ctypes.c_int64) for name in ("rows", "stride", "iterations", "rungs")),
        *((name, ctypes.c_double) for name in ("step", "lost")),
        *((name, ctypes.c_void_p) for name in ("ladder", "limit", *WEIGHTS)),
        *((name, ctypes.c_void_p) for name in ("q", "qd", "tau", "tip", "active")),
    )


class CompiledPeriod:
    """A compiled controller: its memory, and the call that runs a control period.

    Parameters
    ----------
    horizon, motion : what it is for.
    kernel : computes the plant's gradients; the period has its instruction set, compiler and cache.

    """

    def __init__(self, horizon: Horizon, kernel: cpu.Kernel, motion: Motion) -> None:
        space, kind = horizon.space, np.dtype(horizon.dtype)
        self._library = _loaded(horizon, kernel)
        self._memory = aligned((self._library.pinion_controller_bytes(),), np.dtype(np.uint8))
        # Kept, because the controller has their addresses.
        self._arrays = [
            np.array(Options().ladder()),
            horizon.limits,
            *horizon.weights.values(),
            *(np.ascontiguousarray(x, kind) for x in (motion.q, motion.qd, motion.tau, motion.tip)),
            np.ascontiguousarray(motion.on_ground(contacts_in(horizon.model)), kind),
        ]
        problem = _Problem(
            *(None for _ in KERNELS),
            motion.rows,
            horizon.stride,
            horizon.iterations,
            len(self._arrays[0]),
            horizon.step,
            LOST,
            *(array.ctypes.data for array in self._arrays),
        )
        address = self._memory.ctypes.data
        self._library.pinion_controller_open(address, ctypes.byref(problem))
        shapes = ((space.nu,), (space.nu, space.ndx), (space.nx,), (space.ndx,))
        self._shapes = (*shapes, (space.nu,), (space.nx,))
        self._ends = np.cumsum([prod(shape) for shape in shapes]).tolist()
        numbers = self._ends[-1]
        self._law = self._memory[: numbers * kind.itemsize].view(kind)
        at = -(-numbers * kind.itemsize // 8) * 8
        self._counts = self._memory[at : at + 24].view(np.int64)
        self._seconds = self._memory[at + 24 : at + 48].view(np.float64)
        self._load = self._memory[at + 48 : at + 48 + 8 * space.nu].view(np.float64)
        self._state = np.zeros(space.nx)
        self._update = self._library.pinion_controller_update
        self._update.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        self._addresses = address, self._state.ctypes.data

    def update(self, number: int, x: Floats, load: Floats | None = None) -> int:
        """Run one control period; return its status code (``period.hpp``), 0 if there is a new law.

        ``load`` : (nu,), efforts that act besides the law's.
        """
        self._state[:] = x
        if load is not None:
            self._load[:] = load
        memory, state = self._addresses
        return int(self._update(memory, number, state))

    def law(self) -> LawParts:
        """Return u, K, begin and rate of the last :class:`.mpc.Law`."""
        numbers, (efforts, gains, begin, _) = self._law.astype(np.float64), self._ends
        K = numbers[efforts:gains].reshape(efforts, -1)
        return numbers[:efforts], K, numbers[gains:begin], numbers[begin:]

    def efforts(self, law: LawParts, limit: Floats, since: float, x: Floats) -> Floats:
        """Return :meth:`.mpc.Law.efforts` of any law of this robot.

        Raises
        ------
        ControlError
            If an array has the wrong shape.
        """
        arrays = (*law, limit, x)
        for name, array, shape in zip(LAW, arrays, self._shapes, strict=True):
            if np.shape(array) != shape:
                raise ControlError(f"The {name} has the shape {np.shape(array)}: give {shape}.")
        u, K, begin, rate = law
        numbers = np.concatenate((u, np.ravel(K), begin, rate), dtype=self._law.dtype)
        largest, state = (np.ascontiguousarray(array, np.float64) for array in (limit, x))
        efforts = np.empty(len(u))
        self._library.pinion_controller_efforts(
            *(numbers.ctypes.data, largest.ctypes.data),
            since,
            *(state.ctypes.data, efforts.ctypes.data),
        )
        return efforts

    def counts(self) -> list[int]:
        """Return the numbers of flagged gradients, all gradients and restarts since opening."""
        numbers: list[int] = self._counts.tolist()
        return numbers

    def seconds(self) -> list[float]:
        """Return the times [s] of the last period's `PARTS`, in their order."""
        numbers: list[float] = self._seconds.tolist()
        return numbers


def _loaded(horizon: Horizon, kernel: cpu.Kernel) -> ctypes.CDLL:
    """Return the library of a horizon, from the cache or compiled with a kernel's options."""
    isa, cache = kernel.isa, kernel.options["cache"]
    key = {
        "kind": "controller",
        "package": package_digest((*up_to("compute"), "control")),
        "model": model_to_dict(horizon.model),
        "cost": repr(horizon.cost),
        "knots": horizon.knots,
        "dtype": horizon.dtype,
        "contacts": [horizon.step, horizon.velocity_gain, horizon.damping],
    }
    path = cached_library(
        Cache(default_folder(os.environ) if cache is None else cache),
        key,
        lambda: horizon.sources(isa, "pinion_controller"),
        compiler=find_compiler(kernel.options["compiler"]),
        isa=isa,
        include=(HEADERS, _HERE),
    )
    library = ctypes.CDLL(str(path))
    library.pinion_controller_bytes.restype = ctypes.c_size_t
    library.pinion_controller_open.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    library.pinion_controller_efforts.argtypes = (
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_double),
        *(ctypes.c_void_p, ctypes.c_void_p),
    )
    library.pinion_controller_efforts.restype = None
    return library
