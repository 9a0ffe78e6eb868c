"""A compiled function on a GPU, for host arrays, computed in chunks, and for device arrays."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.base.amounts import amount
from pinion.batch import InputError, Result, by_name, validate_arrays
from pinion.batch.result import not_finite, written
from pinion.compute.arguments import check_inputs, check_out, flags_for
from pinion.functions import Function, arrays_of
from pinion.functions.requests import check_rotations, unit_vectors_of
from pinion.link import Array
from pinion.native import ComputeError
from pinion.robot import Model

from .cooperative import CooperativeSource
from .device import CudaDevice, CudaStream, Launch, Memory
from .threads import WARP, ThreadSource

CHUNK_BYTES = 8 << 20
"""Size of a chunk's requests and results in bytes; one is copied while another is computed."""

SMALL_BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
"""Batch sizes for measuring whether a block or a thread per sample is faster."""

DIRECT_BYTES = 1 << 20
"""Largest size of requests and results in bytes for which kernels use the host's pinned memory.

Measured on an H200: an iiwa14's gradient in float32 took 34, 40 and 53 us for 16, 128 and 1,024
samples, with two copies 54, 61 and 70, and with both in a CUDA graph 49, 60 and 76; 4,096 samples,
2 MB, took 86 by threads, 113 by blocks, and 93 with copies.
"""

_SMALLEST = 128  # samples of a chunk if memory is short
_LANES = 2  # chunks in flight
_FRAMES = 64  # sizes of chunks whose arrays are kept
_CUDA = 2  # kDLCUDA
_APART = 256  # bytes; arrays of a chunk begin at multiples of it


Crossover = tuple[int, int]
"""Smallest batches computed with one thread per sample: on the device, and in host memory."""


class DeviceArray:
    """An array in device memory, which other libraries can use without a copy.

    Members
    -------
    shape, dtype : as in NumPy.
    strides : in elements.
    device : index of the device.
    """

    def __init__(
        self,
        device: int,
        memory: Memory,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.device = device
        self._memory = memory

    @property
    def address(self) -> int:
        """Address of the first element on the device; 0 for an empty array."""
        return self._memory.address if prod(self.shape) else 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": tuple(self.dtype.itemsize * stride for stride in self.strides),
            "version": 3,
        }

    def __dlpack__(self, **options: Any) -> Any:
        buffer = getattr(self._memory, "buffer", None)
        if buffer is None:
            raise BufferError("The memory of this device does not support DLPack.")
        from cuda.core.utils import StridedMemoryView

        view = StridedMemoryView.from_buffer(buffer, self.shape, self.strides, dtype=self.dtype)
        return view.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.device

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray {self.shape} {self.dtype}>"


@dataclass(frozen=True)
class Placed:
    """Address of an array on the device, and the strides of its samples and elements."""

    address: int
    step: int
    apart: int
    samples: int | None  # None: one sample that serves all
    keeps: Any


@dataclass
class _Lent:
    """Device memory that belongs to the caller."""

    address: int
    size: int

    def close(self) -> None:
        """Do nothing: the caller frees it."""


class CudaKernel:
    """A compiled function of a robot on a GPU.

    Arrays are (n, ...) or (...). In the layout ``aos`` the elements of a sample are contiguous. In
    the layout ``soa`` arrays on the device may have any strides and the samples of results are
    contiguous; memory is accessed in whole lines if the inputs' samples are contiguous as well.

    Members
    -------
    model, function : its function and robot.
    source : its kernels with one thread per sample.
    small : the kernel with one block per sample for small batches, or None.
    crossover : smallest batch on the device that is computed with one thread per sample.
    direct_crossover : the same for batches that stay in the host's memory (`DIRECT_BYTES`).
    device : runs the kernels.
    finite : whether NaN and infinities in host arrays are refused.

    It may be called from several threads at once. Calls with host arrays take turns, since they
    share the memory for chunks; calls with arrays on the device share nothing.
    """

    # Many parameters: only `compile` calls it, with its options and its results.
    def __init__(
        self,
        *,
        model: Model,
        function: Function,
        source: ThreadSource,
        device: CudaDevice,
        finite: bool,
        small: CooperativeSource | None = None,
        crossover: Crossover | Callable[[Callable[[], Crossover]], Crossover] | None = None,
        check_rotations: bool = True,
    ) -> None:
        """Load the kernels on the device.

        Parameters
        ----------
        small : for the same function and dtype.
        crossover : both crossovers; a callable is passed the measurement and may return a cached
            result. None applies a rule instead of a measurement: four samples for every
            multiprocessor.
        check_rotations : whether to refuse quaternions, and planar joints' cosine and sine, in host
            arrays that are not of unit length within 1e-6.
        """
        self._rotations = unit_vectors_of(function.inputs, model) if check_rotations else {}
        self.model = model
        self.function = function
        self.source = source
        self.small = small
        self.device = device
        self.finite = finite
        self.dtype = np.dtype(source.dtype)
        self.inputs = arrays_of(function.inputs, model)
        self.results = arrays_of(function.results, model)
        self._loaded = [device.load(kernel.name, kernel.text) for kernel in source.kernels]
        self._loaded_small = None if small is None else device.load(small.name, small.text)
        self._lanes: list[_Lane] = []
        self._turn = threading.RLock()  # for calls that use the lanes
        self._streams = threading.local()  # for calls with arrays on the device
        if small is None:
            crossover = 0, 0
        elif crossover is None:
            crossover = (4 * device.multiprocessors,) * 2
        elif callable(crossover):
            crossover = crossover(self.measured)
        self.crossover, self.direct_crossover = crossover

    def __call__(
        self,
        /,
        *values: Any,
        out: Mapping[str, Any] | None = None,
        stream: Any = None,
        workspace: Any = None,
        **arrays: Any,
    ) -> Result:
        """Compute a batch from input arrays and return named result arrays.

        Parameters
        ----------
        values : inputs by position, in the order of `inputs`; the others by name.
        arrays : the inputs by name: all on the host (anything NumPy accepts), or all on the device
            (``__cuda_array_interface__`` or DLPack, of the kernel's dtype).
        out : arrays by the names of the results, which are written, or the `Result` of an earlier
            call, which is written and returned; on the device if the inputs are. By default new
            arrays.
        stream : for arrays on the device, an object with ``__cuda_stream__``: the work is queued
            there, and the call returns before it is done; new arrays of results, and memory between
            several kernels, are allocated in that stream and freed in its order. Keep the inputs
            until the work is done. By default the call waits.
        workspace : an array on the device, of `workspace_bytes` bytes for the batch, for data
            between several kernels; by default it is allocated if needed.

        Returns
        -------
        NumPy arrays, or :class:`DeviceArray` if the inputs are on the device. ``saturated`` says
        which results are not finite; for arrays on the device it is False without a check.

        Raises
        ------
        InputError
            If a name, a shape, a dtype or an output does not fit, arrays are in different
            memories, or a number of a host array is not finite.
        ComputeError
            If the device has too little memory even for a small chunk, or failed. After an error
            from which the driver does not recover, every later call reports that error.
        """
        arrays = by_name(self.inputs, values, arrays)
        on_device = [name for name, value in arrays.items() if is_on_a_device(value)]
        if on_device and len(on_device) < len(arrays):
            on_host = next(name for name in arrays if name not in on_device)
            raise InputError(
                f"'{on_device[0]}' is on a device, but '{on_host}' is in host memory: give all "
                "arrays on the device, or all in host memory."
            )
        if on_device:
            return self._on_device(arrays, out, stream, workspace)
        if stream is not None or workspace is not None:
            argument = "A workspace" if stream is None else "A stream"
            raise InputError(
                f"{argument} is for arrays on the device, but the inputs are in host memory: "
                "leave it out."
            )
        return self._from_host(arrays, out)

    # ---- Host arrays ----------------------------------------------------------------------------

    def _from_host(
        self, requests: Mapping[str, ArrayLike], out: Mapping[str, Any] | None
    ) -> Result:
        scalar = np.float32 if self.dtype == np.float32 else np.float64
        checked = validate_arrays(self.inputs, requests, dtype=scalar, finite=self.finite)
        check_rotations(self._rotations, checked.arrays, finite=self.finite)
        count = checked.count
        results = self._host_results(out, count, checked.single)
        sample = self.dtype.itemsize * sum(prod(a.shape) for a in (*self.inputs, *self.results))
        chunk = min(count, max(_SMALLEST, CHUNK_BYTES // sample // _SMALLEST * _SMALLEST))
        with self._turn:
            lanes = self._lanes_for(chunk) if count else []
            try:
                for k, start in enumerate(range(0, count, lanes[0].samples if lanes else 1)):
                    lane = lanes[k % len(lanes)]
                    lane.finish()
                    lane.start(start, min(lane.samples, count - start), checked.arrays, results)
                for lane in lanes:
                    lane.finish()
            except BaseException:
                # Nobody will fetch what is still in flight.
                self.close()
                raise
        flags = not_finite(results, count)
        if checked.single:
            flags = flags[0, ...]
            results = {name: array[0, ...] for name, array in results.items()}
        if out is not None:
            results = {a.name: out[a.name] for a in self.results}
            if (lent := flags_for(out, flags.shape)) is not None:
                lent[...] = flags
                flags = lent
        return written(out, results, flags)

    def _host_results(
        self, out: Mapping[str, Any] | None, count: int, single: bool
    ) -> dict[str, NDArray[Any]]:
        if out is None:
            return {a.name: np.empty((count, *a.shape), self.dtype) for a in self.results}
        check_out(out, self.results)
        results = {}
        for a in self.results:
            values = out[a.name]
            shape = a.shape if single else (count, *a.shape)
            if fault := _unsuitable(values, shape, self.dtype):
                raise InputError(
                    f"out['{a.name}'] is {fault}: give a writeable NumPy array of shape {shape} "
                    f"and dtype {self.dtype.name}."
                )
            results[a.name] = values[np.newaxis] if single else values
        return results

    def _lanes_for(self, samples: int) -> list[_Lane]:
        """Return lanes for chunks of `samples`, or for smaller chunks if memory is short."""
        if self._lanes and self._lanes[0].samples >= samples:
            return self._lanes
        self.close()
        while True:
            try:
                for _ in range(_LANES):
                    self._lanes.append(_Lane(self, samples))
                return self._lanes
            except BaseException as error:
                self.close()
                if not isinstance(error, MemoryError):
                    raise
                if samples <= _SMALLEST:
                    raise ComputeError(
                        f"{self.device.name} has no memory for {_LANES} chunks of "
                        f"{amount(samples, 'sample')} of '{self.function.name}', or the host "
                        "cannot pin more memory: free some memory of the device or the host."
                    ) from None
                samples = max(_SMALLEST, samples // 2)

    # ---- Arrays on the device -------------------------------------------------------------------

    def _on_device(
        self,
        requests: Mapping[str, Any],
        out: Mapping[str, Any] | None,
        stream: Any,
        workspace: Any,
    ) -> Result:
        check_inputs(requests, self.inputs)
        views = [self._view(a, requests[a.name], "is read") for a in self.inputs]
        lengths = {a.name: v.samples for a, v in zip(self.inputs, views, strict=True)}
        batched = {name: n for name, n in lengths.items() if n is not None}
        if len(set(batched.values())) > 1:
            listed = ", ".join(f"{name} has {n}" for name, n in batched.items())
            raise InputError(
                f"The arrays have different numbers of requests ({listed}): give the same number "
                "in each."
            )
        count = next(iter(batched.values()), 1)
        single = not batched
        queue = self._stream() if stream is None else self.device.stream(stream)
        results, targets = self._device_results(out, count, single, queue)
        self._check_apart(views, targets, count)
        lent = None if workspace is None else self._lent(workspace, count)
        if stream is None:
            self.device.wait()  # the requests may still be in computation
        if count:
            small = count < self.crossover and self._in_rows([*views, *targets], count)
            self._run(queue, count, [*views, *targets], lent, small=small)
        if stream is None:
            queue.wait()
        flags = np.zeros(() if single else (count,), dtype=np.bool_)
        return written(out, results, flags)

    def _stream(self) -> CudaStream:
        """Return this thread's stream, cached because creating one takes longer than using it."""
        stream: CudaStream | None = getattr(self._streams, "stream", None)
        if stream is None:
            stream = self._streams.stream = self.device.stream()
        return stream

    def _device_results(
        self, out: Mapping[str, Any] | None, count: int, single: bool, queue: CudaStream
    ) -> tuple[dict[str, Any], list[Placed]]:
        if out is not None:
            check_out(out, self.results)
        arrays: dict[str, Any] = {}
        targets = []
        for a in self.results:
            shape = a.shape if single else (count, *a.shape)
            if out is None:
                size = prod(shape) * self.dtype.itemsize
                memory = self._allocated(queue, size, f"the result '{a.name}'", count)
                arrays[a.name] = DeviceArray(
                    self.device.index, memory, shape, self._strides(a, shape), self.dtype
                )
            else:
                arrays[a.name] = out[a.name]
            view = self._view(a, arrays[a.name], "is written")
            if (1 if view.samples is None else view.samples) != count or (
                view.samples is None
            ) != single:
                raise InputError(
                    f"The array for the result '{a.name}' must have the shape {shape} to match "
                    f"the inputs, not {described(a.name, arrays[a.name])[0]}."
                )
            targets.append(view)
        return arrays, targets

    def _allocated(self, queue: CudaStream, size: int, purpose: str, count: int) -> Memory:
        """Allocate memory for a batch in stream order."""
        try:
            return queue.allocate(size)
        except MemoryError:
            raise ComputeError(
                f"{self.device.name} cannot allocate {size:,} bytes for {purpose} of a batch of "
                f"{amount(count, 'sample')}: give fewer samples at once, or free some of the "
                "device's memory."
            ) from None

    def _check_apart(self, views: Sequence[Placed], targets: Sequence[Placed], count: int) -> None:
        """Raise an error if a result overlaps another array."""

        def ends(array: Array, view: Placed) -> tuple[int, int]:
            far, across = (count - 1) * view.step, (prod(array.shape) - 1) * view.apart
            low, high = min(0, far) + min(0, across), max(0, far) + max(0, across) + 1
            size = self.dtype.itemsize
            return view.address + low * size, view.address + high * size

        if not count:
            return
        others = [(a, *ends(a, v)) for a, v in zip(self.inputs, views, strict=True)]
        for a, view in zip(self.results, targets, strict=True):
            begin, end = ends(a, view)
            for other, first, last in others:
                if begin < last and first < end:
                    raise InputError(
                        f"The array for the result '{a.name}' overlaps '{other.name}': give "
                        "a separate array."
                    )
            others.append((a, begin, end))

    def _strides(self, array: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the strides of a new array; its samples are contiguous in the layout ``soa``."""
        if self.source.layout == "aos" or len(shape) == len(array.shape):
            return contiguous(shape)
        count = max(1, shape[0])
        return (1, *(count * stride for stride in contiguous(array.shape)))

    def _view(self, array: Array, value: Any, verb: str) -> Placed:
        """Check a device array and return its address and strides."""
        shape, strides, address, dtype, device = described(array.name, value)
        if device is not None and device != self.device.index:
            raise InputError(
                f"'{array.name}' is on device {device}, but the kernel is on device "
                f"{self.device.index}: copy the array there."
            )
        if dtype != self.dtype:
            raise InputError(
                f"'{array.name}' {verb} as {self.dtype.name}, but is {dtype}: convert it on the "
                "device."
            )
        extra = len(shape) - len(array.shape)
        if extra not in (0, 1) or shape[extra:] != array.shape:
            raise InputError(
                f"'{array.name}' has the shape {shape}: give {array.shape} or (n,"
                f"{','.join(f' {axis}' for axis in array.shape)})."
            )
        apart = _one_distance(shape[extra:], strides[extra:])
        if apart is None or (self.source.layout == "aos" and apart != 1):
            raise InputError(
                f"The samples of '{array.name}' are not contiguous (strides {strides} elements): "
                "copy each to contiguous memory."
            )
        if extra == 0:
            return Placed(address, 0, apart, None, value)
        return Placed(address, strides[0], apart, shape[0], value)

    def _lent(self, workspace: Any, count: int) -> Memory:
        """Check the caller's workspace and return it."""
        shape, strides, address, dtype, device = described("workspace", workspace)
        size = prod(shape) * dtype.itemsize
        needed = self.workspace_bytes(count)
        if (
            device not in (None, self.device.index)
            or strides != contiguous(shape)
            or address % self.dtype.itemsize
            or size < needed
        ):
            where = "" if device is None else f" on device {device}"
            raise InputError(
                f"The workspace has {amount(size, 'byte')} at {address:#x}{where}: give "
                f"{amount(needed, 'byte')} for {amount(count, 'sample')}, contiguous and aligned "
                f"to {self.dtype.itemsize} bytes, on device {self.device.index}."
            )
        return _Lent(address, size)

    # ---- Both -----------------------------------------------------------------------------------

    def _run(
        self,
        stream: CudaStream,
        count: int,
        views: Sequence[Placed],
        workspace: Memory | None,
        *,
        small: bool,
    ) -> None:
        """Queue the kernels for a batch, with a block per sample if it is small."""
        if small:
            self._run_small(stream, count, views)
        else:
            self._run_threads(stream, count, views, workspace)

    def _in_rows(self, views: Sequence[Placed], count: int) -> bool:
        """Return whether all arrays are contiguous, as kernels with a block per sample need."""
        return all(
            view.apart == 1 and (count == 1 or view.step == prod(a.shape))
            for view, a in zip(views, (*self.inputs, *self.results), strict=True)
        )

    def _run_small(self, stream: CudaStream, count: int, views: Sequence[Placed]) -> None:
        assert self.small is not None
        launch = Launch(count, self.small.threads, self.small.shared_bytes)
        stream.launch(self._loaded_small, launch, [count, *(view.address for view in views)])

    def _run_threads(
        self, stream: CudaStream, count: int, views: Sequence[Placed], workspace: Memory | None
    ) -> None:
        args = [count]
        for view in views:
            args += [view.address, view.step, view.apart]
        allocated = None
        if self.source.workspace:
            if workspace is None:
                purpose = f"data between the kernels of '{self.function.name}'"
                workspace = self._allocated(stream, self.workspace_bytes(count), purpose, count)
                allocated = workspace
            args.append(workspace.address)
        try:
            for kernel, loaded in zip(self.source.kernels, self._loaded, strict=True):
                blocks = -(-count // kernel.threads)
                stream.launch(loaded, Launch(blocks, kernel.threads, kernel.shared_bytes), args)
        finally:
            if allocated is not None:
                allocated.close()  # takes effect in the stream's order

    def measured(self) -> Crossover:
        """Measure the batch sizes from which a thread per sample is faster than a block per sample.

        One size is for device memory, one for pinned host memory. Each is twice the largest of
        `SMALL_BATCHES` at which blocks are faster, which is half of the next one. Threads may be
        ahead for fewer samples than that: for 16 gradients of an iiwa14 an H200 takes 34 us by
        threads and 39 by blocks, for 128 of them 57 and 40, because accesses of threads are
        strided. Requests are zeros; the kernels take the same time for all numbers.
        """
        return self._measured(direct=False), self._measured(direct=True)

    def _measured(self, *, direct: bool) -> int:
        last = 0
        for count in SMALL_BATCHES:
            if direct and self._chunk_bytes(count) > DIRECT_BYTES:
                break
            try:
                blocks, threads = self._both_ways(count, direct=direct)
            except MemoryError:
                break
            if blocks < threads:
                last = count
        return 2 * last

    def _both_ways(self, count: int, *, direct: bool) -> tuple[float, float]:
        """Return the times of a batch [s] with a block per sample and with a thread per sample."""
        lane = _Lane(self, count)
        try:
            frame = lane.frame(count, (False,) * len(self.inputs), direct=direct)
            lane.sent[...] = 0
            lane.stream.upload(lane.requests, lane.sent)
            run = partial(self._run, lane.stream, count, frame.places, lane.workspace)
            blocks, threads = (
                _fastest(lane.stream, partial(run, small=small)) for small in (True, False)
            )
            return blocks, threads
        finally:
            lane.close()

    def _chunk_bytes(self, count: int) -> int:
        """Return the size of a chunk's requests and results in bytes."""
        return sum(_placed(x, count, self.dtype)[1] for x in (self.inputs, self.results))

    @property
    def loaded(self) -> tuple[Sequence[Any], Any]:
        """Loaded kernels of `source`, and the loaded kernel of `small` or None."""
        return self._loaded, self._loaded_small

    def workspace_bytes(self, count: int) -> int:
        """Return the size of a batch's workspace in bytes."""
        return -(-count // WARP) * WARP * self.source.workspace * self.dtype.itemsize

    def close(self) -> None:
        """Free the chunks' device memory as soon as no call in another thread uses it."""
        with self._turn:
            for lane in self._lanes:
                lane.close()
            self._lanes = []

    def __repr__(self) -> str:
        return (
            f"<CudaKernel {self.function.name} of {self.model.name}: {self.dtype.name}, "
            f"{self.source.layout}, {self.device.name}>"
        )


@dataclass(frozen=True, slots=True)
class _Frame:
    """The arrays of a chunk of a given size, in the memory of a lane.

    Members
    -------
    sent, fetched : arrays of inputs and results in pinned memory, (n, ...), inputs that serve all
        samples (1, ...).
    places : all of them, for kernels: on the device, or in pinned memory if the chunk is `direct`.
    sizes : sizes of requests and of results in bytes.
    rows : whether a block per sample can compute them: no input serves several.
    """

    sent: Sequence[NDArray[Any]]
    fetched: Sequence[NDArray[Any]]
    places: Sequence[Placed]
    sizes: tuple[int, int]
    direct: bool
    rows: bool


class _Lane:
    """A chunk in flight: memory of the device, pinned host memory and a stream.

    The arrays of a chunk follow each other, so that requests take one copy and results another:
    even a short copy takes a few microseconds. Small chunks are not copied: the device reads and
    writes the pinned memory.
    """

    def __init__(self, kernel: CudaKernel, samples: int) -> None:
        self.kernel = kernel
        self.samples = samples
        self.held: list[Memory] = []
        self.pending: tuple[int, _Frame, int, Mapping[str, NDArray[Any]]] | None = None
        self._frames: dict[tuple[int, tuple[bool, ...]], _Frame] = {}
        device = kernel.device
        self.stream = device.stream()
        sizes = [_placed(x, samples, kernel.dtype)[1] for x in (kernel.inputs, kernel.results)]
        try:
            self.requests, self.answers = map(self._allocate, sizes)
            self.workspace = (
                self._allocate(kernel.workspace_bytes(samples)) if kernel.source.workspace else None
            )
            self.sent, self.fetched = map(device.pinned, sizes)
        except BaseException:
            self.close()
            raise

    def _allocate(self, size: int) -> Memory:
        self.held.append(self.kernel.device.allocate(size))
        return self.held[-1]

    def frame(self, count: int, ones: tuple[bool, ...], *, direct: bool | None = None) -> _Frame:
        """Return the arrays of a chunk.

        Parameters
        ----------
        ones : whether each input has one sample that serves all.
        direct : whether kernels use the pinned memory; by default according to the chunk's size.
        """
        kernel = self.kernel
        sides = (
            (kernel.inputs, self.sent, self.requests),
            (kernel.results, self.fetched, self.answers),
        )
        if direct is None:
            direct = kernel._chunk_bytes(count) <= DIRECT_BYTES
        arrays: list[list[NDArray[Any]]] = []
        places: list[Placed] = []
        ends = []
        for described_arrays, pinned, memory in sides:
            begins, end = _placed(described_arrays, count, kernel.dtype)
            ends.append(end)
            arrays.append([])
            for k, (a, begin) in enumerate(zip(described_arrays, begins, strict=True)):
                shared = pinned is self.sent and ones[k]
                shape = (1 if shared else count, *a.shape)
                size = prod(shape) * kernel.dtype.itemsize
                arrays[-1].append(pinned[begin : begin + size].view(kernel.dtype).reshape(shape))
                address = (pinned.ctypes.data if direct else memory.address) + begin
                step = 0 if shared else prod(a.shape)
                places.append(Placed(address, step, 1, count, pinned if direct else memory))
        rows = count == 1 or not any(ones)
        return _Frame(arrays[0], arrays[1], places, (ends[0], ends[1]), direct, rows)

    def start(
        self,
        first: int,
        count: int,
        requests: Mapping[str, NDArray[Any]],
        results: Mapping[str, NDArray[Any]],
    ) -> None:
        """Queue the upload, computation and download of a chunk."""
        kernel = self.kernel
        inputs = [requests[a.name] for a in kernel.inputs]
        ones = tuple(
            values.ndim == len(a.shape) for a, values in zip(kernel.inputs, inputs, strict=True)
        )
        frame = self._frames.get((count, ones))
        if frame is None:
            if len(self._frames) >= _FRAMES:
                self._frames.clear()
            frame = self._frames[count, ones] = self.frame(count, ones)
        for array, values, shared in zip(frame.sent, inputs, ones, strict=True):
            array[...] = values if shared else values[first : first + count]
        self._queue(frame, count)
        self.pending = first, frame, count, results

    def _queue(self, frame: _Frame, count: int) -> None:
        """Queue the kernels of a chunk, and its copies."""
        kernel, stream = self.kernel, self.stream
        crossover = kernel.direct_crossover if frame.direct else kernel.crossover
        small = count < crossover and frame.rows
        if frame.direct:
            kernel._run(stream, count, frame.places, self.workspace, small=small)
            return
        stream.upload(self.requests, self.sent[: frame.sizes[0]])
        kernel._run(stream, count, frame.places, self.workspace, small=small)
        stream.download(self.fetched[: frame.sizes[1]], self.answers)

    def finish(self) -> None:
        """Wait for the chunk and copy its results to the output arrays."""
        if self.pending is None:
            return
        first, frame, count, results = self.pending
        self.pending = None
        self.stream.wait()
        for a, values in zip(self.kernel.results, frame.fetched, strict=True):
            results[a.name][first : first + count] = values

    def close(self) -> None:
        """Free the device's memory after the queued work."""
        with contextlib.suppress(ComputeError):
            self.stream.wait()
        for memory in self.held:
            with contextlib.suppress(ComputeError):  # a lost device takes nothing back
                memory.close()
        self.held = []


def _unsuitable(values: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Return why a result cannot be written to a caller's array, or ""."""
    if not isinstance(values, np.ndarray):
        return f"an object of type {type(values).__name__}, not a NumPy array"
    if values.shape != shape or values.dtype != dtype:
        return f"an array of shape {values.shape} and dtype {values.dtype.name}"
    return "" if values.flags.writeable else "read-only"


def _placed(arrays: Sequence[Array], count: int, dtype: np.dtype[Any]) -> tuple[list[int], int]:
    """Return the offset of each array of a chunk, and their total size, in bytes."""
    places, end = [], 0
    for a in arrays:
        places.append(end)
        end += -(-count * prod(a.shape) * dtype.itemsize // _APART) * _APART
    return places, end


def _fastest(stream: CudaStream, run: Callable[[], None]) -> float:
    """Return the time of the fastest of a few runs [s], ignoring the first."""
    best = float("inf")
    for k in range(6):
        stream.wait()
        start = time.perf_counter()
        run()
        stream.wait()
        if k:
            best = min(best, time.perf_counter() - start)
    return best


def is_on_a_device(value: Any) -> bool:
    """Return whether a value is a device array, according to its array protocols."""
    if type(value) is DeviceArray:
        return True
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return hasattr(value, "__cuda_array_interface__")
    # DLPack: 1 is host memory, 3 is pinned host memory.
    return int(value.__dlpack_device__()[0]) not in (1, 3)


def described(
    name: str, value: Any
) -> tuple[tuple[int, ...], tuple[int, ...], int, np.dtype[Any], int | None]:
    """Return the shape, strides in elements, address, dtype and device of a device array."""
    if type(value) is DeviceArray:
        return value.shape, value.strides, value.address, value.dtype, value.device
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except RuntimeError as error:  # from PyTorch, for a tensor that takes part in a gradient
        raise InputError(
            f"The memory of '{name}' cannot be read ({error}): pass a tensor without a gradient."
        ) from None
    if interface is not None:
        shape = tuple(map(int, interface["shape"]))
        dtype = np.dtype(interface["typestr"])
        byte_strides = interface.get("strides")
        strides = (
            contiguous(shape)
            if byte_strides is None
            else tuple(int(s) // dtype.itemsize for s in byte_strides)
        )
        device = None
        if hasattr(value, "__dlpack_device__"):
            device = int(value.__dlpack_device__()[1])
        return shape, strides, int(interface["data"][0]), dtype, device
    from cuda.core.utils import StridedMemoryView

    try:
        view = StridedMemoryView.from_dlpack(value, stream_ptr=-1)
    except Exception as error:
        reason = str(error).rstrip(".")
        raise InputError(
            f"'{name}' cannot be read as an array of a CUDA device: {reason}."
        ) from None
    shape = tuple(map(int, view.shape))
    strides = contiguous(shape) if view.strides is None else tuple(map(int, view.strides))
    return shape, strides, int(view.ptr), np.dtype(view.dtype), int(view.device_id)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides in elements of a C-contiguous array."""
    strides, size = [], 1
    for axis in reversed(shape):
        strides.append(size)
        size *= axis
    return tuple(reversed(strides))


def _one_distance(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Return the distance between successive elements in C order, or None if it varies."""
    apart, size = None, 1
    for axis, stride in zip(reversed(shape), reversed(strides), strict=True):
        if axis == 1:
            continue
        if apart is None:
            apart = stride
        elif stride != apart * size:
            return None
        size *= axis
    return 1 if apart is None else apart
