"""What an objective is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from memgrad.deprecation import renamed
from memgrad.kinds import as_number
from memgrad.problems.kinds import Floats, as_points, like, normals, repeated

Matrix = tuple[tuple[float, ...], ...]


class Objective(ABC):
    r"""A function $f: \mathbb{R}^d \to \mathbb{R}$ to be minimized, with its gradient, its constants and its noise.

    `value`, `gradient` and `hessian` take a numpy array or a torch tensor of points of shape $(\dots, d)$ and return
    the same kind, point by point, with the shapes $(\dots)$, $(\dots, d)$ and $(\dots, d, d)$. One formula serves both;
    torch's autograd of `value` gives `gradient`.

    The constants are those of the paper's assumptions. They hold on all of $\mathbb{R}^d$ and are the best ones that
    do, unless a class says otherwise:

    - `L`: the gradient is Lipschitz, $|\nabla f(x) - \nabla f(y)| \le L\,|x - y|$; infinite if there is none.
    - `mu`: $f$ is strongly convex, $\nabla^2 f(x) \ge \mu I$; 0 for an $f$ that is convex only.
    - `tau`: $f$ is weakly quasi-convex, $\langle \nabla f(x), x - x^* \rangle \ge \tau\,(f(x) - f(x^*))$; None where
      there is no minimizer $x^*$.

    The noise is that of one stochastic gradient: its covariance $\Sigma(x)$ is `noise_covariance(x)`, and
    `stochastic_gradient` draws one. (The volatility of the paper's SDEs is $\sqrt{h \Sigma}$ with their step $h$.)

    Example:
        >>> objective = Objective.parse("quadratic:4,1")
        >>> objective.gradient(np.array([[1.0, 1.0], [0.5, 2.0]]))
        array([[4., 1.],
               [2., 2.]])
        >>> objective.L, objective.mu, objective.tau
        (4.0, 1.0, 2.0)

    Reference:
        UAI 2019, assumptions (H0) to (H2) and App. A.
    """

    family: ClassVar[str]
    """Name of the family in text forms, as `huber` in `huber:1`."""
    example: ClassVar[str]
    """A text form that shows the parameters, or an expression where a text cannot give them."""
    formula: ClassVar[str]
    """f(x) in plain text."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The dimension d."""

    @property
    @abstractmethod
    def minimizer(self) -> Floats | None:
        """A minimizer $x^*$, or None where there is none."""

    minimiser = renamed("minimiser", "minimizer")

    @property
    @abstractmethod
    def minimum(self) -> float:
        r"""The infimum of f, which is $f(x^*)$ where there is a minimizer."""

    @property
    @abstractmethod
    def L(self) -> float:  # noqa: N802  # the theory's letter
        """The Lipschitz constant of the gradient; infinite where there is none."""

    @property
    @abstractmethod
    def mu(self) -> float:
        """The constant of strong convexity; 0 where f is convex only."""

    @property
    @abstractmethod
    def tau(self) -> float | None:
        """The constant of weak quasi-convexity; None where there is no minimizer."""

    def local_L(self, radius: float) -> float:  # noqa: N802
        r"""The Lipschitz constant of the gradient on the box $|x_i| \le$ `radius`: `L`, unless that is infinite.

        Example:
            >>> Objective.parse("quartic").L, Objective.parse("quartic").local_L(1.0)
            (inf, 9.600000000000001)
        """
        as_number(str(self), "radius", radius, least=0.0, excluded=True)
        return self.L

    def value(self, x: Any) -> Any:
        """f(x) at points of shape (..., d): shape (...)."""
        return self._value(as_points(self, x, self.dimension))

    def gradient(self, x: Any) -> Any:
        """The gradient at points of shape (..., d): the same shape."""
        return self._gradient(as_points(self, x, self.dimension))

    def hessian(self, x: Any) -> Any:
        """The Hessian at points of shape (..., d): shape (..., d, d)."""
        return self._hessian(as_points(self, x, self.dimension))

    def noise_covariance(self, x: Any) -> Any:
        r"""The covariance $\Sigma(x)$ of a stochastic gradient at points of shape (..., d): shape (..., d, d)."""
        return self._noise_covariance(as_points(self, x, self.dimension))

    def stochastic_gradient(self, x: Any, generator: Any) -> Any:
        r"""The gradient with noise of mean 0 and covariance $\Sigma(x)$, independent for each point.

        Args:
            x: Points, of shape (..., d).
            generator: A `numpy.random.Generator` for arrays, a `torch.Generator` for tensors.

        Example:
            >>> noisy = Objective.parse("constant:1,sigma=10")
            >>> noisy.stochastic_gradient(np.zeros((3, 1)), np.random.default_rng(0)).round(2)
            array([[ 2.26],
                   [-0.32],
                   [ 7.4 ]])
        """
        return self._stochastic_gradient(as_points(self, x, self.dimension), generator)

    @abstractmethod
    def _value(self, x: Any) -> Any: ...

    @abstractmethod
    def _gradient(self, x: Any) -> Any: ...

    @abstractmethod
    def _hessian(self, x: Any) -> Any: ...

    @abstractmethod
    def _noise_covariance(self, x: Any) -> Any: ...

    @abstractmethod
    def _stochastic_gradient(self, x: Any, generator: Any) -> Any: ...

    def _set(self, **values: Any) -> None:
        """Give the fields their checked values; for `__post_init__`."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        """The text form, such as `huber:1`; `Objective.parse` reads it unless the objective holds data or a matrix."""
        return str(self)

    @staticmethod
    def parse(text: str) -> Objective:
        """The objective with this text form: `su`, `quadratic:1,0.1`, `quartic`, `huber:1`, `logcosh`, `constant:1`.

        Example:
            >>> Objective.parse("huber:1,dimension=2")
            Huber(sigma=0.0, delta=1.0, dimension=2)
        """
        from memgrad.problems.objectives.text import parse

        return parse(text)

    def __str__(self) -> str:
        from memgrad.problems.objectives.text import write

        return write(self)


@dataclass(frozen=True)
class Synthetic(Objective):
    r"""An objective given by a formula, with additive Gaussian noise: $\Sigma(x) = \sigma \sigma^T$.

    Args:
        sigma: The noise of a stochastic gradient, which is $\nabla f(x) + \sigma \xi$ with standard normal $\xi$: a
            number >= 0, or a d x d matrix. No noise by default.
    """

    sigma: float | Matrix = field(default=0.0, kw_only=True)

    def _check_sigma(self) -> None:
        owner, sigma = type(self).__name__, self.sigma
        if isinstance(sigma, tuple | list | np.ndarray):
            self._set(sigma=as_matrix(owner, "sigma", sigma, self.dimension))
        else:
            self._set(sigma=as_number(owner, "sigma", sigma, least=0.0))

    def _noise_covariance(self, x: Any) -> Any:
        d = self.dimension
        s = np.asarray(self.sigma) if isinstance(self.sigma, tuple) else self.sigma * np.eye(d)
        return repeated(x, s @ s.T)

    def _stochastic_gradient(self, x: Any, generator: Any) -> Any:
        g = self._gradient(x)
        if self.sigma == 0.0:
            return g
        xi = normals(x, tuple(x.shape), generator)
        return g + (xi @ like(x, np.asarray(self.sigma).T) if isinstance(self.sigma, tuple) else self.sigma * xi)


class QuadraticForm(Objective):
    r"""An objective that is a quadratic, $f(x) = f^* + \frac12 (x - x^*)^T H (x - x^*)$, whatever defines it.

    Then $\langle \nabla f(x), x - x^* \rangle = (x - x^*)^T H (x - x^*) = 2\,(f(x) - f^*)$: `tau` is exactly 2.
    """

    tau = 2.0

    @property
    @abstractmethod
    def _matrix(self) -> Floats:
        """The symmetric matrix H."""

    @property
    @abstractmethod
    def _bottom(self) -> tuple[Floats, float]:
        """A minimizer and the minimum."""

    @property
    def minimizer(self) -> Floats:
        """A minimizer; the one of least norm where there are several."""
        return self._bottom[0].copy()

    @property
    def minimum(self) -> float:
        """The minimum."""
        return self._bottom[1]

    @property
    def L(self) -> float:  # noqa: N802
        """The largest eigenvalue of H."""
        return float(np.linalg.eigvalsh(self._matrix)[-1])

    @property
    def mu(self) -> float:
        """The smallest eigenvalue of H."""
        return max(0.0, float(np.linalg.eigvalsh(self._matrix)[0]))

    def _value(self, x: Any) -> Any:
        y = x - like(x, self._bottom[0])
        return (y @ like(x, self._matrix) * y).sum(-1) / 2 + self._bottom[1]

    def _gradient(self, x: Any) -> Any:
        return (x - like(x, self._bottom[0])) @ like(x, self._matrix)

    def _hessian(self, x: Any) -> Any:
        return repeated(x, self._matrix)


def as_matrix(owner: str, name: str, values: Any, d: int) -> Matrix:
    """A d x d matrix of finite numbers as tuples, or an error that names the owner, the rule and the shape."""
    matrix = np.asarray(values, dtype=float)
    if matrix.shape != (d, d) or not np.isfinite(matrix).all():
        raise ValueError(
            f"{owner} of dimension {d} needs {name} to be a finite {d} x {d} matrix, got the shape {matrix.shape}."
        )
    return tuple(tuple(map(float, row)) for row in matrix)
