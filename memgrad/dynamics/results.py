"""The results of solving and simulating: the numbers, and how they were obtained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One solution of an ordinary differential equation, at chosen times.

    Attributes:
        t: The times, shape (n,).
        x: The positions, shape (n, d).
        v: The velocities, shape (n, d).
        equation: The text of the equation.
        success: Whether the equation was solved up to the last time, within the tolerances and with finite numbers.
        message: What happened, in words.
        status: 0 done, -1 the solver gave up, -2 not finite, -3 too many evaluations.
        method: The solver of scipy.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        start: The time at which integration began.
        evaluations: Number of gradient evaluations.
        at: The solution between the times, a function of t that returns (positions, velocities); None if solving
            failed.
    """

    t: Array
    x: Array
    v: Array
    equation: str
    success: bool
    message: str
    status: int
    method: str
    rtol: float
    atol: float
    start: float
    evaluations: int
    at: Callable[[Array], tuple[Array, Array]] | None = field(default=None, repr=False)

    def columns(self) -> dict[str, Array]:
        """The numbers as named columns of one table: t, x0, x1, ..., v0, v1, ..."""
        return {"t": self.t, **_coordinates("x", self.x), **_coordinates("v", self.v)}


@dataclass(frozen=True, eq=False)
class Statistics:
    """Mean, spread and quantiles over paths of one number per path, at every time.

    Attributes:
        mean: Shape (n,).
        sd: The standard deviation over paths, shape (n,).
        quantiles: Shape (n, q), for the levels of the ensemble.
    """

    mean: Array
    sd: Array
    quantiles: Array


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Many paths of a stochastic differential equation, summarized at chosen times.

    Attributes:
        t: The times, shape (n,).
        mean_x: Means of the positions over paths, shape (n, d).
        mean_v: Means of the velocities.
        covariance: Of (X, V) over paths, shape (n, 2d, 2d).
        levels: The levels of the quantiles.
        quantiles_x: Quantiles of the positions, shape (n, q, d).
        quantiles_v: Quantiles of the velocities.
        observed: Statistics of the observables, by name.
        x: All positions, shape (n, paths, d), if they were kept.
        v: All velocities.
        equation: The text of the equation.
        success: Whether every path stayed finite.
        message: What happened, in words.
        diverged: Number of paths that diverged (did not stay finite).
        diverged_at: The first requested time at which one was found, or None.
        scheme: The integrator.
        dt: Its step.
        start: The time at which it began.
        seed: The seed of the noise.
        paths: The number of paths.
        steps: The number of steps of each.
        normals: Number of normals drawn.
    """

    t: Array
    mean_x: Array
    mean_v: Array
    covariance: Array
    levels: tuple[float, ...]
    quantiles_x: Array
    quantiles_v: Array
    observed: Mapping[str, Statistics]
    x: Array | None
    v: Array | None
    equation: str
    success: bool
    message: str
    diverged: int
    diverged_at: float | None
    scheme: str
    dt: float
    start: float
    seed: int
    paths: int
    steps: int
    normals: int

    @property
    def var_x(self) -> Array:
        """Variances of the positions, shape (n, d)."""
        d = self.mean_x.shape[1]
        return np.diagonal(self.covariance, axis1=1, axis2=2)[:, :d]

    @property
    def var_v(self) -> Array:
        """Variances of the velocities, shape (n, d)."""
        d = self.mean_x.shape[1]
        return np.diagonal(self.covariance, axis1=1, axis2=2)[:, d:]

    def columns(self) -> dict[str, Array]:
        """The summary as named columns of one table: t, means, standard deviations, quantiles, observables."""
        table: dict[str, Array] = {"t": self.t}
        for name, mean, variance, quantiles in (
            ("x", self.mean_x, self.var_x, self.quantiles_x),
            ("v", self.mean_v, self.var_v, self.quantiles_v),
        ):
            table |= _coordinates(f"mean_{name}", mean) | _coordinates(f"sd_{name}", np.sqrt(variance))
            for i, level in enumerate(self.levels):
                table |= _coordinates(f"q{level:g}_{name}", quantiles[:, i])
        for name, statistics in self.observed.items():
            table |= {f"mean_{name}": statistics.mean, f"sd_{name}": statistics.sd}
            table |= {f"q{level:g}_{name}": statistics.quantiles[:, i] for i, level in enumerate(self.levels)}
        return table

    def provenance(self) -> dict[str, Any]:
        """How the numbers were obtained, as plain data."""
        names = ("equation", "scheme", "dt", "start", "seed", "paths", "steps", "normals", "success", "message")
        return {name: getattr(self, name) for name in names}


def _coordinates(name: str, values: Array) -> dict[str, Array]:
    return {f"{name}{i}": values[:, i] for i in range(values.shape[1])}
