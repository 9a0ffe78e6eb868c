"""The pass that Yosys runs, and its progress, read from a growing log."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pinion.base.progress import EVERY, Progress
from pinion.gateware.yosys import PassReader, YosysError, run_yosys


@pytest.fixture
def reading(tmp_path: Path) -> Callable[..., Callable[[str], str | None]]:
    """Create a function that appends to a log and returns the new message, or None."""

    def create(
        heard: Callable[[float], object] | None = None, **options: Any
    ) -> Callable[[str], str | None]:
        log, messages = tmp_path / "x.log", list[str]()
        log.write_text("")
        look = PassReader(log, "Mapping", Progress(messages.append, heard), **options)

        def grows(text: str) -> str | None:
            with log.open("a") as file:
                file.write(text)
            count = len(messages)
            look()
            return messages[-1] if len(messages) > count else None

        return grows

    return create


def test_passes_are_reported_as_they_begin(
    reading: Callable[..., Callable[[str], str | None]],
) -> None:
    grows = reading()
    assert grows("") is None
    # Incomplete lines and nested passes are not reported.
    assert grows("-- Executing script file `x.ys' --\n\n1. Executing RTL") is None
    assert grows("IL frontend.\n") == "Mapping: reading the design (Yosys pass 1, RTLIL)"
    assert grows("4.40. Executing TECHMAP pass (map to technology primitives).\n") == (
        "Mapping: replacing operators by simpler cells (Yosys pass 4.40, TECHMAP)"
    )
    assert grows("\n4.40.12. Executing OPT_EXPR pass (perform const folding).\n") is None
    assert grows("4.41. Executing OPT pass\n5. Executing Verilog-2005 frontend: a.v\n") == (
        "Mapping: reading Verilog (Yosys pass 5, Verilog-2005)"
    )
    assert grows("Parsed 3.5. Executing nothing.\n") is None
    # A pass without a description is reported by its name.
    assert grows("6. Executing NEWEST pass.\n") == "Mapping: Yosys pass 6, NEWEST"
    assert grows("7. Executing OPT_LUT_INS pass (discard unused LUT inputs).\n") == (
        "Mapping: simplifying LUTs (Yosys pass 7, OPT_LUT_INS)"
    )
    assert grows("8. Executing JSON backend.\n") == (
        "Mapping: writing the netlist (Yosys pass 8, JSON)"
    )


def test_modules_and_share_of_a_pass_are_reported(
    reading: Callable[..., Callable[[str], str | None]],
) -> None:
    shares = list[float]()
    grows = reading(shares.append, shares={"OPT": 0.1, "ABC": 0.4, "JSON": 0.8}, modules=4)
    grows("1. Executing OPT pass.\n")
    grows("2. Executing OPT pass.\n")  # the same name again: its share is unknown
    assert shares == [0.1]
    grows("3. Executing ABC pass (technology mapping using ABC).\n")
    words = "Mapping: mapping logic to LUTs (Yosys pass 3, ABC), module"
    for number, share in ((1, 0.4), (2, 0.5), (3, 0.6), (4, 0.7)):
        line = f"3.{2 * number}. Extracting gate netlist of module `\\m{number}' to `x'..\n"
        assert grows(line) == f"{words} {number} of 4"
        assert shares[-1] == pytest.approx(share)
    grows("4. Executing JSON backend.\n")
    assert shares[-1] == 0.8 and shares == sorted(shares)


def test_uncounted_modules_are_reported_without_a_share(
    reading: Callable[..., Callable[[str], str | None]],
) -> None:
    shares = list[float]()
    grows = reading(shares.append)
    message = grows(
        "3. Executing ABC pass.\n3.2. Extracting gate netlist of module `\\m' to `x'..\n"
    )
    assert (
        message == "Mapping: mapping logic to LUTs (Yosys pass 3, ABC), module 1" and shares == []
    )


def test_the_log_continues_after_abc(tmp_path: Path) -> None:
    """The WebAssembly build stops writing to standard output after ABC."""
    commands = ["design -reset", "read_verilog a.v", "synth -top a", "log the end", "stat"]
    (tmp_path / "a.v").write_text("module a(input x, y, output z); assign z = x & y; endmodule\n")
    text = run_yosys(commands, folder=tmp_path, name="mine")
    assert text == (tmp_path / "mine.log").read_text()
    output = text.partition("Executing ABC pass")[2].partition("the end")[2]
    assert "$_AND_" in output
    with pytest.raises(YosysError, match=r"ERROR: No such command: nonsense.*mine\.log"):
        run_yosys([*commands, "nonsense"], folder=tmp_path, name="mine")


def test_the_output_of_a_failed_start_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pinion.gateware.yosys.tool_command", lambda *_: ["sh", "-c", "echo no room; exit 3"]
    )
    with pytest.raises(YosysError, match="exit code 3, no error line"):
        run_yosys(["log x"], folder=tmp_path, name="mine")
    assert (tmp_path / "mine.log").read_text() == "no room\n"


def test_a_folder_replaced_meanwhile_raises_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, messages = tmp_path / "b", list[str]()

    def replaced(command: list[str], cwd: Path, **_: object) -> None:
        cwd.rename(tmp_path / "before")
        cwd.mkdir()
        time.sleep(3 * EVERY)  # the progress is read meanwhile

    monkeypatch.setattr(subprocess, "run", replaced)
    with pytest.raises(YosysError, match="was replaced or removed while Yosys ran in it"):
        run_yosys(
            ["log x"], folder=place, name="mine", step="Waiting", progress=Progress(messages.append)
        )
    assert list(place.iterdir()) == []


def test_an_interrupted_run_leaves_the_log_of_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.log").write_text("of counts that stay")

    def interrupted(command: list[str], cwd: Path, **_: object) -> None:
        (cwd / command[command.index("-L") + 1]).write_text("half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_yosys(["log x"], folder=tmp_path, name="mine")
    assert (tmp_path / "mine.log").read_text() == "of counts that stay"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.log"]


def test_a_run_that_takes_too_long_leaves_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(command: list[str], cwd: Path, timeout: float, **_: object) -> None:
        (cwd / command[command.index("-L") + 1]).write_text("as far as it came")
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(YosysError, match=r"exceeded 2 s; its log is .*mine\.log"):
        run_yosys(["log x"], folder=tmp_path, name="mine", timeout=2.0)
    assert (tmp_path / "mine.log").read_text() == "as far as it came"
