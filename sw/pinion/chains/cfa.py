r"""Forward dynamics by the constraint force algorithm (CFA): no step longer than log n.

Featherstone and Fijany 1999, equation 16, with the steps of Yang, Wu and Pan 2016, algorithm 1. All
links are free bodies on which their joints' forces act, and these forces are such that the links
stay together. After the efforts ID(q, qd, 0) are taken from tau, the robot is at rest without
gravity. With ``J_i = I_i^-1``, X_i from link i - 1 to link i, H_i the motion subspace of its joint
and W_i a basis of the forces that do no work there (``W_i^T H_i = 0``):

    F_i = T_i tau_i + W_i c_i                             T_i = I_X H_i (H_i^T I_X H_i)^-1
    a_i = J_i (F_i - X_(i+1)^T F_(i+1) - p_i)             qdd_i = T_i^T (a_i - X_i a_(i-1))

``W_i^T (a_i - X_i a_(i-1)) = 0`` is a block tridiagonal system for the c_i, symmetric and positive
definite, of the blocks

    D_i = W_i^T (J_i + X_i J_(i-1) X_i^T) W_i             U_i = -W_i^T J_i X_(i+1)^T W_(i+1)

What differs from the texts:

- *Side branches* (1999, section 4) make articulated bodies of the links. The text omits their bias
  forces p_i, which come from the efforts in the branches; without them results are 5 to 20 % wrong.
- *Joints of 0 to 6 degrees of freedom*: W_i has zeros in the columns that it lacks, and D_i ones on
  its diagonal there. A floating base is a joint of six.
- *The original CFA* (Fijany 1995; 1993, equation 60; 2016, equation 17) has H for T. That is right
  where ``H^T H = 1``. Elsewhere it returns ``G M^-1 G`` times the efforts with ``G = H^T H``, which
  for a screw is 1 + pitch^2: it stands here to show that.
- *Refinement*: J and the blocks carry the condition of the links' inertias, so that the unrefined
  results are 10 to 10^4 times less accurate than articulated bodies. One more solve with the same
  diagonalised matrix for ``tau - ID(q, qd, qdd)`` makes them as accurate. Residuals of the block
  system alone would not: its blocks are already rounded.

OEE magnifies rounding most. Where inertias lie decades apart it can fail from some tens of links
on, and refinement with it, while OER and L D L^T, refined once, stay as exact as articulated
bodies: :func:`condition` tells. In float32 OEE is useless from some twenty links on, the others
from some fifty: pass float64.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics.checks import DynamicsError, check_choice
from pinion.dynamics.general.spatial import times, transposed

from .chain import Array, Chain
from .counting import Count
from .inverse import note_branches, rnea_scan
from .recursion import answers, articulated
from .small import factorise, solve_factored, solve_positive
from .state import State, state_of
from .tridiagonal import METHODS, Diagonal, diagonalise

VARIANTS = ("corrected", "original")

_SINGULAR = 64
"""A pivot of so many rounding errors of its diagonal element is a zero."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bodies:
    """A chain at rest without gravity, as free links with the forces that hold them together.

    Members
    -------
    at : where the bodies are; its base does not accelerate.
    J : (B, n, 6, 6) inverses of the links' articulated inertias.
    X : (B, n, 6, 6) to each link's coordinates from those of the link before it.
    T : (n, 6, k) what takes a joint's efforts to its force. W : (n, 6, w) the other forces there.
    idle : (n, w, w) ones on the diagonal for W's columns of zeros.
    D, U : (B, n, w, w), (B, n - 1, w, w) blocks of the system for the constraint forces.
    diagonal : that system made diagonal.
    """

    at: State
    J: Array
    X: Array
    T: Array
    W: Array
    idle: Array
    D: Array
    U: Array
    diagonal: Diagonal

    def differences(self, a: Array) -> Array:
        """Return ``a_i - X_i a_(i-1)`` (P a of 1999, eq. 13) of (B, n, 6, ...) motions."""
        result = np.array(a)
        result[:, 1:] -= _product(self.X[:, 1:], a[:, :-1])
        return result

    def gathered(self, F: Array) -> Array:
        """Return ``F_i - X_(i+1)^T F_(i+1)`` (P^T F) of (B, n, 6, ...) forces."""
        result = np.array(F)
        result[:, :-1] -= _product(transposed(self.X[:, 1:]), F[:, 1:])
        return result

    def accelerations(self, tau: Array, count: Count | None = None) -> Array:
        """Return joints' accelerations under efforts tau, both (B, bodies, k)."""
        chain = self.at.chain
        at = replace(self.at, velocities={"tau": tau})
        still = np.zeros((at.count, chain.bodies, 6), at.dtype)
        bodies = articulated(at, still, still, chain.branches[::-1])
        # Constraint forces, from what the links would do without them.
        F = times(self.T, tau[:, chain.main])
        p = bodies.p[:, chain.main]
        free = times(self.J, self.gathered(F) - p)
        R = -times(transposed(self.W), self.differences(free))
        F = F + times(self.W, self.diagonal.solve(R[..., None], count)[..., 0])
        main_accelerations = times(self.J, self.gathered(F) - p)
        qdd, a = np.zeros_like(tau), still.copy()
        qdd[:, chain.main] = times(transposed(self.T), self.differences(main_accelerations))
        a[:, chain.main] = main_accelerations
        answers(at, bodies, still, qdd, a, chain.branches)
        note_branches(chain, count)
        return qdd


# Many parameters: the algorithm's inputs, and choices that its experiments vary one at a time.
def cfa(
    chain: Chain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    solver: str = "oee",
    I_X: ArrayLike | None = None,
    variant: str = "corrected",
    refine: int = 1,
    method: str = "brent_kung",
    count: Count | None = None,
) -> Array:
    """Forward dynamics by the constraint force algorithm.

    Parameters
    ----------
    q : (nq,) or (B, nq) positions [rad | m]. qd, tau : (nv,) or (B, nv).
    solver : of the block tridiagonal system, a method of :mod:`.tridiagonal`.
    I_X : (n, 6, 6) any symmetric positive definite matrices, one a link; None for ones. The results
        are the same, which is a check.
    variant : ``corrected``, or ``original`` for joints with ``H^T H = 1``, elsewhere wrong.
    refine : how many times the solution is improved by ``tau - ID(q, qd, qdd)``. One brings it to
        the accuracy of articulated bodies, but for chains of which :func:`condition` warns.
    method : of the scans of the inverse dynamics. Hillis and Steele's has half the levels of Brent
        and Kung's, and costs a digit of the refined results at 1,000 links: its transforms are
        products of products.
    count : is told the levels and combines of everything, refinement too, and the steps along the
        longest side branch; what each link does by itself is no level.

    Returns
    -------
    qdd : as qd.

    Raises
    ------
    DynamicsError
        When an argument does not do, a link's inertia has no inverse, or a joint has armature.
    """
    if refine < 0:
        raise DynamicsError(f"refine is {refine}: pass how many times, 0 or more.")
    at = state_of(chain, q, tau=tau)
    bodies = free_bodies(at, solver=solver, I_X=I_X, variant=variant)
    result = np.zeros((*at.batch, chain.nv), at.dtype)
    for _ in range(refine + 1):
        bias = rnea_scan(chain, q, qd, result, method=method, count=count)
        rest = np.asarray(tau, at.dtype) - bias
        effort = chain.padded(np.asarray(rest, at.dtype).reshape(at.count, chain.nv))
        result = result + at.flat(bodies.accelerations(effort, count))
    return result


def free_bodies(
    at: State,
    *,
    solver: str = "oee",
    I_X: ArrayLike | None = None,
    variant: str = "corrected",
    count: Count | None = None,
) -> Bodies:
    """Take a chain apart: arguments and errors as for :func:`cfa`."""
    check_choice("solver", solver, METHODS)
    check_choice("variant", variant, VARIANTS)
    chain, k = at.chain, at.chain.width
    if chain.has_armature:
        raise DynamicsError(
            f"The chain {chain.name!r} has armature, which ties its links in a way that the "
            "constraint force algorithm does not know: use aba or hybrid_aba, or set it to 0."
        )
    main = chain.main
    nothing = np.zeros((at.count, chain.bodies, k), at.dtype)
    at = replace(at, velocities={"tau": nothing}, wrenches={}, base=np.zeros_like(at.base))
    still = np.zeros((at.count, chain.bodies, 6), at.dtype)
    J = _inverses(chain, articulated(at, still, still, chain.branches[::-1]).IA[:, main])
    X, H = at.X[:, main], at.S[main]
    T = H
    if variant == "corrected":
        weighted = _metric(chain, I_X, at.dtype) @ H
        square = transposed(H) @ weighted + at.unused[main]
        T = transposed(solve_positive(square, transposed(weighted)))
    W, idle = complements(H, chain.dof[main], radii(chain))
    crossed = transposed(W[1:]) @ X[:, 1:] @ J[:, :-1]
    D = transposed(W) @ J @ W + idle
    D[:, 1:] += crossed @ transposed(X[:, 1:]) @ W[1:]
    U = -transposed(crossed @ W[:-1])
    try:
        diagonal = diagonalise(D, U, method=solver, count=count)
    except np.linalg.LinAlgError:
        raise DynamicsError(
            f"Rounding in {at.dtype} has left a block of the chain {chain.name!r} that is not "
            f"positive with the solver {solver!r}: its inertias lie too far apart, so use the "
            "solver 'ldl', a wider type, or aba."
        ) from None
    return Bodies(at=at, J=J, X=X, T=T, W=W, idle=idle, D=D, U=U, diagonal=diagonal)


class ConditionWarning(UserWarning):
    """Constraint forces refined once are less exact than half of the digits of their type."""


def condition(chain: Chain, q: ArrayLike, *, solver: str = "oee") -> Array:
    """Estimate by how much the constraint force algorithm magnifies rounding at a state.

    The efforts of known accelerations, of which each is 1 or -1, are solved for without refinement,
    at rest and without gravity. That costs an inverse dynamics and a solution. With `eps` the
    rounding error of q's type,

    - ``eps condition`` is about the relative error of an unrefined solution, at other accelerations
      too within a factor of some ten;
    - a refinement multiplies the error by it, down to that of articulated bodies: from 1e-4 on one
      is not enough for 1e-8, and from 1 on each makes it worse: use the solver ``oer`` there, which
      has about twice the levels, or aba.

    Warns by :class:`ConditionWarning` where ``eps condition`` is more than ``eps^(1/4)``, 1.2e-4 in
    double: refined once, the error is then more than ``eps^(1/2)``.

    Parameters
    ----------
    q : (nq,) or (B, nq) positions [rad | m].

    Returns
    -------
    condition : () or (B,), 1 at least; infinite where the solution is no number.

    Raises
    ------
    DynamicsError
        As for :func:`cfa`.
    """
    at = state_of(chain, q)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (at.count, chain.nv)).astype(at.dtype)
    floating = replace(chain, gravity=np.zeros(3))
    positions = np.asarray(q, at.dtype).reshape(at.count, chain.nq)
    tau = rnea_scan(floating, positions, np.zeros_like(signs), signs, method="brent_kung")
    solved = free_bodies(at, solver=solver).accelerations(chain.padded(tau))
    error = np.max(np.abs(chain.flat(solved) - signs), axis=-1, initial=0.0)
    eps = np.finfo(at.dtype).eps
    numbers = np.maximum(1.0, np.nan_to_num(error / eps, nan=np.inf))
    worst = float(np.max(eps * numbers, initial=0.0))
    if worst > eps**0.25:
        warnings.warn(
            f"Constraint forces of the chain {chain.name!r} lose digits: solved by {solver!r}, "
            f"their error is about {worst:.0e} unrefined and its square refined once. Choose the "
            "solver 'oer' or 'ldl', or aba.",
            ConditionWarning,
            stacklevel=2,
        )
    return at.shaped(numbers)


def complements(H: Array, dof: Array, length: Array) -> tuple[Array, Array]:
    """Return bases of the forces that do no work on motions H, and what they lack.

    Parameters
    ----------
    H : (n, 6, k), whose columns from dof (n,) on are zeros.
    length : (n,) one that moments are divided by, so that they compare with forces [m]. Columns
        that mixed both in SI units would lose the small ones: a hundredfold accuracy for links of a
        centimetre.

    Returns
    -------
    W : (n, 6, w), w the most columns that one needs, 1 at least; ``W^T H = 0`` in H's type.
    idle : (n, w, w) ones on the diagonal for columns of zeros.
    """
    n, _, k = H.shape
    scale = np.ones((n, 6, 1))
    scale[:, :3, 0] = length[:, None]
    padded = np.zeros((n, 6, 6))
    padded[:, :, :k] = scale * H
    left, _, _ = np.linalg.svd(padded)
    width = max(1, 6 - int(dof.min()))
    used = np.arange(width) < 6 - dof[:, None]
    W = np.asarray(left[:, :, ::-1][:, :, :width] * used[:, None, :], H.dtype)
    # Once more in H's type, which may be finer than that of NumPy's linear algebra.
    scaled = np.asarray(scale, H.dtype) * H
    unused = np.eye(k, dtype=H.dtype) * (np.arange(k) >= dof[:, None])[:, :, None]
    along = solve_positive(transposed(scaled) @ scaled + unused, transposed(scaled) @ W)
    W = np.asarray(scale, H.dtype) * (W - scaled @ along)
    return W, np.eye(width, dtype=H.dtype) * ~used[:, :, None]


def radii(chain: Chain) -> Array:
    """Radii of gyration of the links about their frames, (n,) [m]; 1 where there is none."""
    inertias = chain.I[chain.main]
    turning, mass = np.trace(inertias[:, :3, :3], axis1=1, axis2=2), inertias[:, 3, 3]
    good = (turning > 0) & (mass > 0)
    return np.sqrt(np.where(good, turning, 1.0) / np.where(good, 3 * mass, 1.0))


def _product(matrix: Array, x: Array) -> Array:
    return times(matrix, x) if x.ndim == matrix.ndim - 1 else matrix @ x


def _metric(chain: Chain, I_X: ArrayLike | None, dtype: np.dtype[np.floating]) -> Array:
    if I_X is None:
        return np.eye(6, dtype=dtype)
    metric = np.asarray(I_X, dtype)
    if metric.shape != (chain.n, 6, 6):
        raise DynamicsError(f"I_X has shape {metric.shape}, expected {(chain.n, 6, 6)}.")
    try:
        factorise(metric)
    except np.linalg.LinAlgError:
        raise DynamicsError(
            "I_X has a matrix that is not positive definite: pass inertias, or None for ones."
        ) from None
    return metric


def _inverses(chain: Chain, IA: Array) -> Array:
    """Inverses of links' inertias (B, n, 6, 6), each of which must have one."""
    scale = np.diagonal(IA, axis1=-2, axis2=-1)
    least = _SINGULAR * np.finfo(IA.dtype).eps * scale
    try:
        L, d = factorise(IA)
        bad = np.any(d <= least, axis=(0, 2))
    except np.linalg.LinAlgError:
        bad = np.array([_indefinite(IA[:, i]) for i in range(chain.n)])
    if np.any(bad):
        link = int(np.argmax(bad))
        raise DynamicsError(
            f"The inertia of link {link} (body {chain.main[link]}) of the chain {chain.name!r} has "
            "no inverse, which the constraint force algorithm needs: give the link mass and a "
            "rotational inertia about each axis, or use aba."
        )
    return solve_factored(L, d, np.eye(6, dtype=IA.dtype))


def _indefinite(IA: Array) -> bool:
    try:
        factorise(IA)
    except np.linalg.LinAlgError:
        return True
    return False
