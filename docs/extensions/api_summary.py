"""A table of contents with descriptions for the pages of the API.

`{api-summary}` on a page becomes, for each of its sections, a table of what the section documents: the name with a link
and the first sentence of its docstring. The tables are read from the directives of the same page, so none is missing.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import ExtensionMetadata

PLACE = "```{api-summary}\n```\n"
SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
DIRECTIVE = re.compile(r"^\.\. auto(class|exception|function|data|module):: ([\w.]+)", re.MULTILINE)
MEMBERS = re.compile(r"^ +:members:(.*)$", re.MULTILINE)


def tables(page: str) -> str:
    """A table in markdown for each section of a page that documents anything."""
    _, *sections = SECTION.split(page)
    pieces = []
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        rows = [f"| {{py:obj}}`~{name}` | {text} |" for name, text in documented(body)]
        if rows:
            pieces += [f"**{title}**\n", "\n".join(["| Name | What it is |", "|---|---|", *rows]) + "\n"]
    return "\n".join(pieces)


def documented(body: str) -> Iterator[tuple[str, str]]:
    """What the directives of a section document, each with its first sentence."""
    directives = list(DIRECTIVE.finditer(body))
    ends = [found.start() for found in directives[1:]] + [len(body)]
    for found, end in zip(directives, ends, strict=True):
        kind, name = found.groups()
        owner, _, last = name.rpartition(".")
        if kind == "data":
            lines = ModuleAnalyzer.for_module(owner).find_attr_docs().get(("", last), [])
            yield name, first_sentence("\n".join(lines)) or f"`{getattr(importlib.import_module(owner), last)!r}`"
        elif kind == "module":
            listed = MEMBERS.search(body, found.end(), end)
            module = importlib.import_module(name)
            named = [each.strip() for each in listed[1].split(",") if each.strip()] if listed else []
            for each in named or members(module):
                yield f"{name}.{each}", first_sentence(inspect.getdoc(getattr(module, each)))
        else:
            yield name, first_sentence(inspect.getdoc(getattr(importlib.import_module(owner), last)))


def members(module: object) -> list[str]:
    """What autodoc shows of a module: its own classes and functions with a docstring, in the order of its source."""
    own = [
        (name, thing)
        for name, thing in vars(module).items()
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and not name.startswith("_")
    ]
    here = [(name, thing) for name, thing in own if thing.__module__ == getattr(module, "__name__", "")]
    return [name for name, thing in here if thing.__doc__]


def first_sentence(docstring: str | None) -> str:
    r"""What a docstring says first, on its first line, fit for a cell of a table.

    Example:
        >>> first_sentence("A norm, $|x|$. It is positive:\n\nArgs: ...")
        'A norm, $\\|x\\|$.'
    """
    line = (docstring or "").strip().split("\n", maxsplit=1)[0]
    return re.split(r"(?<=\.)\s", line, maxsplit=1)[0].rstrip(":").replace("|", r"\|")


def insert(_app: Sphinx, _docname: str, source: list[str]) -> None:
    """Put the tables where a page asks for them."""
    if PLACE in source[0]:
        source[0] = source[0].replace(PLACE, tables(source[0]))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Insert when a page is read."""
    app.connect("source-read", insert)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
