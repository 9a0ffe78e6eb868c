"""Check of the form of imports for `make lint`: ``python -m tests.support.import_style``.

Modules of the same folder or below are imported by one dot; all others by their full name. Names
that a package exports (``__all__``) are imported from the package, since that is its interface;
other names are imported from the module that defines them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOTS = ("fixedpoint", "sw", "hw", "sim")

Exports = Mapping[str, Mapping[str, str]]
"""For each package the names that it exports, and the module that each comes from."""


def exports(package: str, source: str) -> dict[str, str]:
    """Return the module of each name that a package's ``__init__`` re-exports, by name."""
    origin: dict[str, str] = {}
    public: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom):
            module = f"{package}.{node.module}" if node.level else str(node.module)
            origin |= {alias.name: module for alias in node.names if alias.asname is None}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            public = ast.literal_eval(node.value)
    return {name: origin[name] for name in public if name in origin}


def violations(folder: str, source: str, interfaces: Exports) -> Iterator[tuple[int, str]]:
    """Yield line and advice for every import that breaks the rules.

    Parameters
    ----------
    folder : the dotted name of the folder of the module whose text is ``source``.
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = node.module or ""
        if node.level > 1:
            yield node.lineno, "import modules above this folder by their full name"
        elif not node.level and module.startswith(f"{folder}."):
            yield node.lineno, f"import '{module.removeprefix(folder)}' by one dot"
        elif not node.level and module.startswith("pinion."):
            package = ".".join(module.split(".")[:2])
            if package == ".".join(folder.split(".")[:2]):
                continue
            for alias in node.names:
                if interfaces.get(package, {}).get(alias.name) == module:
                    yield node.lineno, f"import '{alias.name}' from '{package}'"


def main() -> int:
    """Print each violation; return 1 if there is one, and 2 if no file was read."""
    paths = {path: root for root in ROOTS for path in sorted(Path(root, "pinion").rglob("*.py"))}
    interfaces = {
        f"pinion.{path.parent.name}": exports(f"pinion.{path.parent.name}", path.read_text())
        for path, root in paths.items()
        if path == Path(root, "pinion", path.parent.name, "__init__.py")
    }
    status = 0 if interfaces else 2
    for path, root in paths.items():
        folder = ".".join(path.parent.relative_to(root).parts)
        for line, sentence in violations(folder, path.read_text(), interfaces):
            print(f"{path}:{line}: {sentence}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
