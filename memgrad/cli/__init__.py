"""The command line. It reads arguments and prints; what it prints is computed elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

import memgrad
from memgrad.cli import (
    check,
    comparison,
    data,
    dynamics,
    experiments,
    explore,
    memories,
    plots,
    report,
    reproduce,
    store,
    theory,
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Memory in optimization: choose, see and compare how an optimizer remembers past gradients.",
)
plot = typer.Typer(no_args_is_help=True, help="Draw a figure of the paper.")

app.command()(memories.memories)
app.command()(memories.passport)
app.command()(dynamics.simulate)
app.command()(theory.bound)
app.command()(check.check)
app.command()(experiments.init)
app.command()(experiments.plan)
app.command()(experiments.run)
app.command()(reproduce.reproduce)
app.command()(report.report)
app.command()(comparison.compare)
app.command()(store.ls)
app.command()(store.export)
app.command()(store.gc)
app.command()(explore.explore)
app.add_typer(data.app, name="data")
app.add_typer(plot, name="plot")
plot.command("memories")(memories.plot_memories)
for _name, _command in plots.plot_commands().items():
    plot.command(_name)(_command)
plot.command("all")(plots.plot_all)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memgrad {memgrad.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
