"""What joint terms cost in a core: the table of docs/joints.md.

    python -m benchmarks.joint_terms

Designs of the iiwa14 with figures at every joint, in q16.16 with one result every 8 cycles; nothing
is built or simulated. Seconds.
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
    """The iiwa14 with the figures of these terms at every joint, and no others."""
    model = load("iiwa14", snap=True)
    kept = {name: value if name in (*terms, "rest") else 0.0 for name, value in FIGURES.items()}
    joints = (
        replace(
            body.joint,
            armature=kept["armature"],
            damping=kept["damping"],
            friction=kept["friction"],
            stiffness=kept["stiffness"],
            rest=kept["rest"],
        )
        for body in model.bodies
    )
    bodies = (replace(b, joint=joint) for b, joint in zip(model.bodies, joints, strict=True))
    return replace(model, bodies=tuple(bodies))


def row(name: str) -> tuple[str, ...]:
    """A line of the table: products, multipliers and the length of the schedule."""
    terms = CASES[name]
    passive = tuple(term for term in terms if term != "armature")
    cells = [name]
    for function in FUNCTIONS:
        design = make_design(
            robot(terms),
            row_of(function, joint_terms=passive),
            BuildRequest(ii=II, formats=FORMATS),
        )
        found = hardware(design)
        if function == FUNCTIONS[0]:
            cells.append(f"{found['ops']['mul']}, {found['ops']['mul_const']}")
        cells += [str(found["multipliers"]), str(found["schedule_cycles"])]
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
