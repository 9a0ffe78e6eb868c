"""The top's file in a build folder: reproducible, complete, and accepted by Yosys."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from pinion.boards import top as module
from pinion.boards.top import RTLIL, top_parameters, top_rtlil, write_top
from pinion.gateware.yosys import run_yosys
from pinion.link import Manifest, ManifestError, function_id
from tests.support.builds import build


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("top") / "pendulum"
    build("pendulum", "rnea", folder, ii=4)
    return folder


@pytest.fixture(scope="module")
def written(folder: Path) -> str:
    """The file's text."""
    assert not (folder / RTLIL).exists()
    path = write_top(folder)
    assert path == folder / RTLIL
    return path.read_text()


def test_parameters_are_the_manifests(folder: Path) -> None:
    manifest = Manifest.read(folder)
    parameters = top_parameters(manifest)
    assert parameters.build == manifest.hash and parameters.function == function_id("rnea")
    for name in ("words_in", "lanes_in", "beats_in", "words_out", "lanes_out", "beats_out", "ii"):
        assert getattr(parameters, name) == getattr(manifest, name), name
    assert (parameters.core_khz, parameters.link_khz) == (250_000, 250_000)
    slow = top_parameters(manifest, crossing=False, link_mhz=125.0)
    assert (slow.core_khz, slow.link_khz, slow.crossing) == (125_000, 125_000, False)
    odd = dataclasses.replace(manifest, clock_mhz=99.9996, states={"x": 0.0})
    apart = top_parameters(odd, link_mhz=62.5004)
    assert (apart.core_khz, apart.link_khz, apart.crossing) == (100_000, 62_500, True)
    assert (apart.states, parameters.states) == (True, False)


@pytest.mark.slow
def test_the_text_is_the_same_each_time_and_names_its_content(folder: Path, written: str) -> None:
    assert top_rtlil(folder) == written
    assert re.match(r"# pinion\.boards\.top \S+ [0-9a-f]{64}\n", written)
    assert not re.search(r"attribute \\src", written), "source positions are those of one machine"
    single = top_rtlil(folder, crossing=False)
    assert single.splitlines()[0] != written.splitlines()[0]
    assert "core_clk" not in single and "\\core_clk" in written


def test_only_an_outdated_or_damaged_file_is_replaced(
    folder: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / RTLIL
    modified_at = path.stat().st_mtime_ns

    def fake(*arguments: object, **parameters: object) -> str:
        return "made anew"

    monkeypatch.setattr(module, "top_rtlil", fake)
    assert write_top(folder) == path and path.stat().st_mtime_ns == modified_at
    write_top(folder, crossing=False)
    assert path.read_text() == "made anew", "with other parameters it is another file"
    flipped = written.replace("cell $add", "cell $adf", 1)  # one bit in the middle
    assert flipped != written
    for stale in (written.replace("# pinion", "# other", 1), flipped, "", "\udcff"):
        path.write_bytes(stale.encode(errors="surrogateescape"))
        write_top(folder)
        assert path.read_text() == "made anew"
    path.write_text(written)
    core = folder / "core.il"
    text = core.read_text()
    core.write_text(text + "\n")
    try:
        write_top(folder)
    finally:
        core.write_text(text)
    assert path.read_text() == "made anew", "another core has another top"
    path.write_text(written)


def test_a_failure_leaves_the_folder_unchanged(
    folder: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **parameters: object) -> str:
        raise MemoryError

    monkeypatch.setattr(module, "top_rtlil", fail)
    names = sorted(path.name for path in folder.iterdir())
    with pytest.raises(MemoryError):
        write_top(folder, crossing=False)
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / RTLIL).read_text() == written


def test_a_file_that_cannot_be_replaced_leaves_no_scratch(
    folder: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise PermissionError("read only")

    monkeypatch.setattr(module, "top_rtlil", lambda *arguments, **parameters: "made anew")
    monkeypatch.setattr(module.os, "replace", fail)
    names = sorted(path.name for path in folder.iterdir())
    with pytest.raises(PermissionError, match="read only"):
        write_top(folder, crossing=False)
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / RTLIL).read_text() == written


def test_yosys_finds_every_module_and_port(folder: Path, written: str, tmp_path: Path) -> None:
    (tmp_path / "top.il").write_text(written)
    log = run_yosys(
        ["read_rtlil top.il", "hierarchy -check -top pinion_top", "proc", "check -assert"],
        folder=tmp_path,
    )
    assert "Found and reported 0 problems" in log
    for port in ("clk", "rst", "core_clk", "h2c_tdata", "c2h_tlast", "s_axil_awaddr"):
        assert re.search(rf"wire .*(input|output) \d+ +\\{port}\n", written), port


def test_a_folder_that_is_no_build_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ManifestError, match="not a build folder"):
        write_top(tmp_path)
    (tmp_path / "manifest.json").write_text((folder / "manifest.json").read_text())
    with pytest.raises(ManifestError) as error:
        write_top(tmp_path)
    assert str(error.value) == (
        f"'{tmp_path}' is not a build folder: it has no core.il. Create one with "
        f"`pinion build ROBOT FUNCTION -o {tmp_path}`."
    )


def test_a_top_does_not_survive_a_change_of_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = module._sources.__wrapped__()
    assert digest == module._sources.__wrapped__()
    (tmp_path / "link").mkdir()
    monkeypatch.setattr(module.gateware, "__path__", [str(tmp_path)])
    digests = {digest}
    for text in ("a = 1\n", "a = 2\n"):
        (tmp_path / "link" / "reader.py").write_text(text)
        digests.add(module._sources.__wrapped__())
    assert len(digests) == 3
