"""Instruction sets by a processor's features."""

from __future__ import annotations

import platform

import pytest

from pinion.native import isa
from pinion.native.errors import ComputeError

AVX2 = frozenset({"fpu", "sse2", "avx", "avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512dq", "avx512vl", "avx512bw"}


def pretend(
    monkeypatch: pytest.MonkeyPatch, machine: str, features: frozenset[str] = frozenset()
) -> list[str]:
    monkeypatch.setattr(isa, "processor", lambda: (machine, features))
    return [instruction_set.name for instruction_set in isa.available()]


def test_machines_have_what_their_features_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pretend(monkeypatch, "x86_64", AVX512) == ["avx512", "avx2", "portable"]
    assert isa.best().name == "avx512" and isa.best().vector_bytes == 64
    assert pretend(monkeypatch, "x86_64", AVX2) == ["avx2", "portable"]
    assert pretend(monkeypatch, "x86_64", frozenset({"sse2"})) == ["portable"]
    assert pretend(monkeypatch, "aarch64") == ["neon", "portable"]
    assert pretend(monkeypatch, "riscv64") == ["portable"]
    # Features of the same name on another architecture do not count.
    assert pretend(monkeypatch, "aarch64", AVX512) == ["neon", "portable"]


@pytest.mark.parametrize("feature", sorted(AVX512 - {"fpu", "sse2", "avx"}))
def test_each_feature_is_asked_for(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = pretend(monkeypatch, "x86_64", AVX512 - {feature})
    assert "avx512" not in names or feature == "avx2"
    assert ("avx2" in names) == (feature not in ("avx2", "fma"))


def test_names_are_looked_up_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "x86_64", AVX512 - {"avx512dq", "avx512vl"})
    assert isa.named("avx2").flags == ("-mavx2", "-mfma")
    with pytest.raises(ComputeError) as caught:
        isa.named("sse9")
    assert str(caught.value) == "Unknown instruction set 'sse9': choose avx2 or portable."
    with pytest.raises(ComputeError) as caught:
        isa.named("avx512")
    assert str(caught.value) == (
        "This machine lacks avx512dq, avx512vl, so it cannot run 'avx512': choose avx2 or portable."
    )
    with pytest.raises(ComputeError, match=r"^This machine is x86_64, so it cannot run 'neon':"):
        isa.named("neon")


def test_linux_lists_features_of_the_first_processor() -> None:
    head = ["processor\t: 0\n", "model name\t: flags of convenience: none\n"]
    lines = [*head, "flags\t\t: fpu avx2 fma\n", "vmx flags\t: vnmi\n", "\n", "flags\t\t: avx9\n"]
    assert isa.linux_features(lines) == {"fpu", "avx2", "fma"}
    assert isa.linux_features(["Features\t: fp asimd\n"]) == frozenset()


@pytest.mark.parametrize(
    ("reported", "machine"), [("AMD64", "x86_64"), ("arm64", "aarch64"), ("x86_64", "x86_64")]
)
def test_architectures_have_several_names(
    reported: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: reported)
    assert isa.processor()[0] == machine


def test_this_machine_runs_something() -> None:
    runs = isa.available()
    assert runs[-1].name == "portable" and isa.best() == runs[0] == isa.named(runs[0].name)
