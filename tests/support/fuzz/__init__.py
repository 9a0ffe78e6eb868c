"""Fuzzing of both ends of the link: random and mutated packets, manifests and registers.

``python -m tests.support.fuzz`` runs all campaigns. A campaign is a function that takes a number of
cases and a seed and returns a `Tally`; whatever an end does with a case other than refuse it in
its own words, or accept it rightly, is a failure that names the case.
"""

from __future__ import annotations

from tests.support.fuzz.devices import fuzz_devices
from tests.support.fuzz.manifests import fuzz_manifests
from tests.support.fuzz.mutate import Mutator
from tests.support.fuzz.packets import fuzz_packets
from tests.support.fuzz.registers import fuzz_registers
from tests.support.fuzz.responses import fuzz_responses
from tests.support.fuzz.tally import Tally
from tests.support.fuzz.tops import fuzz_tops

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
