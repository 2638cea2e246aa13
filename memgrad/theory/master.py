"""The continuous master inequality: a bound for any memory function, with its differential conditions checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import quad

from memgrad.dynamics.quadrature import legendre
from memgrad.kinds import Array
from memgrad.memory import Memory
from memgrad.memory.text import as_memory
from memgrad.theory.bound import AssumptionError, Bound, noise_given, quasi_convex_given
from memgrad.theory.continuous import LAST, assume_after_start, gap_at_start
from memgrad.theory.quantities import numbers, times

FIRST_TIME = 1e-16  # a start at 0 is checked from this fraction of the first requested time
LONGEST_PANEL = 0.05  # of the time itself, or half of the time 1/a in which the memory changes
MOST_PANELS = 20_000
AGREES = 1e-7  # how far numbers may be from a condition that holds with equality


def master(
    memory: Memory | str,
    *,
    t: Any,
    distance: float,
    noise: float,
    dimension: int,
    tau: float = 1.0,
    start: float = 0.0,
    gap: float | None = None,
    lam: Callable[[Array], Array] | None = None,
) -> Bound:
    r"""Any memory function: a bound for the last point of MG-SDE, if its Lyapunov function exists.

    $$\mathbb{E}[f(X(t)) - f^*] \le \frac{r(\epsilon)(f(x_0) - f^*) + \frac{1}{2} |x_0 - x^*|^2}{r(t)}
    + \frac{d\, \sigma_*^2}{2} \cdot \frac{1}{r(t)} \int_\epsilon^t \lambda(s)^2 a(s)^2\,ds$$

    with $a = \dot m/m$ and $r = a \lambda^2$, for every $\lambda > 0$ that solves $\dot\lambda = a \lambda - 1$ and
    satisfies $\dot r \le \tau \lambda a$. The solutions are $\lambda(t) = m(t)\,(C + \int_t^\infty ds/m(s))$, positive
    at all times if $C \ge 0$. $C = 0$ is used unless `lam` is given; for $m = t^p$ it gives `polynomial`. A larger $C$
    makes $r(t)$ larger and the bound smaller, as long as $\dot r \le \tau\lambda a$ still holds up to $t$.

    Both conditions are checked on a grid that is fine compared with $t$ and with $1/a(t)$; a start at 0 is checked from
    $10^{-16}$ of the first requested time onward.

    Args:
        memory: A memory with a memory function $m(t)$, or its text form.
        t: Time, finite, > 0 and not before `start`; one or an array.
        distance: $|x_0 - x^*| \ge 0$.
        noise: $\sigma_* \ge 0$, a standard deviation: $\sigma_*^2 = \sup_x \lVert \sigma(x)\sigma(x)^T \rVert$.
        dimension: $d \ge 1$.
        tau: Constant of weak quasi-convexity, > 0; 1 for convex functions, 2 for quadratics.
        start: $\epsilon \ge 0$, the time at which the equation starts, with $X = x_0$ and $V = 0$.
        gap: $f(x_0) - f^* \ge 0$, required if `start` is not 0.
        lam: A function that maps an array of times to $\lambda$ there. It must solve the equation above.

    Example:
        >>> bound = master("poly:2", t=10.0, distance=1, noise=0.5, dimension=3)
        >>> round(bound.rate, 9), round(bound.ball, 9)
        (0.025, 0.75)
        >>> cubic = master("poly:4", t=10.0, distance=1, noise=0, dimension=1)
        >>> better = master(
        ...     "poly:4", t=10.0, distance=1, noise=0, dimension=1, lam=lambda t: t / 3 + (3 / 7 - 1 / 3) * t**4 / 10**3
        ... )
        >>> round(cubic.rate, 4), round(better.rate, 4)
        (0.1125, 0.0681)

    Reference:
        UAI 2019, Lemma D.2. *Differs*: it states $\lambda = -m \int dt/m$, but leaves open which antiderivative is
        meant, that $\lambda > 0$, and that $r(0) = 0$ or the start is later. Exponential memory $m = e^{\alpha t} - 1$
        violates the condition near 0, and has a bound only for a later start.
    """
    memory = as_memory("master", "memory", memory)
    at = times("master", t, positive=True)
    distance, noise, d, tau, start = numbers(
        "master", distance=distance, noise=noise, dimension=dimension, tau=tau, start=start
    )
    gap = gap_at_start("master", gap, start)
    checked = [assume_after_start("master", float(at.min()), start)] if start > 0 else []
    panels = _cut(memory, start, np.unique(at))
    lyapunov = _lyapunov(memory, panels, lam)
    checked.append(_assume_slow_growth(memory, lyapunov, tau))
    if start == 0:
        checked.append(_assume_vanishing_start(memory, lyapunov.r))
    i = np.searchsorted(panels.ends, at)
    r = lyapunov.r[i]
    first = lyapunov.r[0] * gap if start > 0 else 0.0
    return Bound(
        name="master",
        about=LAST,
        variable="t",
        at=at,
        rate=(first + distance**2 / 2) / r,
        ball=d * noise**2 / 2 * lyapunov.noise[i] / r,
        theorem=f"UAI 2019, Lemma D.2, for the memory {memory}",
        assumptions=tuple(checked),
        given=(quasi_convex_given(tau), noise_given(noise)),
    )


class _Panels(NamedTuple):
    """Times cut into panels, and Gauss-Legendre points in each: column 0 is its left end."""

    ends: Array
    points: Array
    weights: Array
    rate: Array
    """a at the points."""
    kept: Array
    """m(point)/m(right end)."""
    inner: Array
    """The integral of m(point)/m(s) over s from the point to the right end."""


class _Lyapunov(NamedTuple):
    """Values at the ends of the panels, and times in order with the growth r'/(lambda a) there."""

    r: Array
    noise: Array
    """The integral of (lambda a)^2 from the start."""
    times: Array
    growth: Array


def _cut(memory: Memory, start: float, at: Array) -> _Panels:
    stop = float(at[-1])
    ends = [start or FIRST_TIME * float(at[0])]
    while ends[-1] < stop and len(ends) <= MOST_PANELS:
        ends.append(ends[-1] + min(LONGEST_PANEL * ends[-1], 0.5 / _rate(memory, ends[-1])))
    if ends[-1] < stop:
        raise ValueError(
            f"master needs a grid that resolves 1/a(t), and {memory} forgets too fast for one up to t={stop:g} "
            f"({MOST_PANELS} panels reach t={ends[-1]:g}): ask for earlier times."
        )
    grid = np.unique(np.concatenate((np.array(ends[:-1] or ends), at)))
    x, w = legendre(8)
    left, right = grid[:-1, None], grid[1:, None]
    points = np.concatenate((left, left + (right - left) * x), axis=1)
    later = points[:, :, None] + (right - points)[:, :, None] * x
    rate = memory.rate(points)
    # m(s)/m(u) by way of influences, which stay finite where m itself overflows.
    kept = memory.influence(points, np.broadcast_to(right, points.shape)) / rate
    inner = memory.influence(np.broadcast_to(points[:, :, None], later.shape), later) @ w * (right - points) / rate
    return _Panels(grid, points, w, rate, kept, inner)


def _rate(memory: Memory, t: float) -> float:
    a = float(memory.rate(t))
    if not 0 < a < math.inf:
        raise ValueError(f"master needs m'(t)/m(t) finite and > 0, and {memory} has {a:g} at t={t:.3g}: start later.")
    return a


def _lyapunov(memory: Memory, panels: _Panels, lam: Callable[[Array], Array] | None) -> _Lyapunov:
    at_ends = _solution(memory, panels) if lam is None else _given_solution(memory, panels, lam)
    at_points = panels.kept * at_ends[1:, None] + panels.inner
    weight = panels.weights * (panels.ends[1:] - panels.ends[:-1])[:, None]
    squares = (panels.rate * at_points)[:, 1:] ** 2
    times = np.append(panels.points, panels.ends[-1])
    a = memory.rate(times)
    return _Lyapunov(
        r=memory.rate(panels.ends) * at_ends**2,
        noise=np.concatenate(([0.0], np.cumsum((squares * weight).sum(axis=1)))),
        times=times,
        # r' = a' lambda^2 + 2 a lambda lambda' with lambda' = a lambda - 1
        growth=np.append(at_points, at_ends[-1]) * (_slope_of_log_rate(memory, times, a) + 2 * a) - 2,
    )


def _slope_of_log_rate(memory: Memory, t: Array, a: Array) -> Array:
    """a'/a by central differences of fourth order, because a memory has no second derivative."""
    h = 1e-3 * np.minimum(t, 1 / a)
    near, far = (np.log(memory.rate(t + n * h) / memory.rate(t - n * h)) for n in (1, 2))
    slope: Array = (8 * near - far) / (12 * h)
    return slope


def _solution(memory: Memory, panels: _Panels) -> Array:
    """The integral of m(t)/m(s) over all s > t, at the ends of the panels."""
    lam = np.empty(len(panels.ends))
    lam[-1] = _tail(memory, float(panels.ends[-1]))
    for i in range(len(lam) - 2, -1, -1):
        lam[i] = panels.kept[i, 0] * lam[i + 1] + panels.inner[i, 0]
    return lam


def _tail(memory: Memory, t: float) -> float:
    """The same at one time, by quadrature up to infinity."""
    a = _rate(memory, t)

    def integrand(y: float) -> float:  # s = t + (e^y - 1)/a turns algebraic tails into exponential ones
        if y > 600:
            return 0.0
        try:
            share = float(memory.influence(t, t + math.expm1(y) / a)) * math.exp(y) / a**2
        except OverflowError:
            return 0.0
        return share if math.isfinite(share) else 0.0  # m(s) has overflowed

    if _last_degree(memory, t) > 1:
        value, _, *rest = quad(integrand, 0, np.inf, epsabs=0.0, epsrel=1e-11, limit=500, full_output=1)
        if len(rest) == 1 and value > 0:  # a further entry would be a warning of quad
            return float(value)
    raise AssumptionError(
        f"master needs a finite integral of 1/m(s) up to infinity, so that lambda stays positive, and {memory} grows "
        f"too slowly: take a memory that grows faster than t, or give a lam that is positive up to the last time."
    )


def _last_degree(memory: Memory, t: float) -> float:
    """The degree of the polynomial memory that forgets as fast, at the latest time that floats can represent."""
    for factor in (1e50, 1e20, 1e8, 1e3, 10.0):
        degree = float(memory.rate(t * factor)) * t * factor
        if not math.isnan(degree):
            return degree
    return math.nan


def _given_solution(memory: Memory, panels: _Panels, lam: Callable[[Array], Array]) -> Array:
    values = np.asarray(lam(panels.ends), dtype=np.float64)
    if values.shape != panels.ends.shape:
        raise ValueError(
            f"master needs a lam that maps {panels.ends.shape} times to the same number of values, got {values.shape}."
        )
    expected = panels.kept[:, 0] * values[1:] + panels.inner[:, 0]
    wrong = ~((values[:-1] > 0) & (np.abs(values[:-1] - expected) <= AGREES * expected))
    if np.any(wrong) or not values[-1] > 0:
        i = int(np.argmax(wrong)) if np.any(wrong) else -1
        raise AssumptionError(
            f"master needs lam > 0 with lam' = a lam - 1, where a is the rate of {memory}, got a lam that fails near "
            f"t={panels.ends[i]:.3g}: the solutions are m(t) (C + integral of 1/m from t to infinity)."
        )
    return values


def _assume_slow_growth(memory: Memory, lyapunov: _Lyapunov, tau: float) -> str:
    worst = float(lyapunov.growth.max())
    wrong = lyapunov.growth > tau + AGREES * (tau + 2)
    if np.any(wrong):
        first, last = lyapunov.times[wrong][[0, -1]]
        way_out = "take a memory that forgets faster there, or another lam"
        if last < lyapunov.times[-1]:
            way_out = f"start after t={last:.3g}, or {way_out}"
        raise AssumptionError(
            f"master needs r' <= tau lambda a, and {memory} violates it from t={first:.3g} to t={last:.3g} "
            f"(r'/(lambda a) is up to {worst:.4g}, tau = {tau:g}): {way_out}."
        )
    return f"r' <= tau lambda a (largest r'/(lambda a) {worst:.6g} <= {tau:g})"


def _assume_vanishing_start(memory: Memory, r: Array) -> str:
    if r[0] > 1e-6 * r.max():
        raise AssumptionError(
            f"master started at 0 needs r(0) = 0, and {memory} has r = {r[0]:.3g} near 0: give a start > 0 and the gap."
        )
    return f"r(0) = 0 (r = {r[0]:.3g} at the first time checked)"
