"""Code on pages runs: Python in order, page by page, and the command line takes every command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from pinion.cli.app import app
from tests.support.snippets import (
    Block,
    blocks,
    commands,
    complaint,
    imports,
    program,
    run,
)

ROOT = Path(__file__).resolve().parents[2]

ARRAYS = "import numpy as np; q, qd, qdd, tau = np.random.default_rng(0).uniform(-1, 1, (4, 20, 7))"


@dataclass(frozen=True)
class Rule:
    """How the blocks of a page are run.

    Members
    -------
    given : what the page takes for granted, such as arrays of the reader's own.
    put : replacements in the code, such as a simulated card for a real one.
    skip : by a piece of a block's text, why that block is not run.
    builds : folders that the page's commands make, and the arguments of ``pinion build`` for each.
    slow : why the page is left to `make test-slow`.
    """

    given: str = ""
    put: Mapping[str, str] = field(default_factory=dict)
    skip: Mapping[str, str] = field(default_factory=dict)
    builds: Mapping[str, str] = field(default_factory=dict)
    slow: str = ""


IIWA = {"build/iiwa14": "iiwa14 rnea --ii 8 --formats q16.16"}
FRAMEWORK = "needs PyTorch or JAX; `make test-frameworks` runs it (test_frameworks_pages.py)"
GPU = "needs a GPU; `make test-gpu`"

# Pages without a row run as they are.
RULES: dict[str, Rule] = {
    "docs/campaigns.md": Rule(skip={"read_results": "reads the file of a campaign of minutes"}),
    "docs/concepts/scheduling-and-binding.md": Rule(slow="makes the designs of a core"),
    "docs/control.md": Rule(slow="compiles a plant and solves on it"),
    "docs/cpu.md": Rule(
        given=ARRAYS,
        put={"random_chain(1000, seed=1)": "random_chain(7, seed=1)"},
        skip={"pinion.compute.torch": FRAMEWORK},
        slow="compiles three kernels",
    ),
    "docs/cuda.md": Rule(skip={'device="cuda"': GPU, "cuda.compile": GPU}),
    "docs/driver.md": Rule(
        given=ARRAYS,
        put={"xdma:0": "sim", "(1000)": "(20)"},
        builds=IIWA,
        slow="builds a core",
    ),
    "docs/explore.md": Rule(slow="builds and measures two cores"),
    "docs/export.md": Rule(skip={"ExportedCore": "a part of a design of the reader's own"}),
    "docs/faults.md": Rule(builds=IIWA, slow="builds a core"),
    "docs/floating-base.md": Rule(
        given="import numpy as np; q = np.eye(19)[:3] * 0; q[:, 6] = 1; qdd = qd = q[:, 1:]",
        # A core of a quadruped on a floating base takes a quarter of an hour; the robots' tests do.
        put={'device="sim", ii=16': 'device="float"'},
    ),
    "docs/guides/torch-and-jax.md": Rule(
        skip={"pinion.compute.torch": FRAMEWORK, "pinion.compute.jax": FRAMEWORK}
    ),
    "docs/guides/cpu-and-cuda.md": Rule(slow="compiles kernels"),
    "docs/mpc.md": Rule(
        put={"duration=5.0": "duration=0.2"},
        skip={'formats="auto"': "builds the core of a plant, half an hour"},
        slow="compiles a plant and simulates a robot",
    ),
    "docs/on-chip-law.md": Rule(skip={"SpiDevice": "needs a board on an SPI bus"}),
    "docs/own-functions.md": Rule(skip={"kalman": "a core of minutes; examples have tests"}),
    "docs/parallel.md": Rule(skip={"cuda.compile": GPU}),
}


def _pages() -> dict[str, str]:
    found = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "docs").rglob("*.md")}
    found |= {name: ROOT / name for name in ("README.md", "CONTRIBUTING.md")}
    return {name: found[name].read_text("utf-8") for name in sorted(found)}


PAGES = _pages()
WITH_PYTHON = [name for name, text in PAGES.items() if "```python" in text]


def _python(page: str) -> list[Block]:
    return [block for block in blocks(PAGES[page]) if block.language == "python"]


def _run(name: str, page: list[Block], rule: Rule, folder: Path) -> str:
    """What a page's blocks say where they fail."""
    kept = [b for b in page if not any(piece in b.text for piece in rule.skip)]
    text = program(kept, rule.given)
    for old, new in rule.put.items():
        assert old in text, f"'{old}' is no longer in {name}; its rule here needs a look"
        text = text.replace(old, new)
    for place, arguments in rule.builds.items():
        build = ["import sys; from pinion.cli import main"]
        build += [f"sys.exit(main({['build', *arguments.split(), '-o', place]!r}))"]
        said = run("\n".join(build), name="build_first.py", folder=folder)
        assert not said, said
    return run(text, name=name.replace("/", "_").replace(".md", "_md.py"), folder=folder)


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_imports_of_a_page_are_there(page: str) -> None:
    """Also of blocks that are not run here."""
    for block in _python(page):
        for statement in imports(block):
            if "torch" in statement or "jax" in statement:
                continue  # not installed
            try:
                exec(statement, {})
            except ImportError as error:
                pytest.fail(f"{page}:{block.line}: {statement}: {error}")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(name, marks=[pytest.mark.slow] if RULES.get(name, Rule()).slow else [])
        for name in WITH_PYTHON
    ],
)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    said = _run(page, _python(page), RULES.get(page, Rule()), tmp_path)
    assert not said, f"{page}:\n{said}"


def test_every_rule_is_of_something_on_a_page() -> None:
    for name, rule in RULES.items():
        assert name in WITH_PYTHON, f"{name} has no Python any more; its rule can go"
        texts = [block.text for block in _python(name)]
        for piece, reason in rule.skip.items():
            assert any(piece in text for text in texts), f"{name}: no block has '{piece}'"
            assert len(reason.split()) > 2


@pytest.mark.parametrize(
    ("broken", "needle"),
    [
        ("from pinion.api import nothing_there", "nothing_there"),
        ("import numpy as np\n\nassert np.zeros(3).shape == (4,)", "AssertionError"),
        ("given_nowhere + 1", "given_nowhere"),
    ],
)
def test_a_broken_block_is_noticed_at_its_line(broken: str, needle: str, tmp_path: Path) -> None:
    page = f"# A page\n\n```python\nfine = 1\n```\n\nText.\n\n```python\n{broken}\n```\n"
    found = [block for block in blocks(page) if block.language == "python"]
    said = _run("docs/broken.md", found, Rule(), tmp_path)
    last = 9 + len(broken.splitlines())
    assert needle in said
    assert f'docs_broken_md.py", line {last}' in said


def test_blocks_of_a_page_share_a_namespace(tmp_path: Path) -> None:
    page = "```python\nx = 1\n```\n\n- in a list\n\n    ```python\n    assert x == 1\n    ```\n"
    assert _run("p.md", list(blocks(page)), Rule(), tmp_path) == ""


# ---- the command line ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verbs() -> dict[str, Any]:
    found: Any = get_command(app)
    return dict(found.commands)


def _texts() -> dict[str, str]:
    """Pages, and what notebooks say between their cells."""
    made = dict(PAGES)
    for path in sorted((ROOT / "docs").rglob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        made[path.relative_to(ROOT).as_posix()] = text
    return made


def test_the_command_line_takes_every_command_of_the_pages(verbs: dict[str, Any]) -> None:
    wrong, count = [], 0
    for name, text in _texts().items():
        for command in commands(text):
            said = complaint(verbs, command)
            count += 1
            if said and not name.startswith("docs/adr"):  # records speak of their time
                wrong.append(f"{name}:{command.line}: pinion {' '.join(command.arguments)}: {said}")
    assert count > 100
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("line", "needle"),
    [
        ("pinion build iiwa14 rnea --no-such-option", "--no-such-option"),
        ("pinion draw x", "no verb"),
        ("pinion verify", "DIR"),
        ("pinion verify a b", "b"),
        ("pinion explore iiwa14 rnea --jobs 0.5   # a comment", "--jobs"),
    ],
)
def test_a_wrong_command_is_noticed(verbs: dict[str, Any], line: str, needle: str) -> None:
    (command,) = commands(f"Text.\n\n```\n{line}\n```\n")
    assert needle in complaint(verbs, command)


def test_commands_are_found_where_pages_have_them() -> None:
    page = (
        "With `pinion info X --function rnea` and `make docs`.\n\n"
        "    pinion build a b -o c     pinion verify c     # twice on a line\n\n"
        "```\n$ .venv/bin/pinion bench core|link\npinion build a \\\n    b --ii 4\n```\n"
    )
    found = [(c.line, c.arguments, c.whole) for c in commands(page)]
    assert found == [
        (1, ("info", "X", "--function", "rnea"), False),
        (3, ("build", "a", "b", "-o", "c"), True),
        (3, ("verify", "c"), True),
        (6, ("bench", "core"), True),
        (7, ("build", "a", "b", "--ii", "4"), True),
    ]
