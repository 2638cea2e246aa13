"""The paper's experiments with stochastic differential equations: what Nesterov's viscosity and memory do to noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memgrad.dynamics import HeavyBallFlow, MemoryFlow, SecondOrder, moments, simulate_together, solve, time_warp
from memgrad.kinds import Array
from memgrad.memory import Polynomial
from memgrad.memory.passport import Progress
from memgrad.paper.progress import stage
from memgrad.paper.settings import (
    AmplificationSettings,
    ConstantNoiseSettings,
    PairSettings,
    QuadraticNoiseSettings,
    SecondMomentsSettings,
    TimeWarpSettings,
)
from memgrad.problems.objectives import ConstantGradient, Objective, Quadratic
from memgrad.tables import Columns

MEMORY, NESTEROV = "memory", "nesterov"
"""The two methods compared in all experiments here, in this order."""


@dataclass(frozen=True, eq=False)
class NoisyDescent:
    """The descent of one equation: a path, its loss, and the expected loss.

    Attributes:
        x: One path, shape (n, d).
        loss: The loss along it, shape (n,).
        exact: The exact expected loss, shape (n,).
        mean: The mean loss over many other paths, shape (n,).
        error: Its standard error, shape (n,).
    """

    x: Array
    loss: Array
    exact: Array
    mean: Array
    error: Array


@dataclass(frozen=True, eq=False)
class Amplification:
    """MG-SDE and Nesterov's SDE, driven by the same noise, at the times t, shape (n,)."""

    settings: AmplificationSettings
    t: Array
    memory: NoisyDescent
    nesterov: NoisyDescent

    def columns(self) -> Columns:
        """The numbers behind the figure, as one table."""
        table: dict[str, NDArray[np.generic]] = {"t": self.t}
        for name, each in ((MEMORY, self.memory), (NESTEROV, self.nesterov)):
            table |= {f"{name}_x{i + 1}": each.x[:, i] for i in range(each.x.shape[1])}
            table |= {f"{name}_loss": each.loss, f"{name}_exact_mean_loss": each.exact}
            table |= {f"{name}_mean_loss": each.mean, f"{name}_mean_loss_se": each.error}
        return table


def hb_amplification(settings: AmplificationSettings, *, progress: Progress | None = None) -> Amplification:
    """Run Fig. HB_amplification: a path of each equation, the means of many, and the exact expected losses.

    Example:
        >>> found = hb_amplification(AmplificationSettings(end=2.0, dt=0.1, ensemble_dt=0.1, paths=10))
        >>> found.t[[0, 1, -1]], found.nesterov.x.shape
        (array([0. , 0.1, 2. ]), (21, 2))
    """
    objective = Quadratic(settings.spectrum)
    equations = contenders(settings, objective, settings.sigma)
    t = _record_times(settings.end, max(settings.dt, settings.ensemble_dt))
    drawn = simulate_together(
        equations,
        t,
        settings.x0,
        paths=1,
        dt=settings.dt,
        seed=settings.seed,
        scheme=settings.scheme,
        keep_paths=True,
        progress=stage(progress, 0, 2),
    )
    many = simulate_together(
        equations,
        t,
        settings.x0,
        paths=settings.paths,
        dt=settings.ensemble_dt,
        seed=settings.seed,
        observe={"f": lambda x, _: objective.value(x)},
        progress=stage(progress, 1, 2),
    )
    descents = []
    for equation, one, ensemble in zip(equations, drawn, many, strict=True):
        assert one.x is not None
        descents.append(
            NoisyDescent(
                x=one.x[:, 0],
                loss=np.asarray(objective.value(one.x[:, 0])),
                exact=exact_loss(equation, t, settings.x0),
                mean=ensemble.observed["f"].mean,
                error=ensemble.observed["f"].sd / np.sqrt(settings.paths),
            )
        )
    return Amplification(settings, t, *descents)


def exact_loss(equation: SecondOrder, t: Array, x0: tuple[float, ...]) -> Array:
    """The exact expected loss of an equation on a quadratic whose minimum is 0, at times t.

    Example:
        >>> _, nesterov = contenders(PairSettings(), Quadratic((0.04, 0.01)), 0.02)
        >>> exact_loss(nesterov, np.array([0.0, 50.0, 100.0, 300.0]), (1.0, 1.0)).round(5)
        array([0.025  , 0.00247, 0.00494, 0.01498])
    """
    return moments(equation, t, x0).expected_loss(equation.curvature)


@dataclass(frozen=True, eq=False)
class TimeWarping:
    r"""Memory and Nesterov's equation, without noise and with it.

    Attributes:
        settings: The settings.
        t: Times of both equations, shape (n,).
        memory_x: The solution of MG-ODE at these times, shape (n, d).
        nesterov_x: The solution of Nesterov's ODE at these times.
        warped_x: The solution of MG-ODE at $\tau(t)$, the same path at Nesterov's speed.
        memory_noisy: A path of MG-SDE.
        nesterov_noisy: A path of Nesterov's SDE, driven by the same Brownian motion.
    """

    settings: TimeWarpSettings
    t: Array
    memory_x: Array
    nesterov_x: Array
    warped_x: Array
    memory_noisy: Array
    nesterov_noisy: Array

    @property
    def distance(self) -> float:
        """The largest distance between Nesterov's solution and the warped one of memory."""
        return float(np.abs(self.nesterov_x - self.warped_x).max())

    def columns(self) -> Columns:
        """The numbers behind the figure, as one table."""
        parts = ("memory_x", "nesterov_x", "warped_x", "memory_noisy", "nesterov_noisy")
        d = self.memory_x.shape[1]
        return {"t": self.t} | {f"{name}{i + 1}": getattr(self, name)[:, i] for name in parts for i in range(d)}


def time_warping(settings: TimeWarpSettings, *, progress: Progress | None = None) -> TimeWarping:
    r"""Run Fig. timewarp: linear memory sped up by $\tau = t^2/8$ is Nesterov's equation; with noise it is not.

    With noise the two cannot be identical: the warp turns a Brownian motion in $\tau$ into one in $t$ with a volatility
    that grows, and neither the same motion nor the same volatility is left.

    Example:
        >>> found = time_warping(TimeWarpSettings(end=2.0, dt=0.01))
        >>> found.distance < 1e-8
        True
    """
    objective = Quadratic(settings.spectrum)
    t = _record_times(settings.end, settings.dt)
    memory_x, warped_x, nesterov_x = warped_solutions(settings, objective, t)
    noisy = simulate_together(
        contenders(settings, objective, settings.sigma),
        t,
        settings.x0,
        paths=1,
        dt=settings.dt,
        seed=settings.seed,
        scheme=settings.scheme,
        keep_paths=True,
        progress=progress,
    )
    paths = [each.x[:, 0] for each in noisy if each.x is not None]
    return TimeWarping(settings, t, memory_x, nesterov_x, warped_x, *paths)


def warped_solutions(settings: TimeWarpSettings, objective: Objective, t: Array) -> tuple[Array, Array, Array]:
    r"""Without noise: memory at times t, memory at times $\tau(t)$, and the heavy ball at times t.

    Example:
        >>> from memgrad.problems.objectives import Quartic
        >>> _, warped, nesterov = warped_solutions(TimeWarpSettings(), Quartic(), np.arange(9.0))
        >>> bool(np.abs(warped - nesterov).max() < 1e-8)
        True
    """
    tau = time_warp(Polynomial(settings.degree)).memory_time(t)
    both = np.unique(np.concatenate([t, tau]))
    # Tighter than the library's tightest setting, because 1e-8 is claimed over some hundred oscillations.
    tight = (1e-12, 1e-14)
    memory_flow, nesterov_flow = contenders(settings, objective, 0.0)
    memory = solve(memory_flow, both, settings.x0, method="DOP853", tolerances=tight)
    nesterov = solve(nesterov_flow, t, settings.x0, method="DOP853", tolerances=tight)
    if not (memory.success and nesterov.success):
        raise ArithmeticError(f"the equations could not be solved: {memory.message} {nesterov.message}")
    return memory.x[np.searchsorted(both, t)], memory.x[np.searchsorted(both, tau)], nesterov.x


@dataclass(frozen=True, eq=False)
class VelocityNoise:
    """Mean and spread of a velocity over many runs, and exactly; arrays of shape (n,)."""

    mean: Array
    sd: Array
    exact_mean: Array
    exact_sd: Array


@dataclass(frozen=True, eq=False)
class Velocities:
    """The velocities of MG-SDE and Nesterov's SDE at the times t > 0, shape (n,)."""

    settings: ConstantNoiseSettings | QuadraticNoiseSettings
    t: Array
    memory: VelocityNoise
    nesterov: VelocityNoise

    def columns(self) -> Columns:
        """The numbers behind the figure, as one table."""
        table: dict[str, NDArray[np.generic]] = {"t": self.t}
        for name, each in ((MEMORY, self.memory), (NESTEROV, self.nesterov)):
            table |= {f"{name}_{part}": getattr(each, part) for part in ("mean", "sd", "exact_mean", "exact_sd")}
        return table


def velocities(
    settings: ConstantNoiseSettings | QuadraticNoiseSettings, *, progress: Progress | None = None
) -> Velocities:
    """Run Figs. verif_noise and verif_noise_quadratic: mean and standard deviation of the velocities.

    Example:
        >>> found = velocities(ConstantNoiseSettings(runs=10, dt=0.1))
        >>> found.nesterov.exact_mean[-1], found.nesterov.exact_sd[-1].round(3)  # -t/4 and 10 sqrt(t/7) at t = 5
        (np.float64(-1.25), np.float64(8.452))
        >>> found = velocities(QuadraticNoiseSettings(runs=10, dt=0.1))
        >>> bool(found.nesterov.exact_sd[-1] > 5 * found.memory.exact_sd[-1])
        True
    """
    objective: Objective
    if isinstance(settings, QuadraticNoiseSettings):
        objective, x0 = Quadratic((settings.curvature,)), settings.x0
    else:
        objective, x0 = ConstantGradient((settings.gradient,)), 0.0
    equations = contenders(settings, objective, settings.sigma)
    t = _record_times(settings.end, settings.dt)[1:]  # the velocity of memory has no finite variance at 0
    ensembles = simulate_together(
        equations,
        t,
        x0,
        paths=settings.runs,
        dt=settings.dt,
        seed=settings.seed,
        scheme=settings.scheme,
        progress=progress,
    )
    found = []
    for equation, ensemble in zip(equations, ensembles, strict=True):
        exact = moments(equation, t, x0)
        found.append(
            VelocityNoise(
                mean=ensemble.mean_v[:, 0],
                sd=np.sqrt(ensemble.var_v[:, 0]),
                exact_mean=exact.mean_v[:, 0],
                exact_sd=np.sqrt(exact.var_v[:, 0]),
            )
        )
    return Velocities(settings, t, *found)


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """E X^2, E XV and E V^2 of two equations, arrays of shape (n, 3).

    Attributes:
        settings: The settings.
        t: The times > 0, shape (n,).
        memory: MG-SDE, by the moment equations.
        memory_exact: MG-SDE, by the closed form.
        nesterov: Nesterov's SDE, by the moment equations.
    """

    settings: SecondMomentsSettings
    t: Array
    memory: Array
    memory_exact: Array
    nesterov: Array

    def columns(self) -> Columns:
        """The numbers behind the figure, as one table."""
        names = ("xx", "xv", "vv")
        parts = ("memory", "memory_exact", "nesterov")
        return {"t": self.t} | {
            f"{part}_{name}": getattr(self, part)[:, i] for part in parts for i, name in enumerate(names)
        }


def quadratic_variance(settings: SecondMomentsSettings) -> SecondMoments:
    """Compute Fig. quadratic_variance: the exact second moments on a quadratic.

    Example:
        >>> found = quadratic_variance(SecondMomentsSettings(end=0.5))
        >>> bool(np.allclose(found.memory, found.memory_exact, rtol=1e-6))
        True
    """
    memory, nesterov = contenders(settings, Quadratic((settings.curvature,)), settings.sigma)
    t = np.linspace(0, settings.end, 401)[1:]
    return SecondMoments(
        settings=settings,
        t=t,
        memory=_raw(memory, t, settings.x0, "moment equations"),
        memory_exact=_raw(memory, t, settings.x0, "closed form"),
        nesterov=_raw(nesterov, t, settings.x0, "moment equations"),
    )


def velocity_variance(settings: SecondMomentsSettings, t: Array) -> Array:
    """The exact variance of Nesterov's velocity at the times t.

    Example:
        >>> velocity_variance(SecondMomentsSettings(), np.array([20.0])).round(7)
        array([2.4975628])
    """
    _, nesterov = contenders(settings, Quadratic((settings.curvature,)), settings.sigma)
    return moments(nesterov, t, settings.x0).var_v[:, 0]


def _raw(equation: SecondOrder, t: Array, x0: float, method: str) -> Array:
    """E X^2, E XV, E V^2."""
    found = moments(equation, t, x0, method=method)
    x, v = found.mean_x[:, 0], found.mean_v[:, 0]
    return np.stack([found.var_x[:, 0] + x**2, found.cov_xv[:, 0, 0] + x * v, found.var_v[:, 0] + v**2], axis=1)


def contenders(settings: PairSettings, objective: Objective, sigma: float) -> tuple[MemoryFlow, HeavyBallFlow]:
    """MG-SDE and the heavy ball's SDE with the same noise; without noise, the ODEs.

    Example:
        >>> print(*contenders(PairSettings(), Quadratic((1.0,)), 0.5), sep="; ")
        MG-SDE(poly:3), noise 0.5; HB-SDE(3/t), noise 0.5
    """
    gradient, hessian = objective.gradient, objective.hessian(np.zeros(objective.dimension))
    return (
        MemoryFlow(Polynomial(settings.degree), gradient=gradient, noise=sigma, hessian=hessian),
        HeavyBallFlow(Polynomial(settings.viscosity), gradient=gradient, noise=sigma, hessian=hessian),
    )


def _record_times(end: float, dt: float) -> Array:
    """At most 1001 even times up to the end, on the grid of the steps."""
    steps = round(end / dt)
    return np.unique(np.linspace(0, steps, min(steps, 1000) + 1).round()) * dt
