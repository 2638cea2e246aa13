"""Points and weights of integration over [0, 1]."""

from __future__ import annotations

from functools import cache

import numpy as np

from memgrad.kinds import Array


@cache
def legendre(n: int) -> tuple[Array, Array]:
    """The n points and weights of Gauss-Legendre, for smooth functions.

    Example:
        >>> u, du = legendre(4)
        >>> float(np.sum(u**3 * du).round(15))
        0.25
    """
    x, w = np.polynomial.legendre.leggauss(n)
    return (1 + x) / 2, w / 2


@cache
def double_exponential() -> tuple[Array, Array]:
    """Points and weights for functions that are singular or steep at an end.

    The points are u = 1/(1 + e^(-pi sinh x)) for even x, from 1e-250 to 1 - 1e-17.

    Example:
        >>> u, du = double_exponential()
        >>> float(np.sum(u**-0.5 * du).round(12))
        2.0
    """
    dx = 1 / 16
    x = np.arange(-5.9, 3.2, dx)
    u = 1 / (1 + np.exp(-np.pi * np.sinh(x)))
    return u, dx * np.pi * np.cosh(x) * u / (1 + np.exp(np.pi * np.sinh(x)))
