"""Robots for these tests, built by hand, and their states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pinion.robot import load
from pinion.robot.model import Body, Inertia, Joint, JointKind, Mat3, Model, Transform, Vec3

Array = NDArray[np.float64]
IDENTITY: Mat3 = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def vec3(a: Array) -> Vec3:
    return float(a[0]), float(a[1]), float(a[2])


def joint(name: str, kind: JointKind, E: Mat3, r: Vec3) -> Joint:
    return Joint(
        name=name,
        kind=kind,
        continuous=False,
        tree=Transform(E=E, r=r),
        lower=-3.0,
        upper=3.0,
        velocity=10.0,
        effort=100.0,
    )


def inertia_about_origin(mass: float, com: Array, central: Array) -> Inertia:
    """Move a (3, 3) inertia about the centre of mass to the frame's origin."""
    full = central + mass * (com @ com * np.eye(3) - np.outer(com, com))
    xx, xy, xz, yy, yz, zz = (float(full[k]) for k in zip(*np.triu_indices(3), strict=True))
    return Inertia(mass=mass, h=vec3(mass * com), I=(xx, xy, xz, yy, yz, zz))


def random_rotation(rng: np.random.Generator, oblique: bool) -> Array:
    """Return a random rotation, or one of the 24 that exchange axes."""
    matrix = rng.normal(size=(3, 3)) if oblique else np.eye(3)[rng.permutation(3)]
    matrix = np.linalg.qr(matrix)[0] if oblique else matrix * rng.choice([-1.0, 1.0], size=3)
    if np.linalg.det(matrix) < 0.0:
        matrix = matrix * np.array([-1.0, 1.0, 1.0])
    return matrix + 0.0


def random_model(rng: np.random.Generator, bodies: int) -> Model:
    """Return a random tree with oblique and exchanged axes, both joint kinds and any gravity."""
    tree: list[Body] = []
    for i in range(bodies):
        points = rng.normal(size=(6, 3)) * 0.2
        masses = rng.uniform(0.1, 2.0, size=6)
        com = masses @ points / masses.sum()
        central = sum(
            m * (p @ p * np.eye(3) - np.outer(p, p))
            for m, p in zip(masses, points - com, strict=True)
        )
        # Zeros take other paths through the algorithm than numbers.
        com = com * rng.choice([0.0, 1.0], size=3)
        if rng.random() < 0.3:
            central = np.diag(np.diag(central))
        E = random_rotation(rng, oblique=rng.random() < 0.5)
        x, y, z = (vec3(row) for row in E)
        r = rng.normal(size=3) * 0.5 * rng.choice([0.0, 1.0], size=3)
        kind = JointKind.PRISMATIC if rng.random() < 0.3 else JointKind.REVOLUTE
        tree.append(
            Body(
                name=f"body{i}",
                parent=int(rng.integers(-1, i)) if i else -1,
                joint=joint(f"joint{i}", kind, (x, y, z), vec3(r)),
                inertia=inertia_about_origin(float(masses.sum()), com, np.asarray(central)),
                links=(f"body{i}",),
            )
        )
    gravity = vec3(rng.normal(size=3) * 9.81)
    return Model(name="random", source="test", bodies=tuple(tree), gravity=gravity)


def serial() -> Model:
    """Return the iiwa14 with massless links in its shoulder and wrist, as MJCF files have them."""
    model = load("iiwa14")
    bodies = list(model.bodies)
    nothing = Inertia(mass=0.0, h=(0.0, 0.0, 0.0), I=(0.0,) * 6)
    for number in (0, 1, 4, 5):
        bodies[number] = replace(bodies[number], inertia=nothing)
    return replace(model, name="serial", bodies=tuple(bodies))


def planar_arm(lengths: tuple[float, ...], masses: tuple[float, ...]) -> Model:
    """Return point masses at the ends of links in the xy plane, with gravity along -y."""
    bodies = []
    for i, (length, mass) in enumerate(zip(lengths, masses, strict=True)):
        r = (lengths[i - 1] if i else 0.0, 0.0, 0.0)
        about = mass * length * length
        bodies.append(
            Body(
                name=f"link{i}",
                parent=i - 1,
                joint=joint(f"joint{i}", JointKind.REVOLUTE, IDENTITY, r),
                inertia=Inertia(
                    mass=mass, h=(mass * length, 0.0, 0.0), I=(0.0, 0.0, 0.0, about, 0.0, about)
                ),
                links=(f"link{i}",),
            )
        )
    return Model(name="planar", source="test", bodies=tuple(bodies), gravity=(0.0, -9.81, 0.0))


def random_states(rng: np.random.Generator, model: Model, n: int) -> tuple[Array, Array, Array]:
    """Return q, qd, qdd, each (n, nv)."""
    q = rng.uniform(-np.pi, np.pi, size=(n, model.nv))
    qd = rng.uniform(-3.0, 3.0, size=(n, model.nv))
    return q, qd, rng.uniform(-10.0, 10.0, size=(n, model.nv))


def relative_error(actual: Array, expected: Array, floor: float = 1e-12) -> float:
    """Return the largest difference relative to the largest entry, or to ``floor`` if larger.

    NaN on either side gives NaN, which no comparison with a bound accepts.
    """
    assert actual.shape == expected.shape
    return float(np.max(np.abs(actual - expected)) / max(float(np.max(np.abs(expected))), floor))
