"""``pinion robots``: the robots that are available without a file."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from pinion.console.terminal import fits, out, put_json, show
from pinion.report import FigureTable

from .options import Json

_GENERATED = {
    "pendulum": "one slender rod of 1 kg and 0.5 m",
    "two_link": "two such rods in a plane",
    "chain_N": "N rods in space, N at least 1: chain_3, chain_20",
}


def command(*, json: Json = False) -> None:
    """List the built-in and the generated robots."""
    from pinion.robot import GENERATED, builtin_names

    rows = [_builtin(name) for name in builtin_names()] + [_generated(name) for name in GENERATED]
    if json:
        put_json({"robots": rows})
        return
    cells = [(r["name"], r["dof"] or "N", r["what"], r["source"]) for r in rows]
    table = FigureTable(
        columns=("robot", "joints", "what", "source of the figures"), rows=cells, left=4
    )
    if fits(table):
        show(table)
    else:
        show(replace(table, columns=table.columns[:-1], rows=[row[:-1] for row in cells], left=3))
        out().print("Sources of the figures:")
        for row in rows:
            if row["kind"] == "built-in":
                # One line each: an address with line breaks cannot be opened.
                out().print(f"- {row['name']}: {row['source']}", soft_wrap=True)
        out().print()
    out().print("ROBOT may also be the path of a URDF file.")


def _builtin(name: str) -> dict[str, Any]:
    """Return a built-in robot's name, degrees of freedom, and the source named in its URDF."""
    from pinion.robot import coupled, load, urdf_text

    comment = re.search(r"<!--(.*?)-->", urdf_text(name), flags=re.DOTALL)
    words = " ".join(comment[1].split()) if comment else ""
    source = re.search(r"https?://\S+, \S+\.urdf", words)
    return {
        "name": name,
        "kind": "built-in",
        "dof": coupled(load(name)).nv,
        "what": words.partition(":")[0],
        "source": source[0] if source else "",
    }


def _generated(name: str) -> dict[str, Any]:
    """Return a generated robot's figures, as `_builtin` does; chain_N has any number of joints."""
    from pinion.robot import load

    return {
        "name": name,
        "kind": "generated",
        "dof": None if name.endswith("_N") else load(name).nv,
        "what": _GENERATED[name],
        "source": "a formula",
    }
