"""A build as an object with methods to verify, synthesise, open and export it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from pinion import driver
from pinion.base import installation
from pinion.base.escaping import one_line
from pinion.base.html import html_table
from pinion.base.progress import SILENT, Progress
from pinion.driver import Device, DriverError
from pinion.driver.queue import WINDOW
from pinion.functions import Function, opportunity_sentences, row_of, snapping_sentence
from pinion.link import Manifest, ManifestError
from pinion.link.build_files import MODEL
from pinion.link.digests import check_digests
from pinion.link.manifest import MANIFEST
from pinion.request import BuildOptions, BuildRequest
from pinion.robot import Model, accepted_inertias, coupled, model_from_dict, placeholder_sentences
from pinion.robot.naming import check_names

from .figures import (
    Bitstream,
    BuildReport,
    ExportedFolder,
    NetlistCheck,
    PromiseCheck,
    Synthesis,
    Verification,
    frozen,
)
from .pages import write_report

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from pinion.flow.by_task import Goal


@dataclass(frozen=True, kw_only=True)
class BuildNotes:
    """Notes on a new build, as sentences; empty if there is nothing to note.

    Members
    -------
    interval : why the interval was chosen.
    inertias : inertias that were accepted on request.
    clock : the clock that differs from the requested one.
    speeds : assumptions on joints without rated speeds.
    gate : errors that exceed the request.
    snapping : changes made by snapping to exact right angles.
    opportunities : possible savings from changes to the robot's file.
    ranges : cost and gain of per-signal formats for the URDF's speed limits instead of rated
        speeds, or the other way round; its figures are ``ranges_figures``.
    replaced : what happened to an earlier build in the same folder.
    """

    interval: str = ""
    inertias: tuple[str, ...] = ()
    clock: str = ""
    speeds: tuple[str, ...] = ()
    gate: str = ""
    snapping: str = ""
    opportunities: tuple[str, ...] = ()
    ranges: str = ""
    ranges_figures: Mapping[str, Any] | None = field(default=None, repr=False)
    replaced: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """All notes, the most important first."""
        alone = (self.gate, self.interval, self.clock)
        sentences = (*alone, *self.inertias, *self.speeds, self.snapping, *self.opportunities)
        return tuple(text for text in (*sentences, self.ranges, self.replaced) if text)


@dataclass(frozen=True, kw_only=True)
class BuiltCore:
    """A build folder, with methods to verify, synthesise, open and export its core.

    Members
    -------
    folder : where it is.
    manifest : the build in numbers; its hash is what a card confirms.
    notes : of the build when it was made; empty if it was opened.
    """

    folder: Path
    manifest: Manifest = field(repr=False)
    notes: BuildNotes = field(default_factory=BuildNotes, repr=False)

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a folder made by ``pinion build``, whose files must all be unchanged.

        Raises
        ------
        pinion.link.ManifestError
            If it is not a build, or a file in it was changed.
        """
        place = Path(folder)
        manifest = Manifest.read(place)
        check_digests(place)
        return cls(folder=place, manifest=manifest)

    @cached_property
    def model(self) -> Model:
        """Robot of the build.

        Raises
        ------
        pinion.link.ManifestError
            If the folder's robot cannot be read.
        """
        path = self.folder / MODEL
        try:
            return check_names(model_from_dict(json.loads(path.read_text())))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ManifestError(
                f"The build folder '{self.folder}' has no intact {MODEL} ({error}): build it again."
            ) from None

    def verify(
        self,
        *,
        samples: int = 1000,
        seed: int = 0,
        distribution: str = "reference",
        simulator: str = "compiled",
        dsp48e2: bool = False,
        bound: bool = False,
        function: str | Function | None = None,
        progress: Progress = SILENT,
    ) -> Verification:
        """Simulate the RTL on random requests; compare it with the integers, and these with floats.

        Parameters
        ----------
        samples, seed, distribution : the requests.
        simulator : ``compiled``, ``icarus`` or ``verilator``.
        dsp48e2 : simulate the explicit DSP48E2 blocks, with a model of them.
        bound : also bound the errors of every request in the distribution's box.
        function : function whose float results errors are measured against, instead of those of
            the build's float graph. A function given by name is imported.
        progress : receives each step.

        Raises
        ------
        ValueError, RuntimeError
            A subclass with an error message: no intact build, an unknown name or a missing tool.
        """
        with installation.needs(DriverError):
            from pinion.cosim.bound import verify_bounded
        figures = verify_bounded(
            self.folder,
            samples=samples,
            seed=seed,
            distribution=distribution,
            simulator=simulator,
            dsp48e2=dsp48e2,
            bound=bound,
            function=None if function is None else row_of(function),
            progress=progress,
        )
        return Verification.of(figures)

    def verify_netlist(
        self,
        *,
        samples: int = 200,
        seed: int = 0,
        arrays: Mapping[str, ArrayLike] | None = None,
        progress: Progress = SILENT,
    ) -> NetlistCheck:
        """Simulate Yosys's netlist for the ECP5, and compare its results with the integer model."""
        with installation.needs(DriverError):
            from pinion.cosim.netlist import check_netlist
        return NetlistCheck.of(
            check_netlist(self.folder, samples, seed=seed, arrays=arrays, progress=progress)
        )

    def verify_promises(
        self, *, samples: int | None = None, seed: int = 0, progress: Progress = SILENT
    ) -> PromiseCheck:
        """Check the promised errors on every distribution of states, with the integer model."""
        with installation.needs(DriverError):
            from pinion.cosim.promises import STATES, check_promises
        count = STATES if samples is None else samples
        return PromiseCheck.of(
            check_promises(self.folder, samples=count, seed=seed, progress=progress)
        )

    def synth(self, *, progress: Progress = SILENT) -> Synthesis:
        """Count DSP blocks, LUTs and flip-flops with Yosys, and estimate delays."""
        with installation.needs(DriverError):
            from pinion.synthesis import synth
        return Synthesis.of(synth(self.folder, progress=progress))

    def report(
        self,
        output: str | os.PathLike[str] | None = None,
        *,
        states: int | None = None,
        synth: bool = False,
        force: bool = False,
        progress: Progress = SILENT,
    ) -> BuildReport:
        """Return the build's figures, with None for each one that was not measured.

        Parameters
        ----------
        output : where to write a page as well, one HTML file (:func:`.pages.write_report`).
        states, synth, force, progress : options of that page.
        """
        page = None
        if output is not None:
            page = write_report(
                [self.folder], output, states=states, synth=synth, force=force, progress=progress
            )
        return BuildReport(figures=frozen(_report_of(self.folder)), page=page)

    def open(
        self,
        device: str = "sim",
        *,
        chunk: int | None = None,
        on_packet: Callable[[int, int], None] | None = None,
        timeout: float | None = None,
        window: int = WINDOW,
        progress: Progress = SILENT,
    ) -> Device:
        """Open a card that holds the build; the options are those of :func:`pinion.driver.open`."""
        return driver.open(
            self.folder,
            device=device,
            chunk=chunk,
            on_packet=on_packet,
            timeout=timeout,
            window=window,
            progress=progress,
        )

    def export(
        self,
        folder: str | os.PathLike[str],
        *,
        requests: int = 64,
        name: str | None = None,
        progress: Progress = SILENT,
    ) -> ExportedFolder:
        """Write the core as a self-contained folder for other designs and tools.

        Parameters
        ----------
        folder : folder to create; it may exist if it is empty.
        requests : number of requests that its test bench sends.
        name : name of the top module; by default robot and function.
        progress : receives each step.
        """
        place = Path(folder)
        with installation.needs(DriverError):
            from pinion.cosim.vectors import export_core
        figures = export_core(self.folder, place, requests=requests, name=name, progress=progress)
        return ExportedFolder(
            name=figures["name"],
            folder=place,
            files=tuple(figures["files"]),
            figures=frozen(figures),
        )

    def bitstream(
        self,
        *,
        vivado: str | os.PathLike[str] | None = None,
        seed: int | None = None,
        progress: Progress = SILENT,
    ) -> Bitstream:
        """Make the bitstream of a build for a board.

        Parameters
        ----------
        vivado : path of the program, if it is not on the PATH.
        seed : seed for another placement with the open-source tools.
        progress : receives each step.
        """
        with installation.needs(DriverError):
            from pinion.flow.bitstreams import make_bitstream
        program = None if vivado is None else Path(vivado)
        return Bitstream.of(
            make_bitstream(self.folder, vivado=program, seed=seed, progress=progress)
        )

    def __repr__(self) -> str:
        m = self.manifest
        return one_line(
            f"<BuiltCore {m.robot} {m.function} {m.formats} ii={m.ii}, {m.hash:016x}, "
            f"in {str(self.folder)!r}>"
        )

    def _repr_html_(self) -> str:
        m = self.manifest
        rows = [
            ("formats", m.formats),
            ("interval", f"one result every {m.ii} cycles"),
            ("latency", f"{m.latency_cycles} cycles, first beat in to last beat out"),
            ("clock", f"{m.clock_mhz:g} MHz, assumed"),
            ("multipliers, adders", f"{m.multipliers}, {m.adders}"),
            ("words in, out", f"{m.words_in}, {m.words_out}"),
            ("largest relative error promised", f"{m.max_error:g}"),
            ("target", m.target),
            ("folder", self.folder),
            ("build", f"{m.hash:016x}"),
        ]
        title = f"{m.function} for {m.robot}"
        return html_table(title, rows, note=" ".join(self.notes.sentences))


def open_build(folder: str | os.PathLike[str]) -> BuiltCore:
    """Open a folder made by ``pinion build``, as :meth:`BuiltCore.read` does."""
    return BuiltCore.read(folder)


def build(
    robot: str | os.PathLike[str] | Model | None,
    function: str | Function,
    folder: str | os.PathLike[str],
    *,
    goal: Callable[[Model, Function], Goal] | None = None,
    progress: Progress = SILENT,
    **options: Unpack[BuildOptions],
) -> BuiltCore:
    """Build a core for a function of a robot; the options are those of ``pinion build``.

    Parameters
    ----------
    robot : a built-in name, the path of a URDF or MJCF file, a loaded model, or None for a function
        that takes no robot.
    function : a name, ``module:function``, ``file.py:function``, or an object.
    folder : the build folder to make; an earlier build there is replaced, or kept beside it if it
        holds files that Pinion did not write, such as a bitstream (``notes.replaced``).
    goal : with formats ``auto``, what they are chosen for instead of an error limit: returns a
        :class:`pinion.flow.by_task.Goal` for robot and function; ``pinion build --task`` makes it
        from a task file with ``pinion.control.task.tracking_loss.TrackingLoss``.
    progress : receives each step and the fraction done, if known; ``Progress(print)`` prints the
        steps.
    options : of the core, ``ii``, ``formats``, ``max_error``, ``ranges``, ``objective``,
        ``target`` and ``clock_mhz`` (:class:`pinion.request.BuildRequest`); of the
        row, ``derivatives``, ``inputs``, ``outputs``, ``joint_terms`` and ``friction_width``
        (:class:`pinion.functions.RowOptions`); of the robot, ``lock``, ``tip``, ``floating_base``,
        ``accept_inertia``, ``snap``, ``gravity``, ``contacts`` and
        ``loops`` (:class:`pinion.robot.RobotOptions`).

    Raises
    ------
    TypeError
        If a build has no such option.
    ValueError
        A subclass with an error message, for everything that the caller can correct.
    pinion.driver.DriverError
        If packages for builds are not installed.
    """
    request = BuildRequest.of(**options)
    return build_requested(
        robot,
        request.row.row(function),
        Path(folder),
        request,
        goal=goal,
        progress=progress,
    )


def build_requested(
    robot: str | os.PathLike[str] | Model | None,
    row: Function,
    folder: Path,
    request: BuildRequest,
    *,
    goal: Callable[[Model, Function], Goal] | None = None,
    progress: Progress = SILENT,
) -> BuiltCore:
    """Build a core for a `Function`; function options in the request are recorded, not applied."""
    with installation.needs(DriverError):
        from pinion.flow import build as build_core
        from pinion.flow.objective import PLAN_SUFFIX
        from pinion.flow.other_ranges import other_ranges
        from pinion.flow.promises import gate_sentence
    replaces = (folder / MANIFEST).is_file()
    if not isinstance(robot, Model):
        progress.step(f"Loading {'none' if robot is None else robot}")
    model, as_read = request.robot.read(robot)
    model, as_read = coupled(model), None if as_read is None else coupled(as_read)
    built = build_core(
        model,
        row,
        folder,
        request,
        as_read=as_read,
        goal=None if goal is None else goal(model, row),
        progress=progress,
    )
    manifest, speeds = built.manifest, None
    if built.design.saved and goal is None and not str(request.formats).endswith(PLAN_SUFFIX):
        progress.step("Estimating what formats for other speeds would give")
        speeds = other_ranges(model, row, built.design)
    clock = ""
    if request.clock_mhz is not None and abs(manifest.clock_mhz - request.clock_mhz) > 1e-3:
        clock = (
            f"A {request.target} cannot make a clock of {request.clock_mhz:g} MHz: the core is "
            f"built for the nearest, {manifest.clock_mhz:g} MHz."
        )
    notes = BuildNotes(
        interval=built.interval,
        inertias=tuple(accepted_inertias(model)) if request.robot.accept_inertia else (),
        clock=clock,
        speeds=tuple(placeholder_sentences(model)),
        gate=gate_sentence(manifest) or "",
        snapping=snapping_sentence(row.name, manifest.snapping) if manifest.snapping else "",
        opportunities=tuple(opportunity_sentences(model, row)),
        ranges="" if speeds is None else speeds.sentence(),
        ranges_figures=None if speeds is None else frozen(speeds.figures()),
        replaced=_replaced(folder, built.earlier) if replaces else "",
    )
    return BuiltCore(folder=folder, manifest=manifest, notes=notes)


def _replaced(folder: Path, place: Path | None) -> str:
    """Return a note on what happened to the earlier build."""
    if place is None:
        return "The earlier build was replaced, along with its results of verify and synth."
    # `samefile`, since the folder may be a link.
    if place.samefile(folder):
        return "The folder already held the same build; it is unchanged."
    return (
        f"The earlier build is kept as '{place}', since files in it were added, changed or "
        "removed after the build: remove that folder when it is no longer needed."
    )


def _report_of(folder: Path) -> dict[str, Any]:
    """Return the figures of :mod:`pinion.report` for a build folder."""
    from pinion.report import build_figures

    return build_figures(folder)
