"""The driver's end of an SPI line, with a line that answers as a card."""

from __future__ import annotations

from binascii import crc_hqx
from pathlib import Path

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.driver import DriverError
from pinion.driver.spi import SpiDevice
from pinion.link import Array, Manifest, ManifestError
from pinion.link.digests import write_digests
from pinion.link.spi_framing import (
    CYCLES,
    SpiError,
    SpiTransfer,
    StatusBits,
    fastest_hz,
    pause_bytes,
)
from tests.driver.cards import expected, manifest

Q, QD = np.array([0.5, -1.0]), np.array([2.0, 0.25])
WEIGHT = np.arange(6.0).reshape(2, 3)


class Line:
    """The card of `tests.driver.cards`, one request at a time.

    ``status`` is added to what it would say; ``change`` is what happens to its answer.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.transfer = SpiTransfer.of(manifest)
        self.status = StatusBits(0)
        self.done = True
        self.broken = False

    def __call__(self, sent: bytes) -> bytes:
        t = self.transfer
        assert len(sent) == t.size
        assert crc_hqx(sent[: t.asked], t.start) == 0
        values = np.frombuffer(sent[: 4 * t.words_in], dtype=np.float32)
        tau, scaled = expected(values[:2], values[2:4], values[4:].reshape(2, 3))
        record = np.concatenate([tau, scaled.ravel()]).astype(np.float32).tobytes()
        answer = bytes((self.status | (StatusBits.DONE if self.done else 0),)) + record
        answer += crc_hqx(answer, t.start).to_bytes(2, "big")
        if self.broken:
            answer = answer[:5] + bytes((answer[5] ^ 1,)) + answer[6:]
        return bytes(t.answered - 1) + answer


@pytest.fixture
def line() -> Line:
    return Line(manifest())


@pytest.fixture
def device(line: Line) -> SpiDevice:
    return SpiDevice(manifest(), line)


def test_arrays_come_back_in_their_shapes(device: SpiDevice, line: Line) -> None:
    tau, scaled = expected(*(x.astype(np.float32) for x in (Q, QD, WEIGHT)))
    result = device(q=Q, qd=QD, weight=WEIGHT)
    assert (result.tau == tau).all() and (result.scaled == scaled).all()
    assert result.scaled.shape == (2, 3) and not result.saturated
    line.status = StatusBits.FLAGGED
    assert device.run(q=Q, qd=QD, weight=WEIGHT).saturated


def test_a_line_that_brings_no_result_raises(device: SpiDevice, line: Line) -> None:
    line.broken = True
    with pytest.raises(SpiError, match="checksum of the card's answer is wrong"):
        device.run(q=Q, qd=QD, weight=WEIGHT)
    line.broken, line.done = False, False
    with pytest.raises(SpiError, match="no result in time"):
        device.run(q=Q, qd=QD, weight=WEIGHT)
    line.status = StatusBits.DAMAGED
    with pytest.raises(SpiError, match="refused the request"):
        device.run(q=Q, qd=QD, weight=WEIGHT)


def test_requests_are_checked(device: SpiDevice) -> None:
    with pytest.raises(InputError, match="not a batch of 3"):
        device.run(q=np.zeros((3, 2)), qd=QD, weight=WEIGHT)
    with pytest.raises(InputError, match="'qd' is missing"):
        device.run(q=Q, weight=WEIGHT)


def test_parameters_are_mapped_and_keep_their_bounds() -> None:
    rows = ((1.0, 0.5, 0.25), (0.0, 2.0, 0.0))
    ours = manifest(
        inputs=(
            *manifest().inputs[:1],
            Array(name="load", shape=(2,), unit="kg", linear_map=rows),
        ),
        parameter_low={"load[0]": 0.0, "load[1]": -1.0},
        parameter_high={"load[0]": 3.0, "load[1]": 1.0},
    )
    sent: list[bytes] = []

    def line(request: bytes) -> bytes:
        sent.append(request)
        return bytes(len(request))

    device = SpiDevice(ours, line)
    with pytest.raises(SpiError):
        device.run(q=Q, load=(2.0, -0.5))
    values = np.frombuffer(sent[0][:16], dtype=np.float32)
    assert np.array_equal(values, [*Q, 2.0, -1.0])
    with pytest.raises(DriverError, match=r"load\[0\] is 3.5, outside 0 to 3"):
        device.run(q=Q, load=(3.5, 0.0))
    assert len(sent) == 1


def test_another_build_is_another_checksum(tmp_path: Path) -> None:
    ours, theirs = manifest(), manifest(robot="three_link")
    device = SpiDevice(ours, Line(theirs))
    with pytest.raises(AssertionError):  # the card's own check
        device.run(q=Q, qd=QD, weight=WEIGHT)
    with pytest.raises(ManifestError, match="is not a build folder"):
        SpiDevice.open(tmp_path, Line(ours))


def test_a_folder_is_opened_if_no_file_changed(tmp_path: Path, line: Line) -> None:
    manifest().write(tmp_path)
    (tmp_path / "core.v").write_text("module core;")
    write_digests(tmp_path)
    device = SpiDevice.open(tmp_path, line)
    assert (device.manifest, device.transfer) == (manifest(), line.transfer)
    (tmp_path / "core.v").write_text("module card;")
    with pytest.raises(ManifestError, match=r"core\.v' is not the file that was built"):
        SpiDevice.open(tmp_path, line)


def test_the_pause_covers_the_slowest_result() -> None:
    """A longer schedule has a longer pause, and all transfers of a build have one length."""
    slow = manifest(latency_cycles=500)
    assert pause_bytes(slow) * 8 * CYCLES > 500 + 2 * 5 + 2 * 4
    assert SpiTransfer.of(slow).size - SpiTransfer.of(manifest()).size == pause_bytes(
        slow
    ) - pause_bytes(manifest())
    t = SpiTransfer.of(manifest())
    assert t.size == 4 * t.words_in + 2 + t.pause + 1 + 4 * t.words_out + 2
    assert t.seconds(bit_hz=fastest_hz(50e6)) == pytest.approx(8 * t.size * CYCLES / 50e6)
