"""Each situation on the page of errors still leads to a sentence."""

from __future__ import annotations

from docs.site.reference import errors, messages


def test_every_situation_ends_with_a_sentence() -> None:
    situations = [row for rows in messages.rows().values() for row in rows]
    assert len(situations) > 15
    page = errors.page()
    for name, kind, message in situations:
        assert issubclass(kind, ValueError | RuntimeError | TypeError), name
        assert kind.__module__.startswith("pinion."), name
        assert message.endswith("."), f"{name}: {message}"
        assert "/tmp" not in message, f"{name}: {message}"
        # The page lists the class too, but for what the tracer tells a user's function.
        assert f"| `{kind.__name__}` |" in page, name
