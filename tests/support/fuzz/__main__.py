"""``python -m tests.support.fuzz [BUILD] --cases N --seed S``: all campaigns, one line each."""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pinion.cosim.engines import CompileError
from pinion.link import Manifest, ManifestError
from tests.support.builds import build
from tests.support.fuzz.devices import fuzz_devices
from tests.support.fuzz.manifests import fuzz_manifests
from tests.support.fuzz.packets import fuzz_packets
from tests.support.fuzz.registers import fuzz_registers
from tests.support.fuzz.responses import fuzz_responses
from tests.support.fuzz.tally import Tally
from tests.support.fuzz.tops import fuzz_tops

SHARES = {
    "responses": 0.45,
    "manifests": 0.2,
    "registers": 0.1,
    "devices": 0.01,
    "packets": 0.22,
    "tops": 0.02,
}
"""Share of the cases by campaign: cases in RTL cost a hundred times as much as others."""

PATIENCE = 300.0
"""Seconds that a campaign may take in addition to its cases; a hang ends with a traceback."""

PER_CASE = 0.02


def main(arguments: Sequence[str] | None = None, *, watch: bool = False) -> int:
    """Run the campaigns; return 0 if none failed, 1 if one did, 2 for an invalid build folder.

    Parameters
    ----------
    watch : end the process, with a traceback, when a campaign takes much too long.
    """
    options = _parse(arguments)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            return _run(options, Path(scratch), watch)
    except ManifestError as error:
        print(error, file=sys.stderr)
        return 2


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.fuzz",
        description="Random and mutated records, manifests and register values, into both ends.",
    )
    parser.add_argument(
        "build",
        nargs="?",
        type=Path,
        metavar="BUILD",
        help="a build folder for the campaign in RTL; by default rnea of the two-link arm, made "
        "for the occasion",
    )
    parser.add_argument("--cases", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace, scratch: Path, watch: bool) -> int:
    folder, seed = options.build, options.seed
    if folder is None:
        folder = scratch / "build"
        build("two_link", "rnea", folder, ii=4)
    manifest = Manifest.read(folder)
    campaigns: dict[str, Callable[[int], Tally]] = {
        "responses": lambda n: fuzz_responses(cases=n, seed=seed),
        "manifests": lambda n: fuzz_manifests(cases=n, seed=seed, manifest=manifest),
        "registers": lambda n: fuzz_registers(cases=n, seed=seed, manifest=manifest),
        "devices": lambda n: fuzz_devices(cases=n, seed=seed),
        "packets": lambda n: fuzz_packets(cases=n, seed=seed),
        "tops": lambda n: fuzz_tops(cases=n, seed=seed, folder=folder),
    }
    tallies: list[Tally] = []
    left_out = {}
    for name, campaign in campaigns.items():
        cases = max(1, round(SHARES[name] * options.cases))
        if watch:
            faulthandler.dump_traceback_later(PATIENCE + PER_CASE * cases, exit=True)
        try:
            tallies.append(campaign(cases))
        except CompileError as error:
            left_out[name] = str(error)
            continue
        finally:
            if watch:
                faulthandler.cancel_dump_traceback_later()
        if not options.json:
            print(_line(tallies[-1]), flush=True)
    _report(options, tallies, left_out)
    # A campaign that did not run, or tried nothing, has found nothing out.
    idle = any(tally.cases == 0 for tally in tallies)
    missed = bool(left_out) or len(tallies) != len(SHARES) or idle
    return 1 if missed or any(tally.failed for tally in tallies) else 0


def _line(tally: Tally) -> str:
    more = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in tally.more.items())
    return (
        f"{tally.name:15s} {tally.cases:9,} cases in {tally.seconds:6.1f} s "
        f"({tally.cases / max(tally.seconds, 1e-9):9,.0f}/s, slowest {1e3 * tally.slowest:.0f} ms)"
        f": {tally.refused:,} refused or dropped, {tally.accepted:,} accepted, "
        f"{tally.failed:,} failed" + (f"; {more}" if more else "")
    )


def _report(
    options: argparse.Namespace, tallies: Sequence[Tally], left_out: dict[str, str]
) -> None:
    cases, failed = sum(t.cases for t in tallies), sum(t.failed for t in tallies)
    if options.json:
        campaigns = [tally.to_dict() for tally in tallies]
        data = {"seed": options.seed, "cases": cases, "failed": failed, "left_out": left_out}
        print(json.dumps({**data, "campaigns": campaigns}))
        return
    for name, reason in left_out.items():
        print(f"{name}: not run. {reason}")
    for tally in tallies:
        for failure in tally.failures:
            print(failure)
    seconds = sum(t.seconds for t in tallies)
    print(f"{cases:,} cases in {seconds:.0f} s, seed {options.seed}: {failed:,} failed.")


if __name__ == "__main__":
    sys.exit(main(watch=True))
