"""PyTorch on a device that is simulated by a processor.

PyTorch's own streams and allocator and the driver do not run. Tests keep memory that their kernels
still use; on a GPU the order of the stream does that. Takes 20 seconds.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.compute import cuda
from pinion.compute.cuda import kernel as kernels
from pinion.compute.cuda import threads
from pinion.compute.cuda.parts import Room
from tests.support.cuda_device import HostDevice, HostStream
from tests.support.cuda_host import HostKernels
from tests.support.jacobians import KERNELS, Jacobians

if importlib.util.find_spec("torch") is None:
    pytest.skip("PyTorch is not installed", allow_module_level=True)
if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
    pytest.skip("no C++ compiler on this machine", allow_module_level=True)

import torch

from pinion.compute.frameworks import torch as front
from pinion.compute.frameworks.torch import TorchGpu, dynamics

CPU = torch.device("cpu")


class Player(HostDevice):
    """A device that compiles each text once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._compiled: dict[str, HostKernels] = {}

    def load(self, name: str, text: str) -> tuple[str, HostKernels]:
        if text not in self._compiled:
            self._compiled[text] = super().load(name, text)[1]
        return name, self._compiled[text]


class AtOnce(HostStream):
    """A stream that executes work immediately."""

    def launch(self, *args: Any) -> None:
        super().launch(*args)
        self.wait()


class Handed:
    """A tensor with the protocols of one on a GPU."""

    def __init__(self, tensor: torch.Tensor) -> None:
        assert not tensor.requires_grad
        self.tensor = tensor

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dict(self.tensor.numpy().__array_interface__)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class Played:
    """A card, and its calls.

    Members
    -------
    card : for `dynamics`.
    queue : PyTorch's current stream.
    handed : every tensor that a kernel got.
    """

    def __init__(self, gpu: HostDevice, device: torch.device = CPU, kind: Any = HostStream) -> None:
        self.gpu = gpu
        self.queue = kind(gpu)
        self.handed: list[torch.Tensor] = []
        self.current = 0
        self.card = TorchGpu(
            device=device,
            gpu=gpu,
            current=self._current,
            stream=self._stream,
            handed=self._hand,
        )

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        self.current += 1
        yield
        self.current -= 1

    def _stream(self) -> HostStream:
        assert self.current == 1  # called with its device current
        return self.queue

    def _hand(self, tensor: torch.Tensor) -> Handed:
        self.handed.append(tensor)
        return Handed(tensor)


@pytest.fixture(scope="module", autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a separate cache, no measurement of crossovers, and new memory of NaN."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(kernels, "_fastest", lambda stream, run: 1.0)
        torch.use_deterministic_algorithms(True)
        assert torch.utils.deterministic.fill_uninitialized_memory
        yield
        torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Player:
    return Player(tmp_path_factory.mktemp("kernels"))


def random_inputs(*shape: int, seed: int = 3, dtype: Any = torch.float64) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    return [(torch.rand(*shape) - 0.5).to(dtype) for _ in range(3)]


def close(values: Any, right: Any, limit: float = 1e-12) -> bool:
    values, right = np.asarray(values), np.asarray(right)
    return bool(values.shape == right.shape and np.max(np.abs(values - right)) <= limit)


@pytest.mark.parametrize("name", list(KERNELS))
def test_a_value_and_its_gradient_wait_for_nothing(gpu: Player, name: str) -> None:
    played, right = Played(gpu), Jacobians("two_link", name)
    call = dynamics("two_link", name, device=played.card)
    inputs = random_inputs(2, 3, 2)
    flat = [x.reshape(6, 2).numpy() for x in inputs]
    gpu.launches.clear()
    plain = call(*inputs)
    assert torch.isnan(plain).all()  # queued, not yet executed
    played.queue.wait()
    assert close(plain, right.value(*flat).reshape(2, 3, 2))
    assert gpu.launches == [(name, 6)]

    leaves = [x.clone().requires_grad_(k != 1) for k, x in enumerate(inputs)]
    gpu.launches.clear()
    value = call(*leaves)
    assert torch.isnan(value).all() and gpu.used == 0
    played.queue.wait()
    expected, jacobians = right.linear(*flat)
    assert close(value.detach(), expected.reshape(2, 3, 2))
    assert [kernel for kernel, _ in gpu.launches] == [launched for launched, _ in KERNELS[name]]
    # The needed Jacobians stay where the kernel wrote them, the other is not kept.
    saved = [tensor for tensor in value.grad_fn.saved_tensors if tensor.shape[-2:] == (2, 2)]
    written = {tensor.data_ptr() for tensor in played.handed}
    assert len(saved) == 2 and {tensor.data_ptr() for tensor in saved} < written

    above = torch.rand(2, 3, 2, dtype=torch.float64)
    gpu.launches.clear()
    value.backward(above)
    assert gpu.launches == [] and leaves[1].grad is None
    for k in (0, 2):
        product = np.einsum("ni,nij->nj", above.reshape(6, 2).numpy(), jacobians[k])
        assert close(leaves[k].grad, product.reshape(2, 3, 2))


@pytest.mark.parametrize("name", list(KERNELS))
def test_torch_checks_the_gradient_of_the_device(gpu: Player, name: str) -> None:
    call = dynamics("two_link", name, device=Played(gpu, kind=AtOnce).card)
    assert torch.autograd.gradcheck(call, [x.requires_grad_() for x in random_inputs(3, 2)])


def test_slices_negatives_one_sample_and_none(gpu: Player) -> None:
    played, right = Played(gpu, kind=AtOnce), Jacobians("two_link", "aba")
    call = dynamics("two_link", "aba", device=played.card)
    wide = torch.rand(5, 4, dtype=torch.float64)
    negative = torch.view_as_complex(torch.rand(5, 2, 2, dtype=torch.float64)).conj().imag
    assert negative.is_neg()
    tensors = [wide[:, :2], wide[:, 2:], negative]
    for device in (played.card, "cpu"):
        result = dynamics("two_link", "aba", device=device)(*tensors)
        assert close(result, right.value(*(x.resolve_neg().numpy() for x in tensors)))
    single = [x[0] for x in tensors]
    assert close(call(*single), right.value(*(x.resolve_neg().numpy() for x in single)))
    none = call(*(x[:0].clone().requires_grad_() for x in tensors))
    assert none.shape == (0, 2)
    none.sum().backward()


def test_what_passes_between_kernels_is_the_memory_of_torch(
    monkeypatch: pytest.MonkeyPatch, gpu: Player
) -> None:
    monkeypatch.setattr(threads, "_ROOMS", {"float64": Room(plain=10, registers=8, slots=4)})
    played = Played(gpu)
    call = dynamics("two_link", "aba", device=played.card)
    inputs = random_inputs(40, 2)
    gpu.launches.clear()
    result = call(inputs[0].clone().requires_grad_(), *inputs[1:]).detach()
    # The device allocated nothing, and nothing waited.
    assert len(gpu.launches) == 3 and gpu.used == 0 and torch.isnan(result).all()
    assert sum(tensor.dtype == torch.uint8 for tensor in played.handed) == 1
    played.queue.wait()
    assert close(result, Jacobians("two_link", "aba").value(*(x.numpy() for x in inputs)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({1: {"device": "cpu"}}, r"'qd' is on the device 'cpu': give tensors on 'cuda:0'"),
        ({2: {"device": "cuda:1"}}, r"'tau' is on the device 'cuda:1': give tensors on 'cuda:0'"),
        ({0: {"dtype": torch.float64}}, r"'q' has the dtype torch\.float64: give torch\.float32"),
        ({1: {"size": (3, 2)}}, r"'qd' has the shape \(3, 2\): give \(\.\.\., 2\), with the same"),
    ],
)
def test_what_is_refused(gpu: Player, change: dict[int, Any], message: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    played = Played(gpu, torch.device("cuda", 0))
    call = dynamics("two_link", "aba", dtype="float32", device=played.card)
    gpu.launches.clear()
    with FakeTensorMode():  # tensors without memory, on devices that this machine lacks
        tensors = [
            torch.empty(**{"size": (4, 2), "device": "cuda:0"} | change.get(k, {}))
            for k in range(3)
        ]
        with pytest.raises(InputError, match=message):
            call(*tensors)
    assert gpu.launches == [] and played.handed == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda", "'cuda' cannot be used"),
        ("meta", "'meta' cannot be used"),
        ("gpu", "Unknown device 'gpu': use 'cpu', 'cuda' or 'cuda:N'"),
    ],
)
def test_without_a_gpu_a_sentence_says_what_to_take(device: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        dynamics("two_link", "aba", device=device)


@pytest.mark.parametrize(("handle", "number"), [(0, 1), (0x5000, 0x5000)])
def test_the_current_stream_of_the_named_device_is_taken(
    monkeypatch: pytest.MonkeyPatch, gpu: Player, handle: int, number: int
) -> None:
    indices: list[Any] = []

    def current_stream(device: Any) -> Any:
        indices.append(device)
        return SimpleNamespace(cuda_stream=handle)

    opened: Callable[..., Any] = lambda index, cache: indices.append(index) or gpu  # noqa: E731
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_stream", current_stream)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(cuda, "open_gpu", opened)
    for device, index in (("cuda", 2), ("cuda:1", 1)):
        place = front._placed(device, None)
        assert isinstance(place, TorchGpu) and place.device == torch.device("cuda", index)
        # The legacy default stream has a separate number, since 0 may also mean none.
        assert place.stream().__cuda_stream__() == (0, number)
        assert indices == [index, place.device]
        indices.clear()
