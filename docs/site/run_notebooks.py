"""Run the notebooks of the documentation: ``python -m docs.site.run_notebooks [--missing]``.

Executed copies go into ``build/notebooks``, where the site finds them. A failing cell ends
the run with exit code 1 and its traceback. With ``--missing`` a notebook whose copy has the same
cells is not run again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from .notebook import EXECUTED, SOURCE, is_executed

LIMIT = 1800
"""Seconds after which a cell counts as hanging."""


def execute(source: Path, target: Path) -> None:
    """Run all cells of a notebook in the folder of the copy, and write the copy.

    Raises
    ------
    CellExecutionError : a cell failed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # An old copy would pass for the result of a run that fails.
    target.unlink(missing_ok=True)
    notebook = nbformat.read(source, as_version=4)
    resources = {"metadata": {"path": str(target.parent)}}
    client = NotebookClient(notebook, timeout=LIMIT, kernel_name="python3", resources=resources)
    client.execute()
    nbformat.write(notebook, target)


def main(arguments: Sequence[str]) -> int:
    """Run the notebook if needed, and print how long it took."""
    root = Path(__file__).resolve().parents[2]
    if "--missing" in arguments and is_executed(root):
        print(f"notebooks: {EXECUTED} is there")
        return 0
    print(f"notebooks: running {SOURCE}", flush=True)
    began = time.perf_counter()
    try:
        execute(root / SOURCE, root / EXECUTED)
    except CellExecutionError as error:
        print(f"notebooks: a cell of {SOURCE} failed:\n{error}", file=sys.stderr)
        return 1
    print(f"notebooks: {EXECUTED}, {time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
