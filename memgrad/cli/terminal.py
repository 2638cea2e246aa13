"""How the command line reads words, shows progress and answers bad input."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from memgrad.memory import Memory
from memgrad.memory.kinds import as_step

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; infinite and undefined numbers are null.")]


@contextmanager
def refusing() -> Iterator[None]:
    """Answer bad input by its error message and exit code 2, and Ctrl-C by a line and 130, without a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("\nInterrupted: nothing half-written is left.", err=True)
        raise typer.Exit(130) from None
    except (ValueError, TypeError, NotImplementedError) as error:
        raise typer.BadParameter(str(error)) from error
    except ImportError as error:  # a part that is not installed: the message names its extra
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
    except BrokenPipeError:  # whoever reads has read enough, as `head` does
        raise typer.Exit(1) from None
    except OSError as error:
        named = f"{error.strerror} ({error.filename})." if error.strerror else str(error)
        typer.echo(f"Error: {named}", err=True)
        raise typer.Exit(1) from error


def as_memory(text: str) -> Memory:
    """The memory with this text form."""
    with refusing():
        return Memory.parse(text)


def as_count(text: str | int) -> int:
    """A count >= 0, also as 1e6."""
    with refusing():
        text = str(text)  # typer parses an option's default too, which is a number
        try:
            number = int(text) if text.strip().lstrip("+-").isdigit() else float(text)
        except ValueError:
            raise ValueError(f"a count is an integer >= 0, such as 1000 or 1e6, got {text!r}.") from None
        return as_step(number)


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


class _IfKnown(ProgressColumn):
    """A column that stays empty while it is not known how much there is to do."""

    def __init__(self, column: ProgressColumn) -> None:
        super().__init__()
        self.column = column

    def render(self, task: Task) -> RenderableType:
        return self.column.render(task) if task.total else ""


@contextmanager
def byte_bars(logger: logging.Logger) -> Iterator[Callable[[str, int, int], None] | None]:
    """A function of (what, bytes done, all bytes or 0) that draws a bar for what is being done; None off a terminal.

    What `logger` says meanwhile is printed above the bar, or as plain lines off a terminal.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        _IfKnown(DownloadColumn()),
        _IfKnown(TransferSpeedColumn()),
    )
    bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    tasks: dict[str, TaskID] = {}

    def report(what: str, done: int, total: int) -> None:
        if what not in tasks:
            for task in tasks.values():
                bars.update(task, visible=False)
            tasks[what] = bars.add_task(what, total=None)
        bars.update(tasks[what], completed=done, total=total or None)

    with bars, _printed(logger, console):
        yield report if console.is_terminal else None


@contextmanager
def _printed(logger: logging.Logger, console: Console) -> Iterator[None]:
    """Print what `logger` says, instead of what else would be done with it."""
    handler = logging.Handler()
    handler.emit = lambda record: console.print(  # type: ignore[method-assign]  # a handler is this one function
        record.getMessage(), style="yellow", highlight=False, markup=False, soft_wrap=True
    )
    propagated = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated
