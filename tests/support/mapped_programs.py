"""Programs on the mapped netlist of the processor's card.

Run it with ``python -m tests.support.mapped_programs FOLDER [MACHINE]``, with the name of a shipped
machine file, such as ``ulx3s_25f``. The card, mapped as for a bitstream, answers requests of three
functions of two robots, and every bit is the model's. Its serial line is left out, because it would
take nine cycles of ten.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pinion.boards.ecp5.bitstream import MAPPED, NETLIST, SYNTH
from pinion.boards.ecp5.registers import with_block_registers
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
from pinion.processor.machine_file import read_machine_file
from tests.card.test_processor import check_mixed, compiled

TOP = "pinion_top"
PROGRAMS = [
    (robot, function)
    for robot in ("iiwa14", "two_link")
    for function in ("rnea", "aba", "fd_derivatives")
]
EACH = 5
BATCHES = 60


def main(folder: Path, machine: Machine, teams: int, *, block_registers: bool) -> int:
    """Map the card, run programs on the netlist, and compare; return 0 if every bit is right."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "card.il").write_text(processor_rtlil(machine, teams=teams, link_khz=LINK_KHZ))
    run_yosys(
        [
            *("read_rtlil card.il", KEEP, UNCHECKED, f"{SYNTH} -top {TOP} -json {NETLIST}"),
            f"write_verilog -noattr {MAPPED}",
        ],
        folder=folder,
        name="map",
    )
    if block_registers:
        path = folder / NETLIST
        path.write_text(json.dumps(with_block_registers(json.loads(path.read_text()))))
        run_yosys([f"read_json {NETLIST}", f"write_verilog -noattr {MAPPED}"], folder=folder)
    print(f"mapped in {time.monotonic() - began:.0f} s", flush=True)
    top = CompiledTop.build(rtlil=netlist_rtlil(folder / MAPPED, folder, top=TOP))
    print(f"compiled after {time.monotonic() - began:.0f} s", flush=True)
    faults = 0
    for programs in resident(machine):
        transport = TopTransport(top=top, wait=600.0)
        batches = BATCHES * len(programs) // len(PROGRAMS)
        faults += check_mixed(transport, programs, machine, batches=batches, each=EACH, seed=38)
        seconds = time.monotonic() - began
        names = ", ".join(" ".join(program) for program in programs)
        print(f"{batches * EACH} requests of {names}: exact, {seconds:.0f} s", flush=True)
    return int(faults != 0)


def resident(machine: Machine) -> list[list[tuple[str, str]]]:
    """Return the programs in groups whose rows fit the machine together."""
    groups: list[list[tuple[str, str]]] = []
    room = 0
    for program in PROGRAMS:
        rows = compiled(*program, machine).program.cycles
        if rows > room:
            groups.append([])
            room = machine.rows
        groups[-1].append(program)
        room -= rows
    return groups


if __name__ == "__main__":
    file = read_machine_file(sys.argv[2]) if len(sys.argv) > 2 else None
    subject = (Machine(), TEAMS) if file is None else (file.machine, file.teams)
    sys.exit(main(Path(sys.argv[1]), *subject, block_registers=file is not None))
