"""The page of ``--json`` keys lists exactly what the verbs print."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.cli import main

ROOT = Path(__file__).resolve().parents[2]
LISTED: dict[str, dict[str, Any]] = tomllib.loads(
    (ROOT / "docs/site/reference/json_keys.toml").read_text("utf-8")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with requests, for builds."""
    place = tmp_path_factory.mktemp("json")
    np.savez(place / "in.npz", q=np.zeros((3, 2)), qd=np.zeros((3, 2)), qdd=np.zeros((3, 2)))
    return place


def _printed(command: str, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capfd.readouterr()
    with pytest.raises(SystemExit) as left:
        main(command.removeprefix("pinion ").split())
    assert left.value.code == 0, capfd.readouterr().err
    printed = json.loads(capfd.readouterr().out)
    assert isinstance(printed, dict)
    return printed


def has(value: Any, key: str) -> bool:
    """Return whether an object has a key; ``[]`` is each element of a list, ``*`` each name."""
    name, _, rest = key.partition(".")
    if name == "*":
        return bool(value) and all(has(value, rest) for value in value.values())
    each = name.endswith("[]")
    name = name.removesuffix("[]")
    if not isinstance(value, dict) or name not in value:
        return False
    below = value[name]
    if each:
        return bool(below) and all(has(value, rest) for value in below)
    return not rest or has(below, rest)


def differences(printed: dict[str, Any], keys: dict[str, str]) -> list[str]:
    """Return listed keys that are missing, and top-level keys that are not listed."""
    needed = [key for key, text in keys.items() if not text.startswith("if ")]
    missing = [f"listed, not printed: {key}" for key in needed if not has(printed, key)]
    return missing + [f"printed, not listed: {key}" for key in printed if key not in keys]


# In the order of the file: later verbs read what earlier ones build.
@pytest.mark.parametrize(
    "verb",
    [pytest.param(v, marks=[pytest.mark.slow] if LISTED[v].get("slow") else []) for v in LISTED],
)
def test_the_keys_of_a_verb_are_listed(
    verb: str, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    if "build/two_link" in LISTED[verb]["command"] and not (folder / "build/two_link").exists():
        _printed(LISTED["build"]["command"], capfd)
    faults = differences(_printed(LISTED[verb]["command"], capfd), LISTED[verb]["keys"])
    assert not faults, f"docs/site/reference/json_keys.toml, {verb}:\n" + "\n".join(faults)


def test_every_verb_with_json_is_listed_or_said_to_be_a_record() -> None:
    text = (ROOT / "docs/site/reference/json_keys.py").read_text("utf-8")
    from typer.main import get_command

    from pinion.cli.app import app

    root: Any = get_command(app)
    for name, verb in root.commands.items():
        if any("--json" in getattr(p, "opts", ()) for p in verb.params) and name not in LISTED:
            assert re.search(rf"`{name}`", text), f"{name} --json is on no page"
