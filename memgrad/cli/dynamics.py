"""Commands that simulate memory in continuous time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from memgrad.cli.terminal import as_count, progress_bar, refusing

if TYPE_CHECKING:
    from memgrad.dynamics import Ensemble, Equation, Moments
    from memgrad.problems.objectives import Objective


def simulate(
    flow: Annotated[
        list[str],
        typer.Argument(
            metavar="FLOW...",
            help="A memory (poly:3), a heavy ball's viscosity (3/t or 0.5), gd, or amplified; several share noise.",
        ),
    ],
    objective: Annotated[
        str, typer.Option(help="The function by name, such as su, quadratic:1,0.1 or quartic.")
    ] = "su",
    start: Annotated[str, typer.Option(help="The first position: d numbers, or one for all coordinates.")] = "1",
    noise: Annotated[float, typer.Option(help="The standard deviation sigma of the noise, >= 0.")] = 0.02,
    paths: Annotated[int, typer.Option(parser=as_count, metavar="N", help="How many paths, also as 1e6.")] = 1000,
    until: Annotated[float, typer.Option(help="The end of the time.")] = 100.0,
    dt: Annotated[float, typer.Option(help="The time step.")] = 0.01,
    seed: Annotated[int, typer.Option(help="The seed of the noise.")] = 0,
    scheme: Annotated[str, typer.Option(help="exact, splitting, euler-maruyama or milstein.")] = "exact",
    out: Annotated[Path | None, typer.Option(help="Write the summary over time: .csv or .parquet.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")] = None,
) -> None:
    """Simulate stochastic flows with memory, next to their exact moments on quadratics.

    For example:

    - `memgrad simulate poly:3 3/t --until 300 --figure amplification.png` is the paper's comparison with Nesterov's SDE
    - `memgrad simulate poly:2 exp:0.9 gd --objective quartic --noise 0.5 --until 20 --out quartic.csv`
    - `memgrad simulate poly:2 --paths 1e6 --until 5`
    """
    with refusing():
        from memgrad import dynamics, figures, tables
        from memgrad.problems.objectives import Objective

        chosen = Objective.parse(objective)
        x0 = _coordinates(start, chosen.dimension)
        equations = {name: _equation(name, chosen, noise) for name in flow}
        if len(equations) < len(flow):
            raise ValueError(f"each flow is simulated once, got {', '.join(flow)}.")
        # Before anything is computed: what cannot be written is said at once.
        if out is not None:
            tables.table_path(out)
        if figure is not None:
            figures.figure_path(figure)
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
        exact = {name: moments for name in equations if (moments := _exact(equations[name], found[0].t, x0))}
        _print(simulated, exact, chosen)
        if out is not None:
            typer.echo(f"wrote {tables.write_table(_columns(simulated), out, about=_about(simulated, objective))}")
        if figure is not None:
            typer.echo(f"wrote {figures.save(figures.ensembles(simulated, exact), figure)}")
    if not all(ensemble.success for ensemble in found):
        raise typer.Exit(1)


def _coordinates(text: str, d: int) -> list[float]:
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"a position is one number or {d} numbers with commas between, got {text!r}.") from None
    if len(numbers) not in (1, d):
        raise ValueError(f"a position needs one number or {d} of them, got {len(numbers)} in {text!r}.")
    return numbers * (d if len(numbers) == 1 else 1)


def _equation(text: str, objective: Objective, noise: float) -> Equation:
    from memgrad import dynamics
    from memgrad.memory import Memory
    from memgrad.problems.objectives import Quadratic

    hessian = objective.hessian(objective.minimiser) if isinstance(objective, Quadratic) else None
    given: dict[str, Any] = {"gradient": objective.gradient, "noise": noise, "hessian": hessian}
    if text in ("gd", "amplified"):
        return (dynamics.GradientFlow if text == "gd" else dynamics.AmplifiedFlow)(**given)
    if text.endswith("/t") or text.replace(".", "", 1).isdigit():
        return dynamics.HeavyBallFlow(text, **given)
    return dynamics.MemoryFlow(Memory.parse(text), **given)


def _exact(equation: Equation, t: Any, x0: list[float]) -> Moments | None:
    """The exact moments, where the function is a quadratic."""
    from memgrad import dynamics

    return None if equation.hessian is None else dynamics.moments(equation, t, x0)


def _print(simulated: dict[str, Ensemble], exact: dict[str, Moments], objective: Objective) -> None:
    end = next(iter(simulated.values())).t[-1]
    table = Table("flow", f"mean of f - f* at t={end:g}", "exact", "sd of X1", "exact", "sd of V1", "exact")
    for name, found in simulated.items():
        f = found.observed["f"]
        error = 1.96 * f.sd[-1] / found.paths**0.5
        loss = sd_x = sd_v = ""
        if known := exact.get(name):
            x = objective.minimiser
            loss = f"{known.expected_loss(objective.hessian(x), x)[-1]:.4g}" if x is not None else ""
            sd_x, sd_v = (f"{variance[-1, 0] ** 0.5:.4g}" for variance in (known.var_x, known.var_v))
        sds = [f"{variance[-1, 0] ** 0.5:.4g}" for variance in (found.var_x, found.var_v)]
        table.add_row(name, f"{f.mean[-1]:.4g} ± {error:.2g}", loss, sds[0], sd_x, sds[1], sd_v)
    console = Console()
    console.print(table)
    for name, found in simulated.items():
        if not found.success:
            console.print(f"{name}: {found.message}", style="bold red")


def _columns(simulated: dict[str, Ensemble]) -> dict[str, Any]:
    """One table for all flows: the time, and the columns of each with its name before them."""
    import numpy as np

    tables = {name: found.columns() for name, found in simulated.items()}
    names = list(next(iter(tables.values())))
    long = {column: np.concatenate([table[column] for table in tables.values()]) for column in names}
    return {"flow": np.repeat(list(tables), [len(table["t"]) for table in tables.values()]), **long}


def _about(simulated: dict[str, Ensemble], objective: str) -> dict[str, Any]:
    return {"objective": objective, "flows": {name: found.provenance() for name, found in simulated.items()}}
