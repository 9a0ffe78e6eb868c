"""DSP blocks of a design, estimated from its RTLIL without a synthesis."""

from __future__ import annotations

import re

# Operand bits of a DSP48E2, and what one adds when Yosys splits a wider signed product.
_WIDE, _WIDE_MORE, _NARROW, _NARROW_MORE = 27, 26, 18, 17


class EstimateError(ValueError):
    """A design cannot be estimated; the message says why."""


def dsp_of_product(width_a: int, width_b: int) -> int:
    """DSP48E2 blocks of one signed product, as Yosys splits it.

    One for 27 by 18 bits, two for 27 by 27, four for 32 by 32.
    """

    def pieces(width: int, first: int, more: int) -> int:
        return 1 + max(0, -(-(width - first) // more))

    return min(
        pieces(wide, _WIDE, _WIDE_MORE) * pieces(narrow, _NARROW, _NARROW_MORE)
        for wide, narrow in ((width_a, width_b), (width_b, width_a))
    )


def estimate_dsp(rtlil: str, *, top: str = "pinion_core") -> int:
    """DSP48E2 blocks of a design, from the widths of the products in its RTLIL.

    Synthesis may find a few less: products whose operands have constant bits.

    Parameters
    ----------
    rtlil : text of ``core.il``.
    top : name of the module that holds all others.
    """
    own: dict[str, int] = {}
    inside: dict[str, list[str]] = {}
    for text in re.split(r"^(?=module )", rtlil, flags=re.MULTILINE)[1:]:
        name = text.split(None, 2)[1]
        widths = re.findall(
            r"^  cell \$mul .*?A_WIDTH (\d+)\n.*?B_WIDTH (\d+)\n", text, re.MULTILINE | re.DOTALL
        )
        own[name] = sum(dsp_of_product(int(a), int(b)) for a, b in widths)
        inside[name] = re.findall(r"^  cell (\\\S+) ", text, flags=re.MULTILINE)
    found: dict[str, int] = {}

    def total(name: str) -> int:
        if name not in found:
            children = (child for child in inside[name] if child in own)
            found[name] = own[name] + sum(total(child) for child in children)
        return found[name]

    if f"\\{top}" not in own:
        raise EstimateError(f"The RTLIL has no module '{top}'; build the folder again.")
    return total(f"\\{top}")
