"""``pinion card``: serving, clean ends, and refusals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from pinion.card.stand_in import FaultPlanError, StandIn, StandInError, why_no_fuse
from pinion.cli import card as verb
from pinion.console.errors import UsageError
from tests.support.breadth import some

ECHO = f"{Path(__file__).with_name('conftest.py')}:echo"

needs_fuse = pytest.mark.skipif(why_no_fuse() is not None, reason=str(why_no_fuse()))


def test_wrong_input_is_refused_in_a_sentence(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('[[fault]]\nkind = "rain"\n')
    with pytest.raises(FaultPlanError, match="line 2: There is no fault 'rain'"):
        verb.command(tmp_path, faults=plan)
    with pytest.raises(UsageError, match="timeout"):
        verb.command(tmp_path, timeout=0.0)
    with pytest.raises(UsageError, match="no card model 'glass'"):
        verb.command(tmp_path, model="glass")


@needs_fuse
def test_a_folder_that_is_no_build_is_refused(tmp_path):
    with pytest.raises(StandInError, match="manifest"):
        verb.command(tmp_path)


@needs_fuse
@pytest.mark.parametrize("number", some([signal.SIGINT, signal.SIGTERM], (signal.SIGTERM,)))
def test_it_serves_until_it_is_told_to_stop(tmp_path, number):
    code = (
        "from functools import partial; import pinion.card.stand_in as card\n"
        f"real = card.StandIn; card.StandIn = lambda **o: real(**o | dict(model={ECHO!r}))\n"
        "from pinion.cli.card import command; from pathlib import Path\n"
        f"command(Path('.'), at=Path({str(tmp_path / 'at')!r}), json=True)"
    )
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    answer = json.loads(program.stdout.readline())
    assert answer["device"] == f"xdma:{tmp_path / 'at' / 'xdma0'}"
    assert Path(answer["prefix"] + "_c2h_0").exists()
    with pytest.raises(StandInError, match="another stand-in"):
        StandIn(folder=".", model=ECHO, at=tmp_path / "at")
    program.send_signal(number)
    assert program.wait(600) == 0
    program.stdout.close()
    assert not any((tmp_path / "at").iterdir())


def test_the_verb_fits_the_command_line():
    app = typer.Typer()
    app.command("card")(verb.command)
    assert typer.main.get_command(app).name
