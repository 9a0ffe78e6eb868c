"""Strategies in turn: the first that meets timing, or the best, through failures and deaths."""

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
from tests.support.vivado.check import read_design
from tests.support.vivado.rehearse import DesignFacts, Rehearsal, rehearse

MHZ = 200.0
ONE_DIE = [one for one in STRATEGIES if not one.dies]
NAMES = [one.name for one in ONE_DIE]
GOOD, BAD = (0.05, 0.01), (-0.3, 0.01)

Run = Callable[..., Rehearsal]


@pytest.fixture(scope="module")
def design(make_folder: Any) -> DesignFacts:
    folder = make_folder("vcu118", MHZ)
    return read_design(folder.path, board=folder.board, core_clock=folder.core_clock)


@pytest.fixture
def run(make_folder: Any, design: DesignFacts, tclsh: str, tmp_path: Path) -> Run:
    """Rehearses the board's script in a folder that stays, for a second run."""
    script = make_folder("vcu118", MHZ).path / BUILD_TCL

    def rehearsed(**changes: Any) -> Rehearsal:
        return rehearse(script, **{"design": design, "tclsh": tclsh, "work": tmp_path, **changes})

    return rehearsed


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "vcu118" / OUT


def calls(came: Rehearsal, *names: str) -> list[tuple[str, ...]]:
    """Calls of some commands, in their order, with their arguments but for paths."""
    return [
        (entry[0], *(word for word in entry[1].split() if "/" not in word))
        for entry in came.of("call")
        if entry[0] in names
    ]


def outcomes(out: Path) -> dict[str, str]:
    """What is written of each strategy that was tried."""
    return dict(line.split(" ", 1) for line in (out / ATTEMPTS).read_text().splitlines())


def test_the_first_that_meets_timing_ends_it(run: Run, out: Path) -> None:
    came = run(slacks=[BAD, (-0.1, 0.01), GOOD])
    assert (came.code, came.refused) == (0, ()), came.output
    assert list(outcomes(out)) == NAMES[:3]
    assert [text.split(",")[0] for text in outcomes(out).values()] == ["missed", "missed", "met"]
    assert f"strategy {NAMES[2]}" in (out / RESULT).read_text()
    # Synthesised once; the second and third begin with what the first began with.
    assert len(calls(came, "synth_design", "synth_ip")) == 2
    assert len(calls(came, "open_checkpoint")) == 2
    kept = sorted(path.parent.name for path in out.glob("attempts/*/route.dcp"))
    assert kept == sorted(NAMES[:3])
    assert (out / "start_Default.dcp").is_file() and not list(out.rglob("*part*"))


def test_each_strategy_gives_each_step_its_directive(run: Run) -> None:
    came = run(slacks=[BAD])
    assert (came.code, came.refused) == (MISSED, ()), came.output
    steps = ("place_design", "phys_opt_design", "route_design")
    wanted: list[tuple[str, ...]] = []
    for one in ONE_DIE:
        words = (one.place, one.phys_opt, one.route)
        wanted += [(step, "-directive", word) for step, word in zip(steps, words, strict=True)]
        wanted.append(("phys_opt_design", "-directive", "AggressiveExplore"))
    assert calls(came, *steps) == wanted
    opts = [one.opt for one in ONE_DIE if one.opt != "Default"]
    # Two netlists, each optimised once before any strategy.
    assert sorted(calls(came, "opt_design")) == sorted(
        [("opt_design",)] * 2 + [("opt_design", "-directive", word) for word in opts]
    )
    synthesised = [call[call.index("-directive") + 1] for call in calls(came, "synth_design")]
    assert synthesised == ["Default", "AlternateRoutability"]
    assert all("-keep_equivalent_registers" in call for call in calls(came, "synth_design"))
    # Tightened and loosened once, on the core's clock alone.
    assert came.of("margin") == [("core_clock_buffer/O", "0.2"), ("core_clock_buffer/O", "0")]


def test_explicit_blocks_are_a_macro_of_the_synthesis_and_another_build(
    run: Run, out: Path
) -> None:
    came = run(slacks=[GOOD], arguments=["dsp48e2"])
    assert (came.code, came.refused) == (0, ()), came.output
    (call,) = calls(came, "synth_design")
    assert call[call.index("-verilog_define") + 1] == "PINION_DSP48E2"
    assert "-keep_equivalent_registers" in call and "explicit DSP48E2 blocks" in came.output
    # All strategies stay, and what it left is not taken up for the other form.
    assert list(outcomes(out)) == NAMES[:1]
    inferred = run(slacks=[GOOD])
    (call,) = calls(inferred, "synth_design")
    assert "-verilog_define" not in call and "taking up" not in inferred.output


def test_none_meets_timing_and_the_best_is_kept(run: Run, out: Path) -> None:
    # The third has the least setup to miss; the fifth none, but a hold that no clock can help.
    slacks = [(-0.3, 0.01), (-0.2, 0.01), (-0.1, 0.01), (-0.4, 0.01), (0.2, -0.01), (-0.5, 0.01)]
    came = run(slacks=slacks)
    assert (came.code, came.refused) == (MISSED, ()), came.output
    assert list(outcomes(out)) == NAMES
    written = dict(line.split(" ", 1) for line in (out / RESULT).read_text().splitlines())
    assert (written["strategy"], written["setup_slack_ns"]) == (NAMES[2], "-0.1")
    # What is reported is the best one's netlist, not the last one's.
    assert "(strategy blocks)" in came.output and NAMES[2] == "blocks"
    assert (
        calls(came, "phys_opt_design").count(
            ("phys_opt_design", "-directive", "ExploreWithAggressiveHoldFix")
        )
        == 1
    )
    assert not (out / "pinion.bit").exists()


@pytest.mark.parametrize("step", ["place_design", "route_design", "write_checkpoint"])
def test_a_failure_of_one_strategy_goes_on_to_the_next(run: Run, out: Path, step: str) -> None:
    at = 2 if step == "write_checkpoint" else 1  # its first is that of the netlist
    came = run(faults=[(step, at, "fails")])
    assert (came.code, came.refused) == (0, ()), came.output
    first, second = outcomes(out).values()
    assert first.startswith("failed (ERROR: [Common 17-49]") and "{ brace" in first
    assert second.startswith("met")
    assert not (out / "attempts" / NAMES[0] / "route.dcp").exists()
    # It is tried again by the next run: the disk may have room, the licence be back.
    (out / "attempts" / NAMES[1] / "result.txt").unlink()
    again = run()
    assert again.code == 0 and list(outcomes(out)) == NAMES[:1]


def test_a_strategy_that_leaves_wires_unrouted_has_failed(run: Run, out: Path) -> None:
    came = run(slacks=[GOOD], faults=[("route_design", 1, "unrouted")])
    assert (came.code, came.refused) == (0, ()), came.output
    first, second = outcomes(out).values()
    assert first == "failed (wires are left that are not routed)"
    assert second.startswith("met")


def test_where_every_strategy_fails_the_reason_is_told(run: Run, out: Path) -> None:
    came = run(faults=[("place_design", k + 1, "fails") for k in range(len(STRATEGIES))])
    assert (came.code, came.refused) == (FAILED, ())
    assert "no strategy came to its end: ERROR: [Common 17-49] place_design failed" in came.output
    assert not (out / RESULT).exists()


def test_a_failure_before_strategies_ends_it_at_once(run: Run) -> None:
    came = run(faults=[("synth_design", 1, "fails")])
    assert came.code == FAILED
    assert len(calls(came, "synth_design")) == 1 and not calls(came, "place_design")


def test_a_run_that_died_is_taken_up(run: Run, out: Path) -> None:
    died = run(slacks=[BAD], faults=[("route_design", 2, "dies")])
    assert died.code == 139
    assert list(outcomes(out)) == NAMES[:1]
    came = run(slacks=[GOOD])
    assert (came.code, came.refused) == (0, ()), came.output
    assert "taking up" in came.output
    assert not calls(came, "synth_design", "synth_ip", "create_project")
    assert len(calls(came, "place_design")) == 1
    assert [text.split(",")[0] for text in outcomes(out).values()] == ["missed", "met"]


def test_a_strategy_that_vivado_dies_of_is_passed_over(run: Run, out: Path) -> None:
    for _ in range(2):
        assert run(slacks=[GOOD], faults=[("route_design", 1, "dies")]).code == 139
    came = run(slacks=[GOOD])
    assert came.code == 0, came.output
    assert outcomes(out)[NAMES[0]].startswith("died")
    assert list(outcomes(out)) == NAMES[:2]


def test_a_finished_run_is_not_done_again(run: Run, out: Path) -> None:
    run(slacks=[BAD, GOOD])
    (out / "pinion.bit").unlink()
    came = run(slacks=[GOOD])
    assert (came.code, came.refused) == (0, ()), came.output
    assert not calls(came, "synth_design", "place_design", "route_design")
    assert len(calls(came, "open_checkpoint")) == 1 and (out / "pinion.bit").exists()


@pytest.mark.parametrize("file", ["vcu118.xdc", "vcu118_timing.xdc", BUILD_TCL, "pinion_board.v"])
def test_a_changed_file_begins_anew(run: Run, out: Path, file: str) -> None:
    run(slacks=[BAD])
    text = (out.parent / file).read_text()
    (out.parent / file).write_text(text + ("// more\n" if file.endswith(".v") else "# more\n"))
    came = run(slacks=[GOOD])
    assert (came.code, came.refused) == (0, ()), came.output
    assert len(calls(came, "synth_design")) == 1 and list(outcomes(out)) == NAMES[:1]
    assert not (out / "attempts" / NAMES[1]).exists()


def test_strategies_can_be_asked_for_by_name(run: Run, out: Path) -> None:
    came = run(slacks=[BAD], arguments=["margin", "retime"])
    assert came.code == MISSED
    assert list(outcomes(out)) == ["margin", "retime"]
    wrong = run(arguments=["magic"])
    assert wrong.code == FAILED and "no strategy 'magic'" in wrong.output


@pytest.mark.parametrize(
    ("luts", "dsp", "several"),
    [(236_448, 1368, False), (236_449, 10, True), (10, 1369, True)],
)
def test_a_die_that_would_be_too_full_makes_it_several(
    run: Run, design: DesignFacts, luts: int, dsp: int, several: bool
) -> None:
    large = dataclasses.replace(design, luts=luts, dsp=dsp)
    came = run(design=large, slacks=[BAD])
    assert (came.code, came.refused) == (MISSED, ()), came.output
    places = [entry[2] for entry in calls(came, "place_design")]
    assert ("SSI_SpreadSLLs" in places) == several
    both = [
        ("pblock_pinion", "cell:pinion"),
        ("pblock_pinion_SLR1", "cell:pinion/core/datapath/link1"),
        ("pblock_pinion_SLR2", "cell:pinion/core/datapath/link2"),
    ]
    once = both if several else both[:1]
    # Each of the two netlists is constrained.
    assert came.of("placed") == once * 2
    assert {die for _, die in came.of("region")} == ({"SLR1", "SLR2"} if several else {"SLR1"})


def test_the_floorplan_can_be_asked_for(run: Run, design: DesignFacts, out: Path) -> None:
    came = run(arguments=["dies"])
    assert (came.code, came.refused) == (0, ()), came.output
    assert len(came.of("placed")) == 3
    # Another floorplan is another netlist: nothing of the first is taken up.
    large = dataclasses.replace(design, luts=1_000_000)
    other = run(design=large, arguments=["die"])
    assert other.code == 0 and len(other.of("placed")) == 1
    assert len(calls(other, "synth_design")) == 1


def test_the_core_alone_takes_a_strategy(make_folder: Any, tclsh: str) -> None:
    core = DesignFacts(
        ports=("clk",), cells=("datapath",), pins={}, tops=("pinion_core",), synchronisers=0
    )
    script = make_folder("vcu118", MHZ).path / CORE_TCL
    came = rehearse(script, design=core, tclsh=tclsh, arguments=["300", "margin"])
    assert (came.code, came.refused) == (0, ()), came.output
    assert came.of("clock") == [("clk", "3.333")]
    assert came.of("margin") == [("core", "0.2"), ("core", "0")]
    assert calls(came, "place_design") == [("place_design", "-directive", "ExtraTimingOpt")]
    wrong = rehearse(script, design=core, tclsh=tclsh, arguments=["300", "magic"])
    assert wrong.code == FAILED and "no strategy 'magic'" in wrong.output


# -- data -----------------------------------------------------------------------------------------


def test_strategies_differ_and_say_why() -> None:
    assert len({one.name for one in STRATEGIES}) == len(STRATEGIES)
    ways = {(s.synth, s.opt, s.place, s.phys_opt, s.route, s.margin_ns) for s in STRATEGIES}
    assert len(ways) == len(STRATEGIES)
    assert all(len(one.reason) > 20 for one in STRATEGIES)
    # What several dies need is not tried first: most designs fit one.
    assert not STRATEGIES[0].dies and 0 < sum(one.dies for one in STRATEGIES) < 4


def test_the_page_has_a_row_for_each_strategy() -> None:
    page = (Path(__file__).parents[3] / "docs" / "vcu118.md").read_text()
    rows = [line.split("|")[1:6] for line in page.splitlines() if line.startswith("| `")]
    found = {row[0].split("`")[1]: [cell.strip() for cell in row[1:]] for row in rows}
    wanted = {s.name: [s.opt, s.place, s.phys_opt, s.route] for s in STRATEGIES}
    order = [name for name in found if name in wanted]
    assert order == list(wanted)
    for name, words in wanted.items():
        assert found[name] == ["" if word == "Default" else word for word in words], name


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
    came = rehearse(path / BUILD_TCL, design=design, tclsh=tclsh)
    assert (came.code, came.refused) == (0, ()), came.output
    assert set(configuration(folder.board)) <= {entry[2] for entry in came.of("set")}


# -- the program around it ------------------------------------------------------------------------


def dying(folder: Path, *, deaths: int, code: int, marks: bool) -> Path:
    """A program that dies so often, each time amid a strategy or not, and then does its work."""
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
def test_vivado_is_started_again_when_it_dies_of_a_strategy(
    make_folder: Any, copied: Any, code: int
) -> None:
    folder = make_folder("vcu118", MHZ)
    path: Path = copied(folder)
    (path / "hash").write_text(f"{folder.manifest.hash:016x}")
    program = dying(path, deaths=2, code=code, marks=True)
    told: list[str] = []
    done = run_vivado(
        path.parent, folder.manifest, vivado=str(program), progress=Progress(told.append)
    )
    assert done["met"] and done["attempts"] == ["default met"]
    assert len(told) == 2 and f"exit code {code}" in told[0]
    assert (path / "starts").read_text() == "x\n" * 3


def test_vivado_is_not_started_again_for_nothing(make_folder: Any, copied: Any) -> None:
    folder = make_folder("vcu118", MHZ)
    path: Path = copied(folder)
    (path / OUT).mkdir(exist_ok=True)
    # A result of an earlier run does not pass for this one's.
    (path / OUT / RESULT).write_text(f"build {folder.manifest.hash:016x}\nmet 1\n")
    program = dying(path, deaths=9, code=139, marks=False)
    with pytest.raises(VivadoError, match="exit code 139"):
        run_vivado(path.parent, folder.manifest, vivado=str(program))
    assert (path / "starts").read_text() == "x\n"
    assert not (path / OUT / RESULT).exists()
