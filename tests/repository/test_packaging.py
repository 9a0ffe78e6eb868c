"""The packaging: every dependency has a reason, is declared, and is where it may be."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

# The extras that a package may import from, besides the plain dependencies.
EXTRAS: dict[str, tuple[str, ...]] = {
    "pinion.gateware": ("hw",),
    "pinion.boards": ("hw", "ecp5"),
    "pinion.synthesis": ("hw",),
    "pinion.flow": ("hw",),
    "pinion.cosim": ("hw", "sim"),
    "pinion.card": ("hw", "sim"),
    "pinion.bench": ("cli",),
    "pinion.cli": ("cli",),
    "pinion.console": ("cli",),
    "pinion.report": ("cli",),
    "pinion.compute": ("torch", "jax", "cuda"),
    "pinion.campaign": ("campaign",),
    "pinion.control": ("crocoddyl",),
    "pinion.link": ("fast",),
    "pinion.driver": ("serial",),
}


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return table


def _name(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match, requirement
    return match.group().lower().replace("_", "-")


def _imports(folder: Path) -> Iterator[tuple[Path, str]]:
    """Return top-level names of all external imports in the files of a folder."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            modules: list[str] = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module or ""]
            for module in modules:
                top = module.partition(".")[0]
                if top not in sys.stdlib_module_names and top not in {"pinion", ""}:
                    yield path, top


def test_every_dependency_has_a_reason(root: Path, project: dict[str, Any]) -> None:
    lines = (root / "pyproject.toml").read_text().splitlines()
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    requirements = [r for group in groups for r in group if not r.startswith("pinion-rbd[")]
    assert len(requirements) > 5
    for requirement in requirements:
        line = next(text for text in lines if text.strip().startswith(f'"{requirement}"'))
        reason = line.partition("#")[2]
        assert len(reason.split()) >= 3, f"{requirement} has no reason behind it: {line}"


def test_a_host_that_drives_a_card_needs_numpy_alone(project: dict[str, Any]) -> None:
    assert [_name(r) for r in project["dependencies"]] == ["numpy"]


def test_every_import_is_declared_where_it_is_made(
    project: dict[str, Any], packages: dict[str, Path]
) -> None:
    distributions = packages_distributions()
    for package, folder in packages.items():
        groups = [project["dependencies"]]
        groups += [project["optional-dependencies"][e] for e in EXTRAS.get(package, ())]
        declared = {_name(r) for group in groups for r in group}
        for path, top in _imports(folder):
            owners = {_name(d) for d in distributions.get(top, [top])}
            assert owners & declared, f"{path} imports {top}, which {package} does not declare"


def test_the_extras_that_repeat_others(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]

    def names(extra: str) -> set[str]:
        (everything,) = extras[extra]
        return set(everything.removeprefix("pinion-rbd[").removesuffix("]").split(","))

    # PyTorch is gigabytes where an index gives the CUDA build, and Crocoddyl brings meshes of many
    # robots along; tests skip what needs them. `make docs` installs what the site needs.
    ours = {"dev", "all", "formal", "test", "lint", "docs"}
    assert names("all") == set(extras) - ours - {"torch", "jax", "crocoddyl"}
    assert names("dev") == {"all", "formal", "test", "lint"}


def test_what_the_entry_points_name_is_there(project: dict[str, Any]) -> None:
    points = dict(project["scripts"])
    for group in project.get("entry-points", {}).values():
        points |= group
    for target in points.values():
        module, _, attribute = target.partition(":")
        assert callable(getattr(import_module(module), attribute)), target


def test_the_licence_is_the_whole_text(root: Path, project: dict[str, Any]) -> None:
    text = (root / "LICENSE").read_text()
    assert project["license"] == "Apache-2.0"
    for part in ("Version 2.0, January 2004", "Grant of Patent License", "APPENDIX"):
        assert part in text


def test_the_oracle_is_installed() -> None:
    # A test that skips for want of Pinocchio would look like one that passed.
    pinocchio = import_module("pinocchio")
    assert callable(pinocchio.rnea)


def test_no_test_skips_for_want_of_the_oracle(root: Path, files: list[Path]) -> None:
    skip = re.compile(r"importorskip\(\s*[\"']pin")
    for path in files:
        if path.suffix == ".py" and path.relative_to(root).parts[0] == "tests":
            assert not skip.search(path.read_text()), f"{path} may skip: import pinocchio plainly"
