"""PyTorch and JAX on a GPU, if the machine has one and they are installed for it.

Values and gradients are compared with those of the processor in float64.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.compute import cuda
from pinion.compute.cuda import kernel as kernels
from pinion.compute.cuda import threads
from pinion.compute.cuda.parts import Room
from pinion.functions import named_function, sample
from pinion.robot import load

pytestmark = pytest.mark.slow

CROSSOVER = 64
COUNTS = (1, 16, CROSSOVER - 1, CROSSOVER, 1000)
"""Batches of a block per sample, and of a thread per sample."""

LIMITS = {"float32": 1e-3, "float64": 1e-9}
"""Largest error relative to the largest element, of accelerations: the wrist's inertia is small."""

SPLIT = dict.fromkeys(LIMITS, Room(plain=10, registers=8, slots=4))
"""So little room that a function takes several kernels, and memory between them."""

both_dtypes = pytest.mark.parametrize("dtype", list(LIMITS))
both_functions = pytest.mark.parametrize("name", ["rnea", "aba"])


@pytest.fixture(scope="module", autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a separate cache, and the same crossover for all kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(kernels.CudaKernel, "measured", lambda self: (CROSSOVER, CROSSOVER))
        yield


@pytest.fixture(scope="module")
def torch() -> Any:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip(f"PyTorch {torch.__version__} has no GPU here")
    return torch


@pytest.fixture(scope="module")
def jax() -> Iterator[Any]:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    with pytest.MonkeyPatch.context() as patch:
        # XLA reads it when it opens the device, of whose memory it would otherwise take three
        # quarters: PyTorch and the other tests of the process need theirs.
        patch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        try:
            jax.devices("cuda")
        except RuntimeError as error:
            pytest.skip(f"JAX {jax.__version__} has no GPU here ({error})")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


def arrays(robot: str, name: str, *batch: int, dtype: str, seed: int = 3) -> list[Any]:
    """Return inputs of moderate size, whose numbers float32 represents."""
    count = int(np.prod(batch))
    row = named_function(name)
    samples = sample(load(robot), row, count, distribution="slow", seed=seed)
    return [np.asarray(x, dtype=dtype).reshape(*batch, -1) for x in samples.values()]


def error(values: Any, right: Any) -> float:
    """Return the error relative to the largest element; infinite for NaN and another shape."""
    values, right = np.asarray(values, dtype=np.float64), np.asarray(right)
    if values.shape != right.shape:
        return np.inf
    largest = float(np.max(np.abs(values - right)) / np.max(np.abs(right)))
    return np.inf if np.isnan(largest) else largest


def limit(name: str, dtype: str) -> float:
    # Products in TensorFloat-32 would exceed that of efforts.
    return LIMITS[dtype] * (0.01 if name == "rnea" else 1.0)


# ---- PyTorch ------------------------------------------------------------------------------------


def torch_front(*args: Any, **options: Any) -> Callable[..., Any]:
    from pinion.compute.frameworks.torch import dynamics

    return dynamics(*args, **options)


def sent(torch: Any, inputs: Sequence[Any], device: str = "cuda", dtype: str = "") -> list[Any]:
    kind = getattr(torch, dtype) if dtype else None
    return [torch.as_tensor(x, device=device, dtype=kind) for x in inputs]


def torch_pulled(torch: Any, call: Any, inputs: Sequence[Any], above: Any) -> list[Any]:
    """Return the value, and the gradients by all inputs for a cotangent."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    value = call(*leaves)
    return [value.detach(), *torch.autograd.grad(value, leaves, above.to(value))]


def same_bits(torch: Any, some: Sequence[Any], others: Sequence[Any]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(some, others, strict=True))


@both_dtypes
@both_functions
def test_torch_has_the_values_and_gradients_of_the_processor(
    name: str, dtype: str, torch: Any
) -> None:
    call = torch_front("iiwa14", name, dtype=dtype, device="cuda")
    right = torch_front("iiwa14", name, device="cpu")
    for batch in ((), *((count,) for count in COUNTS), (8, 3, 5)):
        inputs = arrays("iiwa14", name, *batch, dtype=dtype)
        above = torch.as_tensor(np.random.default_rng(5).uniform(-1, 1, (*batch, 7)))
        results = torch_pulled(torch, call, sent(torch, inputs), above)
        plain = call(*sent(torch, inputs))
        assert all(x.is_cuda for x in (plain, *results))
        on_host = sent(torch, inputs, "cpu", "float64")
        expected = torch_pulled(torch, right, on_host, above)
        assert error(plain.cpu(), expected[0]) <= limit(name, dtype), batch
        for result, array in zip(results, expected, strict=True):
            assert error(result.cpu(), array) <= limit(name, dtype), batch


@both_functions
def test_torch_checks_gradients(name: str, torch: Any) -> None:
    call = torch_front("iiwa14", name, device="cuda")
    inputs = sent(torch, arrays("iiwa14", name, 2, dtype="float64"))
    assert torch.autograd.gradcheck(call, [x.requires_grad_() for x in inputs])


def test_torch_checks_gradients_of_gradients(torch: Any) -> None:
    # They are computed in a thread of PyTorch.
    call = torch_front("two_link", "centre_of_mass", device="cuda")
    (q,) = sent(torch, arrays("two_link", "centre_of_mass", 2, dtype="float64"))
    assert torch.autograd.gradgradcheck(call, [q.requires_grad_()], atol=1e-4)


@pytest.mark.parametrize("count", [16, 1000])
@both_functions
def test_torch_works_in_another_stream(name: str, count: int, torch: Any) -> None:
    call = torch_front("iiwa14", name, device="cuda")
    inputs = sent(torch, arrays("iiwa14", name, count, dtype="float64"))
    above = torch.ones_like(inputs[0])
    expected = torch_pulled(torch, call, inputs, above)
    stream = torch.cuda.Stream()
    late = [torch.full_like(x, torch.nan) for x in inputs]
    torch.cuda.synchronize()
    for cycles in (1, 2_000_000_000):  # first, kernels are loaded and memory is allocated
        with torch.cuda.stream(stream):
            for x in late:
                x.fill_(torch.nan)
            torch.cuda._sleep(cycles)
            for x, y in zip(late, inputs, strict=True):
                x.copy_(y)
            results = torch_pulled(torch, call, late, above)
            copies = [x.clone() for x in results]
            for x in results:
                x.fill_(torch.nan)
        # The stream sleeps for a second: no call waits for it.
        assert cycles == 1 or not stream.query()
        stream.synchronize()
        assert all(error(x.cpu(), y.cpu()) <= 1e-12 for x, y in zip(copies, expected, strict=True))


@both_dtypes
@both_functions
def test_torch_repeats_its_bits_in_memory_that_was_freed(
    name: str, dtype: str, torch: Any, few: bool
) -> None:
    call = torch_front("iiwa14", name, dtype=dtype, device="cuda")
    for count in (16, 3000):
        inputs = sent(torch, arrays("iiwa14", name, count, dtype=dtype))
        above = torch.ones_like(inputs[0])
        expected = torch_pulled(torch, call, inputs, above)
        plain = call(*inputs)
        for _ in range(3 if few else 50):
            for size in (7, 7, 7, 7, 49, 49, 49):
                torch.full((count, size), torch.nan, dtype=plain.dtype, device="cuda")
            assert torch.equal(call(*inputs), plain)
            assert same_bits(torch, torch_pulled(torch, call, inputs, above), expected)


def test_torch_memory_does_not_grow(torch: Any, few: bool) -> None:
    call = torch_front("iiwa14", "aba", device="cuda")
    inputs = sent(torch, arrays("iiwa14", "aba", 500, dtype="float64"))
    above = torch.ones_like(inputs[0])
    torch_pulled(torch, call, inputs, above)
    gc.collect()  # what earlier tests left behind would be freed meanwhile
    before = torch.cuda.memory_allocated()
    for _ in range(5 if few else 200):
        call(*inputs)
        torch_pulled(torch, call, inputs, above)
    gc.collect()
    assert torch.cuda.memory_allocated() == before


@both_dtypes
def test_torch_computes_a_large_batch(dtype: str, torch: Any, few: bool) -> None:
    count, part = (300, 100) if few else (200_000, 1000)
    call = torch_front("iiwa14", "aba", dtype=dtype, device="cuda")
    inputs = sent(torch, arrays("iiwa14", "aba", count, dtype=dtype))
    above = torch.ones_like(inputs[0])
    results = torch_pulled(torch, call, inputs, above)
    plain = call(*inputs)
    assert all(x.is_cuda for x in (plain, *results))
    # Samples do not depend on their place: odd ones, whose addresses are aligned to no more than
    # an element.
    for first in (0, 1, count // 2 + 1, count - part):
        rows = slice(first, first + part)
        assert torch.equal(call(*(x[rows] for x in inputs)), plain[rows])
        pulled = torch_pulled(torch, call, [x[rows] for x in inputs], above[rows])
        # The library of products may choose another algorithm for another batch.
        for result, right in zip(pulled, results, strict=True):
            assert error(result.cpu(), right[rows].double().cpu()) <= LIMITS[dtype]
    right = torch_front("iiwa14", "aba", device="cpu")
    last = [x[-part:].double().cpu() for x in inputs]
    assert error(plain[-part:].cpu(), right(*last)) <= LIMITS[dtype]


def test_torch_takes_every_form_of_a_tensor(torch: Any) -> None:
    call = torch_front("iiwa14", "rnea", device="cuda")
    q, qd, qdd = sent(torch, arrays("iiwa14", "rnea", 200, dtype="float64"))
    right = call(q, qd, qdd)
    wide = torch.cat([q, qd], 1)
    transposed = qdd.T.contiguous().T
    negative = torch.complex(q, -qd).conj().imag
    assert not transposed.is_contiguous() and negative.is_neg()
    assert torch.equal(call(wide[:, :7], wide[:, 7:], transposed), right)
    assert torch.equal(call(q, negative, qdd), right)
    assert torch.equal(call(q[0], qd, qdd), call(q[:1].expand(200, 7), qd, qdd))
    none = call(*(x[:0].clone().requires_grad_() for x in (q, qd, qdd)))
    assert none.shape == (0, 7) and none.is_cuda
    none.sum().backward()


def test_torch_refuses_what_does_not_fit(torch: Any) -> None:
    call = torch_front("iiwa14", "aba", dtype="float32", device="cuda")
    q, qd, tau = sent(torch, arrays("iiwa14", "aba", 4, dtype="float32"))
    with pytest.raises(InputError, match=r"'qd' is on the device 'cpu': give tensors on 'cuda:0'"):
        call(q, qd.cpu(), tau)
    with pytest.raises(InputError, match=r"'tau' has the dtype torch\.float64: give torch\.float3"):
        call(q, qd, tau.double())
    with pytest.raises(InputError, match=r"'q' has the shape \(4, 6\)"):
        call(q[:, :6], qd, tau)
    with pytest.raises(InputError, match=r"'q' is on the device 'cuda:0': give tensors on 'cpu'"):
        torch_front("iiwa14", "aba", dtype="float32", device="cpu")(q, qd, tau)


@both_dtypes
def test_torch_gives_memory_between_several_kernels(
    dtype: str, torch: Any, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_ROOMS", SPLIT)
    assert len(cuda.source("two_link", "fd_derivatives", dtype=dtype).kernels) > 1
    call = torch_front("two_link", "aba", dtype=dtype, device="cuda")
    right = torch_front("two_link", "aba", device="cpu")
    for count in (CROSSOVER, 1001, 300 if few else 100_000):
        inputs = arrays("two_link", "aba", count, dtype=dtype)
        above = torch.ones(count, 2)
        on_host = sent(torch, inputs, "cpu", "float64")
        expected = torch_pulled(torch, right, on_host, above)
        plain = call(*sent(torch, inputs))
        results = torch_pulled(torch, call, sent(torch, inputs), above)
        assert error(plain.cpu(), expected[0]) <= LIMITS[dtype]
        for result, array in zip(results, expected, strict=True):
            assert error(result.cpu(), array) <= LIMITS[dtype]


# ---- JAX ----------------------------------------------------------------------------------------


def jax_front(*args: Any, **options: Any) -> Callable[..., Any]:
    from pinion.compute.frameworks.jax import dynamics

    return dynamics(*args, **options)


def placed(jax: Any, inputs: Sequence[Any], platform: str = "cuda", dtype: Any = None) -> list[Any]:
    device = jax.devices(platform)[0]
    return [jax.device_put(np.asarray(x, dtype=dtype), device) for x in inputs]


def jax_pulled(jax: Any, call: Any, inputs: Sequence[Any], above: Any) -> list[Any]:
    """Return the value, and the gradients by all inputs for a cotangent."""
    value, pull = jax.vjp(call, *inputs)
    return [value, *pull(above.astype(value.dtype))]


@both_dtypes
@both_functions
def test_jax_has_the_values_and_gradients_of_the_processor(name: str, dtype: str, jax: Any) -> None:
    call = jax_front("iiwa14", name, dtype=dtype, device="cuda")
    right = jax_front("iiwa14", name, dtype="float64", device="cpu")

    pulled, right_pulled = (
        jax.jit(lambda above, *x, f=f: jax_pulled(jax, f, x, above)) for f in (call, right)
    )
    # Few batches: XLA compiles a program for each.
    for batch in ((), (16,), (1000,)):
        inputs = arrays("iiwa14", name, *batch, dtype=dtype)
        above = np.random.default_rng(5).uniform(-1, 1, (*batch, 7)).astype(dtype)
        on_device = placed(jax, inputs)
        plain = call(*on_device)
        assert np.array_equal(jax.jit(call)(*on_device), plain)
        results = pulled(*placed(jax, [above]), *on_device)
        for array in (plain, *results):
            assert array.dtype == dtype and array.devices() == {jax.devices("cuda")[0]}
        expected = right_pulled(*placed(jax, [above, *inputs], "cpu", np.float64))
        assert error(plain, expected[0]) <= limit(name, dtype), batch
        for result, array in zip(results, expected, strict=True):
            assert error(result, array) <= limit(name, dtype), batch


@both_dtypes
def test_jax_maps_and_differentiates(dtype: str, jax: Any) -> None:
    call = jax_front("iiwa14", "aba", dtype=dtype, device="cuda")
    inputs = placed(jax, arrays("iiwa14", "aba", 6, 50, dtype=dtype))
    flat = [x.reshape(300, 7) for x in inputs]
    value = np.asarray(call(*flat)).reshape(6, 50, 7)
    assert np.array_equal(jax.vmap(call)(*inputs), value)
    assert np.array_equal(jax.jit(jax.vmap(jax.vmap(call)))(*inputs), value)
    shared = jax.vmap(call, in_axes=(0, None, 0))(inputs[0], inputs[1][0], inputs[2])
    every = [inputs[0], jax.numpy.broadcast_to(inputs[1][:1], (6, 50, 7)), inputs[2]]
    assert np.array_equal(shared, call(*every))

    def loss(*x: Any) -> Any:
        return (call(*x) ** 2).sum()

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*flat)
    _, *right = jax_pulled(jax, call, flat, 2 * call(*flat))
    single = jax.jit(jax.vmap(jax.grad(loss, argnums=(0, 1, 2))))(*flat)
    for gradient, alone, array in zip(gradients, single, right, strict=True):
        assert error(gradient, array) <= LIMITS[dtype]
        assert error(alone, array) <= LIMITS[dtype]


@both_dtypes
def test_jax_runs_several_functions_in_one_program(dtype: str, jax: Any, few: bool) -> None:
    rnea, aba, place = (
        jax_front("iiwa14", name, dtype=dtype, device="cuda")
        for name in ("rnea", "aba", "centre_of_mass")
    )

    @jax.jit
    def program(q: Any, qd: Any, tau: Any) -> Any:
        qdd = aba(q, qd, tau)
        slope = jax.grad(lambda x: (rnea(x, qd, qdd) * tau).sum())(q)
        return rnea(q, qd, qdd), place(q), slope, qdd

    for count in (16, 3000):
        inputs = placed(jax, arrays("iiwa14", "aba", count, dtype=dtype))
        first = [np.asarray(x) for x in program(*inputs)]
        assert error(first[0], inputs[2]) <= LIMITS[dtype]
        assert np.array_equal(first[3], aba(*inputs))
        for _ in range(3 if few else 50):
            again = program(*inputs)
            assert all(np.array_equal(x, y) for x, y in zip(again, first, strict=True))


def test_jax_memory_does_not_grow(jax: Any, few: bool) -> None:
    call = jax_front("iiwa14", "rnea", dtype="float64", device="cuda")
    inputs = placed(jax, arrays("iiwa14", "rnea", 500, dtype="float64"))
    pulled = jax.jit(lambda *x: jax_pulled(jax, call, x, x[0]))
    used = []
    for _ in range(5 if few else 200):
        jax.block_until_ready([call(*inputs), pulled(*inputs)])
        used.append(jax.devices("cuda")[0].memory_stats()["bytes_in_use"])
    assert used[-1] <= used[1]


@both_dtypes
def test_jax_computes_a_large_batch(dtype: str, jax: Any, few: bool) -> None:
    count, part = (300, 100) if few else (200_000, 1000)
    call = jax_front("iiwa14", "aba", dtype=dtype, device="cuda")
    inputs = placed(jax, arrays("iiwa14", "aba", count, dtype=dtype))
    value = np.asarray(call(*inputs))
    for first in (0, count // 2 + 1, count - part):
        rows = slice(first, first + part)
        assert np.array_equal(call(*(x[rows] for x in inputs)), value[rows])


@both_dtypes
def test_jax_gives_memory_between_several_kernels(
    dtype: str, jax: Any, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_ROOMS", SPLIT)
    # Without a kernel for small batches, every batch takes them.
    monkeypatch.setattr(cuda, "small_batches", lambda *_: None)
    assert len(cuda.source("two_link", "fd_derivatives", dtype=dtype).kernels) > 1
    call = jax_front("two_link", "aba", dtype=dtype, device="cuda")
    right = jax_front("two_link", "aba", dtype="float64", device="cpu")
    pulled = jax.jit(lambda *x: jax_pulled(jax, call, x, jax.numpy.ones_like(x[0])))
    for count in (1, 33, 300 if few else 100_000):
        inputs = arrays("two_link", "aba", count, dtype=dtype)
        on_host = placed(jax, inputs, "cpu", np.float64)
        expected = jax_pulled(jax, right, on_host, *placed(jax, [np.ones((count, 2))], "cpu"))
        assert error(call(*placed(jax, inputs)), expected[0]) <= LIMITS[dtype]
        for result, array in zip(pulled(*placed(jax, inputs)), expected, strict=True):
            assert error(result, array) <= LIMITS[dtype]


def test_jax_refuses_what_does_not_fit(jax: Any) -> None:
    call = jax_front("iiwa14", "aba", dtype="float32", device="cuda")
    q, qd, tau = placed(jax, arrays("iiwa14", "aba", 4, dtype="float32"))
    (away,) = placed(jax, [qd], "cpu")
    with pytest.raises(InputError, match=r"'qd' is on the device '.*': give arrays on a 'gpu'"):
        call(q, away, tau)
    with pytest.raises(InputError, match="'tau' has the dtype float64: give float32"):
        call(q, qd, tau.astype("float64"))
    with pytest.raises(InputError, match=r"'q' is on the device '.*': give arrays on a 'cpu'"):
        jax_front("iiwa14", "aba", dtype="float32", device="cpu")(q, qd, tau)
    assert call(*(x[:0] for x in (q, qd, tau))).shape == (0, 7)
    # Arrays of NumPy go to the device that JAX prefers, a GPU.
    assert np.array_equal(call(*map(np.asarray, (q, qd, tau))), call(q, qd, tau))


@both_dtypes
@both_functions
def test_both_frameworks_share_a_process_and_memory(
    name: str, dtype: str, torch: Any, jax: Any, few: bool
) -> None:
    in_torch = torch_front("iiwa14", name, dtype=dtype, device="cuda")
    in_jax = jax_front("iiwa14", name, dtype=dtype, device="cuda")
    for seed in range(2 if few else 20):
        for count in (16, 1000):
            inputs = arrays("iiwa14", name, count, dtype=dtype, seed=seed)
            tensors = sent(torch, inputs)
            lent = [jax.dlpack.from_dlpack(x) for x in tensors]
            result = in_jax(*lent)
            assert np.array_equal(result, in_jax(*placed(jax, inputs)))
            assert torch.equal(torch.from_dlpack(result), in_torch(*tensors))
