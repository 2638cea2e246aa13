r"""The volatility $\sigma(x)$ before the Brownian motion: none, a number, a matrix, or a function of the position."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from memgrad.kinds import Array


class Noise(ABC):
    r"""A volatility: how $r$ independent Brownian motions push the $d$ coordinates of a path."""

    is_zero: bool = False
    """Whether there is no noise at all, so that the equation is an ordinary one."""

    @abstractmethod
    def sources(self, x: Array) -> int:
        """The number r of independent Brownian motions for positions `x` of shape (paths, d); checks the shapes."""

    @abstractmethod
    def push(self, x: Array, z: Array) -> Array:
        r"""$\sigma(x) z$ for positions of shape (paths, d) and normals of shape (paths, r)."""

    @abstractmethod
    def covariance(self, d: int) -> Array:
        r"""The constant matrix $\sigma \sigma^T$ of shape (d, d)."""

    def refuse_areas(self, x: Array) -> None:  # noqa: B027  # constant noise needs none
        """Raise an error if Milstein's scheme would need the Levy areas of two Brownian motions, near `x`."""


@final
@dataclass(frozen=True)
class ScalarNoise(Noise):
    r"""The same noise in all directions, $\sigma I$."""

    sigma: float

    @property
    def is_zero(self) -> bool:  # type: ignore[override]  # a class constant elsewhere, a property here
        """Whether sigma is 0."""
        return self.sigma == 0

    def sources(self, x: Array) -> int:
        """One Brownian motion per coordinate."""
        return int(x.shape[1])

    def push(self, x: Array, z: Array) -> Array:
        r"""$\sigma z$."""
        return self.sigma * z

    def covariance(self, d: int) -> Array:
        r"""$\sigma^2 I$."""
        return self.sigma**2 * np.eye(d)

    def __str__(self) -> str:
        return f"{self.sigma:g}"


@final
@dataclass(frozen=True, eq=False)
class MatrixNoise(Noise):
    r"""Noise by a constant matrix $\sigma$ of shape (d, r)."""

    sigma: Array

    def sources(self, x: Array) -> int:
        """The columns of the matrix."""
        if self.sigma.shape[0] != x.shape[1]:
            raise ValueError(
                f"a noise matrix needs one row per coordinate, {x.shape[1]} of them, got the shape {self.sigma.shape}."
            )
        return int(self.sigma.shape[1])

    def push(self, x: Array, z: Array) -> Array:
        r"""$\sigma z$, path by path."""
        return z @ self.sigma.T

    def covariance(self, d: int) -> Array:
        r"""$\sigma \sigma^T$."""
        self.sources(np.empty((1, d)))
        return self.sigma @ self.sigma.T

    def __str__(self) -> str:
        return "x".join(map(str, self.sigma.shape)) + " matrix"


@final
@dataclass(frozen=True)
class PositionNoise(Noise):
    r"""Noise that depends on the position: a function of (paths, d) to (paths,), (paths, d, r) or (d, r)."""

    sigma: Callable[[Array], Any]

    def sources(self, x: Array) -> int:
        """The number of columns that the function returns, or of coordinates where it returns one number per path."""
        shape, (n, d) = self._at(x).shape, x.shape
        if shape in ((n,), ()):
            return int(d)
        if shape[-2:-1] == (d,) and shape[:-2] in ((), (n,)):
            return int(shape[-1])
        raise ValueError(
            f"noise sigma(x) for positions of shape (paths, d) = {x.shape} needs the shape (paths,), (paths, d, r) or "
            f"(d, r), got {shape}."
        )

    def push(self, x: Array, z: Array) -> Array:
        r"""$\sigma(x) z$."""
        sigma = self._at(x)
        if sigma.ndim < 2:
            return sigma.reshape(-1, 1) * z
        return z @ sigma.T if sigma.ndim == 2 else np.einsum("ndr,nr->nd", sigma, z)

    def covariance(self, d: int) -> Array:
        """Raises an error, because the noise is not constant."""
        raise ValueError(
            "exact moments need a constant noise, got a function sigma(x); give a number or a matrix, or simulate."
        )

    def refuse_areas(self, x: Array) -> None:
        """Accept a single motion, or a diagonal matrix whose entries each depend on their own coordinate alone."""
        rng, d = np.random.default_rng(0), x.shape[1]
        if self.sources(np.repeat(x, 3 if d == 2 else 2, axis=0)) == 1:
            return
        here, there = (x * (1 + 0.1 * rng.uniform(-1, 1, (9, d))) + 0.1 * rng.uniform(-1, 1, (9, d)) for _ in range(2))
        with np.errstate(all="ignore"):
            sigma = [self._matrix(here), *(self._matrix(np.where(np.arange(d) == i, here, there)) for i in range(d))]
        off = sigma[0].shape[2] != d or np.any(sigma[0][:, ~np.eye(d, dtype=bool)] != 0)
        if off or not all(
            np.array_equal(s[:, i, i], sigma[0][:, i, i], equal_nan=True) for i, s in enumerate(sigma[1:])
        ):
            raise ValueError(
                "scheme 'milstein' needs noise sigma(x) from one Brownian motion, or a diagonal matrix (d, d) whose "
                f"entry i depends on coordinate i alone; {self.sigma!r} mixes {d} coordinates. Use scheme 'exact'."
            )

    def _matrix(self, x: Array) -> Array:
        """The noise as matrices (paths, d, r)."""
        sigma, (n, d) = self._at(x), x.shape
        if sigma.ndim < 2:
            return np.broadcast_to(sigma.reshape(-1, 1, 1) * np.eye(d), (n, d, d))
        return np.broadcast_to(sigma, (n, *sigma.shape[-2:]))

    def _at(self, x: Array) -> Array:
        return np.asarray(self.sigma(x), dtype=float)

    def __str__(self) -> str:
        return "sigma(x)"


def as_noise(value: Any) -> Noise:
    """The noise from a number >= 0, a matrix of shape (d, r), or a function of the position.

    Example:
        >>> print(as_noise(0.1), as_noise([[1.0, 0.0], [0.0, 2.0]]))
        0.1 2x2 matrix
    """
    if isinstance(value, Noise):
        return value
    if callable(value):
        return PositionNoise(value)
    try:
        sigma = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"noise is a number sigma >= 0, a matrix of shape (d, r) or a function of the position, got {value!r}."
        ) from None
    if not np.all(np.abs(sigma) <= 1e150):
        raise ValueError(f"noise must be finite, and at most 1e150 so that its variance is finite too, got {value!r}.")
    if sigma.ndim == 0:
        if sigma < 0:
            raise ValueError(f"noise is a standard deviation sigma >= 0, got {value!r}.")
        return ScalarNoise(float(sigma))
    if sigma.ndim != 2 or not math.prod(sigma.shape):
        raise ValueError(
            f"noise is a number sigma >= 0, a matrix of shape (d, r) or a function of the position, got an array of "
            f"shape {sigma.shape}; write np.diag(...) for one number per coordinate."
        )
    return MatrixNoise(sigma)
