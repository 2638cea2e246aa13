r"""One path at two speeds: memory in time $\tau$ is a heavy ball in time $t$.

With $\dot\tau^2 = m(\tau)/\dot m(\tau)$, a solution $X$ of MG-ODE gives the solution $Y(t) = X(\tau(t))$ of
$\ddot Y + a(t) \dot Y + \nabla f(Y) = 0$ with the viscosity $a(t) = \frac{d}{dt} \log(m(\tau)/\dot\tau)$.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from memgrad.dynamics.quadrature import legendre
from memgrad.dynamics.results import Trajectory
from memgrad.dynamics.viscosity import HyperbolicViscosity, MemoryViscosity, Viscosity, refuse_discrete
from memgrad.kinds import Array
from memgrad.memory import Exponential, Memory, Polynomial
from memgrad.memory.text import as_memory


class TimeWarp(ABC):
    r"""The change of time $\tau(t)$ that turns memory into a heavy ball, and back."""

    @property
    @abstractmethod
    def viscosity(self) -> Viscosity:
        """The viscosity of the heavy ball."""

    @abstractmethod
    def memory_time(self, t: ArrayLike) -> Array:
        r"""$\tau(t)$: the time in MG-ODE that corresponds to the heavy ball's time t >= 0."""

    @abstractmethod
    def heavy_ball_time(self, tau: ArrayLike) -> Array:
        r"""$t(\tau)$: the heavy ball's time that corresponds to the time in MG-ODE."""

    @abstractmethod
    def speed(self, t: ArrayLike) -> Array:
        r"""$\dot\tau(t)$: how fast the time in MG-ODE runs at the heavy ball's time t."""

    def _stretch(self, t: Array) -> Array:
        """The heavy ball's velocity over that in MG-ODE, at the heavy ball's time t."""
        return self.speed(t)

    def to_heavy_ball(self, trajectory: Trajectory) -> Trajectory:
        """A solution of MG-ODE as a solution of the heavy ball."""

        def sped_up(t: Array, v: Array) -> Array:
            return np.asarray(v * self._stretch(t)[:, None])

        return _retimed(trajectory, self.heavy_ball_time, self.memory_time, sped_up)

    def to_memory(self, trajectory: Trajectory) -> Trajectory:
        """A solution of the heavy ball as a solution of MG-ODE."""

        def slowed(tau: Array, v: Array) -> Array:
            stretch = self._stretch(self.heavy_ball_time(tau))[:, None]
            first = self._first_velocity(trajectory) if np.any(stretch == 0) else 0.0
            return np.where(stretch == 0, first, v / np.where(stretch == 0, 1.0, stretch))

        return _retimed(trajectory, self.memory_time, self.heavy_ball_time, slowed)

    def _first_velocity(self, trajectory: Trajectory) -> Array:
        """The limit of the heavy ball's velocity over its stretch, 0/0, as t -> 0."""
        if trajectory.at is None or trajectory.start == 0:
            return np.full(trajectory.v.shape[1], np.nan)
        # Integration began so early that the quotient still equals its limit exactly.
        start = np.array([trajectory.start])
        return np.asarray(trajectory.at(start)[1][0] / self._stretch(start))


@final
@dataclass(frozen=True)
class PolynomialWarp(TimeWarp):
    r"""$\tau = t^2/(4p)$: memory $t^p$ is the heavy ball with viscosity $(2p-1)/t$; linear memory is Nesterov's.

    Args:
        p: The degree, > 0; the viscosity needs p > 1/2.

    Example:
        >>> warp = time_warp("poly:2")
        >>> print(warp.viscosity, warp.memory_time(4.0))
        3/t 2.0

    Reference:
        UAI 2019, App. "time warping". *Differs*: it says that no other change of time exists (erratum 11).
    """

    p: float

    @property
    def viscosity(self) -> Viscosity:
        """(2p - 1)/t."""
        if self.p <= 0.5:
            raise ValueError(
                f"memory t^p warps to the viscosity (2p-1)/t, positive for p > 1/2 only, got p={self.p!r}."
            )
        return MemoryViscosity(Polynomial(2 * self.p - 1))

    def memory_time(self, t: ArrayLike) -> Array:
        r"""$t^2/(4p)$."""
        return np.asarray(t, dtype=float) ** 2 / (4 * self.p)

    def heavy_ball_time(self, tau: ArrayLike) -> Array:
        r"""$2\sqrt{p\tau}$."""
        return 2 * np.sqrt(self.p * np.asarray(tau, dtype=float))

    def speed(self, t: ArrayLike) -> Array:
        r"""$t/(2p)$."""
        return np.asarray(t, dtype=float) / (2 * self.p)


@final
@dataclass(frozen=True)
class ExponentialWarp(TimeWarp):
    r"""$\tau = \frac{2}{\alpha} \log\cosh(\sqrt\alpha t/2)$: exponential memory, whose viscosity tends to a constant.

    Args:
        alpha: The rate of forgetting, > 0.

    Example:
        >>> from memgrad import Exponential
        >>> print(time_warp(Exponential.from_alpha(4.0)).viscosity)
        2 coth(2 t)
    """

    alpha: float

    @property
    def viscosity(self) -> Viscosity:
        r"""$\sqrt\alpha \coth(\sqrt\alpha t)$."""
        return HyperbolicViscosity(float(np.sqrt(self.alpha)))

    def memory_time(self, t: ArrayLike) -> Array:
        r"""$\frac{2}{\alpha} \log\cosh(\sqrt\alpha t/2)$, also where the cosh overflows."""
        z = np.sqrt(self.alpha) * np.asarray(t, dtype=float) / 2
        # log cosh z = log(1 + 2 sinh(z/2)^2), which keeps the digits of a small z.
        small = np.log1p(2 * np.sinh(np.minimum(z, 1.0) / 2) ** 2)
        large = z + np.log1p(np.exp(-2 * z)) - np.log(2)
        return np.asarray(2 / self.alpha * np.where(z < 1, small, large))

    def heavy_ball_time(self, tau: ArrayLike) -> Array:
        r"""The inverse, $\frac{2}{\sqrt\alpha} \mathrm{arcosh}(e^{\alpha\tau/2})$."""
        y = self.alpha * np.asarray(tau, dtype=float) / 2
        # arcosh(e^y) = y + log(1 + sqrt(1 - e^(-2y))).
        return np.asarray(2 / np.sqrt(self.alpha) * (y + np.log1p(np.sqrt(-np.expm1(-2 * y)))))

    def speed(self, t: ArrayLike) -> Array:
        r"""$\tanh(\sqrt\alpha t/2)/\sqrt\alpha$."""
        root = np.sqrt(self.alpha)
        return np.asarray(np.tanh(root * np.asarray(t, dtype=float) / 2) / root)


@final
@dataclass(frozen=True)
class QuadratureWarp(TimeWarp):
    r"""The warp of any memory: $t(\tau) = \int_0^\tau \sqrt{\dot m(s)/m(s)}\, ds$ by quadrature, inverted by Newton.

    Args:
        memory: A memory with a memory function.

    Example:
        >>> warp = QuadratureWarp(Polynomial(2))
        >>> round(float(warp.memory_time(4.0)), 12)
        2.0
    """

    memory: Memory

    EARLY: ClassVar[float] = 1e-9
    """Before this time the memory function is approximated by a power, and the warp by a square, down to 1e-300."""

    def __post_init__(self) -> None:
        refuse_discrete(self.memory)

    @property
    def viscosity(self) -> Viscosity:
        r"""$\frac{d}{dt}\log(m(\tau)/\dot\tau)$, near 0 $(2p-1)/t$ if $m$ is a power $t^p$ there."""
        if self.degree <= 0.5:
            raise ValueError(f"memory that is t^p near 0 warps for p > 1/2 only, got {self.memory}, p={self.degree:g}.")
        return WarpedViscosity(self)

    @property
    def degree(self) -> float:
        """The exponent of the memory function near 0, where it is a power of t."""
        return float(self.memory.rate(self.EARLY)) * self.EARLY

    def heavy_ball_time(self, tau: ArrayLike) -> Array:
        r"""The integral of $\sqrt{\dot m/m}$, whose singularity at 0 the substitution $s = \tau u^4$ removes."""
        u, du = legendre(64)
        tau = np.asarray(tau, dtype=float)
        late = np.maximum(tau, self.EARLY**2)[..., None]
        t = np.sum(np.sqrt(self.memory.rate(late * u**4)) * 4 * late * u**3 * du, axis=-1)
        return np.asarray(t * np.minimum(np.sqrt(tau) / self.EARLY, 1))

    def memory_time(self, t: ArrayLike) -> Array:
        r"""The inverse, by Newton's method for $\log t$ as a function of $\log\tau$: a straight line for any power."""
        wanted = np.asarray(t, dtype=float)
        late = np.maximum(wanted, self.EARLY)
        tau = late**2 / (4 * self.degree)
        for _ in range(100):
            with np.errstate(all="ignore"):
                reached = self.heavy_ball_time(tau)
                step = np.log(reached / late) * reached / (tau * np.sqrt(self.memory.rate(tau)))
                # Far beyond what is wanted a rate may overflow.
                step = np.clip(np.nan_to_num(step, nan=3.0, posinf=3.0, neginf=-3.0), -3.0, 3.0)
                tau = tau * np.exp(-step)
            if np.all(np.abs(step) <= 2e-13):
                return np.asarray(tau * np.minimum(wanted / self.EARLY, 1) ** 2)
        raise RuntimeError(f"no time of {self.memory} was found for the heavy ball's time t={t!r}.")

    def speed(self, t: ArrayLike) -> Array:
        r"""$1/\sqrt{\dot m(\tau)/m(\tau)}$."""
        tau = self.memory_time(t)
        return np.where(tau > 0, 1 / np.sqrt(self.memory.rate(np.where(tau > 0, tau, 1.0))), 0.0)


@final
@dataclass(frozen=True)
class WarpedViscosity(Viscosity):
    r"""The viscosity of a memory's warp: $\sqrt{r}\,(1 + \dot r/(2 r^2))$ at $\tau(t)$, with $r = \dot m/m$."""

    warp: QuadratureWarp
    is_singular = True

    def rate(self, t: Array) -> Array:
        """The viscosity, with the derivative of the memory's rate by differences."""
        tau = np.asarray(self.warp.memory_time(t))
        r = self.warp.memory.rate
        e = 1e-3 * tau
        # Five points: an error of e^4 in the derivative, well above rounding.
        slope = (8 * (r(tau + e) - r(tau - e)) - (r(tau + 2 * e) - r(tau - 2 * e))) / (12 * e)
        return np.asarray(np.sqrt(r(tau)) * (1 + slope / (2 * r(tau) ** 2)))

    def survival(self, s: Array, t: Array) -> Array:
        r"""The ratio of $m(\tau)/\dot\tau$ at two times."""
        of_memory = MemoryViscosity(self.warp.memory)
        early = self.warp.EARLY
        older, newer = (self.warp.memory_time(np.maximum(time, early)) for time in (s, t))
        older = np.minimum(older, newer)  # where s and t are almost equal, rounding may exchange them
        late = of_memory.survival(older, newer) * np.sqrt(of_memory.rate(older) / of_memory.rate(newer))
        return np.asarray(late * (np.minimum(s, early) / np.minimum(t, early)) ** (2 * self.warp.degree - 1))

    def __str__(self) -> str:
        return f"warp of {self.warp.memory}"


def time_warp(memory: Memory | str) -> TimeWarp:
    """The change of time of a memory: a closed form for polynomial and exponential memory, quadrature for others.

    Example:
        >>> time_warp("poly:1")
        PolynomialWarp(p=1.0)
        >>> print(time_warp("log").viscosity)
        warp of log
    """
    memory = as_memory("time_warp", "memory", memory)
    if isinstance(memory, Polynomial):
        return PolynomialWarp(memory.p)
    if isinstance(memory, Exponential):
        return ExponentialWarp(memory.alpha)
    return QuadratureWarp(memory)


def _retimed(
    trajectory: Trajectory,
    forth: Callable[[Array], Array],
    back: Callable[[Array], Array],
    changed: Callable[[Array, Array], Array],
) -> Trajectory:
    """The trajectory with its times mapped by `forth` and its velocities by `changed`, also between the times."""
    before, t = trajectory.at, forth(trajectory.t)

    def at(new: Array) -> tuple[Array, Array]:
        new = np.atleast_1d(np.asarray(new, dtype=float))
        x, v = before(back(new))  # type: ignore[misc]  # not called if there was none
        return x, changed(new, v)

    return dataclasses.replace(
        trajectory,
        t=t,
        v=changed(t, trajectory.v),
        equation=f"{trajectory.equation}, warped",
        start=float(forth(np.array(trajectory.start))),
        at=None if before is None else at,
    )
