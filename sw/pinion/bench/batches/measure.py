"""``pinion bench compare``: batches on CPU, GPU and card, compared with other code and papers.

This module collects the rows; :mod:`pinion.bench.batches.page` shows them. Whatever this
machine lacks is listed with the reason, and the rest is measured.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from pinion.base.installation import version
from pinion.batch import InputError
from pinion.bench.cpu.measure import opponents_of
from pinion.bench.machine import installed_version, machine, processor_name
from pinion.bench.partitions.times import partition_times
from pinion.bench.targets import robots_and_functions
from pinion.compute import cuda
from pinion.console.errors import UsageError
from pinion.console.terminal import counted, put_json, say, show
from pinion.functions import named_function
from pinion.link import MAX_COUNT, Manifest, layout_of
from pinion.link.transfer import FIXED_US, LINK_MHZ, LINKS, estimate_time
from pinion.native import ComputeError
from pinion.robot import Model

from .data import (
    WORK,
    batch,
    fastest_table,
    losses,
    published_batches,
    sections,
    times_table,
    work_of,
)
from .page import write_batches
from .paper import FUNCTION as PARTITIONED
from .paper import ROBOT as PAPER_ROBOT
from .times import cpu_times, cuda_times, summary

FOLDER = Path("build") / "bench" / "compare"
PUBLISHED = Path(__file__).parents[4] / "benchmarks" / "published.json"

GRADIENTS = tuple(WORK)
SINGLE = ("rnea", "aba")
"""Functions measured by default only at `SINGLE_SIZES`: one call, and the published batch size."""

SIZES = (1, 16, 32, 64, 128, 1024, 10_000, 100_000, 1_000_000)
SINGLE_SIZES = (1, 1024)
PARTITION_SIZES = (16, 32, 64, 128, 1024, 10_000)

SERIAL = 1024
"""Number of states in one pass of code that computes them one by one."""

_OPPONENTS = {
    "casadi-c": "Pinocchio as C by CasADi",
    "pinocchio-native": "Pinocchio C++",
    "pinocchio-python": "Pinocchio Python",
}

Row = dict[str, Any]
Target = tuple[str, str]  # robot argument and function


def run(
    target: Sequence[str],
    *,
    builds: Sequence[Path],
    folder: Path,
    largest: int,
    seconds: float,
    rounds: int,
    native: bool,
    json: bool,
) -> None:
    """Measure all implementations, write the page and print the tables.

    Parameters
    ----------
    target : nothing, a robot, or a robot and functions.
    builds : build folders for the model of the FPGA.
    folder : of the page, data and pictures.
    largest : size of the largest batch.
    seconds : time for one batch in one round.
    rounds : number of rounds, in each of which all kernels take a turn.
    native : whether to build Pinocchio's C++ too.

    Raises
    ------
    UsageError : if the page's folder is a file.
    pinion.functions.FunctionError : if a function is unknown.
    """
    models, names = robots_and_functions(target, (*GRADIENTS, *SINGLE))
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"'{folder}' is a file: give a folder for the page with -o.")
    targets = [(robot, name) for robot in models for name in names]
    manifests = {path: Manifest.read(path) for path in builds}
    load_before = os.getloadavg()[0]
    collected = Collected(models=models, targets=targets, single=() if target[1:] else SINGLE)
    collected.published(PUBLISHED)
    with counted("Measuring", total=len(targets)) as advance:
        for robot, name in targets:
            settings: dict[str, Any] = {"largest": largest, "rounds": rounds, "seconds": seconds}
            collected.processor((robot, name), **settings)
            collected.gpu((robot, name), **settings)
            collected.opponents((robot, name), largest=largest, rounds=rounds, native=native)
            if name == PARTITIONED:
                collected.partitioned((robot, name), **settings)
            advance(1)
    collected.grid()
    collected.fpga(manifests, largest=largest)
    data = {
        "bench": "compare",
        "version": version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": _command(target, builds, folder, largest, seconds, rounds, native),
        "machine": {**machine(collected.gpus), "load before": f"{load_before:.2f}"},
        "rounds": rounds,
        "seconds": seconds,
        "targets": [{"robot": models[robot].name, "function": name} for robot, name in targets],
        "sources": collected.sources,
        "left_out": collected.left_out(),
        "rows": collected.rows,
        "partitions": collected.partitions,
    }
    written = write_batches(folder, data)
    if json:
        put_json({**data, "files": [str(path) for path in written]})
    else:
        _show(data, written[0])


class Collected:
    """Rows of a comparison, collected target by target, and the reasons for missing ones.

    Members
    -------
    rows : as the page takes them (:mod:`pinion.bench.batches.data`).
    sources : texts of publications by key.
    gpus : names of the measured devices.
    partitions : rows of the paper's three ways of sharing work between host and device.
    """

    def __init__(
        self, *, models: dict[str, Model], targets: Sequence[Target], single: Sequence[str]
    ) -> None:
        self.rows: list[Row] = []
        self.sources: dict[str, str] = {}
        self.gpus: list[str] = []
        self.partitions: list[Row] = []
        self._models = models
        self._targets = targets
        self._single = single
        self._missing: dict[tuple[str, str], list[Target]] = {}

    def processor(self, target: Target, *, largest: int, rounds: int, seconds: float) -> None:
        """Measure Pinion's kernels on this machine's CPU."""
        model, name = self._models[target[0]], target[1]
        sizes = self._sizes(name, largest)
        try:
            rows, missing = cpu_times(
                model, named_function(name), sizes=sizes, rounds=rounds, seconds=seconds
            )
        except ComputeError as error:
            self._leave_out("Pinion CPU", str(error), target)
            return
        self._measured(target, rows, missing, on=processor_name())

    def gpu(self, target: Target, *, largest: int, rounds: int, seconds: float) -> None:
        """Measure Pinion's kernels on a GPU, if one is available."""
        model, name = self._models[target[0]], target[1]
        sizes = self._sizes(name, largest)
        try:
            kernel = cuda.compile(model, name)
        except InputError as error:
            self._leave_out("Pinion CUDA", str(error), target)
            return
        rows, missing = cuda_times(kernel, sizes=sizes, rounds=rounds, seconds=seconds)
        kernel.close()
        self.gpus.append(kernel.device.name)
        self._measured(target, rows, missing, on=kernel.device.name)

    def partitioned(self, target: Target, *, largest: int, rounds: int, seconds: float) -> None:
        """Measure the gradient with the partitions of the 2021 paper, for the paper's robot."""
        model = self._models[target[0]]
        if model.name != PAPER_ROBOT:
            return
        sizes = [n for n in PARTITION_SIZES if n <= largest]
        rows, missing, _ = partition_times(model, sizes=sizes, rounds=rounds, seconds=seconds)
        self.partitions += rows
        for label, why in missing.items():
            self._leave_out(label, why, target)

    def opponents(self, target: Target, *, largest: int, rounds: int, native: bool) -> None:
        """Measure other implementations on this machine's CPU; keep the fastest variant of each."""
        opponents, missing = opponents_of(*target, native=native, states=SERIAL)
        if not native:
            missing["pinocchio_native"] = "It was disabled (--no-native)."
        for opponent_name, why in missing.items():
            by = _OPPONENTS.get(opponent_name.replace("_", "-"), opponent_name)
            self._leave_out(by, f"{why[:1].upper()}{why[1:]}", target)
        best_of: dict[str, tuple[float, float, str]] = {}
        for opponent in opponents:
            times = summary(opponent.time(rounds).wall)
            best_of[opponent.name] = min(
                (times["ns_per_sample"], times["spread"], opponent.built),
                best_of.get(opponent.name, (np.inf, 0.0, "")),
            )
        sizes = [n for n in self._sizes(target[1], largest) if n <= SERIAL]
        for kind, (ns, spread, built) in best_of.items():
            by = f"{_OPPONENTS[kind]}, float64, one processor"
            note = f"{built}; one state after another, N times the time of one in {SERIAL:,}"
            about = {"by": by, "dtype": "float64", "processors": "one", "note": note}
            rows = [{**about, "samples": n, "ns_per_sample": ns, "spread": spread} for n in sizes]
            self._measured(target, rows, {}, on=processor_name())
            if largest > SERIAL:
                why = "It computes one state after another: a batch takes N times as long."
                self._leave_out(f"{by}, N > {SERIAL:,}", why, target)

    def grid(self) -> None:
        """Report GRiD as missing, except for its published figures."""
        version = installed_version("grid-rbd")
        why = "The package grid-rbd is not installed."
        if version is not None:
            why = f"The calls of grid-rbd {version} have not been tested."
        for target in self._targets:
            self._leave_out("GRiD", why, target)

    def fpga(self, manifests: dict[Path, Manifest], *, largest: int) -> None:
        """Add the modelled times of each build on a card, including its link."""
        targets = {(self._models[robot].name, name): (robot, name) for robot, name in self._targets}
        built: set[tuple[str, str]] = set()
        for path, manifest in manifests.items():
            of = (manifest.robot, manifest.function)
            if of not in targets:
                reason = f"It is for {' '.join(of)}, which is not compared here."
                self._missing[f"The build {path}", reason] = []
                continue
            built.add(of)
            sizes = [n for n in self._sizes(manifest.function, largest) if n <= MAX_COUNT]
            if largest > MAX_COUNT:
                reason = "The model of the link covers one packet, which holds no more requests."
                self._leave_out(f"FPGA, modelled, N > {MAX_COUNT:,}", reason, targets[of])
            self.rows += [row for n in sizes for row in fpga_rows(manifest, n)]
        reason = "No build was given: make one with pinion build, and name it with --build."
        for of, target in targets.items():
            if of not in built:
                self._leave_out("FPGA, modelled", reason, target)

    def published(self, path: Path) -> None:
        """Add published figures for the robots and functions that are compared."""
        if not path.exists():
            why = "They are only in a clone of the repository, under benchmarks."
            for target in self._targets:
                self._leave_out("Published figures", why, target)
            return
        rows, sources = published_batches(path)
        robots = {model.name for model in self._models.values()}
        names = {name for _, name in self._targets}
        if names & set(GRADIENTS):
            names |= set(GRADIENTS)
        matching = [row for row in rows if row["robot"] in robots and row["function"] in names]
        self.rows += matching
        named = {row["source"] for row in matching}
        self.sources = {key: text for key, text in sources.items() if key in named}
        for robot, name in self._targets:
            alike = GRADIENTS if name in GRADIENTS else (name,)
            if not any(
                r["robot"] == self._models[robot].name and r["function"] in alike for r in matching
            ):
                why = "The data file has none for them."
                self._leave_out("Published figures", why, (robot, name))

    def left_out(self) -> dict[str, str]:
        """Return the reason for each missing item by label, with the targets unless all lack it."""
        reasons = {}
        for (label, why), targets in self._missing.items():
            words = "; ".join(f"{self._models[robot].name} {name}" for robot, name in targets)
            of_all = not targets or len(targets) == len(self._targets)
            reasons[label if of_all else f"{label} ({words})"] = why
        return reasons

    def _sizes(self, name: str, largest: int) -> list[int]:
        sizes = SINGLE_SIZES if name in self._single else SIZES
        return [n for n in sizes if n <= largest]

    def _measured(
        self, target: Target, rows: Sequence[Row], missing: dict[str, str], *, on: str
    ) -> None:
        robot, name = self._models[target[0]].name, target[1]
        for row in rows:
            us = row["ns_per_sample"] * row["samples"] / 1e3
            about = {key: row[key] for key in ("by", "dtype", "processors", "note")}
            self.rows.append(
                {
                    **{"robot": robot, "function": name, "work": work_of(name)},
                    **about,
                    **batch(row["samples"], us=us),
                    "spread": row["spread"],
                    **{"label": "measured", "machine": on, "source": "this run"},
                }
            )
        for label, why in missing.items():
            self._leave_out(label, f"{why[:1].upper()}{why[1:]}", target)

    def _leave_out(self, label: str, why: str, target: Target) -> None:
        targets = self._missing.setdefault((label, why), [])
        if target not in targets:  # two builds may have one target
            targets.append(target)


def fpga_rows(manifest: Manifest, samples: int) -> list[Row]:
    """Return the modelled times of one build at one batch size, a row for each link."""
    rows = []
    for link in LINKS:
        estimated = estimate_time(manifest, layout_of(manifest), link, samples)
        rows.append(
            {
                "robot": manifest.robot,
                "function": manifest.function,
                "work": work_of(manifest.function),
                "by": f"Pinion FPGA, {manifest.formats}, ii {manifest.ii}, {link.name} link",
                "dtype": manifest.formats,
                "processors": "fpga",
                **batch(samples, us=estimated["most_us"], least_us=estimated["least_us"]),
                "card_us": estimated["card_us"],
                "label": "model",
                "machine": f"no board: {manifest.target}, core at {manifest.clock_mhz:g} MHz and "
                f"link at {LINK_MHZ:g} MHz, both assumed",
                "source": "docs/link.md",
                "note": f"{manifest.latency_cycles} cycles to the first result and one every "
                f"{manifest.ii}; {FIXED_US[0]:g} to {FIXED_US[1]:g} us per batch for the driver; "
                f"{link.text}",
            }
        )
    return rows


def _command(
    target: Sequence[str],
    builds: Sequence[Path],
    folder: Path,
    largest: int,
    seconds: float,
    rounds: int,
    native: bool,
) -> str:
    words = ["pinion", "bench", "compare", *target, "-o", str(folder)]
    words += ["--largest", str(largest), "--rounds", str(rounds), "--seconds", f"{seconds:g}"]
    words += [] if native else ["--no-native"]
    for path in builds:
        words += ["--build", str(path)]
    return shlex.join(words)


def _show(data: dict[str, Any], page: Path) -> None:
    for robot, name, rows in sections(data):
        show(times_table(robot, name, rows))
        fastest = fastest_table(robot, name, rows)
        if fastest is not None:
            show(fastest)
    for line in losses(data):
        say(f"Slower: {line}")
    for label, why in data["left_out"].items():
        say(f"Left out: {label}: {why}")
    say(f"The page is {page}.")
