"""Random and mutated records, manifests and register values, against both ends of the link.

``python -m pinion.cosim.fuzz`` runs all campaigns. A campaign is a function that takes a number of
cases and a seed and returns a `Tally`; whatever an end does with a case other than refuse it in
its own words, or accept it rightly, is a failure that names the case.
"""

from __future__ import annotations

from .devices import fuzz_devices
from .manifests import fuzz_manifests
from .mutate import Mutator
from .packets import fuzz_packets
from .registers import fuzz_registers
from .responses import fuzz_responses
from .tally import Tally
from .tops import fuzz_tops

__all__ = [
    "Mutator",
    "Tally",
    "fuzz_devices",
    "fuzz_manifests",
    "fuzz_packets",
    "fuzz_registers",
    "fuzz_responses",
    "fuzz_tops",
]
