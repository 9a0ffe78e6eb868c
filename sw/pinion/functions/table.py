"""The table of functions from the literature, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Unpack

from .errors import FunctionError
from .options import RowOptions, with_options
from .row import Function
from .rows import SUBJECTS
from .rows.dynamics import DERIVATIVES as DERIVATIVES

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {row.name: row for rows in SUBJECTS.values() for row in rows}
)


def table_function(name: str, **options: Unpack[RowOptions]) -> Function:
    """Return a row by name, with options applied.

    Parameters
    ----------
    options : of the row. ``derivatives`` is ``composite`` (closed form, fewest operations) or
        ``column`` (one chain per joint, the formulation of Plancher et al. 2021), for the functions
        that contain a gradient.

    Raises
    ------
    FunctionError
        If there is no such row or variant; the message lists the names.
    """
    if name not in FUNCTIONS:
        raise FunctionError(f"There is no function '{name}'; choose one of {', '.join(FUNCTIONS)}.")
    row, derivatives = FUNCTIONS[name], options.get("derivatives", DERIVATIVES[0])
    if derivatives not in DERIVATIVES:
        raise FunctionError(
            f"There is no formulation '{derivatives}' of the derivatives; choose one of "
            f"{', '.join(DERIVATIVES)}."
        )
    if derivatives != DERIVATIVES[0]:
        if not row.variants:
            gradients = [row.name for row in FUNCTIONS.values() if row.variants]
            raise FunctionError(
                f"'{name}' has no formulation '{derivatives}' of derivatives; the functions that "
                f"have it are {', '.join(gradients)}."
            )
        row = row.formulated(derivatives)
    return with_options(row, **options)
