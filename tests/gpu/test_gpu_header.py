"""The header of `pinion export --cuda` on a GPU: compiled by nvcc, with hooks, and its example.

Each case is a program as a user writes it: a file that includes the header and has its own kernels
and accessors. It reads arrays from files and writes results to files. Results are filled with NaN
first and followed by a guard.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.compute import cpu
from pinion.compute.cuda.export import export_header
from pinion.compute.layouts import to_blocks
from pinion.functions import named_function, sample
from pinion.native import isa
from pinion.robot import load

pytestmark = pytest.mark.slow

Case = tuple[str, str, str]
CASES: list[Case] = [
    (robot, name, dtype)
    for robot, name in (
        ("iiwa14", "rnea"),
        ("iiwa14", "aba"),
        ("iiwa14", "fd_derivatives"),  # in float64 with shared memory
        ("hyq", "aba"),
    )
    for dtype in ("float32", "float64")
]
EXAMPLES: list[Case] = [
    ("iiwa14", "rnea", "float64"),
    ("iiwa14", "aba", "float32"),
    ("iiwa14", "fd_derivatives", "float64"),
]
LIMITS = {"float32": 1e-4, "float64": 1e-12}
"""Largest error against the float model, relative to the largest element of a sample's block."""

GUARD = 64  # elements after each result
STEPS, STEP = 5, 0.01  # of the integrator, [s]
SECONDS = 300.0  # ends a hang

FLAGS = ("-std=c++17", "-fmad=false", "-Xcompiler", "-Wall,-Wextra")

PROGRAM = """\
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "arm/example/hooks.cuh"

#define CHECK(call) check((call), #call)

typedef arm::real real;

static void check(cudaError_t error, const std::string &call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\\n", call.c_str(), cudaGetErrorString(error));
  std::exit(1);
}

static std::FILE *opened(const std::string &name, const char *mode) {
  std::FILE *file = std::fopen((name + ".bin").c_str(), mode);
  if (file) return file;
  std::perror(name.c_str());
  std::exit(2);
}

// An array of a file, on the device.
static real *loaded(const std::string &name, size_t count) {
  std::vector<real> host(count);
  std::FILE *file = opened(name, "rb");
  const bool whole = std::fread(host.data(), sizeof(real), count, file) == count;
  if (!whole || std::fgetc(file) != EOF) {
    std::fprintf(stderr, "%s.bin has another size\\n", name.c_str());
    std::exit(2);
  }
  std::fclose(file);
  real *device = nullptr;
  CHECK(cudaMalloc(&device, count * sizeof(real)));
  CHECK(cudaMemcpy(device, host.data(), count * sizeof(real), cudaMemcpyHostToDevice));
  return device;
}

// Results of the kernel that is launched next: all bits are set, which is a NaN.
struct Pending {
  std::string name;
  real *device;
  size_t count;
};
static std::vector<Pending> pending;

static real *poisoned(const std::string &name, size_t count) {
  real *device = nullptr;
  count += @GUARD@;
  CHECK(cudaMalloc(&device, count * sizeof(real)));
  CHECK(cudaMemset(device, 0xff, count * sizeof(real)));
  pending.push_back({name, device, count});
  return device;
}

// Waits for the kernel, then writes its results to files.
static void finish(const std::string &kernel) {
  check(cudaGetLastError(), "launch of " + kernel);
  check(cudaDeviceSynchronize(), kernel);
  for (const Pending &result : pending) {
    std::vector<real> host(result.count);
    CHECK(cudaMemcpy(host.data(), result.device, result.count * sizeof(real),
                     cudaMemcpyDeviceToHost));
    std::FILE *file = opened(result.name, "wb");
    const bool whole = std::fwrite(host.data(), sizeof(real), result.count, file) == result.count;
    if (std::fclose(file) || !whole) {
      std::perror(result.name.c_str());
      std::exit(2);
    }
    CHECK(cudaFree(result.device));
  }
  pending.clear();
}

// Accessors and sources of the user.
constexpr int input_sizes[] = {@INPUT_SIZES@}, result_sizes[] = {@RESULT_SIZES@};
struct MyInputs {
  const real *first[@INPUT_COUNT@];
  long long sample;
  template <int A> __device__ real get(int e) const {
    constexpr int size = input_sizes[A];
    return first[A][sample * size + e];
  }
  __device__ MyInputs at(long long other) const {
    MyInputs moved = *this;
    moved.sample = other;
    return moved;
  }
};
struct MyResults {
  real *first[@RESULT_COUNT@];
  long long sample;
  template <int A> __device__ void put(int e, real x) const {
    constexpr int size = result_sizes[A];
    first[A][sample * size + e] = x;
  }
  __device__ MyResults at(long long other) const {
    MyResults moved = *this;
    moved.sample = other;
    return moved;
  }
};

// A kernel of the user: compute() in a loop, with fewer threads than a block may have.
__global__ void __launch_bounds__(arm::threads) looped(long long n, MyInputs in, MyResults out) {
  const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  for (long long sample = first; sample < n; sample += (long long)gridDim.x * blockDim.x) {
    in.sample = out.sample = sample;
    arm::compute(in, out, arm::scratch());
  }
}

// A hook of the user, which sees request and result.
struct Seen {
  real *seen; // (n, 2)
  template <class In>
  __device__ void operator()(long long sample, const In &in, const arm::Result &result) const {
    seen[2 * sample] = in.template get<arm::@LAST_INPUT@>(arm::size_@LAST_INPUT@ - 1);
    seen[2 * sample + 1] = result.@FIRST_RESULT@[0];
  }
};

int main(int, char **arguments) {
  const long long n = std::atoll(arguments[1]), whole = (n + 15) / 16 * 16;
  const unsigned grid = arm::grid(n);

  const arm::Inputs aos = arm::inputs_aos(@LOAD_AOS@);
  const arm::Results aos_results = arm::results_aos(@POISON_AOS@);
  arm::store<<<grid, arm::threads, arm::shared_bytes>>>(n, aos, aos_results);
  finish("aos");

  const arm::Inputs soa = arm::inputs_soa(n, @LOAD_SOA@);
  const arm::Results soa_results = arm::results_soa(n, @POISON_SOA@);
  arm::store<<<grid, arm::threads, arm::shared_bytes>>>(n, soa, soa_results);
  finish("soa");

  const arm::BlockInputs blocks = {@LOAD_BLOCKS@};
  const arm::BlockResults block_results = {@POISON_BLOCKS@};
  arm::store<<<grid, arm::threads, arm::shared_bytes>>>(n, blocks, block_results);
  finish("blocks");

  // Rows with gaps and one sample that serves all; every other element.
  const arm::Inputs gaps = {@LOAD_GAPS@};
  const arm::Results other = {@POISON_GAPS@};
  arm::store<<<grid, arm::threads, arm::shared_bytes>>>(n, gaps, other);
  finish("gaps");

  const MyInputs mine = {{@AOS@}, 0};
  const MyResults mine_stored = {{@POISON_MINE@}, 0};
  arm::store<<<grid, arm::threads, arm::shared_bytes>>>(n, mine, mine_stored);
  finish("mine");

  const MyResults mine_looped = {{@POISON_LOOPED@}, 0};
  looped<<<2, 32, arm::shared_bytes>>>(n, mine, mine_looped);
  finish("looped");

  const example::Cost cost = {poisoned("cost", n)};
  arm::each<<<grid, arm::threads, arm::shared_bytes>>>(n, aos, cost);
  finish("cost");

  const Seen seen = {poisoned("seen", 2 * n)};
  arm::each<<<grid, arm::threads, arm::shared_bytes>>>(n, blocks, seen);
  finish("seen");
@ROLLOUT@
  CHECK(cudaDeviceReset());
  std::puts("done");
  return 0;
}
"""
ROLLOUT = """
  real *const q_end = poisoned("q_end", n * arm::size_q);
  real *const qd_end = poisoned("qd_end", n * arm::size_qd);
  example::rollout<<<grid, arm::threads, arm::shared_bytes>>>(n, aos, @STEPS@, (real)@STEP@, q_end,
                                                              qd_end);
  finish("rollout");
"""

# Two files of one program, each with both headers, and a lambda as a hook.
FIRST_FILE = """\
#include <cstdio>
#include "rnea/two_link_rnea.cuh"
#include "aba/two_link_aba.cuh"
void run_second(double *sums);
int main() {
  double *sums = nullptr, host[5];
  if (cudaMalloc(&sums, sizeof host) || cudaMemset(sums, 0xff, sizeof host)) return 1;
  const auto hook = [sums] __device__(long long, const auto &in, const auto &result) {
    sums[0] = result.tau[0] + in.template get<two_link_rnea::q>(0);
  };
  double *rows = nullptr;
  const double values[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
  if (cudaMalloc(&rows, sizeof values)) return 2;
  if (cudaMemcpy(rows, values, sizeof values, cudaMemcpyHostToDevice)) return 3;
  const two_link_rnea::Inputs in = two_link_rnea::inputs_aos(rows, rows + 2, rows + 4);
  two_link_rnea::each<<<1, 1, two_link_rnea::shared_bytes>>>(1, in, hook);
  if (cudaGetLastError() || cudaDeviceSynchronize()) return 4;
  run_second(sums + 1);
  if (cudaGetLastError() || cudaDeviceSynchronize()) return 5;
  if (cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost)) return 6;
  for (double sum : host) std::printf("%.17g\\n", sum);
  return 0;
}
"""
SECOND_FILE = """\
#include "aba/two_link_aba.cuh"
#include "rnea/two_link_rnea.cuh"
#include "rnea/two_link_rnea.cuh"
static __global__ void back_and_forth(double *sums) {
  two_link_aba::Request state = {{1, 2}, {3, 4}, {5, 6}};
  two_link_aba::Result moved;
  two_link_aba::compute(state, moved);
  two_link_rnea::Request back = {{1, 2}, {3, 4}, {moved.qdd[0], moved.qdd[1]}};
  two_link_rnea::Result needed;
  two_link_rnea::compute(back, needed);
  for (int e = 0; e < 2; ++e) sums[e] = needed.tau[e];
  for (int e = 0; e < 2; ++e) sums[2 + e] = moved.qdd[e];
}
void run_second(double *sums) { back_and_forth<<<1, 1>>>(sums); }
"""

USER_CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(user LANGUAGES CXX CUDA)
add_subdirectory(exported)
add_executable(user main.cu)
target_link_libraries(user PRIVATE iiwa14_aba)
target_compile_options(user PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>)
"""


@dataclass(frozen=True)
class Machine:
    nvcc: str
    architecture: str

    def command(self, *more: str) -> list[str]:
        return [self.nvcc, *FLAGS, f"-arch={self.architecture}", *more]


@pytest.fixture(scope="module")
def machine() -> Machine:
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc on this machine")
    if not shutil.which("nvidia-smi"):
        pytest.skip("there is no GPU on this machine: it has no nvidia-smi")
    listed = run("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    capability = re.match(r"(\d+)\.(\d)\b", listed.stdout)
    if listed.returncode or capability is None:
        pytest.skip(f"nvidia-smi finds no GPU: {listed.stdout}{listed.stderr}")
    return Machine(nvcc, f"sm_{capability[1]}{capability[2]}")


def run(*command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def built(*commands: list[str], folder: Path) -> None:
    """Run commands of a build, which must succeed without a warning."""
    for command in commands:
        completed = run(*command, folder=folder)
        report = f"{completed.stdout}{completed.stderr}"
        assert completed.returncode == 0, f"{command}\n{report}"
        assert "warning" not in report.lower(), f"{command}\n{report}"


@dataclass(frozen=True)
class Built:
    """A folder in which a program is built, and the same function for the processor."""

    folder: Path
    building: Future[None]
    kernel: Future[Any] | None = None

    def output(self, *command: str) -> str:
        """Run the program once it is built; return what it printed."""
        self.building.result()
        completed = run(*command, folder=self.folder)
        assert completed.returncode == 0, f"{command}: {completed.stdout}{completed.stderr}"
        return completed.stdout


@pytest.fixture(scope="module")
def programs(
    machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Any, Built]]:
    """All programs of this file, compiled at the same time."""
    base = tmp_path_factory.mktemp("header")
    whole: dict[Any, Built] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for case in CASES:
            folder = base / "_".join(case)
            export(case, folder / "arm", name="arm")
            (folder / "main.cu").write_text(program(case))
            command = machine.command("main.cu", "-o", "main")
            kernel = pool.submit(
                cpu.compile, case[0], case[1], dtype=case[2], cache=folder / "cache"
            )
            building = pool.submit(built, command, folder=folder)
            whole[case] = Built(folder, building, kernel)
        for case in EXAMPLES:
            folder = base / "_".join(("example", *case))
            export(case, folder)
            command = [machine.nvcc, *example_command(folder)[1:]]
            building = pool.submit(built, command, folder=folder / "example")
            whole["example", case] = Built(folder / "example", building)
        folder = base / "two"
        for name in ("rnea", "aba"):
            export(("two_link", name, "float64"), folder / name)
        (folder / "first.cu").write_text(FIRST_FILE)
        (folder / "second.cu").write_text(SECOND_FILE)
        for extra in ([], ["-rdc=true"]):
            name = "_".join(["main", *extra])
            files = ("--extended-lambda", *extra, "first.cu", "second.cu", "-o", name)
            building = pool.submit(built, machine.command(*files), folder=folder)
            whole["two", *extra] = Built(folder, building)
        if shutil.which("cmake"):
            whole |= cmake_builds(machine, base, pool)
        yield whole


def cmake_builds(machine: Machine, base: Path, pool: ThreadPoolExecutor) -> dict[Any, Built]:
    """The exported folder by itself, and as a part of a user's project."""
    case = ("iiwa14", "aba", "float32")
    alone, user = base / "cmake", base / "user"
    export(case, alone)
    export(case, user / "exported")
    (user / "CMakeLists.txt").write_text(USER_CMAKE)
    text = (user / "exported/example/example.cu").read_text()
    (user / "main.cu").write_text(text.replace('"hooks.cuh"', "<example/hooks.cuh>"))
    compiler = f"-DCMAKE_CUDA_COMPILER={machine.nvcc}"
    number = machine.architecture.removeprefix("sm_")
    whole = {}
    for folder, options in ((alone, []), (user, [f"-DCMAKE_CUDA_ARCHITECTURES={number}"])):
        building = pool.submit(
            built,
            ["cmake", "-S", ".", "-B", "build", compiler, *options],
            ["cmake", "--build", "build"],
            folder=folder,
        )
        whole["cmake", folder.name] = Built(folder, building)
    return whole


def export(case: Case, folder: Path, **options: Any) -> None:
    robot, name, dtype = case
    export_header(load(robot), named_function(name), folder=folder, dtype=dtype, **options)


def example_command(folder: Path) -> list[str]:
    """Return the command by which the README says to build the example."""
    command = re.search(r"`(nvcc [^`]+)`", (folder / "README.md").read_text())
    assert command is not None
    return command[1].split()


def program(case: Case) -> str:
    row = named_function(case[1])
    inputs = [b.name for b in row.inputs]
    results = [b.name for b in row.results]

    def each(names: list[str], text: str) -> str:
        return ", ".join(text.replace("@", name) for name in names)

    gaps = [
        f'{{loaded("gaps_{a}", n * (arm::size_{a} + 3)), arm::size_{a} + 3, 1}}' for a in inputs
    ]
    gaps[-1] = f'{{loaded("gaps_{inputs[-1]}", arm::size_{inputs[-1]}), 0, 1}}'
    values = {
        "GUARD": str(GUARD),
        "INPUT_SIZES": each(inputs, "arm::size_@"),
        "RESULT_SIZES": each(results, "arm::size_@"),
        "INPUT_COUNT": str(len(inputs)),
        "RESULT_COUNT": str(len(results)),
        "LAST_INPUT": inputs[-1],
        "FIRST_RESULT": results[0],
        "AOS": each(inputs, "aos.@.first"),
        "LOAD_GAPS": ", ".join(gaps),
        "POISON_GAPS": each(
            results, '{poisoned("gaps_@", n * arm::size_@ * 2), 2 * arm::size_@, 2}'
        ),
        "STEPS": str(STEPS),
        "STEP": str(STEP),
    }
    for layout, rows in (("aos", "n"), ("soa", "n"), ("blocks", "whole")):
        word = f"{rows} * arm::size_@)"
        values[f"LOAD_{layout.upper()}"] = each(inputs, f'loaded("{layout}_@", {word}')
        values[f"POISON_{layout.upper()}"] = each(results, f'poisoned("{layout}_@", {word}')
    for kernel in ("mine", "looped"):
        values[f"POISON_{kernel.upper()}"] = each(
            results, f'poisoned("{kernel}_@", n * arm::size_@)'
        )
    text = PROGRAM.replace("@ROLLOUT@", ROLLOUT if "qdd" in results else "")
    return re.sub("@([A-Z_]+)@", lambda match: values[match[1]], text)


# ---- Comparisons ---------------------------------------------------------------------------------


def largest_error(values: Any, expected: Any) -> float:
    """Return the largest error relative to a sample's largest element; infinite for NaN."""
    axes = tuple(range(1, np.ndim(expected)))
    error = np.max(np.abs(values - expected), axis=axes) / np.max(np.abs(expected), axis=axes)
    return float(np.max(np.where(np.isnan(error), np.inf, error)))


def equal(values: Any, expected: Any) -> bool:
    """Compare bits; a processor without fused multiply-add rounds differently."""
    values, expected = np.ascontiguousarray(values), np.ascontiguousarray(expected)
    assert (values.shape, values.dtype) == (expected.shape, expected.dtype)
    if isa.best().name == "portable":
        limit = LIMITS[str(values.dtype)]
        return bool(np.allclose(values, expected, rtol=limit, atol=limit))
    return bool(np.isfinite(values).all()) and values.tobytes() == expected.tobytes()


def difference(part: str, values: Any, expected: Any) -> str:
    samples = np.flatnonzero((values != expected).reshape(len(values), -1).any(axis=1))
    return (
        f"{part}: {len(samples)} of {len(values)} samples differ, first {samples[:5]}, "
        f"{np.isnan(values).sum()} NaN, error {largest_error(values, expected):.3g}"
    )


def rolled(compute: Any, inputs: dict[str, Any], step: Any) -> tuple[Any, Any]:
    """Return q and qd after `STEPS` steps of semi-implicit Euler in the precision of `step`."""
    state = dict(inputs)
    for _ in range(STEPS):
        state["qd"] = state["qd"] + step * compute(state)
        state["q"] = state["q"] + step * state["qd"]
    return state["q"], state["qd"]


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_kernels_and_hooks(case: Case, programs: dict[Any, Built], few: bool) -> None:
    robot, name, dtype = case
    model, row, count = load(robot), named_function(name), 75 if few else 10_007
    samples = sample(model, row, count, distribution="reference", seed=5)
    inputs = {key: np.ascontiguousarray(values.astype(dtype)) for key, values in samples.items()}
    last = row.inputs[-1].name
    program = programs[case]
    program.building.result()
    for key, values in inputs.items():
        flat = values.reshape(count, -1)
        gaps = np.full((count, flat.shape[1] + 3), np.nan, dtype)
        gaps[:, : flat.shape[1]] = flat
        flat.tofile(program.folder / f"aos_{key}.bin")
        np.ascontiguousarray(flat.T).tofile(program.folder / f"soa_{key}.bin")
        to_blocks(flat).tofile(program.folder / f"blocks_{key}.bin")
        (flat[0] if key == last else gaps).tofile(program.folder / f"gaps_{key}.bin")
    assert program.output("./main", str(count)) == "done\n"

    assert program.kernel is not None
    kernel = program.kernel.result()
    first_held = {
        **inputs,
        last: np.ascontiguousarray(
            np.broadcast_to(inputs[last][:1], (count, *inputs[last].shape[1:]))
        ),
    }
    processor, with_held = (
        {b.name: np.array(kernel(**x)[b.name]) for b in row.results} for x in (inputs, first_held)
    )
    wrong: list[str] = []

    def read(part: str, *shape: int) -> Any:
        values = np.fromfile(program.folder / f"{part}.bin", dtype)
        assert len(values) == np.prod(shape) + GUARD, part
        if not _poison(values[-GUARD:]):
            wrong.append(f"{part}: writes behind the array")
        return values[:-GUARD].reshape(shape)

    def check(part: str, values: Any, expected: Any) -> None:
        values = values.reshape(expected.shape)
        if not equal(values, expected):
            wrong.append(difference(part, values, expected))

    for result, expected in processor.items():
        size = expected[0].size
        for part in ("aos", "mine", "looped"):
            check(f"{part}_{result}", read(f"{part}_{result}", count, size), expected)
        check(f"soa_{result}", read(f"soa_{result}", size, count).T, expected)
        lanes = read(f"blocks_{result}", -(-count // 16), size, 16)
        lanes = np.moveaxis(lanes, -1, 1).reshape(-1, size)
        check(f"blocks_{result}", lanes[:count], expected)
        if not _poison(lanes[count:]):
            wrong.append(f"blocks_{result}: writes lanes without a sample")
        pairs = read(f"gaps_{result}", count, size, 2)
        check(f"gaps_{result}", pairs[..., 0], with_held[result])
        if not _poison(pairs[..., 1]):
            wrong.append(f"gaps_{result}: writes between elements")
    first = processor[row.results[0].name].reshape(count, -1)
    check("cost", read("cost", count), _squares(first))
    from_hook = np.stack([inputs[last].reshape(count, -1)[:, -1], first[:, 0]], axis=1)
    check("seen", read("seen", count, 2), from_hook)

    wide = {key: values.astype(float) for key, values in inputs.items()}
    for result, expected in row.evaluate(model, wide).items():
        values = read(f"aos_{result}", count, processor[result][0].size).reshape(expected.shape)
        if not (error := largest_error(values, expected)) <= LIMITS[dtype]:
            wrong.append(f"{result}: error {error:.3g} against the float model")
    if "qdd" in processor:
        step = np.dtype(dtype).type(STEP)
        ends = rolled(lambda state: np.array(kernel(**state)["qdd"]), inputs, step)
        moved = rolled(lambda state: row.evaluate(model, state)["qdd"], wide, STEP)
        assert np.abs(moved[1] - wide["qd"]).max() > 0.1
        for part, end, right in zip(("q_end", "qd_end"), ends, moved, strict=True):
            values = read(part, *end.shape)
            check(part, values, end)
            if not (error := largest_error(values, right)) <= LIMITS[dtype]:
                wrong.append(f"{part}: error {error:.3g} against the float model")
    assert not wrong, "\n".join(wrong)


def _poison(values: Any) -> bool:
    """Return whether all bits are still set."""
    return bool((np.ascontiguousarray(values).view(np.uint8) == 0xFF).all())


def _squares(values: Any) -> Any:
    """Return each row's sum of squares, rounded after each operation."""
    total = np.zeros(len(values), values.dtype)
    for column in values.T:
        total = total + column * column
    return total


# ---- The example ---------------------------------------------------------------------------------


def check_example(case: Case, output: str, kernel: Any) -> None:
    """Compare what the example prints, to its nine digits."""
    robot, name, dtype = case
    model, row = load(robot), named_function(name)
    count = 7  # the example's values repeat, and it prints the first sample's
    inputs = {}
    for block in row.inputs:
        shape = block.dims(model)
        values = 0.1 * (np.arange(count * np.prod(shape, dtype=int)) % 7)
        inputs[block.name] = values.reshape(count, *shape).astype(dtype)
    printed = np.array(kernel(**inputs)[row.results[0].name])[:1].reshape(1, -1)
    lines = [f"{x:.9g}" for x in printed[0].tolist()]
    lines.append(f"cost {_squares(printed)[0].item():.9g}")
    if "qdd" in [b.name for b in row.results]:
        step = np.dtype(dtype).type(1e-3)
        q, _ = rolled(lambda state: np.array(kernel(**state)["qdd"]), inputs, step)
        lines.append(f"q after five steps begins with {q[0, 0].item():.9g}")
    printed = output.splitlines()
    if isa.best().name != "portable":
        assert printed == lines
    assert len(printed) == len(lines)
    for ours, right in zip(printed, lines, strict=True):
        assert ours.split()[:-1] == right.split()[:-1]
        assert float(ours.split()[-1]) == pytest.approx(float(right.split()[-1]), rel=1e-4)


@pytest.mark.parametrize("case", EXAMPLES, ids="-".join)
def test_the_example_builds_as_its_readme_says(case: Case, programs: dict[Any, Built]) -> None:
    kernel = programs[case].kernel
    assert kernel is not None
    check_example(case, programs["example", case].output("./example"), kernel.result())


@pytest.mark.parametrize(("folder", "program"), [("cmake", "iiwa14_aba_example"), ("user", "user")])
def test_cmake_builds_the_example_and_a_users_project(
    folder: str, program: str, programs: dict[Any, Built]
) -> None:
    if ("cmake", folder) not in programs:
        pytest.skip("there is no CMake on this machine")
    case = ("iiwa14", "aba", "float32")
    kernel = programs[case].kernel
    assert kernel is not None
    check_example(case, programs["cmake", folder].output(f"build/{program}"), kernel.result())


@pytest.mark.parametrize("extra", [(), ("-rdc=true",)], ids=["whole", "relocatable"])
def test_two_headers_in_two_files_and_a_lambda_as_hook(
    extra: tuple[str, ...], programs: dict[Any, Built]
) -> None:
    output = programs["two", *extra].output("./" + "_".join(["main", *extra]))
    values = np.array(output.split(), float)
    model = load("two_link")
    first = {"q": [[0.1, 0.2]], "qd": [[0.3, 0.4]], "qdd": [[0.5, 0.6]]}
    tau = named_function("rnea").evaluate(model, {k: np.array(v) for k, v in first.items()})["tau"]
    second = {"q": [[1.0, 2.0]], "qd": [[3.0, 4.0]], "tau": [[5.0, 6.0]]}
    qdd = named_function("aba").evaluate(model, {k: np.array(v) for k, v in second.items()})["qdd"]
    assert np.allclose(values[0], tau[0, 0] + 0.1, rtol=1e-12)
    assert np.allclose(values[1:3], [5, 6], rtol=1e-12)
    assert np.allclose(values[3:], qdd[0], rtol=1e-12)
