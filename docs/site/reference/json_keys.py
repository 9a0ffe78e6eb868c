"""The page of the keys of ``--json``, from ``json_keys.toml``, compared with output."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("json_keys.toml")

HEAD = """\
# JSON keys

`--json` prints one object on standard output, and nothing else there. The list of keys is compared
with what the verbs print (`tests/docs/test_json_keys.py`). Keys whose meaning begins with *if* are
there in that case only. `bench` and `demo` print the figures of their tables, `campaign` those of
its page with the digest of all, `report` those of its builds, `card` the `device` of the stand-in,
its `prefix` and its `build`, and `bitstream` what its tool reported; they are not listed here.

A dot stands for an object within, `[]` for each element of a list, `*` for any name.

"""


def keys() -> dict[str, dict[str, Any]]:
    """By verb: `command`, an example, and `keys`, each with its meaning; as the file has it."""
    return tomllib.loads(SOURCE.read_text("utf-8"))


def page() -> str:
    """A table for each verb."""
    parts = [HEAD]
    for verb, entry in keys().items():
        parts.append(f"\n## {verb}\n\n`{entry['command']}`\n\n| key | meaning |\n| --- | --- |\n")
        parts += [f"| `{key}` | {text} |\n" for key, text in entry["keys"].items()]
    return "".join(parts)
