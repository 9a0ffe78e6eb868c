"""A function on a device: batches from the host in chunks, or arrays that are on it already."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.batch import InputError, Result, by_name, validate_arrays
from pinion.batch.result import not_finite, written
from pinion.functions import Function, arrays_of
from pinion.functions.requests import check_rotations, rotations_of
from pinion.link import Array
from pinion.native.errors import ComputeError
from pinion.robot import Model

from ..arguments import check_out, flags_for
from .cooperative import CooperativeSource
from .device import Device, Launch, Memory, Recorded, Stream
from .threads import WARP, ThreadSource

CHUNK_BYTES = 8 << 20
"""Of requests and results that travel at once; while one chunk is computed, the next one comes and
the last one goes."""

SMALL_BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
"""Samples of the batches with which it is measured what is faster, a block or a thread a sample."""

GRAPH_SAMPLES = 4096
"""Samples of the largest batches of the host that are queued as a graph; of the time of larger ones
the calls of the driver are a small part."""

_SMALLEST = 128  # samples of a chunk, when memory is short
_LANES = 2  # chunks under way
_GRAPHS = 16  # that are kept, of the sizes that came last
_CUDA = 2  # kDLCUDA
_APART = 256  # bytes; arrays of a chunk begin at multiples of it


class DeviceArray:
    """An array in a device's memory, which other libraries take without a copy.

    Members
    -------
    shape, dtype : as NumPy's.
    strides : in elements.
    device : its index.
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
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._memory.address if prod(self.shape) else 0, False),
            "strides": tuple(self.dtype.itemsize * stride for stride in self.strides),
            "version": 3,
        }

    def __dlpack__(self, **options: Any) -> Any:
        buffer = getattr(self._memory, "buffer", None)
        if buffer is None:
            raise BufferError("The memory of this device does not travel by DLPack.")
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
    """An array on the device: where it is, and how far apart its samples and elements are."""

    address: int
    step: int
    apart: int
    samples: int | None  # None: one sample that serves all
    keeps: Any


@dataclass
class _Lent:
    """Memory of the device that is the caller's."""

    address: int
    size: int

    def close(self) -> None:
        """The caller gives it back."""


class CudaKernel:
    """A function of a robot on a device.

    Arrays are (n, ...) or (...). Of the layout ``aos``, elements of a sample follow each other; of
    the layout ``soa``, arrays on the device may have any strides, results have samples next to each
    other, and memory is read and written in whole lines when the inputs have so too.

    Members
    -------
    model, function : what it computes.
    source : its kernels, in which a thread computes a sample.
    small : the kernel for small batches, in which a block computes a sample, or None.
    crossover : batches of as many samples or more are computed by threads.
    device : where they run.
    finite : whether NaN and infinities in arrays of the host are refused.
    graphs : whether a batch of the host of a size that comes back is queued as a CUDA graph: its
        copies and kernels are recorded the second time, and from then on start in one call.

    It may be called from several threads at once. Calls with arrays of the host take turns, since
    they share the memory that chunks pass through; calls with arrays on the device share nothing.
    """

    # Many parameters: made in one place, of what `compile` was asked and has made.
    def __init__(
        self,
        *,
        model: Model,
        function: Function,
        source: ThreadSource,
        device: Device,
        finite: bool,
        small: CooperativeSource | None = None,
        crossover: int | Callable[[Callable[[], int]], int] | None = None,
        graphs: bool = True,
        check_rotations: bool = True,
    ) -> None:
        """Load the kernels.

        Parameters
        ----------
        small : of the same function and dtype.
        crossover : see the class; a callable gets what measures it, and may know it already. None:
            as many as four blocks of every multiprocessor compute at once, which is a rule and no
            measurement.
        check_rotations : whether quaternions, and planar joints' cosine and sine, in arrays of the
            host are refused that are not of unit length within 1e-6.
        """
        self._rotations = rotations_of(function.inputs, model) if check_rotations else {}
        self.model = model
        self.function = function
        self.source = source
        self.small = small
        self.device = device
        self.finite = finite
        self.graphs = graphs
        self.dtype = np.dtype(source.dtype)
        self.inputs = arrays_of(function.inputs, model)
        self.results = arrays_of(function.results, model)
        self._loaded = [device.load(kernel.name, kernel.text) for kernel in source.kernels]
        self._loaded_small = None if small is None else device.load(small.name, small.text)
        self._lanes: list[_Lane] = []
        self._turn = threading.RLock()  # of calls that use the lanes
        self.crossover = 0
        if small is not None and crossover is None:
            self.crossover = 4 * device.multiprocessors
        elif small is not None:
            assert crossover is not None
            self.crossover = crossover if isinstance(crossover, int) else crossover(self.measured)

    def __call__(
        self,
        /,
        *values: Any,
        out: Mapping[str, Any] | None = None,
        stream: Any = None,
        workspace: Any = None,
        **arrays: Any,
    ) -> Result:
        """Compute a batch.

        Parameters
        ----------
        values : inputs by position, in the order of `inputs`; the others go by name.
        arrays : the inputs by name: all of the host (anything NumPy takes), or all on the device
            (``__cuda_array_interface__`` or DLPack, of the kernel's dtype).
        out : arrays by the names of the results, which are written, or the `Result` of an earlier
            call, which is written and returned; on the device where the inputs are. By default new
            ones.
        stream : for arrays on the device, an object with ``__cuda_stream__``: the work is queued
            there, and the call returns before it is done; new arrays of results, and what is
            between several kernels, are allocated in that stream and given back in its order. Keep
            the inputs until it is done. By default the call waits.
        workspace : an array of bytes on the device, `workspace_bytes` of the batch, for what passes
            between several kernels; by default a function of several kernels takes its own.

        Returns
        -------
        NumPy arrays, or :class:`DeviceArray` where the inputs are on the device. ``saturated`` says
        which results are not finite; those on the device are not looked at, and it is False.

        Raises
        ------
        InputError
            When a name, a shape, a dtype or an output does not fit, arrays are in different places,
            or a number of the host's is not finite.
        ComputeError
            When the device has no memory left for even a small chunk, or failed. After an error
            that the driver does not recover from, every later call says so.
        """
        arrays = by_name(self.inputs, values, arrays)
        on_device = [name for name, value in arrays.items() if is_on_a_device(value)]
        if on_device and len(on_device) < len(arrays):
            on_host = next(name for name in arrays if name not in on_device)
            raise InputError(
                f"'{on_device[0]}' is on a device and '{on_host}' is in the host's memory: give all in "
                "one place."
            )
        if on_device:
            return self._on_device(arrays, out, stream, workspace)
        if stream is not None or workspace is not None:
            argument = "A workspace" if stream is None else "A stream"
            raise InputError(f"{argument} is for arrays on the device; these are the host's.")
        return self._from_host(arrays, out, graphs=self.graphs)

    # ---- Arrays of the host ---------------------------------------------------------------------

    def _from_host(
        self, requests: Mapping[str, ArrayLike], out: Mapping[str, Any] | None, *, graphs: bool
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
                    several = count > min(lane.samples, GRAPH_SAMPLES)
                    lane.start(
                        start,
                        min(lane.samples, count - start),
                        checked.arrays,
                        results,
                        graphs=graphs and not several,
                    )
                for lane in lanes:
                    lane.finish()
            except BaseException:
                # What is still under way belongs to nobody any more.
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
            if (
                not isinstance(values, np.ndarray)
                or values.shape != shape
                or values.dtype != self.dtype
                or not values.flags.writeable
            ):
                raise InputError(
                    f"The result '{a.name}' is written to an array of the host that is writeable, "
                    f"{shape} of {self.dtype.name}."
                )
            results[a.name] = values[np.newaxis] if single else values
        return results

    def _lanes_for(self, samples: int) -> list[_Lane]:
        """Lanes whose chunks have as many samples, or as many as there is memory for."""
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
                        f"{self.device.name} has no memory for {_LANES} chunks of {samples} "
                        f"samples of '{self.function.name}', or the host has none to pin: free "
                        "some of it."
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
        names = [a.name for a in self.inputs]
        for name in requests:
            if name not in names:
                raise InputError(
                    f"There is no input array '{name}'; the inputs are {', '.join(names)}."
                )
        views = []
        for a in self.inputs:
            if a.name not in requests:
                raise InputError(f"The input array '{a.name}' is missing; give {', '.join(names)}.")
            views.append(self._view(a, requests[a.name], "is read"))
        lengths = {a.name: v.samples for a, v in zip(self.inputs, views, strict=True)}
        batched = {name: n for name, n in lengths.items() if n is not None}
        if len(set(batched.values())) > 1:
            listed = ", ".join(f"{name} has {n}" for name, n in batched.items())
            raise InputError(f"The arrays hold different numbers of requests ({listed}).")
        count = next(iter(batched.values()), 1)
        single = not batched
        queue = self.device.stream(stream)
        results, targets = self._device_results(out, count, single, queue)
        self._check_apart(views, targets, count)
        lent = None if workspace is None else self._lent(workspace, count)
        if stream is None:
            self.device.wait()  # whoever makes the requests may not be done
        if count:
            self._run(queue, count, [*views, *targets], lent)
        if stream is None:
            queue.wait()
        flags = np.zeros(() if single else (count,), dtype=np.bool_)
        return written(out, results, flags)

    def _device_results(
        self, out: Mapping[str, Any] | None, count: int, single: bool, queue: Stream
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
                    f"The array for the result '{a.name}' has no shape {shape}, as the others have."
                )
            targets.append(view)
        return arrays, targets

    def _allocated(self, queue: Stream, size: int, purpose: str, count: int) -> Memory:
        """Memory of a stream for something of a batch."""
        try:
            return queue.allocate(size)
        except MemoryError:
            raise ComputeError(
                f"{self.device.name} has no {size:,} bytes left for {purpose} of {count:,} samples: "
                "give fewer at once, or free some of its memory."
            ) from None

    def _check_apart(self, views: Sequence[Placed], targets: Sequence[Placed], count: int) -> None:
        """That no result is written where something else is."""

        def ends(array: Array, view: Placed) -> tuple[int, int]:
            far = [(count - 1) * view.step, (prod(array.shape) - 1) * view.apart]
            low, high = sum(min(0, f) for f in far), sum(max(0, f) for f in far) + 1
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
                        f"The array for the result '{a.name}' overlaps '{other.name}': give memory "
                        "of its own."
                    )
            others.append((a, begin, end))

    def _strides(self, array: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Of a new array: samples next to each other where the layout is ``soa``."""
        if self.source.layout == "aos" or len(shape) == len(array.shape):
            return contiguous(shape)
        count = max(1, shape[0])
        return (1, *(count * stride for stride in contiguous(array.shape)))

    def _view(self, array: Array, value: Any, verb: str) -> Placed:
        """Where an array is, checked."""
        shape, strides, address, dtype, device = described(array.name, value)
        if device is not None and device != self.device.index:
            raise InputError(
                f"'{array.name}' is on the device {device}, and the kernel on {self.device.index}: "
                "copy it there."
            )
        if dtype != self.dtype:
            raise InputError(
                f"'{array.name}' {verb} as {self.dtype.name} and is {dtype}: convert it on the "
                "device."
            )
        extra = len(shape) - len(array.shape)
        if extra not in (0, 1) or shape[extra:] != array.shape:
            raise InputError(
                f"'{array.name}' has the shape {shape}: give {array.shape} or (n, "
                f"{', '.join(map(str, array.shape))})."
            )
        apart = _one_distance(shape[extra:], strides[extra:])
        if apart is None or (self.source.layout == "aos" and apart != 1):
            raise InputError(
                f"'{array.name}' {verb} with the elements of a sample next to each other: make it "
                "contiguous."
            )
        if extra == 0:
            return Placed(address, 0, apart, None, value)
        return Placed(address, strides[0], apart, shape[0], value)

    def _lent(self, workspace: Any, count: int) -> Memory:
        """Where the caller's workspace is, checked."""
        shape, strides, address, dtype, device = described("workspace", workspace)
        size = prod(shape) * dtype.itemsize
        needed = self.workspace_bytes(count)
        if (
            device not in (None, self.device.index)
            or strides != contiguous(shape)
            or address % self.dtype.itemsize
            or size < needed
        ):
            raise InputError(
                f"The workspace has {size:,} bytes at {address:#x} on the device {device}: give "
                f"{needed:,} bytes for {count:,} samples, contiguous and aligned to "
                f"{self.dtype.itemsize}, on the device {self.device.index}."
            )
        return _Lent(address, size)

    # ---- Both -----------------------------------------------------------------------------------

    def _run(
        self, stream: Stream, count: int, views: Sequence[Placed], workspace: Memory | None
    ) -> None:
        """Queue the kernels of one way."""
        if count < self.crossover and self._in_rows(views, count):
            self._run_small(stream, count, views)
        else:
            self._run_threads(stream, count, views, workspace)

    def _in_rows(self, views: Sequence[Placed], count: int) -> bool:
        """Whether all arrays are as a block reads them: sample after sample, none left out."""
        return all(
            view.apart == 1 and (count == 1 or view.step == prod(a.shape))
            for view, a in zip(views, (*self.inputs, *self.results), strict=True)
        )

    def _run_small(self, stream: Stream, count: int, views: Sequence[Placed]) -> None:
        assert self.small is not None
        launch = Launch(count, self.small.threads, self.small.shared_bytes)
        stream.launch(self._loaded_small, launch, [count, *(view.address for view in views)])

    def _run_threads(
        self, stream: Stream, count: int, views: Sequence[Placed], workspace: Memory | None
    ) -> None:
        args = [count]
        for view in views:
            args += [view.address, view.step, view.apart]
        allocated = None
        if self.source.workspace:
            if workspace is None:
                purpose = f"what passes between the kernels of '{self.function.name}'"
                workspace = self._allocated(stream, self.workspace_bytes(count), purpose, count)
                allocated = workspace
            args.append(workspace.address)
        try:
            for kernel, loaded in zip(self.source.kernels, self._loaded, strict=True):
                blocks = -(-count // kernel.threads)
                stream.launch(loaded, Launch(blocks, kernel.threads, kernel.shared_bytes), args)
        finally:
            if allocated is not None:
                allocated.close()  # when the stream has come so far

    def measured(self) -> int:
        """The crossover of this device: twice the largest of `SMALL_BATCHES` up to which blocks are
        faster, which is half of the next one.

        Requests are zeros; the kernels take the same time for all numbers.
        """
        last = 0
        for count in SMALL_BATCHES:
            try:
                blocks, threads = self._both_ways(count)
            except MemoryError:
                break
            if blocks >= threads:
                break
            last = count
        return 2 * last

    def _both_ways(self, count: int) -> tuple[float, float]:
        """Seconds of a batch that blocks compute, and of one that threads do."""
        lane = _Lane(self, count)
        try:
            views = lane.views(count, [False] * len(self.inputs))
            lane.sent[...] = 0
            lane.stream.upload(lane.requests, lane.sent)
            return (
                _fastest(lane.stream, lambda: self._run_small(lane.stream, count, views)),
                _fastest(
                    lane.stream,
                    lambda: self._run_threads(lane.stream, count, views, lane.workspace),
                ),
            )
        finally:
            lane.close()

    @property
    def loaded(self) -> tuple[Sequence[Any], Any]:
        """What the device's `load` gave for the kernels of `source`, and for `small` or None."""
        return self._loaded, self._loaded_small

    def workspace_bytes(self, count: int) -> int:
        """Bytes between the kernels of a batch."""
        return -(-count // WARP) * WARP * self.source.workspace * self.dtype.itemsize

    def close(self) -> None:
        """Give the device's memory back, when no other thread's call uses it any more."""
        with self._turn:
            for lane in self._lanes:
                lane.close()
            self._lanes = []

    def __repr__(self) -> str:
        return (
            f"<CudaKernel {self.function.name} of {self.model.name}: {self.dtype.name}, "
            f"{self.source.layout}, {self.device.name}>"
        )


class _Lane:
    """A chunk under way: memory of the device, pinned memory of the host, and a stream.

    The arrays of a chunk follow each other, so that requests travel in one copy and results in
    another: a copy takes some microseconds, however short it is.
    """

    def __init__(self, kernel: CudaKernel, samples: int) -> None:
        self.kernel = kernel
        self.samples = samples
        self.held: list[Memory] = []
        self.graphs: dict[tuple[int, tuple[bool, ...]], Recorded | None] = {}
        self.pending: tuple[int, int, Mapping[str, NDArray[Any]]] | None = None
        device = kernel.device
        self.stream = device.stream()
        sizes = [self._placed(arrays, samples)[1] for arrays in (kernel.inputs, kernel.results)]
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

    def _placed(self, arrays: Sequence[Array], count: int) -> tuple[list[int], int]:
        """Where each array of a chunk begins, in bytes, and where the last one ends."""
        places, end = [], 0
        for a in arrays:
            places.append(end)
            size = count * prod(a.shape) * self.kernel.dtype.itemsize
            end += -(-size // _APART) * _APART
        return places, end

    def views(self, count: int, ones: Sequence[bool]) -> list[Placed]:
        """The arrays of a chunk on the device.

        Parameters
        ----------
        ones : for each input whether one sample serves all.
        """
        kernel = self.kernel
        places = []
        for arrays, memory in ((kernel.inputs, self.requests), (kernel.results, self.answers)):
            for k, (a, place) in enumerate(
                zip(arrays, self._placed(arrays, count)[0], strict=True)
            ):
                shared = arrays is kernel.inputs and ones[k]
                step = 0 if shared else prod(a.shape)
                places.append(Placed(memory.address + place, step, 1, count, memory))
        return places

    def start(
        self,
        first: int,
        count: int,
        requests: Mapping[str, NDArray[Any]],
        results: Mapping[str, NDArray[Any]],
        *,
        graphs: bool,
    ) -> None:
        """Send a chunk, compute it and fetch its results, all of it queued.

        Parameters
        ----------
        graphs : whether a size that comes back is queued as a graph.
        """
        kernel = self.kernel
        places, _ = self._placed(kernel.inputs, count)
        ones = []
        for a, place in zip(kernel.inputs, places, strict=True):
            values = requests[a.name]
            ones.append(values.ndim == len(a.shape))
            rows = values[np.newaxis] if ones[-1] else values[first : first + count]
            size = rows.size * kernel.dtype.itemsize
            self.sent[place : place + size].view(kernel.dtype).reshape(rows.shape)[...] = rows
        if graphs:
            self._replay(count, tuple(ones))
        else:
            self._queue(self.stream, count, ones)
        self.pending = first, count, results

    def _queue(self, stream: Stream, count: int, ones: Sequence[bool]) -> None:
        """Queue the copies and kernels of a chunk."""
        kernel = self.kernel
        sent, fetched = (self._placed(x, count)[1] for x in (kernel.inputs, kernel.results))
        stream.upload(self.requests, self.sent[:sent])
        kernel._run(stream, count, self.views(count, ones), self.workspace)
        stream.download(self.fetched[:fetched], self.answers)

    def _replay(self, count: int, ones: tuple[bool, ...]) -> None:
        """Queue a chunk as a graph where one is kept, and record it when it comes a second time.

        The first time it is not worth it; and a kernel is loaded when it starts first, which a
        stream that is recorded may not take.
        """
        key = count, ones
        if key not in self.graphs:
            self._queue(self.stream, count, ones)
            self.graphs[key] = None
        else:
            graph = self.graphs.pop(key) or self.stream.record(
                lambda stream: self._queue(stream, count, ones)
            )
            self.graphs[key] = graph  # the last one, as it is in use
            graph.launch()
        if len(self.graphs) > _GRAPHS:
            old = self.graphs.pop(next(iter(self.graphs)))
            if old is not None:
                old.close()

    def finish(self) -> None:
        """Wait for the chunk, and put its results where they belong."""
        if self.pending is None:
            return
        first, count, results = self.pending
        self.pending = None
        self.stream.wait()
        kernel = self.kernel
        places, _ = self._placed(kernel.results, count)
        for a, place in zip(kernel.results, places, strict=True):
            size = count * prod(a.shape) * kernel.dtype.itemsize
            rows = self.fetched[place : place + size].view(kernel.dtype)
            results[a.name][first : first + count] = rows.reshape(count, *a.shape)

    def close(self) -> None:
        """Give the device's memory back, when nothing uses it any more."""
        with contextlib.suppress(ComputeError):
            self.stream.wait()
        # Graphs first, as they use the memory.
        recorded = [graph for graph in self.graphs.values() if graph is not None]
        closing: list[Recorded | Memory] = [*recorded, *self.held]
        for resource in closing:
            with contextlib.suppress(ComputeError):  # a lost device takes nothing back
                resource.close()
        self.held, self.graphs = [], {}


def _fastest(stream: Stream, run: Callable[[], None]) -> float:
    """Seconds of the fastest of a few runs, the first one left out."""
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
    """Whether it is an array in a device's memory, by what it offers to other libraries."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return hasattr(value, "__cuda_array_interface__")
    # 1: the host's memory, 3: the host's, pinned (DLPack's numbers).
    return int(value.__dlpack_device__()[0]) not in (1, 3)


def described(
    name: str, value: Any
) -> tuple[tuple[int, ...], tuple[int, ...], int, np.dtype[Any], int | None]:
    """Shape, strides in elements, address, dtype and device of an array on a device."""
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except RuntimeError as error:  # PyTorch's, of a tensor that takes part in a gradient
        raise InputError(f"'{name}' does not hand over its memory ({error}).") from None
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
        raise InputError(f"'{name}' is not an array of this kind of device: {error}.") from None
    shape = tuple(map(int, view.shape))
    strides = contiguous(shape) if view.strides is None else tuple(map(int, view.strides))
    return shape, strides, int(view.ptr), np.dtype(view.dtype), int(view.device_id)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of an array whose last axis is the fastest."""
    strides, size = [], 1
    for axis in reversed(shape):
        strides.append(size)
        size *= axis
    return tuple(reversed(strides))


def _one_distance(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The distance of elements that follow each other row by row; None where there is no one."""
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
