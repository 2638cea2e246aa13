"""The command that compares the methods of an experiment, from what is in a store."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from memgrad.cli.experiments import SpecFile, StoreFolder
from memgrad.cli.terminal import AsJson, refusing

if TYPE_CHECKING:
    from memgrad.experiments.results import Comparison, Results
    from memgrad.experiments.store import Store
    from memgrad.statistics import Interval


def compare(
    spec: SpecFile,
    store: StoreFolder = None,
    metric: Annotated[
        str | None, typer.Option(help="What is compared [default: what selects step sizes, such as loss].")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="The method the others are compared with [default: the first].")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")] = None,
    log_steps: Annotated[bool, typer.Option("--log-steps", help="Draw steps on a logarithmic axis.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the methods of an experiment, each at its selected step size, with 95 % intervals over seeds.

    Differences are taken seed by seed: as ratios where all values are positive. P-values are those of the paired
    t-test, and with Holm's correction for the number of methods.

    For example:

    - `memgrad compare experiment.toml --out comparison.svg`
    - `memgrad compare experiment.toml --metric test_loss --reference AdamW --json`
    """
    with refusing():
        from memgrad import figures, tables

        if out is not None:
            figures.figure_path(out)  # before anything is read: what cannot be written is said at once
        results = results_in(spec, opened(store))
        name = metric or results.spec.select.metric
        rows = results.compare(name, reference)
        beside = reference or results.methods[0]
        if as_json:
            typer.echo(json.dumps(tables.json_ready(_as_dict(results, name, beside, rows)), indent=2))
        else:
            _print(results, name, beside, rows, spec)
        if out is not None:
            drawn = figures.comparison(results, name, log_steps=log_steps, caption=_caption(results))
            typer.echo(f"wrote {figures.save(drawn, out)}", err=as_json)


def opened(folder: Path | None) -> Store:
    """The store in a folder that is there, or the usual one."""
    from memgrad.experiments.store import Store, default_path

    return Store.open(folder or default_path(), create=False)


def results_in(spec: Path, store: Store) -> Results:
    """What a store has of the experiment in a file."""
    from memgrad.experiments.driver import results_of
    from memgrad.experiments.spec import Spec

    return results_of(Spec.load(spec), store)


def _print(results: Results, metric: str, reference: str, rows: tuple[Comparison, ...], spec: Path) -> None:
    kind = "ratio" if rows[0].logarithmic else "difference"
    columns = ("method", "step size", f"final {metric}", f"{kind} to {reference}", "p", "p (Holm)", "diverged", "runs")
    table = Table(*map(escape, columns), title=escape(f"{results.spec.name}: {results.spec.problem}"))
    for row in rows:
        table.add_row(
            escape(row.method),
            f"{row.lr:g}",
            str(row.final),
            _shown(row.ratio if row.logarithmic else row.difference),
            _shown_p(row.p_value),
            _shown_p(row.adjusted_p_value),
            str(row.diverged),
            str(row.finished) if row.finished == row.planned else f"{row.finished} of {row.planned}",
        )
    Console().print(table)
    without = [method.name for method in results.spec.methods if method.name not in {row.method for row in rows}]
    if missing := len(results.missing()):
        typer.echo(f"{missing} runs are not finished: `memgrad run {spec}` goes on.", err=True)
    if without:
        typer.echo(f"Without a selected step size, and left out: {', '.join(without)}.", err=True)


def _shown(found: Interval | None) -> str:
    return "" if found is None else str(found)


def _shown_p(p: float) -> str:
    return "" if math.isnan(p) else "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def _caption(results: Results) -> str:
    spec = results.spec
    length = f"{spec.steps:,} steps" if spec.steps is not None else f"{spec.epochs:,} epochs"
    return f"{Path(spec.problem).name}, {length}, {len(spec.seed_numbers)} seeds"


def _as_dict(results: Results, metric: str, reference: str, rows: tuple[Comparison, ...]) -> dict[str, Any]:
    return {
        "experiment": results.spec.name,
        "problem": results.spec.problem,
        "metric": metric,
        "reference": reference,
        "methods": [row.as_dict() for row in rows],
        "missing": len(results.missing()),
    }
