"""Positions of core beats within wide beats, for the gearboxes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from amaranth.hdl import Module, Mux, Signal, ValueLike

from pinion.base.amounts import amount


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Division of records into beats of the core (record-aligned) and of the link (dense).

    Members
    -------
    word : bits of a word.
    words_per_beat : words of a link beat, a power of two.
    record : words of a record.
    lanes : words of a core beat, at most ``words_per_beat``.
    beats : core beats of a record; the last holds `tail` words.
    """

    word: int
    words_per_beat: int
    record: int
    lanes: int
    beats: int

    def __post_init__(self) -> None:
        wide = self.words_per_beat
        if self.word < 1:
            raise ValueError(f"A word needs at least one bit, not {self.word}.")
        if wide < 2 or wide & (wide - 1):
            raise ValueError(
                f"The width of a link beat must be a power of two of at least 2 words, not {wide}."
            )
        if not 1 <= self.lanes <= wide:
            raise ValueError(f"A core beat has 1 to {wide} lanes, not {self.lanes}.")
        if self.beats < 1 or not 1 <= self.tail <= self.lanes:
            raise ValueError(
                f"A record of {amount(self.record, 'word')} needs "
                f"{amount(-(-self.record // self.lanes), 'beat')} of "
                f"{amount(self.lanes, 'lane')}, not {self.beats}."
            )

    @property
    def tail(self) -> int:
        """Number of words in a record's last core beat."""
        return self.record - self.lanes * (self.beats - 1)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Positions in a link beat, in words, at which a core beat can begin, ascending.

        Dense records begin at multiples of ``record``, so only at ``words_per_beat / gcd`` places.
        """
        offsets: set[int] = set()
        start = 0
        while True:
            places = range(start, start + self.lanes * self.beats, self.lanes)
            offsets |= {place % self.words_per_beat for place in places}
            start = (start + self.record) % self.words_per_beat
            if start == 0:
                return tuple(sorted(offsets))

    @property
    def coarse_steps(self) -> set[int]:
        """Values of ``offset // fine`` that occur."""
        return {place // self.fine for place in self.offsets}

    @property
    def fine_steps(self) -> set[int]:
        """Values of ``offset % fine`` that occur."""
        return {place % self.fine for place in self.offsets}

    @property
    def fine(self) -> int:
        """Step of the coarse rotation: 4 of 16, so that either rotation is a 4:1 multiplexer."""
        step = 1
        while step * step < self.words_per_beat:
            step *= 2
        return step

    def end(self, m: Module, offset: ValueLike, ending: ValueLike, name: str) -> Signal:
        """Return the end of a core beat that begins at ``offset``, a record's last if ``ending``.

        A table of constants instead of an adder: each bit is a function of five bits, so one LUT.
        """
        end = Signal(range(2 * self.words_per_beat + 1), name=name)
        with m.Switch(offset):
            for place in self.offsets:
                with m.Default() if place == self.offsets[-1] else m.Case(place):
                    m.d.comb += end.eq(Mux(ending, place + self.tail, place + self.lanes))
        return end


def choose(
    m: Module,
    select: ValueLike,
    steps: Iterable[int],
    targets: Sequence[Signal],
    source: Callable[[int, int], ValueLike],
) -> None:
    """Load every target from the source that `select` chooses; it takes only the values `steps`.

    The last value is the default: values that do not occur cost no logic, and registers need not
    hold their content for them.

    Parameters
    ----------
    m : module of the registers, in domain "sync", under the caller's conditions.
    select, steps : the select, and the values that it can have.
    targets : the registers.
    source : maps the number of a register and a step to the register's input.
    """
    ordered = sorted(set(steps))
    with m.Switch(select):
        for step in ordered:
            with m.Default() if step == ordered[-1] else m.Case(step):
                m.d.sync += [target.eq(source(k, step)) for k, target in enumerate(targets)]
