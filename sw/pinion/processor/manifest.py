"""The manifest of a program, by which the driver and the card identify it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from pinion.base import installation
from pinion.base.escaping import one_line
from pinion.functions import Function
from pinion.functions.records import array_of
from pinion.link import Layout, Manifest
from pinion.link.manifest import PROCESSOR
from pinion.link.relative import MARGIN, rounded_up
from pinion.robot import Model

from .accuracy import ProgramErrors
from .compile import HOME, MAX_ERROR, CompiledProgram
from .image import LOADER, RESULT_WORDS, Image, record_words
from .machine import OVERHEAD, Machine
from .program import Program

CLOCK_MHZ = 100.0
"""Clock of the ULX3S's card, for which the times of programs are stated."""


def program_manifest(
    model: Model,
    function: Function,
    compiled: CompiledProgram,
    *,
    errors: Sequence[ProgramErrors] = (),
    scales: Mapping[str, float] = MappingProxyType({}),
) -> Manifest:
    """Return the manifest of a program.

    Parameters
    ----------
    errors : measured; the manifest promises :data:`pinion.link.relative.MARGIN` times as much, and
        :data:`.compile.MAX_ERROR` of reference states where the program is made for it.
    scales : of the result blocks, which the errors refer to.
    """
    program = compiled.program
    machine = program.machine
    words_in = {str(word) for word, _ in program.inputs}
    words_out = {str(word) for word, _ in program.outputs}
    # A program computes with the parameters of a link as they are, unlike a core.
    inputs = tuple(array_of(block, model, words_in, {}) for block in function.inputs)
    outputs = tuple(array_of(block, model, words_out, {}) for block in function.results)
    measured = {e.distribution: rounded_up(e.largest, 3) for e in errors if e.flagged < e.states}
    fine = compiled.precision == "fine"
    limit = rounded_up(MARGIN * measured.get(HOME, compiled.error)) if fine else MAX_ERROR
    interval, samples = program.cycles + OVERHEAD, program.interleave
    beats_in, beats_out = samples * len(program.inputs), samples * len(program.outputs)
    return Manifest(
        version=installation.version(),
        robot=model.name,
        robot_source=one_line(Path(model.source).name),
        function=function.name,
        options=dict(function.options),
        formats=f"{compiled.precision}, words of {machine.word} bits",
        objective="program",
        max_error=limit,
        target=PROCESSOR,
        ii=-(-interval // samples),
        clock_mhz=CLOCK_MHZ,
        inputs=inputs,
        outputs=outputs,
        lanes_in=1,
        beats_in=beats_in,
        lanes_out=1,
        beats_out=beats_out,
        schedule_cycles=program.cycles,
        latency_cycles=beats_in + interval + beats_out,
        multipliers=machine.lanes,
        table_multipliers=0,
        adders=machine.lanes,
        units={},
        ops={},
        registers=program.words,
        budget={},
        budget_distribution=HOME,
        content=content_digest(program),
        scales=dict(scales),
        measured=measured or {HOME: compiled.error},
        promises={
            name: limit if name == HOME else max(limit, rounded_up(MARGIN * error))
            for name, error in measured.items()
        },
        interleave=samples,
    )


def content_digest(program: Program) -> str:
    """Return a digest of a program's contents in a card's memories."""
    image = Image.of([program]).words
    content = json.dumps([[int(store), list(words)] for store, words in sorted(image.items())])
    return sha256(f"{program.machine.digest} {content}".encode()).hexdigest()


def loading(machine: Machine) -> Layout:
    """Return the layout of packets that load programs, as the card reports it in its registers."""
    return Layout(
        function=LOADER,
        build=machine.digest,
        words_in=record_words(machine),
        words_out=RESULT_WORDS,
    )
