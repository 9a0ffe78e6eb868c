"""Inverse dynamics by scans against the recursion: forms, methods, joints, branches, types."""

from __future__ import annotations

import numpy as np
import pytest

from pinion import dynamics
from pinion.chains import (
    Chain,
    Count,
    Operator,
    inverse,
    random_chain,
    random_state,
    rnea,
    rnea_scan,
)
from pinion.chains.inverse import FORMS
from pinion.chains.scan import METHODS, Elements
from tests.chains.examples import CHAINS, relative, swapped

LONG = np.longdouble
EXACT = ("affine", "matrix")


def error(chain: Chain, method: str, form: str) -> float:
    """Return the error against the recursion, with a wrench at the tip, for a batch of two."""
    s = random_state(chain, 1, 2)
    push = np.random.default_rng(1).normal(size=(2, 6))
    tau = rnea_scan(chain, s.q, s.qd, s.qdd, method=method, form=form, f_tip=push)
    return relative(tau, rnea(chain, s.q, s.qd, s.qdd, push))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CHAINS)
def test_scans_give_the_recursion(name: str, form: str) -> None:
    chain = CHAINS[name]()
    for method in METHODS:
        assert error(chain, method, form) < 2e-14, method


@pytest.mark.parametrize("form", FORMS)
def test_each_pass_has_as_many_operands_as_links(form: str) -> None:
    for n in (1, 2, 7, 8, 9, 16, 33):
        chain = random_chain(n, 1)
        state = random_state(chain, 1)
        passes = 3 if form == "affine" else 2
        L = (n - 1).bit_length()
        limits = {"hillis_steele": L, "brent_kung": max(0, 2 * L - 1), "blelloch": 2 * L + 1}
        for method, limit in limits.items():
            count = Count()
            rnea_scan(chain, state.q, state.qd, state.qdd, method=method, form=form, count=count)
            assert count.levels <= passes * limit
            if method != "brent_kung":
                assert count.levels == passes * limit
        assert count.sequential == {}


def test_side_branches_are_steps_of_the_longest() -> None:
    chain = random_chain(6, 1, branches=4)
    depth = {-1: 0} | {int(i): 0 for i in chain.main}
    for i in chain.branches:
        depth[int(i)] = 1 + depth[int(chain.parent[i])]
    count = Count()
    state = random_state(chain, 1)
    rnea_scan(chain, state.q, state.qd, state.qdd, count=count)
    assert count.sequential == {"side branches": 2 * max(depth.values())}
    assert max(depth.values()) > 1


@pytest.mark.parametrize("form", FORMS)
def test_types_stay(form: str) -> None:
    chain = random_chain(200, 1, inertias="arm")
    state = random_state(chain, 1)
    single = [x.astype(np.float32) for x in (state.q, state.qd, state.qdd)]
    wide = [x.astype(LONG) for x in single]
    expected = rnea(chain, *wide)
    # Rotations rounded to double precision are invalid in 80 bits, and R, p are not X.
    for arguments, limit in ((single, 1e-5), (wide, 2e-17 if form in EXACT else 2e-14)):
        tau = rnea_scan(chain, *arguments, form=form)
        assert tau.dtype == arguments[0].dtype
        assert relative(tau, expected) < limit


def test_one_state_is_a_batch_of_one() -> None:
    chain = random_chain(4, 1)
    state = random_state(chain, 1)
    tau = rnea_scan(chain, state.q[0], state.qd[0], state.qdd[0])
    np.testing.assert_allclose(tau, state.tau[0], rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_a_base_that_is_not_folded_in_is_noticed(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unfolded(op: Operator, x: Elements, base: Elements) -> Elements:
        return x

    monkeypatch.setattr(inverse, "folded", unfolded)
    assert error(CHAINS["mixed"](), "hillis_steele", form) > 1e-2


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", METHODS)
def test_operands_in_the_wrong_order_are_noticed(
    form: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("affine", "matrix"):
        monkeypatch.setattr(inverse, name, swapped(getattr(inverse, name)))
    for name in ("lie", "lie_quaternion"):
        monkeypatch.setattr(inverse.operators, name, swapped(getattr(inverse.operators, name)))
    assert error(CHAINS["mixed"](), method, form) > 1e-2


def test_wrong_choices_are_refused() -> None:
    chain = random_chain(3, 1)
    state = random_state(chain, 1)
    for message, options in {
        "form is 'dual': choose 'affine' or": {"form": "dual"},
        "method is 'fast': choose 'sequential' or": {"method": "fast"},
        "f_tip has shape": {"f_tip": np.zeros(3)},
    }.items():
        with pytest.raises(dynamics.DynamicsError, match=message):
            rnea_scan(chain, state.q, state.qd, state.qdd, **options)  # type: ignore[arg-type]
