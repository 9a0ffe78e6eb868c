"""Closed loops with floats, with a build's integers, and with its RTL compared bit by bit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.batch import Closing, Result
from pinion.bench.mpc.comparison import MpcComparison, compare, run_case
from pinion.control import ControlError, Cost, Options, Plant, Weights
from pinion.control.plant import Float64, gradient_row
from pinion.control.solve.backward import Quadratic, recursion
from pinion.control.solve.single import single
from pinion.control.track.closed_loop import Tracked, track
from pinion.control.track.integers import Compared, IntegerModel
from pinion.control.track.motion import Motion
from pinion.control.track.mpc import Law, Mpc
from pinion.control.track.scenario import Scenario
from pinion.functions import row_of
from pinion.robot import load
from tests.control import small_arm
from tests.support.builds import build

pytest.importorskip("mujoco", reason="the mujoco library is not installed")

Change = Callable[[dict[str, Any], Any], None]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return small_arm.scenario(tmp_path_factory.mktemp("arm") / "arm.urdf")


@pytest.fixture(scope="module")
def motion(scene: Scenario) -> Motion:
    return scene.motion()


@pytest.fixture(scope="module")
def folder(scene: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("build") / "arm"
    build(scene.model(), gradient_row(), path, ii=8, formats="q12.20")
    return path


@pytest.fixture(scope="module")
def compared(scene: Scenario, folder: Path) -> MpcComparison:
    return compare(scene, rows=("float64", "integers", "card"), folder=folder)


@pytest.fixture(scope="module")
def floats(scene: Scenario) -> MpcComparison:
    """Return the first row alone, without a core."""
    return compare(scene, rows=("float64",))


class Changed(Closing):
    """A backend whose results are changed from one call on."""

    def __init__(self, backend: Any, change: Change, *, since: int = 0, until: int = 10**9) -> None:
        self.backend, self.change = backend, change
        self.since, self.until = since, until
        self.calls = 0

    def run(self, **arrays: Any) -> Result:
        result = self.backend.run(**arrays)
        arrays_copied = {name: np.array(result[name]) for name in result.names}
        flags = np.array(result.saturated)
        if self.since <= self.calls < self.until:
            self.change(arrays_copied, flags)
        self.calls += 1
        return Result(arrays=arrays_copied, saturated=flags, cycles=None)

    def __call__(self, **arrays: Any) -> Result:
        return self.run(**arrays)


def tracked_with(scene: Scenario, motion: Motion, change: Change, **when: int) -> Tracked:
    backend = Changed(Float64(scene.model(), gradient_row()), change, **when)
    with scene.controller(scene.plant_of(backend), motion) as controller:
        return track(controller, scene.simulated())


@pytest.mark.slow
def test_a_closed_loop_through_rtl_tracks_as_with_floats(compared: MpcComparison) -> None:
    figures = compared.figures()
    assert figures["ok"] and figures["within"] and not figures["left_out"]
    float64, integers, card = figures["rows"]
    periods, knots = 26, 8
    assert float64["periods"] == periods and float64["gradients"] == periods * knots
    assert card["compared"] == periods * knots and card["mismatches"] == 0
    assert card["first_mismatch"] == "" and float64["compared"] is None
    # The card's bits are the integers', so the robot moved exactly alike, and differently than
    # with floats.
    assert figures["card_path_is_the_integers"] is True
    assert card["rms_mm"] == integers["rms_mm"] != float64["rms_mm"]
    assert 0.0 < card["apart_mm"] < 0.01 * float64["max_mm"]
    # It does track: 120 mm wide, and the unknown load causes most of the error.
    assert float64["max_mm"] < 4.0
    assert 0.0 < figures["undisturbed"]["max_mm"] < 0.7 * float64["max_mm"]
    assert all(0.0 < share < 1.0 for share in float64["limit_shares"].values())
    for row in figures["rows"]:
        assert row["flagged"] == row["restarts"] == 0
        assert row["us_median"] <= row["us_p99"] and all(us > 0 for us in row["us"].values())
    model = figures["card_model"]
    assert model["measured"] is False and model["requests"] == knots
    for link in model["links"]:
        assert link["card_us"] < link["least_us"] < link["most_us"]
        assert link["hz_least"] < link["hz_most"] < 1e6 / model["host_us"]


@pytest.mark.slow
def test_a_card_of_which_nothing_was_compared_is_not_right(compared: MpcComparison) -> None:
    *others, card = compared.cases
    for wrong in ({"compared": 0}, {"mismatches": 1}):
        assert not replace(compared, cases=(*others, replace(card, **wrong))).figures()["ok"]


def test_wrong_gradients_are_seen_in_the_tracking(
    scene: Scenario, motion: Motion, floats: MpcComparison
) -> None:
    """The 1 % can fail: M^-1 that is wrong by a third exceeds it."""

    def wrong(results: dict[str, Any], flags: Any) -> None:
        results["minv"] *= 1.5

    first = floats.cases[0].tracked.figures()["rms_mm"]
    repeated = tracked_with(scene, motion, lambda results, flags: None).figures()["rms_mm"]
    assert repeated == pytest.approx(first, rel=1e-9)
    assert abs(tracked_with(scene, motion, wrong).figures()["rms_mm"] / first - 1) > 0.01


def test_flagged_gradients_are_replaced_by_the_last_trusted_ones(
    scene: Scenario, motion: Motion, floats: MpcComparison
) -> None:
    clean = floats.cases[0].tracked

    def flag(rows: slice) -> Change:
        def change(results: dict[str, Any], flags: Any) -> None:
            flags[rows] = True
            for array in results.values():
                array[rows] = 1e9  # as a saturated word may be

        return change

    # Two knots from the first call on: first the nearest trusted knot, then the last trusted ones.
    some = tracked_with(scene, motion, flag(slice(2, 4)))
    assert some.flagged == 26 * 2 and some.restarts == 0
    # A card that flags everything for a while: the last linearisation is kept.
    all_of_them = tracked_with(scene, motion, flag(slice(None)), since=5, until=15)
    assert all_of_them.flagged == 10 * 8 and all_of_them.restarts == 0

    # Gradients that are not finite are replaced too, flagged or not.
    def spoil(results: dict[str, Any], flags: Any) -> None:
        results["dqdd_dq"][1] = np.nan

    spoiled = tracked_with(scene, motion, spoil)
    assert spoiled.flagged == 26 and spoiled.restarts == 0
    for run in (some, all_of_them, spoiled):
        assert not np.array_equal(run.x, clean.x)
        assert run.errors.max() < 1.3 * clean.errors.max()
    with pytest.raises(ControlError, match="All 8 gradients of the first horizon are flagged"):
        tracked_with(scene, motion, flag(slice(None)))


def test_two_iterations_and_knots_as_long_as_a_period(scene: Scenario) -> None:
    short = replace(scene, period=0.008, iterations=2, duration=0.16)
    case = run_case("cpu64", short, short.motion())
    assert case.tracked.gradients == 21 * 8 * 2 and case.tracked.restarts == 0
    assert 1e3 * case.tracked.errors.max() < 6.0


def test_a_flipped_bit_is_noticed(scene: Scenario, folder: Path) -> None:
    integers = IntegerModel(folder)
    nv = 3
    states = {
        name: np.random.default_rng(5).normal(size=(40, nv)).astype(np.float32)
        for name in ("q", "qd", "tau")
    }

    def flip(results: dict[str, Any], flags: Any) -> None:
        results["dqdd_dq"].view(np.uint32)[7, 1, 2] ^= 1

    def unflag(results: dict[str, Any], flags: Any) -> None:
        flags[3] = not flags[3]

    for change, sentence in ((flip, r"Request 127 has dqdd_dq\[1,2\] = 0x.*words: 1 of 22"),
                         (unflag, "Request 123 is flagged by the card, but not by")):  # fmt: skip
        # The second to the fourth batch fill a block and begin another.
        card = Changed(integers, change, since=3, until=4)
        with Compared(card, integers, block=100) as watched:
            for _ in range(5):
                watched(**states)
            assert watched.compared == 120 and watched.mismatches == 0
        assert watched.compared == 200 and watched.mismatches == 1
        assert re.search(sentence, watched.first), watched.first
    single_one = integers(**{name: values[0] for name, values in states.items()})
    many = integers(**states)
    assert single_one.qdd.shape == (nv,) and np.array_equal(single_one.qdd, many.qdd[0])
    assert many.minv.dtype == np.float32 and not many.saturated.any()
    assert np.array_equal(many.minv, np.swapaxes(many.minv, 1, 2))
    floats = Float64(scene.model(), gradient_row())(**states)
    assert np.abs(many.dqdd_dq - floats.dqdd_dq).max() < 1e-3 * np.abs(floats.dqdd_dq).max()
    with pytest.raises(ControlError, match="at least 1 request, not 0"):
        Compared(integers, integers, block=0)


def test_one_problem_has_the_batch_s_backward_pass() -> None:
    rng = np.random.default_rng(3)
    knots, m, p = 7, 4, 2

    def spread(*shape: int) -> Any:
        return rng.normal(size=(1, knots, *shape))

    Q = rng.normal(size=(1, knots + 1, m, m))
    problem = Quadratic(
        A=spread(m, m),
        B=spread(m, p),
        Q=Q @ np.swapaxes(Q, 2, 3),
        q=rng.normal(size=(1, knots + 1, m)),
        R=np.abs(spread(p)) + 0.1,
        r=spread(p),
    )
    ours, theirs = single(problem), recursion(problem)
    for name in ("feedforward", "gains", "slope", "curvature"):
        ours_array, theirs_array = getattr(ours, name), getattr(theirs, name)
        assert ours_array.shape == theirs_array.shape
        assert np.abs(ours_array - theirs_array).max() < 1e-9 * np.abs(theirs_array).max()
    assert ours.convex[0] and theirs.convex[0] and ours.levels == theirs.levels
    for bad in (replace(problem, R=-100 * problem.R), replace(problem, q=problem.q * np.nan)):
        assert not single(bad).convex[0] and not recursion(bad).convex[0]
    with pytest.raises(ValueError, match="not 2: use"):
        single(replace(problem, B=np.repeat(problem.B, 2, axis=0)))


def test_feedback_holds_inside_the_efforts_limits() -> None:
    law = Law(
        u=np.array([1.0, 2.0]),
        K=np.array([[10.0, 0, 0, 0], [0, 0, 0, 1.0]]),
        begin=np.array([0.1, 0.2, 0.0, 0.0]),
        rate=np.array([1.0, 0.0, 0.0, 0.0]),
        limit=np.array([3.0, 3.0]),
    )
    # On the planned motion there is nothing to correct; beside it there is, up to the limit.
    assert law.efforts(0.05, np.array([0.15, 0.2, 0, 0])) == pytest.approx([1.0, 2.0])
    assert law.efforts(0.05, np.array([0.05, 0.2, 0, -0.5])) == pytest.approx([2.0, 2.5])
    assert law.efforts(0.0, np.array([9.0, 0.2, 0, -9.0])) == pytest.approx([-3.0, 3.0])


def test_a_lost_horizon_begins_again(scene: Scenario, motion: Motion) -> None:
    plant = scene.plant_of(Float64(scene.model(), gradient_row()))
    forward, x = plant.forward, motion.states()
    lost = [1]

    def once(**arrays: Any) -> Any:
        result = forward(**arrays)
        if lost[0] > 0:
            lost[0] -= 1
            return Result(arrays={"qdd": result.qdd + 1e9}, saturated=result.saturated, cycles=None)
        return result

    with scene.controller(plant, motion) as controller:
        controller.update(0, x[0])
        plant.forward = once
        law = controller.update(1, x[1])
        assert controller.log.restarts == 1 and lost[0] == 0
        # The single iteration starts from the motion.
        assert np.isfinite(law.u).all() and np.isfinite(law.rate).all()
        assert np.abs(law.u - motion.tau[1]).max() < 0.2 * np.abs(motion.tau[1]).max()
        lost[0] = 100
        with pytest.raises(ControlError, match="plan of 8 steps diverges"):
            controller.update(2, x[2])


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("backward", ["single", "serial", "parallel"])
def test_a_lost_pass_keeps_the_last_feedback(
    scene: Scenario, motion: Motion, backward: str, iterations: int
) -> None:
    def overflow(results: dict[str, Any], flags: Any) -> None:
        results["dqdd_dq"] *= 1e200

    lost = {"since": 2 * iterations, "until": 3 * iterations}
    backend = Changed(Float64(scene.model(), gradient_row()), overflow, **lost)
    x = motion.states()
    settings: dict[str, Any] = {"knots": scene.knots, "iterations": iterations}
    with (
        Mpc(
            scene.plant_of(backend), scene.cost(), motion, backward=backward, **settings
        ) as controller,
        np.errstate(all="ignore"),
    ):
        controller.update(0, x[0])
        controller.update(2, x[2])
        gains, efforts, states = controller._K, controller._u.copy(), controller._x.copy()
        assert np.abs(gains).max() > 1.0
        law = controller.update(4, x[4])
        assert controller.log.restarts == iterations
        # The plan is shifted by one knot of two periods, and kept but for its begin: the measured
        # state, here the motion's, and the effort of one feedback.
        np.testing.assert_array_equal(law.K, gains)
        np.testing.assert_array_equal(controller._x[0], 0.0)
        np.testing.assert_array_equal(controller._x[1:], states[[2, 3, 4, 5, 6, 7, 8, 8]])
        np.testing.assert_array_equal(controller._u[1:], efforts[[2, 3, 4, 5, 6, 7, 7]])
        np.testing.assert_allclose(law.u, motion.tau[4] + efforts[1] + gains @ states[1])
        np.testing.assert_allclose(law.rate, (x[6] + states[2] - x[4]) / 0.008)
        # The backward pass of the next period is convex again.
        assert np.abs(controller.update(6, x[6]).K - law.K).max() > 0.0
        assert controller.log.restarts == iterations


def test_a_pass_that_is_not_convex_has_the_least_damping_that_works(
    scene: Scenario, motion: Motion
) -> None:
    """A negative weight of efforts, which the regularisation compensates."""

    def law_of(weight: float) -> Law:
        with scene.controller(scene.plant("float"), motion) as controller:
            costs = controller._costs

            class Bent:
                def expand(self, *arguments: Any) -> Any:
                    return replace(costs.expand(*arguments), uu=np.full(3, weight))

            controller._costs = Bent()  # type: ignore[assignment]  # the part that is asked for
            law = controller.update(0, motion.states()[0])
            assert controller.log.restarts == 0
            return law

    laws = [law_of(-1e-3), law_of(Options().ladder()[7] - 1e-3)]
    # Of the ladder 1e-9, 8e-9, ... the seventh rung is the first above 1e-3.
    assert Options().ladder()[6] < 1e-3 < Options().ladder()[7]
    np.testing.assert_allclose(laws[0].K, laws[1].K, rtol=1e-9)
    assert np.abs(laws[0].K).max() > 1.0


def test_what_does_not_go_together_is_refused(scene: Scenario, motion: Motion) -> None:
    plant = scene.plant("float")

    def made(**other: Any) -> Mpc:
        arguments = {"plant": plant, "cost": scene.cost(), "motion": motion, "knots": 8, **other}
        return Mpc(
            arguments.pop("plant"), arguments.pop("cost"), arguments.pop("motion"), **arguments
        )

    for sentence, other in (
        (
            "0.012 s is not a multiple",
            {"motion": replace(motion, dt=0.005), "plant": replaced(0.012)},
        ),
        ("At least 2 knots and 1 iteration are needed, not 1 and 1", {"knots": 1}),
        ("no backward pass 'sideways': choose one of single, serial", {"backward": "sideways"}),
        ("shorter than a horizon of 0.32 s", {"knots": 40}),
        ("for the tip 'link_3', but the motion is for 'hand'", {"cost": other_tip(scene)}),
        (
            r"positions of the motion have the shape \(\d+, 2\), but arm needs",
            {"motion": replace(motion, q=motion.q[:, :2])},
        ),
    ):
        with pytest.raises(ControlError, match=sentence):
            made(**other)
    controller = made(compiled=False)
    with pytest.raises(ControlError, match="no period 26: the motion has periods 0 to 25"):
        controller.update(26, np.zeros(6))
    with pytest.raises(ControlError, match="period 3 is not finite"):
        controller.update(3, np.full(6, np.nan))
    robot = scene.simulated()
    with pytest.raises(ControlError, match=r"not a multiple of the robot's step, 0\.003"):
        track(controller, type(robot)(scene.model(), step=0.003))
    controller.update(0, motion.states()[0])
    with pytest.raises(ControlError, match="has been used"):
        track(controller, robot)
    with pytest.raises(ControlError, match="no backend 'abacus'"):
        run_case("abacus", scene, motion)
    with pytest.raises(ControlError, match="'card' needs a build"):
        run_case("card", scene, motion)
    with pytest.raises(ControlError, match=r"'crba' computes M: .* outputs=\('minv',\)"):
        scene.plant_of(Float64(scene.model(), row_of("crba")))
    with pytest.raises(
        ControlError, match=r"for two_link \(nv 2\), but the scenario is for arm \(nv 3\)"
    ):
        scene.plant_of(Float64(load("two_link"), gradient_row()))


def replaced(dt: float) -> Plant:
    return Plant.open("two_link", dt=dt, device="float")


def other_tip(scene: Scenario) -> Cost:
    return replace(scene.cost(), frame="link_3", running=Weights(tip=1.0, tau=1.0))


def test_the_page_s_lines_run(
    scene: Scenario, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's robot is the iiwa14; functions of a small arm compile in a moment."""
    page = (Path(__file__).parents[2] / "docs" / "mpc.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0]
    assert "Scenario(duration=5.0)" in code and len(code.splitlines()) <= 8
    monkeypatch.setattr("pinion.control.track.scenario.Scenario", lambda duration: scene)
    exec(compile(code, "docs/mpc.md", "exec"), {})
    assert re.fullmatch(r"\d\.\d\d mm at most\n", capsys.readouterr().out)
