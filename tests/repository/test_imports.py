"""The import check finds cycles of any length, and hardware that a host loads."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support import imports


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ({"a": [], "b": ["a"], "c": ["a", "b"]}, []),
        ({"a": ["b"], "b": ["a"]}, [["a", "b"]]),
        ({"a": ["a"]}, [["a"]]),
        ({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}, [["a", "b", "c"]]),
        ({"a": ["b", "x"], "b": ["a"], "c": ["d"], "d": ["c", "a"]}, [["a", "b"], ["c", "d"]]),
        ({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}, [["b", "c"]]),
    ],
)
def test_cycles_are_found(edges: dict[str, list[str]], expected: list[list[str]]) -> None:
    assert imports.cycles(edges) == expected


def test_a_long_chain_needs_no_deep_stack() -> None:
    names = [f"m{i:05}" for i in range(5000)]
    edges = {a: [b] for a, b in pairwise(names)} | {names[-1]: []}
    assert imports.cycles(edges) == []
    assert imports.cycles(edges | {names[-1]: [names[0]]}) == [names]


def test_what_is_loaded_is_seen() -> None:
    host = imports.loaded("pinion.driver")
    assert "pinion.driver.device" in host and "pinion.link.manifest" in host
    assert imports.hardware(host) == []
    assert imports.hardware(imports.loaded("pinion.hls")) != []


def test_a_host_that_loads_many_modules_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(imports, "HOST", ("pinion.driver",))
    monkeypatch.setattr(imports, "MOST", 3)
    assert imports.main() == 1
    assert "'import pinion.driver' loads " in capsys.readouterr().err


def test_a_wrong_import_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(imports, "HOST", ("pinion.link", "pinion.nowhere"))
    assert imports.main() == 1
    assert capsys.readouterr().err.splitlines() == [
        "imports: 'import pinion.nowhere' fails (ModuleNotFoundError: No module named "
        "'pinion.nowhere'): correct this before checking what it loads."
    ]


def test_the_names_of_hardware_packages_are_all_there_are(packages: dict[str, object]) -> None:
    """A new package in hw/ or sim/ must be named in the check."""
    roots = {"fixedpoint", "robot", "dynamics", "graph", "functions", "link", "driver"}
    roots |= {"base", "batch", "chains", "formats", "native", "request"}
    above = {"report", "console", "cli", "bench", "control", "compute", "processor", "api"}
    names = {name.removeprefix("pinion.") for name in packages}
    assert names - roots - above == set(imports.HARDWARE)
