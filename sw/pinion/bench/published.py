"""Published figures of accelerators, from a data file with a source for each figure."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any


def published_designs() -> dict[str, Any]:
    """Return the data file: ``sources`` (texts by key), ``design``, and times in ``end_to_end``."""
    return tomllib.loads((files("pinion.bench") / "published.toml").read_text())


def published_times() -> list[dict[str, Any]]:
    """Return end-to-end figures of the 2021 paper.

    Returns
    -------
    A row per platform: ``name, robot, function``, ``us`` (by requests of a batch), the ``kind`` of
    figures, their ``source`` and ``where`` in it.
    """
    return [
        {
            **{key: row[key] for key in ("name", "robot", "function")},
            "us": {int(count): us for count, us in row["us"]["value"].items()},
            **{key: row["us"][key] for key in ("kind", "source", "where")},
        }
        for row in published_designs()["end_to_end"]
    ]
