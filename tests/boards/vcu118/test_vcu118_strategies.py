"""Strategies in turn: the first that meets timing or the best one, despite failures and crashes."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pinion.base.progress import Progress
from pinion.boards.xilinx.board import load_board
from pinion.boards.xilinx.floorplan import dies, dies_xdc
from pinion.boards.xilinx.run import VivadoError, run_vivado
from pinion.boards.xilinx.script import (
    ATTEMPTS,
    BUILD_TCL,
    CORE_TCL,
    FAILED,
    MISSED,
    OUT,
    RESULT,
    build_tcl,
)
from pinion.boards.xilinx.strategies import STRATEGIES
from pinion.boards.xilinx.xdma import configuration
from tests.boards.vcu118.stub import core_rtlil
from tests.support.vivado.rehearse import DesignFacts, Rehearsal, rehearse

MHZ = 200.0
ONE_DIE = [strategy for strategy in STRATEGIES if not strategy.dies]
NAMES = [strategy.name for strategy in ONE_DIE]
GOOD, BAD = (0.05, 0.01), (-0.3, 0.01)

Run = Callable[..., Rehearsal]


@pytest.fixture
def run(make_folder: Any, design: DesignFacts, tclsh: str, tmp_path: Path) -> Run:
    """Rehearse the board's script in a folder that stays for a second run."""
    script = make_folder("vcu118", MHZ).path / BUILD_TCL

    def rehearsed(**changes: Any) -> Rehearsal:
        return rehearse(script, **{"design": design, "tclsh": tclsh, "work": tmp_path, **changes})

    return rehearsed


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "vcu118" / OUT


def calls(rehearsal: Rehearsal, *names: str) -> list[tuple[str, ...]]:
    """Return calls of some commands, in order, with their arguments except paths."""
    return [
        (entry[0], *(word for word in entry[1].split() if "/" not in word))
        for entry in rehearsal.of("call")
        if entry[0] in names
    ]


def outcomes(out: Path) -> dict[str, str]:
    """Return the recorded outcome of each strategy tried."""
    return dict(line.split(" ", 1) for line in (out / ATTEMPTS).read_text().splitlines())


def test_the_first_that_meets_timing_ends_it(run: Run, out: Path) -> None:
    rehearsal = run(slacks=[BAD, (-0.1, 0.01), GOOD])
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    assert list(outcomes(out)) == NAMES[:3]
    assert [text.split(",")[0] for text in outcomes(out).values()] == ["missed", "missed", "met"]
    assert f"strategy {NAMES[2]}" in (out / RESULT).read_text()
    # Synthesised once; the second and third start from the same netlist as the first.
    assert len(calls(rehearsal, "synth_design", "synth_ip")) == 2
    assert len(calls(rehearsal, "open_checkpoint")) == 2
    checkpoints = sorted(path.parent.name for path in out.glob("attempts/*/route.dcp"))
    assert checkpoints == sorted(NAMES[:3])
    assert (out / "start_Default.dcp").is_file() and not list(out.rglob("*part*"))


def test_each_strategy_gives_each_step_its_directive(run: Run) -> None:
    rehearsal = run(slacks=[BAD])
    assert (rehearsal.code, rehearsal.refused) == (MISSED, ()), rehearsal.output
    steps = ("place_design", "phys_opt_design", "route_design")
    expected: list[tuple[str, ...]] = []
    for strategy in ONE_DIE:
        words = (strategy.place, strategy.phys_opt, strategy.route)
        expected += [(step, "-directive", word) for step, word in zip(steps, words, strict=True)]
        expected.append(("phys_opt_design", "-directive", "AggressiveExplore"))
    assert calls(rehearsal, *steps) == expected
    opts = [strategy.opt for strategy in ONE_DIE if strategy.opt != "Default"]
    # Two netlists, each optimised once before any strategy.
    assert sorted(calls(rehearsal, "opt_design")) == sorted(
        [("opt_design",)] * 2 + [("opt_design", "-directive", word) for word in opts]
    )
    synthesised = [call[call.index("-directive") + 1] for call in calls(rehearsal, "synth_design")]
    assert synthesised == ["Default", "AlternateRoutability"]
    assert all("-keep_equivalent_registers" in call for call in calls(rehearsal, "synth_design"))
    # Tightened and relaxed once, only for the core's clock.
    assert rehearsal.of("margin") == [("core_clock_buffer/O", "0.2"), ("core_clock_buffer/O", "0")]


def test_explicit_blocks_are_a_macro_of_the_synthesis_and_another_build(
    run: Run, out: Path
) -> None:
    rehearsal = run(slacks=[GOOD], arguments=["dsp48e2"])
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    (call,) = calls(rehearsal, "synth_design")
    assert call[call.index("-verilog_define") + 1] == "PINION_DSP48E2"
    assert "-keep_equivalent_registers" in call and "explicit DSP48E2 blocks" in rehearsal.output
    # All strategies remain, and its files are not reused for the other form.
    assert list(outcomes(out)) == NAMES[:1]
    inferred = run(slacks=[GOOD])
    (call,) = calls(inferred, "synth_design")
    assert "-verilog_define" not in call and "continuing" not in inferred.output


def test_if_none_meets_timing_the_best_is_reported(run: Run, out: Path) -> None:
    # The third misses setup least; the fifth meets it, but misses hold, which no clock helps.
    slacks = [(-0.3, 0.01), (-0.2, 0.01), (-0.1, 0.01), (-0.4, 0.01), (0.2, -0.01), (-0.5, 0.01)]
    rehearsal = run(slacks=slacks)
    assert (rehearsal.code, rehearsal.refused) == (MISSED, ()), rehearsal.output
    assert list(outcomes(out)) == NAMES
    written = dict(line.split(" ", 1) for line in (out / RESULT).read_text().splitlines())
    assert (written["strategy"], written["setup_slack_ns"]) == (NAMES[2], "-0.1")
    # The report is of the best netlist, not of the last.
    assert "(strategy blocks)" in rehearsal.output and NAMES[2] == "blocks"
    assert (
        calls(rehearsal, "phys_opt_design").count(
            ("phys_opt_design", "-directive", "ExploreWithAggressiveHoldFix")
        )
        == 1
    )
    assert not (out / "pinion.bit").exists()


@pytest.mark.parametrize("step", ["place_design", "route_design", "write_checkpoint"])
def test_a_failure_of_one_strategy_goes_on_to_the_next(run: Run, out: Path, step: str) -> None:
    at = 2 if step == "write_checkpoint" else 1  # the first one saves the netlist
    rehearsal = run(faults=[(step, at, "fails")])
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    first, second = outcomes(out).values()
    assert first.startswith("failed (ERROR: [Common 17-49]") and "{ brace" in first
    assert second.startswith("met")
    assert not (out / "attempts" / NAMES[0] / "route.dcp").exists()
    # The next run tries it again: disk space or the licence may be available.
    (out / "attempts" / NAMES[1] / "result.txt").unlink()
    second_run = run()
    assert second_run.code == 0 and list(outcomes(out)) == NAMES[:1]


def test_a_strategy_that_leaves_wires_unrouted_has_failed(run: Run, out: Path) -> None:
    rehearsal = run(slacks=[GOOD], faults=[("route_design", 1, "unrouted")])
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    first, second = outcomes(out).values()
    assert first == "failed (some nets are not routed)"
    assert second.startswith("met")


def test_if_every_strategy_fails_the_reason_is_reported(run: Run, out: Path) -> None:
    rehearsal = run(faults=[("place_design", k + 1, "fails") for k in range(len(STRATEGIES))])
    assert (rehearsal.code, rehearsal.refused) == (FAILED, ())
    assert "no strategy finished: ERROR: [Common 17-49] place_design failed" in rehearsal.output
    assert not (out / RESULT).exists()


def test_a_failure_before_strategies_ends_it_at_once(run: Run) -> None:
    rehearsal = run(faults=[("synth_design", 1, "fails")])
    assert rehearsal.code == FAILED
    assert len(calls(rehearsal, "synth_design")) == 1 and not calls(rehearsal, "place_design")


def test_a_crashed_run_is_continued(run: Run, out: Path) -> None:
    died = run(slacks=[BAD], faults=[("route_design", 2, "dies")])
    assert died.code == 139
    assert list(outcomes(out)) == NAMES[:1]
    rehearsal = run(slacks=[GOOD])
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    assert "continuing" in rehearsal.output
    assert not calls(rehearsal, "synth_design", "synth_ip", "create_project")
    assert len(calls(rehearsal, "place_design")) == 1
    assert [text.split(",")[0] for text in outcomes(out).values()] == ["missed", "met"]


def test_a_strategy_that_crashes_vivado_is_skipped(run: Run, out: Path) -> None:
    for _ in range(2):
        assert run(slacks=[GOOD], faults=[("route_design", 1, "dies")]).code == 139
    rehearsal = run(slacks=[GOOD])
    assert rehearsal.code == 0, rehearsal.output
    assert outcomes(out)[NAMES[0]].startswith("died")
    assert list(outcomes(out)) == NAMES[:2]


def test_a_finished_run_is_not_done_again(run: Run, out: Path) -> None:
    run(slacks=[BAD, GOOD])
    (out / "pinion.bit").unlink()
    rehearsal = run(slacks=[GOOD])
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    assert not calls(rehearsal, "synth_design", "place_design", "route_design")
    assert len(calls(rehearsal, "open_checkpoint")) == 1 and (out / "pinion.bit").exists()


@pytest.mark.parametrize("file", ["vcu118.xdc", "vcu118_timing.xdc", BUILD_TCL, "pinion_board.v"])
def test_a_changed_file_begins_anew(run: Run, out: Path, file: str) -> None:
    run(slacks=[BAD])
    text = (out.parent / file).read_text()
    (out.parent / file).write_text(text + ("// more\n" if file.endswith(".v") else "# more\n"))
    rehearsal = run(slacks=[GOOD])
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    assert len(calls(rehearsal, "synth_design")) == 1 and list(outcomes(out)) == NAMES[:1]
    assert not (out / "attempts" / NAMES[1]).exists()


def test_strategies_can_be_asked_for_by_name(run: Run, out: Path) -> None:
    rehearsal = run(slacks=[BAD], arguments=["margin", "retime"])
    assert rehearsal.code == MISSED
    assert list(outcomes(out)) == ["margin", "retime"]
    wrong = run(arguments=["magic"])
    assert wrong.code == FAILED and "no strategy 'magic'" in wrong.output


@pytest.mark.parametrize(
    ("luts", "dsp", "several"),
    [(236_448, 1368, False), (236_449, 10, True), (10, 1369, True)],
)
def test_a_die_that_would_be_too_full_is_not_used_alone(
    run: Run, design: DesignFacts, luts: int, dsp: int, several: bool
) -> None:
    large = dataclasses.replace(design, luts=luts, dsp=dsp)
    rehearsal = run(design=large, slacks=[BAD])
    assert (rehearsal.code, rehearsal.refused) == (MISSED, ()), rehearsal.output
    places = [entry[2] for entry in calls(rehearsal, "place_design")]
    assert ("SSI_SpreadSLLs" in places) == several
    both = [
        ("pblock_pinion", "cell:pinion"),
        ("pblock_pinion_core", "cell:pinion/core"),
    ]
    once = both if several else both[:1]
    # Each of the two netlists is constrained.
    assert rehearsal.of("placed") == once * 2
    assert {die for _, die in rehearsal.of("region")} == ({"SLR1", "SLR2"} if several else {"SLR1"})


def test_the_floorplan_can_be_asked_for(run: Run, design: DesignFacts, out: Path) -> None:
    rehearsal = run(arguments=["dies"])
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    assert len(rehearsal.of("placed")) == 2
    # Another floorplan needs another netlist: none of the first is reused.
    large = dataclasses.replace(design, luts=1_000_000)
    one_die = run(design=large, arguments=["die"])
    assert one_die.code == 0 and len(one_die.of("placed")) == 1
    assert len(calls(one_die, "synth_design")) == 1


def test_the_core_alone_takes_a_strategy(make_folder: Any, tclsh: str) -> None:
    core = DesignFacts(
        ports=("clk",), cells=("datapath",), pins={}, tops=("pinion_core",), synchronisers=0
    )
    script = make_folder("vcu118", MHZ).path / CORE_TCL
    rehearsal = rehearse(script, design=core, tclsh=tclsh, arguments=["300", "margin"])
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    assert rehearsal.of("clock") == [("clk", "3.333")]
    assert rehearsal.of("margin") == [("core", "0.2"), ("core", "0")]
    assert calls(rehearsal, "place_design") == [("place_design", "-directive", "ExtraTimingOpt")]


# -- data -----------------------------------------------------------------------------------------


def test_strategies_differ_and_say_why() -> None:
    assert len({strategy.name for strategy in STRATEGIES}) == len(STRATEGIES)
    ways = {(s.synth, s.opt, s.place, s.phys_opt, s.route, s.margin_ns) for s in STRATEGIES}
    assert len(ways) == len(STRATEGIES)
    assert all(len(strategy.reason) > 20 for strategy in STRATEGIES)
    # Strategies for several dies are not first, because most designs fit one.
    assert not STRATEGIES[0].dies and 0 < sum(strategy.dies for strategy in STRATEGIES) < 4


def test_the_page_has_a_row_for_each_strategy() -> None:
    page = (Path(__file__).parents[3] / "docs" / "vcu118.md").read_text()
    rows = [line.split("|")[1:6] for line in page.splitlines() if line.startswith("| `")]
    cells = {row[0].split("`")[1]: [cell.strip() for cell in row[1:]] for row in rows}
    directives = {s.name: [s.opt, s.place, s.phys_opt, s.route] for s in STRATEGIES}
    order = [name for name in cells if name in directives]
    assert order == list(directives)
    for name, words in directives.items():
        assert cells[name] == ["" if word == "Default" else word for word in words], name


@pytest.mark.parametrize(
    ("dsp", "expected"),
    [
        (0, ("SLR1", "SLR2")),
        (2736, ("SLR1", "SLR2")),
        (2737, ("SLR0", "SLR1", "SLR2")),
        (100_000, ("SLR0", "SLR1", "SLR2")),
    ],
)
def test_dies_are_neighbours_of_the_links(dsp: int, expected: tuple[str, ...]) -> None:
    assert dies(load_board("vcu118"), dsp) == expected
    assert dies(load_board("u250"), 5000) == ("SLR0", "SLR1", "SLR2")


def test_a_design_over_several_dies_has_one_block_for_its_core() -> None:
    text = dies_xdc(load_board("vcu118"), core_rtlil())
    assert "[get_cells {pinion/core}]" in text and "link1" not in text


@pytest.mark.parametrize(
    "name",
    [
        "}\nexec touch /tmp/never\nset x {",
        "back\\",
        '[exit 7] $env(HOME) "',
        "@RESULT@ @OUT@",
        "{{{",
        "\r\x0b\u2028exit 7",
    ],
)
def test_hostile_names_of_robots_stay_in_their_comment(
    make_folder: Any, design: DesignFacts, tclsh: str, tmp_path: Path, name: str
) -> None:
    folder = make_folder("vcu118", MHZ)
    path = tmp_path / "vcu118"
    shutil.copytree(folder.path, path)
    record = dataclasses.replace(folder.manifest, robot=name, function=name)
    text = build_tcl(folder.board, record, folder.core_clock, synchronisers=2)
    (path / BUILD_TCL).write_text(text)
    plain = (folder.path / BUILD_TCL).read_text()
    assert len(text.splitlines()) == len(plain.splitlines())
    rehearsal = rehearse(path / BUILD_TCL, design=design, tclsh=tclsh)
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    assert set(configuration(folder.board)) <= {entry[2] for entry in rehearsal.of("set")}


# -- the program around it ------------------------------------------------------------------------


def dying(folder: Path, *, deaths: int, code: int, marks: bool) -> Path:
    """Write a program that crashes `deaths` times, within a strategy or not, and then succeeds."""
    program = folder / "vivado"
    program.write_text(
        f"""#!/bin/sh
echo x >> starts
if [ $(wc -l < starts) -le {deaths} ]; then
    mkdir -p out/attempts/default
    {"printf x >> out/attempts/default/begun" if marks else "true"}
    exit {code}
fi
mkdir -p out
echo "default met" > out/attempts.txt
printf '%s\\n' "build $(cat hash)" "part p" "vivado v" "met 1" "strategy default" \\
    "setup_slack_ns 0.1" "hold_slack_ns 0.1" "core_mhz 200" "link_mhz 250" > out/result.txt
"""
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("code", [139, 1])
def test_vivado_is_restarted_after_a_crash(make_folder: Any, copied: Any, code: int) -> None:
    folder = make_folder("vcu118", MHZ)
    path: Path = copied(folder)
    (path / "hash").write_text(f"{folder.manifest.hash:016x}")
    program = dying(path, deaths=2, code=code, marks=True)
    steps: list[str] = []
    result = run_vivado(
        path.parent, folder.manifest, vivado=str(program), progress=Progress(steps.append)
    )
    assert result["met"] and result["attempts"] == ["default met"]
    assert len(steps) == 2 and f"exited with code {code}" in steps[0]
    assert (path / "starts").read_text() == "x\n" * 3


def test_vivado_is_not_restarted_outside_a_strategy(make_folder: Any, copied: Any) -> None:
    folder = make_folder("vcu118", MHZ)
    path: Path = copied(folder)
    (path / OUT).mkdir(exist_ok=True)
    # The result of an earlier run must not count as this one's.
    (path / OUT / RESULT).write_text(f"build {folder.manifest.hash:016x}\nmet 1\n")
    program = dying(path, deaths=9, code=139, marks=False)
    with pytest.raises(VivadoError, match="exited with code 139"):
        run_vivado(path.parent, folder.manifest, vivado=str(program))
    assert (path / "starts").read_text() == "x\n"
    assert not (path / OUT / RESULT).exists()
