"""A chain and its states as kernels read them, and how many threads compute a robot.

The kernels of ``kernels/`` take chains as data. What they share, in the order in which to read it:

- ``kernels/chain.cuh``: where the numbers of a chain and of its states lie, and a link's transform.
- ``kernels/scan.cuh``: scans by a warp (`Warp`), a block (`Block`), all blocks (`Grid`), each with
  the one method ``exclusive<Op, BACKWARD>(element)``: a kernel is written once for all three.
- here: `canonical` turns a chain's frames so that every joint is [0 0 turn 0 0 shift], `packed`
  lays it out, `shape_of` chooses the scope by the number of links.

A kernel's header is a template over the scalar, the links of a thread and the scope; its text for
NVRTC is a few lines (``cuda.py``). In the tests the same text runs on a processor, whose device
(``tests/support/cuda_device.py``) takes the place of a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pinion.chains.chain import Chain
from pinion.dynamics.general.spatial import skew
from pinion.native.errors import ComputeError

from .frames import rigid_parts, screw_axes

Array = NDArray[Any]

WARP = 32
LINK_NUMBERS = 24
"""Of ``chain.cuh``: E (9), r (3), inertia (10), turn, shift."""

WARPS_A_BLOCK = 4
"""Robots of a block where a warp computes one."""

LINKS_A_THREAD = 4
"""Where a block or a grid computes a robot: what a thread does one after the other is cheaper than
a level of the scan, as long as some warps remain."""

BLOCK_LINKS = 1024
"""The longest chain of one block; longer ones take several, in a cooperative launch."""

SCALARS = {"float32": "float", "float64": "double"}


@dataclass(frozen=True, slots=True)
class Shape:
    """Which threads compute a robot.

    Members
    -------
    scope : ``Warp``, ``Block`` or ``Grid``, a struct of ``scan.cuh``; ``Thread`` where one thread
        computes a robot.
    links : of a thread.
    threads : of a block.
    blocks_a_robot : 0 where a block computes several robots.
    """

    scope: str
    links: int
    threads: int
    blocks_a_robot: int

    def blocks(self, robots: int) -> int:
        """Blocks of the launch; a `Grid` computes one robot."""
        if self.scope == "Grid":
            return self.blocks_a_robot
        if self.scope == "Block":
            return robots
        return -(-robots // (self.threads // (WARP if self.scope == "Warp" else 1)))

    def shared_bytes(self, words: int, dtype: DTypeLike) -> int:
        """Bytes of shared memory for scans of elements of so many words."""
        if self.scope == "Warp":
            return 0
        return words * (self.threads // WARP) * np.dtype(dtype).itemsize

    def scratch_bytes(self, words: Sequence[int], dtype: DTypeLike) -> int:
        """Bytes of device memory for scans of elements of so many words, one after the other.

        The first 16 are to be zero before the first launch.
        """
        if self.scope != "Grid":
            return 0
        return 16 + sum(words) * self.blocks_a_robot * np.dtype(dtype).itemsize


def shape_of(n: int) -> Shape:
    """One warp up to 32 links, one block up to 1,024, a cooperative grid beyond."""
    if n <= WARP:
        return Shape("Warp", 1, WARPS_A_BLOCK * WARP, 0)
    if n <= BLOCK_LINKS:
        threads = -(-n // LINKS_A_THREAD)
        return Shape("Block", LINKS_A_THREAD, -(-threads // WARP) * WARP, 1)
    threads = BLOCK_LINKS // LINKS_A_THREAD
    return Shape("Grid", LINKS_A_THREAD, threads, -(-n // BLOCK_LINKS))


def canonical(chain: Chain) -> Chain:
    """The same chain with every joint about and along its body's z axis.

    Bodies' frames are moved, to the joint's axis and along it, joint coordinates and efforts are
    not (:func:`.frames.screw_axes`). Where x points is left to the shortest turn: kernels keep
    whole rotations, those for processors (:class:`.frames.Frames`) two angles, which fixes x.

    Returns
    -------
    A chain of links alone, in their order, S = [0 0 turn 0 0 shift]: the frames of everything that
    a kernel gives and takes per link.

    Raises
    ------
    ComputeError
        When a body is in a side branch, or a joint has not one velocity, or armature.
    """
    if chain.has_armature:
        raise ComputeError(
            f"The chain '{chain.name}' has armature, which the kernels of a device do not know: "
            "compute it by pinion.chains, or set it to 0."
        )
    if chain.bodies != chain.n:
        raise ComputeError(
            f"The chain '{chain.name}' has {chain.bodies - chain.n} bodies in side branches: the "
            "kernels take chains without them."
        )
    others = np.flatnonzero((chain.dof != 1) | [kind is not None for kind in chain.kinds])
    if len(others):
        raise ComputeError(
            f"Joint {others[0]} of the chain '{chain.name}' has {chain.dof[others[0]]} velocities: "
            "the kernels take joints of one velocity."
        )
    axis, origin = screw_axes(chain.S[:, :, 0])
    turn = np.linalg.norm(chain.S[:, :3, 0], axis=1)
    shift = np.sum(axis * chain.S[:, 3:, 0], axis=1)
    Q = _onto_z(axis)
    before = np.concatenate([np.eye(3)[None], Q[:-1]])
    E = Q @ chain.E @ np.swapaxes(before, 1, 2)
    moved = chain.r + np.einsum("iba,ib->ia", chain.E, origin)
    moved[1:] -= origin[:-1]
    S = np.zeros_like(chain.S)
    S[:, 2, 0], S[:, 5, 0] = turn, shift
    to_old = np.zeros((chain.n, 6, 6))
    to_old[:, :3, :3] = to_old[:, 3:, 3:] = np.swapaxes(Q, 1, 2)
    to_old[:, 3:, :3] = skew(origin) @ np.swapaxes(Q, 1, 2)
    return replace(
        chain,
        E=E,
        r=np.einsum("iab,ib->ia", before, moved),
        I=np.swapaxes(to_old, 1, 2) @ chain.I @ to_old,
        S=S,
    )


def canonical_tip(chain: Chain, E: Array, r: Array) -> Array:
    """Return a frame at the tip as kernels read it: E, row by row, and r (12,).

    They are from the coordinates of the canonical chain's last link.

    Parameters
    ----------
    chain : before `canonical`.
    E, r : (3, 3) from the last link's coordinates to the frame's, and (3,) its origin there [m].
    """
    axis, origin = screw_axes(chain.S[chain.main[-1:], :, 0])
    Q = _onto_z(axis)[0]
    return np.concatenate([(E @ Q.T).ravel(), Q @ (r - origin[0])])


def packed(chain: Chain, dtype: DTypeLike) -> Array:
    """Return the numbers of a canonical chain as ``kernels/chain.cuh`` has them, (24 n + 3,).

    Raises
    ------
    ComputeError
        When an inertia is not that of a rigid body.
    """
    n, inertia = chain.n, chain.I
    mass, h, others = rigid_parts(inertia)
    if len(others):
        raise ComputeError(
            f"The inertia of link {others[0]} of the chain '{chain.name}' is not that "
            "of a rigid body: the kernels take a mass, a first moment and a rotational inertia."
        )
    numbers = np.concatenate(
        [
            chain.E.reshape(n, 9),
            chain.r,
            mass[:, None],
            h,
            inertia[:, *np.triu_indices(3)],
            chain.S[:, [2, 5], 0],
        ],
        axis=1,
    )
    return np.concatenate([numbers.T.ravel(), -chain.gravity]).astype(dtype)


def _onto_z(axis: Array) -> Array:
    """Rotations (n, 3, 3) that turn unit vectors (n, 3) onto z by the shorter way."""
    # Axes that point down are turned about x by half a turn first: 1 + z is never small.
    down = axis[:, 2] < 0
    flip = np.where(down[:, None], [1.0, -1.0, -1.0], 1.0)
    a = flip * axis
    k = skew(np.stack([a[:, 1], -a[:, 0], np.zeros(len(a))], axis=1))
    turned = np.eye(3) + k + k @ k / (1 + a[:, 2])[:, None, None]
    return np.asarray(turned * flip[:, None, :])
