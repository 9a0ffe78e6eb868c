"""Time spent by host, link and card."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Times, counts and sizes, summed since the device was opened or its profile was reset.

    Members
    -------
    pack_seconds, unpack_seconds : host time for checking and packing requests, and for checking
        and unpacking responses, in any thread, concurrently with the link.
    flight_seconds : wall time with at least one packet in flight.
    device_cycles : link cycles of the card from each request's header to its trailer; packets that
        overlap on the card count twice.
    stalled_cycles : those cycles in which a result waited for the host.
    starved_cycles : those cycles in which the card waited for more of a packet.
    link_mhz : clock of these cycles.
    batches, packets, records : number of good results.
    bytes_in, bytes_out : size of their requests and responses.
    faults : failed transfers, timeouts, damaged responses and faults reported by the card.
    recoveries : resets that brought the card back.
    resent : repeated transmissions of packets because of another packet's fault.
    """

    pack_seconds: float = 0.0
    unpack_seconds: float = 0.0
    flight_seconds: float = 0.0
    device_cycles: int = 0
    stalled_cycles: int = 0
    starved_cycles: int = 0
    link_mhz: float = 0.0
    batches: int = 0
    packets: int = 0
    records: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    faults: int = 0
    recoveries: int = 0
    resent: int = 0

    @property
    def device_seconds(self) -> float:
        """Time of the card: its cycles at the link's clock; 0 if the clock is unknown."""
        return self.device_cycles / (1e6 * self.link_mhz) if self.link_mhz else 0.0

    @property
    def link_seconds(self) -> float:
        """Remaining flight time: transfers, system calls and waiting for threads."""
        return max(0.0, self.flight_seconds - self.device_seconds)


_ADDED = {field.name for field in fields(Profile)} - {"link_mhz"}


class Meter:
    """The running sums of a profile; any thread may add to them."""

    def __init__(self, *, link_mhz: float) -> None:
        self._lock = threading.Lock()
        self._zero = Profile(link_mhz=link_mhz)
        self._sums: dict[str, float] = {}

    def add(self, **more: float) -> None:
        """Add values to the sums of the same names."""
        if not more.keys() <= _ADDED:
            raise KeyError(f"A profile has no {', '.join(sorted(more.keys() - _ADDED))}.")
        sums = self._sums
        with self._lock:
            for name, value in more.items():
                sums[name] = sums.get(name, 0) + value

    def read(self) -> Profile:
        """Return the profile since the last reset."""
        with self._lock:
            return replace(self._zero, **self._sums)  # type: ignore[arg-type]

    def reset(self) -> Profile:
        """Reset the sums to zero and return the previous ones."""
        with self._lock:
            sums, self._sums = self._sums, {}
        return replace(self._zero, **sums)  # type: ignore[arg-type]
