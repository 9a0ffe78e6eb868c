"""Tasks that kill the worker which runs them; workers import them from here."""

from __future__ import annotations

import os
import signal
from typing import Any

from pinion.campaign.plan import Plan
from pinion.campaign.store import ChunkRecord
from pinion.campaign.sweep import measure_elsewhere
from pinion.campaign.worker import work

POISON = 2
"""Return the number of the chunk."""


def poisoned(plan: Plan, number: int, words: Any) -> ChunkRecord:
    """Call `pinion.campaign.worker.work`, but kill the worker at chunk `POISON`."""
    if number == POISON:
        os.kill(os.getpid(), signal.SIGKILL)
    return work(plan, number, words)


def once(task: tuple[Any, ...], key: str, files: Any) -> Any:
    """Call `pinion.campaign.sweep.measure_elsewhere`; kill the worker after the first point.

    The robot's folder of marks is in the environment that workers inherit.
    """
    mark = os.path.join(os.environ["PINION_TEST_MARKS"], "killed")
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return measure_elsewhere(task, key, files)
    measure_elsewhere(task, key, files)
    os.kill(os.getpid(), signal.SIGKILL)
    return None
