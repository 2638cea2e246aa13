"""The command line. It reads arguments and prints; what it prints is computed elsewhere.

A file holds the commands of one subject. Five are shared: `options` has the arguments that several commands take,
`terminal` answers bad input and draws progress bars, `layout` prints tables and JSON, `costs` measures and prints what
experiments will cost, and `run_display` prints what `memgrad run` and `memgrad reproduce` say while they train.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

import memgrad
from memgrad.cli import (
    check,
    comparison,
    data,
    design,
    dynamics,
    experiments,
    explore,
    memories,
    plots,
    report,
    reproduce,
    risks,
    spectrum,
    store,
    theory,
    tune,
)
from memgrad.cli.terminal import Command, Group

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Memory in optimization: choose, see and compare how an optimizer remembers past gradients.",
)
plot = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode="markdown", help="Draw a figure of the paper.")

COMMANDS: Mapping[str, Sequence[Callable[..., None]]] = {
    "Understand": (
        memories.memories,
        memories.passport,
        dynamics.simulate,
        risks.risk,
        design.design,
        theory.bound,
        explore.explore,
    ),
    "Train and compare": (
        check.check,
        spectrum.spectrum,
        experiments.init,
        experiments.plan,
        experiments.run,
        comparison.compare,
        tune.tune,
    ),
    "Keep results": (store.ls, store.export, store.gc),
    "The paper": (reproduce.reproduce, report.report),
}
"""The commands as the help groups them."""

for _panel, _commands in COMMANDS.items():
    for _command in _commands:
        app.command(cls=Command, rich_help_panel=_panel)(_command)
app.add_typer(plot, name="plot", rich_help_panel="The paper")
app.add_typer(data.app, name="data", rich_help_panel="Data")
plot.command("memories", cls=Command)(memories.plot_memories)
for _name, _command in plots.plot_commands().items():
    plot.command(_name, cls=Command)(_command)
plot.command("all", cls=Command)(plots.plot_all)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memgrad {memgrad.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    # A file's name may have bytes that are not UTF-8: it is printed as it is, rather than not at all.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")
