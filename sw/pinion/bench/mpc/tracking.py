"""Tables of ``pinion bench mpc`` and ``pinion demo mpc``: motions tracked by a controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pinion.report import FigureTable
from pinion.report.table import without_fraction

NAMES = {
    "float64": "NumPy, float64",
    "cpu64": "this CPU, float64",
    "cpu32": "this CPU, float32",
    "cuda": "GPU, float32",
    "integers": "exact integers of the build",
    "card": "RTL, through the driver",
}
"""Sources of gradients, as text."""


def simulated(data: Mapping[str, Any], name: str) -> bool:
    """Return whether a row's time is from a model or a simulation, not from a device."""
    return name == "integers" or (name == "card" and str(data.get("card", "sim")).startswith("sim"))


def label(data: Mapping[str, Any], name: str) -> str:
    """Return the source of a row's gradients as text."""
    real = name == "card" and not simulated(data, name)
    return f"card, {data['card']}" if real else NAMES[name]


def check_tracking(data: Mapping[str, Any]) -> None:
    """Check that the data has everything that the tables, the page and the picture show.

    Raises
    ------
    KeyError, TypeError, ValueError : if it does not.
    """
    if data["bench"] != "mpc":
        raise ValueError(f"it is a result of the benchmark {data['bench']!r}, not 'mpc'")
    if not data["rows"]:
        raise ValueError("it has no rows")
    for row in (*data["rows"], data["undisturbed"]):
        if row["name"] not in NAMES:
            raise ValueError(f"a row has the unknown name {row['name']!r}")
        for key in ("rms_mm", "max_mm", "us_median", "us_p99", "hz"):
            # Written so that NaN is refused too.
            if not 0.0 < float(row[key]) < np.inf:
                raise ValueError(f"a row's {key} is {row[key]!r}, not a positive number")


def tracking_table(data: Mapping[str, Any]) -> FigureTable:
    """Return the table of tracking errors by source of the gradients."""
    base = label(data, data["reference"])
    rows: list[tuple[object, ...]] = [
        (
            label(data, row["name"]),
            *(f"{row[key]:.4f}" for key in ("rms_mm", "max_mm")),
            *(None if row["name"] == data["reference"] else _share(row["rms_over"]),),
            *(None if row["name"] == data["reference"] else f"{1e3 * row['apart_mm']:.3g}",),
            *(row[key] for key in ("gradients", "flagged", "compared", "mismatches")),
        )
        for row in data["rows"]
    ]
    calm = data["undisturbed"]
    rows.append(
        (
            "no disturbances, float64",
            *(f"{calm[key]:.4f}" for key in ("rms_mm", "max_mm")),
            *(None, None, calm["gradients"], calm["flagged"], None, None),
        )
    )
    about = data["scenario"]
    return FigureTable(
        title="Tracking",
        columns=(
            *("gradients from", "RMS, mm", "largest, mm", "RMS relative to the first"),
            "deviation, um",
            *("gradients", "flagged", "compared", "mismatches"),
        ),
        rows=rows,
        note=(
            f"Distance of the {about['robot']}'s tip from a figure-eight over "
            f"{about['duration']:g} s, in MuJoCo with {about['payload']:g} kg at the tip, friction "
            f"of {about['friction']:g} N m and {about['damping']:g} N m s/rad at every joint and a "
            f"delay of {1e3 * about['delay']:g} ms, none of them known to the controller; the last "
            f"row is without them. The period is {1e3 * about['period']:g} ms, and the horizon has "
            f"{about['knots']} knots of {1e3 * about['step']:g} ms. deviation: the tip's largest "
            f"distance from its position with gradients from {base}. compared: gradients whose "
            "every bit was compared with the integer model during the run."
        ),
    )


def solve_times_table(data: Mapping[str, Any]) -> FigureTable:
    """Return the table of computing times per period by part, with the resulting rate."""
    rows = [
        (
            label(data, row["name"]),
            *(f"{row['us'][part]:.0f}" for part in ("gradients", "backward", "rest")),
            without_fraction(row["us_median"]),
            without_fraction(row["us_p99"]),
            None if simulated(data, row["name"]) else without_fraction(row["hz"]),
        )
        for row in data["rows"]
    ]
    return FigureTable(
        title="Time of a period, measured",
        columns=(
            *("gradients from", "gradients, us", "backward pass, us", "rest, us"),
            *("median, us", "99 %, us", "periods per second"),
        ),
        rows=rows,
        note=(
            "Microseconds, medians of the whole run on one core. gradients: the call of the "
            "backend; backward pass: NumPy; rest: costs, A and B, the interpreter, and all else."
            + (
                " Rows without a rate have gradients from an integer model and from a warm "
                "simulation of the RTL, whose times say nothing about a card."
                if any(simulated(data, row["name"]) for row in data["rows"])
                else ""
            )
        ),
    )


def card_model_table(data: Mapping[str, Any]) -> FigureTable | None:
    """Return the table of modelled times of a real card; None without a build."""
    model = data["card_model"]
    if model is None:
        return None
    rows = [
        (
            f"model, {row['link']}",
            f"{row['card_us']:.2f}",
            f"{row['least_us']:.0f} - {row['most_us']:.0f}",
            f"{row['gradients_hz_least']:,.0f} - {row['gradients_hz_most']:,.0f}",
            f"{row['hz_least']:,.0f} - {row['hz_most']:,.0f}",
        )
        for row in model["links"]
    ]
    return FigureTable(
        title="MODEL, not measured: a card on a real link",
        columns=(
            *("link", "on the card, us", "gradients of a horizon, us"),
            *("horizons per second", "periods per second, with this host"),
        ),
        rows=rows,
        note=(
            f"Model, not measured: no board has run this. {model['requests']} requests to a core "
            f"in {model['formats']} formats, at ii {model['ii']} and an assumed clock of "
            f"{model['core_mhz']:g} MHz, behind a link with {model['fixed_us'][0]:g} to "
            f"{model['fixed_us'][1]:g} us for a write and a read (docs/link.md). The last column "
            f"adds the host's own {model['host_us']:.0f} us of backward pass and rest, measured "
            "here."
        ),
    )


def finding(data: Mapping[str, Any]) -> str:
    """Return the result of the comparison as one or two sentences."""
    rows = data["rows"]
    base = rows[0]
    text = (
        f"The tip stays within {base['max_mm']:.2f} mm of the figure ({base['rms_mm']:.2f} mm RMS) "
        f"with gradients from {label(data, base['name'])}"
    )
    if len(rows) > 1:
        worst = max(abs(row[key]) for row in rows for key in ("rms_over", "max_over"))
        text += (
            f"; with all others the errors differ from these by at most {100 * worst:.2g} %, "
            f"{'within' if data['within'] else 'OUTSIDE'} the allowed {100 * data['allowed']:g} %"
        )
    card = next((row for row in rows if row["name"] == "card"), None)
    if card is not None:
        by = "RTL" if simulated(data, "card") else "the card"
        text += (
            f". Of {card['compared']:,} gradients from {by}, "
            f"{card['mismatches'] or 'none'} differ{'s' if card['mismatches'] == 1 else ''} from "
            "the integers in any bit"
        )
    if data["card_path_is_the_integers"] is not None:
        same = data["card_path_is_the_integers"]
        which = "the same states as" if same else "OTHER states than"
        text += f", and the robot went through {which} with the integers"
    return text + "."


def _share(share: float) -> str:
    return f"{100 * share:+.1e} %"
