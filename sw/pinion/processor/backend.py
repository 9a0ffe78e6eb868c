"""The backend for the dynamics processor: the device ``processor``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from pinion.base.progress import SILENT, Progress
from pinion.batch import Backend, Result, backend_table, by_name, check_arrays
from pinion.driver import pack, request_dtype, result_dtype, unpack
from pinion.functions import Function
from pinion.link import Manifest
from pinion.robot import Model

from .compile import compile_program
from .machine_file import machine_of
from .manifest import program_manifest
from .model import run
from .program import Program


class ProcessorBackend(Backend):
    """A program on the cycle-exact model of a team of lanes.

    Results are float32, as hardware returns them; ``saturated`` says which samples left the range
    that the binary points were chosen for. If the program interleaves samples, it is true for all
    samples of a request if one left it: each K samples of a batch, in order, are a request, and the
    last request is filled with the last sample. ``cycles`` are those of one team that computes one
    request after another.

    Members
    -------
    manifest, program : the program's manifest, and the program.
    """

    def __init__(self, *, manifest: Manifest, program: Program) -> None:
        self.manifest = manifest
        self.program = program

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch from input arrays and return named float32 arrays.

        Raises
        ------
        pinion.batch.InputError
            As for a card.
        """
        inputs = self.manifest.inputs
        batch = check_arrays(inputs, by_name(inputs, values, arrays))
        records = {
            a.name: a.gather(np.broadcast_to(batch.arrays[a.name], (batch.count, *a.shape)))
            for a in inputs
        }
        requests = pack(request_dtype(self.manifest), records, batch.count)
        words, flags = run(self.program, requests)
        sent = unpack(result_dtype(self.manifest), words)
        results = {a.name: a.scatter(sent[a.name]) for a in self.manifest.outputs}
        cycles = self.program.requests(batch.count) * self.program.cycles
        if batch.single:
            single = {name: array[0, ...] for name, array in results.items()}
            return Result(arrays=single, saturated=flags[0, ...], cycles=cycles)
        return Result(arrays=results, saturated=flags, cycles=cycles)

    def __repr__(self) -> str:
        manifest, program = self.manifest, self.program
        return (
            f"<ProcessorBackend {manifest.function} of {manifest.robot}: {_cycles(program)}, "
            f"{program.machine.lanes} lanes>"
        )

    def _repr_html_(self) -> str:
        manifest = self.manifest
        title = f"{manifest.function} of {manifest.robot}, {_cycles(self.program)}"
        return backend_table(title, manifest.inputs, manifest.outputs)


def _cycles(program: Program) -> str:
    samples = f" for {program.interleave} samples" if program.interleave > 1 else ""
    return f"{program.cycles} cycles{samples}"


def open_processor(
    model: Model,
    function: Function,
    address: str,
    *,
    lanes: int | None = None,
    machine: str | Path | None = None,
    precision: str = "fine",
    interleave: int = 1,
    progress: Progress = SILENT,
) -> Backend:
    """Compile a function for the processor and open it: the entry point ``processor``.

    Parameters
    ----------
    address : empty for the model; ``sim`` for the simulated card, or another connection to a card
        that has a processor, with its address. The program is loaded into it.
    lanes, machine : as for :func:`.machine_file.machine_of`.
    precision : ``fine`` (about float32), or ``fast`` (1e-3 at reference states, fewer cycles).
    interleave : samples of a batch that are computed together, which takes fewer cycles a sample
        but more for each; all of them are flagged as saturated if one is.

    Raises
    ------
    ProgramError
        If the function has no program on this machine, or the machine is invalid.
    pinion.driver.DriverError, pinion.driver.TransportError
        If there is no such card, it holds another machine, or it does not work.
    """
    compiled = compile_program(
        model,
        function,
        machine_of(lanes, machine),
        precision=precision,
        interleave=interleave,
        progress=progress,
    )
    manifest = program_manifest(model, function, compiled)
    return open_program(manifest, compiled.program, address, progress=progress)


def open_program(
    manifest: Manifest, program: Program, address: str, *, progress: Progress = SILENT
) -> Backend:
    """Open a compiled program on the processor's model or on a card."""
    if not address:
        return ProcessorBackend(manifest=manifest, program=program)
    from .card import open_programs

    (device,) = open_programs([(manifest, program)], address, progress=progress)
    return device
