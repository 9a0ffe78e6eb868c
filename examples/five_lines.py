"""The README's five lines: gradients of forward dynamics of a KUKA iiwa14, for a batch of states.

Needs a C++ compiler, no hardware and no build; a test holds it and README.md to be one program.
"""

from __future__ import annotations

import numpy as np

import pinion.api as pinion

gradient = pinion.backend("iiwa14", "fd_derivatives", device="cpu")  # or your URDF
q, qd, tau = np.random.default_rng(0).uniform(-1, 1, (3, 1000, 7))
print(gradient(q, qd, tau).dqdd_dq.shape)  # (1000, 7, 7)
