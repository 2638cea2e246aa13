"""Where memory comes from: its Lagrangian and its integral form, and how far a solution is from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from memgrad.dynamics.equations import Gradient, SecondOrder
from memgrad.dynamics.quadrature import legendre
from memgrad.dynamics.results import Trajectory
from memgrad.dynamics.viscosity import refuse_discrete
from memgrad.kinds import Array
from memgrad.memory import Memory
from memgrad.memory.text import as_memory


@final
@dataclass(frozen=True)
class MemoryLagrangian:
    r"""The memory Lagrangian $\mathcal L(x, v, t) = \frac12 m(t) |v|^2 - \dot m(t) f(x)$.

    Its Euler-Lagrange equation, $\frac{d}{dt}(m v) + \dot m \nabla f = 0$, is $m(t)$ times MG-ODE.

    Args:
        memory: A memory with a memory function, or its text form.
        value: $f$, (paths, d) to (paths,).

    Example:
        >>> lagrangian = MemoryLagrangian("poly:2", lambda x: (x**2).sum(axis=1) / 2)
        >>> lagrangian(np.array([[2.0]]), np.array([[3.0]]), np.array([1.0]))  # 9/2 - 2 * 2
        array([0.5])

    Reference:
        UAI 2019, App. "variational perspective" of MG-ODE.
    """

    memory: Memory
    value: Callable[[Array], Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", as_memory("MemoryLagrangian", "memory", self.memory))
        refuse_discrete(self.memory)

    def __call__(self, x: Array, v: Array, t: Array) -> Array:
        """The Lagrangian at positions and velocities (n, d) and times (n,)."""
        kinetic, value = self.memory.m(t) * np.sum(v**2, axis=1) / 2, np.asarray(self.value(x))
        if value.shape != kinetic.shape:
            raise ValueError(f"the value f must return one number per path, shape {kinetic.shape}, got {value.shape}.")
        return np.asarray(kinetic - self.memory.dm(t) * value)

    def residual(self, trajectory: Trajectory, gradient: Gradient) -> Array:
        r"""How far a solution is from the Euler-Lagrange equation over m: $\dot V + \frac{\dot m}{m}(V + \nabla f)$.

        The derivative is taken from the solution by differences, so an exact solution has a small residual, not 0.

        Args:
            trajectory: A solution by `solve`.
            gradient: $\nabla f$, (paths, d) to (paths, d).

        Returns:
            Shape (n, d), for the times > 0 of the trajectory except the last.
        """
        at = _interpolant(trajectory)
        t = trajectory.t[trajectory.t > 0][:-1]
        e = 1e-3 * np.minimum(t, trajectory.t[-1] - t)[:, None]
        one, two = (at(t + k * e[:, 0])[1] - at(t - k * e[:, 0])[1] for k in (1, 2))
        x, v = at(t)
        rate = np.asarray(self.memory.rate(t))[:, None]
        return np.asarray((8 * one - two) / (12 * e) + rate * (v + np.asarray(gradient(x))))


def integral_residual(equation: SecondOrder, trajectory: Trajectory) -> Array:
    r"""How far a solution is from the integral form $V(t) = -\int_0^t \phi(s, t)\, \nabla f(X(s))\, ds$.

    With a memory $\phi = \dot m(s)/m(t)$: MG-ODE-INT. With constant viscosity $\phi = e^{-\alpha(t-s)}$: HB-ODE-INT-C,
    and the remainder of the initial velocity is added.

    Args:
        equation: The equation that was solved.
        trajectory: Its solution by `solve`, from time 0 on.

    Returns:
        The difference of the two sides, shape (n, d), for the times > 0 of the trajectory.

    Example:
        >>> from memgrad.dynamics import MemoryFlow, solve
        >>> equation = MemoryFlow("log", gradient=lambda x: x)
        >>> bool(np.abs(integral_residual(equation, solve(equation, 5.0, 1.0))).max() < 1e-7)
        True
    """
    if not isinstance(equation, SecondOrder):
        raise TypeError(f"the integral form needs a velocity, which {equation} does not have.")
    at = _interpolant(trajectory)
    times = trajectory.t[trajectory.t > 0]
    # Panels short enough to resolve a path that turns between two requested times.
    knots = np.unique(np.concatenate([np.linspace(0.0, times[-1], 201), times]))
    u, du = legendre(32)
    widths = np.diff(knots)[:, None]
    s, ds = knots[:-1, None] + widths * u, widths * du  # one row per panel
    # A memory may push as a fractional power of s at 0: there the points are clustered.
    s[0], ds[0] = knots[1] * u**6, knots[1] * 6 * u**5 * du
    panels = [equation.slope(at(row)[0]) * weights[:, None] for row, weights in zip(s, ds, strict=True)]
    past = -at(np.array([0.0]))[1][0] if not equation.is_singular else np.zeros(trajectory.x.shape[1])
    residual, i = at(times)[1], 0
    for j, now in enumerate(knots[1:]):
        left = equation.damping.survival(knots[j], now) if j or not equation.is_singular else 0.0
        past = left * past + equation.push(s[j], now) @ panels[j]
        if now == times[i]:
            residual[i] += past
            i += 1
    return residual


def _interpolant(trajectory: Trajectory) -> Callable[[Array], tuple[Array, Array]]:
    if trajectory.at is None:
        raise ValueError("a residual needs the solution between its times: pass the trajectory that solve returned.")
    return trajectory.at
