"""Axes turned into z, fixed joints merged, residues snapped, order kept."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pinion.functions import velocity_limits
from pinion.robot import Model, load, load_text, placeholder_sentences, stated_velocity, urdf_text
from pinion.robot.rotation import SNAPPED, Residues, align_z, from_rpy, unit_axis, without_residues
from tests.robot.snippets import A, B, C, joint, link, robot, tensor

COORDINATE = [
    tuple(sign * float(k == axis) for k in range(3)) for axis in range(3) for sign in (1.0, -1.0)
]


def one_joint(extra: str) -> str:
    """Return a robot with one joint and this extra content."""
    return robot(A, B, joint(extra=extra))


@pytest.mark.parametrize("axis", COORDINATE)
def test_coordinate_axes_turn_by_exact_permutations(axis: tuple[float, float, float]) -> None:
    clean = unit_axis(axis, Residues(), "x")
    matrix = np.array(align_z(clean))
    assert set(np.abs(matrix).ravel()) == {0.0, 1.0}
    np.testing.assert_array_equal(matrix[:, 2], axis)
    np.testing.assert_array_equal(matrix @ matrix.T, np.eye(3))
    assert np.linalg.det(matrix) == 1.0


@pytest.mark.parametrize("seed", range(20))
def test_oblique_axes_turn_by_rotations(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    axis = unit_axis(
        tuple((rng.normal(size=3) * 10.0 ** rng.integers(-9, 9)).tolist()), Residues(), "x"
    )
    matrix = np.array(align_z(axis))
    np.testing.assert_array_equal(matrix[:, 2], axis)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), rtol=0, atol=1e-15)
    np.testing.assert_allclose(np.linalg.det(matrix), 1.0, rtol=0, atol=1e-15)


def test_turned_axes_are_noted() -> None:
    notes = load_text(one_joint('<axis xyz="0 -2 0"/>')).notes
    assert "Rotated the axis (-0 -1 0)".replace("-0", "0", 1) in notes[0]
    assert "'j'" in notes[0]
    assert (
        "oblique axis (0.6 0 0.8) of joint 'j'"
        in load_text(one_joint('<axis xyz="3 0 4"/>')).notes[0]
    )
    assert load_text(one_joint('<axis xyz="0 0 7"/>')).notes == ()
    # A joint without an axis turns about x, the format's default.
    assert "(1 0 0)" in load_text(one_joint("")).notes[0]


def test_the_childs_world_follows_the_turned_axis() -> None:
    text = robot(
        A,
        link("b", "2", tensor(ixx="0.1", iyy="0.11", izz="0.12"), '<origin xyz="0.1 0.2 0.3"/>'),
        C,
        joint(extra='<axis xyz="-1 0 0"/>'),
        joint("k", "b", "c", extra='<origin xyz="1 2 3"/><axis xyz="0 0 1"/>'),
    )
    model = load_text(text)
    first, second = model.bodies
    # New axes in old coordinates: z = -x, x = y, y = -z.
    assert first.inertia.h == (0.4, -0.6, -0.2)
    assert second.joint.tree.r == (2.0, -3.0, -1.0)
    assert first.joint.tree.E == ((0.0, 1.0, 0.0), (0.0, 0.0, -1.0), (-1.0, 0.0, 0.0))
    frame = next(frame for frame in model.frames if frame.name == "b")
    assert (frame.body, frame.placement.r) == (0, (0.0, 0.0, 0.0))
    # The second joint's URDF frame is the first link's, so its tree undoes the turn.
    assert second.joint.tree.E == ((0.0, 0.0, -1.0), (1.0, 0.0, 0.0), (0.0, -1.0, 0.0))


def test_fixed_links_merge_exactly() -> None:
    z = '<axis xyz="0 0 1"/>'
    text = robot(
        link("a", "7"),
        link("mount", "3"),
        B,
        link("c", "3", tensor(ixx="0.2", iyy="0.3", izz="0.4"), '<origin xyz="0 0 0.5"/>'),
        link("d", "1"),
        '<link name="tip"/>',
        joint("f0", "a", "mount", "fixed", '<origin xyz="0 0 1"/>'),
        joint("j", "mount", "b", extra=z),
        joint("f1", "b", "c", "fixed", '<origin xyz="1 0 0" rpy="0 1.5707963267948966 0"/>'),
        joint("f2", "c", "tip", "fixed", '<origin xyz="0 0 1"/>'),
        joint("k", "tip", "d", extra=z),
    )
    model = load_text(text)
    body = model.bodies[0]
    assert model.base_links == ("a", "mount")
    assert body.links == ("b", "c", "tip")
    assert body.joint.tree.r == (0.0, 0.0, 1.0)
    assert body.inertia.mass == 4.0
    # c's z axis points along b's x axis: its centre of mass is at x = 1.5.
    assert body.inertia.h == (4.5, 0.0, 0.0)
    expected = (0.1 + 0.4, 0.0, 0.0, 0.1 + 0.3 + 3 * 2.25, 0.0, 0.1 + 0.2 + 3 * 2.25)
    np.testing.assert_allclose(body.inertia.I, expected, rtol=1e-15, atol=0)
    assert model.bodies[1].joint.tree.r == (2.0, 0.0, 0.0)
    assert model.bodies[1].parent == 0
    assert {frame.name: frame.body for frame in model.frames} == {
        "a": -1, "mount": -1, "b": 0, "c": 0, "tip": 0, "d": 1,
    }  # fmt: skip
    (merged,) = [note for note in model.notes if "Merged" in note]
    assert merged == "Merged 3 fixed joints: 'mount' into the base; 'c', 'tip' into 'b'."


def test_massless_moving_link_takes_mass_from_its_fixed_children() -> None:
    text = robot(A, '<link name="b"/>', C, joint(), joint("f", "b", "c", "fixed"))
    assert load_text(text).bodies[0].inertia.mass == 1.0


def test_inertial_rpy_is_honoured() -> None:
    text = robot(
        A,
        link(
            "b",
            "1",
            tensor(ixx="0.1", iyy="0.2", izz="0.25"),
            '<origin rpy="0 0 1.57079632679"/>',
        ),
        joint(extra='<axis xyz="0 0 1"/>'),
    )
    assert load_text(text, snap=True).bodies[0].inertia.I == (0.2, 0.0, 0.0, 0.1, 0.0, 0.25)
    assert load_text(text).bodies[0].inertia.I[1] == pytest.approx(4.9e-13, rel=0.01)


@pytest.mark.parametrize("rpy", list(itertools.product((-180, -90, 0, 90, 180), repeat=3)))
def test_right_angles_give_exact_rotations(rpy: tuple[int, int, int]) -> None:
    roll, pitch, yaw = (round(math.radians(angle), 11) for angle in rpy)
    residues = Residues(tolerance=SNAPPED)
    matrix = np.array(without_residues(from_rpy((roll, pitch, yaw)), residues, "x"))
    assert set(np.abs(matrix).ravel()) == {0.0, 1.0}
    np.testing.assert_allclose(matrix, from_rpy((roll, pitch, yaw)), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(matrix @ matrix.T, np.eye(3))


def test_snapping_is_reported_and_small_turns_are_kept() -> None:
    z = '<axis xyz="0 0 1"/>'
    residue = one_joint(z + '<origin xyz="1e-10 0.5 0" rpy="1.57079632679 0 0"/>')
    model = load_text(residue, snap=True)
    assert model.bodies[0].joint.tree.r == (0.0, 0.5, 0.0)
    (note,) = [note for note in model.notes if "Snapped" in note]
    assert "the largest change, 1e-10, was in the origin of joint 'j'" in note
    assert load_text(residue).bodies[0].joint.tree.r == (1e-10, 0.5, 0.0)
    # cos(4e-5) is within 1e-9 of one, yet the turn is not a residue.
    small = load_text(one_joint(z + '<origin rpy="0 0 4e-5"/>'))
    assert small.bodies[0].joint.tree.E[0][1] == pytest.approx(4e-5)
    assert small.bodies[0].joint.tree.E[0][0] < 1.0
    assert "the origin of joint 'j' (4e-05 rad)" in small.notes[0]
    large = load_text(one_joint(z + '<origin rpy="0 0 1.1e-4"/>'))
    assert large.notes == ()


@pytest.mark.parametrize("name", ["hyq", "baxter"])
def test_right_angles_of_twelve_digits_are_right_angles(name: str) -> None:
    # As published; the built-in robots have all digits, so they need no snapping.
    full = urdf_text(name)
    short = full.replace(repr(math.pi / 2), "1.57079632679").replace(repr(math.pi), "3.14159265359")
    assert short.count("1.57079632679") >= 8
    assert "57963267948966" not in short
    assert load_text(short, snap=True).bodies == load_text(full).bodies
    assert load_text(short).bodies != load_text(full).bodies


def test_bodies_are_numbered_depth_first_in_document_order() -> None:
    names = ["root", "z", "y", "x", "w", "v"]
    ends = [("root", "z"), ("root", "y"), ("y", "x"), ("z", "w"), ("root", "v")]
    text = robot(
        *(link(name) for name in names),
        *(joint(f"{a}_{b}", a, b, extra='<axis xyz="0 0 1"/>') for a, b in ends),
    )
    model = load_text(text)
    assert [body.name for body in model.bodies] == ["z", "w", "y", "x", "v"]
    assert model.parents == (-1, 0, -1, 2, -1)
    assert model.frames[0].name == "root"


@pytest.mark.parametrize(
    ("kind", "unit"), [("revolute", "rad/s"), ("continuous", "rad/s"), ("prismatic", "m/s")]
)
def test_velocity_limits_that_no_robot_has_are_replaced_and_named(kind: str, unit: str) -> None:
    axis = '<axis xyz="0 0 1"/>'
    rating = '<pinion rated_velocity="2.5"/>'

    def loaded(velocity: float, extra: str = "") -> Model:
        limit = f'<limit lower="-1" upper="1" velocity="{velocity:g}"/>'
        return load_text(robot(A, B, joint(kind=kind, extra=axis + limit + extra)))

    for velocity in (100.0, 1000.0, 5e4):
        for extra, speed in (("", 1.0), (rating, 2.5)):
            model = loaded(velocity, extra)
            assert model.rated_velocity == (speed,)
            sentence = (
                f"Joint 'j' has a velocity limit of {velocity:g} {unit}, which is a placeholder: "
                f"{speed:g} {unit} is taken in its place, in every distribution of states."
            )
            assert sentence in model.notes and placeholder_sentences(model) == [sentence]
            assert not any("gives no velocity limit" in note for note in model.notes)
            for distribution, share in (("reference", 1.0), ("stress", 1.0), ("rest", 1e-3)):
                assert velocity_limits(model, distribution) == pytest.approx(share * speed)
    fast = loaded(99.9)
    assert fast.rated_velocity == (99.9,) and placeholder_sentences(fast) == []
    assert velocity_limits(fast, "stress") == pytest.approx(99.9)
    assert velocity_limits(loaded(3.0, rating), "stress") == pytest.approx(3.0)
    for limit, expected in ((0.0, None), (math.inf, None), (None, None), (-1.0, None), (4.0, 4.0)):
        assert stated_velocity(limit) == expected


def test_limits_rates_and_defaults() -> None:
    z = '<axis xyz="0 0 1"/>'
    limit = '<limit lower="-0.5" upper="0.75" effort="9" velocity="3"/>'
    dynamics = '<dynamics damping="0.7" friction="0.2"/>'
    model = load_text(one_joint(z + limit + dynamics))
    first = model.bodies[0].joint
    assert (first.lower, first.upper, first.effort, first.velocity) == (-0.5, 0.75, 9.0, 3.0)
    assert (first.damping, first.friction) == (0.7, 0.2)
    assert model.rated_velocity == (3.0,)
    rated = load_text(one_joint(z + limit + '<pinion rated_velocity="1.48"/>'))
    assert (rated.rated_velocity, rated.bodies[0].joint.velocity) == ((1.48,), 3.0)
    for velocity in ('velocity="0"', ""):
        model = load_text(one_joint(z + f'<limit lower="0" upper="1" {velocity}/>'))
        assert model.rated_velocity == (1.0,)
        assert "rated speed is taken as 1 rad/s" in model.notes[0]
    assert model.bodies[0].joint.velocity == math.inf
    assert placeholder_sentences(model) == [] == placeholder_sentences(rated)
    unlimited = load_text(one_joint(z + '<limit effort="1" velocity="1"/>'))
    assert unlimited.bodies[0].joint.upper == math.inf
    assert "'j' gives no position limits" in unlimited.notes[0]
    continuous = load_text(robot(A, B, joint(kind="continuous", extra=z)))
    assert continuous.bodies[0].joint.continuous
    assert continuous.bodies[0].joint.lower == -math.inf
    assert continuous.notes == ()


def test_unphysical_figures_can_be_accepted_with_a_note() -> None:
    text = robot(
        A,
        link("b", "1", tensor(ixy="0.2"), '<pinion accept_inertia="true"/>'),
        joint(extra='<axis xyz="0 0 1"/>'),
    )
    model = load_text(text)
    assert model.bodies[0].inertia.I[1] == 0.2
    assert "'b' is not physical" in model.notes[0]


def test_mimic_joints_are_kept_and_noted() -> None:
    model = load("baxter")
    assert model.nq == 19
    assert sum("mimics" in note for note in model.notes) == 2


def test_a_notebook_shows_the_kinds_that_the_command_line_shows() -> None:
    text = robot(A, B, C, joint(kind="continuous"), joint("k", "b", "c", "prismatic"))
    html = load_text(text)._repr_html_()
    assert "<td>continuous</td>" in html and "<td>prismatic</td>" in html
    assert "revolute" not in html
