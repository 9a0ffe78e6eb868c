"""Batches through a device: chunks, arrays of the device, and what is refused."""

from __future__ import annotations

import shutil
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
    drawn,
    fetched,
    states,
    wanted,
)
from tests.support.cuda_device import HostDevice

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    reason="no C++ compiler on this machine",
)


def test_a_batch_in_chunks(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "CHUNK_BYTES", 128 * 28 * 8)
    compiled, device = opened()
    given = states(1000)
    found = compiled(**given)
    assert close(found.tau, wanted(given))
    assert device.launches == [("rnea", 128)] * 7 + [("rnea", 104)]
    # Again, shorter: the memory is there.
    used = device.used
    assert close(compiled(**states(5)).tau, wanted(states(5)))
    assert device.used == used
    compiled.close()
    assert device.used == 0


def test_one_request_and_none_and_one_that_serves_all(opened: Opened) -> None:
    compiled, device = opened()
    given = states(9)
    single = compiled(**{name: values[3] for name, values in given.items()})
    assert single.tau.shape == (7,) and single.saturated.shape == ()
    assert close(single.tau, wanted(given)[3])
    none = compiled(**{name: values[:0] for name, values in given.items()})
    assert none.tau.shape == (0, 7) and device.launches == [("rnea", 1)]
    shared = {**given, "qd": given["qd"][2]}
    every = {**given, "qd": np.repeat(given["qd"][2:3], 9, axis=0)}
    assert close(compiled(**shared).tau, wanted(every))


def test_results_where_the_caller_wants_them(opened: Opened) -> None:
    compiled, _ = opened()
    given, out = states(50), np.zeros((50, 7))
    found = compiled(out={"tau": out}, **given)
    assert found.tau is out and close(out, wanted(given))
    one = np.zeros(7)
    compiled(out={"tau": one}, **{name: values[0] for name, values in given.items()})
    assert close(one, wanted(given)[0])
    with pytest.raises(InputError, match=r"'out' is a mapping .* such as \{\"tau\": \.\.\.\}"):
        compiled(out=out, **given)


def test_results_that_are_not_finite_are_flagged(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "CHUNK_BYTES", 128 * 28 * 8)
    compiled, _ = opened()
    given = states(300)
    good = compiled(**given)
    assert not good.saturated.any() and good.saturated.shape == (300,)
    given["qd"][[0, 130, 299], 3] = 1e200
    bad = compiled(**given)
    assert np.flatnonzero(bad.saturated).tolist() == [0, 130, 299]
    assert np.array_equal(bad.saturated, ~np.isfinite(bad.tau).all(axis=1))
    assert compiled(**{name: values[130] for name, values in given.items()}).saturated
    # An earlier result is written, and what it said is not left.
    flags, tau = bad.saturated, bad.tau
    assert compiled(**states(300), out=bad) is bad
    assert bad.saturated is flags and not flags.any() and bad.tau is tau
    assert np.array_equal(tau, good.tau)
    single = compiled(**{name: values[3] for name, values in given.items()})
    tau = single.tau
    assert compiled(**{name: values[130] for name, values in given.items()}, out=single) is single
    assert single.saturated and single.tau is tau and tau.shape == (7,) and np.isnan(tau).any()


def test_rotations_of_the_host_are_refused_as_by_the_float_model(opened: Opened) -> None:
    cart = load_text(
        '<robot name="cart"><link name="world"/><link name="base"><inertial><mass value="2"/>'
        '<inertia ixx=".1" iyy=".2" izz=".3" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="floor" type="planar"><parent link="world"/><child link="base"/>'
        '<axis xyz="0 0 1"/></joint></robot>'
    )
    compiled, _ = opened(target=(cart, named_function("rnea")))
    given = drawn(cart, named_function("rnea"), 20, 4)
    given["q"][:, 2:] = np.array([0.6, 0.8])
    assert close(compiled(**given).tau, named_function("rnea").evaluate(cart, given)["tau"])
    given["q"][7, 3] = 0.9
    with pytest.raises(InputError, match=r"q\[7, 2:4\] is a cosine and sine of length 1\.08"):
        compiled(**given)
    unchecked, _ = opened(target=(cart, named_function("rnea")), check_rotations=False)
    assert unchecked(**given).tau.shape == (20, 3)


def test_little_memory_makes_smaller_chunks(opened: Opened) -> None:
    compiled, device = opened(memory=2 * 300 * 28 * 8)
    given = states(1000)
    assert close(compiled(**given).tau, wanted(given))
    assert device.launches == [("rnea", 250)] * 4
    compiled.close()
    tiny, device = opened(memory=1000)
    with pytest.raises(ComputeError, match="has no memory for 2 chunks of 128 samples"):
        tiny(**given)
    assert device.used == 0


def test_several_kernels_in_chunks(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "CHUNK_BYTES", 128 * 28 * 8)
    compiled, device = opened(several=True)
    given = drawn(*SEVERAL, 300, 1)
    found, right = compiled(**given), SEVERAL[1].evaluate(SEVERAL[0], given)
    for name, values in right.items():
        assert close(found[name], values)
    assert len(device.launches) == 3 * len(compiled.source.kernels)


@pytest.mark.parametrize("layout", ["aos", "soa"])
def test_arrays_of_the_device(opened: Opened, layout: str) -> None:
    compiled, device = opened(layout=layout)
    given = states(70)
    there = {name: There(values) for name, values in given.items()}
    found = compiled(**there).tau
    assert isinstance(found, DeviceArray) and close(fetched(found), wanted(given))
    assert found.strides == ((7, 1) if layout == "aos" else (1, 70))
    out = There(np.zeros((70, 7)))
    result = compiled(out={"tau": out}, **there)
    assert result.tau is out and close(out.array, wanted(given))
    # One without a batch axis serves all; slices of larger arrays are read where they are.
    wide = np.zeros((70, 9))
    wide[:, :7] = given["q"]
    found = compiled(**{**there, "q": There(wide[:, :7]), "qd": There(given["qd"][5])}).tau
    every = {**given, "qd": np.repeat(given["qd"][5:6], 70, axis=0)}
    assert close(fetched(found), wanted(every))
    assert device.launches == [("rnea", 70)] * 3


def test_samples_next_to_each_other(opened: Opened) -> None:
    compiled, _ = opened(layout="soa")
    given = states(40)
    there = {name: There(np.asfortranarray(values)) for name, values in given.items()}
    assert close(fetched(compiled(**there).tau), wanted(given))


def test_small_batches_have_blocks_that_compute_a_sample(opened: Opened) -> None:
    compiled, device = opened(crossover=20)
    for count in (1, 19, 20):
        assert close(compiled(**states(count)).tau, wanted(states(count)))
    # One sample that serves all, and elements apart, are for threads.
    given = states(5)
    compiled(**{**given, "qd": given["qd"][0]})
    wide = np.zeros((5, 9))
    wide[:, :7] = given["q"]
    there = {name: There(values) for name, values in given.items()}
    assert close(fetched(compiled(**there).tau), wanted(given))
    assert close(fetched(compiled(**{**there, "q": There(wide[:, :7])}).tau), wanted(given))
    one = compiled(**{name: values[0] for name, values in given.items()})
    assert close(one.tau, wanted(given)[0])
    small = "pinion_rnea"
    assert device.launches == [
        *((small, 1), (small, 19), ("rnea", 20)),
        *(("rnea", 5), (small, 5), ("rnea", 5), (small, 1)),
    ]


def test_the_crossover_is_measured_or_follows_a_rule(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, _ = opened(crossover=None)
    assert compiled.crossover == 16  # four blocks of each of four multiprocessors
    seen: list[float] = []

    def of_blocks_until_64(stream: Any, run: Callable[[], None]) -> float:
        run()
        stream.wait()
        seen.append(0)
        count = kernels.SMALL_BATCHES[(len(seen) - 1) // 2]
        return [1.0, 2.0 if count <= 64 else 0.5][(len(seen) - 1) % 2]

    monkeypatch.setattr(kernels, "_fastest", of_blocks_until_64)
    compiled, device = opened(crossover=lambda measure: measure())
    assert compiled.crossover == 128
    assert device.used == 0
    assert [n for _, n in device.launches] == [1, 1, 4, 4, 16, 16, 64, 64, 256, 256]


def test_an_empty_batch_of_the_device(opened: Opened) -> None:
    compiled, device = opened()
    found = compiled(**{name: There(values) for name, values in states(0).items()}).tau
    assert found.shape == (0, 7) and device.launches == []


def test_a_workspace_of_the_caller_needs_no_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_ROOMS", {"float64": Room(plain=10, registers=8, slots=4)})
    monkeypatch.setattr(kernels, "_fastest", lambda stream, run: 1.0)
    device = HostDevice(tmp_path)
    compiled = cuda.compile(
        "two_link", "rnea_derivatives", dtype="float64", device=device, cache=tmp_path / "cache"
    )
    size = compiled.workspace_bytes(40)
    assert size == 64 * 6 * 8  # of whole warps
    rng = np.random.default_rng(1)
    given = {a.name: rng.uniform(-1, 1, (40, 2)) for a in compiled.inputs}
    there = {name: There(values) for name, values in given.items()}
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
            compiled(stream=stream, out=out, workspace=bad, **there)
    assert len(device.launches) == before
    compiled(stream=stream, out=out, workspace=There(room[:size]), **there)
    assert len(device.launches) == before + 3 and device.used == 0
    assert all(np.isnan(array.array).all() for array in out.values())
    stream.wait()
    right = named_function("rnea_derivatives").evaluate(load("two_link"), given)
    assert all(close(array.array, right[name]) for name, array in out.items())
    # Without one it is taken in that stream.
    written = {name: There(np.full_like(array.array, np.nan)) for name, array in out.items()}
    compiled(stream=stream, out=written, **there)
    stream.wait()
    assert all(close(array.array, right[name]) for name, array in written.items())


def test_requests_that_are_still_being_made_are_waited_for(opened: Opened) -> None:
    compiled, device = opened()
    given = states(8)
    late = np.full((8, 7), np.nan)
    device.before.append(lambda: np.copyto(late, given["q"]))
    there = {name: There(values) for name, values in {**given, "q": late}.items()}
    assert close(fetched(compiled(**there).tau), wanted(given))


def test_a_stream_of_the_caller_is_not_waited_for(opened: Opened) -> None:
    compiled, device = opened()
    given = states(40)
    stream = device.stream()
    found = compiled(stream=stream, **{name: There(values) for name, values in given.items()}).tau
    assert np.isnan(fetched(found)).all()
    stream.wait()
    assert close(fetched(found), wanted(given))


def broken(**change: Any) -> dict[str, Any]:
    given: dict[str, Any] = {name: There(values) for name, values in states(6).items()}
    return {name: value for name, value in {**given, **change}.items() if value is not None}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (broken(q=np.zeros((6, 7))), "'qd' is on a device and 'q' is in the host's memory"),
        (broken(q=None), "The input array 'q' is missing"),
        (broken(x=There(np.zeros(7))), "There is no input array 'x'"),
        (broken(q=There(np.zeros((6, 7)), device=1)), "'q' is on the device 1, and the kernel on"),
        (broken(q=There(np.zeros((6, 7), np.float32))), "is read as float64 and is float32"),
        (broken(q=There(np.zeros((6, 8)))), "'q' has the shape"),
        (broken(q=There(np.zeros((5, 7)))), "different numbers of requests"),
        (broken(q=There(np.asfortranarray(np.zeros((6, 7))))), "make it contiguous"),
        (broken(out={"tau": There(np.zeros((5, 7)))}), "has no shape"),
        (broken(out={}), "no array for the result 'tau'"),
        (broken(out={"tau": There(np.zeros((6, 7))), "x": 1}), "There is no result 'x'"),
        ({**states(6), "stream": 1}, "A stream is for arrays on the device"),
        ({**states(6), "workspace": 1}, "A workspace is for arrays on the device"),
        ({**states(6), "q": np.full((6, 7), np.nan)}, "nan"),
        ({**states(6), "out": {"tau": np.zeros((6, 7), np.float32)}}, "of float64"),
        ({**states(6), "q": np.zeros((6, 8))}, "axis 1 is 8 long"),
    ],
)
def test_what_is_refused(opened: Opened, given: dict[str, Any], message: str) -> None:
    compiled, device = opened()
    with pytest.raises(InputError, match=message):
        compiled(**given)
    assert device.launches == []


def test_results_over_requests_are_refused(opened: Opened) -> None:
    compiled, device = opened()
    room = np.zeros(6 * 7 * 2)
    given: dict[str, Any] = broken()
    given["q"] = There(room[:42].reshape(6, 7))
    with pytest.raises(InputError, match="'tau' overlaps 'q'"):
        compiled(out={"tau": There(room[41:83].reshape(6, 7))}, **given)
    assert device.launches == []
    compiled(out={"tau": There(room[42:].reshape(6, 7))}, **given)


def test_a_tensor_that_keeps_its_memory_is_refused(opened: Opened) -> None:
    class Tensor:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise RuntimeError("it requires grad")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    compiled, _ = opened()
    with pytest.raises(InputError, match=r"'q' does not hand over .* requires grad"):
        compiled(**broken(q=Tensor()))


def test_a_device_that_fails_says_so_and_may_be_used_again(opened: Opened) -> None:
    compiled, device = opened()
    device.broken = True
    with pytest.raises(ComputeError, match="failed"):
        compiled(**states(6))
    assert device.used == 0
    device.broken = False
    assert close(compiled(**states(6)).tau, wanted(states(6)))
