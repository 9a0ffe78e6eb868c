"""Sections of a build's page, each from the build's data (:mod:`.build_data`)."""

from __future__ import annotations

from collections.abc import Callable

from .blocks import Data, folded, note
from .errors_section import errors_section
from .format_section import formats_section
from .html import element, page_table, text
from .link_section import link_section
from .provenance_section import provenance_section
from .resource_sections import resources_section, timing_section
from .schedule_sections import passes_section, schedule_section, utilisation_section
from .skeleton import TURNED, VIEWS, drawing, is_flat
from .table import FigureTable


def summary(build: Data) -> str:
    """Return HTML with a build's title and main figures."""
    m = build["manifest"]
    per_second = m["clock_mhz"] / m["ii"]
    home = m["budget_distribution"]
    promise = m.get("promises", {}).get(home)
    resources = build["resources"]
    table_multipliers = f", and {m['table_multipliers']} in its sine and reciprocal units"
    tiles = [
        (f"{m['ii']}", "cycles between results", ""),
        (f"{m['latency_cycles']}", "cycles of latency, first beat in to last beat out", ""),
        (f"{per_second:.4g} M/s", f"results at an assumed {m['clock_mhz']:g} MHz", ""),
        (
            f"{m['multipliers']}",
            "multipliers in the core" + (table_multipliers if m["table_multipliers"] else ""),
            "",
        ),
        _verification(build["verified"]),
    ]
    if promise is not None:
        words = f"largest relative error promised, {home} states"
        tiles.append((f"{promise:.2g}", words, ""))
    if resources:
        tiles.insert(
            4, (f"{resources['dsp']:,}", "DSP blocks of UltraScale+, counted by Yosys", "")
        )
        tiles.append((f"{resources['timing']['mhz']['typical']:.0f} MHz", "clock, estimated", ""))
    tiles_markup = "".join(
        element(
            "div", {"class": f"tile {kind}".strip()},
            element("strong", {}, text(value)) + element("span", {}, text(words)),
        )
        for value, words, kind in tiles
    )  # fmt: skip
    about = f"Formats {m['formats']}, target {m['target']}, chosen for {m['objective']}."
    return (
        element("h1", {}, text(m["function"]) + element("small", {}, " for " + text(m["robot"])))
        + element("p", {"class": "about"}, text(about))
        + element("div", {"class": "tiles"}, tiles_markup)
    )


def _verification(verdict: Data | None) -> tuple[str, str, str]:
    """Return the summary tile of a verification: value, text and kind."""
    if verdict is None:
        return (
            "not yet",
            "verified: run pinion verify to compare every bit in simulation",
            "unknown",
        )
    if verdict["failed"] is None:
        return "not kept", "number of wrong requests: run pinion verify again", "unknown"
    count = f"{verdict['mismatches']:,} of {verdict['requests']:,}"
    if not verdict["failed"]:
        return count, "requests wrong in simulation, and all errors within their budgets", "good"
    return "FAILED", f"verification, {count} requests wrong in simulation: see Errors", "bad"


def robot_section(build: Data, k: int) -> str:
    """Return HTML with views of the robot from several sides, and its joints."""
    robot = build["robot"]
    if not robot["joints"]:
        return element("p", {}, "This function takes no robot.")
    distinct_views = [view for view in VIEWS if not is_flat(robot, view)]
    views = "".join(drawing(robot, view) for view in distinct_views) + drawing(
        robot, TURNED, turns=True
    )
    names = [joint["link"] for joint in robot["joints"]]
    rows = [
        (
            *(i + 1, joint["name"], joint["kind"], joint["link"]),
            "base" if joint["parent"] < 0 else names[joint["parent"]],
            *(robot["drawn"][i], joint["mass"]),
        )
        for i, joint in enumerate(robot["joints"])
    ]
    table = FigureTable(
        columns=("#", "joint", "kind", "moves", "parent", "drawn at", "kg"),
        rows=rows, left=6, note="Tips: " + ("; ".join(robot["tips"]) or "none") + ".",
    )  # fmt: skip
    key = (
        "Grey and blue lines are links from joint to joint, orange strokes the joints' axes, the "
        "filled dot is the base, red circles are tips; x, y and z are the base's axes. Joints are "
        "bent within their limits so that links lie apart; the table has their positions."
    )
    if len(distinct_views) < len(VIEWS):
        key += " Views that would show everything on one line are left out."
    return (
        element("div", {"class": "views"}, views)
        + note(key)
        + folded(f"{len(rows)} joints as a table", page_table(table))
    )


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
"""Name, title, kind of figures, and function of each section."""
