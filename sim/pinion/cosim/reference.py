"""What a build should answer: exact integers for the RTL, floats for the accuracy.

Two comparisons that are never mixed: RTL against integers has no tolerance; integers against
floats have the budget that follows from the formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pinion.fixedpoint import Flags
from pinion.flow.build import Build, BuildError
from pinion.formats.budget import undecided
from pinion.formats.scales import result_blocks
from pinion.functions import BuiltFunction, Function
from pinion.graph import Graph, sticky, stream_integers
from pinion.graph.evaluate import FixedValues, Integers
from pinion.link import Manifest
from pinion.link.accuracy import BlockErrors, ErrorDistribution, Verdict
from pinion.link.comparison import Comparison

Words = NDArray[np.uint32]
Floats = NDArray[np.float64]

Run = tuple[FixedValues, Flags, dict[str, Floats]]


class Reference:
    """The models of one build.

    Parameters
    ----------
    build : read from its folder.
    function : a function of the user's whose float model is taken in place of the float graph that
        the folder holds.

    Raises
    ------
    BuildError
        When that function has not the build's inputs and results, or the build promises nothing.
    """

    def __init__(self, build: Build, function: Function | None = None) -> None:
        if not build.manifest.promises:
            raise BuildError(
                f"The build '{build.folder}' is of Pinion {build.manifest.version}, which promised "
                "no errors by distribution: build it again."
            )
        self.build = build
        self.function: BuiltFunction | Function = build.function
        if function is not None:
            _check_same(build, function)
            self.function = function
        self.graph: Graph = build.graph
        self._integers = Integers(build.graph)
        self.formats = self._integers.formats
        self._last: tuple[Words, Flags | None, Run] | None = None
        self.budget = np.array([build.manifest.budget[name] for name, _ in self.graph.outputs])

    def integers(self, words: Words, fresh: Flags | None = None) -> Run:
        """Every node's integers for float32 words (n, words_in), the requests' flags, and the
        states that the requests find, in their units, by word.

        With states the requests are one stream, from the initial values on.

        Parameters
        ----------
        fresh : requests (n,) before which the state is reset.
        """
        if self._last is not None and self._last[0] is words and self._last[1] is fresh:
            return self._last[2]  # request by request is slow
        floats = np.ascontiguousarray(words).view(np.float32).T
        sent = dict(zip(self.graph.inputs, floats, strict=True))
        columns, flags = self._integers.received(sent, len(words))
        if not self.graph.states:
            values = self._integers(columns)
            return values, flags | values.any_saturated(len(words)), {}
        values, stream = stream_integers(self.graph, columns, fresh=fresh)
        found = {
            str(state.word): stream.states[state.word] * self.formats[i].lsb
            for i, state in self.graph.state_nodes().items()
        }
        result = values, sticky(flags | values.any_saturated(len(words)), fresh), found
        self._last = words, fresh, result
        return result

    def expected(self, words: Words, fresh: Flags | None = None) -> tuple[Words, Flags]:
        """Result words (n, words_out) as float32 bits, and flags (n,): what the RTL must give."""
        values, flags, _ = self.integers(words, fresh)
        return self._integers.sent(values, len(words)).view(np.uint32), flags

    def float_model(self, words: Words, fresh: Flags | None = None) -> Floats:
        """The NumPy float model on the same requests, (n, words_out) float64.

        With states it is that of each request alone: it begins at what the integers found. What
        their errors add up to over a stream shows in `float_stream`.
        """
        function, model = self.function, self.build.model
        if not function.states:
            return self._gathered(function.evaluate(model, self.arrays(words)), len(words))
        _, _, found = self.integers(words, fresh)
        # A state that no result depends on is in the float model alone.
        whole = self.build.function.graph.states
        columns = {str(s.word): found.get(str(s.word), np.zeros(len(words))) for s in whole}
        return self._gathered(function.step(model, self.arrays(words), columns), len(words))

    def float_stream(self, words: Words, fresh: Flags | None = None) -> Floats:
        """The float model left to itself over the whole stream, (n, words_out) float64."""
        function, model = self.function, self.build.model
        return self._gathered(
            function.follow(model, self.arrays(words), fresh=fresh)[0], len(words)
        )

    def _gathered(self, results: Mapping[str, Floats], count: int) -> Floats:
        """Arrays by block name as the record has them, (n, words_out)."""
        parts = [a.gather(results[a.name]) for a in self.build.manifest.outputs]
        return np.concatenate([part.reshape(count, -1) for part in parts], axis=1)

    def arrays(self, words: Words) -> dict[str, Floats]:
        """Request words (n, words_in) as float64 arrays by block name."""
        values = float_values(words)
        arrays, start = {}, 0
        for array in self.build.manifest.inputs:
            block = values[:, start : start + array.words]
            arrays[array.name] = array.scatter(block.reshape(len(words), *array.record_shape))
            start += array.words
        return arrays

    def columns(self, words: Words) -> dict[str, Floats]:
        """Request words as float64 columns (n,) by word name."""
        values = float_values(words)
        return {name: values[:, k] for k, name in enumerate(self.graph.inputs)}

    def undecided(self, words: Words, times: float = 1.0, fresh: Flags | None = None) -> Flags:
        """Requests (n,) in which a comparison may be decided either way: no budget holds for them.

        Parameters
        ----------
        words : requests (n, words_in) as float32 bits.
        times : what is compared may be off by so many times what the build states.
        fresh : as of `integers`.
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
        """Results (n, words_out) of requests (n, words_in) beside the float model's.

        Parameters
        ----------
        flagged : requests (n,), None of what raises no flags.
        times, fresh : as of `undecided`.
        """
        return Comparison.of(
            values,
            self.float_model(words, fresh),
            blocks=result_blocks(self.graph),
            scales=self.build.manifest.scales,
            flagged=flagged,
            undecided=self.undecided(words, times, fresh),
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
        """The errors of valid requests, for the build folder."""
        error = comparison.error[comparison.valid]
        outputs, blocks, start = self.graph.outputs, [], 0
        for array in self.build.manifest.outputs:
            own = slice(start, start := start + array.words)
            if array.words:
                block = BlockErrors.of(
                    name=array.name,
                    unit=array.unit,
                    lsb=self.formats[outputs[own][0][1]].lsb,
                    words=[name for name, _ in outputs[own]],
                    error=error[:, own],
                    budget=self.budget[own],
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

    def check_floats(self, words_in: Words, words_out: Words) -> list[str]:
        """Complaints about results outside the build's budget, one sentence a result word.

        Flagged requests are left out: their results are known to be useless; and so are undecided
        ones. A result that is not a number is a complaint.
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
                    f"{name} is off by {np.max(error[:, k]):.3g} at worst and breaks its budget of "
                    f"{self.budget[k]:.3g} in {int(bad.sum())} of {len(error)} requests."
                )
        return complaints


def _check_same(build: Build, function: Function) -> None:
    """Raise when a function is not what a folder was built of, as far as its arrays tell."""
    built = build.function
    for what, ours, theirs in (
        ("inputs", built.inputs, function.inputs),
        ("results", built.results, function.results),
        ("states", built.states, function.states),
    ):
        held = [(b.name, b.shape, b.symmetric) for b in ours]
        found = [(b.name, b.dims(build.model), b.symmetric) for b in theirs]
        if held != found or built.name != function.name:
            raise BuildError(
                f"The folder was built of '{built.name}' with the {what} {_listed(held)}, and "
                f"'{function.name}' has {_listed(found)}: name the function that it was built of, "
                "or build it again."
            )
    for then, now in zip(built.states, function.states, strict=True):
        begins = now.initials(build.model)
        for word, initial in then.initials(build.model).items():
            if initial != begins[word]:
                raise BuildError(
                    f"The folder was built with the state '{word}' beginning at {initial:g}, and "
                    f"in '{function.name}' it begins at {begins[word]:g}: build it again."
                )


def _listed(blocks: Sequence[tuple[str, tuple[int | str, ...], bool]]) -> str:
    """Arrays of a function in a sentence."""
    return ", ".join(f"{name} {shape}" for name, shape, _ in blocks) or "none"


def make(folder: Path) -> Reference:
    """The reference of a build folder; the cocotb bench calls this inside the simulator."""
    return Reference(Build.read(folder))


def float_values(words: Words) -> Floats:
    """Words of any shape, float32 bits, as float64."""
    values: Floats = np.ascontiguousarray(words).view(np.float32).astype(np.float64)
    return values


def request_words(manifest: Manifest, arrays: Mapping[str, NDArray[np.float32]]) -> Words:
    """Request arrays by name as float32 bits in record order, (n, words_in)."""
    count = len(next(iter(arrays.values())))
    parts = [
        np.ascontiguousarray(a.gather(arrays[a.name]), dtype=np.float32).reshape(count, -1)
        for a in manifest.inputs
    ]
    return np.ascontiguousarray(np.concatenate(parts, axis=1)).view(np.uint32)
