"""Results of operations on a build: frozen objects with figures, and their display in notebooks.

The important figures are typed members; all of them, as in the command line's ``--json``, are under
``figures``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pinion.base.html import html_table

from .pages import ReportPage


def frozen(value: Any) -> Any:
    """Return JSON-serialisable data as read-only mappings and tuples."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: frozen(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return tuple(frozen(inner) for inner in value)
    return value


def short(value: object) -> str:
    """Return a figure as a short string, or a dash for None."""
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Result of comparing RTL with the integer model, bit for bit, and that model with floats.

    Members
    -------
    ok : whether all promises of the build hold.
    samples, seed, distribution, simulator : the requests and the simulator.
    mismatches : requests with any wrong bit.
    valid : requests whose errors were judged; without any the verification fails.
    flagged, undecided : requests that raised the flag, and those with a comparison that rounding
        may change.
    wrong_unflagged : unflagged requests whose errors are too large.
    latency_cycles : from the first input beat to the last output beat, of the first request.
    cycles_per_result : as measured.
    rel_err_median, rel_err_p99, rel_err_max : relative errors by result block; None without valid
        requests.
    error_max : largest absolute error by result word, in its unit.
    bound : bound on the error by result word; empty unless requested.
    first_divergence : place of the first wrong bit, None without one.
    figures : all of :func:`pinion.cosim.verify.verify`.
    """

    ok: bool
    samples: int
    seed: int
    distribution: str
    simulator: str
    mismatches: int
    valid: int
    flagged: int
    undecided: int
    wrong_unflagged: int
    latency_cycles: int
    cycles_per_result: float
    rel_err_median: Mapping[str, float | None]
    rel_err_p99: Mapping[str, float | None]
    rel_err_max: Mapping[str, float | None]
    error_max: Mapping[str, float | None]
    bound: Mapping[str, float]
    first_divergence: str | None
    figures: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> Self:
        """Create a `Verification` from the result of `verify`."""
        members = frozen({"undecided": 0, "bound": {}, **figures})
        names = [name for name in cls.__dataclass_fields__ if name != "figures"]
        return cls(**{name: members[name] for name in names}, figures=frozen(figures))

    def _repr_html_(self) -> str:
        verdict = "every check holds" if self.ok else "a check FAILED"
        rows = [
            (name, short(median), short(self.rel_err_p99[name]), short(self.rel_err_max[name]))
            for name, median in self.rel_err_median.items()
        ]
        return html_table(
            f"{self.samples} {self.distribution} requests, {self.mismatches} mismatches, "
            f"{self.flagged} flagged: {verdict}",
            rows,
            heads=("relative error", "median", "99 %", "largest"),
            note=self.first_divergence or "",
        )


@dataclass(frozen=True, kw_only=True)
class NetlistCheck:
    """Result of comparing a mapped netlist with the integer model, bit for bit.

    Members
    -------
    ok : whether every bit agrees.
    requests, mismatches : number of requests, and of those with a wrong bit.
    cells : number of LUT4 in the netlist.
    figures : all of :func:`pinion.cosim.netlist.check_netlist`.
    """

    ok: bool
    requests: int
    mismatches: int
    cells: int
    figures: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> Self:
        """Create a `NetlistCheck` from the result of `check_netlist`."""
        names = ("ok", "requests", "mismatches", "cells")
        return cls(**{name: figures[name] for name in names}, figures=frozen(figures))

    def _repr_html_(self) -> str:
        names = ("requests", "mismatches", "cells")
        verdict = "every bit agrees" if self.ok else "the check FAILED"
        return html_table(f"Netlist: {verdict}", [(name, getattr(self, name)) for name in names])


@dataclass(frozen=True, kw_only=True)
class PromiseCheck:
    """Promised and measured errors of a build on every distribution.

    Members
    -------
    ok : every result that is neither flagged nor undecided is as accurate as promised, and there
        are such results on the states that the build is for.
    samples : requests of each distribution.
    promises, largest : relative errors by distribution, promised and measured; None where no
        request was valid when the build was measured, or in this check.
    valid : requests by distribution that are neither flagged nor undecided.
    figures : all of :func:`pinion.cosim.promises.check_promises`.
    """

    ok: bool
    samples: int
    promises: Mapping[str, float | None]
    largest: Mapping[str, float | None]
    valid: Mapping[str, int]
    figures: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> Self:
        """Create a `PromiseCheck` from the result of `check_promises`."""
        distributions = figures["distributions"]
        return cls(
            ok=figures["ok"],
            samples=figures["samples"],
            promises=frozen({name: row["promise"] for name, row in distributions.items()}),
            largest=frozen({name: row["largest"] for name, row in distributions.items()}),
            valid=frozen({name: row["valid"] for name, row in distributions.items()}),
            figures=frozen(figures),
        )

    def _repr_html_(self) -> str:
        return html_table(
            f"{self.samples} requests of each distribution: "
            + ("as promised" if self.ok else "a promise is BROKEN"),
            [
                (name, short(promise), short(self.largest[name]), self.valid[name])
                for name, promise in self.promises.items()
            ],
            heads=("states", "promised", "largest", "valid"),
        )


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """Resources of a part as counted by Yosys, and a clock estimate made without placement.

    Members
    -------
    part, tool : the part, and the tool that counted.
    dsp, lut, ff, bram : DSP blocks, LUTs, flip-flops, block RAMs of 36 Kb.
    lutram, srl : LUTs that are memory, not in ``lut``.
    levels : cells on the critical path, the slowest by the estimate.
    timing : the estimate (:func:`pinion.synthesis.timing.estimate_timing`).
    figures : all of :func:`pinion.synthesis.synth.synth`.
    """

    part: str
    tool: str
    dsp: int
    lut: int
    ff: int
    bram: float
    lutram: int
    srl: int
    levels: int
    timing: Mapping[str, Any] = field(repr=False)
    figures: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> Self:
        """Create a `Synthesis` from the result of `synth`."""
        members = frozen(figures)
        names = [name for name in cls.__dataclass_fields__ if name != "figures"]
        return cls(**{name: members[name] for name in names}, figures=members)

    def _repr_html_(self) -> str:
        names = ("dsp", "lut", "lutram", "srl", "ff", "bram", "levels")
        rows = [(name, short(getattr(self, name))) for name in names]
        return html_table(f"Resources on a {self.part}", rows, note=str(self.figures["note"]))


@dataclass(frozen=True, kw_only=True)
class ExportedFolder:
    """A folder with an exported core, for other designs and tools.

    Members
    -------
    name : of the top module.
    folder, files : the folder and the paths of its files.
    figures : all of :func:`pinion.flow.export.export`.
    """

    name: str
    folder: Path
    files: tuple[str, ...]
    figures: Mapping[str, Any] = field(repr=False)

    def _repr_html_(self) -> str:
        return html_table(
            f"{self.name} in {self.folder}", [(file,) for file in self.files], heads=("file",)
        )


@dataclass(frozen=True, kw_only=True)
class Bitstream:
    """Bitstream of a board's FPGA; it has no file if timing is not met.

    Members
    -------
    target : the board.
    met : whether timing is met.
    path : of the file, None without one.
    figures : all of :func:`pinion.flow.bitstreams.make_bitstream`.
    """

    target: str
    met: bool
    path: Path | None
    figures: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> Self:
        """Create a `Bitstream` from the result of `make_bitstream`."""
        file = figures["bitstream"]
        return cls(
            target=figures["target"],
            met=bool(figures["met"]),
            path=None if file is None else Path(file),
            figures=frozen(figures),
        )

    def _repr_html_(self) -> str:
        verdict = "timing is met" if self.met else "timing is MISSED"
        return html_table(f"{self.target}: {verdict}", [("bitstream", self.path or "none")])


@dataclass(frozen=True, kw_only=True)
class BuildReport:
    """Known figures of a build: manifest, results of its board's tools, netlist check.

    Members
    -------
    figures : by name, None if a figure was not measured for this build.
    page : the HTML file, if one was requested.
    """

    figures: Mapping[str, Any]
    page: ReportPage | None = None

    def _repr_html_(self) -> str:
        rows = [(name, short(value)) for name, value in self.figures.items()]
        return html_table(f"Build {self.figures['folder']}", rows)
