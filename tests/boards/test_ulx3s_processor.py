"""The processor's card behind its serial line, compiled, with the users' driver."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from pinion.boards.ecp5.bitstream import BIT, BOARD, CARD, LPF, BitstreamError
from pinion.boards.ecp5.platform import ULX3S, board_of
from pinion.boards.ecp5.processor import prebuilt_record, write_prebuilt, write_processor
from pinion.boards.ecp5.top import SERIAL, processor_card_rtlil
from pinion.card.serial_ports import CompiledPort
from pinion.cli.app import app
from pinion.driver.serial import SerialTransport
from pinion.processor import Machine
from pinion.processor.machine import TEAMS
from pinion.processor.machine_file import read_machine_file
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


@pytest.mark.parametrize(("name", "options", "mhz"), [("ulx3s", [], 100.0)])
def test_the_bitstreams_that_are_shipped_are_of_their_machines(
    name: str,
    options: list[str],
    mhz: float,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["processor", "--prebuilt", *options, "-o", str(tmp_path / "new")]
    app(arguments, standalone_mode=False)
    record = prebuilt_record(name)
    data = (tmp_path / "new" / BIT).read_bytes()
    assert hashlib.sha256(data).hexdigest() == record["bitstream_sha256"]
    assert record["met"] and record["fmax_mhz"] >= record["clock_mhz"] == pytest.approx(mhz)
    assert str(tmp_path / "new" / BIT) in capsys.readouterr().out.replace("\n", "")


def test_another_machine_or_board_has_no_bitstream(tmp_path: Path) -> None:
    file = read_machine_file("ulx3s_25f")
    small = board_of(file.board, file.path)
    other = replace(small, pads={SERIAL: {}})
    for machine, teams, board in (
        (Machine(lanes=2), 1, ULX3S),
        (Machine(), 1, ULX3S),
        (Machine(), TEAMS, small),
        (file.machine, file.teams, other),
    ):
        with pytest.raises(BitstreamError, match=f"No prebuilt bitstream is for {teams} team"):
            write_prebuilt(tmp_path / "other", machine, teams=teams, board=board)
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ulx3s"])
def test_the_bitstream_that_is_shipped_is_of_this_gateware(name: str) -> None:
    """`pinion processor` makes it again, with the record's clock and seed."""
    file = None if name == "ulx3s" else read_machine_file(name)
    machine, teams = (Machine(), TEAMS) if file is None else (file.machine, file.teams)
    record = prebuilt_record(name)
    text = processor_card_rtlil(machine, teams=teams, clock_mhz=record["clock_mhz"])
    assert hashlib.sha256(text.encode()).hexdigest() == record["card_sha256"]


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
