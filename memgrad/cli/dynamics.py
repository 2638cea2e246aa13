"""Commands that simulate memory in continuous time."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from memgrad.amounts import duration
from memgrad.cli.layout import show
from memgrad.cli.options import FigureFile, as_numbers, check_outputs, count
from memgrad.cli.terminal import progress_bar

if TYPE_CHECKING:
    from memgrad.dynamics import Ensemble, Moments
    from memgrad.problems.objectives import Objective


def simulate(
    flow: Annotated[
        list[str],
        typer.Argument(
            metavar="FLOW",
            help="A memory (poly:3), a heavy ball's viscosity (3/t or 0.5), gd, or amplified; several share noise.",
        ),
    ],
    objective: Annotated[
        str, typer.Option(help="The function by name, such as su, quadratic:1,0.1 or quartic.")
    ] = "su",
    start: Annotated[str, typer.Option(help="The first position: d numbers, or one for all coordinates.")] = "1",
    noise: Annotated[float, typer.Option(help="The standard deviation sigma of the noise, >= 0.")] = 0.02,
    paths: Annotated[int, count("Number of paths, such as 1e6.")] = 1000,
    until: Annotated[float, typer.Option(help="The final time.")] = 100.0,
    dt: Annotated[float, typer.Option(help="The time step.")] = 0.01,
    seed: Annotated[int, typer.Option(help="The seed of the noise.")] = 0,
    scheme: Annotated[str, typer.Option(help="exact, splitting, euler-maruyama or milstein.")] = "exact",
    out: Annotated[Path | None, typer.Option(help="Write the summary over time: .csv or .parquet.")] = None,
    figure: FigureFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Run even if it takes more than an hour.")] = False,
) -> None:
    """Simulate stochastic flows with memory, next to their exact moments on quadratics.

    For example:

    - `memgrad simulate poly:3 3/t --until 300 --figure amplification.png  # the paper's comparison`
    - `memgrad simulate poly:2 exp:0.9 gd --objective quartic --noise 0.5 --until 20 --out quartic.csv`
    - `memgrad simulate poly:2 --paths 1e6 --until 5`
    """
    from memgrad import dynamics, figures, tables
    from memgrad.dynamics.flows import joint_columns, parse_flow
    from memgrad.problems.objectives import Objective, Quadratic

    chosen = Objective.parse(objective)
    x0 = _coordinates(start, chosen.dimension)
    hessian = chosen.hessian(chosen.minimizer) if isinstance(chosen, Quadratic) else None
    equations = {name: parse_flow(name, chosen.gradient, noise=noise, hessian=hessian) for name in flow}
    if len(equations) < len(flow):
        raise ValueError(f"each flow is simulated once, got {', '.join(flow)}.")
    if not yes:
        _refuse_more_than_an_hour(len(equations), chosen.dimension, paths, until, dt)
    check_outputs(table=out, figure=figure)
    with progress_bar(f"{paths} paths") as report:
        found = dynamics.simulate_together(
            list(equations.values()),
            until,
            x0,
            paths=paths,
            dt=dt,
            seed=seed,
            scheme=scheme,
            quantiles=(0.05, 0.5, 0.95) if out is not None else (),  # a million paths take long to sort
            observe={"f": lambda x, _: chosen.value(x) - chosen.minimum},
            progress=report,
        )
    simulated = dict(zip(equations, found, strict=True))
    exact = {
        name: dynamics.moments(equation, found[0].t, x0)
        for name, equation in equations.items()
        if equation.hessian is not None
    }
    _print(simulated, exact, chosen)
    if out is not None:
        about = {"objective": objective, "flows": {name: each.provenance() for name, each in simulated.items()}}
        typer.echo(f"wrote {tables.write_table(joint_columns(simulated), out, about=about)}")
    if figure is not None:
        typer.echo(f"wrote {figures.save(figures.ensembles(simulated, exact), figure)}")
    overflown = [name for name, each in simulated.items() if each.success and not isfinite(each.observed["f"].mean[-1])]
    for name in overflown:
        typer.echo(f"{name}: f - f* is too large to compute with; start nearer to the minimum.", err=True)
    if overflown or not all(ensemble.success for ensemble in found):
        raise typer.Exit(1)


def _refuse_more_than_an_hour(flows: int, d: int, paths: int, until: float, dt: float) -> None:
    """Refuse a simulation of more than an hour, and say how long it would take."""
    from memgrad.dynamics.flows import expected_seconds

    if not (dt > 0 and until > 0):
        return  # the simulation raises a better error
    steps = until / dt
    seconds = expected_seconds(flows, steps=steps, paths=paths, dimension=d)
    if seconds > 3600:
        raise ValueError(
            f"--until {until:g} with --dt {dt:g} is {steps:.3g} steps of {paths} paths, about {duration(seconds)}, and "
            f"the limit is one hour: take a larger --dt, a smaller --until or fewer --paths, or pass --yes."
        )


def _coordinates(text: str, d: int) -> list[float]:
    numbers = as_numbers(text, f"a position is one number or {d} numbers separated by commas, got {text!r}.")
    if len(numbers) not in (1, d):
        raise ValueError(f"a position needs one number or {d} of them, got {len(numbers)} in {text!r}.")
    return numbers * (d if len(numbers) == 1 else 1)


def _print(simulated: dict[str, Ensemble], exact: dict[str, Moments], objective: Objective) -> None:
    from memgrad.statistics import of_mean

    end = next(iter(simulated.values())).t[-1]
    columns = ("flow", f"mean of f - f* at t={end:g}", "exact", "sd of X1", "exact", "sd of V1", "exact")
    rows = []
    for name, found in simulated.items():
        f = found.observed["f"]
        mean = of_mean(f.mean[-1], f.sd[-1], found.paths)
        loss = sd_x = sd_v = ""
        if known := exact.get(name):
            x = objective.minimizer
            loss = f"{known.expected_loss(objective.hessian(x), x)[-1]:.4g}" if x is not None else ""
            sd_x, sd_v = (f"{variance[-1, 0] ** 0.5:.4g}" for variance in (known.var_x, known.var_v))
        sds = [f"{variance[-1, 0] ** 0.5:.4g}" for variance in (found.var_x, found.var_v)]
        rows.append((name, f"{mean.value:.4g} ± {mean.high - mean.value:.2g}", loss, sds[0], sd_x, sds[1], sd_v))
    show(columns, rows)
    console = Console()
    for name, found in simulated.items():
        if not found.success:
            console.print(f"{name}: {found.message}", style="bold red", markup=False)
