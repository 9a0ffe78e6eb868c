"""Fuzzing of the host's checks of a card's identity and recovery with random register values."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import numpy as np

from pinion.driver import DriverError, Transport, TransportError
from pinion.driver.card import check_card
from pinion.driver.discover import cards
from pinion.driver.nodes import USER
from pinion.driver.recovery import explain, sentence, soft_reset
from pinion.link import MAX_COUNT, PROTOCOL_VERSION, REGISTERS, Cause, Manifest, layout_of, register
from pinion.link.registers import IDENTITY, IN_RESET, OPEN, QUIET, SPACE
from tests.support.fuzz.manifests import sample
from tests.support.fuzz.tally import Tally, error_text

WORD = 0xFFFF_FFFF

FILES = 0.005
"""Share of the cases that go through a file and the list of cards."""

_STATES = (0, 1, 2, 4, 8, 16, QUIET | IN_RESET, QUIET | IN_RESET | OPEN, WORD)


def constants(manifest: Manifest) -> dict[str, int]:
    """Return the values of the constant registers of a build's card."""
    layout = layout_of(manifest)
    return {
        "IDENTITY": IDENTITY,
        "VERSION": PROTOCOL_VERSION,
        "BUILD_LOW": layout.build & WORD,
        "BUILD_HIGH": layout.build >> 32,
        "FUNCTIONS": 1,
        "FUNCTION_0": layout.function,
        "WORDS_IN_0": layout.words_in,
        "WORDS_OUT_0": layout.words_out,
        "MAX_COUNT": MAX_COUNT,
        "INTERVAL": manifest.ii,
        "CORE_KHZ": 250_000,
        "LINK_KHZ": 250_000,
    }


MUST_FIT = (
    *("IDENTITY", "VERSION", "BUILD_LOW", "BUILD_HIGH"),
    *("FUNCTION_0", "WORDS_IN_0", "WORDS_OUT_0", "MAX_COUNT"),
)
"""Registers by which a driver identifies its card."""


class FickleCard(Transport):
    """Card with random register values and no streams.

    Parameters
    ----------
    values : by name; other registers read as a random value every time.
    random : the source of all chance.
    """

    def __init__(self, *, values: dict[str, int], random: Random) -> None:
        self.values = values
        self.random = random
        self._names = {row.offset: row.name for row in REGISTERS}

    def read_register(self, offset: int) -> int:
        """Return the value given for a register, or a random one."""
        name = self._names[offset]
        if name in self.values:
            return self.values[name]
        if name == "STATUS":
            return self.random.choice(_STATES)
        return self.random.choice((0, 0, 0, 1, 11, self.random.getrandbits(32), WORD))

    def write_register(self, offset: int, value: int) -> None:
        """Do nothing: the card ignores writes."""

    def send(self, packet: np.ndarray) -> None:
        """Raise `TransportError`: the card has no request stream."""
        raise TransportError("The card accepts no requests.")

    def receive(self, packet: np.ndarray) -> None:
        """Raise `TransportError`: the card has no result stream."""
        raise TransportError("The card sends no responses.")

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def fuzz_registers(*, cases: int, seed: int, manifest: Manifest | None = None) -> Tally:
    """Check a card's identity, recovery and errors with random register values.

    A card is refused with a `DriverError` or a `TransportError`, unless all that identifies it is
    right. Recovery of a card that says anything comes to an end, with the same errors.
    """
    tally = Tally(name="registers", seed=seed)
    r, good = Random(seed), constants(manifest or sample())
    layout = layout_of(manifest or sample())
    folder = tempfile.TemporaryDirectory()
    for _ in range(cases):
        values = dict(good)
        for name in r.sample(list(good), r.choice((0, 1, 1, 2, len(good)))):
            change = r.choice((0, 1, values[name] ^ 1 << r.randrange(32), r.getrandbits(32), WORD))
            values[name] = change & WORD
        right = all(values[name] == good[name] for name in MUST_FIT)
        if r.random() < FILES:
            trouble = _listed(Path(folder.name), values, r)
            tally.fail(trouble) if trouble else tally.refuse()
            continue
        card = FickleCard(values=values, random=r)
        recover = r.random() < 0.5
        try:
            if recover:
                soft_reset(card, layout, patience=-1.0)
            else:
                check_card(card.read_register, layout, where="here")
            accepted = True
        except (DriverError, TransportError) as error:
            accepted = False
            text = str(error)
            if right and not recover:
                tally.fail(f"a good card was refused: {text}")
                continue
        except Exception as error:
            tally.fail(error_text(error))
            continue
        if accepted and not right:
            wrong = [name for name in MUST_FIT if values[name] != good[name]]
            tally.fail(f"a card was accepted whose {', '.join(wrong)} is another's")
        elif trouble := _account(card, r):
            tally.fail(trouble)
        else:
            tally.accept() if accepted else tally.refuse()
    folder.cleanup()
    return tally


def _listed(folder: Path, values: dict[str, int], r: Random) -> str | None:
    """List a card with these register values, and return what is wrong with the list, or None."""
    data = bytearray(r.randbytes(SPACE))
    for row in REGISTERS:
        if row.name in values:
            data[row.offset : row.offset + 4] = values[row.name].to_bytes(4, "little")
    length = r.choice((SPACE, SPACE, r.randrange(register("ERROR").offset)))
    (folder / f"xdma0_{USER}").write_bytes(data[:length])
    try:
        (info,) = cards(folder)
    except Exception as error:
        return error_text(error)
    good = values["IDENTITY"] == IDENTITY and length == SPACE
    if good != info.accessible:
        return f"a card whose first register is {values['IDENTITY']:#x}, in {length} bytes: {info}"
    return None


def _account(card: FickleCard, r: Random) -> str | None:
    """Check that the driver describes any value of the ERROR register without failing."""
    value = r.choice((*map(int, Cause), r.getrandbits(32)))
    card.values["ERROR"] = value
    try:
        explained = explain(card.read_register, TransportError("Something failed."))
        words = sentence(value)
    except Exception as error:
        return error_text(error)
    finally:
        del card.values["ERROR"]
    messages = str(explained), words
    return None if all(0 < len(text) < 1000 for text in messages) else f"it says '{messages}'"
