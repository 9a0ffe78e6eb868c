"""Test vectors of an exported core: requests, and the expected words and flags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pinion.base.arrays import Flags, Words
from pinion.flow.build import Build
from pinion.functions import sample

IntegerModel = Callable[[Words], tuple[Words, Flags]]

FORMAT = 1

# Float32 words that no state has: NaN, infinities, a huge number, negative zero, the smallest
# number.
SPECIAL = (0x7FC00000, 0x7F800000, 0xFF800000, 0x7149F2CA, 0x80000000, 0x00000001)


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """Test vectors: requests, and the expected words and flags.

    Members
    -------
    requests : (n, words_in) uint32, float32 bits in record order.
    results : (n, words_out) uint32, likewise.
    flags : (n,) bool.
    """

    requests: Words
    results: Words
    flags: Flags


def make_vectors(build: Build, model: IntegerModel, *, count: int, seed: int) -> Vectors:
    """Sample requests and compute the answers with the integer model.

    Of eight requests, six are of the build's distribution, one is far outside it (it may be
    flagged), and in one a word is replaced by a special one. With states the first half is only of
    that distribution, since every request after a flag is flagged.

    Parameters
    ----------
    model : request words (n, words_in) to result words (n, words_out) and flags (n,): exact
        integers, such as ``pinion.cosim.reference.Reference.expected``.
    """
    home = build.manifest.budget_distribution
    requests = _draw(build, count, home, seed)
    places = np.arange(count) % 8
    if build.function.states:
        places[: count // 2] = 0
    requests[places == 6] = _draw(build, count, "beyond", seed + 1)[places == 6]
    rng = np.random.default_rng(seed + 2)
    for turn, row in enumerate(np.flatnonzero(places == 7)):
        requests[row, rng.integers(requests.shape[1])] = SPECIAL[turn % len(SPECIAL)]
    results, flags = model(requests)
    return Vectors(requests=requests, results=results, flags=flags)


def _draw(build: Build, count: int, distribution: str, seed: int) -> Words:
    arrays = sample(build.model, build.function, count, distribution=distribution, seed=seed)
    parts = [a.gather(arrays[a.name]).reshape(count, -1) for a in build.manifest.inputs]
    return np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32).view(np.uint32)


def vectors_data(name: str, build: Build, vectors: Vectors) -> dict[str, object]:
    """Return the content of ``tb/vectors.json``; words are 8 hexadecimal digits."""
    manifest = build.manifest
    return {
        "format": FORMAT,
        "name": name,
        "generator": f"Pinion {manifest.version}",
        "hash": f"{manifest.hash:016x}",
        "ii": manifest.ii,
        "latency_cycles": manifest.latency_cycles,
        "lanes_in": manifest.lanes_in,
        "beats_in": manifest.beats_in,
        "lanes_out": manifest.lanes_out,
        "beats_out": manifest.beats_out,
        "words_out": manifest.words_out,
        "requests": [_hex(row) for row in vectors.requests],
        "results": [_hex(row) for row in vectors.results],
        "flags": [int(flag) for flag in vectors.flags],
    }


def _hex(row: Words) -> str:
    return " ".join(f"{int(word):08x}" for word in row)
