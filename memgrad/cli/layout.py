"""Tables that never truncate or wrap a number: with rules, without, or, if too wide, as paragraphs. And JSON."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Collection, Sequence
from typing import Any

import typer
from rich.box import HEAVY_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from memgrad.tables import json_ready

PROSE = 24
"""The minimum width of a column of words; below it, the table is printed as paragraphs."""

Cell = str | Text


def print_json(data: Any) -> None:
    """Print plain data as JSON; numbers that are not finite are null."""
    typer.echo(json.dumps(json_ready(data), indent=2))


def show(
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    title: str = "",
    prose: Collection[str] = (),
    err: bool = False,
) -> None:
    """Print a table if it has room for all cells, otherwise a paragraph for each row.

    A pipe has no width: unless COLUMNS is set, the table is as wide as it needs to be.

    Args:
        columns: Their headings.
        rows: Their cells: plain text, in which brackets have no special meaning, or styled text.
        title: The title above the table.
        prose: The columns of words, which may be broken into lines; numbers, formulas and names may not.
        err: Whether to print to standard error.
    """
    console = Console(stderr=err)
    texts = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    widths = [
        max((_width(row[i].plain, may_break=column in prose) for row in texts), default=0)
        for i, column in enumerate(columns)
    ]
    headings = [_broken(column, width) for column, width in zip(columns, widths, strict=True)]
    needed = sum(
        max(width, *map(cell_len, heading.split("\n"))) for width, heading in zip(widths, headings, strict=True)
    )
    ruled, plain = needed + 3 * len(columns) + 1, needed + 2 * (len(columns) - 1)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(stderr=err, width=max(console.width, ruled))
    if plain > console.width:
        _paragraphs(console, columns, texts, title, prose)
        return
    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        box=HEAVY_HEAD if ruled <= console.width else None,
        pad_edge=ruled <= console.width,
    )
    for column, heading in zip(columns, headings, strict=True):
        table.add_column(Text(heading), no_wrap=column not in prose, overflow="fold")
    for row in texts:
        table.add_row(*row)
    console.print(table)


def _width(cell: str, *, may_break: bool) -> int:
    """The width that a cell needs: that of its longest line, or of its longest word if it may be broken."""
    lines = max(map(cell_len, cell.split("\n")))
    return min(lines, max(PROSE, *map(cell_len, cell.split()))) if may_break and cell.split() else lines


def _broken(heading: str, width: int) -> str:
    """A heading, broken into several lines if it is wider than the cells below it."""
    words = max((len(word) for word in heading.split()), default=1)
    return textwrap.fill(heading, max(width, words), break_long_words=False, break_on_hyphens=False)


def _paragraphs(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[Text]], title: str, prose: Collection[str]
) -> None:
    """The first cell of each row, and below it the others, each with its heading before it or above it."""
    if title:
        console.print(Text(title, style="italic"), soft_wrap=True)
    beside = max(map(cell_len, columns[1:]), default=0)
    for head, *cells in rows:
        console.print(Text.assemble(f"{columns[0]}: " if columns[0] else "", (head.plain, "bold")), soft_wrap=True)
        for column, cell in zip(columns[1:], cells, strict=True):
            if not cell.plain:
                continue
            if 4 + beside + max(map(cell_len, cell.plain.split("\n"))) <= console.width:
                label = f"  {column}" + " " * (beside - cell_len(column) + 2)
                console.print(Text(label) + _indented(cell, 4 + beside), soft_wrap=True)
                continue
            console.print(f"  {column}", soft_wrap=True, highlight=False, markup=False)
            room = console.width - 4
            for line in cell.wrap(console, room) if column in prose and room > 0 else [cell]:
                line.rstrip()
                console.print(Text("    ") + _indented(line, 4), soft_wrap=True)


def _indented(text: Text, columns: int) -> Text:
    return Text("\n" + " " * columns).join(text.split("\n", allow_blank=True))
