r"""Bounds of MemSGD and of the family it comes from, step by step. Steps count from 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from memgrad.theory.bound import CONVEX, ROUNDING, AssumptionError, Bound, assume, covariance_given
from memgrad.theory.quantities import numbers, series, steps

LAST = "E f(x_k) - f*"


def memsgd(
    *, k: Any, degree: float, lr: float, smoothness: float | None, distance: float, noise: float, dimension: int
) -> Bound:
    r"""MemSGD-p: a bound for the last iterate, $k = 0, 1, \dots$

    $$\mathbb{E}[f(x_k) - f^*] \le \frac{(p-1)^2 |x_0 - x^*|^2}{2 \eta p\, (k+p-1)}
    + \frac{p\, d\, \eta\, \varsigma_*^2}{2} \cdot \frac{k}{k+p-1}, \qquad p \ge 2, \quad \eta \le \frac{p-1}{p L}$$

    At $k = 0$ and the largest learning rate it is an equality for the steepest direction of a quadratic.

    Args:
        k: Step, an integer >= 0; one or an array.
        degree: $p \ge 2$, real.
        lr: $\eta$, > 0 and at most $\frac{p-1}{pL}$.
        smoothness: $L$, > 0. `None` means that it is not known; the bound then states for which $L$ it holds.
        distance: $|x_0 - x^*| \ge 0$.
        noise: $\varsigma_* \ge 0$, a standard deviation: $\varsigma_*^2$ bounds the variance of the gradient noise in
            each direction.
        dimension: $d \ge 1$.

    Example:
        >>> memsgd(k=99, degree=2, lr=0.5, smoothness=1, distance=1, noise=0, dimension=1).value
        0.005
        >>> memsgd(k=99, degree=2, lr=1, smoothness=1, distance=1, noise=0, dimension=1)
        Traceback (most recent call last):
        ...
        memgrad.theory.bound.AssumptionError: memsgd needs lr <= (p-1)/(p L) = 0.5, got lr = 1: take a smaller lr.

    Reference:
        UAI 2019, Theorem E.2. *Differs*: the ball's factor $k/(k+p-1)$ is in the proof, not in the statement.
    """
    k = steps("memsgd", k)
    p, lr, distance, noise, d = numbers(
        "memsgd", degree=degree, lr=lr, distance=distance, noise=noise, dimension=dimension
    )
    checked, given = [assume("memsgd", "p >= 2", p, 2.0, otherwise="take a larger degree")], [CONVEX]
    largest = (p - 1) / p
    if smoothness is None:
        given.append(f"L <= (p-1)/(p lr) = {largest / lr:.6g}, because L was not given")
    else:
        (smoothness,) = numbers("memsgd", smoothness=smoothness)
        checked.append(assume("memsgd", "lr <= (p-1)/(p L)", lr, largest / smoothness, otherwise="take a smaller lr"))
    return Bound(
        name="memsgd",
        about=LAST,
        variable="k",
        at=k,
        rate=(p - 1) ** 2 * distance**2 / (2 * lr * p * (k + p - 1)),
        ball=p * d * lr * noise**2 / 2 * (k / (k + p - 1)),
        theorem="UAI 2019, Theorem E.2, with the factor k/(k+p-1) of its proof",
        assumptions=tuple(checked),
        given=(*given, covariance_given(noise)),
    )


def discrete_master(
    *, lambdas: Any, lr: float, smoothness: float, distance: float, noise: float, dimension: int
) -> Bound:
    r"""The family that MemSGD-p comes from: a bound for the last iterate, for any admissible $\lambda_k$.

    $$\mathbb{E}[f(x_k) - f^*] \le \frac{|x_0 - x^*|^2}{2 r_k} + \frac{d\, \eta^2 \varsigma_*^2}{2} \cdot \frac{k}{r_k},
    \qquad r_k = \eta\,(\lambda_k + 1)$$

    $$x_{k+1} = x_k + \frac{\lambda_k}{\lambda_{k+1} + 1} (x_k - x_{k-1}) - \frac{1}{\lambda_{k+1} + 1}\, \eta\, g_k,
    \qquad x_{-1} = x_0$$

    It needs $\eta \le 1/L$, $\lambda_0 = 0$ and $0 \le \lambda_k \le \lambda_{k-1} + 1$. With $\lambda_k = k/(p-1)$ the
    method is MemSGD-p with the learning rate $\eta\,(p-1)/p$; with $\lambda_k = 0$ it is SGD.

    Args:
        lambdas: $\lambda_0, \lambda_1, \dots, \lambda_K$; the bound is for $k = 0, \dots, K$.
        lr: $\eta$, > 0 and at most $1/L$.
        smoothness: $L$, > 0.
        distance: $|x_0 - x^*| \ge 0$.
        noise: $\varsigma_* \ge 0$, a standard deviation: $\varsigma_*^2$ bounds the variance of the gradient noise in
            each direction.
        dimension: $d \ge 1$.

    Example:
        >>> discrete_master(lambdas=[0, 1, 2], lr=1, smoothness=1, distance=1, noise=0, dimension=1).value
        array([0.5       , 0.25      , 0.16666667])

    Reference:
        UAI 2019, Lemma E.1. *Differs*: the printed condition $\lambda_k \le k$ is not sufficient (erratum 41).
    """
    lam = series("discrete_master", "lambdas", lambdas)
    if lam.ndim != 1:
        raise ValueError(f"discrete_master needs a one-dimensional array of lambdas, got shape {lam.shape}.")
    lr, smoothness, distance, noise, d = numbers(
        "discrete_master", lr=lr, smoothness=smoothness, distance=distance, noise=noise, dimension=dimension
    )
    checked = (
        assume("discrete_master", "lr <= 1/L", lr, 1 / smoothness, otherwise="take a smaller lr"),
        _assume_slow_growth(lam),
    )
    k = np.arange(len(lam), dtype=np.float64)
    r = lr * (lam + 1)
    return Bound(
        name="discrete_master",
        about=LAST,
        variable="k",
        at=k,
        rate=distance**2 / (2 * r),
        ball=d * lr**2 * noise**2 / 2 * (k / r),
        theorem="UAI 2019, Lemma E.1, with its condition corrected (erratum 41)",
        assumptions=checked,
        given=(CONVEX, covariance_given(noise)),
    )


def _assume_slow_growth(lam: Any) -> str:
    rule = "lambda_0 = 0 and 0 <= lambda_k <= lambda_{k-1} + 1"
    largest = np.concatenate(([0.0], lam[:-1] + 1))
    wrong = ~(np.isfinite(lam) & (lam >= 0) & (lam <= largest * (1 + ROUNDING)))
    if np.any(wrong):
        k = int(np.argmax(wrong))
        before = f" after lambda_{k - 1} = {lam[k - 1]:g}" if k else ""
        raise AssumptionError(
            f"discrete_master needs {rule}, got lambda_{k} = {lam[k]:g}{before}: let lambda grow by at most 1 per "
            f"step, as lambda_k = k/(p-1) with p >= 2 does (the printed lambda_k <= k is too weak, erratum 41)."
        )
    return f"{rule} (largest increase {np.max(np.diff(lam), initial=0.0):g})"
