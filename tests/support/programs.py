"""Every function of twelve robots on the processor's card: ``python -m tests.support.programs``.

Each program is compiled, loaded into the compiled card, and answers 1,000 requests, which the model
answers too: every bit and flag must be the same. What has no program is counted and named.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pinion.card.processor import SimulatedProcessor
from pinion.functions import DISTRIBUTIONS, FUNCTIONS, FunctionError, named_function, sample
from pinion.link import function_id
from pinion.processor import Machine, ProgramError, compile_program
from pinion.processor.backend import ProcessorBackend
from pinion.processor.card import load
from pinion.processor.image import Image, Name
from pinion.processor.machine import TEAMS
from pinion.processor.manifest import program_manifest
from pinion.robot import Model, load_text, random_tree
from pinion.robot import load as load_robot
from tests.support.rows import robot
from tests.support.ur5 import like_a_ur5

REQUESTS = 1000
GRIPPER = Path(__file__).parents[2] / "examples/gripper.urdf"


def _tree() -> Model:
    return load_text(random_tree(np.random.default_rng(38), 8))


def _ur5() -> Model:
    with TemporaryDirectory() as folder:
        return load_robot(like_a_ur5(Path(folder) / "ur5.urdf"))


BUILT_IN = ("pendulum", "two_link", "chain_3", "chain_10", "iiwa14", "hyq", "baxter", "atlas")

ROBOTS: Mapping[str, Callable[[], Model]] = {
    **{name: partial(robot, name) for name in (*BUILT_IN, "floating hyq")},
    "UR5": _ur5,
    "gripper": partial(load_robot, GRIPPER),
    "tree": _tree,
}


@dataclass
class Outcome:
    """Result of comparing a robot's functions on a team.

    Members
    -------
    exact : rows whose every result was the model's.
    wrong : rows with a difference.
    without : rows without a program, and why.
    flagged : share of flagged requests.
    """

    robot: str
    lanes: int
    exact: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)
    flagged: float = 0.0
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """Summary of the result as text."""
        text = (
            f"{self.robot}, {self.lanes} lanes: {len(self.exact)} rows exact, {len(self.wrong)} "
            f"wrong {self.wrong or ''}, {self.flagged:.2%} of requests flagged, "
            f"{self.seconds:.0f} s"
        )
        reasons = [f"  no program: {name}: {why}" for name, why in self.without.items()]
        return "\n".join([text, *reasons])


def outcome(robot: str, lanes: int, *, requests: int = REQUESTS) -> Outcome:
    """Run all functions of a robot on a simulated card, and compare them with the model."""
    began = time.monotonic()
    result = Outcome(robot, lanes)
    model = ROBOTS[robot]()
    machine = Machine(lanes=lanes)
    card = SimulatedProcessor(machine=machine, teams=TEAMS)
    flags = 0
    for name in FUNCTIONS:
        row = named_function(name)
        try:
            row.check(model)
            compiled = compile_program(model, row, machine)
        except (FunctionError, ProgramError) as error:
            result.without[name] = str(error)
            continue
        parts = [
            sample(model, row, -(-requests // len(DISTRIBUTIONS)), distribution=where, seed=k)
            for k, where in enumerate(DISTRIBUTIONS)
        ]
        arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        manifest = program_manifest(model, row, compiled)
        image = Image.of(
            [compiled.program], [Name(build=manifest.hash, function=function_id(row.name))]
        )
        right = ProcessorBackend(manifest=manifest, program=compiled.program)(**arrays)
        (device,) = load(card, image, [manifest])
        with device:
            values = device(**arrays)
        same = np.array_equal(values.saturated, right.saturated) and all(
            np.array_equal(values[key].view(np.uint32), right[key].view(np.uint32))
            for key in right.names
        )
        (result.exact if same else result.wrong).append(name)
        flags += int(right.saturated.sum())
    result.flagged = flags / max(1, requests * (len(result.exact) + len(result.wrong)))
    result.seconds = time.monotonic() - began
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare all robots and teams, print the results, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.programs")
    parser.add_argument("--robots", nargs="*", default=list(ROBOTS), choices=list(ROBOTS))
    parser.add_argument("--lanes", nargs="*", type=int, default=[1, 4])
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    tasks = [(robot, lanes) for lanes in options.lanes for robot in options.robots]
    failed = exact = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        run = partial(outcome, requests=options.requests)
        for result in pool.map(run, *zip(*tasks, strict=True)):
            print(result.line, flush=True)
            failed += bool(result.wrong or not result.exact)
            exact += len(result.exact)
    print(f"{exact} programs exact, {failed} of {len(tasks)} robots and teams failed", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
