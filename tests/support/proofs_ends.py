"""The proofs of reader, writer, exit and registers, as rows for :mod:`.proofs`."""

from __future__ import annotations

from typing import Any

from pinion.gateware.link.bus import Bus
from pinion.gateware.link.closer import Closer
from pinion.gateware.link.reader import RequestReader
from pinion.gateware.link.registers import RegisterBlock
from pinion.gateware.link.writer import ResponseWriter
from pinion.link import REGISTERS
from tests.support import harness_ends as harness
from tests.support.formal import Proof

_BUILD: dict[str, Any] = {"words": 5, "function": 1, "build": 2}
_NARROW = Bus(words=4)
_REGISTERS: dict[str, Any] = {
    "constants": {row.name: row.offset for row in REGISTERS if row.kind == "constant"},
    "writable": {row.name: 1 for row in REGISTERS if row.kind == "control"},
}

PROOFS: tuple[Proof, ...] = (
    Proof(name="exit", harness=harness.exit_, component=Closer, mode="prove", depth=3),
    Proof(
        name="writer",
        harness=harness.writer,
        component=ResponseWriter,
        settings=_BUILD,
        mode="prove",
        depth=2,
    ),
    Proof(
        name="reader",
        harness=harness.reader,
        component=RequestReader,
        settings=_BUILD,
        mode="bmc",
        depth=10,
    ),
    # That the solver finds a header with its checksum, and a packet behind it.
    Proof(
        name="reader_passes",
        harness=harness.reader,
        component=RequestReader,
        settings=_BUILD,
        mode="cover",
        depth=8,
    ),
    # The same of slices.
    Proof(
        name="cut",
        harness=harness.cut,
        component=Closer,
        settings={"bus": _NARROW},
        mode="bmc",
        depth=14,
    ),
    Proof(
        name="cut_closes",
        harness=harness.cut,
        component=Closer,
        settings={"bus": _NARROW},
        mode="cover",
        depth=12,
    ),
    Proof(
        name="writer_narrow",
        harness=harness.writer,
        component=ResponseWriter,
        settings=_BUILD | {"bus": _NARROW},
        mode="prove",
        depth=2,
    ),
    Proof(
        name="reader_narrow",
        harness=harness.reader,
        component=RequestReader,
        settings=_BUILD | {"bus": Bus(words=8)},
        mode="bmc",
        depth=12,
    ),
    Proof(
        name="registers",
        harness=harness.registers,
        component=RegisterBlock,
        settings=_REGISTERS,
        mode="bmc",
        depth=16,
    ),
)
