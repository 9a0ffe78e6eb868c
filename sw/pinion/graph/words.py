"""Words of a record: one element of a named array."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Self

_WORD = re.compile(r"(?P<block>[^\[\]]+)\[(?P<index>\d+(?:,\d+)*)\]")


class Word(str):
    """An element of an array, ``minv[1,0]``: a string that knows its array and its place.

    As a string it is the word's name, so that values are looked up by it and files hold it.

    Members
    -------
    block : name of the array.
    indices : place of the element, one number an axis; empty for a scalar.
    """

    __slots__ = ("block", "indices")

    block: str
    indices: tuple[int, ...]

    def __new__(cls, block: str, indices: Sequence[int] = ()) -> Self:
        """Make the word of a block's element."""
        where = f"[{','.join(map(str, indices))}]" if indices else ""
        self = super().__new__(cls, f"{block}{where}")
        self.block, self.indices = block, tuple(indices)
        return self

    @classmethod
    def of(cls, name: str) -> Word:
        """The word of a name; a name without an index is a scalar."""
        if isinstance(name, Word):
            return name
        match = _WORD.fullmatch(name)
        if match is None:
            return cls(name)
        return cls(match["block"], tuple(int(part) for part in match["index"].split(",")))

    def __reduce__(self) -> tuple[type[Word], tuple[str, tuple[int, ...]]]:
        return Word, (self.block, self.indices)
