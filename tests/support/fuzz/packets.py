"""Fuzzing of the packet-level model of the card with corrupted requests and register writes."""

from __future__ import annotations

from random import Random

import numpy as np

from pinion.card.packets import Answers, PacketCard
from pinion.link import BEAT, Layout, register
from pinion.link.registers import HALTED, IN_RESET, RESET
from tests.support.fuzz.mutate import Mutator
from tests.support.fuzz.requests import (
    Flags,
    Words,
    corrupted_request,
    good_request,
    judge,
    registers_to_touch,
)
from tests.support.fuzz.tally import Tally, error_text

LAYOUT = Layout(
    function=0x1357_9BDF, build=0x0246_8ACE_1357_9BDF, words_in=7, words_out=5, parameter_words=9
)

POOL = 32

CONTROL, STATUS, ERROR = (register(name).offset for name in ("CONTROL", "STATUS", "ERROR"))


def compute(words: Words) -> Answers:
    """Compute results that differ between requests, flagged if the request's first bit is 1."""
    results = words[:, :5] * np.uint32(2_654_435_761) + words[:, 2:7]
    if words.shape[1] == LAYOUT.words_in + LAYOUT.parameter_words:
        results ^= words[:, 7:12] * words[:, 11:16]
    return Answers(words=results, flagged=(words[:, 0] & 1).astype(np.bool_), cycles=10)


def fuzz_packets(*, cases: int, seed: int) -> Tally:
    """Send bursts of mutated requests to `PacketCard`, with a reset and a good request after each.

    Every response in a burst must be right or say that it is not; after the reset the good request
    must be answered rightly. Accesses to registers, in between, count as cases too.
    """
    tally = Tally(name="card, packets", seed=seed)
    r, rng = Random(seed), np.random.default_rng(seed)
    mutator = Mutator(random=r)
    card = PacketCard(layout=LAYOUT, compute=compute)
    pool = []
    for number in range(POOL):
        words = rng.integers(0, 1 << 32, size=(int(rng.integers(1, 30)), 16), dtype=np.uint32)
        words[:, LAYOUT.words_in :] = words[0, LAYOUT.words_in :]
        pool.append(good_request(LAYOUT, words, 0x1000 + number))
    expected: dict[int, tuple[Words, Flags]] = {}
    for question in pool:
        answers = compute(question.words)
        expected[question.sequence] = answers.words, answers.flagged
    while tally.cases < cases:
        for _ in range(min(r.choice((1, 1, 1, 2, 3, 8)), cases - tally.cases)):
            try:
                if r.random() < 0.2:
                    trouble = _touch(card, r)
                else:
                    packet = corrupted_request(r.choice(pool), r.choice(pool), mutator)
                    trouble = _send(card, packet, expected, r)
            except Exception as error:
                trouble = error_text(error)
            tally.fail(trouble) if trouble else tally.refuse()
        try:
            trouble = _recover(card, r.choice(pool).raw, expected)
        except Exception as error:
            trouble = error_text(error)
        if trouble:
            tally.fail(f"after the burst before it: {trouble}")
        tally.count(bursts=1)
    return tally


def _touch(card: PacketCard, r: Random) -> str | None:
    offset, value = registers_to_touch(r)
    offset += r.choice((0, 0, 0, 1, 2, 3))
    if r.random() < 0.5:
        card.write_register(offset, value)
    read = card.read_register(offset)
    return None if 0 <= read < 1 << 32 else f"the register at {offset:#x} reads as {read}"


def _send(
    card: PacketCard, packet: bytes, expected: dict[int, tuple[Words, Flags]], r: Random
) -> str | None:
    """Feed a packet to the card at once or in two pieces, with some beats marked as partial."""
    beats = -(-len(packet) // BEAT)
    cut = BEAT * r.randint(0, beats) if r.random() < 0.3 else len(packet)
    for piece in (packet[:cut], packet[cut:]):
        whole = None
        if r.random() < 0.1:
            whole = np.array([r.random() < 0.9 for _ in range(-(-len(piece) // BEAT))], np.bool_)
        for response in card.feed(piece, whole=whole):
            trouble = judge(card.layout, response, expected)
            if trouble:
                return trouble
    return None


def _recover(
    card: PacketCard, request: bytes, expected: dict[int, tuple[Words, Flags]]
) -> str | None:
    """Reset the card as a driver does, then check its response to a good request."""
    card.write_register(CONTROL, RESET)
    if not card.read_register(STATUS) & IN_RESET:
        return "the soft reset does not take hold"
    card.write_register(CONTROL, 0)
    status, error = card.read_register(STATUS), card.read_register(ERROR)
    if error or status & (HALTED | IN_RESET):
        return f"after the soft reset STATUS is {status:#x} and ERROR is {error}"
    response = card.answer(request)
    if response is None:
        return "a good request was not answered after the soft reset"
    if judge(card.layout, response, expected) or response[-BEAT + 4] & 3:
        return f"a good request was answered wrongly: {judge(card.layout, response, expected)}"
    return None
