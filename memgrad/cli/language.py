"""The part of `memgrad reproduce` that is about a language model: claims of our own, L1 to L6."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape

from memgrad.cli.costs import show_costs
from memgrad.cli.layout import show
from memgrad.cli.run_display import Display, live
from memgrad.cli.terminal import folder_for

if TYPE_CHECKING:
    from memgrad.experiments.training.engines.engine import Engine

COLORS = {"confirmed": "green", "refuted": "red", "undecided": "yellow", "reported": "cyan"}


def are_language(names: Sequence[str]) -> bool:
    """Whether names are claims about the language model; refused if only some of them are."""
    from memgrad.paper.language.running import chosen

    ours = {name.lower() for name in chosen(())}
    found = [name for name in names if name.lower() in ours]
    if found and len(found) < len(names):
        other = next(name for name in names if name not in found)
        raise ValueError(f"claims about the language model are run by themselves, got {found[0]} beside {other}.")
    return bool(found)


def reproduce_language(
    names: Sequence[str],
    *,
    scale: str,
    store: Path,
    out: Path,
    device: str | None,
    engine: Callable[[], Engine],
    workers: int | None,
    published: Path | None,
    plan: bool,
    quiet: bool,
    formats: Sequence[str],
) -> None:
    """Run what these claims need, decide them, and print and write the verdicts."""
    from memgrad.experiments.storing.provenance import provenance
    from memgrad.experiments.storing.store import Store
    from memgrad.experiments.storing.upkeep import copy_rows
    from memgrad.paper.language import running
    from memgrad.paper.language.board import board, finish, write_board
    from memgrad.paper.language.costs import experiments
    from memgrad.paper.language.pictures import write_figures
    from memgrad.paper.language.stages import Stages, scales
    from memgrad.paper.language.study import Study
    from memgrad.paper.published import published_store
    from memgrad.paper.scales import known

    known("scale", scale, scales())
    kept = Store.open(store)
    if published is not None:
        copied = copy_rows(published_store(published, f"language-{scale}"), kept)
        typer.echo(f"Copied {copied} chunks of published rows.", err=True)
    read = Study(Stages(scale), running.stored(kept))
    if plan:
        _show(board(read, names))
        show_costs(experiments(read, names), kept, workers, scale)
        return

    def listening(experiment: str) -> AbstractContextManager[Display]:
        if not quiet:
            typer.echo(f"{experiment}, {scale}", err=True)
        return live(quiet=quiet, title=experiment)

    with folder_for(out):
        trains = engine()
    try:
        finish(Study(read.stages, running.trained(kept, trains, listening=listening, device=device)), names)
    except running.Interrupted:
        again = " ".join(["memgrad reproduce", *names, f"--scale {scale} --store {kept.path}"])
        typer.echo(f"Stopped. Rows and checkpoints are in {kept.path}; {again} resumes.", err=True)
        raise typer.Exit(130) from None
    finally:
        trains.close()
    found = board(read, names)
    _show(found)
    written = [*write_board(found, out, about=provenance()), *write_figures(read, found, out, formats)]
    typer.echo(f"{', '.join(path.name for path in written)} are in {out}.")
    if any(not each["numbers"] for each in found["verdicts"]) or None in found["compared"].values():
        raise typer.Exit(1)


def _show(found: Mapping[str, Any]) -> None:
    from memgrad.paper.language.board import comparison_cells, comparison_title, named

    console = Console()
    for each in found["verdicts"]:
        outcome = each["outcome"]
        console.print(f"[bold]{each['id']}[/] [{COLORS[outcome]}]{outcome}[/]: {escape(each['statement'])}")
        console.print(f"    {escape(each['reason'])}.")
        for number in each["numbers"]:
            console.print(f"    {escape(named(number))}")
    for name, rows in found["compared"].items():
        columns = ("method", "step size", "final loss", "ratio", "p (Holm)")
        show(columns, comparison_cells(rows), title=comparison_title(name), prose={"method"})
