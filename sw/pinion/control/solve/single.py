"""The backward pass of one problem, without the batch's price.

A controller has one problem a period, and NumPy takes longer to loop over a batch of one matrix
than to multiply it.
"""

from __future__ import annotations

import numpy as np

from .backward import Feedback, Quadratic


def single(problem: Quadratic) -> Feedback:
    """What :func:`.backward.recursion` finds, for a batch of one problem."""
    count, knots, m, p = problem.B.shape
    if count != 1:
        raise ValueError(f"One problem has a backward pass of its own, not a batch of {count}.")
    A, B, Q, q, r = problem.A[0], problem.B[0], problem.Q[0], problem.q[0], problem.r[0]
    R = np.asarray(problem.R[0])
    back_x, back_u = np.ascontiguousarray(A.transpose(0, 2, 1)), B.transpose(0, 2, 1).copy()
    V, v = Q[-1], q[-1]
    k, K, values = np.zeros((knots, p)), np.zeros((knots, p, m)), np.array(q)
    slope = curve = 0.0
    good = True
    diagonal = np.arange(p)
    right = np.empty((p, m + 1))
    for at in range(knots - 1, -1, -1):
        ahead = back_u[at] @ V
        by_uu = ahead @ B[at]
        by_uu[diagonal, diagonal] += R[at]
        by_ux = ahead @ A[at]
        by_u = r[at] + back_u[at] @ v
        right[:, :m], right[:, m] = by_ux, by_u
        try:
            np.linalg.cholesky(by_uu)  # fails unless it is positive definite
            gain = np.linalg.solve(by_uu, right)
        except np.linalg.LinAlgError:
            good, gain = False, np.zeros((p, m + 1))
        K[at], k[at] = gain[:, :m], gain[:, m]
        slope += float(k[at] @ by_u)
        curve += float(k[at] @ by_uu @ k[at])
        V = Q[at] + back_x[at] @ V @ A[at] - by_ux.T @ K[at]
        V = (V + V.T) / 2
        v = q[at] + back_x[at] @ v - by_ux.T @ k[at]
        values[at] = v
    good = good and bool(np.isfinite(K).all() and np.isfinite(k).all())
    return Feedback(
        k=k[None],
        K=K[None],
        slope=np.array([slope]),
        curve=np.array([curve]),
        v=values[None],
        good=np.array([good]),
        levels=knots,
    )
