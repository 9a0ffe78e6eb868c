"""Table of proofs in ``docs/checks.md``: ``python -m tests.support.proofs_page`` writes it.

The text between ``<!-- table: proofs -->`` and ``<!-- end -->`` is generated from the proofs that
run, so that each proof is called by its kind.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable

from pinion.gateware.link.bus import Bus

from .formal import KINDS, Mode, Proof
from .parity import WIDTHS
from .proofs import PROOFS
from .record import ROOT

PAGE = ROOT / "docs" / "checks.md"

_MARKED = re.compile(r"<!-- table: proofs -->\n(.*?)<!-- end -->", flags=re.DOTALL)

_LEFT_OUT = (
    *("word", "shape", "function", "build", "constants", "writable", "i_domain", "o_domain"),
    *("machine", "encoding"),
)
"""Parameters that have the same value in all proofs and do not matter."""


def rendered(proofs: Iterable[Proof] = PROOFS) -> str:
    """Return the numbers of proofs by kind, and a table of components, in Markdown."""
    groups: dict[tuple[str, Mode], list[Proof]] = {}
    for proof in proofs:
        groups.setdefault((proof.component.__name__, proof.mode), []).append(proof)
    counts = Counter(mode for (_, mode), group in groups.items() for _ in group)
    names: dict[Mode, str] = {"prove": "by induction", "bmc": "bounded", "cover": "covers"}
    listed = [f"{counts[mode]} {names[mode]}" for mode in ("prove", "bmc", "cover")]
    lines = [
        f"{', '.join(listed)}; {len(WIDTHS)} by linear algebra.",
        "",
        "| component | kind | proofs | cycles | parameters |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (component, mode), group in sorted(groups.items()):
        slow = sum(proof.slow for proof in group)
        kind = "cover" if mode == "cover" else KINDS[mode]
        depths = ", ".join(str(depth) for depth in sorted({proof.depth for proof in group}))
        lines.append(
            f"| `{component}` | {kind} | {len(group)}{f' ({slow} slow)' if slow else ''} | "
            f"{depths} | {_parameters(group)} |"
        )
    widths = ", ".join(map(str, WIDTHS))
    lines.append(f"| `Checksum` | by linear algebra | {len(WIDTHS)} | | `bits`: {widths} |")
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """Return the page with its table of proofs replaced by the current one.

    Raises
    ------
    ValueError
        When the page has not exactly one place for it.
    """
    page, times = _MARKED.subn(f"<!-- table: proofs -->\n{rendered()}<!-- end -->", page)
    if times != 1:
        raise ValueError(f"The page has {times} places for the table of proofs instead of one.")
    return page


def _parameters(proofs: Iterable[Proof]) -> str:
    texts: dict[str, list[str]] = {}
    for proof in proofs:
        settings = {name: _text(value) for name, value in proof.settings.items()}
        settings = {name: value for name, value in settings.items() if name not in _LEFT_OUT}
        values = texts.setdefault("/".join(settings), [])
        if settings and (text := "/".join(settings.values())) not in values:
            values.append(text)
    return "; ".join(f"`{names}`: {', '.join(values)}" for names, values in texts.items() if values)


def _text(value: object) -> str:
    return f"{value.words} words" if isinstance(value, Bus) else str(value)


def main() -> int:
    """Write the current table into the page."""
    PAGE.write_text(written(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
