"""The command line. It reads arguments and prints; what it prints is computed elsewhere."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import memgrad
from memgrad.memory import FAMILIES, Memory
from memgrad.memory.kinds import as_step
from memgrad.memory.passport import Progress as OnProgress

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Memory in optimization: choose, see and compare how an optimizer remembers past gradients.",
)
plot = typer.Typer(no_args_is_help=True, help="Draw a figure of the paper.")
app.add_typer(plot, name="plot")


@contextmanager
def _refusing() -> Iterator[None]:
    """Answer bad input by its error message and exit code 2, without a traceback."""
    try:
        yield
    except (ValueError, TypeError, NotImplementedError) as error:
        raise typer.BadParameter(str(error)) from error
    except OSError as error:
        typer.echo(f"Error: {error.strerror} ({error.filename}).", err=True)
        raise typer.Exit(1) from error


def _memory(text: str) -> Memory:
    with _refusing():
        return Memory.parse(text)


def _step(text: str) -> int:
    """A step count, also as 1e6."""
    with _refusing():
        try:
            number = int(text) if text.strip().lstrip("+-").isdigit() else float(text)
        except ValueError:
            raise ValueError(f"a step count k is an integer >= 0, such as 1000 or 1e6, got {text!r}.") from None
        return as_step(number)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memgrad {memgrad.__version__}")
        raise typer.Exit


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; infinite and undefined numbers are null.")]


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
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


@app.command()
def passport(
    memory: Annotated[
        list[Memory], typer.Argument(parser=_memory, metavar="MEMORY", help="A text form, such as poly:2 or exp:0.9.")
    ],
    at: Annotated[int, typer.Option(parser=_step, metavar="K", help="The step k, counted from 0.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Say what memories amount to at step K: mean age, half-life, effective samples and more.

    For example:

    - `memgrad passport poly:2 --at 1000`
    - `memgrad passport poly:2 exp:0.9 p=inf --at 1e6 --json`
    """
    with _refusing():
        passports = [_with_progress(each, at) for each in memory]
    if as_json:
        typer.echo(json.dumps([{n: _finite(v) for n, v in each.to_dict().items()} for each in passports], indent=2))
        return
    columns = [each.rows() for each in passports]
    table = Table(columns[0][0][0], *(column[0][1] for column in columns))
    for i, (what, _) in enumerate(columns[0][1:], start=1):
        table.add_row(what, *(column[i][1] for column in columns))
    Console().print(table)


def _with_progress(memory: Memory, k: int) -> memgrad.Passport:
    """The passport, with a bar on the terminal for those that walk over a long past."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=console, transient=True
    )
    with bar if console.is_terminal and k > 10**7 else nullcontext() as shown:
        task = bar.add_task(f"passport of {memory}", total=k + 1) if shown else None
        report: OnProgress | None = (lambda done, _: bar.update(task, completed=done)) if task is not None else None
        return memory.passport(k, progress=report)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@plot.command("memories")
def plot_memories(
    memory: Annotated[
        list[Memory] | None,
        typer.Argument(parser=_memory, metavar="MEMORY", help="Text forms; the paper's table unless given."),
    ] = None,
    time: Annotated[float, typer.Option(help="The time t of the step.")] = 6.0,
    out: Annotated[Path, typer.Option(help="The file to write: .png, .svg or .pdf.")] = Path("memory_types.png"),
) -> None:
    """Draw the influence of past gradients on the step at time t, the paper's figure of memory types.

    For example:

    - `memgrad plot memories --out memory_types.pdf`
    - `memgrad plot memories poly:2 exp:0.9 --time 50`
    """
    with _refusing():
        from memgrad import figures

        chosen = {str(each): each for each in memory} if memory else None
        typer.echo(f"wrote {figures.save(figures.memory_types(chosen, t=time), out)}")
