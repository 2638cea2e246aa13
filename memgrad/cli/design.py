"""The command that designs a memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from memgrad.cli.layout import show
from memgrad.cli.options import AsJson, BatchSize, LabelNoise, Nu, Zeta, check_outputs, count
from memgrad.cli.terminal import progress_bar


def design(
    nu: Nu = 1.5,
    zeta: Zeta = 0.5,
    noise: LabelNoise = 0.0,
    batch: BatchSize = 1,
    steps: Annotated[int, count("How many steps, at least 16.")] = 1000,
    iterations: Annotated[int, count("Maximum number of iterations.")] = 400,
    out: Annotated[Path | None, typer.Option(help="Keep the design, with the method as text: .json.")] = None,
    as_json: AsJson = False,
) -> None:
    """Design the best memory for a power-law problem and a number of steps, beside a recipe and the named methods.

    For example:

    - `memgrad design --nu 1.5 --zeta 0.5 --batch 16 --steps 1000`
    - `memgrad design --nu 2 --noise 0.3 --steps 500 --out design.json`
    """
    from memgrad import theory
    from memgrad.files import written_whole
    from memgrad.tables import json_ready

    if out is not None and out.suffix != ".json":
        raise ValueError(f"a design is kept as JSON, in a file that ends in .json, got --out {str(out)!r}.")
    check_outputs(text=out)
    with progress_bar(f"design for {steps} steps") as report:
        found = theory.design(nu, zeta, noise=noise, batch=batch, steps=steps, iterations=iterations, progress=report)
    text = json.dumps(json_ready(found.to_dict()), indent=1)
    if as_json:
        typer.echo(text)
    else:
        rows = [
            (each.name, f"{each.risk:.4g}", f"{each.lr:.4g}", each.schedule, _short(str(each.method)))
            for each in (found.best, found.recipe, *found.named)
        ]
        show(("name", "risk", "lr", "schedule", "method"), rows, prose={"method"})
        gained = (
            f"{100 * found.gain:.1f} % below the best named method, of which the recipe keeps {100 * found.kept:.0f} %"
            if found.gain >= 0.001
            else f"not below the best named method, {found.named[0].name}: take that"
        )
        more = "" if found.converged else ", not converged: pass a larger --iterations"
        typer.echo(f"{gained}; {found.iterations} iterations{more}.")
    if out is not None:
        with written_whole(out) as unfinished:
            unfinished.write_text(text + "\n", encoding="utf-8")
        typer.echo(f"wrote {out}", err=as_json)


def _short(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:60]}... ({len(text)} characters; --out keeps them)"
