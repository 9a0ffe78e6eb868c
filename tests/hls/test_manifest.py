"""The manifest: written, read back, and refused when somebody changed it."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from pinion.hls import Array, Manifest, ManifestError


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
            Array(name="m", shape=(2, 2), unit=""),
        ),
        lanes_in=2,
        beats_in=3,
        lanes_out=2,
        beats_out=3,
        latency_cycles=27,
        total_latency_cycles=60,
        multipliers=5,
        table_multipliers=9,
        adders=3,
        units={"add": 3, "dot1": 5},
        ops={"mul": 8, "mul_const": 11, "add": 13, "reciprocal": 0, "trig": 4},
        registers=44,
        budget={"tau[0]": 1e-3, "tau[1]": 2.5e-4},
        budget_distribution="reference",
        content="abc",
    )


def test_a_manifest_reads_back_equal(tmp_path: Path) -> None:
    made = manifest()
    made.write(tmp_path)
    read = Manifest.read(tmp_path)
    assert read == made
    assert read.hash == made.hash
    assert (made.words_in, made.words_out) == (6, 6)
    text = json.loads((tmp_path / "manifest.json").read_text())
    assert text["hash"] == f"{made.hash:016x}" and len(text["hash"]) == 16
    assert (text["words_in"], text["words_out"]) == (6, 6)


@pytest.mark.parametrize("name", [field.name for field in fields(Manifest)])
def test_every_member_is_part_of_the_hash(name: str) -> None:
    made = manifest()
    value = getattr(made, name)
    other = {
        str: lambda: value + "x",
        int: lambda: value + 1,
        float: lambda: value + 0.5,
        dict: lambda: {**value, "other": 1},
        tuple: lambda: value[:-1],
    }[type(value)]()
    assert replace(made, **{name: other}).hash != made.hash


def test_a_changed_manifest_is_refused(tmp_path: Path) -> None:
    manifest().write(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace('"ii": 4', '"ii": 5'))
    with pytest.raises(ManifestError, match=r"was changed after it was built .* build the folder"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "{]", '{"hash": "0"}', '"text"', "null"], ids=repr
)
def test_a_broken_manifest_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ManifestError, match=r"cannot be read .*: build the folder again\."):
        Manifest.read(tmp_path)


def test_a_missing_or_an_extra_member_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    for change in ({"ii": None}, {"color": "red"}):
        data = {**manifest().to_dict(), **change}
        path.write_text(json.dumps({k: v for k, v in data.items() if v is not None}))
        with pytest.raises(ManifestError, match=r"cannot be read|was changed"):
            Manifest.read(tmp_path)


def test_a_folder_that_is_no_build_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"not a build folder: .* 'pinion build ROBOT FUNCTION"):
        Manifest.read(tmp_path / "nowhere")


def test_a_budget_that_is_no_number_has_no_hash() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(manifest(), budget={"tau[0]": float("nan")}).hash  # noqa: B018 -- asked for
