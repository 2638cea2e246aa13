"""The part of `memgrad reproduce` that is about a language model: claims of our own, L1 to L6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape

from memgrad.cli.layout import show
from memgrad.cli.options import chosen_engine
from memgrad.cli.run_display import Display, live
from memgrad.cli.terminal import folder_for

if TYPE_CHECKING:
    from memgrad.experiments.comparison import Comparison
    from memgrad.paper.language.claims import LanguageVerdict

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
    engine: str,
    address: str | None,
    workers: int | None,
    published: Path | None,
    plan: bool,
    quiet: bool,
) -> None:
    """Run what these claims need, decide them, and print and write the verdicts."""
    from memgrad.experiments.storing.store import Store
    from memgrad.paper.language import running
    from memgrad.paper.language.stages import scales
    from memgrad.paper.published import copy_rows, published_store
    from memgrad.paper.scales import known

    known("scale", scale, scales())
    with folder_for(out):
        kept = Store.open(store)
    if published is not None:
        copied = copy_rows(published_store(published, f"language-{scale}"), kept)
        typer.echo(f"Copied {copied} chunks of published rows.", err=True)
    if plan:
        find = running.stored(kept)
        _show(running.judge(names, scale=scale, find=find), running.compared(names, scale=scale, find=find))
        return

    def listening(experiment: str) -> AbstractContextManager[Display]:
        if not quiet:
            typer.echo(f"{experiment}, {scale}", err=True)
        return live(quiet=quiet, title=experiment)

    trains = chosen_engine(engine, workers, address)
    try:
        find = running.trained(kept, trains, listening=listening, device=device)
        made = running.judge(names, scale=scale, find=find)
        beside = running.compared(names, scale=scale, find=find)
    except running.Interrupted:
        again = " ".join(["memgrad reproduce", *names, f"--scale {scale} --store {kept.path}"])
        typer.echo(f"Stopped. Rows and checkpoints are in {kept.path}; {again} resumes.", err=True)
        raise typer.Exit(130) from None
    finally:
        trains.close()
    _show(made, beside)
    typer.echo(f"The verdicts are in {running.write_board(made, beside, out / 'language.json')}")
    if any(not each.finding.numbers for each in made):
        raise typer.Exit(1)


def _show(made: Sequence[LanguageVerdict], beside: Mapping[str, Sequence[Comparison]]) -> None:
    console = Console()
    for each in made:
        claim = each.finding.claim
        console.print(f"[bold]{claim.id}[/] [{COLORS[each.outcome]}]{each.outcome}[/]: {escape(claim.statement)}")
        console.print(f"    {escape(each.reason)}.")
        for number in each.finding.numbers:
            console.print(f"    {escape(str(number))}")
    for name, rows in beside.items():
        cells = [
            (row.variant or row.method, f"{row.lr:g}", str(row.final), "" if row.ratio is None else str(row.ratio))
            for row in rows
        ]
        reference = next(row.method for row in rows if row.difference is None)
        show(("method", "step size", "final loss", f"ratio to {reference}"), cells, title=name, prose={"method"})
