"""The pages of Python's interface: which modules have one; mkdocstrings writes what is in them."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

# What a page begins with, where the module has it.
FIRST = ("backend", "function", "open", "load", "solve", "build", "verify", "compile", "dynamics")

# From what most people import to what few do.
MODULES = {
    "pinion.api": "one name for every way to compute a function, and functions of one's own",
    "pinion.driver": "cards: open one, send batches, read its registers",
    "pinion.driver.spi": "cards behind an SPI line, one request a transfer; it has met no board",
    "pinion.robot": "robots from URDF, MJCF and Pinocchio, locked and cut",
    "pinion.functions": "what can be computed: rows, arrays, samples",
    "pinion.batch": "what every way to compute shares: results, checks of arrays, errors",
    "pinion.request": "what a build is asked for, as one value",
    "pinion.dynamics": "mechanics over an abstract scalar, on floats, batches and symbols",
    "pinion.chains": "long chains by parallel algorithms",
    "pinion.control": "motions by optimisation, and model-predictive control",
    "pinion.compute.cpu": "a function compiled for this machine's processor",
    "pinion.compute.cuda": "a function compiled for a GPU; it has not run on one",
    "pinion.chains.kernels": "long chains compiled for a processor",
    "pinion.compute.frameworks.torch": "functions of PyTorch with their gradients",
    "pinion.compute.frameworks.jax": "functions of JAX with their gradients",
    "pinion.compute.layouts": "how batches lie in memory",
    "pinion.flow": "from a robot and a function to a build folder",
    "pinion.cosim": "RTL against integers, integers against floats",
    "pinion.synthesis": "what Yosys makes of a core",
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
    """A page for each module, after the one that lists them."""
    rows = "".join(f"| [`{name}`]({name}.md) | {summary} |\n" for name, summary in MODULES.items())
    texts = {
        "reference/python/index.md": f"# Python\n\n| module | in a line |\n| --- | --- |\n{rows}"
    }
    for name in MODULES:
        texts[f"reference/python/{name}.md"] = f"# `{name}`\n\n::: {name}\n{_order(name)}"
    return texts


def _order(name: str) -> str:
    """Options of a module whose most used names come first, else none."""
    public = _public(name)
    first = [n for n in FIRST if n in public]
    if not first:
        return ""
    names = [*first, *(n for n in public if n not in first)]
    listed = "".join(f"        - {n}\n" for n in names)
    return f"    options:\n      members:\n{listed}"


def _public(name: str) -> list[str]:
    """A module's ``__all__``, read and not run: PyTorch and JAX need not be here."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None, f"{name} has no source"
    for node in ast.parse(Path(spec.origin).read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []
