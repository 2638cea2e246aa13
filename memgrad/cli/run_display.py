"""What is printed while an experiment runs: progress bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from memgrad.amounts import counted, duration

if TYPE_CHECKING:
    from memgrad.experiments.planning.plan import RunGroup
    from memgrad.experiments.training.events import Event

LINES_EVERY = 10.0
"""Seconds between plain lines."""


@contextmanager
def live(*, quiet: bool = False, title: str = "all", after: float | None = None) -> Iterator[Display]:
    """A display for an experiment; `after` is the expected duration of what follows, in seconds, if known."""
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
        yield Display(bars, plain=not quiet and not console.is_terminal, quiet=quiet, title=title, after=after)


class Display:
    """Shows the run groups in training, their speed and losses, and the remaining time."""

    def __init__(self, bars: Progress, *, plain: bool, quiet: bool, title: str, after: float | None) -> None:
        self._bars, self._plain, self._quiet = bars, plain, quiet
        self._title, self._after = title, after
        self._all: TaskID | None = None
        self._rows: dict[str, TaskID] = {}
        self._total = self._groups = self._finished = 0
        self._done: dict[str, int] = {}  # run-steps of each run group
        self._before: dict[str, int] = {}  # those taken by an earlier command
        self._from: dict[str, tuple[int, float]] = {}
        self._began: float | None = None  # when the first run group was started, after the data were loaded
        self._said = 0.0
        self._errors: set[str] = set()

    def began(self, groups: Sequence[RunGroup], finished: int) -> None:
        """Show how much there is to do."""
        runs = sum(len(group.runs) for group in groups)
        self._total += sum(_run_steps(group) for group in groups)
        self._groups += len(groups)
        for group in groups:
            self._done[group.key] = self._before[group.key] = group.done * len(group.runs)
        there = f"; {finished} already finished" if finished else ""
        self.said(f"{counted(runs, 'run')} in {counted(len(groups), 'group')}{there}.")
        if self._all is None:
            self._all = self._bars.add_task(self._title, total=self._total, told="")
        self._bars.update(self._all, total=self._total)

    def started(self, group: RunGroup, k: int) -> None:
        """Show a run group in training."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        if group.key not in self._done:  # half of a run group that an error ended
            self._total += _run_steps(group)
            self._groups += 1
        if group.key not in self._from:  # otherwise it is a retry, and its earlier steps were taken by this command
            self._before[group.key] = k * len(group.runs)
        self._done[group.key] = k * len(group.runs)
        self._from[group.key] = k, now
        self._rows[group.key] = self._bars.add_task(_title(group), total=group.runs[0].steps, completed=k, told="")

    def happened(self, group: RunGroup, event: Event) -> None:
        """Show what an event changes."""
        from memgrad.experiments.driver import ended_by_one
        from memgrad.experiments.training import events

        if isinstance(event, events.Progressed | events.Evaluated):
            self._moved(group, event.k, event.values.get("loss") if isinstance(event, events.Evaluated) else None)
        elif isinstance(event, events.Finished | events.Failed | events.Lost | events.Stopped):
            self._bars.remove_task(self._rows.pop(group.key))
            if isinstance(event, events.Finished):
                self._finished += 1
                self._done[group.key] = _run_steps(group)
                self._overall(f"{_title(group)}: done")
            elif isinstance(event, events.Lost):
                self.said(f"{_title(group)}: {event.reason}.")
            elif isinstance(event, events.Failed):
                self._failed(group, event.message, again=ended_by_one(group, event))

    def _failed(self, group: RunGroup, message: str, *, again: bool) -> None:
        """Say why; if its halves are trained instead, only the first time, and they take its place in the counts."""
        if again:
            self._total -= _run_steps(group)
            self._groups -= 1
            del self._done[group.key], self._before[group.key]
        if not again or message not in self._errors:
            self.said(f"{_title(group)}: {message}" + ("; they are trained again in smaller groups." if again else ""))
        self._errors.add(message)

    def said(self, message: str) -> None:
        """Print a line above the bars."""
        if self._plain:
            typer.echo(message, err=True)
        elif not self._quiet:
            self._bars.console.print(message, highlight=False, markup=False)

    def _moved(self, group: RunGroup, k: int, losses: object) -> None:
        self._done[group.key] = k * len(group.runs)
        if self._done[group.key] < self._before[group.key]:  # its checkpoint could not be used: it started again
            self._before[group.key] = 0
            self._from[group.key] = 0, self._from[group.key][1]
        first, began = self._from[group.key]
        speed = (k - first) / max(time.monotonic() - began, 1e-9)
        row = self._rows[group.key]
        loss = _range(losses) or str(self._bars.tasks[self._bars.task_ids.index(row)].fields["told"]).partition("  ")[2]
        self._bars.update(row, completed=k, told=f"{speed:,.0f} steps/s  {loss}")
        self._overall(None)

    def _overall(self, note: str | None) -> None:
        done = sum(self._done.values())
        spent = time.monotonic() - (self._began or time.monotonic())
        speed = (done - sum(self._before.values())) / max(spent, 1e-9)
        left = f"{duration((self._total - done) / speed)} left" if speed > 0 and spent > 1 else ""
        if left and self._after is not None:
            left += f", {duration((self._total - done) / speed + self._after)} in total"
        if self._all is not None:
            self._bars.update(self._all, completed=done, told=f"{speed:,.0f} run-steps/s  {left}")
        now = time.monotonic()
        if self._plain and now - self._said > LINES_EVERY:
            self._said = now
            share = 100 * done / max(self._total, 1)
            groups = f"{self._finished} of {counted(self._groups, 'group')}"
            told = [f"{share:.0f} %", groups, f"{speed:,.0f} run-steps/s", left]
            self.said(("" if self._title == "all" else f"{self._title}: ") + ", ".join(filter(None, told)))


def _run_steps(group: RunGroup) -> int:
    return len(group.runs) * group.runs[0].steps


def _title(group: RunGroup) -> str:
    run = group.runs[0]
    if len(group.runs) == 1:
        return f"{run.recipe.optimizer} lr {run.lr:g} seed {run.seed}"
    return f"{len(group.runs)} runs of {run.problem}"


def _range(losses: object) -> str:
    """The smallest and the largest finite loss of a run group."""
    if losses is None:
        return ""
    finite = [x for x in losses if abs(x) < float("inf")]  # type: ignore[attr-defined]  # an array
    if not finite:
        return "diverged"
    low, high = min(finite), max(finite)
    return f"loss {low:.4g}" if len(finite) == 1 else f"loss {low:.4g} to {high:.4g}"
