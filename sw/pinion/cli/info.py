"""``pinion info``: a robot's joints, links and terms, and notes on its canonicalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinion.base.amounts import amount
from pinion.console.errors import UsageError
from pinion.console.terminal import out, pairs, put_json, say, table

from .options import (
    Frames,
    JointTerms,
    Json,
    Reference,
    Robot,
    RobotArguments,
    Snap,
    frame_texts,
    load_both,
    names,
)

if TYPE_CHECKING:
    from pinion.functions import Block, Function, Saving, State
    from pinion.robot import Model, Summary

FunctionOption = Annotated[
    str | None,
    typer.Option(
        "--function",
        metavar="FUNCTION",
        help="Show this function's inputs and outputs for the robot instead, and its numbers of "
        "operations after each step of the reduction.",
    ),
]

_SHOWN = 12
"""Largest number of links in a line."""

_MOST = 200
"""Largest number of joints in a table, and of notes: more take minutes to lay out."""

_WIDE = 110
"""Columns that a table needs for figures and for descriptions of the steps."""

MEASURED = "rnea"
"""Function in which the savings of right angles are counted if none is named."""


def command(
    robot: Robot,
    named: Annotated[
        str | None,
        typer.Argument(metavar="FUNCTION", help="As --function.", show_default=False),
    ] = None,
    *,
    robot_options: RobotArguments,
    snap: Snap = True,
    function: FunctionOption = None,
    joint_terms: JointTerms = None,
    frames: Frames = None,
    reference: Reference = None,
    json: Json = False,
) -> None:
    """Show a robot as cores use it (joints, limits, inertias, notes), or one of its functions."""
    from pinion.functions import (
        idle_sentence,
        opportunity_sentences,
        savings,
        snapping,
        snapping_sentence,
    )
    from pinion.functions import named_function as row
    from pinion.robot import massless, summarise

    if named is not None and function is not None:
        raise UsageError(f"Two functions are given, '{named}' and '{function}': leave one out.")
    function = named if function is None else function
    if joint_terms and function is None:
        raise UsageError(
            "Joint terms (--joint-terms) change a function's operations: add --function."
        )
    if (frames or reference is not None) and function is None:
        raise UsageError(
            "Frames (--frames) and --reference are options of a function: add --function."
        )
    as_read, model = load_both(robot, robot_options.options(snap=snap))
    summary = summarise(model)
    steps: list[Saving] = []
    shown_row: Function | None = None
    if function is not None:
        from pinion.hls.costs import DatapathCosts

        shown_row = row(
            function,
            joint_terms=names(joint_terms),
            frames=frame_texts(frames),
            reference=reference,
        )
        shown_row.check(model)
        steps = savings(model, shown_row, costs=DatapathCosts())
    measured_row = shown_row or (None if massless(model) else row(MEASURED))
    snapped = snapping(as_read, model, measured_row) if measured_row else None
    if json:
        extra: dict[str, object] = {}
        if shown_row is not None:
            extra["function"] = _arrays(shown_row, model)
            extra["savings"] = [step.figures() for step in steps]
        if snapped:
            extra["snapping"] = snapped.figures()
        put_json({**summary, **extra})
        return
    if shown_row is None:
        _show(summary)
    else:
        _show_arrays(shown_row, model)
        _show_savings(shown_row.name, steps)
        if idle := idle_sentence(shown_row, model):
            say(f"- {idle}")
    for text in opportunity_sentences(model, measured_row)[1:] if measured_row else ():
        say(f"- {text}")
    if measured_row and snapped:
        say(f"- {snapping_sentence(measured_row.name, snapped.figures())}")


def _show(summary: Summary) -> None:
    console = out()
    gravity = ", ".join(f"{g:g}" for g in summary["gravity"])
    rows: list[tuple[str, object]] = [
        ("source", summary["source"]),
        ("joints", len(summary["joints"])),
        ("positions", f"{summary['nq']} (nq)"),
        ("velocities", f"{summary['nv']} (nv)"),
        ("longest chain", amount(summary["max_depth"], "joint")),
        ("moving mass", f"{summary['total_mass']:.6g} kg"),
        ("gravity", f"({gravity}) m/s^2"),
        ("fixed base", ", ".join(summary["base_links"]) or "none: it floats"),
        ("tip", _tip(summary)),
    ]
    if not summary["joints"]:
        say("No robot: it has no joints, and is for functions that take no robot.")
        return
    console.print(pairs(rows, title=summary["name"]))
    hidden = len(summary["joints"]) - _MOST
    if hidden > 0:
        say(f"The first {_MOST} joints and links are listed; --json gives all, {hidden:,} more.")
    summary = {**summary, "joints": summary["joints"][:_MOST], "links": summary["links"][:_MOST]}
    console.print(
        table(
            "joint",
            "kind",
            "nq",
            "nv",
            "lower",
            "upper",
            "speed",
            "rated",
            "effort",
            rows=[
                (
                    j["name"],
                    "continuous" if j["continuous"] else j["kind"],
                    j["nq"],
                    j["nv"],
                    j["lower"],
                    j["upper"],
                    j["velocity"],
                    j["rated_velocity"],
                    j["effort"],
                )
                for j in summary["joints"]
            ],
            title="Joints (rad, rad/s, N m; prismatic: m, m/s, N)",
            left=2,
        )
    )
    _show_terms(summary)
    console.print(
        table(
            "link",
            *("joint", "parent", "mass", "x", "y", "z", "merged"),
            rows=[
                (
                    link["name"],
                    joint["name"],
                    joint["parent"],
                    link["mass"],
                    *map(_tidy, link["com"]),
                    len(link["merged"]),
                )
                for link, joint in zip(summary["links"], summary["joints"], strict=True)
            ],
            title="Links (kg; centre of mass in m, in frames whose z is the joint's axis)",
            left=3,
        )
    )
    console.print(
        table(
            "link",
            *("Ixx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz"),
            rows=[(link["name"], *map(_tidy, link["inertia"])) for link in summary["links"]],
            title="Inertias about the centres of mass (kg m^2, same frames)",
        )
    )
    if summary["notes"]:
        say("Canonicalisation", style="bold")
        for note in summary["notes"][:_MOST]:
            say(f"- {note}")
        if len(summary["notes"]) > _MOST:
            say(f"- {len(summary['notes']) - _MOST:,} more are given by --json.")


def _tip(summary: Summary) -> str:
    """Return the tip and the link to which it is fixed, or the tips to choose from."""
    tip, tips = summary["tip"], summary["tips"]
    if tip is None:
        choices = ", ".join(tips[:_SHOWN]) + (", ..." if len(tips) > _SHOWN else "")
        return f"choose one with --tip: {choices}"
    carriers = [link["name"] for link in summary["links"] if tip in link["merged"]]
    return f"{tip}, fixed to {carriers[0]}" if carriers else tip


def _show_terms(summary: Summary) -> None:
    """Print the table of joint terms, for the joints that have any."""
    rows = [
        (
            j["name"],
            j["armature"],
            _orders(j["damping"], j["damping_poly"]),
            j["friction"],
            _orders(j["stiffness"], j["stiffness_poly"]),
            j["rest"],
        )
        for j in summary["joints"]
        if any((j["armature"], j["damping"], j["friction"], j["stiffness"]))
        or any((*j["damping_poly"], *j["stiffness_poly"]))
    ]
    if rows:
        out().print(
            table(
                "joint",
                *("armature", "damping", "friction", "stiffness", "rest"),
                rows=rows,
                title="Joint terms (kg m^2, N m s/rad, N m, N m/rad, rad; prismatic: kg, N s/m, N, "
                "N/m, m); armature always counts, the others only with --joint-terms",
            )
        )


def _orders(linear: float, higher: list[float]) -> float | str:
    """Return polynomial coefficients as text, lowest order first, or the linear one if alone."""
    return " ".join(f"{value:g}" for value in (linear, *higher)) if any(higher) else linear


def _arrays(function: Function, model: Model) -> dict[str, Any]:
    """Return the name, description and arrays of a function for a robot."""
    from pinion.functions import unit_for

    def described(block: Block) -> dict[str, Any]:
        unit = unit_for(block.unit, model)
        return {"name": block.name, "shape": list(block.dims(model)), "unit": unit}

    states = function.states
    return {
        "name": function.name,
        "doc": function.doc,
        "inputs": [{**described(b), "sampling": _sampling(b)} for b in function.inputs],
        "outputs": [described(block) for block in function.results],
        **(
            {"states": [{**described(b), "sampling": _begins(b)} for b in states]} if states else {}
        ),
    }


def _begins(state: State) -> str:
    """Return the initial value of a state as text."""
    if isinstance(state.initial, tuple):
        return "begins at " + ", ".join(f"{value:g}" for value in state.initial)
    return f"begins at {state.initial:g}"


def _sampling(block: Block) -> str:
    """Return how an input is sampled, as text."""
    from pinion.functions import Quantity, Uniform

    match block.sampling:
        case Quantity(value=value):
            return f"{value} of the robot"
        case Uniform(low=low, high=high):
            return f"{low:g} to {high:g}"
    return "by a function"


def _show_arrays(function: Function, model: Model) -> None:
    """Print the table of a function's inputs, outputs and states."""
    from pinion.batch import mixed_units_sentence
    from pinion.functions import arrays_of

    described = _arrays(function, model)
    rows = [
        (kind, a["name"], tuple(a["shape"]), a["unit"], a.get("sampling", ""))
        for kind, arrays in (
            ("input", described["inputs"]),
            ("output", described["outputs"]),
            ("state", described.get("states", [])),
        )
        for a in arrays
    ]
    say(_title(function, model), style="bold")
    out().print(
        table(
            *("array", "name", "shape", "unit", "sampled"),
            rows=rows,
            left=5,
        )
    )
    if sentence := mixed_units_sentence(arrays_of((*function.inputs, *function.results), model)):
        say(f"{sentence}\n")


def _title(function: Function, model: Model) -> str:
    """Return a heading with a function's name, the robot's sizes and the description."""
    if not model.bodies:
        return f"{function.name}: {function.doc}"
    sizes = f"nq {model.nq}, nv {model.nv}"
    return f"{function.name} for {model.name} ({sizes}): {function.doc}"


def _show_savings(function: str, steps: Sequence[Saving]) -> None:
    titles = {
        "mul": "products",
        "mul_const": "by constants",
        "add": "additions",
        "reciprocal": "reciprocals",
        "trig": "sin/cos",
    }
    titles |= {name: name for step in steps for name in step.ops if name not in titles}
    titles = {n: title for n, title in titles.items() if any(x.ops.get(n) for x in steps)}
    console = out()
    wide = console.width >= _WIDE
    console.print(
        table(
            *(("step", "what it does") if wide else ("step",)),
            *titles.values(),
            rows=[
                (x.step, *([x.doc] * wide), *(x.ops.get(name, 0) for name in titles)) for x in steps
            ],
            title=f"Operations of {function} after each step",
            left=1 + wide,
        )
    )
    if not wide:
        for step in steps:
            say(f"{step.step}: {step.doc}")


def _tidy(value: float) -> float:
    """Return a value, or 0 if it is below 1e-9, too small to be measured on a link."""
    return value if abs(value) >= 1e-9 else 0.0
