"""``pinion bitstream`` on a build for a board: with Vivado missing, good, and failing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from pinion.base.progress import Progress
from pinion.boards.xilinx.run import VivadoError, read_result, run_vivado
from pinion.boards.xilinx.script import BUILD_TCL
from pinion.cli import bitstream
from pinion.console.errors import CHECK_FAILED, sentence
from pinion.flow.build import BuildError
from pinion.link import Manifest, ManifestError
from pinion.link.digests import write_digests
from tests.boards.test_tools import ends
from tests.boards.vcu118.stub import manifest
from tests.support.breadth import some_rows

GOOD = {"setup_slack_ns": "0.012", "hold_slack_ns": "0.003", "met": "1"}
MISSED = {"setup_slack_ns": "-0.120", "hold_slack_ns": "0.003", "met": "0"}


@pytest.fixture
def build(make_folder: Any, copied: Any) -> Path:
    """A build folder for the VCU118."""
    folder = make_folder("vcu118", 200.0)
    path: Path = copied(folder).parent
    folder.manifest.write(path)
    shutil.copy(folder.path.parent / "core.il", path)
    write_digests(path)
    return path


def pretend(
    folder: Path, result: dict[str, str] | None, *, code: int = 0, build: str | None = None
) -> Path:
    """Write a program named vivado that writes a result and exits with a code."""
    program = folder / "bin" / "vivado"
    program.parent.mkdir(exist_ok=True)
    lines = ["#!/bin/sh", 'echo "$@" > arguments', "mkdir -p out/reports", "echo INFO: hello"]
    lines.append('echo "PINION: 3/8 synthesise"')
    if result is not None:
        rows = {
            "build": build or f"{Manifest.read(folder).hash:016x}",
            "board": "vcu118",
            "part": "xcvu9p-flga2104-2L-e",
            "vivado": "0.0",
            "strategy": "default",
            "link_mhz": "250",
            "core_mhz": "200",
            **result,
        }
        lines += [f'echo "{key} {value}" >> out/result.txt' for key, value in rows.items()]
        lines.append("echo default met, setup slack 0.012 ns > out/attempts.txt")
        lines.append("touch out/pinion.bit out/pinion_primary.mcs out/pinion_secondary.mcs")
    else:
        lines.append('echo "ERROR: [Common 17-345] no licence for this part"')
    program.write_text("\n".join([*lines, f"exit {code}"]) + "\n")
    program.chmod(0o755)
    return program


def test_without_vivado_one_sentence_says_what_is_missing(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(build / "nothing"))
    with pytest.raises(VivadoError) as missing:
        bitstream.command(build)
    text = sentence(missing.value)
    assert text is not None and "\n" not in text
    for word in ("'vivado'", "PATH", "xcvu9p-flga2104-2L-e", "settings64.sh", "--vivado", "vcu118"):
        assert word in text, text
    with pytest.raises(BuildError, match=r"nothing' is not an exec.*\(--vivado\) the path"):
        bitstream.command(build, vivado=build / "nothing")
    with pytest.raises(BuildError, match=r"leave seed=3 \(--seed\) out"):
        bitstream.command(build, seed=3)


@pytest.mark.parametrize(
    ("number", "code"),
    some_rows(
        [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
        lambda number, code: number == signal.SIGTERM,
    ),
)
def test_vivado_ends_with_its_parent(build: Path, number: int, code: int) -> None:
    program, number_file = build / "vivado", build / "pid"
    program.write_text(
        f'#!/bin/sh\necho $$ > "{number_file}.part"\n'
        f'mv "{number_file}.part" "{number_file}"\nexec sleep 1000\n'
    )
    program.chmod(0o755)
    # Under nohup the tests inherit an ignored SIGHUP, and would pass it on.
    default = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)"
    program_text = f"{default}; from pinion.cli import main; main()"
    command = [sys.executable, "-c", program_text, "bitstream", str(build)]
    with subprocess.Popen(
        [*command, "--vivado", str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        while not number_file.exists():
            assert process.poll() is None, process.stdout and process.stdout.read()
            time.sleep(0.02)
        process.send_signal(number)
        text, _ = process.communicate()
    assert process.returncode == code, text
    assert "Traceback" not in text
    ends(int(number_file.read_text()))


def test_a_good_run_reports_slack_and_files(
    build: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = pretend(build, GOOD)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    bitstream.command(build, json=True)
    result = json.loads(capsys.readouterr().out)
    assert result["met"] is True and result["target"] == "vcu118"
    assert result["bitstream"] == str(build / "vcu118/out/pinion.bit")
    assert [Path(p).name for p in result["flash"]] == ["pinion_primary.mcs", "pinion_secondary.mcs"]
    assert (result["setup_slack_ns"], result["core_mhz"]) == (0.012, 200.0)
    assert result["strategy"] == "default"
    assert result["attempts"] == ["default met, setup slack 0.012 ns"]
    arguments = (build / "vcu118/arguments").read_text().split()
    assert arguments[:2] == ["-mode", "batch"] and arguments[-2:] == ["-source", BUILD_TCL]
    bitstream.command(build)
    assert "pinion.bit" in capsys.readouterr().out


def test_a_result_is_what_the_script_left(build: Path) -> None:
    record = Manifest.read(build)
    out = build / "vcu118/out"
    program = pretend(build, GOOD)
    result = run_vivado(build, record, vivado=str(program))
    assert result == {
        "target": "vcu118",
        "part": "xcvu9p-flga2104-2L-e",
        "vivado": "0.0",
        "met": True,
        "strategy": "default",
        "attempts": ["default met, setup slack 0.012 ns"],
        "setup_slack_ns": 0.012,
        "hold_slack_ns": 0.003,
        "core_mhz": 200.0,
        "link_mhz": 250.0,
        "bitstream": str(out / "pinion.bit"),
        "flash": [str(out / "pinion_primary.mcs"), str(out / "pinion_secondary.mcs")],
        "reports": str(out / "reports"),
    }
    assert (build / "vcu118/arguments").read_text() == (
        "-mode batch -log vivado.log -source build.tcl\n"
    )
    for line in (out / "result.txt").read_text().splitlines():
        key = line.split()[0]
        if key != "board":
            lines = (out / "result.txt").read_text().replace(line, f"{key}_ 1")
            with pytest.raises(VivadoError, match=rf"left no valid result in .*damaged: .*{key}"):
                read_result_of(build / "vcu118", record, lines)
    with pytest.raises(VivadoError, match="No such file or directory"):
        read_result(build, record)


def read_result_of(target: Path, record: Manifest, text: str) -> None:
    """Read another result than the one that is there, and put that back."""
    path = target / "out/result.txt"
    original = path.read_text()
    path.write_text(text)
    try:
        read_result(target, record)
    finally:
        path.write_text(original)


def test_missed_timing_leaves_with_the_code_of_a_failed_check(
    build: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = pretend(build, MISSED, code=1)
    with pytest.raises(typer.Exit) as left:
        bitstream.command(build, vivado=program, json=True)
    assert left.value.exit_code == CHECK_FAILED
    result = json.loads(capsys.readouterr().out)
    assert (result["met"], result["bitstream"], result["flash"]) == (False, None, [])


@pytest.mark.parametrize(
    ("result", "code", "build_hash", "needle"),
    [
        (None, 1, None, "no valid result"),
        (None, 2, None, "exited with code 2.*no licence for this part"),
        (GOOD, 1, None, "contradicts"),
        (MISSED, 0, None, "contradicts"),
        (GOOD, 0, "0" * 16, "another build"),
        ({**GOOD, "setup_slack_ns": "fast"}, 0, None, "no valid result"),
    ],
)
def test_a_failed_run_raises_one_sentence(
    build: Path, result: dict[str, str] | None, code: int, build_hash: str | None, needle: str
) -> None:
    program = pretend(build, result, code=code, build=build_hash)
    with pytest.raises(VivadoError, match=needle):
        run_vivado(build, Manifest.read(build), vivado=str(program))


def test_progress_reaches_the_user(build: Path) -> None:
    reported: list[str] = []
    program = pretend(build, GOOD)
    run_vivado(build, Manifest.read(build), vivado=str(program), progress=Progress(reported.append))
    assert reported == ["3/8 synthesise"]


def test_words_for_the_script_follow_all_options(build: Path) -> None:
    program = pretend(build, GOOD)
    run_vivado(build, Manifest.read(build), vivado=str(program), words=["margin", "dies"])
    arguments = (build / "vcu118/arguments").read_text().split()
    assert arguments[-5:] == ["-source", BUILD_TCL, "-tclargs", "margin", "dies"]


def test_builds_without_a_board_are_refused(build: Path, tmp_path: Path) -> None:
    (build / "vcu118" / BUILD_TCL).unlink()
    write_digests(build)
    with pytest.raises(ManifestError, match=r"the target 'vcu118' \(--target\)"):
        bitstream.command(build)
    manifest(target="sim", clock_mhz=250.0).write(tmp_path)
    with pytest.raises(BuildError, match=r"'sim' has no bitstream.*vcu118"):
        bitstream.command(tmp_path)


def test_the_readme_says_what_has_not_been_run(make_folder: Any) -> None:
    folder = make_folder("vcu118", 200.0)
    text = (folder.path / "README.md").read_text()
    for word in (
        *("Nobody has run this yet", "Not run, or assumed", "Report back"),
        *(f"{folder.manifest.hash:016x}", "xcvu9p-flga2104-2L-e", "200 MHz", "pinion_primary.mcs"),
        *("25,000 thousand a second", "2,280 DSP blocks", "SLR1", "UG1224"),
        ": 4 DSP blocks | this build, calculated from the widths",
    ):
        assert word in text, word
    assert "{" not in text.replace("{Advanced}", "")
    u250_text = (make_folder("u250", 180.0).path / "README.md").read_text()
    assert "pinion.mcs" in u250_text and "satellite controller" in u250_text


@pytest.mark.parametrize("name", [BUILD_TCL, "synth_core.tcl", "vcu118_timing.xdc", "init.tcl"])
def test_a_strangers_script_is_not_run(build: Path, name: str) -> None:
    """Digests are not signatures: a forged script can have a matching digest."""
    program = pretend(build, GOOD)
    path = build / "vcu118" / name
    original = path.read_text() if path.exists() else ""
    path.write_text(f"{original}exec touch stranger\n")
    write_digests(build)
    with pytest.raises(
        ManifestError, match=rf"{name}' differs from what Pinion .* writes for this"
    ):
        bitstream.command(build, vivado=program)
    assert not (build / "vcu118/arguments").exists()
