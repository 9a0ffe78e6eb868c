"""Texts from files in what Pinion writes: names of robots, units, titles, paths.

A robot's file may be anybody's, and what is written about it is read by tools that run commands:
Tcl, make, CMake, shells, compilers, browsers. Readers refuse names that cannot be shown on a line
(:mod:`pinion.robot.naming`); here is how every writer puts down what is left, and also names that
a program gave without any file.
"""

from __future__ import annotations

import html
import re
import unicodedata

__all__ = ["comment", "control_in", "identifier", "line_comment", "markdown", "one_line"]

_HARMLESS = frozenset(" _.,:;+-=()/'|^%~")
_MARKED = re.compile(r"[\\`*\[\]|~$#!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


_CONTROL = ("Cc", "Cf", "Zl", "Zp", "Cs")
"""Categories of characters that command a terminal or break a line instead of being seen."""


def control_in(text: str) -> str:
    """The first control character, line separator or invisible formatting character; "" if none."""
    return next((c for c in text if unicodedata.category(c) in _CONTROL), "")


def one_line(text: object) -> str:
    """A text on one line, of characters that may be shown."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


def comment(text: object) -> str:
    """A text for a comment or a quoted description, in any language that Pinion writes.

    What is neither a letter nor a digit, nor harmless in all of C, C++, Verilog, Tcl, Python, XML,
    YAML, CMake, make and pkg-config, becomes an underscore: nothing in it ends the comment, carries
    it on, or is substituted.
    """
    plain = "".join(c if c.isalnum() or c in _HARMLESS else "_" for c in one_line(text))
    return plain.replace("--", "-_")  # which no comment in XML may hold


def line_comment(text: object) -> str:
    """A text behind ``//`` in C and C++, as it is where that is harmless.

    A line break would end the comment. A backslash at its end would carry it on, and so would the
    three characters that old C takes for one.
    """
    return one_line(text).replace("\\", "_").replace("??", "?_")


def markdown(text: object) -> str:
    """A text as Markdown that shows it and does nothing else, in a table too."""
    marked = _MARKED.sub(r"\\\g<0>", one_line(text))
    # After the backslashes, for entities have characters of their own.
    safe = html.escape(marked, quote=False).replace("://", "&#58;//").replace("@", "&#64;")
    return re.sub(r"(?i)\bwww\.", "www&#46;", safe)


def identifier(text: object) -> str:
    """A text as a name in C, and of a file or a folder anywhere; 63 characters at most."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", str(text)).strip("_")[:63]
    return plain if plain[:1].isalpha() else f"robot_{plain}"[:63]
