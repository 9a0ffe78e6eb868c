"""Fuzzing finds no defect in either end, and finds those of broken ends.

A few thousand cases here; ``python -m tests.support.fuzz --cases 1000000`` runs a million.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from pinion.card.packets import PacketCard
from pinion.cosim.engines import CompileError
from pinion.link import (
    HEADER,
    MAX_COUNT,
    Cause,
    FrameError,
    Manifest,
    ManifestError,
    ResponseHead,
    Status,
    register,
)
from tests.support.builds import build
from tests.support.fuzz import (
    Mutator,
    Tally,
    devices,
    fuzz_devices,
    fuzz_manifests,
    fuzz_packets,
    fuzz_registers,
    fuzz_responses,
    fuzz_tops,
    manifests,
    packets,
    registers,
    responses,
    tops,
)
from tests.support.fuzz.__main__ import SHARES, main

SEED = 20


def clean(tally: Tally, cases: int) -> Tally:
    """Check that all cases were counted and none failed."""
    print(f"seed {tally.seed}")
    assert tally.failures == [] and tally.failed == 0
    assert tally.cases == cases == tally.refused + tally.accepted
    return tally


def test_the_host_takes_no_corrupted_response() -> None:
    tally = clean(fuzz_responses(cases=4000, seed=SEED), 4000)
    assert tally.accepted > 200 and tally.refused > 3000


def test_the_host_takes_no_corrupted_manifest() -> None:
    tally = clean(fuzz_manifests(cases=3000, seed=SEED), 3000)
    assert tally.accepted > 100 and tally.refused > 2000


def test_the_host_knows_its_card_whatever_registers_say() -> None:
    tally = clean(fuzz_registers(cases=3000, seed=SEED), 3000)
    assert tally.accepted > 200 and tally.refused > 1000


def test_a_device_gives_right_results_or_errors() -> None:
    tally = clean(fuzz_devices(cases=150, seed=SEED), 150)
    assert tally.accepted > 40 and tally.refused > 30


def test_the_card_answers_right_or_stops() -> None:
    tally = clean(fuzz_packets(cases=3000, seed=SEED), 3000)
    assert tally.more["bursts"] > 500


def test_the_same_seed_finds_the_same() -> None:
    for campaign in (fuzz_responses, fuzz_packets, fuzz_registers, fuzz_manifests):
        first, second = (campaign(cases=300, seed=SEED) for _ in range(2))
        assert (first.refused, first.accepted, first.more) == (
            second.refused,
            second.accepted,
            second.more,
        )
    mutators = [Mutator(random=Random(seed)) for seed in (1, 1, 2)]
    raw = bytes(range(256))
    packets = [[m.packet(raw, raw[::-1]) for _ in range(50)] for m in mutators]
    assert packets[0] == packets[1] != packets[2]


# -- broken ends, each of which the fuzzer must find


def found(tally: Tally, *needles: str) -> None:
    """Check that some case failed with the right words."""
    print(f"seed {tally.seed}")
    assert tally.failed and any(n in f for f in tally.failures for n in needles), tally.failures
    assert f"{tally.name}, seed {tally.seed}, case " in tally.failures[0]


def test_a_host_without_checks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    head = ResponseHead(status=Status.OK, sequence=0, flagged=0, cycles=0, stalled=0, starved=0)
    monkeypatch.setattr(responses, "read_response", lambda *a: head)
    found(fuzz_responses(cases=200, seed=SEED), "accepted that is not the card's", "Error")

    def strict(*arguments: Any) -> None:
        raise FrameError("nothing is good enough")

    monkeypatch.setattr(responses, "read_response", strict)
    found(fuzz_responses(cases=200, seed=SEED), "a good response was refused")

    def crash(*arguments: Any) -> None:
        raise IndexError("out of range")

    monkeypatch.setattr(responses, "read_response", crash)
    found(fuzz_responses(cases=20, seed=SEED), "IndexError in test_fuzz.py:")


def test_a_reader_of_manifests_without_checks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(cls: type[Manifest], data: bytes, *, path: Path) -> Manifest:
        fields = json.loads(data)
        for key in ("hash", "words_in", "words_out"):
            fields.pop(key, None)
        return Manifest(**fields)

    monkeypatch.setattr(Manifest, "parse", classmethod(trusting))
    tally = fuzz_manifests(cases=300, seed=SEED)
    found(tally, "JSONDecodeError", "TypeError")


def test_a_manifest_with_the_old_hash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    other = manifests.sample()
    object.__setattr__(other, "robot", "another")
    monkeypatch.setattr(Manifest, "parse", classmethod(lambda cls, data, *, path: other))
    found(fuzz_manifests(cases=50, seed=SEED), "accepted with the old hash")


@pytest.mark.parametrize("name", registers.MUST_FIT)
def test_a_register_that_nobody_looks_at_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    check, good = registers.check_card, registers.constants(manifests.sample())
    offset = register(name).offset

    def blind(read: Callable[[int], int], layout: Any, *, where: str) -> None:
        check(lambda at: good[name] if at == offset else read(at), layout, where=where)

    monkeypatch.setattr(registers, "check_card", blind)
    found(fuzz_registers(cases=1500, seed=SEED), name)


def test_a_device_that_does_not_look_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = packets.compute

    def off(words: np.ndarray) -> Any:
        answers = wrong(words)
        answers.words[0, 0] ^= 1
        return answers

    monkeypatch.setattr(devices, "compute", off)
    card = PacketCard(layout=packets.LAYOUT, compute=wrong)
    monkeypatch.setattr(devices, "PacketCard", lambda *, layout, compute: _with(card, layout))
    found(fuzz_devices(cases=20, seed=SEED), "results that are not its own")


def _with(card: PacketCard, layout: Any) -> PacketCard:
    return PacketCard(layout=layout, compute=card._compute)


class Gullible(PacketCard):
    """A card that takes a header with a wrong checksum."""

    def _check(self, beat: np.ndarray, *, whole: bool) -> Cause:
        cause = super()._check(beat, whole=whole)
        fits = 1 <= beat.view(HEADER)[0]["count"] <= MAX_COUNT
        return Cause.NONE if cause is Cause.HEADER_CRC and fits else cause


class Forgetful(PacketCard):
    """A card that does not report damaged records."""

    def _respond(self, request: Any, epoch: int) -> Any:
        header, payload = request
        header = header.copy()
        header["payload_crc"] = packets_crc(payload)
        return super()._respond((header, payload), epoch)


class Stubborn(PacketCard):
    """A card that stays halted after a reset."""

    def _clear(self) -> None:
        before = getattr(self, "_halted", False)
        super()._clear()
        self._halted = before


def packets_crc(payload: np.ndarray) -> int:
    from zlib import crc32

    return crc32(payload)


@pytest.mark.parametrize(
    ("mutant", "words"),
    [(Gullible, "requests that nobody sent"), (Forgetful, "are wrong"), (Stubborn, "STATUS is")],
)
def test_a_broken_card_is_found(
    monkeypatch: pytest.MonkeyPatch, mutant: type[PacketCard], words: str
) -> None:
    monkeypatch.setattr(packets, "PacketCard", mutant)
    found(fuzz_packets(cases=1500, seed=SEED), words)


def test_the_command_names_every_campaign(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    manifests.sample().write(tmp_path)

    def tops(*, cases: int, seed: int, folder: Path) -> Tally:
        return Tally(name="card, RTL", seed=seed, cases=cases, refused=cases)

    monkeypatch.setattr("tests.support.fuzz.__main__.fuzz_tops", tops)
    arguments = [str(tmp_path), "--cases", "500", "--seed", "3"]
    assert main([*arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["cases"] == 500 == sum(c["cases"] for c in data["campaigns"])
    assert (data["seed"], data["failed"], data["left_out"]) == (3, 0, {})
    assert len(data["campaigns"]) == len(SHARES) and sum(SHARES.values()) == pytest.approx(1)
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "500 cases in" in printed and "seed 3: 0 failed." in printed

    def bad(*, cases: int, seed: int) -> Tally:
        tally = Tally(name="responses", seed=seed)
        tally.fail("on purpose")
        return tally

    monkeypatch.setattr("tests.support.fuzz.__main__.fuzz_responses", bad)
    assert main(arguments) == 1
    assert "responses, seed 3, case 0: on purpose" in capsys.readouterr().out
    assert main([str(tmp_path / "nowhere"), "--cases", "10"]) == 2
    assert "not a build folder" in capsys.readouterr().err
    with pytest.raises(ManifestError):
        Manifest.read(tmp_path / "nowhere")


@pytest.mark.parametrize("how", ["cannot be compiled", "tries nothing"])
def test_a_run_that_skips_a_campaign_fails(
    how: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    manifests.sample().write(tmp_path)

    def tops(*, cases: int, seed: int, folder: Path) -> Tally:
        if how == "cannot be compiled":
            raise CompileError("There is no g++.")
        return Tally(name="card, RTL", seed=seed, cases=0)

    monkeypatch.setattr("tests.support.fuzz.__main__.fuzz_tops", tops)
    assert main([str(tmp_path), "--cases", "100"]) == 1
    output = capsys.readouterr().out
    assert ("tops: not run. There is no g++." in output) is (how == "cannot be compiled")
    assert "0 failed" in output


# -- the whole top in RTL


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small build."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++ to compile RTL with")
    path = tmp_path_factory.mktemp("fuzz") / "two_link"
    build("two_link", "rnea", path, ii=4)
    return path


@pytest.mark.slow
def test_the_rtl_answers_right_or_stops(folder: Path) -> None:
    tally = clean(fuzz_tops(cases=4000, seed=SEED, folder=folder), 4000)
    more = tally.more
    assert more["responses"] > 1000 and more["aborted"] > 10 and more["compared"] > 500


@pytest.mark.slow
def test_a_card_unlike_the_rtl_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tops, "PacketCard", Gullible)
    found(fuzz_tops(cases=500, seed=SEED, folder=folder), "at packet level")


@pytest.mark.slow
def test_results_unlike_the_integers_are_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = tops.Reference.expected

    def off(self: Any, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        results, flags = right(self, words)
        return results ^ np.uint32(1), flags

    monkeypatch.setattr(tops.Reference, "expected", off)
    found(fuzz_tops(cases=50, seed=SEED, folder=folder), "are wrong, and the status is good")
