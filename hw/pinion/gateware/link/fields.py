"""Beats made of the fields of the protocol's records."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import Cat, Const, Value, ValueLike

Record = np.dtype  # of pinion.link.protocol: fields, their places and widths


def beat_of(record: Record, **values: ValueLike) -> Value:
    """A beat with these values in a record's fields, and zeros in the others.

    Raises
    ------
    KeyError
        When the record has no field of that name.
    """
    unknown = values.keys() - set(record.names)
    if unknown:
        raise KeyError(f"The record has no field {sorted(unknown)}, but {record.names}.")
    parts = []
    for name in record.names:  # in order and without gaps, as `numpy.dtype` makes them
        width = 8 * record.fields[name][0].itemsize
        value = values.get(name, 0)
        value = Const(int(value), width) if isinstance(value, int) else Value.cast(value)
        if len(value) > width:
            raise ValueError(f"The field {name} has {width} bits, its value {len(value)}.")
        parts.append(Cat(value, Const(0, width - len(value))))
    return Cat(parts)
