"""An exported core with test vectors of the integer model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pinion.flow.build import Build
from pinion.flow.export import REQUESTS, export

from .reference import Reference


def _quiet(message: str) -> None:
    del message


def export_core(
    folder: Path,
    out: Path,
    *,
    requests: int = REQUESTS,
    name: str | None = None,
    report: Callable[[str], None] = _quiet,
) -> dict[str, Any]:
    """Write the core of a build as a folder, its vectors answered by the exact integers.

    Parameters, results and errors are those of :func:`pinion.flow.export.export`.
    """

    def model(build: Build) -> Any:
        return Reference(build).expected

    return export(folder, out, model=model, requests=requests, name=name, report=report)
