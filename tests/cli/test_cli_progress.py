"""Progress of long work: percent, step, time left; lines in a pipe; ``--quiet`` of every verb."""

from __future__ import annotations

import json
from importlib import import_module
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer
from rich.console import Console
from rich.progress import BarColumn, TimeElapsedColumn
from rich.progress import Progress as Display

from pinion.base.progress import Progress
from pinion.cli import bench, main
from pinion.cli.app import SHORT, SPEAKING, app
from pinion.console import progress
from pinion.flow.build import BuildError
from tests.cli.conftest import PROGRESS, Built
from tests.cli.test_cli_demo import on_a_terminal

TASK = Path(__file__).parents[2] / "examples/tasks/reach.toml"


class Clock:
    """A clock that advances on request."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def at(self, seconds: float) -> None:
        """Advance to this many seconds after the beginning."""
        self.now = 100.0 + seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=clock.monotonic))
    # Lines come when work changes; another test covers the thread.
    monkeypatch.setattr(progress.Lines, "_watch", lambda lines: None)
    return clock


# -- the time left


def test_time_left_follows_from_the_share_done(clock: Clock) -> None:
    work = progress.Work(clock.monotonic)
    work.begin("Scheduling")
    assert work.left() is None and work.words() == "Scheduling"
    clock.at(30.0)
    work.advance(0.25)
    assert work.left() == pytest.approx(90.0)
    assert work.words() == "Scheduling: 25%, about 90 s left in this step"
    clock.at(60.0)
    work.advance(0.75)
    assert work.left() == pytest.approx(20.0)
    assert work.words() == "Scheduling: 75%, about 20 s left in this step"
    # Another step has no estimate before it has a share, and counts from its beginning.
    work.begin("Writing")
    assert work.left() is None and work.share is None
    clock.at(65.0)
    work.advance(0.5)
    assert work.left() == pytest.approx(5.0) and "a few seconds left" in work.words()


@pytest.mark.parametrize(
    ("seconds", "share"), [(1.0, 0.5), (100.0, 0.0), (100.0, 0.01), (100.0, 1.0)]
)
def test_too_little_is_known_for_an_estimate(clock: Clock, seconds: float, share: float) -> None:
    work = progress.Work(clock.monotonic)
    clock.at(seconds)
    work.advance(share)
    assert work.left() is None and "left" not in work.words()


def test_a_line_of_the_same_step_keeps_its_share_and_its_beginning(clock: Clock) -> None:
    work = progress.Work(clock.monotonic)
    work.begin("Mapping")
    clock.at(20.0)
    work.advance(0.5)
    clock.at(30.0)
    work.begin("Mapping: flip-flops")
    assert work.words() == "Mapping: flip-flops: 50%, about 10 s left in this step"
    work.begin("Mapping: LUTs")
    assert work.words() == "Mapping: LUTs: 50%, about 10 s left in this step"
    # A step of another name is a new one, and the same name alone begins again.
    work.begin("Mapping LUTs: some")
    assert work.share is None
    work.advance(0.5)
    work.begin("Mapping LUTs")
    assert work.share is None


def test_time_left_runs_down_between_two_shares_and_ends_unsaid(clock: Clock) -> None:
    work = progress.Work(clock.monotonic)
    work.begin("Mapping")
    clock.at(40.0)
    work.advance(0.5)
    clock.at(60.0)
    assert work.left() == pytest.approx(20.0)
    clock.at(80.0)  # it should be over: the estimate was wrong
    assert work.left() is None and work.words() == "Mapping: 50%"


def test_a_step_that_knows_no_share_says_how_long_it_has_taken(clock: Clock) -> None:
    work = progress.Work(clock.monotonic)
    work.begin("Tracing")
    clock.at(30.0)
    assert work.words() == "Tracing"  # as long as all of the work
    work.begin("Scheduling")
    clock.at(39.0)
    assert work.words() == "Scheduling"
    clock.at(45.0)
    assert work.words() == "Scheduling, for 15 s"


def test_a_share_stays_between_none_and_all(clock: Clock) -> None:
    work = progress.Work(clock.monotonic, whole=True)
    work.advance(1.5)
    assert work.share == 1.0
    work.advance(-0.5)
    assert work.share == 0.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "a few seconds"), (9.9, "a few seconds"), (14.0, "about 10 s"), (94.0, "about 90 s")]
    + [(95.0, "about 2 min"), (3000.0, "about 50 min"), (7000.0, "about 2 h")],
)
def test_estimates_are_round(seconds: float, words: str) -> None:
    assert progress.about(seconds) == words


# -- a pipe


def test_a_pipe_gets_a_line_every_ten_seconds(
    clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    with progress.steps() as report:
        report.step("Tracing")
        for seconds, share in ((4.0, 0.5), (9.9, 0.7), (12.0, 0.8), (13.0, 0.9), (21.9, 1.0)):
            clock.at(seconds)
            report.advance(share)
        report.step("Scheduling")
        for seconds, share in ((31.0, 0.1), (32.0, 0.234), (41.0, 0.5), (42.0, 0.6)):
            clock.at(seconds)
            report.advance(share)
        report.step("Writing")
    printed = capfd.readouterr()
    assert printed.out == "" and PROGRESS.sub("", printed.err) == ""
    assert [line.split(" s  ", 1) for line in printed.err.splitlines()] == [
        ["   12", "Tracing: 80%, a few seconds left in this step"],
        ["   31", "Scheduling: 10%, about 80 s left in this step"],
        ["   41", "Scheduling: 50%, about 20 s left in this step"],
    ]


def test_a_pipe_hears_how_many_are_done(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    with progress.counted("Exploring", total=3) as advance:
        advance(1)
        clock.now += 70.0
        advance(1)
    assert capfd.readouterr() == ("", "   70 s  Exploring: 2 of 3: 67%, about 40 s left\n")


def test_a_pipe_is_told_of_work_that_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A tool that runs for a minute reports nothing: a thread watches the clock."""
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with progress.steps():
        printed = ""
        while "Starting\n" not in printed:  # not a time: it ends when the line is there
            printed += capfd.readouterr().err
    # A part of the next line may be there.
    assert PROGRESS.sub("", printed[: printed.rindex("\n") + 1]) == ""


def test_short_jobs_are_silent(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    with progress.steps() as report:
        report.step("Tracing")
        clock.at(9.0)
        report.advance(0.5)
    assert capfd.readouterr() == ("", "")


def test_a_terminal_gets_step_percent_and_time_left(tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text(
        "from types import SimpleNamespace\n"
        "from pinion.console import progress\n"
        "now = [0.0]\n"
        "progress.time = SimpleNamespace(monotonic=lambda: now[0])\n"
        "with progress.steps() as report:\n"
        "    report.step('Scheduling [bold]')\n"
        "    now[0] = 60.0\n"
        "    report.advance(0.25)\n"
    )
    code, printed = on_a_terminal(before=f"exec(open({str(script)!r}).read()); raise SystemExit")
    assert code == 0, printed
    assert "Scheduling [bold]: 25%, about 3 min left in this step" in printed


def drawn(work: progress.Work, width: int) -> str:
    """Return the text that a terminal shows, without styles."""
    console = Console(file=StringIO(), width=width, color_system=None, force_terminal=True)
    columns = (progress._Words(work), BarColumn(bar_width=progress._BAR), TimeElapsedColumn())
    display = Display(*columns, console=console)
    display.add_task("", total=1.0)
    with console.capture() as captured:
        console.print(display.get_renderable())
    return captured.get()


def test_a_terminal_is_told_anew_without_an_event(clock: Clock) -> None:
    work = progress.Work(clock.monotonic)
    work.begin("Mapping [bold]")
    clock.at(20.0)
    work.advance(0.5)
    assert drawn(work, 120).startswith("Mapping [bold]: 50%, about 20 s left in this step ")
    clock.at(30.0)
    assert drawn(work, 120).startswith("Mapping [bold]: 50%, about 10 s left in this step ")


@pytest.mark.parametrize("width", [20, 60, 80, 100, 140])
def test_a_line_stays_one_however_narrow_a_terminal_is(width: int, clock: Clock) -> None:
    work = progress.Work(clock.monotonic)
    work.begin("Synthesising: mapping logic (Yosys pass 3.40.2, ABC), module 12 of 200")
    clock.at(20.0)
    work.advance(0.5)
    line = drawn(work, width)
    assert line.count("\n") == 1 and len(line.rstrip("\n")) <= width
    # Words are cut, figures last.
    if width >= 80:
        assert ": 50%, about 20 s left in this step " in line
    assert ("module 12 of 200" in line) == (width >= 140)
    assert ("..." in line) == (width < 140)


# -- every verb


def test_a_build_says_how_far_it_is_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with pytest.raises(SystemExit) as left:
        main(["build", "pendulum", "rnea", "--ii", "2", "-o", str(tmp_path / "core"), "--json"])
    printed = capfd.readouterr()
    assert left.value.code == 0 and json.loads(printed.out)["ii"] == 2
    assert PROGRESS.sub("", printed.err) == ""
    steps = ["Loading", "Tracing", "Removing", "Scheduling", "Bounding", "Writing"]
    places = [printed.err.index(f" s  {step}") for step in steps]
    assert places == sorted(places)
    assert "Scheduling at one result every 2 cycles: 100%" in printed.err


def without_quiet(verbs: typer.Typer) -> set[str]:
    """Verbs that have no option ``--quiet``."""
    group: Any = typer.main.get_command(verbs)
    return {
        name
        for name, command in group.commands.items()
        if "--quiet" not in {option for p in command.params for option in p.opts}
    }


def test_every_verb_can_be_quiet_or_says_why_not() -> None:
    assert without_quiet(app) == SHORT.keys()
    assert all(reason for _, reason in SHORT.values())
    verb_app = typer.Typer()
    verb_app.command("mute")(lambda: None)
    verb_app.command("loud")(progress.speaking(lambda: None))
    assert without_quiet(verb_app) == {"mute"}


# Arguments of each verb, and the function in which its work begins.
WORK: dict[str, tuple[tuple[str, ...], str]] = {
    "build": (("two_link", "rnea", "-o", "NEW"), "pinion.flow:build"),
    "verify": (("BUILT",), "pinion.cosim.bound:verify_bounded"),
    "verify netlist": (("BUILT", "--netlist"), "pinion.cosim.netlist:check_netlist"),
    "verify promises": (("BUILT", "--promises"), "pinion.cosim.promises:check_promises"),
    "synth": (("BUILT",), "pinion.synthesis:synth"),
    "run": (("BUILT", "--input", "IN.npz", "--output", "OUT.npz"), "pinion.driver:open"),
    "bench core": (("core",), "pinion.bench.core.measure:row"),
    "bench functions": (("functions",), "pinion.bench.functions.measure:function_row"),
    "bench link": (("link", "BUILT"), "pinion.driver:open"),
    "bench cpu": (("cpu", "two_link", "rnea"), "pinion.bench.cpu.measure:measured"),
    "bench cpu parameters": (
        ("cpu", "two_link", "rnea", "--parameters"),
        "pinion.bench.cpu.parameters:measured",
    ),
    "bench cuda": (("cuda", "two_link", "rnea"), "pinion.bench.cuda.measure:measured"),
    "bench cuda partitions": (
        ("cuda", "two_link", "--partitions"),
        "pinion.bench.partitions.measure:partition_times",
    ),
    "bench compare": (
        ("compare", "two_link", "rnea", "-o", "NEW"),
        "pinion.bench.batches.measure:Collected.processor",
    ),
    "bench scaling": (
        ("scaling", "--largest", "10", "-o", "NEW"),
        "pinion.chains.kernels.experiments:measured",
    ),
    "bench mpc": (("mpc", "cpu64", "-o", "NEW"), "pinion.bench.mpc.comparison:compare"),
    "explore": (("two_link", "rnea", "-o", "NEW"), "pinion.cosim.explore:explore"),
    "campaign": (
        ("BUILT", "--states", "10", "-o", "NEW.sqlite"),
        "pinion.campaign:campaign",
    ),
    "program": (("two_link", "rnea"), "pinion.processor:compile_program"),
    "processor": (("-o", "NEW"), "pinion.boards.ecp5.processor:processor_bitstream"),
    "batch": (
        ("two_link", "rnea", "--states", "10", "-o", "NEW.sqlite"),
        "pinion.campaign:batch",
    ),
    "report": (("BUILT", "-o", "NEW.html"), "pinion.api.pages:write_report"),
    "card": (("BUILT",), "pinion.card.stand_in:StandIn"),
    "bitstream": (("BUILT",), "pinion.flow.bitstreams:make_bitstream"),
    "export": (("BUILT", "-o", "NEW"), "pinion.cosim.vectors:export_core"),
    "export cpu": (
        ("two_link", "rnea", "--cpu", "-o", "NEW"),
        "pinion.compute.export:export_library",
    ),
    "export cuda": (
        ("two_link", "rnea", "--cuda", "-o", "NEW"),
        "pinion.compute.cuda.export:export_header",
    ),
    "export controller": (
        ("two_link", "--controller", TASK, "-o", "NEW"),
        "pinion.control.track.export:export_controller",
    ),
    "demo": (("--folder", "NEW", "--json"), "pinion.cli.demo:one"),
    "demo mpc": (("mpc", "--folder", "NEW", "--json"), "pinion.bench.mpc.comparison:compare"),
}


def halfway(*arguments: Any, **named: Any) -> Any:
    """Stand-in for the work of a verb: report a step, and refuse the rest."""
    for listener in (named.get("progress"), *arguments):
        if isinstance(listener, Progress):
            listener.step("Halfway")
    raise BuildError("Enough.")


def test_the_work_of_every_verb_is_known() -> None:
    assert {name.partition(" ")[0] for name in WORK} == SPEAKING.keys()
    measured = {arguments[0] for name, (arguments, _) in WORK.items() if name.startswith("bench")}
    assert measured == set(bench.HERE)


@pytest.mark.parametrize("name", WORK)
def test_a_verb_speaks_unless_it_is_asked_to_be_quiet(
    name: str,
    built: Built,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    arguments, work = WORK[name]
    monkeypatch.chdir(tmp_path)
    zeros = np.zeros((3, 2))
    np.savez("IN.npz", q=zeros, qd=zeros, qdd=zeros)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    module, _, place = work.partition(":")  # packages have functions with the names of modules
    owner, _, attribute = place.rpartition(".")
    holder: Any = import_module(module)
    monkeypatch.setattr(getattr(holder, owner) if owner else holder, attribute, halfway)
    if name == "bench cuda":  # a machine without a GPU stops earlier
        monkeypatch.setattr("pinion.bench.cuda.measure.cuda.open_gpu", lambda *arguments: None)
        monkeypatch.setattr("pinion.bench.cuda.measure.measured_limits", lambda device: None)
    words = [str(built.folder) if word == "BUILT" else word for word in arguments]
    outputs = {}
    for quiet in ([], ["--quiet"]):
        with pytest.raises(SystemExit) as left:
            main([name.partition(" ")[0], *words, *quiet])
        assert left.value.code == 2
        outputs[bool(quiet)] = capfd.readouterr().err
    assert PROGRESS.search(outputs[False]), outputs[False]
    assert outputs[True] == "Enough.\n"
    assert PROGRESS.sub("", outputs[False]) == "Enough.\n"
