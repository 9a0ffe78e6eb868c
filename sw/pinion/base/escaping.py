"""Escaping of text from files in Pinion's output: names of robots, units, titles, paths.

A robot's file may come from anyone, and tools that run commands read what Pinion writes about it:
Tcl, make, CMake, shells, compilers, browsers. Readers refuse names that cannot be shown on one line
(:mod:`pinion.robot.naming`); every writer escapes the other names, and those that a program passes
without a file, with these functions.
"""

from __future__ import annotations

import html
import re
import unicodedata

__all__ = ["comment", "control_in", "identifier", "line_comment", "markdown", "one_line"]

_HARMLESS = frozenset(" _.,:;+-=()/'|^%~")
_MARKED = re.compile(r"[\\`*\[\]|~$#!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


_CONTROL = ("Cc", "Cf", "Zl", "Zp", "Cs")
"""Unicode categories of characters that control a terminal or break a line."""


def control_in(text: str) -> str:
    """Return a text's first control, line-break or invisible character, or "" if it has none."""
    return next((c for c in text if unicodedata.category(c) in _CONTROL), "")


def one_line(text: object) -> str:
    """Return a text on one line, with printable characters only."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


def comment(text: object) -> str:
    """Escape a text for a comment or a quoted description in any language that Pinion writes.

    Every character that is neither a letter nor a digit, nor harmless in all of C, C++, Verilog,
    Tcl, Python, XML, YAML, CMake, make and pkg-config, becomes an underscore: nothing in the text
    can end the comment, continue it, or be substituted.
    """
    plain = "".join(c if c.isalnum() or c in _HARMLESS else "_" for c in one_line(text))
    return plain.replace("--", "-_")  # not allowed in XML comments


def line_comment(text: object) -> str:
    """Escape a text for a ``//`` comment in C and C++.

    A line break would end the comment; a backslash at its end, or its trigraph in old C, would
    continue it.
    """
    return one_line(text).replace("\\", "_").replace("??", "?_")


def markdown(text: object) -> str:
    """Escape a text for Markdown, including tables, so that nothing in it acts as markup."""
    marked = _MARKED.sub(r"\\\g<0>", one_line(text))
    # After the backslashes, since entities contain characters that would be escaped.
    safe = html.escape(marked, quote=False).replace("://", "&#58;//").replace("@", "&#64;")
    return re.sub(r"(?i)\bwww\.", "www&#46;", safe)


def identifier(text: object) -> str:
    """Turn a text into a name for C identifiers, files and folders, at most 63 characters long."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", str(text)).strip("_")[:63]
    return plain if plain[:1].isalpha() else f"robot_{plain}"[:63]
