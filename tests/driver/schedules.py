"""Random exchanges between driver and card, in random schedules of the driver's threads.

``python -m tests.driver.schedules --count 10000 --seed 0``
"""

from __future__ import annotations

import argparse
import concurrent.futures._base
import errno
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np

from pinion.card.packets import respond
from pinion.driver import Device, DriverError, Result, TransportError
from pinion.driver.xdma import XdmaTransport
from pinion.link import BEAT, layout_of
from tests.driver.cards import compute, expected, manifest
from tests.driver.strict import StrictNodes, failure
from tests.support.scheduler import Scheduler

LAYOUT = layout_of(manifest())

CHUNK = 8

TIMEOUT = 50.0
"""Seconds on the schedule's clock, more than any successful exchange takes."""


def modules() -> list[ModuleType]:
    """Return the modules whose threads and clocks the schedule controls."""
    prefixes = ("pinion.driver", "pinion.card.packets", "tests.driver")
    loaded = [module for name, module in sys.modules.items() if name.startswith(prefixes)]
    return [
        *loaded,
        concurrent.futures._base,
        sys.modules[__name__],
    ]


def schedule(seed: int, scenario: Callable[[random.Random], None]) -> None:
    """Run one exchange in one schedule, both drawn from a seed.

    Raises
    ------
    tests.support.scheduler.ScheduleError
        If it hangs or fails.
    """
    rng = random.Random(seed)
    Scheduler(seed=seed).run(lambda: scenario(rng), modules=modules())


def arrays(count: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"q": (count, 2), "qd": (count, 2), "weight": (count, 2, 3)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def right(result: Result, count: int, seed: int) -> bool:
    tau, scaled = expected(**arrays(count, seed))
    return np.array_equal(result.tau, tau) and np.array_equal(result.scaled, scaled)


@dataclass
class Outcome:
    """Outcome of the batches of a schedule.

    Members
    -------
    good : numbers of the batches with a right result, in order of completion.
    wrong : numbers of the batches with a wrong result.
    failed : errors of the other batches, by number.
    """

    good: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    failed: dict[int, BaseException] = field(default_factory=dict)

    def watch(self, future: Future[Result], number: int, count: int) -> None:
        """Record the end of a batch."""

        def note(ended: Future[Result]) -> None:
            if ended.cancelled():
                self.failed[number] = CancelledError()
            elif (error := ended.exception()) is not None:
                self.failed[number] = error
            else:
                matches = right(ended.result(), count, number)
                (self.good if matches else self.wrong).append(number)

        future.add_done_callback(note)


def together(*works: Callable[[], None]) -> None:
    """Run functions in concurrent threads."""
    threads = [threading.Thread(target=work, name="client") for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def open_device(nodes: StrictNodes, rng: random.Random, *, window: int | None = None) -> Device:
    return Device(
        manifest=manifest(),
        transport=XdmaTransport(nodes=nodes, layout=LAYOUT),
        chunk=CHUNK,
        timeout=TIMEOUT,
        patience=TIMEOUT,
        window=window or rng.choice((1, 2, 4)),
        first_sequence=rng.choice((0, 0xFFFFFFFE)),
    )


def a_card_that_answers_behind_the_next_request(rng: random.Random) -> None:
    """The response to each packet but the last arrives when the next one is being sent."""
    nodes, count = StrictNodes(), rng.randrange(2, 7)
    begun = [threading.Event() for _ in range(count)]
    nodes.on_write = lambda call, data: begun[call - 1].set()
    nodes.on_read = lambda call, data: begun[min(call, count - 1)].wait() and None
    outcome = Outcome()
    with open_device(nodes, rng, window=rng.choice((2, 4))) as device:
        for number in range(count):
            if rng.random() < 0.5:
                time.sleep(0.02)  # let the driver's threads run
            outcome.watch(device.submit(**arrays(3, number)), number, 3)
    assert outcome.good == list(range(count)), outcome
    assert device.profile.faults == device.profile.resent == 0


def clients_beside_each_other(rng: random.Random) -> None:
    """Without faults all results are right, and those of a client arrive in order."""
    nodes, outcome = StrictNodes(), Outcome()
    with open_device(nodes, rng) as device:

        def client(first: int) -> None:
            for number in range(first, first + rng.randrange(1, 4)):
                count = rng.randrange(1, 3 * CHUNK)
                if rng.random() < 0.3:
                    assert right(device.run(**arrays(count, number)), count, number)
                else:
                    outcome.watch(device.submit(**arrays(count, number)), number, count)

        together(*(lambda k=k: client(10 * k) for k in range(rng.randrange(1, 4))))
        if resets := rng.choice((0, 0, 1)):
            device.reset()
    for client_number in range(3):
        mine = [number for number in outcome.good if number // 10 == client_number]
        assert mine == sorted(mine), outcome
    assert not outcome.failed and not outcome.wrong, outcome
    profile = device.profile
    assert profile.faults == profile.resent == 0 and profile.recoveries == resets


def faults(rng: random.Random) -> None:
    """Failed transfers, damaged and old responses: no more batches fail than faults occur."""
    nodes, outcome, struck = StrictNodes(wait=0.02), Outcome(), []
    unlucky = {rng.randrange(1, 8) for _ in range(rng.randrange(1, 3))}
    old = np.ones((CHUNK, 10), np.uint32)
    sent: Counter[bytes] = Counter()
    where = rng.choice(("write", "read", "damage", "old", "forgotten"))

    def write(call: int, data: memoryview) -> None:
        sent[bytes(data[BEAT : 2 * BEAT])] += 1  # the first request, which is unique
        if where == "write":
            transfer(call, data)

    def transfer(call: int, data: memoryview) -> None:
        if call in unlucky:
            struck.append(call)
            raise failure(rng.choice((errno.ETIMEDOUT, errno.EIO)))

    def spoil(call: int, packet: np.ndarray) -> None:
        if call in unlucky:
            struck.append(call)
            if where == "damage":
                packet[70] ^= 0x10
            else:
                packet[:] = respond(LAYOUT, compute(old), sequence=0xABCDEF)

    feed = nodes.card.feed
    fed = 0

    def forgetful(data, **rest):
        nonlocal fed
        fed += 1
        if fed in unlucky:
            struck.append(fed)
            nodes.card.configure()
        return feed(data, **rest)

    nodes.on_write = write
    if where == "read":
        nodes.on_read = transfer
    elif where == "forgotten":
        nodes.card.feed = forgetful
    elif where != "write":
        nodes.spoil = spoil
    count = rng.randrange(1, 8)
    with open_device(nodes, rng) as device:

        def client(numbers: range) -> None:
            for number in numbers:
                outcome.watch(device.submit(**arrays(CHUNK, number)), number, CHUNK)

        middle = rng.randrange(count + 1)
        together(lambda: client(range(middle)), lambda: client(range(middle, count)))
    assert sorted([*outcome.good, *outcome.failed]) == list(range(count)), outcome
    for error in outcome.failed.values():
        assert isinstance(error, TransportError | DriverError), repr(error)
    assert len(outcome.failed) <= len(struck), (outcome, struck)
    profile = device.profile
    assert profile.resent == sent.total() - len(sent), (profile, sent)


def closed_by_somebody_else(rng: random.Random) -> None:
    """Every batch ends with its result, an error of the driver, or a cancellation."""
    nodes, outcome = StrictNodes(), Outcome()
    device = open_device(nodes, rng)
    wait, pause = rng.random() < 0.3, rng.choice((0.0, 0.0, 0.01, 0.05))

    def closer() -> None:
        time.sleep(pause)
        device.close(wait=wait)

    submissions, refusals = rng.randrange(1, 5), []

    def submitter() -> None:
        for number in range(submissions):
            count = rng.randrange(1, 12 * CHUNK)
            try:
                outcome.watch(device.submit(**arrays(count, number)), number, count)
            except DriverError as error:
                outcome.failed[number] = error

    def runner() -> None:
        count = rng.randrange(1, 12 * CHUNK)
        try:
            assert right(device.run(**arrays(count, 50)), count, 50)
        except DriverError as error:
            refusals.append(error)

    def resetter() -> None:
        try:
            device.reset()
        except DriverError as error:
            refusals.append(error)

    together(closer, submitter, *rng.sample((runner, runner, resetter), rng.randrange(3)))
    assert sorted([*outcome.good, *outcome.failed]) == list(range(submissions)), outcome
    for error in (*outcome.failed.values(), *refusals):
        cancelled = isinstance(error, CancelledError) and not wait
        assert cancelled or "closed" in str(error), repr(error)
    assert nodes.opened.count("close") == 1


SCENARIOS = (
    a_card_that_answers_behind_the_next_request,
    clients_beside_each_other,
    faults,
    closed_by_somebody_else,
)


def main() -> int:
    """Run many schedules until one fails, and print the command that repeats it."""
    parser = argparse.ArgumentParser(prog="python -m tests.driver.schedules", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="schedules")
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    options = parser.parse_args()
    began = time.perf_counter()
    for seed in range(options.seed, options.seed + options.count):
        try:
            schedule(seed, SCENARIOS[seed % len(SCENARIOS)])
        except BaseException:
            print(f"repeat it by: python -m tests.driver.schedules --count 1 --seed {seed}")
            raise
    print(f"{options.count} schedules in {time.perf_counter() - began:.0f} s, all as promised")
    return 0


if __name__ == "__main__":
    sys.exit(main())
