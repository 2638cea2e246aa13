r"""The methods from their definitions, with the whole history: slow and exact, for reading and for testing.

Each function takes a gradient oracle `gradient(x, k)` and returns all iterates $x_0, \dots, x_K$ as the rows of an
array in double precision. They share only the memory object with the optimizers: where those keep a running average,
these sum all past gradients with `Memory.weights`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from memgrad.kinds import Array
from memgrad.memory import Memory, Polynomial
from memgrad.method import Method

Oracle = Callable[[Array, int], ArrayLike]
Rate = float | Callable[[int], float]


def memsgd(
    gradient: Oracle, x0: ArrayLike, *, lr: Rate, memory: Memory, steps: int, weight_decay: float = 0.0
) -> Array:
    r"""MemSGD: $x_{k+1} = x_k - \eta_k \sum_{j \le k} w(j,k)\, g_j$.

    Args:
        gradient: Oracle (x, k) -> g.
        x0: Start.
        lr: Learning rate, or a function of k.
        memory: Memory of the gradients.
        steps: Number of steps K.
        weight_decay: Factor of the L2 term.

    Example:
        >>> memsgd(lambda x, k: x, [1.0], lr=0.1, memory=Polynomial(2), steps=2).round(4).ravel()
        array([1.    , 0.9   , 0.8067])
    """

    def step(x: Array, g: Array, k: int) -> Array:
        return x - _at(lr, k) * average(memory, g)

    return _run(gradient, x0, steps, step, weight_decay)


def memadam(
    gradient: Oracle,
    x0: ArrayLike,
    *,
    lr: Rate,
    memory: Memory,
    second_memory: Memory,
    steps: int,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = True,
) -> Array:
    r"""MemAdam: $x_{k+1} = x_k - \eta_k u_k/(\sqrt{v_k} + \epsilon)$, $u_k$ and $v_k$ averages of $g_j$ and $g_j^2$.

    Args:
        gradient: Oracle (x, k) -> g.
        x0: Start.
        lr: Learning rate, or a function of k.
        memory: Memory of the gradients.
        second_memory: Memory of their squares.
        steps: Number of steps K.
        eps: Added to the root.
        weight_decay: Factor of the weight decay.
        decoupled_weight_decay: Shrink x instead of adding to the gradients.

    Example:
        >>> memadam(lambda x, k: 3, [1.0], lr=0.1, memory=Polynomial(2), second_memory=Polynomial(1), steps=1)
        array([[1. ],
               [0.9]])
    """

    def step(x: Array, g: Array, k: int) -> Array:
        kept = x * (1 - _at(lr, k) * weight_decay) if decoupled_weight_decay else x
        return kept - _at(lr, k) * average(memory, g) / (np.sqrt(average(second_memory, g**2)) + eps)

    return _run(gradient, x0, steps, step, 0.0 if decoupled_weight_decay else weight_decay)


def heavy_ball(
    gradient: Oracle,
    x0: ArrayLike,
    *,
    lr: float,
    steps: int,
    momentum: float = 0.9,
    viscosity: float | None = None,
) -> Array:
    r"""Heavy-ball: $x_{k+1} = x_k - \eta \sum_{j \le k} \left(\prod_{h=j+1}^k \beta_h\right) g_j$ (HB-SUM).

    Args:
        gradient: Oracle (x, k) -> g.
        x0: Start.
        lr: Learning rate, constant.
        steps: Number of steps K.
        momentum: Constant momentum.
        viscosity: $q$ of $\beta_h = h/(h+q)$, instead of a constant momentum.

    Example:
        >>> heavy_ball(lambda x, k: 1.0, [0.0], lr=1.0, momentum=0.5, steps=3).ravel()
        array([ 0.  , -1.  , -2.5 , -4.25])
    """

    def step(x: Array, g: Array, k: int) -> Array:
        products = [math.prod(_momentum(h, momentum, viscosity) for h in range(j + 1, k + 1)) for j in range(k + 1)]
        return x - lr * np.asarray(np.tensordot(products, g, axes=1))

    return _run(gradient, x0, steps, step)


def nesterov(
    gradient: Oracle,
    x0: ArrayLike,
    *,
    lr: float,
    steps: int,
    momentum: float = 0.9,
    viscosity: float | None = None,
) -> Array:
    r"""Nesterov: $z_{k+1} = y_k - \eta \nabla f(y_k)$, $y_k = z_k + \beta_k (z_k - z_{k-1})$; the points $y_k$.

    Args:
        gradient: Oracle (y, k) -> g.
        x0: Start, $y_0 = z_0 = z_{-1}$.
        lr: Learning rate, constant.
        steps: Number of steps K.
        momentum: Constant momentum.
        viscosity: $q$ of $\beta_k = k/(k+q)$, instead of a constant momentum.

    Example:
        >>> nesterov(lambda y, k: 1.0, [1.0], lr=0.1, viscosity=3, steps=1).ravel()
        array([1.   , 0.875])
    """
    z = [np.asarray(x0, np.float64)]

    def step(y: Array, g: Array, k: int) -> Array:
        z.append(y - lr * g[-1])
        return z[-1] + _momentum(k + 1, momentum, viscosity) * (z[-1] - z[-2])

    return _run(gradient, x0, steps, step)


def adana(
    gradient: Oracle,
    x0: ArrayLike,
    *,
    lr: Rate,
    steps: int,
    delta: float = 8.0,
    kappa: float = 0.85,
    omega: float = 4.0,
    through_lr: bool = False,
    eps: float = 1e-8,
) -> Array:
    r"""ADana: see `memgrad.ADana`; both averages as sums with the weights of `Polynomial(delta)`.

    Args:
        gradient: Oracle (x, k) -> g.
        x0: Start.
        lr: Learning rate, or a function of k.
        steps: Number of steps K.
        delta: Degree of both memories.
        kappa: Exponent of the gain.
        omega: Factor of the weight decay.
        through_lr: Whether it is multiplied by the full learning rate, instead of the learning rate over its peak.
        eps: Added to the root.

    Example:
        >>> adana(lambda x, k: 1.0, [1.0], lr=0.1, omega=0.0, steps=1).round(6).ravel()
        array([1. , 0.8])
    """
    memory = Polynomial(delta)
    peak = 1.0 if through_lr else max((_at(lr, k) for k in range(steps)), default=1.0)

    def step(x: Array, g: Array, k: int) -> Array:
        direction: Array = g[-1] + (1 + k) ** (1 - kappa) * average(memory, g)
        return x - _at(lr, k) * (direction / (np.sqrt(average(memory, g**2)) + eps) + omega / (k + 1) * x / peak)

    return _run(gradient, x0, steps, step)


def follow(
    method: Method, gradient: Oracle, x0: ArrayLike, *, lr: Rate, steps: int, peak_lr: float | None = None
) -> Array:
    r"""Any method: $x_{k+1} = (1-s_k) x_k - \eta_k n_k/(\rho_k \sqrt{v_k} + \epsilon)$, by sums over the past.

    Args:
        method: The method.
        gradient: Oracle (x, k) -> g.
        x0: Start.
        lr: Learning rate, or a function of k.
        steps: Number of steps K.
        peak_lr: The peak learning rate, for an independent weight decay; by default the largest of the run.

    Example:
        >>> from memgrad.method import heavy_ball as polyak
        >>> follow(polyak(0.5), lambda x, k: 1.0, [0.0], lr=1.0, steps=3).ravel()
        array([ 0.  , -1.  , -2.5 , -4.25])
    """
    peak = max((_at(lr, k) for k in range(steps)), default=1.0) if peak_lr is None else peak_lr
    decay = method.weight_decay

    def step(x: Array, g: Array, k: int) -> Array:
        direction = np.tensordot(method.mixture.weights(k), g, axes=1)
        if method.second_memory is not None:
            root = method.root(k, method.second_memory) * np.sqrt(average(method.second_memory, g**2))
            direction = direction / (root + method.eps)
        kept: Array = (1 - decay.shrink(k, _at(lr, k), peak)) * x
        return kept - _at(lr, k) * direction

    return _run(gradient, x0, steps, step, decay.l2)


def average(memory: Memory, history: Array) -> Array:
    r"""The weighted average $\sum_j w(j,k)\, g_j$ of a history $g_0, \dots, g_k$ along its first axis.

    Args:
        memory: Gives the weights.
        history: Array whose row j is $g_j$.

    Example:
        >>> average(Polynomial(1), np.array([[1.0], [2.0], [6.0]]))
        array([3.])
    """
    return np.asarray(np.tensordot(memory.weights(len(history) - 1), history, axes=1))


def _run(
    gradient: Oracle, x0: ArrayLike, steps: int, step: Callable[[Array, Array, int], Array], l2: Rate = 0.0
) -> Array:
    """The iterates of x_{k+1} = step(x_k, (g_0, ..., g_k), k), with an L2 term of the factor `l2` in the gradients."""
    x: list[Array] = [np.asarray(x0, np.float64)]
    g: list[Array] = []
    for k in range(steps):
        g.append(np.broadcast_to(np.asarray(gradient(x[-1], k), np.float64), x[-1].shape) + _at(l2, k) * x[-1])
        x.append(step(x[-1], np.stack(g), k))
    return np.stack(x)


def _at(rate: Rate, k: int) -> float:
    return rate(k) if callable(rate) else rate


def _momentum(k: int, momentum: float, viscosity: float | None) -> float:
    return momentum if viscosity is None else k / (k + viscosity)
