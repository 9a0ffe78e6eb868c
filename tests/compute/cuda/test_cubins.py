"""Registers and spills of CUDA kernels, compiled without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pinion.base.progress import Progress
from pinion.compute import cpu
from pinion.compute.cuda import Kept, cooperative
from pinion.compute.cuda.cubin import ARCHITECTURES, Cubin, compile_cubin
from pinion.compute.cuda.threads import ThreadSource, thread_source
from pinion.functions import SUBJECTS, named_function
from pinion.functions.partitions import RNEA_DERIVATIVES_FROM_LINKS
from pinion.native.cache import Cache
from pinion.native.errors import ComputeError
from pinion.robot import load
from tests.support.breadth import some, some_rows
from tests.support.rows import NEW, SECOND_ORDER
from tests.support.rows import robot as robot_of
from tests.support.solver_steps import solver_steps

pytest.importorskip("cuda.core", reason="cuda-core, which loads NVRTC, is not installed")

LINKS = RNEA_DERIVATIVES_FROM_LINKS
DYNAMICS = tuple(row.name for row in SUBJECTS["dynamics"])
CASES = [
    *(("iiwa14", name) for name in (*DYNAMICS, LINKS.name)),
    *(("iiwa14", name) for name in NEW),
    *(("hyq", "fd_derivatives"), ("atlas", "aba")),
]
OTHERS = [a for a in ARCHITECTURES if a not in ("sm_75", "sm_90")]


def cases() -> list[Any]:
    """Return robot, function and architecture; slow except for one GPU and some functions.

    Half the functions are for each architecture, and those of the equations of motion for both.
    """
    parameters = []
    for number, (robot, name) in enumerate(CASES):
        both = robot == "iiwa14" and name in DYNAMICS
        for architecture in ("sm_75", "sm_90") if both else (("sm_75", "sm_90")[number % 2],):
            quick = both and architecture == "sm_90" and name in ("rnea", "minv", "aba")
            marks = () if quick else (pytest.mark.slow,)
            parameters.append(pytest.param(robot, name, architecture, marks=marks))
    return parameters


def compiled(
    robot: str, name: str, dtype: str, architecture: str, layout: str = "soa"
) -> tuple[ThreadSource, list[Cubin]]:
    """Return the kernels of a named_function, each compiled separately as for a device."""
    model, row = robot_of(robot), LINKS if name == LINKS.name else named_function(name)
    source = thread_source(
        cpu.graph_of(model, row),
        inputs=[b.resolved(model) for b in row.inputs],
        results=[b.resolved(model) for b in row.results],
        dtype=dtype,
        layout=layout,
        name=name,
        title=f"{name} of {model.name}",
    )
    cubins = [
        compile_cubin(kernel.text, architecture=architecture, names=[kernel.name])
        for kernel in source.kernels
    ]
    return source, cubins


SPILLED_WORDS = {
    **dict.fromkeys(SECOND_ORDER, 16),
    "fd_parameter_derivatives": 8,
    "centroidal_momentum": 2,
    "constraint_dynamics_derivatives": 2,
    "rk4_step": 158,
}
"""Words that the compiler cannot keep, on sm_75 or sm_90, in one of the row's kernels."""


@pytest.mark.parametrize(("robot", "name", "architecture"), cases())
def test_single_precision_spills_nothing_or_what_is_stated(
    robot: str, name: str, architecture: str
) -> None:
    source, cubins = compiled(robot, name, "float32", architecture)
    assert len(source.kernels) == (3 if name == "rk4_step" else 1)
    most = 4 * SPILLED_WORDS.get(name, 0)
    for kernel, cubin in zip(source.kernels, cubins, strict=True):
        usage = cubin.usage[kernel.name]
        assert kernel.far == 0 and usage.registers <= 255
        assert usage.spill_stores <= most and usage.spill_loads <= most
        assert usage.stack <= most


SPILLED = {("iiwa14", "riccati"): 512}
"""Spilled bytes of steps with hundreds of words that are read once and used often.

In the larger of them 424 are stored and 460 loaded, 221 words; reading the 459 words of its
arrays again at each of their 2,613 uses would add 2,154 loads.
"""


@pytest.mark.parametrize(
    ("robot", "step"),
    [
        ("two_link", "riccati"),
        *(
            pytest.param(robot, step, marks=pytest.mark.slow)
            for robot, step in (
                *(("two_link", step) for step in ("final", "roll", "stage")),
                *(("iiwa14", step) for step in ("riccati", "stage")),
            )
        ),
    ],
)
def test_steps_of_a_solver_compile(robot: str, step: str) -> None:
    model = load(robot)
    row = solver_steps(model)[step]
    source = thread_source(
        cpu.graph_of(model, row),
        inputs=[b.resolved(model) for b in row.inputs],
        results=[b.resolved(model) for b in row.results],
        dtype="float32",
        layout="blocks",
        name=row.name,
        title=f"{row.name} of {robot}",
    )
    for kernel in source.kernels:
        cubin = compile_cubin(kernel.text, architecture="sm_90", names=[kernel.name])
        usage = cubin.usage[kernel.name]
        print(f"{kernel.name}: {usage}")
        assert cubin.code[:4] == b"\x7fELF" and usage.registers <= 255
        most = SPILLED.get((robot, step), 0)
        assert usage.spill_stores <= most and usage.spill_loads <= most


def test_compiling_is_told_once(tmp_path: Path) -> None:
    messages: list[str] = []
    text = 'extern "C" __global__ void here() {}'
    for _ in range(2):
        compiled = Kept(Cache(tmp_path), Progress(messages.append))("here", text, "sm_90")
        assert compiled[:4] == b"\x7fELF"
    assert messages == ["Compiling here for sm_90; it is kept for later"]


@pytest.mark.parametrize("name", some(["rnea_derivatives", "fd_derivatives"], 1))
def test_double_precision_has_its_values_in_shared_memory(name: str) -> None:
    source, cubins = compiled("iiwa14", name, "float64", "sm_90")
    (kernel,) = source.kernels
    usage = cubins[0].usage[name]
    assert kernel.moves > 0 and kernel.far == 0
    assert (usage.spill_stores, usage.spill_loads) == (0, 0)
    # No repeated computation.
    assert kernel.arithmetic == compiled_arithmetic("iiwa14", name)


@pytest.mark.parametrize(
    ("layout", "architecture"),
    some_rows([(("blocks", "aos")[k % 2], other) for k, other in enumerate(OTHERS)], 1),
)
def test_other_architectures_and_layouts(layout: str, architecture: str) -> None:
    _, cubins = compiled("iiwa14", "fd_derivatives", "float32", architecture, layout)
    usage = cubins[0].usage["fd_derivatives"]
    assert (usage.spill_stores, usage.spill_loads) == (0, 0)
    assert cubins[0].code[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("name", "architecture", "dtype"),
    some_rows(
        [
            (LINKS.name, "sm_90", "float32"),
            (LINKS.name, "sm_75", "float64"),
            ("fd_derivatives", "sm_75", "float32"),
            ("fd_derivatives", "sm_90", "float64"),
        ],
        1,
    ),
)
def test_blocks_that_compute_a_sample(architecture: str, dtype: str, name: str) -> None:
    source = cooperative.source(load("iiwa14"), name, dtype=dtype)
    cubin = compile_cubin(source.text, architecture=architecture, names=[source.name])
    usage = cubin.usage[source.name]
    assert (usage.spill_stores, usage.spill_loads) == (0, 0)
    assert usage.registers <= 128


@pytest.mark.slow
def test_thirty_joints_in_several_kernels() -> None:
    source, cubins = compiled("atlas", "fd_derivatives", "float32", "sm_90")
    assert len(source.kernels) == 3
    assert sum(k.arithmetic for k in source.kernels) == compiled_arithmetic(
        "atlas", "fd_derivatives"
    )
    for kernel, cubin in zip(source.kernels, cubins, strict=True):
        usage = cubin.usage[kernel.name]
        assert kernel.far == 0 and usage.spill_stores <= 256 and usage.spill_loads <= 256


def compiled_arithmetic(robot: str, name: str) -> int:
    """Return the instructions of a function on a processor, without repeated computation."""
    return cpu.source(robot, name, dtype="float32").arithmetic


def test_what_does_not_compile_is_one_sentence() -> None:
    with pytest.raises(ComputeError, match="NVRTC failed to compile for sm_9"):
        compile_cubin("", architecture="sm_9")
    with pytest.raises(ComputeError, match="is not a GPU architecture"):
        compile_cubin("", architecture="sm_90 --help")
    with pytest.raises(ComputeError, match=r"failed to compile for sm_90: .*error"):
        compile_cubin("nonsense;", architecture="sm_90")
    with pytest.raises(ComputeError, match="report does not mention the kernel 'there'"):
        compile_cubin('extern "C" __global__ void here() {}', architecture="sm_90", names=["there"])
