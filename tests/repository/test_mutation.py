"""The mutant runner: what it changes, what it leaves alone, and which tests it runs."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.mutation.campaign import Change, Lines, drawn, equivalents, lines_of
from tests.support.mutation.campaign import changes_of as changes
from tests.support.mutation.operators import mutants_of, mutated
from tests.support.mutation.packages import PACKAGES, ROOT, module_name

TEXT = textwrap.dedent(
    '''
    """Words."""
    LIMIT: int = 3
    Either = Bytes | Words

    def least(a, b, *, far=True):
        """More words."""
        assert a != 7
        if a < b and not far:
            raise ValueError(f"{a} is less, by {b - a}.", 5)
        self.kept = a
        return a << 2
    '''
)


def test_changes_are_made_by_rule_and_one_at_a_time() -> None:
    mutants = mutants_of(TEXT)
    assert [mutant.name for mutant in mutants] == [
        "<module>: 3 -> 4",
        "<module>: True -> False",
        "least: a < b and (not far) -> a < b or not far",
        "least: a < b and (not far) -> not (a < b and (not far))",
        "least: a < b -> a <= b",
        "least: not far -> far",
        "least: raise ValueError(f'{a} is less, by {b - a}.', 5) -> pass",
        "least: 5 -> 6",
        "least: self.kept = a -> pass",
        "least: return a << 2 -> return None",
        "least: a << 2 -> a >> 2",
        "least: 2 -> 3",
    ]
    whole = ast.unparse(ast.parse(TEXT))
    texts = [ast.unparse(mutated(TEXT, mutant.index)) for mutant in mutants]
    assert len(set(texts)) == len(texts) and whole not in texts
    assert [mutant.imported for mutant in mutants[:2]] == [True, True]
    assert not any(mutant.imported for mutant in mutants[2:])
    for text in texts:
        assert "assert a != 7" in text and "Either = Bytes | Words" in text
        assert "b - a" in text or "raise" not in text
    with pytest.raises(IndexError):
        mutated(TEXT, len(mutants))


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_has_a_sample_to_draw(name: str) -> None:
    candidates = changes(PACKAGES[name])
    assert len(candidates) >= 300 and len({change.name for change in candidates}) == len(candidates)
    first = drawn(candidates, sample=300, seed=0)
    assert first == drawn(candidates, sample=300, seed=0) != drawn(candidates, sample=300, seed=1)
    assert {module_name(change.path).split(".")[0] for change in first} == {"pinion"}
    for path in PACKAGES[name].tests:
        assert (ROOT / path.removeprefix("--ignore=")).exists()


def test_what_is_called_equivalent_is_a_mutant_and_says_why() -> None:
    names = {change.name for package in PACKAGES.values() for change in changes(package)}
    for name, reason in equivalents().items():
        assert name in names and len(reason) > 20, name


def test_a_mutant_meets_the_tests_that_run_its_lines() -> None:
    (mutant,) = (m for m in mutants_of(TEXT) if m.before == "a << 2")
    (constant,) = (m for m in mutants_of(TEXT) if m.before == "3")
    path = Path("m.py")
    users = {("m.py", 12): {"slow", "quick"}, ("m.py", 8): {"other"}}
    tests = Lines({"slow": 2.0, "quick": 1.0, "other": 0.5}, users)
    assert tests.of(Change(path=path, mutant=mutant)) == ["quick", "slow"]
    assert tests.of(Change(path=path, mutant=constant)) == ["other", "quick", "slow"]


def test_lines_belong_to_the_tests_that_run_them() -> None:
    lines = lines_of(
        {
            "seconds": {"a::x": 1.0, "a::y": 2.0, "b::slow": 3.1},
            "lines": {"": [["m.py", 1], ["m.py", 2]], "a::x": [["m.py", 2]], "b::slow": []},
            "shared": {"a": [["m.py", 5]]},
        },
        longest=3.0,
    )
    assert lines.seconds == {"a::x": 1.0, "a::y": 2.0}
    assert lines.users == {
        ("m.py", 1): {"a::x", "a::y"},  # run at import alone
        ("m.py", 2): {"a::x"},
        ("m.py", 5): {"a::x", "a::y"},
    }


SCRIPT = """
import sys, time
from pathlib import Path
from tests.support.mutation.children import Changed, Child
from tests.support.mutation.children import schedule
from tests.support.mutation.operators import mutants_of, mutated

folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
path = folder / "subject.py"
text = path.read_text()
found = {}
for mutant in mutants_of(text):
    changed = Changed(name="subject", path=path, tree=mutated(text, mutant.index))
    child = Child(tests=[str(folder / "test_subject.py")], log=folder / "log", work=60.0, rest=4.0,
                  changed=changed)
    found[mutant.name] = child.wait()
plain = Child(tests=[str(folder / "test_subject.py")], log=folder / "log", work=60.0, rest=60.0)
print(plain.wait(), found)
stopped = Child(tests=[str(folder / "test_subject.py")], log=folder / "log", work=60.0, rest=60.0)
stopped.end()
stopped.end()
print(not Path(f"/proc/{stopped.pid}").exists())
"""


def test_children_die_survive_and_hang(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text("def f(a):\n    return a + 1\n\ndef g():\n    return 8\n")
    (tmp_path / "test_subject.py").write_text(
        "import time, subject\n"
        "def test_f():\n"
        "    assert subject.f(1) != 0\n"
        "    if subject.f(1) == 3: time.sleep(600)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert ran.returncode == 0, ran.stderr
    verdicts, gone = ran.stdout.splitlines()
    assert gone == "True"
    assert ast.literal_eval(verdicts.split(" ", 1)[1]) == {
        "f: return a + 1 -> return None": 0,
        "f: a + 1 -> a - 1": 1,
        "f: 1 -> 2": -1,
        "g: return 8 -> return None": 0,
        "g: 8 -> 9": 0,
    }
    assert ran.stdout.startswith("0 ")
