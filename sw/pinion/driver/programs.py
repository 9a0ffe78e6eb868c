"""Loading of programs into a processor, as packets of records."""

from __future__ import annotations

import numpy as np

from pinion.base.arrays import Words
from pinion.link import Array, Layout

from .batch import ArrayBatch, Packet
from .connection import Connection
from .errors import TransportError
from .packing import record_columns

PACKET_RECORDS = 1024


def load_records(connection: Connection, layout: Layout, records: Words) -> None:
    """Send uint32 records (n, words_in) to a processor, and wait until all are stored.

    Parameters
    ----------
    layout : of such packets, which the card's registers state.

    Raises
    ------
    DriverError, TransportError
        If a packet was not answered as it should be.
    """
    starts = range(0, len(records), PACKET_RECORDS)
    batch = ArrayBatch(
        layout=layout,
        columns=record_columns((Array(name="first", shape=(), unit=""),)),
        count=len(records),
        packet_count=len(starts),
        single=False,
        pool=connection.pool,
        on_packet=None,
        throttled=False,
    )
    connection.session.submit(batch)
    for start in starts:
        part = records[start : start + PACKET_RECORDS]
        request = connection.pool.take(layout.request_bytes(len(part)))
        layout.request_words(request.bytes, len(part))[:] = part
        connection.session.add(Packet(batch=batch, start=start, count=len(part), request=request))
    echoes = batch.future.result()["first"]
    if not np.array_equal(echoes.view(np.uint32), records[:, 0]):
        raise TransportError(
            f"The card at {connection.transport.where} answered a load with words that differ "
            "from those sent to it: load the program again."
        )
