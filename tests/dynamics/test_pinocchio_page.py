"""The page of Pinocchio's names: each exists, ours are there, and both compute the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.functions import FUNCTIONS
from pinion.robot import load, urdf_text, with_contacts
from tests.dynamics.test_constraints import of_pinocchio

Array = NDArray[np.float64]

PAGE = Path(__file__).resolve().parents[2] / "docs/pinocchio.md"
TIP = "iiwa_link_7"
SAME = 1e-10


def rows(table: str, text: str | None = None) -> list[list[str]]:
    """Return the cells of the rows of a table between markers."""
    text = PAGE.read_text() if text is None else text
    match = re.search(rf"<!-- table: {table} -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert match, f"the page has no table {table!r}"
    lines = match[1].strip().splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def missing_theirs(name: str) -> bool:
    """Return whether Pinocchio lacks a name: a function, `model.nq`, `data.tau`."""
    model = pin.buildModelFromXML(urdf_text("two_link"))
    holders = {"model": model, "data": model.createData()}
    holder, _, field = name.rpartition(".")
    return not hasattr(holders.get(holder, pin), field)


def missing_ours(name: str) -> bool:
    """Return whether a name is no module, member of one, field of a class in one, or composed row.

    A row of the table of functions that composes others has no function in `pinion.dynamics`, so
    the page lists the name of the row.
    """
    if name in FUNCTIONS:
        return FUNCTIONS[name].floats is not None
    module, members = name, ""
    while module:
        try:
            holder = import_module(module)
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            members = f"{last}.{members}" if members else last
            continue
        for part in filter(None, members.split(".")):
            if not hasattr(holder, part):
                return part not in getattr(holder, "__dataclass_fields__", {})
            holder = getattr(holder, part)
        return False
    return True


@dataclass(frozen=True)
class State:
    """A state of the iiwa14 in both libraries."""

    theirs: pin.Model
    data: pin.Data
    q: Array
    v: Array
    a: Array
    tau: Array

    @property
    def frame(self) -> int:
        return int(self.theirs.getFrameId(TIP))


Pair = tuple[object, object]
OURS = load("iiwa14")
EXCHANGED = [3, 4, 5, 0, 1, 2]


def symmetric(filled: Array) -> Array:
    """Return a symmetric matrix of which Pinocchio may have filled only the upper triangle."""
    return np.triu(filled) + np.triu(filled, 1).T


def rnea_gradient(s: State) -> Pair:
    pin.computeRNEADerivatives(s.theirs, s.data, s.q, s.v, s.a)
    ours = dynamics.rnea_derivatives(OURS, s.q, s.v, s.a)
    return np.array(ours), np.array([s.data.dtau_dq, s.data.dtau_dv])


def aba_gradient(s: State) -> Pair:
    # The third result is not data.ddq_dtau, which Pinocchio 4.1 leaves at zero in Python.
    by_q, by_v, by_tau = pin.computeABADerivatives(s.theirs, s.data, s.q, s.v, s.tau)
    forward = dynamics.fd_derivatives(OURS, s.q, s.v, s.tau)
    minv = dynamics.minv(OURS, s.q)
    ours = np.concatenate([forward.qdd, *forward.dqdd_dq, *forward.dqdd_dqd, *minv])
    return ours, np.concatenate([s.data.ddq, *by_q, *by_v, *by_tau])


def placement(s: State) -> Pair:
    pin.framesForwardKinematics(s.theirs, s.data, s.q)
    R, p = dynamics.frame_placement(OURS, s.q, TIP)
    theirs = s.data.oMf[s.frame]
    return np.column_stack([R, p]), np.column_stack([theirs.rotation, theirs.translation])


def jacobian(s: State) -> Pair:
    kind = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
    theirs = pin.computeFrameJacobian(s.theirs, s.data, s.q, s.frame, kind)
    ours = dynamics.frame_jacobian(OURS, s.q, TIP, reference="local_world_aligned")
    return ours, theirs[EXCHANGED]


def velocity(s: State) -> Pair:
    pin.forwardKinematics(s.theirs, s.data, s.q, s.v)
    theirs = pin.getFrameVelocity(s.theirs, s.data, s.frame, pin.ReferenceFrame.LOCAL).vector
    ours = dynamics.frame_velocity(OURS, s.q, s.v, TIP, reference="local")
    return np.concatenate([np.ravel(part) for part in ours]), theirs[EXCHANGED]


def in_contact(s: State) -> Pair:
    data, peers, datas = of_pinocchio(s.theirs, [(TIP, np.zeros(3), 3)], "local")
    exact = pin.ProximalSettings(1e-14, 0.0, 1)
    theirs = pin.constraintDynamics(s.theirs, data, s.q, s.v, s.tau, peers, datas, exact)
    ours = dynamics.constraint_dynamics(with_contacts(OURS, [TIP]), s.q, s.v, s.tau)
    return np.concatenate(ours), np.concatenate([theirs, data.lambda_c])


def impact(s: State) -> Pair:
    data, peers, datas = of_pinocchio(s.theirs, [(TIP, np.zeros(3), 3)], "local")
    exact = pin.ProximalSettings(1e-14, 0.0, 1)
    theirs = pin.impulseDynamics(s.theirs, data, s.q, s.v, peers, datas, 0.2, exact)
    ours = dynamics.impulse_dynamics(with_contacts(OURS, [TIP]), s.q, s.v, restitution=0.2)
    return np.concatenate(ours), np.concatenate([theirs, data.impulse_c])


def mass_matrix(s: State) -> Pair:
    return dynamics.crba(OURS, s.q), symmetric(pin.crba(s.theirs, s.data, s.q))


def inverse(s: State) -> Pair:
    return dynamics.minv(OURS, s.q), symmetric(pin.computeMinverse(s.theirs, s.data, s.q))


COMPARED: Mapping[str, Callable[[State], Pair]] = {
    "rnea": lambda s: (
        dynamics.rnea(OURS, s.q, s.v, s.a),
        pin.rnea(s.theirs, s.data, s.q, s.v, s.a),
    ),
    "aba": lambda s: (
        dynamics.aba(OURS, s.q, s.v, s.tau),
        pin.aba(s.theirs, s.data, s.q, s.v, s.tau),
    ),
    "constraintDynamics": in_contact,
    "impulseDynamics": impact,
    "crba": mass_matrix,
    "computeMinverse": inverse,
    "computeRNEADerivatives": rnea_gradient,
    "computeABADerivatives": aba_gradient,
    "nonLinearEffects": lambda s: (
        dynamics.bias(OURS, s.q, s.v),
        pin.nonLinearEffects(s.theirs, s.data, s.q, s.v),
    ),
    "computeGeneralizedGravity": lambda s: (
        dynamics.gravity(OURS, s.q),
        pin.computeGeneralizedGravity(s.theirs, s.data, s.q),
    ),
    "computeCoriolisMatrix": lambda s: (
        dynamics.coriolis(OURS, s.q, s.v),
        pin.computeCoriolisMatrix(s.theirs, s.data, s.q, s.v) @ s.v,
    ),
    "computeKineticEnergy": lambda s: (
        dynamics.kinetic_energy(OURS, s.q, s.v),
        pin.computeKineticEnergy(s.theirs, s.data, s.q, s.v),
    ),
    "computePotentialEnergy": lambda s: (
        dynamics.potential_energy(OURS, s.q),
        pin.computePotentialEnergy(s.theirs, s.data, s.q),
    ),
    "computeJointTorqueRegressor": lambda s: (
        dynamics.rnea_regressor(OURS, s.q, s.v, s.a),
        pin.computeJointTorqueRegressor(s.theirs, s.data, s.q, s.v, s.a),
    ),
    "computeKineticEnergyRegressor": lambda s: (
        dynamics.kinetic_energy_regressor(OURS, s.q, s.v),
        pin.computeKineticEnergyRegressor(s.theirs, s.data, s.q, s.v),
    ),
    "computePotentialEnergyRegressor": lambda s: (
        dynamics.potential_energy_regressor(OURS, s.q),
        pin.computePotentialEnergyRegressor(s.theirs, s.data, s.q),
    ),
    "computeCentroidalMap": lambda s: (
        dynamics.centroidal_momentum(OURS, s.q, s.v)[1],
        pin.computeCentroidalMap(s.theirs, s.data, s.q)[EXCHANGED],
    ),
    "centerOfMass": lambda s: (
        dynamics.centre_of_mass(OURS, s.q),
        pin.centerOfMass(s.theirs, s.data, s.q),
    ),
    "jacobianCenterOfMass": lambda s: (
        dynamics.com_jacobian(OURS, s.q),
        pin.jacobianCenterOfMass(s.theirs, s.data, s.q),
    ),
    "framesForwardKinematics": placement,
    "computeFrameJacobian": jacobian,
    "getFrameVelocity": velocity,
    "integrate": lambda s: (
        dynamics.integrate(OURS, s.q, s.v),
        pin.integrate(s.theirs, s.q, s.v),
    ),
    "difference": lambda s: (
        dynamics.difference(OURS, s.q, s.a),
        pin.difference(s.theirs, s.q, s.a),
    ),
    "neutral": lambda s: (dynamics.neutral_configuration(OURS), pin.neutral(s.theirs)),
}


def error(pair: Pair) -> float:
    """Return the largest difference relative to Pinocchio's largest entry; infinite for NaN."""
    ours, theirs = (np.asarray(side, dtype=float) for side in pair)
    assert ours.shape == theirs.shape
    largest = float(np.max(np.abs(ours - theirs)) / max(1.0, float(np.max(np.abs(theirs)))))
    return largest if largest == largest else np.inf


@pytest.fixture(scope="module")
def states() -> list[State]:
    theirs = pin.buildModelFromXML(urdf_text("iiwa14"))
    assert tuple(theirs.names)[1:] == OURS.joint_names
    samples = np.random.default_rng(22).uniform(-1.5, 1.5, (5, 3, 7))
    return [
        State(theirs, theirs.createData(), q, v, a, dynamics.rnea(OURS, q, v, a))
        for q, v, a in samples
    ]


def test_pinocchio_has_its_names() -> None:
    listed = [
        n for table in ("functions", "models", "data") for r in rows(table) for n in names(r[0])
    ]
    assert len(listed) > 50
    assert [name for name in listed if missing_theirs(name)] == []
    for unknown in ("rneaa", "data.dddq", "model.inertia"):
        assert missing_theirs(unknown)


def test_ours_import() -> None:
    listed = [n for table in ("functions", "models") for r in rows(table) for n in names(r[1])]
    assert len(listed) > 35
    missing = [name for name in listed if missing_ours(name)]
    assert not missing, (
        f"{missing}: docs/pinocchio.md names, in the column 'Pinion', what does not import: write "
        "it with its package, such as pinion.dynamics.rnea; the name of a row of the table of "
        "functions is enough for one that only composes others, without `floats`"
    )
    for name in ("pinion.dynamics.rneaa", "pinion.robot.Joint.rotor", "pinion.nowhere.f", "rnea"):
        assert missing_ours(name)


def test_a_composed_row_goes_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_ours("composed")
    composed = replace(FUNCTIONS["kinetic_energy"], name="composed", floats=None)
    monkeypatch.setitem(globals(), "FUNCTIONS", {**FUNCTIONS, "composed": composed})
    assert not missing_ours("composed")


def test_results_are_those_of_functions() -> None:
    results = {block.name for f in FUNCTIONS.values() for block in f.outputs} | {
        name for f in FUNCTIONS.values() for name in f.optional
    }
    assert [n for row in rows("data") for n in names(row[1]) if n not in results] == []


def test_rows_state_what_is_compared() -> None:
    cells = {names(row[0])[0]: row[3] for row in rows("functions")}
    assert set(cells.values()) == {"yes", "no"}, (
        f"{sorted(set(cells.values()) - {'yes', 'no'})}: write yes or no into the last cell of "
        "each row of the table of functions of docs/pinocchio.md"
    )
    compared = {name for name, cell in cells.items() if cell == "yes"}
    new, old = sorted(compared - COMPARED.keys()), sorted(COMPARED.keys() - compared)
    assert not new, (
        f"{new}: docs/pinocchio.md says that they are compared: write a line of COMPARED in "
        f"{__file__} that computes both sides, or 'no' into the row"
    )
    assert not old, (
        f"{old}: COMPARED in {__file__} compares them: write 'yes' into their rows of the table of "
        "functions of docs/pinocchio.md"
    )


@pytest.mark.parametrize("name", COMPARED)
def test_both_compute_the_same(name: str, states: list[State]) -> None:
    for state in states:
        assert error(COMPARED[name](state)) < SAME


def test_a_wrong_sign_or_order_is_noticed(states: list[State]) -> None:
    ours, theirs = jacobian(states[0])
    assert error((ours, np.asarray(theirs)[EXCHANGED])) > SAME  # halves not exchanged
    ours, theirs = COMPARED["rnea"](states[0])
    assert error((-np.asarray(ours), theirs)) > SAME
    assert error((np.full(7, np.nan), theirs)) > SAME


def test_mujoco_and_our_functions_of_the_last_table_are_there() -> None:
    text = PAGE.read_text().partition("| GRiD | MuJoCo | Pinion |")[2].partition("\n\n")[0]
    cells = [line.strip("|").split("|") for line in text.strip().splitlines()[1:]]
    assert len(cells) >= 7
    assert [n for row in cells for n in names(row[1]) if not hasattr(mujoco, n)] == []
    assert [n for row in cells for n in names(row[2]) if n not in FUNCTIONS] == []
