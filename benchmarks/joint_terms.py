"""Cost of joint terms in a core: the table of docs/joints.md.

    python -m benchmarks.joint_terms

Designs of the iiwa14 with figures at every joint, in q16.16 with one result every 8 cycles; nothing
is built or simulated. Takes seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pinion.flow.design import make_design
from pinion.flow.measure import hardware
from pinion.functions import row_of
from pinion.request import BuildRequest
from pinion.robot import Model, load

II, FORMATS = 8, "q16.16"
FUNCTIONS = ("rnea", "rnea_derivatives")
FIGURES: Mapping[str, float] = dict(
    armature=0.1, damping=0.5, friction=0.4, stiffness=40.0, rest=0.1
)
CASES: Mapping[str, Sequence[str]] = {
    "none, no armature": (),
    "armature": ("armature",),
    "and damping": ("armature", "damping"),
    "and friction": ("armature", "damping", "friction"),
    "and springs": ("armature", "damping", "friction", "stiffness"),
}


def robot(terms: Sequence[str]) -> Model:
    """Return the iiwa14 with the named joint terms at every joint, and no others."""
    model = load("iiwa14", snap=True)
    figures = {name: value if name in (*terms, "rest") else 0.0 for name, value in FIGURES.items()}
    joints = (
        replace(
            body.joint,
            armature=figures["armature"],
            damping=figures["damping"],
            friction=figures["friction"],
            stiffness=figures["stiffness"],
            rest=figures["rest"],
        )
        for body in model.bodies
    )
    bodies = (replace(b, joint=joint) for b, joint in zip(model.bodies, joints, strict=True))
    return replace(model, bodies=tuple(bodies))


def row(name: str) -> tuple[str, ...]:
    """Return a row of the table: products, multipliers and the length of the schedule."""
    terms = CASES[name]
    passive = tuple(term for term in terms if term != "armature")
    cells = [name]
    for function in FUNCTIONS:
        design = make_design(
            robot(terms),
            row_of(function, joint_terms=passive),
            BuildRequest(ii=II, formats=FORMATS),
        )
        figures = hardware(design)
        if function == FUNCTIONS[0]:
            cells.append(f"{figures['ops']['mul']}, {figures['ops']['mul_const']}")
        cells += [str(figures["multipliers"]), str(figures["schedule_cycles"])]
    return tuple(cells)


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    print("| terms | `rnea`: products, by constants | multipliers | schedule |", end="")
    print(" `rnea_derivatives`: multipliers | schedule |\n|---|---|---|---|---|---|")
    for name in CASES:
        print(f"| {' | '.join(row(name))} |", flush=True)


if __name__ == "__main__":
    main()
