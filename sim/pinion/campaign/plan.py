"""What a campaign is: everything that its final figures follow from, and nothing else.

A campaign is cut into chunks, and a chunk is a pure function of the plan and of its number: the
requests of chunk k come from a counter-based generator (Philox, Salmon et al. 2011) that is keyed
by the seed and k. How many workers there are, in which order they finish and how often they are
killed is therefore in no figure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from pinion.base.sources import source_digest, up_to
from pinion.cosim.reference import Words, request_words
from pinion.flow.build import Build
from pinion.functions import DISTRIBUTIONS, FunctionError, sample
from pinion.link.digests import DIGESTS

from .errors import CampaignError

CHUNK = 10_000
"""Requests of a chunk, unless another number is asked for: about a second of work."""

MOST_CHUNKS = 1_000_000
"""Of a campaign: more records than that would take longer to store than to compute."""

GIVEN = "given"
"""In the place of a distribution: the requests are the user's own."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One campaign.

    Members
    -------
    what : the robot and the function, for people.
    build : hash of the build, 16 hexadecimal digits.
    folder : SHA-256 of the folder's ``digests.json``; of a batch, of all that its results follow
        from besides the requests (:mod:`.batch`).
    device : what computes: ``integers``, ``rtl``, a backend or a card.
    distribution : of the states, or `GIVEN`.
    seed : of the states that are drawn.
    states, chunk : requests in all and in a chunk; the last chunk may have fewer.
    keep : whether results are stored besides figures.
    max_error : largest relative error that is right, None for the build's own promise.
    requests : SHA-256 of requests that were given, else empty.
    sources : Pinion's version with a digest of its sources.
    numpy : the version of NumPy, which draws the states.
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
        """A digest that names the campaign."""
        text = json.dumps(asdict(self), sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.states // self.chunk)

    def span(self, number: int) -> tuple[int, int]:
        """The first request of a chunk and the one behind its last."""
        start = number * self.chunk
        return start, min(start + self.chunk, self.states)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    def generator(self, number: int) -> np.random.Generator:
        """What draws the requests of a chunk."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(number,))
        return np.random.Generator(np.random.Philox(sequence))

    def words(self, build: Build, number: int) -> Words:
        """Requests of a chunk that are drawn, as float32 bits (n, words_in)."""
        start, stop = self.span(number)
        arrays = sample(
            build.model,
            build.function,
            stop - start,
            distribution=self.distribution,
            seed=self.generator(number),
        )
        return request_words(build.manifest, arrays)


# Many parameters: what identifies a campaign, each a field of the plan that it makes.
def make_plan(
    build: Build,
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
    """The plan of a campaign, with numbers that make sense.

    Parameters
    ----------
    words : requests that were given (n, words_in), None where they are drawn.

    Raises
    ------
    CampaignError, pinion.functions.FunctionError
        A number or a name that does not do.
    """
    if max_error is not None and not 0.0 <= max_error < float("inf"):
        raise CampaignError(f"The largest error allowed is {max_error!r}: give a number from 0 on.")
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
        **identity(),
    )


def check_numbers(*, states: int, chunk: int, distribution: str | None) -> None:
    """See that a campaign can be cut into chunks, and its states be drawn.

    Parameters
    ----------
    distribution : None where the requests are given.

    Raises
    ------
    CampaignError, pinion.functions.FunctionError
        A number or a name that does not do.
    """
    if states < 1:
        raise CampaignError(f"A campaign needs at least 1 state, not {states}.")
    if chunk < 1:
        raise CampaignError(f"A chunk needs at least 1 state, not {chunk}.")
    if distribution is not None and distribution not in DISTRIBUTIONS:
        raise FunctionError(
            f"There is no distribution '{distribution}'; choose one of {', '.join(DISTRIBUTIONS)}."
        )
    if -(-states // chunk) > MOST_CHUNKS:
        raise CampaignError(
            f"{states:,} states in chunks of {chunk:,} are {-(-states // chunk):,} records: give "
            f"chunks of at least {-(-states // MOST_CHUNKS):,}."
        )


def identity() -> dict[str, str]:
    """What two machines must have in common to work on one campaign."""
    return {"sources": source_digest(up_to("campaign")), "numpy": np.__version__}


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """What differs between two plans in their dictionary form, for a sentence on theirs."""
    names = [name for name in ours if ours.get(name) != theirs.get(name)]
    # Of another robot or function the hashes are others in any case, and of a build its folder's.
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
        # The beginning of a hash tells it from another.
        f"{words[name]} {str(held)[:16]!r} instead of {str(asked)[:16]!r}"
        if words.get(name, "").startswith("hash")
        else f"{words.get(name, name)} {held!r} instead of {asked!r}"
        for name, held, asked in pairs
    )
