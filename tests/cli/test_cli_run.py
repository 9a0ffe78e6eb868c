"""`pinion run`: arrays from a file through a core, and refusals of wrong arrays."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.base.progress import Progress
from pinion.driver import DriverError
from pinion.functions import named_function, sample
from pinion.link import Manifest
from pinion.robot import load
from tests.cli.conftest import Built, Pinion

COUNT = 12


def arrays() -> dict[str, Any]:
    return dict(
        sample(load("two_link"), named_function("rnea"), COUNT, distribution="reference", seed=5)
    )


def test_run_answers_what_the_float_model_says(
    process: Pinion, built: Built, tmp_path: Path
) -> None:
    requests = arrays()
    np.savez(tmp_path / "in.npz", **requests)
    out = tmp_path / "out.npz"
    completed = process(
        "run", built.folder, "--input", tmp_path / "in.npz", "--output", out, "--json"
    )
    assert completed.code == 0 and completed.err == ""
    figures = completed.json
    assert (figures["requests"], figures["saturated"]) == (COUNT, 0)
    with np.load(out) as results:
        assert set(results) == {"tau", "saturated"}
        tau, saturated = results["tau"], results["saturated"]
    assert tau.shape == (COUNT, 2) and tau.dtype == np.float32
    assert saturated.shape == (COUNT,) and saturated.dtype == np.bool_
    exact = dynamics.rnea(
        load("two_link"), *(requests[n].astype(float) for n in ("q", "qd", "qdd"))
    )
    budget = list(Manifest.read(built.folder).budget.values())
    assert (np.abs(tau - exact) <= budget).all()
    assert (np.abs(tau) > 0).any()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.npz", "out.npz"]
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_run_says_what_it_wrote_and_flags_what_saturated(
    pinion: Pinion, built: Built, tmp_path: Path
) -> None:
    requests = arrays()
    requests["qdd"][3] = 30_000.0
    np.savez(tmp_path / "in.npz", **requests)
    # A name without a suffix is unchanged, and an older file is replaced.
    out = tmp_path / "result"
    out.write_text("old")
    completed = pinion("run", built.folder, "--input", tmp_path / "in.npz", "--output", out)
    assert completed.code == 0 and completed.err == ""
    assert "values must not be used: 1." in completed.out
    assert f"Written to {out}, replacing the earlier file: tau (12, 2)" in completed.out
    with np.load(out) as results:
        assert results["saturated"].nonzero()[0].tolist() == [3]


@pytest.mark.parametrize(("seconds", "sentence"), [(0.0, ""), (50.0, "about 50 s")])
def test_a_device_that_is_compiled_for_long_is_told_before(
    pinion: Pinion,
    built: Built,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    sentence: str,
) -> None:
    """What the verb does before and with an opened device; nothing is compiled."""
    opened: list[str] = []

    def estimated(folder: Path, address: str) -> float:
        assert folder == built.folder
        opened.append(address)
        return seconds

    def refuses(folder: Path, **named: Any) -> Any:
        assert callable(named["on_packet"]) and isinstance(named["progress"], Progress)
        raise DriverError(f"No {named['device']}.")

    monkeypatch.setattr("pinion.card.transport.seconds_to_open", estimated)
    monkeypatch.setattr("pinion.driver.open", refuses)
    np.savez(tmp_path / "in.npz", **arrays())
    files = ("--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
    message = pinion("run", built.folder, *files, "--device", "sim:top").err
    assert message.endswith("No sim:top.\n")
    assert (
        (sentence in message and "--device sim " in message and "estimate" in message)
        if sentence
        else (message == "No sim:top.\n")
    )
    assert pinion("run", built.folder, *files, "--device", "sim:top", "--quiet").err == (
        "No sim:top.\n"
    )
    assert pinion("run", built.folder, *files).err == "No sim.\n"
    assert opened == ["top"] * 2


BAD: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "missing array": ({"qdd": None}, ("qdd",)),
    "unknown array": ({"tau": np.zeros((COUNT, 2), np.float32)}, ("tau",)),
    "a name of Python's": ({"self": np.zeros(1)}, ("self",)),
    "wrong width": ({"qd": np.zeros((COUNT, 3), np.float32)}, ("qd", "3")),
    "wrong count": ({"qd": np.zeros((COUNT - 1, 2), np.float32)}, ("qd",)),
    "wrong rank": ({"qd": np.zeros((COUNT, 2, 1), np.float32)}, ("qd",)),
    "words": ({"q": np.full((COUNT, 2), "one")}, ("q",)),
    "complex": ({"q": np.zeros((COUNT, 2), np.complex64)}, ("q", "complex64")),
    "objects": ({"q": np.full((COUNT, 2), None)}, ("in.npz",)),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays_are_refused_and_nothing_is_written(
    pinion: Pinion, built: Built, tmp_path: Path, case: str
) -> None:
    change, needles = BAD[case]
    requests = {k: v for k, v in (arrays() | change).items() if v is not None}
    _refused(pinion, built, tmp_path, requests, *needles)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_named(
    pinion: Pinion, built: Built, tmp_path: Path, value: float
) -> None:
    requests = arrays()
    requests["qd"][7, 1] = value
    _refused(pinion, built, tmp_path, requests, "qd", "7", "1")


def _refused(
    pinion: Pinion, built: Built, tmp_path: Path, request_arrays: dict[str, Any], *needles: str
) -> None:
    with (tmp_path / "in.npz").open("wb") as file:
        _save(file, request_arrays)
    out = tmp_path / "out.npz"
    completed = pinion(
        "run", built.folder, "--input", tmp_path / "in.npz", "--output", out, "--json"
    )
    completed.refused(*needles)
    assert [p.name for p in tmp_path.iterdir()] == ["in.npz"]


def _save(file: Any, request_arrays: dict[str, Any]) -> None:
    # numpy.savez takes names as arguments, so it cannot write every name.
    with zipfile.ZipFile(file, "w") as archive:
        for name, value in request_arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, value)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 broken"])
def test_a_file_that_is_no_npz_is_refused(
    pinion: Pinion, built: Built, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "in.npz").write_bytes(content)
    out = tmp_path / "out.npz"
    completed = pinion("run", built.folder, "--input", tmp_path / "in.npz", "-o", out)
    completed.refused("in.npz", "write it with numpy.savez")
    # NumPy's advice to load a stranger's objects is not repeated.
    assert "allow_pickle" not in completed.err and not out.exists()


def test_a_single_array_is_no_npz(pinion: Pinion, built: Built, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros(3))
    completed = pinion(
        "run", built.folder, "--input", tmp_path / "in.npy", "--output", tmp_path / "out.npz"
    )
    completed.refused("in.npy", "numpy.savez")


def test_everything_that_a_run_lacks_is_named_at_once(
    pinion: Pinion, built: Built, tmp_path: Path
) -> None:
    arrays, out = "q (n, 2), qd (n, 2), qdd (n, 2)", tmp_path / "out.npz"
    pinion("run", built.folder).refused("--input IN.npz", arrays, "--output OUT.npz")
    pinion("run", built.folder, "--output", out).refused("--input IN.npz", arrays)
    completed = pinion("run", built.folder, "--input", tmp_path / "in.npz")
    completed.refused("rnea", "--output OUT.npz")
    assert "--input" not in completed.err and not out.exists()


def test_wrong_places_are_refused(pinion: Pinion, built: Built, tmp_path: Path) -> None:
    source, out = tmp_path / "in.npz", tmp_path / "out.npz"
    pinion("run", built.folder, "--input", source, "--output", out).refused(
        "in.npz' cannot be read (No such file", "give an .npz file"
    )
    np.savez(source, **arrays())
    pinion("run", tmp_path, "--input", source, "--output", out).refused("manifest.json")
    pinion("run", built.folder, "--input", source, "--output", tmp_path).refused(str(tmp_path))
    pinion("run", built.folder, "--input", source, "--output", tmp_path / "no" / "o").refused("no")
    pinion("run", built.folder, "--input", source, "--output", out, "--device", "moon").refused(
        "moon"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["in.npz"]
