"""Provenance section of a build's page: origin, tools and integrity."""

from __future__ import annotations

from .blocks import Data, folded
from .html import element, page_table, text
from .table import FigureTable


def provenance_section(build: Data, k: int) -> str:
    """Return HTML with the build's origin, the tools that made it, and whether it is unchanged."""
    m = build["manifest"]
    rows: list[tuple[str, object]] = [
        ("folder", build["folder"]),
        ("build", m["hash"]),
        ("robot", f"{m['robot']}, from {m['robot_source']}"),
        ("function", m["function"]),
        ("options", ", ".join(f"{k}={v}" for k, v in m["options"].items()) or "none"),
        ("formats", m["formats"]),
        ("requested largest error", f"{m['max_error']:g} on {m['budget_distribution']} states"),
        ("chosen for", m["objective"]),
        ("target", m["target"]),
        ("interval", f"{m['ii']} cycles"),
        ("clock", f"{m['clock_mhz']:g} MHz, assumed"),
        ("built by", f"Pinion {m['version']}"),
        *build["tools"],
        ("digest of function, graph and schedule", m["content"]),
    ]
    files = FigureTable(
        columns=("file", "state", "bytes", "SHA-256 when this page was made"),
        rows=[(f["name"], f["state"], f["bytes"], f["sha256"]) for f in build["files"]],
        left=2,
    )
    built = sum(f["state"] == "as built" for f in build["files"])
    line = (
        f"All {built} files that the build wrote are unchanged. Digests detect damage; they are "
        "not a signature. A build records no date."
    )
    return (
        page_table(FigureTable(columns=(), rows=rows, left=2), kind="pairs")
        + element("p", {}, text(line))
        + folded(f"{len(build['files'])} files with their digests", page_table(files, kind="files"))
    )
