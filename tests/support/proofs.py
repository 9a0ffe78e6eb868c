"""The proofs of the stream components: ``python -m tests.support.proofs``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pinion.gateware.link.crossing import Crossing
from pinion.gateware.link.elastic import ElasticBuffer
from pinion.gateware.link.holding import HoldingStage
from pinion.gateware.link.packer import Packer
from pinion.gateware.link.unpacker import Unpacker
from tests.support import harness, proofs_ends
from tests.support.formal import Proof, prove_all


def _gearbox(record: int, lanes: int, beats: int) -> dict[str, int]:
    return {"word": 1, "words_per_beat": 4, "record": record, "lanes": lanes, "beats": beats}


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
    *proofs_ends.PROOFS,
)
"""Every proof of this package; small words and beats, because nothing depends on a word's value."""


def main() -> int:
    """Run all proofs, print a line for each, and return 1 if one failed."""
    with tempfile.TemporaryDirectory(prefix="pinion-proofs-") as folder:
        return 1 if prove_all(PROOFS, Path(folder)) else 0


if __name__ == "__main__":
    sys.exit(main())
