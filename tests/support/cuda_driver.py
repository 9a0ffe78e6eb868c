"""Stand-in for the package cuda-core, for tests of its callers without a driver.

Every call has a name and arguments that the installed package knows; more is not shown by it. It
says in which order calls came, and fails where a test wants it to.
"""

from __future__ import annotations

import ctypes
import inspect
import threading
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

installed: Any = import_module("cuda.core")


class StandIn:
    """Stand-in for the calls of `pinion.compute.cuda.device` to cuda.core and the driver.

    Members
    -------
    core, driver : in the place of the modules.
    called : names of the calls so far.
    failing : messages by the names of calls that raise them.
    depth : contexts that the calling thread has pushed and not popped.
    """

    def __init__(self) -> None:
        self.called: list[str] = []
        self.failing: dict[str, str] = {}
        self._threads = threading.local()
        self.driver = SimpleNamespace(cuCtxPushCurrent=self._push, cuCtxPopCurrent=self._pop)
        stand_in = self._made
        device = stand_in(
            installed.Device,
            set_current=lambda: None,
            allocate=self._buffer,
            create_stream=self._stream,
            sync=lambda: None,
        )
        self.core = SimpleNamespace(
            Device=SimpleNamespace(
                get_all_devices=self._static(installed.Device, "get_all_devices", lambda: [device])
            ),
            Buffer=SimpleNamespace(
                from_handle=self._static(installed.Buffer, "from_handle", self._buffer)
            ),
            ObjectCode=SimpleNamespace(
                from_cubin=self._static(
                    installed.ObjectCode,
                    "from_cubin",
                    lambda: stand_in(installed.ObjectCode, get_kernel=lambda: "kernel"),
                )
            ),
            LaunchConfig=self._called("LaunchConfig", lambda: "config", None),
            launch=self._called("launch", lambda: None, inspect.signature(installed.launch)),
            LegacyPinnedMemoryResource=lambda: stand_in(
                installed.LegacyPinnedMemoryResource, allocate=self._buffer
            ),
        )
        device.name = "a stand-in"
        device.compute_capability = SimpleNamespace(major=9, minor=0)
        device.properties = SimpleNamespace(multiprocessor_count=4, clock_rate=1_000_000)
        device.context = SimpleNamespace(handle="context")
        self.device = device

    @property
    def depth(self) -> int:
        depth: int = getattr(self._threads, "depth", 0)
        return depth

    def _push(self, context: str) -> tuple[int]:
        assert context == "context"
        self._raised("cuCtxPushCurrent")
        self._threads.depth = self.depth + 1
        return (0,)

    def _pop(self) -> tuple[int, str]:
        self._threads.depth = self.depth - 1
        return 0, "context"

    def _stream(self) -> Any:
        graph = self._made(installed.graph.Graph, launch=lambda: None, close=lambda: None)
        builder = self._made(
            installed.graph.GraphBuilder,
            begin_building=lambda: builder,
            end_building=lambda: builder,
            complete=lambda: graph,
            close=lambda: None,
        )
        return self._made(
            installed.Stream,
            sync=lambda: None,
            wait=lambda: None,
            create_graph_builder=lambda: builder,
        )

    def _buffer(self) -> Any:
        buffer = self._made(installed.Buffer, close=lambda: None, copy_from=lambda: None)
        memory = ctypes.create_string_buffer(1024)
        buffer.memory, buffer.handle, buffer.size = memory, ctypes.addressof(memory), 1024
        return buffer

    def _made(self, kind: type, **results: Callable[[], Any]) -> Any:
        """Return a stand-in for an object of a class in the package, with the given methods."""
        stand_in = SimpleNamespace()
        for name, result in results.items():
            signature = inspect.signature(getattr(kind, name))
            parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
            call = self._called(
                f"{kind.__name__}.{name}", result, signature.replace(parameters=parameters)
            )
            setattr(stand_in, name, call)
        return stand_in

    def _static(self, kind: type, name: str, result: Callable[[], Any]) -> Any:
        return getattr(self._made(kind, **{name: result}), name)

    def _called(
        self, name: str, result: Callable[[], Any], signature: inspect.Signature | None
    ) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if signature is not None:
                signature.bind(*args, **options)
            if name not in ("Device.get_all_devices", "Device.set_current"):
                assert self.depth == 1, f"{name} is called with no device current"
            self._raised(name)
            return result()

        return call

    def _raised(self, name: str) -> None:
        self.called.append(name)
        if name in self.failing:
            raise RuntimeError(self.failing[name])
