"""``pinion bench functions``: schedules and errors of every function of the iiwa14."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from pinion.console.errors import CHECK_FAILED, complain
from pinion.console.terminal import by_block, counted, margin_words, out, put_json, say, table

if TYPE_CHECKING:
    from rich.table import Table

ROBOT, TOOL, FORMATS, II = "iiwa14", "iiwa_link_7", "q16.16", 8
STATES, SEED = 2000, 0


def run(*, json: bool) -> None:
    """Print the tables of cores and errors; exit with code 1 if a budget is exceeded."""
    from pinion.functions import FUNCTIONS

    variants = [
        (name, derivatives)
        for name in FUNCTIONS
        for derivatives in ("composite", "column")
        # Other functions have no gradient to formulate in two ways.
        if derivatives == "composite" or FUNCTIONS[name].variants
    ]
    rows = []
    with counted("Scheduling", total=len(variants)) as advance:
        for name, derivatives in variants:
            rows.append(function_row(name, derivatives))
            advance(1)
    if json:
        put_json(
            {
                "bench": "functions",
                "robot": ROBOT,
                "formats": FORMATS,
                "ii": II,
                "states": STATES,
                "seed": SEED,
                "functions": rows,
            }
        )
        _leave(rows)
        return
    console = out()
    console.print(_operation_table(rows))
    console.print(_hardware_table(rows))
    console.print(_error_table(rows))
    say(
        f"{ROBOT} in {FORMATS} at ii {II}: schedules, counted without simulation. Operations are "
        "products (mul), products with constants (const), additions, reciprocals (recip), sines "
        "and cosines (trig); in and out are words of a record. Hardware is multipliers (mults; "
        "least is ceil(operations / ii)), adders, units with tables (sines and reciprocals) and "
        "words of storage. Schedule is its length in cycles, from sine and cosine to the last "
        "result; the latency, beats included, is longer. Errors "
        f"are those of the exact integers, on {STATES:,} states of the reference distribution: "
        "the largest error in a block, over the larger of the block's largest value and 1 % of its "
        "usual one. budget is the ratio of derived budgets to largest errors, word by word."
    )
    _leave(rows)


def _leave(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a message and exit with code 1 if a budget is exceeded or no request was valid."""
    wrong: dict[str, list[str]] = {}
    for row in rows:
        if not row["budget_held"]:
            nothing = row["budget_held"] is None
            fault = "no request has a valid result for" if nothing else "budgets do not hold for"
            wrong.setdefault(fault, []).append(_label(row))
    faults = [f"{fault} {', '.join(labels)}" for fault, labels in wrong.items()]
    if faults:
        complain(f"The check failed: {'; '.join(faults)}.")
        raise typer.Exit(CHECK_FAILED)


def function_row(name: str, derivatives: str) -> dict[str, Any]:
    """Return the hardware figures and the errors of one function of the iiwa14."""
    from pinion.flow import make_design
    from pinion.flow.measure import hardware, measure
    from pinion.functions import named_function
    from pinion.request import BuildRequest
    from pinion.robot import load

    row = named_function(name, derivatives=derivatives)
    model = load(ROBOT, contacts=(TOOL,) if row.of_contacts else ())
    design = make_design(model, row, BuildRequest(ii=II, formats=FORMATS))
    figures = hardware(design)
    return {
        "function": name,
        "derivatives": derivatives if row.variants else None,
        **figures,
        "table_units": sum(figures["units"].get(kind, 0) for kind in ("sincos", "reciprocal")),
        "words_in": len(design.fixed.inputs),
        "words_out": len(design.fixed.outputs),
        **measure(model, row, design, states=STATES, seed=SEED),
    }


def _label(row: Mapping[str, Any]) -> str:
    column = row["derivatives"] == "column"
    return f"{row['function']}, column" if column else str(row["function"])


def _operation_table(rows: list[dict[str, Any]]) -> Table:
    return table(
        "function",
        *("mul", "const", "add", "recip", "trig", "in", "out"),
        rows=[
            (
                _label(r),
                *(r["ops"][op] for op in ("mul", "mul_const", "add", "reciprocal", "trig")),
                *(r[key] for key in ("words_in", "words_out")),
            )
            for r in rows
        ],
        title="Operations and records",
    )


def _hardware_table(rows: list[dict[str, Any]]) -> Table:
    return table(
        "function",
        *("mults", "least", "adders", "tables", "schedule", "words"),
        rows=[
            (
                _label(r),
                *(r[key] for key in ("multipliers", "multipliers_least", "adders", "table_units")),
                *(r[key] for key in ("schedule_cycles", "registers")),
            )
            for r in rows
        ],
        title="Hardware",
    )


def _error_table(rows: list[dict[str, Any]]) -> Table:
    return table(
        "function",
        *("result", "median", "largest", "held", "budget", "flagged"),
        rows=[
            (
                _label(r),
                "\n".join(r["rel_err_max"]),
                by_block(r["rel_err_median"]),
                by_block(r["rel_err_max"]),
                r["budget_held"],
                margin_words(r["budget_over_largest"]),
                r["flagged"],
            )
            for r in rows
        ],
        title="Relative errors and budgets",
        left=2,
    )
