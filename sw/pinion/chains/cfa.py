r"""Forward dynamics by the constraint force algorithm (CFA), in O(log n) steps.

Featherstone and Fijany 1999, equation 16, with the steps of Yang, Wu and Pan 2016, algorithm 1. All
links are free bodies under their joints' forces, which hold the links together. After the efforts
ID(q, qd, 0) are subtracted from tau, the robot is at rest without gravity. With ``J_i = I_i^-1``,
X_i from link i - 1 to link i, H_i the motion subspace of its joint and W_i a basis of the forces
that do no work there (``W_i^T H_i = 0``):

    F_i = T_i tau_i + W_i c_i                             T_i = I_X H_i (H_i^T I_X H_i)^-1
    a_i = J_i (F_i - X_(i+1)^T F_(i+1) - p_i)             qdd_i = T_i^T (a_i - X_i a_(i-1))

``W_i^T (a_i - X_i a_(i-1)) = 0`` is a block tridiagonal system for the c_i, symmetric and positive
definite, with the blocks

    D_i = W_i^T (J_i + X_i J_(i-1) X_i^T) W_i             U_i = -W_i^T J_i X_(i+1)^T W_(i+1)

Differences from the texts:

- *Side branches* (1999, section 4) turn the links into articulated bodies. The text omits their
  bias forces p_i, which come from the efforts in the branches; without them results are 5 to 20 %
  wrong.
- *Joints of 0 to 6 degrees of freedom*: unused columns of W_i are zero, and D_i has ones on its
  diagonal there. A floating base is a joint with six.
- *The original CFA* (Fijany 1995; 1993, equation 60; 2016, equation 17) has H instead of T, which
  is correct for ``H^T H = 1``. Otherwise it returns ``G M^-1 G`` times the efforts with
  ``G = H^T H``, which for a screw is 1 + pitch^2. It is included to show that.
- *Refinement*: J and the blocks inherit the condition of the links' inertias, so that unrefined
  results are 10 to 10^4 times less accurate than articulated bodies. One more solve with the same
  diagonalised matrix for ``tau - ID(q, qd, qdd)`` makes them as accurate. Residuals of the block
  system alone would not, because its blocks are already rounded.

OEE magnifies rounding most. With inertias decades apart it can fail for a few tens of links or
more, even with refinement, while OER and L D L^T, refined once, stay as accurate as articulated
bodies; :func:`condition` estimates this. In float32 OEE is useless for more than about twenty
links, the others for more than about fifty: pass float64.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics import DynamicsError
from pinion.dynamics.checks import check_choice
from pinion.dynamics.general.spatial import times, transposed

from .chain import Array, Chain
from .counting import Count
from .inverse import note_branches, rnea_scan
from .recursion import answers, articulated
from .small import factorise, solve_factored, solve_positive
from .state import ChainState, state_of
from .tridiagonal import METHODS, Diagonal, diagonalise

VARIANTS = ("corrected", "original")

_SINGULAR = 64
"""A pivot smaller than this many rounding errors of its diagonal element counts as zero."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bodies:
    """A chain at rest without gravity, as free links with constraint forces.

    Members
    -------
    at : state of the bodies; its base does not accelerate.
    J : (B, n, 6, 6) inverses of the links' articulated inertias.
    X : (B, n, 6, 6) transforms to each link's coordinates from those of the link before it.
    T : (n, 6, k) maps a joint's efforts to its force. W : (n, 6, w) constraint forces.
    idle : (n, w, w) ones on the diagonal for W's zero columns.
    D, U : (B, n, w, w), (B, n - 1, w, w) blocks of the system for the constraint forces.
    diagonal : the diagonalised system.
    """

    at: ChainState
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
        """Return the joints' accelerations for efforts tau, both (B, bodies, k)."""
        chain = self.at.chain
        at = replace(self.at, velocities={"tau": tau})
        still = np.zeros((at.count, chain.bodies, 6), at.dtype)
        bodies = articulated(at, still, still, chain.branches[::-1])
        # Constraint forces, from the links' motion without them.
        F = times(self.T, tau[:, chain.main])
        p = bodies.p[:, chain.main]
        free = times(self.J, self.gathered(F) - p)
        R = -times(transposed(self.W), self.differences(free))
        F = F + times(self.W, self.diagonal.solve(R[..., None], count)[..., 0])
        a_main = times(self.J, self.gathered(F) - p)
        qdd, a = np.zeros_like(tau), still.copy()
        qdd[:, chain.main] = times(transposed(self.T), self.differences(a_main))
        a[:, chain.main] = a_main
        answers(at, bodies, still, qdd, a, chain.branches)
        note_branches(chain, count)
        return qdd


# Many parameters: the algorithm's inputs, and options that its experiments vary separately.
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
    """Compute forward dynamics by the constraint force algorithm.

    Parameters
    ----------
    q : (nq,) or (B, nq) positions [rad | m]. qd, tau : (nv,) or (B, nv).
    solver : of the block tridiagonal system, a method of :mod:`.tridiagonal`.
    I_X : (n, 6, 6) any symmetric positive definite matrices, one per link; None for the identity.
        The results are the same, which is a check.
    variant : ``corrected``, or ``original``, which is correct only for joints with ``H^T H = 1``.
    refine : number of refinements by ``tau - ID(q, qd, qdd)``. One gives the accuracy of
        articulated bodies, except for chains of which :func:`condition` warns.
    method : of the scans of the inverse dynamics. Hillis and Steele's has half the levels of Brent
        and Kung's, but loses a digit of the refined results at 1,000 links: its transforms are
        products of products.
    count : receives all levels and combines, including refinement, and the steps along the longest
        side branch; independent work of each link is not a level.

    Returns
    -------
    qdd : as qd.

    Raises
    ------
    DynamicsError
        If an argument is invalid, a link's inertia is not invertible, or a joint has armature.
    """
    if refine < 0:
        raise DynamicsError(f"refine must be 0 or more, not {refine}.")
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
    at: ChainState,
    *,
    solver: str = "oee",
    I_X: ArrayLike | None = None,
    variant: str = "corrected",
    count: Count | None = None,
) -> Bodies:
    """Return a chain as free links; arguments and errors as for :func:`cfa`."""
    check_choice("solver", solver, METHODS)
    check_choice("variant", variant, VARIANTS)
    chain, k = at.chain, at.chain.width
    if chain.has_armature:
        raise DynamicsError(
            f"The chain {chain.name!r} has armature, which the constraint force algorithm does not "
            "support: set the armature to 0 or, for a free tip, use aba or hybrid_aba."
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
        other = "" if solver == "ldl" else "the solver 'ldl', "
        raise DynamicsError(
            f"Rounding in {at.dtype} makes a block of the chain {chain.name!r} not positive "
            f"definite with the solver {solver!r}, because the inertias differ too much: use "
            f"{other}a wider type or, for a free tip, aba."
        ) from None
    return Bodies(at=at, J=J, X=X, T=T, W=W, idle=idle, D=D, U=U, diagonal=diagonal)


class ConditionWarning(UserWarning):
    """Warning that fewer than half the digits of once-refined constraint forces are correct."""


def condition(chain: Chain, q: ArrayLike, *, solver: str = "oee") -> Array:
    """Estimate the amplification of rounding errors by the constraint force algorithm at a state.

    The efforts of known accelerations, each 1 or -1, at zero velocity and without gravity, are
    solved without refinement, which costs an inverse dynamics and a solution. With `eps` the
    rounding error of q's type,

    - ``eps condition`` is about the relative error of an unrefined solution, for other
      accelerations within a factor of about ten;
    - a refinement multiplies the error by it, down to that of articulated bodies: at 1e-4 or more
      one is not enough for 1e-8, and at 1 or more each increases the error: then use the solver
      ``oer``, which has about twice the levels, or aba.

    Warns with :class:`ConditionWarning` if ``eps condition`` is more than ``eps^(1/4)``, 1.2e-4 in
    double: refined once, the error is then more than ``eps^(1/2)``.

    Parameters
    ----------
    q : (nq,) or (B, nq) positions [rad | m].

    Returns
    -------
    condition : () or (B,), at least 1; infinite if the solution is NaN.

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
        others = " or ".join(repr(name) for name in ("oer", "ldl") if name != solver)
        warnings.warn(
            f"Constraint forces of the chain {chain.name!r} lose digits with the solver "
            f"{solver!r}: their relative error is about {worst:.0e} unrefined, and about the "
            f"square of {worst:.0e} refined once. Choose the solver {others}, or use aba.",
            ConditionWarning,
            stacklevel=2,
        )
    return at.shaped(numbers)


def complements(H: Array, dof: Array, length: Array) -> tuple[Array, Array]:
    """Return bases of the forces that do no work on motions H, and a mask of unused columns.

    Parameters
    ----------
    H : (n, 6, k); its columns after the first dof (n,) are zero.
    length : (n,) length that moments are divided by, to be comparable with forces [m]. Mixing both
        in SI units would lose the small ones: a factor of 100 in accuracy for links of a
        centimetre.

    Returns
    -------
    W : (n, 6, w), w the largest number of columns, at least 1; ``W^T H = 0`` in H's type.
    idle : (n, w, w) ones on the diagonal for zero columns.
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
    # Again in H's type, which may be wider than those of NumPy's linear algebra.
    scaled = np.asarray(scale, H.dtype) * H
    unused = np.eye(k, dtype=H.dtype) * (np.arange(k) >= dof[:, None])[:, :, None]
    along = solve_positive(transposed(scaled) @ scaled + unused, transposed(scaled) @ W)
    W = np.asarray(scale, H.dtype) * (W - scaled @ along)
    return W, np.eye(width, dtype=H.dtype) * ~used[:, :, None]


def radii(chain: Chain) -> Array:
    """Return the radii of gyration of the links about their frames, (n,) [m]; 1 if undefined."""
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
            f"I_X[{next(i for i, part in enumerate(metric) if _indefinite(part))}] is not positive "
            "definite: pass positive definite matrices, or None for identities."
        ) from None
    return metric


def _inverses(chain: Chain, IA: Array) -> Array:
    """Return the inverses of the links' inertias (B, n, 6, 6), which must exist."""
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
            f"no inverse in {IA.dtype}, which the constraint force algorithm needs: give the link "
            "mass and a rotational inertia about each axis, use a wider type or, for a free tip, "
            "use aba."
        )
    return solve_factored(L, d, np.eye(6, dtype=IA.dtype))


def _indefinite(IA: Array) -> bool:
    try:
        factorise(IA)
    except np.linalg.LinAlgError:
        return True
    return False
