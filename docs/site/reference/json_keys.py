"""The page of the keys of ``--json``, from ``json_keys.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("json_keys.toml")

HEAD = """\
# JSON keys

`--json` prints one object on standard output, and nothing else. A test compares this list with the
output of the verbs (`tests/docs/test_json_keys.py`). Keys whose meaning begins with *if* exist only
in that case. `bench` and `demo` print the figures of their tables, `campaign` those of its page
with the digest of all, `report` those of its builds, `card` the `device` of the stand-in, its
`prefix` and its `build`, `bitstream` and `processor` the report of their tools; they are not listed
here.

A dot means a nested object, `[]` each element of a list, `*` any name.

"""


def keys() -> dict[str, dict[str, Any]]:
    """Return `command`, an example, and `keys`, each with its meaning, by verb."""
    return tomllib.loads(SOURCE.read_text("utf-8"))


def page() -> str:
    """Return a table for each verb."""
    parts = [HEAD]
    for verb, entry in keys().items():
        parts.append(f"\n## {verb}\n\n`{entry['command']}`\n\n| key | meaning |\n| --- | --- |\n")
        parts += [f"| `{key}` | {text} |\n" for key, text in entry["keys"].items()]
    return "".join(parts)
