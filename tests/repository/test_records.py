"""Slow suites are recorded, runs report progress, and no limit fails on a busy machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import record
from tests.support.record import PAGE, SUITES, main, row, written
from tests.support.sittings import Sittings, affected, carried

ROOT = Path(__file__).parents[2]


def test_every_slow_suite_has_a_row_and_a_target_that_writes_it() -> None:
    page, makefile = PAGE.read_text(), (ROOT / "Makefile").read_text()
    for suite in SUITES:
        assert len(re.findall(rf"^\| `make {suite}` \|", page, re.MULTILINE)) == 1, suite
        target = re.search(rf"^{suite}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        assert target is not None, suite
        # A suite with arguments runs in part, which is not recorded.
        part = "--part='$(subst ','\\'',$(ARGS))' " if "$(ARGS)" in target[1] else ""
        assert f"$(RECORD) {part}{suite} -- " in target[1], suite


@pytest.mark.parametrize("code", [0, 3])
def test_a_run_is_recorded_whatever_comes_of_it(
    code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "RECORDS.md"
    page.write_text(PAGE.read_text())
    command = [sys.executable, "-c", f"print('ran'); raise SystemExit({code})"]
    assert main(["--page", str(page), "soak", "--", *command]) == code
    assert "ran" in capfd.readouterr().out
    (line,) = re.findall(r"^\| `make soak` \|.*$", page.read_text(), re.MULTILINE)
    assert ("| passed |" if code == 0 else "| failed (exit status 3) |") in line
    assert re.search(r"\| 20\d\d-\d\d-\d\d \| \S+", line)
    noted = page.read_text()
    assert main(["--page", str(page), "--part=-k it's", "soak", "--", *command]) == code
    message = capfd.readouterr().out.splitlines()[-1]
    result = "passed" if code == 0 else "failed (exit status 3)"
    assert message.startswith(f"soak: {result} in under a minute, at ") and "|" not in message
    assert message.endswith("; this was only a part, -k it's, so RECORDS.md keeps its row.")
    assert page.read_text() == noted
    other_rows = re.sub(r"^\| `make soak` .*$", "", page.read_text(), flags=re.MULTILINE)
    assert other_rows == re.sub(r"^\| `make soak` .*$", "", PAGE.read_text(), flags=re.MULTILINE)


def test_an_interrupted_suite_goes_on_and_forgets_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The second sitting runs what is left alone; a failure of the first one is in the record."""
    page, tests, runs = tmp_path / "RECORDS.md", tmp_path / "test_long.py", tmp_path / "runs"
    page.write_text(PAGE.read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tests.write_text(
        "import os, pathlib\n"
        f"def note(name): pathlib.Path({str(runs)!r}).open('a').write(name)\n"
        "def test_a(): note('a')\n"
        f"def test_b(): note('b'); assert os.path.exists({str(tmp_path / 'mended')!r})\n"
        f"def test_c(): note('c'); os.path.exists({str(tmp_path / 'go')!r}) or os._exit(9)\n"
        "def test_d(): note('d')\n"
    )
    monkeypatch.setattr("tests.support.record.commit", lambda: "0123abcdef")
    command = ["--page", str(page), "--notes", str(tmp_path / "notes"), "test-slow", "--"]
    command += [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command += ["-c", str(tmp_path / "pytest.ini"), "--rootdir", str(tmp_path), str(tests)]
    assert main(command) == 9
    assert "interrupted after 2 tests, 1 of which failed" in capfd.readouterr().out
    assert page.read_text() == PAGE.read_text() and runs.read_text() == "abc"
    (tmp_path / "go").touch()
    (tmp_path / "mended").touch()
    assert main(command) == 1
    assert "FAILED test_long.py::test_b" in capfd.readouterr().out
    assert runs.read_text() == "abccd"
    assert "| 0123abcdef | failed (1 tests), in 2 sittings |" in page.read_text()
    assert main(command) == 0
    assert runs.read_text() == "abccdabcd"
    assert "| 0123abcdef | passed | under a minute |" in page.read_text()


def test_a_mended_test_alone_runs_again_where_only_tests_changed(tmp_path: Path) -> None:
    """Of two failed tests the mended one is forgotten, and those whose module imports it."""
    room = tmp_path / "tests" / "room"
    room.mkdir(parents=True)
    (tmp_path / "product.py").write_text("x = 1\n")
    for name, text in (("test_a", ""), ("test_b", "from tests.room.test_a import x\n")):
        (room / f"{name}.py").write_text(text)
    (room / "test_c.py").write_text("")
    (room / "conftest.py").write_text("")

    def committed() -> str:
        return subprocess.run(
            "git init -q . && git add -A . && git -c user.name=n -c user.email=e commit -qm x"
            " && git rev-parse --short=10 HEAD",
            cwd=tmp_path,
            shell=True,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    first, notes = committed(), tmp_path / "notes"
    notes.mkdir()
    lines = "".join(
        f"1.0\t{outcome}\ttests/room/{test}\n"
        for outcome, test in (
            *(("failed", "test_a.py::t"), ("passed", "test_b.py::t")),
            *(("failed", "test_c.py::t[x::y]"), ("passed", "test_c.py::u")),
        )
    )
    (notes / ".gitignore").write_text("*")
    (notes / f"suite-{first}.ended").write_text("0.0\tbegan\t\n" + lines)
    (room / "test_a.py").write_text("x = 1\n")
    second = committed()
    assert carried(notes / f"suite-{second}", second, tmp_path) == first
    (room / "test_new.py").write_text("")
    third = committed()
    assert carried(notes / f"suite-{third}", third, tmp_path) == second
    sittings = Sittings.read(notes / f"suite-{third}")
    assert sittings.tests == {f"tests/room/test_c.py::{test}" for test in ("t[x::y]", "u")}
    assert sittings.failed == ("tests/room/test_c.py::t[x::y]",)
    assert (sittings.origin, sittings.count, sittings.seconds) == (first, 1, 1.0)
    for changed in ("product.py", "tests/room/conftest.py"):
        (tmp_path / changed).write_text("x = 2\n")
        fourth = committed()
        assert carried(notes / f"suite-{fourth}", fourth, tmp_path) is None
        subprocess.run(["git", "reset", "-q", "--hard", third], cwd=tmp_path, check=True)
    assert [file.name for file in notes.glob("suite*")] == [f"suite-{third}"]


def test_records_of_earlier_suites_change_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "tests" / "RECORDS.md"
    page.parent.mkdir()
    for file in (page, tmp_path / "product.py"):
        file.write_text("x = 1\n")
    subprocess.run(
        "git init -q . && git add -A . && git -c user.name=n -c user.email=e commit -qm x",
        cwd=tmp_path,
        shell=True,
        check=True,
    )
    monkeypatch.setattr(record, "ROOT", tmp_path)
    monkeypatch.setattr(record, "PAGE", page)
    clean = record.commit()
    assert len(clean) == 10
    page.write_text("x = 2\n")
    assert record.commit() == clean
    (tmp_path / "product.py").write_text("x = 2\n")
    assert record.commit() == f"{clean}, changed"


def test_a_page_affects_the_tests_that_read_pages(tmp_path: Path) -> None:
    texts = {
        "tests/docs/test_links.py": "",
        "tests/room/test_reader.py": 'page = ROOT / "docs" / "page.md"\n',
        "tests/room/test_other.py": "x = 1\n",
        "tests/room/test_friend.py": "from tests.room.test_reader import page\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    readers = set(texts) - {"tests/room/test_other.py"}
    assert affected(["docs/guides/page.md"], tmp_path) == readers
    assert affected(["docs/page.md", "tests/room/test_other.py"], tmp_path) == set(texts)
    assert affected(["docs/page.md", "docs/site/hooks.py"], tmp_path) is None
    assert affected(["README.md"], tmp_path) is None


def test_a_test_whose_process_ends_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, tests = tmp_path / "RECORDS.md", tmp_path / "test_long.py"
    page.write_text(PAGE.read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tests.write_text("import os\ndef test_a(): pass\ndef test_b(): os._exit(9)\n")
    monkeypatch.setattr("tests.support.record.commit", lambda: "0123abcdef")
    command = ["--page", str(page), "--notes", str(tmp_path / "notes"), "test-slow", "--"]
    command += [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider"]
    command += ["-c", str(tmp_path / "pytest.ini"), "--rootdir", str(tmp_path), str(tests)]
    assert main(command) == 1
    assert "| 0123abcdef | failed (1 tests) |" in page.read_text()


def test_a_page_without_its_row_is_refused() -> None:
    line = row("fuzz", date="2026-01-02", commit="abc", result="passed", seconds=30.0)
    assert line == "| `make fuzz` | 2026-01-02 | abc | passed | under a minute |"
    for page in ("", f"{line}\n{line}\n"):
        with pytest.raises(ValueError, match="rows for `make fuzz`"):
            written(page, "fuzz", line)


def test_a_run_names_the_files_that_it_is_at(tmp_path: Path) -> None:
    for name in ("test_one", "test_two"):
        (tmp_path / f"{name}.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = ["-p", "tests.support.progress", "--rootdir", str(tmp_path), str(tmp_path)]
    for spread in (["-p", "no:xdist"], ["-n", "2"]):
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-c", str(tmp_path / "pytest.ini"), *spread, *options],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        shares = re.findall(r"^ +\d+:\d\d +(\d+) %  (\S+)$", ran.stdout, re.MULTILINE)
        assert sorted(Path(file).name for _, file in shares) == ["test_one.py", "test_two.py"]
        assert "4 passed" in ran.stdout


# A limit that a busy machine reaches fails a test although Pinion is right.

LEAST = 300.0
"""Seconds: more than ten times the longest of these processes on an idle machine."""


def short_limits(text: str) -> list[tuple[int, float]]:
    """Return line and seconds of process limits below `LEAST` in a module's text."""
    tree, constants = ast.parse(text), {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | float())):
                constants[name] = float(node.value.value)  # type: ignore[attr-defined]
    limits = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = ast.unparse(call.func)
        if not called.endswith(("subprocess.run", "check_output", "check_call", ".communicate")):
            continue
        for keyword in call.keywords:
            if keyword.arg != "timeout":
                continue
            match keyword.value:
                case ast.Constant(value=int() | float() as value):
                    seconds = float(value)
                case ast.Name(id=name) if name in constants:
                    seconds = constants[name]
                case _:
                    continue
            if seconds < LEAST:
                limits.append((call.lineno, seconds))
    return limits


def test_no_process_has_a_limit_that_a_busy_machine_meets() -> None:
    short = {
        f"{path.relative_to(ROOT)}:{line}": seconds
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line, seconds in short_limits(path.read_text())
    }
    assert short == {}
    assert short_limits("LIMIT = 60\nsubprocess.run([], timeout=LIMIT)") == [(2, 60.0)]
    assert short_limits("subprocess.run([], timeout=600)") == []


def test_no_property_test_has_a_deadline() -> None:
    from hypothesis import settings

    assert settings().deadline is None
    for path in sorted((ROOT / "tests").rglob("*.py")):
        deadlines = re.findall(r"\bdeadline=([^,)\s]+)", path.read_text())
        assert set(deadlines) <= {"None", r"([^,)\s]+)\""} or path == Path(__file__), path
