"""Open cards that compute a function on arrays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from types import MappingProxyType, TracebackType
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from pinion.base.arrays import Floats32
from pinion.batch import (
    Backend,
    InputError,
    RequestArrays,
    Result,
    backend_table,
    by_name,
    validate_arrays,
)
from pinion.link import MAX_COUNT, Manifest, layout_of

from .batch import ArrayBatch, Packet
from .buffers import Buffers
from .connection import Connection, close_quietly
from .errors import DriverError
from .packing import flatten, record_columns
from .parameters import ParameterSets
from .profile import Profile
from .queue import WINDOW
from .recovery import PATIENCE
from .registers import Registers
from .transport import Transport

PACKET_BYTES = 1 << 20
"""Size of a large batch's packets: of the request or the response, whichever is larger."""

_NO_PARAMETERS = np.zeros(0, dtype=np.float32)

_CLOSED_BEFORE = "The device was closed before any of this batch was sent."


class Device(Backend):
    """An open card with one build; use it as a context manager.

    Any number of threads may submit batches; several are in flight at a time, and results arrive in
    the order of submission. A fault becomes an error in the future of the affected batch; the card
    is reset, other batches in flight are sent again, and the device continues.

    Parameters
    ----------
    manifest : manifest of the build that the card must hold.
    transport : the link to the card, which the device closes; or a connection, which has the
        options after ``on_packet``. Several devices may share it, and the last one closes it.
    chunk : maximum number of requests in one packet; larger batches are divided. By default packets
        have about a megabyte. Of a program that interleaves samples, a multiple of their number.
    on_packet : called in one of the device's threads after each packet with the number of
        completed requests and of all requests of a batch.
    timeout : seconds that a packet may take once it is its turn; by default the transport's,
        `math.inf` for no limit.
    window : packets in flight at a time.
    patience : seconds that a recovery after a fault may take.
    first_sequence : sequence number of the first packet, for tests; random by default.

    A device belongs to the process that opened it. In a forked child every call raises a
    `DriverError`, except `close`, which closes the inherited files.

    Raises
    ------
    WrongCardError, WrongBuildError
        If the card does not hold the build; the transport is closed.
    TransportError
        If the card does not answer or does not come out of its reset; the transport is closed.
    """

    def __init__(
        self,
        *,
        manifest: Manifest,
        transport: Transport | Connection,
        chunk: int | None = None,
        on_packet: Callable[[int, int], None] | None = None,
        timeout: float | None = None,
        window: int = WINDOW,
        patience: float = PATIENCE,
        first_sequence: int | None = None,
    ) -> None:
        self._manifest = manifest
        self._on_packet = on_packet
        self._layout = layout_of(manifest)
        self._inputs = record_columns(manifest.records)
        self._parameters = None if manifest.parameters is None else ParameterSets(manifest)
        self._outputs = record_columns(manifest.outputs)
        self._closed = False
        try:
            self._chunk = _chunk(manifest, chunk)
        except BaseException:
            if not isinstance(transport, Connection):
                close_quietly(transport)
            raise
        if not isinstance(transport, Connection):
            transport = Connection(
                transport=transport,
                card=self._layout,
                timeout=timeout,
                window=window,
                patience=patience,
                states=bool(manifest.states),
                first_sequence=first_sequence,
            )
        self._connection = transport
        transport.users += 1
        self._session, self._pool = transport.session, transport.pool

    @property
    def manifest(self) -> Manifest:
        """Manifest of the card's build."""
        return self._manifest

    @property
    def robot(self) -> str:
        """The robot's name."""
        return self._manifest.robot

    @property
    def function(self) -> str:
        """The function's name."""
        return self._manifest.function

    @property
    def shapes(self) -> MappingProxyType[str, tuple[int, ...]]:
        """Shapes of all input and output arrays by name, without the batch axis."""
        arrays = (*self._manifest.inputs, *self._manifest.outputs)
        return MappingProxyType({array.name: array.shape for array in arrays})

    @property
    def chunk(self) -> int:
        """Maximum number of requests in one packet."""
        return self._chunk

    @property
    def profile(self) -> Profile:
        """Time spent since the device was opened, or since `reset_profile`."""
        self._connection.owner.check()
        return self._connection.meter.read()

    def reset_profile(self) -> Profile:
        """Begin a new profile and return the previous one."""
        self._connection.owner.check()
        return self._connection.meter.reset()

    @property
    def registers(self) -> Registers:
        """The card's registers by name, read on access."""
        return self._connection.registers

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch of requests, and return its results.

        Parameters
        ----------
        values : inputs by position, in the manifest's order; pass the others by name.
        arrays : every input of the function by name, (...) for a single request or (n, ...) for a
            batch, floats or integers, in the manifest's units; converted to float32. An array
            without a batch axis, given with others that have one, applies to all requests.
            Parameters of the robot are sent once per packet: a request with other parameters than
            the previous one begins another packet. Other threads must not change the arrays during
            the call.

        Returns
        -------
        The outputs by name, float32, with a batch axis unless no input has one; ``cycles`` are the
        card's, from the trailers of its packets.

        Raises
        ------
        DriverError
            If an array does not fit, or the device is closed, even during the call.
        TransportError
            If the card failed; it was reset, and the next batch may succeed.
        """
        if self._session.inside:
            raise DriverError(
                "run() in a callback of the device would deadlock: call submit() there, or run() "
                "from another thread."
            )
        try:
            return self._submit(values, arrays, throttled=True).result()
        except CancelledError:  # nobody but `close` has the future
            raise DriverError(_CLOSED_BEFORE) from None

    def submit(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Future[Result]:
        """Queue a batch; the arrays are checked and copied before this returns.

        Any number of batches may be queued; their results arrive in order. Errors, including those
        of invalid arrays, arrive through the future; the error of a fault arrives before the
        results of batches that are sent again because of it. `close(wait=False)` cancels a waiting
        batch: its future raises `concurrent.futures.CancelledError`. Callbacks of the future run in
        a thread of the device and must not wait for it.

        Raises
        ------
        DriverError
            If the device is closed.
        TransportError, DriverError
            If the card failed permanently, with the reason. `recover` may bring it back.
        """
        return self._submit(values, arrays, throttled=False)

    async def run_async(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch as `run` does, without blocking an asyncio loop.

        Packing runs in the loop's thread: a few milliseconds for 100,000 requests.
        """
        try:
            return await asyncio.wrap_future(self._submit(values, arrays, throttled=False))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise DriverError(_CLOSED_BEFORE) from None

    def allocate(self, count: int) -> Buffers:
        """Allocate packets for ``count`` requests that a program fills and reads in place.

        Raises
        ------
        DriverError
            If one packet cannot hold them.
        """
        self._connection.owner.check()
        if not 1 <= count <= MAX_COUNT:
            raise DriverError(
                f"Buffers hold 1 to {MAX_COUNT} requests, not {count}: for more, submit several "
                "sets one after another."
            )
        return Buffers(
            layout=self._layout,
            count=count,
            request=self._connection.transport.allocate(self._layout.request_bytes(count)),
            response=self._connection.transport.allocate(self._layout.response_bytes(count)),
            inputs=self._inputs,
            parameters=self._manifest.parameters,
            outputs=self._outputs,
        )

    def submit_buffers(self, buffers: Buffers) -> Future[Result]:
        """Queue the requests that a program has written into buffers, without copying them.

        The result's arrays are ``buffers.outputs``, which the next submission of the buffers
        overwrites.

        Raises
        ------
        DriverError
            If the buffers are in flight or the device is closed; TransportError as for `submit`.
        """
        self._check_open()
        if buffers.layout != self._layout:
            raise DriverError(
                "These buffers were allocated for another build: use this device's allocate()."
            )
        batch = buffers.take()
        try:
            self._session.submit(batch)
        except BaseException:
            buffers.give_back()
            raise
        self._session.add(buffers.packet(batch))
        return batch.future

    def reset(self) -> None:
        """Reset the card after all submitted batches.

        Raises
        ------
        DriverError, TransportError
            If the card is not ready for work afterwards, with the reason.
        """
        self._check_open()
        if self._session.inside:
            raise DriverError(
                "reset() in a callback of the device would deadlock: call it from another thread."
            )
        self._session.reset()

    def reset_state(self) -> None:
        """Begin a new stream, with initial states and no flags, after all submitted batches.

        Opening a device does the same. After a fault the states are lost together with the requests
        in flight: the device accepts no batch until this is called.

        Raises
        ------
        DriverError
            If the function has no states, or the device is closed.
        TransportError
            If the card is not ready for work afterwards, with the reason.
        """
        self._check_open()
        if not self._manifest.states:
            raise DriverError(
                f"The function '{self.function}' has no states: there is nothing to reset."
            )
        if self._session.inside:
            raise DriverError(
                "reset_state() in a callback of the device would deadlock: call it from another "
                "thread."
            )
        self._session.reset_state()

    def recover(self) -> None:
        """Reset a card after a fault that ended the session; the same as `reset`."""
        self.reset()

    def close(self, *, wait: bool = True) -> None:
        """Close the card; a second call does nothing.

        Parameters
        ----------
        wait : finish submitted batches. Otherwise queued batches are cancelled, and running ones
            are given up after the packets in flight, with an error in their futures.

        Closing also works for a card that is gone: nothing stays open, and lost batches have errors
        in their futures.
        """
        if not self._closed:
            self._connection.leave(wait=wait)
        self._closed = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The results of a failed block are not used.
        self.close(wait=kind is None)

    def __reduce__(self) -> NoReturn:
        raise DriverError(
            f"The open card at {self._connection.transport.where} cannot be copied or sent to "
            "another process: only one process can use it. Close it here, and open it there."
        )

    def __repr__(self) -> str:
        m = self._manifest
        state = "closed" if self._closed or self._connection.closed else "open"
        return f"<Device {m.robot} {m.function} {m.formats} ii={m.ii}, {m.hash:016x}, {state}>"

    def _repr_html_(self) -> str:
        m = self._manifest
        title = f"{m.function} of {m.robot} on a card: {m.formats}, a result every {m.ii} cycles"
        return backend_table(title, m.inputs, m.outputs)

    def _check_open(self) -> None:
        self._connection.owner.check()
        if self._closed or self._connection.closed:
            raise DriverError("The device is closed: open it again.")

    def _submit(
        self, values: tuple[ArrayLike, ...], arrays: dict[str, ArrayLike], *, throttled: bool
    ) -> Future[Result]:
        self._check_open()
        began = time.perf_counter()
        try:
            inputs = self._manifest.inputs
            requests = validate_arrays(inputs, by_name(inputs, values, arrays))
            sets = self._sets(requests)
        except (InputError, DriverError) as error:
            refused: Future[Result] = Future()
            refused.set_exception(DriverError(str(error)))
            return refused
        packets = [
            (start, min(self._chunk, stop - start), words)
            for first, stop, words in sets
            for start in range(first, stop, self._chunk)
        ]
        batch = ArrayBatch(
            layout=self._layout,
            columns=self._outputs,
            count=requests.count,
            packet_count=len(packets),
            single=requests.single,
            pool=self._pool,
            on_packet=self._on_packet,
            throttled=throttled,
        )
        if not requests.count:
            batch.future.set_result(batch.result())
            return batch.future
        self._session.submit(batch)
        self._pack(batch, requests, packets, began)
        return batch.future

    def _sets(self, requests: RequestArrays) -> list[tuple[int, int, Floats32]]:
        """Return (first, end, parameters) of each run of requests with equal parameters."""
        if self._parameters is None:
            return [(0, requests.count, _NO_PARAMETERS)]
        return self._parameters.runs(requests)

    def _pack(
        self,
        batch: ArrayBatch,
        requests: RequestArrays,
        packets: Sequence[tuple[int, int, Floats32]],
        began: float,
    ) -> None:
        spent = time.perf_counter() - began
        values = flatten(self._inputs, requests.arrays)
        try:
            for start, count, parameters in packets:
                if not batch.wait_for_room():
                    break
                began = time.perf_counter()
                request = self._pool.take(self._layout.request_bytes(count))
                self._layout.parameters(request.bytes).view(np.float32)[:] = parameters
                words = self._layout.request_words(request.bytes, count).view(np.float32)
                for column, array in zip(self._inputs, values, strict=True):
                    column.pack(words, array, start)
                self._session.add(Packet(batch=batch, start=start, count=count, request=request))
                spent += time.perf_counter() - began
        except BaseException as error:
            self._session.fail(batch, error)
            raise
        self._connection.meter.add(pack_seconds=spent)


def _chunk(manifest: Manifest, chunk: int | None) -> int:
    samples = manifest.interleave
    if chunk is None:
        chunk = PACKET_BYTES // (4 * max(manifest.words_in, manifest.words_out))
        chunk = min(MAX_COUNT, chunk)
    elif not 1 <= chunk <= MAX_COUNT:
        raise DriverError(f"A chunk must have 1 to {MAX_COUNT} requests, not {chunk}.")
    return max(1, chunk // samples) * samples
