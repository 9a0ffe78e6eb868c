"""The sections of a build on its page, each from the build's data (:mod:`.build_data`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors_section import errors_section
from .html import element, html_table, text
from .resources import resource_tables
from .skeleton import TURNED, VIEWS, drawing
from .table import Table
from .timing import timing_table, timing_totals

Data = Mapping[str, Any]

_NAMES = {
    "mul": "products",
    "mul_const": "by constants",
    "add": "additions",
    "reciprocal": "reciprocals",
    "trig": "sin, cos",
}
_BARS = ("dsp", "lut", "ff", "bram")
_WORDS = {
    "dsp": "DSP",
    "lut": "LUT, memories too",
    "ff": "FF",
    "bram": "BRAM (36 Kb)",
    "lut4": "LUT4",
    "mult18x18d": "18 x 18",
    "dp16kd": "RAM (16 Kb)",
}


def summary(one: Data) -> str:
    """Title of a build, and the figures that are asked for first."""
    m = one["manifest"]
    per_second = m["clock_mhz"] / m["ii"]
    home = m["budget_distribution"]
    promise = m.get("promises", {}).get(home)
    found = one["resources"]
    tiles = [
        (f"{m['ii']}", "cycles between results"),
        (f"{m['latency_cycles']}", "cycles of latency, first beat in to last beat out"),
        (f"{per_second:.4g} M/s", f"results at an assumed {m['clock_mhz']:g} MHz"),
        (f"{m['multipliers'] + m['table_multipliers']}", "multipliers"),
    ]
    if promise is not None:
        tiles.append((f"{promise:.2g}", f"largest relative error promised, {home} states"))
    if found:
        tiles.append((f"{found['timing']['mhz']['typical']:.0f} MHz", "clock, estimated"))
    shown = "".join(
        element(
            "div", {"class": "tile"},
            element("strong", {}, text(value)) + element("span", {}, text(words)),
        )
        for value, words in tiles
    )  # fmt: skip
    about = f"formats {m['formats']}, target {m['target']}, chosen for {m['objective']}"
    return (
        element("h1", {}, text(m["function"]) + element("small", {}, " for " + text(m["robot"])))
        + element("p", {"class": "about"}, text(about))
        + element("div", {"class": "tiles"}, shown)
    )


def robot_section(one: Data, k: int) -> str:
    """The robot from three sides, and its joints."""
    robot = one["robot"]
    if not robot["joints"]:
        return element("p", {}, "This function takes no robot.")
    views = "".join(drawing(robot, view) for view in VIEWS) + drawing(robot, TURNED, turns=True)
    names = [joint["link"] for joint in robot["joints"]]
    rows = [
        (
            *(i + 1, joint["name"], joint["kind"], joint["link"]),
            "base" if joint["parent"] < 0 else names[joint["parent"]],
            joint["mass"],
        )
        for i, joint in enumerate(robot["joints"])
    ]
    made = Table(
        columns=("#", "joint", "kind", "moves", "hangs on", "kg"),
        rows=rows, left=5, note="Tips: " + ("; ".join(robot["tips"]) or "none") + ".",
    )  # fmt: skip
    key = (
        "Lines run from joint to joint, short strokes are joint axes, the filled dot is the base, "
        "red circles are tips. All joints are at zero."
    )
    return (
        element("div", {"class": "views"}, views)
        + element("p", {"class": "note"}, key)
        + _folded(f"{len(rows)} joints as a table", html_table(made))
    )


def passes_section(one: Data, k: int) -> str:
    """Operations after each pass, as a table with bars."""
    found = one["facts"].get("passes")
    if found is None:
        ops = one["manifest"]["ops"]
        steps = [{"step": "built", "doc": "the graph that was built", **ops}]
    else:
        steps = found["steps"]
    names = [n for n in dict.fromkeys(n for s in steps for n in s) if n not in ("step", "doc")]
    names = [n for n in names if any(s.get(n) for s in steps)]
    totals = [sum(step.get(name, 0) for name in names) for step in steps]
    rows = []
    for number, (step, total) in enumerate(zip(steps, totals, strict=True)):
        change = total - totals[number - 1] if number else None
        shown = None if change is None else f"{change:+,}" if change else "0"
        rows.append((step["step"], step["doc"], *(step.get(n, 0) for n in names), total, shown))
    made = Table(
        columns=("after", "what it does", *(_NAMES.get(n, n) for n in names), "all", "change"),
        rows=rows,
        left=2,
    )
    note = (
        "The passes were run once more for this page."
        if found and found["whole"]
        else "The passes between are known of functions of Pinion's own table alone, and only "
        "where this version still makes the graph of the folder."
    )
    bars = _bars(
        [(s["step"], t, max(totals), f"{t:,}") for s, t in zip(steps, totals, strict=True)],
        "Operations after each pass",
    )
    return bars + html_table(made) + element("p", {"class": "note"}, text(note))


def schedule_section(one: Data, k: int) -> str:
    """The chart that the script draws, and the same by region as a table."""
    schedule = one["schedule"]
    operations = schedule["operations"]
    count, units = len(operations), sum(schedule["units"].values())
    label = (
        f"Schedule: {count} operations on {units} units over {schedule['length']} cycles. Arrow "
        "keys go from operation to operation, plus and minus zoom, 0 shows all."
    )
    buttons = "".join(
        element("button", {"type": "button", "data-do": do, "aria-label": words}, sign)
        for do, sign, words in (
            ("in", "+", "Zoom in"),
            ("out", "&minus;", "Zoom out"),
            ("all", "Show all", "Show all"),
        )
    )
    chart = element(
        "div",
        {"class": "chart", "data-build": k},
        element("div", {"class": "tools"}, buttons + element("span", {"class": "legend"}))
        + element("canvas", {"tabindex": 0, "role": "img", "aria-label": label})
        + element("div", {"class": "tip", "hidden": "hidden"})
        + element("p", {"class": "said", "aria-live": "polite"}),
    )
    regions: dict[str, list[Data]] = {}
    for row in operations:
        regions.setdefault(row["region"] or "elsewhere", []).append(row)
    made = Table(
        columns=("region", "operations", "first start", "last end"),
        rows=[
            (
                *(name, len(own), min(r["start"] for r in own)),
                max(r["start"] + r["latency"] for r in own),
            )
            for name, own in regions.items()
        ],
    )
    hint = (
        "Drag to move, Ctrl and the wheel (or two fingers' pinch) to zoom, a double click to zoom "
        f"in. Every {schedule['ii']} cycles, at the vertical lines, the same units begin anew with "
        "the next request."
    )
    return (
        chart
        + element("p", {"class": "note"}, text(hint))
        + element("noscript", {}, "The chart needs JavaScript; the table does not.")
        + _folded("By region, as a table", html_table(made))
    )


def utilisation_section(one: Data, k: int) -> str:
    """How busy units are, and how wide their operand selectors."""
    ii = one["schedule"]["ii"]
    kinds: dict[str, list[Data]] = {}
    for row in one["utilisation"]:
        kinds.setdefault(row["kind"], []).append(row)
    bars, rows = [], []
    for kind, own in kinds.items():
        used = sum(row["operations"] for row in own)
        share = used / (ii * len(own))
        bars.append((f"{len(own)} {kind}", share, 1.0, f"{share:.1%}"))
        shares = [row["share"] for row in own]
        rows.append(
            (
                *(kind, len(own), used, ii * len(own), f"{share:.1%}"),
                *(f"{min(shares):.0%}", f"{max(shares):.0%}"),
            )
        )
    made = Table(
        columns=("kind", "units", "operations", "places", "used", "least", "most"),
        rows=rows,
        note=f"A unit takes one operation a cycle: {ii} places an interval.",
    )
    each = Table(
        columns=("unit", "operations", "of places", "used"),
        rows=[
            (f"{row['kind']} {row['unit']}", row["operations"], ii, f"{row['share']:.0%}")
            for row in one["utilisation"]
        ],
    )
    return (
        _bars(bars, "Share of an interval's cycles that units are used")
        + html_table(made)
        + _folded("Unit by unit", html_table(each))
        + _selectors(one["facts"].get("selectors"))
    )


def _selectors(found: list[dict[str, Any]] | None) -> str:
    if found is None:
        return ""
    ports: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in found:
        name = row["port"] or "input words"
        ports.setdefault((row["kind"], name), []).append(row)
    made = Table(
        columns=("unit", "port", "selectors", "inputs", "on average", "bits wide", "inputs x bits"),
        rows=[
            (
                *(kind, port, len(own), _span([r["inputs"] for r in own])),
                f"{sum(r['inputs'] for r in own) / len(own):.1f}",
                _span([r["bits"] for r in own]),
                sum(r["inputs"] * r["bits"] for r in own),
            )
            for (kind, port), own in sorted(ports.items())
        ],
        left=2,
        note="Multiplexers in front of units' ports, as they stand in the core. A port that "
        "always reads one place has none.",
    )
    return element("h3", {}, "Operand selectors") + html_table(made)


def formats_section(one: Data, k: int) -> str:
    """How wide signals are, and where."""
    found = one["formats"]
    if found["uniform"]:
        line = f"All {found['signals']:,} signals are in {found['uniform']}: one uniform format."
        return element("p", {}, text(line))
    bars = _bars(
        [
            (f"{width} bits", count, max(n for _, n in found["widths"]), f"{count:,}")
            for width, count in found["widths"]
        ],
        f"Widths of {found['signals']:,} signals: request words and results of operations",
    )
    made = Table(
        columns=("region", "signals", "bits wide", "fraction bits", "bits on average"),
        rows=[
            (
                *(row["region"], row["signals"], _span(row["widths"]), _span(row["frac"])),
                f"{row['bits'] / row['signals']:.1f}",
            )
            for row in found["regions"]
        ],
    )
    return bars + _folded("By region, as a table", html_table(made), open_=len(made.rows) <= 12)


def resources_section(one: Data, k: int) -> str:
    """Counts against parts."""
    found, board = one["resources"], one["board"]
    target = one["manifest"]["target"]
    parts = one["facts"].get("parts") or {}
    made = ""
    if found is not None:
        counts = {name: found[name] for name in _BARS}
        counts["lut"] += found["srl"] + found["lutram"]
        fitting = {n: p for n, p in parts.items() if set(_BARS) <= set(p["capacity"])}
        if not fitting:
            fitting = {found["part"]: {"part": found["part"], "capacity": found["capacity"]}}
        made += _parts(fitting, counts, target, f"r{k}")
        made += element("p", {"class": "note"}, text(found["note"]))
        tables = "".join(
            html_table(t) for t in resource_tables({**found, "timing": _NO_PATHS})[:-1]
        )
        made += _folded("By kind of unit", tables)
    else:
        how = "Counts are missing: "
        code = "pinion synth DIR"
        made += element(
            "p", {"class": "missing"},
            how + element("code", {}, code) + " counts by Yosys, as does "
            + element("code", {}, "pinion report DIR --synth -o FILE") + ".",
        )  # fmt: skip
    if board is not None:
        capacity = parts.get(target, {}).get("capacity", {})
        bars = [
            (_WORDS.get(name, name), n, capacity[name], f"{n:,} of {capacity[name]:,}")
            for name, n in board["use"].items()
            if name in capacity and isinstance(n, int)
        ]
        line = (
            f"The board's tools: {board['fmax_mhz']:g} MHz after routing, "
            f"{board['clock_mhz']:g} MHz wanted."
        )
        made += element("h3", {}, text(f"Mapped for {target}")) + element("p", {}, text(line))
        made += _bars(bars, f"Of the part of {target}") if bars else ""
    return made


_NO_PATHS: dict[str, Any] = {"table": "", "note": "", "paths": [], "ns": {}, "mhz": {}}


def _parts(parts: Data, counts: Data, target: str, place: str) -> str:
    chosen = target if target in parts else next(iter(parts))
    options = "".join(
        element(
            "option",
            {"value": name, **({"selected": "selected"} if name == chosen else {})},
            text(f"{part['part']} ({name})"),
        )
        for name, part in parts.items()
    )
    made = element("label", {"for": place}, "Against the part ")
    made += element("select", {"id": place, "class": "parts"}, options)
    for name, part in parts.items():
        bars = [
            (
                *(_WORDS[key], counts[key], part["capacity"][key]),
                f"{counts[key]:,} of {part['capacity'][key]:,}: "
                f"{100 * counts[key] / part['capacity'][key]:.2f} %",
            )
            for key in _BARS
        ]
        kind = "part" if name == chosen else "part other"
        drawn = _bars(bars, f"Of {part['part']}")
        made += element("div", {"class": kind, "data-part": name, "data-of": place}, drawn)
    return made


def timing_section(one: Data, k: int) -> str:
    """The estimated clock and the worst paths."""
    found = one["resources"]
    if found is None:
        line = "No estimate yet: it comes with the counts of " + element("code", {}, "pinion synth")
        return element("p", {"class": "missing"}, line + ".")
    pairs = Table(columns=("", ""), rows=timing_totals(found["timing"]), left=2)
    return (
        html_table(Table(columns=(), rows=pairs.rows, left=2), kind="pairs")
        + html_table(timing_table(found["timing"]))
        + element("p", {"class": "note"}, "docs/timing.md says how good such estimates are.")
    )  # fmt: skip


def link_section(one: Data, k: int) -> str:
    """Bytes, beats, what bounds, and the model of the real link."""
    m, link = one["manifest"], one["link"]
    record = Table(
        columns=("record", "words", "bytes", "beats of 512 bits", "packet of one, bytes"),
        rows=[
            ("request", m["words_in"], link["bytes_in"], link["beats_in"], link["request_1"]),
            ("result", m["words_out"], link["bytes_out"], link["beats_out"], link["response_1"]),
        ],
    )
    arrays = Table(
        columns=("array", "of the", "unit", "shape", "words"),
        rows=[
            (a["name"], which, a["unit"], " x ".join(map(str, a["shape"])) or "1", _words(a))
            for which, own in (("request", m["inputs"]), ("result", m["outputs"]))
            for a in own
        ],
        left=4,
        note="What is known beforehand, constants and half of a symmetric matrix, does not travel.",
    )
    most = max(link["us_each"].values())
    bars = _bars(
        [(name, us, most, f"{1e3 * us:.3g} ns a request") for name, us in link["us_each"].items()],
        "What a request takes, one after the other: the longest bounds",
    )
    assumed = link["model"]["assumed"]
    line = (
        f"Bound by {link['bound']}: the core's clock at an assumed {assumed['core_mhz']:g} MHz, "
        f"the link's at {assumed['link_mhz']:g} MHz."
    )
    rows = [
        (
            *(row["link"], row["requests"], row["request_bytes"], row["response_bytes"]),
            *(row["card_us"], row["least_us"], row["most_us"]),
        )
        for row in link["model"]["estimates"]
    ]
    made = Table(
        columns=("link", "requests", "bytes in", "bytes out", "card, us", "least, us", "most, us"),
        rows=rows,
        title="MODEL, not measured: from call to last result",
        note="; ".join(assumed["links"].values())
        + f"; a write and a read take {assumed['fixed_us'][0]:g} to {assumed['fixed_us'][1]:g} us "
        "however small. No board has run this.",
    )
    return (
        element("p", {}, text(line))
        + bars
        + html_table(record)
        + html_table(arrays)
        + html_table(made)
    )


def provenance_section(one: Data, k: int) -> str:
    """Who made what from what, and whether it still is."""
    m = one["manifest"]
    rows: list[tuple[str, object]] = [
        ("folder", one["folder"]),
        ("build", m["hash"]),
        ("Pinion", m["version"]),
        ("robot", f"{m['robot']}, from {m['robot_source']}"),
        ("function", m["function"]),
        ("options", ", ".join(f"{k}={v}" for k, v in m["options"].items()) or "none"),
        ("formats", m["formats"]),
        ("largest error asked for", f"{m['max_error']:g} on {m['budget_distribution']} states"),
        ("chosen for", m["objective"]),
        ("target", m["target"]),
        ("interval", f"{m['ii']} cycles"),
        ("clock", f"{m['clock_mhz']:g} MHz, assumed"),
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
        + _folded(f"{len(one['files'])} files with their digests", html_table(files, kind="files"))
    )


def _words(array: Mapping[str, Any]) -> int:
    """Words of an array that travel."""
    sent = array["sent"]
    return math.prod(array["shape"]) if sent is None else len(sent)


def _span(values: list[int]) -> str:
    least, most = min(values), max(values)
    return str(least) if least == most else f"{least} to {most}"


def _folded(title: str, inner: str, *, open_: bool = False) -> str:
    said = {"open": "open"} if open_ else {}
    return element("details", said, element("summary", {}, text(title)) + inner)


def _bars(rows: Sequence[tuple[str, float, float, str]], title: str) -> str:
    """Bars of values against their ends: name, value, end, and the value in words."""
    lines = []
    for name, value, end, words in rows:
        share = min(100.0 * value / end, 100.0) if end else 0.0
        fill = element("rect", {"class": "fill", "width": f"{share:.3f}%", "height": "100%"})
        drawn = element("svg", {"class": "bar", "aria-hidden": "true"}, fill)
        lines.append(
            element("span", {"class": "name"}, text(name))
            + drawn
            + element("span", {"class": "value"}, text(words))
        )
    items = "".join(element("li", {}, line) for line in lines)
    listed = element("ul", {"class": "bars", "aria-label": title}, items)
    return element("figure", {}, element("figcaption", {}, text(title)) + listed)


Section = tuple[str, str, str, Callable[[Data, int], str]]

SECTIONS: tuple[Section, ...] = (
    ("robot", "Robot", "", robot_section),
    ("passes", "Operations, pass by pass", "counted", passes_section),
    ("schedule", "Schedule", "counted", schedule_section),
    ("use", "Units and ports", "counted", utilisation_section),
    ("formats", "Format plan", "counted", formats_section),
    ("errors", "Errors", "simulated", errors_section),
    ("resources", "Resources", "estimated", resources_section),
    ("timing", "Timing", "estimated", timing_section),
    ("link", "Link budget", "counted, model", link_section),
    ("provenance", "Provenance and digests", "counted", provenance_section),
)
"""Name, title, what its figures are worth, and what makes it."""
