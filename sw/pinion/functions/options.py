"""Options of a function: as keywords, as strings in a manifest, and their application."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from pinion.dynamics.joint_terms import FRICTION_WIDTH

from .blocks import LoadBox
from .errors import FunctionError
from .frames import split_frames
from .row import Function


class RowOptions(TypedDict, total=False):
    """Options of a row, as :func:`pinion.functions.named_function` accepts them.

    Members
    -------
    derivatives : ``composite`` or ``column``, for functions that contain a gradient.
    inputs, outputs : optional inputs and results to add: names, or a comma-separated string.
    joint_terms : names of ``damping``, ``friction`` and ``stiffness``; True for all.
    friction_width : rate within which friction changes sign smoothly [rad/s | m/s].
    parameters : links and figures of joints that become inputs, or ``gravity``: names, or a
        comma-separated string (:meth:`.row.Function.with_parameters`).
    parameter_range : loads that such links carry, such as ``3kg@0.2m``; None for a tenth of the
        robot's mass within 0.2 m.
    frames : links, fixed joints, or either with an offset, whose results replace the tip's, as
        ``elbow,tool=link_7@0,0,0.1``: names, or one string (:meth:`.row.Function.with_frames`).
    reference : ``local``, ``local_world_aligned`` or ``world``, for results of frames; None for the
        row's default.
    """

    derivatives: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    joint_terms: bool | Sequence[str]
    friction_width: float
    parameters: Sequence[str]
    parameter_range: str | None
    frames: Sequence[str]
    reference: str | None


def with_options(row: Function, **options: Unpack[RowOptions]) -> Function:
    """Return a row with all options applied except ``derivatives``.

    Raises
    ------
    FunctionError
        If the row has no such input, result, term, parameter, frame or reference.
    TypeError
        If there is no such option.
    """
    if strange := sorted(options.keys() - RowOptions.__annotations__.keys()):
        # As Python would for a signature with these names.
        raise TypeError(
            f"A function has no option '{strange[0]}'; its options are "
            f"{', '.join(RowOptions.__annotations__)}."
        )
    for option in ("frames", "inputs", "outputs", "parameters"):
        _check_names(option, options.get(option, ()))
    row = row.with_frames(options.get("frames", ()))
    if (reference := options.get("reference")) is not None:
        row = row.with_reference(reference)
    if inputs := options.get("inputs"):
        row = row.with_inputs(inputs)
    if outputs := options.get("outputs"):
        row = row.asked(outputs)
    terms, width = options.get("joint_terms"), options.get("friction_width", FRICTION_WIDTH)
    # Without terms the width is checked all the same, and a row keeps the terms that it has.
    if terms or (not row.joint_terms and width != row.friction_width):
        row = row.with_terms(terms or (), width)
    load = options.get("parameter_range")
    if not isinstance(load, str | None):
        raise FunctionError(f"parameter_range must be a string such as '3kg@0.2m', not {load!r}.")
    return row.with_parameters(
        options.get("parameters", ()), None if load is None else LoadBox.parsed(load)
    )


def _check_names(option: str, value: Any) -> None:
    """Raise `FunctionError` unless an option is a string or a sequence of strings."""
    if isinstance(value, str) or value is None:
        return
    if not isinstance(value, Collection) or not all(isinstance(name, str) for name in value):
        raise FunctionError(
            f"The option {option} cannot be {value!r:.60}: give names, or a comma-separated string."
        )


def options_from_text(texts: Mapping[str, str]) -> RowOptions:
    """Return the options that the strings of :attr:`.row.Function.options` describe."""
    options: Any = {}
    if "derivatives" in texts:
        options["derivatives"] = texts["derivatives"]
    for key in ("inputs", "outputs", "joint_terms", "parameters"):
        if texts.get(key):
            options[key] = tuple(texts[key].split(","))
    if texts.get("frames"):
        options["frames"] = split_frames(texts["frames"])
    if "friction_width" in texts:
        options["friction_width"] = float(texts["friction_width"])
    for key in ("parameter_range", "reference"):
        if key in texts:
            options[key] = texts[key]
    row_options: RowOptions = options
    return row_options
