"""Process of a mounted stand-in: ``python -m pinion.card.stand_in.serve``.

The first line on standard input is its task as JSON; each further line is a command, answered by
one line of JSON. The process ends with its input, so also with its parent, however that dies.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from .build import make_card
from .faults import FaultPlan
from .mount import unmount
from .xdma import XdmaModel

GRACE = 3.0
"""Seconds within which the file system must end."""


def main() -> None:
    """Create the card, mount its files, and answer commands until standard input ends."""
    # Ctrl-C in a terminal reaches the whole group: the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keep the output of compilers out of the answers
    task = json.loads(sys.stdin.readline())
    folder = Path(task["at"])
    try:
        card, layout = make_card(Path(task["folder"]), model=task["model"])
        model = XdmaModel(
            card=card,
            layout=layout,
            plan=FaultPlan.parse(task["plan"]),
            timeout=task["timeout"],
            timeout_errno=task["timeout_errno"],
            sound_timeout=task["sound_timeout"],
        )
        import mfusepy

        from .files import CardFiles
    except Exception as error:
        ours = type(error).__module__.startswith("pinion.")
        _put(answers, {"error": str(error) if ours else f"{type(error).__name__}: {error}"})
        return
    listener = threading.Thread(target=_listen, args=(model, folder, answers), daemon=True)
    files = CardFiles(model=model, name=task["name"])
    files.init = lambda path: listener.start()
    try:
        mfusepy.FUSE(files, str(folder), foreground=True, direct_io=True, fsname="pinion-card")
    except RuntimeError as error:
        _put(
            answers, {"error": f"The files could not be mounted on '{folder}' (libfuse: {error})."}
        )
    finally:
        unmount(folder)


def _listen(model: XdmaModel, folder: Path, answers: TextIO) -> None:
    _put(answers, {"ready": True})
    try:
        for line in sys.stdin:
            _put(answers, _answer(model, json.loads(line)))
    finally:
        model.stop()
        unmount(folder)
        # The loop ends with the mount; exit even if a caller holds it up.
        threading.Timer(GRACE, os._exit, args=(0,)).start()


def _answer(model: XdmaModel, command: dict[str, Any]) -> dict[str, Any]:
    try:
        match command["do"]:
            case "log":
                records = model.log()[command.get("from", 0) :]
                return {"log": [asdict(record) for record in records]}
            case "read":
                return {"value": int.from_bytes(model.read_register(command["offset"]), "little")}
            case "write":
                data = int(command["value"]).to_bytes(4, "little")
                return {"value": model.write_register(command["offset"], data)}
            case "plan":
                model.set_plan(FaultPlan.parse(command["text"]))
                return {"value": 0}
        return {"error": f"There is no command '{command['do']}'."}
    except (OSError, ValueError) as error:
        return {"error": str(error)}


def _put(stream: TextIO, message: dict[str, Any]) -> None:
    try:
        stream.write(json.dumps(message) + "\n")
        stream.flush()
    except (OSError, ValueError):
        return  # nobody listens


if __name__ == "__main__":
    main()
