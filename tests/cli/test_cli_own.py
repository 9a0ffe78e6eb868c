"""The verbs with a user-defined function, given by the name of its file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from .conftest import Pinion

OWN = """
from pinion.api import array, function, uniform

@function(
    inputs={
        "x": array(2, unit="m", sampling=uniform(-1, 1)),
        "gain": array(sampling=uniform(1, 2)),
    },
    outputs={"y": array(2, unit="m")},
)
def scaled(x, gain):
    "Scaled places."
    return gain * x[::-1]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_file.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


STATES = """
from pinion.api import array, function, state, uniform

@function(
    inputs={"x": array(sampling=uniform(-1, 1))},
    outputs={"y": array()},
    states={"total": state()},
)
def summed(x, total):
    return {"y": total, "total": 0.5 * total + x}

@function(
    inputs={"x": array(sampling=uniform(-1, 1))},
    outputs={"y": array()},
    states={"last": state()},
)
def late(x, last):
    return {"y": last, "last": x}
"""


@pytest.mark.parametrize(
    ("name", "needles"),
    [
        # Half of the state is a product in its loop, which takes longer than the link.
        (
            "summed",
            ["the loop through 'total' takes", "without the loop the interval would be 1:"],
        ),
        # A state without a loop changes nothing.
        ("late", ["1 word", "a core is never faster"]),
    ],
)
def test_the_interval_that_is_explained_is_the_one_of_the_build(
    folder: Path, pinion: Pinion, name: str, needles: list[str]
) -> None:
    (folder / "states.py").write_text(STATES)
    built_core = pinion(
        "build", "none", f"states.py:{name}", "--ii", "auto", "-o", "core", "--json"
    ).json
    reason = built_core["ii_reason"]
    assert reason.startswith(f"Interval {built_core['ii']}: ") and reason.count("Interval") == 1
    assert (built_core["ii"] > 1) is (name == "summed")
    for needle in needles:
        assert needle in reason


def test_verbs_take_a_file(folder: Path, pinion: Pinion) -> None:
    described = pinion("info", "none", "--function", "own_file.py:scaled", "--json").json
    assert described["function"]["doc"] == "Scaled places."
    assert described["function"]["inputs"][1] == {
        "name": "gain",
        "shape": [],
        "unit": "1",
        "sampling": "1 to 2",
    }
    built = pinion("build", "none", "own_file.py:scaled", "-o", "core", "--json").json
    assert (built["robot"], built["function"]) == ("none", "scaled")
    verified = pinion("verify", "core", "--samples", 100, "--json").json
    assert verified["ok"] and verified["float_model"] == "the float graph in the folder"
    verified = pinion(
        "verify", "core", "--samples", 100, "--function", "own_file.py:scaled", "--json"
    ).json
    assert verified["ok"] and verified["float_model"] == "the present code of scaled"
    np.savez("in.npz", x=[[1.0, 2.0], [3.0, 4.0]], gain=2.0)
    run = pinion("run", "core", "--input", "in.npz", "--output", "out.npz", "--json").json
    assert run["requests"] == 2
    with np.load("out.npz") as out:
        assert out["y"].tolist() == [[4.0, 2.0], [8.0, 6.0]]
    exported = pinion("export", "core", "-o", "exported", "--requests", 4, "--json").json
    assert exported["name"] and (folder / "exported").is_dir()


def test_operations_of_every_kind_are_counted(folder: Path, pinion: Pinion) -> None:
    text = OWN.replace(
        "return gain * x[::-1]", "return [absolute(x[0]), select(less(*x), gain, 0)]"
    )
    (folder / "own_file.py").write_text(
        text.replace("uniform\n", "absolute, less, select, uniform\n")
    )
    described = pinion("info", "none", "--function", "own_file.py:scaled")
    assert all(re.search(rf" {name}\b", described.out) for name in ("abs", "less", "select"))
    built = pinion("build", "none", "own_file.py:scaled", "-o", "core", "--json").json
    assert built["savings"][-1].items() >= {"abs": 1, "less": 1, "select": 1, "mul": 0}.items()


def test_verbs_take_a_module_of_the_present_folder(folder: Path, pinion: Pinion) -> None:
    assert pinion("info", "none", "--function", "own_file:scaled", "--json").json["savings"]
    pinion("info", "two_link", "--function", "own_file:scaled").refused(
        "'scaled' takes no robot, but 'two_link' is given"
    )
    pinion("build", "none", "rnea", "-o", "core").refused("'rnea' needs a robot, but 'none'")
    pinion("verify", "core", "--netlist", "--function", "own_file:scaled").refused("--function")


@pytest.mark.slow
def test_a_sweep_knows_the_code_that_it_was_of(folder: Path, pinion: Pinion) -> None:
    """A point is measured again only if its function has changed."""
    sweep = ("explore", "none", "own_file.py:scaled", "--ii", 4, "--samples", 50, "-j", 1)

    def points() -> list[dict[str, object]]:
        rows: list[dict[str, object]] = pinion(*sweep, "-o", "points", "--json").json["points"]
        return rows

    (first,) = points()
    assert first["failure"] is None and first["multipliers"] == 1 and not first["resumed"]
    (again,) = points()
    assert again["resumed"] and again["point"] == first["point"]
    (folder / "own_file.py").write_text(OWN.replace("gain * x", "gain * gain * x"))
    (changed,) = points()
    assert changed["point"] != first["point"] and not changed["resumed"]
    assert json.loads((folder / "points" / "explore.json").read_text())["function"]


def test_a_file_without_a_function_is_not_looked_for_in_the_table(pinion: Pinion) -> None:
    pinion("info", "none", "law.py").refused("'law.py' names a file", "write law.py:FUNCTION")


def test_an_input_that_a_robot_does_not_need_is_said(
    pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    law = (
        "from pinion.api import POSITION, array, function, uniform\n"
        "X = array(sampling=uniform(-1, 1), optional=True)\n"
        '@function(inputs={"q": array("nq", sampling=POSITION), "g": X, "h": X},\n'
        '    outputs={"y": array("nq")})\n'
        "def f(model, q, g, h):\n    return q + g - g + (h if len(q) > 2 else 0.0)\n"
    )
    Path("law.py").write_text(law)
    sentence = "The input 'g' changes no result of f for iiwa14; another robot may need it."
    assert sentence in " ".join(pinion("info", "iiwa14", "law.py:f").out.split())
    sentence = (
        "The inputs 'g', 'h' change no result of f for two_link; another robot may need them."
    )
    for verb in (("info", "two_link"), ("build", "two_link")):
        more = ("-o", "core") if verb[0] == "build" else ()
        assert sentence in " ".join(pinion(*verb, "law.py:f", *more).out.split())
    # One that is not optional is an error, before anything is written.
    Path("law.py").write_text(law.replace(", optional=True", ""))
    for verb in ("info", "build"):
        more = ("-o", "other") if verb == "build" else ()
        pinion(verb, "two_link", "law.py:f", *more).refused(
            "law.py:5: the inputs 'g', 'h' change no result of f for two_link",
            "or write array(..., optional=True) for an input that a robot may not need",
        )
    assert not Path("other").exists()


def test_help_shows_how_functions_are_named(pinion: Pinion) -> None:
    page = pinion("build", "--help")
    assert page.code == 0 and "FILE.py:FUNCTION" in page.out and "MODULE:FUNCTION" in page.out


def test_the_pages_first_function_is_one(pinion: Pinion, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "own-functions.md").read_text()
    text = page.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "tip.py").write_text(text)
    name = f"{tmp_path / 'tip.py'}:tip"
    described = pinion("info", "two_link", "--function", name, "--json").json
    assert [block["shape"] for block in described["function"]["inputs"]] == [[2], []]


def test_what_operations_of_all_kinds_cost_is_shown_after_each_step(
    folder: Path, pinion: Pinion
) -> None:
    """Functions of the operation table that no row of Pinion's own has are counted beside the
    rest."""
    Path("kinds.py").write_text(
        OWN.replace("array, function", "array, function, hypot2, select, sqrt").replace(
            "return gain * x[::-1]",
            "y = select(sqrt(hypot2(x[0], x[1])) < gain, x[0], x[1])\n    return gain * x[0], y",
        )
    )
    arguments = ("info", "none", "--function", "kinds.py:scaled")
    last = pinion(*arguments, "--json").json["savings"][-1]
    names = ("mul", "add", "trig", "hypot2", "sqrt", "less", "select")
    assert [last[name] for name in names] == [1, 0, 0, 1, 1, 1, 1]
    described = pinion(*arguments)
    assert described.code == 0
    assert all(name in described.out for name in ("hypot2", "sqrt", "select"))


def test_formats_for_what_grows_without_end_are_refused(folder: Path, pinion: Pinion) -> None:
    Path("grown.py").write_text(
        "from pinion.api import array, function, state, uniform\n"
        '@function(inputs={"x": array(sampling=uniform(-1, 1))}, outputs={"y": array()},\n'
        '    states={"s": state(initial=1)})\n'
        "def grown(x, s):\n"
        "    return x + s, 2.0 * s + x\n"
    )
    pinion("build", "none", "grown.py:grown", "-o", "core", "--formats", "auto").refused(
        "'s' is not finite", "limit states"
    )
    assert not Path("core").exists()
