"""The command that computes exact risks on power-law problems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memgrad.cli.layout import print_json, show
from memgrad.cli.options import AsJson, BatchSize, LabelNoise, Nu, Zeta, as_numbers, check_outputs, count
from memgrad.cli.terminal import progress_bar

if TYPE_CHECKING:
    from memgrad.dynamics import Risk
    from memgrad.figures import Curve

SHARES = 8
"""Without --lr, the learning rates are this many halvings of the largest at which SGD converges."""


LARGEST = 10**9
"""The largest number of steps of all settings: about twenty minutes of processor time."""


def risk(
    methods: Annotated[
        list[str],
        typer.Argument(metavar="METHOD", help="A memory, a mixture or a method without a second memory."),
    ],
    nu: Nu = 1.5,
    zeta: Zeta = 0.5,
    lr: Annotated[
        str | None,
        typer.Option(help="Comma-separated learning rates [default: halvings of SGD's largest].", show_default=False),
    ] = None,
    steps: Annotated[int, count("How many steps, also as 1e6.")] = 10_000,
    batch: BatchSize = 1,
    noise: LabelNoise = 0.0,
    out: Annotated[Path | None, typer.Option(help="Write the risks over the steps: .csv or .parquet.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw them: .png, .svg or .pdf.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the exact expected risk of methods on streaming least squares with a power-law spectrum.

    Each method is shown at its best learning rate, with the exponent of its last decade and what theory predicts.
    The exit code is 1 if a method diverges at all of them.

    For example:

    - `memgrad risk inst poly:8 "inst + 0.1*(1+k)^0.33*poly:4" --steps 6e4 --figure risk.png`
    - `memgrad risk "sum*exp:0.9" inst --nu 2 --zeta 0.4 --batch 16 --noise 0.1 --lr 0.01,0.03,0.1 --json`
    """
    from memgrad import dynamics, figures, tables

    if len(set(methods)) < len(methods):
        raise ValueError(f"each method is computed once, got {', '.join(methods)}.")
    spectrum = dynamics.Spectrum.power_law(nu, zeta)
    limit = dynamics.sgd_limit(spectrum, batch=batch)
    if lr is None:
        rates = [limit * 0.5**i for i in range(1, SHARES + 1)]
    else:
        rates = as_numbers(lr, f"learning rates are numbers with commas between, got --lr {lr!r}.")
    if len(methods) * len(rates) * steps > LARGEST:
        raise ValueError(
            f"{len(methods) * len(rates)} settings of {steps:.3g} steps take too long: the limit is "
            f"{LARGEST:.0e} steps in all: take fewer --steps, or fewer learning rates."
        )
    check_outputs(table=out, figure=figure)
    with progress_bar(f"{len(methods) * len(rates)} settings") as report:
        found = dynamics.exact_risk(methods, spectrum, lr=rates, steps=steps, batch=batch, noise=noise, progress=report)
    rows, curves = _rows(found, methods, nu, zeta)
    about = {"nu": nu, "zeta": zeta, "steps": steps, "batch": batch, "noise": noise, "sgd_limit": limit}
    if as_json:
        print_json({**about, "methods": rows})
    else:
        show(tuple(rows[0]), [[_cell(value) for value in row.values()] for row in rows])
        typer.echo(f"SGD converges for learning rates below {limit:.4g}.")
    if out is not None:
        columns = {"k": found.k} | {name: curve.risk for name, curve in curves.items()}
        typer.echo(f"wrote {tables.write_table(columns, out, about=about)}", err=as_json)
    if figure is not None:
        words = f"nu = {nu:g}, zeta = {zeta:g}, batch {batch}, label noise {noise:g}"
        typer.echo(f"wrote {figures.save(figures.risk_curves(curves, caption=words), figure)}", err=as_json)
    if any(row["diverged at step"] is not None for row in rows):
        raise typer.Exit(1)


def _rows(found: Risk, names: list[str], nu: float, zeta: float) -> tuple[list[dict[str, Any]], dict[str, Curve]]:
    from memgrad.dynamics import fit_exponent, kappa_of, predicted_exponent
    from memgrad.dynamics.exponents import SLACK
    from memgrad.figures import Curve

    rows, curves = [], {}
    for i, name in enumerate(names):
        diverged = bool((found.diverged_at[i] >= 0).all())
        j = int(found.diverged_at[i].argmax()) if diverged else found.best([i])[1]
        kappa = kappa_of(found.methods[i].mixture)
        theory = None
        if kappa is not None and 1 / nu - SLACK <= kappa <= 1 and not found.noise:
            theory = predicted_exponent(nu, zeta, kappa=kappa)
        last = found.k > 0
        exponent = None if diverged or last.sum() < 9 else fit_exponent(found.k, found.risk[i, j])
        rows.append(
            {
                "method": name,
                "lr": float(found.lr[j]),
                "final risk": None if diverged else float(found.final[i, j]),
                "exponent": None if exponent is None else exponent.value,
                "from": None if exponent is None else exponent.low,
                "to": None if exponent is None else exponent.high,
                "theory": theory,
                "diverged at step": int(found.diverged_at[i, j]) if diverged else None,
            }
        )
        curves[name] = Curve(found.k, found.risk[i, j], exponent)
    return rows, curves


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
