"""Refusal of invalid manifests with a correct hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pinion.link import Manifest, ManifestError
from tests.support.fuzz.manifests import sample

PLACE = Path("folder/manifest.json")


def sealed(change: dict[str, Any], **words: Any) -> bytes:
    """Return the sample with changed members and a matching hash and numbers of words."""
    data = {**sample().to_dict(), **change}
    for key in ("hash", "words_in", "words_out"):
        del data[key]
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    count = {"words_in": sample().words_in, "words_out": sample().words_out, **words}
    return json.dumps({**data, **count, "hash": digest}).encode()


def array(**change: Any) -> list[dict[str, Any]]:
    """Return the sample's outputs with the second one changed."""
    first, second = sample().to_dict()["outputs"]
    return [first, {**second, **change}]


def mapped(rows: list[list[Any]]) -> dict[str, Any]:
    """Return the sample's inputs with a map of the first one."""
    first, *others = sample().to_dict()["inputs"]
    return {"inputs": [{**first, "linear_map": rows}, *others]}


def bounds(*, low: float = 0.0, high: float = 1.0) -> dict[str, Any]:
    """Return bounds of one parameter."""
    return {"parameter_low": {"minv[0,0]": low}, "parameter_high": {"minv[0,0]": high}}


def test_the_seal_fits() -> None:
    assert Manifest.parse(sealed({}), path=PLACE) == sample()
    changed = Manifest.parse(sealed({"ii": 5}), path=PLACE)
    assert changed.ii == 5 and changed.hash != sample().hash


def test_a_manifest_of_another_version_is_told_from_a_damaged_one() -> None:
    whole = json.loads(sealed({}))
    older = {name: value for name, value in whole.items() if name != "objective"}
    for text, sentence in (
        (older, "it is from another version of Pinion: it has no objective"),
        ({**whole, "strange_member": 3}, "from another version of Pinion: it has 'strange_member"),
        ([], "it is not a manifest"),
    ):
        with pytest.raises(ManifestError, match=sentence):
            Manifest.parse(json.dumps(text).encode(), path=PLACE)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"request": {"max_error": float("inf")}}, "Out of range float values"),
        (mapped([[1.0, 0.0, 0.5], [0.0, 1.0]]), "the map of q does not match its shape"),
        (mapped([[1.0, 0.0, 0.5]]), "the map of q does not match its shape"),
        (mapped([[1.0, 2.0, 0.5], [2.0, 4.0, 0.0]]), "the map of q cannot be inverted"),
        (mapped([1.0]), r"a row is 1\.0, not of type list"),
        (mapped({}), "a map is {}, not of type list"),  # type: ignore[arg-type] -- what is refused
        (mapped([[1.0, "2", 0.5], [0.0, 1.0, 0.0]]), "a number of a map is '2'"),
        *(
            ({name: 0}, f"{name} is 0, not between 1 and 2147483647")
            for name in ("ii", "lanes_in", "lanes_out", "beats_in", "beats_out", "interleave")
        ),
        ({"registers": 2**31}, "registers is 2147483648, not between 0 and 2147483647"),
        ({"ii": True}, "ii is True"),
        ({"ii": "8"}, "ii is '8'"),
        ({"ii": 8.0}, r"ii is 8\.0"),
        ({"adders": -1}, "adders is -1"),
        ({"registers": 10**30}, "registers is 10000"),
        ({"robot": 5}, "robot is 5"),
        ({"function": "\ud800"}, ".* surrogates not allowed"),
        ({"clock_mhz": 0.0}, r"clock_mhz is 0\.0"),
        ({"clock_mhz": 10**400}, "int too large"),
        ({"max_error": float("nan")}, "max_error is nan"),
        ({"request": 5}, "request is 5, not of type dict"),
        ({"units": [1]}, r"units is \[1\]"),
        ({"units": {"add": -1}}, "units add is -1"),
        ({"options": {"a": 1}}, "options a is 1"),
        ({"budget": {"tau[0]": None}}, "budget tau.* is None"),
        ({"lanes_out": 1, "beats_out": 1}, ".* 1 beat of 1 word can hold 1"),
        ({"outputs": array(name="tau")}, "two arrays have the same name: tau, tau"),
        ({"outputs": array(name="")}, "an array has the invalid name ''"),
        (
            {"outputs": array(shape=[-1, 3])},
            r"the shape \(-1, 3\) of part has a negative size or more than",
        ),
        (
            {"outputs": array(shape=[10**6, 10**6])},
            r"the shape \(1000000, 1000000\) of part has .* or more than",
        ),
        (
            {"outputs": array(shape=[2] * 17)},
            r"the shape \(2, .* of part has a negative size or more",
        ),
        (
            {"outputs": array(shape=[65537], sent=[0])},
            r"the shape \(65537,\) of part has a negative",
        ),
        ({"outputs": array(shape="23")}, "a shape is '23'"),
        ({"outputs": array(shape=[2.0, 3])}, r"a shape is 2\.0, not of type int"),
        ({"outputs": array(name=5)}, "a name is 5, not of type str"),
        ({"outputs": array(unit=5)}, "a unit is 5, not of type str"),
        ({"outputs": array(unit="\x1b[2J")}, r"a unit has a control character: '\\x1b\[2J'"),
        ({"outputs": array(sent="1")}, "what is sent is '1', not of type list"),
        ({"outputs": array(sent=["1"])}, "what is sent is '1', not of type int"),
        ({"outputs": array(constants={})}, "constants is {}, not of type list"),
        ({"outputs": array(constants=[["0", 0.5]])}, "a position is '0', not of type int"),
        ({"outputs": array(constants=[[0, "0"]])}, "a constant is '0', not a finite number"),
        ({"outputs": array(sent=[1, 1, 2])}, "part lists an element outside its shape, or twice"),
        ({"outputs": array(sent=[1, 2, 6])}, "part lists an element outside its shape, or twice"),
        ({"outputs": array(sent=[-1, 1, 2])}, "part lists an element outside its shape, or twice"),
        (
            {"outputs": array(constants=[[1, 0.5]])},
            "part lists an element outside its shape, or twice",
        ),
        ({"outputs": array(constants=[[0, 10**400]])}, "int too large"),
        (
            {"outputs": array(symmetric=True)},
            r"part is marked as symmetric, but its shape is \(2, 3\)",
        ),
        ({"outputs": array(symmetric=1)}, "symmetric is 1, not of type bool"),
        ({"outputs": array(shape=[6], symmetric=True)}, r"part is marked as symmetric, .*\(6,\)"),
        ({"outputs": {"a": 1}}, "string indices must be integers"),
        (
            {"parameter_low": {"minv[0,0]": 0.0}},
            "the low and high bounds of the parameters do not match",
        ),
        (bounds(low=1.0, high=0.0), "the low and high bounds of the parameters do not match"),
        (bounds(), "the number of bounds of parameters is 1, not 3"),
        (
            {**bounds(), "inputs": sample().to_dict()["inputs"][:1]},
            "the number of bounds of parameters is 1, not 2",
        ),
    ],
)
def test_what_no_build_has_is_a_sentence(change: dict[str, Any], sentence: str) -> None:
    whole = rf"^'folder/manifest\.json' cannot be read \({sentence}.*\): build the folder again\.$"
    with pytest.raises(ManifestError, match=whole) as raised:
        Manifest.parse(sealed(change), path=PLACE)
    assert len(str(raised.value)) < 400


def test_parameters_alone_are_no_request() -> None:
    _, minv = sample().to_dict()["inputs"]
    words = ("minv[0,0]", "minv[1,0]", "minv[1,1]")
    change = {
        "inputs": [minv],
        "parameter_low": dict.fromkeys(words, 0.0),
        "parameter_high": dict.fromkeys(words, 0.0),
    }
    with pytest.raises(ManifestError, match="a request has parameters but no other words"):
        Manifest.parse(sealed(change, words_in=3), path=PLACE)
    q = sample().to_dict()["inputs"][0]
    other = {**q, "name": "qd"}
    change |= {"inputs": [q, other, minv], "lanes_in": 7}
    read = Manifest.parse(sealed(change, words_in=7), path=PLACE)
    assert read.parameters == read.inputs[2]
    assert [array.name for array in read.records] == ["q", "qd"]


def test_the_limits_themselves_are_allowed() -> None:
    tau, part = sample().to_dict()["outputs"]
    whole = {**part, "constants": [], "sent": None}
    for shape, words in (([1 << 16], 1 << 16), ([0, 3], 0), ([1 << 8, 1 << 8], 1 << 16)):
        change = {"outputs": [{**whole, "shape": shape}], "beats_out": 1 << 14}
        read = Manifest.parse(sealed(change, words_out=words), path=PLACE)
        assert read.outputs[0].shape == tuple(shape) and read.words_out == words
    ends = {**part, "sent": [0, 5], "constants": []}
    assert Manifest.parse(sealed({"outputs": [tau, ends]}, words_out=4), path=PLACE).words_out == 4
    invertible = mapped([[1.0, 2.0, 0.5], [2.0, 5.0, 0.0]])
    read = Manifest.parse(sealed({**invertible, "clock_mhz": 0.5}), path=PLACE)
    assert read.inputs[0].linear_map == ((1.0, 2.0, 0.5), (2.0, 5.0, 0.0)) and read.clock_mhz == 0.5
    change = {"inputs": [], "registers": 2**31 - 1, "adders": 0, "ii": 1, "units": {"add": 0}}
    read = Manifest.parse(sealed(change, words_in=0), path=PLACE)
    assert (read.words_in, read.registers, read.adders, read.ii) == (0, 2**31 - 1, 0, 1)
    # A record that fills its beats, and one that has a word more.
    for beats, fits in ((5, True), (4, False)):
        changed = sealed({"lanes_in": 1, "beats_in": beats})
        if fits:
            Manifest.parse(changed, path=PLACE)
        else:
            with pytest.raises(
                ManifestError, match="4 beats of 1 word can hold 4, and records have at most 65536"
            ):
                Manifest.parse(changed, path=PLACE)


def test_long_values_and_long_reasons_are_cut() -> None:
    def reason(change: dict[str, Any]) -> str:
        with pytest.raises(ManifestError) as raised:
            Manifest.parse(sealed(change), path=PLACE)
        return str(raised.value).removeprefix("'folder/manifest.json' cannot be read (")

    end = "): build the folder again."
    # With its quotes, 100 characters or one more.
    whole, longer = "x" * 98, "x" * 99
    assert reason({"ii": whole}) == f"ii is '{whole}', not of type int{end}"
    assert reason({"ii": longer}) == f"ii is '{longer}..., not of type int{end}"
    start = "an array has the invalid name '"
    whole, longer = ("-" * (count - len(start) - 1) for count in (250, 251))
    assert reason({"outputs": array(name=whole)}) == f"{start}{whole}'{end}"
    assert reason({"outputs": array(name=longer)}) == f"{start}{longer}...{end}"


def test_the_words_that_it_states_are_its_own() -> None:
    for words in (0, 6, 5.0, None, "5"):
        with pytest.raises(ManifestError, match="words_in is"):
            Manifest.parse(sealed({}, words_in=words), path=PLACE)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 10_000,
        b"\xff\xfe{}",
        *(b"", b"{}", b"{]", b"null"),
        b'{"hash": 1e999}',
        json.dumps({**sample().to_dict(), "hash": "x" * 100_000}).encode(),
        json.dumps({**sample().to_dict(), "y" * 100_000: 1}).encode(),
    ],
    ids=lambda data: repr(data[:12]),
)
def test_files_that_are_meant_badly_are_a_sentence(data: bytes) -> None:
    with pytest.raises(ManifestError) as raised:
        Manifest.parse(data, path=PLACE)
    assert len(str(raised.value)) < 400
