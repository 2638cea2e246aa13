"""True values to hold bounds against: exact second moments on quadratics, written out here.

Nothing in this file shares a formula with memgrad.theory. `ratio` is true value / bound: at most 1 where it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import hyp0f1

Array = np.ndarray[Any, np.dtype[np.float64]]
ROUNDING = 1 + 1e-9


def polynomial_memory(lam: Array, x0: Array, sigma: Array, p: float, t: Array) -> Array:
    """E f of MG-SDE with m = t^p: E X^2 = c + (x0^2 - c) F^2, F = 0F1(; p; -p lam t), c = p sigma^2/((2p-1) lam)."""
    c = p * sigma**2 / ((2 * p - 1) * lam)
    f = hyp0f1(p, -p * np.multiply.outer(t, lam))
    return ((c + (x0**2 - c) * f**2) * lam / 2).sum(-1)


def constant_viscosity(kappa: Array, x0: Array, s: Array, alpha: float, t: Array) -> Array:
    """E X^2 of dV = -alpha V dt - kappa X dt + s dB from V = 0, an array of times x directions."""
    c = s**2 / (2 * alpha * kappa)
    t = t[:, None]
    fast = -alpha / 2 - np.sqrt(alpha**2 / 4 - kappa + 0j)  # the roots of z^2 + alpha z + kappa
    slow = kappa / fast
    g = ((np.exp(slow * t) - np.exp(fast * t)) / (slow - fast)).real
    f = ((slow * np.exp(fast * t) - fast * np.exp(slow * t)) / (slow - fast)).real
    return c + (x0**2 - c) * f**2 - kappa * c * g**2


def linear_recursion(
    lam: Array, x0: Array, sigma: Array, steps: int, *, decay: Callable[[int], float], step: Callable[[int], float]
) -> Array:
    """E x_k^2 for k = 0..steps of x_{k+1} = x_k + decay (x_k - x_{k-1}) - step (lam x_k + sigma xi)."""
    mean = last = x0.astype(float)
    variance, covariance = np.zeros_like(mean), np.zeros_like(mean)
    variance_before = np.zeros_like(mean)
    moments = [mean**2]
    for k in range(steps):
        b, e = decay(k), step(k)
        a = 1 + b - e * lam
        mean, last = a * mean - b * last, mean
        variance_next = a**2 * variance + b**2 * variance_before - 2 * a * b * covariance + (e * sigma) ** 2
        covariance = a * variance - b * covariance
        variance, variance_before = variance_next, variance
        moments.append(mean**2 + variance)
    return np.array(moments)


def a_quadratic(rng: np.random.Generator, *, low: float = 1e-3, high: float = 30.0) -> tuple[Array, Array, Array]:
    d = int(rng.integers(1, 5))
    lam = np.exp(rng.uniform(np.log(low), np.log(high), d))
    return lam, rng.normal(size=d) * rng.choice([0.0, 1.0, 10.0]), np.full(d, rng.choice([0.0, 0.1, 1.0]))


def known(lam: Array, x0: Array, sigma: Array) -> dict[str, Any]:
    return {"distance": float(np.linalg.norm(x0)), "noise": float(sigma.max()), "dimension": len(lam)}


def ratio(true: Array, bound: Any) -> float:
    return float(np.max(np.where(true == 0, 0.0, true / np.maximum(bound.value, 1e-300))))


def moment_ode(a: Callable[[float], float], lam: float, sigma: float, start: float, t: Array) -> Array:
    """E X^2 of MG-SDE from X = 1, V = 0 at `start`."""

    def field(s: float, m: Array) -> list[float]:
        b = a(s)
        return [2 * m[1], m[2] - b * (lam * m[0] + m[1]), b * (b * sigma**2 - 2 * lam * m[1] - 2 * m[2])]

    return solve_ivp(field, (start, t[-1]), [1.0, 0.0, 0.0], t_eval=t, rtol=1e-7, atol=1e-10).y[0]
