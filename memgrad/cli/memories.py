"""Commands that show what a memory is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from memgrad.cli.layout import print_json, show
from memgrad.cli.options import MEMORY, AsJson, as_mixture, count
from memgrad.cli.terminal import progress_bar
from memgrad.memory import FAMILIES, Memory, Mixture, MixturePassport, Passport

MOST_DRAWN = 100_000


def memories(as_json: AsJson = False) -> None:
    """List the families of memories: text form, memory function m(t) and decay b_k.

    For example: `memgrad memories`
    """
    rows = [
        {"class": family.__name__, "text": family.example, "m(t)": family.formula, "b_k": family.decay_formula}
        for family in FAMILIES.values()
    ]
    if as_json:
        print_json(rows)
        return
    show(("family", "text form", "m(t)", "decay b_k"), [list(row.values()) for row in rows])
    Console().print("Also: constant, square-root, linear, quadratic, cubic; and as in the paper: p=2, p=e, p=inf.")


def passport(
    memory: Annotated[list[Mixture], typer.Argument(parser=as_mixture, metavar="MEMORY", help=MEMORY)],
    at: Annotated[int, count("The step k, counted from 0.", "K")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Show the passports of memories at step K: mean age, half-life, noise and, for mixtures, the gain.

    For example:

    - `memgrad passport poly:2 --at 1000`
    - `memgrad passport exp:0.9 "inst + (1+k)^0.15*poly:8" --at 1000`
    - `memgrad passport poly:2 exp:0.9 p=inf --at 1e6 --json`
    """
    memories = [each.memory for each in memory if each.memory is not None]
    # Next to a mixture, memories are shown as mixtures of one part, so that all columns have the same rows.
    passports = [_with_progress(each, at) for each in (memories if len(memories) == len(memory) else memory)]
    if as_json:
        print_json([each.to_dict() for each in passports])
        return
    columns = [each.rows() for each in passports]
    rows = [(what, *(column[i][1] for column in columns)) for i, (what, _) in enumerate(columns[0])]
    show(("", *rows[0][1:]), rows[1:])


def _with_progress(memory: Memory | Mixture, k: int) -> Passport | MixturePassport:
    """The passport, with a progress bar if it may take long."""
    with progress_bar(f"passport of {memory}", shown=k > 10**7) as report:
        return memory.passport(k, progress=report)


def plot_memories(
    memory: Annotated[
        list[Mixture] | None,
        typer.Argument(
            parser=as_mixture,
            metavar="MEMORY",
            help="Text forms of memories or mixtures [default: the paper's table].",
        ),
    ] = None,
    time: Annotated[float | None, typer.Option(help="The time t of the step.", show_default="6")] = None,
    at: Annotated[
        int | None,
        count(
            "Draw the weights of all gradients at this step k instead, with their gain.",
            "K",
            show_default="100 for mixtures",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write: .png, .svg or .pdf.")] = Path("memory_types.png"),
) -> None:
    """Draw the influence of past gradients on the step at time t, or their weights in step K.

    The first is the paper's figure of memory types. Mixtures, and all memories with --at, are drawn by the weights of
    all gradients, whose sum is the gain.

    For example:

    - `memgrad plot memories --out memory_types.pdf`
    - `memgrad plot memories poly:2 exp:0.9 --time 50`
    - `memgrad plot memories "inst + (1+k)^0.15*poly:8" exp:0.9 --at 100`
    """
    from memgrad import figures

    chosen = {str(each): each for each in memory or []}
    memories = {name: each.memory for name, each in chosen.items() if each.memory is not None}
    if at is None and len(memories) == len(chosen):
        figure = figures.memory_types(memories or None, t=6.0 if time is None else time)
    else:
        _check_weights(chosen, time, at)
        figure = figures.mixture_weights(chosen, k=100 if at is None else at)
    typer.echo(f"wrote {figures.save(figure, out)}")


def _check_weights(chosen: Mapping[str, Mixture], time: float | None, at: int | None) -> None:
    """Refuse arguments for which no weights can be drawn."""
    if time is not None:
        raise ValueError(
            f"weights are drawn at a step, given by --at, not at a time, got --time {time:g}: leave it out. "
            f"Only memories without gain, and without --at, are drawn at a time."
        )
    if not chosen:
        raise ValueError(f"--at draws the weights of the memories that are given, got --at {at} and no memory.")
    if at is not None and at > MOST_DRAWN:
        raise ValueError(f"--at draws each of the k + 1 weights, for k of at most {MOST_DRAWN}, got {at}.")
