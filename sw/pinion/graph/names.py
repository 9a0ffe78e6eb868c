"""Names of the operations; what each means stands in the table (:mod:`.ops`)."""

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
HYPOT2: Final = "hypot2"
SQRT: Final = "sqrt"
ARCTAN2: Final = "arctan2"
LOOK_UP: Final = "look_up"
ABS: Final = "abs"
MINIMUM: Final = "minimum"
MAXIMUM: Final = "maximum"
LESS: Final = "less"
SELECT: Final = "select"
QUANTIZE: Final = "quantize"

# What is given, not computed; functions of an angle.
LEAVES: Final = (INPUT, CONST)
TRIG: Final = (SIN, COS)
