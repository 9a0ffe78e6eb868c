"""Pictures of a build: its schedule, and its errors relative to floats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shlex import quote

from pinion.base.escaping import one_line
from pinion.link import Manifest, ManifestError
from pinion.link.accuracy import ErrorDistribution
from pinion.link.build_files import MODEL, SCHEDULE
from pinion.link.digests import check_digests
from pinion.robot import Model, model_from_dict


class ReportError(ValueError):
    """Error for a folder that lacks the data to show; the message names the command to run."""


def draw_build(folder: Path, into: Path) -> dict[str, str]:
    """Draw the schedule and the errors of a build.

    Parameters
    ----------
    folder : the build folder, verified.
    into : folder of ``schedule_FUNCTION.png`` and ``errors_FUNCTION.png``.

    Returns
    -------
    The paths of the pictures: ``schedule`` and ``errors``.

    Raises
    ------
    ReportError
        If the build is not verified.
    pinion.link.ManifestError
        If the folder is not a build, or a file in it is damaged or of another version.
    """
    pictures: dict[str, Callable[[Path, Path], None]] = {
        "schedule": draw_schedule_of,
        "errors": draw_errors_of,
    }
    function = Manifest.read(folder).function
    paths = {name: into / f"{name}_{function}.png" for name in pictures}
    for name, draw in pictures.items():
        draw(folder, paths[name])
    return {name: str(path) for name, path in paths.items()}


def draw_schedule_of(folder: Path, path: Path) -> None:
    """Draw a build's schedule: units against cycles."""
    # Matplotlib takes half a second to load, and tables do not need it.
    from .schedule_picture import draw_schedule

    manifest, schedule, model = Manifest.read(folder), SCHEDULE.read(folder), _model(folder)
    draw_schedule(path, title=_title(manifest), schedule=schedule, links=len(model.bodies))


def draw_errors_of(folder: Path, path: Path) -> None:
    """Draw the distribution of a build's errors, with its budgets."""
    from .errors_picture import draw_errors

    manifest = Manifest.read(folder)
    errors = ErrorDistribution.find(folder)
    if errors is None or errors.build != f"{manifest.hash:016x}":
        raise ReportError(
            f"'{folder}' has no measured errors of this build: run `pinion verify "
            f"{quote(str(folder))} --distribution {manifest.budget_distribution}`."
        )
    title = f"{_title(manifest)}, {errors.requests:,} requests"
    draw_errors(path, title=title, blocks=errors.blocks)


def _title(manifest: Manifest) -> str:
    return one_line(f"{manifest.function} for {manifest.robot}")


def _model(folder: Path) -> Model:
    """Return the robot of a build, or raise `pinion.link.ManifestError` if it is damaged."""
    check_digests(folder, (MODEL,))
    try:
        return model_from_dict(json.loads((folder / MODEL).read_text()))
    except (OSError, ValueError, AttributeError) as error:
        raise ManifestError(
            f"The build folder '{folder}' is not intact ({error}): build it again."
        ) from None
