"""Commands that show what a memory is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from memgrad.cli.terminal import AsJson, as_count, as_memory, progress_bar, refusing
from memgrad.memory import FAMILIES, Memory, Passport


def memories(as_json: AsJson = False) -> None:
    """List the families of memories: text form, memory function m(t) and decay b_k.

    For example: `memgrad memories`
    """
    rows = [
        {"class": family.__name__, "text": family.example, "m(t)": family.formula, "b_k": family.decay_formula}
        for family in FAMILIES.values()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table("family", "text form", "m(t)")
    table.add_column("decay b_k", overflow="fold")
    for row in rows:
        table.add_row(*row.values())
    console = Console()
    console.print(table)
    console.print("Also: constant, square-root, linear, quadratic, cubic; and as in the paper: p=2, p=e, p=inf.")


def passport(
    memory: Annotated[
        list[Memory], typer.Argument(parser=as_memory, metavar="MEMORY", help="A text form, such as poly:2 or exp:0.9.")
    ],
    at: Annotated[int, typer.Option(parser=as_count, metavar="K", help="The step k, counted from 0.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Say what memories amount to at step K: mean age, half-life, effective samples and more.

    For example:

    - `memgrad passport poly:2 --at 1000`
    - `memgrad passport poly:2 exp:0.9 p=inf --at 1e6 --json`
    """
    with refusing():
        passports = [_with_progress(each, at) for each in memory]
    if as_json:
        from memgrad.tables import json_ready

        typer.echo(json.dumps(json_ready([each.to_dict() for each in passports]), indent=2))
        return
    columns = [each.rows() for each in passports]
    table = Table(columns[0][0][0], *(column[0][1] for column in columns))
    for i, (what, _) in enumerate(columns[0][1:], start=1):
        table.add_row(what, *(column[i][1] for column in columns))
    Console().print(table)


def _with_progress(memory: Memory, k: int) -> Passport:
    """The passport, with a bar for those that walk over a long past."""
    with progress_bar(f"passport of {memory}", shown=k > 10**7) as report:
        return memory.passport(k, progress=report)


def plot_memories(
    memory: Annotated[
        list[Memory] | None,
        typer.Argument(parser=as_memory, metavar="MEMORY", help="Text forms; the paper's table unless given."),
    ] = None,
    time: Annotated[float, typer.Option(help="The time t of the step.")] = 6.0,
    out: Annotated[Path, typer.Option(help="The file to write: .png, .svg or .pdf.")] = Path("memory_types.png"),
) -> None:
    """Draw the influence of past gradients on the step at time t, the paper's figure of memory types.

    For example:

    - `memgrad plot memories --out memory_types.pdf`
    - `memgrad plot memories poly:2 exp:0.9 --time 50`
    """
    with refusing():
        from memgrad import figures

        chosen = {str(each): each for each in memory} if memory else None
        typer.echo(f"wrote {figures.save(figures.memory_types(chosen, t=time), out)}")
