"""`pinion export --cuda`: the header with hooks, run on a processor, and its folder."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.compute import ComputeError, cpu
from pinion.compute.cuda import threads
from pinion.compute.cuda.cubin import compile_cubin
from pinion.compute.cuda.export import _named, export_header
from pinion.compute.cuda.parts import Room
from pinion.compute.layouts import to_blocks
from pinion.functions import Block, named_function, sample
from pinion.native import isa
from pinion.robot import load
from tests.support.breadth import some, some_rows
from tests.support.cuda_host import _DYNAMIC, HostKernels, _pointer

pytestmark = pytest.mark.skipif(
    not (shutil.which("c++") or shutil.which("g++")), reason="no C++ compiler"
)

COUNT = 75  # not whole blocks
LIMIT = 600.0  # seconds; ends a hang


def exported(folder: Path, name: str, dtype: str = "float32", **options: Any) -> str:
    """Return header and hooks of iiwa14 as one text, and kernels that use them by plain names."""
    model, row = load("iiwa14"), named_function(name)
    export_header(model, row, folder=folder, dtype=dtype, name="arm", **options)
    hooks = (folder / "example/hooks.cuh").read_text()
    assert '#include "../arm.cuh"' in hooks
    rollout = ROLLOUT if name == "aba" else ""
    return f'#include "example/hooks.cuh"\n{KERNELS}{rollout}'


SAMPLE = "const long long sample = (long long)blockIdx.x * blockDim.x + threadIdx.x;"
# On a processor a kernel is a function that others may call.
KERNELS = """
typedef arm::real real;
#if defined(PINION_CUDA_HOST)
extern "C" __global__ void strided(long long n, arm::Inputs in, arm::Results out) {
  arm::store(n, in, out);
}
extern "C" __global__ void blocks(long long n, arm::BlockInputs in, arm::BlockResults out) {
  arm::store(n, in, out);
}
extern "C" __global__ void costs(long long n, arm::Inputs in, real *costs) {
  arm::each(n, in, example::Cost{costs});
}
#else
template __global__ void arm::store<arm::Inputs, arm::Results>(long long, arm::Inputs,
                                                               arm::Results);
template __global__ void arm::each<arm::Inputs, example::Cost>(long long, arm::Inputs,
                                                               example::Cost);
#endif
"""
ROLLOUT = """
#if defined(PINION_CUDA_HOST)
extern "C" __global__ void roll(long long n, arm::Inputs in, int steps, real dt, real *q,
                                real *qd) {
  example::rollout(n, in, steps, dt, q, qd);
}
#else
template __global__ void example::rollout<arm::Inputs>(long long, arm::Inputs, int, real, real *,
                                                       real *);
#endif
"""


def in_one(folder: Path, text: str) -> str:
    """Inline the headers of a text, for NVRTC and the rewriting of shared memory."""
    hooks = (folder / "example/hooks.cuh").read_text().replace("#pragma once", "")
    header = (folder / "arm.cuh").read_text()
    whole = text.replace('#include "example/hooks.cuh"', hooks)
    return whole.replace('#include "../arm.cuh"', header)


def on_host(folder: Path, text: str) -> HostKernels:
    """Return the text's kernels: those of the header are templates without addresses."""
    header = folder / "arm.cuh"
    rewritten = folder / "rewritten"
    (rewritten / "example").mkdir(parents=True)
    shutil.copy(folder / "example/hooks.cuh", rewritten / "example")
    (rewritten / "arm.cuh").write_text(_DYNAMIC.sub(_pointer, header.read_text()))
    library = folder / "library"
    library.mkdir()
    return HostKernels(text, folder=library, include=[rewritten])


class View(ctypes.Structure):
    """An array of any strides, as declared in the header."""

    _fields_ = (
        ("first", ctypes.c_void_p),
        ("step", ctypes.c_longlong),
        ("apart", ctypes.c_longlong),
    )


def views(arrays: list[np.ndarray], layout: str) -> Any:
    """Return `Inputs` or `Results` for arrays (n, ...), or (..., n) for soa."""
    members = []
    for array in arrays:
        if layout == "aos":
            members.append(View(array.ctypes.data, array[0].size, 1))
        else:
            members.append(View(array.ctypes.data, 1, array.shape[-1]))
    return _struct(View, members)


def _struct(kind: Any, values: list[Any]) -> Any:
    return (kind * len(values))(*values)


def states(name: str, dtype: str) -> dict[str, np.ndarray]:
    samples = sample(load("iiwa14"), named_function(name), COUNT, distribution="reference", seed=5)
    return {key: np.ascontiguousarray(values.astype(dtype)) for key, values in samples.items()}


def launched(kernels: HostKernels, name: str, shared: int, threads: int, args: list[Any]) -> None:
    kernels.launch(
        name, -(-COUNT // threads), threads, shared, [ctypes.c_longlong(COUNT), *args], seed=1
    )


@pytest.mark.parametrize(
    ("name", "dtype"),
    some_rows(
        [
            ("rnea", "float32"),
            ("rnea_derivatives", "float64"),
        ],
        1,
    ),
)
def test_every_layout_and_a_cost(tmp_path: Path, cache_folder: Path, name: str, dtype: str) -> None:
    model, row = load("iiwa14"), named_function(name)
    out = tmp_path / "out"
    kernels = on_host(out, exported(out, name, dtype))
    record = export_header(model, row, folder=out, dtype=dtype, name="arm")
    shared, threads = record["shared_bytes"], record["threads"]
    assert (shared > 0) == (name == "rnea_derivatives")  # has too many values for registers
    inputs = states(name, dtype)
    expected = cpu.compile(model, row, dtype=dtype, threads=1, cache=cache_folder)(**inputs)
    arrays = [inputs[b.name] for b in row.inputs]
    shapes = [b.dims(model) for b in row.results]
    fused = isa.best().name != "portable"

    def same(results: list[np.ndarray]) -> None:
        for values, block in zip(results, row.results, strict=True):
            assert np.isfinite(values).all()
            if fused:
                assert values.tobytes() == np.ascontiguousarray(expected[block.name]).tobytes()
            else:
                assert np.allclose(values, expected[block.name], rtol=1e-4, atol=1e-4)

    results = [np.full((COUNT, *shape), np.nan, dtype) for shape in shapes]
    launched(kernels, "strided", shared, threads, [views(arrays, "aos"), views(results, "aos")])
    same(results)
    turned = [np.ascontiguousarray(np.moveaxis(a, 0, -1)) for a in arrays]
    results = [np.full((*shape, COUNT), np.nan, dtype) for shape in shapes]
    launched(kernels, "strided", shared, threads, [views(turned, "soa"), views(results, "soa")])
    same([np.ascontiguousarray(np.moveaxis(f, -1, 0)) for f in results])
    blocks = [to_blocks(a) for a in arrays]
    results = [np.full((-(-COUNT // 16), *shape, 16), np.nan, dtype) for shape in shapes]
    pointers = [
        _struct(ctypes.c_void_p, [a.ctypes.data for a in group]) for group in (blocks, results)
    ]
    launched(kernels, "blocks", shared, threads, pointers)
    same(
        [
            np.ascontiguousarray(np.moveaxis(f, -1, 1).reshape(-1, *f.shape[1:-1])[:COUNT])
            for f in results
        ]
    )

    costs = np.full(COUNT, np.nan, dtype)
    launched(kernels, "costs", shared, threads, [views(arrays, "aos"), costs])
    first = row.evaluate(model, {k: v.astype(float) for k, v in inputs.items()})[
        row.results[0].name
    ]
    squares = (first.reshape(COUNT, -1) ** 2).sum(axis=1)
    assert np.allclose(costs, squares, rtol=1e-10 if dtype == "float64" else 1e-4)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), some_rows([("float64", 1e-10), ("float32", 1e-5)], 1)
)
def test_five_steps_of_semi_implicit_euler(tmp_path: Path, dtype: str, tolerance: float) -> None:
    model, row = load("iiwa14"), named_function("aba")
    kernels = on_host(tmp_path, exported(tmp_path, "aba", dtype))
    inputs = states("aba", dtype)
    real = ctypes.c_double if dtype == "float64" else ctypes.c_float
    ends = [np.full((COUNT, 7), np.nan, dtype) for _ in range(2)]
    arrays = [inputs[b.name] for b in row.inputs]
    step = 0.01
    args = [views(arrays, "aos"), ctypes.c_int(5), real(step), *ends]
    launched(kernels, "roll", 0, 128, args)
    q, qd, tau = (inputs[key].astype(float) for key in ("q", "qd", "tau"))
    begin = qd.copy()
    for _ in range(5):
        qd = qd + step * row.evaluate(model, {"q": q, "qd": qd, "tau": tau})["qdd"]
        q = q + step * qd
    assert np.abs(qd - begin).max() > 0.1
    assert np.allclose(ends[0], q, rtol=tolerance, atol=tolerance)
    assert np.allclose(ends[1], qd, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", some(["rnea", "aba"], ("rnea",)))
@pytest.mark.parametrize("architecture", some(["sm_75", "sm_90"], ("sm_90",)))
def test_hooks_spill_nothing(tmp_path: Path, name: str, architecture: str) -> None:
    pytest.importorskip("cuda.core", reason="cuda-core, which loads NVRTC, is not installed")
    text = in_one(tmp_path, exported(tmp_path, name))
    usage = compile_cubin(
        text, architecture=architecture, names=["arm_strided", "arm_blocks"]
    ).usage
    assert len(usage) == (5 if name == "aba" else 4)
    for kernel, used in usage.items():
        assert (used.spill_stores, used.spill_loads) == (0, 0), kernel
        # The library's sine of huge angles has an array of 32 bytes.
        assert used.registers <= 128 and used.stack <= 40, kernel


@pytest.mark.slow
def test_the_example_compiles_with_nvcc(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc on this machine")
    export_header(load("two_link"), named_function("aba"), folder=tmp_path)
    completed = subprocess.run(
        [nvcc, "-std=c++17", "-fmad=false", "-Xcompiler", "-Wall,-Wextra", "-c", "example.cu"],
        cwd=tmp_path / "example",
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert completed.returncode == 0 and "warning" not in completed.stderr, completed.stderr


def test_two_headers_go_into_one_file(tmp_path: Path) -> None:
    model = load("two_link")
    for name in ("rnea", "aba"):
        export_header(model, named_function(name), folder=tmp_path / name)
    text = (
        '#include "rnea/two_link_rnea.cuh"\n#include "aba/two_link_aba.cuh"\n'
        '#include "rnea/two_link_rnea.cuh"\n'
        'extern "C" __global__ void both(float *sum) {\n'
        "  two_link_aba::Request state = {{1, 2}, {3, 4}, {5, 6}};\n"
        "  two_link_aba::Result moved;\n  two_link_aba::compute(state, moved);\n"
        "  two_link_rnea::Request back = {{1, 2}, {3, 4}, {moved.qdd[0], moved.qdd[1]}};\n"
        "  two_link_rnea::Result needed;\n  two_link_rnea::compute(back, needed);\n"
        "  for (int e = 0; e < 2; ++e) sum[e] = needed.tau[e];\n}\n"
    )
    (tmp_path / "library").mkdir()
    kernels = HostKernels(text, folder=tmp_path / "library", include=[tmp_path])
    sums = np.zeros(2, np.float32)
    kernels.launch("both", 1, 1, 0, [sums], seed=1)
    assert np.allclose(sums, [5, 6], rtol=1e-4)


def test_arrays_are_where_their_layout_says(tmp_path: Path) -> None:
    model, row = load("two_link"), named_function("rnea")
    export_header(model, row, folder=tmp_path, dtype="float64", name="arm")
    text = """
#include "arm.cuh"
extern "C" __global__ void soa(long long n, const double *q, const double *qd, const double *qdd,
                               double *tau) {
  arm::store(n, arm::inputs_soa(n, q, qd, qdd), arm::results_aos(tau));
}
extern "C" __global__ void aos(long long n, const double *q, const double *qd, const double *qdd,
                               double *tau) {
  arm::store(n, arm::inputs_aos(q, qd, qdd), arm::results_soa(n, tau));
}
"""
    (tmp_path / "library").mkdir()
    kernels = HostKernels(text, folder=tmp_path / "library", include=[tmp_path])
    inputs = sample(model, row, COUNT, distribution="reference", seed=5)
    expected = row.evaluate(model, inputs)["tau"]
    rows = [np.ascontiguousarray(inputs[b.name], dtype=float) for b in row.inputs]
    tau = np.full((COUNT, 2), np.nan)
    launched(kernels, "soa", 0, 128, [*(np.ascontiguousarray(r.T) for r in rows), tau])
    assert np.allclose(tau, expected, rtol=1e-10, atol=1e-10)
    tau = np.full((2, COUNT), np.nan)
    launched(kernels, "aos", 0, 128, [*rows, tau])
    assert np.allclose(tau.T, expected, rtol=1e-10, atol=1e-10)


def test_threads_have_shared_memory_of_their_own(tmp_path: Path) -> None:
    exported(tmp_path, "rnea_derivatives", "float64")
    text = """
#include "arm.cuh"
extern "C" __global__ void places(long long *at) {
  at[threadIdx.x] = (long long)arm::scratch().near;
}
"""
    kernels = on_host(tmp_path, text)
    at = np.zeros(32, np.int64)
    kernels.launch("places", 1, 32, 0, [at], seed=1)
    assert (np.diff(at) == 8).all()


# ---- The folder ----------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def test_regenerating_changes_nothing_and_edits_are_refused(tmp_path: Path) -> None:
    model, row, out = load("two_link"), named_function("rnea"), tmp_path / "new/out"

    def export(**options: Any) -> dict[str, Any]:
        return export_header(model, row, folder=out, name="arm", **options)

    assert set(export()["files"]) == set(contents(out))
    first = contents(out)
    times = {path: (out / path).stat().st_mtime_ns for path in first}
    export()
    assert contents(out) == first
    assert {path: (out / path).stat().st_mtime_ns for path in first} == times
    # Line ends that version control may produce.
    (out / "README.md").write_bytes(first["README.md"].replace(b"\n", b"\r\n"))
    export()
    assert contents(out) == first

    (out / "hooks.cuh").write_text("mine")
    for path in first:
        if path == "arm.json":
            continue
        (out / path).write_bytes(first[path] + b"// mine\n")
        before = contents(out)
        with pytest.raises(
            ComputeError, match=rf"{re.escape(path)}' differs from .*hook.*force=True"
        ):
            export()
        with pytest.raises(ComputeError, match=re.escape(path)):
            export(dtype="float64")
        assert contents(out) == before
        export(force=True)
        assert contents(out) == {**first, "hooks.cuh": b"mine"}
    # Removed files come back; other options replace unchanged files.
    (out / "README.md").unlink()
    export(dtype="float64")
    assert contents(out)["arm.cuh"] != first["arm.cuh"] and (out / "README.md").exists()
    # Without the record the files' origin is unknown.
    (out / "arm.json").unlink()
    with pytest.raises(ComputeError, match="differs from what Pinion wrote"):
        export()
    for broken in ("[", "[]", '{"files": 3}'):
        (out / "arm.json").write_text(broken)
        with pytest.raises(ComputeError, match=r"arm\.json' is not a valid record"):
            export()
    export(force=True)
    assert contents(out) == {**first, "hooks.cuh": b"mine"}


def test_the_header_says_what_it_is(tmp_path: Path) -> None:
    export_header(load("two_link"), named_function("rnea"), folder=tmp_path, name="arm")
    text = (tmp_path / "arm.cuh").read_text()
    assert "pinion export --cuda two_link rnea --dtype float32 --name arm -o FOLDER" in text
    assert "Do not edit it" in text and '#include "' not in text and "PINION_ISA_AVX" not in text
    record = json.loads((tmp_path / "arm.json").read_text())
    assert set(record["files"]) == set(contents(tmp_path)) - {"arm.json"}


@pytest.mark.parametrize(
    "hostile",
    some(
        ['a"b', "a\n#error x", "*/ #error x", "a\\", "@CODE@", "\r#error", "`$(x)`", "???/"],
        ("*/ #error x", "@CODE@"),
    ),
)
def test_hostile_names_are_harmless(tmp_path: Path, hostile: str) -> None:
    model = replace(load("two_link"), name=hostile)
    row = named_function("rnea")
    row = replace(row, doc=hostile)
    export_header(model, row, folder=tmp_path, name="arm", robot=f"{hostile}.urdf")
    text = '#include "example/hooks.cuh"\nextern "C" __global__ void none() {}\n'
    (tmp_path / "library").mkdir()
    assert HostKernels(text, folder=tmp_path / "library", include=[tmp_path]).names == ("none",)
    assert json.loads((tmp_path / "arm.json").read_text())["robot"] == hostile


def test_a_failure_half_way_leaves_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, row, out = load("two_link"), named_function("rnea"), tmp_path / "new/out"
    moves = []

    def move(a: Path, b: Path) -> None:
        moves.append(b)
        if len(moves) == 3:
            raise OSError(28, "No space left on device")
        os.rename(a, b)

    monkeypatch.setattr("pinion.compute.cuda.export.os.replace", move)
    with pytest.raises(ComputeError, match="No space left on device"):
        export_header(model, row, folder=out)
    assert not (tmp_path / "new").exists()
    moves[:] = [Path()] * 3
    export_header(model, row, folder=out)
    before = contents(out)
    moves.clear()
    with pytest.raises(ComputeError, match="No space left on device"):
        export_header(model, row, folder=out, dtype="float64")
    assert contents(out) == before


def test_wrong_arguments_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, row = load("two_link"), named_function("rnea")
    for options, message in (
        ({"dtype": "float16"}, "Unknown dtype 'float16'"),
        ({"name": "7up"}, "'7up' is not a valid name"),
        ({"name": "a\nb"}, "is not a valid name"),
        ({"name": "double"}, "'double' is not a valid name"),
    ):
        with pytest.raises(ComputeError, match=message):
            export_header(model, row, folder=tmp_path / "out", **options)
    (tmp_path / "file").write_text("file")
    for folder in ("file", "file/out"):
        with pytest.raises(ComputeError, match=r"choose another folder|move or delete it"):
            export_header(model, row, folder=tmp_path / folder)
    monkeypatch.setattr(threads, "_ROOMS", {"float32": Room(plain=1, registers=8, slots=10)})
    with pytest.raises(ComputeError, match=r"needs several kernels, .*: export it for CPUs"):
        export_header(load("chain_3"), named_function("rnea_derivatives"), folder=tmp_path / "out")
    assert contents(tmp_path) == {"file": b"file"} and not (tmp_path / "out").exists()


def test_arrays_whose_names_are_taken(tmp_path: Path) -> None:
    model, row = load("two_link"), named_function("rnea")
    blocks = [
        replace(b, name=name) for b, name in zip(row.inputs, ("q", "double", "n"), strict=True)
    ]

    names = [array.name for array in _named([b.resolved(model) for b in blocks], ("q",))]
    assert names == ["q_", "double_", "n_"]
    size = Block(name="size_q", shape=(2,), unit="")
    assert _named([size], ())[0].name == "array_size_q"
