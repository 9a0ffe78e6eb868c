"""Fuzzing of the compiled top with corrupted requests, partial beats and register writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from pinion.boards.top import write_top
from pinion.card.packets import Answers, PacketCard
from pinion.cosim.reference import Reference
from pinion.cosim.stream import PATTERNS
from pinion.cosim.top import CompiledTop, TopRun
from pinion.flow.build import Build
from pinion.link import BEAT, TRAILER, WORDS_PER_BEAT, Layout, Magic, layout_of, register
from pinion.link.registers import HALTED, IN_RESET, OPEN, QUIET, RESET
from tests.support.fuzz.mutate import Mutator
from tests.support.fuzz.requests import (
    Flags,
    Question,
    Words,
    corrupted_request,
    good_request,
    judge,
    registers_to_touch,
)
from tests.support.fuzz.tally import Tally, error_text
from tests.support.top.batches import ALL_BYTES

POOL = 32

CLOCKS = ((1, 1), (3, 5), (6, 5))
"""Periods of link and core: the core at 1, 0.6 and 1.2 times the link's rate."""

LIMIT = 4000
"""Cycles without progress that end a burst; no answer of a small packet takes as long."""

CONTROL, STATUS, ERROR = (register(name).offset for name in ("CONTROL", "STATUS", "ERROR"))


COUNTERS = ("ERROR", "ERRORS", "DROPPED", "BATCHES")
"""Registers in which the RTL and the card at packet level must agree.

Not those that count records: the RTL computes them as they come, the model once all are there.
"""


@dataclass
class _Host:
    """Compiled card and its packet-level model, with the output of both.

    Members
    -------
    model : gets every beat that the card gets.
    alike : nobody has touched a register since the last reset, so both must do the same.
    before : the card's counters at the last reset.
    rest : beats of a packet that is not complete.
    answered : packets of the card since the last reset.
    predicted : packets of the model since then.
    """

    card: CompiledTop
    model: PacketCard
    layout: Layout
    expected: dict[int, tuple[Words, Flags]]
    tally: Tally
    alike: bool = True
    before: dict[str, int] = field(default_factory=dict)
    rest: list[Words] = field(default_factory=list)
    answered: list[NDArray[np.uint8]] = field(default_factory=list)
    predicted: list[NDArray[np.uint8]] = field(default_factory=list)

    def begin(self) -> None:
        """Begin a burst while both cards are idle."""
        self.alike = True
        self.model.configure()
        self.before = self._counters()
        self.answered.clear()
        self.predicted.clear()

    def differ(self) -> str | None:
        """Return the first difference between card and model in this burst, once both are idle."""
        if not self.alike:
            return None
        self.tally.count(compared=1)
        now = self._counters()
        for name, old in self.before.items():
            expected = self.model.read_register(register(name).offset)
            counted = now[name] if name == "ERROR" else (now[name] - old) % (1 << 32)
            if counted != expected:
                return f"the burst left {name} at {counted}, at packet level at {expected}"
        if len(self.answered) != len(self.predicted):
            return f"{len(self.answered)} responses, at packet level {len(self.predicted)}"
        for answer, two in zip(self.answered, self.predicted, strict=True):
            bare, predicted = answer.copy(), two.copy()
            for packet in (bare, predicted):
                for name in ("cycles", "stalled", "starved", "crc"):
                    packet[-BEAT:].view(TRAILER)[name] = 0
            if not np.array_equal(bare, predicted):
                return f"the response to {int(answer[16:20].view(np.uint32)[0]):#x} is another"
        return None

    def _counters(self) -> dict[str, int]:
        return {name: self.card.read(register(name).offset) for name in COUNTERS}

    def take(self, run: TopRun) -> str | None:
        """Check the output of a run, and return what is wrong with it, or None."""
        self.tally.count(
            cycles=run.cycles, beats_in=run.accepted - run.pending, beats_out=len(run.beats)
        )
        if run.violations:
            return f"an offered result beat was changed or withdrawn {run.violations} times"
        if not (run.keep == ALL_BYTES).all():
            return "a result beat without all its bytes"
        start = 0
        for end in np.flatnonzero(run.last) + 1:
            packet = np.concatenate([*self.rest, run.beats[start:end]])
            self.rest, start = [], int(end)
            trouble = self._packet(packet)
            if trouble:
                return trouble
        if start < len(run.beats):
            self.rest.append(run.beats[start:])
        return None

    def _packet(self, beats: Words) -> str | None:
        if beats[-1, 0] == Magic.ABORT:
            cut = beats[-1, 1:].any() or len(beats) < 2 or beats[0, 0] != Magic.RESPONSE
            self.tally.count(aborted=1)
            return "a malformed abort beat, or one without a packet" if cut else None
        packet = np.ascontiguousarray(beats).reshape(-1).view(np.uint8)
        self.tally.count(responses=1)
        self.answered.append(packet)
        return judge(self.layout, packet, self.expected)


def fuzz_tops(*, cases: int, seed: int, folder: Path) -> Tally:
    """Send bursts of mutated requests to the compiled top, with a reset and a good request each.

    Every response in a burst must be right or say that it is not, and keep the rules of AXI-Stream;
    after the reset the good request must be answered bit for bit as the exact integers say. Where
    nobody touched a register, counters, cause and responses are those of the card at packet level,
    around the exact integers.
    Accesses to registers, in between, count as cases too. Pauses on both sides and the ratio of the
    clocks are random.

    Parameters
    ----------
    folder : the build folder; small cores make fast cases.
    """
    r, rng = Random(seed), np.random.default_rng(seed)
    mutator, build = Mutator(random=r), Build.read(folder)
    layout, reference = layout_of(build.manifest), Reference(build)
    pool, expected = [], {}
    for number in range(POOL):
        count = int(rng.integers(1, 12)) if number else 600
        shape = (count, build.manifest.words_in)
        words = rng.normal(size=shape).astype(np.float32).view(np.uint32)
        wild = rng.random(shape) < 0.02
        words = np.where(wild, rng.integers(0, 1 << 32, shape, np.uint32), words)
        words[:, layout.words_in :] = words[0, layout.words_in :]
        pool.append(good_request(layout, words, 0x1000 + number))
        expected[0x1000 + number] = reference.expected(words)
    rtlil = write_top(folder)
    card = CompiledTop.build(rtlil=rtlil)
    tally = Tally(name="card, RTL", seed=seed)  # its clock begins here
    model = PacketCard(layout=layout, compute=_answers(reference))
    host = _Host(card=card, model=model, layout=layout, expected=expected, tally=tally)
    while tally.cases < cases:
        link, core = r.choice(CLOCKS)
        host.card.clocks(link=link, core=core)
        host.begin()
        for _ in range(min(r.choice((1, 1, 1, 2, 3, 8)), cases - tally.cases)):
            try:
                trouble = _touch(host, r) if r.random() < 0.2 else _send(host, pool, mutator)
            except Exception as error:
                trouble = error_text(error)
            tally.fail(trouble) if trouble else tally.refuse()
        try:
            trouble = _recover(host, r.choice(pool[1:] if r.random() < 0.98 else pool), r)
        except Exception as error:
            trouble = error_text(error)
        if trouble:
            tally.fail(f"after the burst before it: {trouble}")
            host.card.reset()
            host.rest.clear()
        tally.count(bursts=1)
    return tally


def _answers(reference: Reference) -> Callable[[Words], Answers]:
    """Return a function that computes the integer model's results for the packet-level model."""

    def compute(words: Words) -> Answers:
        results, flags = reference.expected(words)
        return Answers(words=results, flagged=flags)

    return compute


def _touch(host: _Host, r: Random) -> str | None:
    host.alike = False
    offset, value = registers_to_touch(r)
    if r.random() < 0.5:
        host.card.write(offset, value, strobes=r.choice((0xF, 0xF, r.randrange(16))))
    read = host.card.read(offset)
    return None if 0 <= read < 1 << 32 else f"the register at {offset:#x} reads as {read}"


def _send(host: _Host, pool: list[Question], mutator: Mutator) -> str | None:
    """Send a corrupted packet to both cards, with some partial beats; return what is wrong."""
    r = mutator.random
    question = r.choice(pool[1:] if r.random() < 0.98 else pool)
    raw = corrupted_request(question, r.choice(pool[1:]), mutator)
    beats = np.frombuffer(raw + bytes(-len(raw) % BEAT), np.uint32).reshape(-1, WORDS_PER_BEAT)
    keep = np.full(len(beats), ALL_BYTES)
    if len(raw) % BEAT:
        keep[-1] = np.uint64((1 << len(raw) % BEAT) - 1)
    if len(keep) and r.random() < 0.05:
        keep[r.randrange(len(keep))] = np.uint64(r.getrandbits(64))
    last = np.array([r.random() < 0.1 for _ in keep], dtype=np.bool_)
    host.predicted += host.model.feed(beats.tobytes(), whole=keep == ALL_BYTES)
    run = host.card.run(
        beats=beats,
        keep=keep,
        last=last,
        room=len(beats) * 8 + 64,
        idle=_pauses(r),
        stall=_pauses(r),
        limit=r.choice((32, 100, 300)),
        cycles=20 * LIMIT,
        wait=False,
    )
    trouble = host.take(run)
    if trouble is None and run.cycles >= 20 * LIMIT:
        return f"the card still moves after {run.cycles} cycles"
    return trouble


def _pauses(r: Random) -> NDArray[np.bool_] | None:
    if r.random() < 0.5:
        return None
    return PATTERNS[r.choice(("random", "bursts", "single"))](seed=r.getrandbits(30))


def _recover(host: _Host, question: Question, r: Random) -> str | None:
    """Reset the card as a driver does, then check its response to a good request."""
    nothing = np.zeros((0, WORDS_PER_BEAT), dtype=np.uint32)
    run = host.card.run(beats=nothing, room=4096, limit=300, cycles=20 * LIMIT, wait=False)
    trouble = host.take(run) or host.differ()
    if trouble:
        return trouble
    host.card.write(CONTROL, RESET)
    for _ in range(10):
        trouble = host.take(
            host.card.run(beats=nothing, room=4096, limit=300, cycles=2000, wait=False)
        )
        if trouble:
            return f"in reset: {trouble}"
        status = host.card.read(STATUS)
        if status & IN_RESET and status & QUIET and not status & OPEN:
            break
    else:
        return f"the soft reset does not take hold, STATUS is {status:#x}"
    if host.rest:
        return "the soft reset left a packet open"
    host.card.write(CONTROL, 0)
    host.card.run(beats=nothing, room=0, cycles=r.choice((100, 100, 200)), wait=False)
    status, error = host.card.read(STATUS), host.card.read(ERROR)
    if error or status & (HALTED | OPEN | IN_RESET):
        return f"after the soft reset STATUS is {status:#x} and ERROR is {error}"
    beats = np.frombuffer(question.raw, np.uint32).reshape(-1, WORDS_PER_BEAT)
    room = host.layout.response_bytes(len(question.words)) // BEAT
    host.answered.clear()
    run = host.card.run(beats=beats, room=room, idle=_pauses(r), stall=_pauses(r), limit=LIMIT)
    trouble = host.take(run)
    if trouble:
        return f"a good request was answered wrongly: {trouble}"
    if [int(p[16:20].view(np.uint32)[0]) for p in host.answered] != [question.sequence]:
        return (
            f"a good request of {len(question.words)} records was not answered: {len(run.beats)} "
            f"of {room} beats came"
        )
    if run.beats[-1, 1] & 3:
        return f"a good request was answered with the status {int(run.beats[-1, 1])}"
    return None
