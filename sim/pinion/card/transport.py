"""Simulated cards in this process, behind the driver's transport interface.

``sim`` is the core of a build, compiled, inside a packet-level model of the top; ``sim:top`` is the
whole top, compiled.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pinion.base.progress import SILENT, Progress
from pinion.cosim.compiled import CompiledCore, CompileError
from pinion.cosim.stream import Flags, StreamError, pack_records, unpack_records
from pinion.driver import (
    CardTimeoutError,
    DriverError,
    TornStreamError,
    Transport,
    TransportError,
)
from pinion.driver.card import layout_of
from pinion.gateware.emit import RTLIL
from pinion.gateware.yosys import YosysError
from pinion.link import BEAT, WORDS_PER_BEAT, Manifest, register
from pinion.link.digests import check_digests
from pinion.link.registers import RESET

from .packets import Answers, Bytes, PacketCard, Words

CONTROL = register("CONTROL").offset

WAIT = 10.0
"""Seconds that a read waits for a response that nobody works at, as the kernel driver does."""

IDLE, SLICE = 5_000, 20_000
"""Link cycles without progress after which the top is at rest, and cycles of one run of it."""

PAUSE = 0.002
"""Seconds between two polls of a top at rest."""


class InProcessCard(Transport):
    """A `PacketCard` as a transport: requests are answered in the thread that sends them.

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
        """A register of the model."""
        return self.card.read_register(offset)

    def write_register(self, offset: int, value: int) -> None:
        """A register of the model; the soft reset also wakes a waiting `receive`."""
        self.card.write_register(offset, value)
        if offset == CONTROL and value & RESET:
            with self._changed:
                self._responses.clear()
                self._resets += 1
                self._changed.notify_all()

    def send(self, packet: Bytes) -> None:
        """Compute; other threads go on meanwhile."""
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
        """Wait for the next response."""
        with self._changed:
            resets = self._resets
            while not self._responses:
                came = self._changed.wait(self._wait)
                if resets != self._resets:
                    raise CardTimeoutError("The simulated card was reset during a transfer.")
                if not came and not self._sending:
                    raise CardTimeoutError(
                        f"The simulated card gave nothing for {self._wait:g} s: it stopped, or no "
                        f"request was sent."
                    )
            response = self._responses.popleft()
        if len(response) != len(packet):
            raise TransportError(
                f"The simulated card answered with {len(response)} bytes instead of {len(packet)}."
            )
        packet[:] = response

    def close(self) -> None:
        """Nothing to give back: the model goes with the last reference to it."""


class SimulatedCard(InProcessCard):
    """A core in this process, compiled from the RTLIL of its build.

    The first opening of a build compiles it into the user's cache (some ten seconds); later ones
    take what is there. A batch leaves the core idle, and its state stays between batches, as on a
    real card. Cycles are those of the core.

    Parameters
    ----------
    folder : the build folder.
    manifest : of that folder.
    idle, stall : patterns, repeated: pauses before request beats and back-pressure on results.
    progress : as of :func:`pinion.cosim.engines.library_of`.

    Raises
    ------
    TransportError
        When the core cannot be compiled.
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
            raise TransportError(f"The simulated card cannot be made: {error}") from error
        self._fresh = False
        khz = round(1000 * manifest.clock_mhz)
        card = PacketCard(
            layout=layout_of(manifest),
            # The build that the RTL holds, not the one that the manifest asks for.
            build=self._core.build_hash(),
            compute=self._compute,
            interval=manifest.ii,
            core_khz=khz,
            link_khz=khz,
            restart=self._restart if manifest.states else None,
        )
        super().__init__(card=card)

    def _restart(self) -> None:
        """Reset the states before the next batch: another thread may be inside the core now."""
        self._fresh = True

    def _compute(self, requests: Words) -> Answers:
        """Run the core until every request is answered."""
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
                f"Result {wrong} of the simulated card does not end on its beat {m.beats_out}: "
                f"core and manifest disagree on the record; build the folder again."
            )
        return Answers(
            words=unpack_records(
                run.beats, words=m.words_out, beats=m.beats_out, records=len(requests)
            ),
            flagged=run.user[m.beats_out - 1 :: m.beats_out].copy(),
            cycles=int(run.emitted[-1] - run.accepted[0]) + 1,
        )


class SimulatedTop(Transport):
    """The whole top in this process, compiled: packets beat by beat, registers over AXI-Lite.

    Both directions share one simulation; whoever waits moves it on. The first opening of a build
    compiles it into the user's cache, which takes minutes for a large core.

    Parameters
    ----------
    folder : the build folder.
    crossing : two clocks, the core's apart from the link's.
    link, core : periods of the clocks, in any common unit.
    idle, stall : patterns, repeated: pauses before request beats and back-pressure on results.
    wait : seconds that `receive` waits while nothing moves.
    progress : as of :func:`pinion.cosim.engines.library_of`.

    Raises
    ------
    TransportError
        When the top cannot be compiled.
    """

    timeout = None
    where = "sim:top"

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
        # A top is only for those who have Verilator.
        from pinion.boards.top import write_top
        from pinion.cosim.top import CompiledTop

        try:
            progress.step("Writing the whole top")
            rtlil = write_top(folder, crossing=crossing)
            self.top = CompiledTop.build(rtlil=rtlil, progress=progress)
        except (FileNotFoundError, CompileError, YosysError) as error:
            raise TransportError(f"The simulated top cannot be made: {error}") from error
        self.top.clocks(link=link, core=core)
        self._idle, self._stall = idle, stall
        self._wait = wait
        self._moved = threading.Condition()
        self._beats: Words = np.empty((0, WORDS_PER_BEAT), dtype=np.uint32)
        self._wanted = 0
        self._found: list[Words] = []
        self._ended = False
        self._resets = 0
        # A posted read holds `_wanted` above zero until the last beat has come.

    def read_register(self, offset: int) -> int:
        """Over AXI-Lite; the clocks go on meanwhile."""
        with self._moved:
            return self.top.read(offset)

    def write_register(self, offset: int, value: int) -> None:
        """Over AXI-Lite; the soft reset also wakes a waiting `receive`."""
        with self._moved:
            self.top.write(offset, value)
            if offset == CONTROL and value & RESET:
                self._resets += 1
            self._moved.notify_all()

    def send(self, packet: Bytes) -> None:
        """Offer beats until all are taken."""
        with self._moved:
            self._beats = packet.view(np.uint32).reshape(-1, WORDS_PER_BEAT)
            self._until(lambda: not len(self._beats), "took nothing more")

    def receive(self, packet: Bytes) -> None:
        """Take beats until the packet is whole."""
        beats = len(packet) // BEAT
        with self._moved:
            self._wanted, self._ended, self._found = beats, False, []
            try:
                self._until(lambda: not self._wanted or self._ended, "gave nothing")
            finally:
                self._wanted = 0
                self._moved.notify_all()
            found = np.concatenate([np.empty((0, WORDS_PER_BEAT), np.uint32), *self._found])
        if len(found) != beats:
            raise TornStreamError(
                f"The simulated top gave {len(found)} of {beats} beats: its response was cut off."
            )
        packet[:] = found.reshape(-1).view(np.uint8)

    def close(self) -> None:
        """Nothing to give back: the simulation goes with the last reference to it."""

    def _until(self, done: Callable[[], bool], what: str) -> None:
        """Move the simulation on; others get their turn in between. Holds the lock."""
        resets, end = self._resets, time.monotonic() + self._wait
        while not done():
            if self._step():
                end = time.monotonic() + self._wait
                self._moved.notify_all()
                # Letting go is not enough: the lock must be free for somebody who waits for it.
                self._moved.wait(0)
                continue
            if time.monotonic() > end or resets != self._resets:
                self._beats = self._beats[:0]
                raise CardTimeoutError(
                    f"The simulated top {what} for {self._wait:g} s, or was reset meanwhile."
                )
            self._moved.wait(PAUSE)

    def _step(self) -> bool:
        """Run for a while; says whether anything moved."""
        if not len(self._beats) and not self._wanted:
            return False
        run = self.top.run(
            beats=self._beats,
            room=self._wanted,
            idle=self._idle,
            stall=self._stall,
            limit=IDLE,
            cycles=SLICE,
        )
        if run.violations:
            raise TransportError(
                f"The simulated top changed or withdrew an offered beat {run.violations} times."
            )
        self._beats = self._beats[run.accepted :]
        beats, last = run.beats, run.last
        if last.any():
            if not last[-1] or last[:-1].any():
                raise TransportError("The simulated top went on behind the end of its response.")
            self._ended = True
        self._found.append(beats)
        self._wanted = 0 if self._ended else self._wanted - len(beats)
        return bool(run.accepted or len(beats))


def seconds_to_open(folder: Path, address: str) -> float:
    """About how long the first opening of ``sim:top`` compiles; 0 where it was opened before.

    An estimate for this machine, as busy as it is; 0 also for other cards, which are quick.

    Raises
    ------
    TransportError
        When the top cannot be compiled.
    pinion.link.ManifestError
        When a file of the folder is not the one that was built.
    """
    if address != "top":
        return 0.0
    from pinion.boards.top import write_top
    from pinion.cosim.top import CompiledTop

    check_digests(folder)
    try:
        return CompiledTop.seconds_to_build(write_top(folder))
    except (FileNotFoundError, CompileError, YosysError) as error:
        raise TransportError(f"The simulated top cannot be made: {error}") from error


def open_transport(
    folder: Path,
    manifest: Manifest,
    address: str,
    *,
    progress: Progress = SILENT,
) -> Transport:
    """Open the simulated card of a build: the entry point ``sim`` of ``pinion.transports``.

    Every file of the folder must be as it was built.

    Parameters
    ----------
    folder : the build folder.
    manifest : of that folder.
    address : empty for the core in a model of the top, ``top`` for the whole top.
    progress : told the steps and shares of what is compiled, if it is not yet.

    Raises
    ------
    pinion.driver.DriverError
        When there is no such simulated card.
    pinion.link.ManifestError
        When a file of the folder is not the one that was built.
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
