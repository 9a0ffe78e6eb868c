"""A controller's period as one call of compiled code, against the same on arrays."""

from __future__ import annotations

import copy
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.control import ControlError, Cost, Weights
from pinion.control.plant import Float64, Plant, gradient_row
from pinion.control.solve.cones import Cones
from pinion.control.state import StateSpace
from pinion.control.track.motion import Motion
from pinion.control.track.mpc import Mpc
from pinion.control.track.scenario import Scenario
from pinion.robot import JointKind, Model, load, with_contacts
from tests.control import small_arm
from tests.control.legs import BASE, JOINTS, resting, standing, tripod
from tests.support.breadth import some_rows

Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return small_arm.scenario(tmp_path_factory.mktemp("arm") / "arm.urdf", duration=0.4)


@pytest.fixture(scope="module")
def motion(scene: Scenario) -> Motion:
    return scene.motion()


def followed(
    compiled: Mpc, plain: Mpc, start: Array, periods: int, *, disturbed: float = 0.003
) -> float:
    """Return the largest relative difference of laws along a disturbed motion of any robot."""
    plant, rng, worst = plain.plant, np.random.default_rng(1), 0.0
    space, x, h = plant.space, np.array(start), compiled.period
    for number in range(periods):
        law, want = compiled.update(number, x), plain.update(number, x)
        for name in ("u", "K", "rate", "begin"):
            value, expected = getattr(law, name), getattr(want, name)
            worst = max(worst, float(np.abs(value - expected).max() / np.abs(expected).max()))
        u = want.efforts(0.3 * h, x)
        assert np.abs(law.efforts(0.3 * h, x) - u).max() < 1e-3 * np.abs(u).max()
        qdd = plant.accelerations(x[None], u[None])[0]
        x = space.integrate(x, h * np.concatenate([x[space.nq :], qdd]))
        x = space.integrate(x, rng.normal(0.0, disturbed, space.ndx))
    assert compiled.log.gradients == plain.log.gradients > 0
    assert compiled.log.flagged == plain.log.flagged == 0
    assert compiled.log.restarts == plain.log.restarts
    return worst


def controllers(scene: Scenario, motion: Motion, cost: Cost, **options: Any) -> tuple[Mpc, Mpc]:
    """Return a compiled controller and the same on arrays."""
    dtype = options.pop("dtype", "float64")
    settings = {"knots": scene.knots, **options}
    compiled = Mpc(scene.plant("cpu", dtype=dtype), cost, motion, **settings)
    assert compiled._period is not None and compiled._period._law.dtype == dtype
    plain = Mpc(scene.plant("float"), cost, motion, **settings)
    assert plain._period is None
    return compiled, plain


EVERY_TERM = Weights(q=3.0, qd=0.2, tau=1e-3, tip=2e3, limits=50.0, barrier=0.3)


@pytest.mark.parametrize(
    ("terms", "iterations", "dtype", "most"),
    some_rows(
        [
            (None, 1, "float64", 1e-9),
            (EVERY_TERM, 2, "float64", 1e-9),
            (replace(EVERY_TERM, tip=0.0), 1, "float64", 1e-9),
            (None, 1, "float32", 1e-2),
        ],
        lambda terms, iterations, dtype, most: terms is None and dtype == "float64",
    ),
    ids=("tip", "every term", "no tip", "float32"),
)
def test_laws_are_those_on_arrays(
    scene: Scenario, motion: Motion, terms: Weights | None, iterations: int, dtype: str, most: float
) -> None:
    cost = scene.cost()
    if terms is not None:
        # A soft limit inside the motion, so that its weight counts.
        cost = replace(cost, running=terms, final=replace(terms, tau=0.0, qd=0.7), soft=0.2)
    compiled, plain = controllers(scene, motion, cost, iterations=iterations, dtype=dtype)
    with compiled, plain:
        worst = followed(compiled, plain, motion.states()[0], 40, disturbed=0.01)
        assert len(compiled.log.seconds["rest"]) == 40
        assert worst < most


def test_periods_may_be_left_out_and_repeated(scene: Scenario, motion: Motion) -> None:
    """A plan is shifted by as many periods as have passed; it is not shifted back."""
    compiled, plain = controllers(scene, motion, scene.cost())
    states = motion.states()
    with compiled, plain:
        for number in (0, 3, 4, 9, 9, 40, 5, 60):
            x = states[number] + 0.01
            law, want = compiled.update(number, x), plain.update(number, x)
            assert np.abs(law.K - want.K).max() < 1e-9 * np.abs(want.K).max()
            assert np.abs(law.u - want.u).max() < 1e-9 * np.abs(want.u).max()


def turning_arm(path: Path) -> Model:
    """Return the arm with a planar and a spherical joint in place of its first two."""
    arm = load(small_arm.urdf(path))
    kinds = (JointKind.PLANAR, JointKind.SPHERICAL)
    bodies = [
        replace(body, joint=replace(body.joint, kind=kind, lower=-np.inf, upper=np.inf))
        for body, kind in zip(arm.bodies, kinds, strict=False)
    ]
    model = replace(arm, bodies=(*bodies, *arm.bodies[len(bodies) :]))
    return replace(model, rated_velocity=(1.0,) * model.nv)


@pytest.mark.parametrize(
    ("robot", "dtype", "most"),
    some_rows(
        [
            ("on the ground", "float64", 1e-9),
            ("on the ground", "float32", 1e-2),
            ("within cones", "float64", 1e-9),
            ("in the air", "float64", 1e-9),
            ("planar and spherical", "float64", 1e-9),
            ("fixed, with a contact", "float64", 1e-9),
        ],
        lambda robot, dtype, most: robot == "on the ground" and dtype == "float64",
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_laws_of_turning_joints_and_contacts_are_those_on_arrays(
    robot: str, dtype: str, most: float, tmp_path: Path
) -> None:
    """States on manifolds far from the origin, actuators of some joints, and a schedule."""
    weights: dict[str, Any] = {"q": 2.0, "qd": 0.3, "tip": 5.0, "limits": 3.0, "barrier": 0.1}
    frame, active, options = "lower_0", None, {}
    cones = 0.0
    if robot in ("on the ground", "within cones", "in the air"):
        model = tripod(robot != "in the air")
        q = standing()
        q[:2] = 30.0, -20.0
        weights["q"] = [20.0] * BASE + [0.5] * JOINTS
        if robot != "in the air":
            active = np.ones((40, 3))
            active[8:14, 1] = 0.0
            options = {"velocity_gain": 10.0, "damping": 1e-7}
        if robot == "within cones":
            cones = 0.01
    elif robot == "planar and spherical":
        model, frame = turning_arm(tmp_path / "arm.urdf"), "hand"
        q = dynamics.random_configuration(model, np.random.default_rng(2))
    else:
        model, frame = with_contacts(load(small_arm.urdf(tmp_path / "arm.urdf")), ["hand"]), "hand"
        q = np.array([0.3, -0.7, 1.4])
        active = np.ones((40, 1))
        active[8:14] = 0.0
        options = {"damping": 1e-3}
    motion = resting(model, q, active, frame=frame)
    final = Weights(**weights)
    running = Weights(**weights, tau=1e-2, cones=cones)
    # So little friction that forces are outside.
    cost = Cost(
        running=running, final=final, frame=frame, soft=0.2, friction=0.05, least_force=25.0
    )
    start = StateSpace(model).integrate(
        motion.states()[0], np.random.default_rng(3).normal(0.0, 0.01, 2 * model.nv)
    )
    settings: dict[str, Any] = {"knots": 6, "iterations": 2}
    with (
        Plant.open(model, dt=0.02, device="cpu", dtype=dtype, **options) as quick,
        Plant.open(model, dt=0.02, device="float", **options) as slow,
        Mpc(quick, cost, motion, **settings) as compiled,
        Mpc(slow, cost, motion, **settings) as plain,
    ):
        assert compiled._period is not None and plain._period is None
        if cones:
            force = slow.forces(start[None], motion.tau[:1])
            assert Cones.of(model, cost.friction, cost.least_force).beyond(force).max() > 1.0
        assert followed(compiled, plain, start, 12) < most


def test_a_law_may_be_changed_and_copied() -> None:
    """Compiled feedback of turning joints is that of the law's members, now and in copies."""
    model = tripod()
    motion = resting(model, standing(), np.ones((40, 3)), frame="lower_0")
    space, rng = StateSpace(model), np.random.default_rng(4)
    cost = Cost(running=Weights(q=2.0, qd=0.3, tau=1e-2), final=Weights(q=2.0, qd=0.3))
    with Plant.open(model, dt=0.02, device="cpu") as plant, Mpc(plant, cost, motion) as controller:
        x = motion.states()[0]
        law = controller.update(0, x)
        x = space.integrate(x, rng.normal(0.0, 0.01, space.ndx))
        before = law.efforts(0.0, x)
        copies = [pickle.loads(pickle.dumps(law)), copy.copy(law), copy.deepcopy(law)]
        for other in copies:
            assert other.feedback is None
            np.testing.assert_allclose(other.efforts(0.0, x), before, rtol=1e-9)
        law.u = law.u + 1.0
        np.testing.assert_allclose(law.efforts(0.0, x), before + 1.0, rtol=1e-9)
        law.K[:] = 0.0
        law.limit = np.abs(law.u).max() / 2 * np.ones(space.nu)
        np.testing.assert_array_equal(law.efforts(0.0, x), np.clip(law.u, -law.limit, law.limit))
        law.K = law.K[:, 1:]
        with pytest.raises(ControlError, match=r"law's K has the shape \(6, 23\): give \(6, 24\)"):
            law.efforts(0.0, x)


def bent(cost: Cost, **weights: float) -> Cost:
    """Return a cost with running weights that no user can give."""
    running = replace(cost.running)
    for name, value in weights.items():
        object.__setattr__(running, name, value)
    changed = replace(cost)
    object.__setattr__(changed, "running", running)
    return changed


def test_a_pass_that_is_not_convex_has_the_least_damping_that_works(
    scene: Scenario, motion: Motion
) -> None:
    """A negative weight of efforts, which the regularisation compensates."""
    compiled, plain = controllers(scene, motion, bent(scene.cost(), tau=-1e-3))
    with compiled, plain:
        x = motion.states()[0] + 0.01
        law, want = compiled.update(0, x), plain.update(0, x)
        assert np.abs(want.K).max() > 1.0
        np.testing.assert_allclose(law.K, want.K, rtol=1e-8)
        assert compiled.log.restarts == plain.log.restarts == 0


def test_a_pass_that_is_not_finite_keeps_the_last_feedback(scene: Scenario, motion: Motion) -> None:
    unknown = replace(motion, tip=np.full_like(motion.tip, np.nan))
    compiled, plain = controllers(scene, unknown, scene.cost())
    with compiled, plain, np.errstate(all="ignore"):
        x = motion.states()[0] + 0.01
        law, want = compiled.update(0, x), plain.update(0, x)
        assert compiled.log.restarts == plain.log.restarts == 1
        assert not law.K.any() and not want.K.any()
        np.testing.assert_allclose(law.u, want.u, rtol=1e-9)


def test_feedback_is_applied_once_in_a_period_of_lost_passes(
    scene: Scenario, motion: Motion
) -> None:
    tip = motion.tip.copy()
    tip[18:] = np.nan  # behind the horizon of the first two periods
    compiled, plain = controllers(scene, replace(motion, tip=tip), scene.cost(), iterations=3)
    x = motion.states()
    with compiled, plain, np.errstate(all="ignore"):
        for controller in (compiled, plain):
            controller.update(0, x[0])
        planned = motion.tau[2] + plain._u[1] + plain._K @ (plain._x[1] - 0.01)
        for controller in (compiled, plain):
            law = controller.update(2, x[2] + 0.01)
            assert controller.log.restarts == 3 and np.abs(law.K).max() > 1.0
            np.testing.assert_allclose(law.u, planned, rtol=1e-9)


@pytest.mark.parametrize("robot", ["arm", "on the ground"])
def test_a_motion_may_be_far_from_zero(scene: Scenario, motion: Motion, robot: str) -> None:
    """Plans diverge from the motion: thousands of kilometres and many turns are no divergence."""
    if robot == "arm":
        model, dt, frame, turn = scene.model(), scene.step, scene.cost().frame, 2e5 * 2.0 * np.pi
        near, far = motion, replace(motion, q=motion.q + [turn, 0.0, 0.0])
        weights = scene.cost().running, scene.cost().final
        running, final = (replace(x, limits=0.0, barrier=0.0) for x in weights)
    else:
        model, dt, frame = tripod(), 0.02, "lower_0"
        near = resting(model, standing(), np.ones((40, 3)), frame=frame)
        far = replace(near, q=near.q + [3e6, *[0.0] * (model.nq - 1)])
        running, final = Weights(q=2.0, qd=0.3, tau=1e-2), Weights(q=2.0, qd=0.3)
    cost = Cost(running=running, final=final, frame=frame)
    space = StateSpace(model)
    change = np.random.default_rng(6).normal(0.0, 0.01, space.ndx)
    for device in ("cpu", "float"):
        laws = []
        for reference in (near, far):
            with (
                Plant.open(model, dt=dt, device=device) as plant,
                Mpc(plant, cost, reference, knots=8) as controller,
            ):
                laws.append(controller.update(0, space.integrate(reference.states()[0], change)))
                assert controller.log.restarts == 0
        for name in ("u", "K", "rate"):
            ours, theirs = (getattr(law, name) for law in laws)
            assert np.abs(ours - theirs).max() < 1e-6 * np.abs(theirs).max()


def test_a_horizon_that_diverges_is_a_sentence(scene: Scenario, motion: Motion) -> None:
    compiled, plain = controllers(scene, motion, scene.cost())
    x = motion.states()[0].copy()
    x[3:] = 9e5
    with compiled, plain:
        for controller in (compiled, plain):
            with pytest.raises(ControlError, match="the plan of 8 steps diverges"):
                controller.update(0, x)
        assert compiled.log.restarts == plain.log.restarts == 2
        with pytest.raises(ControlError, match="is not finite"):
            compiled.update(1, np.full(6, np.nan))
        for controller in (compiled, plain):
            with pytest.raises(ControlError, match=r"state has the shape \(3,\): give .* \(6,\)"):
                controller.update(1, x[:3])
        with pytest.raises(ControlError, match="no period 101: the motion has periods 0 to 100"):
            compiled.update(101, x)
        # It goes on from the motion.
        assert np.isfinite(compiled.update(2, motion.states()[2]).K).all()


def test_other_controllers_compute_on_arrays(scene: Scenario, motion: Motion) -> None:
    class Wrapped(Float64):
        """A backend that is not compiled."""

    plants = (
        (scene.plant_of(Wrapped(scene.model(), gradient_row())), {}),
        (scene.plant("cpu"), {"compiled": False}),
        (scene.plant("cpu"), {"backward": "serial"}),
        (Plant.open(scene.model(), dt=scene.step, device="cpu", method="rk4"), {}),
    )
    for plant, options in plants:
        with Mpc(plant, scene.cost(), motion, knots=8, **options) as controller:
            assert controller._period is None


def test_the_period_is_compiled_as_the_gradients_are(
    scene: Scenario, motion: Motion, tmp_path: Path
) -> None:
    plant = scene.plant("cpu", isa="portable", cache=tmp_path)
    count = len(list(tmp_path.rglob("*.so")))
    with Mpc(plant, scene.cost(), motion, knots=8) as controller:
        assert len(list(tmp_path.rglob("*.so"))) > count >= 1
        law = controller.update(0, motion.states()[0] + 0.01)
    with Mpc(scene.plant("float"), scene.cost(), motion, knots=8) as plain:
        want = plain.update(0, motion.states()[0] + 0.01)
    assert np.abs(law.K - want.K).max() < 1e-9 * np.abs(want.K).max()


@pytest.mark.slow
def test_a_mutant_is_noticed(
    scene: Scenario, motion: Motion, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from pinion.control.track import period

    text = (Path(period.__file__).parent / "period.hpp").read_text()
    before = "Qux[i][NV] += by_u[k][i]"
    assert text.count(before) == 1
    (tmp_path / "period.hpp").write_text(text.replace(before, "Qux[i][NV] -= by_u[k][i]"))
    shutil.copy(Path(period.__file__).parent / "problem.hpp", tmp_path)
    monkeypatch.setattr(period, "_HERE", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(AssertionError):
        test_laws_are_those_on_arrays(scene, motion, None, 1, "float64", 1e-9)
