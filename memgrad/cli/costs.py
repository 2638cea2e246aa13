"""What experiments will cost: measured by training a little of them, and printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from memgrad.amounts import counted, duration
from memgrad.cli.layout import show

if TYPE_CHECKING:
    from memgrad.experiments.planning.preview import Preview
    from memgrad.experiments.planning.spec import Spec
    from memgrad.experiments.storing.store import Store


def measured(
    spec: Spec, store: Store | None, workers: int | None, *, of: str = "", device: str | None = None
) -> Preview:
    """The runs of an experiment and their expected cost; a terminal says that it is being measured."""
    from memgrad.experiments.planning.preview import preview
    from memgrad.experiments.training.engines.engine import keep_freed_memory
    from memgrad.experiments.training.engines.local import usable_cores

    keep_freed_memory()  # as workers do: without it the autoencoder seems to take up to 1.4 times as long
    with Console(stderr=True).status(f"Measuring the training speed{of} ..."):
        return preview(spec, store, workers=workers or usable_cores(), device=device)


def show_costs(specs: Iterable[Spec], store: Store | None, workers: int | None, scale: str) -> dict[str, float]:
    """Print what is left to train and its expected cost; return the seconds of each experiment by its name."""
    from memgrad.experiments.training.engines.local import usable_cores
    from memgrad.problems.datasets import DatasetUnavailable

    seconds, rows = {}, []
    for spec in specs:
        seconds[spec.name] = 0.0
        try:
            found = measured(spec, store, workers, of=f" of {spec.name}")
        except DatasetUnavailable as error:
            rows.append((spec.name, str(error), "", ""))
            continue
        if found.cost is not None:
            seconds[spec.name] = found.cost.seconds
        rows.append((spec.name, found.title, f"{found.left} of {found.runs}", duration(seconds[spec.name])))
    title = f"Left to train, {scale}, on {counted(workers or usable_cores(), 'worker')}"
    show(("experiment", "what", "runs left", "time"), rows, title=title, prose={"what"}, err=True)
    typer.echo(f"About {duration(sum(seconds.values()))} in total, on processors like this one.", err=True)
    return seconds
