"""Inverse dynamics of a KUKA iiwa14 on the simulated card: the README's five lines.

Run it after ``pinion build iiwa14 rnea -o build/iiwa14``.
"""

from __future__ import annotations

import numpy as np

from pinion import driver

q, qd, qdd = np.random.default_rng(0).uniform(-1, 1, (3, 1000, 7))
with driver.open("build/iiwa14", device="sim") as card:
    result = card.run(q=q, qd=qd, qdd=qdd)
    print(result.tau.shape, result.saturated.any(), result.cycles)
