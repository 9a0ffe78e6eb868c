"""The table's rows as cores, bit for bit: a few small ones, and in slow tests every row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pinion.cosim.verify import verify
from pinion.flow.build import Build
from pinion.functions import (
    FUNCTIONS,
    BuiltFunction,
    Function,
    named_function,
    options_from_text,
)
from pinion.robot import Model, load, tip_of
from tests.dynamics.test_loops import four_bar
from tests.support.breadth import some_rows
from tests.support.builds import build
from tests.support.rows import NEW, OF_TIPS, has, robot

II = 8
INTERVALS = {"constraint_dynamics_derivatives": 64, "impulse_dynamics_derivatives": 64}
"""Of rows that an arm with one contact takes hundreds of multipliers for at 8 cycles."""


def check(model: Model, row: Function, folder: Path, **options: Any) -> dict[str, Any]:
    """Build a core and compare a thousand requests bit for bit."""
    ii = INTERVALS.get(row.name, II)
    build(model, row, folder, ii=ii, **options)
    figures: dict[str, Any] = verify(folder, samples=1000, seed=31)
    assert figures["mismatches"] == 0 and figures["budget_held"], figures
    assert figures["cycles_per_result"] == ii and figures["wrong_unflagged"] == 0
    return figures


@pytest.mark.parametrize(
    ("name", "row"),
    some_rows(
        [
            ("leg", named_function("frame_jacobian", outputs=("R", "p"))),
            ("two_link", named_function("rnea_fext")),
        ],
        lambda name, row: row.name == "rnea_fext",
    ),
    ids=("frame_jacobian", "rnea_fext"),
)
def test_small_cores_are_bit_exact(name: str, row: Function, tmp_path: Path) -> None:
    figures = check(robot(name), row, tmp_path / "core")
    assert figures["ok"] and figures["flagged"] == 0


@pytest.mark.slow
def test_a_core_of_frames_is_bit_exact_and_can_be_opened_again(tmp_path: Path) -> None:
    """Its folder has the options, and the fixed joint that its trace needs."""
    frames, folder = ("tip_joint", "elbow=link_2"), tmp_path / "core"
    row = named_function("frame_velocity", frames=frames, reference="local")
    model = load("two_link")
    assert dict(model.fixed_joints) == {"tip_joint": "tip"}
    figures = check(model, row, folder)
    assert figures["ok"] and list(figures["rel_err_max"]) == ["v_tip_joint", "v_elbow"]
    stored = Build.read(folder)
    again = named_function(stored.manifest.function, **options_from_text(stored.function.options))
    assert again == row and stored.model == model
    assert BuiltFunction.of(again, stored.model) == stored.function


@pytest.mark.slow
def test_a_core_with_formats_by_signal_keeps_its_promise(tmp_path: Path) -> None:
    figures = check(robot("leg"), named_function("com_jacobian"), tmp_path / "core", formats="auto")
    assert figures["ok"] and max(figures["rel_err_max"].values()) <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("constraint_dynamics", ()),
        ("constraint_dynamics", ("velocity_gain", "position_gain")),
        ("impulse_dynamics", ()),
    ],
)
def test_a_core_of_a_mechanism_with_a_loop_is_bit_exact(
    name: str, inputs: tuple[str, ...], tmp_path: Path
) -> None:
    row = named_function(name, inputs=inputs)
    figures = check(four_bar(), row, tmp_path / "core", max_error=0.1)
    assert figures["ok"] and figures["flagged"] == 0


def branch(name: str, row: str) -> Model:
    """Return a robot, or one leg of it if the row needs a tip."""
    return load("hyq", tip="lf_lowerleg") if name == "hyq" and row in OF_TIPS else robot(name)


# Cores of thousands of operations, which take minutes to build for an arm or a leg.
LARGE = (
    "centroidal_derivatives",
    "euler_step",
    "fd_parameter_derivatives",
    "fd_second_derivatives",
    "rk4_step",
    "rnea_second_derivatives",
    "step_second_derivatives",
)

# Rows whose cores are of a leg of three joints: as general as an arm's, in less time.
OF_LEGS = (
    *("aba_fext", "centre_of_mass", "coriolis", "frame_acceleration"),
    *("frame_classical_acceleration", "frame_drift", "frame_jacobian_local"),
    *("frame_jacobian_rate", "frame_jacobian_world", "frame_velocity", "gravity"),
    "potential_energy",
)


def arm(row: str) -> str:
    """Return the robot of a row: the whole arm where no smaller one is named."""
    return "two_link" if row in LARGE else "leg" if row in OF_LEGS else "iiwa14"


# Each row once, and some on a tree and on a floating base: cores of the same operations.
CASES = [(arm(row), row) for row in NEW]
CASES += [("hyq", "coriolis"), ("floating leg", "forward_kinematics")]


# Permitted relative errors above 1e-2 of q16.16: in rows that divide by small pivots, and in those
# with results of a hundredth and less (what a step of 1 ms changes, derivatives by speeds).
ACCEPTED = {
    "aba_fext": 5e-2,
    "constraint_dynamics": 5e-2,
    "constraint_dynamics_derivatives": 5e-2,
    "euler_step": 5e-2,
    "fd_second_derivatives": 5e-2,
    "impulse_dynamics": 5e-2,
    "impulse_dynamics_derivatives": 5e-2,
    "operational_space_inertia": 0.1,
    "rk4_step": 5e-2,
    "rnea_second_derivatives": 2e-2,
    "step_second_derivatives": 0.1,
}


@pytest.mark.slow
@pytest.mark.usefixtures("plain_sharing")
@pytest.mark.parametrize(("name", "row"), CASES)
def test_every_row_is_bit_exact(name: str, row: str, tmp_path: Path) -> None:
    model = branch(name, row)
    figures = check(model, FUNCTIONS[row], tmp_path / "core", max_error=ACCEPTED.get(row))
    assert figures["ok"] and figures["flagged"] == 0


def test_the_robots_have_what_the_rows_speak_of() -> None:
    for row in NEW:
        assert has("iiwa14", row) and tip_of(branch("iiwa14", row)) == "iiwa_link_7"
        if row in OF_TIPS:
            assert tip_of(branch("hyq", row)) == "lf_lowerleg"
