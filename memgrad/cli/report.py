"""The command that writes the report again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memgrad.cli.comparison import opened
from memgrad.cli.experiments import StoreFolder
from memgrad.cli.terminal import folder_for, refusing


def report(
    scale: Annotated[str, typer.Option(help="quick, laptop or paper.")] = "quick",
    store: StoreFolder = None,
    out: Annotated[
        Path, typer.Option(help="The folder of the figures and the numbers, where report.html is written.")
    ] = Path("reproduction"),
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing but the report's path and errors.")] = False,
) -> None:
    """Write the report on the paper's reproduction again, from what is in a store. Nothing is trained.

    Figures and verdicts that are not in the folder yet, or were made by other code, are made again; what the store has
    no complete rows for is left out, and the report says so. It can be called while experiments run.

    For example: `memgrad report --scale laptop --out reproduction`
    """
    with refusing():
        from memgrad.paper import reproduction
        from memgrad.paper.scales import known, scales
        from memgrad.report import write_report

        known("scale", scale, scales())
        kept = opened(store)
        with folder_for(out):
            found = reproduction.reproduce(
                scale=scale,
                store=kept,
                out=out,
                engine=None,
                told=None if quiet else lambda line: typer.echo(line, err=True),
            )
        path = write_report(found, kept, out / "report.html")
        for name, reason in found.skipped.items():
            typer.echo(f"left out {name}: {reason}.", err=True)
        typer.echo(f"The report is {path.resolve()}")
