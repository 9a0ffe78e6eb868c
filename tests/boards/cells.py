"""Cells in RTLIL, for tests of what a design gives to a primitive or a module."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cell:
    """Cell with its type, attributes, parameters, and connections of its ports."""

    kind: str
    attributes: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    ports: dict[str, str] = field(default_factory=dict)

    def constants(self) -> dict[str, str]:
        """Return the ports that are tied to a constant."""
        return {name: value for name, value in self.ports.items() if value[0].isdigit()}


def cell(text: str, name: str) -> Cell:
    """Return the only cell of a name."""
    lines = text.splitlines()
    (at,) = (k for k, line in enumerate(lines) if line.split()[::2] == ["cell", f"\\{name}"])
    result = Cell(lines[at].split()[1].removeprefix("\\"))
    before = at - 1
    while lines[before].startswith("  attribute "):
        _, key, value = lines[before].split(maxsplit=2)
        result.attributes[key.removeprefix("\\")] = value
        before -= 1
    for line in lines[at + 1 : lines.index("  end", at)]:
        word, key, value = line.replace("parameter real", "parameter").split(maxsplit=2)
        into = result.parameters if word == "parameter" else result.ports
        into[key.removeprefix("\\")] = value
    return result
