"""``docs/link.md``: its tables, its example and its program agree with the code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pinion.base.pages import rewritten
from pinion.link import REGISTERS, Cause, Layout, Status, function_id, read_response, seal_request
from pinion.link.describe import TABLES, field_texts
from pinion.link.protocol import HEADER, TRAILER

PAGE = Path(__file__).parents[2] / "docs" / "link.md"

LAYOUT = Layout(function=function_id("rnea"), build=0x0123456789ABCDEF, words_in=3, words_out=2)


def _block(language: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1, language
    return str(blocks[0])


def _bytes(language: str) -> np.ndarray:
    lines = _block(language).splitlines()
    assert [int(line[:4], 16) for line in lines] == list(range(0, 16 * len(lines), 16))
    return np.frombuffer(bytes.fromhex("".join(line[4:] for line in lines)), dtype=np.uint8)


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    assert PAGE.read_text() == rewritten(PAGE.read_text(), TABLES), (
        "run: python -m pinion.link.describe docs/link.md"
    )


def test_every_row_has_its_words() -> None:
    assert TABLES["registers"]().count("\n") == 2 + len(REGISTERS)
    assert TABLES["cause"]().count("\n") == 2 + len(Cause)
    assert TABLES["status"]().count("\n") == 2 + len([s for s in Status if s])
    assert set(field_texts("HEADER")) == set(HEADER.names or ())
    assert set(field_texts("TRAILER")) == set(TRAILER.names or ())
    for render in TABLES.values():
        rows = [line.split("|") for line in render().splitlines()]
        assert len({len(row) for row in rows}) == 1, "a cell holds a bar"
        assert all(cell.strip() for row in rows for cell in row[1:-1]), rows


def test_the_request_of_the_example() -> None:
    packet = np.zeros(LAYOUT.request_bytes(2), dtype=np.uint8)
    LAYOUT.request_words(packet, 2).view(np.float32)[:] = [[1, 2, 3], [-1, 0.5, 0]]
    seal_request(LAYOUT, packet, 2, 7)
    assert _bytes("request").tobytes() == packet.tobytes()


def test_the_response_of_the_example() -> None:
    packet = _bytes("response")
    head = read_response(LAYOUT, packet, 2, 7)
    assert (head.status, head.flagged, head.cycles) == (Status.FLAGGED, 1, 131)
    assert (head.stalled, head.starved) == (2, 0)
    words = LAYOUT.response_words(packet, 2).view(np.float32)
    assert words.tolist() == [[1.5, -2.0], [0.25, 8.0]]
    assert LAYOUT.response_flags(packet, 2).tolist() == [False, True]


def test_the_program_of_the_page_makes_the_request_of_the_example(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler on this machine")
    (tmp_path / "host.c").write_text(_block("c"))
    program = tmp_path / "host"
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-std=c11", "-O1", "host.c", "-o", "host"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    sent = subprocess.run([program], capture_output=True, check=True, timeout=600).stdout
    assert sent == _bytes("request").tobytes()
