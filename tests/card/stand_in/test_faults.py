"""Fault plans: valid plans, refusals with their line, and rates of random faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.card.stand_in import KINDS, Fault, FaultPlan, FaultPlanError
from pinion.card.stand_in.faults import Injector

PLAN = """\
seed = 7

[[fault]]
kind = "delay"
at = 3
seconds = 0.01

[[fault]]
kind = "corrupt_beat"
at = [1, 5]
side = "response"
beat = 2
bit = 9

[[fault]]
kind = "card_reset"
probability = 0.25
per = "request"

[[fault]]
kind = "random"
every = 100
"""


def test_a_plan_is_read_and_written():
    plan = FaultPlan.parse(PLAN)
    assert plan.seed == 7 and plan.every == 100 and plan.kinds == tuple(KINDS)
    assert plan.faults[0] == Fault(kind="delay", at=(3,), seconds=0.01)
    assert plan.faults[1].at == (1, 5) and plan.faults[1].side == "response"
    assert FaultPlan.parse(plan.text()) == plan


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_goes_through_text(kind):
    plan = FaultPlan(faults=(Fault(kind=kind, at=(0, 2)), Fault(kind=kind, probability=0.5)))
    assert FaultPlan.parse(plan.text()) == plan


@pytest.mark.parametrize(
    ("old", "new", "line", "needle"),
    [
        ('"delay"', '"dlay"', 4, "no fault 'dlay'"),
        ("probability = 0.25", "probability = 1.25", 17, "1.25"),
        ("probability = 0.25", "probability = true", 17, "True"),
        ("probability = 0.25", "probability = nan", 17, "nan"),
        ("at = 3", "at = -3", 5, "packet numbers, integers of at least 0"),
        ("at = 3", "", 4, "never happens"),
        ("seconds = 0.01", "second = 0.01", 6, "'second' is not a parameter"),
        ("bit = 9", "bit = 512", 13, "512"),
        ('"response"', '"both"', 11, "both"),
        ('per = "request"', 'per = "beat"', 18, "beat"),
        ("every = 100", "every = 0", 22, "every"),
        ("every = 100", "", 21, "every"),
        ("every = 100", 'every = 100\nkinds = ["delay", "dirt"]', 23, "dirt"),
        ("seed = 7", 'seed = "x"', 1, "seed"),
        ("seed = 7", "sed = 7", 1, "'sed' is unknown"),
        ("[[fault]]", "[[faults]]", 3, "unknown"),
    ],
)
def test_a_wrong_plan_is_refused_with_its_line(old, new, line, needle):
    text = PLAN.replace(old, new)
    assert text != PLAN
    with pytest.raises(FaultPlanError, match=f"line {line}: .*") as refused:
        FaultPlan.parse(text, name="plan.toml")
    assert needle in str(refused.value) and str(refused.value).startswith("plan.toml, line")


def test_what_is_no_toml_and_what_is_no_file(tmp_path):
    with pytest.raises(FaultPlanError, match="not valid TOML"):
        FaultPlan.parse("seed = = 3")
    with pytest.raises(FaultPlanError, match="cannot be read"):
        FaultPlan.read(tmp_path / "none.toml")


def test_a_random_plan_strikes_as_often_as_it_says():
    injector = Injector(plan=FaultPlan.random(every=100, seed=3))
    faults = []
    for packet in range(20_000):
        faults += injector.draw(packet, count=10, length=8)
    assert 1750 < len(faults) < 2050  # 2000, but at most one per packet: 1912
    kinds = {fault.kind for fault in faults}
    assert kinds == set(KINDS)
    for fault in faults:
        assert 0 <= fault.beat < 8 and 1 <= fault.beats <= 4 and 1 <= fault.size <= 63


def test_the_same_seed_gives_the_same_faults():
    def faults(seed: int) -> list:
        injector = Injector(plan=FaultPlan.random(every=20, seed=seed))
        return [injector.draw(packet, count=5, length=4) for packet in range(200)]

    assert faults(1) == faults(1) != faults(2)


def test_the_page_has_every_kind_with_its_parameters():
    page = (Path(__file__).parents[3] / "docs" / "driver.md").read_text()
    page = page.partition("### A plan")[2].partition("### What callers")[0]
    cells = [row.replace("`", "").split("|") for row in page.splitlines() if "| `" in row]
    rows = {cell[1].strip(): tuple(cell[2].replace(",", " ").split()) for cell in cells}
    assert rows == {kind: parameters for kind, (_, parameters) in KINDS.items()}
    plan = page.partition("```toml")[2].partition("```")[0]
    assert FaultPlan.parse(plan).every == 100
