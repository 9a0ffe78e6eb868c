"""What a soak counts, which error names which fault, and whether every line holds."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pinion.card.stand_in.faults import KINDS, Record
from pinion.driver import CardFaultError

HARMLESS = ("delay", "split_tlast", "ring_wrap")
"""Faults that no program may notice."""

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
"""Errors of the driver that name a fault; in capitals, the cause that a `CardFaultError` gives."""

LASTING = ("other_build",)
"""Faults that may hit many batches."""

RECOVERY = 2.0
"""Seconds that the device's recovery from a fault takes at most."""


@dataclass(kw_only=True)
class Failure:
    """A batch that ended with an error: which, what it said, and in which time."""

    name: str
    text: str
    began: float
    ended: float


@dataclass(kw_only=True)
class Tally:
    """What the threads of a soak count.

    Members
    -------
    right, wrong, lost : requests.
    failed : requests whose batch ended with an error.
    retried, recovered : batches sent once more, and those that were right then.
    mended : resets of a device that refused batches.
    opened, refused : devices that were opened, and second ones that were not.
    failures : batches that ended with an error.
    broken : what ended threads of the soak itself.
    """

    right: int = 0
    wrong: int = 0
    lost: int = 0
    failed: int = 0
    retried: int = 0
    recovered: int = 0
    mended: int = 0
    batches: int = 0
    opened: int = 0
    refused: int = 0
    failures: list[Failure] = field(default_factory=list)
    broken: list[BaseException] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, **more: int) -> None:
        """Count, from any thread."""
        with self.lock:
            for name, value in more.items():
                setattr(self, name, getattr(self, name) + value)

    def fail(self, error: BaseException, began: float) -> None:
        """Note an error."""
        name, ended = type(error).__name__, time.monotonic()
        if isinstance(error, CardFaultError):
            name = error.cause.name
        with self.lock:
            self.failures.append(Failure(name=name, text=str(error), began=began, ended=ended))


def unexplained(failures: Sequence[Failure], records: Sequence[Record]) -> list[Failure]:
    """Failures without a fault of their own: of their name, in their time, of no other failure.

    A card of another build is there for a while, and explains any number of them. The others are
    matched one to one, as many as can be (H. W. Kuhn, The Hungarian method, 1955).
    """
    causes = [[k for k, r in enumerate(records) if _may_come_from(f, r)] for f in failures]
    owner: dict[int, int] = {}

    def matched(number: int, seen: set[int]) -> bool:
        for k in causes[number]:
            if records[k].kind in LASTING:
                return True
            if k not in seen:
                seen.add(k)
                if k not in owner or matched(owner[k], seen):
                    owner[k] = number
                    return True
        return False

    return [failure for number, failure in enumerate(failures) if not matched(number, set())]


def _may_come_from(failure: Failure, record: Record) -> bool:
    if failure.name not in NAMES.get(record.kind, ()) or record.time > failure.ended:
        return False
    # A recovery from the fault may have held this batch up, and an armed EBUSY waits.
    return record.time >= failure.began - 1.5 * RECOVERY or record.kind == "ebusy"


def figures_of(
    tally: Tally, records: list[Record], *, requests: int, usable: bool, seconds: float
) -> dict[str, Any]:
    """The figures of a soak; ``complaints`` holds a sentence for each line that does not hold.

    Parameters
    ----------
    tally : what its threads counted.
    records : of the stand-in.
    requests : that were to be made.
    usable : whether a batch without faults was right at the end.
    seconds : that it took.
    """
    faults = Counter(record.kind for record in records if record.kind in KINDS)
    rules = [record for record in records if record.kind not in KINDS]
    foundlings = unexplained(tally.failures, records)
    settled = tally.right + tally.failed
    complaints = [f"A thread of the soak ended with {error!r}." for error in tally.broken]
    if tally.wrong:
        complaints.append(f"{tally.wrong} results were wrong without an exception.")
    if tally.lost or settled != requests:
        complaints.append(f"{requests - settled} requests had no result and no exception.")
    for failure in foundlings[:5]:
        complaints.append(f"No fault explains {failure.name}: {failure.text}")
    if len(foundlings) > 5:
        complaints.append(f"{len(foundlings)} exceptions have no fault that explains them.")
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
        "unexplained": len(foundlings),
        "retried": tally.retried,
        "recovered": tally.recovered,
        "mended": tally.mended,
        "opened": tally.opened,
        "refused": tally.refused,
        "usable": usable,
        "seconds": round(seconds, 1),
        "complaints": complaints,
    }
