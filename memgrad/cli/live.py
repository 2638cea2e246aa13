"""What is shown of an experiment while it runs: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from memgrad.experiments.events import Event
    from memgrad.experiments.plan import Batch

LINES_EVERY = 10.0
"""Seconds between plain lines."""


@contextmanager
def live(*, quiet: bool = False) -> Iterator[Display]:
    """A display that listens to an experiment."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
    )
    bars = Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
    with bars:
        yield Display(bars, console, plain=not quiet and not console.is_terminal, quiet=quiet)


class Display:
    """Shows the batches that are trained, their speed and losses, and the time that is left."""

    def __init__(self, bars: Progress, console: Console, *, plain: bool, quiet: bool) -> None:
        self._bars, self._console, self._plain, self._quiet = bars, console, plain, quiet
        self._all: TaskID | None = None
        self._rows: dict[str, TaskID] = {}
        self._total = self._batches = self._finished = 0
        self._done: dict[str, int] = {}
        self._from: dict[str, tuple[int, float]] = {}
        self._began, self._at_start, self._said = time.monotonic(), 0, 0.0

    def began(self, batches: Sequence[Batch], finished: int) -> None:
        """Show how much there is to do."""
        runs = sum(len(batch.runs) for batch in batches)
        self._total += sum(_run_steps(batch) for batch in batches)
        self._batches += len(batches)
        there = f"; {finished} are there already" if finished else ""
        self.said(f"{runs} runs in {len(batches)} batches{there}.")
        if self._all is None:
            self._all = self._bars.add_task("all", total=self._total, told="")
        self._bars.update(self._all, total=self._total)

    def started(self, batch: Batch, k: int) -> None:
        """Show a batch that is on its way."""
        if batch.key not in self._done:  # else it is tried again, and what it did was done now
            self._at_start += k * len(batch.runs)
        self._done[batch.key] = k * len(batch.runs)
        self._from[batch.key] = k, time.monotonic()
        self._rows[batch.key] = self._bars.add_task(_title(batch), total=batch.runs[0].steps, completed=k, told="")

    def happened(self, batch: Batch, event: Event) -> None:
        """Show what an event changes."""
        from memgrad.experiments import events

        if isinstance(event, events.Progressed | events.Evaluated):
            self._moved(batch, event.k, event.values.get("loss") if isinstance(event, events.Evaluated) else None)
        elif isinstance(event, events.Finished | events.Failed | events.Lost | events.Stopped):
            self._bars.remove_task(self._rows.pop(batch.key))
            if isinstance(event, events.Finished):
                self._finished += 1
                self._done[batch.key] = _run_steps(batch)
                self._overall(f"{_title(batch)}: done")
            elif isinstance(event, events.Lost):
                self.said(f"{_title(batch)}: {event.reason}.")
            elif isinstance(event, events.Failed):
                self.said(f"{_title(batch)}: {event.message}")

    def said(self, message: str) -> None:
        """Print a line above the bars."""
        if self._plain:
            typer.echo(message, err=True)
        elif not self._quiet:
            self._bars.console.print(message, highlight=False, markup=False)

    def _moved(self, batch: Batch, k: int, losses: object) -> None:
        self._done[batch.key] = k * len(batch.runs)
        first, began = self._from[batch.key]
        speed = (k - first) / max(time.monotonic() - began, 1e-9)
        row = self._rows[batch.key]
        loss = _range(losses) or str(self._bars.tasks[self._bars.task_ids.index(row)].fields["told"]).partition("  ")[2]
        self._bars.update(row, completed=k, told=f"{speed:,.0f} steps/s  {loss}")
        self._overall(None)

    def _overall(self, note: str | None) -> None:
        done = sum(self._done.values())
        spent = time.monotonic() - self._began
        speed = (done - self._at_start) / max(spent, 1e-9)
        left = f"{duration((self._total - done) / speed)} left" if speed > 0 and spent > 1 else ""
        if self._all is not None:
            self._bars.update(self._all, completed=done, told=f"{speed:,.0f} run-steps/s  {left}")
        now = time.monotonic()
        if self._plain and now - self._said > LINES_EVERY:
            self._said = now
            share = 100 * done / max(self._total, 1)
            told = [f"{share:.0f} %", f"{self._finished} of {self._batches} batches", f"{speed:,.0f} run-steps/s", left]
            self.said(", ".join(filter(None, told)))


def _run_steps(batch: Batch) -> int:
    return len(batch.runs) * batch.runs[0].steps


def _title(batch: Batch) -> str:
    run = batch.runs[0]
    if len(batch.runs) == 1:
        return f"{run.recipe.optimizer} lr {run.lr:g} seed {run.seed}"
    return f"{len(batch.runs)} runs of {run.problem}"


def _range(losses: object) -> str:
    """The smallest and the largest finite loss of a batch."""
    if losses is None:
        return ""
    finite = [x for x in losses if abs(x) < float("inf")]  # type: ignore[attr-defined]  # an array
    if not finite:
        return "diverged"
    low, high = min(finite), max(finite)
    return f"loss {low:.4g}" if len(finite) == 1 else f"loss {low:.4g} to {high:.4g}"


def duration(seconds: float) -> str:
    """A time in words.

    Example:
        >>> duration(75), duration(7300)
        ('1 min 15 s', '2 h 1 min')
    """
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
