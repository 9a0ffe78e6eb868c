"""Core compiled to machine code by CXXRTL or Verilator, called through ctypes.

The emitted RTLIL becomes C++, which is compiled together with ``engine.cpp`` into a shared library
(see `pinion.cosim.engines`). Whole batches run inside the library; Python exchanges arrays.
"""

from __future__ import annotations

import ctypes
import difflib
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Words
from pinion.base.progress import SILENT, Progress, watching

from .engines import CompileError, Engine, c_fields, choose_engine, library_of, load_library
from .stream import DRAIN, LIMIT, Cycles, StreamResult, check_pattern, deadlock

__all__ = ["CompileError", "CompiledCore"]

_RUN = (
    "beats* last* n_beats idle* n_idle stall* n_stall n_expected limit drain n_trace trace* "
    "out* out_last* out_user* accepted* emitted* launched* launch_capacity "
    "n_accepted n_emitted n_launched surplus violations cycles deadlock"
)


class _Run(ctypes.Structure):
    """Structure ``Run`` of engine.cpp."""

    _fields_ = c_fields(_RUN)


class CompiledCore:
    """Instance of a compiled core, reset on creation; its state is preserved between batches.

    Instances share nothing, even if they come from the same library. Only one thread at a time may
    use an instance; `run` lets other threads run.
    """

    def __init__(self, *, library: Path, debug: bool = False) -> None:
        """Load a library and reset its core; `build` also compiles it."""
        self.library = library
        self.debug = debug
        self._lib = _load(library)
        self._engine = ctypes.c_void_p(self._lib.pinion_create())
        self._finalizer = weakref.finalize(self, self._lib.pinion_destroy, self._engine)
        self.lanes_in = _lanes(self._lib.pinion_input_bits(self._engine), port="i_tdata")
        self.lanes_out = _lanes(self._lib.pinion_output_bits(self._engine), port="o_tdata")
        self.reset()

    @classmethod
    def build(
        cls,
        *,
        rtlil: Path,
        folder: Path | None = None,
        debug: bool = False,
        engine: Engine = "auto",
        progress: Progress = SILENT,
    ) -> CompiledCore:
        """Compile a core, or reuse the cached library of the same design.

        Parameters
        ----------
        rtlil : file with the top module ``pinion_core``.
        folder : the cache of libraries; None for the user's.
        debug : keep every named signal readable for `trace`; only with CXXRTL, and slow.
        engine : the code generator. ``auto`` selects CXXRTL for small cores and Verilator, if
            installed, for large ones; batches give the same results, cycle for cycle.
        progress : as for :func:`pinion.cosim.engines.library_of`.

        Raises
        ------
        FileNotFoundError : If ``rtlil`` does not exist.
        ValueError : If there is no such engine, or for ``verilator`` with ``debug``.
        CompileError : If g++ or Verilator is missing or fails.
        pinion.gateware.yosys.YosysError : If Yosys is missing or refuses the design.
        pinion.gateware.foreign.ForeignDesignError : If the design holds more than logic.
        """
        if not rtlil.is_file():
            raise FileNotFoundError(f"There is no RTLIL file {rtlil}: build the core first.")
        generator = choose_engine(rtlil, engine=engine, debug=debug)
        library = library_of(rtlil, engine=generator, debug=debug, folder=folder, progress=progress)
        return cls(library=library, debug=debug)

    def reset(self) -> None:
        """Hold the core in reset for four cycles."""
        self._lib.pinion_reset(self._engine)

    def reset_state(self) -> None:
        """Pulse ``reset_state``, so that a core with states restarts from their initial values."""
        self._lib.pinion_reset_state(self._engine)

    def build_hash(self) -> int:
        """Return the 64-bit hash of the build."""
        return int(self._lib.pinion_build_hash(self._engine))

    def signals(self) -> list[str]:
        """Return the names that `trace` accepts, in the style ``unit.o``; needs ``debug``."""
        self._need_debug()
        text: bytes = self._lib.pinion_names(self._engine)
        return [line.replace(" ", ".") for line in text.decode().splitlines()]

    def run(
        self,
        beats: Words,
        last: Flags,
        *,
        expected_beats: int,
        idle: Flags | None = None,
        stall: Flags | None = None,
        limit: int = LIMIT,
        drain: int = DRAIN,
        progress: Progress = SILENT,
    ) -> StreamResult:
        """Send beats to the core, and return the output beats with cycle stamps.

        Parameters
        ----------
        beats : (n, lanes_in) uint32, input beats.
        last : (n,) bool, TLAST of each.
        expected_beats : output beats to wait for.
        idle : (k,) bool, repeated; True in a cycle keeps the host from offering a new beat.
        stall : (k,) bool, repeated; True in a cycle keeps ``o_tready`` low.
        limit : cycles without progress, with the host ready, after which the batch is given up.
        drain : cycles to run afterwards with ``o_tready`` high, looking for surplus beats.
        progress : receives the share of the output beats, from another thread.

        Raises
        ------
        ValueError : If a shape, dtype or pattern is wrong.
        pinion.cosim.stream.StreamDeadlockError : If the core stopped.
        """
        request = _Request(self, beats, last, expected_beats, idle, stall)
        fields = request.fields
        fields.limit, fields.drain = limit, drain
        with watching(progress, lambda: progress.advance(request.share())):
            self._lib.pinion_run(self._engine, ctypes.byref(fields))
        if fields.deadlock:
            raise deadlock(
                accepted=fields.n_accepted,
                n_beats=len(beats),
                emitted=fields.n_emitted,
                expected=expected_beats,
                cycles=fields.cycles,
                limit=limit,
            )
        return request.result()

    def trace(
        self,
        signals: Sequence[str],
        beats: Words,
        last: Flags,
        *,
        cycles: int,
        idle: Flags | None = None,
        stall: Flags | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Record signals at every cycle of a batch that starts from reset.

        A value is the signal's just before the rising edge that ends the cycle, so a handshake is
        in the cycle in which both ``valid`` and ``ready`` are 1 here.

        Parameters
        ----------
        signals : hierarchical names, ``o_tvalid`` or ``unit.o``; see `signals`.
        beats, last, idle, stall : as in `run`.
        cycles : number of cycles to run.

        Returns
        -------
        name -> (cycles,) unsigned bit pattern: uint64 up to 64 bits, Python integers beyond.

        Raises
        ------
        KeyError : If there is no such signal; names the nearest ones.
        ValueError : If the core was built without ``debug``, or a shape is wrong.
        """
        self._need_debug()
        self._lib.pinion_watch_none(self._engine)
        widths = [self._watch(name) for name in signals]
        chunks = [(width + 31) // 32 for width in widths]
        request = _Request(self, beats, last, 0, idle, stall)
        rows = np.zeros((cycles, max(1, sum(chunks))), dtype=np.uint32)
        request.fields.n_trace, request.fields.trace = cycles, rows.ctypes.data
        self.reset()
        if cycles:
            self._lib.pinion_run(self._engine, ctypes.byref(request.fields))
        self.reset()
        ends = np.cumsum(chunks)
        return {
            name: _join(rows[:, end - size : end])
            for name, size, end in zip(signals, chunks, ends, strict=True)
        }

    def _watch(self, name: str) -> int:
        width = int(self._lib.pinion_watch(self._engine, name.replace(".", " ").encode()))
        if width < 0:
            near = difflib.get_close_matches(name, self.signals(), n=3, cutoff=0.4)
            hint = f"similar names: {', '.join(near)}" if near else "see CompiledCore.signals()"
            raise KeyError(f"The core has no signal {name!r} ({hint}).")
        return width

    def _need_debug(self) -> None:
        if not self.debug:
            raise ValueError(
                f"{self.library.name} was built without signal names: "
                "build it with debug=True to trace signals."
            )


class _Request:
    """Arrays of a batch, and the C structure that points to them."""

    def __init__(
        self,
        core: CompiledCore,
        beats: Words,
        last: Flags,
        expected_beats: int,
        idle: Flags | None,
        stall: Flags | None,
    ) -> None:
        if beats.ndim != 2 or beats.shape[1] != core.lanes_in or beats.dtype != np.uint32:
            raise ValueError(
                f"Input beats must be an (n, {core.lanes_in}) array of uint32, "
                f"not {beats.shape} of {beats.dtype}."
            )
        if last.shape != (len(beats),):
            raise ValueError(
                f"The TLAST flags must have shape ({len(beats)},), one for each beat, not "
                f"{last.shape}."
            )
        if expected_beats < 0:
            raise ValueError(
                f"The number of expected beats must not be negative, but is {expected_beats}."
            )
        n, m = len(beats), expected_beats
        self.beats = np.ascontiguousarray(beats)
        self.last = np.ascontiguousarray(last, dtype=np.uint8)
        self.idle = check_pattern(idle, name="idle").astype(np.uint8)
        self.stall = check_pattern(stall, name="stall").astype(np.uint8)
        self.out = np.zeros((m, core.lanes_out), dtype=np.uint32)
        self.out_last, self.out_user = np.zeros(m, dtype=np.uint8), np.zeros(m, dtype=np.uint8)
        self.accepted, self.emitted = np.full(n, -1, np.int64), np.full(m, -1, np.int64)
        # A launch takes at least one beat; further launches of a broken core are only counted.
        self.launched = np.full(n + 1, -1, np.int64)
        self.fields = _Run(
            n_beats=n,
            n_idle=len(self.idle),
            n_stall=len(self.stall),
            n_expected=m,
            limit=LIMIT,
            drain=DRAIN,
            launch_capacity=len(self.launched),
        )
        arrays = "beats last idle stall out out_last out_user accepted emitted launched"
        for name in arrays.split():
            setattr(self.fields, name, getattr(self, name).ctypes.data)

    def share(self) -> float:
        """Return the fraction of the output beats received so far, 0 to 1."""
        count = len(self.emitted)
        return float(np.count_nonzero(self.emitted >= 0)) / count if count else 1.0

    def result(self) -> StreamResult:
        launched: Cycles = self.launched[: self.fields.n_launched]
        return StreamResult(
            beats=self.out,
            last=self.out_last.astype(np.bool_),
            user=self.out_user.astype(np.bool_),
            accepted=self.accepted,
            emitted=self.emitted,
            launched=launched,
            surplus=int(self.fields.surplus),
            violations=int(self.fields.violations),
            cycles=int(self.fields.cycles),
        )


def _join(chunks: NDArray[np.uint32]) -> NDArray[Any]:
    """Join (cycles, k) 32-bit chunks, least significant first, into (cycles,) integers."""
    if chunks.shape[1] <= 2:
        total = np.zeros(len(chunks), dtype=np.uint64)
        for k in range(chunks.shape[1]):
            total |= chunks[:, k].astype(np.uint64) << np.uint64(32 * k)
        return total
    wide = np.zeros(len(chunks), dtype=object)
    for k in range(chunks.shape[1]):
        wide += chunks[:, k].astype(object) << (32 * k)
    return wide


def _lanes(bits: int, *, port: str) -> int:
    if bits == 0 or bits % 32:
        raise CompileError(
            f"The width of port {port} must be a positive multiple of 32 bits, 32 for each lane, "
            f"not {bits}."
        )
    return bits // 32


def _load(library: Path) -> ctypes.CDLL:
    engine, u64 = ctypes.c_void_p, ctypes.c_uint64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "pinion_create": (engine, []),
        "pinion_destroy": (None, [engine]),
        "pinion_input_bits": (u64, [engine]),
        "pinion_output_bits": (u64, [engine]),
        "pinion_build_hash": (u64, [engine]),
        "pinion_reset": (None, [engine]),
        "pinion_reset_state": (None, [engine]),
        "pinion_names": (ctypes.c_char_p, [engine]),
        "pinion_watch_none": (None, [engine]),
        "pinion_watch": (ctypes.c_int64, [engine, ctypes.c_char_p]),
        "pinion_run": (None, [engine, ctypes.POINTER(_Run)]),
    }
    return load_library(library, signatures)
