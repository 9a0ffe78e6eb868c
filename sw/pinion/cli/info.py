"""``pinion info``: what a robot is made of, and what canonicalisation did to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinion.console.errors import UsageError
from pinion.console.terminal import out, pairs, put_json, say, table

from .options import (
    FRICTION_WIDTH,
    AcceptInertia,
    FloatingBase,
    FrictionWidth,
    Gravity,
    JointTerms,
    Json,
    Lock,
    Robot,
    Snap,
    Tip,
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
        help="Instead of the robot: what this function takes and gives for it, and its operations "
        "after each step of the reduction.",
    ),
]


_SHOWN = 12
"""Links that a line lists at most."""

_MOST = 200
"""Joints that a table lists at most, and notes: more scroll by and take minutes to lay out."""

_WIDE = 110
"""Columns from which on a table has room for figures and for what a step does."""

MEASURED = "rnea"
"""What right angles save is counted in this function where none is named."""


def command(
    robot: Robot,
    named: Annotated[
        str | None,
        typer.Argument(metavar="FUNCTION", help="As --function.", show_default=False),
    ] = None,
    *,
    lock: Lock = None,
    tip: Tip = None,
    floating_base: FloatingBase = False,
    accept_inertia: AcceptInertia = False,
    gravity: Gravity = None,
    snap: Snap = True,
    function: FunctionOption = None,
    joint_terms: JointTerms = None,
    friction_width: FrictionWidth = FRICTION_WIDTH,
    json: Json = False,
) -> None:
    """Show a robot as cores have it: joints, limits, inertias, notes. Or a function of it."""
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
        raise UsageError(f"Two functions are named, '{named}' and '{function}': leave one out.")
    function = named if function is None else function
    if joint_terms and function is None:
        raise UsageError("Give --joint-terms with --function, whose operations they change.")
    as_read, model = load_both(
        robot,
        lock,
        tip,
        floating_base=floating_base,
        accept_inertia=accept_inertia,
        gravity=gravity,
        snap=snap,
    )
    summary = summarise(model)
    steps: list[Saving] = []
    wanted: Function | None = None
    if function is not None:
        from pinion.hls.costs import DatapathCosts

        wanted = row(function, joint_terms=names(joint_terms), friction_width=friction_width)
        wanted.check(model)
        steps = savings(model, wanted, costs=DatapathCosts())
    measured = wanted or (None if massless(model) else row(MEASURED))
    changed = snapping(as_read, model, measured) if measured else None
    if json:
        extra: dict[str, object] = {}
        if wanted is not None:
            extra["function"] = _arrays(wanted, model)
            extra["savings"] = [step.figures() for step in steps]
        if changed:
            extra["snapping"] = changed.figures()
        put_json({**summary, **extra})
        return
    if wanted is None:
        _show(summary)
    else:
        _show_arrays(wanted, model)
        _show_savings(wanted.name, steps)
        if idle := idle_sentence(wanted, model):
            say(f"- {idle}")
    for text in opportunity_sentences(model, measured)[1:] if measured else ():
        say(f"- {text}")
    if measured and changed:
        say(f"- {snapping_sentence(measured.name, changed.figures())}")


def _show(summary: Summary) -> None:
    console = out()
    gravity = ", ".join(f"{g:g}" for g in summary["gravity"])
    rows: list[tuple[str, object]] = [
        ("source", summary["source"]),
        ("joints", len(summary["joints"])),
        ("positions", f"{summary['nq']} (nq)"),
        ("velocities", f"{summary['nv']} (nv)"),
        ("longest chain", f"{summary['max_depth']} joints"),
        ("moving mass", f"{summary['total_mass']:.6g} kg"),
        ("gravity", f"({gravity}) m/s^2"),
        ("fixed base", ", ".join(summary["base_links"]) or "none: it floats"),
        ("tip", _tip(summary)),
    ]
    if not summary["joints"]:
        say("No robot: it has no joints, and is for functions that take none.")
        return
    console.print(pairs(rows, title=summary["name"]))
    hidden = len(summary["joints"]) - _MOST
    if hidden > 0:
        say(f"Of joints and links the first {_MOST} are listed, {hidden:,} more with --json.")
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
            say(f"- {len(summary['notes']) - _MOST:,} more with --json.")


def _tip(summary: Summary) -> str:
    """The link that functions of a tip speak of, and what it is fixed to; else which there are."""
    tip, tips = summary["tip"], summary["tips"]
    if tip is None:
        shown = ", ".join(tips[:_SHOWN]) + (", ..." if len(tips) > _SHOWN else "")
        return f"choose one with --tip: {shown}"
    carriers = [link["name"] for link in summary["links"] if tip in link["merged"]]
    return f"{tip}, fixed to {carriers[0]}" if carriers else tip


def _show_terms(summary: Summary) -> None:
    """What joints add to rigid bodies, for those that add anything."""
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
                "N/m, m); armature counts always, the others by --joint-terms",
            )
        )


def _orders(linear: float, higher: list[float]) -> float | str:
    """Coefficients by order: one figure where there is only the linear one."""
    return " ".join(f"{value:g}" for value in (linear, *higher)) if any(higher) else linear


def _arrays(function: Function, model: Model) -> dict[str, Any]:
    """Name, doc and arrays of a function for a robot."""
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
    """What a state begins with, in words."""
    if isinstance(state.initial, tuple):
        return "begins at " + ", ".join(f"{value:g}" for value in state.initial)
    return f"begins at {state.initial:g}"


def _sampling(block: Block) -> str:
    """How an input is drawn, in words."""
    from pinion.functions import Quantity, Uniform

    match block.sampling:
        case Quantity(value=value):
            return f"{value} of the robot"
        case Uniform(low=low, high=high):
            return f"{low:g} to {high:g}"
    return "by a function"


def _show_arrays(function: Function, model: Model) -> None:
    """What a function takes and gives."""
    from pinion.batch import mixed_units_sentence
    from pinion.functions import arrays_of

    said = _arrays(function, model)
    rows = [
        (kind, a["name"], tuple(a["shape"]), a["unit"], a.get("sampling", ""))
        for kind, arrays in (
            ("input", said["inputs"]),
            ("output", said["outputs"]),
            ("state", said.get("states", [])),
        )
        for a in arrays
    ]
    say(_title(function, model), style="bold")
    out().print(
        table(
            *("array", "name", "shape", "unit", "drawn"),
            rows=rows,
            left=5,
        )
    )
    if sentence := mixed_units_sentence(arrays_of((*function.inputs, *function.results), model)):
        say(f"{sentence}\n")


def _title(function: Function, model: Model) -> str:
    """What a function is, and for which robot."""
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
    """Nothing at all, where a figure is less than anyone can measure of a link."""
    return value if abs(value) >= 1e-9 else 0.0
