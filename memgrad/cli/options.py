"""Arguments and options that several commands share, how their text is read, and the store and engine they name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memgrad.cli.terminal import refusing
from memgrad.memory import Mixture

if TYPE_CHECKING:
    from memgrad.experiments.results import Results
    from memgrad.experiments.storing.store import Store
    from memgrad.experiments.training.engines.engine import Engine

MEMORY = "A text form, such as poly:2 or 'inst + (1+k)^0.15*poly:8'."
"""The help of an argument that is a memory or a mixture."""


def as_mixture(text: str) -> Mixture:
    """The mixture with this text form; a memory is a mixture of one part."""
    with refusing():
        return Mixture.parse(text)


def as_count(text: str | int) -> int:
    """A count >= 0, such as 1000 or 1e6."""
    with refusing():
        text = str(text)  # typer parses an option's default too, which is a number
        try:
            number = int(text) if text.strip().lstrip("+-").isdigit() else float(text)
        except ValueError:
            number = float("nan")
        if not (0 <= number < float("inf") and number == int(number)):
            raise ValueError(f"a count is an integer >= 0, such as 1000 or 1e6, got {text!r}.")
        return int(number)


def as_numbers(text: str, rule: str) -> list[float]:
    """Numbers separated by commas; the rule is the error if they are not."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(rule) from None


def count(words: str, metavar: str = "N", **options: Any) -> Any:
    """An option that is a count, with its help."""
    return typer.Option(parser=as_count, metavar=metavar, help=words, **options)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; infinite and undefined numbers are null.")]
FigureFile = Annotated[Path | None, typer.Option(help="Write a figure: .png, .svg or .pdf.")]
ProblemName = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM", help="file.py, file.py:function, module:function, or a name such as fashion-mlp."
    ),
]
Sample = Annotated[bool, typer.Option("--sample", help="Use the data sample that comes with memgrad.")]
SpecFile = Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The experiment; `memgrad init` writes one.")]
StoreFolder = Annotated[
    Path | None, typer.Option("--store", help="The folder of the store [default: $MEMGRAD_STORE or memgrad-store].")
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Number of processes, each with one thread [default: one per core].")
]
EngineName = Annotated[str, typer.Option(help="local, or ray (extra `ray`).")]
Address = Annotated[
    str | None, typer.Option(help="Address of a Ray cluster: auto, or host:port of its head [default: start one].")
]
Device = Annotated[str | None, typer.Option(help="Where to train, such as cuda [default: cpu].")]
SaveEvery = Annotated[float, typer.Option(min=0.0, help="Seconds between the checkpoints of a group of runs.")]

# The power-law problems of `memgrad risk` and `memgrad design`.
Nu = Annotated[float, typer.Option(help="The eigenvalues are j^-nu, nu > 1.")]
Zeta = Annotated[float, typer.Option(help="Exponent zeta > 0: SGD's risk falls as k^-zeta.")]
LabelNoise = Annotated[float, typer.Option(help="The standard deviation of the label noise, >= 0.")]
BatchSize = Annotated[int, count("The batch size.")]


def store_in(folder: Path | None, *, create: bool = False) -> Store:
    """The store in a folder, or the default one."""
    from memgrad.experiments.storing.folder import default_path
    from memgrad.experiments.storing.store import Store

    return Store.open(folder or default_path(), create=create)


def results_in(spec: Path, store: Store) -> Results:
    """The results that a store has for the experiment in a file."""
    from memgrad.experiments.driver import results_of
    from memgrad.experiments.planning.spec import Spec

    return results_of(Spec.load(spec), store)


def chosen_engine(name: str, workers: int | None, address: str | None) -> Engine:
    """The engine with this name."""
    if name == "local":
        if address is not None:
            raise ValueError(f"--address is for --engine ray, got --engine local --address {address}.")
        from memgrad.experiments.training.engines.local import LocalEngine

        return LocalEngine(workers)
    if name == "ray":
        from memgrad.experiments.training.engines.ray import RayEngine

        return RayEngine(address, workers)
    raise ValueError(f"the engine is local or ray, got {name!r}.")


def check_outputs(*, table: Path | None = None, figure: Path | None = None, text: Path | None = None) -> None:
    """Refuse a file to write, by its extension and its folder, before anything is computed."""
    for path in (each for each in (table, figure, text) if each is not None):
        there = next(parent for parent in path.absolute().parents if parent.exists())  # missing folders are created
        if path.is_dir() or not there.is_dir() or not os.access(there, os.W_OK):
            why = "it is a folder" if path.is_dir() else f"{there} is not a folder in which you may write"
            raise ValueError(f"{path} cannot be written: {why}; name another file.")
    if table is not None:
        from memgrad.tables import table_path

        table_path(table)
    if figure is not None:
        from memgrad.figures import figure_path

        figure_path(figure)
