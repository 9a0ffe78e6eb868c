"""Checks of imports besides the layers: ``python -m tests.support.imports``.

No module takes part in an import cycle, not even with modules of its own package, and a host that
only drives a card loads nothing of the hardware compiler, and few modules at all. Imports for type
checking alone count too: a module that needs another one's names to be read depends on it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping

import grimp

PACKAGE = "pinion"

# Packages of hw/ and sim/, which a host that drives a card must not load.
HARDWARE = ("hls", "gateware", "synthesis", "boards", "flow", "cosim", "card", "campaign")

# What a user's program imports on a host without the hardware compiler.
HOST = (
    *("pinion.driver", "pinion.link", "pinion.functions", "pinion.dynamics", "pinion.robot"),
    "pinion.api",
)

# Modules of ours that `import pinion.driver` may load: a host that drives a card starts at once.
MOST = 50


def cycles(imports: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, also indirectly (Tarjan 1972).

    Parameters
    ----------
    imports : for each module the modules that it imports.

    Returns
    -------
    The strongly connected components of more than one module, and modules that import themselves,
    sorted.
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    cycles_found: list[list[str]] = []
    for root in sorted(imports):
        if root in number:
            continue
        work = [(root, iter(sorted(imports[root])))]
        number[root] = lowest[root] = len(number)
        stack.append(root)
        while work:
            module, rest = work[-1]
            for other in rest:
                if other not in imports:
                    continue
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    stack.append(other)
                    work.append((other, iter(sorted(imports[other]))))
                    break
                if other in stack:
                    lowest[module] = min(lowest[module], number[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[module])
                if lowest[module] == number[module]:
                    at = stack.index(module)
                    group, stack[at:] = sorted(stack[at:]), []
                    if len(group) > 1 or module in imports[module]:
                        cycles_found.append(group)
    return sorted(cycles_found)


def loaded(module: str) -> list[str]:
    """Import a module in a new interpreter, and return the modules of Pinion that it loads.

    Raises
    ------
    ImportError
        If it cannot be imported, with the interpreter's last line.
    """
    code = (
        f"import {module}, sys; print(*sorted(m for m in sys.modules if m.startswith('pinion.')))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    if process.returncode:
        (*_, last) = process.stderr.splitlines() or [f"exit status {process.returncode}"]
        raise ImportError(
            f"'import {module}' fails ({last}): correct this before checking what it loads."
        )
    return process.stdout.split()


def seconds(module: str) -> float:
    """Measure the time [s] to import a module in a new interpreter, including NumPy."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return float(process.stdout)


def hardware(modules: Iterable[str]) -> list[str]:
    """Return those of the modules that belong to hw/ or sim/."""
    return [m for m in modules if m.split(".")[1] in HARDWARE]


def main() -> int:
    """Check imports and print the violations; return 0 if there are none."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    imports = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    wrong = [f"modules import each other: {', '.join(group)}" for group in cycles(imports)]
    for module in HOST:
        try:
            modules = loaded(module)
        except ImportError as error:
            wrong.append(str(error))
            break  # most likely the others fail of the same
        if module == HOST[0]:
            print(f"'import {module}': {len(modules)} of our modules, {seconds(module):.2f} s")
            if len(modules) > MOST:
                wrong.append(f"'import {module}' loads {len(modules)} modules, more than {MOST}")
        if hardware_modules := hardware(modules):
            wrong.append(f"'import {module}' loads {', '.join(hardware_modules)}")
    for line in wrong:
        print(f"imports: {line}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
