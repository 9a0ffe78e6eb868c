"""The table of functions from the literature, one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pinion.dynamics.joint_terms import FRICTION_WIDTH

from .errors import FunctionError
from .row import Function
from .rows import SUBJECTS
from .rows.dynamics import DERIVATIVES as DERIVATIVES

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {row.name: row for rows in SUBJECTS.values() for row in rows}
)


def table_function(
    name: str,
    *,
    derivatives: str = "composite",
    outputs: Sequence[str] = (),
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> Function:
    """Return a row by name.

    Parameters
    ----------
    derivatives : ``composite`` (closed form, fewest operations) or ``column`` (one chain per joint,
        the formulation of Plancher et al. 2021), for the functions that contain a gradient.
    outputs : optional results to add, such as ``minv`` for ``fd_derivatives``.
    joint_terms, friction_width : passive terms of the joints, as in
        :meth:`.row.Function.with_terms`.

    Raises
    ------
    FunctionError
        If there is no such row or variant; the message lists the names.
    """
    if name not in FUNCTIONS:
        raise FunctionError(f"There is no function '{name}'; choose one of {', '.join(FUNCTIONS)}.")
    row = FUNCTIONS[name]
    if derivatives not in DERIVATIVES:
        raise FunctionError(
            f"There is no formulation '{derivatives}' of the derivatives; choose one of "
            f"{', '.join(DERIVATIVES)}."
        )
    if derivatives != DERIVATIVES[0]:
        if not row.variants:
            gradients = [row.name for row in FUNCTIONS.values() if row.variants]
            raise FunctionError(
                f"'{name}' contains no gradient, so it has no formulation '{derivatives}'; the "
                f"functions that do are {', '.join(gradients)}."
            )
        row = row.formulated(derivatives)
    return row.asked(outputs).with_terms(joint_terms, friction_width)
