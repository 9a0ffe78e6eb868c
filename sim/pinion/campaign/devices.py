"""Devices that compute a chunk: models, compiled RTL, CPUs, GPUs and cards, with one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion import api, driver
from pinion.base.arrays import Flags, Words
from pinion.batch import Backend
from pinion.card.programs import CARD, Models, ProgramReference, result_words
from pinion.cosim import CompiledCore, Reference
from pinion.cosim.reference import float_values
from pinion.cosim.stream import pack_records, unpack_records
from pinion.driver import split_device, transports
from pinion.functions import FUNCTIONS, Function, named_function, options_from_text
from pinion.gateware.emit import RTLIL
from pinion.processor.folder import DEVICE, open_program_folder

from .errors import CampaignError

INTEGERS, RTL = "integers", "rtl"

BACKENDS = ("cpu", "cuda", "float")
"""Devices that compute the function itself in floats, without flags and promised errors."""

PROCESSOR = DEVICE
"""The model of the dynamics processor, on which programs run."""

EXACT = (INTEGERS, PROCESSOR)
"""Devices that are themselves the model with which others are compared, bit for bit."""

ANYWHERE = (INTEGERS, RTL, PROCESSOR, CARD, "cpu", "float", "sim")
"""Devices that every worker has; a worker declares others by its resources."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Results and flags of a device for a batch of requests.

    Members
    -------
    values : (n, words_out) float64.
    bits : the same as float32 bits, None for a device that computes in floats.
    flags : (n,), None for such a device.
    broken : (n,) answers with an error other than in their bits.
    exact : the results are the integer model's own, so that a comparison with it is pointless.
    """

    values: NDArray[np.float64]
    bits: Words | None
    flags: Flags | None
    broken: Flags | None = None
    exact: bool = False


class Computes(ABC):
    """Interface of an open device that answers requests."""

    @abstractmethod
    def run(self, words: Words) -> Answer:
        """Answer requests (n, words_in) of float32 bits; states continue from the previous call."""

    def begin(self) -> None:  # noqa: B027 - the model always begins with initial states
        """Begin a stream: the next request starts from the initial states."""

    def close(self) -> None:  # noqa: B027 - models have nothing to close
        """Close the device."""


def known(device: str) -> str:
    """Check a device's name, and return its kind (the name without an address).

    Raises
    ------
    CampaignError
        If there is no such device.
    """
    name, _ = split_device(device)
    names = dict.fromkeys((INTEGERS, RTL, PROCESSOR, CARD, *BACKENDS, *transports()))
    if device != CARD and (
        name not in names or (name != device and name in (INTEGERS, RTL, PROCESSOR))
    ):
        raise CampaignError(f"There is no device '{device}'; choose one of {', '.join(names)}.")
    return name


def check_device(device: str, *, program: bool) -> None:
    """Raise if a device cannot run a core or, with `program`, a program.

    Raises
    ------
    CampaignError
        If a program is to run on the device of a core, or a core on that of a program.
    """
    name = split_device(device)[0]
    if program and name not in (PROCESSOR, *BACKENDS):
        raise CampaignError(
            f"A program does not run on '{device}'; choose one of "
            f"{', '.join((PROCESSOR, CARD, *BACKENDS))}."
        )
    if not program and name == PROCESSOR:
        raise CampaignError(
            f"A core does not run on '{device}': give the device '{RTL}', or a folder of "
            "`pinion program`."
        )


def open_device(reference: Models, device: str) -> Computes:
    """Open a device for a build or a program.

    Parameters
    ----------
    device : of a build ``integers``, ``rtl`` or a card (``xdma:0``, ``sim``), of a program
        ``processor`` or ``processor:sim``, of both a backend (``cpu``, ``cuda:1``, ``float``).

    Raises
    ------
    ValueError, RuntimeError
        Subclasses with a message for the user.
    """
    if split_device(device)[0] in BACKENDS:
        return _Floats(reference, device)
    if isinstance(reference, ProgramReference):
        return _Exact(reference) if device == PROCESSOR else _ProcessorCard(reference)
    if device == INTEGERS:
        return _Exact(reference)
    if device == RTL:
        return _Rtl(reference)
    return _Card(reference, device)


class _Exact(Computes):
    """Exact model of a core or a program, as a device."""

    def __init__(self, reference: Models) -> None:
        self._reference = reference

    def run(self, words: Words) -> Answer:
        bits, flags = self._reference.expected(words)
        return Answer(values=float_values(bits), bits=bits, flags=flags, exact=True)


class _Rtl(Computes):
    """Compiled RTL of a build, as a device."""

    def __init__(self, reference: Reference) -> None:
        self._manifest = reference.build.manifest
        self._core = CompiledCore.build(rtlil=reference.build.folder / RTLIL)

    def begin(self) -> None:
        self._core.reset()

    def run(self, words: Words) -> Answer:
        m = self._manifest
        beats, last = pack_records(words, lanes=m.lanes_in, beats=m.beats_in)
        run = self._core.run(beats, last, expected_beats=len(words) * m.beats_out).check()
        bits = unpack_records(run.beats, words=m.words_out, beats=m.beats_out, records=len(words))
        lasts = run.last.reshape(-1, m.beats_out)
        return Answer(
            values=float_values(bits),
            bits=bits,
            flags=run.user[m.beats_out - 1 :: m.beats_out],
            broken=~lasts[:, -1] | lasts[:, :-1].any(axis=1),
        )


class _Card(Computes):
    """Simulated or real card behind the driver, as a device."""

    def __init__(self, reference: Reference, device: str) -> None:
        self._reference = reference
        self._device = driver.open(reference.build.folder, device=device)

    def begin(self) -> None:
        if self._device.manifest.states:
            self._device.reset_state()

    def run(self, words: Words) -> Answer:
        result = self._device.run(**self._reference.arrays(words))
        outputs = self._device.manifest.outputs
        bits = _gathered(outputs, dict(result), len(words)).astype(np.float32).view(np.uint32)
        return Answer(values=float_values(bits), bits=bits, flags=result.saturated)

    def close(self) -> None:
        self._device.close()


class _ProcessorCard(Computes):
    """Simulated card of the dynamics processor with a program, as a device."""

    def __init__(self, reference: ProgramReference) -> None:
        self._reference = reference
        self._device = open_program_folder(reference.build, CARD)

    def run(self, words: Words) -> Answer:
        result = self._device.run(**self._reference.arrays(words))
        bits = result_words(self._reference.build, dict(result), len(words))
        return Answer(values=float_values(bits), bits=bits, flags=result.saturated)

    def close(self) -> None:
        self._device.close()


class _Floats(Computes):
    """Float implementation of a function on a CPU, on a GPU or in NumPy, as a device."""

    def __init__(self, reference: Models, device: str) -> None:
        self._reference = reference
        build = reference.build
        options: dict[str, Any] = {"threads": 1} if split_device(device)[0] == "cpu" else {}
        self._backend: Backend = api.backend(
            build.model,
            table_row(build.function.name, build.function.options),
            device=device,
            **options,
        )

    def begin(self) -> None:
        reset = getattr(self._backend, "reset_state", None)
        if reset is not None:
            reset()

    def run(self, words: Words) -> Answer:
        result = self._backend.run(**self._reference.arrays(words))
        outputs = self._reference.build.manifest.outputs
        values = _gathered(outputs, dict(result), len(words)).astype(np.float64)
        return Answer(values=values, bits=None, flags=None)

    def close(self) -> None:
        self._backend.close()


def table_row(name: str, options: Mapping[str, str]) -> Function:
    """Return a function of Pinion's table by name and options.

    Raises
    ------
    CampaignError
        If the function is user-defined: a build does not contain its code.
    """
    if name not in FUNCTIONS:
        raise CampaignError(
            f"The function '{name}' is user-defined, and 'cpu', 'cuda' and 'float' need its code, "
            f"which is not in the folder: run a build on '{INTEGERS}', '{RTL}' or a card, and a "
            f"program on '{PROCESSOR}' or '{CARD}'."
        )
    return named_function(name, **options_from_text(options))


def _gathered(arrays: Any, results: Mapping[str, Any], count: int) -> NDArray[Any]:
    """Return result arrays in the record's word order, (n, words_out)."""
    parts = [np.asarray(a.gather(results[a.name])).reshape(count, -1) for a in arrays]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))
