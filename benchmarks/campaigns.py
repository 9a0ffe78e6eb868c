"""Cost of a campaign, and limits of large ones: ``python -m benchmarks.campaigns DIR``.

Measures a core's time per state by device, the size of a record, the time of client and scheduler
per chunk, and the rate at which the file takes records. From these a model computes the campaign of
``--states`` over ``--workers``. Times are CPU times, so that other work on the machine hardly
affects them; they exclude waiting for disks and networks.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from distributed import as_completed

from pinion.campaign import ChunkRecord, StateStore, cluster
from pinion.campaign.devices import open_device
from pinion.campaign.measure import measure
from pinion.campaign.parcel import BuildParcel
from pinion.campaign.plan import Plan, make_plan
from pinion.cosim.reference import Reference
from pinion.flow.build import Build

DEVICES = ("integers", "rtl", "float", "cpu")

# Tasks in the scheduler's measurement, and records in the file's.
TASKS, RECORDS = 2_000, 5_000


def _plan(build: Build, device: str, states: int, chunk: int) -> Plan:
    return make_plan(
        build,
        device=device,
        states=states,
        distribution="reference",
        seed=0,
        chunk=chunk,
        keep=False,
        max_error=None,
        words=None,
    )


def cost(build: Build, device: str, chunk: int) -> dict[str, float]:
    """Return a core's seconds per state, the least of three chunks, and its bytes per record."""
    plan = _plan(build, device, 4 * chunk, chunk)
    reference = Reference(build)
    computes = open_device(reference, device)
    seconds, size = [], 0
    for number in range(4):
        began = time.process_time()
        tally, _ = measure(plan, number, reference, computes)
        seconds.append(time.process_time() - began)
        size = len(tally.to_text())
    computes.close()
    return {"seconds": min(seconds[1:]) / chunk, "record_bytes": size}


def nothing(record: ChunkRecord, number: int) -> ChunkRecord:
    """Return a copy of a record with another chunk's number, as a task without computation."""
    return ChunkRecord(
        number=number,
        figures=record.figures,
        results=None,
        seconds=0.0,
        worker=record.worker,
    )


def per_task(record: ChunkRecord) -> dict[str, float]:
    """Measure the time per chunk [s] of client and scheduler, which share a process."""
    with cluster(None, workers=1) as client:
        began, clock = time.process_time(), time.perf_counter()
        flow, left = as_completed(loop=client.loop), iter(range(TASKS))
        for _ in range(8):
            flow.add(client.submit(nothing, record, next(left), pure=False))
        for future in flow:
            future.result()
            if (number := next(left, -1)) >= 0:
                flow.add(client.submit(nothing, record, number, pure=False))
        return {
            "seconds": (time.process_time() - began) / TASKS,
            "elapsed": (time.perf_counter() - clock) / TASKS,
        }


def per_record(plan: Plan, record: ChunkRecord, folder: Path) -> dict[str, float]:
    """Measure per record the bytes in the file, and the times to store and to sum it [s]."""
    file = folder / "records.sqlite"
    with StateStore.open(file, plan) as store:
        clock = time.perf_counter()
        for number in range(RECORDS):
            store.add(nothing(record, number))
        elapsed = time.perf_counter() - clock
        began = time.process_time()
        store.total()
        summed = time.process_time() - began
    return {
        "elapsed": elapsed / RECORDS,
        "sum_seconds": summed / RECORDS,
        "bytes": file.stat().st_size / RECORDS,
    }


def modelled(
    figures: dict[str, Any], device: str, *, states: int, workers: int, chunk: int
) -> dict[str, float]:
    """Model a campaign's time [s]: of the workers, and of the client with the scheduler."""
    chunks = -(-states // chunk)
    task, record = figures["task"], figures["record"]
    computing = states * figures["devices"][device]["seconds"] / workers
    # One process at a time may write, and one hands out: the slower one bounds the campaign.
    serving = chunks * (task["seconds"] + record["elapsed"])
    return {
        "chunks": chunks,
        "computing_s": computing,
        "serving_s": serving,
        "summing_s": chunks * record["sum_seconds"],
        "file_bytes": chunks * record["bytes"],
        "hours": (max(computing, serving) + chunks * record["sum_seconds"]) / 3600,
    }


def main() -> None:
    """Measure, evaluate the model, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a build")
    parser.add_argument("--states", type=int, default=10**9)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--chunk", type=int, default=100_000)
    arguments = parser.parse_args()
    build = Build.read(arguments.folder)
    devices = {name: cost(build, name, 20_000) for name in DEVICES}
    plan = _plan(build, "integers", RECORDS, 1)
    reference = Reference(build)
    tally, _ = measure(
        _plan(build, "integers", 20_000, 20_000), 0, reference, open_device(reference, "integers")
    )
    record = ChunkRecord(
        number=0, figures=tally.to_text(), results=None, seconds=0.0, worker="tls://127.0.0.1:1 1"
    )
    with tempfile.TemporaryDirectory() as place:
        figures: dict[str, Any] = {
            "robot": build.manifest.robot,
            "function": build.manifest.function,
            "devices": devices,
            "task": per_task(record),
            "record": per_record(plan, record, Path(place)),
            "build_bytes": BuildParcel.of(build.folder).size,
        }
    figures["model"] = {
        name: modelled(
            figures, name, states=arguments.states, workers=arguments.workers, chunk=arguments.chunk
        )
        for name in DEVICES
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
