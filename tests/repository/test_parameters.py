"""The lint finds long parameter lists, and accepts a reason."""

from __future__ import annotations

import pytest

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
