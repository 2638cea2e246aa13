r"""Docstrings in the markup of the pages: `$...$` and `$$...$$` are math, single backticks are code."""

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

DOCTEST = re.compile(r"^[ \t]*>>> .*?(?=\n[ \t]*\n|\Z)", re.DOTALL | re.MULTILINE)
DISPLAY = re.compile(r"^([ \t]*)\$\$(.+?)\$\$[ \t]*$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<![\\$])\$([^$]+)\$(?!\$)")
CODE = re.compile(r"(?<![`:\w])`([^`]+)`(?!`)")


def to_rst(text: str) -> str:
    r"""The docstring as reStructuredText. Doctests, which end at a blank line, are left as they are.

    Example:
        >>> print(to_rst("`decay` is $b_k$, and\n$$u = 1$$"))
        ``decay`` is :math:`b_k`, and
        .. math::
        <BLANKLINE>
            u = 1
        <BLANKLINE>
        >>> to_rst(">>> '$b_k$'")
        ">>> '$b_k$'"
    """
    pieces, end = [], 0
    for doctest in DOCTEST.finditer(text):
        pieces += [_prose(text[end : doctest.start()]), doctest[0]]
        end = doctest.end()
    return "".join([*pieces, _prose(text[end:])])


def _prose(text: str) -> str:
    text = CODE.sub(r"``\1``", text)
    text = DISPLAY.sub(_directive, text)
    return INLINE.sub(_role, text)


def _directive(match: re.Match[str]) -> str:
    indent, formula = match[1], " ".join(match[2].split())  # a formula of several lines is one all the same
    return f"{indent}.. math::\n\n{indent}    {formula}\n"


def _role(match: re.Match[str]) -> str:
    after = match.string[match.end() : match.end() + 1]
    return f":math:`{match[1]}`" + ("\\ " if after.isalnum() else "")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Convert before napoleon (priority 500) reads the sections, which values do not have.

    Of a value's docstring napoleon would take the words before a colon for its type, so it is kept from it.
    """
    kept: dict[str, list[str]] = {}

    def convert(*event: Any) -> None:
        _app, what, name, _object, _options, lines = event
        lines[:] = to_rst("\n".join(lines)).split("\n")
        if what in ("attribute", "data", "property"):
            kept[name] = lines[:]
            lines.clear()

    def give_back(*event: Any) -> None:
        _app, _what, name, _object, _options, lines = event
        lines.extend(kept.pop(name, []))

    app.connect("autodoc-process-docstring", convert, priority=400)
    app.connect("autodoc-process-docstring", give_back, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
