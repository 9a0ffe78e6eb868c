"""Writes the table of real files: ``python -m benchmarks.robots DIR -o docs/robots.md``."""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks.robots.agreement import CONDITION, FUNCTIONS, rounding, survey
from benchmarks.robots.cores import measured
from benchmarks.robots.opening import Refused, opened
from benchmarks.robots.others import MARKED
from benchmarks.robots.page import GOAL, Row, Survey, page

from pinion.base.progress import Progress
from pinion.robot import massless

SEED = 0


def main(arguments: list[str]) -> int:
    """Survey a folder of URDFs; see ``--help``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robots", description=__doc__)
    parser.add_argument("folder", type=Path, help="searched for *.urdf, with its folders")
    parser.add_argument("-o", "--output", type=Path, help="the page; standard output without it")
    parser.add_argument("--package", default="the folder", help="what the files are, for the page")
    parser.add_argument("--states", type=int, default=20, help="random states a robot (20)")
    parser.add_argument("--only", help="only files whose path holds this text")
    parser.add_argument("--cores", type=Path, metavar="DIR", help="build cores too, in this folder")
    parser.add_argument("--requests", type=int, default=300, help="requests a core (300)")
    parser.add_argument("--seconds", type=int, default=600, help="time for each core (600)")
    given = parser.parse_args(arguments)
    paths = sorted(given.folder.rglob("*.urdf"))
    paths = [path for path in paths if given.only is None or given.only in str(path)]
    fixed = [_row(path, given.folder, given.states, floating=False) for path in paths]
    floating = [_row(path, given.folder, given.states, floating=True) for path in paths]
    cores = []
    if given.cores is not None:
        files = {path.stem: path for path in paths}
        cores = list(
            measured(
                files,
                given.cores,
                requests=given.requests,
                seconds=given.seconds,
                progress=Progress(lambda text: print(text, file=sys.stderr, flush=True)),
            )
        )
    words = [f"--package {shlex.quote(given.package)}", "-o docs/robots.md"]
    words += ["--cores build/robots"] if cores else []
    made = Survey(
        command=f"python -m benchmarks.robots DIR {' '.join(words)}",
        package=given.package,
        pinocchio=version("pin"),
        date=datetime.date.today().isoformat(),
        states=given.states,
        fixed=fixed,
        floating=floating,
        cores=cores,
    )
    text = page(made)
    if given.output is None:
        print(text, end="")
    else:
        # The table of other packages stays, which another run makes.
        if given.output.is_file() and (kept := MARKED.search(given.output.read_text("utf-8"))):
            text = MARKED.sub(lambda _: kept[0], text)
        given.output.write_text(text, encoding="utf-8")
    return 0


def _row(path: Path, folder: Path, states: int, *, floating: bool) -> Row:
    file = _short(path, folder)
    print(file, "floating" if floating else "fixed", file=sys.stderr, flush=True)
    found = opened(path, floating_base=floating)
    if isinstance(found, Refused):
        return Row(file=file, reason=found.reason.replace(str(path), path.name))
    if massless(found.model):
        return Row(file=file, reason="Nothing that moves has any mass: it serves kinematics.")
    errors = survey(found.model, found.other, states=states, seed=SEED)
    exact = None
    if max(errors[name] for name in FUNCTIONS if name in errors) > GOAL:
        exact = rounding(found.model, found.other, states=states, seed=SEED)
    return Row(
        file=file,
        joints=found.model.nv,
        options=found.options,
        condition=errors.pop(CONDITION),
        errors=errors,
        rounding=exact,
    )


def _short(path: Path, folder: Path) -> str:
    """The file with the folder of its robot: two files of different robots may share a name."""
    inside = path.relative_to(folder).parts
    return "/".join(dict.fromkeys((inside[max(0, len(inside) - 3)], inside[-1])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
