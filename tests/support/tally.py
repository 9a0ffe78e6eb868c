"""Counts of a soak test, the fault that explains each error, and the rules that must hold."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pinion.card.stand_in.faults import KINDS, FaultRecord
from pinion.driver import CardFaultError

HARMLESS = ("delay", "split_tlast", "ring_wrap")
"""Faults that a program need not notice."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "short_read": ("TornStreamError",),
    "etimedout": ("CardTimeoutError",),
    "errno512": ("CardTimeoutError",),
    "ebusy": ("BusyError",),
    "partial_tkeep": ("PARTIAL_BEAT",),
    "corrupt_beat": (
        "TornStreamError",
        "MAGIC",
        "VERSION",
        "HEADER_CRC",
        "FUNCTION",
        "BUILD",
        "COUNT",
        "WORDS",
        "PAYLOAD_CRC",
    ),
    "lost_tail": ("CardTimeoutError", "TornStreamError", "MAGIC", "PAYLOAD_CRC"),
    "card_reset": ("CardTimeoutError", "TornStreamError", "MAGIC"),
    "other_build": ("WrongBuildError", "BUILD"),
}
"""Errors of the driver for each fault; in capitals, the cause of a `CardFaultError`."""

LASTING = ("other_build",)
"""Faults that may hit many batches."""

TEARING = ("lost_tail", "card_reset")
"""Faults that may hit two batches: beats of the next packet take the place of the lost ones, and
both packets are damaged when the driver notices the first."""


@dataclass(frozen=True, kw_only=True)
class Success:
    """Batch that returned results, and its times."""

    began: float
    ended: float


@dataclass(kw_only=True)
class Failure:
    """Batch that ended with an error: the error's name and text, and the batch's times.

    Members
    -------
    name : of the cause that the card gives, or of the error.
    host : of the error on the host that a cause was found for; the cause is the first of the card's
        since its reset, so with two faults at a time it may be the other one's.
    """

    name: str
    text: str
    began: float
    ended: float
    host: str = ""


@dataclass(kw_only=True)
class Tally:
    """Counts and outcomes of a soak test, shared by its threads.

    Members
    -------
    right, wrong, lost : requests.
    failed : requests whose batch ended with an error.
    retried, recovered : batches sent once more, and those that were right then.
    resets : of a device that refused batches.
    opened, refused : devices that were opened, and second ones that were not.
    failures : batches that ended with an error.
    successes : batches whose results came.
    broken : errors that ended threads of the soak itself.
    """

    right: int = 0
    wrong: int = 0
    lost: int = 0
    failed: int = 0
    retried: int = 0
    recovered: int = 0
    resets: int = 0
    batches: int = 0
    opened: int = 0
    refused: int = 0
    failures: list[Failure] = field(default_factory=list)
    successes: list[Success] = field(default_factory=list)
    broken: list[BaseException] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, **more: int) -> None:
        """Add amounts to counts by name, from any thread."""
        with self.lock:
            for name, value in more.items():
                setattr(self, name, getattr(self, name) + value)

    def succeed(self, began: float) -> None:
        """Record a batch that returned results."""
        ended = time.monotonic()
        with self.lock:
            self.successes.append(Success(began=began, ended=ended))

    def fail(self, error: BaseException, began: float) -> None:
        """Record a batch that ended with an error."""
        name, host, ended = type(error).__name__, "", time.monotonic()
        if isinstance(error, CardFaultError):
            name = error.cause.name
            host = "" if error.__cause__ is None else type(error.__cause__).__name__
        failure = Failure(name=name, text=str(error), began=began, ended=ended, host=host)
        with self.lock:
            self.failures.append(failure)


def unexplained(
    failures: Sequence[Failure], records: Sequence[FaultRecord], successes: Sequence[Success] = ()
) -> list[Failure]:
    """Return the failures that cannot be matched to a fault of their kind and time.

    A fault's time ends with the first batch that was submitted after it and got its results: they
    come in order, so the fault has been noticed and the card works again by then. What is submitted
    later has not met it. No clock decides, so a busy machine cannot make a fault look too old.

    A card of another build is there for a while, and explains any number of them, a fault of
    `TEARING` two. The others are matched one to one, as many as can be (H. W. Kuhn, The Hungarian
    method, 1955).
    """
    faults = [fault for fault in records for _ in range(1 + (fault.kind in TEARING))]
    over = [_over(fault, successes) for fault in faults]
    causes = [_causes(failure, faults, over) for failure in failures]
    owner: dict[int, int] = {}

    def matched(number: int, visited: set[int]) -> bool:
        for k in causes[number]:
            if faults[k].kind in LASTING:
                return True
            if k not in visited:
                visited.add(k)
                if k not in owner or matched(owner[k], visited):
                    owner[k] = number
                    return True
        return False

    return [failure for number, failure in enumerate(failures) if not matched(number, set())]


def _over(record: FaultRecord, successes: Sequence[Success]) -> float:
    """Return the time at which a fault was over: when the first batch after it succeeded."""
    if record.kind == "ebusy":  # armed until somebody opens the card
        return math.inf
    return min((s.ended for s in successes if s.began > record.time), default=math.inf)


def _causes(failure: Failure, faults: Sequence[FaultRecord], over: Sequence[float]) -> list[int]:
    """Return the indices of the faults that may have caused a failure."""
    near = [
        k
        for k, fault in enumerate(faults)
        if fault.time <= failure.ended and failure.began <= over[k]
    ]
    if not any(failure.name in NAMES.get(faults[k].kind, ()) for k in near):
        return []
    names = {failure.name, failure.host}
    return [k for k in near if names & {*NAMES.get(faults[k].kind, ())}]


def figures_of(
    tally: Tally, records: list[FaultRecord], *, requests: int, usable: bool, seconds: float
) -> dict[str, Any]:
    """Return the figures of a soak; ``complaints`` has a sentence for each broken rule.

    Parameters
    ----------
    tally : counts of its threads.
    records : of the stand-in.
    requests : that were to be made.
    usable : whether a batch without faults was right at the end.
    seconds : that it took.
    """
    faults = Counter(record.kind for record in records if record.kind in KINDS)
    rules = [record for record in records if record.kind not in KINDS]
    without_fault = unexplained(tally.failures, records, tally.successes)
    settled = tally.right + tally.failed
    complaints = [f"A thread of the soak ended with {error!r}." for error in tally.broken]
    if tally.wrong:
        complaints.append(f"{tally.wrong} results were wrong without an exception.")
    if tally.lost or settled != requests:
        complaints.append(f"{requests - settled} requests had no result and no exception.")
    for failure in without_fault[:5]:
        complaints.append(f"No fault explains {failure.name}: {failure.text}")
    if len(without_fault) > 5:
        complaints.append(f"{len(without_fault)} exceptions have no fault that explains them.")
    for rule in rules[:5]:
        complaints.append(f"The driver broke a rule ({rule.kind}): {rule.detail}")
    if not usable:
        complaints.append("The device was not usable afterwards.")
    return {
        "requests": requests,
        "batches": tally.batches,
        "right": tally.right,
        "failed": tally.failed,
        "wrong": tally.wrong,
        "lost": requests - settled,
        "faults": dict(sorted(faults.items())),
        "faults_total": sum(faults.values()),
        "exceptions": dict(sorted(Counter(f.name for f in tally.failures).items())),
        "unexplained": len(without_fault),
        "retried": tally.retried,
        "recovered": tally.recovered,
        "resets": tally.resets,
        "opened": tally.opened,
        "refused": tally.refused,
        "usable": usable,
        "seconds": round(seconds, 1),
        "complaints": complaints,
    }
