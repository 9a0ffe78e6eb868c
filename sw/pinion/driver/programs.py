"""Records of packets that load programs into a processor."""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from pinion.base.arrays import Words
from pinion.link import Array, Layout

from .batch import ArrayBatch, Packet
from .card import read_named
from .errors import TransportError
from .memory import Pool
from .packing import record_columns
from .profile import Meter
from .queue import WINDOW, Queue
from .recovery import soft_reset
from .session import Session
from .transport import Transport

PACKET_RECORDS = 1024


def load_records(transport: Transport, layout: Layout, records: Words) -> None:
    """Reset a card, send it records (n, words_in) of 32 bits, and wait until all are stored.

    Parameters
    ----------
    layout : of such packets, which the card's registers state.

    Raises
    ------
    DriverError, TransportError
        If the card holds something else, or a packet was not answered as it should be.
    """
    soft_reset(transport, layout)
    pool = Pool(allocate=transport.allocate)
    queue = Queue(take=pool.take, response_bytes=attrgetter("response_bytes"), window=WINDOW)
    meter = Meter(link_mhz=read_named(transport.read_register, "LINK_KHZ") / 1000)
    session = Session(
        transport=transport, card=layout, queue=queue, meter=meter, timeout=transport.timeout
    )
    starts = range(0, len(records), PACKET_RECORDS)
    batch = ArrayBatch(
        layout=layout,
        columns=record_columns((Array(name="first", shape=(), unit=""),)),
        count=len(records),
        packet_count=len(starts),
        single=False,
        pool=pool,
        on_packet=None,
        throttled=False,
    )
    try:
        session.submit(batch)
        for start in starts:
            part = records[start : start + PACKET_RECORDS]
            request = pool.take(layout.request_bytes(len(part)))
            layout.request_words(request.bytes, len(part))[:] = part
            session.add(Packet(batch=batch, start=start, count=len(part), request=request))
        echoes = batch.future.result()["first"]
    finally:
        session.stop(wait=False)
    if not np.array_equal(echoes.view(np.uint32), records[:, 0]):
        raise TransportError(
            f"The card at {transport.where} answered a load with other words than it was sent."
        )
