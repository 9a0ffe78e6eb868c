"""Reverse-mode rules as data: gradients as products with results of other functions.

A term is one line, a sum over repeated indices as in Einstein's convention. The first factor is the
cotangent of a result; the others are arrays, named

- ``qd``: an input of the row, or a result of it, of the same request,
- ``slopes.M``: the result ``M`` of the call ``slopes``,
- ``angular``: a constant (:data:`CONSTANTS`).

``q[k] = 0.5 kinetic[] qd[j] moving.dtau_dq[jk]`` adds to the gradient with respect to q half the
product of the cotangent of ``kinetic``, the rates and the matrix. Gradients with respect to q are
in the tangent space; so are cotangents of positions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

ZERO, UNIT, STEP = "0", "unit", "+unit"

_FACTOR = re.compile(r"([\w.]+)\[(\w*)\]")
_LINE = re.compile(r"(\w+)\[(\w*)\] = (?:(-?[\d.]+) )?(.*)")

CONSTANTS = frozenset(
    [
        *("angular", "linear", "cross", "turn", "swing", "bracket", "before", "after"),
        *("first", "last", "per_mass", "ones"),
    ]
)
"""Names of constants, which :class:`.gradients.Differentiable` computes for a robot."""


@dataclass(frozen=True)
class Call:
    """A call of a function whose results a gradient needs.

    Members
    -------
    row : its name.
    at : where its inputs come from, if not from the array of the same name: another array,
        ``0``, ``unit`` for each unit vector, or ``+unit`` for the input plus each unit vector.
        The results of a call with unit vectors have an axis for them before the others.
    """

    row: str
    at: Mapping[str, str] = field(default_factory=dict)

    @property
    def units(self) -> str | None:
        """The input that receives unit vectors, if there is one."""
        return next((name for name, source in self.at.items() if source in (UNIT, STEP)), None)


@dataclass(frozen=True)
class GradientTerm:
    """A product that is added to the gradient with respect to an input.

    Members
    -------
    of, by : the result whose cotangent is multiplied, and the input.
    arrays : the other factors.
    spec : indices as for ``einsum``, after any axes of the batch.
    factor : number that the product is multiplied by.
    """

    of: str
    by: str
    arrays: tuple[str, ...]
    spec: str
    factor: float

    @classmethod
    def parsed(cls, line: str) -> GradientTerm:
        """Parse a line into a term."""
        match = _LINE.fullmatch(line)
        assert match is not None, line
        by, by_indices, factor, product = match.groups()
        (of, *arrays), indices = zip(*_FACTOR.findall(product), strict=True)
        spec = ",".join("..." + i for i in indices) + "->..." + by_indices
        return cls(of, by, tuple(arrays), spec, float(factor or 1.0))


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The vector-Jacobian product of a function.

    Members
    -------
    lines : its terms.
    calls : rows that the terms use, each after those that it depends on.
    value : results of the row that a call computes along with its own.
    affine : results that are affine in every single parameter, with their indices: two terms each.
    zero : pairs of a result and an input on which it does not depend.
    results : results that are returned unless others are requested; () for all but optional ones.
    """

    lines: tuple[str, ...]
    calls: Mapping[str, Call] = field(default_factory=dict)
    value: Mapping[str, str] = field(default_factory=dict)
    affine: tuple[str, ...] = ()
    zero: tuple[tuple[str, str], ...] = ()
    results: tuple[str, ...] = ()

    @cached_property
    def terms(self) -> tuple[GradientTerm, ...]:
        """All terms, with two for each affine result."""
        lines = list(self.lines)
        for text in self.affine:
            ((name, indices),) = _FACTOR.findall(text)
            lines += (
                f"parameters[p] = {text} stepped.{name}[p{indices}]",
                f"parameters[p] = -1 {text} {text} ones[p]",
            )
        return tuple(GradientTerm.parsed(line) for line in lines)


_REST = Call("rnea_derivatives", {"qd": ZERO, "qdd": ZERO})
_EACH_COLUMN = Call("rnea_derivatives", {"qd": ZERO, "qdd": UNIT})
_STEADY = Call("rnea_derivatives", {"qdd": ZERO})

# ``ab`` are indices of R; the tip turns with the angular part of its Jacobian in base axes.
_R_BY_Q = "q[k] = R[ab] cross[acd] R[db] angular[ce] {}[ek]"
_P_BY_Q = "q[k] = p[a] linear[ae] {}[ek]"


def _stepped(row: str) -> dict[str, Call]:
    """Return the call of an affine function with each parameter in turn increased by one unit."""
    return {"stepped": Call(row, {"parameters": STEP})}


def _step(**calls: Call) -> Rule:
    return Rule(
        lines=(
            "q[k] = q_next[i] first[ia] A[ab] first[kb]",
            "q[k] = qd_next[i] last[ia] A[ab] first[kb]",
            "qd[k] = q_next[i] first[ia] A[ab] last[kb]",
            "qd[k] = qd_next[i] last[ia] A[ab] last[kb]",
            "tau[k] = q_next[i] first[ia] B[ak]",
            "tau[k] = qd_next[i] last[ia] B[ak]",
            *(_STEP_LINES if calls else ()),
        ),
        calls=calls,
        zero=(("B", "qd"), ("B", "tau")) if calls else (),
        results=("q_next", "qd_next"),
    )


_STEP_LINES = (
    # A parameter acts as the efforts do that it takes.
    "parameters[p] = -1 q_next[i] first[ia] B[aj] stepped.tau[pj]",
    "parameters[p] = q_next[i] first[ia] B[aj] tau[j] ones[p]",
    "parameters[p] = -1 qd_next[i] last[ia] B[aj] stepped.tau[pj]",
    "parameters[p] = qd_next[i] last[ia] B[aj] tau[j] ones[p]",
    "q[k] = A[ab] first[jb] hessian.S_q_q[ajk]",
    "q[k] = A[ab] last[jb] hessian.S_q_qd[akj]",
    "q[k] = B[aj] hessian.S_q_tau[akj]",
    "qd[k] = A[ab] first[jb] hessian.S_q_qd[ajk]",
    "qd[k] = A[ab] last[jb] hessian.S_qd_qd[ajk]",
    "tau[k] = A[ab] first[jb] hessian.S_q_tau[ajk]",
)

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "rnea": Rule(
            lines=(
                "q[k] = tau[i] slopes.dtau_dq[ik]",
                "qd[k] = tau[i] slopes.dtau_dqd[ik]",
                "qdd[k] = tau[i] inertia.M[ik]",
            ),
            calls={
                "slopes": Call("rnea_derivatives"),
                "inertia": Call("crba"),
                **_stepped("rnea"),
            },
            affine=("tau[i]",),
        ),
        "rnea_derivatives": Rule(
            lines=(
                "q[k] = dtau_dq[ij] hessian.H_q_q[ijk]",
                "q[k] = dtau_dqd[ij] hessian.H_q_qd[ikj]",
                "qd[k] = dtau_dq[ij] hessian.H_q_qd[ijk]",
                "qd[k] = dtau_dqd[ij] hessian.H_qd_qd[ijk]",
                "qdd[k] = dtau_dq[ij] hessian.H_q_qdd[ijk]",
            ),
            calls={
                "hessian": Call("rnea_second_derivatives", {"weights": UNIT}),
                **_stepped("rnea_derivatives"),
            },
            affine=("dtau_dq[ij]", "dtau_dqd[ij]"),
            zero=(("dtau_dqd", "qdd"),),
        ),
        "crba": Rule(
            lines=(
                "q[k] = M[ij] columns.dtau_dq[jik]",
                "q[k] = -1 M[ij] rest.dtau_dq[ik]",
            ),
            calls={"columns": _EACH_COLUMN, "rest": _REST, **_stepped("crba")},
            affine=("M[ij]",),
        ),
        "minv": Rule(
            lines=(
                "q[k] = -1 minv[ij] minv[ia] minv[jb] columns.dtau_dq[bak]",
                "q[k] = minv[ij] minv[ia] minv[jb] rest.dtau_dq[ak]",
                "parameters[p] = -1 minv[ij] minv[ia] minv[jb] stepped.M[pab]",
                "parameters[p] = minv[ij] minv[ij] ones[p]",
            ),
            calls={"columns": _EACH_COLUMN, "rest": _REST, **_stepped("crba")},
        ),
        "aba": Rule(
            lines=(
                "q[k] = qdd[i] slopes.dqdd_dq[ik]",
                "qd[k] = qdd[i] slopes.dqdd_dqd[ik]",
                "tau[k] = qdd[i] slopes.minv[ik]",
                "parameters[p] = -1 qdd[i] slopes.minv[ij] stepped.tau[pj]",
                "parameters[p] = qdd[i] slopes.minv[ij] tau[j] ones[p]",
            ),
            calls={"slopes": Call("fd_derivatives"), **_stepped("rnea")},
            value={"qdd": "slopes.qdd"},
        ),
        "constraint_dynamics": Rule(
            lines=(
                "q[k] = qdd[i] slopes.dqdd_dq[ik]",
                "q[k] = force[c] slopes.dforce_dq[ck]",
                "qd[k] = qdd[i] slopes.dqdd_dqd[ik]",
                "qd[k] = force[c] slopes.dforce_dqd[ck]",
                "tau[k] = qdd[i] slopes.dqdd_dtau[ik]",
                "tau[k] = force[c] slopes.dforce_dtau[ck]",
            ),
            calls={"slopes": Call("constraint_dynamics_derivatives")},
            value={"qdd": "slopes.qdd", "force": "slopes.force"},
        ),
        "impulse_dynamics": Rule(
            lines=(
                "q[k] = qd_after[i] slopes.dqd_after_dq[ik]",
                "q[k] = impulse[c] slopes.dimpulse_dq[ck]",
                "qd[k] = qd_after[i] slopes.dqd_after_dqd[ik]",
                "qd[k] = impulse[c] slopes.dimpulse_dqd[ck]",
            ),
            calls={"slopes": Call("impulse_dynamics_derivatives")},
            value={"qd_after": "slopes.qd_after", "impulse": "slopes.impulse"},
        ),
        "fd_derivatives": Rule(
            lines=(
                "q[k] = qdd[i] dqdd_dq[ik]",
                "qd[k] = qdd[i] dqdd_dqd[ik]",
                "tau[k] = qdd[i] inverse.minv[ik]",
                "q[k] = dqdd_dq[ij] hessian.F_q_q[ijk]",
                "q[k] = dqdd_dqd[ij] hessian.F_q_qd[ikj]",
                "q[k] = minv[ij] hessian.F_q_tau[ikj]",
                "qd[k] = dqdd_dq[ij] hessian.F_q_qd[ijk]",
                "qd[k] = dqdd_dqd[ij] hessian.F_qd_qd[ijk]",
                "tau[k] = dqdd_dq[ij] hessian.F_q_tau[ijk]",
            ),
            calls={
                "inverse": Call("minv"),
                "hessian": Call("fd_second_derivatives", {"weights": UNIT}),
            },
            zero=(("dqdd_dqd", "tau"), ("minv", "qd"), ("minv", "tau")),
        ),
        "forward_kinematics": Rule(
            lines=(_R_BY_Q.format("tip.J"), _P_BY_Q.format("tip.J")),
            calls={"tip": Call("frame_jacobian")},
        ),
        "frame_jacobian": Rule(
            lines=(
                "q[k] = J[aj] turn[abc] J[cj] J[bk] before[kj]",
                "q[k] = J[aj] swing[abc] J[cj] J[bk] after[kj]",
                _R_BY_Q.format("J"),
                _P_BY_Q.format("J"),
            ),
        ),
        "frame_jacobian_local": Rule(
            lines=(
                "q[k] = -1 J[aj] bracket[abc] J[cj] J[bk] after[kj]",
                "q[k] = R[ab] pose.R[ad] cross[dcb] angular[ce] J[ek]",
                "q[k] = p[a] pose.R[ad] linear[de] J[ek]",
            ),
            calls={"pose": Call("forward_kinematics")},
        ),
        "frame_jacobian_world": Rule(
            lines=(
                "q[k] = J[aj] bracket[abc] J[cj] J[bk] before[kj]",
                _R_BY_Q.format("J"),
                _P_BY_Q.format("J"),
                "q[k] = p[a] cross[acd] p[d] angular[ce] J[ek]",
            ),
        ),
        "centre_of_mass": Rule(
            lines=("q[k] = com[a] slopes.J_com[ak]",),
            calls={"slopes": Call("com_jacobian")},
        ),
        "com_jacobian": Rule(
            lines=(
                "q[k] = J_com[cj] linear[ca] columns.dh_dq[jak] per_mass[]",
                "q[k] = com[a] J_com[ak]",
            ),
            calls={"columns": Call("centroidal_derivatives", {"qd": UNIT, "qdd": ZERO})},
        ),
        "kinetic_energy": Rule(
            lines=(
                "q[k] = 0.5 kinetic[] qd[j] moving.dtau_dq[jk]",
                "q[k] = -0.5 kinetic[] qd[j] rest.dtau_dq[jk]",
                "qd[k] = kinetic[] qd[j] inertia.M[jk]",
            ),
            calls={
                "moving": Call("rnea_derivatives", {"qd": ZERO, "qdd": "qd"}),
                "rest": _REST,
                "inertia": Call("crba"),
                **_stepped("kinetic_energy"),
            },
            affine=("kinetic[]",),
        ),
        "potential_energy": Rule(
            lines=("q[k] = potential[] slopes.g[k]",),
            calls={"slopes": Call("gravity"), **_stepped("potential_energy")},
            affine=("potential[]",),
        ),
        "gravity": Rule(
            lines=("q[k] = g[i] rest.dtau_dq[ik]",),
            calls={"rest": _REST, **_stepped("gravity")},
            affine=("g[i]",),
        ),
        "coriolis": Rule(
            lines=(
                "q[k] = c[i] steady.dtau_dq[ik]",
                "q[k] = -1 c[i] rest.dtau_dq[ik]",
                "qd[k] = c[i] steady.dtau_dqd[ik]",
            ),
            calls={"steady": _STEADY, "rest": _REST, **_stepped("coriolis")},
            affine=("c[i]",),
        ),
        "bias": Rule(
            lines=(
                "q[k] = h[i] steady.dtau_dq[ik]",
                "qd[k] = h[i] steady.dtau_dqd[ik]",
            ),
            calls={"steady": _STEADY, **_stepped("bias")},
            affine=("h[i]",),
        ),
        "euler_step": _step(
            forward=Call("aba"),
            stepped=Call("rnea", {"qdd": "forward.qdd", "parameters": STEP}),
            hessian=Call("step_second_derivatives", {"value": UNIT}),
        ),
        "rk4_step": _step(),
        "centroidal_momentum": Rule(
            lines=(
                "q[k] = h_G[a] slopes.dh_dq[ak]",
                "q[k] = A_G[aj] columns.dh_dq[jak]",
                "qd[k] = h_G[a] A_G[ak]",
            ),
            calls={
                "slopes": Call("centroidal_derivatives", {"qdd": ZERO}),
                "columns": Call("centroidal_derivatives", {"qd": UNIT, "qdd": ZERO}),
            },
            zero=(("A_G", "qd"),),
        ),
        "centroidal_rate": Rule(
            lines=(
                "q[k] = drift_G[a] slopes.dhdot_dq[ak]",
                "qd[k] = drift_G[a] slopes.dhdot_dqd[ak]",
            ),
            calls={"slopes": Call("centroidal_derivatives", {"qdd": ZERO})},
        ),
    }
)
"""Rows with reverse mode."""

_SECOND = "there is no function for its derivatives; differentiate '{}' once: that uses it"
_THIRD = "there is no function for third derivatives; differentiate '{}' twice: that uses it"
_TIP = "J.T @ f, with J from 'frame_jacobian', which has a gradient"
_MOBILITY = "compute {} from 'frame_jacobian' and 'minv', which have gradients"
_BY_Q = "the derivative of J with respect to q along qd"
_MOTION = "use J of 'frame_jacobian', which has gradients: {}"
_PARAMETERS = "use '{}' with parameters; it has gradients with respect to them too"

WITHOUT: Mapping[str, str] = MappingProxyType(
    {
        "fd_derivatives_from_minv": "use 'fd_derivatives', which needs no inverse inertia",
        "rnea_fext": f"for a wrench f at the tip, use 'rnea' minus {_TIP}",
        "aba_fext": f"for a wrench f at the tip, use 'aba' with tau plus {_TIP}",
        "operational_space_inertia": _MOBILITY.format("inv(J @ minv @ J.T + damping * eye(6))"),
        "inverse_operational_space_inertia": _MOBILITY.format("J @ minv @ J.T"),
        "rnea_second_derivatives": _THIRD.format("rnea"),
        "fd_second_derivatives": _THIRD.format("aba"),
        "step_second_derivatives": _THIRD.format("euler_step"),
        "frame_velocity": _MOTION.format("J @ qd"),
        "frame_acceleration": _MOTION.format(f"J @ qdd plus {_BY_Q}, times qd"),
        "frame_classical_acceleration": _MOTION.format(
            f"J @ qdd plus {_BY_Q}, times qd, plus angular cross linear velocity"
        ),
        "frame_drift": _MOTION.format(f"{_BY_Q}, times qd"),
        "frame_jacobian_rate": _MOTION.format(_BY_Q),
        "constraint_dynamics_derivatives": _SECOND.format("constraint_dynamics"),
        "impulse_dynamics_derivatives": _SECOND.format("impulse_dynamics"),
        "contact_acceleration": (
            "its results J_contacts, dacceleration_dq and dacceleration_dqd are its gradient; "
            "'constraint_dynamics', which keeps the contact acceleration at zero, has a gradient"
        ),
        "rnea_regressor": _PARAMETERS.format("rnea"),
        "gravity_regressor": _PARAMETERS.format("gravity"),
        "kinetic_energy_regressor": _PARAMETERS.format("kinetic_energy"),
        "potential_energy_regressor": _PARAMETERS.format("potential_energy"),
        "fd_parameter_derivatives": _PARAMETERS.format("aba"),
        "centroidal_derivatives": (
            "use 'centroidal_momentum' and 'centroidal_rate', whose gradients it contains"
        ),
    }
)
"""Rows without reverse mode, and what can be used instead."""
