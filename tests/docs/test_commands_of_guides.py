"""The commands of the guides do what the pages say, page by page, each in an empty folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.docs.test_snippets import Rule
from tests.support.snippets import Block, blocks, commands, program, run

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted(path.name for path in (ROOT / "docs/guides").glob("*.md"))

LIMIT = 3600.0
"""Limit in seconds, only to end a command that hangs."""

BARE = re.compile(r"^(?:python|pip|fusesoc|openFPGALoader) .*$", re.MULTILINE)
INSTALLED = {"pip install": "`make setup` installs it", "fusesoc ": "needs FuseSoC"}
WRITES = re.compile(r"\b(?:savez|write_text)\(")


@dataclass(frozen=True)
class Commands(Rule):
    """How the commands of a page are run; ``put`` and ``skip`` apply to their text.

    Members
    -------
    files : page and language of each block that a reader saves as a file, by its name.
    fails : by a piece of a command that the page shows to fail (exit code 2), its message.
    """

    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    fails: Mapping[str, str] = field(default_factory=dict)


# Guides without a row run unchanged.
RULES: dict[str, Commands] = {
    "cpu-and-cuda.md": Commands(put={"4096": "64"}),
    "export.md": Commands(put={"iiwa14": "two_link"}),
    "formats-and-accuracy.md": Commands(fails={"--max-error 1e-7": "is out of reach"}),
    "mpc.md": Commands(
        skip={
            "bench mpc": "builds the core of a plant and tracks with it, an hour",
            "demo mpc": "is of the iiwa14 alone; tests/cli/test_cli_mpc.py runs it of a small arm",
        }
    ),
    "trot.md": Commands(skip={"demo trot": "is of HyQ alone; tests/control/test_trot.py walks"}),
    "ulx3s.md": Commands(
        # Placing and routing of one joint takes a third of the time.
        put={"two_link": "pendulum", "(3, 16, 2)": "(3, 16, 1)"},
        skip={"openFPGALoader": "needs a ULX3S", "--device serial": "needs a ULX3S"},
    ),
    "vcu118.md": Commands(
        # The whole top of a robot of seven joints compiles for minutes.
        put={"iiwa14": "pendulum", "(3, 64, 7)": "(3, 64, 1)"},
        fails={"bitstream": "Vivado is missing", "xdma:0": "There is no card"},
    ),
    "your-function.md": Commands(
        files={"arm.urdf": ("your-robot.md", "xml"), "law.py": ("your-function.md", "python")}
    ),
    "your-robot.md": Commands(files={"arm.urdf": ("your-robot.md", "xml")}),
    "where-each-backend-wins.md": Commands(
        skip={
            "control_law.py": "measures times of the page for minutes",
            "law_on_chip": "needs a build; tests/flow/test_control_laws.py closes its loop",
        }
    ),
}


@dataclass(frozen=True)
class Step:
    """A step of a page, with its line: a command, or code that writes a file."""

    line: int
    words: tuple[str, ...] = ()
    block: Block | None = None

    @property
    def text(self) -> str:
        return self.block.text if self.block else " ".join(self.words)


def _text(page: str) -> str:
    return (ROOT / "docs/guides" / page).read_text("utf-8")


def _steps(text: str) -> Iterator[Step]:
    """Return the page's commands, and the code that writes their inputs, in order."""
    steps = [Step(c.line, ("pinion", *c.arguments)) for c in commands(text) if c.whole]
    for block in blocks(text):
        if block.language == "python" and WRITES.search(block.text):
            steps.append(Step(block.line, block=block))
        if block.language == "":
            for number, line in enumerate(block.text.splitlines()):
                if BARE.match(line):
                    steps.append(Step(block.line + number, tuple(line.split())))
    return iter(sorted(steps, key=lambda step: step.line))


def _put(text: str, rule: Rule) -> str:
    for old, new in rule.put.items():
        text = text.replace(old, new)
    return text


def _do(step: Step, rule: Commands, folder: Path) -> str:
    """Run a step; return the deviation from the page, or an empty text."""
    if step.block is not None:
        text = _put(program([step.block], rule.preamble), rule)
        return run(text, name=f"line_{step.line}.py", folder=folder)
    first, *rest = step.words
    start = [sys.executable, "-m", "pinion"] if first == "pinion" else [sys.executable]
    assert first in ("pinion", "python"), f"'{first}' needs a rule"
    process = subprocess.run(
        [*start, *(_put(word, rule) for word in rest)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    output = " ".join((process.stdout + process.stderr).split())
    needles = [needle for piece, needle in rule.fails.items() if piece in step.text]
    if needles:
        return (
            ""
            if process.returncode == 2 and needles[0] in output
            else f"{process.returncode}: {output}"
        )
    return "" if process.returncode == 0 else f"exit code {process.returncode}: {output[-2000:]}"


def _taken(text: str, rule: Commands) -> list[Step]:
    """Return the steps of a page that no rule skips."""
    skipped = (*rule.skip, *INSTALLED)
    return [step for step in _steps(text) if not any(piece in step.text for piece in skipped)]


def _run(text: str, rule: Commands, folder: Path) -> list[str]:
    """Return the deviations of each step of a page, by line."""
    for name, (page, language) in rule.files.items():
        block = next(b for b in blocks(_text(page)) if b.language == language)
        (folder / name).write_text(block.text, encoding="utf-8")
    wrong = []
    for step in _taken(text, rule):
        fault = _do(step, rule, folder)
        wrong += [f"{step.line}: {step.text}: {fault}"] if fault else []
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in GUIDES if _taken(_text(page), RULES.get(page, Commands()))]
)
def test_the_commands_of_a_guide_run(page: str, tmp_path: Path) -> None:
    rule = RULES.get(page, Commands())
    if page == "vcu118.md" and shutil.which("vivado"):
        pytest.skip("the page is for a machine without Vivado, and this one has it")
    assert _run(_text(page), rule, tmp_path) == []


def test_the_guides_have_commands_and_rules_are_of_them() -> None:
    assert len(GUIDES) == 12
    assert sum(1 for page in GUIDES for step in _steps(_text(page)) if step.words) > 30
    for page, rule in RULES.items():
        texts = [step.text for step in _steps(_text(page))]
        for piece in (*rule.skip, *rule.fails, *rule.put):
            assert any(piece in text for text in texts), f"{page}: no step has '{piece}'"
        for reason in rule.skip.values():
            assert len(reason.split()) > 2
