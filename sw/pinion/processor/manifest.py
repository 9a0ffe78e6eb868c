"""The manifest of a program, by which driver and card know it as they know a build."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from pinion.base import installation
from pinion.base.escaping import one_line
from pinion.functions import Function
from pinion.functions.records import array_of
from pinion.link import Layout, Manifest
from pinion.robot import Model

from .compile import MAX_ERROR, CompiledProgram
from .image import LOADER, RESULT_WORDS, Image, record_words
from .machine import OVERHEAD, Machine


def program_manifest(model: Model, function: Function, compiled: CompiledProgram) -> Manifest:
    """Return the manifest of a program."""
    program = compiled.program
    machine = program.machine
    words_in = {str(word) for word, _ in program.inputs}
    words_out = {str(word) for word, _ in program.outputs}
    # A program computes with the parameters of a link as they are, unlike a core.
    inputs = tuple(array_of(block, model, words_in, {}) for block in function.inputs)
    outputs = tuple(array_of(block, model, words_out, {}) for block in function.results)
    image = Image.of([program]).words
    content = json.dumps([[int(store), list(words)] for store, words in sorted(image.items())])
    interval = program.cycles + OVERHEAD
    return Manifest(
        version=installation.version(),
        robot=model.name,
        robot_source=one_line(Path(model.source).name),
        function=function.name,
        options=dict(function.options),
        formats=f"words of {machine.word} bits",
        objective="program",
        max_error=max(MAX_ERROR, compiled.error),
        target="processor",
        ii=interval,
        clock_mhz=0.0,
        inputs=inputs,
        outputs=outputs,
        lanes_in=1,
        beats_in=len(program.inputs),
        lanes_out=1,
        beats_out=len(program.outputs),
        schedule_cycles=program.cycles,
        latency_cycles=len(program.inputs) + interval + len(program.outputs),
        multipliers=machine.lanes,
        table_multipliers=0,
        adders=machine.lanes,
        units={},
        ops={},
        registers=program.words,
        budget={},
        budget_distribution="reference",
        content=sha256(f"{machine.digest} {content}".encode()).hexdigest(),
        measured={"reference": compiled.error},
    )


def loading(machine: Machine) -> Layout:
    """Return the layout of packets that load programs, which the card's registers state."""
    return Layout(
        function=LOADER,
        build=machine.digest,
        words_in=record_words(machine),
        words_out=RESULT_WORDS,
    )
