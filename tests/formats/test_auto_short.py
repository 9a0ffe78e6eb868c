"""Formats by signal in words of 18 bits: one multiplier of 18 x 18 bits per product."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinion.cosim.verify import verify
from pinion.flow.build import Build
from pinion.flow.objective import ObjectiveError
from pinion.formats.auto import PrecisionError
from pinion.formats.multiplier import MULT18X18D
from pinion.graph.evaluate import formats
from tests.support.builds import build

MOST = 0.12  # the pivot of the first joint is small in some states


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("auto18") / "two_link"
    build("two_link", "aba", folder, ii=4, formats="auto18", max_error=MOST)
    return folder


def test_no_word_is_longer_than_a_multiplier_port(folder: Path) -> None:
    graph = Build.read(folder).graph
    fmts = formats(graph)
    products = [node for node in graph.nodes if node.op in ("dot", "mul")]
    assert products
    for node in products:
        widths = {fmts[arg].width for arg in node.args}
        # A port that rounds reads one bit more, the highest of the dropped ones.
        assert widths <= {MULT18X18D.narrow}, (node, widths)
    assert {fmt.width for _, i in graph.outputs for fmt in (fmts[i],)} == {MULT18X18D.narrow}
    assert any(node.op == "reciprocal" for node in graph.nodes)


def test_the_core_is_the_integer_model_bit_for_bit(folder: Path) -> None:
    report = verify(folder, samples=500, seed=18)
    assert report["mismatches"] == 0 and report["budget_held"]
    assert max(report["rel_err_max"].values()) <= MOST


def test_a_plan_of_18_bits_builds_the_same_core_again(folder: Path, tmp_path: Path) -> None:
    rebuilt = tmp_path / "again"
    build("two_link", "aba", rebuilt, ii=4, formats=str(folder / "plan.toml"))
    assert Build.read(rebuilt).graph == Build.read(folder).graph


def test_an_error_out_of_reach_says_what_is_in_reach(tmp_path: Path) -> None:
    with pytest.raises(PrecisionError) as caught:
        build("two_link", "aba", tmp_path / "fine", ii=4, formats="auto18", max_error=1e-7)
    match = re.search(
        r"words of 18 bits: the error is (\S+)\. Ask for max_error=(\S+) ", str(caught.value)
    )
    assert match, caught.value
    assert not (tmp_path / "fine").exists()
    build("two_link", "aba", tmp_path / "ok", ii=4, formats="auto18", max_error=float(match[2]))


@pytest.mark.slow
def test_shorter_words_are_exact_in_their_way(tmp_path: Path) -> None:
    build("two_link", "rnea", tmp_path / "core", ii=4, formats="auto14", max_error=0.4)
    core = Build.read(tmp_path / "core")
    assert {fmt.width for fmt in formats(core.graph)} >= {14}
    products = [node for node in core.graph.nodes if node.op in ("dot", "mul")]
    fmts = formats(core.graph)
    assert {fmts[arg].width for node in products for arg in node.args} == {14}
    report = verify(tmp_path / "core", samples=500, seed=14)
    assert report["mismatches"] == 0 and report["budget_held"]
    assert max(report["rel_err_max"].values()) <= 0.4  # where gravity and motion nearly cancel
    build("two_link", "rnea", tmp_path / "again", ii=4, formats=str(tmp_path / "core/plan.toml"))
    assert Build.read(tmp_path / "again").graph == core.graph


@pytest.mark.parametrize("name", ["auto11", "auto19", "auto28", "auto0"])
def test_words_that_no_multiplier_has_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ObjectiveError, match=rf"'{name}' are not available: .* give 12 to 18"):
        build("two_link", "rnea", tmp_path / "no", formats=name)
    assert not (tmp_path / "no").exists()
