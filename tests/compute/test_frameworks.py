"""Gradients in PyTorch and JAX, if they are installed, and the examples that use them."""

from __future__ import annotations

import importlib.util
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.compute.frameworks.rules import RULES
from pinion.dynamics import normalise
from pinion.functions import row_of, sample
from pinion.robot import Model, load, tip
from tests.support.breadth import some_rows


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


EXAMPLES = Path(__file__).parents[2] / "examples"

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)
needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed"
)


@cache
def robot(name: str) -> Model:
    if name == "floating leg":
        return tip(load("hyq", floating_base=True), "lf_lowerleg")
    return load(name)


ARMS = ("two_link", "iiwa14", "floating leg")

ONCE = (
    *("rnea_derivatives", "fd_derivatives", "rk4_step", "com_jacobian"),
    *("centroidal_momentum", "centroidal_rate"),
)
"""Rows whose gradient is of rows without one."""

ANY_JOINT = (
    *("forward_kinematics", "frame_jacobian", "frame_jacobian_local", "frame_jacobian_world"),
    *("centre_of_mass", "potential_energy"),
)
"""Rows that are differentiated twice on a floating base."""

PARAMETRIC = {
    "rnea": ("iiwa_link_7", "gravity"),
    "aba": ("iiwa_link_7", "gravity"),
    "minv": ("iiwa_link_7",),
    "kinetic_energy": ("iiwa_link_7",),
}
"""Parameters by which rows are differentiated."""


def has(arm: str, name: str) -> bool:
    return not (arm.startswith("floating") and name in ("rnea_derivatives", "fd_derivatives"))


def twice(arm: str, name: str, **options: Any) -> bool:
    if options and name == "aba":
        return False
    return name not in ONCE and (not arm.startswith("floating") or name in ANY_JOINT)


CASES = [(name, arm) for arm in ARMS for name in RULES if has(arm, name)]
QUICK = [("rnea", "two_link"), ("aba", "two_link")]


def states(model: Model, name: str, count: int, **options: Any) -> dict[str, Any]:
    """Draw inputs of moderate size, as arrays of float64 by name."""
    row = row_of(name, **options)
    requests = sample(model, row, count, distribution="slow", seed=3)
    inputs = {k: np.asarray(x, dtype=np.float64) for k, x in requests.items()}
    return {**inputs, "q": normalise(model, inputs["q"])}


def check_torch(name: str, arm: str, **options: Any) -> None:
    import torch

    from pinion.compute.frameworks.torch import dynamics

    model = robot(arm)
    call = dynamics(model, name, **options)
    inputs = {k: torch.from_numpy(x) for k, x in states(model, name, 1, **options).items()}
    leaf_names = [k for k in inputs if k != "dt"]

    def function(*tensors: Any) -> Any:
        q = tensors[0]
        if model.nq != model.nv:
            q = torch.cat([q[:, :3], torch.nn.functional.normalize(q[:, 3:7]), q[:, 7:]], -1)
        return call(q, *tensors[1:], *(x for k, x in inputs.items() if k == "dt"))

    leaves = [inputs[k].requires_grad_() for k in leaf_names]
    assert torch.autograd.gradcheck(function, leaves)
    if twice(arm, name, **options):
        assert torch.autograd.gradgradcheck(function, leaves, atol=1e-4)
    else:
        values = function(*leaves)
        values = [values] if isinstance(values, torch.Tensor) else values
        total = sum(value.square().sum() for value in values)

        def again() -> None:
            (slope,) = torch.autograd.grad(total, leaves[0], create_graph=True)
            slope.sum().backward()

        with pytest.raises(InputError, match=r"has no gradient|only joints with one of each"):
            again()


@needs_torch
@pytest.mark.parametrize(("name", "arm"), some_rows(CASES, QUICK))
def test_torch_checks_gradients_and_theirs(name: str, arm: str) -> None:
    check_torch(name, arm)


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("name", list(PARAMETRIC))
def test_torch_checks_gradients_by_parameters(name: str) -> None:
    check_torch(name, "iiwa14", parameters=PARAMETRIC[name])


@needs_torch
def test_torch_refuses_what_does_not_fit() -> None:
    import torch

    from pinion.compute.frameworks.torch import dynamics

    call = dynamics("two_link", "aba")
    q, qd, tau = torch.rand(3, 3, 2, dtype=torch.float64)
    with pytest.raises(InputError, match=r"dtype torch\.float32"):
        call(q.float(), qd, tau)
    with pytest.raises(InputError, match=r"'tau' has the shape \(2, 2\): give \(\.\.\., 2\), with"):
        call(q, qd, tau[:2])
    with pytest.raises(InputError, match=r"needs 3 arrays \(q, qd, tau\), not 2"):
        call(q, qd)
    step = dynamics("two_link", "euler_step")
    with pytest.raises(InputError, match="'euler_step' has no gradient with respect to 'dt'"):
        step(q, qd, tau, torch.tensor(0.01, dtype=torch.float64, requires_grad=True))


@needs_torch
def test_an_array_without_a_batch_serves_all_samples_and_sums_their_gradients() -> None:
    import torch

    from pinion.compute.frameworks.torch import dynamics

    call = dynamics("two_link", "aba")
    q, qd, tau = torch.rand(3, 5, 2, dtype=torch.float64)
    shared, every = tau[0].clone().requires_grad_(), tau[:1].repeat(5, 1).requires_grad_()
    call(q, qd, shared).square().sum().backward()
    call(q, qd, every).square().sum().backward()
    assert torch.allclose(shared.grad, every.grad.sum(0), rtol=1e-12)
    energy = dynamics("two_link", "kinetic_energy")
    leaf = qd[0].clone().requires_grad_()
    value = energy(q[0], leaf)
    value.backward()
    assert value.shape == () and torch.allclose(leaf.grad @ leaf.detach(), 2 * value.detach())


@needs_torch
def test_the_training_example_learns() -> None:
    assert runpy.run_path(str(EXAMPLES / "torch_training.py"))["main"]() < 1e-4


@needs_torch
def test_dlpack_goes_in_and_out_without_copies() -> None:
    import torch

    from pinion.compute import cpu

    kernel = cpu.compile("two_link", "rnea")
    tensors = {name: torch.rand(4, 2, dtype=torch.float64) for name in ("q", "qd", "qdd")}
    arrays = {name: np.from_dlpack(tensor) for name, tensor in tensors.items()}
    assert all(arrays[name].ctypes.data == tensors[name].data_ptr() for name in tensors)
    result = kernel(**tensors)
    assert np.array_equal(result.tau, kernel(**arrays).tau)
    assert torch.from_dlpack(result.tau).data_ptr() == result.tau.ctypes.data


@pytest.fixture
def wide() -> Iterator[None]:
    """Use float64 in JAX."""
    import jax

    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def check_jax(name: str, arm: str, **options: Any) -> None:
    import jax.numpy as jnp
    from jax.test_util import check_grads

    from pinion.compute.frameworks.jax import dynamics

    model = robot(arm)
    call = dynamics(model, name, dtype="float64", **options)
    inputs = {k: jnp.asarray(x) for k, x in states(model, name, 2, **options).items()}

    def function(*arrays: Any) -> Any:
        q = arrays[0]
        if model.nq != model.nv:
            turn = q[:, 3:7] / jnp.linalg.norm(q[:, 3:7], axis=-1, keepdims=True)
            q = jnp.concatenate([q[:, :3], turn, q[:, 7:]], -1)
        return call(q, *arrays[1:], *(x for k, x in inputs.items() if k == "dt"))

    arrays = [x for k, x in inputs.items() if k != "dt"]
    order = 2 if twice(arm, name, **options) else 1
    # A small step, because the wrist's inertia is small and the inverse inertia curves with it.
    check_grads(function, arrays, order=order, modes=["rev"], eps=1e-6)


@needs_jax
@pytest.mark.parametrize(("name", "arm"), some_rows(CASES, QUICK))
def test_jax_checks_gradients_and_theirs(name: str, arm: str, wide: None) -> None:
    check_jax(name, arm)


@needs_jax
@pytest.mark.slow
# The wrist's inverse inertia is so large that its second differences round by more than 1e-5.
@pytest.mark.parametrize("name", [name for name in PARAMETRIC if name != "minv"])
def test_jax_checks_gradients_by_parameters(name: str, wide: None) -> None:
    check_jax(name, "iiwa14", parameters=PARAMETRIC[name])


@needs_jax
def test_jax_gives_the_kernel_and_its_gradient() -> None:
    import jax
    import jax.numpy as jnp

    from pinion.compute import cpu
    from pinion.compute.frameworks.jax import dynamics

    call = dynamics("two_link", "aba", dtype="float32")
    kernel = cpu.compile("two_link", "fd_derivatives", dtype="float32", outputs=("minv",))
    rng = np.random.default_rng(2)
    inputs = [rng.uniform(-1, 1, (6, 2)).astype(np.float32) for _ in range(3)]
    value = cpu.compile("two_link", "aba", dtype="float32")(*inputs).qdd
    assert np.array_equal(jax.jit(call)(*inputs), value)
    assert np.array_equal(jax.vmap(call)(*inputs), value)
    gradients = jax.grad(lambda *x: jnp.sum(call(*x)), argnums=(0, 1, 2))(*inputs)
    result = kernel(*inputs)
    for gradient, jacobian in zip(
        gradients, (result.dqdd_dq, result.dqdd_dqd, result.minv), strict=True
    ):
        assert np.allclose(gradient, jacobian.sum(axis=1), rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="has the shape"):
        call(inputs[0], inputs[1], inputs[2][:2])


@needs_jax
def test_jax_takes_several_caches_in_a_process(tmp_path: Path) -> None:
    from pinion.compute.frameworks.jax import dynamics

    state = np.zeros((3, 2)), np.ones((3, 2)), np.ones((3, 2))
    values = [np.asarray(dynamics("two_link", "rnea", cache=tmp_path / x)(*state)) for x in "ab"]
    np.testing.assert_array_equal(*values)
    assert np.all(np.isfinite(values[0]))


@needs_jax
def test_jax_refuses_a_gradient_that_does_not_exist() -> None:
    import jax
    import jax.numpy as jnp

    from pinion.compute.frameworks.jax import dynamics

    q, qd, tau = jnp.ones((3, 2))
    step = dynamics("two_link", "euler_step")
    with pytest.raises(InputError, match="'euler_step' has no gradient with respect to 'dt'"):
        jax.grad(lambda dt: step(q, qd, tau, dt).q_next.sum())(0.01)
    rate = dynamics("two_link", "centroidal_rate")
    with pytest.raises(InputError, match="'centroidal_derivatives' has no gradient: use 'centr"):
        jax.jacrev(jax.jacrev(rate))(q, qd)


@needs_jax
def test_the_jax_example_agrees_with_differences() -> None:
    assert runpy.run_path(str(EXAMPLES / "jax_gradient.py"))["main"]() < 2e-2
