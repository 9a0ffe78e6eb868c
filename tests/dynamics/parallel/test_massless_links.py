"""Chains with links without mass between their joints, as several joints in one body make them."""

from __future__ import annotations

import numpy as np
import pytest

from pinion import dynamics
from pinion.dynamics import parallel
from pinion.dynamics.parallel import Chain
from tests.dynamics.models import relative_error, serial


def test_algorithms_agree_or_refuse_in_a_sentence() -> None:
    print("seed 2")
    model = serial()
    chain = Chain.of(model)
    rng = np.random.default_rng(2)
    q, qd, qdd = rng.normal(size=(3, 5, model.nv))
    tau = dynamics.rnea(model, q, qd, qdd)
    for inverse in (parallel.rnea, parallel.rnea_scan):
        assert relative_error(inverse(chain, q, qd, qdd), tau) < 1e-12
    for forward in (parallel.aba, parallel.hybrid_aba, parallel.jsiia):
        assert relative_error(forward(chain, q, qd, tau), qdd) < 1e-9
    with pytest.raises(dynamics.DynamicsError, match=r"link 0 .* chain 'serial' has no inv"):
        parallel.cfa(chain, q, qd, tau)
