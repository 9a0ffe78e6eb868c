"""Multipliers of a design and their DSP blocks, from its RTLIL without synthesis."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pinion.graph.ops import UNITS

# Operand bits of a DSP48E2, and those that each adds if Yosys splits a wider signed product.
_WIDE, _WIDE_MORE, _NARROW, _NARROW_MORE = 27, 26, 18, 17

_UNIT = "\\pinion_"

_NUMBERS = ("no", "one", "two", "three", "four")
_IN_TABLES = "in sine and reciprocal units"


class EstimateError(ValueError):
    """Error for RTLIL without the module whose multipliers are estimated."""


@dataclass(frozen=True, kw_only=True)
class Multipliers:
    """Group of equal multipliers, with their widths and DSP blocks.

    Members
    -------
    use : ``products``, or ``tables`` for those in sine and reciprocal units.
    bits : of the two operands, the wider one first.
    number : of multipliers.
    blocks : DSP48E2 blocks per multiplier.
    """

    use: str
    bits: tuple[int, int]
    number: int
    blocks: int

    def as_data(self) -> dict[str, Any]:
        """Return the members as a JSON-able dictionary."""
        bits = list(self.bits)
        return {"use": self.use, "bits": bits, "number": self.number, "dsp_each": self.blocks}


def dsp_of_product(width_a: int, width_b: int) -> int:
    """Return the DSP48E2 blocks of one signed product, as Yosys splits it.

    One for 27 by 18 bits, two for 27 by 27, four for 32 by 32.
    """

    def pieces(width: int, first: int, more: int) -> int:
        return 1 + max(0, -(-(width - first) // more))

    return min(
        pieces(wide, _WIDE, _WIDE_MORE) * pieces(narrow, _NARROW, _NARROW_MORE)
        for wide, narrow in ((width_a, width_b), (width_b, width_a))
    )


def use_of_kind(label: str) -> str:
    """Return the use of a unit's multipliers, by the label of its kind (`Multipliers.use`)."""
    return "tables" if label.startswith(tuple(UNITS)) else "products"


def multipliers_of(rtlil: str, *, top: str = "pinion_core") -> list[Multipliers]:
    """Return a design's multipliers: products, then tables, the most numerous first.

    Parameters
    ----------
    rtlil : text of ``core.il``.
    top : name of the module that holds all others.

    Raises
    ------
    EstimateError
        If the RTLIL has no such module.
    """
    products: dict[str, Counter[tuple[str, tuple[int, int]]]] = {}
    inside: dict[str, list[str]] = {}
    for text in re.split(r"^(?=module )", rtlil, flags=re.MULTILINE)[1:]:
        name = text.split(None, 2)[1]
        widths = re.findall(
            r"^  cell \$mul .*?A_WIDTH (\d+)\n.*?B_WIDTH (\d+)\n", text, re.MULTILINE | re.DOTALL
        )
        use = use_of_kind(name.removeprefix(_UNIT))
        products[name] = Counter(
            (use, (max(int(a), int(b)), min(int(a), int(b)))) for a, b in widths
        )
        inside[name] = re.findall(r"^  cell (\\\S+) ", text, flags=re.MULTILINE)
    totals: dict[str, Counter[tuple[str, tuple[int, int]]]] = {}

    def total(name: str) -> Counter[tuple[str, tuple[int, int]]]:
        if name not in totals:
            children = (child for child in inside[name] if child in products)
            totals[name] = sum((total(child) for child in children), products[name])
        return totals[name]

    if f"\\{top}" not in products:
        raise EstimateError(f"The RTLIL has no module '{top}'; build the folder again.")
    rows = [
        Multipliers(use=use, bits=bits, number=number, blocks=dsp_of_product(*bits))
        for (use, bits), number in total(f"\\{top}").items()
    ]
    return sorted(rows, key=lambda row: (row.use, -row.number, row.bits))


def estimate_dsp(rtlil: str, *, top: str = "pinion_core") -> int:
    """Estimate the DSP48E2 blocks of a design from the product widths in its RTLIL.

    Synthesis may need fewer: operands of products may have constant bits.

    Parameters
    ----------
    rtlil, top : as for `multipliers_of`.
    """
    return sum(row.number * row.blocks for row in multipliers_of(rtlil, top=top))


def in_words(rows: Sequence[Multipliers], counted: int | None = None) -> str:
    """Describe in a sentence the multipliers that need the DSP blocks; "" if there are none.

    Parameters
    ----------
    rows : from `multipliers_of`.
    counted : DSP blocks that synthesis counted, which may differ from those by widths.
    """
    uses, groups = Counter[str](), dict[int, Counter[str]]()
    for row in rows:
        group = _IN_TABLES if row.use == "tables" else f"of {row.bits[0]} x {row.bits[1]} bits"
        uses[row.use] += row.number
        groups.setdefault(row.blocks, Counter())[group] += row.number
    if not groups:
        return ""
    by_widths = sum(row.number * row.blocks for row in rows)
    single, blocks_used = uses.total() == 1, by_widths if counted is None else counted
    sentence = f"{uses.total():,} multiplier{'' if single else 's'}"
    if uses["tables"]:
        sentence += f", {uses['products']:,} of products and {uses['tables']:,} {_IN_TABLES},"
    sentence += (
        f" take{'s' if single else ''} {blocks_used:,} DSP block{'' if blocks_used == 1 else 's'}"
    )
    if counted is not None and counted != by_widths:
        sentence += f" as Yosys counts, {by_widths:,} by their widths"
    each = [
        f"{' and '.join(f'{number:,} {group}' for group, number in groups[blocks].items())} "
        f"{_NUMBERS[blocks] if blocks < len(_NUMBERS) else blocks} each"
        for blocks in sorted(groups)
    ]
    sentence += ", one each" if list(groups) == [1] else f": {', '.join(each)}"
    return f"{sentence} (a DSP48E2 multiplies {_WIDE} x {_NARROW} bits)."
