"""Implementations with which the CPU kernels are compared: ``python -m benchmarks.cpu.opponents``.

Three opponents, each in float64 and on one core:

- `casadi_c`: the baseline, Pinocchio's algorithms as C that CasADi wrote (generate_baseline.py),
  compiled by every available C compiler;
- `pinocchio_native`: Pinocchio's C++ through its own headers, compiled for this machine;
- `pinocchio_python`: Pinocchio's Python functions, one state per call.

Each returns `Opponent` objects that are compiled and agree with the float model. Their `time`
measures rounds, so that a caller can alternate between opponents. A missing tool raises
`MissingToolError`.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import lzma
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks.cpu.model_text import model_text
from benchmarks.cpu.tools import (
    CACHE,
    PINOCCHIO_DEFINES,
    MissingToolError,
    build_once,
    compiler_version,
    compilers,
    eigen_headers,
    first_compiler,
    native_flag,
    one_core,
    package_folder,
    pinocchio_headers,
)
from numpy.typing import NDArray

from pinion.base.arrays import Floats
from pinion.functions import named_function, sample
from pinion.robot import Model, load

Array = NDArray[Any]

FOLDER = Path(__file__).resolve().parent
BASELINE = FOLDER / "baseline"

C_COMPILERS = ("gcc", "clang-19", "clang", "cc")
CXX_COMPILERS = ("clang++-19", "clang++", "g++")

STATES = 4096
TOLERANCE = 1e-10
"""Largest allowed error of an opponent, relative to the largest element of block and state."""

LARGE = 20_000
"""Number of operations above which compiling takes minutes.

The gradients of atlas take gcc a minute with -O2, and longer without the tests that divide their
text into blocks; clang's code is as fast with -O1 as with -O3.
"""


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """Times per evaluation [ns], one number per round.

    Members
    -------
    cpu : CPU time of the thread; the more reliable one on a busy machine.
    wall : wall time.
    """

    cpu: tuple[float, ...]
    wall: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Opponent:
    """Another implementation of one function of one robot, ready to be timed.

    Members
    -------
    name : ``casadi-c``, ``pinocchio-native`` or ``pinocchio-python``.
    built : compiler and flags, or the package's version.
    states : evaluations per round.
    worst : largest error against the float model, relative to the largest element of block and
        state.
    """

    name: str
    robot: str
    function: str
    built: str
    states: int
    worst: float
    _time: Callable[[int], Rounds] = field(repr=False)

    def time(self, rounds: int = 20) -> Rounds:
        """Measure a number of rounds on one core."""
        with one_core():
            return self._time(rounds)


def baseline_c(robot: str, name: str) -> str:
    """Read the baseline's C of a robot's function from the repository.

    Errors
    ------
    MissingToolError : if none is stored.
    ValueError : if the file does not match the record.
    """
    path = BASELINE / f"{robot}_{name}.c.xz"
    if not path.exists():
        raise MissingToolError(
            f"There is no baseline of {name} for {robot}: generate it with "
            "python -m benchmarks.cpu.generate_baseline."
        )
    packed = path.read_bytes()
    if hashlib.sha256(packed).hexdigest() != record()["files"][path.name]["sha256"]:
        raise ValueError(
            f"The file {path.name} does not match RECORD.json: generate both again with "
            "python -m benchmarks.cpu.generate_baseline."
        )
    return lzma.decompress(packed).decode()


def record() -> Any:
    """Read the record of the baseline's files and how they were generated."""
    return json.loads((BASELINE / "RECORD.json").read_text())


def bare(text: str) -> str:
    """Return CasADi's C without its null-pointer tests, which cost up to 10 % with gcc."""
    text = re.sub(r"arg\[(\d+)\]\? (arg\[\1\]\[\d+\]) : 0;", r"\2;", text)
    return re.sub(r"if \(res\[(\d+)\]!=0\) (res\[\1\]\[)", r"\2", text)


def casadi_c(
    robot: str,
    name: str,
    *,
    states: int = STATES,
    cache: Path = CACHE,
    using: Sequence[str] = C_COMPILERS,
) -> list[Opponent]:
    """Compile the baseline of a function with each compiler; the fastest one counts.

    Small functions are also tried without tests for null arguments.

    Errors
    ------
    MissingToolError : if there is no compiler, or no baseline of this function.
    ArithmeticError : if its results differ from the float model's.
    """
    available = compilers(using)
    if not available:
        raise MissingToolError(
            f"No C compiler is installed: install one of {', '.join(using)}, for example with "
            "apt-get install gcc."
        )
    text = baseline_c(robot, name)
    large = record()["files"][f"{robot}_{name}.c.xz"]["operations"] > LARGE
    texts = {"as written": text} | ({} if large else {"without null tests": bare(text)})
    states_of = States(robot, name, states)
    opponents = []
    for how, source_text in texts.items():
        source = cache / f"{robot}_{name}{'' if how == 'as written' else '_bare'}.c"
        cache.mkdir(parents=True, exist_ok=True)
        source.write_text(source_text)
        for compiler in available:
            level = "-O3" if not large else ("-O1" if "clang" in compiler else "-O2")
            flags = [level, native_flag()]
            driver = FOLDER / "baseline_driver.c"
            library = build_once(
                [
                    *(compiler, *flags, "-fPIC", "-shared", "-w"),
                    *(f'-DBASELINE="{source}"', f"-DFUNCTION={name}", str(driver), "-lm"),
                ],
                cache / f"{robot}_{name}.so",
                [driver, source],
                note=f"Compiling {name} of {robot} takes minutes." if large else "",
            )
            outputs = [np.zeros_like(array) for array in states_of.expected]
            run = Library(library, states_of.inputs, outputs)
            run(1)
            opponents.append(
                Opponent(
                    name="casadi-c",
                    robot=robot,
                    function=name,
                    built=f"{compiler_version(compiler)}, {' '.join(flags)}, {how}",
                    states=states,
                    worst=states_of.worst(outputs),
                    _time=run,
                )
            )
    return opponents


class Library:
    """Compiled baseline with its arrays, (groups, ..., lanes) if it has several lanes."""

    def __init__(
        self, path: Path, inputs: Sequence[Array], outputs: Sequence[Array], *, lanes: int = 1
    ) -> None:
        self._run = ctypes.CDLL(str(path)).baseline_time
        self._inputs, self._outputs = inputs, outputs
        self._lanes = lanes

    def __call__(self, rounds: int) -> Rounds:
        """Compute all states in each round, and return the times per state."""
        size = ctypes.c_size_t
        groups = len(self._inputs[0])
        cpu, wall = np.zeros(rounds), np.zeros(rounds)

        def described(arrays: Sequence[Array]) -> tuple[Any, ...]:
            pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
            sizes = (size * len(arrays))(*(array[0].size // self._lanes for array in arrays))
            return size(len(arrays)), pointers, sizes

        failed = self._run(
            *(size(groups), size(rounds), *described(self._inputs), *described(self._outputs)),
            *(ctypes.c_void_p(array.ctypes.data) for array in (cpu, wall)),
        )
        if failed:
            raise ValueError(
                f"The function has {len(self._inputs)} inputs and {len(self._outputs)} outputs, "
                "more than baseline_driver.c supports: raise its limit."
            )
        states = groups * self._lanes
        return Rounds(cpu=tuple(cpu / states), wall=tuple(wall / states))


def pinocchio_native(
    robot: str,
    name: str,
    *,
    states: int = STATES,
    cache: Path = CACHE,
    using: Sequence[str] = CXX_COMPILERS,
) -> Opponent:
    """Compile Pinocchio's C++ for this machine with -O3 and the first available compiler.

    Clang comes first: its code was 1.2 to 1.3 times as fast as gcc's. The collection of joints has
    two types (``pinocchio_model.hpp``), with which a function compiles in half a minute. A compiled
    program serves every robot.

    Errors
    ------
    MissingToolError : if there is no compiler, no Eigen, or no Pinocchio.
    ArithmeticError : if its results differ from the float model's.
    """
    compiler = first_compiler(using, "C++")
    includes = [pinocchio_headers(), eigen_headers()]
    states_of = States(robot, name, states)
    source = FOLDER / "pinocchio_native.cpp"
    flags = ["-std=c++17", "-O3", native_flag(), "-DNDEBUG"]
    program = build_once(
        [
            *(compiler, *flags, "-w", *PINOCCHIO_DEFINES, f"-DFUNCTION={name}"),
            *(f"-isystem{path}" for path in includes),
            str(source),
        ],
        cache / f"pinocchio_{name}",
        [source, FOLDER / "pinocchio_model.hpp", includes[0] / "pinocchio" / "config.hpp"],
        note=f"Compiling Pinocchio's {name} with {compiler} takes half a minute or more.",
    )
    run = _Program(program, states_of)
    run(1)
    built = f"Pinocchio {version('pin')}, {compiler_version(compiler)}, {' '.join(flags)}"
    return Opponent(
        name="pinocchio-native",
        robot=robot,
        function=name,
        built=built,
        states=states,
        worst=states_of.worst(run.outputs),
        _time=run,
    )


class _Program:
    """Compiled `pinocchio_native.cpp`, run in a separate process.

    It cannot be a library in this process, which may have loaded Pinocchio's own library: the two
    were compiled with different flags, and Eigen's objects differ.
    """

    def __init__(self, path: Path, states: States) -> None:
        self._path, self._states = path, states
        self.outputs: list[Floats] = []

    def __call__(self, rounds: int) -> Rounds:
        with TemporaryDirectory() as name:
            model, inputs, outputs = (Path(name) / part for part in ("model", "inputs", "outputs"))
            model.write_text(model_text(self._states.model))
            inputs.write_bytes(b"".join(array.tobytes() for array in self._states.inputs))
            count = len(self._states.inputs[0])
            command = [str(self._path), str(model), str(inputs), str(outputs)]
            command += [str(count), str(rounds)]
            completed = subprocess.run(command, capture_output=True, check=True)
            flat = np.fromfile(outputs)
        self.outputs = []
        for array in self._states.expected:
            self.outputs.append(flat[: array.size].reshape(array.shape))
            flat = flat[array.size :]
        times = json.loads(completed.stdout)
        return Rounds(cpu=tuple(times["cpu"]), wall=tuple(times["wall"]))


def pinocchio_python(robot: str, name: str, *, states: int = 1000) -> Opponent:
    """Return Pinocchio's Python binding as an opponent, called for one state after another.

    Errors
    ------
    MissingToolError : if Pinocchio is not installed.
    ArithmeticError : if its results differ from the float model's.
    """
    package_folder("pinocchio")
    pin = import_module("pinocchio")
    states_of = States(robot, name, states)
    model = _python_model(pin, states_of.model)
    data = model.createData()
    call = _python_call(pin, name)
    arguments = list(zip(*states_of.inputs, strict=True))

    def run(rounds: int) -> Rounds:
        cpu, wall = [], []
        for _ in range(rounds):
            wall_from, cpu_from = time.perf_counter_ns(), time.thread_time_ns()
            for state in arguments:
                call(model, data, *state)
            cpu.append((time.thread_time_ns() - cpu_from) / states)
            wall.append((time.perf_counter_ns() - wall_from) / states)
        return Rounds(cpu=tuple(cpu), wall=tuple(wall))

    results = []
    for state in arguments:
        arrays = call(model, data, *state)
        arrays = arrays if isinstance(arrays, tuple) else (arrays,)
        # Copied, since some are views that the next call overwrites.
        results.append([np.array(array) for array in arrays[: len(states_of.expected)]])
    outputs = [np.array(list(arrays)) for arrays in zip(*results, strict=True)]
    if name in ("crba", "minv"):  # Pinocchio documents the upper triangle only
        outputs = [np.triu(array) + np.triu(array, 1).swapaxes(1, 2) for array in outputs]
    return Opponent(
        name="pinocchio-python",
        robot=robot,
        function=name,
        built=f"Pinocchio {version('pin')}, Python {platform.python_version()}, one state per call",
        states=states,
        worst=states_of.worst(outputs),
        _time=run,
    )


def _python_model(pin: Any, model: Model) -> Any:
    """Return Pinocchio's Python model for ``model_text``."""
    header, *lines = model_text(model).splitlines()
    pin_model = pin.Model()
    pin_model.gravity.linear = np.array([float(word) for word in header.split()[1:]])
    for line in lines:
        name, kind, parent, *words = line.split()
        x = np.array([float(word) for word in words])
        motion = pin.JointModelRZ() if kind == "revolute" else pin.JointModelPZ()
        joint = pin_model.addJoint(int(parent), motion, pin.SE3(x[:9].reshape(3, 3), x[9:12]), name)
        xx, xy, xz, yy, yz, zz = x[16:]
        moments = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        pin_model.appendBodyToJoint(
            joint, pin.Inertia(x[12], x[13:16], moments), pin.SE3.Identity()
        )
    return pin_model


def _python_call(pin: Any, name: str) -> Callable[..., Any]:
    def from_minv(model: Any, data: Any, q: Floats, qd: Floats, qdd: Floats, minv: Floats) -> Any:
        dtau_dq, dtau_dqd, _ = pin.computeRNEADerivatives(model, data, q, qd, qdd)
        return -(minv @ dtau_dq), -(minv @ dtau_dqd)

    def fd_derivatives(model: Any, data: Any, q: Floats, qd: Floats, tau: Floats) -> Any:
        dqdd_dq, dqdd_dqd, _ = pin.computeABADerivatives(model, data, q, qd, tau)
        return data.ddq, dqdd_dq, dqdd_dqd

    calls: dict[str, Callable[..., Any]] = {
        "rnea": pin.rnea,
        "aba": pin.aba,
        "crba": pin.crba,
        "minv": pin.computeMinverse,
        "rnea_derivatives": pin.computeRNEADerivatives,
        "fd_derivatives": fd_derivatives,
        "fd_derivatives_from_minv": from_minv,
    }
    if name not in calls:
        raise MissingToolError(f"Pinocchio has no counterpart of '{name}'.")
    return calls[name]


class States:
    """States of the reference distribution, and the float model's results for some of them.

    Members
    -------
    inputs : arrays (states, ...) in the function's order, float64.
    expected : arrays (states, ...) of its results; the first few states are the float model's.
    """

    CHECKED = 256
    """Number of states that are compared."""

    def __init__(self, robot: str, name: str, states: int, *, seed: int = 0) -> None:
        self.robot, self.model, self.function = robot, load(robot), named_function(name)
        samples = sample(self.model, self.function, states, distribution="reference", seed=seed)
        self.inputs = [
            np.ascontiguousarray(samples[block.name], dtype=np.float64)
            for block in self.function.inputs
        ]
        checked = {
            name: array[: self.CHECKED].astype(np.float64) for name, array in samples.items()
        }
        self._some = list(self.function.evaluate(self.model, checked).values())
        self.expected = [np.zeros((states, *array.shape[1:])) for array in self._some]

    def worst(self, outputs: Sequence[Floats], tolerance: float = TOLERANCE) -> float:
        """Return the largest error, relative to the largest element of its block and state.

        Errors
        ------
        ArithmeticError : if it exceeds the tolerance, or a number is not finite.
        """
        worst = 0.0
        for result, want in zip(outputs, self._some, strict=True):
            axes = tuple(range(1, want.ndim))
            error = np.abs(result[: len(want)] - want).max(axis=axes) / np.abs(want).max(axis=axes)
            worst = max(worst, float(error.max()) if np.isfinite(error).all() else float("inf"))
        if not worst <= tolerance:
            raise ArithmeticError(
                f"The results of {self.function.name} for {self.robot} differ from the float "
                f"model's by {worst:.3g} of their largest element, more than {tolerance:g}: "
                "the opponent is wrong, and its time is meaningless."
            )
        return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", default=["iiwa14"])
    parser.add_argument("--functions", nargs="+", default=["rnea", "aba", "fd_derivatives"])
    parser.add_argument(
        "--opponents",
        nargs="+",
        default=["casadi-c", "pinocchio-native", "pinocchio-python"],
    )
    parser.add_argument("--states", type=int, default=STATES)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    makers: dict[str, Callable[[str, str], list[Opponent]]] = {
        "casadi-c": lambda r, f: casadi_c(r, f, states=options.states, cache=options.cache),
        "pinocchio-native": lambda r, f: [
            pinocchio_native(r, f, states=options.states, cache=options.cache)
        ],
        "pinocchio-python": lambda r, f: [pinocchio_python(r, f)],
    }
    rows = []
    for robot in options.robots:
        for name in options.functions:
            for opponent in options.opponents:
                try:
                    opponents = makers[opponent](robot, name)
                except MissingToolError as missing:
                    print(f"{opponent} is left out: {missing}", file=sys.stderr)
                    continue
                rows += [_measured(each, options.rounds) for each in opponents]
    print(json.dumps(rows, indent=2))


def _measured(opponent: Opponent, rounds: int) -> dict[str, Any]:
    times = opponent.time(rounds)
    return {
        "opponent": opponent.name,
        "robot": opponent.robot,
        "function": opponent.function,
        "built": opponent.built,
        "states": opponent.states,
        "worst_error": opponent.worst,
        "best_ns": round(min(times.cpu), 1),
        "median_ns": round(float(np.median(times.cpu)), 1),
        "cpu_ns": [round(value, 1) for value in times.cpu],
        "wall_ns": [round(value, 1) for value in times.wall],
    }


if __name__ == "__main__":
    main()
