"""Designs that may come from a stranger: what may become machine code, and what is refused.

A build folder is data, and a simulator makes a program of its RTL. Verilog can start programs
(``$system``), call C (DPI, ``$c``) and read files; RTLIL can print, and carries texts that a code
generator copies. Neither happens in a core, so only what cores consist of is let through: lists of
what may stand there, since nobody can list all that must not.
"""

from __future__ import annotations

import re

from pinion.link import ManifestError

_OF_NAMES = r"\w.$\[\]:,/<>#@=+\-"
_NOT = r"\x00-\x20\x7f\"*?;!|&`"
# Names that Yosys made hold others and paths, but do not end with a backslash: it would carry a
# comment on.
_NAME = rf"(?:\\[{_OF_NAMES}]+|\$[^{_NOT}]*[^{_NOT}\\])"
_CONST = r"(?:-?\d+|\d+'s?[01xzm\-]*)"
_RANGE = r"(?: *\[-?\d+(?::-?\d+)?\])*"
# What braces join: signals again, of which the reader sees to it that they are some.
_JOINED = r"\{[^\"{}]*(?:\{[^\"{}]*\}[^\"{}]*)*\}"
_SIGNAL = rf"(?:{_CONST}|(?:{_NAME}|{_JOINED}){_RANGE})"
# A text has no ends of comments, since generators copy some into them.
_TEXT = r'"(?:(?!\*/|\?\?/)[^"\\\x00-\x1f\x7f])*"'
# A name as text: `\storage` has a backslash, which stands twice there.
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
# Modules that cells may be of: an instance of `$print` prints, whatever module has that name.
_MODULE = re.compile(r"^[ \t]*module +(\\\S+|\$paramod\S+)[ \t\r]*$", re.MULTILINE)
_UNSAFE_ATTRIBUTE = re.compile(r"^\s*attribute +\\(?:blackbox|whitebox|cxxrtl\S*) ", re.MULTILINE)

# Yosys' cells that compute and store, and nothing else: no $print, $check, $assert, $specify.
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

# Readers disagree on which of them end a line or a word.
_STRANGE = re.compile(r"[^\n\t -~]")

# Outside of comments and names that begin with a backslash.
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
    """A design holds what no core of Pinion does, and is therefore not run."""


def check_rtlil(text: str, *, where: object) -> None:
    """Refuse RTLIL with more in it than modules that compute.

    Parameters
    ----------
    text : the design.
    where : its file, for the message.

    Raises
    ------
    ForeignDesignError
        Names the line.
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
    """Refuse Verilog with system tasks, DPI or directives that no core has.

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
    return ForeignDesignError(
        f"Line {number} of '{where}' holds {text.strip()[:80]!a}, which no core of Pinion does, "
        "so that it is not run: build the folder again from its robot."
    )
