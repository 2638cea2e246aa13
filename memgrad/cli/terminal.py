"""How the command line reads words, shows progress and answers bad input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from memgrad.memory import Memory
from memgrad.memory.kinds import as_step

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; infinite and undefined numbers are null.")]


@contextmanager
def refusing() -> Iterator[None]:
    """Answer bad input by its error message and exit code 2, without a traceback."""
    try:
        yield
    except (ValueError, TypeError, NotImplementedError) as error:
        raise typer.BadParameter(str(error)) from error
    except OSError as error:
        named = f"{error.strerror} ({error.filename})." if error.strerror else str(error)
        typer.echo(f"Error: {named}", err=True)
        raise typer.Exit(1) from error


def as_memory(text: str) -> Memory:
    """The memory with this text form."""
    with refusing():
        return Memory.parse(text)


def as_count(text: str) -> int:
    """A step count, also as 1e6."""
    with refusing():
        try:
            number = int(text) if text.strip().lstrip("+-").isdigit() else float(text)
        except ValueError:
            raise ValueError(f"a step count k is an integer >= 0, such as 1000 or 1e6, got {text!r}.") from None
        return as_step(number)


def finite(value: Any) -> Any:
    """The value, or None where JSON has no number for it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def progress_bar(what: str, *, shown: bool = True) -> Iterator[Callable[[int, int], None] | None]:
    """A function of (done, total) that draws a bar with the time that is left, on a terminal; None elsewhere."""
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
