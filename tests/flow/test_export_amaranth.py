"""An exported core as an Amaranth component, in a simulated design with the bench."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, ClockSignal, Elaboratable, Module, ResetSignal, Signal
from amaranth.lib import stream, wiring

from pinion.cosim.reference import Reference
from pinion.flow.export import export
from pinion.gateware.imported import ExportedCore, ImportedCoreError
from pinion.gateware.yosys import run_yosys
from tests.support.builds import build


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    build("pendulum", "rnea", folder / "build", ii=2)
    model = lambda build: Reference(build).expected  # noqa: E731 - one line, used once
    export(folder / "build", folder / "out", model=model, requests=12)
    return folder / "out"


class Around(Elaboratable):
    """A design that contains the core, with the bench's ports and a second, idle core."""

    def __init__(self, folder: Path) -> None:
        self.core, self.idle = ExportedCore(folder=folder), ExportedCore(folder=folder)
        wide_in = len(self.core.i.payload.data)
        wide_out = len(self.core.o.payload.data)
        self.aclk, self.aresetn = Signal(), Signal()
        self.s_axis_tdata, self.m_axis_tdata = Signal(wide_in), Signal(wide_out)
        self.s_axis_tvalid, self.s_axis_tready, self.s_axis_tlast = Signal(), Signal(), Signal()
        self.m_axis_tvalid, self.m_axis_tready, self.m_axis_tlast = Signal(), Signal(), Signal()
        self.m_axis_tuser, self.protocol_error = Signal(), Signal()
        self.build_hash = Signal(64)

    def ports(self) -> dict[str, tuple[Signal, None]]:
        return {name: (s, None) for name, s in vars(self).items() if isinstance(s, Signal)}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains.sync = ClockDomain()
        m.submodules.core, m.submodules.idle = core, idle = self.core, self.idle
        # Without the signature's flip, as in a user's component.
        source = stream.Signature(core.i.payload.shape()).create(path=("source",))
        wiring.connect(m, source, core.i)
        m.d.comb += [
            ClockSignal().eq(self.aclk),
            ResetSignal().eq(~self.aresetn),
            source.valid.eq(self.s_axis_tvalid),
            source.payload.data.eq(self.s_axis_tdata),
            source.payload.last.eq(self.s_axis_tlast),
            self.s_axis_tready.eq(source.ready),
            self.m_axis_tvalid.eq(core.o.valid),
            self.m_axis_tdata.eq(core.o.payload.data),
            self.m_axis_tlast.eq(core.o.payload.last),
            self.m_axis_tuser.eq(core.o.payload.flag),
            core.o.ready.eq(self.m_axis_tready),
            self.protocol_error.eq(core.protocol_error | idle.protocol_error),
            self.build_hash.eq(core.build_hash),
        ]
        return m


def test_its_signature_is_that_of_two_streams(exported: Path) -> None:
    core = ExportedCore(folder=exported)
    facts = json.loads((exported / "core.json").read_text())
    assert len(core.i.payload.data) == 32 * facts["lanes_in"]
    assert len(core.o.payload.data) == 32 * facts["lanes_out"]
    assert len(core.o.payload.flag) == len(core.o.payload.last) == len(core.i.payload.last) == 1
    assert core.facts["ii"] == 2 and core.verilog.is_file()
    assert set(core.signature.members) == {"i", "o", "protocol_error", "build_hash"}


def test_a_platform_gets_the_verilog(exported: Path) -> None:
    class Platform:
        """The part of a platform that the component uses."""

        def __init__(self) -> None:
            self.files: dict[str, str] = {}

        def add_file(self, name: str, text: str) -> None:
            self.files[name] = text

    platform = Platform()
    rtlil.convert(ExportedCore(folder=exported), name="top", platform=platform)
    verilog = (exported / "rtl/pendulum_rnea.v").read_text()
    assert platform.files == {"pendulum_rnea.v": verilog}


def test_a_design_around_it_passes_the_bench(exported: Path, tmp_path: Path) -> None:
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus is not installed")
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    around = Around(exported)
    (tmp_path / "around.il").write_text(
        rtlil.convert(around, name="around", ports=around.ports(), emit_src=False)
    )
    # Yosys checks that every port of the instance is one of the module, with its width.
    log = run_yosys(
        [
            "read_verilog copy/rtl/pendulum_rnea.v",
            "read_rtlil around.il",
            "hierarchy -check -top around",
            "check -assert",
            "proc",
            "memory_collect",
            "write_verilog -noattr copy/rtl/around.v",
        ],
        folder=tmp_path,
    )
    assert "Warning: Resizing cell port" not in log
    run = copy / "tb/run.py"
    text, count = re.subn(r'NAME = "pendulum_rnea"', 'NAME = "around"', run.read_text())
    assert count == 1
    run.write_text(text)
    process = subprocess.run(
        [sys.executable, run, "--build", tmp_path / "scratch"],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "8 of 8 tests passed." in process.stdout


def test_folders_that_are_no_exported_core_are_refused(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(ImportedCoreError, match="not an intact exported core"):
        ExportedCore(folder=tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    facts = json.loads((copy / "core.json").read_text())
    (copy / "core.json").write_text(json.dumps(facts | {"hash": "0" * 16}))
    with pytest.raises(ImportedCoreError, match="belong to different builds"):
        ExportedCore(folder=copy)
    del facts["lanes_in"]
    (copy / "core.json").write_text(json.dumps(facts))
    with pytest.raises(ImportedCoreError, match="lacks lanes_in"):
        ExportedCore(folder=copy)
