"""The proofs of stream components and of blocks: ``python -m tests.support.proofs``.

Few of them are for ever: ``prove`` is by induction, ``bmc`` covers the first ``depth`` cycles from
reset and nothing later, ``cover`` shows that what is asserted about can happen at all.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from pinion.gateware.link.bus import Bus
from pinion.gateware.link.closer import Closer
from pinion.gateware.link.crossing import Crossing
from pinion.gateware.link.elastic import ElasticBuffer
from pinion.gateware.link.holding import HoldingStage
from pinion.gateware.link.packer import Packer
from pinion.gateware.link.reader import RequestReader
from pinion.gateware.link.registers import RegisterBlock
from pinion.gateware.link.sequencer import ResetSequencer
from pinion.gateware.link.tally import Tally
from pinion.gateware.link.unpacker import Unpacker
from pinion.gateware.link.writer import ResponseWriter
from pinion.link import REGISTERS
from tests.support import harness
from tests.support.blocks import dot_units, forms, prove_forms
from tests.support.formal import Proof, prove_all


def _gearbox(record: int, lanes: int, beats: int) -> dict[str, int]:
    return {"word": 1, "words_per_beat": 4, "record": record, "lanes": lanes, "beats": beats}


_BUILD: dict[str, Any] = {"words": 5, "function": 1, "build": 2}
_NARROW = Bus(words=4)
_REGISTERS: dict[str, Any] = {
    "constants": {row.name: row.offset for row in REGISTERS if row.kind == "constant"},
    "writable": {row.name: 1 for row in REGISTERS if row.kind == "control"},
}

PROOFS: tuple[Proof, ...] = (
    Proof(
        name="holding",
        harness=harness.holding,
        component=HoldingStage,
        settings={"shape": 1},
        mode="prove",
        depth=6,
    ),
    Proof(
        name="elastic",
        harness=harness.queue,
        component=ElasticBuffer,
        settings={"shape": 1, "depth": 3},
        mode="bmc",
        depth=12,
    ),
    *(
        Proof(
            name=f"unpacker_{record}_{lanes}_{beats}",
            harness=harness.unpacker,
            component=Unpacker,
            settings=_gearbox(record, lanes, beats),
            mode="bmc",
            depth=12,
        )
        for record, lanes, beats in ((3, 2, 2), (5, 3, 2), (1, 1, 1), (7, 4, 2))
    ),
    *(
        Proof(
            name=f"packer_{record}_{lanes}_{beats}",
            harness=harness.packer,
            component=Packer,
            settings=_gearbox(record, lanes, beats),
            mode="bmc",
            depth=12,
        )
        for record, lanes, beats in ((3, 2, 2), (5, 3, 2), (1, 1, 1), (7, 4, 2))
    ),
    # Records that fill a wide beat exactly, and whole ones of it.
    *(
        Proof(
            name=f"{component.__name__.lower()}_{record}_{lanes}_{beats}",
            harness=make,
            component=component,
            settings=_gearbox(record, lanes, beats),
            mode="bmc",
            depth=12,
        )
        for component, make in ((Unpacker, harness.unpacker), (Packer, harness.packer))
        for record, lanes, beats in ((4, 2, 2), (4, 4, 1), (8, 4, 2))
    ),
    # Resets in any cycle, in the middle of records and packets too.
    *(
        Proof(
            name=f"{component.__name__.lower()}_resets",
            harness=partial(make, resets=True),
            component=component,
            settings=_gearbox(5, 3, 2),
            mode="bmc",
            depth=10,
        )
        for component, make in ((Unpacker, harness.unpacker), (Packer, harness.packer))
    ),
    Proof(
        name="reader_resets",
        harness=partial(harness.reader, resets=True),
        component=RequestReader,
        settings=_BUILD,
        mode="bmc",
        depth=7,
    ),
    Proof(
        name="sequencer",
        harness=harness.sequencer,
        component=ResetSequencer,
        mode="bmc",
        depth=26,
    ),
    Proof(
        name="sequencer_passes",
        harness=harness.sequencer,
        component=ResetSequencer,
        mode="cover",
        depth=20,
    ),
    Proof(
        name="tally",
        harness=harness.tally,
        component=Tally,
        settings={"lanes": 1, "bus": Bus(words=2)},
        mode="bmc",
        depth=9,
    ),
    Proof(
        name="tally_passes",
        harness=harness.tally,
        component=Tally,
        settings={"lanes": 1, "bus": Bus(words=2)},
        mode="cover",
        depth=8,
    ),
    # That the assumptions leave something: a word goes through.
    Proof(
        name="unpacker_passes",
        harness=harness.unpacker,
        component=Unpacker,
        settings=_gearbox(3, 2, 2),
        mode="cover",
        depth=8,
    ),
    Proof(
        name="packer_passes",
        harness=harness.packer,
        component=Packer,
        settings=_gearbox(3, 2, 2),
        mode="cover",
        depth=8,
    ),
    Proof(
        name="crossing",
        harness=harness.crossing,
        component=Crossing,
        settings={"shape": 1, "depth": 3, "i_domain": "a", "o_domain": "b"},
        mode="bmc",
        depth=24,
        multiclock=True,
    ),
    Proof(name="closer", harness=harness.closer, component=Closer, mode="prove", depth=3),
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
        name="closer_narrow",
        harness=harness.closer_narrow,
        component=Closer,
        settings={"bus": _NARROW},
        mode="bmc",
        depth=14,
    ),
    Proof(
        name="closer_narrow_passes",
        harness=harness.closer_narrow,
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
"""Every proof of this package; small words and beats, because nothing depends on a word's value."""


def main() -> int:
    """Run all proofs, print a line for each, and return 1 if one failed."""
    with tempfile.TemporaryDirectory(prefix="pinion-proofs-") as folder:
        failed = prove_all(PROOFS, Path(folder))
        for name, proved in prove_forms(forms(dot_units()), Path(folder) / "blocks").items():
            print(f"{name:32} explicit block  {'passed' if all(proved) else 'FAILED'}")
            failed += not all(proved)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
