r"""The backward pass: feedback of a linear-quadratic problem, knot by knot or by a parallel scan.

Steps ``dx+ = A dx + B du`` and costs ``1/2 dx' Q dx + q' dx + 1/2 du' R du + r' du`` give a value
``1/2 dx' V dx + v' dx`` and feedback ``du = -k - K dx`` of each knot. :func:`recursion` goes from
the last knot to the first (Riccati). :func:`scanned` makes the same values by an associative
operator in 2 log2 of the knots' number levels (S. Sarkka and A. F. Garcia-Fernandez, "Temporal
Parallelization of Dynamic Programming and Linear Quadratic Control", IEEE TAC 2023, section IV):
an element is a conditional value function

    V(x, z) = max_l  1/2 x' J x - x' eta - 1/2 l' C l - l' (z - A x - b)

of going from x to z, and two of them in a row are one again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Quadratic:
    """A linear-quadratic problem, n of them at once.

    Members
    -------
    A, B : (n, knots, m, m) and (n, knots, m, p).
    Q, q : (n, knots + 1, m, m) and (n, knots + 1, m).
    R, r : (n, knots, p), the diagonal, and (n, knots, p).
    """

    A: Floats
    B: Floats
    Q: Floats
    q: Floats
    R: Floats
    r: Floats


@dataclass(frozen=True)
class Feedback:
    """What a backward pass found.

    Members
    -------
    k, K : (n, knots, p) and (n, knots, p, m): ``du = -k - K dx``.
    slope, curve : (n,), how the cost changes by a share a of the feedback:
        ``-a slope + a^2 / 2 curve``.
    v : (n, knots + 1, m), gradient of the value at each knot.
    good : (n,), whether each problem is convex at all knots and every number finite.
    levels : operations one behind the other, in knots.
    """

    k: Floats
    K: Floats
    slope: Floats
    curve: Floats
    v: Floats
    good: NDArray[np.bool_]
    levels: int

    def where_good(self, other: Feedback) -> Feedback:
        """This of the problems that are convex, and another feedback of the others."""
        good = self.good

        def chosen(a: Floats, b: Floats) -> Floats:
            return np.where(good.reshape(-1, *[1] * (a.ndim - 1)), a, b)

        return Feedback(
            k=chosen(self.k, other.k),
            K=chosen(self.K, other.K),
            slope=chosen(self.slope, other.slope),
            curve=chosen(self.curve, other.curve),
            v=chosen(self.v, other.v),
            good=good | other.good,
            levels=self.levels,
        )


Bend = Callable[[int, Floats], tuple[Floats, Floats]]
"""Second derivatives of a step: takes a knot and the value's gradient (n, m) behind it, of which
they are a sum, and returns those by x twice (n, m, m) and by u and x (n, p, m)."""


def recursion(problem: Quadratic, bend: Bend | None = None) -> Feedback:
    """Feedback by Riccati's recursion; with ``bend`` that of differential dynamic programming."""
    A, B = problem.A, problem.B
    count, knots, m, p = B.shape
    V, v = problem.Q[:, -1], problem.q[:, -1]
    k, K = np.zeros((count, knots, p)), np.zeros((count, knots, p, m))
    slope, curve = np.zeros(count), np.zeros(count)
    values = problem.q.copy()
    good = np.ones(count, dtype=np.bool_)
    for at in reversed(range(knots)):
        ahead = np.swapaxes(B[:, at], 1, 2) @ V
        by_uu, by_ux, by_u = _expanded(problem, at, ahead, v)
        own = problem.Q[:, at]
        if bend is not None:
            by_xx, more = bend(at, v)
            own, by_ux = own + by_xx, by_ux + more
        gain, fine = _solved(by_uu, np.concatenate([by_ux, by_u[..., None]], axis=-1))
        good &= fine
        K[:, at], k[:, at] = gain[..., :m], gain[..., m]
        slope += np.einsum("ni,ni->n", k[:, at], by_u)
        curve += np.einsum("ni,nij,nj->n", k[:, at], by_uu, k[:, at])
        back = np.swapaxes(A[:, at], 1, 2)
        V = own + back @ V @ A[:, at] - np.swapaxes(by_ux, 1, 2) @ K[:, at]
        V = (V + np.swapaxes(V, 1, 2)) / 2
        v = (
            problem.q[:, at]
            + np.einsum("nij,nj->ni", back, v)
            - np.einsum("nij,ni->nj", by_ux, k[:, at])
        )
        values[:, at] = v
    return _checked(k, K, slope, curve, values, good, knots)


def scanned(problem: Quadratic) -> Feedback:
    """The same feedback by a scan over knots, its levels in parallel."""
    B = problem.B
    count, knots, m, p = B.shape
    scaled = B / problem.R[:, :, None, :]
    C = np.zeros((count, knots + 1, m, m))
    C[:, :-1] = scaled @ np.swapaxes(B, 2, 3)
    A = np.zeros_like(C)
    A[:, :-1] = problem.A
    b = np.zeros((count, knots + 1, m))
    b[:, :-1] = -np.einsum("nkij,nkj->nki", scaled, problem.r)
    levels = [0]
    _, _, _, eta, J = _suffixes((A, b, C, -problem.q, problem.Q), levels)
    V, v = J[:, 1:], -eta[:, 1:]
    ahead = np.swapaxes(B, 2, 3) @ V
    by_uu = ahead @ B
    by_uu[..., np.arange(p), np.arange(p)] += problem.R
    by_ux = ahead @ problem.A
    by_u = problem.r + np.einsum("nkij,nki->nkj", B, v)
    gain, fine = _solved(by_uu, np.concatenate([by_ux, by_u[..., None]], axis=-1))
    k, K = gain[..., m], gain[..., :m]
    slope = np.einsum("nki,nki->n", k, by_u)
    curve = np.einsum("nki,nkij,nkj->n", k, by_uu, k)
    every = np.asarray(fine.all(axis=1))
    return _checked(k, K, slope, curve, -eta, every, levels[0] + 1)


Pass = Callable[[Quadratic], Feedback]

PASSES: dict[str, Pass] = {"serial": recursion, "parallel": scanned}


def regularised(backward_pass: Pass, problem: Quadratic, ladder: Iterable[float]) -> Feedback:
    """Feedback of one problem with the first weight on efforts, 0 before all, that makes it convex.

    Where numbers overflow no weight helps, and none is tried.
    """
    feedback = backward_pass(problem)
    for weight in ladder:
        if feedback.good[0] or not np.isfinite(feedback.slope[0]):
            break
        feedback = backward_pass(replace(problem, R=problem.R + weight))
    return feedback


def _expanded(
    problem: Quadratic, at: int, ahead: Floats, v: Floats
) -> tuple[Floats, Floats, Floats]:
    """Second derivatives by u, by u and x, and first by u, of a knot's cost to go."""
    B = problem.B[:, at]
    by_uu = ahead @ B
    diagonal = np.arange(B.shape[-1])
    by_uu[:, diagonal, diagonal] += problem.R[:, at]
    by_u = problem.r[:, at] + np.einsum("nij,ni->nj", B, v)
    return by_uu, ahead @ problem.A[:, at], by_u


def _solved(matrix: Floats, right: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """``matrix^-1 right`` of symmetric matrices (..., p, p), and where they are positive definite.

    Where one is not, the solution is zero.
    """
    lead, p = matrix.shape[:-2], matrix.shape[-1]
    flat = matrix.reshape(-1, p, p)
    finite = np.asarray(np.isfinite(flat).all(axis=(1, 2)))
    safe = np.where(finite[:, None, None], flat, np.eye(p))
    fine = np.asarray(finite & (np.linalg.eigvalsh(safe)[:, 0] > 0.0))
    safe = np.where(fine[:, None, None], safe, np.eye(p))
    solution = np.linalg.solve(safe, right.reshape(-1, *right.shape[-2:]))
    masked: Floats = np.where(fine[:, None, None], solution, 0.0)
    return masked.reshape(right.shape), fine.reshape(lead)


def _checked(
    k: Floats,
    K: Floats,
    slope: Floats,
    curve: Floats,
    v: Floats,
    good: NDArray[np.bool_],
    levels: int,
) -> Feedback:
    finite = np.isfinite(K).all(axis=(1, 2, 3)) & np.isfinite(k).all(axis=(1, 2))
    return Feedback(k, K, slope, curve, v, good & finite, levels)


Elements = tuple[Floats, Floats, Floats, Floats, Floats]


def _combined(first: Elements, then: Elements) -> Elements:
    """Two elements in a row as one (equation 35 of the paper)."""
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
    """All combinations of each element with everything behind it, along axis 1.

    Pairs are combined, the half as many suffixes of pairs are found in the same way, and what lies
    between them takes one more level: 2 log2 levels at most, each of any number of processors.
    """
    count = elements[0].shape[1]
    if count == 1:
        return elements
    levels[0] += 1

    def some(start: int, stop: int | None = None) -> Elements:
        a, b, c, d, e = (x[:, start:stop:2] for x in elements)
        return a, b, c, d, e

    odd = count % 2
    pairs = _combined(some(odd), some(odd + 1))
    wide = _suffixes(pairs, levels)
    out = tuple(np.empty_like(x) for x in elements)
    for whole, part in zip(out, wide, strict=True):
        whole[:, odd::2] = part
    # The second of each pair but the last has the suffix of the next pair behind it.
    levels[0] += 1
    seconds = some(odd + 1)
    a, b, c, d, e = (x[:, :-1] for x in seconds)
    g, h, i, j, k = (x[:, 1:] for x in wide)
    between = _combined((a, b, c, d, e), (g, h, i, j, k))
    for whole, part, own in zip(out, between, seconds, strict=True):
        whole[:, odd + 1 : -1 : 2] = part
        whole[:, -1] = own[:, -1]
    if odd:
        f0, f1, f2, f3, f4 = (x[:, :1] for x in elements)
        w0, w1, w2, w3, w4 = (x[:, :1] for x in wide)
        for whole, part in zip(
            out, _combined((f0, f1, f2, f3, f4), (w0, w1, w2, w3, w4)), strict=True
        ):
            whole[:, :1] = part
    a, b, c, d, e = out
    return a, b, c, d, e
