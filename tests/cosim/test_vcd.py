"""Waveform files, read back with pyvcd's reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vcd.reader import TokenKind, tokenize

from pinion.cosim.compiled import CompiledCore
from pinion.cosim.stream import pack_records
from pinion.cosim.vcd import write_vcd


def read(path: Path) -> dict[str, dict[int, int]]:
    """Return name -> {time: value} of all changes to known values."""
    names: dict[str, str] = {}
    scope: list[str] = []
    changes: dict[str, dict[int, int]] = {}
    now = 0
    with path.open("rb") as file:
        for token in tokenize(file):
            if token.kind is TokenKind.SCOPE:
                scope.append(token.scope.ident)
            elif token.kind is TokenKind.UPSCOPE:
                scope.pop()
            elif token.kind is TokenKind.VAR:
                leaf = token.var.reference
                if token.var.bit_index is not None:
                    leaf += f"[{token.var.bit_index}]"
                names[token.var.id_code] = ".".join([*scope[1:], leaf])
            elif token.kind is TokenKind.CHANGE_TIME:
                now = token.time_change
            elif token.kind is TokenKind.CHANGE_SCALAR:
                change = token.scalar_change
                if change.value in "01":
                    changes.setdefault(names[change.id_code], {})[now] = int(change.value)
            elif token.kind is TokenKind.CHANGE_VECTOR:
                vector = token.vector_change
                if isinstance(vector.value, int):
                    changes.setdefault(names[vector.id_code], {})[now] = vector.value
    return changes


def sample(changes: dict[int, int], n: int) -> list[int]:
    """Return the values at the end of each of ``n`` cycles of 10 ns."""
    values, value = [], -1
    for time in range(10 * n):
        value = changes.get(time, value)
        if time % 10 == 9:
            values.append(value)
    return values


def test_values_scopes_and_mismatch(tmp_path: Path) -> None:
    cycles: dict[str, np.ndarray[Any, Any]] = {
        "tau[0]": np.array([1, -2, 3, 3], dtype=np.int64),
        "tau[0]_expected": np.array([1, -2, 4, 3], dtype=np.int64),
        "unit.o": np.array([0, 1 << 80, 5, 6], dtype=object),
    }
    widths = {"tau[0]": 32, "tau[0]_expected": 32, "unit.o": 96}
    bad = write_vcd(tmp_path / "a.vcd", cycles=cycles, widths=widths)
    assert bad.tolist() == [False, False, True, False]
    back = read(tmp_path / "a.vcd")
    assert sample(back["unit.o"], 4) == [0, 1 << 80, 5, 6]
    assert sample(back["tau[0]"], 4) == [1, (1 << 32) - 2, 3, 3]
    assert sample(back["tau[0]_expected"], 4) == [1, (1 << 32) - 2, 4, 3]
    assert sample(back["mismatch"], 4) == [0, 0, 1, 0]
    assert [back["clk"][k] for k in (0, 5, 10, 15)] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("cycles", "widths", "sentence"),
    [
        ({"a": [1, 2], "b": [1]}, {"a": 1, "b": 1}, "differ in length"),
        ({"a": [1]}, {}, "'a' needs a width"),
        ({"a_expected": [1]}, {"a_expected": 1}, "no 'a' to compare"),
        ({"clk": [1]}, {"clk": 1}, "'clk' is always written"),
    ],
)
def test_bad_signals_are_refused_before_writing(
    tmp_path: Path, cycles: dict[str, list[int]], widths: dict[str, int], sentence: str
) -> None:
    arrays = {name: np.array(values) for name, values in cycles.items()}
    with pytest.raises(ValueError, match=sentence):
        write_vcd(tmp_path / "a.vcd", cycles=arrays, widths=widths)
    assert not (tmp_path / "a.vcd").exists()


def test_trace_of_a_core_becomes_a_waveform(standin: Any, tmp_path: Path) -> None:
    folder = standin.rtlil().parent
    core = CompiledCore.build(rtlil=standin.rtlil(), folder=folder / "compiled", debug=True)
    words = standin.records(6, words=4, seed=3)
    beats, last = pack_records(words, lanes=2, beats=2)
    names = ["i_tvalid", "i_tready", "i_tdata", "o_tvalid", "o_tdata", "unit.o", "launch"]
    trace = core.trace(names, beats, last, cycles=20)
    accepted = (trace["i_tvalid"] & trace["i_tready"]).astype(bool)
    sums = trace["unit.o"][accepted]
    expected = beats + np.uint32(standin.constant)
    wide = expected[:, 0].astype(np.uint64) | expected[:, 1].astype(np.uint64) << np.uint64(32)
    assert np.array_equal(sums, wide)
    emitted = trace["o_tdata"][trace["o_tvalid"].astype(bool)]
    assert np.array_equal(emitted[: len(wide)], wide)
    assert trace["launch"].sum() == len(words)

    stamps = core.run(beats, last, expected_beats=len(beats))
    assert np.flatnonzero(accepted).tolist() == stamps.accepted.tolist()
    widths = dict.fromkeys(names, 1) | {"i_tdata": 64, "o_tdata": 64, "unit.o": 64}
    write_vcd(tmp_path / "core.vcd", cycles=trace, widths=widths)
    back = read(tmp_path / "core.vcd")
    assert sample(back["unit.o"], 20) == [int(v) for v in trace["unit.o"]]


def test_trace_names_the_nearest_signal_and_needs_debug(standin: Any) -> None:
    folder = standin.rtlil().parent / "compiled"
    beats, last = pack_records(standin.records(1, words=4, seed=4), lanes=2, beats=2)
    core = CompiledCore.build(rtlil=standin.rtlil(), folder=folder, debug=True)
    with pytest.raises(KeyError, match=r"no signal 'unit\.oo'.*unit\.o"):
        core.trace(["unit.oo"], beats, last, cycles=4)
    plain = CompiledCore.build(rtlil=standin.rtlil(), folder=folder)
    with pytest.raises(ValueError, match="debug=True"):
        plain.trace(["unit.o"], beats, last, cycles=4)
