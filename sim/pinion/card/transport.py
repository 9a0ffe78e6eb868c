"""Simulated cards in this process, behind the driver's transport interface.

``sim`` is the compiled core of a build inside a packet-level model of the top; ``sim:top`` is the
compiled whole top.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pinion.base.arrays import Bytes, Flags, Words
from pinion.base.progress import SILENT, Progress
from pinion.cosim import CompiledCore, CompileError, StreamError
from pinion.cosim.stream import pack_records, unpack_records
from pinion.driver import CardTimeoutError, DriverError, TornStreamError, Transport, TransportError
from pinion.gateware import YosysError
from pinion.gateware.emit import RTLIL
from pinion.link import BEAT, WORDS_PER_BEAT, Manifest, layout_of, register
from pinion.link.digests import check_digests
from pinion.link.registers import RESET

from .packets import Answers, PacketCard

if TYPE_CHECKING:
    from pinion.cosim.top import CompiledTop

CONTROL = register("CONTROL").offset

WAIT = 10.0
"""Seconds that a read waits for a response while nothing is computed, as in the kernel driver."""

IDLE, SLICE = 5_000, 20_000
"""Link cycles without progress after which the top is at rest, and cycles per simulation run."""

PAUSE = 0.002
"""Seconds between two polls of a top at rest."""


class InProcessCard(Transport):
    """Transport to a `PacketCard` that answers requests in the sending thread.

    Parameters
    ----------
    card : the model.
    wait : seconds that `receive` waits while nothing is being computed.
    """

    timeout = None
    where = "sim"

    def __init__(self, *, card: PacketCard, wait: float = WAIT) -> None:
        self.card = card
        self._wait = wait
        self._changed = threading.Condition()
        self._responses: deque[Bytes] = deque()
        self._sending = False
        self._resets = 0

    def read_register(self, offset: int) -> int:
        """Read a register of the model."""
        return self.card.read_register(offset)

    def write_register(self, offset: int, value: int) -> None:
        """Write a register of the model; the soft reset also wakes a waiting `receive`."""
        self.card.write_register(offset, value)
        if offset == CONTROL and value & RESET:
            with self._changed:
                self._responses.clear()
                self._resets += 1
                self._changed.notify_all()

    def send(self, packet: Bytes) -> None:
        """Compute and queue the response to a request; other threads can run meanwhile."""
        with self._changed:
            self._sending, resets = True, self._resets
        try:
            responses = self.card.feed(packet)
        finally:
            with self._changed:
                self._sending = False
                self._changed.notify_all()
        with self._changed:
            if resets == self._resets:
                self._responses.extend(responses)
                self._changed.notify_all()

    def receive(self, packet: Bytes) -> None:
        """Wait for the next response, and copy it into a packet."""
        with self._changed:
            resets = self._resets
            while not self._responses:
                notified = self._changed.wait(self._wait)
                if resets != self._resets:
                    raise CardTimeoutError("The simulated card was reset during a transfer.")
                if not notified and not self._sending:
                    raise CardTimeoutError(
                        f"The simulated card sent nothing for {self._wait:g} s: it halted, or no "
                        f"request was sent."
                    )
            response = self._responses.popleft()
        if len(response) != len(packet):
            raise TransportError(
                f"The simulated card answered with {len(response)} bytes instead of {len(packet)}."
            )
        packet[:] = response

    def close(self) -> None:
        """Do nothing: the model has no resources."""


class SimulatedCard(InProcessCard):
    """Transport to a card model in this process, with the compiled core of a build.

    The first opening of a build compiles it into the user's cache (about ten seconds); later ones
    reuse it. The core is idle after a batch, and its state is preserved between batches, as on a
    real card. Cycles are those of the core.

    Parameters
    ----------
    folder : the build folder.
    manifest : manifest of that folder.
    idle, stall : repeated patterns of pauses before request beats and back-pressure on results.
    progress : as for :func:`pinion.cosim.engines.library_of`.

    Raises
    ------
    TransportError
        If the core cannot be compiled.
    """

    def __init__(
        self,
        *,
        folder: Path,
        manifest: Manifest,
        idle: Flags | None = None,
        stall: Flags | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.idle = idle
        self.stall = stall
        try:
            self._core = CompiledCore.build(rtlil=folder / RTLIL, progress=progress)
        except (FileNotFoundError, CompileError, YosysError) as error:
            raise TransportError(f"The simulated card cannot be built: {error}") from error
        self._fresh = False
        khz = round(1000 * manifest.clock_mhz)
        card = PacketCard(
            layout=layout_of(manifest),
            # The hash in the RTL, which may differ from the manifest's.
            build=self._core.build_hash(),
            compute=self._compute,
            interval=manifest.ii,
            core_khz=khz,
            link_khz=khz,
            restart=self._restart if manifest.states else None,
        )
        super().__init__(card=card)

    def _restart(self) -> None:
        """Request a state reset before the next batch, as another thread may be using the core."""
        self._fresh = True

    def _compute(self, requests: Words) -> Answers:
        """Run the core on a batch of requests, and return its results and flags."""
        m = self.manifest
        if self._fresh:
            self._fresh = False
            self._core.reset_state()
        beats, last = pack_records(requests, lanes=m.lanes_in, beats=m.beats_in)
        expected = len(requests) * m.beats_out
        try:
            run = self._core.run(
                beats, last, expected_beats=expected, idle=self.idle, stall=self.stall
            ).check()
        except StreamError as error:
            self._core.reset()
            raise TransportError(f"The simulated card failed: {error}") from error
        ends = run.last.reshape(len(requests), m.beats_out)
        if not ends[:, -1].all() or ends[:, :-1].any():
            wrong = int(np.argmax(~ends[:, -1] | ends[:, :-1].any(axis=1)))
            self._core.reset()
            raise TransportError(
                f"Result {wrong} of the simulated card does not end on its beat {m.beats_out}: the "
                f"core and the manifest disagree on the record. Build the folder again."
            )
        return Answers(
            words=unpack_records(
                run.beats, words=m.words_out, beats=m.beats_out, records=len(requests)
            ),
            flagged=run.user[m.beats_out - 1 :: m.beats_out].copy(),
            cycles=int(run.emitted[-1] - run.accepted[0]) + 1,
        )


class TopTransport(Transport):
    """Transport to a compiled top in this process: packets as beats, registers over AXI-Lite.

    Both directions share one simulation, which the waiting thread runs.

    Parameters
    ----------
    top : the compiled top.
    idle, stall : repeated patterns of pauses before request beats and back-pressure on results.
    wait : seconds that `receive` waits while nothing moves.
    """

    timeout = None
    where = "sim:top"

    def __init__(
        self,
        *,
        top: CompiledTop,
        idle: Flags | None = None,
        stall: Flags | None = None,
        wait: float = WAIT,
    ) -> None:
        self.top = top
        self._idle, self._stall = idle, stall
        self._wait = wait
        self._moved = threading.Condition()
        self._beats: Words = np.empty((0, WORDS_PER_BEAT), dtype=np.uint32)
        self._room = 0  # beats that the posted read still takes
        self._parts: list[Words] = []
        self._ended = False
        self._resets = 0

    def read_register(self, offset: int) -> int:
        """Read a register over AXI-Lite; the clocks keep running."""
        with self._moved:
            return self.top.read(offset)

    def write_register(self, offset: int, value: int) -> None:
        """Write a register over AXI-Lite; the soft reset also wakes a waiting `receive`."""
        with self._moved:
            self.top.write(offset, value)
            if offset == CONTROL and value & RESET:
                self._resets += 1
            self._moved.notify_all()

    def send(self, packet: Bytes) -> None:
        """Send a packet beat by beat; return when all beats are accepted."""
        with self._moved:
            self._beats = packet.view(np.uint32).reshape(-1, WORDS_PER_BEAT)
            self._until(lambda: not len(self._beats), "accepted no more beats")

    def receive(self, packet: Bytes) -> None:
        """Receive beats into a packet until it is complete."""
        beats = len(packet) // BEAT
        with self._moved:
            self._room, self._ended, self._parts = beats, False, []
            try:
                self._until(lambda: not self._room or self._ended, "sent nothing")
            finally:
                self._room = 0
                self._moved.notify_all()
            received = np.concatenate([np.empty((0, WORDS_PER_BEAT), np.uint32), *self._parts])
        if len(received) != beats:
            raise TornStreamError(
                f"The simulated top sent {len(received)} of {beats} beats: its response was cut "
                "off."
            )
        packet[:] = received.reshape(-1).view(np.uint8)

    def close(self) -> None:
        """Do nothing: the simulation ends with its last reference."""

    def _until(self, finished: Callable[[], bool], failure: str) -> None:
        """Run the simulation until a condition holds; the lock is released between steps."""
        resets, end = self._resets, time.monotonic() + self._wait
        while not finished():
            if self._step():
                end = time.monotonic() + self._wait
                self._moved.notify_all()
                # Releasing the lock is not enough: a waiting thread must be able to take it.
                self._moved.wait(0)
                continue
            if time.monotonic() > end or resets != self._resets:
                self._beats = self._beats[:0]
                raise CardTimeoutError(
                    "The simulated top was reset during a transfer."
                    if resets != self._resets
                    else f"The simulated top {failure} for {self._wait:g} s."
                )
            self._moved.wait(PAUSE)

    def _step(self) -> bool:
        """Run the simulation for at most `SLICE` cycles; return whether any beat moved."""
        if not len(self._beats) and not self._room:
            return False
        run = self.top.run(
            beats=self._beats,
            room=self._room,
            idle=self._idle,
            stall=self._stall,
            limit=IDLE,
            cycles=SLICE,
        )
        if run.violations:
            raise TransportError(
                f"The simulated top changed or withdrew offered beats (violations: "
                f"{run.violations})."
            )
        self._beats = self._beats[run.accepted :]
        beats, last = run.beats, run.last
        if last.any():
            if not last[-1] or last[:-1].any():
                raise TransportError("The simulated top continued after the end of its response.")
            self._ended = True
        self._parts.append(beats)
        self._room = 0 if self._ended else self._room - len(beats)
        return bool(run.accepted or len(beats))


class SimulatedTop(TopTransport):
    """Transport to the compiled top of a build, including its core.

    The first opening of a build compiles it into the user's cache, which takes minutes for a large
    core.

    Parameters
    ----------
    folder : the build folder.
    crossing : separate clocks for core and link.
    link, core : periods of the clocks, in any common unit.
    idle, stall, wait : as for `TopTransport`.
    progress : as for :func:`pinion.cosim.engines.library_of`.

    Raises
    ------
    TransportError
        If the top cannot be compiled.
    """

    def __init__(
        self,
        *,
        folder: Path,
        crossing: bool = True,
        link: int = 1,
        core: int = 1,
        idle: Flags | None = None,
        stall: Flags | None = None,
        wait: float = WAIT,
        progress: Progress = SILENT,
    ) -> None:
        # Imported here because only a top needs Verilator.
        from pinion.boards import write_top
        from pinion.cosim.top import CompiledTop

        try:
            progress.step("Writing the whole top")
            rtlil = write_top(folder, crossing=crossing)
            top = CompiledTop.build(rtlil=rtlil, progress=progress)
        except (FileNotFoundError, CompileError, YosysError) as error:
            raise TransportError(f"The simulated top cannot be built: {error}") from error
        top.clocks(link=link, core=core)
        super().__init__(top=top, idle=idle, stall=stall, wait=wait)


def seconds_to_open(folder: Path, address: str) -> float:
    """Estimate the time [s] to compile ``sim:top`` on first opening; 0 if it is compiled already.

    The estimate is for this machine and its present load; it is 0 for other, quick cards.

    Raises
    ------
    TransportError
        If the top cannot be compiled.
    pinion.link.ManifestError
        If a file of the folder changed since it was built.
    """
    if address != "top":
        return 0.0
    from pinion.boards import write_top
    from pinion.cosim.top import CompiledTop

    check_digests(folder)
    try:
        return CompiledTop.seconds_to_build(write_top(folder))
    except (FileNotFoundError, CompileError, YosysError) as error:
        raise TransportError(f"The simulated top cannot be built: {error}") from error


def open_transport(
    folder: Path,
    manifest: Manifest,
    address: str,
    *,
    progress: Progress = SILENT,
) -> Transport:
    """Open the simulated card of a build (the entry point ``sim`` of ``pinion.transports``).

    Parameters
    ----------
    folder : the build folder.
    manifest : manifest of that folder.
    address : empty for the core in a model of the top, ``top`` for the whole top.
    progress : receives the steps and shares of a compilation.

    Raises
    ------
    pinion.driver.DriverError
        If there is no such simulated card.
    pinion.link.ManifestError
        If a file of the folder changed since it was built.
    """
    if address in ("", "top"):
        check_digests(Path(folder))
    if not address:
        return SimulatedCard(folder=Path(folder), manifest=manifest, progress=progress)
    if address == "top":
        return SimulatedTop(folder=Path(folder), progress=progress)
    raise DriverError(
        f"There is no simulated card '{address}': give the device 'sim' for the core of the "
        f"build, or 'sim:top' for the whole top."
    )
