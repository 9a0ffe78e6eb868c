"""Words of a record: one element of a named array."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Self

# Nine digits are more than any array has elements, and fewer than Python refuses to read.
_WORD = re.compile(r"(?P<block>[^\[\]]+)\[(?P<index>[0-9]{1,9}(?:,[0-9]{1,9})*)\]")
_BLOCK = re.compile(r"[^\s\[\]]+")


class Word(str):
    """An element of an array, ``minv[1,0]``: a string with its array and position as attributes.

    The string is the word's name, for look-ups and files.

    Members
    -------
    block : name of the array.
    indices : position of the element, one number per axis; empty for a scalar.
    """

    __slots__ = ("block", "indices")

    block: str
    indices: tuple[int, ...]

    def __new__(cls, block: str, indices: Sequence[int] = ()) -> Self:
        """Build the word of an array's element, named as in ``minv[1,0]``."""
        where = f"[{','.join(map(str, indices))}]" if indices else ""
        self = super().__new__(cls, f"{block}{where}")
        self.block, self.indices = block, tuple(indices)
        return self

    @classmethod
    def of(cls, name: str) -> Word:
        """Parse the name of a word; a name without an index is a scalar."""
        if isinstance(name, Word):
            return name
        match = _WORD.fullmatch(name)
        if match is None:
            return cls(name)
        return cls(match["block"], tuple(int(part) for part in match["index"].split(",")))

    @property
    def complaint(self) -> str:
        """Reason why the word cannot be read back from its name, as a sentence, or ""."""
        again = Word.of(str(self))
        same = (again, again.block, again.indices) == (self, self.block, self.indices)
        if same and _BLOCK.fullmatch(self.block) and self.block.isprintable():
            return ""
        return (
            f"{str(self)[:80]!r} is not a word: write the name of an array, without spaces or "
            "brackets, and a position of whole numbers, as in 'tau[0]'."
        )

    def __reduce__(self) -> tuple[type[Word], tuple[str, tuple[int, ...]]]:
        return Word, (self.block, self.indices)
