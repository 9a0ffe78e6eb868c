"""The benchmark of GRiD without GRiD, nvcc or a GPU: refusals, table, faults and record."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.grid import __main__ as grid

TOOLS = ("grid-generate", "nvcc", "nvidia-smi")


def line(name: str, n: int, error: str = "1e-07", way: str = "kernel, baked") -> str:
    """Return a line as bench.cu prints it."""
    kind, variant = way.split(", ", 1)
    return (
        f'{{"function":"{name}","N":{n},"way":"{kind}","us":7.993,"spread":0.0016,"error":{error},'
        f'"error_l2":{error},"variant":"{variant}","entry":"aba","tier":"lite","threads":256,'
        '"min_us":7.9}\n'
    )


@pytest.mark.parametrize(
    ("installed", "cards", "needle"),
    [
        ((), "", "GRiD's generator is not installed: run pip install grid-rbd"),
        (TOOLS[:1], "", "nvcc is not installed: install NVIDIA's CUDA Toolkit"),
        (TOOLS[:2], "", "no NVIDIA GPU: run this on a machine that has one"),
        (TOOLS, "", "no NVIDIA GPU"),
        (TOOLS, "No devices were found", "no NVIDIA GPU"),
    ],
)
def test_what_is_missing_is_refused_in_a_sentence(
    installed: tuple[str, ...],
    cards: str,
    needle: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    play(monkeypatch, installed, cards)
    assert grid.main([]) == 2
    text = capsys.readouterr().err
    assert needle in text and text.count("\n") == 1 and text.endswith(".\n")


def play(monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...], cards: str) -> None:
    """Replace the tools of this machine by names, and their output by texts."""
    paths = {name: f"/tools/{name}" for name in (*installed, *(("python3",) if installed else ()))}
    outputs = {"python3": "0.6.0", "nvidia-smi": cards, "nvcc": "Build 1\nrelease 13.0, V13.0.88"}
    monkeypatch.setattr(shutil, "which", lambda name, **_: paths.get(name))
    monkeypatch.setattr(grid, "output_of", lambda path, *_: outputs.get(Path(path).name, ""))


def test_equipment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, TOOLS, "NVIDIA H200, 580.159.04, 9.0")
    tools = grid.equipment()
    assert (tools.python, tools.architecture) == ("/tools/python3", "sm_90")
    assert tools.names == {
        **{"machine": "NVIDIA H200", "driver": "580.159.04", "nvcc": "13.0.88", "grid": "0.6.0"}
    }


def test_the_table_has_a_line_for_each_function_and_size() -> None:
    ways = ("kernel, baked", "kernel, tuned, no f_ext", "host, tuned, compressed inputs")
    rows = [grid.row_of(line("rnea", n, way=way)) for n in (16, 1024) for way in ways]
    rows.append(grid.row_of(line("aba", 16, "inf")))
    head, *lines, legend = grid.table(rows).splitlines()
    assert head.split()[:4] == ["us", "N", "k", "baked"] and legend.startswith("k: kernel")
    assert [text.split() for text in lines] == [
        ["rnea", n, "7.99", "-", "7.99", "-", "-", "7.99", "-", "1.0e-07", "lite/256"]
        for n in ("16", "1024")
    ] + [["aba", "16", "7.99", *"------", "inf", "-/-"]]
    assert len({len(text) for text in lines[:2]}) == 1


@pytest.mark.parametrize("error", ["1.1e-3", "nan", "-nan", "inf", "1e+300"])
def test_wrong_results_are_faults(error: str) -> None:
    lines = {name: line(name, 16) for name in grid.ALGORITHMS}
    assert grid.faults([grid.row_of(text) for text in lines.values()], [16]) == []
    lines["aba"] = line("aba", 16, error)
    (fault,) = grid.faults([grid.row_of(text) for text in lines.values()], [16])
    assert fault.startswith("aba, kernel (baked), N = 16: the error")


def test_a_missing_size_is_a_fault() -> None:
    rows = [grid.row_of(line(name, 16)) for name in grid.ALGORITHMS]
    rows += [grid.row_of(line(name, 128)) for name in grid.ALGORITHMS if name != "rnea"]
    assert grid.faults(rows, [16, 128]) == ["rnea gave no measurement for N = 128."]


@pytest.mark.parametrize("broken", [None, "aba", "rnea"])
def test_a_measurement_is_recorded(
    broken: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Programs that print a line stand for the compiled ones; a broken one ends within a line."""

    def compiled(name: str, *_: object) -> Path | None:
        program = tmp_path / name
        text = line(name, 16)[: 20 if name == broken else None]
        code = 3 if name == broken else 0
        program.write_text(f"#!/bin/sh\nprintf '%s' '{text}'\nexit {code}\n")
        program.chmod(0o755)
        return None if name == broken == "rnea" else program

    play(monkeypatch, TOOLS, "NVIDIA H200, 580.159.04, 9.0")
    monkeypatch.setattr(grid, "FOLDER", tmp_path)
    monkeypatch.setattr(grid, "generate", lambda python, folder: None)
    monkeypatch.setattr(grid, "compiled", compiled)
    code = grid.main(["--largest", "100", "-o", str(tmp_path / "grid.json")])
    record: Mapping[str, Any] = json.loads((tmp_path / "grid.json").read_text())
    assert code == int(broken is not None)
    sentences = [f"{broken} gave no measurement for N = 16."] if broken else []
    assert record["faults"] == sentences and record["flags"][:2] == ["-arch=sm_90", "-std=c++17"]
    assert [row["function"] for row in record["rows"]] == [
        n for n in grid.ALGORITHMS if n != broken
    ]
    assert ("exited with code 3" in capsys.readouterr().err) == (broken == "aba")
    widths = {name: np.fromfile(tmp_path / f"{name}.f64").size // 128 for name in grid.ALGORITHMS}
    assert list(widths.values()) == [7, 7, 7, 98, 98]


def test_batches_smaller_than_all_sizes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        grid.main(["--largest", "15"])
    assert "--largest must be at least 16, not 15" in capsys.readouterr().err


def test_the_program_knows_the_functions_in_their_order() -> None:
    text = grid.SOURCE.read_text("utf-8")
    names = [part.split('"')[1] for part in text.split("#define NAME ")[1:]]
    entries = [part.split('"')[1] for part in text.split("#define ENTRY ")[1:]]
    assert names == list(grid.ALGORITHMS)
    assert entries == [entry for entry, _ in grid.ALGORITHMS.values()]
