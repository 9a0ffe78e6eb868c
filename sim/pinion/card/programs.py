"""Verification of programs of the dynamics processor against their models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pinion.base.arrays import Flags, Floats, Words
from pinion.base.progress import SILENT, Progress
from pinion.cosim import Reference, request_words
from pinion.cosim.reference import FloatReference, float_values
from pinion.cosim.verify import FLAGGED_SHARE
from pinion.driver import pack, result_dtype
from pinion.functions import sample
from pinion.link.accuracy import Verdict
from pinion.link.comparison import Comparison
from pinion.link.relative import floor
from pinion.processor import ProgramError, run
from pinion.processor.folder import ProgramFolder, open_program_folder
from pinion.processor.machine import TEAMS

CARD = "processor:sim"


class ProgramReference(FloatReference[ProgramFolder]):
    """Reference models of a program: exact words of the machine, and floats.

    Parameters
    ----------
    program : read from its folder.
    """

    def __init__(self, program: ProgramFolder) -> None:
        outputs = program.program.outputs
        super().__init__(program, [word for word, _ in outputs], [fmt.lsb for _, fmt in outputs])

    def expected(self, words: Words) -> tuple[Words, Flags]:
        """Return a correct card's answers: words (n, words_out) as float32 bits, and flags (n,)."""
        return run(self.build.program, words)

    def comparison(
        self, words: Words, values: Floats, flagged: Flags | None, *, times: float = 1.0
    ) -> Comparison:
        """Compare results (n, words_out) of requests (n, words_in) with the float model's.

        Parameters
        ----------
        flagged : flagged requests (n,), None for a device without flags.
        times : has no effect: no comparison of a program is undecided.
        """
        del times
        return self.compared(values, self.float_model(words), flagged)


Models = Reference | ProgramReference
"""The models of a build or of a program."""


def verify_program(
    folder: Path,
    *,
    samples: int = 1000,
    seed: int = 0,
    distribution: str = "reference",
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Send requests to a program on the simulated card, and compare bits, errors and cycles.

    On reference states the distribution of errors and the verdict are written into the folder.

    Parameters
    ----------
    folder : the program folder.
    samples, seed, distribution : of the requests (:func:`pinion.functions.sample`).

    Returns
    -------
    JSON-able figures, as of :func:`pinion.cosim.verify`. ``mismatches``: requests whose result
    words or flag differ from the model of the machine. A program has no budget; ``rate_held`` is
    whether a request of each team takes the manifest's interval.

    Raises
    ------
    ValueError, RuntimeError
        Subclasses with a message for the user.
    """
    if samples < 1:
        raise ProgramError(f"A verification needs at least 1 sample, not {samples}.")
    program = ProgramFolder.read(folder)
    manifest = program.manifest
    reference = ProgramReference(program)
    progress.step(f"Drawing {samples:,} requests")
    arrays = sample(program.model, program.function, samples, distribution=distribution, seed=seed)
    words = request_words(manifest, arrays)
    with open_program_folder(program, CARD, progress=progress) as card:
        progress.step(f"Simulating {samples:,} requests")
        result = card.run(**arrays)
    progress.step("Comparing")
    actual = result_words(program, dict(result), samples)
    flags = np.asarray(result.saturated)
    expected, expected_flags = reference.expected(words)
    mismatches = int(((actual != expected).any(axis=1) | (flags != expected_flags)).sum())
    comparison = reference.comparison(words, float_values(actual), flags)
    promised = manifest.promise(distribution)
    wrong = comparison.wrong(promised)
    home = distribution == manifest.budget_distribution
    # A stream takes the interval for a request of each team, and once what the link and the first
    # request take, which begins alone if the next one is not complete. The manifest's interval is
    # that of a sample, rounded up.
    assert result.cycles is not None
    requests, together = program.program.requests(samples), manifest.interleave
    least = -(-requests // TEAMS) * (together * (manifest.ii - 1) + 1)
    rounds = 1 + -(-(requests - 1) // TEAMS)
    most = rounds * together * manifest.ii + manifest.latency_cycles
    rate_held = least <= result.cycles <= most
    figures: dict[str, Any] = {
        "samples": samples,
        "seed": seed,
        "simulator": CARD,
        "distribution": distribution,
        "home": manifest.budget_distribution,
        "float_model": "the float graph in the folder",
        "mismatches": mismatches,
        "flagged": int(flags.sum()),
        "valid": int(comparison.valid.sum()),
        "accuracy_held": comparison.held(wrong),
        "promise": manifest.promises.get(distribution),
        "wrong_above": promised,
        "wrong_unflagged": int(wrong.sum()),
        "floor": {name: floor(manifest.scales[name]) for name in comparison.relative},
        "budget": None,
        "budget_held": None,
        "flags_held": bool(not home or flags.sum() <= FLAGGED_SHARE * samples),
        "schedule_cycles": program.program.cycles,
        "cycles_per_result": result.cycles / samples,
        "rate_held": rate_held,
        "first_divergence": None,
        **comparison.quantiles(),
    }
    verdict = Verdict.of(
        mismatches,
        valid=figures["valid"] > 0,
        budget=True,
        accuracy=figures["accuracy_held"] is not False,
        flags=figures["flags_held"],
        rate=rate_held,
    )
    if home:
        reference.distribution_of(
            comparison,
            distribution=distribution,
            seed=seed,
            simulator=CARD,
            verdict=verdict,
        ).write(program.folder)
    return {**figures, "ok": verdict.ok}


def result_words(program: ProgramFolder, results: dict[str, Any], count: int) -> Words:
    """Return results by name as float32 bits in the record's order, (n, words_out)."""
    outputs = program.manifest.outputs
    sent = {a.name: np.asarray(a.gather(results[a.name])) for a in outputs}
    return pack(result_dtype(program.manifest), sent, count)
