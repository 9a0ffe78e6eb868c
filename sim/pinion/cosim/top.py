"""Top compiled to machine code, called through ctypes: streams, registers and two clocks.

Verilator converts the emitted RTLIL, which is compiled together with ``top_engine.cpp``. This
module drives the card's AXI side as the vendor's DMA engine would: 512-bit beats in each direction
and 32-bit register accesses. For packets see :mod:`tests.support.top.batches`.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Words
from pinion.base.progress import SILENT, Progress
from pinion.link import WORDS_PER_BEAT

from .engines import (
    TOP,
    CompileError,
    c_fields,
    is_compiled,
    library_of,
    load_library,
    need_verilator,
    verilator_seconds,
)
from .stream import LIMIT, Cycles, check_pattern

__all__ = ["CompileError", "CompiledTop", "RegisterError", "TopRun"]

REGISTER_LIMIT = 1000
"""Link cycles after which a register access counts as unanswered."""

FOREVER = (1 << 64) - 1

_RUN = (
    "beats* keep* last* n_beats room idle* n_idle stall* n_stall limit max_cycles wait "
    "out* out_keep* out_last* accepted_at* emitted_at* "
    "accepted emitted cycles violations held waiting"
)


class RegisterError(RuntimeError):
    """Error for a register access that is not answered, or is answered with an error."""


class _Run(ctypes.Structure):
    """Structure ``Run`` of top_engine.cpp."""

    _fields_ = c_fields(_RUN)


@dataclass(frozen=True, kw_only=True)
class TopRun:
    """Result of one run of a top; stamps are cycles of the link's clock since the last `reset`.

    Attributes
    ----------
    accepted : request beats that the caller need not pass again: those that the card took, and the
        one on offer at the end (see ``pending``), which stays on offer until the card takes it.
    pending : the last of them is still on offer.
    beats : (m, 16) uint32, result beats in order.
    keep : (m,) uint64, TKEEP of each.
    last : (m,) bool, TLAST of each.
    waiting : the card has another result beat on offer.
    accepted_at : (accepted,) int64, cycle in which each request beat was taken; -1 if pending.
    emitted_at : (m,) int64, cycle in which each result beat was taken.
    violations : cycles since the previous run, including register accesses in between, in which
        the card changed or withdrew an offered result beat.
    cycles : cycles of this run.
    """

    accepted: int
    pending: bool
    beats: Words
    keep: NDArray[np.uint64]
    last: Flags
    waiting: bool
    accepted_at: Cycles
    emitted_at: Cycles
    violations: int
    cycles: int


class CompiledTop:
    """Instance of a compiled top, configured on creation; its state is preserved between runs.

    Simulated time advances only in `run`, `read`, `write` and `reset`. An offered request beat
    stays on offer, with the same payload, through everything but `reset`, as AXI-Stream requires;
    between runs no result beat is taken. Cards share nothing, even if they come from the same
    library. Only one thread at a time may use a card; every call lets other threads run.
    """

    def __init__(self, *, library: Path) -> None:
        """Load a library and configure its top; `build` also compiles it."""
        self.library = library
        self._lib = _load(library)
        self._card = ctypes.c_void_p(self._lib.pinion_top_create())
        self._finalizer = weakref.finalize(self, self._lib.pinion_top_destroy, self._card)
        self.crossing = bool(self._lib.pinion_top_crossing(self._card))
        self.reset()

    @classmethod
    def build(
        cls,
        *,
        rtlil: Path,
        folder: Path | None = None,
        progress: Progress = SILENT,
    ) -> CompiledTop:
        """Compile a top, or reuse the cached library of the same design.

        Parameters
        ----------
        rtlil : file with the top module ``pinion_top`` (:func:`pinion.boards.top.write_top`).
        folder : the cache of libraries; None for the user's.
        progress : as for :func:`pinion.cosim.engines.library_of`.

        Raises
        ------
        FileNotFoundError : If ``rtlil`` does not exist.
        CompileError : If g++ or Verilator is missing or fails.
        pinion.gateware.yosys.YosysError : If Yosys is missing or refuses the design.
        """
        if not rtlil.is_file():
            raise FileNotFoundError(f"There is no RTLIL file {rtlil}: write the top first.")
        need_verilator()
        library = library_of(
            rtlil,
            engine="verilator",
            harness=TOP,
            folder=folder,
            progress=progress,
        )
        return cls(library=library)

    @staticmethod
    def seconds_to_build(rtlil: Path) -> float:
        """Estimate the time [s] that `build` takes at the current load; 0 if the library is cached.

        Raises
        ------
        CompileError : If g++ or Verilator is missing.
        """
        need_verilator()
        if is_compiled(rtlil, engine="verilator", harness=TOP):
            return 0.0
        try:
            load = os.getloadavg()[0]
        except OSError:  # not available on this system
            load = 0.0
        megabytes, processors = rtlil.stat().st_size / 1e6, os.cpu_count() or 1
        return verilator_seconds(megabytes, processors=processors, load=load)

    @property
    def now(self) -> int:
        """Cycles of the link's clock since the last `reset`."""
        return int(self._lib.pinion_top_now(self._card))

    def clocks(self, *, link: int = 1, core: int = 1) -> None:
        """Set the periods of both clocks, in an arbitrary common unit.

        With ``link=3, core=5`` the core runs at 0.6 times the link's rate. Coincident edges are
        simultaneous.

        Raises
        ------
        ValueError : If a period is below 1, or they differ for a top with a single clock.
        """
        if link < 1 or core < 1:
            raise ValueError(f"Periods must be positive integers; given: link={link}, core={core}.")
        if link != core and not self.crossing:
            raise ValueError(
                f"This top has one clock, so link={link} and core={core} cannot differ: "
                "write it with crossing=True."
            )
        self._lib.pinion_top_clocks(self._card, link, core)

    def reset(self) -> None:
        """Reset the top by port ``rst``, as configuration does; an offered beat is dropped."""
        self._lib.pinion_top_reset(self._card)

    def read(self, offset: int) -> int:
        """Read a 32-bit register; the clocks keep running.

        Raises
        ------
        RegisterError : Without an answer within `REGISTER_LIMIT` cycles, or for an error response.
        """
        value = ctypes.c_uint32()
        response = self._lib.pinion_top_read(
            self._card, offset, ctypes.byref(value), REGISTER_LIMIT
        )
        _check_response(response, offset=offset, action="read")
        return value.value

    def write(self, offset: int, value: int, *, strobes: int = 0xF) -> None:
        """Write the bytes ``strobes`` of a 32-bit register; the clocks keep running.

        Raises
        ------
        ValueError : If the value has more than 32 bits.
        RegisterError : Without an answer within `REGISTER_LIMIT` cycles, or for an error response.
        """
        if not 0 <= value < 1 << 32:
            raise ValueError(f"A register has 32 bits: {value:#x} does not fit.")
        response = self._lib.pinion_top_write(self._card, offset, value, strobes, REGISTER_LIMIT)
        _check_response(response, offset=offset, action="written")

    # Many parameters: a stream and its pauses.
    def run(
        self,
        *,
        beats: Words,
        keep: NDArray[np.uint64] | None = None,
        last: Flags | None = None,
        room: int,
        idle: Flags | None = None,
        stall: Flags | None = None,
        limit: int = LIMIT,
        cycles: int | None = None,
        wait: bool = True,
    ) -> TopRun:
        """Offer request beats and accept result beats until a stop condition holds.

        Parameters
        ----------
        beats : (n, 16) uint32, request beats, beginning with those that an earlier run did not
            transfer: ``beats[run.accepted:]``.
        keep : (n,) uint64, TKEEP of each; all bytes by default.
        last : (n,) bool, TLAST of each; by default on the final one, as in a DMA transfer.
        room : result beats to take; ``c2h_tready`` is low afterwards.
        idle : (k,) bool, repeated; True in a cycle keeps the host from offering a new beat.
        stall : (k,) bool, repeated; True in a cycle keeps ``c2h_tready`` low.
        limit : stop after this many cycles without progress, with the host willing.
        cycles : stop after this many cycles.
        wait : stop when all beats are in and ``room`` beats are out; otherwise only the other two
            conditions apply.

        Raises
        ------
        ValueError : If a shape, dtype or pattern is wrong.
        """
        request = _Request(beats, keep, last, room, idle, stall)
        fields = request.fields
        fields.limit, fields.wait = limit, wait
        fields.max_cycles = FOREVER if cycles is None else cycles
        self._lib.pinion_top_run(self._card, ctypes.byref(fields))
        return request.result()


class _Request:
    """Arrays of a run, and the C structure that points to them."""

    def __init__(
        self,
        beats: Words,
        keep: NDArray[np.uint64] | None,
        last: Flags | None,
        room: int,
        idle: Flags | None,
        stall: Flags | None,
    ) -> None:
        if beats.ndim != 2 or beats.shape[1] != WORDS_PER_BEAT or beats.dtype != np.uint32:
            raise ValueError(
                f"Request beats must be an (n, {WORDS_PER_BEAT}) array of uint32, "
                f"not {beats.shape} of {beats.dtype}."
            )
        n, m = len(beats), room
        if m < 0:
            raise ValueError(f"The room for result beats must not be negative, but is {m}.")
        if last is None:
            last = np.arange(1, n + 1) == n
        for name, array in (("keep", keep), ("last", last)):
            if array is not None and array.shape != (n,):
                raise ValueError(
                    f"{name} must have shape ({n},), one for each beat, not {array.shape}."
                )
        self.beats = np.ascontiguousarray(beats)
        self.keep = None if keep is None else np.ascontiguousarray(keep, dtype=np.uint64)
        self.last = np.ascontiguousarray(last, dtype=np.uint8)
        self.idle = check_pattern(idle, name="idle").astype(np.uint8)
        self.stall = check_pattern(stall, name="stall").astype(np.uint8)
        # Not zeroed, because room may be large, and only written elements are returned.
        self.out = np.empty((m, WORDS_PER_BEAT), dtype=np.uint32)
        self.out_keep, self.out_last = np.empty(m, dtype=np.uint64), np.empty(m, dtype=np.uint8)
        self.accepted_at, self.emitted_at = np.full(n, -1, np.int64), np.empty(m, np.int64)
        self.fields = _Run(n_beats=n, room=m, n_idle=len(self.idle), n_stall=len(self.stall))
        arrays = "beats last idle stall out out_keep out_last accepted_at emitted_at"
        for name in arrays.split():
            setattr(self.fields, name, getattr(self, name).ctypes.data)
        if self.keep is not None:
            self.fields.keep = self.keep.ctypes.data

    def result(self) -> TopRun:
        m = int(self.fields.emitted)
        return TopRun(
            accepted=int(self.fields.accepted),
            pending=bool(self.fields.held),
            beats=self.out[:m],
            keep=self.out_keep[:m],
            last=self.out_last[:m].astype(np.bool_),
            waiting=bool(self.fields.waiting),
            accepted_at=self.accepted_at[: self.fields.accepted],
            emitted_at=self.emitted_at[:m],
            violations=int(self.fields.violations),
            cycles=int(self.fields.cycles),
        )


def _check_response(response: int, *, offset: int, action: str) -> None:
    if response < 0:
        raise RegisterError(
            f"The register at {offset:#x} could not be {action}: no answer within {REGISTER_LIMIT} "
            "cycles of the link's clock."
        )
    if response:
        raise RegisterError(
            f"The register at {offset:#x} could not be {action}: the card sent response {response} "
            "instead of 0."
        )


def _load(library: Path) -> ctypes.CDLL:
    card, u64, u32, status = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "pinion_top_create": (card, []),
        "pinion_top_destroy": (None, [card]),
        "pinion_top_crossing": (u64, [card]),
        "pinion_top_clocks": (None, [card, u64, u64]),
        "pinion_top_reset": (None, [card]),
        "pinion_top_now": (u64, [card]),
        "pinion_top_write": (status, [card, u32, u32, u32, u64]),
        "pinion_top_read": (status, [card, u32, ctypes.POINTER(u32), u64]),
        "pinion_top_run": (None, [card, ctypes.POINTER(_Run)]),
    }
    return load_library(library, signatures)
