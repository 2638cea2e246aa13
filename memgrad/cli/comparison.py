"""The command that compares the methods of an experiment, from the rows of a store."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memgrad.amounts import counted
from memgrad.cli.layout import print_json, show
from memgrad.cli.options import AsJson, FigureFile, SpecFile, StoreFolder, check_outputs, results_in, store_in

if TYPE_CHECKING:
    from memgrad.experiments.comparison import Comparison
    from memgrad.experiments.results import Results
    from memgrad.statistics import Estimate


def compare(
    spec: SpecFile,
    store: StoreFolder = None,
    metric: Annotated[
        str | None, typer.Option(help="The metric to compare [default: the one that selects step sizes, such as loss].")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="The method that the others are compared with [default: the first].")
    ] = None,
    reach: Annotated[
        float | None, typer.Option(help="Also say after how many steps each method reaches this value.")
    ] = None,
    out: FigureFile = None,
    log_steps: Annotated[bool, typer.Option("--log-steps", help="Draw steps on a logarithmic axis.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the methods of an experiment, each at its selected step size, with 95 % intervals over seeds.

    Differences are taken seed by seed: as ratios where all values are positive. P-values are from the paired
    t-test, without and with Holm's correction for the number of methods.

    For example:

    - `memgrad compare experiment.toml --out comparison.svg`
    - `memgrad compare experiment.toml --metric test_loss --reference AdamW --json`
    - `memgrad compare experiment.toml --metric validation_loss@poly:8 --reach 1.9`
    """
    from memgrad import figures

    check_outputs(figure=out)
    results = results_in(spec, store_in(store))
    name = results.spec.select.metric if metric is None else metric
    rows = results.compare(name, reference, reach=reach)
    beside = reference or results.methods[0]
    if as_json:
        print_json(
            {
                "experiment": results.spec.name,
                "problem": results.spec.problem,
                "metric": name,
                "reference": beside,
                "methods": [row.to_dict() for row in rows],
                "missing": len(results.missing()),
            }
        )
    else:
        _print(results, name, beside, rows, f"memgrad run {spec}" + (f" --store {store}" if store else ""))
    if out is not None:
        drawn = figures.comparison(results, name, log_steps=log_steps, caption=_caption(results))
        typer.echo(f"wrote {figures.save(drawn, out)}", err=as_json)


def _print(results: Results, metric: str, reference: str, rows: tuple[Comparison, ...], again: str) -> None:
    kind = "ratio" if rows[0].logarithmic else "difference"
    columns = {"method": [row.variant or row.method for row in rows], "step size": [f"{row.lr:g}" for row in rows]}
    if len({row.steps for row in rows}) > 1:
        columns["steps"] = [f"{row.steps:,}" for row in rows]
    columns |= {
        f"final {metric}": [str(row.final) for row in rows],
        f"{kind} to {reference}": [_shown(row.ratio if row.logarithmic else row.difference) for row in rows],
        "p": [_shown_p(row.p_value) for row in rows],
        "p (Holm)": [_shown_p(row.adjusted_p_value) for row in rows],
        "diverged": [str(row.diverged) for row in rows],
        "runs": [f"{row.finished}" + (f" of {row.planned}" if row.finished < row.planned else "") for row in rows],
    }
    if rows[0].reach is not None:
        columns[rows[0].reach.name] = [_shown(row.reach and replace(row.reach, name="")) for row in rows]
    title = f"{results.spec.name}: {results.spec.problem}"
    show([*columns], [*zip(*columns.values(), strict=True)], title=title, prose={"method"})
    without = [method.name for method in results.spec.methods if method.name not in {row.method for row in rows}]
    if missing := len(results.missing()):
        typer.echo(f"{counted(missing, 'run')} not finished: `{again}` resumes.", err=True)
    if edges := [f"{row.variant or row.method} at {row.lr:g}" for row in rows if row.at_edge]:
        typer.echo(f"At the edge of the step sizes tried, a better one may lie beyond: {', '.join(edges)}.", err=True)
    if apart := [row.method for row in rows if row.difference is not None and row.difference.n == 0]:
        typer.echo(
            f"No finished seed in common with {reference}: {', '.join(apart)}. Pass --reference with another method.",
            err=True,
        )
    if without:
        typer.echo(f"Left out, because no step size is selected: {', '.join(without)}.", err=True)


def _shown(estimate: Estimate | None) -> str:
    return "" if estimate is None else str(estimate)


def _shown_p(p: float) -> str:
    return "" if math.isnan(p) else "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def _caption(results: Results) -> str:
    spec = results.spec
    length = f"{spec.steps:,} steps" if spec.steps is not None else f"{spec.epochs:,} epochs"
    return f"{Path(spec.problem).name}, {length}, {len(spec.seed_numbers)} seeds"
