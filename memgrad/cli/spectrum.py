"""The command that measures a problem."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memgrad.cli.layout import show
from memgrad.cli.options import AsJson, ProblemName, Sample, check_outputs, count
from memgrad.cli.terminal import progress_bar

if TYPE_CHECKING:
    from memgrad.experiments.measuring.measure import Measured


def spectrum(
    problem: ProblemName,
    sample: Sample = False,
    steps: Annotated[int, count("SGD steps before measuring; 0 leaves zeta out.")] = 300,
    lr: Annotated[
        float | None, typer.Option(help="Their learning rate [default: set by the curvature].", show_default=False)
    ] = None,
    batch: Annotated[int | None, count("The batch size [default: the problem's].", show_default=False)] = None,
    rows: Annotated[int, count("Maximum number of examples for curvature and noise.")] = 2000,
    matrix: Annotated[str, typer.Option(help="gauss-newton or hessian.")] = "gauss-newton",
    probes: Annotated[int, count("Number of random vectors.")] = 5,
    lanczos: Annotated[int, count("Products per random vector.")] = 80,
    seeds: Annotated[int, count("Number of loss curves.")] = 3,
    seed: Annotated[int, count("Seed of all random numbers.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Where the result is kept [default: NAME.spectrum.json].", show_default=False),
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing result.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a problem: the decay nu of its curvature, its gradient's noise, and zeta of its loss curve.

    The result is kept as JSON. `memgrad risk --nu ... --zeta ...` says what these numbers mean for a memory.

    For example:

    - `memgrad spectrum my_problem.py --figure spectrum.png`
    - `memgrad spectrum fashion-mlp --sample --steps 500 --rows 500`
    - `memgrad spectrum my_problem.py:problem --matrix hessian --steps 0 --probes 10 --out mine.json`
    """
    from memgrad.extras import require

    require("memgrad spectrum", extra="torch", modules=("torch",))
    from memgrad import figures, problems
    from memgrad.experiments.measuring.measure import measure
    from memgrad.files import written_whole

    check_outputs(figure=figure)
    chosen = problems.get(problem, sample=sample)
    kept = Path(f"{_file_name(chosen.name)}.spectrum.json") if out is None else out
    if kept.suffix != ".json":
        raise ValueError(f"the result is kept as JSON, in a file that ends in .json, got --out {str(kept)!r}.")
    if kept.exists() and not force:
        raise ValueError(f"{kept} already exists; pass --force to overwrite it, or --out for another place.")
    check_outputs(text=kept)
    with progress_bar(f"measuring {chosen.name}") as report:
        found = measure(
            chosen,
            steps=steps,
            lr=lr,
            batch_size=batch,
            rows=rows,
            matrix=matrix,
            probes=probes,
            lanczos_steps=lanczos,
            seeds=seeds,
            seed=seed,
            progress=report,
        )
    text = json.dumps(found.to_dict(), indent=1)
    with written_whole(kept) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")
    if as_json:
        typer.echo(text)
    else:
        _print(found)
    typer.echo(f"wrote {kept}", err=as_json)
    if figure is not None:
        typer.echo(f"wrote {figures.save(figures.measured_spectrum(found), figure)}", err=as_json)


def _print(found: Measured) -> None:
    rows = {"parameters": f"{found.dimension}", "learning rate": f"{found.lr:.4g}"}
    if len(found.eigenvalues):
        rows["largest eigenvalue"] = f"{found.eigenvalues[0]:.4g}"
    rows["eigenvalues known to 0.1 %"] = f"{len(found.eigenvalues)}"
    rows["smallest Ritz value"] = f"{found.smallest:.4g}"
    for each in found.estimates:
        rows[each.name] = str(replace(each, name=""))
    rows["floor of the loss curve"] = f"{found.floor:.4g}"
    examples = f"{found.rows} examples, after {found.steps} steps of batch {found.batch_size}"
    show(("number", "value"), [*rows.items()], title=f"{found.problem}: {found.matrix}, {examples}")


def _file_name(name: str) -> str:
    return "".join(mark if mark.isalnum() or mark in "-_." else "-" for mark in name) or "problem"
