"""Overhead of the driver: round trips of one request, and packing plus unpacking of many.

The card is a transport that answers immediately with a prepared response, so that the figures
contain only the driver's work and its threads. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from typing import Any

import numpy as np

from pinion.batch import validate_arrays
from pinion.driver import PACKET_BYTES, Device, Transport
from pinion.driver.batch import ArrayBatch, Packet
from pinion.driver.memory import Pool
from pinion.driver.packing import flatten, record_columns
from pinion.functions import named_function
from pinion.link import (
    BEAT,
    HEADER,
    MAX_COUNT,
    PROTOCOL_VERSION,
    TRAILER,
    Array,
    Layout,
    Magic,
    Manifest,
    crc32,
    layout_of,
    read_response,
    register,
    seal_request,
)
from pinion.link.registers import IDENTITY, IN_RESET, QUIET
from pinion.robot import load


class Echo(Transport):
    """Transport that answers a request with a stored response of the right length."""

    timeout = None

    def __init__(self, *, layout: Layout) -> None:
        self.layout = layout
        self._values = {
            "IDENTITY": IDENTITY,
            "VERSION": PROTOCOL_VERSION,
            "BUILD_LOW": layout.build & 0xFFFFFFFF,
            "BUILD_HIGH": layout.build >> 32,
            "FUNCTION_0": layout.function,
            "WORDS_IN_0": layout.words_in,
            "WORDS_OUT_0": layout.words_out,
            "MAX_COUNT": MAX_COUNT,
            "LINK_KHZ": 250_000,
        }
        self._by_offset = {register(name).offset: value for name, value in self._values.items()}
        self._control = 0
        self._sent = threading.Semaphore(0)
        self._sequences: list[tuple[int, int]] = []
        self._made: dict[int, np.ndarray] = {}

    def read_register(self, offset: int) -> int:
        """Return constants; STATUS is always idle."""
        if offset == register("STATUS").offset:
            return QUIET | IN_RESET * self._control
        return self._by_offset.get(offset, 0)

    def write_register(self, offset: int, value: int) -> None:
        """Write a register; only CONTROL has an effect."""
        if offset == register("CONTROL").offset:
            self._control = value

    def send(self, packet: np.ndarray) -> None:
        """Record which request was sent."""
        header = packet[:BEAT].view(np.uint32)
        self._sequences.append((int(header[3]), int(header[4])))
        self._sent.release()

    def receive(self, packet: np.ndarray) -> None:
        """Copy the response, with the checksum for this sequence number."""
        self._sent.acquire()
        count, sequence = self._sequences.pop(0)
        if count not in self._made:
            self._made[count] = self._respond(count)
        packet[:] = self._made[count]
        packet[:BEAT].view(np.uint32)[4] = sequence
        packet[-BEAT:].view(np.uint32)[3] = sequence
        packet[-BEAT:].view(np.uint32)[15] = crc32(packet)

    def _respond(self, count: int) -> np.ndarray:
        packet = np.zeros(self.layout.response_bytes(count), dtype=np.uint8)
        words = self.layout.response_words(packet, count)
        words[:] = np.random.default_rng(count).random(words.shape, np.float32).view(np.uint32)
        header, trailer = packet[:BEAT].view(HEADER)[0], packet[-BEAT:].view(TRAILER)[0]
        header["magic"], header["version"] = Magic.RESPONSE, PROTOCOL_VERSION
        header["function"], header["build"] = self.layout.function, self.layout.build
        header["count"], header["words"] = count, self.layout.words_out
        trailer["magic"], trailer["count"], trailer["cycles"] = Magic.TRAILER, count, 8 * count
        return packet

    def close(self) -> None:
        """Do nothing."""


def made_up(name: str, *, robot: str = "iiwa14") -> Manifest:
    """Return a manifest with the record layout of a function, and placeholders for the rest."""
    model, row = load(robot), named_function(name)

    def arrays(blocks: Any) -> tuple[Array, ...]:
        return tuple(
            Array(
                name=b.name,
                shape=b.dims(model),
                unit=b.unit,
                sent=tuple(b.positions(model).values()) if b.symmetric else None,
                symmetric=b.symmetric,
            )
            for b in blocks
        )

    return Manifest(
        version="0", robot=robot, robot_source=robot, function=name, options={}, formats="q16.16",
        objective="area", max_error=0.0, target="sim", ii=8, clock_mhz=250.0,
        inputs=arrays(row.inputs), outputs=arrays(row.results), lanes_in=16, beats_in=4,
        lanes_out=16, beats_out=8, schedule_cycles=1, latency_cycles=1, multipliers=1,
        table_multipliers=0, adders=1, units={}, ops={}, registers=1, budget={},
        budget_distribution="reference", content="none",
    )  # fmt: skip


def round_trips(name: str, *, count: int, repeat: int) -> dict[str, float]:
    """Measure the time [us] that `Device.run` takes for a batch of ``count`` requests."""
    manifest = made_up(name)
    arrays = states(manifest, count)
    seconds = []
    with Device(manifest=manifest, transport=Echo(layout=layout_of(manifest))) as device:
        for _ in range(repeat // 10):
            device.run(**arrays)
        for _ in range(repeat):
            began = time.perf_counter()
            device.run(**arrays)
            seconds.append(time.perf_counter() - began)
        cpu = time.process_time()
        for _ in range(repeat):
            device.run(**arrays)
        cpu = time.process_time() - cpu
    us = 1e6 * np.array(seconds)
    return {
        "median_us": float(np.median(us)),
        "p10_us": float(np.percentile(us, 10)),
        "p90_us": float(np.percentile(us, 90)),
        "cpu_us": 1e6 * cpu / repeat,
    }


def in_place(name: str, *, count: int, repeat: int) -> dict[str, float]:
    """Measure the time [us] from `Device.submit_buffers` until its result arrives."""
    manifest = made_up(name)
    seconds = []
    with Device(manifest=manifest, transport=Echo(layout=layout_of(manifest))) as device:
        buffers = device.allocate(count)
        for _ in range(repeat):
            began = time.perf_counter()
            device.submit_buffers(buffers).result()
            seconds.append(time.perf_counter() - began)
    return {"median_us": 1e6 * float(np.median(seconds))}


def throughput(name: str, *, count: int, repeat: int) -> dict[str, float]:
    """Measure the bytes per CPU second of each of the driver's steps on a large batch."""
    manifest = made_up(name)
    layout = layout_of(manifest)
    inputs, outputs = record_columns(manifest.inputs), record_columns(manifest.outputs)
    card = Echo(layout=layout)
    chunk = min(MAX_COUNT, PACKET_BYTES // (4 * max(layout.words_in, layout.words_out)))
    pool = Pool(allocate=card.allocate)
    arrays = states(manifest, count)
    parts: dict[str, list[float]] = {
        k: [] for k in ("validate", "pack", "seal", "read", "unpack", "all")
    }
    total = 0
    for _ in range(repeat):
        spent = dict.fromkeys(parts, 0.0)
        total = 0
        clock = _Clock(spent)
        values = flatten(inputs, validate_arrays(manifest.inputs, arrays).arrays)
        clock.lap("validate")
        batch = ArrayBatch(
            layout=layout, columns=outputs, count=count, packet_count=1, single=False, pool=pool,
            on_packet=None, throttled=False,
        )  # fmt: skip
        clock.lap("unpack")
        for start in range(0, count, chunk):
            n = min(chunk, count - start)
            request = pool.take(layout.request_bytes(n))
            words = layout.request_words(request.bytes, n).view(np.float32)
            for column, array in zip(inputs, values, strict=True):
                column.pack(words, array, start)
            clock.lap("pack")
            seal_request(layout, request.bytes, n, start)
            clock.lap("seal")
            response = pool.take(layout.response_bytes(n))
            card.send(request.bytes)
            card.receive(response.bytes)
            clock.skip()
            head = read_response(layout, response.bytes, n, start)
            clock.lap("read")
            packet = Packet(batch=batch, start=start, count=n, request=request, response=response)
            batch.unpack(packet, head)
            batch.release(packet, reusable=True)
            clock.lap("unpack")
            total += len(request.bytes) + len(response.bytes)
        batch.result()
        clock.lap("unpack")
        spent["all"] = sum(spent.values())
        for key, value in spent.items():
            parts[key].append(value)
    medians = {key: float(np.median(values)) for key, values in parts.items()}
    return {
        "bytes": total,
        "gb_per_s": total / medians["all"] / 1e9,
        **{f"{key}_ms": 1e3 * value for key, value in medians.items()},
    }


class _Clock:
    """CPU time of this thread, by activity."""

    def __init__(self, spent: dict[str, float]) -> None:
        self._spent = spent
        self._last = time.thread_time()

    def lap(self, name: str) -> None:
        """Add the time since the last call to an activity."""
        now = time.thread_time()
        self._spent[name] += now - self._last
        self._last = now

    def skip(self) -> None:
        """Discard the time since the last call."""
        self._last = time.thread_time()


def states(manifest: Manifest, count: int) -> dict[str, np.ndarray]:
    """Return random requests in float32, as arrays (count, ...) by name."""
    rng = np.random.default_rng(0)
    return {a.name: rng.random((count, *a.shape), dtype=np.float32) for a in manifest.inputs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", nargs="+", default=["fd_derivatives_from_minv", "rnea"])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--trips", type=int, default=2000)
    options = parser.parse_args()
    record = {}
    for name in options.functions:
        record[name] = {
            "round_trip_1": round_trips(name, count=1, repeat=options.trips),
            "round_trip_128": round_trips(name, count=128, repeat=options.trips),
            "in_place_1": in_place(name, count=1, repeat=options.trips),
            f"packing_{options.count}": throughput(
                name, count=options.count, repeat=options.repeat
            ),
        }
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
