r"""Measuring a problem: the decay $\nu$ of its curvature, the noise of its gradient, and $\zeta$ of its loss curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from memgrad.dynamics import fit_exponent
from memgrad.experiments.measuring.lanczos import Ritz, lanczos
from memgrad.experiments.measuring.products import MATRICES, Curvature
from memgrad.kinds import Array, is_real
from memgrad.problems import Problem
from memgrad.problems.passes import drawn
from memgrad.statistics import Estimate, interval, log_interval, ratio_of_means
from memgrad.tables import json_ready

TOLERANCE = 1e-3
"""A Ritz value counts as an eigenvalue when its relative error is below."""
MOST = 10**7
"""The largest value of any count."""
CURVE_POINTS = 40
"""The loss curve is evaluated at this many steps, in equal ratios."""


@final
@dataclass(frozen=True, eq=False)
class Measured:
    r"""The measurement of a problem.

    Attributes:
        problem: Its name.
        dimension: The number of its parameters.
        rows: The number of examples that curvature, noise and losses were measured on.
        matrix: `hessian` or `gauss-newton`.
        steps: The number of SGD steps before the point of measurement.
        lr: The learning rate of these steps.
        batch_size: Their batch size.
        eigenvalues: The largest eigenvalues, as far as they are known to 0.1 %. Copies of a repeated one may be
            missing, and so may one that is very close to another: where there are many, as in a linear model with
            several outputs, the density counts them, and `nu` is that of distinct ones.
        smallest: The smallest Ritz value; negative where the loss is not convex.
        trace: The trace of the matrix, over probes.
        nu: $\nu$ of $\lambda_j \sim j^{-\nu}$: the slope of the largest eigenvalues over their index, from the second
            on; its interval is the range of slopes over thirds.
        nu_density: $\nu$ of the flatter directions, by the number of eigenvalues above each curvature, from as many
            as are known one by one to a third of all; over probes, and rough.
        critical_batch: $\operatorname{tr} \Sigma/|\nabla f|^2$: the batch size at which noise and gradient are
            equally long; nan at a minimizer.
        critical_batch_curved: $\operatorname{tr}(H\Sigma)/(\nabla f^T H \nabla f)$: the same in the metric of the
            curvature, which decides about the loss.
        zeta: $\zeta$ of the loss curve $f_\infty + c\,k^{-\zeta}$, over seeds; nan if no curve was asked for.
        floor: $f_\infty$ of the fit.
        density_at: Curvatures.
        density_counts: The number of eigenvalues above each, mean over probes.
        density_low: The lower ends of the intervals of these numbers.
        density_high: Their upper ends.
        curve_k: The steps of the loss curve.
        curve_loss: The loss over the measured examples at each, mean over seeds.
    """

    problem: str
    dimension: int
    rows: int
    matrix: str
    steps: int
    lr: float
    batch_size: int
    eigenvalues: Array
    smallest: float
    trace: Estimate
    nu: Estimate
    nu_density: Estimate
    critical_batch: Estimate
    critical_batch_curved: Estimate
    zeta: Estimate
    floor: float
    density_at: Array
    density_counts: Array
    density_low: Array
    density_high: Array
    curve_k: Array
    curve_loss: Array

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """All numbers with intervals, by name."""
        return tuple(value for field in fields(self) if isinstance(value := getattr(self, field.name), Estimate))

    def to_dict(self) -> dict[str, Any]:
        """The measurement as plain data; numbers that are not finite are None."""

        def plain(value: Any) -> Any:
            if isinstance(value, Estimate):
                return {"n": value.n, "value": value.value, "low": value.low, "high": value.high}
            return value.tolist() if isinstance(value, np.ndarray) else value

        data: dict[str, Any] = json_ready({field.name: plain(getattr(self, field.name)) for field in fields(self)})
        return data

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Measured:
        """The measurement that `to_dict` wrote."""

        def read(name: str, value: Any) -> Any:
            if isinstance(value, dict):
                numbers = {key: math.nan if value[key] is None else value[key] for key in ("value", "low", "high")}
                return Estimate(**numbers, n=value["n"], name=NAMES[name])
            if isinstance(value, list):
                return np.array([math.nan if each is None else each for each in value])
            return math.nan if value is None else value

        names = {field.name for field in fields(Measured)}
        if not isinstance(data, Mapping) or set(data) != names:
            odd = sorted(names ^ set(data))[:3] if isinstance(data, Mapping) else data
            raise ValueError(f"a measurement as data has the entries of Measured, got others or too few: {odd}.")
        return Measured(**{name: read(name, value) for name, value in data.items()})


NAMES: Mapping[str, str] = {
    "trace": "trace",
    "nu": "nu of the largest eigenvalues",
    "nu_density": "nu of the density",
    "critical_batch": "critical batch",
    "critical_batch_curved": "critical batch, by curvature",
    "zeta": "zeta",
}
"""What the estimates are called."""


def measure(
    problem: Problem,
    *,
    steps: int = 300,
    lr: float | None = None,
    batch_size: int | None = None,
    rows: int = 2000,
    matrix: str = "gauss-newton",
    probes: int = 5,
    lanczos_steps: int = 80,
    noise_batches: int = 30,
    seeds: int = 3,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Measured:
    r"""Measure the constants that decide where memory pays, after some steps of SGD on a problem.

    The curvature's spectrum by stochastic Lanczos quadrature on products with vectors; the noise of the gradient from
    minibatches around the full gradient; and the exponent of the loss curve of plain SGD at a constant learning rate.

    Args:
        problem: The problem.
        steps: Steps of SGD, >= 0. Curvature and noise are measured after them; with 0 there is no curve and no zeta.
        lr: Their learning rate, > 0; by default $1/(\lambda_1 + \operatorname{tr} H/B)$ at the start, half of what SGD
            can stand on a least-squares problem, and a quarter of that as often as SGD diverges.
        batch_size: Their batch size; the problem's by default.
        rows: The number of examples for curvature, noise and losses, >= 2; all if there are fewer. SGD trains on all.
        matrix: `gauss-newton`, which is never negative for convex losses, or `hessian`.
        probes: The number of random vectors, >= 2; intervals are over them.
        lanczos_steps: The number of products per vector, >= 3.
        noise_batches: The number of minibatches for the noise, >= 2.
        seeds: The number of loss curves, >= 1.
        seed: The seed of all of it.
        progress: Called as `progress(done, total)`.
    """
    counts = {"probes": (probes, 2), "lanczos_steps": (lanczos_steps, 3), "noise_batches": (noise_batches, 2)}
    counts |= {"seeds": (seeds, 1), "steps": (steps, 0), "rows": (rows, 2), "seed": (seed, 0)}
    for name, (value, least) in counts.items():
        if not is_real(value) or not least <= value <= MOST or value != int(value):
            raise ValueError(f"measure needs an integer {name} >= {least}, got {name}={value!r}; at most {MOST:.0e}.")
    if matrix not in MATRICES:
        raise ValueError(f"measure knows the matrices {', '.join(MATRICES)}, got matrix={matrix!r}.")
    if lr is not None and (not is_real(lr) or not 0 < lr < math.inf):
        raise ValueError(f"measure needs a finite learning rate lr > 0, got lr={lr!r}.")
    size = min(problem.batch_size if batch_size is None else batch_size, problem.examples)
    if not is_real(size) or size != int(size) or size < 1:
        raise ValueError(f"measure needs an integer batch_size >= 1, got batch_size={batch_size!r}.")
    rows = min(rows, problem.examples)
    work = probes * lanczos_steps + noise_batches + seeds * steps + (lanczos_steps if lr is None and steps else 0)
    ticks = _Ticks(work, progress)

    parameters, given = problem.initial_parameters(seed), lr is not None
    if lr is None:
        lr = 1.0
        if steps:
            start = Curvature(problem, parameters, rows, matrix)
            found = lanczos(start.product, _probe(start, seed, 0), lanczos_steps, step_done=ticks.one)
            trace = start.dimension * float(found.weights @ found.values)
            lr = 1 / max(float(found.values[0]) + max(trace, 0.0) / size, 1e-12)
    before = ticks.done
    while True:
        try:
            numbers = [seed + i for i in range(seeds)]
            curves, parameters = _curves(problem, parameters, steps, lr, size, rows, numbers, ticks)
            break
        except ValueError:
            if given or lr < 1e-6:
                raise
            # Networks are flat at the start, and steeper soon after.
            lr /= 4
            ticks.skip(before)
    around = Curvature(problem, parameters, rows, matrix)
    spectra = []
    for i in range(probes):
        before = ticks.done
        spectra.append(lanczos(around.product, _probe(around, seed, i), lanczos_steps, step_done=ticks.one))
        ticks.skip(before + lanczos_steps)
    noise = _noise(around, min(size, rows), noise_batches, seed, ticks)
    return Measured(
        problem=problem.name,
        dimension=around.dimension,
        rows=rows,
        matrix=matrix,
        steps=steps,
        lr=float(lr),
        batch_size=int(size),
        **_spectrum(spectra, around.dimension),
        **noise,
        **_curve(curves),
    )


class _Ticks:
    """Counts the work that is done, and reports it."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self.done, self._total, self._progress = 0, total, progress

    def one(self) -> None:
        self.skip(self.done + 1)

    def skip(self, to: int) -> None:
        self.done = to
        if self._progress is not None:
            self._progress(min(to, self._total), self._total)


def _probe(around: Curvature, seed: int, i: int) -> Tensor:
    generator = torch.Generator().manual_seed(1_000_003 * (seed + 1) + i)
    signs = torch.randint(0, 2, (around.dimension,), generator=generator) * 2 - 1
    return signs.to(around.dtype)


# --- the spectrum ----------------------------------------------------------------------------------------------------


def _spectrum(spectra: Sequence[Ritz], dimension: int) -> dict[str, Any]:
    top = max((each.converged(TOLERANCE) for each in spectra), key=len)
    traces = [dimension * float(each.weights @ each.values) for each in spectra]
    largest = max(float(each.values[0]) for each in spectra)
    at = largest * np.geomspace(1e-6, 1, 61)
    counts = np.array([[dimension * each.weights[each.values >= edge].sum() for edge in at] for each in spectra])
    means = [interval(column) for column in counts.T]
    return {
        "eigenvalues": top,
        "smallest": min(float(each.values[-1]) for each in spectra),
        "trace": interval(traces, name=NAMES["trace"]),
        "nu": _top_nu(top),
        "nu_density": interval([_density_nu(row, at, len(top)) for row in counts], name=NAMES["nu_density"]),
        "density_at": at,
        "density_counts": counts.mean(axis=0),
        "density_low": np.array([each.low for each in means]),
        "density_high": np.array([each.high for each in means]),
    }


def _top_nu(top: Array) -> Estimate:
    """The slope of the largest eigenvalues over their index; nan if fewer than ten are known."""
    index = np.arange(1, len(top) + 1)
    if len(top) < 10:
        return Estimate(math.nan, name=NAMES["nu"])
    return fit_exponent(index[1:], top[1:], decades=math.log10(len(top)), name=NAMES["nu"])


def _density_nu(counts: Array, at: Array, known: int) -> float:
    """Minus 1 over the slope of the number of eigenvalues above a curvature: from those known to a third of all."""
    inside = (counts >= max(known, 10)) & (counts <= counts.max() / 3)
    if inside.sum() < 4 or len(np.unique(counts[inside])) < 4:
        return math.nan
    slope = np.polyfit(np.log(at[inside]), np.log(counts[inside]), 1)[0]
    return float(-1 / slope) if slope < 0 else math.nan


# --- the noise -------------------------------------------------------------------------------------------------------


def _noise(around: Curvature, size: int, batches: int, seed: int, ticks: _Ticks) -> dict[str, Any]:
    """Critical batches: the covariance of one example's gradient over the squared full gradient, in two metrics."""
    generator = torch.Generator().manual_seed(7_000_003 * (seed + 1))
    full = around.gradient()
    plain, curved = [], []
    for _ in range(batches):
        places = torch.randint(around.rows, (size,), generator=generator)
        apart = around.gradient(places) - full
        plain.append(size * float(apart @ apart))
        curved.append(size * float(apart @ around.product(apart)))
        ticks.one()
    return {
        "critical_batch": _over(plain, float(full @ full), NAMES["critical_batch"]),
        "critical_batch_curved": _over(curved, float(full @ around.product(full)), NAMES["critical_batch_curved"]),
    }


def _over(samples: Sequence[float], denominator: float, name: str) -> Estimate:
    if denominator <= 0:  # at a minimizer, or where the curvature is negative along the gradient
        return Estimate(math.nan, name=name)
    return ratio_of_means(samples, [denominator] * len(samples), name=name)


# --- the loss curve --------------------------------------------------------------------------------------------------


def _curves(
    problem: Problem,
    parameters: dict[str, Tensor],
    steps: int,
    lr: float,
    size: int,
    rows: int,
    seeds: Sequence[int],
    ticks: _Ticks,
) -> tuple[tuple[Array, Array], dict[str, Tensor]]:
    """The losses of SGD over the measured examples, from each seed, and where the first seed ends."""
    if not steps:
        return (np.array([]), np.zeros((0, 0))), parameters
    at = np.unique(np.round(np.geomspace(1, steps, CURVE_POINTS)).astype(int))
    losses, first = [], parameters
    shown = replace(problem, train=drawn(problem, rows), test=None)
    for seed in seeds:
        theta = problem.initial_parameters(seed)
        generator = torch.Generator().manual_seed(seed)
        row = []
        for k in range(steps):
            places = torch.randint(problem.examples, (size,), generator=generator).to(problem.device)
            slope = problem.gradient(theta, problem.train[0][places], problem.train[1][places])
            theta = {name: p - lr * slope[name] for name, p in theta.items()}
            ticks.one()
            if k + 1 in at:
                row.append(shown.evaluate(theta, metrics=["loss"])["loss"])
                if not math.isfinite(row[-1]):
                    raise ValueError(
                        f"SGD on {problem.name!r} diverged by step {k + 1} at lr={lr:.3g}: give a smaller lr."
                    )
        losses.append(row)
        first = theta if seed == seeds[0] else first
    return (at.astype(float), np.array(losses)), first


def _curve(curves: tuple[Array, Array]) -> dict[str, Any]:
    k, losses = curves
    fits = [_power_with_floor(k, row) for row in losses]
    return {
        "curve_k": k,
        "curve_loss": losses.mean(axis=0) if fits else np.array([]),
        "zeta": log_interval([zeta for zeta, _ in fits], name=NAMES["zeta"]),
        "floor": float(np.mean([floor for _, floor in fits])) if fits else math.nan,
    }


def _power_with_floor(k: Array, loss: Array) -> tuple[float, float]:
    """The exponent and the floor of the closest curve floor + c k^-zeta over the last decade and a half of steps."""
    late = k >= k[-1] / 30
    x, y = np.log(k[late]), loss[late]
    spread = float(y.max() - y.min())
    if spread <= 0:
        return math.nan, math.nan
    floors = y.min() - spread * np.geomspace(1e-3, 1e2, 300)
    if y.min() > 0:  # a loss that is positive everywhere has a floor >= 0
        floors = np.append(floors[floors > 0], 0.0)
    slopes, heights = np.polyfit(x, np.log(y[:, None] - floors), 1)  # of all floors at once
    off = ((np.exp(np.outer(x, slopes) + heights) + floors - y[:, None]) ** 2).sum(axis=0)
    off = np.where((slopes < 0) & np.isfinite(off), off, np.inf)
    best = int(np.argmin(off))
    return (-float(slopes[best]), float(floors[best])) if off[best] < np.inf else (math.nan, math.nan)
