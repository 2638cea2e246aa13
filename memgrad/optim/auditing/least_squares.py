"""Small least-squares problems: a few bounded parameters, or nonnegative factors."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from memgrad.kinds import Array


def nonnegative(columns: Array, values: Array) -> Array:
    """The factors x >= 0 for which `columns @ x` is nearest to the values, by trying all subsets of a few columns.

    Example:
        >>> nonnegative(np.eye(2), np.array([2.0, -1.0]))
        array([2., 0.])
    """
    count = columns.shape[1]
    size = np.linalg.norm(columns, axis=0)
    scaled = columns / np.where(size > 0, size, 1.0)
    best, least = np.zeros(count), float(values @ values)
    for kept in range(count, 0, -1):
        for subset in itertools.combinations(range(count), kept):
            factors = np.linalg.lstsq(scaled[:, subset], values, rcond=None)[0]
            if (factors < 0).any():
                continue
            if kept == count:  # nothing is nearer than the unconstrained solution
                return np.asarray(factors / np.where(size > 0, size, 1.0))
            rest = scaled[:, subset] @ factors - values
            if rest @ rest < least:
                least, best = float(rest @ rest), np.zeros(count)
                best[list(subset)] = factors
    return np.asarray(best / np.where(size > 0, size, 1.0))


def levenberg(residual: Callable[[Array], Array], start: Array, low: Array, high: Array, rounds: int = 60) -> Array:
    """Bounded parameters that minimize the sum of squared residuals near a start: the Levenberg-Marquardt method.

    Example:
        >>> levenberg(lambda x: np.array([x[0] - 1, x[1] ** 2 - 4]), np.array([3.0, 3.0]), np.zeros(2), np.full(2, 9.0))
        array([1., 2.])
    """
    x = np.clip(start, low, high)
    rest = residual(x)
    damping = 1e-3
    for _ in range(rounds if len(x) else 0):
        jacobian = np.column_stack(derivatives(residual, x, 1e-6))
        normal, downhill = jacobian.T @ jacobian, -jacobian.T @ rest
        scale = np.diag(normal) + 1e-30
        for _ in range(12):
            step = np.linalg.lstsq(normal + damping * np.diag(scale), downhill, rcond=None)[0]
            there = np.clip(x + step, low, high)
            new = residual(there)
            if new @ new < rest @ rest:
                break
            damping *= 8
        else:
            return x
        moved = np.abs(there - x).max()
        x, rest, damping = there, new, max(damping / 30, 1e-15)
        if moved < 1e-14:
            break
    return x


def derivatives(function: Callable[[Array], Array], x: Array, step: float) -> list[Array]:
    """The partial derivatives of a function, by central differences with a step relative to each coordinate.

    Example:
        >>> derivatives(lambda x: np.array([x[0] * x[1]]), np.array([2.0, 3.0]), 0.5)
        [array([3.]), array([2.])]
    """
    columns = []
    for i in range(len(x)):
        h = np.zeros(len(x))
        h[i] = step * max(1.0, abs(float(x[i])))
        columns.append((function(x + h) - function(x - h)) / (2 * h[i]))
    return columns
