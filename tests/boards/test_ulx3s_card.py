"""The whole card behind its serial line, compiled, with the users' driver."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.boards.ecp5.top import card_rtlil
from pinion.card.serial_ports import CompiledPort
from pinion.cosim.reference import Reference, request_words
from pinion.driver import Device, TransportError
from pinion.driver.serial import SerialTransport
from pinion.flow.build import Build
from pinion.functions import sample
from pinion.link import Cause, layout_of, register
from pinion.link.uart_framing import FrameKind, beats, command, unwrap
from tests.support.builds import build

BIT = 4  # cycles
RATE = 20_000.0  # bits per second that a busy machine simulates, for the answers' time limit

# Compiling the card takes a minute.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def core_build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    where = tmp_path_factory.mktemp("serial") / "two_link"
    build("two_link", "rnea", where, ii=8, formats="auto18")
    result = Build.read(where)
    text = card_rtlil(where, result.manifest, clock_mhz=16.0, baud=16e6 / BIT)
    (where / "card.il").write_text(text)
    return result


@pytest.fixture
def port(core_build: Build) -> CompiledPort:
    sim = core_build.folder / "sim"
    return CompiledPort.build(rtlil=core_build.folder / "card.il", folder=sim, bit=BIT)


def device(core_build: Build, port: CompiledPort) -> Device:
    layout = layout_of(core_build.manifest)
    transport = SerialTransport(port=port, layout=layout, where="the card", baud=RATE, patience=60)
    return Device(manifest=core_build.manifest, transport=transport, chunk=300)


def check(core_build: Build, card: Device, count: int, *, seed: int) -> None:
    arrays = sample(
        core_build.model, core_build.function, count, distribution="reference", seed=seed
    )
    words = request_words(core_build.manifest, arrays)
    expected, flags = Reference(core_build).expected(words)
    result = card.run(**arrays)
    np.testing.assert_array_equal(np.ascontiguousarray(result.tau).view(np.uint32), expected)
    np.testing.assert_array_equal(result.saturated, flags)


def test_batches_come_back_bit_for_bit(core_build: Build, port: CompiledPort) -> None:
    with device(core_build, port) as card:
        for count in (1, 7, 1000):  # several packets, with more beats than the card can store
            check(core_build, card, count, seed=count)
        assert card.registers.ANSWERED == 1008
        assert card.registers.ERRORS == card.registers.DROPPED == 0
        assert card.registers.LINK_KHZ == 16_000


def test_garbage_and_breaks_end_in_a_reset_and_the_next_batch_is_right(
    core_build: Build, port: CompiledPort
) -> None:
    rng = np.random.default_rng(5)
    port.run(bytes(rng.integers(1, 256, size=400, dtype=np.uint8)), cycles=100)
    port.run(b"", cycles=4000, level=0)
    with device(core_build, port) as card:
        check(core_build, card, 20, seed=1)
        write = port.write
        port.write = lambda data: write(data[:200] + b"\x55" + data[201:])  # type: ignore[method-assign] # a bad line
        arrays = sample(core_build.model, core_build.function, 40, distribution="reference", seed=2)
        with pytest.raises(TransportError):
            card.run(**arrays)
        port.write = write  # type: ignore[method-assign] # repaired
        check(core_build, card, 20, seed=3)
        assert card.registers.ERRORS >= 1


def test_the_registers_answer_while_the_card_is_stopped(port: CompiledPort) -> None:
    torn = beats(bytes(64))  # no header
    read = command(FrameKind.READ, tag=9, offset=register("ERROR").offset)
    out = port.run(b"\0" + torn + torn + read, cycles=9000)
    bodies = [unwrap(frame) for frame in out.split(b"\0")[:-1]]
    assert bytes((FrameKind.VALUE, 9, register("ERROR").offset, Cause.MAGIC, 0, 0, 0)) in bodies
    assert bytes((FrameKind.ROOM, 0, 0, 2, 0, 0, 0)) in bodies
