"""Batches: a function's results for very many requests on CPUs and GPUs, without comparison.

No build is needed: each worker receives the robot and the function's name and compiles it once.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np
from distributed import Client
from numpy.typing import ArrayLike, NDArray

from pinion import api
from pinion.base.progress import SILENT, Progress
from pinion.batch import Backend, validate_arrays
from pinion.driver import split_device
from pinion.functions import FUNCTIONS, Function, RowOptions, arrays_of, row_of, sample
from pinion.link import Array
from pinion.robot import Model, RobotOptions, asked_robot, model_from_dict, model_to_dict

from .devices import BACKENDS, PROCESSOR, table_row
from .errors import CampaignError
from .parcel import Bench
from .plan import CHUNK, GIVEN, Plan, check_numbers, plan_identity
from .run import CampaignProgress, devices_of, fill_store, run_of
from .store import StateStore, packed
from .tally import FigureTally

DTYPES = ("float32", "float64")

DEVICES = (*BACKENDS, PROCESSOR)
"""Devices for which a function is compiled."""


# Many parameters: a user's options, by keyword, as docs/campaigns.md lists them.
def batch(
    robot: str | os.PathLike[str] | Model | None,
    function: str | Function,
    file: str | Path,
    *,
    arrays: Mapping[str, ArrayLike] | None = None,
    states: int | None = None,
    device: str = "cpu",
    dtype: str = "float64",
    distribution: str = "reference",
    seed: int = 0,
    chunk: int = CHUNK,
    scheduler: str | None = None,
    workers: int | None = None,
    client: Client | None = None,
    row_options: RowOptions | None = None,
    robot_options: RobotOptions | None = None,
    on_chunk: Callable[[CampaignProgress], None] | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Compute a function for many requests on many workers and store the results.

    Called again with the same arguments, it resumes where it was interrupted.
    :func:`.store.read_results` reads the results by name, and the requests if they were sampled.

    Parameters
    ----------
    robot, function : as for :func:`pinion.api.backend`; only functions of the table, because
        user-defined code is not sent to workers.
    file : the file for the results (:mod:`.store`).
    arrays : requests by name, (n, ...) each; or
    states : number to sample, with ``distribution`` and ``seed`` (:func:`pinion.functions.sample`).
    device : ``cpu``, ``cuda``, ``float`` or ``processor`` (the model of a program);
        ``cuda:0,cuda:1`` starts a local worker for each GPU.
    dtype : ``float32`` or ``float64`` arithmetic; ``float`` always uses float64.
    chunk : requests that one worker computes at a time.
    scheduler, workers, client, on_chunk, progress : as for :func:`.run.campaign`.
    row_options, robot_options : options of the function and of the robot.

    Returns
    -------
    JSON-able figures: ``robot``, ``function``, ``device``, ``dtype``, ``states``, ``finished``,
    ``not_finite`` (requests with a NaN or infinite result) and ``first_not_finite``, ``saturated``
    (requests that exceeded the ranges of a program),
    ``failures`` by chunk, ``ok`` (all finished, all results finite), and ``run``: the run's cost.

    Raises
    ------
    CampaignError, ClusterError, ValueError, RuntimeError
        Subclasses with a message for the user. Stored chunks remain.
    """
    parcel = FunctionParcel.of(
        asked_robot(robot, **(robot_options or RobotOptions())),
        row_of(function, **(row_options or RowOptions())),
        dtype=dtype,
        device=device,
    )
    model, row = parcel.load()
    devices, kind = devices_of(device, scheduler, workers, client)
    requests: dict[str, NDArray[Any]] | None = None
    if (arrays is None) == (states is None):
        raise CampaignError(
            "A batch needs either requests as arrays (--input), or a number of states (--states) "
            "to sample."
        )
    if arrays is not None:
        requests = _full_arrays(arrays_of(row.inputs, model), arrays, dtype)
        states, distribution = len(next(iter(requests.values()))), GIVEN
    assert states is not None
    check_numbers(
        states=states, chunk=chunk, distribution=distribution if requests is None else None
    )
    plan = Plan(
        what=f"{model.name} {row.name}",
        build=parcel.digest[:16],
        folder=parcel.digest,
        device=kind,
        distribution=distribution,
        seed=seed,
        states=states,
        chunk=chunk,
        keep=True,
        max_error=None,
        requests="" if requests is None else _digest(requests),
        **plan_identity(),
    )
    began = time.perf_counter()
    with StateStore.open(Path(file), plan) as store:
        resumed = fill_store(
            plan,
            store,
            lambda: parcel,
            requests_of=None
            if requests is None
            else lambda a, b: {n: v[a:b] for n, v in requests.items()},
            devices=devices,
            scheduler=scheduler,
            workers=workers,
            client=client,
            on_chunk=on_chunk,
            progress=progress,
        )
        total, failures = store.total(), store.failures()
        run = run_of(store, resumed, began)
    finished, bad = total.counts["requests"], total.counts["wrong"]
    return {
        "robot": model.name,
        "function": row.name,
        "device": kind,
        "dtype": {"float": "float64", PROCESSOR: "float32"}.get(kind, dtype),
        "distribution": distribution,
        "seed": seed,
        "states": states,
        "chunk": chunk,
        "finished": finished,
        "not_finite": bad,
        "first_not_finite": total.first["wrong"],
        "saturated": total.counts["flagged"],
        "failures": {str(number): sentence for number, sentence in failures.items()},
        "ok": finished == states and not bad and not failures,
        "run": run,
    }


@dataclass(frozen=True)
class FunctionParcel:
    """Robot and a function from Pinion's table, serialized for workers.

    Members
    -------
    digest : SHA-256 of ``text``.
    text : robot, function, options and dtype, as JSON.
    """

    digest: str
    text: str

    @classmethod
    def of(cls, model: Model, row: Function, *, dtype: str, device: str) -> FunctionParcel:
        """Check and serialize a robot and a function.

        Raises
        ------
        CampaignError, pinion.functions.FunctionError
            If the function is user-defined, the robot does not support it, or the dtype or device
            is unknown.
        """
        if split_device(device)[0] not in DEVICES or device.startswith(f"{PROCESSOR}:"):
            raise CampaignError(
                f"A batch has no device '{device}'; choose one of {', '.join(DEVICES)}. Use a "
                "campaign for cards."
            )
        if dtype not in DTYPES:
            raise CampaignError(f"There is no dtype '{dtype}'; choose one of {', '.join(DTYPES)}.")
        if row.name not in FUNCTIONS:
            raise CampaignError(
                f"The function '{row.name}' is user-defined, and its code is not sent to workers: "
                "compute it in this process with pinion.api.backend."
            )
        table_row(row.name, row.options)
        # Evaluate once here: some errors, such as a missing tip name, only occur then.
        trial = sample(model, row, 1, distribution="reference", seed=0)
        row.evaluate(model, {name: values.astype(np.float64) for name, values in trial.items()})
        data = {
            "model": model_to_dict(model),
            "function": row.name,
            "options": row.options,
            "dtype": dtype,
        }
        text = json.dumps(data, sort_keys=True, allow_nan=False)
        return cls(sha256(text.encode()).hexdigest(), text)

    def load(self) -> tuple[Model, Function]:
        """Return the robot and the function from the serialized text."""
        data = json.loads(self.text)
        return model_from_dict(data["model"]), table_row(data["function"], data["options"])

    def open(self, place: Path, device: str) -> Bench:
        """Compile the function for a device."""
        del place
        options: dict[str, Any] = {}
        name = split_device(device)[0]
        if name not in ("float", PROCESSOR):
            options["dtype"] = json.loads(self.text)["dtype"]
        if name == "cpu":
            options["threads"] = 1  # a worker for each core
        model, row = self.load()
        return _Computed(model, row, api.backend(model, row, device=device, **cast(Any, options)))


class _Computed:
    """Compiled function on a worker; its results are stored without comparison."""

    def __init__(self, model: Model, row: Function, backend: Backend) -> None:
        self._model = model
        self._row = row
        self._backend = backend

    def chunk(
        self, plan: Plan, number: int, requests: Mapping[str, NDArray[Any]] | None
    ) -> tuple[FigureTally, bytes]:
        """Compute a chunk's results and count those that are not finite."""
        start, stop = plan.span(number)
        sampled: Mapping[str, NDArray[Any]] = {}
        if requests is None:
            requests = sampled = sample(
                self._model,
                self._row,
                stop - start,
                distribution=plan.distribution,
                seed=plan.generator(number),
            )
        reset = getattr(self._backend, "reset_state", None)
        if reset is not None:
            reset()
        results = dict(self._backend.run(**requests))
        saturated = results.pop("saturated")
        good = np.ones(stop - start, dtype=np.bool_)
        for values in results.values():
            good &= np.isfinite(values).reshape(stop - start, -1).all(axis=1)
        tally = FigureTally()
        tally.count("requests", np.ones_like(good), start)
        tally.count("wrong", ~good, start)
        if plan.device == PROCESSOR:  # floats never saturate
            tally.count("flagged", saturated, start)
            results["saturated"] = saturated
        return tally, packed({**sampled, **results})

    def close(self) -> None:
        """Close the backend."""
        self._backend.close()


def _full_arrays(
    expected: Sequence[Array], arrays: Mapping[str, ArrayLike], dtype: str
) -> dict[str, NDArray[Any]]:
    """Check requests and broadcast each array to (n, ...)."""
    kind = np.float32 if dtype == "float32" else np.float64
    checked = validate_arrays(expected, arrays, dtype=kind)
    if not checked.count:
        raise CampaignError("A batch needs at least 1 request, not 0.")
    return {
        array.name: np.broadcast_to(
            checked.arrays[array.name], (checked.count, *array.shape)
        ).astype(kind)
        for array in expected
    }


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of request arrays, their names, types and shapes, in hexadecimal."""
    digest = sha256()
    for name, values in arrays.items():
        digest.update(f"{name} {values.dtype} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()
