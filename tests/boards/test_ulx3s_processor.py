"""The processor's card behind its serial line, compiled, with the users' driver."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pinion.boards.ecp5.bitstream import BIT, BOARD, CARD, LPF, BitstreamError
from pinion.boards.ecp5.processor import prebuilt_record, write_prebuilt, write_processor
from pinion.boards.ecp5.top import processor_card_rtlil
from pinion.card.serial_ports import CompiledPort
from pinion.cli.app import app
from pinion.driver.serial import SerialTransport
from pinion.processor import Machine
from pinion.processor.machine import TEAMS
from pinion.processor.manifest import loading
from tests.card.test_processor import check_mixed, damaging

CYCLES = 4  # of a bit
RATE = 20_000.0  # bits per second that a busy machine simulates, for the answers' time limit
MACHINE = Machine(lanes=4, rows=2048)
PROGRAMS = (("iiwa14", "rnea"), ("two_link", "aba"), ("pendulum", "fd_derivatives"))


def test_the_design_of_a_board_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "board"
    small = Machine(lanes=1, rows=64, constants=16, inputs=16, results=8, functions=4)
    write_processor(folder, small)
    assert {path.name for path in folder.iterdir()} == {BOARD, CARD, LPF}
    with pytest.raises(ValueError, match="bit"):
        write_processor(folder, small, clock_mhz=25.0, baud=25e6)


def test_the_bitstream_that_is_shipped_is_of_the_default_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app(["processor", "--prebuilt", "-o", str(tmp_path / "new")], standalone_mode=False)
    record = prebuilt_record("ulx3s")
    data = (tmp_path / "new" / BIT).read_bytes()
    assert hashlib.sha256(data).hexdigest() == record["bitstream_sha256"]
    assert record["met"] and record["fmax_mhz"] >= record["clock_mhz"] == 100.0
    assert str(tmp_path / "new" / BIT) in capsys.readouterr().out.replace("\n", "")
    with pytest.raises(BitstreamError, match="is not for 1 team of 2 lanes"):
        write_prebuilt(tmp_path / "other", Machine(lanes=2), teams=1)
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_the_bitstream_that_is_shipped_is_of_this_gateware() -> None:
    """`pinion processor -o build/processor --clock 100 --seed 3` makes it again."""
    text = processor_card_rtlil(Machine(lanes=4), teams=TEAMS, clock_mhz=100.0)
    assert hashlib.sha256(text.encode()).hexdigest() == prebuilt_record("ulx3s")["card_sha256"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("line") / "card.il"
    path.write_text(processor_card_rtlil(MACHINE, teams=TEAMS, clock_mhz=16.0, baud=16e6 / CYCLES))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("every", [0, 7])
def test_programs_of_three_robots_through_the_line(every: int, library: Path) -> None:
    port = CompiledPort.build(rtlil=library, folder=library.parent, bit=CYCLES)
    transport = SerialTransport(
        port=port, layout=loading(MACHINE), where="the card", baud=RATE, patience=60
    )
    if every:
        damaging(transport, every=every)
    faults = check_mixed(transport, PROGRAMS, MACHINE, batches=12, each=25, seed=3)
    assert bool(faults) == bool(every)
