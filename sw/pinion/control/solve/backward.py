r"""The backward pass of linear-quadratic problems: Riccati recursion or parallel scan.

With dynamics ``dx+ = A dx + B du + gap`` and cost ``1/2 dx' Q dx + q' dx + 1/2 du' R du + r' du``,
for :func:`recursion` also ``1/2 du' Muu du + du' Mux dx``, the value function of a knot is
``1/2 dx' Vxx dx + Vx' dx`` and the optimal control is ``du = -feedforward - gains dx``.
:func:`recursion` goes from the last knot to the first.
:func:`scanned` computes the same values with an associative operator in 2 log2(knots) levels
(S. Sarkka and A. F. Garcia-Fernandez, "Temporal Parallelization of Dynamic Programming and Linear
Quadratic Control", IEEE TAC 2023, section IV): an element is a conditional value function

    V(x, z) = max_l  1/2 x' J x - x' eta - 1/2 l' C l - l' (z - A x - b)

of moving from x to z, and combining two consecutive elements gives another one. Both share
:func:`_cost_to_go` and :func:`_policy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats


@dataclass(frozen=True)
class Quadratic:
    """A batch of n linear-quadratic problems.

    Members
    -------
    A, B : (n, knots, m, m) and (n, knots, m, p).
    Q, q : (n, knots + 1, m, m) and (n, knots + 1, m).
    R, r : (n, knots, p), the diagonal, and (n, knots, p).
    low, high : (n, knots, p), bounds of du that contain 0, for :func:`recursion` only; None if du
        is unbounded.
    gaps : (n, knots, m), of the steps; None if all are 0.
    mixed : (n, knots, p, p + m), [Muu, Mux], for :func:`recursion` only; None if both are 0.
    """

    A: Floats
    B: Floats
    Q: Floats
    q: Floats
    R: Floats
    r: Floats
    low: Floats | None = None
    high: Floats | None = None
    gaps: Floats | None = None
    mixed: Floats | None = None


@dataclass(frozen=True)
class FeedbackPolicy:
    """Feedback, and the expected change of the cost, from a backward pass.

    Members
    -------
    feedforward, gains : (n, knots, p) and (n, knots, p, m): ``du = -feedforward - gains dx``.
    slope, curvature : (n,); a step size a along the feedforward changes the cost by
        ``-a slope + a^2 / 2 curvature`` if all gaps are 0 (:func:`direction` has those of gaps).
    Vx : (n, knots + 1, m), gradient of the value function at each knot.
    convex : (n,), whether Quu is positive definite at every knot and all results are finite.
    levels : sequential operations, in knots.
    Quu : (n, knots, p, p), Hessians of the knots' efforts; None from :mod:`.single`.
    """

    feedforward: Floats
    gains: Floats
    slope: Floats
    curvature: Floats
    Vx: Floats
    convex: NDArray[np.bool_]
    levels: int
    Quu: Floats | None = None

    def where_convex(self, fallback: FeedbackPolicy) -> FeedbackPolicy:
        """Return this policy, with ``fallback`` for the problems that are not convex."""
        convex = self.convex
        assert self.Quu is not None and fallback.Quu is not None

        def select(a: Floats, b: Floats) -> Floats:
            return np.where(convex.reshape(-1, *[1] * (a.ndim - 1)), a, b)

        return FeedbackPolicy(
            feedforward=select(self.feedforward, fallback.feedforward),
            gains=select(self.gains, fallback.gains),
            slope=select(self.slope, fallback.slope),
            curvature=select(self.curvature, fallback.curvature),
            Vx=select(self.Vx, fallback.Vx),
            convex=convex | fallback.convex,
            levels=self.levels,
            Quu=select(self.Quu, fallback.Quu),
        )


SecondOrder = Callable[[int, Floats], tuple[Floats, Floats]]
"""Second derivatives of a knot's dynamics, contracted with the next knot's Vx (n, m): returns
Vx . fxx (n, m, m) and Vx . fux (n, p, m)."""


def recursion(problem: Quadratic, second_order: SecondOrder | None = None) -> FeedbackPolicy:
    """Solve by Riccati recursion; with ``second_order``, by differential dynamic programming.

    With bounds, the feedforward at each knot minimises its quadratic model within them, and efforts
    at a bound get no feedback (Y. Tassa, N. Mansard and E. Todorov, "Control-Limited Differential
    Dynamic Programming", ICRA 2014).
    """
    A, B = problem.A, problem.B
    count, knots, m, p = B.shape
    Vxx, Vx = problem.Q[:, -1], problem.q[:, -1]
    feedforward, gains = np.zeros((count, knots, p)), np.zeros((count, knots, p, m))
    hessians = np.zeros((count, knots, p, p))
    slope, curvature = np.zeros(count), np.zeros(count)
    value_gradients = problem.q.copy()
    convex = np.ones(count, dtype=np.bool_)
    for at in reversed(range(knots)):
        if problem.gaps is not None:
            Vx = Vx + np.einsum("nij,nj->ni", Vxx, problem.gaps[:, at])
        Quu, Qux, Qu = _cost_to_go(A[:, at], B[:, at], problem.R[:, at], problem.r[:, at], Vxx, Vx)
        Qxx = problem.Q[:, at]
        if problem.mixed is not None:
            Quu = Quu + problem.mixed[:, at, :, :p]
            Qux = Qux + problem.mixed[:, at, :, p:]
        if second_order is not None:
            Vx_fxx, Vx_fux = second_order(at, Vx)
            Qxx, Qux = Qxx + Vx_fxx, Qux + Vx_fux
        if problem.low is None or problem.high is None:
            feedforward[:, at], gains[:, at], definite = _policy(Quu, Qux, Qu)
        else:
            bounds = problem.low[:, at], problem.high[:, at]
            feedforward[:, at], gains[:, at], definite = _bounded_policy(Quu, Qux, Qu, *bounds)
        convex &= definite
        hessians[:, at] = Quu
        slope += np.einsum("ni,ni->n", feedforward[:, at], Qu)
        curvature += np.einsum("ni,nij,nj->n", feedforward[:, at], Quu, feedforward[:, at])
        fx = np.swapaxes(A[:, at], 1, 2)
        Vxx = Qxx + fx @ Vxx @ A[:, at] - np.swapaxes(Qux, 1, 2) @ gains[:, at]
        Vxx = (Vxx + np.swapaxes(Vxx, 1, 2)) / 2
        Vx = (
            problem.q[:, at]
            + np.einsum("nij,nj->ni", fx, Vx)
            - np.einsum("nij,ni->nj", Qux, feedforward[:, at])
        )
        value_gradients[:, at] = Vx
    return _checked(
        FeedbackPolicy(
            feedforward, gains, slope, curvature, value_gradients, convex, knots, hessians
        )
    )


def scanned(problem: Quadratic) -> FeedbackPolicy:
    """Compute the feedback of `recursion` by a parallel scan over the knots."""
    if problem.mixed is not None:
        raise ValueError(
            "The backward pass 'parallel' does not support mixed second derivatives of the cost: "
            "use 'serial'."
        )
    B = problem.B
    count, knots, m, _ = B.shape
    scaled = B / problem.R[:, :, None, :]
    C = np.zeros((count, knots + 1, m, m))
    C[:, :-1] = scaled @ np.swapaxes(B, 2, 3)
    A = np.zeros_like(C)
    A[:, :-1] = problem.A
    b = np.zeros((count, knots + 1, m))
    b[:, :-1] = -np.einsum("nkij,nkj->nki", scaled, problem.r)
    if problem.gaps is not None:
        b[:, :-1] += problem.gaps
    levels = [0]
    _, _, _, eta, J = _suffixes((A, b, C, -problem.q, problem.Q), levels)
    Vx = -eta[:, 1:]
    if problem.gaps is not None:
        Vx = Vx + np.einsum("nkij,nkj->nki", J[:, 1:], problem.gaps)
    Quu, Qux, Qu = _cost_to_go(problem.A, B, problem.R, problem.r, J[:, 1:], Vx)
    feedforward, gains, definite = _policy(Quu, Qux, Qu)
    slope = np.einsum("nki,nki->n", feedforward, Qu)
    curvature = np.einsum("nki,nkij,nkj->n", feedforward, Quu, feedforward)
    convex = np.asarray(definite.all(axis=1))
    return _checked(
        FeedbackPolicy(feedforward, gains, slope, curvature, -eta, convex, levels[0] + 1, Quu)
    )


def direction(problem: Quadratic, feedback: FeedbackPolicy) -> tuple[Floats, Floats]:
    """Return the slope and curvature (n,) of the cost along a step that closes gaps.

    Gaps are small where positions are not vectors: the turn between the tangents at a step's end
    and at the next knot's state is left out, as in Crocoddyl.

    A step size a closes the part a of every gap, and changes the cost by
    ``-a slope + a^2 / 2 curvature``. Unlike without gaps, the cost may rise.
    """
    dx = np.zeros_like(problem.q[:, 0])
    slope, curvature = (np.zeros(len(dx)) for _ in range(2))
    for at in range(problem.B.shape[1] + 1):
        slope -= np.einsum("ni,ni->n", problem.q[:, at], dx)
        curvature += np.einsum("ni,nij,nj->n", dx, problem.Q[:, at], dx)
        if at == problem.B.shape[1]:
            break
        du = -feedback.feedforward[:, at] - np.einsum("nij,nj->ni", feedback.gains[:, at], dx)
        slope -= np.einsum("ni,ni->n", problem.r[:, at], du)
        curvature += np.einsum("ni,ni,ni->n", du, problem.R[:, at], du)
        if problem.mixed is not None:
            change = np.concatenate([du, 2.0 * dx], axis=-1)
            curvature += np.einsum("ni,nij,nj->n", du, problem.mixed[:, at], change)
        dx = np.einsum("nij,nj->ni", problem.A[:, at], dx) + np.einsum(
            "nij,nj->ni", problem.B[:, at], du
        )
        if problem.gaps is not None:
            dx = dx + problem.gaps[:, at]
    return slope, curvature


Pass = Callable[[Quadratic], FeedbackPolicy]

PASSES: dict[str, Pass] = {"serial": recursion, "parallel": scanned}


def regularised(
    backward_pass: Pass, problem: Quadratic, regularisations: Iterable[float]
) -> FeedbackPolicy:
    """Solve one problem with the smallest regularisation of R, starting at 0, that makes it convex.

    No regularisation helps if numbers overflow, so none is tried then.
    """
    feedback = backward_pass(problem)
    for regularisation in regularisations:
        if feedback.convex[0] or not np.isfinite(feedback.slope[0]):
            break
        feedback = backward_pass(replace(problem, R=problem.R + regularisation))
    return feedback


def _cost_to_go(
    A: Floats, B: Floats, R: Floats, r: Floats, Vxx: Floats, Vx: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return Quu, Qux and Qu for the next knot's Vxx and Vx; leading axes are batches."""
    Vxu = np.swapaxes(B, -1, -2) @ Vxx
    Quu = Vxu @ B
    diagonal = np.arange(B.shape[-1])
    Quu[..., diagonal, diagonal] += R
    return Quu, Vxu @ A, r + np.einsum("...ij,...i->...j", B, Vx)


def _policy(Quu: Floats, Qux: Floats, Qu: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return Quu^-1 Qu and Quu^-1 Qux, 0 unless Quu is positive definite, and whether it is."""
    right = np.concatenate([Qux, Qu[..., None]], axis=-1)
    lead, p = Quu.shape[:-2], Quu.shape[-1]
    safe, definite = _definite(Quu.reshape(-1, p, p))
    solution = np.linalg.solve(safe, right.reshape(-1, *right.shape[-2:]))
    masked = np.where(definite[:, None, None], solution, 0.0).reshape(right.shape)
    return masked[..., -1], masked[..., :-1], definite.reshape(lead)


def _bounded_policy(
    Quu: Floats, Qux: Floats, Qu: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return bounded feedforward and gains, and where Quu is positive definite; 0 elsewhere."""
    safe, definite = _definite(Quu)
    finite = definite & np.isfinite(Qu).all(axis=-1) & np.isfinite(Qux).all(axis=(1, 2))
    du, free = bounded_minimum(safe, np.where(finite[:, None], Qu, 0.0), low, high)
    gains = np.linalg.solve(_reduced(safe, free), np.where(free[..., None], Qux, 0.0))
    feedforward = np.where(finite[:, None], -du, 0.0)
    return feedforward, np.where(finite[:, None, None], gains, 0.0), finite


def _definite(Quu: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return Quu (n, p, p), the identity unless it is positive definite, and whether it is."""
    identity = np.eye(Quu.shape[-1])
    finite = np.asarray(np.isfinite(Quu).all(axis=(1, 2)))
    safe = np.where(finite[:, None, None], Quu, identity)
    definite = np.asarray(finite & (np.linalg.eigvalsh(safe)[:, 0] > 0.0))
    return np.where(definite[:, None, None], safe, identity), definite


def _reduced(H: Floats, free: NDArray[np.bool_]) -> Floats:
    """Return H (n, p, p) with identity rows and columns for variables that are not free (n, p)."""
    return np.where(free[:, :, None] & free[:, None, :], H, np.eye(H.shape[-1]))


def bounded_minimum(
    H: Floats, g: Floats, low: Floats, high: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """Minimise ``1/2 d' H d + g' d`` within bounds, by projected Newton steps.

    From d = 0 (Tassa, Mansard and Todorov 2014, section III; D. P. Bertsekas, "Projected Newton
    Methods for Optimization Problems with Simple Constraints", 1982).

    Parameters
    ----------
    H, g : (n, p, p), positive definite, and (n, p).
    low, high : (n, p), bounds with ``low <= 0 <= high``.

    Returns
    -------
    The minima (n, p), and which variables are free, (n, p).
    """
    d = np.zeros_like(g)
    # A variable this near to a bound counts as at it: otherwise the line search would halve steps
    # until they are as short as this distance (Bertsekas).
    scale = np.maximum(*(np.where(np.isfinite(x), np.abs(x), 0.0) for x in (low, high)))
    near = NEAR * (scale + np.abs(g) / np.einsum("nii->ni", H))
    free = np.ones(d.shape, dtype=np.bool_)
    for _ in range(STEPS):
        gradient = g + np.einsum("nij,nj->ni", H, d)
        at_low, at_high = (
            (d - low <= near) & (gradient > 0.0),
            (high - d <= near) & (gradient < 0.0),
        )
        d, free = np.where(at_low, low, np.where(at_high, high, d)), ~(at_low | at_high)
        step = np.linalg.solve(_reduced(H, free), -np.where(free, gradient, 0.0)[..., None])[..., 0]
        target = np.clip(d + step, low, high)
        left = np.asarray((np.abs(target - d) > ROUNDED * (np.abs(d) + np.abs(target))).any(axis=1))
        moved = np.zeros(len(d), dtype=np.bool_)
        share = np.ones(len(d))
        for _ in range(HALVINGS):
            pending = left & ~moved
            if not pending.any():
                break
            new = np.clip(d + share[:, None] * step, low, high)
            change = new - d
            value = np.einsum("ni,ni->n", gradient, change)
            fall = value + 0.5 * np.einsum("ni,nij,nj->n", change, H, change)
            enough = pending & (fall <= ENOUGH * value)
            d = np.where(enough[:, None], new, d)
            moved |= enough
            share = np.where(pending & ~enough, share / 2, share)
        if not moved.any():
            break
    return d, free


STEPS = 100
"""Largest number of steps; a few suffice, since each finds more of the bounds that bind."""

NEAR = 1e-11
"""Distance from a bound, of the bounds and of a step, within which a variable is at it."""

ROUNDED = 1e-13
"""A step below this share of a variable is rounding."""

ENOUGH, HALVINGS = 0.1, 40
"""Share of the linear decrease that a step must reach, and the largest number of halvings."""


def _checked(feedback: FeedbackPolicy) -> FeedbackPolicy:
    """Return the policy, with problems marked as convex only if their feedback is finite."""
    finite = np.isfinite(feedback.gains).all(axis=(1, 2, 3))
    finite &= np.isfinite(feedback.feedforward).all(axis=(1, 2))
    return replace(feedback, convex=feedback.convex & finite)


Elements = tuple[Floats, Floats, Floats, Floats, Floats]


def _combined(first: Elements, then: Elements) -> Elements:
    """Combine two consecutive elements of the scan (Sarkka and Garcia-Fernandez, equation 35)."""
    A1, b1, C1, eta1, J1 = first
    A2, b2, C2, eta2, J2 = then
    identity = np.eye(A1.shape[-1])
    # (1 + C1 J2)^-1 and its transpose, (1 + J2 C1)^-1, as both matrices are symmetric.
    inverse = np.linalg.inv(identity + C1 @ J2)
    forward = A2 @ inverse
    back = np.swapaxes(A1, -1, -2) @ np.swapaxes(inverse, -1, -2)

    def times(matrix: Floats, vector: Floats) -> Floats:
        return np.asarray(np.einsum("...ij,...j->...i", matrix, vector))

    return (
        forward @ A1,
        times(forward, b1 + times(C1, eta2)) + b2,
        forward @ C1 @ np.swapaxes(A2, -1, -2) + C2,
        times(back, eta2 - times(J2, b1)) + eta1,
        back @ J2 @ A1 + J1,
    )


def _suffixes(elements: Elements, levels: list[int]) -> Elements:
    """Combine each element with all that follow it, along axis 1.

    Pairs are combined, their suffixes are computed recursively, and the elements between take one
    more level: at most 2 log2(count) levels, each parallel over all elements.
    """
    count = elements[0].shape[1]
    if count == 1:
        return elements
    levels[0] += 1

    def every_second(start: int, stop: int | None = None) -> Elements:
        a, b, c, d, e = (x[:, start:stop:2] for x in elements)
        return a, b, c, d, e

    odd = count % 2
    pairs = _combined(every_second(odd), every_second(odd + 1))
    pair_suffixes = _suffixes(pairs, levels)
    out = tuple(np.empty_like(x) for x in elements)
    for array, part in zip(out, pair_suffixes, strict=True):
        array[:, odd::2] = part
    # The second of each pair but the last is followed by the suffix of the next pair.
    levels[0] += 1
    seconds = every_second(odd + 1)
    a, b, c, d, e = (x[:, :-1] for x in seconds)
    g, h, i, j, k = (x[:, 1:] for x in pair_suffixes)
    between = _combined((a, b, c, d, e), (g, h, i, j, k))
    for array, part, second in zip(out, between, seconds, strict=True):
        array[:, odd + 1 : -1 : 2] = part
        array[:, -1] = second[:, -1]
    if odd:
        f0, f1, f2, f3, f4 = (x[:, :1] for x in elements)
        w0, w1, w2, w3, w4 = (x[:, :1] for x in pair_suffixes)
        for array, part in zip(
            out, _combined((f0, f1, f2, f3, f4), (w0, w1, w2, w3, w4)), strict=True
        ):
            array[:, :1] = part
    a, b, c, d, e = out
    return a, b, c, d, e
