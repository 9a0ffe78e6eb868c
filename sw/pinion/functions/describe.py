"""The tables of ``docs/functions.md``, rendered from the table of functions.

``python -m pinion.functions.describe docs/functions.md`` writes them between their markers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from pinion.base.pages import PageError, Tables, markdown_table, write_tables

from .blocks import Block, Quantity, Uniform
from .row import Function
from .samples import FORCE_LEVER, FORCE_SHARE, QDD_RANGE
from .table import FUNCTIONS

T = TypeVar("T")


@dataclass(frozen=True)
class Note:
    """Text about a function for the page, in addition to its row.

    Members
    -------
    pinocchio : its name in Pinocchio.
    source : source of the algorithm.
    """

    pinocchio: str
    source: str


_RBDA = "Featherstone 2008"
_JACOBIAN = f"{_RBDA}, section 2.4 and chapter 4"
_MOTION = f"{_RBDA}, chapter 2"
_GRADIENTS = "Singh, Russell, Wensing 2022"
_CENTROIDAL = "Orin, Goswami, Lee 2013"
_REGRESSOR = "Atkeson, An, Hollerbach 1986"
_CONTACTS = "Carpentier, Budhiraja, Mansard 2021"
_NEWTON_EULER = "Plancher et al. 2021, algorithm 1"

NOTES: Mapping[str, Note] = MappingProxyType(
    {
        "rnea": Note("rnea", _NEWTON_EULER),
        "rnea_derivatives": Note("computeRNEADerivatives", _GRADIENTS),
        "crba": Note("crba", f"{_RBDA}, chapter 6"),
        "minv": Note("computeMinverse", f"{_RBDA}, section 6.5"),
        "aba": Note("aba", f"{_RBDA}, chapter 7"),
        "fd_derivatives": Note("computeABADerivatives", "Plancher et al. 2021, algorithm 3"),
        "fd_derivatives_from_minv": Note("", "Plancher et al. 2021, algorithm 3"),
        "rnea_fext": Note("rnea(..., fext)", _NEWTON_EULER),
        "aba_fext": Note("aba(..., fext)", f"{_RBDA}, chapter 7"),
        "forward_kinematics": Note("framesForwardKinematics, data.oMf", _JACOBIAN),
        "frame_jacobian": Note("getFrameJacobian, LOCAL_WORLD_ALIGNED", _JACOBIAN),
        "frame_jacobian_local": Note("getFrameJacobian, LOCAL", _JACOBIAN),
        "frame_jacobian_world": Note("getFrameJacobian, WORLD", _JACOBIAN),
        "frame_velocity": Note("getFrameVelocity", _MOTION),
        "frame_acceleration": Note("getFrameAcceleration", _MOTION),
        "frame_classical_acceleration": Note("getFrameClassicalAcceleration", _MOTION),
        "frame_drift": Note("getFrameJacobianTimeVariation times qd", _MOTION),
        "frame_jacobian_rate": Note("getFrameJacobianTimeVariation", _MOTION),
        "centre_of_mass": Note("centerOfMass", f"{_RBDA}, chapter 6"),
        "com_jacobian": Note("jacobianCenterOfMass", f"{_RBDA}, chapter 6"),
        "kinetic_energy": Note("computeKineticEnergy", f"{_RBDA}, section 2.13"),
        "potential_energy": Note("computePotentialEnergy", f"{_RBDA}, chapter 6"),
        "gravity": Note("computeGeneralizedGravity", f"{_RBDA}, chapter 6"),
        "coriolis": Note("computeCoriolisMatrix times qd", f"{_RBDA}, chapter 6"),
        "bias": Note("nonLinearEffects", f"{_RBDA}, chapter 6"),
        "operational_space_inertia": Note("", "Khatib 1987; Nakamura, Hanafusa 1986"),
        "inverse_operational_space_inertia": Note("", "Khatib 1987"),
        "euler_step": Note("", "semi-implicit Euler over fd_derivatives"),
        "rk4_step": Note("", "Munthe-Kaas 1999 over fd_derivatives"),
        "rnea_second_derivatives": Note(
            "ComputeRNEASecondOrderDerivatives (C++ alone), contracted",
            "Nganga, Wensing 2021; Singh, Russell, Wensing 2023",
        ),
        "fd_second_derivatives": Note("", "implicit differentiation of rnea_second_derivatives"),
        "centroidal_momentum": Note("computeCentroidalMomentum, computeCentroidalMap", _CENTROIDAL),
        "centroidal_rate": Note("computeCentroidalMomentumTimeVariation at qdd = 0", _CENTROIDAL),
        "centroidal_derivatives": Note("computeCentroidalDynamicsDerivatives", _GRADIENTS),
        "step_second_derivatives": Note("", "fd_second_derivatives over euler_step"),
        "rnea_regressor": Note("computeJointTorqueRegressor", _REGRESSOR),
        "gravity_regressor": Note("computeJointTorqueRegressor at rest", _REGRESSOR),
        "kinetic_energy_regressor": Note("computeKineticEnergyRegressor", _REGRESSOR),
        "potential_energy_regressor": Note("computePotentialEnergyRegressor", _REGRESSOR),
        "constraint_dynamics": Note("constraintDynamics", _CONTACTS),
        "constraint_dynamics_derivatives": Note("computeConstraintDynamicsDerivatives", _CONTACTS),
        "impulse_dynamics": Note("impulseDynamics", f"{_RBDA}, section 11.7"),
        "impulse_dynamics_derivatives": Note("computeImpulseDynamicsDerivatives", _CONTACTS),
        "contact_acceleration": Note("getFrameAccelerationDerivatives", _GRADIENTS),
        "fd_parameter_derivatives": Note("", "implicit differentiation of rnea_regressor"),
    }
)
"""Notes by row."""

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "q": "positions, in Pinocchio's order within a joint",
        "qd": "rates",
        "qdd": "accelerations",
        "tau": "efforts",
        "minv": "inverse of the joint-space inertia matrix",
        "M": "joint-space inertia matrix",
        "dtau_dq": "derivative of tau by q, or by its tangent if q is not a vector",
        "dtau_dqd": "derivative of tau by qd",
        "dqdd_dq": "derivative of qdd by q, or by its tangent if q is not a vector",
        "dqdd_dqd": "derivative of qdd by qd",
        "fext": "[moment; force] on each moving link, about its frame's origin in its axes",
        "R": "rotation from the tip's coordinates to the base's",
        "p": "the tip's origin in the base",
        "J": "[angular; linear] velocity of the tip per qd",
        "v": "[angular; linear] velocity of the tip",
        "a": "[angular; linear] spatial acceleration of the tip, without gravity",
        "a_classical": "[angular; linear] classical acceleration of the tip, without gravity",
        "drift": "[angular; linear] acceleration of the tip at zero qdd: rate of J qd less J qdd",
        "Jdot": "rate of J at these qd",
        "com": "centre of mass in the base",
        "J_com": "velocity of the centre of mass per qd, base axes",
        "kinetic": "kinetic energy",
        "potential": "potential energy",
        "g": "generalised gravity",
        "c": "Coriolis and centrifugal efforts",
        "h": "efforts at zero acceleration",
        "Lambda": "inertia of the tip, [angular; linear], base axes",
        "Lambda_inverse": "acceleration of the tip per wrench at it, [angular; linear], base axes",
        "damping": "addition to the diagonal of J M^-1 J^T; 0 for none",
        "dt": "length of the step",
        "q_next": "positions after the step, angles not wrapped",
        "qd_next": "rates after the step",
        "A": "derivative of [q_next; qd_next] by [q; qd]",
        "B": "derivative of [q_next; qd_next] by tau",
        "weights": "factors of efforts, or accelerations, in the sum that is differentiated",
        "H_q_q": "second derivative of weights^T tau by q twice",
        "H_q_qd": "the same by q, then by qd",
        "H_qd_qd": "the same by qd twice",
        "H_q_qdd": "the same by q, then by qdd: derivative of M weights by q, transposed",
        "F_q_q": "second derivative of weights^T qdd by q twice",
        "F_q_qd": "the same by q, then by qd",
        "F_qd_qd": "the same by qd twice",
        "F_q_tau": "the same by q, then by tau: derivative of M^-1 weights by q, transposed",
        "value": "gradient of the next value by [q_next; qd_next]",
        "S_q_q": "second derivative of value^T [q_next; qd_next] by q twice",
        "S_q_qd": "the same by q, then by qd",
        "S_qd_qd": "the same by qd twice",
        "S_q_tau": "the same by q, then by tau",
        "h_G": "[angular; linear] momentum about the centre of mass, base axes",
        "A_G": "derivative of h_G by qd",
        "drift_G": "rate of h_G at zero acceleration",
        "dh_dq": "derivative of the centroidal momentum by q",
        "dhdot_dq": "derivative of its rate by q",
        "dhdot_dqd": "derivative of its rate by qd",
        "dhdot_dqdd": "derivative of its rate by qdd, A_G",
        "Y": "efforts per m, h, I of each body, ten columns in Pinocchio's order",
        "Y_armature": "efforts per armature of each joint",
        "Y_damping": "efforts per damping of each joint",
        "Y_friction": "efforts per dry friction of each joint, with the default width",
        "G": "generalised gravity per m, h, I of each body",
        "y_kinetic": "kinetic energy per m, h, I of each body",
        "y_potential": "potential energy per m, h, I of each body",
        "active": "for each contact, in the robot's order, whether it is on the ground",
        "force": "of the ground on each contact, in the contacts' axes: a face's moment first",
        "dqdd_dtau": "derivative of qdd by tau",
        "dforce_dq": "derivative of the contact forces by q, or by its tangent",
        "dforce_dqd": "derivative of the contact forces by qd",
        "dforce_dtau": "derivative of the contact forces by tau",
        "restitution": "fraction of a contact's speed with which it leaves what it hit",
        "qd_after": "rates after the impact",
        "impulse": "of the ground on each contact, in the contacts' axes: a face's moment first",
        "dqd_after_dq": "derivative of qd_after by q, or by its tangent",
        "dqd_after_dqd": "derivative of qd_after by qd",
        "dimpulse_dq": "derivative of the impulses by q, or by its tangent",
        "dimpulse_dqd": "derivative of the impulses by qd",
        "acceleration": (
            "of each contact in its axes: classical for points, spatial [angular; linear] for faces"
        ),
        "J_contacts": "derivative of the contacts' accelerations by qdd",
        "dacceleration_dq": "derivative of the contacts' accelerations by q, or by its tangent",
        "dacceleration_dqd": "derivative of the contacts' accelerations by qd",
        "dqdd_dpi": "derivative of qdd by m, h, I of each body",
    }
)
"""Meanings by array."""

DRAWS: Mapping[Quantity, str] = MappingProxyType(
    {
        Quantity.POSITION: "uniform within the joints' limits",
        Quantity.VELOCITY: "uniform within the rated speeds",
        Quantity.ACCELERATION: f"uniform within {QDD_RANGE:g}",
        Quantity.EFFORT: "efforts of the sampled motion",
        Quantity.INVERSE_INERTIA: "inverse inertia at the sampled positions",
        Quantity.EXTERNAL_FORCE: (
            f"each component within {FORCE_SHARE:.0%} of the robot's weight, moments on a lever of "
            f"{FORCE_LEVER:g} m"
        ),
        Quantity.CONTACT_MASK: "0 or 1, equally likely",
        Quantity.CONTACT_EFFORT: (
            "efforts of joints for the sampled motion while the contacts carry the robot's weight"
        ),
    }
)
"""How the reference distribution samples each quantity."""


def function_table() -> str:
    """Render the inputs, results and source of each function as a Markdown table."""
    rows = [
        (
            f"`{row.name}`",
            row.doc,
            _names(row.inputs),
            _results(row),
            "yes" if row.passive else "no",
            _of(NOTES, row.name, "NOTES").pinocchio or "-",
            _of(NOTES, row.name, "NOTES").source,
        )
        for row in FUNCTIONS.values()
    ]
    heads = ("function", "what", "takes", "gives", "joint terms", "Pinocchio", "source")
    return markdown_table(heads, rows)


def array_table() -> str:
    """Render the meaning, shape, unit and sampling of each array as a Markdown table."""
    blocks: dict[str, list[Block]] = {}
    for row in FUNCTIONS.values():
        for b in (*row.outputs, *row.inputs):
            blocks.setdefault(b.name, []).append(b)
    rows = [
        (
            f"`{name}`",
            _shape(same[0]),
            same[0].unit.replace(" | ", " or "),
            _of(MEANINGS, name, "MEANINGS"),
            "; or ".join(dict.fromkeys(_drawn(b) for b in same if b.sampling is not None)) or "-",
        )
        for name, same in blocks.items()
    ]
    return markdown_table(("array", "shape", "unit", "what", "sampled"), rows)


TABLES: Tables = {"functions": function_table, "arrays": array_table}
"""Tables of the page."""


def _of(words: Mapping[str, T], name: str, where: str) -> T:
    """Return the page's text about a function or an array; raise PageError if it is missing."""
    if name not in words:
        raise PageError(
            f"'{name}' has no text for the page: add a line to {where} in "
            "sw/pinion/functions/describe.py."
        )
    return words[name]


def _names(blocks: Sequence[Block]) -> str:
    return ", ".join(f"`{block.name}`" for block in blocks)


def _results(row: Function) -> str:
    extras = [block for block in row.outputs if block.name in row.optional]
    extra = f"; on request {_names(extras)}" if extras else ""
    return _names(row.results) + extra


def _shape(block: Block) -> str:
    if not block.shape:
        return "a number"
    axes = ", ".join(map(str, block.shape)) + ("," if len(block.shape) == 1 else "")
    return f"({axes})" + (", symmetric" if block.symmetric else "")


def _drawn(block: Block) -> str:
    if isinstance(block.sampling, Quantity):
        return DRAWS[block.sampling]
    if isinstance(block.sampling, Uniform):
        return f"uniform between {block.sampling.low:g} and {block.sampling.high:g}"
    return "by its own rule"


if __name__ == "__main__":
    sys.exit(write_tables(sys.argv[1:], TABLES))
