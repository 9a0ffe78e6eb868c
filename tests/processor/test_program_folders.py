"""Program folders: read back as written, refused when damaged, and what people see of a program."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pinion.api as pinion
from pinion.driver import DriverError
from pinion.functions import DISTRIBUTIONS, named_function, sample
from pinion.link import Manifest, ManifestError
from pinion.link.digests import write_digests
from pinion.processor import CompiledProgram, Machine, ProgramError, compile_program
from pinion.processor.accuracy import accuracies
from pinion.processor.folder import (
    LISTING,
    PICTURE,
    PROGRAM,
    ProgramFolder,
    open_program_folder,
    write_program,
)
from pinion.processor.machine import RECIPROCAL_DELAY, Half
from pinion.processor.program import NOTHING
from pinion.robot import load
from tests.support.builds import build

ROBOT, ROW = load("two_link"), named_function("aba")


@pytest.fixture(scope="module")
def compiled() -> CompiledProgram:
    return compile_program(ROBOT, ROW, Machine(lanes=2), precision="fine")


@pytest.fixture
def folder(compiled: CompiledProgram, tmp_path: Path) -> Path:
    errors = list(accuracies(ROBOT, ROW, compiled, states=50, seed=1))
    program, earlier = write_program(ROBOT, ROW, compiled, tmp_path / "program", errors)
    assert earlier is None and sorted(p.name for p in tmp_path.iterdir()) == ["program"]
    return program.folder


def test_a_folder_is_what_was_compiled(compiled: CompiledProgram, folder: Path) -> None:
    read, program = ProgramFolder.read(folder).program, compiled.program
    assert (read.machine, read.inputs, read.outputs) == (
        program.machine,
        program.inputs,
        program.outputs,
    )
    assert read.constants == program.constants
    assert np.array_equal(read.lanes, program.lanes) and np.array_equal(read.team, program.team)
    requests = sample(ROBOT, ROW, 20, distribution="stress", seed=2)
    stored = open_program_folder(ProgramFolder.read(folder))(**requests)
    fresh = pinion.backend(ROBOT, ROW, device="processor", lanes=2)(**requests)
    assert np.array_equal(stored.qdd.view(np.uint32), fresh.qdd.view(np.uint32))


def test_promises_are_measured_errors_with_a_margin(folder: Path) -> None:
    manifest = Manifest.read(folder)
    assert manifest.is_program and list(manifest.promises) == list(DISTRIBUTIONS)
    for name, measured in manifest.measured.items():
        assert manifest.promises[name] >= max(3 * measured, manifest.max_error)
    assert manifest.max_error == manifest.promises["reference"] < 1e-5
    assert manifest.scales["qdd"] > 0


def test_the_same_program_stays_and_files_of_a_user_are_kept(
    compiled: CompiledProgram, folder: Path
) -> None:
    errors = list(accuracies(ROBOT, ROW, compiled, states=50, seed=1))
    assert write_program(ROBOT, ROW, compiled, folder, errors)[1] == folder
    (folder / "notes.txt").write_text("mine")
    others = list(accuracies(ROBOT, ROW, compiled, states=60, seed=1))
    _, earlier = write_program(ROBOT, ROW, compiled, folder, others)
    assert earlier is not None and (earlier / "notes.txt").read_text() == "mine"
    assert not (folder / "notes.txt").exists()
    with pytest.raises(ProgramError, match="is a file"):
        write_program(ROBOT, ROW, compiled, folder / PROGRAM.name, errors)


@pytest.mark.parametrize(
    "name", ["manifest.json", PROGRAM.name, "model.json", "function.json", LISTING, PICTURE]
)
@pytest.mark.parametrize("change", ["gone", "empty", "half", "bit"])
def test_a_damaged_folder_is_refused(name: str, change: str, folder: Path) -> None:
    path = folder / name
    data = path.read_bytes()
    middle = len(data) // 2
    if change == "gone":
        path.unlink()
    else:
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"empty": b"", "half": data[:middle], "bit": flipped}[change])
    with pytest.raises(ManifestError, match=r"build the folder again|is not a build folder"):
        ProgramFolder.read(folder)


def _column(data: dict[str, Any], table: str, name: str, change: Callable[[Any], None]) -> None:
    numbers = np.frombuffer(base64.b64decode(data[table][name]), dtype="<i4").copy()
    change(numbers)
    data[table][name] = base64.b64encode(numbers.tobytes()).decode()


HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "another product": lambda d: _column(d, "lanes", "a", lambda n: np.add.at(n, 5, 1)),
    "an address without a word": lambda d: _column(d, "lanes", "a", lambda n: n.fill(30_000)),
    "more than a field": lambda d: _column(d, "lanes", "half", lambda n: n.fill(1 << 20)),
    "negative rows": lambda d: d.update(rows=-1),
    "one row more": lambda d: d.update(rows=d["rows"] + 1),
    "lanes without end": lambda d: d["machine"].update(lanes=1 << 40),
    "words as text": lambda d: d["machine"].update(word="35"),
    "a machine with more": lambda d: d["machine"].update(wings=2),
    "no constants": lambda d: d.update(constants=[]),
    "a constant's text": lambda d: d["constants"][0].update(x=1),
    "no base 64": lambda d: d["team"].update(points="?"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_whole_folder_with_another_program_is_refused(name: str, folder: Path) -> None:
    """All digests are right: the manifest's covers what a card would get."""
    data = PROGRAM.read(folder)
    HOSTILE[name](data)
    PROGRAM.write(folder, data)
    write_digests(folder)
    with pytest.raises(ManifestError, match=r"is not intact .*compile the program again"):
        ProgramFolder.read(folder)


def test_what_is_no_program_is_refused(folder: Path, tmp_path: Path) -> None:
    core = tmp_path / "core"
    build("pendulum", "rnea", core, ii=2)
    with pytest.raises(ManifestError, match="holds a core, but a program is needed"):
        ProgramFolder.read(core)
    with pytest.raises(ManifestError, match=r"holds a program .* but a core is needed"):
        Manifest.read_core(folder)
    program = ProgramFolder.read(folder)
    with pytest.raises(
        ProgramError, match="does not run on 'sim': give 'processor', 'processor:sim'"
    ):
        open_program_folder(program, "sim")
    with pytest.raises(DriverError, match="There is no processor 'fog'"):
        open_program_folder(program, "processor:fog")


def test_a_listing_names_pass_body_and_line(compiled: CompiledProgram, folder: Path) -> None:
    lines = (folder / LISTING).read_text().splitlines()
    slots = [line for line in lines if " acc " in line]
    assert len(slots) == compiled.program.slots
    origins = [line.partition("  ; ")[2] for line in slots]
    regions = {origin.split(" ")[0] for origin in origins}
    assert {"articulated[1]", "articulated[2]"} & regions or len(regions) > 3
    assert all(".py:" in origin for origin in origins if origin)
    assert sum(bool(origin) for origin in origins) > 0.9 * len(slots)


def test_a_picture_has_each_slot(compiled: CompiledProgram, folder: Path) -> None:
    text = (folder / PICTURE).read_text()
    root = ET.fromstring(text)
    program = compiled.program
    title = next(e.text for e in root if e.tag.endswith("title"))
    assert title is not None and f"aba of two_link, fine: {program.cycles} cycles" in title
    bands = [e for e in root if e.tag.endswith("}g")]

    def cycles(height: str) -> int:
        paths = [path.attrib["d"] for band in bands for path in band]
        widths = [band.attrib["stroke-width"] for band in bands for _ in band]
        return sum(
            int(run)
            for path, width in zip(paths, widths, strict=True)
            for run in re.findall(r"h(\d+)", path)
            if width == height
        )

    assert cycles("22") == np.count_nonzero(program.lanes["half"] != Half.IDLE) > 0
    writes = np.count_nonzero(program.lanes["source"] != NOTHING)
    reciprocals = np.count_nonzero(program.team["operand"] != NOTHING)
    assert reciprocals > 0
    others = len(program.inputs) + len(program.outputs) + RECIPROCAL_DELAY * reciprocals
    assert cycles("7") == writes + others


def test_hostile_names_are_escaped(compiled: CompiledProgram, tmp_path: Path) -> None:
    robot = replace(ROBOT, name="<script>alert(1)</script> &")
    errors = list(accuracies(ROBOT, ROW, compiled, states=10, seed=1))
    program, _ = write_program(robot, ROW, compiled, tmp_path / "p", errors)
    text = (program.folder / PICTURE).read_text()
    assert "<script" not in text and "&lt;script" in text
    ET.fromstring(text)
    json.loads((program.folder / PROGRAM.name).read_text())
