"""The command that writes the report again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memgrad.cli.options import StoreFolder, store_in
from memgrad.cli.terminal import folder_for


def report(
    scale: Annotated[
        str | None, typer.Option(help="quick, laptop, workstation or paper [default: quick, or what --from has].")
    ] = None,
    store: StoreFolder = None,
    out: Annotated[
        Path, typer.Option(help="The folder of the figures and the numbers, where report.html is written.")
    ] = Path("reproduction"),
    published: Annotated[
        Path | None, typer.Option("--from", help="A folder of published results, such as docs/results, for a store.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing but the report's path and errors.")] = False,
) -> None:
    """Write the report on the paper's reproduction again, from what is in a store. Nothing is trained.

    Figures and verdicts that are not in the folder yet, or were made by other code, are made again; results
    without complete rows in the store are left out, and the report says so. It can be called while experiments run.
    With `--from` the rows are those of a folder of published results, and no data set is needed.

    For example:

    - `memgrad report --scale laptop --out reproduction`
    - `memgrad report --from docs/results --out published`
    """
    from memgrad.paper import reproduction
    from memgrad.paper.data_facts import DataFacts
    from memgrad.paper.published import published_scales, published_store
    from memgrad.paper.scales import known, scales
    from memgrad.report import write_report

    if published is not None and store is not None:
        raise ValueError(f"rows come from --from {published} or --store {store}, not from both; name one.")
    there = () if published is None else published_scales(published)
    scale = known("scale", scale or (there[-1] if there else "quick"), scales())
    kept = store_in(store) if published is None else published_store(published, scale)
    with folder_for(out):
        found = reproduction.reproduce(
            scale=scale,
            store=kept,
            out=out,
            engine=None,
            told=None if quiet else lambda line: typer.echo(line, err=True),
            data=DataFacts.read(kept.path),
        )
    path = write_report(found, kept, out / "report.html")
    for name, reason in found.skipped.items():
        typer.echo(f"left out {name}: {reason.rstrip('.')}.", err=True)
    typer.echo(f"The report is {path.resolve()}")
