"""Objectives given by a formula. A new one is a class here, its place in `FAMILIES`, and its row in the test table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from memgrad.kinds import as_number
from memgrad.problems.kinds import (
    Floats,
    as_count,
    as_vector,
    diagonal,
    like,
    namespace_of,
    repeated,
    scaled,
    weighted_sum,
)
from memgrad.problems.objectives.base import Matrix, Synthetic, as_matrix


class _AtOrigin(Synthetic):
    """An objective whose minimum is 0, at the origin."""

    minimum = 0.0

    @property
    def minimizer(self) -> Floats:
        """The origin."""
        return np.zeros(self.dimension)


@final
@dataclass(frozen=True)
class Quadratic(_AtOrigin):
    r"""A quadratic with a given spectrum: $f(x) = \frac12 \sum_i \lambda_i (Qx)_i^2$, hence $H = Q^T \Lambda Q$.

    `L` and `mu` are the largest and the smallest $\lambda_i$; `tau` is exactly 2.

    Args:
        spectrum: The eigenvalues $\lambda_i$ of the Hessian, finite and >= 0.
        rotation: The orthogonal d x d matrix $Q$, or the seed (an integer >= 0) of one drawn uniformly. By default the
            eigenvectors are the axes, and a gradient costs d products.
        sigma: The noise of a stochastic gradient: a number >= 0 or a d x d matrix.

    Example:
        >>> Quadratic((1.0, 0.1)).gradient(np.array([1.0, 1.0]))
        array([1. , 0.1])
        >>> Quadratic((1.0, 0.1), rotation=7).mu
        0.1
    """

    spectrum: tuple[float, ...]
    rotation: int | Matrix | None = None

    family: ClassVar[str] = "quadratic"
    example: ClassVar[str] = "quadratic:1,0.1"
    formula: ClassVar[str] = "sum_i lambda_i x_i^2 / 2"
    tau = 2.0

    def __post_init__(self) -> None:
        self._set(spectrum=as_vector("Quadratic", "spectrum", self.spectrum, least=0.0))
        if isinstance(self.rotation, int | float):
            self._set(rotation=as_count("Quadratic", "rotation", self.rotation, least=0))
        elif self.rotation is not None:
            self._set(rotation=as_matrix("Quadratic", "rotation", self.rotation, self.dimension))
            q = np.asarray(self.rotation)
            if not np.allclose(q @ q.T, np.eye(self.dimension), atol=1e-8):
                raise ValueError(
                    f"Quadratic needs an orthogonal matrix rotation, got one whose Q Q^T differs from the identity by "
                    f"{np.abs(q @ q.T - np.eye(self.dimension)).max():.2g}; numpy.linalg.qr makes one."
                )
        self._check_sigma()

    @property
    def dimension(self) -> int:
        """The number of eigenvalues."""
        return len(self.spectrum)

    @property
    def L(self) -> float:  # noqa: N802
        """The largest eigenvalue."""
        return max(self.spectrum)

    @property
    def mu(self) -> float:
        """The smallest eigenvalue."""
        return min(self.spectrum)

    @cached_property
    def _eigenvalues(self) -> Floats:
        return np.asarray(self.spectrum)

    @cached_property
    def _axes(self) -> Floats:
        """Q, whose rows are the eigenvectors."""
        if isinstance(self.rotation, int):
            return random_rotation(self.dimension, self.rotation)
        return np.eye(self.dimension) if self.rotation is None else np.asarray(self.rotation)

    @cached_property
    def _matrix(self) -> Floats:
        return self._axes.T @ (self._eigenvalues[:, None] * self._axes)

    def _value(self, x: Any) -> Any:
        y = x if self.rotation is None else x @ like(x, self._axes.T)
        return weighted_sum(y * y, self._eigenvalues / 2)

    def _gradient(self, x: Any) -> Any:
        return scaled(x, self._eigenvalues) if self.rotation is None else x @ like(x, self._matrix)

    def _hessian(self, x: Any) -> Any:
        return repeated(x, self._matrix)


@final
@dataclass(frozen=True)
class Quartic(_AtOrigin):
    r"""A sum of fourth powers, $f(x) = \sum_i c_i x_i^4$: convex, and flatter at its minimum than any quadratic.

    $\langle \nabla f(x), x \rangle = 4 f(x)$: `tau` is exactly 4. The Hessian $12\,c_i x_i^2$ is unbounded, so `L` is
    infinite; on the box $|x_i| \le r$ it is `local_L(r)` $= 12\,r^2 \max_i c_i$.

    Args:
        coefficients: The $c_i$, finite and >= 0; the paper's .8 and .4 unless given.
        sigma: The noise of a stochastic gradient: a number >= 0 or a d x d matrix.

    Example:
        >>> Quartic().value(np.array([[1.0, 1.0], [0.0, 1.0]]))
        array([1.2, 0.4])

    Reference:
        UAI 2019, Fig. p_verification.
    """

    coefficients: tuple[float, ...] = (0.8, 0.4)

    family: ClassVar[str] = "quartic"
    example: ClassVar[str] = "quartic:0.8,0.4"
    formula: ClassVar[str] = "sum_i c_i x_i^4"
    mu = 0.0  # the Hessian vanishes at the minimizer
    tau = 4.0  # the degree

    def __post_init__(self) -> None:
        self._set(coefficients=as_vector("Quartic", "coefficients", self.coefficients, least=0.0))
        self._check_sigma()

    @property
    def dimension(self) -> int:
        """The number of coefficients."""
        return len(self.coefficients)

    @property
    def L(self) -> float:  # noqa: N802
        """Infinite: the Hessian is unbounded. See `local_L`."""
        return math.inf if max(self.coefficients) else 0.0

    def local_L(self, radius: float) -> float:  # noqa: N802
        r"""$12\,r^2 \max_i c_i$ on the box $|x_i| \le r$.

        Example:
            >>> Quartic((1.0,)).local_L(0.5)
            3.0
        """
        return 12 * as_number("Quartic", "radius", radius, least=0.0, excluded=True) ** 2 * max(self.coefficients)

    @cached_property
    def _c(self) -> Floats:
        return np.asarray(self.coefficients)

    def _value(self, x: Any) -> Any:
        squares = x * x
        return weighted_sum(squares * squares, self._c)

    def _gradient(self, x: Any) -> Any:
        return scaled(x * x * x, 4 * self._c)

    def _hessian(self, x: Any) -> Any:
        return diagonal(scaled(x * x, 12 * self._c))


class _Valley(_AtOrigin):
    r"""A sum over the coordinates of one convex function with slope in $[-s, s]$ and curvature in $[0, 1]$."""

    L = 1.0  # the curvature at the origin
    mu = 0.0  # the curvature vanishes far from the origin
    tau = 1.0  # approached far from the origin, where f grows like |x|


@final
@dataclass(frozen=True)
class Huber(_Valley):
    r"""Huber's function: $f(x) = \sum_i h(x_i)$, $h(x) = x^2/2$ for $|x| \le \delta$, else $\delta\,(|x| - \delta/2)$.

    Its gradient is $x$ clipped to $[-\delta, \delta]$. For $|x| > \delta$ the ratio
    $\langle \nabla f, x \rangle / f = |x|/(|x| - \delta/2)$ falls to 1: `tau` is 1. It makes the paper's condition
    $p \ge 1 + 1/\tau$ sharp. At $|x_i| = \delta$ the Hessian is that of the inside.

    Args:
        delta: Where the parabola ends, finite and > 0.
        dimension: The dimension d >= 1.
        sigma: The noise of a stochastic gradient: a number >= 0 or a d x d matrix.

    Example:
        >>> Huber(1.0).gradient(np.array([[0.5], [3.0]]))
        array([[0.5],
               [1. ]])
    """

    delta: float = 1.0
    dimension: int = 1

    family: ClassVar[str] = "huber"
    example: ClassVar[str] = "huber:1"
    formula: ClassVar[str] = "sum_i (x_i^2/2 if |x_i| <= delta else delta (|x_i| - delta/2))"

    def __post_init__(self) -> None:
        self._set(delta=as_number("Huber", "delta", self.delta, least=0.0, excluded=True))
        self._set(dimension=as_count("Huber", "dimension", self.dimension))
        self._check_sigma()

    def _value(self, x: Any) -> Any:
        g = self._gradient(x)
        return weighted_sum(g * (x - g / 2), np.ones(self.dimension))

    def _gradient(self, x: Any) -> Any:
        return namespace_of(x).clip(x, -self.delta, self.delta)

    def _hessian(self, x: Any) -> Any:
        return diagonal((abs(x) <= self.delta) * namespace_of(x).ones_like(x))


@final
@dataclass(frozen=True)
class LogCosh(_Valley):
    r"""The smooth valley $f(x) = \sum_i \log\cosh x_i$: $x^2/2$ near the origin, $|x| - \log 2$ far from it.

    Its gradient is $\tanh x$, its Hessian $1 - \tanh^2 x$. The ratio $x \tanh x/\log\cosh x$ falls from 2 to 1 as $|x|$
    grows: `tau` is 1.

    Args:
        dimension: The dimension d >= 1.
        sigma: The noise of a stochastic gradient: a number >= 0 or a d x d matrix.

    Example:
        >>> LogCosh().gradient(np.array([[0.0], [100.0]]))
        array([[0.],
               [1.]])
    """

    dimension: int = 1

    family: ClassVar[str] = "logcosh"
    example: ClassVar[str] = "logcosh"
    formula: ClassVar[str] = "sum_i log cosh x_i"

    def __post_init__(self) -> None:
        self._set(dimension=as_count("LogCosh", "dimension", self.dimension))
        self._check_sigma()

    def _value(self, x: Any) -> Any:
        xp, a = namespace_of(x), abs(x)
        # Each form where it neither overflows nor cancels; the clip keeps the unused branch finite.
        near = xp.log1p(2 * xp.sinh(xp.clip(x, -1, 1) / 2) ** 2)
        far = a + xp.log1p(xp.exp(-2 * a)) - math.log(2)
        return weighted_sum(xp.where(a < 1, near, far), np.ones(self.dimension))

    def _gradient(self, x: Any) -> Any:
        return namespace_of(x).tanh(x)

    def _hessian(self, x: Any) -> Any:
        slope = namespace_of(x).tanh(x)
        return diagonal(1 - slope * slope)


@final
@dataclass(frozen=True)
class ConstantGradient(Synthetic):
    r"""A plane, $f(x) = \langle c, x \rangle$: the gradient is $c$ everywhere, and there is no minimizer.

    What an optimizer does to it is what its memory does to a signal that does not change, and to the noise upon it.

    Args:
        slope: The gradient $c$, finite numbers.
        sigma: The noise of a stochastic gradient: a number >= 0 or a d x d matrix.

    Example:
        >>> ConstantGradient((1.0,)).gradient(np.zeros((2, 1)))
        array([[1.],
               [1.]])

    Reference:
        UAI 2019, Fig. verif_noise (c = 1, sigma = 10).
    """

    slope: tuple[float, ...] = (1.0,)

    family: ClassVar[str] = "constant"
    example: ClassVar[str] = "constant:1"
    formula: ClassVar[str] = "sum_i c_i x_i"
    L = 0.0
    mu = 0.0

    def __post_init__(self) -> None:
        self._set(slope=as_vector("ConstantGradient", "slope", self.slope, least=-math.inf))
        self._check_sigma()

    @property
    def dimension(self) -> int:
        """The number of slopes."""
        return len(self.slope)

    @property
    def minimizer(self) -> Floats | None:
        """None, unless the slope is 0."""
        return None if any(self.slope) else np.zeros(self.dimension)

    @property
    def minimum(self) -> float:
        """Minus infinity, unless the slope is 0."""
        return -math.inf if any(self.slope) else 0.0

    @property
    def tau(self) -> float | None:
        """None, unless the slope is 0: there is no minimizer."""
        return None if any(self.slope) else 1.0

    def _value(self, x: Any) -> Any:
        return weighted_sum(x, np.asarray(self.slope))

    def _gradient(self, x: Any) -> Any:
        return namespace_of(x).zeros_like(x) + like(x, np.asarray(self.slope))

    def _hessian(self, x: Any) -> Any:
        return repeated(x, np.zeros((self.dimension, self.dimension)))


def random_rotation(d: int, seed: int) -> Floats:
    """An orthogonal d x d matrix drawn uniformly (Haar measure)."""
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))
    return np.asarray(q * np.sign(np.diag(r)))  # without the signs, QR's own convention would bias the draw


SU = Quadratic((0.04, 0.01))
"""Su, Boyd and Candes' quadratic, $f(x) = .02\\,x_1^2 + .005\\,x_2^2$, as used in the paper."""
