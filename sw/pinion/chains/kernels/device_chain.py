"""Memory layout of a chain and its states for kernels, and the number of threads per robot.

The kernels of ``kernels/`` take chains as data. Their common parts, in reading order:

- ``kernels/chain.cuh``: layout of the numbers of a chain and its states, and a link's transform.
- ``kernels/scan.cuh``: scans by a warp (`Warp`), a block (`Block`) or all blocks (`Grid`), each
  with the method ``exclusive<Op, BACKWARD>(element)``: a kernel is written once for all three.
- here: `canonical` rotates a chain's frames so that every joint is [0 0 turn 0 0 shift], `packed`
  lays it out, `shape_of` chooses the scope by the number of links.

A kernel's header is a template over the scalar, the links per thread and the scope; its text for
NVRTC is a few lines (``chain_source.py``). In the tests the same text runs on a CPU, whose device
(``tests/support/cuda_device.py``) replaces a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pinion.chains.chain import Chain
from pinion.dynamics.general.spatial import skew
from pinion.native import ComputeError

from .frames import rigid_parts, screw_axes

Array = NDArray[Any]

WARP = 32
LINK_NUMBERS = 24
"""Numbers per link in ``chain.cuh``: E (9), r (3), inertia (10), turn, shift."""

WARPS_A_BLOCK = 4
"""Robots per block if each warp computes one."""

LINKS_A_THREAD = 4
"""Links per thread if a block or a grid computes a robot: sequential work of a thread is cheaper
than a level of the scan, as long as some warps remain."""

BLOCK_LINKS = 1024
"""Longest chain for one block; longer ones need several, in a cooperative launch."""

SCALARS = {"float32": "float", "float64": "double"}


@dataclass(frozen=True, slots=True)
class ThreadShape:
    """Threads that compute one robot's dynamics.

    Members
    -------
    scope : ``Warp``, ``Block`` or ``Grid``, a struct of ``scan.cuh``; ``Thread`` if one thread
        computes a robot.
    links : links per thread.
    threads : threads per block.
    blocks_a_robot : blocks per robot; 0 if a block computes several robots.
    """

    scope: str
    links: int
    threads: int
    blocks_a_robot: int

    def blocks(self, robots: int) -> int:
        """Return the number of blocks of the launch; a `Grid` handles one robot."""
        if self.scope == "Grid":
            return self.blocks_a_robot
        if self.scope == "Block":
            return robots
        return -(-robots // (self.threads // (WARP if self.scope == "Warp" else 1)))

    def shared_bytes(self, words: int, dtype: DTypeLike) -> int:
        """Return the size in bytes of shared memory for scans of elements of `words` words."""
        if self.scope == "Warp":
            return 0
        return words * (self.threads // WARP) * np.dtype(dtype).itemsize

    def scratch_bytes(self, words: Sequence[int], dtype: DTypeLike) -> int:
        """Return the size in bytes of device memory for scans of elements of `words` words.

        The first 16 bytes must be zero before the first launch.
        """
        if self.scope != "Grid":
            return 0
        return 16 + sum(words) * self.blocks_a_robot * np.dtype(dtype).itemsize


def shape_of(n: int) -> ThreadShape:
    """Return the threads per robot: a warp up to 32 links, a block up to 1,024, a grid beyond."""
    if n <= WARP:
        return ThreadShape("Warp", 1, WARPS_A_BLOCK * WARP, 0)
    if n <= BLOCK_LINKS:
        threads = -(-n // LINKS_A_THREAD)
        return ThreadShape("Block", LINKS_A_THREAD, -(-threads // WARP) * WARP, 1)
    threads = BLOCK_LINKS // LINKS_A_THREAD
    return ThreadShape("Grid", LINKS_A_THREAD, threads, -(-n // BLOCK_LINKS))


def canonical(chain: Chain) -> Chain:
    """Return the same chain in body frames whose z axes are the joint axes.

    Bodies' frames are moved to and turned onto the joint's axis; joint coordinates and efforts do
    not change (:func:`.frames.screw_axes`). The x axis follows from the smallest rotation: these
    kernels store whole rotations, whereas those for CPUs (:class:`.frames.Frames`) store two
    angles, which determines x.

    Returns
    -------
    A chain of links in order, with S = [0 0 turn 0 0 shift], in the frames of all per-link data of
    kernels.

    Raises
    ------
    ComputeError
        If there are side branches, or a joint does not have one degree of freedom, or has armature.
    """
    if chain.has_armature:
        raise ComputeError(
            f"The chain '{chain.name}' has armature, which kernels for GPUs do not support: use "
            "pinion.chains, or set the armature to 0."
        )
    if chain.bodies != chain.n:
        raise ComputeError(
            f"The chain '{chain.name}' has side branches (bodies: {chain.bodies - chain.n}), which "
            "kernels for GPUs do not support: use pinion.chains."
        )
    others = np.flatnonzero((chain.dof != 1) | [kind is not None for kind in chain.kinds])
    if len(others):
        raise ComputeError(
            f"Joint {others[0]} of the chain '{chain.name}' has {chain.dof[others[0]]} degrees of "
            "freedom: kernels for GPUs support only joints with one."
        )
    axis, origin = screw_axes(chain.S[:, :, 0])
    turn = np.linalg.norm(chain.S[:, :3, 0], axis=1)
    shift = np.sum(axis * chain.S[:, 3:, 0], axis=1)
    Q = _onto_z(axis)
    Q_parent = np.concatenate([np.eye(3)[None], Q[:-1]])
    E = Q @ chain.E @ np.swapaxes(Q_parent, 1, 2)
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
        r=np.einsum("iab,ib->ia", Q_parent, moved),
        I=np.swapaxes(to_old, 1, 2) @ chain.I @ to_old,
        S=S,
    )


def canonical_tip(chain: Chain, E: Array, r: Array) -> Array:
    """Return a frame at the tip in the layout for kernels, (12,): E row by row, then r.

    Both refer to the coordinates of the canonical chain's last link.

    Parameters
    ----------
    chain : before `canonical`.
    E, r : (3, 3) from the last link's coordinates to the frame's, and (3,) the frame's origin in
        the last link's coordinates [m].
    """
    axis, origin = screw_axes(chain.S[chain.main[-1:], :, 0])
    Q = _onto_z(axis)[0]
    return np.concatenate([(E @ Q.T).ravel(), Q @ (r - origin[0])])


def packed(chain: Chain, dtype: DTypeLike) -> Array:
    """Return a canonical chain's constants in the layout of ``kernels/chain.cuh``, (24 n + 3,).

    Raises
    ------
    ComputeError
        If an inertia is not that of a rigid body.
    """
    n, inertia = chain.n, chain.I
    mass, h, others = rigid_parts(inertia)
    if len(others):
        raise ComputeError(
            f"The inertia of link {others[0]} of the chain '{chain.name}' is not that "
            "of a rigid body: build it from mass, centre of mass and rotational inertia."
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
    """Return the smallest rotations (n, 3, 3) that turn unit vectors (n, 3) onto the z axis."""
    # Downward axes are first flipped by half a turn about x, so that 1 + z is never small.
    down = axis[:, 2] < 0
    flip = np.where(down[:, None], [1.0, -1.0, -1.0], 1.0)
    a = flip * axis
    k = skew(np.stack([a[:, 1], -a[:, 0], np.zeros(len(a))], axis=1))
    turned = np.eye(3) + k + k @ k / (1 + a[:, 2])[:, None, None]
    return np.asarray(turned * flip[:, None, :])
