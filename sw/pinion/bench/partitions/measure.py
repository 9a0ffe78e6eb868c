"""``pinion bench cuda --partitions``: times of a gradient shared between host and GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pinion.bench.machine import processor_name
from pinion.compute.cuda.device import CudaDevice
from pinion.console.errors import UsageError
from pinion.console.terminal import counted, put_json, say, show
from pinion.robot import load

from .table import partitions_table
from .times import partition_times

ROBOT = "iiwa14"
SIZES = (16, 32, 64, 128, 1024, 10_000, 100_000)


def run(
    target: Sequence[str],
    *,
    largest: int,
    rounds: int,
    seconds: float,
    json: bool,
    device: CudaDevice | None = None,
    cache: Path | None = None,
) -> None:
    """Measure the partitions of the gradient, and print the table.

    Parameters
    ----------
    target : nothing or a robot.
    largest : size of the largest batch.
    rounds : number of rounds of every measurement; the median counts.
    seconds : time for one measurement in one round.
    device : by default the first GPU; without one its part is left out with the reason.
    cache : folder of compiled kernels; by default the user's cache.

    Raises
    ------
    UsageError : if more than a robot is given, or every batch is larger than ``largest``.
    """
    if len(target) > 1:
        raise UsageError(
            "Only the gradient of forward dynamics is partitioned: give a robot alone, without "
            f"'{' '.join(target[1:])}'."
        )
    sizes = [size for size in SIZES if size <= largest]
    if not sizes:
        raise UsageError(
            f"The smallest batch has {SIZES[0]} samples, so --largest {largest} is too small: give "
            f"at least {SIZES[0]}."
        )
    model = load(target[0] if target else ROBOT)
    with counted("Measuring", total=1) as advance:
        rows, left_out, name = partition_times(
            model, sizes=sizes, rounds=rounds, seconds=seconds, device=device, cache=cache
        )
        advance(1)
    data = {
        "bench": "cuda",
        "partitions": rows,
        "robot": model.name,
        "processor": processor_name(),
        "device": name or None,
        "rounds": rounds,
        "left_out": left_out,
    }
    if json:
        put_json(data)
        return
    show(partitions_table(rows))
    say(f"CPU: {data['processor']}. Device: {name or 'none'}. Medians of {rounds} rounds.")
    for label, why in left_out.items():
        say(f"Left out: {label}: {why}")
