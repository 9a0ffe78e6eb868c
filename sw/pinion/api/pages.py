"""The HTML report page of builds, for ``pinion report -o`` and :meth:`.BuiltCore.report`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinion.base import installation
from pinion.base.progress import SILENT, Progress
from pinion.driver import DriverError
from pinion.link import Manifest


@dataclass(frozen=True, kw_only=True)
class ReportPage:
    """A report page written to a file.

    Members
    -------
    path : of the HTML file, which is self-contained.
    bytes : its size in bytes.
    slow : warning if it is too large to open quickly, else "".
    """

    path: Path
    bytes: int
    slow: str = ""


def write_report(
    folders: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    states: int | None = None,
    synth: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
) -> ReportPage:
    """Write one HTML file about one or several builds, completely or not at all.

    Parameters
    ----------
    folders : of the builds, in the order of the page.
    output : the file.
    states : number of states of each distribution for the errors; None for 1,000, 0 for none.
    synth : whether to count resources with Yosys if the folder has no counts.
    force : whether to replace a file of that name.
    progress : as for :func:`pinion.api.build`.

    Raises
    ------
    ValueError
        A subclass with an error message: no build, a changed file, or a path that cannot be used.
    pinion.driver.DriverError
        If packages for reports are not installed.
    """
    with installation.needs(DriverError):
        from pinion.flow import Build, facts
        from pinion.report import ReportError, builds
        from pinion.report import build_data as data
        from pinion.report import build_page as page
        from pinion.synthesis import synth as count
    target = Path(output)
    page.check_page_path(target, force=force)  # before minutes of work
    page_builds: list[Any] = []
    for folder in map(Path, folders):
        manifest = Manifest.read(folder)
        if manifest.is_program:
            raise ReportError(
                f"'{folder}' contains a program, but the page shows only cores: for the program's "
                "schedule, see the picture schedule.svg in the folder."
            )
        if synth and builds.resource_record(folder, manifest) is None:
            count(folder, progress=progress)
        progress.step(f"Running {folder.name} on states")
        number = facts.STATES if states is None else states
        build = Build.read(folder)
        page_builds.append(
            data.build_data(folder, facts.build_facts(build, states=number, progress=progress))
        )
    progress.step("Writing the page")
    text = page.build_page(page_builds)
    page.write_page(target, text, force=force)
    size = len(text.encode())
    slow = ""
    if size > page.MOST_BYTES:
        slow = (
            f"The page has {size:,} bytes, more than {page.MOST_BYTES:,}, and will open slowly"
            + (": give fewer builds." if folders[1:] else ".")
        )
    return ReportPage(path=target, bytes=size, slow=slow)
