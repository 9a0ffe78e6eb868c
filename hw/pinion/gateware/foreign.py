"""Checks of designs from untrusted build folders before a simulator compiles them.

A build folder is data, but a simulator makes a program of its RTL. Verilog can start programs
(``$system``), call C (DPI, ``$c``) and read files; RTLIL can print, and contains strings that
a code generator copies. Cores do none of this, so only the constructs of cores are accepted: an
allow list, because a list of everything harmful cannot be complete.
"""

from __future__ import annotations

import re

from pinion.link import ManifestError

_OF_NAMES = r"\w.$\[\]:,/<>#@=+\-"
_NOT = r"\x00-\x20\x7f\"*?;!|&`"
# Names that Yosys generates contain other names and paths, but do not end with a backslash, which
# would continue a comment.
_NAME = rf"(?:\\[{_OF_NAMES}]+|\$[^{_NOT}]*[^{_NOT}\\])"
_CONST = r"(?:-?\d+|\d+'s?[01xzm\-]*)"
_RANGE = r"(?: *\[-?\d+(?::-?\d+)?\])*"
# Concatenations; Yosys checks that they consist of signals.
_JOINED = r"\{[^\"{}]*(?:\{[^\"{}]*\}[^\"{}]*)*\}"
_SIGNAL = rf"(?:{_CONST}|(?:{_NAME}|{_JOINED}){_RANGE})"
# Strings must not end comments, because generators copy some into comments.
_TEXT = r'"(?:(?!\*/|\?\?/)[^"\\\x00-\x1f\x7f])*"'
# A name as a string: the backslash of `\storage` is doubled.
_VALUE = rf"(?:{_CONST}|{_TEXT}|\"(?:\\\\)?[\w.$]+\")"

_LINES = (
    r"#[ -~]*",
    r"autoidx \d+",
    rf"(?:attribute|parameter(?: +(?:signed|real))?) +{_NAME} +{_VALUE}",
    rf"module +{_NAME}",
    rf"wire(?: +(?:width|offset|input|output|inout) +-?\d+| +upto| +signed)* +{_NAME}",
    rf"memory(?: +(?:width|size|offset) +\d+)* +{_NAME}",
    rf"cell +(?P<cell>{_NAME}) +{_NAME}",
    rf"connect +(?:{_NAME} +)?{_SIGNAL}(?: +{_SIGNAL})?",
    rf"process +{_NAME}",
    rf"(?:assign|update) +{_SIGNAL} +{_SIGNAL}",
    rf"switch +{_SIGNAL}",
    rf"case(?: +{_SIGNAL}(?: *, *{_SIGNAL})*)?",
    rf"sync +(?:always|init|global|(?:posedge|negedge|edge|high|low) +{_SIGNAL})",
    r"end",
)
_LINE = re.compile(rf"[ \t]*(?:{'|'.join(_LINES)})?[ \t\r]*", re.ASCII)
# Modules that cells may instantiate; a cell `$print` prints even if a module has that name.
_MODULE = re.compile(r"^[ \t]*module +(\\\S+|\$paramod\S+)[ \t\r]*$", re.MULTILINE)
_UNSAFE_ATTRIBUTE = re.compile(r"^\s*attribute +\\(?:blackbox|whitebox|cxxrtl\S*) ", re.MULTILINE)

# Yosys cells that only compute and store: no $print, $check, $assert, $specify.
_CELLS = frozenset(
    f"${name}"
    for name in (
        *("not", "pos", "buf", "neg", "and", "or", "xor", "xnor", "logic_not", "logic_and"),
        *("logic_or", "reduce_and", "reduce_or", "reduce_xor", "reduce_xnor", "reduce_bool"),
        *("shl", "shr", "sshl", "sshr", "shift", "shiftx", "lt", "le", "eq", "ne", "eqx", "nex"),
        *("ge", "gt", "add", "sub", "mul", "div", "mod", "divfloor", "modfloor", "pow"),
        *("fa", "lcu", "alu", "macc", "slice", "concat", "mux", "pmux", "bmux", "demux", "bwmux"),
        *("bweqx", "lut", "sop", "sr", "ff", "dff", "dffe", "dffsr", "dffsre", "adff", "adffe"),
        *("aldff", "aldffe", "sdff", "sdffe", "sdffce", "dlatch", "adlatch", "dlatchsr"),
        *("memrd", "memwr", "meminit", "mem", "memrd_v2", "memwr_v2", "meminit_v2", "mem_v2"),
        "scopeinfo",
    )
)
_GATE = re.compile(r"\$_[A-Z0-9_]+_")

# Readers disagree on which of these characters end a line or a word.
_STRANGE = re.compile(r"[^\n\t -~]")

# Tokens to check, and comments and escaped names to skip.
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<escaped>\\\S+)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<directive>`\s*\w*)
      | (?P<task>\$[\w$]*)
      | (?P<word>\b(?:import|export|bind|program|config|library|include|chandle|extern)\b)""",
    re.VERBOSE | re.DOTALL,
)
_TASKS = ("$signed", "$unsigned", "$clog2")
_DIRECTIVES = ("`ifdef", "`ifndef", "`else", "`endif", "`timescale", "`default_nettype")


class ForeignDesignError(ManifestError):
    """Error for a design with constructs that no core of Pinion contains."""


def check_rtlil(text: str, *, where: object) -> None:
    """Raise if RTLIL contains lines or cells that no core of Pinion contains.

    Parameters
    ----------
    text : the design.
    where : its file, for the error message.

    Raises
    ------
    ForeignDesignError
        With the number of the line.
    """
    cells = _CELLS.union(_MODULE.findall(text))
    for number, line in enumerate(text.split("\n"), start=1):
        match = _LINE.fullmatch(line)
        cell = match["cell"] if match is not None else None
        if match is None or (cell and cell not in cells and not _GATE.fullmatch(cell)):
            raise _foreign(where, number, line)
    if unsafe := _UNSAFE_ATTRIBUTE.search(text):
        raise _foreign(where, text.count("\n", 0, unsafe.start()) + 1, unsafe[0])


def check_verilog(text: str, *, where: object) -> None:
    """Raise if Verilog contains system tasks, DPI or directives that no core has.

    Parameters and errors are those of `check_rtlil`.
    """
    if strange := _STRANGE.search(text):
        raise _foreign(where, text.count("\n", 0, strange.start()) + 1, strange[0])
    for token in _TOKEN.finditer(text):
        kind, word = token.lastgroup, token[0]
        harmless = (
            (kind == "comment" and "verilator" not in word)
            or kind in ("escaped", "text")
            or (kind == "task" and word in _TASKS)
            or (kind == "directive" and word in _DIRECTIVES)
        )
        if not harmless:
            raise _foreign(where, text.count("\n", 0, token.start()) + 1, word)


def _foreign(where: object, number: int, text: str) -> ForeignDesignError:
    excerpt = text.strip(" \t\n")[:80]
    return ForeignDesignError(
        f"Line {number} of '{where}' contains {excerpt!a}, which no core of Pinion "
        "contains, so the design is not run: build the folder again from its robot."
    )
