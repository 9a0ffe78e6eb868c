"""Gradients in PyTorch and JAX, if they are installed, and the examples that use them."""

from __future__ import annotations

import importlib.util
import runpy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.compute.frameworks.gradients import RULES, Differentiable
from tests.support.breadth import some


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


@pytest.mark.parametrize("name", some(list(RULES), ("aba",)))
def test_jacobians_are_slopes(name: str) -> None:
    differentiable = Differentiable("two_link", name)
    rng = np.random.default_rng(4)
    inputs = [rng.uniform(-1, 1, (5, 2)) for _ in range(3)]
    value, jacobians = differentiable.linear(*inputs)
    assert np.allclose(value, differentiable.value(*inputs), rtol=1e-12)
    for k, jacobian in enumerate(jacobians):
        for column in range(2):
            ahead, behind = ([x.copy() for x in inputs] for _ in range(2))
            ahead[k][:, column] += 1e-6
            behind[k][:, column] -= 1e-6
            slope = (differentiable.value(*ahead) - differentiable.value(*behind)) / 2e-6
            assert np.allclose(jacobian[:, :, column], slope, rtol=1e-5, atol=1e-6)


def test_what_has_no_gradient_is_refused() -> None:
    with pytest.raises(InputError, match="'minv' has no gradient: choose"):
        Differentiable("two_link", "minv")


@needs_torch
@pytest.mark.parametrize("name", list(RULES))
def test_torch_checks_the_gradient_itself(name: str) -> None:
    import torch

    from pinion.compute.frameworks.torch import dynamics

    call = dynamics("two_link", name)
    torch.manual_seed(1)
    inputs = [torch.rand(3, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(call, inputs)
    with pytest.raises(InputError, match=r"dtype torch\.float32"):
        call(*(x.detach().float() for x in inputs))
    with pytest.raises(InputError, match="has the shape"):
        call(inputs[0], inputs[1], inputs[2][:2])


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


@needs_jax
def test_jax_gives_the_kernel_and_its_gradient() -> None:
    import jax
    import jax.numpy as jnp

    from pinion.compute.frameworks.jax import dynamics

    call = dynamics("two_link", "aba", dtype="float32")
    differentiable = Differentiable("two_link", "aba", dtype="float32")
    rng = np.random.default_rng(2)
    inputs = [rng.uniform(-1, 1, (6, 2)).astype(np.float32) for _ in range(3)]
    value, (_, jacobians) = differentiable.value(*inputs), differentiable.linear(*inputs)
    assert np.array_equal(jax.jit(call)(*inputs), value)
    assert np.array_equal(jax.vmap(call)(*inputs), value)
    gradients = jax.grad(lambda *x: jnp.sum(call(*x)), argnums=(0, 1, 2))(*inputs)
    for gradient, jacobian in zip(gradients, jacobians, strict=True):
        assert np.allclose(gradient, jacobian.sum(axis=1), rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="has the shape"):
        call(inputs[0], inputs[1], inputs[2][:2])


@needs_jax
def test_the_jax_example_agrees_with_differences() -> None:
    assert runpy.run_path(str(EXAMPLES / "jax_gradient.py"))["main"]() < 2e-2
