"""A stand-in link that echoes requests, and a manifest without a build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Instance, Module, Signal
from amaranth.lib.cdc import FFSynchronizer

from pinion.boards.xilinx.board import Board
from pinion.boards.xilinx.clocking import Mmcm
from pinion.link import Array, Manifest

# Names and widths of the link's ports, by direction seen from the link.
INPUTS = {
    **{"h2c_tdata": 512, "h2c_tkeep": 64, "h2c_tlast": 1, "h2c_tvalid": 1, "c2h_tready": 1},
    **{"s_axil_awaddr": 32, "s_axil_awprot": 3, "s_axil_awvalid": 1, "s_axil_wdata": 32},
    **{"s_axil_wstrb": 4, "s_axil_wvalid": 1, "s_axil_bready": 1, "s_axil_araddr": 32},
    **{"s_axil_arprot": 3, "s_axil_arvalid": 1, "s_axil_rready": 1},
}
OUTPUTS = {
    **{"h2c_tready": 1, "c2h_tdata": 512, "c2h_tkeep": 64, "c2h_tlast": 1, "c2h_tvalid": 1},
    **{"s_axil_awready": 1, "s_axil_wready": 1, "s_axil_bresp": 2, "s_axil_bvalid": 1},
    **{"s_axil_arready": 1, "s_axil_rdata": 32, "s_axil_rresp": 2, "s_axil_rvalid": 1},
}


def core_rtlil() -> str:
    """Return a core with two clusters and a product of 32 by 32 bits: four DSP blocks.

    Each cluster has a duplicated register, once as a port; only attributes keep the copies apart.
    """
    m, datapath = Module(), Module()
    used: list[Signal] = []
    sync = m.domains.sync = ClockDomain("sync", reset_less=True)
    ports = {name: Signal(32, name=name) for name in ("a", "b", "o")}
    for name in ("link1", "link2"):
        datapath.submodules[name] = cluster = Module()
        copies = [Signal(2, name=f"{name}_copy{k}", attrs={"keep": "true"}) for k in range(2)]
        cluster.d.sync += [copy.eq(ports["a"][:2]) for copy in copies]
        used.append(copies[0])
    product = Signal(64)
    cluster.d.sync += product.eq(ports["a"] * ports["b"])
    datapath.d.comb += ports["o"].eq(product ^ used[0] ^ used[1])
    m.submodules.datapath = datapath
    text: str = rtlil.convert(
        m,
        name="pinion_core",
        ports={name: (signal, None) for name, signal in ({"clk": sync.clk} | ports).items()},
        emit_src=False,
    )
    return text


def link_stub(*, crossing: bool, keep: int = 64) -> str:
    """Return a ``pinion_top`` that echoes requests, with a synchroniser if it has a crossing."""
    m = Module()
    widths = INPUTS | OUTPUTS | {"c2h_tkeep": keep}
    sync = m.domains.sync = ClockDomain("sync")
    pins = {name: Signal(width, name=name) for name, width in widths.items()}
    data = Signal(512)
    m.d.sync += data.eq(pins["h2c_tdata"])
    m.submodules.core = Instance(
        "pinion_core",
        i_clk=sync.clk,
        i_a=pins["h2c_tdata"][:32],
        i_b=pins["h2c_tdata"][32:64],
        o_o=Signal(32, name="product"),
    )
    m.d.comb += [
        pins["c2h_tdata"].eq(data),
        pins["c2h_tkeep"].eq(pins["h2c_tkeep"]),
        pins["c2h_tvalid"].eq(pins["h2c_tvalid"]),
        pins["h2c_tready"].eq(pins["c2h_tready"]),
        pins["s_axil_rdata"].eq(pins["s_axil_araddr"]),
    ]
    clocks = {"clk": sync.clk, "rst": sync.rst}
    if crossing:
        core = m.domains.core = ClockDomain("core", reset_less=True)
        clocks["core_clk"] = core.clk
        m.submodules.last_cdc = FFSynchronizer(
            pins["h2c_tlast"], pins["c2h_tlast"], o_domain="core", stages=2
        )
    ports = {name: (signal, None) for name, signal in (clocks | pins).items()}
    text: str = rtlil.convert(m, name="pinion_top", ports=ports, emit_src=False)
    return text + core_rtlil()


def manifest(*, target: str, clock_mhz: float) -> Manifest:
    """Return a manifest without a build."""
    return Manifest(
        version="0.0",
        robot="stub",
        robot_source="stub.urdf",
        function="rnea",
        options={},
        formats="q16.16",
        objective="area",
        max_error=0.0,
        target=target,
        ii=8,
        clock_mhz=clock_mhz,
        inputs=(Array(name="q", shape=(2,), unit="rad"),),
        outputs=(Array(name="tau", shape=(2,), unit="N m"),),
        lanes_in=1,
        beats_in=2,
        lanes_out=1,
        beats_out=2,
        schedule_cycles=40,
        latency_cycles=60,
        multipliers=3,
        table_multipliers=1,
        adders=2,
        units={},
        ops={"mul": 3, "mul_const": 0, "add": 2, "reciprocal": 0, "trig": 0},
        registers=5,
        budget={},
        budget_distribution="reference",
        content="0",
    )


def stub_rtlil(folder: Path, *, crossing: bool, link_mhz: float) -> str:
    """Replace `pinion.boards.top.top_rtlil`, which takes most of a minute."""
    del folder, link_mhz
    return link_stub(crossing=crossing)


@dataclass(frozen=True)
class Folder:
    """Board's folder with its board, clock and manifest."""

    path: Path
    board: Board
    core_clock: Mmcm | None
    manifest: Manifest
