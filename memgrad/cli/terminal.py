"""Commands and groups of them, error messages, and progress bars."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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
from typer.core import TyperCommand, TyperGroup

from memgrad.amounts import duration
from memgrad.cli.run_display import LINES_EVERY

TRACEBACK = "MEMGRAD_TRACEBACK"
"""The environment variable with which errors keep their tracebacks: a fault of ours can look like bad input."""


class Command(TyperCommand):
    """A command that refuses bad input, and whose help shows flags without a placeholder such as <bool>."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; an empty one, as a path, would silently mean the current folder.

        Newer versions of typer let pydantic say what is wrong with a number, which leaves out the value.
        """
        for word in args:
            if not word or (word.startswith("--") and word.endswith("=")):
                where = f" after {word.removesuffix('=')}" if word else ""
                raise typer.BadParameter(
                    f"an argument{where} is empty; a shell variable may be unset. Leave it out to use the default.",
                    ctx=ctx,
                )
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if errors := getattr(error.__cause__, "errors", None):
                error.message = f"{error.message.rstrip('.')}, got {errors()[0]['input']!r}."
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command; errors are printed without a traceback."""
        with refusing(ctx):
            return super().invoke(ctx)

    def get_params(self, ctx: Any) -> Any:
        """The parameters, flags without a placeholder."""
        return _flags_alone(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands whose help shows flags as `Command` does."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters, flags without a placeholder."""
        return _flags_alone(super().get_params(ctx))


def _flags_alone(parameters: Iterable[Any]) -> list[Any]:
    parameters = list(parameters)
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


@contextmanager
def refusing(ctx: Any = None) -> Iterator[None]:
    """Print errors without a traceback: exit code 2 for bad input, 130 for Ctrl-C, 1 for the rest.

    Args:
        ctx: The context of the command, whose usage is printed with bad input.
    """
    if os.environ.get(TRACEBACK):
        yield
        return
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("\nInterrupted: no incomplete file is left.", err=True)
        raise typer.Exit(130) from None
    except (ValueError, TypeError, NotImplementedError) as error:
        raise typer.BadParameter(str(error), ctx=ctx) from error
    except OverflowError as error:
        raise typer.BadParameter(f"a number is too large to compute with: {error}.", ctx=ctx) from error
    except MemoryError as error:
        asked = f" ({error})" if str(error) else ""
        typer.echo(f"Error: not enough memory{asked}. Ask for less at a time.", err=True)
        raise typer.Exit(1) from error
    except ImportError as error:  # a part that is not installed: the message names its extra
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        raise typer.Exit(1) from None
    except OSError as error:
        named = f"{error.strerror} ({error.filename})." if error.strerror else str(error)
        if error.filename and error.strerror in (os.strerror(errno.EEXIST), os.strerror(errno.ENOTDIR)):
            named = f"{error.filename}: a folder is needed here, and there is a file. Name another place."
        typer.echo(f"Error: {named}", err=True)
        raise typer.Exit(1) from error


@contextmanager
def folder_for(path: Path) -> Iterator[None]:
    """Create a folder for the files of the block; remove it again if the block fails before it has written any."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for each in missing:
            with suppress(OSError):  # it is not empty
                each.rmdir()
        raise


@contextmanager
def progress_bar(what: str, *, shown: bool = True) -> Iterator[Callable[[int, int], None] | None]:
    """A function of (done, total): on a terminal it draws a bar with the remaining time, elsewhere it prints lines.

    It is None if nothing is shown.
    """
    console = Console(stderr=True)
    if not shown:
        yield None
        return
    if not console.is_terminal:
        yield _lines(what)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(what: str) -> Callable[[int, int], None]:
    """A function of (done, total) that prints a line to standard error every few seconds."""
    began = said = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= LINES_EVERY:
            said = now
            left = f", {duration((now - began) * (total - done) / done)} left" if done else ""
            typer.echo(f"{what}: {100 * done / max(total, 1):.0f} %{left}", err=True)

    return report


class _IfKnown(ProgressColumn):
    """A column that stays empty while the total is unknown."""

    def __init__(self, column: ProgressColumn) -> None:
        super().__init__()
        self.column = column

    def render(self, task: Task) -> RenderableType:
        return self.column.render(task) if task.total else ""


@contextmanager
def byte_bars(logger: logging.Logger) -> Iterator[Callable[[str, int, int], None] | None]:
    """A function of (what, bytes done, all bytes or 0) that draws a bar for what is being done; None off a terminal.

    The messages of `logger` are printed above the bar, or as plain lines off a terminal.
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
    """Print the messages of `logger` and nothing else."""
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
