"""Requests with bit-exact expected results, for a soak test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Words
from pinion.cosim.reference import Reference, request_words
from pinion.driver import Result, pack, result_dtype
from pinion.flow.build import Build
from pinion.functions import sample
from pinion.link import Manifest

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Requests, and their results from the integer model.

    Members
    -------
    manifest : of the build.
    arrays : inputs by name, (n, ...) float32.
    words : (n, words_out) uint32, result words.
    flags : (n,) bool.
    """

    manifest: Manifest
    arrays: Arrays
    words: Words
    flags: Flags

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.words)

    def take(self, rows: NDArray[np.int64]) -> Arrays:
        """Return the inputs of the requests at `rows`, by name."""
        return {name: array[rows] for name, array in self.arrays.items()}

    def wrong(self, rows: NDArray[np.int64], result: Result) -> int:
        """Return the number of a batch's requests whose words or flag differ from the expected."""
        parts = {array.name: array.gather(result[array.name]) for array in self.manifest.outputs}
        words = pack(result_dtype(self.manifest), parts, len(rows))
        differs = (words != self.words[rows]).any(axis=1)
        return int(np.count_nonzero(differs | (result.saturated != self.flags[rows])))


def workload_of(folder: Path, *, count: int = 4096, seed: int = 0) -> Workload:
    """Sample requests for a build, and compute their results with the integer model."""
    build = Build.read(folder)
    arrays = sample(build.model, build.function, count, distribution="reference", seed=seed)
    words, flags = Reference(build).expected(request_words(build.manifest, arrays))
    return Workload(manifest=build.manifest, arrays=dict(arrays), words=words, flags=flags)
