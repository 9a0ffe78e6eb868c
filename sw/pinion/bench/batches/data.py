"""Data and tables of ``pinion bench compare``: times of batches, by implementation.

The data is one JSON object; nothing here measures. Every row states its origin: measured in this
run, published by others for their machine, or a model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pinion.bench.partitions.table import check_partitions
from pinion.report import FigureTable, ReportError

LABELS = ("measured", "model", "published")

COMPUTED, GIVEN, NEITHER = "M^-1 computed", "M^-1 given", "no M^-1"
WORK: Mapping[str, str] = {"fd_derivatives": COMPUTED, "fd_derivatives_from_minv": GIVEN}
"""How a function obtains M^-1; `NEITHER` for all others."""

KINDS = ("published", "figure", "derived")
"""Given in digits by the source; read off its plot; computed from its statements."""

OWN = "Pinion"
"""Prefix of the names of Pinion's rows."""

Row = Mapping[str, Any]

_TEXTS = ("robot", "function", "by", "label", "machine", "source", "work", "note")


def published_batches(path: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return published times, one row per batch size.

    Parameters
    ----------
    path : the data file, ``benchmarks/published.json`` of a clone.

    Returns
    -------
    Rows, and the sources' texts by key.

    Raises
    ------
    ReportError : if the file is invalid, or a figure lacks a required key.
    """
    data = _json(path)
    rows: list[dict[str, Any]] = []
    try:
        sources = {
            key: (str(source["text"]), int(source["year"]))
            for key, source in data["sources"].items()
        }
        for row in data["rows"]:
            if row["kind"] not in KINDS:
                raise ValueError(f"the kind {row['kind']!r} is not one of {', '.join(KINDS)}")
            year = sources[row["source"]][1]
            for samples, us in row["us_per_batch"].items():
                rows.append(
                    {
                        **{key: row[key] for key in ("robot", "function", "by", "machine", "work")},
                        **batch(int(samples), us=us),
                        "label": "published",
                        "kind": row["kind"],
                        "source": row["source"],
                        "where": row["where"],
                        "year": year,
                        "note": f"{row['note']}; {_KIND_WORDS[row['kind']]}: {row['where']}",
                    }
                )
        _check_rows(rows)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReportError(_damaged(path, error)) from None
    return rows, {key: text for key, (text, _) in sources.items()}


_KIND_WORDS = {"published": "published", "figure": "read off a plot", "derived": "derived"}


def batch(samples: int, *, us: float, least_us: float | None = None) -> dict[str, Any]:
    """Return the entries of a row for a batch's size and time [us].

    Parameters
    ----------
    least_us : lower end of a model's range; ``us`` is the upper end.
    """
    return {
        "samples": samples,
        "us_per_batch": us,
        "us_least": least_us,
        "ns_per_sample": 1e3 * us / samples,
    }


def read_batches(path: Path) -> dict[str, Any]:
    """Read and check the data of an earlier run.

    Raises
    ------
    ReportError : if the file is invalid or damaged.
    """
    data = _json(path)
    try:
        check_batches(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReportError(_damaged(path, error)) from None
    return data


def check_batches(data: Mapping[str, Any]) -> None:
    """Check that the data has everything that the page shows.

    Raises
    ------
    KeyError, TypeError, ValueError, AttributeError : if it does not.
    """
    if data["bench"] != "compare":
        raise ValueError(f"it is a result of the benchmark {data['bench']!r}, not 'compare'")
    _check_rows(data["rows"])
    check_partitions(data.get("partitions", []))
    for key in ("machine", "sources", "left_out"):
        dict(data[key].items())
    for target in data["targets"]:
        if not all(isinstance(target[key], str) for key in ("robot", "function")):
            raise TypeError(f"the target {target!r} does not name a robot and a function")
    for key in ("command", "date", "version"):
        if not isinstance(data[key], str):
            raise TypeError(f"{key!r} is not a string")
    for key in ("rounds", "seconds"):
        if not isinstance(data[key], int | float):
            raise TypeError(f"{key!r} is not a number")


def _check_rows(rows: Sequence[Row]) -> None:
    for number, row in enumerate(rows):
        for key in _TEXTS:
            if not isinstance(row[key], str):
                raise TypeError(f"{key!r} of row {number} is not a string")
        if row["label"] not in LABELS:
            raise ValueError(f"the label {row['label']!r} is not one of {', '.join(LABELS)}")
        if not isinstance(row["samples"], int) or row["samples"] < 1:
            count = row["samples"]
            raise ValueError(f"'samples' of row {number} is {count!r}, not a positive whole number")
        least_us = row["us_least"]
        for value in (
            row["us_per_batch"],
            row["ns_per_sample"],
            *(() if least_us is None else (least_us,)),
        ):
            if not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"row {number} has the time {value!r}, not a positive number")


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReportError(_damaged(path, error)) from None
    if not isinstance(data, dict):
        raise ReportError(_damaged(path, "it is not a JSON object"))
    return data


def _damaged(path: Path, error: object) -> str:
    fault = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return f"The file '{path}' is invalid or damaged ({fault}): generate or copy it again."


def sections(data: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield robot, function and rows of each table that has rows.

    Published gradients appear in both of a robot's tables of gradients, with M^-1 given and
    computed; those of the other work say so.
    """
    for robot, function in dict.fromkeys((t["robot"], t["function"]) for t in data["targets"]):
        alike = tuple(WORK) if function in WORK else (function,)
        rows = [
            row
            for row in data["rows"]
            if row["robot"] == robot
            and (
                row["function"] == function
                or (row["label"] == "published" and row["function"] in alike)
            )
        ]
        if rows:
            yield robot, function, sorted(rows, key=lambda row: LABELS.index(row["label"]))


def work_of(function: str) -> str:
    """Return a text on how a function obtains M^-1."""
    return WORK.get(function, NEITHER)


def series(rows: Sequence[Row]) -> dict[tuple[str, ...], dict[int, Row]]:
    """Return the rows by implementation and machine, then by batch size."""
    by_target: dict[tuple[str, ...], dict[int, Row]] = {}
    for row in rows:
        key = tuple(str(row[k]) for k in ("label", "by", "work", "machine", "source"))
        by_target.setdefault(key, {})[row["samples"]] = row
    return by_target


def label_words(row: Row) -> str:
    """Return the label, with the year for a published figure."""
    year = row.get("year")
    return f"published {year}" if row["label"] == "published" and year else str(row["label"])


def us_text(us: float) -> str:
    """Return microseconds as text: three significant digits, whole numbers from 1000 on."""
    return f"{us:,.0f}" if us >= 1000 else f"{us:.3g}"


def times_table(robot: str, function: str, rows: Sequence[Row]) -> FigureTable:
    """Return the table of one robot and function: times of batches of N samples."""
    sizes = sorted({row["samples"] for row in rows})
    lines = []
    for runs in series(rows).values():
        first, last = next(iter(runs.values())), runs[max(runs)]
        cells = (_cell(runs[n]) if n in runs else None for n in sizes)
        lines.append(
            (first["by"], label_words(first), first["work"], *cells, us_text(last["ns_per_sample"]))
        )
    return FigureTable(
        columns=("by", "label", "work", *(f"N = {n:,}" for n in sizes), "ns per sample, largest N"),
        rows=lines,
        title=f"{robot}, {function}: microseconds for a batch of N",
        left=3,
    )


def _cell(row: Row) -> str:
    if row["us_least"] is None:
        return us_text(row["us_per_batch"])
    return f"{us_text(row['us_least'])} - {us_text(row['us_per_batch'])}"


def is_own(row: Row) -> bool:
    """Return whether a row is a time of Pinion, not of another implementation."""
    return str(row["by"]).startswith(OWN)


def fastest_table(robot: str, function: str, rows: Sequence[Row]) -> FigureTable | None:
    """Return the table of the fastest rows by batch size; None without measurements.

    Equal terms: measured in this run, in float64, on one core, doing the same work.
    """
    measured = [row for row in rows if row["label"] == "measured"]
    lines = []
    for count in sorted({row["samples"] for row in measured}):
        sized = [row for row in measured if row["samples"] == count]
        alike = [r for r in sized if (r.get("dtype"), r.get("processors")) == ("float64", "one")]
        ours = _least(row for row in alike if is_own(row))
        rival = _least(row for row in alike if not is_own(row))
        ratio = None
        if ours is not None and rival is not None:
            times = rival["us_per_batch"] / ours["us_per_batch"]
            ratio = f"{times:.2f}" + ("" if times >= 1 else ", Pinion is slower")
        lines.append((f"{count:,}", *map(_who, (ours, rival)), ratio, _who(_least(sized))))
    if not lines:
        return None
    return FigureTable(
        columns=(
            *("N", "Pinion, equal terms", "fastest other, equal terms"),
            *("other over Pinion", "fastest measured of all"),
        ),
        rows=lines,
        title=f"{robot}, {function}: who is fastest",
        left=5,
    )


def losses(data: Mapping[str, Any]) -> list[str]:
    """Return a line for every batch size and rival implementation that beats Pinion's fastest row.

    Only rows of the same work are compared: rivals measured in this run on equal terms, and
    published ones with Pinion's fastest.
    """
    lines = []
    for robot, function, rows in sections(data):
        same = [row for row in rows if row["work"] == work_of(function)]
        measured = [row for row in same if row["label"] == "measured"]
        for row in (r for r in same if r["label"] != "model" and not is_own(r)):
            candidates = [r for r in measured if is_own(r) and r["samples"] == row["samples"]]
            if row["label"] == "measured":
                keys = ("dtype", "processors")
                candidates = [r for r in candidates if all(r.get(k) == row.get(k) for k in keys)]
            best = _least(candidates)
            if best is not None and row["us_per_batch"] < best["us_per_batch"]:
                lines.append(
                    f"{robot} {function}, N = {row['samples']:,}: {row['by']} "
                    f"({label_words(row)}, {row['machine']}) {us_text(row['us_per_batch'])} us, "
                    f"{best['by']} {us_text(best['us_per_batch'])} us"
                )
    return lines


def _least(rows: Iterator[Row] | Sequence[Row]) -> Row | None:
    return min(rows, key=lambda row: float(row["us_per_batch"]), default=None)


def _who(row: Row | None) -> str | None:
    return None if row is None else f"{us_text(row['us_per_batch'])} us, {row['by']}"
