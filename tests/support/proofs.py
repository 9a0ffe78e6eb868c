"""Proofs of stream components and of blocks: ``python -m tests.support.proofs``.

``prove`` is by induction, for ever; ``bmc`` covers the first ``depth`` cycles from reset and no
more; ``cover`` shows that what is asserted about can happen at all. The checksum has a proof of its
own kind (`tests.support.parity`).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from pinion.gateware.link.bus import Bus
from pinion.gateware.link.checksum import Checksum
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
from pinion.gateware.processor.directory import Directory
from pinion.gateware.processor.loader import Loader
from pinion.gateware.processor.sequencer import ProgramSequencer
from pinion.gateware.processor.team import Team
from pinion.link import REGISTERS
from pinion.processor import Machine
from pinion.processor.encoding import Encoding
from tests.support.blocks import dot_units, forms, prove_forms
from tests.support.formal import Mode, Proof, prove_all
from tests.support.harness import control, gearboxes, packets, programs, queues
from tests.support.parity import WIDTHS, NotAffineError, prove_checksum


def _gearbox(record: int, lanes: int, beats: int) -> dict[str, int]:
    return {"word": 1, "words_per_beat": 4, "record": record, "lanes": lanes, "beats": beats}


_BUILD: dict[str, Any] = {"words": 5, "function": 1, "build": 2}
_NARROW = Bus(words=4)
_REGISTERS: dict[str, Any] = {
    "constants": {row.name: row.offset for row in REGISTERS if row.kind == "constant"},
    "writable": {row.name: 1 for row in REGISTERS if row.kind == "control"},
}

_MACHINE = Machine(lanes=2, words=16, rows=4, constants=4, inputs=4, results=4, functions=4)
_MODES: tuple[tuple[Mode, str], ...] = (("prove", ""), ("cover", "_passes"))

GEARBOXES = ((3, 2, 2), (5, 3, 2), (7, 4, 2), (4, 4, 1))
"""Words of a record, lanes, and beats of a record; a wide beat has 4 words. The last record fills a
wide beat exactly."""

MORE = ((1, 1, 1), (4, 2, 2), (8, 4, 2))
"""The same, for the slow suites."""

SHIPPED = ((21, 14, 2), (105, 14, 8), (16, 16, 1))
"""The same with beats of 16 words: inverse dynamics of seven joints and its derivatives."""

PROOFS: tuple[Proof, ...] = (
    Proof(
        name="holding",
        harness=queues.holding,
        component=HoldingStage,
        settings={"shape": 1},
        mode="prove",
        depth=6,
    ),
    *(
        Proof(
            name=f"elastic_{depth}",
            harness=queues.elastic,
            component=ElasticBuffer,
            settings={"shape": 1, "depth": depth},
            mode="prove",
            depth=depth + 2,
            slow=depth == 4,
        )
        for depth in (3, 4, 9)
    ),
    *(
        Proof(
            name=f"{component.__name__.lower()}_{record}_{lanes}_{beats}",
            harness=make,
            component=component,
            settings=_gearbox(record, lanes, beats),
            mode="prove",
            depth=10,
            slow=(record, lanes, beats) in MORE,
        )
        for component, make in ((Unpacker, gearboxes.unpacker), (Packer, gearboxes.packer))
        for record, lanes, beats in (*GEARBOXES, *MORE)
    ),
    *(
        Proof(
            name=f"{component.__name__.lower()}_{record}_{lanes}_{beats}_of_16",
            harness=make,
            component=component,
            settings=_gearbox(record, lanes, beats) | {"words_per_beat": 16},
            mode="prove",
            depth=22,
            slow=True,
        )
        for component, make in ((Unpacker, gearboxes.unpacker), (Packer, gearboxes.packer))
        for record, lanes, beats in SHIPPED
    ),
    Proof(
        name="sequencer",
        harness=control.sequencer,
        component=ResetSequencer,
        mode="prove",
        depth=2,
    ),
    Proof(
        name="sequencer_passes",
        harness=control.sequencer,
        component=ResetSequencer,
        mode="cover",
        depth=20,
    ),
    *(
        Proof(
            name=f"tally_{words}",
            harness=control.tally,
            component=Tally,
            settings={"lanes": 1, "bus": Bus(words=words)},
            mode="prove",
            depth=2,
            slow=words == 16,
        )
        for words in (2, 16)
    ),
    Proof(
        name="tally_passes",
        harness=control.tally,
        component=Tally,
        settings={"lanes": 1, "bus": Bus(words=2)},
        mode="cover",
        depth=8,
    ),
    # That the assumptions leave something: a word goes through.
    Proof(
        name="unpacker_passes",
        harness=gearboxes.unpacker,
        component=Unpacker,
        settings=_gearbox(3, 2, 2),
        mode="cover",
        depth=8,
    ),
    Proof(
        name="packer_passes",
        harness=gearboxes.packer,
        component=Packer,
        settings=_gearbox(3, 2, 2),
        mode="cover",
        depth=8,
    ),
    Proof(
        name="crossing",
        harness=queues.crossing,
        component=Crossing,
        settings={"shape": 1, "depth": 3, "i_domain": "a", "o_domain": "b"},
        mode="prove",
        depth=3,
        multiclock=True,
    ),
    Proof(
        name="crossing_passes",
        harness=queues.crossing,
        component=Crossing,
        settings={"shape": 1, "depth": 3, "i_domain": "a", "o_domain": "b"},
        mode="cover",
        depth=20,
        multiclock=True,
    ),
    Proof(
        name="closer",
        harness=packets.closer,
        component=Closer,
        settings={"bus": Bus()},
        mode="prove",
        depth=3,
    ),
    Proof(
        name="closer_narrow",
        harness=packets.closer_narrow,
        component=Closer,
        settings={"bus": _NARROW},
        mode="prove",
        depth=2,
    ),
    Proof(
        name="closer_narrow_passes",
        harness=packets.closer_narrow,
        component=Closer,
        settings={"bus": _NARROW},
        mode="cover",
        depth=12,
    ),
    *(
        Proof(
            name=f"writer_{words}",
            harness=packets.writer,
            component=ResponseWriter,
            settings=_BUILD | {"bus": Bus(words=words)},
            mode="prove",
            depth=2,
        )
        for words in (16, 8)
    ),
    *(
        Proof(
            name=f"reader_{words}",
            harness=packets.reader,
            component=RequestReader,
            settings=_BUILD | {"bus": Bus(words=words)},
            mode="prove",
            depth=2,
        )
        for words in (16, 8)
    ),
    Proof(
        name="reader_passes",
        harness=packets.reader,
        component=RequestReader,
        settings=_BUILD,
        mode="cover",
        depth=8,
    ),
    Proof(
        name="writer_passes",
        harness=packets.writer,
        component=ResponseWriter,
        settings=_BUILD,
        mode="cover",
        depth=8,
    ),
    Proof(
        name="registers_answer",
        harness=control.registers,
        component=RegisterBlock,
        settings=_REGISTERS,
        mode="cover",
        depth=6,
    ),
    Proof(
        name="registers",
        harness=control.registers,
        component=RegisterBlock,
        settings=_REGISTERS,
        mode="prove",
        depth=4,
    ),
    *(
        Proof(
            name=f"{component.__name__.lower()}{ending}",
            harness=harness,
            component=component,
            settings=settings,
            mode=mode,
            depth=depth if mode == "prove" else 12,
        )
        for component, harness, settings, depth in (
            (Loader, programs.loader, {"machine": _MACHINE}, 1),
            (Directory, programs.directory, {"machine": _MACHINE}, 3),
            (
                ProgramSequencer,
                *(programs.sequencer, {"encoding": Encoding(machine=_MACHINE), "rows": 4}, 4),
            ),
            (Team, programs.team, {"encoding": Encoding(machine=_MACHINE)}, 2),
        )
        for mode, ending in _MODES
    ),
)
"""Every proof of this package, with small words and beats, because no component looks at a word."""


def main() -> int:
    """Run all proofs, print a line for each, and return 1 if one failed."""
    with tempfile.TemporaryDirectory(prefix="pinion-proofs-") as folder:
        failed = prove_all(PROOFS, Path(folder))
        for bits in WIDTHS:
            try:
                cases = prove_checksum(Checksum(bits=bits), Path(folder) / f"checksum_{bits}")
                verdict = f"passed, {cases} cases"
            except (AssertionError, NotAffineError) as error:
                verdict = f"FAILED: {error}"
                failed += 1
            print(f"{f'checksum_{bits}':24} by linear algebra        {verdict}", flush=True)
        for name, proved in prove_forms(forms(dot_units()), Path(folder) / "blocks").items():
            print(f"{name:32} explicit block  {'passed' if all(proved) else 'FAILED'}")
            failed += not all(proved)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
