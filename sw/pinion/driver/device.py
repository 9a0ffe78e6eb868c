"""A card as a function on arrays."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from pinion.hls.manifest import Manifest

from .errors import DriverError, TransportError
from .records import Words, pack, request_dtype, result_dtype, unpack
from .requests import Batch, check_arrays
from .result import Result
from .transport import Answers, Transport, open_transport

CHUNK = 8192
"""Requests in one exchange: some tenths of a second on the simulated card."""


class Device:
    """An open card that holds one build; use it as a context manager.

    Batches run one after the other in a thread of the device's own, in the order in which they
    were submitted, from whichever thread.

    Parameters
    ----------
    manifest : of the build that the card must hold.
    transport : the way to the card; the device closes it.
    chunk : requests in one exchange; larger batches are sent in pieces, between which `close` is
        heeded and progress reported.
    progress : called after each piece with the requests done and the requests in all of a batch,
        in the device's thread.

    Raises
    ------
    DriverError
        When the card holds another build; the transport is closed then.
    """

    def __init__(
        self,
        *,
        manifest: Manifest,
        transport: Transport,
        chunk: int = CHUNK,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        if chunk < 1:
            raise DriverError(f"A chunk has at least 1 request, not {chunk}.")
        self._manifest = manifest
        self._transport = transport
        self._chunk = chunk
        self._progress = progress
        self._request = request_dtype(manifest)
        self._result = result_dtype(manifest)
        self._lock = threading.Lock()
        self._closed = False
        self._abandon = threading.Event()
        try:
            _check_identity(manifest, transport.identity().build_hash)
        except BaseException:
            transport.close()
            raise
        self._pool = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="pinion-device", initializer=_block_signals
        )

    @property
    def manifest(self) -> Manifest:
        """Of the build that the card holds."""
        return self._manifest

    @property
    def robot(self) -> str:
        """The robot's name."""
        return self._manifest.robot

    @property
    def function(self) -> str:
        """The function's name, such as ``rnea``."""
        return self._manifest.function

    @property
    def shapes(self) -> MappingProxyType[str, tuple[int, ...]]:
        """Shapes of all input and output arrays by name, without the batch axis."""
        arrays = (*self._manifest.inputs, *self._manifest.outputs)
        return MappingProxyType({array.name: array.shape for array in arrays})

    def run(self, **arrays: ArrayLike) -> Result:
        """Compute a batch and wait for it.

        Parameters
        ----------
        arrays : every input of the function by name, (...) for a single request or (n, ...) for a
            batch, floats or integers, in the manifest's units; converted to float32. An array
            without a batch axis beside others with one serves all requests.

        Returns
        -------
        The outputs by name, float32, with a batch axis unless every input came without one.

        Raises
        ------
        DriverError
            When an array does not fit or the device is closed.
        TransportError
            When the card failed; it was reset, and the next batch may succeed.
        """
        return self.submit(**arrays).result()

    def submit(self, **arrays: ArrayLike) -> Future[Result]:
        """Queue a batch; the arrays are checked and copied before this returns.

        Several batches may be in flight; their results come in order. Errors, those of wrong
        arrays too, arrive through the future.

        Raises
        ------
        DriverError
            When the device is closed.
        """
        with self._lock:
            self._check_open()
        try:
            batch = check_arrays(self._manifest.inputs, arrays)
            parts = {a.name: a.gather(batch.arrays[a.name]) for a in self._manifest.inputs}
            words = pack(self._request, parts, batch.count)
        except DriverError as error:
            refused: Future[Result] = Future()
            refused.set_exception(error)
            return refused
        with self._lock:
            self._check_open()
            return self._pool.submit(self._work, batch, words)

    def reset(self) -> None:
        """Reset the card, after everything that was submitted before."""
        with self._lock:
            self._check_open()
            done = self._pool.submit(self._transport.reset)
        done.result()

    def close(self, *, wait: bool = True) -> None:
        """Give the card back; a second call does nothing.

        Parameters
        ----------
        wait : finish what was submitted. Otherwise queued batches are cancelled, and the one that
            runs is given up after its current piece, with an error in its future.
        """
        with self._lock:
            if not wait:
                self._abandon.set()
            first, self._closed = not self._closed, True
        self._pool.shutdown(wait=True, cancel_futures=not wait)
        if first:
            self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nobody will look at results of a block that failed.
        self.close(wait=kind is None)

    def __repr__(self) -> str:
        m = self._manifest
        state = "closed" if self._closed else "open"
        return f"<Device {m.robot} {m.function} {m.formats} ii={m.ii}, {m.hash:016x}, {state}>"

    def _check_open(self) -> None:
        if self._closed:
            raise DriverError("The device is closed: open it again with pinion.driver.open.")

    def _work(self, batch: Batch, words: Words) -> Result:
        """Exchange a batch in pieces; runs in the device's thread."""
        results = np.empty((batch.count, self._manifest.words_out), dtype=np.uint32)
        flagged = np.zeros(batch.count, dtype=np.bool_)
        cycles: int | None = 0
        for start in range(0, batch.count, self._chunk):
            if self._abandon.is_set():
                raise DriverError(
                    f"The device was closed after {start} of {batch.count} requests of this batch."
                )
            piece = words[start : start + self._chunk]
            answers = self._exchange(piece)
            end = start + len(piece)
            results[start:end], flagged[start:end] = answers.words, answers.flagged
            if cycles is not None:
                cycles = None if answers.cycles is None else cycles + answers.cycles
            if self._progress is not None:
                self._progress(end, batch.count)
        parts = unpack(self._result, results)
        arrays = {a.name: a.scatter(parts[a.name]) for a in self._manifest.outputs}
        if batch.single:
            # The ellipsis keeps arrays without axes arrays, of the same type as those of a batch.
            arrays = {name: array[0, ...] for name, array in arrays.items()}
            return Result(arrays=arrays, saturated=flagged[0, ...], cycles=cycles)
        return Result(arrays=arrays, saturated=flagged, cycles=cycles)

    def _exchange(self, piece: Words) -> Answers:
        try:
            answers = self._transport.exchange(piece)
            self._check_answers(answers, len(piece))
        except Exception as error:
            # What the card still holds of this piece must not become the next one's answers.
            try:
                self._transport.reset()
            except Exception as second:
                error.add_note(f"The card could not be reset afterwards either: {second}")
            raise
        return answers

    def _check_answers(self, answers: Answers, count: int) -> None:
        wanted = (count, self._manifest.words_out)
        words, flagged = answers.words, answers.flagged
        if words.shape != wanted or words.dtype != np.uint32 or flagged.shape != (count,):
            raise TransportError(
                f"The card answered {count} requests with words of shape {words.shape} "
                f"({words.dtype}) and {flagged.size} flags; {wanted} of uint32 were expected."
            )


def open(
    folder: str | Path,
    *,
    device: str = "sim",
    chunk: int = CHUNK,
    progress: Callable[[int, int], None] | None = None,
) -> Device:
    """Open a card for a build.

    Parameters
    ----------
    folder : the build folder (of ``pinion build``).
    device : ``sim``, or the name of another transport, with its address: ``xdma:0``.
    chunk, progress : as of :class:`Device`.

    Raises
    ------
    pinion.hls.manifest.ManifestError
        When the folder is no intact build.
    DriverError
        When there is no such device, or it holds another build.
    """
    path = Path(folder)
    manifest = Manifest.read(path)
    transport = open_transport(path, manifest, device)
    return Device(manifest=manifest, transport=transport, chunk=chunk, progress=progress)


def _check_identity(manifest: Manifest, found: int) -> None:
    if found != manifest.hash:
        raise DriverError(
            f"The card holds another build: its hash is {found:016x}, the manifest of "
            f"{manifest.robot} {manifest.function} has {manifest.hash:016x}. Load the bitstream of "
            f"this build, or open the folder of the build that the card holds."
        )


def _block_signals() -> None:
    # A signal in the middle of a transfer can wedge a DMA engine; the main thread takes them.
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGALRM})
