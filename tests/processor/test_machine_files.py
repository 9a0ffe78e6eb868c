"""Files that describe a processor: what they say, and what is refused with the offending value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pinion import api
from pinion.processor import Machine, ProgramError
from pinion.processor.machine import TEAMS
from pinion.processor.machine_file import (
    CLOCK_MHZ,
    machine_of,
    read_machine_file,
    shipped_machines,
)


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_what_a_file_leaves_out_is_as_in_the_shipped_bitstream(tmp_path: Path) -> None:
    file = read_machine_file(written(tmp_path, "[processor]\n"))
    assert (file.machine, file.teams, file.clock_mhz) == (Machine(), TEAMS, CLOCK_MHZ)
    assert file.board == {}
    text = (
        'part = "x"\n[processor]\nlanes = 2\nrows = 512\nwords = 256\nteams = 3\nclock_mhz = 80\n'
    )
    file = read_machine_file(written(tmp_path, text))
    assert file.machine == replace(Machine(), lanes=2, rows=512, words=256)
    assert (file.teams, file.clock_mhz, file.board) == (3, 80.0, {"part": "x"})


def test_the_shipped_file_is_found_by_its_name() -> None:
    assert shipped_machines() == ("ulx3s_25f",)
    file = read_machine_file("ulx3s_25f")
    assert (file.machine, file.teams) == (replace(Machine(), rows=2048), 1)
    assert machine_of(source="ulx3s_25f") == file.machine != machine_of(4) == machine_of()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lanes = 4\n", "describes no processor: add a table"),
        ("processor = 4\n", "describes no processor: add a table"),
        ("[processor\n", "is not a TOML file"),
        ("[processor]\nlane = 4\n", "unknown key 'lane': the keys are lanes, words, rows, teams"),
        ("[processor]\nlanes = 9\n", "a team must have 1 to 8 lanes, not 9"),
        ("[processor]\nlanes = '4'\n", "a team must have 1 to 8 lanes, not '4'"),
        ("[processor]\nrows = 0\n", "a processor must have 1 to 65,536 rows, not 0"),
        ("[processor]\nrows = 1e3\n", "rows, not 1000.0"),
        ("[processor]\nwords = true\n", "words, not True"),
        ("[processor]\nteams = 9\n", "teams must be 1 to 8, not 9"),
        ("[processor]\nteams = 1.0\n", "teams must be 1 to 8, not 1.0"),
        ("[processor]\nclock_mhz = 'fast'\n", "positive number of MHz, not 'fast'"),
        ("[processor]\nclock_mhz = nan\n", "positive number of MHz, not nan"),
    ],
)
def test_a_wrong_file_is_refused_with_the_value(text: str, reason: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ProgramError) as error:
        read_machine_file(path)
    message = str(error.value)
    assert reason.lower() in message.lower() and str(path) in message and "\n" not in message


def test_a_missing_file_and_two_answers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"No such file .* one of ulx3s_25f\."):
        read_machine_file(tmp_path / "none.toml")
    with pytest.raises(ProgramError, match="leave out the 2 that were asked for"):
        machine_of(2, "ulx3s_25f")


def test_a_backend_is_of_the_machine_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "[processor]\nlanes = 2\nrows = 1024\n")
    with api.backend("pendulum", "rnea", device="processor", machine=path) as backend:
        assert backend.program.machine == replace(Machine(), lanes=2, rows=1024)
    small = written(tmp_path, "[processor]\nrows = 20\n")
    with pytest.raises(ProgramError, match="20"):
        api.backend("pendulum", "rnea", device="processor", machine=small)
