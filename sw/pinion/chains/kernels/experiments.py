"""Timings of the papers' experiments on long chains and many robots, on this machine.

:mod:`pinion.bench.scaling.data` has the sources and their claims. Chains have random revolute and
prismatic joints, states are random, and numbers have double precision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Thread
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.batch import InputError
from pinion.chains import (
    Chain,
    RandomState,
    aba,
    cfa,
    hybrid_aba,
    jsiia,
    random_chain,
    random_state,
    rnea,
    rnea_scan,
)
from pinion.compute.cuda.device import CudaDevice
from pinion.native import ComputeError

from . import cuda
from .kernel import ChainKernel, compile
from .times import chain_times

Row = dict[str, Any]
Call = Callable[[], object]

LINKS = (10, 20, 50, 100, 200, 500, 1000)
GROUPS = (1, 10, 100, 1000)
PEER_GROUPS = (1000, 10_000)
DENSE = 200
"""Longest chain whose M the float model computes, by n inverse dynamics in one batch."""

INERTIAS = "arm"

_COMPILED: Mapping[str, str] = MappingProxyType(
    {"id_serial": "rnea", "jsiia": "jsiia", "aba": "aba", "cfa_ldl": "cfa"}
)
_MODELS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "id_serial": rnea,
        "id_scan": rnea_scan,
        "jsiia": jsiia,
        "aba": aba,
        "hybrid": hybrid_aba,
        "cfa_oee": partial(cfa, solver="oee"),
        "cfa_oer": partial(cfa, solver="oer"),
        "cfa_ldl": partial(cfa, solver="ldl"),
    }
)
_ON_GPU: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "id_serial": ("rnea", "thread"),
        "id_warp": ("rnea", "warp"),
        "id_scan": ("rnea", "scan"),
        "jsiia": ("aba", "jsiia"),
        "aba": ("aba", "thread"),
        "aba_warp": ("aba", "warp"),
        "hybrid": ("aba", "hybrid"),
        "abia": ("aba", "abia"),
        "cfa_oee": ("aba", "cfa_oee"),
        "cfa_oer": ("aba", "cfa_oer"),
        "cfa_ldl": ("aba", "cfa_ldl"),
    }
)
"""Function and method of :mod:`pinion.chains.kernels.cuda`, by the experiments' names."""


@dataclass(frozen=True)
class ExperimentPoint:
    """One point of an experiment: a chain length and a number of robots.

    Members
    -------
    experiment : its name.
    links, robots : links of the chain, and number of robots.
    """

    experiment: str
    links: int
    robots: int

    @property
    def inverse(self) -> bool:
        """Whether the experiment computes inverse dynamics."""
        return "_id" in self.experiment


def shapes(links: Sequence[int] = LINKS, groups: Sequence[int] = GROUPS) -> list[ExperimentPoint]:
    """Return the points of all experiments."""
    points = [ExperimentPoint(name, n, 1) for name in ("links_id", "links_fd") for n in links]
    for name, n in (
        ("groups_id_10", 10),
        ("groups_id_100", 100),
        ("groups_fd_10", 10),
        ("groups_fd_200", 200),
    ):
        points += [ExperimentPoint(name, n, robots) for robots in groups]
    return points


def measured(shape: ExperimentPoint, *, seconds: float, seed: int = 1) -> Iterator[Row]:
    """Time every CPU algorithm at one experiment point, on each CPU platform.

    Parameters
    ----------
    seconds : time for each figure: as many calls as fit, at least one.

    Yields
    ------
    Rows in the form of :mod:`pinion.bench.scaling.data`.

    Raises
    ------
    ComputeError
        If there is no compiler.
    """
    chain = random_chain(shape.links, seed, inertias=INERTIAS)
    state = random_state(chain, seed, shape.robots)
    methods = [name for name in _MODELS if _inverse(name) == shape.inverse]
    for name in methods:
        for platform, call in _calls(shape, name, chain, state):
            yield _row(shape, name, platform, call, seconds)


def _row(shape: ExperimentPoint, name: str, platform: str, call: Call, seconds: float) -> Row:
    ms, calls = mean_ms(call, seconds)
    return {
        "experiment": shape.experiment,
        "algorithm": name,
        "platform": platform,
        "links": shape.links,
        "robots": shape.robots,
        "ms": ms,
        "calls": calls,
    }


def _inverse(name: str) -> bool:
    return name.startswith("id_")


class GpuExperiments:
    """The papers' experiments on this machine's GPU.

    Members
    -------
    name : name of the device.
    left_out : reasons for missing measurements, by measurement.
    """

    def __init__(self, device: CudaDevice) -> None:
        self.name = device.name
        self.left_out: dict[str, str] = {}
        self._device = device

    def measured(self, shape: ExperimentPoint, *, seconds: float, seed: int = 1) -> Iterator[Row]:
        """Time every GPU algorithm at one point; arguments and rows as for the function `measured`.

        With host arrays, including copies, and, except for the hybrid, with arrays on the device.
        Every call waits for its result.
        """
        chain = random_chain(shape.links, seed, inertias=INERTIAS)
        state = random_state(chain, seed, shape.robots)
        arguments = _arguments(shape, state)
        for name, (function, method) in _ON_GPU.items():
            if _inverse(name) != shape.inverse:
                continue
            try:
                kernel = cuda.compile(chain, function, method=method, device=self._device)
                yield _row(shape, name, "gpu_copies", partial(kernel, **arguments), seconds)
                if method != "hybrid":
                    device_arguments = {key: kernel.sent(array) for key, array in arguments.items()}
                    yield _row(shape, name, "gpu", partial(kernel, **device_arguments), seconds)
                kernel.close()
            except (InputError, ComputeError) as error:
                self.left_out[f"{name} on the GPU, {shape.robots} x {shape.links}"] = str(error)


def _calls(
    shape: ExperimentPoint, name: str, chain: Chain, state: RandomState
) -> Iterator[tuple[str, Call]]:
    """Yield each platform with its call of an algorithm at one point."""
    arguments = _arguments(shape, state)
    if name in _COMPILED:
        single_thread = compile(chain, _COMPILED[name], threads=1)
        out = np.empty_like(arguments["qd"])
        yield "one", partial(single_thread, out=out, **arguments)
        if shape.robots > 1:
            yield "all", partial(compile(chain, _COMPILED[name]), out=out, **arguments)
            if name != "cfa_ldl":
                yield "thread", partial(a_thread_each, single_thread, arguments, out)
    if shape.experiment.startswith("links") and (name != "jsiia" or shape.links <= DENSE):
        yield "numpy", partial(_MODELS[name], chain, *arguments.values())


def _arguments(shape: ExperimentPoint, state: RandomState) -> dict[str, NDArray[Any]]:
    if shape.inverse:
        return {"q": state.q, "qd": state.qd, "qdd": state.qdd}
    return {"q": state.q, "qd": state.qd, "tau": state.tau}


def a_thread_each(
    kernel: ChainKernel, arguments: Mapping[str, NDArray[Any]], out: NDArray[Any]
) -> None:
    """Compute each robot's dynamics in a separate thread, as the papers' baseline does."""

    def compute(k: int) -> None:
        kernel(out=out[k], **{name: array[k] for name, array in arguments.items()})

    threads = [Thread(target=compute, args=(k,)) for k in range(len(out))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def beside_pinocchio(pinocchio: Any, groups: Sequence[int] = PEER_GROUPS) -> list[Row]:
    """Measure kernels and Pinocchio's functions on a chain of 10 links, on one core and on all.

    Parameters
    ----------
    pinocchio : the module, which this package does not require.

    Raises
    ------
    ComputeError
        If there is no compiler.
    """
    chain = random_chain(10, 1, inertias=INERTIAS)
    rows: list[Row] = []
    for robots in groups:
        rows += chain_times(chain, pinocchio=pinocchio, threads=(1, 0), robots=robots)
    return rows


def mean_ms(call: Call, seconds: float) -> tuple[float, int]:
    """Return the mean time [ms] and the number of calls, excluding the first call if possible.

    Parameters
    ----------
    seconds : time for all calls, of which there is at least one.
    """
    begin = time.perf_counter()
    call()
    first = time.perf_counter() - begin
    if first >= seconds:
        return 1e3 * first, 1
    calls, begin = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        spent = time.perf_counter() - begin
        if spent + first >= seconds:
            return 1e3 * spent / calls, calls
