"""Packet buffers that a program fills and reads in place."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from pinion.base.arrays import Bytes, Floats32
from pinion.batch import Result
from pinion.link import Array, Layout, ResponseHead

from .batch import Batch, Packet
from .errors import DriverError
from .memory import MemoryBlock
from .packing import RecordColumn


class Buffers:
    """A reusable request packet and response packet of ``count`` records.

    Values are not checked: a request with a NaN, or a number beyond its format, comes back flagged
    as saturated. While the packet is in flight its inputs are read-only.

    Members
    -------
    count : number of records.
    inputs : by name, views (count, ...) float32 into the request packet; (count, words) for an
        array of which only some elements are sent, those elements in the manifest's order.
        Parameters of the robot have no batch axis, since they serve all requests, and are as
        :meth:`pinion.link.Array.gather` returns them. Nothing here is checked.
    outputs : by name, arrays (count, ...) of the next result, which are views into the response
        packet if all elements are sent. The next submission overwrites them.
    """

    def __init__(
        self,
        *,
        layout: Layout,
        count: int,
        request: Bytes,
        response: Bytes,
        inputs: Sequence[RecordColumn],
        parameters: Array | None = None,
        outputs: Sequence[RecordColumn],
    ) -> None:
        self.count = count
        self._layout = layout
        self._request = MemoryBlock(request, request)
        self._response = MemoryBlock(response, response)
        self._outputs = outputs
        sent = layout.request_words(request, count).view(np.float32)
        received = layout.response_words(response, count).view(np.float32)
        self._received = received
        views: dict[str, Floats32] = {}
        for c in inputs:
            view = sent[:, c.start : c.stop]
            views[c.array.name] = view.reshape(count, *c.array.record_shape)
        if parameters is not None:
            view = layout.parameters(request).view(np.float32)
            views[parameters.name] = view.reshape(parameters.record_shape)
        self.inputs: Mapping[str, Floats32] = MappingProxyType(views)
        self._copies: dict[str, Floats32] = {}
        results: dict[str, Floats32] = {}
        for c in outputs:
            columns = received[:, c.start : c.stop]
            if c.gather is not None:
                columns = self._copies[c.array.name] = c.blank(count)
            results[c.array.name] = columns.reshape(count, *c.array.shape)
        self.outputs: Mapping[str, Floats32] = MappingProxyType(results)
        self._busy = threading.Lock()

    @property
    def layout(self) -> Layout:
        """Packet layout of the build for which the buffers were allocated."""
        return self._layout

    @property
    def busy(self) -> bool:
        """Whether the packets are in flight."""
        return self._busy.locked()

    @property
    def nbytes(self) -> int:
        """Size of both packets in bytes."""
        return len(self._request.bytes) + len(self._response.bytes)

    def take(self) -> BufferBatch:
        """Mark the buffers as busy, and return a batch that sends their packet.

        Raises
        ------
        DriverError
            If they are in flight.
        """
        if not self._busy.acquire(blocking=False):
            raise DriverError(
                "These buffers are in flight: wait for their result before you submit them again, "
                "or allocate another set."
            )
        self._protect(True)
        return BufferBatch(buffers=self)

    def packet(self, batch: Batch) -> Packet:
        """Return the single packet of a batch that uses these buffers."""
        return Packet(
            batch=batch, start=0, count=self.count, request=self._request, response=self._response
        )

    def results(self, head: ResponseHead) -> Result:
        """Return the result held in the response packet."""
        for c in self._outputs:
            if c.array.name in self._copies:
                c.unpack(self._received, self._copies[c.array.name])
        flags = self._layout.response_flags(self._response.bytes, self.count)
        return Result(arrays=self.outputs, saturated=flags, cycles=head.cycles)

    def give_back(self) -> None:
        """Mark the buffers as free, and make the inputs writable again."""
        self._protect(False)
        self._busy.release()

    def _protect(self, busy: bool) -> None:
        # The program holds these very objects.
        for view in self.inputs.values():
            view.flags.writeable = not busy


class BufferBatch(Batch):
    """A batch that sends a program's buffers and receives the results into them."""

    def __init__(self, *, buffers: Buffers) -> None:
        super().__init__(layout=buffers.layout, count=buffers.count, packet_count=1)
        self._buffers = buffers
        self._result: Result | None = None

    def unpack(self, packet: Packet, head: ResponseHead) -> None:
        """Read the results from the response packet."""
        self._result = self._buffers.results(head)

    def result(self) -> Result:
        """Return the result, whose arrays are the outputs of the buffers."""
        assert self._result is not None
        return self._result

    def release(self, packet: Packet, *, reusable: bool) -> None:
        """Mark the buffers as reusable."""
        self._buffers.give_back()
