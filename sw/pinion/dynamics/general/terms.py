"""Joint terms (:mod:`pinion.dynamics.joint_terms`) on arrays."""

from __future__ import annotations

import numpy as np

from pinion.dynamics.checks import columns_of, vector_of
from pinion.dynamics.joint_terms import JointTerms

from .spatial import Array


def armature_of(terms: JointTerms) -> Array:
    """Return the armature of each velocity, (nv,)."""
    return np.array(terms.armature)


def efforts(terms: JointTerms, q: Array, qd: Array) -> Array:
    """Return the efforts of damping, friction and springs at q (n, nq) and qd (n, nv)."""
    places, rates = columns_of(q), columns_of(qd)
    return vector_of([terms.effort(k, places, rates) for k in range(len(rates))], qd.shape[:-1])


def rises(terms: JointTerms, q: Array) -> Array:
    """Return the diagonal (n, nv) of the derivative of :func:`efforts` in q's tangent space."""
    places = columns_of(q)
    return vector_of([terms.rise(k, places) for k in range(len(terms.places))], q.shape[:-1])


def slopes(terms: JointTerms, qd: Array) -> Array:
    """Return the derivative of :func:`efforts` with respect to qd, (n, nv, nv)."""
    rates = columns_of(qd)
    jacobian = np.zeros((*qd.shape, qd.shape[-1]))
    for k in range(len(rates)):
        jacobian[..., k, k] = terms.slope(k, rates)
        for m, other in terms.across(k, rates).items():
            jacobian[..., k, m] = other
    return jacobian
