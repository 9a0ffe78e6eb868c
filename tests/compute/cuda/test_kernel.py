"""Batches on a device: chunks, arrays on the device, and refused calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.compute import cuda
from pinion.compute.cuda import kernel as kernels
from pinion.compute.cuda import threads
from pinion.compute.cuda.kernel import DeviceArray
from pinion.compute.cuda.parts import Room
from pinion.functions import named_function
from pinion.native.errors import ComputeError
from pinion.robot import load, load_text
from tests.compute.cuda.conftest import (
    SEVERAL,
    Opened,
    There,
    close,
    expected_tau,
    fetched,
    sampled,
    states,
)
from tests.native.conftest import needs_compiler
from tests.support.cuda_device import HostDevice

pytestmark = needs_compiler


def test_a_batch_in_chunks(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "CHUNK_BYTES", 128 * 28 * 8)
    compiled, device = opened()
    inputs = states(1000)
    result = compiled(**inputs)
    assert close(result.tau, expected_tau(inputs))
    assert device.launches == [("rnea", 128)] * 7 + [("rnea", 104)]
    # A shorter batch uses the existing memory.
    used = device.used
    assert close(compiled(**states(5)).tau, expected_tau(states(5)))
    assert device.used == used
    compiled.close()
    assert device.used == 0


def test_one_request_and_none_and_one_that_serves_all(opened: Opened) -> None:
    compiled, device = opened()
    inputs = states(9)
    single = compiled(**{name: values[3] for name, values in inputs.items()})
    assert single.tau.shape == (7,) and single.saturated.shape == ()
    assert close(single.tau, expected_tau(inputs)[3])
    none = compiled(**{name: values[:0] for name, values in inputs.items()})
    assert none.tau.shape == (0, 7) and device.launches == [("rnea", 1)]
    shared = {**inputs, "qd": inputs["qd"][2]}
    every = {**inputs, "qd": np.repeat(inputs["qd"][2:3], 9, axis=0)}
    assert close(compiled(**shared).tau, expected_tau(every))


def test_results_where_the_caller_wants_them(opened: Opened) -> None:
    compiled, _ = opened()
    inputs, out = states(50), np.zeros((50, 7))
    result = compiled(out={"tau": out}, **inputs)
    assert result.tau is out and close(out, expected_tau(inputs))
    row = np.zeros(7)
    compiled(out={"tau": row}, **{name: values[0] for name, values in inputs.items()})
    assert close(row, expected_tau(inputs)[0])
    with pytest.raises(InputError, match=r"'out' must be a mapping .* such as \{\"tau\": \.\.\.\}"):
        compiled(out=out, **inputs)


def test_results_that_are_not_finite_are_flagged(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "CHUNK_BYTES", 128 * 28 * 8)
    compiled, _ = opened()
    inputs = states(300)
    good = compiled(**inputs)
    assert not good.saturated.any() and good.saturated.shape == (300,)
    inputs["qd"][[0, 130, 299], 3] = 1e200
    bad = compiled(**inputs)
    assert np.flatnonzero(bad.saturated).tolist() == [0, 130, 299]
    assert np.array_equal(bad.saturated, ~np.isfinite(bad.tau).all(axis=1))
    assert compiled(**{name: values[130] for name, values in inputs.items()}).saturated
    # An earlier result is overwritten, including its flags.
    flags, tau = bad.saturated, bad.tau
    assert compiled(**states(300), out=bad) is bad
    assert bad.saturated is flags and not flags.any() and bad.tau is tau
    assert np.array_equal(tau, good.tau)
    single = compiled(**{name: values[3] for name, values in inputs.items()})
    tau = single.tau
    assert compiled(**{name: values[130] for name, values in inputs.items()}, out=single) is single
    assert single.saturated and single.tau is tau and tau.shape == (7,) and np.isnan(tau).any()


def test_rotations_of_the_host_are_refused_as_by_the_float_model(opened: Opened) -> None:
    cart = load_text(
        '<robot name="cart"><link name="world"/><link name="base"><inertial><mass value="2"/>'
        '<inertia ixx=".1" iyy=".2" izz=".3" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="floor" type="planar"><parent link="world"/><child link="base"/>'
        '<axis xyz="0 0 1"/></joint></robot>'
    )
    compiled, _ = opened(target=(cart, named_function("rnea")))
    inputs = sampled(cart, named_function("rnea"), 20, 4)
    inputs["q"][:, 2:] = np.array([0.6, 0.8])
    assert close(compiled(**inputs).tau, named_function("rnea").evaluate(cart, inputs)["tau"])
    inputs["q"][7, 3] = 0.9
    with pytest.raises(InputError, match=r"The cosine-sine pair q\[7, 2:4\] has norm 1\.08"):
        compiled(**inputs)
    unchecked, _ = opened(target=(cart, named_function("rnea")), check_rotations=False)
    assert unchecked(**inputs).tau.shape == (20, 3)


def test_little_memory_makes_smaller_chunks(opened: Opened) -> None:
    compiled, device = opened(memory=2 * 300 * 28 * 8)
    inputs = states(1000)
    assert close(compiled(**inputs).tau, expected_tau(inputs))
    assert device.launches == [("rnea", 250)] * 4
    compiled.close()
    tiny, device = opened(memory=1000)
    with pytest.raises(ComputeError, match="has no memory for 2 chunks of 128 samples"):
        tiny(**inputs)
    assert device.used == 0


def test_several_kernels_in_chunks(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "CHUNK_BYTES", 128 * 28 * 8)
    compiled, device = opened(several=True)
    inputs = sampled(*SEVERAL, 300, 1)
    result, right = compiled(**inputs), SEVERAL[1].evaluate(SEVERAL[0], inputs)
    for name, values in right.items():
        assert close(result[name], values)
    assert len(device.launches) == 3 * len(compiled.source.kernels)


@pytest.mark.parametrize("layout", ["aos", "soa"])
def test_arrays_of_the_device(opened: Opened, layout: str) -> None:
    compiled, device = opened(layout=layout)
    inputs = states(70)
    on_device = {name: There(values) for name, values in inputs.items()}
    tau = compiled(**on_device).tau
    assert isinstance(tau, DeviceArray) and close(fetched(tau), expected_tau(inputs))
    assert tau.strides == ((7, 1) if layout == "aos" else (1, 70))
    out = There(np.zeros((70, 7)))
    result = compiled(out={"tau": out}, **on_device)
    assert result.tau is out and close(out.array, expected_tau(inputs))
    # An array without a batch axis serves all; slices of larger arrays are read in place.
    wide = np.zeros((70, 9))
    wide[:, :7] = inputs["q"]
    tau = compiled(**{**on_device, "q": There(wide[:, :7]), "qd": There(inputs["qd"][5])}).tau
    every = {**inputs, "qd": np.repeat(inputs["qd"][5:6], 70, axis=0)}
    assert close(fetched(tau), expected_tau(every))
    assert device.launches == [("rnea", 70)] * 3


def test_samples_next_to_each_other(opened: Opened) -> None:
    compiled, _ = opened(layout="soa")
    inputs = states(40)
    on_device = {name: There(np.asfortranarray(values)) for name, values in inputs.items()}
    assert close(fetched(compiled(**on_device).tau), expected_tau(inputs))


def test_small_batches_have_blocks_that_compute_a_sample(opened: Opened) -> None:
    compiled, device = opened(crossover=20)
    for count in (1, 19, 20):
        assert close(compiled(**states(count)).tau, expected_tau(states(count)))
    # One sample for all, and elements that are not contiguous, need threads.
    inputs = states(5)
    compiled(**{**inputs, "qd": inputs["qd"][0]})
    wide = np.zeros((5, 9))
    wide[:, :7] = inputs["q"]
    on_device = {name: There(values) for name, values in inputs.items()}
    assert close(fetched(compiled(**on_device).tau), expected_tau(inputs))
    assert close(
        fetched(compiled(**{**on_device, "q": There(wide[:, :7])}).tau), expected_tau(inputs)
    )
    single = compiled(**{name: values[0] for name, values in inputs.items()})
    assert close(single.tau, expected_tau(inputs)[0])
    small = "pinion_rnea"
    assert device.launches == [
        *((small, 1), (small, 19), ("rnea", 20)),
        *(("rnea", 5), (small, 5), ("rnea", 5), (small, 1)),
    ]


def test_the_crossover_is_measured_or_follows_a_rule(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, _ = opened(crossover=None)
    # Four blocks of each of four multiprocessors.
    assert compiled.crossover == compiled.direct_crossover == 16
    every = kernels.SMALL_BATCHES
    sizes = iter([n for n in (*every, *every) for _ in range(2)])
    # Blocks are faster up to 64 on the device, and from 16 to 1,024 in the host's memory.
    ahead = iter([*(n <= 64 for n in every), *(16 <= n <= 1024 for n in every)])
    state = {"blocks": False}

    def timed(stream: Any, run: Callable[[], None]) -> float:
        run()
        stream.wait()
        assert device.launches[-1][1] == next(sizes)
        state["blocks"] = not state["blocks"]
        return 1.0 if state["blocks"] else 2.0 if next(ahead) else 0.5

    monkeypatch.setattr(kernels, "_fastest", timed)
    compiled, device = opened(crossover=(0, 0))
    assert compiled.small is not None
    assert compiled.measured() == (128, 2048)
    assert list(sizes) == list(ahead) == [] and device.used == 0


def test_an_empty_batch_of_the_device(opened: Opened) -> None:
    compiled, device = opened()
    result = compiled(**{name: There(values) for name, values in states(0).items()}).tau
    assert result.shape == (0, 7) and device.launches == []


def test_a_workspace_of_the_caller_needs_no_waiting(
    tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_ROOMS", {"float64": Room(plain=10, registers=8, slots=4)})
    monkeypatch.setattr(kernels, "_fastest", lambda stream, run: 1.0)
    device = HostDevice(tmp_path)
    compiled = cuda.compile(
        "two_link", "rnea_derivatives", dtype="float64", device=device, cache=cache_folder
    )
    size = compiled.workspace_bytes(40)
    assert size == 64 * 6 * 8  # of whole warps
    rng = np.random.default_rng(1)
    inputs = {a.name: rng.uniform(-1, 1, (40, 2)) for a in compiled.inputs}
    on_device = {name: There(values) for name, values in inputs.items()}
    out = {a.name: There(np.full((40, *a.shape), np.nan)) for a in compiled.results}
    room = np.zeros(2 * size, np.uint8)
    stream = device.stream()
    before = len(device.launches)
    for bad in (
        There(room[: size - 1]),
        There(room[1 : size + 1]),
        There(room[::2]),
        There(room, device=1),
    ):
        with pytest.raises(InputError, match="give 3,072 bytes for 40 samples, contiguous"):
            compiled(stream=stream, out=out, workspace=bad, **on_device)
    assert len(device.launches) == before
    compiled(stream=stream, out=out, workspace=There(room[:size]), **on_device)
    assert len(device.launches) == before + 3 and device.used == 0
    assert all(np.isnan(array.array).all() for array in out.values())
    stream.wait()
    right = named_function("rnea_derivatives").evaluate(load("two_link"), inputs)
    assert all(close(array.array, right[name]) for name, array in out.items())
    # Without a workspace it is allocated in that stream.
    written = {name: There(np.full_like(array.array, np.nan)) for name, array in out.items()}
    compiled(stream=stream, out=written, **on_device)
    stream.wait()
    assert all(close(array.array, right[name]) for name, array in written.items())


def test_requests_that_are_still_being_made_are_waited_for(opened: Opened) -> None:
    compiled, device = opened()
    inputs = states(8)
    late = np.full((8, 7), np.nan)
    device.before.append(lambda: np.copyto(late, inputs["q"]))
    on_device = {name: There(values) for name, values in {**inputs, "q": late}.items()}
    assert close(fetched(compiled(**on_device).tau), expected_tau(inputs))


def test_a_stream_of_the_caller_is_not_waited_for(opened: Opened) -> None:
    compiled, device = opened()
    inputs = states(40)
    stream = device.stream()
    tau = compiled(stream=stream, **{name: There(values) for name, values in inputs.items()}).tau
    assert np.isnan(fetched(tau)).all()
    stream.wait()
    assert close(fetched(tau), expected_tau(inputs))


def broken(**change: Any) -> dict[str, Any]:
    requests: dict[str, Any] = {name: There(values) for name, values in states(6).items()}
    return {name: value for name, value in {**requests, **change}.items() if value is not None}


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (broken(q=np.zeros((6, 7))), "'qd' is on a device, but 'q' is in host memory"),
        (broken(q=None), "The input array 'q' is missing"),
        (broken(x=There(np.zeros(7))), "There is no input array 'x'"),
        (broken(q=There(np.zeros((6, 7)), device=1)), "'q' is on device 1, but the kernel is on"),
        (broken(q=There(np.zeros((6, 7), np.float32))), "is read as float64, but is float32"),
        (broken(q=There(np.zeros((6, 8)))), "'q' has the shape"),
        (broken(q=There(np.zeros((5, 7)))), "different numbers of requests"),
        (broken(q=There(np.asfortranarray(np.zeros((6, 7))))), "copy each to contiguous"),
        (broken(out={"tau": There(np.zeros((5, 7)))}), "must have the shape"),
        (broken(out={}), "no array for the result 'tau'"),
        (broken(out={"tau": There(np.zeros((6, 7))), "x": 1}), "There is no result 'x'"),
        ({**states(6), "stream": 1}, "A stream is for arrays on the device"),
        ({**states(6), "workspace": 1}, "A workspace is for arrays on the device"),
        ({**states(6), "q": np.full((6, 7), np.nan)}, "nan"),
        ({**states(6), "out": {"tau": np.zeros((6, 7), np.float32)}}, "dtype float64"),
        ({**states(6), "q": np.zeros((6, 8))}, "axis 1 has length 8"),
    ],
)
def test_what_is_refused(opened: Opened, requests: dict[str, Any], message: str) -> None:
    compiled, device = opened()
    with pytest.raises(InputError, match=message):
        compiled(**requests)
    assert device.launches == []


def test_results_over_requests_are_refused(opened: Opened) -> None:
    compiled, device = opened()
    room = np.zeros(6 * 7 * 2)
    requests: dict[str, Any] = broken()
    requests["q"] = There(room[:42].reshape(6, 7))
    with pytest.raises(InputError, match="'tau' overlaps 'q'"):
        compiled(out={"tau": There(room[41:83].reshape(6, 7))}, **requests)
    assert device.launches == []
    compiled(out={"tau": There(room[42:].reshape(6, 7))}, **requests)


def test_a_tensor_that_keeps_its_memory_is_refused(opened: Opened) -> None:
    class Tensor:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise RuntimeError("it requires grad")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    compiled, _ = opened()
    with pytest.raises(InputError, match=r"The memory of 'q' cannot be read .* requires grad"):
        compiled(**broken(q=Tensor()))


def test_a_device_that_fails_says_so_and_may_be_used_again(opened: Opened) -> None:
    compiled, device = opened()
    device.broken = True
    with pytest.raises(ComputeError, match="failed"):
        compiled(**states(6))
    assert device.used == 0
    device.broken = False
    assert close(compiled(**states(6)).tau, expected_tau(states(6)))
