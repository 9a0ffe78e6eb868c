"""Survey of URDFs as a page: ``python -m benchmarks.robots DIR -o docs/robots.md``."""

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
    parser.add_argument(
        "folder", type=Path, help="folder to search for *.urdf, with its subfolders"
    )
    parser.add_argument(
        "-o", "--output", type=Path, help="file of the page; by default standard output"
    )
    parser.add_argument(
        "--package", default="the folder", help="description of the files, for the page"
    )
    parser.add_argument("--states", type=int, default=20, help="random states per robot (20)")
    parser.add_argument("--only", help="only files whose path contains this text")
    parser.add_argument("--cores", type=Path, metavar="DIR", help="build cores too, in this folder")
    parser.add_argument("--requests", type=int, default=300, help="requests per core (300)")
    parser.add_argument("--seconds", type=int, default=600, help="time for each core (600)")
    options = parser.parse_args(arguments)
    paths = sorted(options.folder.rglob("*.urdf"))
    paths = [path for path in paths if options.only is None or options.only in str(path)]
    fixed = [_row(path, options.folder, options.states, floating=False) for path in paths]
    floating = [_row(path, options.folder, options.states, floating=True) for path in paths]
    cores = []
    if options.cores is not None:
        files = {path.stem: path for path in paths}
        cores = list(
            measured(
                files,
                options.cores,
                requests=options.requests,
                seconds=options.seconds,
                progress=Progress(lambda text: print(text, file=sys.stderr, flush=True)),
            )
        )
    words = [f"--package {shlex.quote(options.package)}", "-o docs/robots.md"]
    words += ["--cores build/robots"] if cores else []
    survey = Survey(
        command=f"python -m benchmarks.robots DIR {' '.join(words)}",
        package=options.package,
        pinocchio=version("pin"),
        date=datetime.date.today().isoformat(),
        states=options.states,
        fixed=fixed,
        floating=floating,
        cores=cores,
    )
    text = page(survey)
    if options.output is None:
        print(text, end="")
    else:
        # Another run writes the table of other packages: keep it.
        if options.output.is_file() and (
            marked := MARKED.search(options.output.read_text("utf-8"))
        ):
            text = MARKED.sub(lambda _: marked[0], text)
        options.output.write_text(text, encoding="utf-8")
    return 0


def _row(path: Path, folder: Path, states: int, *, floating: bool) -> Row:
    file = _short(path, folder)
    print(file, "floating" if floating else "fixed", file=sys.stderr, flush=True)
    robot = opened(path, floating_base=floating)
    if isinstance(robot, Refused):
        return Row(file=file, reason=robot.reason.replace(str(path), path.name))
    if massless(robot.model):
        return Row(
            file=file, reason="Nothing that moves has any mass: the file supports kinematics only."
        )
    errors = survey(robot.model, robot.other, states=states, seed=SEED)
    exact = None
    if max(errors[name] for name in FUNCTIONS if name in errors) > GOAL:
        exact = rounding(robot.model, robot.other, states=states, seed=SEED)
    return Row(
        file=file,
        joints=robot.model.nv,
        options=robot.options,
        condition=errors.pop(CONDITION),
        errors=errors,
        rounding=exact,
    )


def _short(path: Path, folder: Path) -> str:
    """Return a file's name with its robot's folder, as files of several robots share names."""
    inside = path.relative_to(folder).parts
    return "/".join(dict.fromkeys((inside[max(0, len(inside) - 3)], inside[-1])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
