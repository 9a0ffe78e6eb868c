"""Inertias are checked for the bodies that still move, all at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from benchmarks.robots.agreement import errors

from pinion.dynamics import DynamicsError, aba, crba, fd_derivatives, minv, random_configuration
from pinion.robot import Model, RobotError, from_pinocchio, load, load_text, lock, massless, tip
from pinion.robot.model import Inertia, JointKind
from pinion.robot.pivots import idle_joints
from tests.dynamics.models import random_model
from tests.robot.snippets import A, B, C, joint, link, robot, tensor
from tests.robot.test_robot_errors import check

X, Y, Z = (f'<axis xyz="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1"))
IMPOSSIBLE = tensor(izz="0.3")
NOTHING = tensor(ixx="0", iyy="0", izz="0")
ACCEPT = '<pinion accept_inertia="true"/>'


def away(xyz: str) -> str:
    return f'<origin xyz="{xyz}"/>'


def bare(name: str) -> str:
    return f'<link name="{name}"/>'


def write(folder: Path, *parts: str) -> Path:
    path = folder / "r.urdf"
    path.write_text(robot(*parts), encoding="utf-8")
    return path


def test_inertia_of_the_fixed_base_is_not_checked() -> None:
    base = link("a", "1", IMPOSSIBLE), link("m", "-3")
    parts = (*base, B, joint("f", "a", "m", "fixed"), joint("j", "m", "b"))
    model = load_text(robot(*parts))
    assert model.base_links == ("a", "m")
    assert not any("physical" in note for note in model.notes)
    with pytest.raises(RobotError) as error:
        load_text(robot(*parts), floating_base=True)
    check(error, "2 faults", "'a'", "triangle inequality", "'m'", "-3.0", "negative")


def test_locked_and_removed_links_are_not_checked(tmp_path: Path) -> None:
    bad = link("c", "1", IMPOSSIBLE)
    path = write(tmp_path, A, B, bad, link("d"), joint("k", "a", "c", extra=Z), joint("j"),
                 joint("l", "b", "d"))  # fmt: skip
    with pytest.raises(RobotError, match="'c' is not physical"):
        load(path)
    assert load(path, tip="d").joint_names == ("j", "l")
    assert load(path, lock={"k": 0.0}).joint_names == ("j", "l")


def test_every_fault_is_named_at_once() -> None:
    links = [link(f"b{k}", "1", IMPOSSIBLE) for k in range(9)]
    ends = zip(["a", *(f"b{k}" for k in range(8))], [f"b{k}" for k in range(9)], strict=True)
    joints = [joint(f"j_{child}", parent, child) for parent, child in ends]
    massless = bare("c"), joint("k", "a", "c")
    with pytest.raises(RobotError) as error:
        load_text(robot(A, *links[:2], link("b2", "-1"), *joints[:3], *massless))
    check(error, "4 faults", "'b0'", "'b1'", "-1.0", "'b2'", "'k'", "'c'", "--accept-inertia",
          "negative masses", "armature")  # fmt: skip
    assert str(error.value).count("sum of the others") == 1
    with pytest.raises(RobotError) as error:
        load_text(robot(A, *links, *joints))
    check(error, "9 faults", "(8)", "and 1 more")


def test_impossible_inertias_are_kept_where_they_are_accepted(tmp_path: Path) -> None:
    for bad in (link("b", "1", IMPOSSIBLE), link("b", "0"), link("b", "1", tensor(ixy="0.2"))):
        path = write(tmp_path, A, bad, joint(extra=Z))
        with pytest.raises(RobotError, match="accept_inertia"):
            load(path)
        note, *_ = load(path, accept_inertia=True).notes
        assert "'b'" in note and note.endswith("it was kept as accept_inertia asks.")
        marked = load_text(robot(A, bad.replace("</inertial>", f"{ACCEPT}</inertial>"), joint()))
        assert marked.notes[0].endswith("it was kept because the file accepts it.")
    with pytest.raises(RobotError) as error:
        load_text(robot(A, link("b", "-1"), joint()), accept_inertia=True)
    check(error, "-1.0", "negative")
    model = load_text(robot(A, B, bare("c"), joint(), joint("k", "b", "c")), accept_inertia=True)
    assert "'k' moves no inertia" in model.notes[0]
    assert "forward dynamics does not exist" in model.notes[0]


def test_an_impossible_link_of_a_possible_body_is_noted() -> None:
    light = link("c", "1e-6", "ixx='1e-6' ixy='1e-6' ixz='0' iyy='1e-6' iyz='0' izz='1e-6'")
    for odd in (light, link("c", "0", tensor(ixx="1e-6", iyy="1e-6", izz="1e-6"))):
        model = load_text(robot(A, B, odd, joint(), joint("f", "b", "c", "fixed")))
        (note,) = [note for note in model.notes if "physical nevertheless" in note]
        assert "link 'c'" in note and "the whole body 'b'" in note
        # The inertia of a massless link still counts in its body.
        assert model.bodies[0].inertia.I[5] == pytest.approx(0.1 + 1e-6, rel=1e-12)


def test_residues_of_programs_are_zeros() -> None:
    dust = tensor(ixx="0", iyy="0", izz="0", ixy="-2.40741e-35")
    fixed = joint("f", "b", "c", "fixed"), joint("g", "b", "d", "fixed")
    parts = B, link("c", "2", dust.replace("e-35", "e-17")), link("d", "1e-20", dust)
    model = load_text(robot(A, *parts, joint(), *fixed))
    assert model.bodies[0].inertia.mass == 3.0
    assert model.bodies[0].inertia.I[1] == 0.0
    assert any(note.startswith("Snapped 3 rounding residues") for note in model.notes)
    assert not any("physical" in note for note in model.notes)
    # Next to a massive body they are negligible; alone, they are no mass at all.
    dusty = link("b", "1e-20", dust)
    with pytest.raises(RobotError, match="'j' moves no inertia"):
        load_text(robot(A, dusty, C, joint(), joint("k", "a", "c")))
    assert massless(load_text(robot(A, dusty, joint())))


WRIST = robot(
    A,
    *(bare(name) for name in ("s1", "s2", "e1", "e2")),
    link("b", "2", tensor(ixx="0.02", iyy="0.03", izz="0.015"), away("0.02 0.01 0.3")),
    link("c", "1", tensor(ixx="0.01", iyy="0.01", izz="0.004"), away("0.03 0 0.2")),
    joint("j1", "a", "s1", extra=Z),
    joint("j2", "s1", "s2", extra=Y),
    joint("j3", "s2", "b", extra=X),
    joint("j4", "b", "e1", extra=Y + away("0 0 0.5")),
    joint("j5", "e1", "e2", "prismatic", extra=X),
    joint("j6", "e2", "c", extra=Z + away("0.05 0 0")),
)
"""Joints in series through massless links: a shoulder of three, a wrist with a slide."""


@pytest.mark.parametrize("floating", [False, True])
def test_massless_links_between_joints_agree_with_pinocchio(floating: bool) -> None:
    root = (pin.JointModelFreeFlyer(),) if floating else ()
    text = WRIST.replace(A, link("a"))
    model, other = load_text(text, floating_base=floating), pin.buildModelFromXML(text, *root)
    assert sum(body.inertia.mass == 0.0 for body in model.bodies) == 4
    largest_errors = errors(model, other, states=20, seed=1)
    assert max(largest_errors.values()) < 1e-10, largest_errors
    q = random_configuration(model, np.random.default_rng(2), 20)
    by_bodies, by_factors = minv(model, q, method="aba"), minv(model, q)
    np.testing.assert_allclose(by_bodies, by_factors, rtol=0, atol=1e-9 * np.abs(by_factors).max())
    # The comparison notices a gram.
    last = model.bodies[-1]
    heavier = replace(last, inertia=replace(last.inertia, mass=last.inertia.mass + 1e-3))
    wrong = errors(replace(model, bodies=(*model.bodies[:-1], heavier)), other, states=3, seed=1)
    assert min(wrong.values()) > 1e-6, wrong


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ((bare("b"), C, joint(extra=Z), joint("k", "a", "c")), ("j",)),
        ((link("b", "1", NOTHING), joint(extra=Z)), ("j",)),
        ((link("b", "1", NOTHING, away("1 0 0")), joint(extra=Z)), ()),
        ((link("b", "1", tensor(izz="0")), joint(extra=X)), ()),
        ((bare("b"), joint(extra=Z + '<pinion armature="0.1"/>')), ()),
        ((bare("b"), C, joint(extra=Z), joint("k", "b", "c", extra=Z)), ("j",)),
        ((bare("b"), C, joint(extra=Z), joint("k", "b", "c", extra=Z + away("1 0 0"))), ()),
        ((bare("b"), C, joint(extra=Z), joint("k", "b", "c", extra=X)), ()),
        ((bare("b"), C, joint(kind="planar", extra=Z), joint("k", "b", "c", extra=Z)), ("j",)),
        ((link("b", "1", NOTHING), joint(kind="floating")), ("j",)),
        # Small is not zero: ten grams a millimetre off the axis, before a body of a kilogram.
        (
            (
                *(link("b", "1e-2", NOTHING, away("1e-3 0 0")), C, joint(extra=Z)),
                joint("k", "b", "c", extra=Z),
            ),
            (),
        ),
        # A point that a slide always keeps on the axis of the joint before it.
        (
            (
                *(bare("b"), link("c", "1", NOTHING, away("-1 0 0")), joint(extra=Z)),
                joint("k", "b", "c", "prismatic", extra=Z + away("1 0 0")),
            ),
            ("j",),
        ),
    ],
)  # fmt: skip
def test_a_joint_must_move_some_inertia(parts: Iterable[str], names: tuple[str, ...]) -> None:
    text = robot(A, *parts)
    if not names:
        assert load_text(text).nv > 0
        return
    with pytest.raises(RobotError) as error:
        load_text(text)
    remedy = "the link 'b' an <inertial>" if "floating" in text else "or give the joint an armature"
    check(error, *map(repr, names), "no inertia", "'b'", remedy)


@pytest.mark.parametrize("seed", range(30))
def test_idle_joints_are_where_the_inertia_matrix_is_singular(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = random_model(rng, int(rng.integers(2, 8)))
    model = replace(model, bodies=tuple(map(lambda b: lighter(b, rng), model.bodies)))
    M = crba(model, rng.uniform(-3.0, 3.0, (4, model.nv)))
    assert M.shape[1] == model.nv
    scale = np.sqrt(np.maximum(np.einsum("nii->ni", M), 1e-30))
    spread = np.linalg.eigvalsh(M / (scale[:, :, None] * scale[:, None, :]))
    singular = not np.max(spread[:, 0]) > 1e-11 * np.max(spread[:, -1])
    assert bool(idle_joints(model)) == singular


def lighter(body, rng):  # type: ignore[no-untyped-def]
    """Return a body without inertia, with a point's, or unchanged."""
    choice = rng.integers(4)
    if choice == 0:
        inertia = Inertia(mass=0.0, h=(0.0, 0.0, 0.0), I=(0.0,) * 6)
        return replace(body, inertia=inertia)
    if choice == 1:
        x, y, z = rng.normal(size=3) * rng.choice([0.0, 1.0], size=3)
        tensor = (y * y + z * z, -x * y, -x * z, x * x + z * z, -y * z, x * x + y * y)
        return replace(body, inertia=Inertia(mass=1.0, h=(x, y, z), I=tensor))
    return body


def test_lock_and_tip_check_the_remaining_joints() -> None:
    # A gimbal with massless rings: with the middle one at zero two axes coincide.
    gimbal = load_text(
        robot(A, bare("b"), bare("c"), link("d"), joint("j", "a", "b", extra=Z),
              joint("k", "b", "c", extra=X), joint("l", "c", "d", extra=Z))
    )  # fmt: skip
    assert lock(gimbal, {"k": 0.3}).nv == 2
    with pytest.raises(RobotError) as error:
        lock(gimbal, {"k": 0.0})
    check(error, "'j'", "no inertia", "'l'", "gives way")
    # Cut down to a link before any mass it is a chain for kinematics, with a note.
    assert massless(tip(gimbal, "c"))
    assert any("No moving body has mass" in note for note in tip(gimbal, "c").notes)
    heavy = load_text(robot(A, B, bare("c"), link("d"), joint(), joint("k", "b", "c", extra=Z),
                            joint("l", "c", "d", extra=X)))  # fmt: skip
    with pytest.raises(RobotError) as error:
        tip(heavy, "c")
    check(error, "'k'", "no inertia")


def test_forward_dynamics_of_an_accepted_idle_joint_is_refused() -> None:
    text = robot(A, B, bare("c"), joint(), joint("k", "b", "c", extra=Z))
    for floating in (False, True):
        model = load_text(text.replace(A, link("a")), accept_inertia=True, floating_base=floating)
        q = random_configuration(model, np.random.default_rng(0))
        still = np.zeros(model.nv)
        for call in (
            partial(minv, model, q),
            partial(minv, model, q, method="aba"),
            partial(aba, model, q, still, still),
            partial(fd_derivatives, model, q, still, still),
        ):
            with pytest.raises(DynamicsError, match=r"inertia matrix .*(singular|not positive)"):
                call()


def test_models_of_pinocchio_are_checked_after_locking() -> None:
    other = pin.buildModelFromXML(robot(A, B, bare("c"), joint(), joint("k", "b", "c")))
    with pytest.raises(RobotError, match="'k' moves no inertia"):
        from_pinocchio(other)
    locked: Model = load(other, lock={"k": 0.0})
    assert locked.joint_names == ("j",)


def test_mimic_joints_need_a_leader(tmp_path: Path) -> None:
    loose = Z + '<mimic joint="z"/>'
    parts = (A, B, C, link("d"), joint(), joint("k", "b", "c", extra=loose))
    with pytest.raises(RobotError) as error:
        load_text(robot(*parts, joint("l", "c", "d", extra=Z + '<mimic joint="y"/>')))
    check(error, "2 faults", "'k' mimics 'z'", "'l' mimics 'y'", "lock")
    # The suggestions are valid leaders: neither the joint itself nor one that follows it.
    following = joint("l", "c", "d", extra=Z + '<mimic joint="k"/>')
    with pytest.raises(RobotError) as error:
        load_text(robot(*parts, following))
    check(error, "'k' mimics 'z'", "(use one of 'j')")
    with pytest.raises(RobotError) as error:
        load_text(robot(A, B, joint(extra=loose)))
    check(error, "'j' mimics 'z'", "(there are none to choose from)")
    path = write(tmp_path, *parts, joint("l", "c", "d"))
    assert load(path, lock={"k": 0.0}).joint_names == ("j", "l")
    assert load(path, tip="b").joint_names == ("j",)
    # Grippers whose leader is fixed in the file.
    fixed = robot(A, B, C, joint("z", "a", "b", "fixed"), joint("k", "b", "c", extra=loose))
    model = load_text(fixed)
    assert model.bodies[0].joint.mimic is None
    note = "Joint 'k' mimics 'z', which is fixed; it is kept as an independent joint."
    assert note in model.notes


def test_a_name_with_a_suffix_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chain_3.urdf").write_text(robot(A, B, joint()), encoding="utf-8")
    assert load("chain_3.urdf").nv == 1
    assert load("chain_3").nv == 3
    with pytest.raises(RobotError) as error:
        load("chain_4.urdf")
    check(error, "'chain_4.urdf'", "no file")
    with pytest.raises(RobotError) as error:
        load("folder/chain_4")
    check(error, "'folder/chain_4'", "no file")


def test_every_kind_of_joint_has_its_axes() -> None:
    for kind in JointKind:
        model = random_model(np.random.default_rng(3), 2)
        first, second = model.bodies
        pitch = 0.1 if kind is JointKind.HELICAL else 0.0
        body = replace(second, joint=replace(second.joint, kind=kind, pitch=pitch))
        empty = replace(body, inertia=Inertia(mass=0.0, h=(0.0, 0.0, 0.0), I=(0.0,) * 6))
        assert idle_joints(replace(model, bodies=(first, body))) == []
        (idle,) = idle_joints(replace(model, bodies=(first, empty)))
        assert (idle.joint, idle.bodies, idle.yielding) == (1, (1,), False)
