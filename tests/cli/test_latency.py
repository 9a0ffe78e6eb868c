"""The word latency has one meaning in texts, keys and figures of cores."""

from __future__ import annotations

import re
from pathlib import Path

from pinion.api import Verification
from pinion.cosim.verify import verify
from pinion.flow.build import Build
from pinion.flow.export import export
from pinion.gateware import Core
from pinion.link import REGISTERS, Manifest
from tests.cli.conftest import Built, Pinion

ROOT = Path(__file__).parents[2]

# Records tell what was; the changelog what it is called now. This file has the old names to find.
TELLERS = ("docs/adr/", "CHANGELOG.md", "tests/cli/test_latency.py")


def old_names(text: str) -> list[str]:
    """Former names of figures that were called latencies."""
    gone = r"total_latency\w*|datapath_latency\w*|\"LATENCY\"|`LATENCY`"
    return re.findall(gone, text)


def claims(text: str) -> list[str]:
    """Sentences that call the schedule's length a latency."""
    flat = " ".join(text.split())
    return re.findall(r"[Ll]atency[^.|]{0,60}(?:from|first) (?:the first )?sine[^.|]*", flat)


def test_old_names_are_gone() -> None:
    folders = ("sw", "hw", "sim", "tests", "benchmarks", "examples", "docs")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".in", ".toml", ".hpp", ".cpp", ".v"}
    ]
    assert len(files) > 500
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(TELLERS):
            text = path.read_text()
            assert old_names(text) == [] and claims(text) == [], name
    assert old_names("manifest.total_latency_cycles and `LATENCY`") != []
    assert claims("**Latency** counts from the first sine being available.") != []
    assert claims("Latency is in cycles, from sine and cosine to the last result.") != []
    assert "BATCH_CYCLES" in {row.name for row in REGISTERS}


def test_the_key_is_what_the_core_takes(built: Built, pinion: Pinion, tmp_path: Path) -> None:
    manifest = Manifest.read(built.folder)
    assert built.completed.json["latency_cycles"] == manifest.latency_cycles
    build = Build.read(built.folder)
    edges = build.schedule["last_beat"]  # launch to last beat: inside of the whole
    assert manifest.schedule_cycles < edges < manifest.latency_cycles
    # As in the RTL, at any phase of the first request.
    figures = verify(built.folder, samples=20)
    checked = Verification.of(figures)
    assert checked.latency_cycles == figures["latency_cycles"] <= manifest.latency_cycles
    assert checked.latency_cycles > manifest.latency_cycles - manifest.ii
    assert figures["schedule_cycles"] == manifest.schedule_cycles
    output = pinion("build", "two_link", "rnea", "--ii", 4, "-o", tmp_path / "b").out
    assert f"at most {manifest.latency_cycles} cycles from the first beat in" in output
    row = pinion("report", built.folder, "--json").json["builds"][0]
    assert row["latency"] == manifest.latency_cycles
    written = export(built.folder, tmp_path / "out", model=_none(build), requests=1)
    assert written["latency_cycles"] == manifest.latency_cycles
    header = next((tmp_path / "out").rglob("*.h")).read_text()
    assert re.search(rf"_LATENCY_CYCLES {manifest.latency_cycles}\b", header)
    assert isinstance(Core.latency, property)


def _none(build: Build) -> object:
    from pinion.cosim.reference import Reference

    return lambda _: Reference(build).expected
