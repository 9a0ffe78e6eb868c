"""`pinion report`: known figures of builds, and none measured for another build."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.base.progress import Progress
from pinion.flow.targets import TARGETS
from pinion.link import Manifest
from pinion.link.accuracy import ErrorDistribution, Verdict
from pinion.link.build_files import BOARD_REPORT, NETLIST_CHECK, RESOURCES
from pinion.report import build_figures
from pinion.report.builds import _COUNTED_FOR, ROUTED, columns_of_builds, uncounted
from tests.support.builds import build

FIGURES = {"lut4": 20861, "ff": 16443, "mult18x18d": 34, "dp16kd": 15}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli_report") / "build"
    build("pendulum", "rnea", path, ii=2, formats="auto18")
    return path


def leave(folder: Path, **changes: Any) -> None:
    """Write the result of a run of the board's tools."""
    manifest = Manifest.read(folder)
    board = folder / manifest.target
    board.mkdir(exist_ok=True)
    expected_rows = {
        "build": f"{manifest.hash:016x}",
        "netlist_sha256": "ab" * 32,
        "fmax_mhz": 76.01,
        "clock_mhz": 50.0,
        "use": FIGURES,
    }
    BOARD_REPORT.write(board, expected_rows | changes)
    NETLIST_CHECK.write(board, {"requests": 200, "mismatches": 0, "sha256": "ab" * 32})


def test_a_build_alone_has_no_figures(pinion: Any, folder: Path) -> None:
    (row,) = pinion("report", folder, "--json").json["builds"]
    assert (row["robot"], row["function"], row["formats"], row["ii"]) == (
        *("pendulum", "rnea", "auto18", 2),
    )
    assert row["latency"] == Manifest.read(folder).latency_cycles
    assert all(row[name] is None for name in (*FIGURES, "fmax_mhz", "netlist"))


def count(folder: Path, **changes: Any) -> None:
    """Write the result of `pinion synth`, with invented figures."""
    kinds = {name: {"instances": number} for name, number in Manifest.read(folder).units.items()}
    timing = {"table": "", "note": "", "ns": {}, "mhz": {"typical": 247.5}, "paths": []}
    totals = {"dsp": 31, "lut": 7412, "ff": 5023, "bram": 1.5, "levels": 18, "dies": 3}
    others: dict[str, Any] = dict.fromkeys(("srl", "lutram"), 0)
    others |= {name: {} for name in ("dsp_use", "capacity", "share")}
    others |= dict.fromkeys(("tool", "part", "note", "dsp_note"), "")
    data = {**totals, **others, "timing": timing, "multipliers": [], "by_kind": kinds}
    RESOURCES.write(folder, data | changes)


def test_only_rows_of_the_target_and_counts_where_they_are_kept(
    pinion: Any, folder: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(folder, alone)
    shutil.rmtree(alone / Manifest.read(folder).target, ignore_errors=True)
    bare = pinion("report", alone).out
    assert "MHz, requested" in bare and f"`pinion synth {alone}`" in " ".join(bare.split())
    for head in ("LUT4", "18 x 18", "routed", "netlist", "Yosys", "estimated"):
        assert head not in bare.partition("Not counted")[0]
    assert len(pinion("report", alone, "--markdown").out.splitlines()[0].split("|")) == 11
    count(alone)
    counted = " ".join(pinion("report", alone).out.split())
    for words in ("DSP, counted by Yosys 31", "7,412", "5,023", "1.5", "estimated", "247.5"):
        assert words in counted
    assert "levels, critical path 18" in counted and "LUT as logic" in counted
    assert "pinion synth" not in counted and "LUT4" not in counted
    figures = pinion("report", alone, "--json").json["builds"][0]["counted"]
    assert figures == {
        **{"dsp": 31, "lut": 7412, "ff": 5023, "bram": 1.5, "levels": 18, "mhz": 247.5},
        "share": None,
    }
    # Counts of a core with other units do not apply.
    count(alone, by_kind={"add": {"instances": 99}})
    assert pinion("report", alone, "--json").json["builds"][0]["counted"] is None


def test_units_shares_and_the_last_verification(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    manifest = Manifest.read(copy)
    assert manifest.target != _COUNTED_FOR
    monkeypatch.setattr("pinion.report.builds._COUNTED_FOR", manifest.target)
    share = {"dsp": 0.45, "lut": 1.5, "ff": 2.0, "bram": 0.1}
    count(copy, share=share)

    def rows() -> dict[object, object]:
        return {line[0]: line[1] for line in columns_of_builds([build_figures(copy)])[1]}

    figures = rows()
    assert figures["interval, cycles"] == manifest.ii
    assert figures["latency, cycles"] == manifest.latency_cycles
    assert figures["multipliers in the core"] == manifest.multipliers
    assert figures["multipliers, sine and reciprocal"] == manifest.table_multipliers
    assert figures["% of part (die): DSP"] == "0.45 (1.35)"
    assert figures["% of part (die): LUT, including memory"] == "1.50 (4.50)"
    wrong = "requests wrong, of those verified"
    assert wrong not in figures
    build_hash_text = f"{manifest.hash:016x}"
    for build_hash, failed, advice in (
        *((build_hash_text, (), "0 of 1,234"), (build_hash_text, ("flags",), "FAILED, 0 of 1,234")),
        ("0" * 16, (), None),
    ):
        ErrorDistribution(
            **{"build": build_hash, "distribution": "reference", "requests": 1234, "seed": 1},
            **{"flagged": 0, "simulator": "compiled", "blocks": ()},
            verdict=Verdict(mismatches=0, failed=failed),
        ).write(copy)
        assert rows().get(wrong) == advice
    monkeypatch.undo()  # the part belongs to another board
    assert "% of part (die): DSP" not in rows()


def test_what_is_not_counted_or_routed_is_said_once(folder: Path) -> None:
    row = build_figures(folder) | {"folder": "a b", "counted": None, "fmax_mhz": None}
    row["verified"] = "0 of 100"
    assert uncounted([row | {"counted": {}}]) == []
    (sentence,) = uncounted([row, row | {"folder": "c"}, row])
    assert sentence.startswith("Not counted yet: `pinion synth 'a b'` counts DSP")
    assert sentence.endswith("; the same applies to 2 more of these builds.")
    (unseen,) = uncounted([row | {"counted": {}, "verified": None}])
    assert unseen.startswith("Not verified yet: `pinion verify 'a b'` compares RTL")
    _, routed = uncounted([row | {"target": "ulx3s"}])
    assert routed.startswith("Not routed yet: `pinion bitstream 'a b'`")
    assert [name for name in TARGETS if name.startswith("ulx3s")] == list(ROUTED)


def test_counts_are_made_for_the_terminal_too(
    pinion: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, requested = tmp_path / "alone", list[Path]()
    shutil.copytree(folder, alone)

    def counts(path: Path, progress: Progress) -> None:
        progress.step("Synthesising")
        progress.advance(0.5)
        requested.append(path)
        count(path)

    # The package has a function of the module's name.
    monkeypatch.setattr(import_module("pinion.synthesis"), "synth", counts)
    for _ in range(2):  # existing counts are kept
        assert "247.5" in pinion("report", alone, "--synth").out
    assert requested == [alone]


def test_figures_are_those_of_the_boards_tools(pinion: Any, folder: Path) -> None:
    leave(folder)
    (row,) = pinion("report", folder, "--json").json["builds"]
    assert {name: row[name] for name in FIGURES} == FIGURES
    assert (row["fmax_mhz"], row["clock_mhz"], row["netlist"]) == (76.01, 50.0, "0 of 200")
    completed = pinion("report", folder, folder)
    assert completed.code == 0 and completed.out.count("76.01") == 2 and "20,861" in completed.out
    lines = pinion("report", folder, "--markdown").out.splitlines()
    assert len(lines) == 3 and {line.count("|") for line in lines} == {16}
    assert "| 76.01 | 50 | 0 of 200 |" in lines[2]


def test_figures_of_another_build_or_netlist_are_left_out(pinion: Any, folder: Path) -> None:
    leave(folder, netlist_sha256="cd" * 32)
    (row,) = pinion("report", folder, "--json").json["builds"]
    assert row["fmax_mhz"] == 76.01 and row["netlist"] is None
    leave(folder, build="0" * 16)
    (row,) = pinion("report", folder, "--json").json["builds"]
    assert row["fmax_mhz"] is None and row["lut4"] is None


def test_bad_input_is_one_sentence(pinion: Any, folder: Path, tmp_path: Path) -> None:
    pinion("report").refused("DIR")
    pinion("report", folder, tmp_path / "none").refused("none' is not a build folder")
    leave(folder)
    report = folder / Manifest.read(folder).target / "report.json"
    good = json.loads(report.read_text())
    assert good["version"] == 1
    bad = [
        ("{", "damaged"),
        (json.dumps(good | {"version": 2}), "version 2"),
        (json.dumps(good | {"fmax_mhz": "fast"}), "fmax_mhz"),
        (json.dumps({name: value for name, value in good.items() if name != "use"}), "use"),
    ]
    for text, needle in bad:
        report.write_text(text)
        pinion("report", folder).refused("report.json", "pinion bitstream", needle)


def test_a_netlist_takes_no_other_options(pinion: Any, folder: Path) -> None:
    pinion("verify", folder, "--netlist", "--simulator", "icarus").refused("--simulator")


def test_recorded_requests_are_for_a_netlist_alone(
    pinion: Any, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "loop.npz"
    np.savez(path, q=np.zeros((3, 1)), qd=np.zeros((3, 1)))
    pinion("verify", folder, "--input", path).refused("loop.npz", "--netlist")
    both = "--netlist", "--input", path
    pinion("verify", folder, *both, "--samples", 5).refused("loop.npz", "--samples")
    pinion("verify", folder, *both).refused("'qdd' is missing")


def test_a_page_beside_the_table(pinion: Any, folder: Path, tmp_path: Path) -> None:
    leave(folder)
    path = tmp_path / "page.html"
    completed = pinion("report", folder, "-o", path, "--states", 20)
    assert completed.code == 0, completed.err
    # A long path breaks the line.
    output = " ".join(completed.out.split())
    assert "pendulum" in output and f"{path.stat().st_size:,} bytes" in output
    assert path.read_text().startswith("<!doctype html>")
    pinion("report", folder, "-o", path).refused("page.html' exists", "--force")
    page = pinion("report", folder, "-o", path, "--force", "--states", 0, "--json").json["page"]
    assert page == {"path": str(path), "bytes": path.stat().st_size}
    assert "leave out states=0 (--states 0)" in path.read_text()


def test_a_page_needs_a_file_and_sound_options(pinion: Any, folder: Path, tmp_path: Path) -> None:
    pinion("report", folder, "--force").refused("add -o FILE")
    pinion("report", folder, "--states", 5).refused("add -o FILE")
    path = tmp_path / "page.html"
    pinion("report", folder, "-o", path, "--states", -1).refused("-1 states", "0 to 100,000")
    pinion("report", folder, "--json", "--markdown").refused("--json or --markdown")
    pinion("report", tmp_path, "-o", path).refused("is not a build folder")
    assert not path.exists()
