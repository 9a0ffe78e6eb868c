"""State of a thread in a system call on a mounted file, as Linux reports it in ``/proc``."""

from __future__ import annotations

import platform
import signal
from dataclasses import dataclass
from pathlib import Path

from .nodes import HARMFUL

# Numbers of the system calls that transfer data, by machine.
_CALLS = {
    "x86_64": {
        0: "read",
        1: "write",
        17: "pread",
        18: "pwrite",
        19: "readv",
        20: "writev",
        295: "preadv",
        296: "pwritev",
        327: "preadv2",
        328: "pwritev2",
    },
    "aarch64": {
        63: "read",
        64: "write",
        65: "readv",
        66: "writev",
        67: "pread",
        68: "pwrite",
        69: "preadv",
        70: "pwritev",
        286: "preadv2",
        287: "pwritev2",
    },
}


@dataclass(frozen=True, kw_only=True)
class Caller:
    """System call that a thread is in, with its buffer.

    Members
    -------
    call : name of the system call.
    address : address of the caller's buffer, or of its list of buffers.
    length : size in bytes, or number of buffers in the list.
    """

    call: str
    address: int
    length: int

    @property
    def vectored(self) -> bool:
        """Whether the caller passed a list of buffers."""
        return "v" in self.call


def current_call(thread: int) -> Caller | None:
    """Return the system call that a thread is in, or None if the system does not report it."""
    try:
        fields = Path(f"/proc/{thread}/syscall").read_text().split()
        call = _CALLS.get(platform.machine(), {})[int(fields[0])]
        return Caller(call=call, address=int(fields[2], 16), length=int(fields[3], 16))
    except (OSError, ValueError, KeyError, IndexError):
        return None


def signals_of_thread(thread: int) -> list[str]:
    """Return the harmful signals that may interrupt a thread; [] if they are not reported."""
    try:
        status = Path(f"/proc/{thread}/status").read_text()
        mask = int(status.partition("SigBlk:")[2].split()[0], 16)
    except (OSError, ValueError, IndexError):
        return []
    return [name for name in HARMFUL if not mask >> (getattr(signal, name) - 1) & 1]
