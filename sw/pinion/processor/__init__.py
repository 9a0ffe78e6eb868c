"""Programs for the dynamics processor: functions of a robot compiled for a team of lanes.

A graph becomes sums of products (:mod:`.sums`) with a binary point for each value (:mod:`.points`),
a schedule for the lanes of a team (:mod:`.schedule`) and the rows of a program (:mod:`.program`),
which :mod:`.check` checks and :mod:`.model` runs cycle by cycle.
"""

from __future__ import annotations

from .compile import CompiledProgram, compile_program
from .errors import ProgramError
from .machine import Machine
from .model import run
from .program import Program

__all__ = ["CompiledProgram", "Machine", "Program", "ProgramError", "compile_program", "run"]
