"""Programs on the mapped netlist of the processor's card: ``python -m tests.support.mapped_programs
FOLDER``.

The card of a board, mapped as for its bitstream, answers requests of three functions of two robots
behind its serial line, and every bit is the model's.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pinion.boards.ecp5.bitstream import MAPPED, SYNTH
from pinion.boards.ecp5.top import processor_card_rtlil
from pinion.card.serial_ports import SERIAL, CompiledPort
from pinion.cosim.netlist import netlist_rtlil
from pinion.driver.serial import SerialTransport
from pinion.gateware.yosys import run_yosys
from pinion.processor import Machine
from pinion.processor.manifest import loading
from tests.card.test_processor import check_mixed

MACHINE = Machine.of(4)
PROGRAMS = [
    (robot, function)
    for robot in ("iiwa14", "two_link")
    for function in ("rnea", "aba", "fd_derivatives")
]
CYCLES = 4  # of a bit
RATE = 2000.0  # bits per second that a busy machine simulates, for the answers' time limit
EACH = 5
BATCHES = 80


def main(folder: Path) -> int:
    """Map, compile, compare; return 0 if every bit is right."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    card = processor_card_rtlil(MACHINE, clock_mhz=16.0, baud=16e6 / CYCLES)
    (folder / "card.il").write_text(card)
    keep = "setattr -set keep 1 a:keep %ci1:+[Q] t:$dff %i"
    run_yosys(
        [
            *("read_rtlil card.il", keep, f"{SYNTH} -top {SERIAL.module}"),
            f"write_verilog -noattr {MAPPED}",
        ],
        folder=folder,
        name="map",
    )
    netlist = netlist_rtlil(folder / MAPPED, folder, top=SERIAL.module)
    port = CompiledPort.build(rtlil=netlist, folder=folder, bit=CYCLES)
    print(f"mapped and compiled in {time.monotonic() - began:.0f} s", flush=True)
    transport = SerialTransport(
        port=port, layout=loading(MACHINE), where="the netlist", baud=RATE, patience=600
    )
    faults = check_mixed(transport, PROGRAMS, MACHINE, batches=BATCHES, each=EACH, seed=38)
    seconds = time.monotonic() - began
    print(f"{BATCHES * EACH} requests of {len(PROGRAMS)} programs: exact, {seconds:.0f} s")
    return int(faults != 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
