"""The results of solving and simulating: the numbers, how they were obtained, and how paths are summarized."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from memgrad.kinds import Array

Observable = Callable[[Array, Array], Any]


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


class Recorder:
    """Running summaries of paths: moments, quantiles, observables and, if requested, the paths themselves."""

    def __init__(
        self,
        times: Array,
        paths: int,
        d: int,
        levels: tuple[float, ...],
        observe: Mapping[str, Observable],
        keep_paths: bool,
    ) -> None:
        n, q = len(times), len(levels)
        self.times, self.paths, self.levels, self.observe = times, paths, levels, dict(observe)
        self.mean_x, self.mean_v = np.empty((n, d)), np.empty((n, d))
        self.covariance = np.empty((n, 2 * d, 2 * d))
        self.quantiles_x, self.quantiles_v = np.empty((n, q, d)), np.empty((n, q, d))
        self.observed = {name: Statistics(np.empty(n), np.empty(n), np.empty((n, q))) for name in observe}
        self.x = np.empty((n, paths, d)) if keep_paths else None
        self.v = np.empty((n, paths, d)) if keep_paths else None
        self.diverged = 0
        self.diverged_at: float | None = None

    def record(self, i: int, x: Array, v: Array) -> None:
        """Record the state of all paths at the i-th time."""
        d = x.shape[1]
        # One row per coordinate: sums along rows are several times as fast as sums over columns of a few coordinates.
        both = np.empty((2 * d, self.paths))
        both[:d], both[d:] = x.T, v.T
        lost = self.paths - int(np.count_nonzero(np.isfinite(both).all(axis=0)))
        if lost and self.diverged_at is None:
            self.diverged_at = float(self.times[i])
        self.diverged = max(self.diverged, lost)
        if self.x is not None and self.v is not None:
            self.x[i], self.v[i] = x, v
        mean = both.mean(axis=1)
        self.mean_x[i], self.mean_v[i] = mean[:d], mean[d:]
        if self.levels:
            self.quantiles_x[i], self.quantiles_v[i] = (np.quantile(part, self.levels, axis=0) for part in (x, v))
        both -= mean[:, None]
        # Not by BLAS, whose sums depend on its number of threads.
        for j, row in enumerate(both):
            self.covariance[i, j, j:] = self.covariance[i, j:, j] = np.einsum("jn,n->j", both[j:], row)
        self.covariance[i] /= max(self.paths - 1, 1)
        for name, function in self.observe.items():
            value = np.asarray(function(x, v), dtype=float)
            if value.shape != (self.paths,):
                raise ValueError(
                    f"the observable {name!r} must return one number per path, shape ({self.paths},), "
                    f"got {value.shape}."
                )
            statistics = self.observed[name]
            statistics.mean[i] = value.mean()
            statistics.sd[i] = value.std(ddof=1) if self.paths > 1 else 0.0
            if self.levels:
                statistics.quantiles[i] = np.quantile(value, self.levels)

    def ensemble(self, **how: Any) -> Ensemble:
        """The recorded summaries, as a value; `how` are the other fields of `Ensemble`."""
        if self.diverged:
            message = (
                f"{self.diverged} of {self.paths} paths did not stay finite, first seen at t={self.diverged_at:g}."
            )
        else:
            message = f"all {self.paths} paths stayed finite."
        return Ensemble(
            t=self.times,
            mean_x=self.mean_x,
            mean_v=self.mean_v,
            covariance=self.covariance,
            levels=self.levels,
            quantiles_x=self.quantiles_x,
            quantiles_v=self.quantiles_v,
            observed=self.observed,
            x=self.x,
            v=self.v,
            success=not self.diverged,
            message=message,
            diverged=self.diverged,
            diverged_at=self.diverged_at,
            paths=self.paths,
            **how,
        )


def _coordinates(name: str, values: Array) -> dict[str, Array]:
    return {f"{name}{i}": values[:, i] for i in range(values.shape[1])}
