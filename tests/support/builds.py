"""Builds and designs from a robot, a function and keywords, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from pinion.base.progress import SILENT, Progress
from pinion.flow.build import build as build_core
from pinion.flow.by_task import Goal
from pinion.flow.design import make_design as design_core
from pinion.functions import Function
from pinion.hls import Design
from pinion.link import Manifest
from pinion.request import BuildOptions, BuildRequest
from pinion.robot import Model


def build(
    robot: str | Model | None,
    function: str | Function,
    folder: Path,
    *,
    goal: Goal | None = None,
    progress: Progress = SILENT,
    **options: Unpack[BuildOptions],
) -> Manifest:
    """Build a core like `pinion.api.build`, but without estimates of alternatives."""
    request = BuildRequest.of(**options)
    row, (model, as_read) = request.row.row(function), request.robot.read(robot)
    built = build_core(model, row, folder, request, as_read=as_read, goal=goal, progress=progress)
    return built.manifest


def make_design(model: Model, row: Function, **options: Any) -> Design:
    """Design a core; options other than those of a request are passed to `design_core`."""
    names = ("search", "progress")
    build_options = {name: options.pop(name) for name in names if name in options}
    return design_core(model, row, BuildRequest.of(**options), **build_options)
