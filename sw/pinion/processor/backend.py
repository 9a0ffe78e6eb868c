"""A function on the model of the dynamics processor: the device ``processor``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pinion.base.progress import SILENT, Progress
from pinion.batch import Backend, Result, backend_table, by_name, check_arrays
from pinion.functions import Function, arrays_of
from pinion.functions.portable import PortableFunction, portable
from pinion.functions.row import block_arrays, word_columns
from pinion.robot import Model, coupled

from .compile import CompiledProgram, compile_program
from .machine import Machine
from .model import run


class ProcessorBackend(Backend):
    """A program on the cycle-exact model of a team of lanes.

    Results are float32, as hardware returns them; ``saturated`` says which requests left the range
    that the binary points were chosen for. ``cycles`` are those of one team that computes one
    sample after the other. Pickling and copying keep robot, function, program and machine.

    Members
    -------
    model, function : the robot and its function.
    compiled : the program, and what it was made from.
    """

    def __init__(self, *, model: Model, function: Function, compiled: CompiledProgram) -> None:
        self.model = model
        self.function = function
        self.compiled = compiled
        self._inputs = arrays_of(function.inputs, model)

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch.

        Raises
        ------
        pinion.batch.InputError
            As for a card.
        """
        batch = check_arrays(self._inputs, by_name(self._inputs, values, arrays))
        model, program = coupled(self.model), self.compiled.program
        whole = {
            a.name: np.broadcast_to(batch.arrays[a.name], (batch.count, *a.shape))
            for a in self._inputs
        }
        columns = word_columns(self.function.inputs, model, whole)
        requests = np.empty((batch.count, len(program.inputs)), dtype=np.float32)
        for place, (word, _) in enumerate(program.inputs):
            requests[:, place] = columns[word]
        words, flags = run(program, requests.view(np.uint32))
        by_word = {w: words[:, k].view(np.float32) for k, (w, _) in enumerate(program.outputs)}
        results = block_arrays(self.function.results, model, by_word, batch.count)
        cycles = batch.count * program.cycles
        if batch.single:
            single = {name: array[0, ...] for name, array in results.items()}
            return Result(arrays=single, saturated=flags[0, ...], cycles=cycles)
        return Result(arrays=results, saturated=flags, cycles=cycles)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.model, portable(self.function), self.compiled)

    def __repr__(self) -> str:
        program = self.compiled.program
        return (
            f"<ProcessorBackend {self.function!r} of {self.model!r}: {program.cycles} cycles, "
            f"{program.machine.lanes} lanes>"
        )

    def _repr_html_(self) -> str:
        title = f"{self.function.name} of {self.model.name}, {self.compiled.program.cycles} cycles"
        return backend_table(title, self._inputs, arrays_of(self.function.results, self.model))


def _restored(
    model: Model, function: PortableFunction, compiled: CompiledProgram
) -> ProcessorBackend:
    return ProcessorBackend(model=model, function=function.function(), compiled=compiled)


def open_processor(
    model: Model,
    function: Function,
    address: str,
    *,
    lanes: int = 4,
    precision: str = "fine",
    progress: Progress = SILENT,
) -> Backend:
    """Compile a function for the processor, and open it: the entry point ``processor``.

    Parameters
    ----------
    address : empty for the model; ``sim`` for the simulated card, or another way to a card that has
        a processor, with its address. The program is loaded into it.
    lanes : of the team.
    precision : ``fine`` (about float32), or ``fast`` (1e-3 at reference states, fewer cycles).

    Raises
    ------
    ProgramError
        If the function has no program on this machine.
    pinion.driver.DriverError, pinion.driver.TransportError
        If there is no such card, it holds another machine, or it does not work.
    """
    compiled = compile_program(
        model, function, Machine.of(lanes), precision=precision, progress=progress
    )
    if not address:
        return ProcessorBackend(model=model, function=function, compiled=compiled)
    from .card import open_programs

    (device,) = open_programs([(model, function, compiled)], address, progress=progress)
    return device
