"""Code on pages runs: Python in order, page by page, and every command parses."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from pinion.cli.app import app
from tests.support.breadth import some
from tests.support.snippets import Block, blocks, commands, complaint, imports, program, run

ROOT = Path(__file__).resolve().parents[2]

ARRAYS = "import numpy as np; q, qd, qdd, tau = np.random.default_rng(0).uniform(-1, 1, (4, 20, 7))"
SMALL = ARRAYS.replace("20, 7", "20, 2")


@dataclass(frozen=True)
class Rule:
    """How the blocks of a page are run.

    Members
    -------
    preamble : code that the page takes for granted, such as the reader's own arrays.
    put : replacements in the code, such as a simulated card for a real one.
    skip : by a piece of a block's text, the reason why it is not run.
    first : commands that the page takes for granted, or smaller ones; builds are shared.
    then : code that uses what the page only defines.
    """

    preamble: str = ""
    put: Mapping[str, str] = field(default_factory=dict)
    skip: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    then: str = ""


# A folder with the page's name; a robot of two links builds in a tenth of the time.
BUILT = "build two_link rnea --ii 8 --formats q16.16 -o build/iiwa14"
INSIDE = """
from amaranth.back import rtlil
from amaranth.lib.stream import Signature

core = ExportedCore(folder=Path("export/iiwa14"))
ends = [Signature(port.payload.shape()) for port in (core.i, core.o)]
requests, results = ends[0].create(), ends[1].flip().create()
made = rtlil.convert(Design(requests, results), ports=[requests.valid, results.valid])
assert "two_link_rnea" in made
"""
KALMAN = f"""
import sys; import numpy as np; from pinion.api import backend
sys.path.insert(0, {str(ROOT / "examples/functions")!r}); from kalman import kalman
x = np.zeros((3, 4)); P = 0.1 * np.tile(np.eye(4), (3, 1, 1)); y = np.ones((3, 2))
""".strip()
FRAMEWORK = "needs PyTorch or JAX; `make test-frameworks` runs it (test_frameworks_pages.py)"
GPU = "needs a GPU; `make test-gpu`"

# Pages without a row run as they are.
RULES: dict[str, Rule] = {
    "docs/campaigns.md": Rule(
        first=("batch two_link rnea --device float --states 200 --workers 1 -o batch.sqlite",),
    ),
    "docs/control.md": Rule(skip={"SpiDevice": "needs a board on an SPI bus"}),
    "docs/cpu.md": Rule(
        preamble=ARRAYS,
        # The page computes with other arrays in between.
        put={
            "random_chain(1000, seed=1)": "random_chain(7, seed=1)",
            "qdd = forward(q=q": f"{ARRAYS}; qdd = forward(q=q",
        },
        skip={"pinion.compute.frameworks.torch": FRAMEWORK, "cuda.compile": GPU},
    ),
    "docs/cuda.md": Rule(
        skip={
            'device="cuda"': GPU,
            "cuda.compile": GPU,
            "bytes_of": "prints three large kernels to count their instructions",
        }
    ),
    "docs/driver.md": Rule(preamble=SMALL, put={"xdma:0": "sim", "(1000)": "(20)"}, first=(BUILT,)),
    "docs/explore.md": Rule(put={'"iiwa14"': '"two_link"'}),
    "docs/export.md": Rule(
        first=(BUILT, "export build/iiwa14 -o export/iiwa14"),
        then=INSIDE,
    ),
    "docs/guides/mpc.md": Rule(
        skip={"scenario.controller": "docs/mpc.md has the same lines, and runs them"}
    ),
    "docs/guides/torch-and-jax.md": Rule(
        skip={
            "pinion.compute.frameworks.torch": FRAMEWORK,
            "pinion.compute.frameworks.jax": FRAMEWORK,
        }
    ),
    "docs/guides/vcu118.md": Rule(
        put={"xdma:0": "sim", "build/vcu": "build/iiwa14", "64, 7": "64, 2"}, first=(BUILT,)
    ),
    "docs/joints.md": Rule(
        preamble="import numpy as np; q = np.eye(19)[:3] * 0; q[:, 6] = 1; qdd = qd = q[:, 1:]",
        # A core of a quadruped on a floating base takes a quarter of an hour; the robots' tests do.
        put={'device="sim", ii=16': 'device="float"'},
    ),
    "docs/mpc.md": Rule(
        put={"duration=5.0": "duration=0.2"},
        skip={'formats="auto"': "builds the core of a plant, half an hour"},
    ),
    # The core takes minutes to build; the tests of the examples cover it.
    "docs/own-functions.md": Rule(
        preamble=KALMAN, put={'kalman, device="sim"': 'kalman, device="float"'}
    ),
}


# Lines of Python outside of fences, where nothing would run them.
BARE = re.compile(
    r"^ {4}(?:(?:import|from) [\w.]+|def \w+\(|with .*:$|print\(|\w+ = \w+\.[\w.]+\()"
)


def _pages() -> dict[str, str]:
    paths = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "docs").rglob("*.md")}
    paths |= {name: ROOT / name for name in ("README.md", "CONTRIBUTING.md")}
    return {name: paths[name].read_text("utf-8") for name in sorted(paths)}


PAGES = _pages()
WITH_PYTHON = [name for name, text in PAGES.items() if "```python" in text]


def _python(page: str) -> list[Block]:
    return [block for block in blocks(PAGES[page]) if block.language == "python"]


def _command(arguments: str, folder: Path) -> None:
    text = f"import sys; from pinion.cli import main; sys.exit(main({shlex.split(arguments)!r}))"
    fault = run(text, name="first.py", folder=folder)
    assert not fault, f"pinion {arguments}: {fault}"


Build = Callable[[str, Path], None]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Return a function that copies the folder of a command; each command runs once."""
    folders: dict[str, Path] = {}

    def copy(arguments: str, folder: Path) -> None:
        if arguments not in folders:
            place = tmp_path_factory.mktemp("built")
            _command(arguments, place)
            folders[arguments] = place
        shutil.copytree(folders[arguments] / "build", folder / "build")

    return copy


def _run(name: str, page: list[Block], rule: Rule, folder: Path, build: Build = _command) -> str:
    """Return the error of a page's blocks, or an empty text."""
    runnable = [b for b in page if not any(piece in b.text for piece in rule.skip)]
    text = program(runnable, rule.preamble) + rule.then
    for old, new in rule.put.items():
        assert old in text, f"'{old}' is no longer in {name}; its rule here needs a look"
        text = text.replace(old, new)
    for arguments in rule.first:
        (build if arguments.startswith("build ") else _command)(arguments, folder)
    return run(text, name=name.replace("/", "_").replace(".md", "_md.py"), folder=folder)


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_imports_of_a_page_are_there(page: str) -> None:
    """Check blocks that are not run here, too."""
    for block in _python(page):
        for statement in imports(block):
            if "torch" in statement or "jax" in statement:
                continue  # not installed
            try:
                exec(statement, {})
            except ImportError as error:
                pytest.fail(f"{page}:{block.line}: {statement}: {error}")


# README, the first steps and the shortest of the others.
QUICK = (
    *("README.md", "docs/start.md", "docs/guides/your-robot.md", "docs/guides/your-function.md"),
    *("docs/guides/export.md", "docs/guides/formats-and-accuracy.md", "docs/guides/ulx3s.md"),
    *("docs/concepts/rnea.md", "docs/concepts/the-link.md", "docs/robot-files.md", "docs/cuda.md"),
)


@pytest.mark.parametrize("page", some(WITH_PYTHON, QUICK))
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, build: Build) -> None:
    fault = _run(page, _python(page), RULES.get(page, Rule()), tmp_path, build)
    assert not fault, f"{page}:\n{fault}"


def test_every_rule_is_of_something_on_a_page() -> None:
    for name, rule in RULES.items():
        assert name in WITH_PYTHON, f"{name} has no Python any more; its rule can go"
        texts = [block.text for block in _python(name)]
        for piece, reason in rule.skip.items():
            assert any(piece in text for text in texts), f"{name}: no block has '{piece}'"
            assert len(reason.split()) > 2


def _bare(page: str) -> list[str]:
    fenced = "\n".join(block.text for block in blocks(page))
    lines = [line for line in page.splitlines() if BARE.match(line)]
    return [line for line in lines if line.strip() not in fenced]


def test_python_on_pages_stands_in_fences() -> None:
    assert _bare("Text.\n\n    import numpy\n    x = numpy.zeros(3)\n") != []
    assert {name: lines for name, page in PAGES.items() if (lines := _bare(page))} == {}


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
    python_blocks = [block for block in blocks(page) if block.language == "python"]
    fault = _run("docs/broken.md", python_blocks, Rule(), tmp_path)
    last = 9 + len(broken.splitlines())
    assert needle in fault
    assert f'docs_broken_md.py", line {last}' in fault


# ---- the command line ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verbs() -> dict[str, Any]:
    group: Any = get_command(app)
    return dict(group.commands)


def _texts() -> dict[str, str]:
    """Return pages, and the text between the cells of notebooks."""
    texts = dict(PAGES)
    for path in sorted((ROOT / "docs").rglob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        texts[path.relative_to(ROOT).as_posix()] = text
    return texts


def test_the_command_line_takes_every_command_of_the_pages(verbs: dict[str, Any]) -> None:
    wrong, count = [], 0
    for name, text in _texts().items():
        for command in commands(text):
            fault = complaint(verbs, command)
            count += 1
            if fault and not name.startswith("docs/adr"):  # records speak of their time
                wrong.append(
                    f"{name}:{command.line}: pinion {' '.join(command.arguments)}: {fault}"
                )
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
