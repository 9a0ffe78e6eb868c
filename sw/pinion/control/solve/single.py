"""The Riccati recursion of one problem, without the overhead of a batch.

Separate from :func:`.backward.recursion`, which takes 2.4 times as long for the one problem that a
controller has in each period (seven joints, 20 knots): a Cholesky factorisation replaces the
eigenvalues, and matrices of two axes replace stacks.
"""

from __future__ import annotations

import numpy as np

from .backward import FeedbackPolicy, Quadratic


def single(problem: Quadratic) -> FeedbackPolicy:
    """Solve a batch of one problem without bounds, as :func:`.backward.recursion` does."""
    count, knots, m, p = problem.B.shape
    if count != 1:
        raise ValueError(
            f"The backward pass 'single' solves one problem, not {count}: use 'serial'."
        )
    A, B, Q, q, r = problem.A[0], problem.B[0], problem.Q[0], problem.q[0], problem.r[0]
    R = np.asarray(problem.R[0])
    fx, fu = np.ascontiguousarray(A.transpose(0, 2, 1)), B.transpose(0, 2, 1).copy()
    Vxx, Vx = Q[-1], q[-1]
    feedforward, gains = np.zeros((knots, p)), np.zeros((knots, p, m))
    value_gradients = np.array(q)
    slope = curvature = 0.0
    convex = True
    diagonal = np.arange(p)
    right = np.empty((p, m + 1))
    for at in range(knots - 1, -1, -1):
        if problem.gaps is not None:
            Vx = Vx + Vxx @ problem.gaps[0, at]
        Vxu = fu[at] @ Vxx
        Quu = Vxu @ B[at]
        Quu[diagonal, diagonal] += R[at]
        Qux = Vxu @ A[at]
        Qu = r[at] + fu[at] @ Vx
        if problem.mixed is not None:
            Quu += problem.mixed[0, at, :, :p]
            Qux += problem.mixed[0, at, :, p:]
        right[:, :m], right[:, m] = Qux, Qu
        try:
            np.linalg.cholesky(Quu)  # fails unless it is positive definite
            solution = np.linalg.solve(Quu, right)
        except np.linalg.LinAlgError:
            convex, solution = False, np.zeros((p, m + 1))
        gains[at], feedforward[at] = solution[:, :m], solution[:, m]
        slope += float(feedforward[at] @ Qu)
        curvature += float(feedforward[at] @ Quu @ feedforward[at])
        Vxx = Q[at] + fx[at] @ Vxx @ A[at] - Qux.T @ gains[at]
        Vxx = (Vxx + Vxx.T) / 2
        Vx = q[at] + fx[at] @ Vx - Qux.T @ feedforward[at]
        value_gradients[at] = Vx
    convex = convex and bool(np.isfinite(gains).all() and np.isfinite(feedforward).all())
    return FeedbackPolicy(
        feedforward=feedforward[None],
        gains=gains[None],
        slope=np.array([slope]),
        curvature=np.array([curvature]),
        Vx=value_gradients[None],
        convex=np.array([convex]),
        levels=knots,
    )
