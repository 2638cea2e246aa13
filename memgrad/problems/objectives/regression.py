"""Objectives defined by data: their noise is that of the minibatch and depends on the point."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from memgrad.kinds import as_number
from memgrad.problems.kinds import Floats, as_count, indices, like, namespace_of, normals, repeated
from memgrad.problems.objectives.base import Objective, QuadraticForm


@dataclass(frozen=True, eq=False)
class _OnData(Objective):
    r"""A mean over examples, $f(x) = \frac1n \sum_i \ell(\langle a_i, x \rangle, y_i) + \frac{\lambda}{2} |x|^2$."""

    inputs: Floats = field(repr=False)
    targets: Floats = field(repr=False)
    l2: float = field(default=0.0, kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        owner = type(self).__name__
        inputs, targets = np.asarray(self.inputs, dtype=float), np.asarray(self.targets, dtype=float)
        if inputs.ndim != 2 or targets.shape != inputs.shape[:1] or inputs.size == 0:
            raise ValueError(
                f"{owner} needs inputs of shape (n, d) and n targets, got shapes {inputs.shape} and {targets.shape}."
            )
        if not (np.isfinite(inputs).all() and np.isfinite(targets).all()):
            raise ValueError(f"{owner} needs finite inputs and targets, got nan or inf among them.")
        self._set(inputs=inputs, targets=targets, l2=as_number(owner, "l2", self.l2, least=0.0))
        if self.batch_size is not None:
            self._set(batch_size=as_count(owner, "batch_size", self.batch_size))

    @property
    def dimension(self) -> int:
        """The number of columns of the inputs."""
        return int(self.inputs.shape[1])

    @property
    def examples(self) -> int:
        """The number n of rows."""
        return int(self.inputs.shape[0])

    def __str__(self) -> str:
        return f"{self.family}({self.examples} x {self.dimension})"

    @abstractmethod
    def _slope(self, z: Any, y: Any) -> Any:
        r"""The derivative of $\ell(z, y)$ in z."""

    def _noise_covariance(self, x: Any) -> Any:
        r"""$\frac{1}{nB} \sum_i (g_i - g)(g_i - g)^T$; the L2 term is in each $g_i$, so it cancels."""
        if self.batch_size is None:
            return repeated(x, np.zeros((self.dimension, self.dimension)))
        a = like(x, self.inputs)
        each = self._slope(x @ a.T, like(x, self.targets))[..., None] * a
        each = each - each.mean(-2)[..., None, :]
        return namespace_of(x).swapaxes(each, -1, -2) @ each / (self.examples * self.batch_size)

    def _stochastic_gradient(self, x: Any, generator: Any) -> Any:
        if self.batch_size is None:
            return self._gradient(x)
        chosen = indices(x, self.examples, (*x.shape[:-1], self.batch_size), generator)
        a, y = like(x, self.inputs)[chosen], like(x, self.targets)[chosen]
        slopes = self._slope((a @ x[..., None])[..., 0], y)
        return (slopes[..., None, :] @ a)[..., 0, :] / self.batch_size + self.l2 * x


@final
@dataclass(frozen=True, eq=False)
class LeastSquares(_OnData, QuadraticForm):
    r"""Least squares on given data: $f(x) = \frac{1}{2n} |Ax - y|^2 + \frac{\lambda}{2} |x|^2$.

    $H = A^T A/n + \lambda I$ gives `L` and `mu`; `tau` is exactly 2.

    Args:
        inputs: The matrix $A$, (n, d). It is not copied if it is made of float64.
        targets: The n numbers $y$.
        l2: The factor $\lambda \ge 0$.
        batch_size: The number of examples of a stochastic gradient, drawn with replacement; all of them, hence no
            noise, by default.

    Example:
        >>> LeastSquares(np.array([[1.0], [2.0]]), np.array([1.0, 2.0])).minimizer
        array([1.])
    """

    family: ClassVar[str] = "least-squares"
    example: ClassVar[str] = "LeastSquares(inputs, targets)"
    formula: ClassVar[str] = "|A x - y|^2 / (2n) + l2 |x|^2 / 2"

    @cached_property
    def _matrix(self) -> Floats:
        return self.inputs.T @ self.inputs / self.examples + self.l2 * np.eye(self.dimension)

    @cached_property
    def _bottom(self) -> tuple[Floats, float]:
        # The square root of the L2 term is d more rows: no normal equations, which would square the condition number.
        root = np.sqrt(self.examples * self.l2)
        rows = np.vstack([self.inputs, root * np.eye(self.dimension)]) if self.l2 else self.inputs
        ends = np.concatenate([self.targets, np.zeros(self.dimension)]) if self.l2 else self.targets
        x = np.linalg.lstsq(rows, ends, rcond=None)[0]
        residual = rows @ x - ends
        return np.asarray(x, dtype=float), float(residual @ residual) / (2 * self.examples)

    def _slope(self, z: Any, y: Any) -> Any:
        return z - y


@final
@dataclass(frozen=True, eq=False)
class Logistic(_OnData):
    r"""Logistic regression: $f(x) = \frac1n \sum_i \log(1 + e^{z_i}) - y_i z_i + \frac{\lambda}{2} |x|^2$, $z = Ax$.

    `L` $= \lambda_{\max}(A^T A)/(4n) + \lambda$, the curvature at 0, is the best constant; `mu` is $\lambda$, because
    the curvature of the rest vanishes at infinity. `tau` is 1, what convexity gives: the largest constant that holds
    for all data.

    Args:
        inputs: The matrix $A$, (n, d). It is not copied if it is made of float64.
        targets: The n labels $y$, 0 or 1.
        l2: The factor $\lambda \ge 0$. Data that a hyperplane separates have no minimizer without it.
        batch_size: The number of examples of a stochastic gradient, drawn with replacement; all of them, hence no
            noise, by default.

    Example:
        >>> objective = Logistic(np.array([[1.0], [2.0], [-1.0]]), np.array([1, 0, 0]), l2=0.1)
        >>> objective.L, objective.mu, objective.tau
        (0.6, 0.1, 1.0)
    """

    family: ClassVar[str] = "logistic"
    example: ClassVar[str] = "Logistic(inputs, targets)"
    formula: ClassVar[str] = "sum_i [log(1 + exp(z_i)) - y_i z_i] / n + l2 |x|^2 / 2, z = A x"

    def __post_init__(self) -> None:
        super().__post_init__()
        wrong = self.targets[(self.targets != 0) & (self.targets != 1)]
        if len(wrong):
            raise ValueError(
                f"Logistic needs targets 0 or 1, got {wrong[0]:g} among them; labels -1 and 1 become (y + 1) / 2."
            )

    @property
    def L(self) -> float:  # noqa: N802
        """The largest eigenvalue of the Hessian at 0."""
        return float(np.linalg.eigvalsh(self.inputs.T @ self.inputs)[-1]) / (4 * self.examples) + self.l2

    @property
    def mu(self) -> float:
        """The factor of the L2 term."""
        return self.l2

    @property
    def tau(self) -> float | None:
        """1, or None where there is no minimizer."""
        return None if self.minimizer is None else 1.0

    @property
    def minimizer(self) -> Floats | None:
        """The minimizer, found by Newton's method; None if a hyperplane separates the data and l2 is 0."""
        x = self._bottom[0]
        return None if x is None else x.copy()

    @property
    def minimum(self) -> float:
        """The minimum; the infimum 0 if a hyperplane separates the data and l2 is 0."""
        return self._bottom[1]

    @cached_property
    def _bottom(self) -> tuple[Floats | None, float]:
        x = np.zeros(self.dimension)
        full_rank = np.linalg.lstsq(self._hessian(x), x, rcond=None)[2]
        for _ in range(100):
            step, _, rank, _ = np.linalg.lstsq(self._hessian(x), self._gradient(x), rcond=None)
            if rank < full_rank:  # f decreases forever along a direction without curvature
                break
            while self._value(x - step) > self._value(x) * (1 + 1e-12):  # a full step may overshoot far from the end
                step = step / 2
            x = x - step
            if self.l2 == 0 and np.all((2 * self.targets - 1) * (self.inputs @ x) > 0):
                return None, 0.0
            if np.abs(step).max() <= 1e-10 * (1 + np.abs(x).max()):  # convergence is quadratic: x is exact by now
                return x, float(self._value(x))
        raise ValueError(
            "Newton's method found no minimizer of this logistic objective, because a hyperplane separates all but the "
            "examples that lie on it; give it an L2 term, such as l2=1e-4."
        )

    def _value(self, x: Any) -> Any:
        z = x @ like(x, self.inputs).T
        each = namespace_of(x).logaddexp(z * 0, z) - like(x, self.targets) * z
        return each.mean(-1) + self.l2 / 2 * (x * x).sum(-1)

    def _slope(self, z: Any, y: Any) -> Any:
        return (1 + namespace_of(z).tanh(z / 2)) / 2 - y  # the logistic function, in a form that does not overflow

    def _gradient(self, x: Any) -> Any:
        a = like(x, self.inputs)
        return self._slope(x @ a.T, like(x, self.targets)) @ a / self.examples + self.l2 * x

    def _hessian(self, x: Any) -> Any:
        a = like(x, self.inputs)
        slope = namespace_of(x).tanh(x @ a.T / 2)
        curvature = (1 - slope * slope) / 4
        return (curvature[..., None, :] * a.T) @ a / self.examples + like(x, self.l2 * np.eye(self.dimension))


@final
@dataclass(frozen=True)
class PowerLaw(QuadraticForm):
    r"""Power-law random features: $f(x) = \frac12 \mathrm{E}\,(\langle W^T a, x \rangle - \langle a, c \rangle)^2$.

    The data $a_j = j^{-\alpha} z_j$, $j = 1, \dots, v$, with standard normal $z$, have the spectrum $j^{-2\alpha}$; the
    target is $c_j = j^{-\beta}$; a model of $d \le v$ parameters sees them through a fixed random $W$ with independent
    entries of variance $1/d$. With $D = \mathrm{diag}(j^{-2\alpha})$ and $r = Wx - c$ this is
    $f(x) = \frac12 r^T D r$, a quadratic with $H = W^T D W$. Its loss falls as a power of the size and of the number of
    steps, which is why scaling laws are studied on it.

    A stochastic gradient has fresh data each time: $\Sigma(x) = W^T [(r^T D r)\,D + D r r^T D]\,W / B$.

    Args:
        alpha: Decay of the data's spectrum, finite and > 0.
        beta: Decay of the target, finite and >= 0.
        dimension: Number d of parameters.
        ambient: Number v >= d of the data's coordinates; ten times d unless given.
        seed: Seed of $W$.
        batch_size: Examples in a stochastic gradient; infinitely many, hence no noise, by default.

    Example:
        >>> objective = PowerLaw(1.0, 0.5, dimension=4)
        >>> objective.ambient, objective.tau
        (40, 2.0)

    Reference:
        Paquette, Paquette, Xiao, Pennington, *4+3 Phases of Compute-Optimal Neural Scaling Laws*, NeurIPS 2024.
    """

    alpha: float
    beta: float
    dimension: int = 10
    ambient: int | None = None
    seed: int = 0
    batch_size: int | None = None

    family: ClassVar[str] = "powerlaw"
    example: ClassVar[str] = "powerlaw:1,0.5"
    formula: ClassVar[str] = "sum_j j^(-2 alpha) ((W x)_j - j^-beta)^2 / 2"

    def __post_init__(self) -> None:
        self._set(
            alpha=as_number("PowerLaw", "alpha", self.alpha, least=0.0, excluded=True),
            beta=as_number("PowerLaw", "beta", self.beta, least=0.0),
            dimension=(d := as_count("PowerLaw", "dimension", self.dimension)),
            ambient=10 * d if self.ambient is None else as_count("PowerLaw", "ambient", self.ambient, least=d),
            seed=as_count("PowerLaw", "seed", self.seed, least=0),
        )
        if self.batch_size is not None:
            self._set(batch_size=as_count("PowerLaw", "batch_size", self.batch_size))

    @cached_property
    def _j(self) -> Floats:
        assert self.ambient is not None  # set above
        return np.arange(1.0, self.ambient + 1)

    @cached_property
    def _features(self) -> Floats:
        """W, of shape (v, d)."""
        entries = np.random.default_rng(self.seed).standard_normal((len(self._j), self.dimension))
        return entries / math.sqrt(self.dimension)

    @cached_property
    def _matrix(self) -> Floats:
        return self._features.T @ (self._j[:, None] ** (-2 * self.alpha) * self._features)

    @cached_property
    def _bottom(self) -> tuple[Floats, float]:
        root = self._j**-self.alpha  # least squares of sqrt(D) (W x - c): D alone would square the condition number
        x = np.linalg.lstsq(root[:, None] * self._features, root * self._j**-self.beta, rcond=None)[0]
        residual = root * (self._features @ x - self._j**-self.beta)
        return np.asarray(x, dtype=float), float(residual @ residual) / 2

    def _noise_covariance(self, x: Any) -> Any:
        if self.batch_size is None:
            return repeated(x, np.zeros((self.dimension, self.dimension)))
        # r^T D r = 2 f and W^T D r = grad f
        g = self._gradient(x)
        loss = self._value(x)[..., None, None]
        return (2 * loss * like(x, self._matrix) + g[..., None] * g[..., None, :]) / self.batch_size

    def _stochastic_gradient(self, x: Any, generator: Any) -> Any:
        if self.batch_size is None:
            return self._gradient(x)
        w = like(x, self._features)
        r = x @ w.T - like(x, self._j**-self.beta)
        z = normals(x, (*x.shape[:-1], self.batch_size, len(self._j)), generator)
        a = z * like(x, self._j**-self.alpha)
        errors = (a @ r[..., None])[..., 0]
        return (errors[..., None, :] @ a)[..., 0, :] @ w / self.batch_size
