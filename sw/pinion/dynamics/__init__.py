"""Mechanics of robots: free functions on arrays, and the same algorithms over any scalar.

The array functions take float arrays of one state ``(nq,)`` or a batch ``(n, nq)``. The functions
called ``*_scalars`` are the algorithms themselves and run on floats, batches, complex steps and
tracing symbols alike.
"""

from __future__ import annotations

from pinion.dynamics.arrays import DynamicsError, kinetic_energy, potential_energy, rnea
from pinion.dynamics.energy import kinetic_energy_scalars, potential_energy_scalars
from pinion.dynamics.rnea import Region, rnea_scalars
from pinion.dynamics.scalar import Scalar

__all__ = [
    "DynamicsError",
    "Region",
    "Scalar",
    "kinetic_energy",
    "kinetic_energy_scalars",
    "potential_energy",
    "potential_energy_scalars",
    "rnea",
    "rnea_scalars",
]
