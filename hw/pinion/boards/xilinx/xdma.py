"""The DMA engine: settings of the vendor's generator, and ports of the generated module."""

from __future__ import annotations

from .board import Board
from .names import load_names

IP = "xdma"
MODULE = "xdma_0"
"""Name of the generated module."""

REGISTER_KILOBYTES = 64
"""Size of the register window (BAR 0); the driver uses its first `pinion.link.registers.SPACE`."""


def configuration(board: Board) -> dict[str, str]:
    """Return the generator's properties: PCIe Gen3, a stream per direction, AXI4-Lite registers.

    The tool uses its newest version of the generator.
    """
    link = board.link
    return {
        "CONFIG.mode_selection": "Advanced",
        "CONFIG.pcie_blk_locn": link.pcie_block,
        "CONFIG.en_gt_selection": "true",
        "CONFIG.select_quad": link.quad,
        "CONFIG.pl_link_cap_max_link_width": f"X{link.lanes}",
        "CONFIG.pl_link_cap_max_link_speed": link.speed,
        "CONFIG.ref_clk_freq": f"{link.refclk_mhz:g}_MHz",
        "CONFIG.plltype": "QPLL1",
        "CONFIG.coreclk_freq": "500",
        "CONFIG.axi_data_width": "512_bit",
        "CONFIG.axisten_freq": f"{link.clock_mhz:g}",
        "CONFIG.xdma_axi_intf_mm": "AXI_Stream",
        "CONFIG.xdma_rnum_chnl": "1",
        "CONFIG.xdma_wnum_chnl": "1",
        "CONFIG.xdma_num_usr_irq": "1",
        "CONFIG.axilite_master_en": "true",
        "CONFIG.axilite_master_size": str(REGISTER_KILOBYTES),
        "CONFIG.axilite_master_scale": "Kilobytes",
        "CONFIG.pf0_device_id": "903F",
        "CONFIG.cfg_mgmt_if": "false",
    }


def black_box(board: Board) -> str:
    """Return the generated module as a Verilog black box, for tools that only need its ports."""
    lines = []
    for name, port in load_names().ports.items():
        bits = port.bits(board.link.lanes)
        width = f" [{bits - 1}:0]" if bits > 1 else ""
        lines.append(f"  {port.direction}put{width} {name}")
    body = ",\n".join(lines)
    return f"(* blackbox *)\nmodule {MODULE} (\n{body}\n);\nendmodule\n"
