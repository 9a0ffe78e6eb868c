"""Tasks: files, motions, and the tracking loss of candidates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.control import ControlError
from pinion.control.limits import rated_rates
from pinion.control.plant import gravity_efforts
from pinion.control.task.motion import robot_motion
from pinion.control.task.task import parse_task, read_task
from pinion.control.task.tracking_loss import TrackingLoss
from pinion.control.track.disturbance import Disturbance
from pinion.control.track.float_robot import FloatRobot
from pinion.dynamics import frame_placement
from pinion.flow.candidate import Candidate
from pinion.functions import Function, named_function, row_of
from pinion.robot import Model, load, tip_of
from tests.control import small_arm
from tests.support.breadth import some

TASKS = Path(__file__).parents[2] / "examples" / "tasks"

SHORT = """
version = 1
name = "short"
loss = 0.01
[motion]
kind = "reach"
seed = 1
duration = 0.2
size = 0.4
targets = 1
[controller]
period = 0.01
inner = 4
step = 0.01
knots = 6
[controller.running]
q = 100.0
qd = 1.0
tau = 1e-4
[controller.final]
q = 100.0
qd = 1.0
[disturbance]
payload = 0.05
friction = 0.05
damping = 0.05
delay = 0.005
[[held_out]]
seed = 2
"""


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(str(small_arm.urdf(tmp_path_factory.mktemp("arm") / "arm.urdf")))


class Stand(Candidate):
    """Float64 gradients in place of integers, changed by a function."""

    def __init__(self, model: Model, row: Function, change: Callable[[Any, Any], None]) -> None:
        self.model, self.row, self.change = model, row, change

    def run(self, arrays: Any) -> tuple[dict[str, Any], Any]:
        inputs = {block.name: np.asarray(arrays[block.name]) for block in self.row.inputs}
        results = self.row.evaluate(self.model, inputs)
        flags = np.zeros(len(inputs["q"]), dtype=np.bool_)
        self.change(results, flags)
        return results, flags


def test_the_files_of_the_examples_are_read() -> None:
    eight, reach = (read_task(TASKS / f"{name}.toml") for name in ("figure_eight", "reach"))
    assert (eight.name, eight.motion.kind) == ("figure_eight", "figure_eight")
    assert (reach.name, reach.motion.kind) == ("reach", "reach")
    # A held-out motion takes missing keys from the first motion.
    assert reach.held_out[1].targets == 3 and reach.held_out[1].size == reach.motion.size
    assert eight.held_out[1].kind == "reach" and eight.held_out[1].duration == 1.0
    for task in (eight, reach):
        assert task.loss == 0.01 and task.held_out_loss == 0.02
        assert task.motion not in task.held_out


def test_figures_are_drawn_where_the_motors_hold_the_arm() -> None:
    """Less effort than the most mobile posture needs moves the figure; hardly any is refused."""
    task_motion = read_task(TASKS / "figure_eight.toml").motion
    arm = load("iiwa14")
    strong, _ = robot_motion(task_motion, arm, period=0.01, horizon=0.12)
    effort = 0.9 * abs(gravity_efforts(arm, strong.q[:1])[0, 1])

    def with_effort(limit: float) -> Model:
        bodies = list(arm.bodies)
        bodies[1] = replace(bodies[1], joint=replace(bodies[1].joint, effort=limit))
        return replace(arm, bodies=tuple(bodies))

    weak, _ = robot_motion(task_motion, with_effort(effort), period=0.01, horizon=0.12)
    assert 0.0 < np.abs(weak.tau[:, 1]).max() <= effort
    assert not np.array_equal(weak.q[0], strong.q[0])
    with pytest.raises(ControlError, match="would exceed the limits of their efforts; choose"):
        robot_motion(task_motion, with_effort(1e-3), period=0.01, horizon=0.12)


@pytest.mark.parametrize("robot", some(["iiwa14", "chain_4"], ("iiwa14",)))
@pytest.mark.parametrize("name", ["figure_eight", "reach"])
def test_any_arm_has_a_motion_inside_its_limits(robot: str, name: str) -> None:
    task, model = read_task(TASKS / f"{name}.toml"), load(robot)
    for task_motion in (task.motion, *task.held_out):
        motion, share = robot_motion(task_motion, model, period=0.01, horizon=0.12)
        again, _ = robot_motion(task_motion, model, period=0.01, horizon=0.12)
        assert np.array_equal(motion.q, again.q) and 0.0 < share <= 1.0
        assert motion.rows == round((task_motion.duration + 0.12) / 0.01) + 1
        assert (np.abs(motion.qd) <= task_motion.speed * rated_rates(model) * (1 + 1e-9)).all()
        for at, end in ((np.less, "lower"), (np.greater, "upper")):
            limits = np.array([getattr(body.joint, end) for body in model.bodies])
            assert not at(motion.q, limits).any()
        # It is a motion: it begins at rest, moves, and its rates are its positions' changes.
        assert np.abs(motion.qd[0]).max() < 1e-2 < np.ptp(motion.tip, axis=0).max()
        change = np.diff(motion.q, axis=0) / 0.01
        assert np.abs(change - (motion.qd[1:] + motion.qd[:-1]) / 2).max() < 0.05
        assert np.allclose(frame_placement(model, motion.q, tip_of(model))[1], motion.tip)


def test_other_seeds_are_other_motions(arm: Model) -> None:
    task = parse_task(SHORT, where="short")
    motion, _ = robot_motion(task.motion, arm, period=0.01, horizon=0.06)
    other, _ = robot_motion(task.held_out[0], arm, period=0.01, horizon=0.06)
    assert np.abs(motion.q - other.q).max() > 0.1


def test_a_tip_that_moves_on_a_line_draws_no_figure() -> None:
    task = read_task(TASKS / "figure_eight.toml")
    with pytest.raises(ControlError, match="two_link moves in at most one direction at a time"):
        robot_motion(task.motion, load("two_link", tip="link_2"), period=0.01, horizon=0.1)


def test_the_robot_of_a_task_is_the_float_model_and_mujocos(arm: Model) -> None:
    """Without friction it falls as in MuJoCo; with friction it comes to rest."""
    pytest.importorskip("mujoco", reason="the mujoco library is not installed")
    from pinion.control.track.mujoco_robot import MujocoRobot

    hidden = Disturbance(payload=0.4, offset=(0.0, 0.1, 0.0), delay=0.002)
    ours, theirs = (
        FloatRobot(arm, step=1e-3, disturbance=hidden),
        MujocoRobot(arm, step=1e-3, disturbance=hidden),
    )
    for robot in (ours, theirs):
        robot.reset(np.array([0.3, -0.5, 0.8]))
        for _ in range(200):
            robot.advance(np.array([1.0, -4.0, 0.0]))
    # Two integrators of first order, after a fall of some tenths of a radian.
    assert np.abs(theirs.state[:3] - [0.3, -0.5, 0.8]).max() > 0.2
    assert np.abs(ours.state - theirs.state).max() < 0.02
    dry = FloatRobot(arm, step=1e-3, disturbance=Disturbance(friction=50.0, damping=1.0))
    dry.reset(np.array([0.3, -0.5, 0.8]), np.array([1.0, -1.0, 1.0]))
    for _ in range(200):
        dry.advance(np.zeros(3))
    assert np.abs(dry.state[3:]).max() < 0.02
    for robot in (ours, dry):
        robot.close()


def test_losses_are_those_of_the_gradients(arm: Model) -> None:
    task = parse_task(SHORT, where="short")
    row = row_of("fd_derivatives", outputs=("minv",))
    loss = TrackingLoss(arm, row, task)
    goal = loss.goal()
    assert goal.exact["rms_mm"] > 0.01 and goal.loss == 0.01 and goal.held_out_loss == 0.02

    def of(change: Callable[[Any, Any], None]) -> tuple[float, float, float]:
        stand = Stand(loss.model, row, change)
        outcome = goal.measure(stand)
        return outcome.loss, goal.held_out(stand).loss, outcome.figures.get("flagged", 0.0)

    # The float model has no loss; M^-1 that is three times too large has, on any motion.
    same = of(lambda results, flags: None)
    assert abs(same[0]) < 1e-6 and abs(same[1]) < 1e-6 and same[2] == 0
    assert same == of(lambda results, flags: None)
    wrong = of(lambda results, flags: results["minv"].__imul__(3.0))
    assert wrong[0] > goal.loss and wrong[1] > goal.held_out_loss

    # Flags are counted, and flagged gradients replaced as in the controller.
    def some(results: Any, flags: Any) -> None:
        flags[3:] = True
        results["minv"][3:] = math.nan

    flagged = of(some)
    assert flagged[2] > 0 and math.isfinite(flagged[0])

    # Without any trusted gradient the loss is infinite.
    def every(results: Any, flags: Any) -> None:
        flags[:] = True

    assert of(every)[:2] == (math.inf, math.inf)


@pytest.mark.parametrize("name", ["rnea", "aba", "crba"])
def test_functions_that_no_controller_reads_are_refused(arm: Model, name: str) -> None:
    task = parse_task(SHORT, where="short")
    with pytest.raises(ControlError, match=f"cannot use '{name}'.*choose 'fd_derivatives'"):
        TrackingLoss(arm, named_function(name), task)


def test_joint_terms_are_refused(arm: Model) -> None:
    row = named_function("fd_derivatives").with_terms(("damping",), 0.01)
    with pytest.raises(
        ControlError, match="does not support joint terms, but 'fd_derivatives' has damping"
    ):
        TrackingLoss(arm, row, parse_task(SHORT, where="short"))


def changed(old: str, new: str) -> str:
    assert old in SHORT
    return SHORT.replace(old, new, 1)


MISTAKES = {
    "no TOML": ("loss = = 1", "'t.toml' is not valid TOML: "),
    "empty": ("", "has no 'version': add it"),
    "version": (
        changed("version = 1", "version = 2"),
        "version = 2: this Pinion reads only version = 1",
    ),
    "name": (
        changed('"short"', r'"a\u001b[31m"'),
        r"name = 'a\\x1b\[31m': write 1 to 40 ASCII let",
    ),
    "no loss": (changed("loss = 0.01\n", ""), "has no 'loss': add it"),
    "loss text": (changed("loss = 0.01", 'loss = "1 %"'), "loss = '1 %': give a number from 1e-09"),
    "loss nan": (changed("loss = 0.01", "loss = nan"), "loss = nan: give a number"),
    "loss bool": (changed("loss = 0.01", "loss = true"), "loss = True: give a number"),
    "held out loss": (
        changed("loss = 0.01", "loss = 0.01\nheld_out_loss = 0.001"),
        "held_out_loss = 0.001: it must be at least the loss, 0.01",
    ),
    "kind": (changed('"reach"', '"spiral"'), "motion.kind = 'spiral': choose one of figure_eight,"),
    "seed": (changed("seed = 1", "seed = -1"), "motion.seed = -1: give a whole number from 0"),
    "duration": (changed("0.2", "1e9"), r"motion.duration = 1000000000.0: give a number from"),
    "too short": (changed("0.2", "0.011"), "duration = .*: it must be at least two periods, 0.02"),
    "size": (changed("size = 0.4", "size = 2"), "motion.size = 2: give a number from 0.001 to 1"),
    "unknown": (changed("size = 0.4", "size = 0.4\nsise = 1"), "unknown key 'motion.sise': the"),
    "step": (changed("step = 0.01", "step = 0.015"), "controller.step = 0.015: it must be a mult"),
    "knots": (changed("knots = 6", "knots = 6.0"), "controller.knots = 6.0: give a whole number"),
    "tau": (changed("tau = 1e-4", "tau = 0"), "running.tau = 0: it must be above 0"),
    "final tau": (
        changed("[disturbance]", "tau = 1.0\n[disturbance]"),
        "controller.final.tau = 1.0: leave it out",
    ),
    "payload": (changed("payload = 0.05", "payload = inf"), "disturbance.payload = inf: give"),
    "table": (changed("[disturbance]", "[x]"), "unknown key 'x': the known keys are"),
    "not a table": ("version = 1\nname = 'a'\nloss = 1\nmotion = 3", r"motion = 3: write it as a"),
    "held out once": (
        changed("[[held_out]]", "[held_out]"),
        r"write it as tables, \[\[held_out\]\]",
    ),
    "nothing held out": (changed("[[held_out]]\nseed = 2\n", ""), r"has no \[\[held_out\]\]: add"),
    "itself held out": (
        changed("seed = 2", "seed = 1"),
        r"has a \[\[held_out\]\] equal to its \[motion\]",
    ),
    "held out kind": (changed("seed = 2", "seed = 2\nkind = 1"), r"held_out\[1\].kind = 1: choose"),
    "nested": ("a = " + "[" * 5000, "'t.toml' is not valid TOML: "),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_of_a_task_name_file_key_and_value(text: str, message: str) -> None:
    with pytest.raises(ControlError, match=message) as caught:
        parse_task(text, where="t.toml")
    error_text = str(caught.value)
    assert (
        "'t.toml'" in error_text
        and error_text.isprintable()
        and error_text.endswith(".")
        and len(error_text) < 300
    )


def test_files_that_are_none(tmp_path: Path) -> None:
    for name, data, message in (
        ("missing.toml", None, "cannot be read: No such file"),
        ("bytes.toml", b"\xff\xfe", "is not UTF-8 text"),
        ("long.toml", b"#" * (1 << 21), "is larger than the limit of 1,048,576 bytes"),
    ):
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(ControlError, match=message):
            read_task(path)


@pytest.mark.slow
def test_the_iiwa14_needs_the_bits_that_its_task_chooses() -> None:
    """The chosen words hold, shorter candidates do not; short words lose a lot."""
    from pinion.flow.by_task import TaskSearch
    from tests.support.builds import make_design

    text = (TASKS / "figure_eight.toml").read_text()
    for old, new in (("duration = 1.0 ", "duration = 0.4 "), ("size = 0.25 ", "size = 0.1 ")):
        assert old in text
        text = text.replace(old, new, 1)
    task = parse_task(text, where="short figure")
    model, row = load("iiwa14"), named_function("fd_derivatives_from_minv")
    goal = TrackingLoss(model, row, task).goal()
    search = TaskSearch(model, row, goal)
    design = make_design(model, row, ii=8, formats="auto", search=search)
    search.judge(design)
    assert search.chosen is not None and search.found is not None
    # The design is the candidate, to the last bit of the robot's path.
    assert search.found.loss == search.chosen.outcome.loss <= task.loss
    assert search.ordinary is not None and search.chosen.bits < search.ordinary[1]
    shorter = [t for t in search.tried if t.words.wide < search.chosen.words.wide]
    assert shorter and not any(t.meets_goal for t in shorter)
    longest = max(search.tried, key=lambda trial: trial.words)
    assert longest.outcome.loss < 0.1 * max(t.outcome.loss for t in shorter)
