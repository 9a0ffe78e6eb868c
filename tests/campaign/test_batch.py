"""Batches on workers in this process: a backend's results, stored chunk by chunk."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from pinion import api
from pinion.campaign import batch, read_results
from pinion.campaign.batch import FunctionParcel
from pinion.functions import row_of, sample
from pinion.robot import load

ARM = load("two_link")


def _read(file: Path) -> dict[str, Any]:
    """Return all results, concatenated."""
    parts = [arrays for _, arrays in read_results(file)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _requests(count: int) -> dict[str, Any]:
    return sample(ARM, row_of("aba"), count, distribution="reference", seed=3)


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "float32"), ("float", "float64")])
def test_results_are_those_of_the_backend(
    device: str, dtype: str, threads: Client, tmp_path: Path
) -> None:
    requests = _requests(250)
    requests["qd"] = requests["qd"][0]  # one for all
    file = tmp_path / "b"
    figures = batch(
        ARM, "aba", file, arrays=requests, chunk=100, device=device, dtype=dtype, client=threads
    )
    assert (figures["ok"], figures["states"], figures["finished"], figures["not_finite"]) == (
        True,
        250,
        250,
        0,
    )
    assert [start for start, _ in read_results(file)] == [0, 100, 200]
    options: dict[str, Any] = {"dtype": dtype} if device == "cpu" else {}
    with api.backend(ARM, "aba", device=device, **options) as whole:
        expected = whole(**requests)
    results = _read(file)
    assert results.keys() == {"qdd"}
    assert (
        np.array_equal(results["qdd"], expected.qdd) and results["qdd"].dtype == expected.qdd.dtype
    )


def test_states_that_are_drawn_are_the_same_whatever_was_lost(
    threads: Client, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"states": 500, "chunk": 100, "device": "float", "client": threads}
    batch(ARM, "rnea", tmp_path / "whole", **options)
    stored = _read(tmp_path / "whole")
    whole = stored["tau"]
    # The drawn requests are stored with the results.
    with api.backend(ARM, "rnea", device="float") as backend:
        again = backend(q=stored["q"], qd=stored["qd"], qdd=stored["qdd"])
    assert stored.keys() == {"q", "qd", "qdd", "tau"} and np.array_equal(again.tau, whole)
    assert len(np.unique(whole, axis=0)) == 500  # no chunk is another one's
    batch(ARM, "rnea", tmp_path / "lost", **options)
    with closing(sqlite3.connect(tmp_path / "lost")) as database, database:
        database.execute("DELETE FROM chunks WHERE number IN (0, 3)")
    progress: list[int] = []
    figures = batch(
        ARM,
        "rnea",
        tmp_path / "lost",
        on_chunk=lambda now: progress.append(now.finished),
        **options,
    )
    assert figures["run"]["resumed_chunks"] == 3 and progress == [400, 500]
    assert np.array_equal(_read(tmp_path / "lost")["tau"], whole)
    batch(ARM, "rnea", tmp_path / "other", **{**options, "seed": 1})
    assert not np.array_equal(_read(tmp_path / "other")["tau"], whole)


def test_results_that_are_no_numbers_are_counted(threads: Client, tmp_path: Path) -> None:
    requests = {name: np.zeros((300, 2)) for name in ("q", "qd", "qdd")}
    requests["qd"][[120, 250]] = 1e30  # its square is no float32
    figures = batch(
        ARM, "rnea", tmp_path / "b", arrays=requests, chunk=100, dtype="float32", client=threads
    )
    assert (figures["ok"], figures["finished"]) == (False, 300)
    assert (figures["not_finite"], figures["first_not_finite"]) == (2, 120)


def test_a_function_arrives_as_it_was_sent() -> None:
    arm = load("iiwa14")
    row = row_of("fd_derivatives", outputs=["minv"], joint_terms=["damping"], friction_width=0.1)
    parcel = FunctionParcel.of(arm, row, dtype="float64", device="cpu")
    model, function = parcel.load()
    assert model == arm
    assert (function.name, function.options) == (row.name, row.options)
    assert FunctionParcel.of(model, function, dtype="float64", device="cpu") == parcel
    for other in (
        FunctionParcel.of(arm, row, dtype="float32", device="cpu"),
        FunctionParcel.of(arm, row_of("fd_derivatives"), dtype="float64", device="cpu"),
        FunctionParcel.of(load("hyq"), row, dtype="float64", device="cpu"),
    ):
        assert other.digest != parcel.digest


@api.function(inputs={"q": api.array("nq", sampling=api.POSITION)}, outputs={"x": api.array("nq")})
def twice(q: Any) -> Any:
    """A user-defined function."""
    return q + q


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ({"device": "abacus"}, "A batch has no device 'abacus'"),
        ({"device": "xdma:0"}, "Use a campaign for cards"),
        ({"device": "cuda"}, "No worker (1 in all) has the device 'cuda'"),
        ({"dtype": "int8"}, "There is no dtype 'int8'"),
        ({"states": None}, "needs either requests"),
        ({"arrays": _requests(3)}, "needs either requests"),
        ({"states": None, "arrays": {"q": [[0.0, 0.0]]}}, "'qd' is missing"),
        ({"states": None, "arrays": {n: np.zeros((0, 2)) for n in _requests(1)}}, "at least 1"),
        ({"states": 0}, "states (--states) must be at least 1"),
        ({"distribution": "given"}, "There is no distribution 'given'"),
        ({"function": twice}, "is user-defined"),
        ({"robot": load("hyq"), "function": "frame_jacobian"}, "tip"),
    ],
)
def test_what_does_not_go_together_is_refused(
    options: dict[str, Any], needle: str, threads: Client, tmp_path: Path
) -> None:
    arguments = {"function": "aba", "states": 100, "device": "float", "client": threads, **options}
    with pytest.raises((ValueError, RuntimeError)) as refused:
        batch(arguments.pop("robot", ARM), arguments.pop("function"), tmp_path / "b", **arguments)
    assert needle in str(refused.value)
    assert "chunk" not in str(refused.value)  # before any worker was asked
