"""The layout: one namespace, nothing generated, nothing of one machine."""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from pathlib import Path

TOP_LEVEL = {
    *("fixedpoint", "sw", "hw", "sim"),
    *("constraints", "tests", "benchmarks", "examples", "docs", ".ci", ".github"),
}

# Verilog that a person wrote.
BY_HAND = {"hw/pinion/gateware/dsp48e2_model.v"}
GENERATED = re.compile(
    r"\.(pyc|so|o|a|d|vcd|fst|vvp|il|rtlil|v|sv|npz|npy|log|bit|config|png|whl|orig|rej)$"
    r"|(^|/)(results\.xml|manifest\.json|sim_build|obj_dir|__pycache__)(/|$)"
)

# Absolute paths of somebody's machine, and paths that leave the repository.
FOREIGN = re.compile(r"(?<![\w.~/-])/(work|root|home|Users)/[\w.]|(?<![\w/])\.\./" + "shared")


def test_the_namespace_has_no_init_of_its_own(files: list[Path]) -> None:
    inits = [p for p in files if p.name == "__init__.py" and p.parent.name == "pinion"]
    assert not inits, f"{inits} would hide the other portions of the namespace; remove it"


def test_every_package_has_an_init_and_says_that_it_is_typed(packages: dict[str, Path]) -> None:
    for name, folder in packages.items():
        for file in ("__init__.py", "py.typed"):
            assert (folder / file).is_file(), f"{name} has no {file}"


def test_every_package_stands_on_a_floor(root: Path, packages: dict[str, Path]) -> None:
    config = ConfigParser()
    config.read(root / ".importlinter")
    floors = set(re.findall(r"\((\w+)\)", config["importlinter:contract:floors"]["layers"]))
    assert {name.removeprefix("pinion.") for name in packages} <= floors


def test_folders_at_the_top_are_those_of_the_architecture(root: Path, files: list[Path]) -> None:
    folders = {p.relative_to(root).parts[0] for p in files if p.parent != root}
    assert folders <= TOP_LEVEL, f"{folders - TOP_LEVEL} are not in the layout"


def test_nothing_generated_is_kept(root: Path, files: list[Path]) -> None:
    names = [p.relative_to(root).as_posix() for p in files]
    # Pictures of the documentation are drawn once, for people.
    generated = [
        n for n in names if GENERATED.search(n) and not n.startswith("docs/") and n not in BY_HAND
    ]
    assert not generated, f"generated files are made anew, not committed: {generated}"


def test_what_is_kept_is_text(root: Path, files: list[Path]) -> None:
    """All files are text, except pictures and packed baselines of the benchmarks."""
    names = {p.relative_to(root).as_posix(): p for p in files if p.suffix not in (".png", ".xz")}
    binary = [name for name, path in names.items() if b"\0" in path.read_bytes()]
    assert not binary, f"{binary} are not text: made by a program, and by a program again"


def test_no_file_names_a_path_of_one_machine(root: Path, files: list[Path]) -> None:
    lines = []
    for path in files:
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
            if FOREIGN.search(line):
                lines.append(f"{path.relative_to(root)}:{number}: {line.strip()}")
    assert not lines, "\n".join(lines)


def _defines_tests(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name.startswith("test")
        and not node.decorator_list
        for node in tree.body
    )


def _can_fail(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Assert | ast.Raise)
        or (isinstance(node, ast.Attribute) and node.attr in {"raises", "fail"})
        # NumPy's assertions, and helpers that call themselves so.
        or (isinstance(node, ast.Name | ast.Attribute) and _name(node).startswith("assert_"))
        for node in ast.walk(tree)
    )


def _name(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def test_every_test_is_collected_and_can_fail(root: Path, files: list[Path]) -> None:
    collected = set()
    for path in files:
        if path.suffix != ".py" or path.relative_to(root).parts[0] != "tests":
            continue
        tree = ast.parse(path.read_text())
        if path.name.startswith("test_"):
            collected.add(path.parent)
            assert _can_fail(tree), f"{path} asserts nothing"
        else:
            assert not _defines_tests(tree), f"{path} has tests and a name that pytest passes by"
    folders = {p.parent for p in files if p.suffix == ".py" and "tests" in p.parts}
    support = root / "tests" / "support"  # what tests and make targets share, without tests
    folders = {f for f in folders if f != support and support not in f.parents}
    idle = {f for f in folders if not any(c == f or f in c.parents for c in collected)}
    assert not idle, f"no test file in {idle}"
    assert len(collected) >= 4
