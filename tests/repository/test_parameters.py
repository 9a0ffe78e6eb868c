"""The lint of long lists of parameters finds them, and takes a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import parameters
from tests.support.parameters import long_lists

NINE = "a, b, c, d, e, f, g, h, i"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (f"def f({NINE}): ...", False),
        ("async def f(a, b, /, c, d, e, *, f, g, h, i): ...", False),
        (f"class A:\n    def f(self, {NINE}): ...", False),
        (f"# Many parameters: nine axes.\ndef f({NINE}): ...", True),
        (f"# Many parameters: nine axes of\n# one experiment.\n@d\ndef f({NINE}): ...", True),
        (f"# Many parameters: nine axes.\nx = 1\ndef f({NINE}): ...", False),
        (f"# Another comment.\ndef f({NINE}): ...", False),
    ],
)
def test_a_long_list_is_found(source: str, reason: bool) -> None:
    assert [(n, has) for _, _, n, has in long_lists(source)] == [(9, reason)]


def test_eight_are_not_many() -> None:
    assert not list(long_lists(f"class A:\n    def f(self, {NINE[:-3]}): ..."))


def test_the_lint_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert parameters.main(tmp_path) == 1, "it read nothing"
    (tmp_path / "sw/pinion/cli").mkdir(parents=True)
    (tmp_path / "sw/pinion/cli/verb.py").write_text(f"def command({NINE}): ...\n")
    assert parameters.main(tmp_path) == 0
    (tmp_path / "sw/pinion/x.py").write_text(f"def many({NINE}): ...\n")
    capsys.readouterr()
    assert parameters.main(tmp_path) == 1
    assert "sw/pinion/x.py:1: 'many' has 9 parameters" in capsys.readouterr().err
