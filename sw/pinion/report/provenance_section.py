"""Who made a build from what, and whether it still is, on its page."""

from __future__ import annotations

from .blocks import Data, folded
from .html import element, html_table, text
from .table import Table


def provenance_section(one: Data, k: int) -> str:
    """Who made what from what, with which tools, and whether it still is."""
    m = one["manifest"]
    rows: list[tuple[str, object]] = [
        ("folder", one["folder"]),
        ("build", m["hash"]),
        ("robot", f"{m['robot']}, from {m['robot_source']}"),
        ("function", m["function"]),
        ("options", ", ".join(f"{k}={v}" for k, v in m["options"].items()) or "none"),
        ("formats", m["formats"]),
        ("largest error asked for", f"{m['max_error']:g} on {m['budget_distribution']} states"),
        ("chosen for", m["objective"]),
        ("target", m["target"]),
        ("interval", f"{m['ii']} cycles"),
        ("clock", f"{m['clock_mhz']:g} MHz, assumed"),
        ("built by", f"Pinion {m['version']}"),
        *one["tools"],
        ("digest of function, graph and schedule", m["content"]),
    ]
    files = Table(
        columns=("file", "state", "bytes", "SHA-256 when this page was made"),
        rows=[(f["name"], f["state"], f["bytes"], f["sha256"]) for f in one["files"]],
        left=2,
    )
    built = sum(f["state"] == "as built" for f in one["files"])
    line = (
        f"All {built} files that the build wrote are as they were built. Digests find damage; "
        "they are no signature. A build records no date."
    )
    return (
        html_table(Table(columns=(), rows=rows, left=2), kind="pairs")
        + element("p", {}, text(line))
        + folded(f"{len(one['files'])} files with their digests", html_table(files, kind="files"))
    )
