"""The table of messages on the page of errors: each situation still leads to a sentence."""

from __future__ import annotations

import pytest
from docs.site.reference import errors, messages


def test_every_situation_ends_with_a_sentence() -> None:
    found = [row for rows in messages.rows().values() for row in rows]
    assert len(found) > 15
    page = errors.page()
    for name, kind, message in found:
        assert issubclass(kind, ValueError | RuntimeError | TypeError), name
        assert kind.__module__.startswith("pinion."), name
        assert message.endswith("."), f"{name}: {message}"
        assert "/tmp" not in message, f"{name}: {message}"
        # The page lists the class too, but for what the tracer tells a user's function.
        assert f"| `{kind.__name__}` |" in page, name


def test_a_situation_that_passes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(messages.SITUATIONS, "More", {"nothing wrong": lambda: None})
    with pytest.raises(messages.NoErrorError, match="'nothing wrong' leads to no error"):
        messages.rows()


def test_messages_stand_in_cells_as_they_are() -> None:
    assert messages._cell("a|b `c` <d> *e*") == r"a\|b \`c\` &lt;d&gt; \*e\*"
