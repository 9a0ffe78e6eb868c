"""A controller as a C library: its laws, its C program, MuJoCo in C++, and another machine."""

from __future__ import annotations

import ctypes
import platform
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion.cli import main
from pinion.compute import library_folder
from pinion.control import ControlError, Cost, Weights
from pinion.control.plant import Plant
from pinion.control.task.controller import task_controller
from pinion.control.task.task import read_task
from pinion.control.track import export
from pinion.control.track.closed_loop import track
from pinion.control.track.export import export_controller
from pinion.control.track.motion import Motion
from pinion.control.track.mpc import Mpc
from pinion.control.track.period import Horizon
from pinion.control.track.scenario import Scenario
from pinion.native import ComputeError
from pinion.native.isa import INSTRUCTION_SETS, available
from pinion.robot import coupled, load
from tests.control import small_arm
from tests.control.legs import BASE, JOINTS, resting, standing, tripod
from tests.support.commands import cmake_project, needs_cc, ran, tool

Array = NDArray[np.float64]

EXAMPLES = Path(__file__).parents[2] / "examples"
GRIPPER, REACH = EXAMPLES / "gripper.urdf", EXAMPLES / "tasks/reach.toml"
DONE, NO_PERIOD, NOT_FINITE, DIVERGED, NO_GRADIENT, BAD_ARGUMENT = range(6)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return small_arm.scenario(tmp_path_factory.mktemp("arm") / "arm.urdf", duration=0.4)


@pytest.fixture(scope="module")
def motion(scene: Scenario) -> Motion:
    return scene.motion()


def horizon(scene: Scenario, **changes: Any) -> Horizon:
    settings: dict[str, Any] = {
        "model": scene.model(),
        "cost": scene.cost(),
        "knots": scene.knots,
        "dtype": "float64",
        "step": scene.step,
        "period": scene.period,
        "iterations": scene.iterations,
    }
    return Horizon(**{**settings, **changes})


class Library:
    """An exported controller of a robot with `nu` actuators and `nv` velocities, from Python."""

    def __init__(
        self, folder: Path, name: str, nv: int, dtype: str = "float64", *, nu: int | None = None
    ) -> None:
        self.nu, self.ndx = nv if nu is None else nu, 2 * nv
        self.dtype = np.dtype(dtype)
        self._library = ctypes.CDLL(str(folder / "lib" / f"lib{name}.so"))
        self._prefix = name
        self.call("bytes").restype = ctypes.c_size_t
        self.call("last_law").restype = ctypes.c_void_p
        self.call("isa").restype = ctypes.c_char_p
        size = self.call("bytes")()
        self._room = np.zeros(size + 128, np.uint8)
        at = self._room.ctypes.data
        self.memory = ctypes.c_void_p(at + -at % 64)

    def call(self, function: str) -> Any:
        return getattr(self._library, f"{self._prefix}_{function}")

    def open(self, *arrays: Array, rows: int | None = None) -> int:
        """Open a controller of a motion's q, qd, tau, tip and contacts."""
        self._arrays = [np.ascontiguousarray(x, self.dtype) for x in arrays]

        class Reference(ctypes.Structure):
            _fields_ = (
                ("rows", ctypes.c_int64),
                *((key, ctypes.c_void_p) for key in ("q", "qd", "tau", "tip", "active")),
            )

        count = len(arrays[0]) if rows is None else rows
        reference = Reference(count, *(x.ctypes.data for x in self._arrays))
        return int(self.call("open")(self.memory, ctypes.byref(reference)))

    def update(self, number: int, x: Array) -> int:
        state = np.ascontiguousarray(x, np.float64)
        address = ctypes.c_void_p(state.ctypes.data)
        return int(self.call("update")(self.memory, ctypes.c_int64(number), address))

    def law(self) -> tuple[Array, Array]:
        """Return u and K of the last law."""
        n, m = self.nu, self.ndx
        kind = ctypes.c_double if self.dtype == np.float64 else ctypes.c_float
        numbers = (kind * (n + n * m)).from_address(self.call("last_law")(self.memory))
        array = np.array(numbers, np.float64)
        return array[:n], array[n:].reshape(n, m)

    def efforts(self, since: float, x: Array) -> Array:
        u, state = np.empty(self.nu), np.ascontiguousarray(x, np.float64)
        self.call("efforts")(
            ctypes.c_void_p(self.call("last_law")(self.memory)),
            ctypes.c_double(since),
            ctypes.c_void_p(state.ctypes.data),
            ctypes.c_void_p(u.ctypes.data),
        )
        return u

    def simulate(self, number: int, seconds: float, x: Array, u: Array) -> Array:
        state, efforts = np.array(x), np.ascontiguousarray(u, np.float64)
        self.call("simulate")(
            self.memory,
            ctypes.c_int64(number),
            ctypes.c_double(seconds),
            ctypes.c_void_p(state.ctypes.data),
            ctypes.c_void_p(efforts.ctypes.data),
        )
        return state


def arrays_of(motion: Motion) -> tuple[Array, ...]:
    return motion.q, motion.qd, motion.tau, motion.tip


def only_portable(patch: pytest.MonkeyPatch) -> None:
    """Let libraries have one instruction set, which compiles in seconds."""
    for module in (library_folder, export):
        patch.setattr(module, "INSTRUCTION_SETS", (library_folder.PORTABLE,))


@pytest.fixture(scope="module")
def quick(scene: Scenario, motion: Motion, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library with one instruction set."""
    folder = tmp_path_factory.mktemp("quick") / "arm"
    with pytest.MonkeyPatch.context() as patch:
        only_portable(patch)
        export_controller(horizon(scene), motion, folder, name="arm")
    return folder


def test_laws_are_those_of_python(scene: Scenario, motion: Motion, quick: Path) -> None:
    """Over a whole closed loop, whose robot is the library's own."""
    library = Library(quick, "arm", 3)
    assert library.call("isa")() == b"portable"
    assert library.open(*arrays_of(motion)) == DONE
    h, x = scene.period, motion.states()[0] + 0.01
    with Mpc(scene.plant("float"), scene.cost(), motion, knots=scene.knots) as plain:
        for number in range(plain.periods):
            law = plain.update(number, x)
            assert library.update(number, x) == DONE
            u, K = library.law()
            assert np.abs(u - law.u).max() < 1e-9 * np.abs(law.u).max()
            assert np.abs(K - law.K).max() < 1e-9 * np.abs(law.K).max()
            for step in range(scene.inner):
                since = step * h / scene.inner
                efforts = library.efforts(since, x)
                assert np.abs(efforts - law.efforts(since, x)).max() < 1e-8
                moved = library.simulate(number, h / scene.inner, x, efforts)
                qdd = plain.plant.accelerations(x[None], efforts[None])[0]
                qd = x[3:] + h / scene.inner * qdd
                assert np.abs(moved[3:] - qd).max() < 1e-12 * np.abs(qd).max()
                assert np.array_equal(moved[:3], x[:3] + h / scene.inner * moved[3:])
                x = moved
        assert np.abs(x - motion.states()[plain.periods]).max() < 0.05, "it tracks"
        assert library.update(plain.periods, x) == NO_PERIOD


def legs() -> tuple[Plant, Cost, Motion, int]:
    """Return a floating base whose feet are lifted, what it tracks, and with how many knots."""
    model, rows = tripod(), 30
    active = np.ones((rows, 3))
    active[8:14, 1] = 0.0
    motion = resting(model, standing(), active, frame="base", rows=rows)
    weights = Weights(q=[20.0] * BASE + [0.5] * JOINTS, qd=0.3)
    cost = Cost(running=replace(weights, tau=1e-2), final=weights)
    plant = Plant.open(model, dt=0.02, device="float", velocity_gain=10.0)
    return plant, cost, motion, 6


def test_a_robot_on_legs_has_the_laws_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a closed loop with the library's own robot."""
    only_portable(monkeypatch)
    plant, cost, motion, knots = legs()
    space, active = plant.space, motion.active
    assert active is not None
    with Mpc(plant, cost, motion, knots=knots) as controller:
        export_controller(controller.horizon, motion, tmp_path / "legs", name="legs")
        library = Library(tmp_path / "legs", "legs", space.nv, nu=space.nu)
        assert library.open(*arrays_of(motion)) == BAD_ARGUMENT, "it needs contacts"
        assert library.open(*arrays_of(motion), active) == DONE
        x = motion.states()[0]
        x[space.nq + 1] = 0.05
        for number in range(controller.periods):
            law = controller.update(number, x)
            assert library.update(number, x) == DONE
            u, K = library.law()
            assert np.abs(u - law.u).max() < 1e-9 * np.abs(law.u).max()
            assert np.abs(K - law.K).max() < 1e-9 * np.abs(law.K).max()
            for since in (0.0, 0.005):
                efforts = library.efforts(since, x)
                assert np.abs(efforts - law.efforts(since, x)).max() < 1e-8
                moved = library.simulate(number, 0.005, x, efforts)
                qdd = plain_accelerations(plant, x, efforts, active[number])
                assert np.abs(moved[space.nq :] - x[space.nq :] - 0.005 * qdd).max() < 1e-10
                change = space.difference(x, moved)[: space.nv]
                assert np.abs(change - 0.005 * moved[space.nq :]).max() < 1e-12
                x = moved
        change = space.difference(motion.states()[0], x)
        assert np.abs(change[: space.nv]).max() < 0.05, "it stands"
    numbers = np.fromfile(tmp_path / "legs" / "motion.bin")
    assert np.array_equal(numbers[-active.size :], active.ravel())
    header = (tmp_path / "legs/include/legs.h").read_text()
    assert "LEGS_NQ = 13, LEGS_NV = 12, LEGS_NU = 6" in header and "LEGS_CONTACTS = 3" in header
    assert "Contacts: lower_0_0,0,-0.25; lower_1_" in re.sub(r"\s+", " ", header)


def plain_accelerations(plant: Plant, x: Array, u: Array, active: Array) -> Array:
    return np.asarray(plant.accelerations(x[None], u[None], active)[0])


def test_a_target_is_a_motion_that_stays(motion: Motion, quick: Path) -> None:
    target = tuple(np.repeat(x[:1], 60, axis=0) for x in arrays_of(motion))
    single, all_rows = Library(quick, "arm", 3), Library(quick, "arm", 3)
    assert single.open(*(x[:1] for x in target)) == all_rows.open(*target) == DONE
    x = motion.states()[0] + 0.05
    for number in (0, 1, 2, 5):
        assert single.update(number, x) == all_rows.update(number, x) == DONE
        for left, right in zip(single.law(), all_rows.law(), strict=True):
            assert np.array_equal(left, right) and np.abs(left).max() > 0.0
        x = single.simulate(number, 0.004, x, single.efforts(0.0, x))
    assert single.update(10**12, x) == DONE, "a target has no last period"
    before = single.law()[0]
    single._arrays[0] += 0.1  # the target moves
    assert single.update(10**12 + 1, x) == DONE and np.abs(single.law()[0] - before).max() > 0.1


def least_rows(folder: Path) -> int:
    """Return the least rows of a motion that the header states."""
    return int(re.findall(r"ARM_ROWS = (\d+)", (folder / "include/arm.h").read_text())[0])


def test_wrong_arguments_are_answers(motion: Motion, quick: Path) -> None:
    library = Library(quick, "arm", 3)
    arrays = arrays_of(motion)
    least = least_rows(quick)
    assert library.open(*arrays, rows=least) == DONE
    for rows in (-1, 0, 2, least - 1):
        assert library.open(*arrays, rows=rows) == BAD_ARGUMENT
    assert library.call("open")(library.memory, None) == BAD_ARGUMENT
    aside = ctypes.c_void_p(int(library.memory.value or 0) + 8)
    assert library.call("open")(aside, library.memory) == BAD_ARGUMENT
    assert library.open(*arrays) == DONE
    x = motion.states()[0].copy()
    assert library.update(0, x) == DONE
    law = library.law()
    assert library.update(-1, x) == NO_PERIOD
    assert library.update(1, np.full(6, np.nan)) == NOT_FINITE
    x[3:] = 9e5
    assert library.update(1, x) == DIVERGED
    for left, right in zip(library.law(), law, strict=True):
        assert np.array_equal(left, right), "the last law holds"


def test_efforts_end_at_their_limits(scene: Scenario, motion: Motion, quick: Path) -> None:
    """Far from the motion both the law's effort and its feedback are clipped."""
    library = Library(quick, "arm", 3)
    assert library.open(*arrays_of(motion)) == DONE
    x = motion.states()[0] + 0.8
    with Mpc(scene.plant("float"), scene.cost(), motion, knots=scene.knots) as plain:
        law = plain.update(0, x)
    assert library.update(0, x) == DONE
    assert np.abs(law.u).max() == 40.0 and np.abs(library.law()[0]).max() == 40.0
    for away in (0.0, 1.0, -1.0):
        efforts = library.efforts(0.001, x + away)
        assert np.abs(efforts - law.efforts(0.001, x + away)).max() < 1e-8
        assert np.abs(efforts).max() == 40.0
    assert np.isnan(library.efforts(0.0, np.full(6, np.nan))).all()


def test_names_of_c_are_refused_and_all_others_compile(scene: Scenario, motion: Motion) -> None:
    for name in ("abi", "math", "c", "all"):
        with pytest.raises(ComputeError, match=f"'{name}' is reserved by C's headers"):
            export_controller(horizon(scene), motion, Path("nowhere"), name=name)
    for name in ("name", "MY_NAME", "unnamed"):
        library = export._ControllerLibrary(
            name=name, title="a", horizon=horizon(scene), motion=motion
        )
        program, header = library.files()["real_time.c"].decode(), library.header()
        used = set(re.findall(rf"\b(?:{name}|{name.upper()})_\w+", program))
        missing = {word for word in used if not re.search(rf"\b{word}\b", header)}
        assert len(used) > 15 and missing == set()
        assert f'#include "{name}.h"' in program and f"-l{name} " in program


def test_numbers_of_numpy_and_joints_that_follow_are_written(scene: Scenario) -> None:
    model = coupled(load(str(GRIPPER)))
    weights = Weights(q=np.float64(1.0), qd=np.float64(0.1), tau=np.float64(1e-3))
    cost = Cost(running=weights, final=replace(weights, tau=0.0))
    settings = {
        "model": model,
        "cost": cost,
        "step": np.float64(0.008),
        "period": np.float64(0.004),
    }
    of_gripper = horizon(scene, **settings)
    rest = np.zeros((30, model.nv))
    motion = Motion(frame="", dt=0.004, q=rest, qd=rest, qdd=rest, tau=rest, tip=np.zeros((30, 3)))
    library = export._ControllerLibrary(name="arm", title="a", horizon=of_gripper, motion=motion)
    texts = library.header() + library._dispatcher()
    assert "float64" not in texts and "ARM_PERIOD 0.004 " in texts
    joints = texts.partition("Joints: ")[2].partition(". ")[0].replace("\n", " ").split(",")
    assert len(joints) == model.nv < len(model.bodies)
    library = export._ControllerLibrary(name="arm", title="a", horizon=of_gripper, motion=motion)
    assert len(library.files()["motion.bin"]) == 30 * 3 * model.nv * 8, "the tip has no weight"


def test_the_command_exports_a_task_s_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the task's times, motion and dtype; and what does not go together is refused."""
    only_portable(monkeypatch)
    task, out = read_task(REACH), tmp_path / "out"
    command = ["export", "two_link", "--controller", str(REACH)]
    with pytest.raises(SystemExit) as left:
        main([*command, "--dtype", "float32", "--name", "arm", "-o", str(out)])
    assert left.value.code == 0 and "libarm.so" in capsys.readouterr().out
    of_task, motion = task_controller(task, load("two_link"), dtype="float32")
    assert (of_task.knots, of_task.step, of_task.period) == (task.knots, task.step, task.period)
    numbers = np.fromfile(out / "motion.bin", np.float32)
    arrays = (motion.q, motion.qd, motion.tau, motion.tip[:, : of_task.tip])
    assert np.array_equal(numbers, np.concatenate([np.float32(x).ravel() for x in arrays]))
    library = Library(out, "arm", 2, dtype="float32")
    assert library.open(*arrays_of(motion)) == DONE
    assert library.update(0, motion.states()[0]) == DONE and np.abs(library.law()[1]).max() > 0.1
    folder = str(tmp_path / "none")
    for words, sentence in (
        (["export", "two_link", "rnea", *command[2:]], "Give one robot with --controller, not"),
        ([*command, "--cpu"], "Give only one of --cpu, --cuda and --controller"),
        ([*command, "--force"], "only for --cuda: leave it out, or give --cuda instead of --c"),
        (
            [*command, "--frames", "tip"],
            "--frames is for a function, but --controller exports none",
        ),
        ([*command, "--dtype", "half"], "Unknown dtype 'half': choose one of float32, float64"),
        ([*command[:3], str(tmp_path / "no.toml")], "no.toml' cannot be read"),
    ):
        with pytest.raises(SystemExit) as left:
            main([*words, "-o", folder])
        assert left.value.code == 2 and sentence in capsys.readouterr().err
        assert not Path(folder).exists()


def test_what_fails_leaves_nothing(
    scene: Scenario, motion: Motion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any, **options: Any) -> None:
        raise ComputeError("The compiler failed.")

    monkeypatch.setattr(library_folder, "compile_library", fails)
    only_portable(monkeypatch)
    with pytest.raises(ComputeError, match="The compiler failed"):
        export_controller(horizon(scene), motion, tmp_path / "new" / "arm")
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_match_is_a_sentence(scene: Scenario, motion: Motion, tmp_path: Path) -> None:
    out = tmp_path / "new" / "arm"
    with pytest.raises(ControlError, match=r"of 0\.464 s is shorter than a horizon of 1\.6 s"):
        export_controller(horizon(scene, knots=200), motion, out)
    with pytest.raises(ComputeError, match="'7up' is not a valid name"):
        export_controller(horizon(scene), motion, out, name="7up")
    with pytest.raises(ControlError, match=r"step of 0\.01 s is not a multiple of the period"):
        horizon(scene, step=0.01)
    with pytest.raises(ControlError, match="At least 2 knots and 1 iteration are needed, not 1"):
        horizon(scene, knots=1)
    with pytest.raises(ControlError, match=r"'knots' is 8\.5: give a whole number"):
        horizon(scene, knots=8.5)
    with pytest.raises(ControlError, match="Unknown dtype 'float16': choose one of float32,"):
        horizon(scene, dtype="float16")
    for values in ({"period": 0.0}, {"step": np.nan}):
        with pytest.raises(ControlError, match="must be above 0 and at most 1 s"):
            horizon(scene, **values)
    with pytest.raises(ControlError, match=r"a row every 0\.004 s, but the period is 0\.002 s"):
        export_controller(horizon(scene, period=0.002), motion, out)
    with pytest.raises(ControlError, match="but the plant's method is 'rk4'"):
        export_controller(horizon(scene, method="rk4"), motion, out)
    assert not out.parent.exists()


# ---- in C -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(scene: Scenario, motion: Motion, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library with all instruction sets, and its program."""
    folder = tmp_path_factory.mktemp("exported") / "arm"
    result = export_controller(horizon(scene), motion, folder, name="arm")
    machine = platform.machine().lower().replace("amd64", "x86_64").replace("arm64", "aarch64")
    sets = [isa.name for isa in INSTRUCTION_SETS if isa.machine in (machine, "any")]
    assert result["instruction_sets"] == sets
    compile_program(folder)
    return folder


def compile_program(folder: Path) -> None:
    """Run the command at the head of the program, with more warnings."""
    text = (folder / "real_time.c").read_text()
    command = next(line for line in text.splitlines() if line.strip().startswith("cc "))
    warnings = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
    ran(["cc", *warnings, *shlex.split(command)[1:]], folder)


@pytest.mark.slow
@needs_cc
def test_the_program_tracks_its_motion(exported: Path) -> None:
    paced = ran(["./real_time", "motion.bin", "120"], exported)
    free = ran(["./real_time", "motion.bin", "120", "free"], exported)
    assert paced.startswith(f"{available()[0].name}, real-time priority and locked memory: ")
    assert "Periods begin late [us]: median" in paced and "begin late" not in free
    for printed in (paced, free):
        bins = re.findall(r"below +\d+ +(\d+) ", printed.split("Update")[1].split("Feedback")[0])
        assert sum(map(int, bins)) == 120
        off, lost = re.findall(r"from the motion: (\S+) rad or m; horizons lost: (\d+)", printed)[0]
        assert 0.0 < float(off) < 1e-2 and lost == "0"
    process = subprocess.run(["./real_time", "README.md"], cwd=exported, check=False)
    assert process.returncode == 1, "a file that is no motion"


@pytest.mark.slow
@needs_cc
def test_periods_ask_nothing_of_the_system(exported: Path) -> None:
    strace, log = tool("strace"), exported / "strace.log"
    ran([strace, "-f", "-o", log, "./real_time", "motion.bin", "1000", "free"], exported)
    calls = [line.partition(" ")[2].strip() for line in log.read_text().splitlines()]
    begin, end = (
        next(k for k, call in enumerate(calls) if call.startswith(f'write(2, "{word}\\n"'))
        for word in ("begin", "end")
    )
    assert begin > 10, "strace saw the calls before"
    assert calls[begin + 1 : end] == []


@pytest.mark.slow
@needs_cc
def test_periods_take_the_same_instructions(motion: Motion, exported: Path) -> None:
    """By Valgrind's count, which other work on the machine does not affect."""
    valgrind = tool("valgrind")
    counts = exported / "callgrind.out"
    options = ("--combine-dumps=yes", "--toggle-collect=arm_update", "--dump-after=arm_update")
    program = ("./real_time", "motion.bin", "1000", "free")
    ran(
        [valgrind, "--tool=callgrind", f"--callgrind-out-file={counts}", *options, *program],
        exported,
    )
    numbers = [int(x) for x in re.findall(r"^summary: (\d+)$", counts.read_text(), re.MULTILINE)]
    periods = [number for number in numbers if number]
    assert len(periods) == 1000
    # A first period has no plan to shift; the motion begins anew when it ends.
    last = motion.rows - least_rows(exported) + 1
    shifting = [number for k, number in enumerate(periods) if k % last]
    assert len(shifting) > 900 and min(shifting) > 1000
    assert max(shifting) < 1.01 * min(shifting)


@pytest.mark.slow
@needs_cc
def test_cmake_compiles_the_library_anew(exported: Path, tmp_path: Path) -> None:
    cmake = tool("cmake")
    cmake_project(tmp_path, exported, "arm", exported / "real_time.c")
    ran([cmake, "-S", ".", "-B", "made"], tmp_path)
    ran([cmake, "--build", "made", "--parallel", "2"], tmp_path)
    printed = ran(["made/main", exported / "motion.bin", "50", "free"], tmp_path)
    want = ran(["./real_time", "motion.bin", "50", "free"], exported)
    assert printed.splitlines()[-1] == want.splitlines()[-1]


@pytest.mark.slow
@needs_cc
def test_float32_tracks_too(scene: Scenario, motion: Motion, tmp_path: Path) -> None:
    folder = tmp_path / "arm"
    export_controller(horizon(scene, dtype="float32"), motion, folder, name="arm")
    compile_program(folder)
    library = Library(folder, "arm", 3, dtype="float32")
    assert library.open(*arrays_of(motion)) == DONE
    x = motion.states()[0] + 0.01
    assert library.update(0, x) == DONE
    with Mpc(scene.plant("float"), scene.cost(), motion, knots=scene.knots) as plain:
        law = plain.update(0, x)
    u, K = library.law()
    assert np.abs(u - law.u).max() < 1e-3 * np.abs(law.u).max()
    assert np.abs(K - law.K).max() < 1e-3 * np.abs(law.K).max()
    printed = ran(["./real_time", "motion.bin", "100", "free"], folder)
    off = float(re.findall(r"from the motion: (\S+) rad", printed)[0])
    assert 0.0 < off < 1e-2


@pytest.mark.slow
@needs_cc
def test_it_tracks_in_mujoco_from_cpp(
    scene: Scenario, motion: Motion, exported: Path, tmp_path: Path
) -> None:
    """With payload, friction and delay, as far off the path as the controller in Python."""
    mujoco = pytest.importorskip("mujoco")
    robot = scene.simulated()
    mujoco.mj_saveModel(robot.compiled, str(tmp_path / "arm.mjb"), None)
    with Mpc(scene.plant("cpu"), scene.cost(), motion, knots=scene.knots) as controller:
        want = track(controller, robot)
    package = Path(mujoco.__file__).parent
    library = next(package.glob("libmujoco*"))
    source = Path(__file__).with_name("mujoco_track.cpp")
    ran(
        [
            *("c++", "-std=c++17", "-O2", "-Wall", "-Wextra", source, "-o", "track"),
            *(f"-I{package / 'include'}", f"-I{exported / 'include'}", library),
            *(f"-L{exported / 'lib'}", "-larm"),
            *(f"-Wl,-rpath,{exported / 'lib'}", f"-Wl,-rpath,{package}"),
        ],
        tmp_path,
    )
    late = round(scene.disturbance.delay / robot.step)
    printed = ran(
        ["./track", "arm.mjb", exported / "motion.bin", scene.inner, late],
        tmp_path,
    )
    tip = np.array([[float(word) for word in line.split()] for line in printed.splitlines()])
    assert tip.shape == want.tip.shape
    errors = np.linalg.norm(tip - motion.tip[: len(tip)], axis=1)
    rms, python_rms = (float(np.sqrt(np.mean(x**2))) for x in (errors, want.errors))
    assert python_rms > 1e-5 and abs(rms / python_rms - 1.0) < 1e-3


# ---- in C, for another machine -----------------------------------------------------------------


CROSS, EMULATOR = "aarch64-linux-gnu", "qemu-aarch64"
MISSING = [name for name in (f"{CROSS}-g++", f"{CROSS}-gcc", EMULATOR) if not shutil.which(name)]

needs_emulator = pytest.mark.skipif(
    bool(MISSING),
    reason=f"no {' and no '.join(MISSING)} on this machine: "
    "apt-get install g++-aarch64-linux-gnu qemu-user",
)


OFF = 0.05
"""Initial deviation of each velocity from the motion [rad/s | m/s]."""


def closed_loop(
    folder: Path, libraries: Path, compiler: str, *emulator: object
) -> tuple[str, Path]:
    """Run a closed loop in C; return the instruction set, and the file of states and laws."""
    source, program = Path(__file__).with_name("closed_loop.c"), libraries / "closed_loop"
    options = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{folder / 'include'}")
    links = (f"-L{libraries}", "-larm", "-Wl,-rpath,$ORIGIN")
    ran([compiler, *options, source, *links, "-o", program], folder)
    out = libraries / "laws.bin"
    words = (*emulator, program, folder / "motion.bin", OFF, out)
    return ran(words, folder).strip(), out


@pytest.mark.slow
@needs_cc
@needs_emulator
@pytest.mark.parametrize(
    ("robot", "dtype", "tolerance"),
    [("arm", "float64", 1e-9), ("arm", "float32", 1e-3), ("legs", "float64", 1e-9)],
)
def test_laws_are_those_of_python_on_arm(
    robot: str, dtype: str, tolerance: float, scene: Scenario, motion: Motion, tmp_path: Path
) -> None:
    """Closed loops on an emulated AArch64 processor, compiled as the documentation says."""
    cmake = tool("cmake")
    if robot == "arm":
        cost, knots = scene.cost(), scene.knots
        plant = scene.plant("float")
    else:
        plant, cost, motion, knots = legs()
    with Mpc(plant, cost, motion, knots=knots) as plain:
        folder, built = tmp_path / "arm", tmp_path / "built"
        export_controller(replace(plain.horizon, dtype=dtype), motion, folder, name="arm")
        system = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64")
        ran(
            [cmake, "-S", folder, "-B", built, *system, f"-DCMAKE_CXX_COMPILER={CROSS}-g++"],
            tmp_path,
        )
        ran([cmake, "--build", built, "--parallel", "2"], tmp_path)
        # The path is .../lib/libc.so.6.
        library = ran([f"{CROSS}-g++", "-print-file-name=libc.so.6"], tmp_path).strip()
        emulator = (EMULATOR, "-L", Path(library).resolve().parents[1])
        isa, emulated = closed_loop(folder, built, f"{CROSS}-gcc", *emulator)
        native_isa, native = closed_loop(folder, folder / "lib", "cc")
        assert (isa, native_isa) == ("neon", available()[0].name)
        nx, nu = len(motion.states()[0]), plain.horizon.space.nu
        rows, others = (np.fromfile(path).reshape(plain.periods, -1) for path in (emulated, native))
        for part in (slice(nx), slice(nx, nx + nu), slice(nx + nu, None)):
            size = np.abs(others[:, part]).max()
            assert np.abs(rows[:, part] - others[:, part]).max() < tolerance * size
        for number, row in enumerate(rows):
            law = plain.update(number, row[:nx])
            u, K = row[nx : nx + nu], row[nx + nu :].reshape(law.K.shape)
            assert np.abs(u - law.u).max() < tolerance * np.abs(law.u).max()
            assert np.abs(K - law.K).max() < tolerance * np.abs(law.K).max()
        change = plain.horizon.space.difference(motion.states()[plain.periods - 1], rows[-1, :nx])
        assert np.abs(change[: plain.plant.model.nv]).max() < 0.05, "it tracks"
