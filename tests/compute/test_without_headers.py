"""Kernels without Python's headers: calls through ctypes compared with calls in C.

Results and errors must be the same either way. The headers are hidden
from the function that looks for them; everything else is as on such a machine.
"""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.compute import cpu, native
from pinion.compute.cpu import Kernel
from pinion.compute.layouts import batch_shape, to_blocks
from pinion.compute.native import KernelStruct, Runtime, View
from pinion.functions import named_function, sample
from pinion.native.errors import ComputeError
from pinion.robot import load
from tests.native.conftest import needs_compiler

pytestmark = needs_compiler

Pair = tuple[Kernel, Kernel]
Given = dict[str, Any]
Call = Callable[[Kernel], Given]

ROBOT, FUNCTION = "two_link", "fd_derivatives"
COUNTS = (0, 1, 2, 15, 16, 17, 63, 64, 300)  # from 64 on C releases the interpreter's lock
SEED = 14


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Hide Python's headers."""
    real = sysconfig.get_path

    def get_path(name: str, *arguments: Any, **options: Any) -> Any:
        return str(tmp_path) if name == "include" else real(name, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(sysconfig, "get_path", get_path)
        yield patch


@pytest.fixture
def pair(hidden: pytest.MonkeyPatch, cache_folder: Path) -> Callable[..., Pair]:
    """Return a kernel with calls in C and one with calls through ctypes."""

    def make(**options: Any) -> Pair:
        slow = cpu.compile(ROBOT, FUNCTION, cache=cache_folder, **options)
        hidden.undo()
        if not native._python_headers():
            pytest.skip("the headers of Python or NumPy are missing here")
        fast = cpu.compile(ROBOT, FUNCTION, cache=cache_folder, **options)
        assert slow._native.runtime.module is None and slow.run == slow._compute
        assert fast._native.runtime.module is not None and fast.run != fast._compute
        return fast, slow

    return make


def states(kernel: Kernel, count: int) -> Given:
    """Return inputs in the kernel's layout."""
    samples = sample(
        load(ROBOT), kernel.function, max(count, 1), distribution="reference", seed=SEED
    )
    inputs = {}
    for name, values in samples.items():
        rows = values[:count].astype(kernel.dtype)
        if kernel.layout == "blocks":
            inputs[name] = to_blocks(rows)
        elif kernel.layout == "soa":
            inputs[name] = np.ascontiguousarray(np.moveaxis(rows, 0, -1))
        else:
            inputs[name] = rows
    return inputs


def outputs(kernel: Kernel, count: int) -> dict[str, np.ndarray[Any, Any]]:
    return {
        a.name: np.full(batch_shape(kernel.layout, a.shape, count), np.nan, kernel.dtype)
        for a in kernel.results
    }


def outcome(kernel: Kernel, arguments: Given) -> Any:
    """Return names, shapes, dtypes and bits of a call's results, or its error."""
    try:
        result = kernel(**arguments)
    except Exception as error:
        return type(error), str(error)
    out = arguments.get("out")
    if out is not None:
        assert all(result[name] is out[name] for name in out)
    values: Mapping[str, Any] = {name: result[name] for name in result.names}
    contents = {
        name: (type(x), x.shape, x.dtype, x.flags.writeable, x.tobytes())
        for name, x in values.items()
    }
    flags = result.saturated
    return contents, (flags.shape, flags.dtype, flags.any()), result.cycles


def test_missing_headers_are_noticed(hidden: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert native._python_headers() == ()
    (tmp_path / "Python.h").touch()
    assert native._python_headers() == (tmp_path, Path(np.get_include()))
    hidden.setattr(np, "get_include", lambda: str(tmp_path))
    assert native._python_headers() == ()


@pytest.mark.parametrize(
    ("layout", "dtype"), list(zip(cpu.LAYOUTS, ["float32", "float64", "float32"], strict=True))
)
def test_results_are_the_same(layout: str, dtype: str, pair: Callable[..., Pair]) -> None:
    fast, slow = pair(layout=layout, dtype=dtype)
    for count in COUNTS:
        fast_outcome = outcome(fast, states(fast, count))
        assert isinstance(fast_outcome[0], dict), fast_outcome
        assert outcome(slow, states(slow, count)) == fast_outcome
        calls = [states(kernel, count) | {"out": outputs(kernel, count)} for kernel in (fast, slow)]
        assert outcome(slow, calls[1]) == outcome(fast, calls[0]) == fast_outcome


def changed(change: Callable[[Given], Any], count: int = 20) -> Call:
    """Return a call with arguments that are changed in place or replaced."""

    def make(kernel: Kernel) -> Given:
        inputs = states(kernel, count)
        other = change(inputs)
        return inputs if other is None else other

    return make


def given_out(change: Callable[[Given], Any], count: int = 20) -> Call:
    """Return a call with changed outputs."""

    def make(kernel: Kernel) -> Given:
        inputs = states(kernel, count)
        targets = outputs(kernel, count)
        other = change(targets)
        return inputs | {"out": targets if other is None else other}

    return make


def one(inputs: Given) -> Given:
    return {name: values[3] for name, values in inputs.items()}


def one_with_outputs(kernel: Kernel) -> Given:
    targets = {a.name: np.zeros(a.shape, kernel.dtype) for a in kernel.results}
    return one(states(kernel, 20)) | {"out": targets}


def put(name: str, index: tuple[int, ...], value: float) -> Callable[[Given], None]:
    def change(arguments: Given) -> None:
        arguments[name][index] = value

    return change


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


ODD: dict[str, Call] = {
    "one sample": changed(one),
    "one sample with outputs": one_with_outputs,
    "one sample, outputs with a batch axis": lambda kernel: (
        one(states(kernel, 20)) | {"out": outputs(kernel, 1)}
    ),
    "one sample serves all": changed(lambda arguments: arguments | {"q": arguments["q"][3]}),
    "lists": changed(lambda arguments: {name: x.tolist() for name, x in arguments.items()}),
    "integers": changed(lambda arguments: {name: x.astype(int) for name, x in arguments.items()}),
    "another order": changed(
        lambda arguments: {name: np.asfortranarray(x) for name, x in arguments.items()}
    ),
    "every second": changed(lambda arguments: {name: x[::2] for name, x in arguments.items()}),
    "another byte order": changed(
        lambda arguments: {name: x.astype(x.dtype.newbyteorder()) for name, x in arguments.items()}
    ),
    "no outputs given": changed(lambda arguments: arguments | {"out": None}),
    "NaN": changed(put("qd", (7, 1), np.nan)),
    "infinity": changed(put("tau", (19, 0), -np.inf)),
    "large angle": changed(put("q", (0, 0), 1e9)),
    "wrong shape": changed(lambda arguments: arguments | {"q": np.zeros((20, 3))}),
    "too many axes": changed(lambda arguments: arguments | {"q": np.zeros((2, 10, 2))}),
    "no axis": changed(lambda arguments: arguments | {"q": 1.0}),
    "other numbers of samples": changed(lambda arguments: arguments | {"q": arguments["q"][:-1]}),
    "unknown input": changed(lambda arguments: arguments | {"velocity": arguments["qd"]}),
    "missing input": changed(lambda arguments: {"q": arguments["q"], "qd": arguments["qd"]}),
    "nothing": changed(lambda arguments: {}),
    "complex": changed(lambda arguments: arguments | {"q": arguments["q"].astype(complex)}),
    "text": changed(lambda arguments: arguments | {"q": "abc"}),
    "ragged": changed(lambda arguments: arguments | {"q": [[1.0, 2.0], [3.0]]}),
    "output too short": given_out(lambda out: out | {"qdd": out["qdd"][:-1]}),
    "output of another dtype": given_out(lambda out: out | {"qdd": np.zeros((20, 2), np.float16)}),
    "output read-only": given_out(lambda out: out | {"qdd": frozen(out["qdd"])}),
    "output with gaps": given_out(lambda out: out | {"qdd": np.zeros((40, 2))[::2]}),
    "output is a list": given_out(lambda out: out | {"qdd": out["qdd"].tolist()}),
    "output missing": given_out(lambda out: {"qdd": out["qdd"]}),
    "output unknown": given_out(lambda out: out | {"tau": out["qdd"].copy()}),
    "outputs overlap": given_out(lambda out: out | {"dqdd_dq": out["dqdd_dqd"]}),
    "outputs in a mapping": given_out(MappingProxyType),
    "outputs with flags": given_out(lambda out: out | {"saturated": np.ones(20, np.bool_)}),
    "flags in a mapping": given_out(
        lambda out: MappingProxyType(out | {"saturated": np.ones(20, np.bool_)})
    ),
    "flags too short": given_out(lambda out: out | {"saturated": np.ones(19, np.bool_)}),
    "flags of bytes": given_out(lambda out: out | {"saturated": np.ones(20, np.uint8)}),
    "flags read-only": given_out(lambda out: out | {"saturated": frozen(np.ones(20, np.bool_))}),
    "flags with gaps": given_out(lambda out: out | {"saturated": np.ones(40, np.bool_)[::2]}),
    "flags in a result": given_out(
        lambda out: out | {"saturated": out["qdd"].view(np.bool_).reshape(-1)[:20]}
    ),
    "flags alone": given_out(lambda out: {"saturated": np.ones(20, np.bool_)}),
    "an earlier result": lambda kernel: states(kernel, 20) | {"out": kernel(**states(kernel, 20))},
    "an earlier result of other samples": lambda kernel: (
        states(kernel, 20) | {"out": kernel(**states(kernel, 19))}
    ),
    "an earlier result of one sample": lambda kernel: (
        one(states(kernel, 20)) | {"out": kernel(**one(states(kernel, 20)))}
    ),
}


@pytest.mark.parametrize("finite", [False, True])
def test_odd_calls_have_the_same_end(finite: bool, pair: Callable[..., Pair]) -> None:
    fast, slow = pair(finite=finite)
    refused = set()
    for name, call in ODD.items():
        fast_outcome = outcome(fast, call(fast))
        assert outcome(slow, call(slow)) == fast_outcome, name
        if isinstance(fast_outcome[0], type):
            assert issubclass(fast_outcome[0], InputError), (name, fast_outcome)
            refused.add(name)
    # An output that overlaps an input needs arrays of one call.
    for kernel in (fast, slow):
        inputs = states(kernel, 20)
        with pytest.raises(InputError, match="overlaps an input"):
            kernel(out=outputs(kernel, 20) | {"qdd": inputs["qd"]}, **inputs)
    assert {"NaN", "infinity"} & refused == ({"NaN", "infinity"} if finite else set())
    assert "one sample with outputs" not in refused and "output too short" in refused


@pytest.mark.parametrize("layout", ["soa", "blocks"])
def test_errors_of_other_layouts_are_the_same(layout: str, pair: Callable[..., Pair]) -> None:
    fast, slow = pair(layout=layout, finite=True)
    last = (1, -1) if layout == "soa" else (1, 1, 3)
    calls = [
        changed(put("qd", last, np.nan)),
        changed(lambda arguments: arguments | {"q": arguments["q"][:1]}),
        changed(lambda arguments: arguments | {"q": arguments["q"][..., :-1]}),
        changed(lambda arguments: arguments | {"q": arguments["q"].astype(complex)}),
        changed(lambda arguments: arguments | {"velocity": arguments["q"]}),
        changed(lambda arguments: {"q": arguments["q"]}),
        given_out(lambda out: out | {"qdd": out["qdd"][..., :-1]}),
        given_out(lambda out: out | {"qdd": frozen(out["qdd"])}),
    ]
    for call in calls:
        fast_outcome = outcome(fast, call(fast))
        assert isinstance(fast_outcome[0], type), "this call was to be refused"
        assert issubclass(fast_outcome[0], InputError) and outcome(slow, call(slow)) == fast_outcome


def test_what_the_runtime_answers_is_said(pair: Callable[..., Pair]) -> None:
    _, slow = pair()
    runtime = slow._native.runtime
    space, flags = np.zeros(1000), np.zeros(1, np.bool_)
    good = [View(space.ctypes.data, 0, 2)] * 3
    with pytest.raises(ComputeError, match="an invalid layout or stride"):
        runtime.run(slow.address, 1, (good, [View(space.ctypes.data, 9, 2)] * 3), flags, 1)
    stranger = KernelStruct(abi=99, bytes=8, lanes=8, inputs=3, outputs=3)
    with pytest.raises(ComputeError, match="compiled by another version of Pinion"):
        runtime.run(ctypes.addressof(stranger), 1, (good, good), flags, 1)
    full: Any = SimpleNamespace(pinion_run_flagged=lambda *arguments: 3)
    with pytest.raises(MemoryError):
        Runtime(full, None).run(slow.address, 1, (good, good), flags, 1)


def test_gradients_have_the_same_bits(hidden: pytest.MonkeyPatch, cache_folder: Path) -> None:
    row = named_function(FUNCTION, outputs=["minv"])
    slow = cpu.compile("chain_3", row, dtype="float32", cache=cache_folder)
    hidden.undo()
    fast = cpu.compile("chain_3", row, dtype="float32", cache=cache_folder)
    inputs = sample(load("chain_3"), row, 500, distribution="reference", seed=SEED)
    assert slow.run == slow._compute
    assert outcome(fast, inputs) == outcome(slow, inputs)
