"""Export of a core with test vectors from the integer model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pinion.base.progress import SILENT, Progress
from pinion.flow import Build
from pinion.flow.export import REQUESTS, export

from .reference import Reference


def export_core(
    folder: Path,
    out: Path,
    *,
    requests: int = REQUESTS,
    name: str | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Export the core of a build, with test vectors whose answers are the integer model's.

    Parameters, results and errors are those of :func:`pinion.flow.export.export`.
    """

    def model(build: Build) -> Any:
        return Reference(build).expected

    return export(folder, out, model=model, requests=requests, name=name, progress=progress)
