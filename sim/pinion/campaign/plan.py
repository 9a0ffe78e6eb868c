"""Plan of a campaign: the inputs that determine its final statistics.

A campaign is cut into chunks, and a chunk is a pure function of the plan and its number: the
requests of chunk k come from a counter-based generator (Philox, Salmon et al. 2011) keyed by the
seed and k. The figures therefore do not depend on the number of workers, on the order in which
they finish or on how often they are killed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from pinion.base import source_digest
from pinion.base.arrays import Words
from pinion.base.sources import up_to
from pinion.cosim import request_words
from pinion.flow import Build
from pinion.functions import DISTRIBUTIONS, FunctionError, sample
from pinion.link.digests import DIGESTS
from pinion.processor.folder import ProgramFolder

from .errors import CampaignError

CHUNK = 10_000
"""Default number of requests in a chunk: about a second of work."""

MOST_CHUNKS = 1_000_000
"""Largest number of chunks: storing more records would take longer than computing them."""

GIVEN = "given"
"""Placeholder for the distribution when the user supplies the requests."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan of a campaign: build, device, states and limits.

    Members
    -------
    what : the robot and the function, for people.
    build : hash of the build, 16 hexadecimal digits.
    folder : SHA-256 of the folder's ``digests.json``; for a batch, of everything besides the
        requests that determines its results (:mod:`.batch`).
    device : ``integers``, ``rtl``, a backend or a card.
    distribution : distribution of the states, or `GIVEN`.
    seed : seed of the states that are sampled.
    states, chunk : requests in all and in a chunk; the last chunk may have fewer.
    keep : whether results are stored in addition to figures.
    max_error : largest relative error that passes, None for the build's promise.
    requests : SHA-256 of the user's requests, empty if they are sampled.
    sources : Pinion's version with a digest of its sources.
    numpy : the version of NumPy, which samples the states.
    """

    what: str
    build: str
    folder: str
    device: str
    distribution: str
    seed: int
    states: int
    chunk: int
    keep: bool
    max_error: float | None
    requests: str
    sources: str
    numpy: str

    @property
    def key(self) -> str:
        """Digest of the plan, which identifies the campaign."""
        text = json.dumps(asdict(self), sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.states // self.chunk)

    def span(self, number: int) -> tuple[int, int]:
        """Return the index of a chunk's first request, and the index after its last."""
        start = number * self.chunk
        return start, min(start + self.chunk, self.states)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as a JSON-able dictionary."""
        return asdict(self)

    def generator(self, number: int) -> np.random.Generator:
        """Return a chunk's own random generator, seeded by the plan's seed and its number."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(number,))
        return np.random.Generator(np.random.Philox(sequence))

    def words(self, build: Build | ProgramFolder, number: int) -> Words:
        """Sample the requests of a chunk, as float32 bits (n, words_in)."""
        start, stop = self.span(number)
        arrays = sample(
            build.model,
            build.function,
            stop - start,
            distribution=self.distribution,
            seed=self.generator(number),
        )
        return request_words(build.manifest, arrays)


# Many parameters: each is a field of the plan.
def make_plan(
    build: Build | ProgramFolder,
    *,
    device: str,
    states: int,
    distribution: str,
    seed: int,
    chunk: int,
    keep: bool,
    max_error: float | None,
    words: Words | None,
) -> Plan:
    """Check the arguments of a campaign and return its plan.

    Parameters
    ----------
    words : the user's requests (n, words_in), None to sample them.

    Raises
    ------
    CampaignError, pinion.functions.FunctionError
        If a number or a name is invalid.
    """
    if max_error is not None and not 0.0 <= max_error < float("inf"):
        raise CampaignError(
            f"max_error (--max-error) must be finite and at least 0, not {max_error!r}."
        )
    check_numbers(states=states, chunk=chunk, distribution=distribution if words is None else None)
    return Plan(
        what=f"{build.manifest.robot} {build.manifest.function}",
        build=f"{build.manifest.hash:016x}",
        folder=sha256((build.folder / DIGESTS).read_bytes()).hexdigest(),
        device=device,
        distribution=distribution,
        seed=seed,
        states=states,
        chunk=chunk,
        keep=keep,
        max_error=max_error,
        requests="" if words is None else sha256(words.tobytes()).hexdigest(),
        **plan_identity(),
    )


def check_numbers(*, states: int, chunk: int, distribution: str | None) -> None:
    """Check the number of states, the chunk size and the distribution of a campaign.

    Parameters
    ----------
    distribution : None if the user supplies the requests.

    Raises
    ------
    CampaignError, pinion.functions.FunctionError
        If a number or a name is invalid.
    """
    if states < 1:
        raise CampaignError(f"states (--states) must be at least 1, not {states}.")
    if chunk < 1:
        raise CampaignError(f"chunk (--chunk) must be at least 1, not {chunk}.")
    if distribution is not None and distribution not in DISTRIBUTIONS:
        raise FunctionError(
            f"There is no distribution '{distribution}'; choose one of {', '.join(DISTRIBUTIONS)}."
        )
    if -(-states // chunk) > MOST_CHUNKS:
        raise CampaignError(
            f"{states:,} states in chunks of {chunk:,} need {-(-states // chunk):,} records, but "
            f"at most {MOST_CHUNKS:,} are allowed: set chunk (--chunk) to "
            f"{-(-states // MOST_CHUNKS)} or more."
        )


def plan_identity() -> dict[str, str]:
    """Return the source digest and NumPy version that all machines of a campaign must share."""
    return {"sources": source_digest(up_to("campaign")), "numpy": np.__version__}


def plan_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Describe all differences of their plan from ours, both as dictionaries; "" if none."""
    names = [name for name in ours if ours.get(name) != theirs.get(name)]
    # Another robot or function implies other hashes, and another build another folder.
    if "what" in names:
        names = [name for name in names if name not in ("build", "folder")]
    elif "build" in names:
        names = [name for name in names if name != "folder"]
    words = {
        "what": "robot and function",
        "build": "hash of the robot's numbers and all options",
        "folder": "hash of the build's files",
        "requests": "hash of the requests",
    }
    pairs = [(name, theirs.get(name), ours.get(name)) for name in names]
    return ", ".join(
        # The beginning of a hash is enough to tell it from another.
        f"{words[name]} {str(their_value)[:16]!r} instead of {str(our_value)[:16]!r}"
        if words.get(name, "").startswith("hash")
        else f"{words.get(name, name)} {their_value!r} instead of {our_value!r}"
        for name, their_value, our_value in pairs
    )
