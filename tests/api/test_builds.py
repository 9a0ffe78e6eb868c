"""The API: builds as objects with the command line's options, arrays by position, pages."""

from __future__ import annotations

import gc
import inspect
import json
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import pinion.api as pinion
from pinion.api.figures import (
    Bitstream,
    BuildReport,
    ExportedFolder,
    NetlistCheck,
    PromiseCheck,
    Synthesis,
    Verification,
)
from pinion.base.progress import Progress
from pinion.batch import Closing, by_name
from pinion.cli.app import app
from pinion.compute.backend import open_backend as open_cpu
from pinion.compute.cuda.backend import open_backend as open_cuda
from pinion.cosim.verify import verify
from pinion.link import ManifestError
from pinion.processor.backend import open_processor
from pinion.request import BuildOptions, BuildRequest, CoreOptions, RobotChoice, RowChoice

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\n& \"'"


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> pinion.BuiltCore:
    """rnea of two links, from the API."""
    return pinion.build("two_link", "rnea", tmp_path_factory.mktemp("api") / "core", ii=4)


def test_a_report_is_a_page_where_one_is_asked_for(core: pinion.BuiltCore, tmp_path: Path) -> None:
    steps: list[str] = []
    assert core.report().page is None
    report = core.report(tmp_path / "core.html", states=20, progress=Progress(steps.append))
    assert report.page is not None and report.page.bytes == report.page.path.stat().st_size
    text = report.page.path.read_text()
    assert text.startswith("<!doctype html>") and f"{core.manifest.hash:016x}" in text
    assert steps[-1] == "Writing the page" and report.figures["function"] == "rnea"
    with pytest.raises(ValueError, match=r"'.*core.html' exists: give another file"):
        core.report(tmp_path / "core.html", states=0)
    assert report.page.path.read_text() == text
    with pytest.raises(ManifestError):
        pinion.write_report([tmp_path], tmp_path / "none.html", states=0)
    assert not (tmp_path / "none.html").exists()


# -- options

RENAMED = {"clock": "clock_mhz", "task": "goal"}
ONLY_COMMAND = {"json", "quiet"}  # how it prints
ONLY_PYTHON = {"progress"}  # what it prints by


def options_of(command: str) -> set[str]:
    """Return the parameters of a verb, by their names in Python."""
    group: Any = typer.main.get_command(app)
    return {RENAMED.get(p.name, p.name) for p in group.commands[command].params}


def test_the_command_and_the_function_have_the_same_options() -> None:
    python = set(inspect.signature(pinion.build).parameters) - {"options"}
    python |= BuildOptions.__annotations__.keys()
    assert options_of("build") - ONLY_COMMAND == python - ONLY_PYTHON
    assert options_of("explore") - ONLY_COMMAND != python - ONLY_PYTHON
    assert options_of("build") >= {*ONLY_COMMAND, "ii"} and python >= ONLY_PYTHON


def test_a_backend_takes_what_its_parts_take() -> None:
    keywords = inspect.Parameter.KEYWORD_ONLY
    devices = {
        name
        for opener in (open_cpu, open_cuda, open_processor)
        for name, parameter in inspect.signature(opener).parameters.items()
        if parameter.kind is keywords
    }
    rows = pinion.RowOptions.__annotations__.keys()
    robots = pinion.RobotOptions.__annotations__.keys()
    cards = pinion.CardOptions.__annotations__.keys()
    assert pinion.BackendOptions.__annotations__.keys() == cards | devices | rows | robots
    assert cards - {"folder"} == CoreOptions.__annotations__.keys()
    options = set(BuildOptions.__annotations__)
    assert options == {"target"} | CoreOptions.__annotations__.keys() | rows | robots


def test_a_request_has_the_options_of_its_parts() -> None:
    parts = {"robot": RobotChoice, "row": RowChoice}
    names = {member.name for member in fields(BuildRequest)} - parts.keys()
    for part in parts.values():
        names |= {member.name for member in fields(part)}
    assert names == BuildOptions.__annotations__.keys()
    request = BuildRequest.of(ii=4, tip="link_1", derivatives="column")
    assert (request.ii, request.robot.tip, request.row.derivatives) == (4, "link_1", "column")
    assert request.replaced(ii=8, tip=None, derivatives="composite") == BuildRequest()
    assert json.loads(json.dumps(request.plain())) == request.plain()
    with pytest.raises(TypeError, match="A build has no option 'speed'"):
        pinion.build("two_link", "rnea", "x", speed=1)  # type: ignore[call-arg]  # a mistake


def test_an_option_that_a_device_has_not_is_named() -> None:
    message = "'float' has no option 'ii'; its own options are progress, and every device has"
    with pytest.raises(pinion.InputError, match=message):
        pinion.backend("two_link", "rnea", device="float", ii=4)
    # Options of rows and robots belong to every device.
    message = r"'tipp' \(did you mean 'tip'\?\); .* every .*outputs.* tip,"
    with pytest.raises(pinion.InputError, match=message):
        pinion.backend("two_link", "rnea", tipp="link_2")  # type: ignore[call-arg]  # a mistake
    with pytest.raises(TypeError, match="no option 'output'"):
        pinion.row_of("rnea", output=["tau"])  # type: ignore[call-arg]  # a mistake


def test_a_device_is_named() -> None:
    nothing: Any = None
    with pytest.raises(ValueError, match="The device must be a name, such as 'cpu', not None"):
        pinion.backend("two_link", "rnea", device=nothing)


def test_a_robot_is_locked_and_cut_wherever_it_is_named() -> None:
    robot_options = {"lock": ["iiwa_joint_7=0.5"], "tip": "iiwa_link_6"}
    arm = pinion.load("iiwa14", lock={"iiwa_joint_7": 0.5}, tip="iiwa_link_6")
    for robot in ("iiwa14", pinion.load("iiwa14")):
        backend: Any = pinion.backend(robot, "rnea", device="float", **robot_options)  # type: ignore[arg-type]  # a dict
        assert backend.model.nv == 6 and backend.model.joint_names == arm.joint_names
    with pytest.raises(pinion.RobotError, match="locked twice"):
        pinion.backend("iiwa14", "rnea", device="float", lock=["iiwa_joint_7", "iiwa_joint_7=1"])
    with pytest.raises(pinion.RobotError, match=r"pass floating_base to pinion\.robot\.load"):
        pinion.backend(arm, "rnea", device="float", floating_base=True)
    assert RobotChoice().read(arm)[1] is None


class NoCard(Closing):
    """Stand-in for a card that would be compiled."""


def test_a_folder_that_nobody_named_goes_with_its_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[object] = []

    def opened(folder: Path, device: str, progress: Progress) -> Closing:
        messages.append(progress)
        return NoCard()

    monkeypatch.setattr("pinion.driver.open", opened)
    progress = Progress(messages.append)
    card: Any = pinion.backend("pendulum", "rnea", device="sim", ii=2, progress=progress)
    folder = card.folder
    assert (folder / "manifest.json").is_file()
    # Slow steps in the driver report to the same progress.
    assert messages[-1] is progress
    del card
    gc.collect()
    assert not folder.exists() and not folder.parent.exists()


def test_a_card_backend_builds_anew_when_an_option_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    # No card is needed; it would be compiled for each build.
    monkeypatch.setattr("pinion.driver.open", lambda folder, device, progress: NoCard())
    options: dict[str, Any] = {
        "folder": tmp_path / "core",
        "ii": 2,
        "progress": Progress(steps.append),
    }

    def built(**more: Any) -> bool:
        steps.clear()
        pinion.backend("pendulum", "rnea", device="sim", **options, **more).close()
        return bool(steps)

    assert built() and not built()
    assert built(max_error=5e-3) and not built(max_error=5e-3)
    assert built(objective="latency")
    assert built(formats="auto") and not built(formats="auto")


# -- a build as an object


def test_a_build_verifies_reports_and_exports(core: pinion.BuiltCore, tmp_path: Path) -> None:
    checked = core.verify(samples=40, seed=3)
    assert checked.ok and checked.mismatches == 0 and checked.samples == 40
    assert dict(checked.figures)["seed"] == 3
    expected = verify(core.folder, samples=40, seed=3)
    assert checked.rel_err_max == expected["rel_err_max"] and not checked.bound
    assert checked.latency_cycles <= core.manifest.latency_cycles
    bounded = core.verify(samples=40, bound=True)
    assert bounded.bound.keys() == {"tau[0]", "tau[1]"}
    with pytest.raises(ValueError, match="omit bound"):
        core.verify(bound=True, function="rnea")
    promised = core.verify_promises(samples=200)
    assert promised.ok and promised.promises.keys() == core.manifest.promises.keys()
    assert core.report().figures["ii"] == 4
    written = core.export(tmp_path / "out", requests=4)
    assert all((written.folder / name).is_file() for name in written.files)
    with pytest.raises(ValueError, match="no bitstream"):
        core.bitstream()


def test_a_build_is_opened_again(core: pinion.BuiltCore, tmp_path: Path) -> None:
    again = pinion.open_build(str(core.folder))
    assert again.manifest.hash == core.manifest.hash and not again.notes.sentences
    assert again.model.joint_names == pinion.load("two_link").joint_names
    with pytest.raises(ManifestError, match="not a build folder"):
        pinion.open_build(tmp_path)
    with again.open() as card:
        zeros = np.zeros(2)
        assert card(zeros, zeros, zeros).tau.shape == (2,)


def test_an_altered_folder_is_refused(core: pinion.BuiltCore, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in core.folder.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    pinion.open_build(copy)
    (copy / "graph.txt").write_text((copy / "graph.txt").read_text() + "\n")
    with pytest.raises(ManifestError):
        pinion.open_build(copy)


def test_figures_cannot_be_changed() -> None:
    check = PromiseCheck.of({"ok": True, "samples": 1, "distributions": {}})
    with pytest.raises(FrozenInstanceError):
        check.ok = False  # type: ignore[misc]  # that is the test
    with pytest.raises(TypeError):
        check.figures["ok"] = False  # type: ignore[index]  # that is the test


# -- arrays by position


@pytest.fixture(scope="module", params=["float", "cpu", "sim"])
def computed(request: pytest.FixtureRequest, core: pinion.BuiltCore) -> Iterator[Any]:
    """Backends, and a device."""
    if request.param == "sim":
        with core.open() as card:
            yield card
    else:
        with pinion.backend("two_link", "rnea", device=request.param) as opened:
            yield opened


def test_arrays_go_in_by_position_and_by_name(computed: Any) -> None:
    q, qd, qdd = np.random.default_rng(5).uniform(-1, 1, (3, 7, 2))
    expected = computed.run(q=q, qd=qd, qdd=qdd).tau
    assert np.abs(expected).max() > 0.1
    calls = [
        computed(q, qd, qdd),
        computed.run(q, qd, qdd),
        computed(q, qd, qdd=qdd),
        computed(q, qdd=qdd, qd=qd),
        computed(q.tolist(), qd.tolist(), qdd.tolist()),
    ]
    for result in calls:
        assert np.array_equal(result.tau, expected)
    assert np.array_equal(computed(q[0], qd[0], qdd[0]).tau, expected[0])
    # In order: swapped arrays are other requests.
    assert not np.array_equal(computed(q, qdd, qd).tau, expected)


@pytest.mark.parametrize(
    ("values", "named", "needle"),
    [
        (4, (), r"by position \(4; inputs: q, qd, qdd\): leave 1 out"),
        (1, ("q", "qd", "qdd"), "'q' is given twice, by position and by name"),
        (3, ("qdd",), "'qdd' is given twice"),
        (2, (), "'qdd' is missing"),
        (3, ("tau",), "no input array 'tau'"),
    ],
)
def test_wrong_calls_are_named(
    computed: Any, values: int, named: tuple[str, ...], needle: str
) -> None:
    zeros = np.zeros(2)
    with pytest.raises(ValueError, match=needle):
        computed(*[zeros] * values, **dict.fromkeys(named, zeros))
    with pytest.raises(ValueError, match=r"'qd' has the shape \(3,\)"):
        computed(zeros, np.zeros(3), zeros)


def test_a_gpu_takes_them_too() -> None:
    """Names are checked before a device is searched."""
    inputs = pinion.row_of("rnea").inputs
    assert by_name(inputs, (1, 2), {"qdd": 3}) == {"q": 1, "qd": 2, "qdd": 3}
    source = inspect.getsource(
        __import__("pinion.compute.cuda", fromlist=["x"]).CudaKernel.__call__
    )
    assert "by_name(self.inputs, values, arrays)" in source


# -- notebooks


class Page(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes = 0
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += len(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_objects(core: pinion.BuiltCore) -> list[Any]:
    """Everything that a notebook shows, with hostile names."""
    model = replace(core.model, name=HOSTILE, source=HOSTILE)
    body = replace(
        model.bodies[0], name=HOSTILE, joint=replace(model.bodies[0].joint, name=HOSTILE)
    )
    row = replace(pinion.row_of("rnea"), name=HOSTILE, doc=HOSTILE)
    figures = verify(core.folder, samples=5) | {
        "rel_err_median": {HOSTILE: 1.0}, "rel_err_p99": {HOSTILE: 1.0},
        "rel_err_max": {HOSTILE: None}, "first_divergence": HOSTILE, "distribution": HOSTILE,
    }  # fmt: skip
    counted = {**dict.fromkeys(("dsp", "lut", "ff", "bram", "lutram", "srl", "levels"), 1)}
    return [
        replace(model, bodies=(body, *model.bodies[1:])),
        row,
        pinion.Result(arrays={HOSTILE: np.zeros(2)}, saturated=np.zeros(1, bool), cycles=None),
        replace(core, manifest=replace(core.manifest, robot=HOSTILE, function=HOSTILE)),
        replace(core, notes=pinion.BuildNotes(gate=HOSTILE)),
        Verification.of(figures),
        PromiseCheck.of(
            {
                **{"ok": True, "samples": 1},
                "distributions": {HOSTILE: {"promise": 1, "largest": 1, "valid": 1}},
            }
        ),
        NetlistCheck(ok=True, requests=1, mismatches=0, cells=HOSTILE, figures={}),  # type: ignore[arg-type]  # hostile
        Synthesis.of({**counted, "part": HOSTILE, "tool": HOSTILE, "timing": {}, "note": HOSTILE}),
        ExportedFolder(name=HOSTILE, folder=Path("x"), files=(HOSTILE,), figures={}),
        Bitstream.of({"target": HOSTILE, "met": False, "bitstream": None}),
        BuildReport(figures={"folder": HOSTILE, HOSTILE: HOSTILE}),
        pinion.backend(replace(pinion.load("two_link"), name=HOSTILE), "gravity", device="float"),
    ]


def test_names_are_text_in_notebooks(core: pinion.BuiltCore) -> None:
    for report in hostile_objects(core):
        html = report._repr_html_()
        page = Page(html)
        assert page.tags <= {"p", "b", "table", "tr", "th", "td"}, type(report)
        assert page.attributes == 0 and "\x1b" not in html
        assert "<script>alert(1)</script>" in page.text, type(report)
        if type(report).__name__ in ("Model", "Function", "BuiltCore"):
            assert "\x1b" not in repr(report) and "\n" not in repr(report)
    assert Page(f"<p>{HOSTILE}</p>").tags >= {"script", "img"}  # what the check would find


def test_representations_say_what_it_is(core: pinion.BuiltCore) -> None:
    assert repr(pinion.load("iiwa14")) == "<Model 'iiwa14': 7 bodies, nq 7, nv 7>"
    assert repr(pinion.row_of("rnea")) == "<Function rnea(q, qd, qdd) -> tau>"
    assert "outputs=minv" in repr(pinion.row_of("fd_derivatives", outputs=["minv"]))
    assert repr(core).startswith("<BuiltCore two_link rnea q16.16 ii=4, ")
    floats = pinion.backend("two_link", "rnea", device="float")
    assert repr(floats).startswith("<FloatBackend <Function rnea")
    for backend in (floats, pinion.backend("two_link", "rnea", device="cpu"), core.open()):
        with backend:
            page = Page(backend._repr_html_()).text
            assert "rnea of two_link" in page and "n x 2" in page and "N m" in page
    assert f"{core.manifest.latency_cycles} cycles" in core._repr_html_()
    assert json.loads(json.dumps(dict(core.report().figures)))["robot"] == "two_link"
