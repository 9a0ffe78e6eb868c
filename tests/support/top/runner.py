"""Run of the whole top under cocotb with Icarus or Verilator, with a model of the DMA engine.

What :mod:`pinion.cosim.top` runs by the million cycles runs here by the thousand, and is checked
more closely: unknown values, stability of every offer, the streams and registers of cocotbext-axi,
transfers as the vendor's driver cuts them, resets at random times, and the float model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pinion.cosim.runner import BenchError, Simulator, check_outcome, launch
from pinion.cosim.stream import PATTERNS

OUTCOME = "outcome.json"

STEPS = ("identity", "traffic", "back_pressure", "partial_beat", "soft_resets", "configuration")
"""The steps of scenarios, each a method of `tests.support.top.bench.Bench`."""

_STREAM = "tdata tkeep tlast tvalid tready"
_AXIL = (
    "awaddr awprot awvalid awready wdata wstrb wvalid wready bresp bvalid bready "
    "araddr arprot arvalid arready rdata rresp rvalid rready"
)
_PORTS = [
    *("clk", "rst"),
    *(f"{stream}_{name}" for stream in ("h2c", "c2h") for name in _STREAM.split()),
    *(f"s_axil_{name}" for name in _AXIL.split()),
]


class TopComplaintError(BenchError):
    """Error for a top in which the bench found faults; the message lists them."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Steps and sizes of a bench; all random choices come from the seed.

    Attributes
    ----------
    seed : of sizes, requests, pauses, times of resets, places of buffers.
    core_rate : rate of the core's clock over that of the link's.
    steps : of `STEPS`, in order.
    patterns : pauses of either side that are drawn from, by their names in `PATTERNS`.
    rounds, batches, largest : rounds of traffic, packets in each, records of a packet at most.
    flood, flood_batches : records of a packet, and packets, that fill all buffers.
    stall : cycles for which nobody reads after that.
    resets, latest : soft resets, and link cycles from the start of traffic to one at most.
    full : cycles without a beat after which the buffers count as full.
    limit : cycles without a beat after which the top counts as stopped.
    polls : reads of STATUS until a reset counts as failed.
    pool : different requests.

    """

    seed: int
    core_rate: float = 1.0
    steps: tuple[str, ...] = STEPS
    patterns: tuple[str, ...] = ("always", "random", "bursts", "single")
    rounds: int = 2
    batches: int = 5
    largest: int = 40
    flood: int = 80
    flood_batches: int = 6
    stall: int = 300
    resets: int = 6
    latest: int = 700
    full: int = 250
    limit: int = 3000
    polls: int = 300
    pool: int = 128

    def __post_init__(self) -> None:
        """Raise ValueError for unknown steps or patterns, or a core clock that is not positive."""
        for kind, names, choices in (
            ("step", self.steps, STEPS),
            ("pattern", self.patterns, tuple(PATTERNS)),
        ):
            for name in names:
                if name not in choices:
                    raise ValueError(
                        f"There is no {kind} '{name}'; choose one of {', '.join(choices)}."
                    )
        if self.core_rate <= 0:
            raise ValueError(
                f"The core's clock cannot have {self.core_rate} times the link's rate: give "
                "more than 0."
            )


def run_top_bench(
    *,
    verilog: Path,
    build: Path,
    folder: Path,
    simulator: Simulator,
    scenario: Scenario,
    waves: bool = False,
    timeout: float | None = None,
) -> Mapping[str, int]:
    """Simulate a scenario with a top's Verilog.

    Parameters
    ----------
    verilog : file with the top module ``pinion_top`` (`pinion.boards.top.write_top`, then
        `pinion.gateware.verilog.emit_verilog`).
    build : folder of the build that is in it.
    folder : where the simulator builds and logs; ``<folder>/<simulator>`` is the bench's own.
    simulator : which one.
    waves : leave ``pinion_top.fst`` (Icarus) or ``dump.vcd`` (Verilator) in the bench's folder.
    timeout : limit for building and running together, in seconds.

    Returns
    -------
    What happened: ``batches`` and ``records`` answered in full, ``flagged`` of them, records
    compared with ``floats``, responses ``cut`` by ``resets``, ``partial`` beats noticed,
    ``snapshots`` of a wrapping counter, accesses of ``registers``, ``transfers`` and ``splits`` of
    packets between them, ``partial_beats``, ``request_beats``, ``result_beats``, ``cycles``.

    Raises
    ------
    TopComplaintError : the bench complained.
    BenchError : the simulator is missing or failed.
    FileNotFoundError : there is no Verilog.

    """
    if not verilog.is_file():
        raise FileNotFoundError(f"There is no Verilog file {verilog}: write the top first.")
    run_folder = (folder / simulator).resolve()
    run_folder.mkdir(parents=True, exist_ok=True)
    (run_folder / OUTCOME).unlink(missing_ok=True)
    spec = asdict(scenario) | {
        "verilog": str(verilog.resolve()),
        "build": str(build.resolve()),
        "simulator": simulator,
        "waves": waves,
        "toplevel": "pinion_top",
        "module": "tests.support.top.bench",
        "path": [str(Path(__file__).parents[3])],
        "ports": _PORTS + (["core_clk"] if "core_clk" in _head(verilog) else []),
        # Verilator has no names for what is inside, unless an option keeps them all.
        "deposits": simulator == "icarus",
    }
    status, log = launch(place=run_folder, spec=spec, simulator=simulator, timeout=timeout)
    bench = f"{simulator}, seed {scenario.seed}"
    check_outcome(
        run_folder, bench=bench, status=status, log=log, result=OUTCOME, error=TopComplaintError
    )
    figures: dict[str, int] = json.loads((run_folder / OUTCOME).read_text())
    return figures


def _head(verilog: Path) -> str:
    """Return the first line of the top's module in the Verilog, which lists its ports."""
    with verilog.open() as file:
        return next((line for line in file if line.startswith("module pinion_top(")), "")
