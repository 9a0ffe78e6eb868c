"""The cocotb bench on both simulators agrees with the compiled engine and catches each fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.base.progress import Progress
from pinion.cosim import runner, stream
from pinion.cosim.compiled import CompiledCore
from pinion.cosim.runner import BenchError, run_bench
from pinion.cosim.stream import StreamDeadlockError, pack_records
from pinion.gateware.verilog import emit_verilog
from tests.support.breadth import some_rows

LANES, BEATS, WORDS = 2, 2, 3
# Verilator's bench on a real core is in ``test_explicit_blocks.py``.
SIMULATORS = ("icarus", pytest.param("verilator", marks=pytest.mark.slow))
# Pauses of the host before requests and after results.
PAUSES = [
    (None, None),
    (stream.random(seed=1), stream.bursts(seed=2)),
    (stream.single(seed=3), stream.long_pause(seed=4, blocked=300, free=40)),
]
REFERENCE = """
import numpy as np

class Reference:
    def __init__(self, folder):
        self.constant = np.uint32(int((folder / "constant.txt").read_text()))

    def expected(self, words):
        assert words.shape[1] == 3, words.shape
        return words + self.constant, (words >> np.uint32(31)).any(axis=1)

    def check_floats(self, words_in, words_out):
        if self.constant == 7:
            return []
        error = int(np.max(words_out - words_in - self.constant))
        return [f"An error of {error} is over the budget of 0."] if error else []

def make(folder):
    return Reference(folder)

def strict(folder):
    reference = Reference(folder)
    reference.check_floats = lambda words_in, words_out: ["An error of 3 is over the budget of 2."]
    return reference
"""


def bench(
    standin: Any, folder: Path, simulator: str, *, n: int, fault: str = "none", **options: Any
) -> stream.StreamResult:
    words = standin.records(n, words=WORDS, seed=21)
    beats, last = pack_records(words, lanes=LANES, beats=BEATS)
    options.setdefault("expected", standin.expect(words))
    return run_bench(
        verilog=standin.verilog(lanes=LANES, fault=fault),
        folder=folder,
        simulator=simulator,  # type: ignore[arg-type]
        beats=beats,
        last=last,
        expected_beats=len(beats),
        words_in=WORDS,
        words_out=WORDS,
        **options,
    )


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all benches of the core, so that Verilator compiles it once."""
    return tmp_path_factory.mktemp("bench")


@pytest.mark.parametrize(
    ("idle", "stall"),
    some_rows(PAUSES, lambda idle, stall: idle is PAUSES[1][0]),
    ids=["no pauses", "pauses", "long pauses"],
)
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_agrees_with_the_compiled_engine(
    standin: Any, shared: Path, simulator: str, idle: Any, stall: Any
) -> None:
    source = standin.rtlil(lanes=LANES)
    core = CompiledCore.build(rtlil=source, folder=source.parent / "compiled")
    n = 60
    words = standin.records(n, words=WORDS, seed=21)
    beats, last = pack_records(words, lanes=LANES, beats=BEATS)
    ours = core.run(beats, last, expected_beats=len(beats), idle=idle, stall=stall).check()
    waves = simulator == "icarus"
    theirs = bench(standin, shared, simulator, n=n, idle=idle, stall=stall, waves=waves).check()
    if waves:
        traces = [*shared.rglob("*.fst"), *shared.rglob("*.vcd")]
        assert traces and traces[0].stat().st_size > 100, sorted(shared.rglob("*"))
    assert np.array_equal(ours.beats, theirs.beats)
    assert np.array_equal(ours.last, theirs.last)
    assert np.array_equal(ours.user, theirs.user)
    assert theirs.user.any()
    # The bench's last count of beats: at most two of a hundred parts are missing.
    shares: list[float] = []
    runner.share_of(shared / simulator / runner.DONE, len(beats), Progress(shares=shares.append))()
    assert len(shares) == 1 and 0.97 < shares[0] <= 1.0
    if idle is None:  # with pauses cocotbext-axi differs from the engine by cycles
        assert np.array_equal(ours.accepted, theirs.accepted)
        assert np.array_equal(ours.emitted, theirs.emitted)
        assert np.array_equal(ours.launched, theirs.launched)
    else:
        assert theirs.cycles > 2 * n * BEATS


def test_a_share_that_is_not_yet_written_is_not_said(tmp_path: Path) -> None:
    path, shares = tmp_path / runner.DONE, list[float]()
    look = runner.share_of(path, 80, Progress(shares=shares.append))
    look()
    for text in ("", "20", "60"):
        path.write_text(text)
        look()
    assert shares == [0.25, 0.75]


@pytest.mark.slow
def test_a_reference_runs_inside_the_bench(
    standin: Any, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bench_reference.py").write_text(REFERENCE)
    (tmp_path / "constant.txt").write_text(str(standin.constant))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    options: dict[str, Any] = {"n": 8, "expected": None, "reference_folder": tmp_path}
    bench(standin, shared, "icarus", reference="bench_reference:make", **options)
    with pytest.raises(BenchError, match=r"error of 3 is over the budget of 2.*bench\.log"):
        bench(standin, shared, "icarus", reference="bench_reference:strict", **options)
    (tmp_path / "constant.txt").write_text("7")
    with pytest.raises(
        BenchError, match="differ from the reference's words in 24 words of 8 records"
    ):
        bench(standin, shared, "icarus", reference="bench_reference:make", **options)


def test_a_wrong_bit_fails_the_bench(standin: Any, tmp_path: Path) -> None:
    sentence = r"differ from the expected words in 1 word of 1 record;.*word 2 of record 10"
    bad, flags = standin.expect(standin.records(20, words=WORDS, seed=21))
    bad[10, 2] ^= 4
    with pytest.raises(BenchError, match=sentence) as caught:
        bench(standin, tmp_path, "icarus", n=20, expected=(bad, ~flags))
    assert "differ from the expected flags in 20 words of 20 records" in str(caught.value)


@pytest.mark.slow
def test_each_fault_is_caught(standin: Any, tmp_path: Path) -> None:
    with pytest.raises(StreamDeadlockError, match="11 of 40 input beats accepted and 11 of 40"):
        bench(standin, tmp_path, "icarus", n=20, fault="deadlock", limit=100)
    assert bench(standin, tmp_path, "icarus", n=20, fault="duplicate", expected=None).surplus == 1
    stall = stream.random(seed=9)
    for fault in ("unstable", "drop_valid"):
        result = bench(standin, tmp_path, "icarus", n=60, fault=fault, stall=stall, expected=None)
        assert result.violations > 0


@pytest.mark.slow
def test_a_wrong_bit_of_the_core_is_caught(standin: Any, tmp_path: Path) -> None:
    """The ordinary tests do the same with a wrong expected bit."""
    with pytest.raises(BenchError, match="record 10"):
        bench(standin, tmp_path, "icarus", n=20, fault="corrupt")


@pytest.mark.slow
def test_an_unknown_handshake_is_caught(standin: Any, tmp_path: Path) -> None:
    text = standin.verilog(lanes=LANES).read_text()
    unknown = tmp_path / "unknown.v"
    marker = "assign o_tvalid = "
    assert text.count(marker) == 1
    unknown.write_text(text.replace(marker, "assign o_tvalid = 1'bx & "))
    beats, last = pack_records(standin.records(2, words=4, seed=1), lanes=LANES, beats=BEATS)
    with pytest.raises(BenchError, match="handshake signal is X or Z after reset"):
        run_bench(
            verilog=unknown,
            folder=tmp_path,
            simulator="icarus",
            beats=beats,
            last=last,
            expected_beats=4,
        )


def test_refusals_are_sentences(
    standin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "bad.v"
    bad.write_text("module pinion_core(input clk; endmodule\n")
    beats, last = np.zeros((2, 2), np.uint32), np.array([False, True])
    options: dict[str, Any] = {"folder": tmp_path, "last": last, "expected_beats": 2}
    with pytest.raises(BenchError, match=r"icarus bench exited with code .*bench\.log"):
        run_bench(verilog=bad, simulator="icarus", beats=beats, **options)
    with pytest.raises(ValueError, match="no simulator 'vcs'"):
        run_bench(verilog=bad, simulator="vcs", beats=beats, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="float64"):
        run_bench(verilog=bad, simulator="icarus", beats=beats.astype(float), **options)
    with pytest.raises(FileNotFoundError, match="build the core first"):
        run_bench(verilog=tmp_path / "no.v", simulator="icarus", beats=beats, **options)
    with pytest.raises(FileNotFoundError, match="no RTLIL file"):
        emit_verilog(tmp_path / "no.il", tmp_path / "no.v")
    monkeypatch.setattr(runner.shutil, "which", lambda _name: None)
    with pytest.raises(BenchError, match="Icarus is missing: install it"):
        run_bench(verilog=bad, simulator="icarus", beats=beats, **options)
    with pytest.raises(BenchError, match=r"g\+\+ is missing, which Verilator needs"):
        run_bench(verilog=bad, simulator="verilator", beats=beats, **options)
