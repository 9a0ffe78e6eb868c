"""Packages, floors, files, modules and commands on pages exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path

import pytest

from pinion.cli.app import app

# Records use the names of their time.
RECORDS = "docs/adr"
SPELLED = re.compile(r"`([^`\n]+)`")
FOLDERS = (
    "fixedpoint",
    "sw",
    "hw",
    "sim",
    "tests",
    "docs",
    "constraints",
    "benchmarks",
    "examples",
)

# Suffixes of file names, which are not modules.
SUFFIXES = {"bit", "csv", "il", "json", "log", "lpf", "md", "png", "py", "svg"}
SUFFIXES |= {"tcl", "toml", "txt", "v", "xdc"}

# Files that a reader makes.
PLACEHOLDER = "NAME"


@pytest.fixture(scope="module")
def pages(root: Path, files: list[Path]) -> dict[str, str]:
    texts = {p.relative_to(root).as_posix(): p.read_text() for p in files if p.suffix == ".md"}
    prefixes = ("README.md", "CONTRIBUTING.md", "docs/")
    texts = {name: text for name, text in texts.items() if name.startswith(prefixes)}
    texts = {name: text for name, text in texts.items() if not name.startswith(RECORDS)}
    assert len(texts) > 8
    return texts


def spelled(pages: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield page and text of everything in back-quotes, outside of code blocks."""
    for name, text in pages.items():
        plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for match in SPELLED.finditer(plain):
            yield name, match[1]


def missing_paths(root: Path, pages: dict[str, str]) -> list[str]:
    """Return paths from the top of the repository that do not exist."""
    wrong = []
    for page, text in spelled(pages):
        path = text.partition("::")[0]
        if not re.fullmatch(rf"(?:{'|'.join(FOLDERS)})/[\w./-]+", path):
            continue
        if PLACEHOLDER not in path and not (root / path).exists():
            wrong.append(f"{page}: {path}")
    return wrong


def _resolves(name: str) -> bool:
    """Return whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value: object = import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            continue
        for attribute in parts[count:]:
            if not hasattr(value, attribute):
                fields = getattr(value, "__dataclass_fields__", {})
                return attribute in fields
            value = getattr(value, attribute)
        return True
    return False


def missing_modules(pages: dict[str, str], packages: dict[str, Path]) -> list[str]:
    """Return modules, and names in modules, that do not exist."""
    short = {name.removeprefix("pinion.") for name in packages}
    wrong = []
    for page, text in spelled(pages):
        name = re.sub(r"\(.*", "", text.removeprefix("python -m ").partition(" ")[0])
        if not re.fullmatch(r"\w+(?:\.\w+)+", name) or Path(name).suffix[1:] in SUFFIXES:
            continue
        first = name.partition(".")[0]
        if first in short:
            name = f"pinion.{name}"
        elif first not in ("pinion", "tests"):
            continue
        if name in ("pinion.transports", "pinion.backends"):
            continue  # groups of entry points
        # Pages say `import pinion.api as pinion`.
        if not _resolves(name) and not _resolves(name.replace("pinion.", "pinion.api.", 1)):
            wrong.append(f"{page}: {name}")
    return wrong


def missing_commands(root: Path, pages: dict[str, str]) -> list[str]:
    """Return verbs and make targets that do not exist."""
    verbs = {command.name for command in app.registered_commands}
    makefile = (root / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE))
    wrong = []
    for page, text in pages.items():
        for kind, existing, named in (
            ("pinion", verbs, re.findall(r"(?:`|^\s*)pinion ([a-z]\w*)", text, re.MULTILINE)),
            ("make", targets, re.findall(r"(?:`|^\s*)make ([a-z][\w-]*)", text, re.MULTILINE)),
        ):
            wrong += [f"{page}: {kind} {name}" for name in named if name not in existing]
    return wrong


def test_paths_are_there(root: Path, pages: dict[str, str]) -> None:
    assert missing_paths(root, pages) == []
    assert missing_paths(root, {"p": "`sw/pinion/hls/ops.py` `tests/x.py::f`"}) != []


def test_modules_are_there(pages: dict[str, str], packages: dict[str, Path]) -> None:
    assert missing_modules(pages, packages) == []
    assert missing_modules({"p": "`pinion.open_build`"}, packages) == []
    for gone in (
        "`pinion.hls.graph`",
        "`pinion.no_such`",
        "`driver.nowhere`",
        "`pinion.link.Manifest.nothing`",
    ):
        assert len(missing_modules({"p": gone}, packages)) == 1


def test_commands_are_there(root: Path, pages: dict[str, str]) -> None:
    assert missing_commands(root, pages) == []
    assert missing_commands(root, {"p": "`pinion draw x`, `make paper`"}) == [
        "p: pinion draw",
        "p: make paper",
    ]


def floors(root: Path) -> list[set[str]]:
    """Return the packages of each floor, from the top, without the command's module."""
    config = ConfigParser()
    config.read(root / ".importlinter")
    lines = config["importlinter:contract:floors"]["layers"].strip().splitlines()
    return [set(re.findall(r"\((\w+)\)", line)) for line in lines if "__main__" not in line]


def test_the_page_of_the_architecture_has_every_package_on_its_floor(
    root: Path, packages: dict[str, Path]
) -> None:
    text = (root / "docs/architecture.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| `(\w+)` \| (.+) \| .*\|$", text, re.MULTILINE)
    stated: dict[int, set[str]] = {}
    for number, name, folder, line in rows:
        stated.setdefault(int(number), set()).add(name)
        place = packages.get(f"pinion.{name}")
        # A package that has its floor before it is there says so, or is about to be.
        if place is not None:
            assert place.parents[1].name == folder and "not there yet" not in line
    assert [stated[k] for k in sorted(stated)] == floors(root)
    picture = (root / "docs/architecture.svg").read_text()
    for names in floors(root):
        for name in names:
            assert f">{name}</text>" in picture, f"{name} is not in the picture"


def test_files_on_the_page_of_the_architecture_are_there(root: Path, files: list[Path]) -> None:
    """Files are named by package and name, or by name alone within the link."""
    text = (root / "docs/architecture.md").read_text()
    paths = [f"/{p.relative_to(root).as_posix()}" for p in files]
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", text)
    assert len(named) > 40
    missing = [n for n in named if not any(path.endswith(f"/{n}") for path in paths)]
    assert not missing


def test_contributing_has_the_floors(root: Path) -> None:
    line = next(
        line
        for line in (root / "CONTRIBUTING.md").read_text().splitlines()
        if line.startswith("    cli >")
    )
    following = (root / "CONTRIBUTING.md").read_text().partition(line)[2].splitlines()[1]
    whole = f"{line} {following}" if following.startswith("    ") else line
    stated = [set(re.findall(r"\w+", floor)) for floor in whole.split(">") if floor.strip()]
    assert stated == floors(root)
