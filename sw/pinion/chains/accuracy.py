"""Errors of algorithms on random chains, relative to serial algorithms in 80-bit arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pinion.dynamics import DynamicsError
from pinion.dynamics.checks import check_choice

from .cfa import cfa
from .chain import Array, Chain
from .hybrid import hybrid_aba
from .inverse import FORMS, rnea_scan
from .jsiia import jsiia
from .pinocchio import to_pinocchio
from .random import random_chain, random_state
from .recursion import aba, rnea
from .scan import METHODS
from .tridiagonal import METHODS as SOLVERS

Algorithm = Callable[[Chain, Array, Array, Array], Array]
"""A function of a chain, q, qd, and tau (forward) or qdd (inverse)."""

ULP = "1 ulp of q"
PINOCCHIO = "Pinocchio"


def forward_algorithms() -> dict[str, Algorithm]:
    """Return the forward dynamics algorithms other than the constraint force algorithm, by name."""
    return {
        "ABA": aba,
        "JSIIA": jsiia,
        "hybrid": hybrid_aba,
        "hybrid, combined": partial(hybrid_aba, combined=True),
    }


def constraint_force_algorithms() -> dict[str, Algorithm]:
    """Return the constraint force algorithm by name: each solver, unrefined and refined once."""
    return {
        f"CFA, {solver}{', refined' * refine}": partial(cfa, solver=solver, refine=refine)
        for refine in (0, 1)
        for solver in SOLVERS
    }


def inverse_algorithms() -> dict[str, Algorithm]:
    """Return the inverse dynamics algorithms by name: recursion, and each kind of scan."""
    scans = {
        f"{form}, {method}": partial(rnea_scan, form=form, method=method)
        for form in FORMS
        for method in METHODS
    }
    return {"RNEA": rnea, **scans}


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Errors of algorithms on chains of one kind and length.

    Members
    -------
    inertias, links : of the chains.
    errors : for each algorithm and seed the largest absolute error, relative to the largest
        component of the result; infinite if the algorithm refused the chain.
    """

    inertias: str
    links: int
    errors: Mapping[str, Array]

    def worst(self, algorithm: str) -> float:
        """Return the largest error over all seeds; NaN if one is NaN."""
        return float(np.max(self.errors[algorithm]))


def accuracy(
    algorithms: Mapping[str, Algorithm],
    *,
    direction: str = "forward",
    inertias: str = "arm",
    links: int = 10,
    seeds: Iterable[int] = range(3),
    branches: int = 0,
    dtype: DTypeLike = np.float64,
    pin: Any = None,
) -> Accuracy:
    """Measure errors of algorithms on random chains of mixed joints, one state each.

    The reference is the serial algorithm in 80-bit arithmetic on the same arguments, already
    rounded to `dtype`, so that only the arithmetic is measured. The result also has the change of
    the reference if each q changes by one unit in its last place, and Pinocchio's errors.

    Parameters
    ----------
    algorithms : by their names in the result.
    direction : ``forward`` (tau to qdd) or ``inverse`` (qdd to tau).
    inertias, links, branches : as for :func:`~.random.random_chain`.
    pin : the module ``pinocchio`` to include its double-precision algorithm, for up to a few
        hundred links: its memory grows with the cube of their number.

    Raises
    ------
    DynamicsError
        If an argument is invalid, or this machine has no type wider than float64.
    """
    check_choice("direction", direction, ("forward", "inverse"))
    wide = np.longdouble
    if np.finfo(wide).eps > 1e-18:
        raise DynamicsError(
            f"This machine's longdouble has a rounding error of {np.finfo(wide).eps:.1e}: measure "
            "errors on a machine with 80-bit floats, such as x86-64."
        )
    forward = direction == "forward"
    serial = aba if forward else rnea
    errors: dict[str, list[float]] = {}
    for seed in seeds:
        chain = random_chain(links, seed, inertias=inertias, branches=branches)
        state = random_state(chain, seed)
        inputs = (state.q, state.qd, state.tau if forward else state.qdd)
        q, qd, x = (np.asarray(a[0], dtype) for a in inputs)
        reference = serial(chain, q.astype(wide), qd.astype(wide), x.astype(wide))
        scale = np.max(np.abs(reference))
        moved = serial(chain, np.nextafter(q, np.inf).astype(wide), qd, x)
        results = {
            ULP: moved,
            **{name: _tried(a, chain, q, qd, x) for name, a in algorithms.items()},
        }
        if pin is not None:
            model = to_pinocchio(chain, pin)
            peer = pin.aba if forward else pin.rnea
            doubles = (a.astype(np.float64) for a in (q, qd, x))
            results[PINOCCHIO] = peer(model, model.createData(), *doubles)
        for name, result in results.items():
            error = np.inf if result is None else float(np.max(np.abs(result - reference)) / scale)
            errors.setdefault(name, []).append(error)
    return Accuracy(
        inertias=inertias,
        links=links,
        errors={name: np.array(errors) for name, errors in errors.items()},
    )


def _tried(algorithm: Algorithm, chain: Chain, q: Array, qd: Array, x: Array) -> Array | None:
    try:
        return algorithm(chain, q, qd, x)
    except DynamicsError:
        return None


def table(rows: Iterable[Accuracy], *, worst: bool = True) -> str:
    """Return a Markdown table of the worst (or median) errors over all seeds."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row.errors))
    lines = [f"| inertias | links | {' | '.join(names)} |", "|---" * (2 + len(names)) + "|"]
    for row in rows:
        errors = [row.errors.get(name) for name in names]
        cells = [
            "-" if e is None else f"{np.max(e) if worst else np.median(e):.0e}" for e in errors
        ]
        lines.append(f"| {row.inertias} | {row.links} | {' | '.join(cells)} |")
    return "\n".join(lines)
