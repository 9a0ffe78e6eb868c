"""Names of programs and the words of their memories, in simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Value
from amaranth.sim import Simulator

from pinion.gateware.processor.directory import Directory
from pinion.gateware.processor.loader import Loader
from pinion.processor import Machine
from pinion.processor.encoding import packed
from pinion.processor.image import (
    LOADER,
    NAME,
    RESULT_WORDS,
    STORE_PLACE,
    Store,
    record_words,
    widths,
)
from tests.gateware.link.mutants import mutant

MACHINE = Machine(lanes=1, rows=64, constants=16, inputs=16, results=8, functions=4)
FIELDS = ("resident", "loads", "number", "function", "words_in", "words_out")


def lookups(component: Any) -> str:
    """Store, clear and look up at random; return what differs, "" for nothing."""
    directory = component(machine=MACHINE)
    rng = np.random.default_rng(11)
    builds = [int(n) for n in rng.integers(1, 1 << 63, 3)]
    builds += [build ^ 1 << 40 for build in builds]
    difference = ""

    async def bench(ctx: Any) -> None:
        nonlocal difference
        names: dict[int, dict[str, int]] = {}
        for _ in range(400):
            kind = rng.random()
            if kind < 0.25:
                at = int(rng.integers(4))
                name = {"build": builds[rng.integers(6)], "function": int(rng.integers(1 << 32))}
                name |= {key: int(rng.integers(1 << 16)) for key in ("words_in", "words_out")}
                names[at] = name
                for port, value in (("write", 1), ("at", at), ("data", packed(NAME, name))):
                    ctx.set(getattr(directory, port), value)
                await ctx.tick()
                ctx.set(directory.write, 0)
                continue
            if kind < 0.28:
                names.clear()
                ctx.set(directory.clear, 1)
                await ctx.tick()
                ctx.set(directory.clear, 0)
                continue
            build = MACHINE.digest if kind < 0.45 else builds[rng.integers(6)]
            ctx.set(directory.build, build)
            ctx.set(directory.asked, 1)
            waited = 0
            while not ctx.get(directory.answered) and waited < 20:
                waited += 1
                await ctx.tick()
            values = {key: int(ctx.get(getattr(directory, key))) for key in FIELDS}
            at = next((k for k in sorted(names) if names[k]["build"] == build), None)
            if build == MACHINE.digest:
                right = {"resident": 1, "loads": 1, "function": LOADER}
                right |= {"words_in": record_words(MACHINE), "words_out": RESULT_WORDS}
            elif at is None:
                right = {"resident": 0, "loads": 0}
            else:
                right = {"resident": 1, "loads": 0, "number": at}
                right |= {key: names[at][key] for key in FIELDS[3:]}
            if any(values[key] != value for key, value in right.items()) or waited > 6:
                difference = difference or f"{values} instead of {right}"
            ctx.set(directory.asked, 0)
            for _ in range(1 + int(rng.integers(3))):
                await ctx.tick()

    simulator = Simulator(directory)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return difference


def stores(component: Any) -> str:
    """Send records with pauses at both ends; return what differs, "" for nothing."""
    loader = component(machine=MACHINE)
    rng = np.random.default_rng(12)
    size, wide = record_words(MACHINE), max(widths(MACHINE).values())
    expected, words = [], []
    for _ in range(60):
        store, at = int(rng.integers(len(Store))), int(rng.integers(64))
        data = int.from_bytes(rng.bytes(4 * (size - 1)), "little")
        expected.append((store, at, data % (1 << wide)))
        words.append((store << STORE_PLACE) | at)
        words += [(data >> 32 * k) & 0xFFFFFFFF for k in range(size - 1)]
    written: list[tuple[int, int, int]] = []
    echoes: list[int] = []

    async def feed(ctx: Any) -> None:
        for word in words:
            while rng.random() < 0.3:
                await ctx.tick()
            ctx.set(loader.i.payload, word)
            ctx.set(loader.i.valid, 1)
            while True:
                ready = ctx.get(loader.i.ready)
                await ctx.tick()
                if ready:
                    break
            ctx.set(loader.i.valid, 0)

    async def drain(ctx: Any) -> None:
        for _ in range(5000):
            ready = rng.random() < 0.5
            ctx.set(loader.o.ready, ready)
            if ready and ctx.get(loader.o.valid):
                assert ctx.get(loader.o.p.last) and not ctx.get(loader.o.p.flag)
                assert len(written) == len(echoes) + 1  # stored before it is answered
                echoes.append(ctx.get(loader.o.p.data))
            if ctx.get(loader.store):
                places = loader.store_in, loader.store_at, loader.store_data
                written.append(tuple(int(ctx.get(Value.cast(x))) for x in places))
            await ctx.tick()

    simulator = Simulator(loader)
    simulator.add_clock(1e-6)
    simulator.add_testbench(feed, background=True)
    simulator.add_testbench(drain)
    try:
        simulator.run()
    except AssertionError as error:
        return f"contract: {error}"
    if written != expected:
        return "words"
    return "" if echoes == words[::size] else "answers"


def test_names_are_looked_up() -> None:
    assert lookups(Directory) == ""


def test_words_are_stored_and_answered() -> None:
    assert stores(Loader) == ""


NAMES_BROKEN = {
    "the first name is skipped": ("m.d.comb += read.addr.eq(0)", "m.d.comb += read.addr.eq(1)"),
    "a name is found late": (
        "place.eq(place + 1),\n                ]",
        "place.eq(place),\n                ]",
    ),
    "nothing is cleared": ("m.d.sync += valid.eq(0)", "m.d.sync += valid.eq(valid)"),
    "every name is valid": ("valid.bit_select(place, 1) & ", ""),
    "half of a hash is compared": (
        'name["build"] == self.build',
        'name["build"][:31] == self.build[:31]',
    ),
    "the last name is not looked at": ("place == functions - 1", "place == functions - 2"),
    "loads have a program's words": ("self.words_in.eq(record_words(self.machine)),", ""),
}
LOADS_BROKEN = {
    "the answer is lost": ("self.o.valid.eq(1)", "self.o.valid.eq(0)"),
    "a word is stored twice": ('m.next = "ANSWER"', 'm.next = "STORE"'),
    "the words are the other way round": (
        "Cat(data[WORD:], self.i.payload)",
        "Cat(self.i.payload, data[:-WORD])",
    ),
    "a record is a word too short": ("place == self.size - 1", "place == self.size - 2"),
    "it is answered before it is stored": ("with m.If(self.o.ready):", "with m.If(1):"),
}


@pytest.mark.parametrize("name", [*NAMES_BROKEN, *LOADS_BROKEN])
def test_a_broken_one_is_noticed(name: str) -> None:
    if name in NAMES_BROKEN:
        assert lookups(mutant(Directory, *NAMES_BROKEN[name]))
    else:
        assert stores(mutant(Loader, *LOADS_BROKEN[name]))
