"""The command that reproduces the paper."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from memgrad.amounts import duration
from memgrad.cli.costs import show_costs
from memgrad.cli.language import are_language, reproduce_language
from memgrad.cli.options import Address, Device, EngineName, StoreFolder, Workers, chosen_engine
from memgrad.cli.run_display import Display, live
from memgrad.cli.terminal import folder_for

if TYPE_CHECKING:
    from memgrad.paper.claims import Verdict
    from memgrad.paper.reproduction import Reproduction

COLORS = {"reproduced": "green", "not reproduced": "red", "confirmed": "green", "refuted": "red", "undecided": "yellow"}
NUMBERS = 3
"""The maximum number of numbers shown per verdict; scoreboard.json has all of them."""

WIDE = 130
"""In a narrower terminal the scoreboard has one paragraph per claim instead of a table."""


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Figures and claims, such as results R4 [default: all].")
    ] = None,
    scale: Annotated[
        str, typer.Option(help="quick, laptop, workstation or paper; for L1 to L6 quick, laptop or larger.")
    ] = "quick",
    store: StoreFolder = None,
    out: Annotated[Path, typer.Option(help="The folder for figures, numbers and scoreboard.json.")] = Path(
        "reproduction"
    ),
    device: Device = None,
    engine: EngineName = "local",
    address: Address = None,
    workers: Workers = None,
    ending: Annotated[
        list[str] | None,
        typer.Option(help="A format of figures: png, svg or pdf; may be repeated [default: png, svg]."),
    ] = None,
    published: Annotated[
        Path | None,
        typer.Option("--from", help="Copy the published rows of the scale, such as those in docs/results, first."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be trained and its cost, and stop.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing but the scoreboard and errors.")] = False,
) -> None:
    """Reproduce the paper: run its experiments, draw its figures, and decide its claims.

    At the scale `quick`, on samples that come with memgrad, it is a rehearsal of a few minutes that decides nothing
    about real data. `laptop` uses the complete data sets in minibatches and takes about two hours; `workstation` adds
    full batches of a tenth of them and longer runs, and takes about eight hours on two cores; `paper` is the full scale
    of the paper, for a GPU or a cluster. All but `quick` first print an estimate of the cost. Run it again
    to resume: nothing is repeated.

    L1 to L6 are claims of our own about a language model; they are run by name, at the scales `quick`, `laptop` (about
    12 core-hours) and `larger`, with `others` (other methods) and `workloads` (those of the paper) beside them.

    For example:

    - `memgrad reproduce`
    - `memgrad reproduce results R4 R6 --scale laptop`
    - `memgrad reproduce --scale workstation --from docs/results`
    - `memgrad reproduce L1 L2 --scale laptop --plan  # what is known so far`
    - `memgrad reproduce --scale paper --plan --workers 64`
    - `memgrad reproduce --scale paper --device cuda --engine ray --address auto`
    """
    from memgrad.experiments.storing.folder import default_path
    from memgrad.experiments.storing.store import Store
    from memgrad.experiments.storing.upkeep import copy_rows
    from memgrad.experiments.training.engines.engine import check_device
    from memgrad.figures import FORMATS
    from memgrad.paper import reproduction
    from memgrad.paper.published import published_store
    from memgrad.paper.scales import known, scales
    from memgrad.paper.verdicts import chosen
    from memgrad.report import write_report

    names, formats, folder = names or [], ending or ["png", "svg"], store or default_path()
    for each in formats:
        known("format", each, FORMATS)
    make_engine = partial(chosen_engine, engine, workers, address)
    check_device(device, here=engine == "local")
    if are_language(names):
        reproduce_language(
            names,
            scale=scale,
            store=folder,
            out=out,
            device=device,
            engine=make_engine,
            workers=workers,
            published=published,
            plan=plan,
            quiet=quiet,
            formats=formats,
        )
        return
    chosen(names)  # misspelled names are refused before a folder is created
    known("scale", scale, scales())

    def say(line: str) -> None:
        if not quiet:
            typer.echo(line, err=True)

    if published is not None:
        source = published_store(published, scale)
        new = copy_rows(source, Store.open(folder))
        say(f"{new} files of published rows were copied from {source.path}.")
    seconds = None
    if plan or (scales()[scale].decides and not quiet):
        seconds = _plan(names, scale, folder, workers)
        if plan:
            return
    make_engine()  # an unknown engine or address is refused before a folder is created
    with folder_for(out):
        kept = Store.open(folder)
    countdown = reproduction.countdown(names, scale, kept, seconds)

    def listening(experiment: str) -> AbstractContextManager[Display]:
        title = f"experiment {countdown.begin(experiment)}, {experiment}"
        left = countdown.left()
        say(f"{title}, {scale}" + (f": about {duration(left)} of training left in total" if left else ""))
        return live(quiet=quiet, title=title, after=countdown.after())

    found = reproduction.reproduce(
        names,
        scale=scale,
        store=kept,
        out=out,
        engine=make_engine,
        listening=listening,
        told=say,
        device=device,
        formats=formats,
    )
    _show(found, out)
    typer.echo(f"The report is {write_report(found, kept, out / 'report.html').resolve()}")
    if found.interrupted:
        again = " ".join(["memgrad reproduce", *names, f"--scale {scale} --store {kept.path} --out {out}"])
        typer.echo(f"Stopped. Rows and checkpoints are in {kept.path}; {again} resumes.", err=True)
        raise typer.Exit(130)
    if found.skipped:
        raise typer.Exit(1)


def _plan(names: Sequence[str], scale: str, store: Path, workers: int | None) -> dict[str, float]:
    """Print what is left to train and its expected cost; return the seconds of each experiment by its name."""
    from memgrad.experiments.storing.store import Store
    from memgrad.paper.reproduction import unfinished
    from memgrad.paper.scales import experiment
    from memgrad.paper.verdicts import chosen, needed

    kept = Store.open(store, create=False) if Store.exists(store) else None
    todo = needed(chosen(names)) if kept is None else unfinished(names, scale, kept)
    if not todo:
        typer.echo("Nothing is left to train.", err=True)
        return {}
    return show_costs((experiment(name, scale) for name in todo), kept, workers, scale)


def _show(found: Reproduction, out: Path) -> None:
    console = Console()
    asked = [verdict for verdict in found.verdicts if verdict.claim.id in found.asked]
    if asked:
        board = _table(asked) if console.width >= WIDE else _paragraphs(asked)
        for part in (_title(found), "", board, _tally(asked)):
            console.print(part)
    for name, reason in found.skipped.items():
        typer.echo(f"skipped {name}: {reason.rstrip('.')}.", err=True)
    typer.echo(
        f"{len(found.figures)} figures and {len(found.verdicts)} verdicts in {out}, {found.trained} of {found.runs} "
        f"runs trained now, {duration(found.seconds)}."
    )


def _title(found: Reproduction) -> str:
    rehearsal = "" if found.scale.decides else ": a rehearsal, which decides nothing about real data (R and A)"
    return f"[bold]The paper's claims, {found.scale.name}{rehearsal}[/]"


def _tally(verdicts: Sequence[Verdict]) -> str:
    outcomes = [verdict.outcome for verdict in verdicts]
    return ", ".join(f"{outcomes.count(each)} {each}" for each in COLORS if each in outcomes) + "."


def _table(verdicts: Sequence[Verdict]) -> Table:
    table = Table("claim", "rule", "numbers", "verdict", "scale", show_lines=True)
    for verdict in verdicts:
        claim = f"{verdict.claim.id} {escape(verdict.claim.statement)}"
        found = f"{_outcome(verdict)}\n{escape(verdict.reason)}"
        table.add_row(claim, escape(verdict.claim.rule), "\n".join(_numbers(verdict)), found, escape(verdict.scale))
    return table


def _paragraphs(verdicts: Sequence[Verdict]) -> RenderableType:
    blocks: list[RenderableType] = []
    for verdict in verdicts:
        about = Table.grid("name", "what", padding=(0, 2))
        about.add_row("rule", escape(verdict.claim.rule))
        about.add_row("numbers", "\n".join(_numbers(verdict)))
        about.add_row("because", escape(verdict.reason))
        about.add_row("scale", escape(verdict.scale))
        head = f"[bold]{verdict.claim.id}[/] {_outcome(verdict)}: {escape(verdict.claim.statement)}"
        blocks += [head, Padding(about, (0, 0, 1, 4))]
    return Group(*blocks)


def _outcome(verdict: Verdict) -> str:
    return f"[{COLORS[verdict.outcome]}]{verdict.outcome}[/]"


def _numbers(verdict: Verdict) -> list[str]:
    shown = [escape(str(number)) for number in verdict.numbers[:NUMBERS]]
    more = len(verdict.numbers) - len(shown)
    return [*shown, *([f"and {more} more"] if more else [])]
