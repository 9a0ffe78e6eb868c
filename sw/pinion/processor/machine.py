r"""The programming model of the dynamics processor: lanes, words, and rows of programs.

A **lane** is a multiply-accumulator with a memory of words in two's complement. A **team** is a few
lanes that run one program: row *t* of the program is what the team does in cycle *t*, without
branches or stalls. In each row a lane

- reads the words A and B of its memory and adds a product to its accumulator (a **slot**),
- writes one word of its memory, from the result of any lane of the team or of the reciprocal unit,
  or from the request, whose *k*-th word arrives in row *k*.

A product takes A in full and :data:`NARROW` bits of B: the high bits, rounded or not, or the low
ones. It is shifted right, rounding down, and negated or not; a sum that begins replaces the
accumulator by half an LSB of its result. ``delay - 1`` cycles after the slot that ends a sum the
result register of its lane holds the sum without :data:`GUARD` bits, and keeps it until the lane's
next result. A word that is written in one cycle can be read from the next cycle; reading it in the
same cycle is not defined.

Binary points are not in the machine: a compiler chooses one for each value and says by how much
each product is shifted (:mod:`.points`).
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from enum import IntEnum

from pinion.base.amounts import amount

from .errors import ProgramError

GUARD = 12
"""Number of bits of the accumulator below the LSB of a result."""

NARROW = 18
"""Number of bits of B that a product takes."""

SHIFTS = (-6, 57)
"""Smallest and largest shift of a product to the right."""

RECIPROCAL_DELAY = 17
"""Cycles from the operand of a reciprocal to its result."""

MOST_LANES = 8
"""Number of lanes of the largest team."""

TEAMS = 2
"""Number of teams of the card that is shipped."""

MOST_TEAMS = 8
"""Number of teams of the largest card."""

MOST_RESULTS = 4096
"""Largest number of words of a result record."""

MOST_INTERLEAVED = 8
"""Largest number of samples of a request."""

EDGE_FRACS = (-27, 100)
"""Fewest and most fraction bits of words that are converted from and to single precision."""

OVERHEAD = 3
"""Cycles of a request besides the rows of its program, in a stream of one function."""

MOST_MEMORY = 65_536
"""Largest number of words of a memory, and of rows: more than any part's block RAM holds."""

ENCODING = 3
"""Version of programs: of their encoding (:mod:`.encoding`, :mod:`.image`), and of delays."""

MANTISSA = 26
"""Number of bits of a reciprocal's operand below its highest one."""


class Half(IntEnum):
    """The part of operand B that a slot multiplies."""

    IDLE = 0
    """No product."""
    ROUNDED = 1
    """The high bits, rounded to nearest and clipped."""
    HIGH = 2
    """The high bits."""
    LOW = 3
    """The bits below them, without a sign."""


class Finish(IntEnum):
    """Conversion of a finished sum to a word."""

    CLIP = 0
    """The nearest integer of a word, and a flag if the sum exceeds it."""
    WRAP = 1
    """Its low bits, for angles in turns."""
    SIGN = 2
    """:attr:`Machine.one` if the sum is negative, else 0, for comparisons."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Parameters of a dynamics processor.

    Members
    -------
    lanes : lanes of a team; a card has one or more teams, which does not matter to programs.
    word : bits of a word.
    words : words of a lane's memory.
    rows : rows of all programs together.
    constants : of all programs together: a word of several lanes is one.
    inputs : words of requests of all programs together, and of those that wait to be computed.
    results : words of results of all programs together, and of those that wait to be sent.
    functions : programs that can be resident at the same time.
    delay : cycles from a sum's last slot to the first that can read its result.
    """

    lanes: int = 4
    word: int = 35
    words: int = 512
    rows: int = 8192
    constants: int = 1024
    inputs: int = 1024
    results: int = 2048
    functions: int = 16
    delay: int = 12

    @classmethod
    def of(cls, lanes: int) -> Machine:
        """Return the machine of a card, with as many rows as fit next to the lanes in a ULX3S."""
        machine = cls(lanes=lanes)
        return machine if lanes <= 4 else replace(machine, rows=4096)

    def __post_init__(self) -> None:
        lanes: object = self.lanes
        if type(lanes) is not int or not 1 <= lanes <= MOST_LANES:
            raise ProgramError(f"A team must have 1 to {MOST_LANES} lanes, not {lanes!r}.")
        for name in ("words", "rows", "constants", "inputs", "results", "functions"):
            number: object = getattr(self, name)
            if type(number) is not int or not 1 <= number <= MOST_MEMORY:
                raise ProgramError(
                    f"A processor must have 1 to {MOST_MEMORY:,} {name}, not {number!r}."
                )

    @property
    def digest(self) -> int:
        """64 bits that identify the machine and the encoding of its programs."""
        text = f"{ENCODING} {sorted(asdict(self).items())}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    @property
    def title(self) -> str:
        """Name of the machine in messages: what users choose, and the digest."""
        return (
            f"{amount(self.lanes, 'lane')}, {amount(self.words, 'word')} a lane and "
            f"{amount(self.rows, 'row')} ({self.digest:016x})"
        )

    @property
    def low(self) -> int:
        """Number of bits of a word below :attr:`Half.HIGH`."""
        return self.word - NARROW

    @property
    def one(self) -> int:
        """The number 1 as the result of a comparison, which has two bits before its point."""
        return 1 << self.word - 2

    @property
    def largest(self) -> int:
        """The largest integer of a word."""
        return (1 << self.word - 1) - 1
