"""Data of ``pinion bench scaling``: the experiments of the papers on parallel dynamics, repeated.

The data is one JSON object; nothing here measures. The papers' claims are judged by the data.

Sources: Yang, Wu and Pan 2016, "A Novel GPU-based Parallel Implementation Scheme and Performance
Analysis of Robot Forward Dynamics Algorithms" (*schemes*), and "Parallel Dynamics Computation using
Prefix Sum Operations" (*prefix sums*); Featherstone and Fijany 1999 (*constraint force algorithm*);
Fijany 1993 (*closed chains*).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pinion.report import FigureTable, ReportError

Row = Mapping[str, Any]

SCHEMES = "Yang et al. 2016, schemes"
PREFIX = "Yang et al. 2016, prefix sums"
CFA = "Featherstone and Fijany 1999"
CLOSED = "Fijany 1993"

ALGORITHMS: Mapping[str, str] = MappingProxyType(
    {
        "id_serial": "ID, recursion",
        "id_warp": "ID, recursion by a warp",
        "id_scan": "ID, scans",
        "jsiia": "JSIIA",
        "aba": "ABA, recursion",
        "aba_warp": "ABA, recursion by a warp",
        "hybrid": "hybrid ABIA",
        "abia": "ABIA, all on the GPU",
        "cfa_oee": "CFA, odd-even elimination",
        "cfa_oer": "CFA, odd-even reduction",
        "cfa_ldl": "CFA, L D L^T",
    }
)
PLATFORMS: Mapping[str, str] = MappingProxyType(
    {
        "one": "C++, one core",
        "all": "C++, all cores",
        "thread": "C++, one thread per computation",
        "numpy": "NumPy, float model",
        "gpu": "GPU, data on the device",
        "gpu_copies": "GPU, with copies",
    }
)


@dataclass(frozen=True)
class Experiment:
    """An experiment of the papers: its title, varied quantity and kind of dynamics.

    Members
    -------
    title, figures : its title, and the papers' figures that it repeats.
    varied : ``links`` or ``robots``, the quantity on the horizontal axis.
    inverse : whether it is about inverse dynamics; otherwise forward dynamics.
    """

    title: str
    figures: str
    varied: str
    inverse: bool


EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        "links_id": Experiment(
            "Inverse dynamics of one robot", f"{PREFIX}, Fig. 1(a)", "links", True
        ),
        "links_fd": Experiment(
            "Forward dynamics of one robot",
            f"{PREFIX}, Fig. 1(b); {SCHEMES}, Fig. 2",
            "links",
            False,
        ),
        "groups_id_10": Experiment(
            "Inverse dynamics of many robots of 10 links", f"{PREFIX}, Fig. 2(a)", "robots", True
        ),
        "groups_id_100": Experiment(
            "Inverse dynamics of many robots of 100 links", f"{PREFIX}, Fig. 2(b)", "robots", True
        ),
        "groups_fd_10": Experiment(
            "Forward dynamics of many robots of 10 links",
            f"{PREFIX}, Fig. 3(a); {SCHEMES}, Fig. 3(a)",
            "robots",
            False,
        ),
        "groups_fd_200": Experiment(
            "Forward dynamics of many robots of 200 links",
            f"{PREFIX}, Fig. 3(b); {SCHEMES}, Fig. 3(b)",
            "robots",
            False,
        ),
    }
)

REPRODUCED, REFUTED, OPEN = "reproduced", "refuted", "not testable here"
VERDICTS = (REPRODUCED, REFUTED, OPEN)


def read_scaling(path: Path) -> dict[str, Any]:
    """Read and check the data of an earlier run.

    Raises
    ------
    ReportError : if the file is invalid or damaged.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        check_scaling(data)
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        fault = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ReportError(
            f"The file '{path}' is not a valid result of 'pinion bench scaling' ({fault}): "
            "generate or copy it again."
        ) from None
    return dict(data)


def check_scaling(data: Mapping[str, Any]) -> None:
    """Check that the data has everything that the page and the pictures show.

    Raises
    ------
    KeyError, TypeError, ValueError, AttributeError : if it does not.
    """
    if data["bench"] != "scaling":
        raise ValueError(f"it is a result of the benchmark {data['bench']!r}, not 'scaling'")
    for row in data["rows"]:
        for key, names in {
            "experiment": EXPERIMENTS,
            "algorithm": ALGORITHMS,
            "platform": PLATFORMS,
        }.items():
            if row[key] not in names:
                raise ValueError(f"a row has the unknown {key} {row[key]!r}")
        for key in ("links", "robots", "calls"):
            if not isinstance(row[key], int) or row[key] < 1:
                raise ValueError(f"a row's {key} is {row[key]!r}, not a positive whole number")
        # Written so that NaN is refused too.
        if not 0.0 < float(row["ms"]) < np.inf:
            raise ValueError(f"a row's time is {row['ms']!r}, not a positive number")
    for count in data["counts"]:
        for key in ("links", "levels", "combines", "sequential"):
            if not isinstance(count[key], int):
                raise ValueError(f"a count's {key} is {count[key]!r}, not a whole number")
        str(count["algorithm"])
    for row in data["peers"]:
        if not 0.0 < float(row["ns_per_robot"]) < np.inf:
            raise ValueError(
                f"the time of a peer is {row['ns_per_robot']!r}, not a positive number"
            )
        for key in ("by", "function", "dtype", "threads", "robots", "against_loop"):
            _ = row[key]
    for key in ("version", "date", "command", "seconds", "facts"):
        _ = data[key]
    dict(data["machine"].items())
    dict(data["left_out"].items())


def of_experiment(data: Mapping[str, Any], name: str) -> Iterator[tuple[str, dict[int, Row]]]:
    """Yield each curve of an experiment in table order: its name, and its rows by size."""
    varied = EXPERIMENTS[name].varied
    for platform, where in PLATFORMS.items():
        for algorithm, words in ALGORITHMS.items():
            rows = {
                row[varied]: row
                for row in data["rows"]
                if (row["experiment"], row["algorithm"], row["platform"])
                == (name, algorithm, platform)
            }
            if rows:
                yield f"{words}; {where}", dict(sorted(rows.items()))


def scaling_table(data: Mapping[str, Any], name: str) -> FigureTable:
    """Return the table of an experiment's times in milliseconds, with the numbers of calls."""
    curves = list(of_experiment(data, name))
    sizes = sorted({size for _, rows in curves for size in rows})
    lines = []
    for words, rows in curves:
        calls = [row["calls"] for row in rows.values()]
        times = [float(rows[size]["ms"]) if size in rows else None for size in sizes]
        lines.append((words, *times, f"{min(calls):,} to {max(calls):,}"))
    experiment = EXPERIMENTS[name]
    return FigureTable(
        title=f"{experiment.title}: milliseconds",
        columns=(experiment.varied, *(f"{size:,}" for size in sizes), "calls"),
        rows=lines,
        note=f"Repeats {experiment.figures}.",
    )


def peers_table(data: Mapping[str, Any]) -> FigureTable:
    """Return the table of times [ns] per robot of 10 links, for Pinion and Pinocchio in one run."""
    return FigureTable(
        title="Chains of 10 links compared with Pinocchio: nanoseconds per robot",
        columns=("function", "by", "threads", "dtype", "robots", "ns", "x Pinocchio's loop"),
        rows=[
            (
                row["function"],
                row["by"],
                "all" if row["threads"] == 0 else "one",
                row["dtype"],
                row["robots"],
                float(row["ns_per_robot"]),
                None if row["against_loop"] is None else float(row["against_loop"]),
            )
            for row in data["peers"]
        ],
        left=4,
        note="All alternated within one run; figures are medians of rounds. Pinocchio's loop is a "
        "Python loop with one call per robot, in float64; its `rnea` is compared with `rnea`, its "
        "`aba` with the others.",
    )


def counts_table(data: Mapping[str, Any]) -> FigureTable:
    """Return the table of counted depth and work, a row per algorithm and number of links."""
    return FigureTable(
        title="Depth and work, counted during the computation",
        columns=("algorithm", "links", "levels", "combines", "sequential steps"),
        rows=[
            (c["algorithm"], c["links"], c["levels"], c["combines"], c["sequential"])
            for c in data["counts"]
        ],
        note="A level contains everything that can be computed in parallel.",
    )


def claims_table(data: Mapping[str, Any]) -> FigureTable:
    """Return the table of the papers' claims, with this run's verdict on each."""
    return FigureTable(
        title="What the papers claim",
        columns=("source", "claim", "verdict", "what was seen"),
        rows=[(c.source, c.text, verdict, why) for c, verdict, why in judged(data)],
        left=4,
    )


# ---- Claims -------------------------------------------------------------------------------------

Verdict = tuple[str, str]


@dataclass(frozen=True)
class Claim:
    """A restated claim of a paper, and its test.

    Members
    -------
    judge : returns the verdict and its reason from the figures; None if figures are missing.
    needs : what is missing in that case.
    """

    source: str
    text: str
    judge: Callable[[Figures], Verdict | None]
    needs: str


class Figures:
    """Times by experiment, algorithm, platform and size; facts and counts by name."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.facts: Mapping[str, Any] = data["facts"]
        self.counts = {(c["algorithm"], c["links"]): c for c in data["counts"]}
        self._ms: dict[tuple[str, str, str], dict[int, float]] = {}
        for row in data["rows"]:
            size = row[EXPERIMENTS[row["experiment"]].varied]
            key = (row["experiment"], row["algorithm"], row["platform"])
            self._ms.setdefault(key, {})[size] = float(row["ms"])

    def curve(self, experiment: str, algorithm: str, *platforms: str) -> dict[int, float]:
        """Return milliseconds by size, on the first of the platforms that was measured."""
        for platform in platforms:
            times = self._ms.get((experiment, algorithm, platform))
            if times:
                return dict(sorted(times.items()))
        return {}

    def hybrid(self, experiment: str) -> dict[int, float]:
        """Return milliseconds by size for ABIA on the GPU, with the faster of its two recursions.

        One is in NumPy, the other in a warp. The papers' recursion is compiled for the CPU, which
        is not done here: NumPy's alone would say nothing about it.
        """
        curves = [self.curve(experiment, name, "gpu", "gpu_copies") for name in ("hybrid", "abia")]
        sizes = sorted({size for curve in curves for size in curve})
        return {n: min(curve[n] for curve in curves if n in curve) for n in sizes}

    def all_at(self, experiment: str, size: int, *platforms: str) -> dict[tuple[str, str], float]:
        """Return milliseconds by algorithm and platform at one size."""
        return {
            (algorithm, platform): ms[size]
            for (name, algorithm, platform), ms in self._ms.items()
            if name == experiment and platform in platforms and size in ms
        }


def judged(data: Mapping[str, Any]) -> list[tuple[Claim, str, str]]:
    """Return every claim with its verdict and the reason."""
    figures = Figures(data)
    judgements = []
    for claim in CLAIMS:
        verdict = claim.judge(figures)
        judgements.append((claim, *(verdict or (OPEN, claim.needs))))
    return judgements


def _verdict(holds: bool, why: str) -> Verdict:
    return (REPRODUCED if holds else REFUTED), why


def _exponent(curve: Mapping[int, float], least: int) -> float | None:
    """Return a curve's growth exponent, fitted from size ``least``; None below three sizes."""
    sizes = [size for size in curve if size >= least]
    if len(sizes) < 3:
        return None
    return float(np.polyfit(np.log(sizes), np.log([curve[size] for size in sizes]), 1)[0])


def _speedup(
    experiment: str, fast: Sequence[str], slow: str, slow_on: str, least: float
) -> Callable[[Figures], Verdict | None]:
    """Return a test of whether the best of `fast` on the GPU is `least` times as fast as `slow`."""

    varied = EXPERIMENTS[experiment].varied

    def judge(figures: Figures) -> Verdict | None:
        base = figures.curve(experiment, slow, slow_on)
        ratios: dict[int, float] = {}
        for algorithm in fast:
            for size, ms in figures.curve(experiment, algorithm, "gpu").items():
                if size in base:
                    ratios[size] = max(ratios.get(size, 0.0), base[size] / ms)
        if not ratios:
            return None
        size = max(ratios, key=lambda s: ratios[s])
        return _verdict(
            ratios[size] >= least, f"at most {ratios[size]:.3g} times, at {size:,} {varied}"
        )

    return judge


_GROWTH = "for 50 links or more, time grows as n^{:.2f}"


def _linear(figures: Figures) -> Verdict | None:
    power = _exponent(figures.curve("links_id", "id_serial", "one"), 50)
    if power is None:
        return None
    return _verdict(0.85 <= power <= 1.15, _GROWTH.format(power))


def _logarithmic(figures: Figures) -> Verdict | None:
    power = _exponent(figures.curve("links_id", "id_scan", "gpu"), 50)
    if power is None:
        return None
    return _verdict(power <= 0.5, _GROWTH.format(power))


def _serial_jsiia_slowest(figures: Figures) -> Verdict | None:
    ours = figures.curve("links_fd", "jsiia", "one")
    serial_aba = figures.curve("links_fd", "aba", "one")
    shared_sizes = [n for n in ours if n in serial_aba]
    if not shared_sizes:
        return None
    # A tenth is within the repeatability of one machine.
    faster = [n for n in shared_sizes if ours[n] < 0.9 * serial_aba[n]]
    if faster:
        return REFUTED, f"faster than articulated bodies at {', '.join(map(str, faster))} links"
    ratio = {n: ours[n] / serial_aba[n] for n in (shared_sizes[0], shared_sizes[-1])}
    words = " and ".join(f"{x:.2g} at {n:,} links" for n, x in ratio.items())
    return REPRODUCED, f"times as long as articulated bodies: {words}"


def _crossings(figures: Figures) -> Verdict | None:
    ours = figures.curve("links_fd", "jsiia", "gpu")
    hybrid = figures.hybrid("links_fd")
    serial = figures.curve("links_fd", "aba", "one")
    if not ours or not hybrid or not serial:
        return None
    first = crossing(ours, hybrid)
    second = crossing(ours, serial)
    in_range = (
        first is not None and second is not None and 50 <= first <= 200 and 95 <= second <= 380
    )
    return _verdict(
        in_range, f"overtaken by hybrid ABIA at {_at(first)} links, by serial ABA at {_at(second)}"
    )


def crossing(slower: Mapping[int, float], faster: Mapping[int, float]) -> float | None:
    """Return the size from which the second curve stays below the first, by interpolation.

    None if it is not below at the largest size; the smallest size if it is always below.
    """
    sizes = [n for n in sorted(slower) if n in faster]
    if not sizes or faster[sizes[-1]] >= slower[sizes[-1]]:
        return None
    above = [n for n in sizes if faster[n] >= slower[n]]
    if not above:
        return float(sizes[0])
    low = above[-1]
    high = sizes[sizes.index(low) + 1]
    gaps = [float(np.log(faster[n] / slower[n])) for n in (low, high)]
    share = gaps[0] / (gaps[0] - gaps[1])
    return float(np.exp((1.0 - share) * np.log(low) + share * np.log(high)))


def _at(size: float | None) -> str:
    return "no number of" if size is None else f"{size:.0f}"


def _at_200_links(figures: Figures) -> Verdict | None:
    gpu = figures.hybrid("groups_fd_200")
    cores = figures.curve("groups_fd_200", "jsiia", "all")
    if not gpu or not cores:
        return None
    first, last = [], []
    for size in gpu:
        times = figures.all_at("groups_fd_200", size, "gpu", "gpu_copies", "all")
        first.append(gpu[size] <= min(times.values()))
        last.append(size in cores and cores[size] >= max(times.values()))
    return _verdict(
        all(first) and all(last),
        f"fastest at {sum(first)} of {len(first)} sizes; multithreaded JSIIA slowest at "
        f"{sum(last)}",
    )


def _multithreaded_jsiia_last(figures: Figures) -> Verdict | None:
    ours = figures.curve("groups_fd_200", "jsiia", "all")
    aba = figures.curve("groups_fd_200", "aba", "all")
    shared_sizes = [n for n in ours if n in aba]
    if not shared_sizes:
        return None
    ratio = [ours[n] / aba[n] for n in shared_sizes]
    return _verdict(
        min(ratio) > 1.0,
        f"{min(ratio):.3g} to {max(ratio):.3g} times the time of multithreaded articulated bodies",
    )


def _inversions_fit(figures: Figures) -> Verdict | None:
    needed = 1000 * 200 * 200 * 8
    memory = 11520 << 20
    return _verdict(
        needed > memory,
        f"1,000 matrices of 200 x 200 doubles are {needed / 1e6:.0f} MB, and their card "
        f"had {memory / 1e6:,.0f} MB, so memory did not require it",
    )


def _parts_of_hybrid(figures: Figures) -> Verdict | None:
    facts = figures.facts.get("hybrid")
    if not facts:
        return None
    return _verdict(
        facts["scans"] == 3 and facts["recursions"] == 1,
        f"counted: {facts['scans']} scans, {facts['recursions']} recursion"
        f"{'' if facts['recursions'] == 1 else 's'} over the links",
    )


def _cfa_crosses(figures: Figures) -> Verdict | None:
    ours = figures.curve("links_fd", "cfa_oee", "gpu")
    others = [figures.curve("links_fd", "jsiia", "gpu"), figures.hybrid("links_fd")]
    if not ours or not all(others):
        return None
    best = {n: min(o[n] for o in others if n in o) for n in ours if any(n in o for o in others)}
    at = crossing(best, ours)
    slower = bool(best) and ours[min(best)] > best[min(best)]
    why = "never the fastest" if at is None else f"fastest from {at:.0f} links"
    return _verdict(slower and at is not None, why)


def _gpu_order(
    experiment: str, least: int, first: str | None, last: str
) -> Callable[[Figures], Verdict | None]:
    def judge(figures: Figures) -> Verdict | None:
        names = ("jsiia", "hybrid", "cfa_oee")
        curves = {n: figures.curve(experiment, n, "gpu", "gpu_copies") for n in names}
        curves["hybrid"] = figures.hybrid(experiment)
        if not all(curves.values()):
            return None
        sizes = [n for n in curves["jsiia"] if n >= least and all(n in c for c in curves.values())]
        if not sizes:
            return None
        right = [
            n
            for n in sizes
            if first in (None, min(names, key=lambda a: curves[a][n]))
            and max(names, key=lambda a: curves[a][n]) == last
        ]
        return _verdict(len(right) == len(sizes), f"true at {len(right)} of {len(sizes)} sizes")

    return judge


def _doubling(figures: Figures) -> Verdict | None:
    fact = figures.facts.get("upper_blocks")
    if not fact:
        return None
    singular = not fact["largest_condition"] < 1e12
    return _verdict(
        singular,
        f"the upper blocks of {fact['chains']} chains whose joints have one velocity each have "
        f"condition numbers of {fact['median_condition']:.0f} (median) to "
        f"{fact['largest_condition']:.0e}: {'singular' if singular else 'regular'}. Joints with "
        "different numbers of velocities give blocks that are not square",
    )


def _any_joint(figures: Figures) -> Verdict | None:
    fact = figures.facts.get("any_joint")
    if not fact:
        return None
    return _verdict(
        fact["corrected"] < 1e-8,
        f"joints of 0 to 6 velocities, oblique and helical: largest error {fact['corrected']:.1e} "
        f"with the corrected form, and {fact['original']:.1e} with the original on helical joints",
    )


def _branches(figures: Figures) -> Verdict | None:
    fact = figures.facts.get("branches")
    if not fact:
        return None
    return _verdict(
        fact["with_branches"] < fact["without"],
        f"{fact['with_branches']:,.0f} operations per body with side branches, "
        f"{fact['without']:,.0f} without",
    )


def _levels(figures: Figures) -> Verdict | None:
    fact = figures.facts.get("levels_with_branches")
    if not fact:
        return None
    return _verdict(
        fact["levels"] <= fact["limit"],
        f"{fact['bodies']:,} bodies, {fact['links']:,} of them links: {fact['levels']} levels",
    )


def _serial_cost(figures: Figures) -> Verdict | None:
    fact = figures.facts.get("serial_cfa")
    if not fact:
        return None
    return _verdict(
        abs(fact["ratio"] / 3.4 - 1.0) <= 0.2,
        f"counted: {fact['ratio']:.2f} times the operations of the articulated-body algorithm, "
        f"{fact['refined']:.2f} times with a refinement; the paper does not say how it counted",
    )


def _hidden(figures: Figures) -> Verdict | None:
    fact = figures.facts.get("two_arrays")
    if not fact:
        return None
    return _verdict(
        fact["both"] == fact["first"],
        f"for 1,000 links, {fact['first']:,} sequential operations in step I alone, "
        f"{fact['both']:,} in both steps in parallel",
    )


def _serial_factorisation(figures: Figures) -> Verdict | None:
    by_links = {n: c for (name, n), c in figures.counts.items() if name == "CFA, L D L^T"}
    if not by_links:
        return None
    return _verdict(
        all(c["sequential"] >= n for n, c in by_links.items()),
        "; ".join(f"{c['sequential']:,} steps for {n:,} links" for n, c in by_links.items()),
    )


_GPU = "needs a GPU"
_CARD = f"{_GPU}; theirs was a Tesla K40c with an i7-6700"

CLAIMS: Sequence[Claim] = (
    Claim(
        PREFIX,
        "Inverse dynamics on the GPU is up to 500 times as fast as on the CPU.",
        _speedup("links_id", ("id_scan",), "id_serial", "one", 500.0),
        _CARD,
    ),
    Claim(
        PREFIX,
        "Forward dynamics on the GPU is up to 100 times as fast as on the CPU.",
        _speedup("links_fd", ("jsiia", "abia"), "aba", "one", 100.0),
        _CARD,
    ),
    Claim(
        PREFIX,
        "Inverse dynamics of 1,000 robots is about 100 times as fast as with one thread per robot.",
        _speedup("groups_id_10", ("id_scan",), "id_serial", "thread", 50.0),
        _CARD,
    ),
    Claim(PREFIX, "The CPU's time for inverse dynamics is linear in n.", _linear, "no CPU figures"),
    Claim(PREFIX, "The GPU's time for inverse dynamics grows like log n.", _logarithmic, _GPU),
    Claim(
        PREFIX,
        "Serial JSIIA is the slowest of the four methods.",
        _serial_jsiia_slowest,
        "no CPU figures",
    ),
    Claim(
        PREFIX,
        "JSIIA on the GPU is the fastest until hybrid ABIA passes it at 100 links and serial "
        "ABIA at 190.",
        _crossings,
        _GPU,
    ),
    Claim(PREFIX, "At 200 links, hybrid ABIA is always the fastest.", _at_200_links, _GPU),
    Claim(
        PREFIX,
        "At 200 links, multithreaded JSIIA is the slowest.",
        _multithreaded_jsiia_last,
        "no CPU figures",
    ),
    Claim(
        PREFIX,
        "The card's memory forces the inversions for many robots of 200 links into sequence.",
        _inversions_fit,
        "",
    ),
    Claim(
        PREFIX,
        "Hybrid ABIA consists of three scans and one recursion.",
        _parts_of_hybrid,
        "no counts",
    ),
    Claim(
        SCHEMES,
        "CFA is slower for few links and the fastest for many.",
        _cfa_crosses,
        _GPU,
    ),
    Claim(
        SCHEMES,
        "At 10 links and more than 100 robots, JSIIA and CFA are faster than hybrid ABIA.",
        _gpu_order("groups_fd_10", 100, None, "hybrid"),
        _GPU,
    ),
    Claim(
        SCHEMES,
        "At 200 links, CFA is the fastest and JSIIA the slowest.",
        _gpu_order("groups_fd_200", 1, "cfa_oee", "jsiia"),
        f"{_GPU} kernel of JSIIA for 200 links; ours takes at most 108",
    ),
    Claim(
        SCHEMES,
        "Hybrid ABIA is always slower than JSIIA and CFA (prefix sums, Fig. 3(b), says otherwise).",
        _gpu_order("links_fd", 1, None, "hybrid"),
        _GPU,
    ),
    Claim(
        SCHEMES,
        "Recursive doubling is impossible, because the upper blocks are singular.",
        _doubling,
        "no chains were examined",
    ),
    Claim(CFA, "The corrected algorithm supports joints of any kind.", _any_joint, "not computed"),
    Claim(
        CFA,
        "Side branches need fewer operations per body.",
        _branches,
        "no operations were counted",
    ),
    Claim(
        CFA,
        "O(N log N) bodies in side branches leave the depth O(log N).",
        _levels,
        "no levels were counted",
    ),
    Claim(
        CLOSED,
        "Serial CFA costs about 3.4 times the best O(N) method.",
        _serial_cost,
        "no operations were counted",
    ),
    Claim(
        CLOSED,
        "With two arrays of processors, step II is hidden behind step I.",
        _hidden,
        "no levels were counted",
    ),
    Claim(
        CLOSED,
        "The factorisation of the block tridiagonal matrix is serial.",
        _serial_factorisation,
        "no steps were counted",
    ),
)
