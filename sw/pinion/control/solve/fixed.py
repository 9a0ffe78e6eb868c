"""Gradients in a core's integer arithmetic, computed without the core, for choosing formats.

Gradients are computed as in the paper's accelerator (Plancher et al. 2021): forward dynamics and
M^-1 in floats, from which ``fd_derivatives_from_minv`` computes the gradient in fixed point. The
integers are those of :func:`pinion.formats.lower`; a build adds the schedule, and the order in
which terms are gathered into sums for its interval.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.api import backend
from pinion.base.arrays import Floats
from pinion.batch import Backend, Result, by_name
from pinion.control.errors import ControlError
from pinion.flow.objective import objective_timing, signal_multiplier
from pinion.formats import AutoFormats, FormatPlan, lower
from pinion.formats.multiplier import Multiplier
from pinion.formats.scales import block_scales
from pinion.formats.signals import TableFormats
from pinion.functions import Function, named_function, reduced_graph
from pinion.graph import Graph
from pinion.graph.evaluate import Integers
from pinion.graph.passes import fold
from pinion.graph.ranges import measure_ranges
from pinion.hls.costs import DatapathCosts
from pinion.hls.design import known_words
from pinion.hls.sums import gather_dots
from pinion.robot import Model

Columns = Mapping[str, Floats]

WIDTHS, II = (4, 3, 2), 8
"""Widths of the dot products into which sums are gathered, for a result every 8 cycles."""


class Arithmetic:
    """Graph of a robot's gradient, before formats are chosen.

    Members
    -------
    model, row : the robot and the function.
    real : the folded graph, without unused input words.
    constants : results that do not depend on the inputs.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.row: Function = named_function("fd_derivatives_from_minv")
        traced = reduced_graph(model, self.row, costs=DatapathCosts())
        matrices = [block for block in self.row.inputs if len(block.shape) > 1]
        droppable = {word for block in matrices for word in block.words(model)}
        self.real, self.constants = known_words(fold(traced), droppable)

    def columns(self, q: Floats, qd: Floats, qdd: Floats, minv: Floats) -> dict[str, Floats]:
        """Return the input words (n,) of states, rounded to float32 as on the link."""
        words: dict[str, Floats] = {}
        for block, values in zip(self.row.inputs, (q, qd, qdd, minv), strict=True):
            flat = values.reshape(len(values), -1).astype(np.float32).astype(np.float64)
            words |= {word: flat[:, at] for word, at in block.positions(self.model).items()}
        return {word: words[word] for word in self.real.inputs}

    def uniform(self, formats: str) -> Graph:
        """Return the graph with one format for all values, such as ``q16.16``."""
        plan = FormatPlan.parse(formats)
        timing = objective_timing("area", plan)
        return lower(gather_dots(self.real, timing, widths=WIDTHS, ii=II), plan)

    def by_signal(self, bits: int, states: Columns, *, margin: float) -> Graph:
        """Return the graph with a format for each value, in words of ``bits`` bits.

        Parameters
        ----------
        bits : 27 for the DSP48E2 with products of 27 x 18 bits; otherwise products of ``bits`` x
            ``bits``, one block up to 18 bits.
        states : (n,) by word; formats hold their values, and values ``margin`` times as large.
        """
        if bits == 27:
            multiplier = signal_multiplier("auto")
            assert multiplier is not None
        else:
            multiplier = Multiplier(name=f"{bits} x {bits}", wide=bits, narrow=bits, adds=False)
        tables = TableFormats.of(
            self.real,
            measure_ranges(self.real, states),
            multiplier=multiplier,
            turn=multiplier.turn,
        )
        plan = AutoFormats(
            states=states,
            judged=states,
            scales=block_scales(self.real, states),
            tables=tables,
            margin=margin,
        )
        timing = objective_timing("area", plan)
        gathered = gather_dots(self.real, timing, widths=WIDTHS, ii=II, addends=multiplier.adds)
        return plan.lower(gathered)


class FixedGradients(Backend):
    """Forward dynamics and M^-1 in float64, and the gradient in the integers of a fixed graph.

    Computes :func:`.plant.gradient_row` for :class:`.plant.Plant`.

    Members
    -------
    arithmetic, fixed : the graph before and after formats are chosen.
    """

    def __init__(self, arithmetic: Arithmetic, fixed: Graph) -> None:
        missing = set(fixed.inputs) - set(arithmetic.real.inputs)
        if missing:
            raise ControlError(
                f"The fixed graph reads '{sorted(missing)[0]}', which is not an input of the "
                "gradient's graph: take both from the same Arithmetic."
            )
        self.arithmetic = arithmetic
        self.fixed = fixed
        self._integers = Integers(fixed)
        self._forward: Backend = backend(arithmetic.model, "aba", device="cpu")
        self._minv: Backend = backend(arithmetic.model, "minv", device="cpu")

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch: q, qd, tau (n, nv) in; qdd, dqdd_dq, dqdd_dqd, minv out."""
        arrays = by_name(self.arithmetic.row.inputs, values, arrays)
        q, qd, tau = (np.asarray(arrays[name], np.float64) for name in ("q", "qd", "tau"))
        qdd = np.asarray(self._forward(q=q, qd=qd, tau=tau).qdd)
        minv = np.asarray(self._minv(q=q).minv)
        gradient, flags = self.gradient(self.arithmetic.columns(q, qd, qdd, minv))
        return Result(arrays={"qdd": qdd, **gradient, "minv": minv}, saturated=flags, cycles=None)

    def gradient(self, columns: Columns) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
        """Return the results (n, nv, nv) by block and the flags (n,) for input words (n,)."""
        count = len(next(iter(columns.values())))
        inputs, flags = self._integers.received(columns, count)
        values = self._integers(inputs)
        flags |= values.any_saturated(count)
        results = self._integers.sent(values, count).astype(np.float64).T
        words = {str(word): x for (word, _), x in zip(self.fixed.outputs, results, strict=True)}
        model, arithmetic = self.arithmetic.model, self.arithmetic
        blocks: dict[str, Floats] = {}
        for block in arithmetic.row.results:
            dims = block.dims(model)
            flat = np.zeros((count, int(np.prod(dims))))
            for place, at in block.positions(model).items():
                constant = arithmetic.constants.get(str(place), 0.0)
                flat[:, at] = words.get(str(place), constant)
            blocks[block.name] = flat.reshape(count, *dims)
        return blocks, flags

    def close(self) -> None:
        """Close the backends of forward dynamics and M^-1."""
        self._forward.close()
        self._minv.close()
