"""Times of batches of states of a chain on this machine, compared with Pinocchio's calls.

Everything takes turns in one run, and times are medians of the rounds, so that a busy neighbour
slows all alike. Pinocchio computes in float64, by a Python loop with a call per state, and by its
own pool of threads with a call per batch. ``rnea`` is compared with its ``rnea``, all others with
its ``aba``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.chains import RandomState, random_state
from pinion.chains.chain import Chain
from pinion.chains.pinocchio import to_pinocchio
from pinion.compute.cpu import DTYPES
from pinion.compute.rates import KernelCall, median, rounds_of

from .kernel import FUNCTIONS, compile

__all__ = ["chain_times"]

Row = dict[str, Any]

SEED = 11

_LOOP = 200
"""States of a Python loop: less than a millisecond, which a busy neighbour rarely interrupts."""


# Many parameters: each axis of the experiment is one.
def chain_times(
    chain: Chain,
    *,
    pinocchio: Any = None,
    functions: Sequence[str] = FUNCTIONS,
    dtypes: Sequence[str] = DTYPES,
    threads: Sequence[int] = (1,),
    robots: int = 1000,
    rounds: int = 7,
    seconds: float = 0.05,
    cache: Path | None = None,
) -> list[Row]:
    """Measure the time per robot of kernels called from Python, and optionally of Pinocchio.

    Parameters
    ----------
    pinocchio : the module, which this package does not require; None omits its rows. It needs
        revolute or prismatic joints about axes through their frames' origins.
    threads : numbers of threads, each with its rows; 0 means one per CPU core, and has no row of
        Pinocchio's pool.
    robots : B, states per batch.
    rounds, seconds : as for :func:`pinion.compute.rates.rounds_of`.
    cache : as for :func:`pinion.chains.kernels.compile`.

    Returns
    -------
    Rows with ``by``, ``function``, ``dtype``, ``threads``, ``robots``, ``ns_per_robot`` and, with
    Pinocchio, ``against_loop``: how many times faster than the Python loop.

    Raises
    ------
    ComputeError
        If a function does not support the chain, or there is no compiler.
    DynamicsError
        If the chain cannot be converted to Pinocchio.
    """
    state = random_state(chain, SEED, robots)
    cases: dict[str, KernelCall] = {}
    about: dict[str, Row] = {}

    def put(case: KernelCall, **row: Any) -> None:
        name = ", ".join(map(str, row.values()))
        cases[name] = case
        about[name] = {**row, "robots": robots}

    for function in functions:
        for dtype in dtypes:
            for count in threads:
                kernel = compile(chain, function, dtype=dtype, threads=count, cache=cache)
                requests = {a.name: _rows(state, a.name, dtype) for a in kernel.inputs}
                out = np.zeros((robots, chain.nv), dtype)
                put(
                    KernelCall(partial(kernel, out=out, **requests), robots),
                    by="Pinion",
                    function=function,
                    dtype=dtype,
                    threads=count,
                )
    loops = {}
    if pinocchio is not None:
        for function in dict.fromkeys(_theirs(name) for name in functions):
            row: Row = {"function": function, "dtype": "float64"}
            loops[function] = ", ".join(map(str, ("Pinocchio, loop", *row.values(), 1)))
            put(
                _loop(pinocchio, chain, function, state),
                by="Pinocchio, loop",
                **row,
                threads=1,
            )
            for count in threads:
                if count > 0:
                    call = _pool(pinocchio, chain, function, state, count)
                    put(KernelCall(call, robots), by="Pinocchio, pool", **row, threads=count)
    nanoseconds = {
        name: median(ns) for name, ns in rounds_of(cases, rounds=rounds, seconds=seconds).items()
    }
    rows = []
    for name, row in about.items():
        loop = loops.get(_theirs(row["function"]))
        ratio = {} if loop is None else {"against_loop": nanoseconds[loop] / nanoseconds[name]}
        rows.append({**row, "ns_per_robot": nanoseconds[name], **ratio})
    return rows


def _rows(state: RandomState, name: str, dtype: str = "float64") -> NDArray[Any]:
    return np.ascontiguousarray(getattr(state, name), dtype)


def _theirs(function: str) -> str:
    """Return the name of the Pinocchio function that computes the same result as a kernel."""
    return "rnea" if function == "rnea" else "aba"


def _arguments(function: str, state: RandomState) -> list[NDArray[Any]]:
    names = ("q", "qd", "qdd") if function == "rnea" else ("q", "qd", "tau")
    return [_rows(state, name) for name in names]


def _loop(pin: Any, chain: Chain, function: str, state: RandomState) -> KernelCall:
    model = to_pinocchio(chain, pin)
    data = model.createData()
    call = getattr(pin, function)
    rows = list(zip(*_arguments(function, state), strict=True))[:_LOOP]

    def loop() -> None:
        for q, qd, x in rows:
            call(model, data, q, qd, x)

    return KernelCall(loop, len(rows))


def _pool(
    pin: Any, chain: Chain, function: str, state: RandomState, threads: int
) -> Callable[[], Any]:
    pool = pin.ModelPool(to_pinocchio(chain, pin), threads)
    # The pool expects states in columns.
    columns = [np.asfortranarray(x.T) for x in _arguments(function, state)]
    out = np.zeros_like(columns[0])
    return partial(getattr(pin, f"{function}InParallel"), threads, pool, *columns, out)
