"""App. F: momentum and memory as ordinary differential equations on Su's quadratic, and how fast each loss falls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memgrad.dynamics import HeavyBallFlow, MemoryFlow, SecondOrder, solve
from memgrad.dynamics.responses import bessel
from memgrad.kinds import Array
from memgrad.memory import Exponential, Memory, Polynomial
from memgrad.memory.passport import Progress
from memgrad.paper.settings import OdesSettings
from memgrad.problems.objectives import Quadratic
from memgrad.tables import Columns

HEAVY_BALL_WINDOW = (1e2, 1e3)
MEMORY_WINDOW = (1e4, 1e6)
"""The windows in which slopes are fitted: late enough for the envelopes of Bessel functions, to about 1 %."""


@dataclass(frozen=True, eq=False)
class Descent:
    """One equation, solved.

    Attributes:
        label: The equation, such as `HB 3/t` or `MG poly:3`.
        kind: `momentum` or `memory`.
        forgetting: The name of the memory in the paper's table.
        power: q or p, or None for the exponential ones.
        path: The solution at evenly spaced times, to be drawn, shape (m, d).
        t: Times from 0.1 to the end, many to each oscillation, shape (n,).
        x: The solution at these times, shape (n, d).
        loss: f along it, shape (n,).
        exact_t: Times of the exact solution, shape (n,); empty where it has no closed form.
        exact_loss: f along the exact solution.
    """

    label: str
    kind: str
    forgetting: str
    power: float | None
    path: Array
    t: Array
    x: Array
    loss: Array
    exact_t: Array
    exact_loss: Array

    @property
    def expected_slope(self) -> float | None:
        """Of the envelope of the loss on a quadratic, in log-log: -q for momentum q/t, -(p - 1/2) for memory t^p."""
        if self.power is None:
            return None
        return -self.power if self.kind == "momentum" else 0.5 - self.power


@dataclass(frozen=True, eq=False)
class Odes:
    """The solutions of all equations of the paper's table, momentum first."""

    settings: OdesSettings
    descents: tuple[Descent, ...]

    def columns(self) -> Columns:
        """The losses of the figure, one equation under the other."""
        parts = [(each, each.t <= self.settings.loss_end) for each in self.descents]
        d = parts[0][0].x.shape[1]
        return {
            "equation": np.concatenate([np.full(inside.sum(), each.label) for each, inside in parts]),
            "t": np.concatenate([each.t[inside] for each, inside in parts]),
            **{f"x{i + 1}": np.concatenate([each.x[inside, i] for each, inside in parts]) for i in range(d)},
            "loss": np.concatenate([each.loss[inside] for each, inside in parts]),
        }


def momentum_and_memory_odes(settings: OdesSettings, *, progress: Progress | None = None) -> Odes:
    """Solve the equations of App. F: momentum with viscosity 1/t to 4/t, memory t to t^4, and the exponential ones.

    Example:
        >>> short = OdesSettings(powers=(3.0,), heavy_ball_end=20.0, memory_end=20.0, loss_end=20.0, path_end=20.0)
        >>> [each.label for each in momentum_and_memory_odes(short).descents]
        ['HB 3/t', 'HB exponential', 'MG t^3', 'MG exponential']
    """
    objective = Quadratic(settings.spectrum)
    names = {1.0: "constant", 2.0: "linear", 3.0: "quadratic", 4.0: "cubic"}
    chosen: list[tuple[str, float | None, Memory]] = [
        (names.get(p, f"degree {p:g}"), p, Polynomial(p)) for p in settings.powers
    ]
    chosen.append(("exponential", None, Exponential.from_alpha(settings.alpha)))
    found: list[Descent] = []
    for kind in ("momentum", "memory"):
        for forgetting, power, memory in chosen:
            if progress is not None:
                progress(len(found), 2 * len(chosen))
            found.append(_descend(settings, objective, kind, forgetting, power, memory))
    return Odes(settings, tuple(found))


def _fine_times(kind: str, end: float) -> Array:
    """Evenly spaced in log t at first, then as the oscillations are: in t for momentum, in sqrt(t) for memory."""
    power = 1.0 if kind == "momentum" else 0.5
    late = min(end, (HEAVY_BALL_WINDOW if kind == "momentum" else MEMORY_WINDOW)[0])
    early = np.geomspace(0.1, late, 4_000)
    if late == end:
        return early
    return np.concatenate(
        [early[:-1], np.linspace(late**power, end**power, 6_000 if kind == "momentum" else 24_000) ** (1 / power)]
    )


def exact_position(kind: str, power: float, curvature: Array, x0: Array, t: Array) -> Array:
    r"""The exact solution on a quadratic.

    It is $x_0 F_{(q+1)/2}(\lambda t^2/4)$ for momentum $q/t$ and $x_0 F_p(p \lambda t)$ for memory $t^p$.

    Args:
        kind: `momentum` or `memory`.
        power: q or p.
        curvature: The eigenvalues, shape (d,).
        x0: The start, shape (d,).
        t: Times, shape (n,).

    Example:
        >>> exact_position("memory", 1.5, np.array([1.0]), np.array([1.0]), np.array([np.pi**2 / 24]))  # sin(z)/z
        array([[0.63661977]])
    """
    t = t[:, None]
    if kind == "momentum":
        return x0 * bessel((power + 1) / 2, curvature * t**2 / 4)
    return x0 * bessel(power, power * curvature * t)


def fitted_slope(t: Array, loss: Array, window: tuple[float, float]) -> tuple[float, float, int]:
    """The slope of the envelope of a loss in log-log, fitted to its peaks in a window.

    Returns:
        The slope, its standard error, and the number of peaks; nan where there are fewer than three.

    Example:
        >>> t = np.geomspace(10, 1000, 50_000)
        >>> slope, _, peaks = fitted_slope(t, np.cos(t) ** 2 / t**2, (10, 1000))
        >>> round(slope, 2), peaks > 100
        (-2.0, True)
    """
    peak = (loss[1:-1] > loss[:-2]) & (loss[1:-1] >= loss[2:]) & (t[1:-1] >= window[0]) & (t[1:-1] <= window[1])
    n = int(peak.sum())
    if n < 3:
        return np.nan, np.nan, n
    x, y = np.log(t[1:-1][peak]), np.log(loss[1:-1][peak])
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    residual = y - y.mean() - slope * x
    return slope, float(np.sqrt(residual @ residual / (n - 2) / (x @ x))), n


def _descend(
    settings: OdesSettings, objective: Quadratic, kind: str, forgetting: str, power: float | None, memory: Memory
) -> Descent:
    equation: SecondOrder = (
        HeavyBallFlow(memory, gradient=objective.gradient)
        if kind == "momentum"
        else MemoryFlow(memory, gradient=objective.gradient)
    )
    what = "exponential" if power is None else f"{power:g}/t" if kind == "momentum" else f"t^{power:g}"
    end = settings.heavy_ball_end if kind == "momentum" else settings.memory_end
    even = np.linspace(0, settings.path_end, 2001)
    t = _fine_times(kind, settings.loss_end if power is None else end)
    times = np.unique(np.concatenate([even, t]))
    method = settings.stiff_method if power is None else settings.method
    solution = solve(equation, times, settings.x0, method=method, tolerances=settings.tolerances)
    if not solution.success:
        raise ArithmeticError(f"{equation} could not be solved: {solution.message}")
    x = solution.x[np.searchsorted(times, t)]
    exact_t = exact_loss = np.empty(0)
    if power is not None:
        exact_t = np.geomspace(0.1, settings.loss_end, 20_000)
        exact_x = exact_position(kind, power, np.array(settings.spectrum), np.array(settings.x0), exact_t)
        exact_loss = np.asarray(objective.value(exact_x))
    return Descent(
        label=f"{'HB' if kind == 'momentum' else 'MG'} {what}",
        kind=kind,
        forgetting=forgetting,
        power=power,
        path=solution.x[np.searchsorted(times, even)],
        t=t,
        x=x,
        loss=np.asarray(objective.value(x)),
        exact_t=exact_t,
        exact_loss=exact_loss,
    )
