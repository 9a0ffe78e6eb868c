"""The processor's card behind its serial line, compiled, with the users' driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.boards.ecp5.bitstream import BOARD, CARD, LPF
from pinion.boards.ecp5.processor import write_processor
from pinion.boards.ecp5.top import processor_card_rtlil
from pinion.card.serial_ports import CompiledPort
from pinion.driver.serial import SerialTransport
from pinion.processor import Machine
from pinion.processor.manifest import loading
from tests.card.test_processor import check_mixed, damaging

BIT = 4  # cycles
RATE = 20_000.0  # bits per second that a busy machine simulates, for the answers' time limit
MACHINE = Machine(lanes=4, rows=2048)
PROGRAMS = (("iiwa14", "rnea"), ("two_link", "aba"), ("pendulum", "fd_derivatives"))


def test_the_design_of_a_board_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "board"
    small = Machine(lanes=1, rows=64, loads=16, results=8, functions=4)
    write_processor(folder, small)
    assert {path.name for path in folder.iterdir()} == {BOARD, CARD, LPF}
    with pytest.raises(ValueError, match="bit"):
        write_processor(folder, small, clock_mhz=25.0, baud=25e6)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("line") / "card.il"
    path.write_text(processor_card_rtlil(MACHINE, clock_mhz=16.0, baud=16e6 / BIT))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("every", [0, 7])
def test_programs_of_three_robots_through_the_line(every: int, library: Path) -> None:
    port = CompiledPort.build(rtlil=library, folder=library.parent, bit=BIT)
    transport = SerialTransport(
        port=port, layout=loading(MACHINE), where="the card", baud=RATE, patience=60
    )
    if every:
        damaging(transport, every=every)
    faults = check_mixed(transport, PROGRAMS, MACHINE, batches=24, each=25, seed=3)
    assert bool(faults) == bool(every)
