"""The page of ``pinion report``: builds as one self-contained HTML file.

A policy in the page's head forbids every network request and every script except its own.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pinion.base import installation
from pinion.base.places import check_place

from .builds import columns_of_builds
from .html import element, page_table, script_json, text
from .pictures import ReportError
from .sections import SECTIONS, summary
from .table import FigureTable

MOST_BYTES = 2_000_000
"""Size above which a page opens slowly [bytes]."""

LABELS = (
    ("counted", "of the build's own files: operations, cycles, units, bits, bytes, digests"),
    ("simulated", "by the exact integer model, which equals the RTL bit for bit"),
    ("estimated", "by Yosys and tables of delays; nothing was placed or routed"),
    ("model", "computed from equations and from others' measurements"),
)


def build_page(builds: Sequence[Mapping[str, Any]]) -> str:
    """Return the HTML page of one or more builds (:func:`pinion.report.build_data.build_data`)."""
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    first = builds[0]["manifest"]
    title = f"{first['function']} for {first['robot']}"
    if len(builds) > 1:
        title += f" and {len(builds) - 1} more"
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(policy)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{text(title)} - Pinion</title><style>{style}</style>"
    )
    labels = "".join(
        element("li", {}, element("span", {"class": f"label {name}"}, text(name)) + " " + text(doc))
        for name, doc in LABELS
    )
    top = element(
        "header",
        {},
        element("p", {"class": "brand"}, "Pinion build report")
        + element(
            "p",
            {"class": "warning"},
            "<strong>Nothing on this page ran on hardware.</strong> Each figure has a label:",
        )
        + element("ul", {"class": "labels"}, labels),
    )
    body = [top]
    if len(builds) > 1:
        body += [_side_by_side(builds), _tabs(builds)]
    body += [_build(k, build, single=len(builds) == 1) for k, build in enumerate(builds)]
    foot = f"Made by Pinion {text(installation.version())} from build folders; no network is used."
    body.append(element("footer", {}, element("p", {}, foot)))
    data = script_json({"builds": [_script_data(build) for build in builds]})
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>'
        + "\n".join(body)
        + f'\n<script type="application/json" id="data">{data}</script>'
        + f"\n<script>{script}</script></body></html>\n"
    )


def check_page_path(path: Path, *, force: bool = False) -> None:
    """Check that a page can be written to a path.

    Raises
    ------
    ReportError : if the file exists and ``force`` is False, is a folder, or has no folder.
    """
    if path.is_dir():
        raise ReportError(f"'{path}' is a folder: give a file for the page.")
    if path.exists() and not force:
        raise ReportError(
            f"'{path}' exists: give another file, or replace it with force=True (--force)."
        )
    if not path.parent.is_dir():
        raise ReportError(f"There is no folder '{path.parent}' for the page: create it first.")
    check_place(path, "page", ReportError)


def write_page(path: Path, page: str, *, force: bool = False) -> None:
    """Write a page, completely or not at all.

    Raises
    ------
    ReportError : as `check_page_path`.
    """
    check_page_path(path, force=force)
    with NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}-", delete=False, encoding="utf-8"
    ) as part:
        try:
            part.write(page)
            part.close()
            os.chmod(part.name, 0o644)
            os.replace(part.name, path)
        except BaseException:
            Path(part.name).unlink(missing_ok=True)
            raise


def _asset(name: str) -> str:
    return (files("pinion.report") / "assets" / name).read_text(encoding="utf-8").strip()


def _side_by_side(builds: Sequence[Mapping[str, Any]]) -> str:
    names, rows = columns_of_builds([build["row"] for build in builds])
    more: dict[str, list[object]] = {
        "words in, out": [f"{m['words_in']}, {m['words_out']}" for m in _manifests(builds)],
        "products": [m["ops"]["mul"] + m["ops"]["mul_const"] for m in _manifests(builds)],
        "additions": [m["ops"]["add"] for m in _manifests(builds)],
        "adders": [m["adders"] for m in _manifests(builds)],
        "words of storage": [m["registers"] for m in _manifests(builds)],
        "largest error promised": [
            m.get("promises", {}).get(m["budget_distribution"]) for m in _manifests(builds)
        ],
    }
    lines = [*rows, *((name, *values) for name, values in more.items())]
    lines_with_values = [line for line in lines if any(value is not None for value in line[1:])]
    table = FigureTable(columns=("", *names), rows=lines_with_values)
    heading = element("h2", {}, "Builds side by side")
    return element("section", {"class": "card compare"}, heading + page_table(table))


def _manifests(builds: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [build["manifest"] for build in builds]


def _tabs(builds: Sequence[Mapping[str, Any]]) -> str:
    tabs = "".join(
        element(
            "button",
            {
                **{"role": "tab", "id": f"tab{k}", "aria-controls": f"build{k}"},
                "aria-selected": "true" if k == 0 else "false",
                "tabindex": 0 if k == 0 else -1,
            },
            text(f"{k + 1}. {build['folder']}"),
        )
        for k, build in enumerate(builds)
    )
    return element("div", {"class": "tabs", "role": "tablist", "aria-label": "Builds"}, tabs)


def _build(k: int, build: Mapping[str, Any], *, single: bool) -> str:
    parts, links = [], []
    for name, title, label, make in SECTIONS:
        mark = "".join(
            element("span", {"class": f"label {word}"}, word) for word in label.split(", ") if word
        )
        heading = element("h2", {}, text(title) + " " + mark)
        place = f"b{k}-{name}"
        links.append(element("a", {"href": f"#{place}"}, text(title)))
        parts.append(element("section", {"class": "card", "id": place}, heading + make(build, k)))
    inner = summary(build) + element(
        "nav", {"aria-label": "Sections of this build"}, "".join(links)
    ) + element("div", {"class": "sections"}, "".join(parts))  # fmt: skip
    role = {} if single else {"role": "tabpanel", "aria-labelledby": f"tab{k}"}
    return element(
        "main" if single else "div", {"class": "build", "id": f"build{k}", **role}, inner
    )


def _script_data(build: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a build that the page's script needs."""
    schedule, manifest = build["schedule"], build["manifest"]
    kinds, regions, lines = (
        {name: k for k, name in enumerate(dict.fromkeys(names))}
        for names in (
            schedule["units"],
            (row["region"] for row in schedule["operations"]),
            (row["line"] for row in schedule["operations"]),
        )
    )
    outputs: dict[int, list[str]] = {}
    for row in schedule["outputs"]:
        outputs.setdefault(row["node"], []).append(row["name"])
    nodes = {row["node"] for row in schedule["operations"]}
    sources = build["facts"].get("sources") or {}
    names = {
        name: k for k, name in enumerate(dict.fromkeys(n for n, _ in build["formats"]["named"]))
    }
    return {
        "robot": {key: build["robot"][key] for key in ("points", "axes")},
        "ops": manifest["ops"],
        "shares": [round(row["share"], 6) for row in build["utilisation"]],
        "widths": build["formats"]["widths"],
        "schedule": {
            "ii": schedule["ii"],
            "length": schedule["length"],
            "kinds": list(kinds),
            "units": list(schedule["units"].values()),
            "regions": list(regions),
            "lines": list(lines),
            "texts": [sources.get(line, "") for line in lines],
            "names": list(names),
            "inputs": build["formats"]["inputs"],
            "outputs": {str(n): names for n, names in outputs.items() if n in nodes},
            # Kind, unit, start, latency, region, line, node, width, fraction bits, name, operands.
            "operations": [
                [
                    *(kinds[row["kind"]], row["unit"], row["start"], row["latency"]),
                    *(regions[row["region"]], lines[row["line"]], row["node"], *fmt),
                    *(names[name], expression),
                ]
                for row, fmt, (name, expression) in zip(
                    schedule["operations"],
                    build["formats"]["of"],
                    build["formats"]["named"],
                    strict=True,
                )
            ],
        },
    }
