r"""The methods themselves, step by step, on a quadratic with noise: exact means, covariances and limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrad.dynamics.equations import symmetric
from memgrad.dynamics.noise import as_noise
from memgrad.dynamics.ordinary import position
from memgrad.kinds import Array
from memgrad.memory import Exponential, Instantaneous, Memory, Mixture, Polynomial
from memgrad.memory.kinds import as_real, as_step
from memgrad.memory.text import as_memory
from memgrad.method import Method


@dataclass(frozen=True, eq=False)
class MethodMoments:
    """Mean and covariance of the iterates of a method.

    Attributes:
        k: The steps 0, ..., K.
        mean: Means of $x_k$, shape (K+1, d).
        cov: Covariances of $x_k$, shape (K+1, d, d).
    """

    k: NDArray[np.int64]
    mean: Array
    cov: Array

    @property
    def var(self) -> Array:
        """Variances of the iterates, shape (K+1, d)."""
        return np.diagonal(self.cov, axis1=1, axis2=2)


def method_moments(
    memory: Memory | Mixture | str, *, lr: float, hessian: ArrayLike, x0: ArrayLike, noise: Any = 0.0, steps: int
) -> MethodMoments:
    r"""The exact moments of $x_{k+1} = x_k - \eta \sum_i \gamma_i(k) u^i_k$ for any memory or mixture.

    $u^i_k = b^i_k u^i_{k-1} + (1-b^i_k)(H x_k + \xi_k)$, where the noise $\xi_k$ is independent from step to step, with
    mean 0 and covariance $\sigma\sigma^T$. `poly:p` is MemSGD-p, `inst` SGD, `sum*exp:beta` heavy ball and
    `inst + 0.25*(1+k)*poly:4` Nesterov's method.

    Args:
        memory: A memory, a mixture, or a text form.
        lr: The learning rate $\eta$, > 0.
        hessian: $H$, shape (d, d); the minimizer is 0.
        x0: The first iterate.
        noise: $\sigma$: a number >= 0 or a matrix of shape (d, r).
        steps: Number of steps, K >= 0.

    Example:
        >>> result = method_moments("poly:2", lr=0.1, hessian=1.0, x0=1.0, steps=2)
        >>> result.mean[:, 0]  # 1F1(-k; 2; 0.2) = 1 - k y/2 + k(k-1)/2 y^2/6
        array([1.        , 0.9       , 0.80666667])
    """
    mixture = Mixture.of(memory, "method_moments", "memory")
    lr, steps = as_real("method_moments", "lr", lr, "a finite learning rate lr > 0"), as_step(steps)
    x, h = position(x0), symmetric(hessian)
    d = x.shape[1]
    if h.shape != (d, d):
        raise ValueError(f"the Hessian needs the shape ({d}, {d}) for x0, got {h.shape}.")
    lam, directions = np.linalg.eigh(h)
    s = directions.T @ as_noise(noise).covariance(d) @ directions
    n = 1 + len(mixture.averages)
    mean = np.zeros((d, n))  # of z = (x, u^1, u^2, ...) in each direction
    mean[:, 0] = (x @ directions)[0]
    second = np.zeros((d, d, n, n))  # the covariance of z in one direction with z in another
    means, covariances = np.empty((steps + 1, d)), np.empty((steps + 1, d, d))
    means[0], covariances[0] = mean[:, 0], second[:, :, 0, 0]
    maps = linear_steps([(Method(mixture), lr)], np.arange(steps), np.ones(steps))
    for k, (kept, fresh) in enumerate(zip(maps[0][:, 0], maps[1][:, 0], strict=True)):
        m = kept + lam[:, None, None] * np.outer(fresh, np.eye(n)[0])  # the gradient is lambda x + xi
        mean = np.einsum("iab,ib->ia", m, mean)
        second = m[:, None] @ second @ m[None].swapaxes(-1, -2) + s[:, :, None, None] * np.outer(fresh, fresh)
        means[k + 1], covariances[k + 1] = mean[:, 0], second[:, :, 0, 0]
    return MethodMoments(np.arange(steps + 1), means @ directions.T, directions @ covariances @ directions.T)


def linear_steps(settings: Sequence[tuple[Method, float]], k: NDArray[np.int64], factor: Array) -> tuple[Array, Array]:
    r"""Steps of $z = (x, u^1, u^2, \dots)$ as $z' = K z + c\, g$: the matrices K and vectors c.

    Args:
        settings: Methods without a second memory and with equally many averages, each with its learning rate.
        k: The steps.
        factor: What the learning rate is multiplied by at each of them.

    Returns:
        K, with the axes step, setting, row, column; and c, with the axes step, setting, row.
    """
    n = 1 + len(settings[0][0].mixture.averages)
    kept, c = np.zeros((len(k), len(settings), n, n)), np.zeros((len(k), len(settings), n))
    for method, group in groupby(range(len(settings)), lambda s: settings[s][0]):
        members = list(group)
        here, peak = slice(members[0], members[-1] + 1), np.array([settings[s][1] for s in members])
        lr = factor[:, None] * peak
        mixture, decay = method.mixture, method.weight_decay
        if mixture.instant is not None:
            c[:, here, 0] = -lr * mixture.instant(k, Instantaneous())[:, None]
        for i, part in enumerate(mixture.averages, start=1):
            gain = lr * part.gain(k, part.memory)[:, None]
            kept[:, here, i, i], c[:, here, i] = (f(k)[:, None] for f in (part.memory.decay, part.memory.fresh))
            kept[:, here, 0, i] = -gain * kept[:, here, i, i]
            c[:, here, 0] -= gain * c[:, here, i]
        # The peak learning rate is the one that the schedule multiplies.
        kept[:, here, 0, 0] = 1 - decay.shrink(k[:, None], lr, peak)
        kept[:, here, :, 0] += c[:, here] * decay.l2(k)[:, None, None]
    return kept, c


def laguerre_mean(p: float, y: ArrayLike, k: ArrayLike) -> Array:
    r"""The mean of MemSGD-p on a quadratic over its start: $x_k/x_0 = {}_1F_1(-k; p; y)$, $y = p \eta \lambda$.

    A Laguerre polynomial, $L_k^{(p-1)}(y)/L_k^{(p-1)}(0)$. It is bounded by $e^{y/2}$ for $p \ge 1$: MemSGD-p converges
    on quadratics with every step size.

    Args:
        p: The degree of the memory, > 0.
        y: $p \eta \lambda$.
        k: The step or steps, integers >= 0.

    Example:
        >>> laguerre_mean(2.0, 0.2, [0, 1, 2])
        array([1.        , 0.9       , 0.80666667])
    """
    p = as_real("laguerre_mean", "p", p, "a finite degree p > 0")
    k, y = np.asarray(k), np.asarray(y, dtype=float)
    if k.dtype.kind not in "iu" or np.any(k < 0):
        raise ValueError(f"steps k are integers >= 0, got k={k!r}.")
    # By the recurrence of the quotient: the polynomials themselves overflow for large p and k.
    wanted, row = np.unique(k, return_inverse=True)
    table = np.ones((len(wanted), y.size))
    x, step, done = np.ones(y.size), np.zeros(y.size), 0
    for i, last in enumerate(wanted.tolist()):
        for j in range(done, last):
            step = (j * step - y.ravel() * x) / (j + p)
            x = x + step
        table[i], done = x, last
    return np.asarray(table[row.reshape(k.shape), np.arange(y.size).reshape(y.shape)])


def limit_variance(memory: Memory | str, *, lr: float, curvature: float, noise: float = 1.0) -> float:
    r"""The variance of $x_k$ as $k \to \infty$, in a direction of curvature $\lambda$ of a quadratic.

    $$\text{MemSGD-}p: \frac{p\,\eta\sigma^2}{(2p-1)\lambda}, \qquad
      \text{SGD}: \frac{\eta\sigma^2}{\lambda(2-\eta\lambda)}, \qquad
      \text{exponential}: \frac{\eta(1+\beta)\sigma^2}{\lambda(2(1+\beta)-(1-\beta)\eta\lambda)}.$$

    Args:
        memory: `Polynomial` with p > 1/2, `Exponential` or `Instantaneous`, or a text form of one.
        lr: The step size $\eta$; for SGD and exponential memory small enough to be stable.
        curvature: $\lambda > 0$.
        noise: The standard deviation $\sigma$ of the gradient's noise.

    Example:
        >>> limit_variance("poly:2", lr=0.1, curvature=1.0)  # 4/3 of SGD's, nearly
        0.06666666666666667
    """
    memory = as_memory("limit_variance", "memory", memory)
    lr = as_real("limit_variance", "lr", lr, "a finite step size lr > 0")
    lam = as_real("limit_variance", "curvature", curvature, "a finite curvature > 0")
    variance = as_noise(noise).covariance(1).item()
    match memory:
        case Polynomial(p=p) if p > 0.5:
            return float(p * lr * variance / ((2 * p - 1) * lam))
        case Polynomial(p=p):
            raise ValueError(f"the variance under polynomial memory has a limit for p > 1/2 only, got p={p!r}.")
        case Exponential(beta=b):
            pass
        case Instantaneous():
            b = 0.0
        case _:
            raise ValueError(f"the limit of the variance is known for poly, exp and inst, got {memory}.")
    room = 2 * (1 + b) - (1 - b) * lr * lam
    if room <= 0:
        limit = 2 * (1 + b) / ((1 - b) * lam)
        raise ValueError(f"{memory} diverges here: lr must be below {limit:g}, got lr={lr!r}.")
    return float(lr * (1 + b) * variance / (lam * room))
