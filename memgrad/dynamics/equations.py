r"""The continuous-time models, as values.

Each second-order one is $dX = V dt$, $dV = -a(t) V dt - c(t)\,[\nabla f(X) dt + \sigma(X) dB]$: a viscosity $a$ and a
gain $c$. Memory is $a = c = \dot m/m$; the heavy ball has $c = 1$.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from memgrad.dynamics.kicks import Kick, memory_kick, viscous_kick
from memgrad.dynamics.noise import Noise, as_noise
from memgrad.dynamics.viscosity import ConstantViscosity, MemoryViscosity, Viscosity, as_viscosity
from memgrad.kinds import Array
from memgrad.memory import Instantaneous, Memory
from memgrad.memory.kinds import as_real
from memgrad.memory.text import as_memory

Gradient = Callable[[Array], Any]


class NotFiniteError(ValueError):
    """Raised if the gradient is not finite at a finite position."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Equation(ABC):
    r"""An ordinary or stochastic differential equation driven by a gradient.

    Args:
        gradient: $\nabla f$ for many positions at once: (paths, d) to (paths, d).
        noise: The volatility $\sigma$: a number >= 0 (times the identity), a matrix of shape (d, r), or a function of
            positions (paths, d) to (paths,) or (paths, d, r). Without it the equation is an ordinary one.
        hessian: The constant Hessian of a quadratic $f$, of shape (d, d), for exact moments.
    """

    gradient: Gradient
    noise: Any = 0.0
    hessian: Any = None
    _noise: Noise = field(init=False, repr=False)
    _hessian: Array | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.gradient):
            raise TypeError(f"an equation needs a gradient, a function of positions, got {self.gradient!r}.")
        object.__setattr__(self, "_noise", as_noise(self.noise))
        object.__setattr__(self, "_hessian", None if self.hessian is None else symmetric(self.hessian))

    @property
    def volatility(self) -> Noise:
        """The noise as a value."""
        return self._noise

    @property
    def is_stochastic(self) -> bool:
        """Whether there is noise."""
        return not self._noise.is_zero

    @property
    def curvature(self) -> Array:
        """The Hessian, or an error that says how to give it."""
        if self._hessian is None:
            raise ValueError(f"exact moments of {self} need its constant Hessian: give hessian=H, of shape (d, d).")
        return self._hessian

    def slope(self, x: Array) -> Array:
        """The gradient at positions of shape (paths, d), its shape and values checked."""
        g = np.asarray(self.gradient(x), dtype=float)
        if g.shape != x.shape:
            raise ValueError(
                f"the gradient must return an array of the shape it is given, (paths, d) = {x.shape}, got {g.shape}."
            )
        if not np.all(np.isfinite(g)) and np.all(np.isfinite(x)):
            where = x[~np.isfinite(g).all(axis=1)][0]
            raise NotFiniteError(f"the gradient is not finite at x={where.tolist()}.")
        return g

    @property
    @abstractmethod
    def is_singular(self) -> bool:
        """Whether coefficients grow without bound as t -> 0."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The paper's name, such as MG-SDE, with its parameters."""

    @abstractmethod
    def gain(self, t: Array) -> Array:
        """The coefficient c(t) of gradient and noise."""

    @abstractmethod
    def kick(self, t0: Array, t1: Array) -> Kick:
        """The exact step of the velocity (of the position, at first order) while the gradient is held constant."""

    @abstractmethod
    def push(self, s: Array, t: Array) -> Array:
        """The influence of the gradient at time s on what `kick` moves at time t."""

    @abstractmethod
    def start(self, x0: Array, t0: float) -> tuple[Array, Array]:
        """Position and velocity at a small time t0 >= 0 of the solution from x0."""

    def __str__(self) -> str:
        return f"{self.name}, noise {self._noise}" if self.is_stochastic else self.name

    def _kind(self) -> str:
        return "SDE" if self.is_stochastic else "ODE"


class SecondOrder(Equation):
    r"""An equation with a velocity: $\dot X = V$, $\dot V = -a V - c\,(\nabla f(X) + \sigma \dot B)$."""

    _first_push: ClassVar[float] = 0.0
    """The velocity at time 0+ for a gradient of -1."""

    @property
    @abstractmethod
    def damping(self) -> Viscosity:
        """The viscosity a(t)."""

    @property
    def is_singular(self) -> bool:
        """Whether the viscosity grows without bound as t -> 0."""
        return self.damping.is_singular

    def drift(self, t: Array, x: Array, v: Array) -> tuple[Array, Array]:
        """The time derivatives of positions and velocities without noise."""
        return v, -self.damping.rate(t) * v - self.gain(t) * self.slope(x)

    def push(self, s: Array, t: Array) -> Array:
        r"""$c(s)\, e^{-\int_s^t a}$: the influence of the gradient at time s on the velocity at time t."""
        return self.gain(s) * self.damping.survival(s, t)

    def start(self, x0: ArrayLike, t0: float) -> tuple[Array, Array]:
        r"""Position and velocity at a small time $t_0 \ge 0$ of the solution from $x_0$, to first order in $t_0$.

        A singular viscosity determines the velocity: memory starts with $V(0^+) = -\nabla f(x_0)$ and a heavy
        ball with viscosity $q/t$ with $V = -t_0 \nabla f(x_0)/(q+1)$. Others start at rest.
        """
        if not 0 <= t0 < np.inf:
            raise ValueError(f"an equation starts at a finite time t0 >= 0, got t0={t0!r}.")
        x = np.atleast_2d(np.asarray(x0, dtype=float))
        g = self.slope(x)
        if t0 == 0:
            return x.copy(), -self._first_push * g
        w = self.kick(np.array(0.0), np.array(t0)).w
        return x - t0 * w * (1 + self._first_push) / 2 * g, -w * g


@final
@dataclass(frozen=True, eq=False)
class MemoryFlow(SecondOrder):
    r"""MG-ODE and MG-SDE: the velocity is minus the weighted average of all past gradients.

    $$dX = V dt, \qquad dV = -\frac{\dot m(t)}{m(t)}\,[V dt + \nabla f(X) dt + \sigma(X) dB],$$

    or $V(t) = -\int_0^t \frac{\dot m(s)}{m(t)} \nabla f(X(s))\, ds$ without noise.

    Args:
        memory: A memory with a memory function m(t), or its text form.
        gradient: $\nabla f$, (paths, d) to (paths, d).
        noise: The volatility, see `Equation`.
        hessian: The Hessian of a quadratic, for exact moments.

    Example:
        >>> equation = MemoryFlow("poly:3", gradient=lambda x: x, noise=0.5)
        >>> print(equation)
        MG-SDE(poly:3), noise 0.5
        >>> equation.start([1.0, 2.0], t0=0.0)[1]
        array([[-1., -2.]])

    Reference:
        UAI 2019, MG-ODE, MG-ODE-INT and MG-SDE. *Differs*: it starts with V = 0, which is forgotten immediately; the
        right velocity at 0+ is minus the gradient.
    """

    memory: Memory
    _damping: Viscosity = field(init=False, repr=False)
    _first_push = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "memory", as_memory("MemoryFlow", "memory", self.memory))
        if isinstance(self.memory, Instantaneous):
            raise ValueError("instantaneous memory has no velocity of its own: use GradientFlow(gradient=...).")
        object.__setattr__(self, "_damping", MemoryViscosity(self.memory))
        # The noise of the first step has the variance of int_0 (m')^2, infinite where m behaves as t^p with p <= 1/2
        # near 0. A quadrature cannot tell, but t m'/m -> p can.
        early = 1e-12
        if self.is_stochastic and early * self.memory.rate(early) <= 0.5 + 1e-6:
            raise ValueError(
                f"the velocity has infinite variance under {self.memory}: the integral of m'(s)^2 from 0 must be "
                f"finite, which for t^p means p > 1/2."
            )

    @property
    def damping(self) -> Viscosity:
        r"""$\dot m/m$."""
        return self._damping

    def drift(self, t: Array, x: Array, v: Array) -> tuple[Array, Array]:
        """The time derivatives of positions and velocities without noise."""
        return v, -self._damping.rate(t) * (v + self.slope(x))

    def gain(self, t: Array) -> Array:
        r"""$\dot m(t)/m(t)$."""
        return self.damping.rate(t)

    def push(self, s: Array, t: Array) -> Array:
        r"""$\dot m(s)/m(t)$."""
        return np.asarray(self.memory.influence(s, t))

    def kick(self, t0: Array, t1: Array) -> Kick:
        """The exact memory step."""
        return memory_kick(self.memory, t0, t1)

    @property
    def name(self) -> str:
        """MG-ODE or MG-SDE, with the memory."""
        return f"MG-{self._kind()}({self.memory})"


@final
@dataclass(frozen=True, eq=False)
class HeavyBallFlow(SecondOrder):
    r"""HB-ODE and HB-SDE: $dX = V dt$, $dV = -a(t) V dt - \nabla f(X) dt - \sigma(X) dB$.

    Args:
        viscosity: A number (constant), `"3/t"` (Nesterov), a memory (its rate), or a `Viscosity`.
        gradient: $\nabla f$, (paths, d) to (paths, d).
        noise: The volatility, see `Equation`.
        hessian: The Hessian of a quadratic, for exact moments.

    Example:
        >>> print(HeavyBallFlow("3/t", gradient=lambda x: x, noise=0.5))
        HB-SDE(3/t), noise 0.5

    Reference:
        UAI 2019, HB-ODE and, with 3/t, Nesterov's SDE. *Differs*: its footnote drops the gradient (erratum 8).
    """

    viscosity: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "viscosity", as_viscosity(self.viscosity))

    @property
    def damping(self) -> Viscosity:
        """The viscosity as a value."""
        return self.viscosity  # type: ignore[no-any-return]  # converted at construction

    def gain(self, t: Array) -> Array:
        """1 at all times."""
        return np.ones(np.shape(t))

    def kick(self, t0: Array, t1: Array) -> Kick:
        """The exact viscous step."""
        return viscous_kick(self.damping, t0, t1)

    @property
    def name(self) -> str:
        """HB-ODE or HB-SDE, with the viscosity."""
        return f"HB-{self._kind()}({self.viscosity})"


@final
@dataclass(frozen=True, eq=False)
class ExponentialFlow(SecondOrder):
    r"""MG-SDE-exp and MG-SDE-exp-G: $dX = V dt$, $dV = -\alpha V dt - C\,[\nabla f(X) dt + \sigma(X) dB]$.

    $C = \alpha$ is exponential memory once its start is forgotten and $\dot m/m = \alpha/(1-e^{-\alpha t})$ is close to
    $\alpha$; $C = 1$ is the heavy ball. It starts at rest.

    Args:
        alpha: The viscosity, finite and > 0.
        scale: $C$, finite and > 0; $\alpha$ by default.
        gradient: $\nabla f$, (paths, d) to (paths, d).
        noise: The volatility, see `Equation`.
        hessian: The Hessian of a quadratic, for exact moments.

    Example:
        >>> print(ExponentialFlow(2.0, gradient=lambda x: x), ExponentialFlow(2.0, scale=0.5, gradient=lambda x: x))
        MG-ODE-exp(2) MG-ODE-exp-G(2, C=0.5)

    Reference:
        UAI 2019, MG-SDE-exp and MG-SDE-exp-G, with f and sigma times C written out.
    """

    alpha: float
    scale: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", as_real("ExponentialFlow", "alpha", self.alpha, "a finite alpha > 0"))
        if self.scale is not None:
            object.__setattr__(self, "scale", as_real("ExponentialFlow", "scale", self.scale, "a finite scale C > 0"))

    @property
    def damping(self) -> Viscosity:
        """The constant viscosity."""
        return ConstantViscosity(self.alpha)

    @property
    def strength(self) -> float:
        """The constant C."""
        return self.alpha if self.scale is None else self.scale

    def gain(self, t: Array) -> Array:
        """C at all times."""
        return np.full(np.shape(t), self.strength)

    def kick(self, t0: Array, t1: Array) -> Kick:
        """The exact viscous step, C times as strong."""
        return viscous_kick(self.damping, t0, t1).times(self.strength)

    @property
    def name(self) -> str:
        """The paper's name, with alpha and C."""
        general = "" if self.scale is None else "-G"
        constants = f"{self.alpha:g}" + ("" if self.scale is None else f", C={self.scale:g}")
        return f"MG-{self._kind()}-exp{general}({constants})"


def symmetric(hessian: Any) -> Array:
    """A Hessian as a square symmetric matrix; a number is one of shape (1, 1)."""
    matrix = np.atleast_2d(np.asarray(hessian, dtype=float))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.all(np.isfinite(matrix)):
        raise ValueError(f"a Hessian is a finite square matrix, got the shape {np.shape(hessian)}.")
    if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0):
        raise ValueError("a Hessian is symmetric, got a matrix that differs from its transpose.")
    return matrix
