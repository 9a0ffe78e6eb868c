r"""Equations as MathML, which browsers set themselves: no script, no letters from elsewhere.

A page writes ``$x$`` within a line, and ``$$ ... $$`` or a fenced block ``math`` on lines of its
own, which code hosts understand too. ``pymdownx.arithmatex`` finds them and leaves ``\(x\)`` and
``\[x\]``.
"""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

FOUND = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\(?P<open>[(\[])(?P<tex>.*?)\\[)\]]\s*</(?P=tag)>',
    re.DOTALL,
)
# What the converter does not know it prints as it stands.
UNKNOWN = re.compile(r"<m\w+>\\([A-Za-z]+)</m\w+>")


class EquationError(ValueError):
    """An equation that cannot be set; the message names it and its page."""


def to_mathml(page: str, *, where: str) -> str:
    """The page with its equations as MathML.

    Parameters
    ----------
    page : HTML as arithmatex leaves it.
    where : the page's name, for errors.

    Raises
    ------
    EquationError : a command that is not known, or braces that do not match.
    """

    def one(match: re.Match[str]) -> str:
        tex = html.unescape(match["tex"]).strip()
        block = match["open"] == "["
        try:
            mathml: str = convert(tex, display="block" if block else "inline")
        except Exception as error:  # of many classes, none of them the package's own base
            raise EquationError(
                f"{where}: the equation '{tex}' cannot be set: {error!r}."
            ) from error
        unknown = UNKNOWN.search(mathml)
        if unknown:
            raise EquationError(
                f"{where}: the equation '{tex}' has \\{unknown[1]}, which is not known here; "
                "write it with other commands."
            )
        return f'<div class="equation">{mathml}</div>' if block else mathml

    return FOUND.sub(one, page)
