"""Programs on the mapped netlist of the processor's card.

Run it with ``python -m tests.support.mapped_programs FOLDER``. The card, mapped as for a bitstream,
answers requests of three functions of two robots, and every bit is the model's. Its serial line is
left out, because it would take nine cycles of ten.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pinion.boards.ecp5.bitstream import MAPPED, SYNTH
from pinion.boards.processor import processor_rtlil
from pinion.card.processor import LINK_KHZ
from pinion.card.transport import TopTransport
from pinion.cosim.netlist import netlist_rtlil
from pinion.cosim.top import CompiledTop
from pinion.gateware.collisions import UNCHECKED
from pinion.gateware.copies import KEEP
from pinion.gateware.yosys import run_yosys
from pinion.processor import Machine
from pinion.processor.machine import TEAMS
from tests.card.test_processor import check_mixed

MACHINE = Machine.of(4)
TOP = "pinion_top"
PROGRAMS = [
    (robot, function)
    for robot in ("iiwa14", "two_link")
    for function in ("rnea", "aba", "fd_derivatives")
]
EACH = 5
BATCHES = 60


def main(folder: Path) -> int:
    """Map the card, run programs on the netlist, and compare; return 0 if every bit is right."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "card.il").write_text(processor_rtlil(MACHINE, teams=TEAMS, link_khz=LINK_KHZ))
    run_yosys(
        [
            *("read_rtlil card.il", KEEP, UNCHECKED, f"{SYNTH} -top {TOP}"),
            f"write_verilog -noattr {MAPPED}",
        ],
        folder=folder,
        name="map",
    )
    print(f"mapped in {time.monotonic() - began:.0f} s", flush=True)
    top = CompiledTop.build(rtlil=netlist_rtlil(folder / MAPPED, folder, top=TOP))
    print(f"compiled after {time.monotonic() - began:.0f} s", flush=True)
    transport = TopTransport(top=top, wait=600.0)
    faults = check_mixed(transport, PROGRAMS, MACHINE, batches=BATCHES, each=EACH, seed=38)
    seconds = time.monotonic() - began
    print(f"{BATCHES * EACH} requests of {len(PROGRAMS)} programs: exact, {seconds:.0f} s")
    return int(faults != 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
