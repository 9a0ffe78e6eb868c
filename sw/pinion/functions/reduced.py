"""Reduction of a function's trace to a graph with fewer operations, step by step.

A row's algorithm is traced on the robot's minimal model and folded; numeric passes then look for
values that are computed twice. They need states to search in, from :func:`independent_states`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.progress import SILENT, Progress
from pinion.dynamics.checks import rotation_slices
from pinion.dynamics.minimal import regrouped_model, slid_model
from pinion.graph import Graph, GraphError, Word, evaluate_floats, op_counts, stream_floats
from pinion.graph.costs import Costs
from pinion.graph.passes import fold, number_values, resubstitute
from pinion.robot import JointKind, Model, coupled

from .blocks import Quantity
from .row import Function, mapped_arrays, word_columns
from .samples import sample

# An identity holds everywhere; this many states of each batch distinguish it from a coincidence.
STATES = 24

# Share of the time for tracing, approximately.
_TRACED = 0.2

# Requests of the stream that shows how large states become.
_STREAM = 500

# Largest value of a state among those to search in.
_LARGEST = 1e4

# Seeds of the states to search in and to check with.
SEEDS = (20_190, 4_711)

# Share of a result's largest value by which a reduction may change it: far above rounding where a
# matrix is nearly singular, and far below a wrong relation.
_ROUNDING = 1e-5

# Part of an array's largest value by which its words differ from the states to check with, where
# results are compared.
_SPREAD = 0.2


@dataclass(frozen=True, kw_only=True)
class Saving:
    """Operation counts of a function after one step of the reduction.

    Members
    -------
    step, doc : name of the step, and what it does.
    ops : remaining operations by name (:func:`pinion.graph.op_counts`).
    """

    step: str
    doc: str
    ops: Mapping[str, int]

    def figures(self) -> dict[str, Any]:
        """Return the step, its explanation and its operation counts as JSON-compatible data."""
        return {"step": self.step, "doc": self.doc, **self.ops}


def independent_states(
    model: Model, function: Function, count: int, *, seed: int, mapped: bool = False
) -> dict[str, NDArray[np.float64]]:
    """Sample independent input words (count,) in float64, with the magnitudes of requests.

    With `mapped`, parameters are those of a mapped trace.

    Angles are from the whole circle. A caller's M^-1 follows from q, to rounding, and quantities of
    links from the whole state, zeros included; here their entries do not, so that no saving relies
    on a relation that a request may break. Nor are quaternions, and planar joints' cosine and sine,
    of unit length, nor words zero because a function draws only zeros for them.
    """
    model = coupled(model)
    rng = np.random.default_rng(seed)
    requests = sample(model, function, count, distribution="reference", seed=seed)
    if mapped:
        requests = mapped_arrays(requests, function.parameter_map(model))
    turns = [
        body.joint.kind in (JointKind.REVOLUTE, JointKind.HELICAL)
        for body in model.bodies
        for _ in range(0 if model.follows(body) else body.joint.kind.nq)
    ]
    states: dict[str, NDArray[np.float64]] = {}
    for block in function.inputs:
        columns = requests[block.name].astype(np.float64).reshape(count, -1)
        if block.sampling is Quantity.POSITION:
            columns = np.where(turns, rng.uniform(-np.pi, np.pi, columns.shape), columns)
            for joint_slice, _ in rotation_slices(model):
                columns[:, joint_slice] *= rng.uniform(0.9, 1.1, (count, 1))
        elif block.sampling is Quantity.CONTACT_MASK:
            # Numbers between, which the stand-in of a choice takes (`pinion.graph.choices`): zeros
            # would show thousands of relations that hold nowhere else, and ones alone a constant
            # ratio of two values that a mask removes.
            columns = rng.uniform(0.1, 0.9, columns.shape)
        elif isinstance(block.sampling, Quantity) and block.sampling.of_links:
            columns = rng.uniform(-1.0, 1.0, columns.shape) * np.max(np.abs(columns))
        elif len(block.shape) > 1:
            columns = columns * rng.uniform(0.5, 1.5, columns.shape)
        else:
            # The last bits of a request are zeros of its format; here they are arbitrary.
            columns = columns * rng.uniform(0.9, 1.1, columns.shape)
        # A word that is zero in all draws may be another number in a request: efforts of a floating
        # base are drawn as zeros.
        still = ~columns.any(axis=0)
        of_state = isinstance(block.sampling, Quantity)
        if still.any() and (not of_state or block.sampling is Quantity.CONTACT_EFFORT):
            reach = float(np.max(np.abs(columns), initial=0.0)) or 1.0
            columns[:, still] = rng.uniform(-reach, reach, (count, int(still.sum())))
        states |= {word: columns[:, at] for word, at in block.positions(model).items()}
    if function.states:
        states |= _independent_words(model, function, rng, count)
    return states


def _independent_words(
    model: Model, function: Function, rng: np.random.Generator, count: int
) -> dict[str, NDArray[np.float64]]:
    """Sample independent state words (count,), with the magnitudes they reach in a stream.

    A state that is 0 throughout is drawn as large as 1: it may not stay there. One that grows
    without limit is drawn no larger than `_LARGEST`, so that what is added to it is not lost.
    """
    requests = sample(model, function, _STREAM, distribution="reference", seed=SEEDS[0])
    graph = function.trace(model, minimal=False)
    stream_states = stream_floats(graph, word_columns(function.inputs, model, requests)).states
    with np.errstate(all="ignore"):
        sizes = {
            word: min(float(np.max(np.abs(np.nan_to_num(column)))) or 1.0, _LARGEST)
            for word, column in stream_states.items()
        }
    return {word: rng.uniform(-1.0, 1.0, count) * size for word, size in sizes.items()}


def reduced_graph(
    model: Model,
    function: Function,
    *,
    costs: Costs,
    mapped: bool = False,
    progress: Progress = SILENT,
) -> Graph:
    """Trace a function of a robot and remove every superfluous operation that the passes find.

    The graph equals ``function.trace(model, mapped=mapped)`` in real arithmetic, with the same
    words in the same order.

    Parameters
    ----------
    costs : costs of operations on the target machine; no result is delayed, by its latencies.
    progress : receives the share completed.
    """
    graph = fold(function.trace(model, mapped=mapped))
    progress.advance(_TRACED)
    rest = progress.part(_TRACED, 1.0)
    return _numeric(graph, Batches.of(model, function, mapped=mapped), costs, rest)[-1]


def savings(model: Model, function: Function, *, costs: Costs) -> list[Saving]:
    """Count a core's operations after each step of :func:`reduced_graph`.

    The first row is the trace of the robot as loaded, with or without what :func:`.snapping`
    compares; the last row is the reduced graph.
    """
    table = []
    for step, doc, graph in _steps(model, function, costs):
        table.append(Saving(step=step, doc=doc, ops=op_counts(graph)))
    return table


def _steps(model: Model, function: Function, costs: Costs) -> list[tuple[str, str, Graph]]:
    """Return the name, explanation and graph of each step."""
    traced = function.trace(model, minimal=False)
    steps = [
        ("traced", "the algorithm on the robot as loaded", traced),
        ("folded", "constants, signs and equal expressions folded", fold(traced)),
    ]
    if function.joint_space:
        slid = slid_model(coupled(model))
        regrouped = regrouped_model(slid)
        for step, doc, moved in (
            ("slid", "frames slid along their axes", slid),
            ("regrouped", "inertias regrouped to base parameters", regrouped),
        ):
            if not function.parameters:  # which are in the frames of the robot's links
                steps.append((step, doc, fold(function.trace(moved, minimal=False))))
        rescaled = fold(function.trace(model, mapped=True))
        steps.append(("rescaled", "a lever as the unit of length", rescaled))
    elif function.parameters:
        steps[-1] = (*steps[-1][:2], fold(function.trace(model, mapped=True)))
    batches = Batches.of(model, function, mapped=True)
    numbered, resubstituted = _numeric(steps[-1][2], batches, costs)
    steps.append(("numbered", "equal values computed once", numbered))
    steps.append(("resubstituted", "values computed from existing ones", resubstituted))
    return steps


def _numeric(
    graph: Graph,
    batches: Batches,
    costs: Costs,
    progress: Progress = SILENT,
) -> tuple[Graph, Graph]:
    """Return a folded graph after value numbering, and after resubstitution as well."""
    numbered = number_values(graph, batches.search, batches.check, costs=costs)
    reduced = resubstitute(numbered, batches.search, batches.check, costs=costs, progress=progress)
    return numbered, batches.compared(graph, reduced)


def numbered_graph(graph: Graph, model: Model, function: Function, *, costs: Costs) -> Graph:
    """Return a folded graph with equal values computed once, and without terms that cancel."""
    batches = Batches.of(model, function)
    numbered = number_values(graph, batches.search, batches.check, costs=costs)
    return batches.compared(graph, numbered)


@dataclass(frozen=True, kw_only=True)
class Batches:
    """Sampled states for the numeric passes.

    Members
    -------
    search, check : by word, (n,): to look for relations in, and to confirm them.
    requests : to compare results at: masks are 0 or 1, as those of requests are, and no word has
        the value that sampling gave it.
    """

    search: dict[str, NDArray[np.float64]]
    check: dict[str, NDArray[np.float64]]
    requests: dict[str, NDArray[np.float64]]

    @classmethod
    def of(cls, model: Model, function: Function, *, mapped: bool = False) -> Batches:
        """Sample the batches for a function of a robot."""
        search, check = (
            independent_states(model, function, STATES, seed=seed, mapped=mapped) for seed in SEEDS
        )
        rng, requests = np.random.default_rng(SEEDS[1]), dict(check)
        for block in function.inputs:
            words = list(block.positions(coupled(model)))
            reach = max((float(np.max(np.abs(check[word]))) for word in words), default=0.0)
            for word in words:
                if block.sampling is Quantity.CONTACT_MASK:
                    requests[word] = rng.integers(0, 2, STATES).astype(np.float64)
                elif block.sampling is not Quantity.POSITION:
                    requests[word] = check[word] + _SPREAD * reach * rng.uniform(-1, 1, STATES)
        return cls(search=search, check=check, requests=requests)

    def compared(self, graph: Graph, reduced: Graph) -> Graph:
        """Return the reduced graph; raise if its results differ from the other graph's.

        The passes confirm each relation with stand-ins for functions that are not smooth
        (:class:`pinion.graph.passes.samples.Samples`); here these take their true values.

        Raises
        ------
        GraphError
            If a result differs by more than rounding: a fault of a pass.
        """
        with np.errstate(all="ignore"):
            before, after = (evaluate_floats(form, self.requests) for form in (graph, reduced))
        sizes: dict[str, float] = {}
        for word, value in before.items():
            block = Word.of(word).block
            sizes[block] = max(sizes.get(block, 0.0), float(np.max(np.abs(np.nan_to_num(value)))))
        for word, value in before.items():
            limit = _ROUNDING * sizes[Word.of(word).block]
            if not np.allclose(after[word], value, rtol=0.0, atol=limit, equal_nan=True):
                raise GraphError(
                    f"The reduction of this function changed its result '{word}' by "
                    f"{float(np.max(np.abs(after[word] - value))):.2g}, where values reach "
                    f"{sizes[Word.of(word).block]:.2g}: nothing was built. This is a defect in "
                    "Pinion; report it with the robot and the function."
                )
        return reduced
