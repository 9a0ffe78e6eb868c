"""Machine-independent evidence for the papers' claims: depth, work, condition numbers, errors.

The claims are in :mod:`pinion.bench.scaling.data`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .cfa import cfa, free_bodies
from .chain import Array, Chain
from .costs import CostPhase, aba_operations, cfa_operations, depth, prices, schedule
from .counting import Count
from .hybrid import hybrid_aba
from .inverse import rnea_scan
from .jsiia import jsiia
from .random import random_chain, random_state
from .recursion import aba
from .state import state_of

LENGTHS = (10, 100, 1000)
_DENSE = 100
_LINKS = 64

Counted = Callable[..., Array]


def counts(lengths: Sequence[int] = LENGTHS) -> list[dict[str, Any]]:
    """Count levels, combines and successive steps for each algorithm and length.

    Returns
    -------
    Objects with ``algorithm``, ``links``, ``levels``, ``combines`` and ``sequential``. For the
    constraint force algorithm only the block system counts: its inverse dynamics are scans like the
    first rows.
    """
    rows = []
    for n in lengths:
        chain = random_chain(n, 1)
        state = random_state(chain, 1)
        inverse = (chain, state.q, state.qd, state.qdd)
        forward = (chain, state.q, state.qd, state.tau)
        for name, method in (
            ("Hillis and Steele", "hillis_steele"),
            ("Blelloch", "blelloch"),
            ("Brent and Kung", "brent_kung"),
        ):
            counted = partial(rnea_scan, *inverse, method=method)
            rows.append(_counted(f"ID by scans, {name}", n, counted))
        if n <= _DENSE:
            rows.append(_counted("JSIIA", n, partial(jsiia, *forward)))
        rows.append(_counted("hybrid ABIA", n, partial(hybrid_aba, *forward)))
        at = state_of(chain, state.q, tau=state.tau)
        for name, solver in (
            ("CFA, odd-even elimination", "oee"),
            ("CFA, odd-even reduction", "oer"),
            ("CFA, L D L^T", "ldl"),
        ):
            count = Count()
            bodies = free_bodies(at, solver=solver, count=count)
            sides = Count()  # right-hand sides go with the matrix, level by level
            bodies.diagonal.solve(np.ones((*bodies.D.shape[:3], 1)), sides)
            count.levels, count.solves = max(count.levels, sides.levels), sides.solves
            row = _row(name, n, count)
            if solver == "ldl":
                # Each of its levels has one elimination.
                row |= {"levels": 0, "sequential": count.levels + count.solves}
            rows.append(row)
    return rows


def _counted(name: str, n: int, algorithm: Counted) -> dict[str, Any]:
    count = Count()
    algorithm(count=count)
    return _row(name, n, count)


def _row(name: str, n: int, count: Count) -> dict[str, Any]:
    return {
        "algorithm": name,
        "links": n,
        "levels": count.levels + count.solves,
        "combines": count.combines,
        "sequential": sum(count.sequential.values()),
    }


def facts() -> dict[str, Any]:
    """Compute the evidence for claims that are not about run times, by the keys that claims use."""
    return {
        "hybrid": _hybrid(),
        "upper_blocks": _upper_blocks(),
        "any_joint": _any_joint(),
        "branches": _branches(),
        "levels_with_branches": _levels_with_branches(),
        "serial_cfa": _serial_cfa(),
        "two_arrays": _two_arrays(),
    }


def _hybrid() -> dict[str, int]:
    """Count the scans, from their levels, and the recursions over links in the combined form."""
    chain = random_chain(_LINKS, 1)
    state = random_state(chain, 1)
    count = Count()
    hybrid_aba(
        chain,
        state.q,
        state.qd,
        state.tau,
        combined=True,
        method="hillis_steele",
        form="matrix",
        count=count,
    )
    return {
        "scans": count.levels // (_LINKS - 1).bit_length(),
        "recursions": sum(steps == _LINKS for steps in count.sequential.values()),
    }


def _upper_blocks(seeds: int = 10) -> dict[str, Any]:
    """Compute condition numbers of the off-diagonal blocks, for one-degree-of-freedom joints."""
    conditions_by_chain = []
    for inertias in ("unit", "arm", "taper", "finger"):
        for seed in range(seeds):
            chain = random_chain(_LINKS, seed, inertias=inertias)
            state = random_state(chain, seed)
            U = free_bodies(state_of(chain, state.q, tau=state.tau)).U
            conditions_by_chain.append(np.linalg.cond(U).reshape(-1))
    conditions = np.concatenate(conditions_by_chain)
    return {
        "chains": len(conditions_by_chain),
        "median_condition": float(np.median(conditions)),
        "largest_condition": float(np.max(conditions)),
    }


def _any_joint() -> dict[str, float]:
    """Measure the largest errors of the corrected form, and of the original for helical joints."""
    chain = random_chain(8, 1, joints=[6, 1, 2, 0, 3, 4, 5, 1], branches=2)
    helical = random_chain(8, 1, joints="helical")
    return {
        "corrected": max(_error(chain, variant="corrected"), _error(helical, variant="corrected")),
        "original": _error(helical, variant="original", refine=0),
    }


def _error(chain: Chain, **options: Any) -> float:
    state = random_state(chain, 1)
    arguments = (state.q, state.qd, state.tau)
    exact = aba(chain, *(x.astype(np.longdouble) for x in arguments))
    qdd = cfa(chain, *arguments, **options)
    return float(np.max(np.abs(qdd - exact)) / np.max(np.abs(exact)))


def _branches() -> dict[str, float]:
    """Count operations per body for a chain, and for one with a side body on each link."""
    link, side = cfa_operations().total, aba_operations().total
    return {"without": float(link), "with_branches": (link + side) / 2}


def _levels_with_branches() -> dict[str, int]:
    """Count levels and steps of a chain with side branches of up to three bodies."""
    chain = random_chain(_LINKS, 1, branches=2 * _LINKS)
    state = random_state(chain, 1)
    count = Count()
    cfa(chain, state.q, state.qd, state.tau, refine=0, count=count)
    return {
        "bodies": chain.bodies,
        "links": chain.n,
        "levels": count.levels + count.solves + sum(count.sequential.values()),
        # Four scans and the block system, each with at most 2 log2 n levels, and the branches.
        "limit": 10 * (_LINKS - 1).bit_length() + 3 * max(_branch_lengths(chain)),
    }


def _branch_lengths(chain: Chain) -> list[int]:
    """Return the number of bodies on the path from each side body to its link."""
    links = set(map(int, chain.main))
    lengths: dict[int, int] = {}
    for body in chain.branches:
        lengths[int(body)] = 1 + lengths.get(int(chain.parent[body]), 0)
        assert int(chain.parent[body]) in links or int(chain.parent[body]) in lengths
    return list(lengths.values())


def _serial_cfa() -> dict[str, float]:
    """Compute the serial constraint force algorithm's operation count relative to the ABA's."""
    return {
        "ratio": cfa_operations().total / aba_operations().total,
        "refined": cfa_operations(1).total / aba_operations().total,
    }


def _two_arrays() -> dict[str, int]:
    """Count successive operations of step I alone, and of steps I and II in parallel."""
    phases = schedule(1000)[:2]
    price = prices()
    alone = tuple(CostPhase(phase.name, phase.first, {}) for phase in phases)
    return {
        "first": depth(alone, price=price),
        "both": depth(phases, price=price),
    }
