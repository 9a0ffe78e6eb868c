"""Complete but inconsistent plans: each is refused in a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinion.formats.planfile import PLAN, PlanError
from tests.support.builds import build


@pytest.fixture(scope="module")
def auto_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan") / "auto"
    build("two_link", "rnea", folder, ii=4, formats="auto")
    return folder


def last(text: str, op: str, change) -> str:
    """The plan with the last signal of an operation rewritten."""
    parts = re.split(r"(?=\n\[signal\.)", text)
    k = max(k for k, part in enumerate(parts[1:], 1) if part.split()[3] == op)
    parts[k] = change(parts[k])
    return "".join(parts)


def addend(text: str, change) -> str:
    """The plan with the last port rewritten that adds something to products."""
    parts = re.split(r"(?=\n\[signal\.)", text)
    ports = [re.findall(r"\[\d+, -?\d+\]", part.partition("ports")[2]) for part in parts]
    k = max(k for k, widths in enumerate(ports) if len(widths) in (3, 5, 7, 9))
    head, ports_line = parts[k].split("ports")
    at = ports_line.rindex(ports[k][-1])
    parts[k] = (
        f"{head}ports{ports_line[:at]}{change(ports[k][-1])}{ports_line[at:][len(ports[k][-1]) :]}"
    )
    return "".join(parts)


CASES = {
    "signal missing": lambda t: last(t, "add", lambda s: ""),
    "ports missing": lambda t: last(t, "mul", lambda s: re.sub(r"\nports = .*", "", s)),
    "port missing": lambda t: last(
        t, "dot", lambda s: re.sub(r"ports = \[\[.*?\], ", "ports = [", s)
    ),
    "no ports": lambda t: last(t, "add", lambda s: re.sub(r"ports = .*", "ports = []", s)),
    "result of a sum": lambda t: last(
        t, "add", lambda s: re.sub(r"(value = \[27, )\d+", r"\g<1>3", s)
    ),
    "result too fine": lambda t: last(
        t, "dot", lambda s: re.sub(r"(value = \[27, )\d+", r"\g<1>60", s)
    ),
    "port of 20 bits": lambda t: t.replace("[18,", "[20,", 1),
    "addend elsewhere": lambda t: addend(
        t, lambda port: re.sub(r"(\d+)\]", lambda m: f"{int(m[1]) - 1}]", port)
    ),
    "addend of 18 bits": lambda t: addend(t, lambda port: port.replace("[27,", "[18,")),
    "addend missing": lambda t: addend(t, lambda port: "").replace(", ]", "]"),
    "input of 36 bits": lambda t: last(t, "input", lambda s: s.replace("[27,", "[36,")),
    "one angle": lambda t: t.replace("value = [27, 24]", "value = [27, 23]", 1),
    "unknown signal": lambda t: t + "\n[signal.900]\nvalue = [27, 3]\n",
    **{
        f"max_error {x}": lambda t, x=x: t.replace("max_error = 0.001", f"max_error = {x}")
        for x in ("nan", "inf", "0.0", "-1.0")
    },
}


@pytest.mark.parametrize("case", CASES)
def test_a_plan_that_does_not_fit_together_is_refused(
    auto_build: Path, tmp_path: Path, case: str
) -> None:
    text = (auto_build / PLAN).read_text()
    mine = tmp_path / "mine.toml"
    mine.write_text(CASES[case](text))
    assert mine.read_text() != text
    with pytest.raises(PlanError) as raised:
        build("two_link", "rnea", tmp_path / "b", ii=4, formats=str(mine))
    assert str(raised.value).endswith(".") and not (tmp_path / "b").exists()
