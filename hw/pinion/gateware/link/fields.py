"""Beats made of the fields of the protocol's records."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import Cat, Const, Value, ValueLike

from pinion.link.protocol import field_of


def beat_of(record: np.dtype[np.void], **values: ValueLike) -> Value:
    """A beat with these values in a record's fields, and zeros in the others.

    Parameters
    ----------
    record : of `pinion.link.protocol`, its fields in order and without gaps.
    values : by the field's name.

    Raises
    ------
    KeyError
        When the record has no field of that name.
    """
    names = record.names or ()
    unknown = values.keys() - set(names)
    if unknown:
        raise KeyError(f"The record has no field {sorted(unknown)}, but {names}.")
    parts = []
    for name in names:
        width = 8 * field_of(record, name)[0].itemsize
        value = values.get(name, 0)
        value = Const(int(value), width) if isinstance(value, int) else Value.cast(value)
        if len(value) > width:
            raise ValueError(f"The field {name} has {width} bits, its value {len(value)}.")
        parts.append(Cat(value, Const(0, width - len(value))))
    return Cat(parts)
