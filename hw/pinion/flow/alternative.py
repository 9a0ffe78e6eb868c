"""What formats by signal would give in the place of a uniform format: an estimate, no design."""

from __future__ import annotations

from dataclasses import dataclass

from pinion.formats.auto import AutoFormats, PrecisionError
from pinion.formats.signals import TableFormats
from pinion.functions import Function
from pinion.hls import Design
from pinion.hls.operations import operations
from pinion.hls.schedule.modulo import unit_counts
from pinion.robot import Model

from .objective import AUTO, finite_ranges, objective_timing
from .states import budget_states, scale_states
from .unit_cost import unit_cost


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Formats by signal at the interval of a design.

    Members
    -------
    blocks, blocks_now : DSP48E2 with them and with the design's own format, both estimated from
        the products and their widths.
    max_error : largest relative error on some states of the reference distribution.
    refused : why they cannot be had, as a sentence; then there are no figures but `blocks_now`.
    """

    blocks: int | None
    blocks_now: int
    max_error: float | None
    refused: str = ""

    def figures(self) -> dict[str, int | float | str | None]:
        """The members, JSON-able."""
        return {
            "formats": AUTO,
            "blocks_estimated": self.blocks,
            "blocks_now_estimated": self.blocks_now,
            "max_error": None if self.max_error is None else float(f"{self.max_error:.2g}"),
            "refused": self.refused,
        }

    def sentence(self, formats: str) -> str:
        """What it says, for a design in a uniform format; empty where that takes no blocks."""
        if not self.blocks_now:  # nothing that it could save
            return ""
        if self.refused:
            return f"Formats by signal (--formats {AUTO}) cannot be had instead: {self.refused}"
        return (
            f"With formats by signal (--formats {AUTO}) it would take about {self.blocks} DSP48E2 "
            f"instead of {self.blocks_now} in {formats} (estimates), with a largest relative error "
            f"of {self.max_error:.2g}."
        )


def alternative(model: Model, row: Function, made: Design) -> Alternative:
    """Choose formats by signal for a design in a uniform format, on few states.

    The sums stay as they were gathered for the uniform format, and nothing is scheduled.

    Parameters
    ----------
    made : of the function for the robot.
    """
    ii, states, graph = made.binding.schedule.ii, budget_states(model, row), made.real
    now = unit_cost(made.binding.schedule.units)[0]
    try:
        tables = TableFormats.of(graph, finite_ranges(graph, states))
        auto = AutoFormats(
            states=states, judged=scale_states(model, row), scales=made.scales, tables=tables
        )
        try:
            fixed, _ = auto.refine(graph, ii)
        except PrecisionError:
            if (finer := auto.finer()) is None:
                raise
            auto = finer
            fixed, _ = auto.refine(graph, ii)
    except ValueError as error:
        return Alternative(blocks=None, blocks_now=now, max_error=None, refused=str(error))
    return Alternative(
        blocks=unit_cost(unit_counts(operations(fixed, objective_timing("area", auto)), ii))[0],
        blocks_now=now,
        max_error=auto.error(graph, fixed),
    )
