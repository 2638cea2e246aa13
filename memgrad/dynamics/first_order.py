"""First-order models, which have no velocity: gradient flow and its amplification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from memgrad.dynamics.equations import Equation
from memgrad.dynamics.kicks import Kick
from memgrad.kinds import Array


class FirstOrder(Equation):
    r"""An equation without a velocity: $dX = -c(t)\,[\nabla f(X) dt + \sigma(X) dB]$."""

    is_singular = False

    def drift(self, t: Array, x: Array) -> Array:
        """The time derivative of positions without noise."""
        return -self.gain(t) * self.slope(x)

    def start(self, x0: Array, t0: float) -> tuple[Array, Array]:
        """The position x0 and its velocity at time t0."""
        return x0.copy(), self.drift(np.asarray(t0), x0)

    def push(self, s: Array, t: Array) -> Array:
        """c(s): a position keeps every displacement."""
        return np.broadcast_to(self.gain(s), np.broadcast_shapes(np.shape(s), np.shape(t)))


@final
@dataclass(frozen=True, eq=False)
class GradientFlow(FirstOrder):
    r"""GD-ODE, and with noise the usual model of SGD: $dX = -\nabla f(X) dt - \sigma(X) dB$.

    Args:
        gradient: $\nabla f$, (paths, d) to (paths, d).
        noise: The volatility, see `Equation`.
        hessian: The Hessian of a quadratic, for exact moments.

    Example:
        >>> print(GradientFlow(gradient=lambda x: x))
        GD-ODE
    """

    def gain(self, t: Array) -> Array:
        """1 at all times."""
        return np.ones(np.shape(t))

    def kick(self, t0: Array, t1: Array) -> Kick:
        """A step as long as the time it takes."""
        h = t1 - t0
        return Kick(np.ones(np.shape(h)), h, h)

    @property
    def name(self) -> str:
        """GD-ODE or GD-SDE."""
        return f"GD-{self._kind()}"


@final
@dataclass(frozen=True, eq=False)
class AmplifiedFlow(FirstOrder):
    r"""Gradient descent whose step size grows with time: $dX = -t\,[\nabla f(X) dt + \sigma(X) dB]$.

    Amplification alone reaches the rate of Nesterov's method in continuous time, $f - f^* \le |x_0-x^*|^2/t^2$,
    without any memory; its discretization $x_{k+1} = x_k - \eta k \nabla f(x_k)$ is stable only while $k \eta L < 2$.

    Args:
        gradient: $\nabla f$, (paths, d) to (paths, d).
        noise: The volatility, see `Equation`.
        hessian: The Hessian of a quadratic, for exact moments.

    Example:
        >>> print(AmplifiedFlow(gradient=lambda x: x))
        amplified GD-ODE

    Reference:
        UAI 2019, Sec. 3.2. *Differs*: the sign and power of the Lyapunov derivative there (erratum 7).
    """

    def gain(self, t: Array) -> Array:
        """The time itself."""
        return np.asarray(t, dtype=float)

    def kick(self, t0: Array, t1: Array) -> Kick:
        """The integrals of t and of its square."""
        h = t1 - t0  # factored, because the difference of large powers would cancel
        return Kick(np.ones(np.shape(h)), h * (t0 + t1) / 2, h * (t0**2 + t0 * t1 + t1**2) / 3)

    @property
    def name(self) -> str:
        """Amplified GD-ODE or GD-SDE."""
        return f"amplified GD-{self._kind()}"
