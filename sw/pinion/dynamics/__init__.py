"""Robot dynamics: free functions on arrays, and the same algorithms for any scalar type.

The array functions take float arrays of one state ``(nq,)`` or a batch ``(n, nq)``. The functions
called ``*_scalars`` are the algorithms themselves and run on floats, batches, complex steps and
tracing symbols alike.

There are two formulations (docs/adr/0008, docs/adr/0016):

*The minimal one* is the ``*_scalars``, for every joint. Each of its operations becomes one in a
core or a compiled program, so it is written for the fewest operations: body coordinates, unit
vectors as axes, classical accelerations without linear velocities, successive rotations and levers
instead of 6x6 matrices, no operations on constant zeros and ones.

*The general one* is :mod:`pinion.dynamics.general`: textbook spatial algebra with dense matrices in
base axes, batched in NumPy. The array functions use it for robots with a joint that is neither
revolute nor prismatic. Traced, it would cost several times the operations.

They share the robot model and the checks of arguments, but no recursion: each verifies the other.

A mimic joint is independent, as in Pinocchio's models by default, unless the model is coupled
(:func:`pinion.robot.coupled`): then q, qd, qdd and tau are those of the free joints.
"""

from __future__ import annotations

from pinion.dynamics import arrays, kinematics, mass_centre

from .aba import aba_scalars
from .arrays import ForwardDerivatives
from .bias import bias, bias_scalars, coriolis, coriolis_scalars, gravity, gravity_scalars
from .centroidal import (
    CentroidalDerivatives,
    centroidal_derivatives_scalars,
    centroidal_momentum,
    centroidal_momentum_scalars,
    centroidal_rate_scalars,
)
from .checks import DynamicsError
from .constraint_derivatives import (
    ConstraintDerivatives,
    ConstraintGradient,
    constraint_dynamics_derivatives,
    constraint_dynamics_derivatives_scalars,
)
from .constraints import CONTACT_REFERENCES, constraint_dynamics, constraint_dynamics_scalars
from .contact_acceleration import (
    ContactAcceleration,
    ContactGradient,
    contact_acceleration,
    contact_acceleration_scalars,
)
from .crba import crba_scalars
from .discrete import STEP_METHODS, StepMethod, discrete_derivatives, discrete_dynamics
from .energy import kinetic_energy_scalars, potential_energy_scalars
from .external import forces_on_bodies, forces_on_bodies_scalars
from .fd_derivatives import (
    ForwardGradient,
    fd_derivatives_from_minv_scalars,
    fd_derivatives_scalars,
    minus_minv_times_scalars,
)
from .fd_second_derivatives import (
    ForwardSecondDerivatives,
    fd_second_derivatives_scalars,
    step_second_derivatives_scalars,
)
from .frame_motion import frame_acceleration_scalars, frame_jacobian_rate_scalars
from .general.manifold import (
    difference,
    integrate,
    neutral_configuration,
    normalise,
    random_configuration,
)
from .general.tangent import integrate_jacobians
from .impulses import (
    ImpulseDerivatives,
    ImpulseGradient,
    impulse_dynamics,
    impulse_dynamics_derivatives,
    impulse_dynamics_derivatives_scalars,
    impulse_dynamics_scalars,
)
from .kinematics import frame_jacobian_scalars, frame_placement_scalars, frame_velocity_scalars
from .link_states import link_states_scalars
from .mass_centre import centre_of_mass_scalars, com_jacobian_scalars
from .mimic import MimicMap, also_coupled, reduce_mimic
from .minimal import minimal_model
from .minv import minv_scalars
from .operational import (
    inverse_operational_space_inertia,
    inverse_operational_space_inertia_scalars,
    operational_space_inertia,
    operational_space_inertia_scalars,
)
from .parametric import (
    count_of,
    parameter_map,
    parameter_values,
    parameters_of,
    parametric_model,
)
from .regressor import (
    fd_parameter_derivatives_scalars,
    gravity_regressor,
    gravity_regressor_scalars,
    inertial_parameters,
    joint_regressor_scalars,
    kinetic_energy_regressor,
    kinetic_energy_regressor_scalars,
    potential_energy_regressor,
    potential_energy_regressor_scalars,
    rnea_regressor,
    rnea_regressor_scalars,
)
from .rnea import Region, rnea_scalars
from .rnea_derivatives import rnea_derivatives_from_links_scalars, rnea_derivatives_scalars
from .rnea_second_derivatives import SecondDerivatives, rnea_second_derivatives_scalars
from .scalar import Scalar
from .steps import step_scalars

aba = also_coupled(arrays.aba)
crba = also_coupled(arrays.crba)
fd_derivatives = also_coupled(arrays.fd_derivatives)
fd_derivatives_from_minv = also_coupled(arrays.fd_derivatives_from_minv)
kinetic_energy = also_coupled(arrays.kinetic_energy)
link_states = also_coupled(arrays.link_states)
minv = also_coupled(arrays.minv)
potential_energy = also_coupled(arrays.potential_energy)
rnea = also_coupled(arrays.rnea)
rnea_derivatives = also_coupled(arrays.rnea_derivatives)

centre_of_mass = also_coupled(mass_centre.centre_of_mass)
com_jacobian = also_coupled(mass_centre.com_jacobian)
frame_jacobian = also_coupled(kinematics.frame_jacobian)
frame_placement = also_coupled(kinematics.frame_placement)
frame_velocity = also_coupled(kinematics.frame_velocity)

__all__ = [
    "CONTACT_REFERENCES",
    "STEP_METHODS",
    "CentroidalDerivatives",
    "ConstraintDerivatives",
    "ConstraintGradient",
    "ContactAcceleration",
    "ContactGradient",
    "DynamicsError",
    "ForwardDerivatives",
    "ForwardGradient",
    "ForwardSecondDerivatives",
    "ImpulseDerivatives",
    "ImpulseGradient",
    "MimicMap",
    "Region",
    "Scalar",
    "SecondDerivatives",
    "StepMethod",
    "aba",
    "aba_scalars",
    "bias",
    "bias_scalars",
    "centre_of_mass",
    "centre_of_mass_scalars",
    "centroidal_derivatives_scalars",
    "centroidal_momentum",
    "centroidal_momentum_scalars",
    "centroidal_rate_scalars",
    "com_jacobian",
    "com_jacobian_scalars",
    "constraint_dynamics",
    "constraint_dynamics_derivatives",
    "constraint_dynamics_derivatives_scalars",
    "constraint_dynamics_scalars",
    "contact_acceleration",
    "contact_acceleration_scalars",
    "coriolis",
    "coriolis_scalars",
    "count_of",
    "crba",
    "crba_scalars",
    "difference",
    "discrete_derivatives",
    "discrete_dynamics",
    "fd_derivatives",
    "fd_derivatives_from_minv",
    "fd_derivatives_from_minv_scalars",
    "fd_derivatives_scalars",
    "fd_parameter_derivatives_scalars",
    "fd_second_derivatives_scalars",
    "forces_on_bodies",
    "forces_on_bodies_scalars",
    "frame_acceleration_scalars",
    "frame_jacobian",
    "frame_jacobian_rate_scalars",
    "frame_jacobian_scalars",
    "frame_placement",
    "frame_placement_scalars",
    "frame_velocity",
    "frame_velocity_scalars",
    "gravity",
    "gravity_regressor",
    "gravity_regressor_scalars",
    "gravity_scalars",
    "impulse_dynamics",
    "impulse_dynamics_derivatives",
    "impulse_dynamics_derivatives_scalars",
    "impulse_dynamics_scalars",
    "inertial_parameters",
    "integrate",
    "integrate_jacobians",
    "inverse_operational_space_inertia",
    "inverse_operational_space_inertia_scalars",
    "joint_regressor_scalars",
    "kinetic_energy",
    "kinetic_energy_regressor",
    "kinetic_energy_regressor_scalars",
    "kinetic_energy_scalars",
    "link_states",
    "link_states_scalars",
    "minimal_model",
    "minus_minv_times_scalars",
    "minv",
    "minv_scalars",
    "neutral_configuration",
    "normalise",
    "operational_space_inertia",
    "operational_space_inertia_scalars",
    "parameter_map",
    "parameter_values",
    "parameters_of",
    "parametric_model",
    "potential_energy",
    "potential_energy_regressor",
    "potential_energy_regressor_scalars",
    "potential_energy_scalars",
    "random_configuration",
    "reduce_mimic",
    "rnea",
    "rnea_derivatives",
    "rnea_derivatives_from_links_scalars",
    "rnea_derivatives_scalars",
    "rnea_regressor",
    "rnea_regressor_scalars",
    "rnea_scalars",
    "rnea_second_derivatives_scalars",
    "step_scalars",
    "step_second_derivatives_scalars",
]
