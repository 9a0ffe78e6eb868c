"""The modules that have a page of the Python interface; mkdocstrings writes its content."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

# Names with which a page begins, if the module has them.
FIRST = ("backend", "function", "open", "load", "solve", "build", "verify", "compile", "dynamics")

# The most imported modules first.
MODULES = {
    "pinion.api": "load robots, compute functions with any backend, define functions, build cores",
    "pinion.driver": "cards: open one, send batches, read its registers",
    "pinion.driver.spi": "cards behind an SPI line, one request a transfer; it has met no board",
    "pinion.robot": "robots from URDF, MJCF and Pinocchio, locked and cut",
    "pinion.functions": "functions that can be computed: rows, arrays, samples",
    "pinion.batch": "code shared by all backends: results, checks of arrays, errors",
    "pinion.request": "the request for a build, as one value",
    "pinion.dynamics": "mechanics over an abstract scalar, on floats, batches and symbols",
    "pinion.chains": "long chains by parallel algorithms",
    "pinion.control": "trajectory optimisation, and model-predictive control",
    "pinion.compute.cpu": "a function compiled for this machine's processor",
    "pinion.compute.cuda": "a function compiled for a GPU; it has not run on one",
    "pinion.chains.kernels": "long chains compiled for a processor",
    "pinion.compute.frameworks.torch": "functions of PyTorch with their gradients",
    "pinion.compute.frameworks.jax": "functions of JAX with their gradients",
    "pinion.compute.layouts": "layouts of batches in memory",
    "pinion.flow": "from a robot and a function to a build folder",
    "pinion.cosim": "RTL against integers, integers against floats",
    "pinion.synthesis": "counts and estimated timing of a core, by Yosys",
    "pinion.campaign": "campaigns of many states on all cores, or on a Dask cluster",
    "pinion.card": "simulated cards and the stand-in for the vendor's driver",
    "pinion.graph": "the graph of operations that every backend reads",
    "pinion.formats": "fixed point of a graph: formats, budgets, bounds",
    "pinion.hls": "schedule, binding, and their checker",
    "pinion.link": "packets, registers and the files of a build folder",
    "pinion.fixedpoint": "formats and exact integers",
    "pinion.report": "tables and pictures from build folders",
}


def pages() -> dict[str, str]:
    """Return the list of modules and a page for each."""
    rows = "".join(f"| [`{name}`]({name}.md) | {summary} |\n" for name, summary in MODULES.items())
    texts = {
        "reference/python/index.md": f"# Python\n\n| module | purpose |\n| --- | --- |\n{rows}"
    }
    for name in MODULES:
        texts[f"reference/python/{name}.md"] = f"# `{name}`\n\n::: {name}\n{_order(name)}"
    return texts


def _order(name: str) -> str:
    """Return options that put the most used names first, or an empty text."""
    public = _public(name)
    first = [n for n in FIRST if n in public]
    if not first:
        return ""
    names = [*first, *(n for n in public if n not in first)]
    listed = "".join(f"        - {n}\n" for n in names)
    return f"    options:\n      members:\n{listed}"


def _public(name: str) -> list[str]:
    """Return a module's ``__all__`` without importing it: PyTorch and JAX may be missing."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None, f"{name} has no source"
    for node in ast.parse(Path(spec.origin).read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []
