"""Running summaries of paths, so that the paths need not be stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memgrad.dynamics.results import Ensemble, Statistics

Array = NDArray[np.float64]
Observable = Callable[[Array, Array], Any]


class Recorder:
    """Moments, quantiles, observables and, if requested, the paths themselves, at the requested times."""

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
