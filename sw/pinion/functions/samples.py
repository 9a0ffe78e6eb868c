"""Test states: the reference distribution, two slower and two more demanding ones.

Torque drawn at random leads to accelerations that no robot has, so positions, velocities and
accelerations are drawn, and other inputs of a function follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.base.arrays import Floats
from pinion.dynamics.checks import rotation_slices
from pinion.dynamics.parametric import JOINT_FIGURES, rigid_body
from pinion.robot import JointKind, Model, contacts_of, coupled, stated_velocity, ties, uncoupled

from .blocks import Block, Drawn, LoadBox, Quantity, Table, Uniform
from .built import BuiltFunction
from .errors import FunctionError
from .row import Function, needs_contacts

DISTRIBUTIONS = ("reference", "slow", "rest", "stress", "beyond")

SLOW_SHARE = 0.1
"""Share of the reference's speeds, accelerations and external forces in ``slow``."""

REST_SHARE = 1e-3
"""The same share in ``rest``: efforts are those that hold the robot against gravity."""

QDD_RANGE = 10.0  # rad/s^2 | m/s^2 of the reference distribution

BRIEF, LONG = 50, 1000
"""Requests during which a stream of a function with states may stay constant."""

FORCE_SHARE = 0.25  # of the robot's weight: largest external force in each direction

CONTACT_SPREAD = 0.5
"""Largest relative deviation of a contact's force from its share of the weight, and largest
horizontal part of that force."""

TARGET_SPREAD = 0.01
"""Largest part [m] by which a contact's target differs from its place in each direction."""

BASE_REGULARISATION = 0.01
"""Square of a contact's lever [m^2] below which it is not used to turn a floating base."""

FORCE_LEVER = 0.1  # m, from the origin of a link's frame to such a force, for moments

LOAD_SHARE, LOAD_RADIUS = 0.1, 0.2
"""Default loads of links whose parameters are inputs: share of the robot's mass, radius [m]."""

NEAR_SHARE = 0.25  # of rates within twice the width of friction's step, for functions with friction


def position_limits(model: Model) -> tuple[Floats, Floats]:
    """Return the lower and the upper bound of q in test states, (nq,) each [rad | m].

    A revolute joint with no limits, or with limits of more than two turns (placeholders in many
    URDFs), gets -pi to pi, an unlimited slide -1 m to 1 m, and so does each position of a joint
    that has several. Joints that mimic others narrow the range of the one they follow to what keeps
    them within their limits.
    """
    model = coupled(model)
    lower, upper = np.zeros(model.nq), np.zeros(model.nq)
    for body, joint_slice in zip(model.bodies, model.q_slices, strict=True):
        joint = body.joint
        turns = joint.kind in (JointKind.REVOLUTE, JointKind.HELICAL)
        low, high = (joint.lower, joint.upper) if joint.kind.nq == 1 else (-1.0, 1.0)
        if not high - low <= (4 * math.pi if turns else 100.0):
            high = math.pi if turns else 1.0
            low = -high
        lower[joint_slice], upper[joint_slice] = low, high
    for body, tie in zip(model.bodies, ties(model), strict=True):
        if not model.follows(body) or tie.ratio == 0.0:
            continue
        ends = sorted(
            (end - tie.offset) / tie.ratio for end in (body.joint.lower, body.joint.upper)
        )
        joint_slice = model.q_slices[tie.leader]
        narrow = np.maximum(lower[joint_slice], ends[0]), np.minimum(upper[joint_slice], ends[1])
        # Otherwise the file contradicts itself or has limits of 0: the leader decides.
        if narrow[0] < narrow[1]:
            lower[joint_slice], upper[joint_slice] = narrow
    return lower, upper


def calmer(distribution: str, other: str) -> bool:
    """Return whether a distribution has lower rates and accelerations than another one.

    ``stress`` has its own rates, which may exceed those of any other distribution.
    """
    return distribution != "stress" and rate_share(distribution) < rate_share(other)


def velocity_limits(model: Model, distribution: str) -> Floats:
    """Return the largest magnitude of qd, (nv,), that each joint and its followers allow.

    They are rated speeds (twice those for ``beyond``, the stated shares of them for ``slow`` and
    ``rest``), or the URDF's limits for ``stress``. Limits that no robot has
    (:func:`pinion.robot.stated_velocity`) count as missing.
    """
    model = coupled(model)
    slices = model.v_slices
    speeds = np.full(model.nv, np.inf)
    every = uncoupled(model).v_slices
    for body, place, tie in zip(model.bodies, every, ties(model), strict=True):
        speed = np.array(model.rated_velocity[place], dtype=np.float64)
        if distribution == "stress" and (limit := stated_velocity(body.joint.velocity)):
            speed[:] = limit
        if tie.ratio != 0.0:
            leader_slice = slices[tie.leader]
            speeds[leader_slice] = np.minimum(speeds[leader_slice], speed / abs(tie.ratio))
    return speeds * rate_share(distribution)


def rate_share(distribution: str) -> float:
    """Return the ratio of a distribution's rates and accelerations to the reference's."""
    match distribution:
        case "slow":
            return SLOW_SHARE
        case "rest":
            return REST_SHARE
        case "beyond":
            return 2.0
    return 1.0


def force_ends(model: Model) -> Floats:
    """Return the largest magnitudes of a link's external moment and force, (6,) [N m, N]."""
    force = FORCE_SHARE * _pull(model) * sum(body.inertia.mass for body in model.bodies)
    return force * np.array([FORCE_LEVER] * 3 + [1.0] * 3)


def external_forces(model: Model, rng: np.random.Generator, count: int, *, corners: bool) -> Floats:
    """Sample external forces on all links, (count, bodies, 6) [N m, N].

    Each component of a force is uniform within ``FORCE_SHARE`` of the moving bodies' weight, each
    of a moment within that force at the lever ``FORCE_LEVER``; without gravity the weight is that
    on earth.
    """
    shape = (count, len(model.bodies), 6)
    share = rng.choice([-1.0, 1.0], shape) if corners else rng.uniform(-1.0, 1.0, shape)
    return np.asarray(share * force_ends(model))


def parameter_ends(model: Model, function: Function | BuiltFunction) -> tuple[Floats, Floats]:
    """Return the lower and upper bounds of a function's :func:`parameter_sets`, (values,) each."""
    low = np.array(dynamics.parameter_values(model, function.parameters))
    high = low.copy()
    box = _load_box(model, function)
    moment, inertia = box.mass * box.radius, box.mass * box.radius**2
    product = inertia / 2
    least = -np.array([0.0, *[moment] * 3, 0.0, product, 0.0, product, product, 0.0])
    most = np.array([box.mass, *[moment] * 3, inertia, product, inertia, product, product, inertia])
    for parameter in dynamics.parameters_of(model, function.parameters):
        place = slice(parameter.first, parameter.first + parameter.count)
        if parameter.figure in JOINT_FIGURES:
            low[place], high[place] = 0.0, 2.0 * parameter.file or 1.0
        elif not parameter.of_link:
            low[place], high[place] = -_pull(model), _pull(model)
        else:
            up, down = np.maximum(parameter.reading, 0.0), np.minimum(parameter.reading, 0.0)
            low[place] += up @ least + down @ most
            high[place] += up @ most + down @ least
    return low, high


def _load_box(model: Model, function: Function | BuiltFunction) -> LoadBox:
    """Return the range of loads on a function's links, by default a share of the robot's mass."""
    return function.load or LoadBox(
        LOAD_SHARE * sum(body.inertia.mass for body in model.bodies), LOAD_RADIUS
    )


def _pull(model: Model) -> float:
    """Return the magnitude of gravity [m/s^2]; Earth's for a robot without gravity."""
    return float(np.linalg.norm(model.gravity)) or 9.81


def parameter_sets(
    model: Model, function: Function | BuiltFunction, rng: np.random.Generator, count: int
) -> Floats:
    """Sample sets of a function's parameters, (count, values).

    Gravity has any direction; links have the file's values and, as a load, a solid ball anywhere in
    the box (or on the axis in it); joints have up to twice the file's value, or up to 1 in SI units
    if the file has none.
    """
    box = _load_box(model, function)
    sets = np.tile(dynamics.parameter_values(model, function.parameters), (count, 1))
    for parameter in dynamics.parameters_of(model, function.parameters):
        place = slice(parameter.first, parameter.first + parameter.count)
        if parameter.figure in JOINT_FIGURES:
            sets[:, place] = rng.uniform(0.0, 2.0 * parameter.file or 1.0, (count, 1))
            continue
        if not parameter.of_link:
            direction = rng.normal(size=(count, 3))
            sets[:, place] = (
                _pull(model) * direction / np.linalg.norm(direction, axis=1, keepdims=True)
            )
            continue
        mass = rng.uniform(0.0, box.mass, count)
        ball = rng.uniform(0.0, 0.5, count) * box.radius
        direction = rng.normal(size=(count, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        if parameter.axis is not None:
            direction = np.sign(direction[:, :1]) * parameter.axis
        centre = direction * (rng.uniform(0.0, 1.0, count) * (box.radius - ball))[:, None]
        moments = (0.4 * mass * ball**2)[:, None] * [1.0, 0.0, 0.0, 1.0, 0.0, 1.0]
        load = rigid_body(mass, centre, moments)
        sets[:, place] += load @ parameter.reading.T
    return sets


def sample(
    model: Model,
    function: Function | BuiltFunction,
    count: int,
    *,
    distribution: str,
    seed: int | np.random.Generator,
    corners: bool = False,
) -> dict[str, NDArray[np.float32]]:
    """Sample request arrays of a function, float32 as transmitted, by block name, (count, ...).

    Joints that mimic others are coupled to them, and stay within their limits and speeds.

    Parameters
    ----------
    distribution : ``reference`` (q uniform in limits, qd in rated speeds, qdd in +-10),
        ``slow`` and ``rest`` (the reference's positions, with :data:`SLOW_SHARE` and
        :data:`REST_SHARE` of its speeds, accelerations and external forces; inputs drawn between
        bounds or from tables are the reference's), ``stress`` (qd in the URDF's velocity limits) or
        ``beyond`` (twice the reference: limits, speeds, accelerations, and rows of tables).
    seed : of NumPy's default generator, or a generator.
    corners : put every velocity and acceleration at a bound of its range, where the sensitivities
        of dynamics are largest: for bounds that must hold inside the ranges.

    Requests of a function with states are a stream of such states, some of which stay for a while.

    Quaternions, and planar joints' cosine and sine, have any direction and unit length in all of
    them.
    """
    if distribution not in DISTRIBUTIONS:
        raise FunctionError(
            f"There is no distribution '{distribution}'; choose one of {', '.join(DISTRIBUTIONS)}."
        )
    model = coupled(model)
    rng = np.random.default_rng(seed)
    scale = 2.0 if distribution == "beyond" else 1.0
    share = rate_share(distribution)
    low, high = position_limits(model)
    speed = velocity_limits(model, distribution)
    shape = (count, model.nv)

    def unit() -> Floats:
        return rng.choice([-1.0, 1.0], shape) if corners else rng.uniform(-1.0, 1.0, shape)

    def rates() -> Floats:
        velocities = unit() * speed
        if "friction" in function.joint_terms:
            # Friction changes within a small part of the speeds, which few states would hit.
            slow = rng.uniform(size=shape) < NEAR_SHARE
            width = function.friction_width * min(share, 1.0)
            velocities = np.where(slow, rng.uniform(-2.0, 2.0, shape) * width, velocities)
        return velocities

    def positions() -> Floats:
        values = rng.uniform(low, high, (count, model.nq)) * scale
        for joint_slice, _ in rotation_slices(model):
            direction = rng.normal(size=(count, joint_slice.stop - joint_slice.start))
            values[:, joint_slice] = direction / np.linalg.norm(direction, axis=1, keepdims=True)
        return values

    def accelerations() -> Floats:
        return unit() * QDD_RANGE * share

    # Other inputs follow from the state as transmitted, in float32.
    q, qd, qdd = (
        array.astype(np.float32).astype(np.float64)
        for array in (positions(), rates(), accelerations())
    )
    state = {Quantity.POSITION: q, Quantity.VELOCITY: qd, Quantity.ACCELERATION: qdd}
    another = {
        Quantity.POSITION: positions,
        Quantity.VELOCITY: rates,
        Quantity.ACCELERATION: accelerations,
    }

    fext: Floats | None = None
    if any(block.sampling is Quantity.EXTERNAL_FORCE for block in function.inputs):
        forces = share * external_forces(model, rng, count, corners=corners)
        fext = forces.astype(np.float32).astype(np.float64)

    mask = np.zeros((count, 0))
    if any(block.sampling is Quantity.CONTACT_MASK for block in function.inputs):
        if not (model.contacts or model.loops):
            raise FunctionError(needs_contacts(function.name, model.name))
        mask = np.zeros((count, len(contacts_of(model))))
        mask = rng.integers(0, 2, mask.shape).astype(np.float64)

    sets: Floats | None = None
    if function.parameters:
        sets = parameter_sets(model, function, rng, count).astype(np.float32).astype(np.float64)

    def draw(block: Block) -> Floats:
        match block.sampling:
            case Quantity.PARAMETER if sets is not None:
                return sets
            case Quantity.CONTACT_MASK:
                return mask
            case Quantity.CONTACT_TARGET:
                places = contact_places(model, q)
                return places + TARGET_SPREAD * scale * rng.uniform(-1.0, 1.0, places.shape)
            case Quantity.CONTACT_EFFORT:
                efforts = draw(replace(block, sampling=Quantity.EFFORT))
                spread = CONTACT_SPREAD * scale * min(share, 1.0)
                return efforts_in_contact(model, q, mask, efforts, rng, spread)
            case Quantity.EFFORT if sets is not None:
                return _efforts_of_sets(model, function, sets, (q, qd, qdd), fext)
            case Quantity.INVERSE_INERTIA if sets is not None:
                robots = dynamics.parametric_model(model, function.parameters, list(sets.T))
                inverse = dynamics.minv_scalars(robots, list(q.T))
                return np.stack([_columns(row, count) for row in inverse], axis=1)
            case Quantity.POSITION | Quantity.VELOCITY | Quantity.ACCELERATION as quantity:
                # The first block is the state's; another one, such as a reference, is independent.
                return state.pop(quantity) if quantity in state else another[quantity]()
            case Quantity.EFFORT:
                return dynamics.rnea(
                    model,
                    q,
                    qd,
                    qdd,
                    None if fext is None else dynamics.forces_on_bodies(model, fext),
                    joint_terms=function.joint_terms,
                    friction_width=function.friction_width,
                )
            case Quantity.INVERSE_INERTIA:
                return dynamics.minv(model, q)
            case Quantity.LINK_VELOCITY:
                return dynamics.link_states(model, q, qd, qdd)[0]
            case Quantity.LINK_ACCELERATION:
                return dynamics.link_states(model, q, qd, qdd)[1]
            case Quantity.LINK_FORCE:
                return dynamics.link_states(model, q, qd, qdd)[2]
            case Quantity.EXTERNAL_FORCE if fext is not None:
                return fext
            case Uniform(low=start, high=end):
                middle, half = (start + end) / 2, scale * (end - start) / 2
                return rng.uniform(middle - half, middle + half, (count, *block.dims(model)))
            case Table() | Drawn():
                dims = block.dims(model)
                table = block.resolved(model).sampling
                assert isinstance(table, Table)
                if table.words != math.prod(dims):
                    raise FunctionError(
                        f"The input '{block.name}' of '{function.name}' has shape {dims}, but "
                        f"a row of its table has size {table.words}: build the folder again."
                    )
                rows = table.values
                return scale * rows[rng.integers(len(rows), size=count)].reshape(count, *dims)
        raise FunctionError(
            f"The input '{block.name}' of '{function.name}' has no sampling: give it a quantity of "
            "the state, two bounds or a function."
        )

    sent: dict[str, NDArray[np.float32]] = {}
    for block in function.inputs:
        array = draw(block)
        if array.shape != (count, *block.dims(model)):
            source = getattr(block.sampling, "name", "the sampling")
            raise FunctionError(
                f"The input '{block.name}' of '{function.name}' has shape "
                f"{block.dims(model)}, but {source} has {array.shape[1:]}: give the input the "
                f"shape of {source}, or sample it between two bounds."
            )
        if block.symmetric and not isinstance(block.sampling, Quantity):
            # The transmitted half counts for both.
            array = np.tril(array) + np.swapaxes(np.tril(array, -1), -1, -2)
        sent[block.name] = array.astype(np.float32)
    if function.states:
        order = _held(rng, count)
        sent = {name: array[order] for name, array in sent.items()}
    return sent


# Many parameters: the state, what is known of it, and how it is drawn.
def efforts_in_contact(
    model: Model,
    q: Floats,
    mask: Floats,
    efforts: Floats,
    rng: np.random.Generator,
    spread: float,
) -> Floats:
    """Return efforts (n, nv) of joints that move a robot while its contacts carry its weight.

    Parameters
    ----------
    q, mask : (n, nq) and (n, contacts), the positions, and which contacts are on the ground.
    efforts : (n, nv) of the motion without contacts.
    spread : part by which a contact's force differs from its share of the weight, and of that force
        in each horizontal direction; moments of a face are these forces on ``FORCE_LEVER``.

    A floating base has no efforts: contacts, or its fall, are the rest of the motion. A loop
    carries no weight; its force is as large as that difference would be for one that does.
    """
    x, y, z = model.gravity
    weight = _pull(model) * sum(body.inertia.mass for body in model.bodies)
    up = -np.array((x, y, z) if any(model.gravity) else (0.0, 0.0, -9.81)) / _pull(model)
    on_ground = mask[:, : len(model.contacts)]
    shares = on_ground / np.maximum(on_ground.sum(axis=1, keepdims=True), 1.0) * weight
    forces, rows = [], []
    for number, contact in enumerate(contacts_of(model)):
        in_loop = contact.partner is not None
        size = np.full((len(q), 1), weight) if in_loop else shares[:, number, None]
        wrench = np.zeros((len(q), 6))
        wrench[:, 3:] = size * (
            (0.0 if in_loop else up) + spread * rng.uniform(-1.0, 1.0, (len(q), 3))
        )
        if contact.size > 3:
            wrench[:, :3] = size * spread * FORCE_LEVER * rng.uniform(-1.0, 1.0, (len(q), 3))
        half = slice(6 - contact.size, 6)
        forces.append(wrench[:, half])
        J = dynamics.frame_jacobian(model, q, contact.name, reference="local_world_aligned")
        if contact.partner is not None:
            other = contact.partner.name
            J = J - dynamics.frame_jacobian(model, q, other, reference="local_world_aligned")
        rows.append(mask[:, number, None, None] * J[:, half])
    J, force = np.concatenate(rows, axis=1), np.concatenate(forces, axis=1)
    efforts = efforts - np.einsum("nij,ni->nj", J, force)
    for body, velocities in zip(model.bodies, model.v_slices, strict=True):
        if body.parent >= 0 or body.joint.kind is not JointKind.FREE_FLYER:
            continue
        # The least change of the forces that gives the base the drawn motion, as far as they can.
        J_base, lacking = J[:, :, velocities], efforts[:, velocities]
        regular = np.einsum("nij,nik->njk", J_base, J_base) + BASE_REGULARISATION * np.eye(6)
        change = np.einsum(
            "nij,nj->ni", J_base, np.linalg.solve(regular, lacking[..., None])[..., 0]
        )
        efforts -= np.einsum("nij,ni->nj", J, change)
        efforts[:, velocities] = 0.0
    return efforts


def contact_places(model: Model, q: Floats) -> Floats:
    """Return the origins of contacts in the base, or offsets of loops, (n, contacts, 3) [m].

    The offset of a loop is that of its first origin from its second one, in the first frame's axes.
    """
    places = []
    for contact in contacts_of(model):
        rotation, place = dynamics.frame_placement(model, q, contact.name)
        if contact.partner is not None:
            _, origin = dynamics.frame_placement(model, q, contact.partner.name)
            place = np.einsum("nji,nj->ni", rotation, place - origin)
        places.append(place)
    return np.stack(places, axis=1)


def _efforts_of_sets(
    model: Model,
    function: Function | BuiltFunction,
    sets: Floats,
    motion: Sequence[Floats],
    fext: Floats | None,
) -> Floats:
    """Return the efforts (n, nv) of motions, each of a robot with its own set of parameters."""
    robots = dynamics.parametric_model(model, function.parameters, list(sets.T))
    q, qd, qdd = (list(x.T) for x in motion)
    forces: Any = None
    if fext is not None:
        forces = np.moveaxis(dynamics.forces_on_bodies(model, fext), 0, -1)
    tau = dynamics.rnea_scalars(
        robots,
        q,
        qd,
        qdd,
        forces,
        joint_terms=function.joint_terms,
        friction_width=function.friction_width,
    )
    return _columns(tau, len(sets))


def _columns(elements: Sequence[Any], count: int) -> Floats:
    """Stack elements of shape (count,), or constants, into an array (count, elements)."""
    return np.stack([np.broadcast_to(np.asarray(x, np.float64), count) for x in elements], axis=1)


def _held(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Return the index (count,) of the sampled state that each request of a stream uses.

    Independent requests would show a filter only noise, so that it never reaches the values that it
    reaches with a signal. So the stream alternates between three kinds: requests that all differ,
    ones that stay for up to `BRIEF`, and one that stays for up to `LONG`.
    """
    lengths: list[int] = []
    while sum(lengths) < count:
        lengths += [1] * BRIEF
        lengths += rng.integers(1, BRIEF, endpoint=True, size=4).tolist()
        lengths += [int(rng.integers(BRIEF, LONG, endpoint=True))]
    return np.repeat(np.arange(len(lengths)), lengths)[:count]
