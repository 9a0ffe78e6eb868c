"""The checks of names, of the form of imports and of commits' subjects can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.import_style import exports, violations
from tests.support.names import repeated_classes, vague_names
from tests.support.subjects import LIMIT, long_subjects

INTERFACE = exports(
    "pinion.link",
    'from .manifest import Manifest, load\nfrom .crc import crc\n__all__ = ["Manifest", "crc"]\n',
)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("from .model import Model", None),
        ("from .edit.locks import lock", None),
        ("from pinion.robot.model import Model", None),
        ("from pinion.link import Manifest", None),
        ("from pinion.link.manifest import load", None),
        ("from ..model import Model", "import modules above this folder by their full name"),
        ("from pinion.robot.read.urdf import parse", "import '.urdf' by one dot"),
        ("from pinion.link.manifest import Manifest", "import 'Manifest' from 'pinion.link'"),
    ],
)
def test_an_import_of_another_form_is_found(line: str, sentence: str | None) -> None:
    sentences = [s for _, s in violations("pinion.robot.read", line, {"pinion.link": INTERFACE})]
    assert sentences == ([] if sentence is None else [sentence])


def test_vague_names_are_found_wherever_they_are_bound() -> None:
    source = "def f(given):\n    for own in given:\n        found = [one for one in own]\n"
    assert sorted(vague_names(source)) == [(1, "given"), (2, "own"), (3, "found"), (3, "one")]
    assert list(vague_names("def f(count):\n    for row in range(count):\n        row()\n")) == []


def test_a_class_name_of_two_modules_is_found() -> None:
    sources = {
        Path("sw/a.py"): "class Plan: ...\nclass _Row: ...\n",
        Path("sw/b.py"): "x = 1\nclass Plan: ...\nclass _Row: ...\nclass Row: ...\n",
    }
    assert list(repeated_classes(sources)) == [(Path("sw/b.py"), 2, "Plan")]


def test_a_long_subject_is_found() -> None:
    long, short = "abc1234 " + "x" * (LIMIT + 1), "abc1234 " + "x" * LIMIT
    assert long_subjects(f"{short}\n{long}\n") == [long]
