"""Record of a task's search, stored beside the core whose formats it chose."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pinion.graph import Graph, names
from pinion.graph.evaluate import formats
from pinion.link import Manifest

from .by_task import ORDINARY, TaskError, TaskSearch

TASK, RECORD = "task.toml", "task.json"
"""Names of the task's file and of the search record."""

LARGEST = 4 << 20
"""Largest size in bytes of a record or task that is read."""


def task_record(search: TaskSearch) -> dict[str, Any]:
    """Return a search and its result as a JSON-able dictionary.

    ``tried``: every candidate with estimated ``blocks`` and ``bits`` of operands, its ``loss`` and
    whether it ``held``; ``chosen``: the index of the chosen one; ``found``, ``held_out``: losses of
    the scheduled core; ``ordinary``: blocks and bits of the formats of `--max-error`.
    """
    goal, choice = search.goal, search.chosen
    assert choice is not None and search.found is not None and search.held_out is not None
    plain = None
    if search.ordinary is not None:
        plain = {
            "max_error": ORDINARY, "blocks": search.ordinary[0], "bits": search.ordinary[1],
        }  # fmt: skip
    return {
        "name": goal.name,
        "digest": goal.digest,
        "formats": f"auto by task {goal.name}: {choice.words}",
        "loss": goal.loss,
        "found": _rounded(search.found.loss),
        "held_out_loss": goal.held_out_loss,
        "held_out": _rounded(search.held_out.loss),
        "exact": {name: _rounded(value) for name, value in goal.exact.items()},
        "found_figures": {k: _rounded(v) for k, v in search.found.figures.items()},
        "held_out_figures": {k: _rounded(v) for k, v in search.held_out.figures.items()},
        "tried": [candidate.to_dict() for candidate in search.tried],
        "chosen": search.tried.index(choice),
        "ordinary": plain,
    }


def record_text(record: Mapping[str, Any]) -> str:
    """Return the record as the text of its file (JSON)."""
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def task_names(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the task's name and the digests of the two files, for the manifest."""
    digest = hashlib.sha256(record_text(record).encode()).hexdigest()
    return {"name": record["name"], "file": record["digest"], "record": digest}


def task_figures(record: Mapping[str, Any]) -> dict[str, float]:
    """Return losses and costs by name from a task's record, for the manifest."""
    choice = record["tried"][record["chosen"]]
    figures = {name: record[name] for name in ("loss", "found", "held_out_loss", "held_out")}
    figures |= {f"float64_{name}": value for name, value in record["exact"].items()}
    figures |= {name: float(choice[name]) for name in ("blocks", "bits", "wide", "narrow")}
    if record["ordinary"] is not None:
        figures |= {f"ordinary_{k}": float(record["ordinary"][k]) for k in ("blocks", "bits")}
    return figures


def read_record(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """Read the record of a build whose formats a task chose.

    Raises
    ------
    TaskError
        If it or the task's file is missing, or is not the one of the manifest.
    """
    contents = {}
    for name, key in ((TASK, "file"), (RECORD, "record")):
        try:
            with (folder / name).open("rb") as file:
                data = file.read(LARGEST + 1)
        except OSError as error:
            raise TaskError(f"'{folder / name}' cannot be read ({error.strerror}).") from None
        if hashlib.sha256(data).hexdigest() != manifest.task.get(key):
            raise TaskError(
                f"'{folder / name}' is not the file that the build wrote: build the folder again."
            )
        contents[name] = data
    record: dict[str, Any] = json.loads(contents[RECORD])
    return record


def broken_task(folder: Path, manifest: Manifest, graph: Graph) -> str:
    """Return a sentence on the first inconsistency in a build's record of its task, or "".

    Nothing is simulated again, so the measured losses are taken from the build. The checks are that
    they are within the stated limits, that the record is consistent, that no cheaper candidate of
    the same lengths held, and that the core's words are the chosen ones.

    Parameters
    ----------
    graph : the build's fixed graph.
    """
    try:
        record = read_record(folder, manifest)
        if task_names(record) != manifest.task or task_figures(record) != manifest.tracking:
            return "The manifest and the record of the task differ: build the folder again."
        return _broken_losses(manifest.tracking) or _broken_choice(record, graph)
    except TaskError as error:
        return str(error)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, RecursionError) as error:
        return (
            f"The record of the task is not valid ({type(error).__name__}): build the folder again."
        )


def _broken_losses(figures: Mapping[str, float]) -> str:
    for key, limit, where in (
        ("found", "loss", "in the task"),
        ("held_out", "held_out_loss", "on motions that the search did not see"),
    ):
        loss = figures[key]
        if not (math.isfinite(loss) and loss <= figures[limit]):
            return (
                f"The core's loss is {loss:g} {where}, but at most {figures[limit]:g} is allowed."
            )
    return ""


def _broken_choice(record: Mapping[str, Any], graph: Graph) -> str:
    candidates, choice = record["tried"], record["tried"][record["chosen"]]
    for candidate in candidates:
        loss = candidate["loss"]
        if candidate["held"] != (loss is not None and loss <= record["loss"]):
            text = "a loss that is not finite" if loss is None else f"a loss of {loss}"
            verdict = "is" if candidate["held"] else "is not"
            return (
                f"The record says that {text} {verdict} within the limit of {record['loss']}: "
                "build the folder again."
            )
    if not choice["held"]:
        return "The loss of the chosen formats is above the limit: build the folder again."
    pairs = zip(graph.nodes, formats(graph), strict=True)
    longest = max(fmt.width for node, fmt in pairs if node.op == names.INPUT)
    if longest != choice["wide"]:
        return (
            f"The core's words have {longest} bits, but the task chose {choice['wide']}: build the "
            "folder again."
        )
    return ""


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
