"""The manifest: round trip, and refusal of changed files."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.link import Array, Manifest, ManifestError
from pinion.link.manifest import read_file


def manifest() -> Manifest:
    return Manifest(
        version="0.1.0",
        robot="two_link",
        robot_source="built-in",
        function="rnea",
        options={"derivatives": "column"},
        formats="q16.16",
        target="sim",
        ii=4,
        clock_mhz=250.0,
        inputs=tuple(Array(name=n, shape=(2,), unit="rad") for n in ("q", "qd", "qdd")),
        outputs=(
            Array(name="tau", shape=(2,), unit="N m"),
            Array(name="m", shape=(2, 2), unit="", sent=(2, 3), constants=((0, 0.25),)),
            Array(name="minv", shape=(2, 2), unit="", sent=(0, 2, 3), symmetric=True),
        ),
        lanes_in=2,
        beats_in=3,
        lanes_out=2,
        beats_out=4,
        schedule_cycles=27,
        latency_cycles=60,
        multipliers=5,
        table_multipliers=9,
        adders=3,
        units={"add": 3, "dot1": 5},
        ops={"mul": 8, "mul_const": 11, "add": 13, "reciprocal": 0, "trig": 4},
        registers=44,
        budget={"tau[0]": 1e-3, "tau[1]": 2.5e-4},
        budget_distribution="reference",
        objective="area",
        max_error=0.0,
        content="abc",
    )


def test_a_manifest_reads_back_equal(tmp_path: Path) -> None:
    original = manifest()
    original.write(tmp_path)
    read = Manifest.read(tmp_path)
    assert read == original
    assert read.hash == original.hash
    assert (original.words_in, original.words_out) == (6, 7)
    assert read.outputs[1].constants == ((0, 0.25),) and read.outputs[2].sent == (0, 2, 3)
    assert [array.sent for array in read.inputs] == [None] * 3
    text = json.loads((tmp_path / "manifest.json").read_text())
    assert text["hash"] == f"{original.hash:016x}" and len(text["hash"]) == 16
    assert (text["words_in"], text["words_out"]) == (6, 7)


def test_what_was_snapped_stands_in_the_manifest_where_anything_was(tmp_path: Path) -> None:
    plain, snapped = manifest(), replace(manifest(), snapping={"pose_angle": 7.4e-6})
    assert "snapping" not in plain.to_dict()  # keeps the hash of exact robots
    snapped.write(tmp_path)
    assert Manifest.read(tmp_path) == snapped and snapped.hash != plain.hash
    text = (tmp_path / "manifest.json").read_text()
    (tmp_path / "manifest.json").write_text(text.replace("7.4e-06", "7.4e-07"))
    with pytest.raises(ManifestError, match="changed after it was built"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize("name", [field.name for field in fields(Manifest)])
def test_every_member_is_part_of_the_hash(name: str) -> None:
    original = manifest()
    value = getattr(original, name)
    other = {
        str: lambda: value + "x",
        int: lambda: value + 1,
        float: lambda: value + 0.5,
        dict: lambda: {**value, "other": 1},
        tuple: lambda: value[:-1],
    }[type(value)]()
    assert replace(original, **{name: other}).hash != original.hash


@pytest.mark.parametrize(
    "change",
    [
        {"name": "M"},
        {"shape": (4,)},
        {"unit": "kg"},
        {"sent": (1, 3)},
        {"sent": (2,)},
        {"sent": None},
        {"constants": ()},
        {"constants": ((0, 0.5),)},
        {"constants": ((1, 0.25),)},
        {"symmetric": True},
    ],
    ids=str,
)
def test_every_member_of_an_array_is_part_of_the_hash(change: dict[str, Any]) -> None:
    original = manifest()
    tau, m, minv = original.outputs
    assert replace(original, outputs=(tau, replace(m, **change), minv)).hash != original.hash


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"symmetric": true', '"symmetric": false'),
        ("0.25", "0.5"),
        ('"derivatives": "column"', '"derivatives": "composite"'),
        ('"ii": 4', '"ii": 5'),
    ],
)
def test_a_changed_manifest_is_refused(tmp_path: Path, before: str, after: str) -> None:
    manifest().write(tmp_path)
    path = tmp_path / "manifest.json"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(ManifestError, match=r"was changed after it was built .* build the folder"):
        Manifest.read(tmp_path)


# -- elements of an array that are sent ---------------------------------------------------------


def lower(n: int) -> tuple[int, ...]:
    """Flat positions of the lower triangle, row by row."""
    return tuple(i * n + j for i in range(n) for j in range(i + 1))


def test_an_array_that_travels_whole_is_itself() -> None:
    array = Array(name="q", shape=(3,), unit="rad")
    values = np.arange(6.0).reshape(2, 3)
    assert (array.words, array.record_shape) == (3, (3,))
    assert array.gather(values) is values and array.scatter(values) is values


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch", [(), (1,), (5,)])
def test_half_of_a_symmetric_matrix_travels(batch: tuple[int, ...], dtype: type) -> None:
    array = Array(name="M", shape=(4, 4), unit="", sent=lower(4), symmetric=True)
    seed = 3
    half = np.random.default_rng(seed).normal(size=(*batch, 4, 4)).astype(dtype)
    values = half + np.swapaxes(half, -1, -2)
    assert (array.words, array.record_shape) == (10, (10,))
    sent = array.gather(values)
    rows, cols = np.tril_indices(4)
    assert sent.shape == (*batch, 10) and np.array_equal(sent, values[..., rows, cols])
    back = array.scatter(sent.reshape(-1, 10))
    assert back.dtype == dtype and back.shape == (*(batch or (1,)), 4, 4)
    assert np.array_equal(back.reshape(values.shape), values), f"seed {seed}"


def test_constants_and_zeros_are_filled_in() -> None:
    array = Array(name="d", shape=(2, 3), unit="", sent=(1, 5), constants=((0, 1.5), (4, -2.0)))
    sent = np.array([[10.0, 20.0], [30.0, 40.0]])
    whole = array.scatter(sent)
    assert whole.tolist() == [[[1.5, 10, 0], [0, -2, 20]], [[1.5, 30, 0], [0, -2, 40]]]
    assert np.array_equal(array.gather(whole), sent)
    assert array.scatter(np.zeros((0, 2))).shape == (0, 2, 3)


def test_constants_of_a_symmetric_matrix_stand_on_both_sides() -> None:
    """The composite inertia of a branched robot: a constant pivot, a zero between the branches."""
    constants = ((0, 0.5), (3, 0.25))
    array = Array(
        name="M", shape=(3, 3), unit="", sent=(4, 7, 8), constants=constants, symmetric=True
    )
    whole = array.scatter(np.array([[1.0, 2.0, 3.0]]))
    assert whole.tolist() == [[[0.5, 0.25, 0], [0.25, 1, 2], [0, 2, 3]]]


@settings(max_examples=200)
@given(data=st.data())
def test_what_was_gathered_is_scattered_back(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 5))
    symmetric = data.draw(st.booleans())
    shape = (n, n) if symmetric else (n, data.draw(st.integers(1, 4)))
    free = lower(n) if symmetric else tuple(range(shape[0] * shape[1]))
    kinds = data.draw(st.lists(st.sampled_from("sscz"), min_size=len(free), max_size=len(free)))
    sent = tuple(at for at, kind in zip(free, kinds, strict=True) if kind == "s")
    constants = tuple(
        (at, float(k + 1)) for k, (at, kind) in enumerate(zip(free, kinds, strict=True))
        if kind == "c"
    )  # fmt: skip
    array = Array(
        name="x", shape=shape, unit="", sent=sent, constants=constants, symmetric=symmetric
    )
    words = np.random.default_rng(1).normal(size=(3, len(sent)))
    whole = array.scatter(words)
    assert whole.shape == (3, *shape)
    assert np.array_equal(array.gather(whole), words)
    if symmetric:
        assert np.array_equal(whole, np.swapaxes(whole, 1, 2))
    flat = whole.reshape(3, -1)
    for at, value in constants:
        assert np.all(flat[:, at] == value)
    for at, kind in zip(free, kinds, strict=True):
        assert kind != "z" or not flat[:, at].any()


def test_a_mapped_array_is_sent_as_its_map_and_comes_back() -> None:
    rows = ((1.0, 0.5, 0.25), (0.0, 2.0, -3.0))
    array = Array(name="load", shape=(2,), unit="kg", linear_map=rows)
    values = np.array([[2.0, -0.5], [1.0, 4.0], [0.0, 0.0]])
    sent = [[2.0, -4.0], [3.25, 5.0], [0.25, -3.0]]
    assert array.words == 2 and array.gather(values).tolist() == sent
    assert np.allclose(array.scatter(np.array(sent)), values, rtol=1e-15, atol=1e-15)
    members = replace(manifest(), inputs=(*manifest().inputs, array)).to_dict()["inputs"]
    assert [member.get("linear_map") for member in members] == [None, None, None, rows]


def test_states_without_a_promise_have_that_of_the_builds_own() -> None:
    promising = replace(manifest(), promises={"reference": 1e-3, "rest": 2e-3})
    assert [promising.promise(name) for name in ("reference", "rest", "stress")] == [
        *(1e-3, 2e-3, 1e-3)
    ]


def test_a_folder_that_is_no_build_says_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give = "Give a folder made by `pinion build ROBOT FUNCTION -o DIR`."

    def refused(folder: Path, sentence: str) -> None:
        with pytest.raises(ManifestError) as raised:
            Manifest.read(folder)
        assert str(raised.value) == f"'{folder}' is not a build folder{sentence}"

    make = f"Make one with `pinion build ROBOT FUNCTION -o '{tmp_path}/no where'`."
    refused(tmp_path / "no where", f": it does not exist. {make}")
    (tmp_path / "no where").mkdir()
    refused(tmp_path / "no where", f": it has no manifest.json. {make}")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", f": it is a file. {give}")
    refused(tmp_path, f": it has no manifest.json. {give}")
    for name in ("z", "b"):
        (tmp_path / name).mkdir()
        manifest().write(tmp_path / name)
    refused(
        tmp_path, f": it has no manifest.json, but '{tmp_path}/b' in it has one: give that folder."
    )

    def forbidden(self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", forbidden)
    refused(tmp_path, " that can be read (Permission denied): check its permissions.")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "huge"])
def test_a_manifest_that_is_no_file_ends_in_a_sentence(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    why = "has more than 67108864 bytes" if kind == "huge" else "is not a regular file"
    with pytest.raises(ManifestError, match=rf"manifest\.json' cannot be read \(it {why}\)"):
        Manifest.read(tmp_path)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    with pytest.raises(ValueError, match="it has more than 4 bytes"):
        read_file(path, 4)


def test_a_manifest_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as raised:
        replace(manifest(), robot="a\x07b").write(tmp_path)
    assert str(raised.value) == (
        "The manifest cannot be read back (robot has a control character: 'a\\x07b'): change the "
        "name, unit, path or number at fault."
    )
    assert not any(tmp_path.iterdir())


def test_a_program_is_not_a_core(tmp_path: Path) -> None:
    replace(manifest(), target="processor").write(tmp_path)
    assert Manifest.read(tmp_path).is_program
    with pytest.raises(
        ManifestError,
        match=r"holds a program of the dynamics processor, but a core is needed: give",
    ):
        Manifest.read_core(tmp_path)
    manifest().write(tmp_path)
    assert not Manifest.read_core(tmp_path).is_program


def test_a_budget_that_is_no_number_has_no_hash() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(manifest(), budget={"tau[0]": float("nan")}).hash  # noqa: B018 -- asked for
