"""Expected answers of a build: exact integers for the RTL, floats for the accuracy.

The two comparisons are never mixed: RTL against integers has no tolerance; integers against floats
have the budget that follows from the formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.base.arrays import Flags, Floats, Words
from pinion.batch import check_arrays
from pinion.flow import Build, BuildError
from pinion.formats.budget import undecided
from pinion.formats.scales import blocks_of
from pinion.functions import BuiltFunction, Function
from pinion.graph import Graph, Word, sticky, stream_integers
from pinion.graph.evaluate import FixedValues, Integers
from pinion.link import Manifest
from pinion.link.accuracy import BlockErrors, ErrorDistribution, Verdict
from pinion.link.comparison import Comparison
from pinion.robot import Model

Run = tuple[FixedValues, Flags, dict[str, Floats]]


class Described(Protocol):
    """Interface of a build's or program's folder: robot, function and layout of records."""

    @property
    def manifest(self) -> Manifest:
        """Manifest, with the layout of records and the promised errors."""

    @property
    def model(self) -> Model:
        """The robot."""

    @property
    def function(self) -> BuiltFunction:
        """The function with its float model."""


DescribedT = TypeVar("DescribedT", bound=Described)


class FloatReference(Generic[DescribedT]):
    """Float model of a function, with results in the form that a device returns.

    Parameters
    ----------
    build : what was compiled or built.
    outputs : words of its results.
    lsbs : their LSBs.
    function : a user-defined function whose float model replaces the folder's float graph.
    """

    def __init__(
        self,
        build: DescribedT,
        outputs: Sequence[Word],
        lsbs: Sequence[float],
        function: Function | None = None,
    ) -> None:
        self.build = build
        self.outputs = tuple(outputs)
        self._lsbs = lsbs
        budget = build.manifest.budget
        self.budget = np.array([budget.get(str(word), 0.0) for word in outputs])
        self.function: BuiltFunction | Function = function or build.function

    def float_model(self, words: Words) -> Floats:
        """Return the NumPy float model's results, (n, words_out) float64."""
        results = self.function.evaluate(self.build.model, self.arrays(words))
        return self._gathered(results, len(words))

    def _gathered(self, results: Mapping[str, Floats], count: int) -> Floats:
        """Concatenate result arrays by block name in record order, (n, words_out)."""
        parts = [a.gather(results[a.name]) for a in self.build.manifest.outputs]
        return np.concatenate([part.reshape(count, -1) for part in parts], axis=1)

    def arrays(self, words: Words) -> dict[str, Floats]:
        """Convert request words (n, words_in) to float64 arrays by block name."""
        values = float_values(words)
        arrays, start = {}, 0
        for array in self.build.manifest.inputs:
            block = values[:, start : start + array.words]
            arrays[array.name] = array.scatter(block.reshape(len(words), *array.record_shape))
            start += array.words
        return arrays

    def compared(
        self,
        values: Floats,
        references: Floats,
        flagged: Flags | None,
        undecided: Flags | None = None,
    ) -> Comparison:
        """Compare results (n, words_out) with the float model's."""
        return Comparison.of(
            values,
            references,
            blocks=blocks_of(self.outputs),
            scales=self.build.manifest.scales,
            flagged=flagged,
            undecided=undecided,
        )

    def distribution_of(
        self,
        comparison: Comparison,
        *,
        distribution: str,
        seed: int,
        simulator: str,
        verdict: Verdict,
    ) -> ErrorDistribution:
        """Return the error distribution of valid requests, as the folder stores it."""
        error = comparison.error[comparison.valid]
        blocks, start = [], 0
        for array in self.build.manifest.outputs:
            span = slice(start, start := start + array.words)
            if array.words:
                block = BlockErrors.of(
                    name=array.name,
                    unit=array.unit,
                    lsb=self._lsbs[span][0],
                    words=[str(word) for word in self.outputs[span]],
                    error=error[:, span],
                    budget=self.budget[span],
                )
                blocks.append(block)
        return ErrorDistribution(
            build=f"{self.build.manifest.hash:016x}",
            distribution=distribution,
            requests=len(comparison.valid),
            seed=seed,
            flagged=int(comparison.flagged.sum()),
            simulator=simulator,
            blocks=tuple(blocks),
            verdict=verdict,
        )


class Reference(FloatReference[Build]):
    """Integer and float model of a build.

    Parameters
    ----------
    build : the build, read from its folder.
    function : a user-defined function whose float model replaces the folder's float graph.

    Raises
    ------
    BuildError
        If that function's inputs and results differ from the build's, or the build promises
        nothing.
    """

    def __init__(self, build: Build, function: Function | None = None) -> None:
        if not build.manifest.promises:
            raise BuildError(
                f"The build '{build.folder}' was made by Pinion {build.manifest.version}, which "
                "did not store an error bound for each distribution: build it again."
            )
        if function is not None:
            _check_same(build, function)
        self.graph: Graph = build.graph
        self._integers = Integers(build.graph)
        self.formats = self._integers.formats
        super().__init__(
            build,
            [word for word, _ in build.graph.outputs],
            [self.formats[node].lsb for _, node in build.graph.outputs],
            function,
        )
        self._last: tuple[Words, Flags | None, Run] | None = None

    def integers(self, words: Words, fresh: Flags | None = None) -> Run:
        """Evaluate the integer model for float32 words (n, words_in).

        With states the requests are one stream, from the initial values on.

        Parameters
        ----------
        fresh : requests (n,) before which the state is reset.

        Returns
        -------
        Every node's integers, the requests' flags, and the states at the start of each request, in
        their units, by word.
        """
        if self._last is not None and self._last[0] is words and self._last[1] is fresh:
            return self._last[2]  # cached, because states are evaluated one request at a time
        floats = np.ascontiguousarray(words).view(np.float32).T
        sent = dict(zip(self.graph.inputs, floats, strict=True))
        columns, flags = self._integers.received(sent, len(words))
        if not self.graph.states:
            values = self._integers(columns)
            return values, flags | values.any_saturated(len(words)), {}
        values, stream = stream_integers(self.graph, columns, fresh=fresh)
        entry_states = {
            str(state.word): stream.states[state.word] * self.formats[i].lsb
            for i, state in self.graph.state_nodes().items()
        }
        result = values, sticky(flags | values.any_saturated(len(words)), fresh), entry_states
        self._last = words, fresh, result
        return result

    def expected(self, words: Words, fresh: Flags | None = None) -> tuple[Words, Flags]:
        """Compute the answers of correct RTL: words (n, words_out) as float32 bits, flags (n,)."""
        values, flags, _ = self.integers(words, fresh)
        return self._integers.sent(values, len(words)).view(np.uint32), flags

    def float_model(self, words: Words, fresh: Flags | None = None) -> Floats:
        """Return the NumPy float model's results, (n, words_out) float64.

        With states, each request is evaluated alone, from the states of the integer model;
        `float_stream` shows how errors accumulate over a stream.
        """
        function, model = self.function, self.build.model
        if not function.states:
            return super().float_model(words)
        _, _, entry_states = self.integers(words, fresh)
        # States that no result depends on are only in the float model.
        states = self.build.function.graph.states
        columns = {str(s.word): entry_states.get(str(s.word), np.zeros(len(words))) for s in states}
        return self._gathered(function.step(model, self.arrays(words), columns), len(words))

    def float_stream(self, words: Words, fresh: Flags | None = None) -> Floats:
        """Return the float model's results for the whole stream, (n, words_out) float64."""
        function, model = self.function, self.build.model
        return self._gathered(
            function.follow(model, self.arrays(words), fresh=fresh)[0], len(words)
        )

    def columns(self, words: Words) -> dict[str, Floats]:
        """Return request words as float64 columns (n,) by word name."""
        values = float_values(words)
        return {name: values[:, k] for k, name in enumerate(self.graph.inputs)}

    def undecided(self, words: Words, times: float = 1.0, fresh: Flags | None = None) -> Flags:
        """Return flags (n,) of requests with an undecided comparison, to which no budget applies.

        Parameters
        ----------
        words : requests (n, words_in) as float32 bits.
        times : factor on the error that the build states for the compared values.
        fresh : as for `integers`.
        """
        bounds = {
            int(node.removeprefix("%")): bound * times
            for node, bound in self.build.manifest.decisions.items()
        }
        columns = self.columns(words)
        if bounds and self.graph.states:
            columns |= self.integers(words, fresh)[2]
        return undecided(self.graph, columns, bounds, len(words))

    def comparison(
        self,
        words: Words,
        values: Floats,
        flagged: Flags | None,
        *,
        times: float = 1.0,
        fresh: Flags | None = None,
    ) -> Comparison:
        """Compare results (n, words_out) of requests (n, words_in) with the float model's.

        Parameters
        ----------
        flagged : flagged requests (n,), None for a device without flags.
        times, fresh : as for `undecided`.
        """
        return self.compared(
            values,
            self.float_model(words, fresh),
            flagged,
            self.undecided(words, times, fresh),
        )

    def check_floats(self, words_in: Words, words_out: Words) -> list[str]:
        """Return one message for each result word that is outside the build's budget or NaN.

        Flagged and undecided requests are skipped: no budget applies to them.
        """
        _, flags = self.expected(words_in)
        comparison = self.comparison(words_in, float_values(words_out), flags)
        error = comparison.error[comparison.valid]
        complaints = []
        for k, (name, _) in enumerate(self.graph.outputs):
            # Written so that NaN fails.
            bad = ~(error[:, k] <= self.budget[k])
            if bad.any():
                complaints.append(
                    f"{name} is off by up to {np.max(error[:, k]):.3g} and exceeds its budget of "
                    f"{self.budget[k]:.3g} in {int(bad.sum())} of {len(error)} requests."
                )
        return complaints


def _check_same(build: Build, function: Function) -> None:
    """Raise `BuildError` if a function's arrays or states differ from those of a build."""
    built = build.function
    if built.name != function.name:
        raise BuildError(
            f"The folder was built from '{built.name}', not from '{function.name}': name the "
            "function that it was built from, or build it again."
        )
    for kind, ours, theirs in (
        ("inputs", built.inputs, function.inputs),
        ("results", built.results, function.results),
        ("states", built.states, function.states),
    ):
        built_arrays = [(b.name, b.shape, b.symmetric) for b in ours]
        function_arrays = [(b.name, b.dims(build.model), b.symmetric) for b in theirs]
        if built_arrays != function_arrays:
            before = f"with the {kind} {_listed(built_arrays)}" if ours else f"without {kind}"
            raise BuildError(
                f"The folder was built from '{built.name}' {before}, but '{function.name}' has "
                f"{_listed(function_arrays)}: name the function that it was built from, or build "
                "it again."
            )
    for then, now in zip(built.states, function.states, strict=True):
        begins = now.initials(build.model)
        for word, initial in then.initials(build.model).items():
            if initial != begins[word]:
                raise BuildError(
                    f"The folder was built with an initial value of {initial} for the state "
                    f"'{word}', but '{function.name}' has {begins[word]}: build it again."
                )


def _listed(blocks: Sequence[tuple[str, tuple[int | str, ...], bool]]) -> str:
    """List a function's arrays (name, shape, symmetry) as text for a message."""
    texts = [f"{name} {shape}{' symmetric' * symmetric}" for name, shape, symmetric in blocks]
    return ", ".join(texts) or "none"


def make(folder: Path) -> Reference:
    """Return the reference of a build folder; the cocotb bench calls this in the simulator."""
    return Reference(Build.read(folder))


def float_values(words: Words) -> Floats:
    """Convert float32 bits, an array of any shape, to float64 values."""
    values: Floats = np.ascontiguousarray(words).view(np.float32).astype(np.float64)
    return values


def checked_words(manifest: Manifest, arrays: Mapping[str, ArrayLike]) -> Words:
    """Check a user's request arrays and return them as float32 bits (n, words_in).

    Raises
    ------
    pinion.batch.InputError
        If the arrays are not requests of this build.
    """
    checked = check_arrays(manifest.inputs, arrays)
    full_arrays = {
        a.name: np.broadcast_to(checked.arrays[a.name], (checked.count, *a.shape))
        for a in manifest.inputs
    }
    return request_words(manifest, full_arrays)


def request_words(manifest: Manifest, arrays: Mapping[str, NDArray[np.float32]]) -> Words:
    """Return request arrays by name as float32 bits in record order, (n, words_in)."""
    count = len(next(iter(arrays.values())))
    parts = [
        np.ascontiguousarray(a.gather(arrays[a.name]), dtype=np.float32).reshape(count, a.words)
        for a in manifest.inputs
    ]
    return np.ascontiguousarray(np.concatenate(parts, axis=1)).view(np.uint32)
