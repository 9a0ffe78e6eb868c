r"""Equations as MathML, which browsers typeset without scripts or fonts from the network.

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
# The converter prints commands that it does not know unchanged.
UNKNOWN = re.compile(r"<m\w+>\\([A-Za-z]+)</m\w+>")


class EquationError(ValueError):
    """An equation that cannot be converted; the message names it and its page."""


def to_mathml(page: str, *, where: str) -> str:
    """Return the page with its equations as MathML.

    Parameters
    ----------
    page : HTML as arithmatex leaves it.
    where : the page's name, for errors.

    Raises
    ------
    EquationError : an unknown command, or unbalanced braces.
    """

    def one(match: re.Match[str]) -> str:
        tex = html.unescape(match["tex"]).strip()
        block = match["open"] == "["
        try:
            mathml: str = convert(tex, display="block" if block else "inline")
        except Exception as error:  # of many classes, none of them the package's own base
            raise EquationError(
                f"{where}: the equation '{tex}' cannot be converted: {error!r}."
            ) from error
        unknown = UNKNOWN.search(mathml)
        if unknown:
            raise EquationError(
                f"{where}: the equation '{tex}' has \\{unknown[1]}, which is unknown here; "
                "use other commands."
            )
        return f'<div class="equation">{mathml}</div>' if block else mathml

    return FOUND.sub(one, page)
