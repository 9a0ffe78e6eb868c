"""Names of operations that code tests for or emits; the table (:mod:`.ops`) has all of them."""

from __future__ import annotations

from typing import Final

INPUT: Final = "input"
CONST: Final = "const"
ADD: Final = "add"
SUB: Final = "sub"
SUM: Final = "sum"
NEG: Final = "neg"
MUL: Final = "mul"
DOT: Final = "dot"
SIN: Final = "sin"
COS: Final = "cos"
RECIPROCAL: Final = "reciprocal"
CLAMP: Final = "clamp"
ABS: Final = "abs"
MINIMUM: Final = "minimum"
MAXIMUM: Final = "maximum"
LESS: Final = "less"
SELECT: Final = "select"
QUANTIZE: Final = "quantize"

# Nodes that are not computed; functions of an angle.
LEAVES: Final = (INPUT, CONST)
TRIG: Final = (SIN, COS)
