"""The command line itself: help, mistakes, defects and fast starts."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pinion.cli import main
from pinion.cli import robots as robots_verb
from pinion.console import errors
from pinion.functions import FUNCTIONS
from pinion.functions.mistakes import CodePosition, UserError, said
from pinion.robot import RobotError
from tests.cli.conftest import Pinion
from tests.support.breadth import some_rows

VERBS = (
    *("robots", "info", "build", "verify", "synth", "run", "demo", "bench", "explore"),
    *(
        "campaign",
        "batch",
        "program",
        "processor",
        "devices",
        "card",
        "bitstream",
        "report",
        "export",
    ),
)


def test_help_names_every_verb_and_no_more(pinion: Pinion) -> None:
    completed = pinion("--help")
    assert completed.code == 0
    listed = completed.out.partition("Commands:")[2]
    assert {line.split()[0] for line in listed.splitlines() if line[2:3].strip()} == set(VERBS)
    assert pinion().out == completed.out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(pinion: Pinion, verb: str) -> None:
    completed = pinion(verb, "--help")
    assert completed.code == 0 and completed.err == ""
    assert f"pinion {verb}" in completed.out
    assert "--json" in completed.out


def test_help_on_build_has_the_table_of_functions(pinion: Pinion) -> None:
    listed = pinion("build", "--help").out.partition("Functions:")[2]
    named = [line.split()[0] for line in listed.splitlines() if line[2:3].strip()]
    assert named == [*FUNCTIONS, "FILE.py:FUNCTION", "MODULE:FUNCTION"]
    pinion("functions").refused("'functions'")


def test_version(pinion: Pinion) -> None:
    assert pinion("--version").out.startswith("pinion 0.")


@pytest.mark.parametrize(
    ("arguments", "needles"),
    [
        (["fly"], ["'fly'", "pinion --help"]),
        (["--fast"], ["--fast", "pinion --help"]),
        (["info"], ["ROBOT", "pinion info --help"]),
        (["build", "iiwa14", "rnea"], ["-o", "pinion build --help"]),
        (["build", "iiwa14", "rnea", "-o", "x", "--ii", "eight"], ["'eight'", "auto"]),
        (
            ["build", "hyq", "frame_jacobian", "-o", "x"],
            ["'lf_lowerleg'", "'rh_lowerleg'", "--tip"],
        ),
        (["export", "x", "--tip", "lf_lowerleg", "-o", "y"], ["--tip", "--cpu"]),
        (
            ["verify", "x", "--samples", "0"],
            ["'--samples' must be a number of at least 1, not '0'"],
        ),
        (
            ["verify", "x", "--samples", "many"],
            ["'--samples'", "in digits, not 'many'", "verify -"],
        ),
        (["verify", "x", "--samples", "1e4"], ["a whole number in digits, such as 10000, not '1"]),
        (["verify", "x", "--samples", "10,000"], ["such as 10000, not '10,000'"]),
        (
            ["verify", "x", "--samples", "2.5"],
            ["'--samples' must be a whole number in digits, not '"],
        ),
        (
            ["build", "x", "y", "-o", "z", "--clock", "fast"],
            ["'--clock' must be a number, not 'fast'"],
        ),
        (["build", "x", "y", "-o", "z", "--max-error", "1%"], ["a number, such as 0.01, not '1%'"]),
        (["build", "x", "y", "-o", "z", "--max-error", "1,5"], ["must be a number, not '1,5'"]),
        (["build", "x", "y", "-o", ""], ["An argument is empty"]),
        (["verify", "x", "--netlist", "--promises"], ["leave", "--promises"]),
        (["verify", "x"], ["'x' is not a build folder", "it does not exist"]),
        (["build", "iiwa15", "rnea", "-o", "x"], ["'iiwa15'", "iiwa14"]),
        (["build", "iiwa14", "rneaa", "-o", "x"], ["'rneaa'", "nearest is rnea", "build --help"]),
        (
            ["build", "iiwa14", "frame_jac", "-o", "x"],
            ["'frame_jac'", "nearest are frame_jacobian"],
        ),
        (["build", "iiwa14", "xyz", "-o", "x"], ["'xyz'", "choose one of rnea, ", "FILE.py:"]),
        (["build", "two_link", "rnea", "-o", f"{__file__}/x"], ["/x'", "not a folder", "written"]),
        (["build", "two_link", "rnea", "-o", "x", "--formats", "a.toml"], ["'a.toml'", "give the"]),
        (["verify"], ["DIR"]),
        (["run", "x", "--input", "a.npz"], ["'x'", "not a build folder"]),
        (["robots", "more"], ["more"]),
        (["bench", "speed"], ["'speed'", "core", "functions"]),
        (["bench", "scaling", "iiwa14"], ["leave 'iiwa14' out", "scaling"]),
        (["bench", "scaling", "--largest", "5"], ["--largest 5", "10 links"]),
        (["demo", "--requests", "1"], ["--requests"]),
    ],
)
def test_a_mistake_is_one_sentence(
    pinion: Pinion, arguments: list[str], needles: list[str]
) -> None:
    pinion(*arguments).refused(*needles)


@pytest.mark.parametrize("verb", ["serve"])
def test_what_is_not_there_has_no_stub(pinion: Pinion, verb: str) -> None:
    pinion(verb).refused(f"'{verb}'")


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: object) -> None:
        raise ValueError("not Pinion's own")

    monkeypatch.setattr(robots_verb, "put_json", broken)
    with pytest.raises(ValueError, match="not Pinion's own"):
        main(["robots", "--json"])


def test_no_memory_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def large(data: object) -> None:
        raise MemoryError("Unable to allocate 2.78 EiB")

    monkeypatch.setattr(robots_verb, "put_json", large)
    with pytest.raises(SystemExit) as left:
        main(["robots", "--json"])
    assert left.value.code == 2
    assert "not enough memory (Unable to allocate 2.78 EiB): ask for" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        (KeyboardInterrupt(), "Interrupted: unfinished work is not kept, and the same"),
        (KeyboardInterrupt("law.py:3: interrupted."), "law.py:3: interrupted.\n"),
        (errors.InterruptionError("Interrupted with 3 of 4."), "Interrupted with 3 of 4.\n"),
    ],
)
def test_an_interrupt_is_a_sentence(
    stop: BaseException,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def interrupted(data: object) -> None:
        raise stop

    monkeypatch.setattr(robots_verb, "put_json", interrupted)
    with pytest.raises(SystemExit) as left:
        main(["robots", "--json"])
    assert left.value.code == 130
    out, err = capfd.readouterr()
    assert out == "" and err.startswith(message) and err.count("\n") == 1


def test_an_ending_signal_is_no_mistake_of_a_users_code() -> None:
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit):
            main(["--version"])
        with pytest.raises(SystemExit) as left, said("The function 'f'", CodePosition("f.py", 1)):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert left.value.code == 143
    with (
        pytest.raises(UserError, match=r"raises SystemExit \(3\)"),
        said("The function 'f'", CodePosition("f.py", 1)),
    ):
        sys.exit(3)


def test_a_full_disk_is_a_sentence_whatever_came_of_it() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    assert "There is no room for the output (No space" in str(errors.sentence(full))
    try:
        try:
            raise full
        finally:
            raise ValueError("Can't close the ZIP file")
    except ValueError as error:
        message = errors.sentence(error)
    assert (
        message is not None and message.startswith("There is no room") and message.endswith("path.")
    )
    # Any other error of a system call without a file is a defect.
    assert errors.sentence(OSError(errno.EBADF, "Bad file descriptor")) is None


def test_which_errors_are_the_users() -> None:
    assert errors.sentence(RobotError("A\n  robot.")) == "A robot."
    missing = ModuleNotFoundError("No module named 'amaranth'", name="amaranth.hdl")
    assert "install the extra 'hw' with `pip install 'pinion-rbd[hw]'`" in str(
        errors.sentence(missing)
    )
    assert "the extra 'cli'" in str(errors.sentence(ModuleNotFoundError(name="matplotlib")))
    assert errors.sentence(ModuleNotFoundError(name="pinion.nowhere")) is None
    denied = PermissionError(13, "Permission denied", "some/file")
    message = str(errors.sentence(denied))
    assert (
        "'some/file'" in message
        and "(Permission denied)" in message
        and "or give another" in message
    )
    for defect in (ValueError("x"), TypeError("x"), AssertionError("x"), KeyError("x")):
        assert errors.sentence(defect) is None


def test_what_is_only_read_needs_no_heavy_package() -> None:
    code = (
        "import sys\n"
        "from pinion.cli import main\n"
        "for words in (['--help'], ['robots'], ['info', 'iiwa14']):\n"
        "    try:\n        main(words)\n"
        "    except SystemExit as left:\n        assert left.code == 0\n"
        "    heavy = {'amaranth', 'cocotb', 'matplotlib'} & set(sys.modules)\n"
        "    assert not heavy, (words, heavy)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def _unheard(
    *arguments: object, both: bool = False, buffered: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run the command with nobody reading its standard output, or both streams."""
    reads, writes = os.pipe()
    os.close(reads)
    try:
        return subprocess.run(
            [sys.executable, *(() if buffered else ("-u",)), "-m", "pinion", *map(str, arguments)],
            stdout=writes,
            stderr=subprocess.STDOUT if both else subprocess.PIPE,
            text=True,
            check=False,
            timeout=600,
        )
    finally:
        os.close(writes)


@pytest.mark.parametrize(
    ("arguments", "code"),
    some_rows(
        [
            (("info", "two_link"), 0),
            (("info", "atlas", "--json"), 0),  # more than a buffer holds
            (("--version",), 0),
            (("info", "nobody"), 2),
        ],
        [(("info", "two_link"), 0), (("info", "nobody"), 2)],
    ),
)
def test_a_reader_that_leaves_is_no_error(arguments: tuple[str, ...], code: int) -> None:
    completed = _unheard(*arguments)
    assert completed.returncode == code
    assert completed.stderr.count("\n") == (code != 0), completed.stderr
    assert _unheard(*arguments, both=True).returncode == code


def test_a_reader_that_leaves_is_no_error_without_buffers_either() -> None:
    completed = _unheard("info", "two_link", buffered=False)
    assert completed.returncode == 0 and completed.stderr == ""


@pytest.mark.slow
def test_a_verb_goes_on_when_its_reader_has_left(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    assert _unheard("build", "pendulum", "rnea", "-o", folder, both=True).returncode == 0
    assert _unheard("verify", folder, "--samples", "20", both=True).returncode == 0
    assert (folder / "errors.json").exists()


def _closed(streams: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command from a shell with these streams closed."""
    words = [sys.executable, "-m", "pinion", *map(str, arguments)]
    line = ["sh", "-c", f'exec "$@" {streams}', "sh", *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize(
    ("arguments", "code"),
    some_rows(
        [
            (("info", "two_link"), 0),
            (("info", "two_link", "--json"), 0),
            (("--version",), 0),
            (("report", "nowhere"), 2),
        ],
        lambda arguments, code: arguments in (("info", "two_link"), ("report", "nowhere")),
    ),
)
def test_a_closed_standard_output_is_one_that_nobody_reads(
    arguments: tuple[str, ...], code: int
) -> None:
    completed = _closed(">&-", *arguments)
    assert completed.returncode == code
    assert completed.stdout == "" and completed.stderr.count("\n") == (code != 0), completed.stderr


@pytest.mark.slow
def test_closed_streams_are_taken_by_nothing_else(tmp_path: Path) -> None:
    # Complaints do not go into the results, nor a tool's output into a file of the build.
    assert _closed("2>&-", "info", "nobody").stdout == ""
    folder = tmp_path / "made"
    completed = _closed("<&- >&- 2>&-", "build", "pendulum", "rnea", "-o", folder, "--quiet")
    assert completed.returncode == 0
    completed = _closed("", "verify", folder, "--samples", "20", "--json", "--quiet")
    assert completed.returncode == 0 and '"ok": true' in completed.stdout, completed.stderr
