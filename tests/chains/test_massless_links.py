"""Chains with massless links between their joints, as from several joints in one body."""

from __future__ import annotations

import numpy as np
import pytest

from pinion import chains, dynamics
from pinion.chains import Chain
from pinion.robot import load_text
from tests.dynamics.models import relative_error, serial


def test_algorithms_agree_or_refuse_in_a_sentence() -> None:
    print("seed 2")
    model = serial()
    chain = Chain.of(model)
    rng = np.random.default_rng(2)
    q, qd, qdd = rng.normal(size=(3, 5, model.nv))
    tau = dynamics.rnea(model, q, qd, qdd)
    for inverse in (chains.rnea, chains.rnea_scan):
        assert relative_error(inverse(chain, q, qd, qdd), tau) < 1e-12
    for forward in (chains.aba, chains.hybrid_aba, chains.jsiia):
        assert relative_error(forward(chain, q, qd, tau), qdd) < 1e-9
    with pytest.raises(dynamics.DynamicsError, match=r"link 0 .* chain 'serial' has no inv"):
        chains.cfa(chain, q, qd, tau)


def test_a_robot_without_mass_is_refused_as_elsewhere() -> None:
    model = load_text(
        '<robot name="ghost"><link name="a"/><link name="b"/><joint name="j" type="continuous">'
        '<parent link="a"/><child link="b"/></joint></robot>'
    )
    with pytest.raises(dynamics.DynamicsError) as chain:
        Chain.of(model)
    with pytest.raises(dynamics.DynamicsError) as elsewhere:
        dynamics.rnea(model, [0.0], [0.0], [0.0])
    assert str(chain.value) == str(elsewhere.value)
