"""Mutate packages: ``python -m tests.support.mutation driver link``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

# What the tests load besides Pinion, once for all children.
import hypothesis
import numpy as np
import pytest

from .campaign import Campaign, changes_of, drawn, equivalents, measure, score
from .packages import PACKAGES, load

_LOADED = (hypothesis, np, pytest)


def main() -> int:
    """Print each verdict and the score; return 1 if a package's score is below the floor."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.mutation", description=__doc__)
    parser.add_argument("packages", nargs="*", help="all by default")
    parser.add_argument("--sample", type=int, default=300, help="mutants a package")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--skip", type=int, default=0, help="number of mutants to skip at the start of the sample"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--floor", type=float, default=0.0, help="least score, 0 to 1")
    parser.add_argument("--only", default="", help="mutants whose names contain this")
    parser.add_argument(
        "--keep", type=Path, help="folder for verdicts; mutants that are in it are not run again"
    )
    parser.add_argument("--again", action="store_true", help="run kept survivors once more")
    arguments = parser.parse_args()
    if unknown := set(arguments.packages) - PACKAGES.keys():
        parser.error(f"There is no {', '.join(sorted(unknown))}: {', '.join(PACKAGES)} are there.")
    # A run that is told to stop ends its children too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutants: stopped"))
    os.nice(max(0, 10 - os.nice(0)))
    low = []
    for name in [name for name in PACKAGES if name in (arguments.packages or PACKAGES)]:
        package = PACKAGES[name]
        load(package)
        changes = [change for change in changes_of(package) if arguments.only in change.name]
        sample = drawn(changes, sample=arguments.sample, seed=arguments.seed)[arguments.skip :]
        print(f"{name}: the tests as they are", flush=True)
        began = time.monotonic()
        tests = measure(package)
        print(
            f"{name}: {len(sample)} of {len(changes)} mutants, {len(tests.seconds)} tests",
            flush=True,
        )
        verdict_file = None
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            verdict_file = arguments.keep / f"{name}.jsonl"
        campaign = Campaign(
            tests=tests,
            jobs=arguments.jobs,
            verdict_file=verdict_file,
            again=arguments.again,
            report=lambda line: print(line, flush=True),
        )
        verdicts = campaign.run(sample)
        share, counts = score(verdicts)
        reasons = equivalents()
        for verdict in verdicts:
            if verdict.verdict == "survived":
                print(f"survived: line {verdict.line}, {verdict.tests} tests, {verdict.name}")
            elif verdict.verdict == "equivalent":
                print(f"equivalent: {verdict.name}: {reasons[verdict.name]}")
        print(
            f"{name}: {share:.1%} of {len(verdicts)} mutants (seed {arguments.seed}): "
            f"{counts['killed']} killed, {counts['timeout']} hung, {counts['survived']} survived, "
            f"{counts['equivalent']} equivalent; {(time.monotonic() - began) / 60:.0f} minutes",
            flush=True,
        )
        if share < arguments.floor:
            low.append(name)
    if low:
        print(f"mutants: below {arguments.floor:.0%}: {', '.join(low)}", file=sys.stderr)
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
