"""A function for very many requests on processors and GPUs: results, and nothing to compare.

No build is needed: what travels to the workers is the robot and the name of the function, and
each of them compiles it once.
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
from pinion.driver.transport import split_device
from pinion.functions import Function, RowOptions, arrays_of, row_of, sample
from pinion.link import Array
from pinion.robot import (
    Model,
    RobotOptions,
    asked_robot,
    model_from_dict,
    model_to_dict,
)

from .devices import BACKENDS, table_row
from .errors import CampaignError
from .parcel import Bench
from .plan import CHUNK, GIVEN, Plan, check_numbers, identity
from .run import CampaignProgress, devices_of, fill, run_of
from .store import Store, packed
from .tally import Tally

DTYPES = ("float32", "float64")


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
    done: Callable[[CampaignProgress], None] | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Compute a function for many requests, on many workers, and keep the results.

    Called again with the same arguments, it goes on where it was interrupted.
    :func:`.store.read_results` reads what came: results by name, and the requests where they were
    drawn.

    Parameters
    ----------
    robot, function : as of :func:`pinion.api.backend`; functions of the table alone, because code
        of one's own does not travel.
    file : of the results (:mod:`.store`).
    arrays : requests by name, (n, ...) each; or
    states : how many are drawn, with ``distribution`` and ``seed``
        (:func:`pinion.functions.sample`).
    device : ``cpu``, ``cuda`` or ``float``; ``cuda:0,cuda:1`` starts a local worker for each GPU.
    dtype : ``float32`` or ``float64``, that is computed with; ``float`` always has float64.
    chunk : requests that one worker computes at a time.
    scheduler, workers, client, done, progress : as of :func:`.run.campaign`.
    row_options, robot_options : of the function and of the robot.

    Returns
    -------
    JSON-able figures: ``robot``, ``function``, ``device``, ``dtype``, ``states``, ``finished``,
    ``not_finite`` (requests with a result that is no number) and ``first_not_finite``,
    ``failures`` by chunk, ``ok`` (all are finished, with numbers), and ``run``: what it took.

    Raises
    ------
    CampaignError, ClusterError, ValueError, RuntimeError
        Subclasses with a sentence. What was stored stays.
    """
    parcel = FunctionParcel.of(
        asked_robot(robot, **(robot_options or RobotOptions())),
        row_of(function, **(row_options or RowOptions())),
        dtype=dtype,
        device=device,
    )
    model, row = parcel.load()
    devices, kind = devices_of(device, scheduler, workers, client)
    given: dict[str, NDArray[Any]] | None = None
    if (arrays is None) == (states is None):
        raise CampaignError("Give either requests or how many states to draw, and not both.")
    if arrays is not None:
        given = _whole(arrays_of(row.inputs, model), arrays, dtype)
        states, distribution = len(next(iter(given.values()))), GIVEN
    assert states is not None
    check_numbers(states=states, chunk=chunk, distribution=distribution if given is None else None)
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
        requests="" if given is None else _digest(given),
        **identity(),
    )
    began = time.perf_counter()
    with Store.open(Path(file), plan) as store:
        resumed = fill(
            plan,
            store,
            lambda: parcel,
            given=None if given is None else lambda a, b: {n: v[a:b] for n, v in given.items()},
            devices=devices,
            scheduler=scheduler,
            workers=workers,
            client=client,
            done=done,
            progress=progress,
        )
        total, failures = store.total(), store.failures()
        run = run_of(store, resumed, began)
    finished, bad = total.counts["requests"], total.counts["wrong"]
    return {
        "robot": model.name,
        "function": row.name,
        "device": kind,
        "dtype": "float64" if kind == "float" else dtype,
        "distribution": distribution,
        "seed": seed,
        "states": states,
        "chunk": chunk,
        "finished": finished,
        "not_finite": bad,
        "first_not_finite": total.first["wrong"],
        "failures": {str(number): sentence for number, sentence in failures.items()},
        "ok": finished == states and not bad and not failures,
        "run": run,
    }


@dataclass(frozen=True)
class FunctionParcel:
    """A function of the table for a robot, on its way.

    Members
    -------
    digest : SHA-256 of the text.
    text : robot, function, options and dtype, as JSON.
    """

    digest: str
    text: str

    @classmethod
    def of(cls, model: Model, row: Function, *, dtype: str, device: str) -> FunctionParcel:
        """Describe a function.

        Raises
        ------
        CampaignError, pinion.functions.FunctionError
            It is one of the user's own, the robot has not what it takes, or there is no such dtype
            or device.
        """
        if split_device(device)[0] not in BACKENDS:
            raise CampaignError(
                f"A batch has no device '{device}'; choose one of {', '.join(BACKENDS)}. For "
                "cards there are campaigns."
            )
        if dtype not in DTYPES:
            raise CampaignError(f"There is no dtype '{dtype}'; choose one of {', '.join(DTYPES)}.")
        table_row(row.name, row.options)
        # What only shows when it is computed, such as a tip that is not named, shows here.
        one = sample(model, row, 1, distribution="reference", seed=0)
        row.evaluate(model, {name: values.astype(np.float64) for name, values in one.items()})
        data = {
            "model": model_to_dict(model),
            "function": row.name,
            "options": row.options,
            "dtype": dtype,
        }
        text = json.dumps(data, sort_keys=True, allow_nan=False)
        return cls(sha256(text.encode()).hexdigest(), text)

    def load(self) -> tuple[Model, Function]:
        """The robot and the function, as every worker has them."""
        data = json.loads(self.text)
        return model_from_dict(data["model"]), table_row(data["function"], data["options"])

    def open(self, place: Path, device: str) -> Bench:
        """Compile the function for a device."""
        del place
        options: dict[str, Any] = {}
        name = split_device(device)[0]
        if name != "float":
            options["dtype"] = json.loads(self.text)["dtype"]
        if name == "cpu":
            options["threads"] = 1  # a worker for each core
        model, row = self.load()
        return _Computed(model, row, api.backend(model, row, device=device, **cast(Any, options)))


class _Computed:
    """A function that was compiled; its results are kept."""

    def __init__(self, model: Model, row: Function, backend: Backend) -> None:
        self._model = model
        self._row = row
        self._backend = backend

    def chunk(
        self, plan: Plan, number: int, given: Mapping[str, NDArray[Any]] | None
    ) -> tuple[Tally, bytes]:
        """The results of a chunk, and how many are no numbers."""
        start, stop = plan.span(number)
        requests = given
        if requests is None:
            requests = sample(
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
        results.pop("saturated", None)  # nothing can be, in floats
        drawn = requests if given is None else {}
        good = np.ones(stop - start, dtype=np.bool_)
        for values in results.values():
            good &= np.isfinite(values).reshape(stop - start, -1).all(axis=1)
        tally = Tally()
        tally.count("requests", np.ones_like(good), start)
        tally.count("wrong", ~good, start)
        return tally, packed({**drawn, **results})

    def close(self) -> None:
        """Give back what the backend holds."""
        self._backend.close()


def _whole(
    expected: Sequence[Array], given: Mapping[str, ArrayLike], dtype: str
) -> dict[str, NDArray[Any]]:
    """Checked requests, each array (n, ...)."""
    kind = np.float32 if dtype == "float32" else np.float64
    checked = validate_arrays(expected, given, dtype=kind)
    if not checked.count:
        raise CampaignError("No request is given: a batch needs at least 1.")
    return {
        array.name: np.broadcast_to(
            checked.arrays[array.name], (checked.count, *array.shape)
        ).astype(kind)
        for array in expected
    }


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of requests."""
    found = sha256()
    for name, values in arrays.items():
        found.update(f"{name} {values.dtype} {values.shape} ".encode())
        found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()
