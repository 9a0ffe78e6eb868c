"""A long chain of bodies as arrays, the model of the parallel algorithms.

Chains of a thousand links are data and never traced. A joint's motion subspace S is any matrix of
up to six columns, constant in the moving body's coordinates. If a joint has no kind of the table of
kinds, its displacement is the exponential of ``S q``, which for one column is a rotation, a
translation or a screw.

Conventions are those of :mod:`pinion.robot.model`: spatial vectors ``[angular; linear]`` in body
coordinates, ``Xup = [[E, 0], [-E r^, E]]`` from parent to child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.dynamics import DynamicsError
from pinion.dynamics.checks import check_mass
from pinion.dynamics.general.joints import subspace
from pinion.dynamics.general.spatial import inertia_matrix
from pinion.robot import JointKind, Model

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Chain:
    """A tree of bodies: the links on the path from the base to a tip, and side branches.

    Coordinates and velocities are in the order of the bodies; those of a joint are adjacent.

    Members
    -------
    name : for messages.
    E : (bodies, 3, 3) rotation from parent to child coordinates at q = 0 of the joint.
    r : (bodies, 3) origin of the child's frame there, parent coordinates [m].
    I : (bodies, 6, 6) inertia about the body's origin, body coordinates.
    S : (bodies, 6, 6) motion subspace in body coordinates; columns after the first `dof` are 0.
    dof : (bodies,) degrees of freedom of each joint, 0 to 6.
    parent : (bodies,) number of the body's parent, which precedes it; -1 is the base.
    kinds : of each joint; None means that its displacement is the exponential of ``S q``.
    main : (n,) numbers of the links, from the base to the tip.
    gravity : (3,) base coordinates [m/s^2].
    armature : (bodies, 6) rotor inertia reflected to each velocity, zeros after the first `dof`
        [kg m^2 | kg]; None without rotors.
    """

    name: str
    E: Array
    r: Array
    I: Array  # noqa: E741 - the field's name for it
    S: Array
    dof: NDArray[np.int64]
    parent: NDArray[np.int64]
    kinds: tuple[JointKind | None, ...]
    main: NDArray[np.int64]
    gravity: Array
    armature: Array | None = None

    def __post_init__(self) -> None:
        count = len(self.dof)
        shapes = {
            "E": (count, 3, 3),
            "r": (count, 3),
            "I": (count, 6, 6),
            "S": (count, 6, 6),
            "parent": (count,),
            "gravity": (3,),
        } | ({} if self.armature is None else {"armature": (count, 6)})
        if count == 0 or len(self.main) == 0:
            raise DynamicsError(
                f"The chain {self.name!r} has no links: a chain needs at least one."
            )
        for name, shape in shapes.items():
            array = np.asarray(getattr(self, name))
            if array.shape != shape:
                raise DynamicsError(
                    f"{name} of the chain {self.name!r} has shape {array.shape}, expected {shape}."
                )
            if not np.all(np.isfinite(array)):
                raise DynamicsError(
                    f"{name} of the chain {self.name!r} contains a NaN or an infinity: pass finite "
                    "numbers."
                )
        if len(self.kinds) != count:
            raise DynamicsError(
                f"kinds of the chain {self.name!r} has length {len(self.kinds)}, not {count}: give "
                "one kind per body."
            )
        self._check_joints()
        previous = -1
        for link in self.main:
            if not 0 <= link < count or self.parent[link] != previous:
                parent = "the base" if previous < 0 else f"body {previous}"
                raise DynamicsError(
                    f"main of the chain {self.name!r} is not a path from the base: body {link} is "
                    f"not a child of {parent}."
                )
            previous = int(link)

    def _check_joints(self) -> None:
        for i, (dof, parent) in enumerate(zip(self.dof, self.parent, strict=True)):
            if not 0 <= dof <= 6:
                raise DynamicsError(
                    f"Joint {i} of the chain {self.name!r} has {dof} degrees of freedom: a joint "
                    "has 0 to 6."
                )
            if not -1 <= parent < i:
                raise DynamicsError(
                    f"Body {i} of the chain {self.name!r} has the parent {parent}: a parent must "
                    "precede its children, and the base is -1."
                )
            S = self.S[i]
            if np.any(S[:, dof:]) or np.linalg.matrix_rank(S[:, :dof]) < dof:
                raise DynamicsError(
                    f"S of joint {i} of the chain {self.name!r} must have independent columns "
                    f"for its degrees of freedom ({dof}), followed by columns of zeros."
                )
            kind = self.kinds[i]
            if kind is not None and kind.nv != dof:
                raise DynamicsError(
                    f"Joint {i} of the chain {self.name!r} is {kind.value}, but "
                    f"its dof is {dof}, not {kind.nv}."
                )

    @property
    def has_armature(self) -> bool:
        """Whether any joint has armature."""
        return self.armature is not None and bool(np.any(self.armature))

    @property
    def n(self) -> int:
        """Number of links from the base to the tip."""
        return len(self.main)

    @property
    def bodies(self) -> int:
        """Number of bodies, including side branches."""
        return len(self.dof)

    @property
    def branches(self) -> NDArray[np.int64]:
        """Indices of the bodies on side branches, in ascending order."""
        return np.setdiff1d(np.arange(self.bodies), self.main)

    @property
    def nv(self) -> int:
        """Number of velocities, the length of qd."""
        return int(self.dof.sum())

    @property
    def nq(self) -> int:
        """Number of coordinates, the length of q."""
        return int(self.q_slices[-1].stop)

    @property
    def width(self) -> int:
        """Largest number of degrees of freedom of a joint, at least 1: the columns of S in use."""
        return max(1, int(self.dof.max()))

    @cached_property
    def q_slices(self) -> tuple[slice, ...]:
        """Slices of q, one for each body's joint."""
        kinds = zip(self.kinds, self.dof, strict=True)
        return _slices([int(dof) if kind is None else kind.nq for kind, dof in kinds])

    @cached_property
    def v_slices(self) -> tuple[slice, ...]:
        """Slices of qd and tau, one for each body's joint."""
        return _slices([int(dof) for dof in self.dof])

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Body and column of S for each element of qd, (nv, 2)."""
        pairs = [(i, k) for i, dof in enumerate(self.dof) for k in range(dof)]
        return np.array(pairs, np.int64).reshape(-1, 2)

    def padded(self, x: Array) -> Array:
        """Return joint values (B, nv) as (B, bodies, width), with zeros in unused columns."""
        result = np.zeros((len(x), self.bodies, self.width), x.dtype)
        result[:, self.places[:, 0], self.places[:, 1]] = x
        return result

    def flat(self, x: Array) -> Array:
        """Return (B, bodies, width) as (B, nv): the inverse of `padded`."""
        return np.asarray(x[:, self.places[:, 0], self.places[:, 1]])

    @classmethod
    def of(cls, model: Model, tip: str | None = None) -> Chain:
        """Return the chain from a robot's base to a body, with other bodies as side branches.

        Parameters
        ----------
        tip : a body's name; by default the last of the longest path.

        Raises
        ------
        DynamicsError
            If the robot has no such body, no mass, or an armature in the axes of the base.
        """
        check_mass(model)
        parents = model.parents
        names = [body.name for body in model.bodies]
        if tip is None:
            depth: list[int] = []
            for parent in parents:
                depth.append(1 if parent < 0 else 1 + depth[parent])
            last = int(np.argmax(depth)) if depth else -1
        elif tip in names:
            last = names.index(tip)
        else:
            listed = f"; its bodies are {', '.join(names)}" if names else ""
            raise DynamicsError(f"The robot {model.name!r} has no body {tip!r}{listed}.")
        path = []
        while last >= 0:
            path.append(last)
            last = parents[last]
        joints = [body.joint for body in model.bodies]
        count = len(joints)
        S = np.zeros((count, 6, 6))
        armature = np.zeros((count, 6))
        for i, joint in enumerate(joints):
            S[i, :, : joint.kind.nv] = subspace(joint)
            armature[i, : joint.kind.nv] = joint.armature
            if joint.armature_in_base and joint.armature != 0.0:
                raise DynamicsError(
                    f"The joint {joint.name!r} of {model.name!r} has an armature in the axes of "
                    "the base, as in MuJoCo's free joints, which chains do not support: use "
                    "pinion.dynamics, or set the armature to 0."
                )
        return cls(
            name=model.name,
            E=np.array([joint.tree.E for joint in joints]).reshape(count, 3, 3),
            r=np.array([joint.tree.r for joint in joints]).reshape(count, 3),
            I=np.array([inertia_matrix(b.inertia) for b in model.bodies]).reshape(count, 6, 6),
            S=S,
            dof=np.array([joint.kind.nv for joint in joints], np.int64),
            parent=np.array(parents, np.int64),
            kinds=tuple(joint.kind if joint.kind.nq != joint.kind.nv else None for joint in joints),
            main=np.array(path[::-1], np.int64),
            gravity=np.array(model.gravity),
            armature=armature,
        )


def _slices(widths: Sequence[int]) -> tuple[slice, ...]:
    ends = list(accumulate(widths))
    return tuple(slice(end - width, end) for end, width in zip(ends, widths, strict=True))
