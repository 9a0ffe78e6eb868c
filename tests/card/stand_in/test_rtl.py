"""The compiled top behind the stand-in, and mutants of its rules."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from pinion.boards.top import top_rtlil
from pinion.card.stand_in import (
    CompiledAxiCard,
    Fault,
    FaultPlan,
    StandInNodes,
    XdmaModel,
    why_no_fuse,
)
from pinion.cosim.stream import bursts
from pinion.cosim.top import CompiledTop
from pinion.driver import Device, DriverError, TransportError
from pinion.driver.xdma import XdmaTransport
from pinion.gateware.link import top as top_module
from pinion.link import Cause, layout_of
from tests.support.builds import build
from tests.support.soak import soak
from tests.support.workload import Workload, workload_of

pytestmark = pytest.mark.slow

SHORT = Fault(kind="partial_tkeep", at=(0,), beat=3, size=24)
TORN = Fault(kind="corrupt_beat", at=(0,), beat=0, bit=0)
CUT = Fault(kind="short_read", at=(0,), beats=2)

# Replacements in the source of the top, and the plan that reveals them.
MUTANTS = {
    "2, no error bit for a partial beat": (
        "whole.eq(self.h2c_tkeep.all())",
        "whole.eq(1)",
        SHORT,
    ),
    "7, the soft reset withdraws an offer": (
        "self.c2h_tvalid.eq(holding.o.valid)",
        "self.c2h_tvalid.eq(holding.o.valid & ~sequencer.stream_clear)",
        CUT,
    ),
    "7, results are lost while nobody reads": (
        "holding.o.ready.eq(self.c2h_tready)",
        "holding.o.ready.eq(1)",
        None,
    ),
    "10, the soft reset clears nothing": (
        "cleared.rst = sequencer.stream_clear",
        "cleared.rst = self.rst",
        TORN,
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("card") / "pendulum"
    build("pendulum", "rnea", path, ii=2)
    return path


@pytest.fixture(scope="module")
def workload(folder: Path) -> Workload:
    return workload_of(folder, count=300, seed=4)


def outcome(
    rtlil: Path, workload: Workload, fault: Fault | None, *, sound: float = 120.0
) -> list[object]:
    """Return the outcomes of three batches: None, an error, or a number of wrong results.

    A transfer may stand still for ``sound`` seconds where no fault of the plan has stopped it.
    """
    plan = FaultPlan(faults=(fault,) if fault else ())
    top = CompiledTop.build(rtlil=rtlil, folder=rtlil.parent / "sim")
    axi_card = CompiledAxiCard(top=top, stall=bursts(seed=5))
    layout = layout_of(workload.manifest)
    model = XdmaModel(card=axi_card, layout=layout, plan=plan, timeout=0.5, sound_timeout=sound)
    results: list[object] = []
    try:
        transport = XdmaTransport(nodes=StandInNodes(model=model), layout=layout)
        with Device(
            manifest=workload.manifest, transport=transport, timeout=300.0, patience=300.0
        ) as device:
            for number in range(3):
                rows = np.arange(100 * number, 100 * number + 100)
                try:
                    wrong = workload.wrong(rows, device.run(**workload.take(rows)))
                    results.append(wrong or None)
                except (DriverError, TransportError) as error:
                    results.append(getattr(error, "cause", None) or error)
    except (DriverError, TransportError) as error:
        results.append(error)
    results += [record.detail for record in model.log() if record.kind == "violation"]
    model.stop()
    return results


def test_the_top_itself_passes(folder, workload, tmp_path):
    path = tmp_path / "top.il"
    path.write_text(top_rtlil(folder))
    assert outcome(path, workload, None) == [None, None, None]
    assert outcome(path, workload, SHORT) == [Cause.PARTIAL_BEAT, None, None]
    assert outcome(path, workload, TORN) in (
        [Cause.MAGIC, None, None],
        [Cause.HEADER_CRC, None, None],
    )


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_the_top_is_caught(folder, workload, tmp_path, monkeypatch, name):
    old, new, fault = MUTANTS[name]
    for method in ("elaborate", "_domains"):
        source = inspect.getsource(getattr(top_module.Top, method))
        if old in source:
            scope = dict(vars(top_module))
            exec("class Mutant:\n" + source.replace(old, new), scope)
            monkeypatch.setattr(top_module.Top, method, getattr(scope["Mutant"], method))
            break
    else:
        pytest.fail(f"the top has no '{old}' any more: state the mutant anew")
    path = tmp_path / "top.il"
    path.write_text(top_rtlil(folder))
    results = outcome(path, workload, fault, sound=2.0)
    print(results)
    if fault is SHORT:
        assert Cause.PARTIAL_BEAT not in results
    elif fault is not None:
        assert results[1:] != [None, None]
    else:
        assert results != [None, None, None]


@pytest.mark.skipif(why_no_fuse() is not None, reason=str(why_no_fuse()))
def test_a_soak_on_the_whole_rtl(folder):
    figures = soak(folder, requests=3000, every=100, seed=1, timeout=0.3, model="rtl", rounds=3)
    print(figures)
    assert figures["complaints"] == [] and figures["faults_total"] >= 15
