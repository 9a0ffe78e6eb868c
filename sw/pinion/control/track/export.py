"""Export of a controller as a C library, independent of Python.

The library has the period of :mod:`.period` for every instruction set; robot, cost, knots and times
are compiled in, and the motion, or a target, is passed in arrays.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pinion.base import installation
from pinion.base.escaping import comment, markdown
from pinion.base.progress import SILENT, Progress
from pinion.compute.library_folder import LibraryFolder, host_sets, library_name
from pinion.compute.native import HEADERS
from pinion.control.errors import ControlError
from pinion.control.plant import contacts_in
from pinion.control.solve.engine import LOST
from pinion.control.solve.ilqr import Options
from pinion.native import InstructionSet
from pinion.native.isa import INSTRUCTION_SETS
from pinion.robot import contacts_of

from .motion import Motion
from .period import TYPES, WEIGHTS, Horizon

_HERE = Path(__file__).parent

_RUNTIME = ("abi.h", "vec.hpp", "sincos.hpp", "kernel.hpp", "transpose.hpp", "batch.hpp")


def export_controller(
    horizon: Horizon,
    motion: Motion,
    folder: Path,
    *,
    name: str | None = None,
    compiler: str | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Write a folder with a controller as a C library, and a program that tracks a motion with it.

    The folder contains ``include/NAME.h``, ``lib/libNAME.so`` for this machine's architecture (the
    instruction set is chosen at run time), ``lib/pkgconfig/NAME.pc``, the sources in ``src``, a
    ``CMakeLists.txt`` that compiles them anywhere, ``real_time.c`` with ``motion.bin``, and
    ``README.md``.

    Parameters
    ----------
    horizon : the controller without its motion, such as an :class:`.mpc.Mpc`'s ``horizon``.
    motion : for ``motion.bin``.
    folder : created; it must not exist, or be empty.
    name : name of the library and prefix of its functions; by default the robot and ``mpc``.
    compiler, progress : as for :func:`pinion.compute.export.export_library`.

    Returns
    -------
    Name, files, instruction sets and dtype, for reports.

    Raises
    ------
    ControlError
        If the motion does not match the horizon, or its steps are not semi-implicit.
    InputError
        If the folder is not empty or not writable, the name is not a valid C name, or the sources
        do not compile. Nothing is left behind.
    """
    horizon.check(motion)
    if horizon.method != "semi_implicit":
        raise ControlError(
            f"An exported controller has semi-implicit steps, but the plant's method is "
            f"'{horizon.method}': open the plant with the method 'semi_implicit'."
        )
    checked_name = library_name(name, horizon.model.name, "mpc")
    library = _ControllerLibrary(
        name=checked_name,
        title=f"a model predictive controller of {horizon.model.name}",
        horizon=horizon,
        motion=motion,
    )
    return {
        "name": library.name,
        "files": library.export(folder, compiler=compiler, progress=progress),
        "instruction_sets": [isa.name for isa in host_sets()],
        "dtype": horizon.dtype,
    }


@dataclass(frozen=True, kw_only=True)
class _ControllerLibrary(LibraryFolder):
    horizon: Horizon
    motion: Motion

    def _prefix(self, isa: InstructionSet) -> str:
        return f"{self.name}_{isa.name}"

    def units(self) -> dict[str, InstructionSet]:
        """Return the instruction set of each source that is compiled for one, by file name."""
        return {
            file: isa for isa in INSTRUCTION_SETS for file in self.horizon.files(self._prefix(isa))
        }

    def sources(self, progress: Progress) -> dict[str, str]:
        """Return the texts of all sources and their headers, by file name."""
        texts = {file: (HEADERS / file).read_text() for file in _RUNTIME}
        texts |= {file: (_HERE / file).read_text() for file in ("period.hpp", "problem.hpp")}
        for isa in INSTRUCTION_SETS:
            progress.step(f"printing {self.horizon.dtype} for {isa.name}")
            texts |= self.horizon.sources(isa, self._prefix(isa))
        texts[f"{self.name}.cpp"] = self._dispatcher()
        return texts

    def files(self) -> dict[str, bytes]:
        """Return the contents of the program, its motion and a README, by file name."""
        motion, kind = self.motion, np.dtype(self.horizon.dtype)
        contacts = motion.on_ground(contacts_in(self.horizon.model))
        tip = motion.tip[:, : self.horizon.tip]
        arrays = (motion.q, motion.qd, motion.tau, tip, contacts)
        program = re.sub(
            "NAME(?=(_[A-Z])?)",
            lambda match: self.name.upper() if match[1] else self.name,
            (_HERE / "real_time.c").read_text(),
        )
        return {
            "real_time.c": program.encode(),
            "motion.bin": b"".join(np.ascontiguousarray(x, kind).tobytes() for x in arrays),
            "README.md": self._readme().encode(),
        }

    def header(self) -> str:
        """Return the text of the library's C header."""
        horizon, name, space = self.horizon, self.name, self.horizon.space
        nq, nv, nu, nx, ndx = space.nq, space.nv, space.nu, space.nx, space.ndx
        upper, contacts = name.upper(), contacts_of(horizon.model)
        title = comment(
            f"{self.title[:1].upper()}{self.title[1:]}: {horizon.knots} knots of "
            f"{horizon.step:g} s, a period of {horizon.period:g} s."
        )
        bodies = [body for body in horizon.model.bodies if not horizon.model.follows(body)]
        joints = ", ".join(body.joint.name for body in bodies)
        turning = on_ground = ""
        if not space.flat:
            turning = (
                "As in Pinocchio, a floating base has 7 positions, with a quaternion (x, y, z, w) "
                "of unit length, 6 velocities along its own axes, and no effort; a spherical joint "
                "has such a quaternion, and a planar joint its cosine and sine; gains and rates "
                "are of the changes of positions. "
            )
        if contacts:
            names = "; ".join(contact.name for contact in contacts)
            on_ground = f" Contacts: {comment(names)}."
        about = textwrap.fill(
            f"Joints: {comment(joints)}. {turning}Positions in rad or m, velocities in rad/s or "
            "m/s, efforts in N m or N; a state x is positions, then velocities. The tip's position "
            f"is in m, in base coordinates.{on_ground}",
            width=100,
            initial_indent="   ",
            subsequent_indent="   ",
        )
        return f"""\
/* {title}
   Generated by Pinion {installation.version()}.

{about}

   A controller lies in memory of yours, which it never leaves: nothing is allocated, locked or
   asked of the operating system after {name}_open. Several controllers may run in several threads,
   but each in one at a time. */
#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

typedef {TYPES[horizon.dtype]} {name}_real;

enum {{
  {upper}_NQ = {nq}, {upper}_NV = {nv}, {upper}_NU = {nu}, /* positions, velocities, efforts */
  {upper}_CONTACTS = {len(contacts)}, /* loops of links are the last ones */
  {upper}_TIP = {horizon.tip}, /* coordinates of the tip, if the cost weighs it */
  {upper}_ROWS = {horizon.knots * horizon.stride + 1}, /* least rows of a motion: one horizon */
  {upper}_ALIGNMENT = 64 /* of a controller's memory, in bytes */
}};
#define {upper}_PERIOD {float(horizon.period)!r} /* from one update to the next [s] */

/* Answers: 0, or why there is no new law; the last one then holds. */
enum {{
  {upper}_DONE = 0,
  {upper}_NO_PERIOD = 1,   /* the motion has no horizon that begins with this period */
  {upper}_NOT_FINITE = 2,  /* the state has a NaN or an infinity */
  {upper}_DIVERGED = 3,    /* even the motion's own efforts lead beyond all bounds */
  {upper}_NO_GRADIENT = 4, /* no gradient of the first horizon is finite */
  {upper}_BAD_ARGUMENT = 5 /* a null pointer, memory that is not aligned, or too few rows */
}};

/* What to track: arrays of `rows` rows, one for each period from 0 on, as in real_time.c, or of a
   single row, which is the target of all periods. They stay yours, and must outlive the controller;
   a target may be written anew between two updates. */
typedef struct {{
  int64_t rows;
  const {name}_real *q, *qd, *tau; /* {upper}_NQ, {upper}_NV and {upper}_NU numbers a row */
  const {name}_real *tip; /* {upper}_TIP numbers a row; null if it is 0 */
  const {name}_real *active; /* {upper}_CONTACTS numbers a row, 1 for a contact on the ground and 0
                                for one in the air; null if it is 0 */
}} {name}_motion;

/* The law until the next update, u - K (x - begin - t rate), clipped to the limits of efforts; t is
   the time since the update. Zero, so no effort at all, before the first one. */
typedef struct {{
  {name}_real u[{nu}], K[{nu}][{ndx}], begin[{nx}], rate[{ndx}];
}} {name}_law;

/* Since a controller was opened: gradients, those of them that were not finite, and horizons that
   were lost. */
typedef struct {{
  int64_t flagged, gradients, restarts;
}} {name}_counts;

typedef struct {name}_controller {name}_controller;

/* Bytes of a controller. */
size_t {name}_bytes(void);

/* Opens a controller in memory of {name}_bytes() bytes; {upper}_DONE or {upper}_BAD_ARGUMENT. */
int {name}_open({name}_controller *memory, const {name}_motion *motion);

/* Computes the law of a period from the state ({nx},) measured at its start. Periods count from 0;
   some may be skipped. */
int {name}_update({name}_controller *controller, int64_t period, const double *x);

/* The last law; {name}_efforts may use a copy of it in another thread. */
const {name}_law *{name}_last_law(const {name}_controller *controller);

/* Efforts ({nu},) of a law, `seconds` after its update, in the state x; NaN if x has one. */
void {name}_efforts(const {name}_law *law, double seconds, const double *x, double *u);

{name}_counts {name}_counted(const {name}_controller *controller);

/* For simulation: moves the state x by one semi-implicit step of the robot that the controller
   knows, with efforts u, and contacts on the ground as in a period of the motion. */
void {name}_simulate({name}_controller *controller, int64_t period, double seconds, double *x,
                     const double *u);

/* The instruction set that is used: {", ".join(isa.name for isa in INSTRUCTION_SETS)}. */
const char *{name}_isa(void);

#ifdef __cplusplus
}}
#endif

#endif
"""

    def _dispatcher(self) -> str:
        """Return the source that picks the best instruction set and calls its controller."""
        horizon, name, space = self.horizon, self.name, self.horizon.space
        kind, upper = TYPES[horizon.dtype], name.upper()
        newline = "\n"
        declared, rows = [], {}
        for isa in INSTRUCTION_SETS:
            prefix = self._prefix(isa)
            declared.append(
                f"size_t {prefix}_bytes(void);\n"
                f"void {prefix}_open(void *, Problem<{kind}> *);\n"
                f"int {prefix}_update(void *, int64_t, const double *);\n"
                f"void {prefix}_simulate(void *, int64_t, double, double *, const double *);\n"
                f"void {prefix}_efforts(const void *, const double *, double, const double *, "
                "double *);"
            )
            functions = ("bytes", "open", "update", "simulate", "efforts")
            members = ", ".join(f"{prefix}_{function}" for function in functions)
            rows[isa.name] = f'{{"{isa.name}", {members}}}'
        weights = newline.join(
            f"const double {name.upper()}[] = {{{_numbers(values)}}};"
            for name, values in horizon.weights.items()
        )
        assigned = "\n  ".join(f"problem.{name} = {name.upper()};" for name in WEIGHTS)
        return f"""\
// {comment(self.title)}: chooses the instruction set, then computes.
#define PINION_API
#include "problem.hpp"

#pragma GCC visibility push(default)
#include "{name}.h"
#pragma GCC visibility pop

using namespace pinion;

extern "C" {{
{newline.join(declared)}
}}

namespace {{

struct Machine {{
  const char *name;
  size_t (*bytes)(void);
  void (*open)(void *, Problem<{kind}> *);
  int (*update)(void *, int64_t, const double *);
  void (*simulate)(void *, int64_t, double, double *, const double *);
  void (*efforts)(const void *, const double *, double, const double *, double *);
}};

{self.machine(rows)}

// Regularisations of a backward pass that is not convex, and largest efforts.
const double LADDER[] = {{{_numbers(Options().ladder())}}};
const double LIMITS[] = {{{_numbers(horizon.limits)}}};
// Weights of each joint.
{weights}

typedef Law<{kind}, {space.nq}, {space.nv}, {space.nu}> OwnLaw;
static_assert(sizeof(OwnLaw) == sizeof({name}_law), "the law's layout");

const Log &log_of(const {name}_controller *controller) {{
  // A controller begins with its law and its log.
  struct Head {{
    OwnLaw law;
    Log log;
  }};
  return ((const Head *)controller)->log;
}}

}} // namespace

extern "C" {{
size_t {name}_bytes(void) {{ return machine().bytes(); }}

int {name}_open({name}_controller *memory, const {name}_motion *motion) {{
  if (!memory || (uintptr_t)memory % {upper}_ALIGNMENT || !motion || !motion->q ||
      !motion->qd || !motion->tau || ({upper}_TIP && !motion->tip) ||
      ({upper}_CONTACTS && !motion->active) || motion->rows < 1 ||
      (motion->rows > 1 && motion->rows < {upper}_ROWS))
    return {upper}_BAD_ARGUMENT;
  Problem<{kind}> problem = {{}};
  problem.rows = motion->rows;
  problem.stride = {horizon.stride};
  problem.iterations = {horizon.iterations};
  problem.rungs = sizeof LADDER / sizeof *LADDER;
  problem.step = {float(horizon.step)!r};
  problem.lost = {LOST!r};
  {assigned}
  problem.ladder = LADDER;
  problem.limit = LIMITS;
  problem.q = motion->q;
  problem.qd = motion->qd;
  problem.tau = motion->tau;
  problem.tip = motion->tip;
  problem.active = motion->active;
  machine().open(memory, &problem);
  return {upper}_DONE;
}}

int {name}_update({name}_controller *controller, int64_t period, const double *x) {{
  if (!controller || !x) return {upper}_BAD_ARGUMENT;
  return machine().update(controller, period, x);
}}

const {name}_law *{name}_last_law(const {name}_controller *controller) {{
  return (const {name}_law *)controller;
}}

void {name}_efforts(const {name}_law *law, double seconds, const double *x, double *u) {{
  machine().efforts(law, LIMITS, seconds, x, u);
}}

{name}_counts {name}_counted(const {name}_controller *controller) {{
  const Log &log = log_of(controller);
  return {{log.flagged, log.gradients, log.restarts}};
}}

void {name}_simulate({name}_controller *controller, int64_t period, double seconds, double *x,
                     const double *u) {{
  machine().simulate(controller, period, seconds, x, u);
}}

const char *{name}_isa(void) {{ return machine().name; }}
}}
"""

    def _readme(self) -> str:
        horizon, name = self.horizon, self.name
        return f"""\
# {name}

{markdown(self.title[:1].upper() + self.title[1:])} as a C library, with {horizon.dtype}:
{horizon.knots} knots of {horizon.step:g} s, a period of {horizon.period:g} s.
`include/{name}.h` says how to call it.

    cc -O2 real_time.c -Iinclude -Llib -l{name} -Wl,-rpath,'$ORIGIN/lib' -o real_time
    sudo ./real_time motion.bin

tracks the motion in `motion.bin` with a simulated robot, at the controller's period, and prints
histograms of its latencies. Without `sudo` (or the right to real-time priority) it runs too, and
says so.

{self.description()}"""


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(
        repr(float(value)) if np.isfinite(value) else "__builtin_inf()" for value in values
    )
