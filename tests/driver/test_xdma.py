"""The transport over device files: opening, checks, and errors."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.card.packets import PacketCard
from pinion.driver import (
    AccessError,
    BusyError,
    CardTimeoutError,
    DmaBufferError,
    DriverError,
    LinkError,
    MissingCardError,
    TornStreamError,
    WrongBuildError,
    WrongCardError,
)
from pinion.driver.memory import aligned
from pinion.driver.nodes import ERESTARTSYS, FileNodes, translate
from pinion.driver.xdma import XdmaTransport, open_transport, prefix_of
from pinion.link import layout_of, register, seal_request
from tests.driver.cards import compute, manifest
from tests.driver.strict import StrictNodes, failure, raising

LAYOUT = layout_of(manifest())


def transport(nodes: StrictNodes | None = None) -> XdmaTransport:
    return XdmaTransport(nodes=nodes or StrictNodes(), layout=LAYOUT)


def test_identity_is_checked_before_a_stream_is_opened() -> None:
    nodes = StrictNodes()
    card = transport(nodes)
    assert nodes.opened == ["user", "streams"] and card.where == "/dev/xdma0"
    card.close()
    card.close()
    assert nodes.opened == ["user", "streams", "close"]


@pytest.mark.parametrize(
    ("name", "value", "kind", "words"),
    [
        ("IDENTITY", 0x12345678, WrongCardError, ("not a Pinion card", "0x12345678")),
        ("IDENTITY", 0xFFFFFFFF, WrongCardError, ("left the bus",)),
        ("VERSION", 9, WrongCardError, ("version 9", "version 1")),
        ("BUILD_HIGH", 0xABC, WrongBuildError, ("00000abc", f"{manifest().hash:016x}")),
        ("FUNCTION_0", 5, WrongBuildError, ("FUNCTION_0 is 0x5",)),
        ("WORDS_IN_0", 5, WrongBuildError, ("WORDS_IN_0 is 0x5 instead of 0xa",)),
        ("MAX_COUNT", 16, WrongBuildError, ("MAX_COUNT is 0x10",)),
    ],
)
def test_a_wrong_card_is_refused_before_its_streams_are_touched(
    name: str, value: int, kind: type[DriverError], words: tuple[str, ...]
) -> None:
    nodes = StrictNodes()
    nodes.card._values[name] = value
    with pytest.raises(kind) as caught:
        transport(nodes)
    for word in words:
        assert word in str(caught.value)
    assert "/dev/xdma0" in str(caught.value) and nodes.opened == ["user", "close"]


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.ENOENT, MissingCardError, "pinion devices"),
        (errno.ENODEV, MissingCardError, "There is no card"),
        (errno.EACCES, AccessError, "udev"),
        (errno.EPERM, AccessError, "may not be opened"),
        (errno.EBUSY, BusyError, "in use"),
        (errno.EIO, LinkError, "errno 5"),
    ],
)
@pytest.mark.parametrize("node", ["user", "streams"])
def test_files_that_cannot_be_opened(node: str, number: int, kind: Any, words: str) -> None:
    nodes = StrictNodes()

    def refuse(opened: str) -> None:
        if opened == node:
            raise failure(number)

    nodes.on_open = refuse
    with pytest.raises(kind, match=words) as caught:
        transport(nodes)
    assert "/dev/xdma0_" in str(caught.value) and nodes.opened[-1] == "close"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ETIMEDOUT, CardTimeoutError),
        (ERESTARTSYS, CardTimeoutError),
        (errno.EFAULT, DmaBufferError),
        (errno.EIO, LinkError),
        (errno.ENODEV, LinkError),
        (errno.EBUSY, BusyError),
        (errno.EINVAL, LinkError),
        (errno.EPERM, LinkError),
    ],
)
def test_transfers_that_fail(number: int, kind: Any) -> None:
    nodes = StrictNodes()
    card = transport(nodes)
    nodes.on_read = nodes.on_write = raising(failure(number))  # type: ignore[assignment]
    nodes._check = lambda data: None  # type: ignore[method-assign]
    for call, node in ((card.send, "h2c_0"), (card.receive, "c2h_0")):
        with pytest.raises(kind) as caught:
            call(card.allocate(64))
        assert f"/dev/xdma0_{node}" in str(caught.value)
        assert isinstance(caught.value.__cause__, OSError)


def test_a_transfer_that_is_cut_off_is_torn_and_not_continued() -> None:
    nodes = StrictNodes()
    card = transport(nodes)
    nodes._check = lambda data: None  # type: ignore[method-assign]
    nodes.on_write = lambda call, data: 64
    with pytest.raises(TornStreamError, match="accepted 64 of 256 bytes"):
        card.send(card.allocate(256))
    assert nodes.writes == 1
    nodes.stale(np.zeros(64, np.uint8))
    with pytest.raises(TornStreamError, match="returned 64 of 256 bytes"):
        card.receive(card.allocate(256))
    assert nodes.reads == 1


def test_memory_of_the_wrong_kind_is_refused_before_a_system_call() -> None:
    nodes = StrictNodes()
    card = transport(nodes)
    memory = card.allocate(8192)
    locked = card.allocate(64)
    locked.flags.writeable = False
    for odd in (memory[4:68], memory[:100], memory[::2], memory[:0], locked):
        for call in (card.send, card.receive):
            with pytest.raises(DmaBufferError, match="allocate"):
                call(odd)
    assert nodes.writes == nodes.reads == 0


def test_memory_begins_on_a_page() -> None:
    for length in (64, 4096, 100_032):
        memory = transport().allocate(length)
        assert memory.__array_interface__["data"][0] % 4096 == 0
        assert memory.shape == (length,) and memory.dtype == np.uint8 and memory.flags.writeable
    for length in (0, -64, 63, 100):
        with pytest.raises(DmaBufferError, match=f"multiple of 64 bytes, not {length}"):
            aligned(length)


def test_registers_of_a_card_that_left_the_bus() -> None:
    nodes = StrictNodes()
    card = transport(nodes)
    nodes.on_user = raising(failure(errno.ENODEV))
    with pytest.raises(LinkError, match="left the bus"):
        card.read_register(0)
    with pytest.raises(LinkError, match="left the bus"):
        card.write_register(0x3C, 1)


@pytest.mark.parametrize(
    ("address", "prefix"),
    [("0", "/dev/xdma0"), ("12", "/dev/xdma12"), ("/some/folder/xdma0", "/some/folder/xdma0")],
)
def test_addresses(address: str, prefix: str) -> None:
    assert prefix_of(address) == Path(prefix)


@pytest.mark.parametrize("address", ["", "xdma0", "-1", "1.5", "/dev/", "./xdma0"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(DriverError, match=r"is not the address of a card.*xdma:0"):
        prefix_of(address)


def test_every_error_number_has_a_sentence() -> None:
    for number in (*errno.errorcode, ERESTARTSYS, 9999):
        for action in ("open", "read", "write"):
            text = str(translate(failure(number), node="/dev/xdma0_user", action=action))
            assert text.endswith(".") and "/dev/xdma0_user" in text and len(text.split()) > 8


# `FileNodes` on plain files.


@pytest.fixture
def files(tmp_path: Path) -> Path:
    prefix = tmp_path / "xdma0"
    card = PacketCard(layout=LAYOUT, compute=compute)
    registers = b"".join(card.read_register(i).to_bytes(4, "little") for i in range(0, 256, 4))
    Path(f"{prefix}_user").write_bytes(registers)
    request = np.zeros(LAYOUT.request_bytes(3), np.uint8)
    seal_request(LAYOUT, request, 3, 1)
    response = card.answer(request)
    assert response is not None
    Path(f"{prefix}_c2h_0").write_bytes(response.tobytes())
    Path(f"{prefix}_h2c_0").write_bytes(b"")
    return prefix


def test_files_are_read_and_written_as_they_are(files: Path) -> None:
    card = open_transport(files.parent, manifest(), str(files))
    request, response = card.allocate(256), card.allocate(LAYOUT.response_bytes(3))
    request[:] = np.arange(256)
    card.send(request)
    card.receive(response)
    card.write_register(register("SCRATCH").offset, 0xFEDCBA98)
    assert card.read_register(register("SCRATCH").offset) == 0xFEDCBA98
    with pytest.raises(TornStreamError, match="returned 0 of"):
        card.receive(response)
    with pytest.raises(LinkError, match="returned 0 of 4 bytes"):
        card.read_register(0x1000)
    card.close()
    assert Path(f"{files}_h2c_0").read_bytes() == bytes(range(256))
    assert Path(f"{files}_c2h_0").read_bytes() == response.tobytes()


def test_files_that_are_not_there(tmp_path: Path, files: Path) -> None:
    with pytest.raises(MissingCardError, match="xdma7_user"):
        open_transport(tmp_path, manifest(), str(tmp_path / "xdma7"))
    Path(f"{files}_c2h_0").unlink()
    with pytest.raises(MissingCardError, match="xdma0_c2h_0"):
        open_transport(tmp_path, manifest(), str(files))


def test_closed_files_are_closed(files: Path) -> None:
    nodes = FileNodes(prefix=files)
    nodes.open_user()
    nodes.open_streams()
    nodes.close()
    nodes.close()
    for call in (lambda: nodes.read_user(0), lambda: nodes.read_stream(memoryview(bytearray(64)))):
        with pytest.raises(OSError, match="Bad file descriptor"):
            call()
