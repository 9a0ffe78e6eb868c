"""Differences between a robot with exact right angles and the robot as its file describes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.base.arrays import Floats
from pinion.graph import op_counts
from pinion.graph.passes import fold
from pinion.robot import Mat3, Model, coupled, opportunity
from pinion.robot.rotation import NEARLY

from .built import BuiltFunction
from .own.decorator import OwnFunction
from .row import Function
from .samples import sample
from .table import table_function

STATES = 200
"""States of the reference distribution, positions within the limits, for the comparison."""

SEED = 1_701

_COUNTED = (
    " (products by constants included, counted before equal values are merged in the step "
    "'numbered')"
)
"""Which products `Snapping` has, in terms of :func:`.reduced.savings`."""


@dataclass(frozen=True, kw_only=True)
class Snapping:
    """Changes due to snapped angles, at :data:`STATES` states of the reference distribution.

    Members
    -------
    pose_angle, pose_distance : largest rotation [rad] and translation [m] of a link's frame.
    products, products_as_read : multiplications of the function's graph, constants folded, before
        its reduction: of the robot with right angles, and as read.
    results : for each result block the largest change of a word, relative to the block's largest.
    """

    pose_angle: float
    pose_distance: float
    products: int
    products_as_read: int
    results: Mapping[str, float]

    def figures(self) -> dict[str, float]:
        """Return the members by name, results as ``result_NAME``, to four significant digits."""
        named = {
            "pose_angle": self.pose_angle,
            "pose_distance": self.pose_distance,
            "products": float(self.products),
            "products_as_read": float(self.products_as_read),
            **{f"result_{name}": change for name, change in self.results.items()},
        }
        return {name: float(f"{value:.4g}") for name, value in named.items()}


def snapping(as_read: Model, snapped: Model, function: Function) -> Snapping | None:
    """Compare a robot with snapped right angles to the same robot as read.

    Returns
    -------
    None if snapping changed neither a body nor a frame.
    """
    if as_read.bodies == snapped.bodies and as_read.frames == snapped.frames:
        return None
    as_read, snapped = coupled(as_read), coupled(snapped)
    angle, distance = pose_change(as_read, snapped, _positions(as_read))
    return Snapping(
        pose_angle=angle,
        pose_distance=distance,
        products=_products(snapped, function),
        products_as_read=_products(as_read, function),
        results=_results(as_read, snapped, function),
    )


def snapping_sentence(function: str, figures: Mapping[str, float]) -> str:
    """Return a summary of :meth:`Snapping.figures` for a user, as text."""
    before, after = figures["products_as_read"], figures["products"]
    worst, moved = _worst(figures)
    owner = f"{function}'" if function.endswith("s") else f"{function}'s"
    saved = (
        f"leaves {function} {after:,.0f} of {before:,.0f} products{_COUNTED}"
        if after < before
        else f"saves none of {owner} {before:,.0f} products{_COUNTED}"
    )
    return (
        f"Snapping {saved}; at {STATES} states a link's pose moves by at most "
        f"{figures['pose_angle']:.2g} rad and {figures['pose_distance']:.2g} m, and a result by "
        f"{moved:.2g} of its block's largest word ({worst}). Cores are built with exact angles, "
        "unless snap=False (--no-snap) is set; code for CPUs and GPUs uses the "
        "angles as written."
    )


def snapped_errors_sentence(figures: Mapping[str, float]) -> str:
    """Return a sentence that names the reference of a build's errors if its angles are snapped."""
    worst, moved = _worst(figures)
    return (
        "Errors are relative to the robot with exact right angles, as it was built; with the "
        f"angles as its file gives them, a result differs by up to {moved:.2g} of its block's "
        f"largest word ({worst})."
    )


def _worst(figures: Mapping[str, float]) -> tuple[str, float]:
    """Return the name of the result block that changes the most, and its change."""
    prefix = "result_"
    changes = {key: change for key, change in figures.items() if key.startswith(prefix)}
    worst = max(changes, key=lambda key: changes[key])
    return worst.removeprefix(prefix), changes[worst]


def pose_change(first: Model, other: Model, q: Floats) -> tuple[float, float]:
    """Return the largest angle and distance between the frames of a link in two models.

    Parameters
    ----------
    first, other : models with the same joints and frames.
    q : (n, nq) positions [rad | m].

    Returns
    -------
    The largest angle between two frames of a link [rad], and the largest distance [m].
    """
    angle = distance = 0.0
    for frame in first.frames:
        (R, p), (S, s) = (
            dynamics.frame_placement(model, q, frame.name) for model in (first, other)
        )
        # |R - S| = 2 sqrt(2) sin(angle / 2), which keeps its digits for small angles.
        half = np.linalg.norm(R - S, axis=(-2, -1)).max() / (2.0 * math.sqrt(2.0))
        angle = max(angle, 2.0 * math.asin(min(1.0, float(half))))
        distance = max(distance, float(np.linalg.norm(p - s, axis=-1).max()))
    return angle, distance


def opportunity_sentences(model: Model, function: Function) -> list[str]:
    """Return sentences on nearly right angles that were kept, and on what exact ones save.

    Products are counted without the small entries of the joints' rotations; tilts in levers and
    inertias cost more. Empty for a robot without such structure.
    """
    note = opportunity(model)
    if note is None:
        return []
    before, after = _products(model, function), _products(_without_tilts(model), function)
    if after >= before:
        return [note]
    return [
        note,
        f"Exact right angles would save at least {before - after:,} of the {before:,} products of "
        f"{function.name}: where one is meant, write it in the file with all its digits.",
    ]


def _without_tilts(model: Model) -> Model:
    """Return the model with small tilts removed from its rotations, for counting only."""
    bodies = []
    for body in model.bodies:
        x, y, z = (
            tuple(0.0 if abs(value) < NEARLY else value for value in row)
            for row in body.joint.tree.E
        )
        E = _with_ones(np.array((x, y, z)))
        tree = replace(body.joint.tree, E=E)
        bodies.append(replace(body, joint=replace(body.joint, tree=tree)))
    return replace(model, bodies=tuple(bodies))


def _with_ones(E: Floats) -> Mat3:
    """Return the matrix with every entry that is alone in its row rounded to 1 or -1."""
    alone = (E != 0.0).sum(axis=1) == 1
    x, y, z = np.where(alone[:, None], np.sign(E), E).tolist()
    return tuple(x), tuple(y), tuple(z)


def _positions(model: Model) -> NDArray[np.float64]:
    row = table_function("crba")
    states = sample(model, row, STATES, distribution="reference", seed=SEED)
    return states["q"].astype(np.float64)


def _products(model: Model, function: Function) -> int:
    graph = fold(function.trace(model, minimal=not function.published, mapped=True))
    counts = op_counts(graph)
    return counts["mul"] + counts["mul_const"]


def _results(as_read: Model, snapped: Model, function: Function) -> dict[str, float]:
    requests = sample(as_read, function, STATES, distribution="reference", seed=SEED)
    states = {name: array.astype(np.float64) for name, array in requests.items()}
    # Evaluate the trace: a user's reference may use another robot.
    before, after = (
        BuiltFunction.of(function, model).evaluate(model, states)
        if isinstance(function, OwnFunction)
        else function.evaluate(model, states)
        for model in (as_read, snapped)
    )
    return {
        # Where a robot's equations have no solution, there is nothing to compare.
        name: _largest(after[name] - exact) / (_largest(exact) or 1.0)
        for name, exact in before.items()
    }


def _largest(values: Floats) -> float:
    """Return the largest finite magnitude, 0 if there is none."""
    return float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))
