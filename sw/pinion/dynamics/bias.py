r"""The separate terms of the equations of motion ``tau = M(q) qdd + C(q, qd) qd + g(q)``.

Each is inverse dynamics with some of its arguments zero (Featherstone 2008, chapter 6):
``gravity`` at rest, ``coriolis`` without gravity, ``bias`` without accelerations. A zero is a
constant in a trace and costs no operation. Joint terms (damping, friction, springs) are not
included, as in Pinocchio and in MuJoCo's qfrc_bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics import arrays
from pinion.robot import Model

from .checks import Array
from .mimic import also_coupled
from .rnea import Region, no_region, rnea_scalars
from .scalar import Scalar

_rnea = also_coupled(arrays.rnea)


def gravity_scalars(model: Model, q: Sequence[Scalar], region: Region = no_region) -> list[Scalar]:
    """Return ``g(q)``, (nv,) scalars: the efforts that balance gravity [N m | N].

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``region`` : as for
    :func:`.rnea.rnea_scalars`.
    """
    still = [0.0] * model.nv
    return rnea_scalars(model, q, still, still, None, region)


def coriolis_scalars(
    model: Model, q: Sequence[Scalar], qd: Sequence[Scalar], region: Region = no_region
) -> list[Scalar]:
    """Return ``C(q, qd) qd``, (nv,) scalars: Coriolis and centrifugal efforts [N m | N].

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``qd`` : (nv,) scalars, rates; ``region`` : as
    for :func:`.rnea.rnea_scalars`.
    """
    return bias_scalars(weightless(model), q, qd, region)


def bias_scalars(
    model: Model, q: Sequence[Scalar], qd: Sequence[Scalar], region: Region = no_region
) -> list[Scalar]:
    """Return ``C(q, qd) qd + g(q)``, (nv,) scalars: the efforts at zero acceleration [N m | N].

    Arguments as for :func:`coriolis_scalars`.
    """
    return rnea_scalars(model, q, qd, [0.0] * model.nv, None, region)


def gravity(model: Model, q: ArrayLike) -> Array:
    """Return the efforts that balance gravity, ``g(q)`` [N m | N]: (nv,) or (n, nv) float64.

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]. Pinocchio's
    computeGeneralizedGravity. Raises :class:`DynamicsError` like :func:`pinion.dynamics.rnea`.
    """
    still = np.zeros((*np.shape(q)[:-1], model.nv))
    return _rnea(model, q, still, still)


def coriolis(model: Model, q: ArrayLike, qd: ArrayLike) -> Array:
    """Return Coriolis and centrifugal efforts ``C qd`` [N m | N]: (nv,) or (n, nv) float64.

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]; ``qd`` : (nv,) or (n, nv) float,
    joint rates [rad/s | m/s]. Pinocchio's computeCoriolisMatrix times qd; every matrix C has this
    product. Raises :class:`DynamicsError` like :func:`pinion.dynamics.rnea`.
    """
    return bias(weightless(model), q, qd)


def bias(model: Model, q: ArrayLike, qd: ArrayLike) -> Array:
    """Return the efforts at zero acceleration, ``C qd + g`` [N m | N]: (nv,) or (n, nv) float64.

    Arguments and errors as for :func:`coriolis`. Pinocchio's nonLinearEffects.
    """
    return _rnea(model, q, qd, np.zeros((*np.shape(q)[:-1], model.nv)))


def weightless(model: Model) -> Model:
    """Return the robot without gravity."""
    return replace(model, gravity=(0.0, 0.0, 0.0))
