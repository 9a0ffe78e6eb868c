"""The simulated card: a build's RTL, compiled, behind the driver's transport interface."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from pinion.boards.build import RTLIL, SIMULATION
from pinion.driver import Answers, CardIdentity, DriverError, Transport, TransportError
from pinion.gateware.yosys import YosysError
from pinion.hls.manifest import Manifest

from .compiled import CompiledCore, CompileError
from .stream import Flags, StreamError, Words, pack_records, unpack_records


class SimulatedCard(Transport):
    """A core in this process, compiled from the RTLIL of its build.

    The first opening of a build compiles it into ``<folder>/sim`` (some ten seconds); later ones
    take what is there. A batch leaves the core idle, and its state stays between batches, as on a
    real card.

    Parameters
    ----------
    folder : the build folder.
    manifest : of that folder.
    idle, stall : patterns, repeated: pauses before request beats and back-pressure on results.

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
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.idle = idle
        self.stall = stall
        self._lock = threading.Lock()
        try:
            self._core = CompiledCore.build(rtlil=folder / RTLIL, folder=folder / SIMULATION)
        except (FileNotFoundError, CompileError, YosysError) as error:
            raise TransportError(f"The simulated card cannot be made: {error}") from error

    def identity(self) -> CardIdentity:
        """The constant in the RTL."""
        with self._lock:
            return CardIdentity(build_hash=self._core.build_hash())

    def exchange(self, requests: Words) -> Answers:
        """Run the core until every request is answered; other threads go on meanwhile."""
        m = self.manifest
        beats, last = pack_records(requests, lanes=m.lanes_in, beats=m.beats_in)
        expected = len(requests) * m.beats_out
        try:
            with self._lock:
                run = self._core.run(
                    beats, last, expected_beats=expected, idle=self.idle, stall=self.stall
                ).check()
        except StreamError as error:
            raise TransportError(f"The simulated card failed: {error}") from error
        ends = run.last.reshape(len(requests), m.beats_out)
        if not ends[:, -1].all() or ends[:, :-1].any():
            wrong = int(np.argmax(~ends[:, -1] | ends[:, :-1].any(axis=1)))
            raise TransportError(
                f"Result {wrong} of the simulated card does not end on its beat {m.beats_out}: "
                f"core and manifest disagree on the record; build the folder again."
            )
        return Answers(
            words=unpack_records(run.beats, words=m.words_out, beats=m.beats_out),
            flagged=run.user[m.beats_out - 1 :: m.beats_out].copy(),
            cycles=int(run.emitted[-1] - run.accepted[0]) + 1,
        )

    def reset(self) -> None:
        """Hold the core's reset."""
        with self._lock:
            self._core.reset()

    def close(self) -> None:
        """Nothing to give back: the core goes with the last reference to it."""


def open_transport(folder: Path, manifest: Manifest, address: str) -> Transport:
    """Open the simulated card of a build: the entry point ``sim`` of ``pinion.transports``.

    Raises
    ------
    pinion.driver.DriverError
        When an address is given: there is one simulated card a build.
    """
    if address:
        raise DriverError(f"The simulated card has no address '{address}': give the device 'sim'.")
    return SimulatedCard(folder=Path(folder), manifest=manifest)
