r"""What one step from $t_0$ to $t_1$ does to a velocity, exactly, while the position is held fixed.

With $\dot V = -a V - c\,(g + \sigma \dot B)$ and the gradient $g$ held,

$$V(t_1) = b\, V(t_0) - w\, g - \sqrt{v}\, \sigma \xi, \qquad
  b = e^{-\int a}, \quad w = \int_{t_0}^{t_1} \phi(s)\, ds, \quad v = \int_{t_0}^{t_1} \phi(s)^2\, ds,$$

with a standard normal $\xi$ and the push $\phi(s) = c(s)\, e^{-\int_s^{t_1} a}$: $\dot m(s)/m(t_1)$ for a memory. In
the step from 0 a singular viscosity forgets everything, $b = 0$, so the velocity at 0 never matters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from memgrad.dynamics.quadrature import double_exponential, legendre
from memgrad.dynamics.viscosity import ConstantViscosity, MemoryViscosity, Viscosity
from memgrad.kinds import Array
from memgrad.memory import Exponential, Logarithmic, Memory, Polynomial

Push = Callable[[Array, Array], Array]


class Kick(NamedTuple):
    """The three coefficients of a step, or arrays of them with one entry per step."""

    b: Array
    """What is left of the old velocity."""
    w: Array
    """The weight of the gradient."""
    v: Array
    """The variance of the noise, for sigma = 1."""

    def times(self, gain: float) -> Kick:
        """The kick by gradients and noise that are `gain` times as large."""
        return Kick(self.b, gain * self.w, gain**2 * self.v)


def memory_kick(memory: Memory, t0: Array, t1: Array) -> Kick:
    r"""The kick of memory: $b = m(t_0)/m(t_1)$, $w = 1 - b$, $v = \int (\dot m(s)/m(t_1))^2 ds$.

    Example:
        >>> kick = memory_kick(Polynomial(2), np.array([0.0, 1.0]), np.array([1.0, 2.0]))
        >>> kick.b, kick.w
        (array([0.  , 0.25]), array([1.  , 0.75]))
    """
    h = t1 - t0
    with np.errstate(divide="ignore", over="ignore"):
        if isinstance(memory, Polynomial):
            p, log_r = memory.p, np.log1p(-h / t1)
            # (1 - r^(2p-1))/(2p-1), whose limit for p = 1/2 is -log r.
            part = -log_r if p == 0.5 else -np.expm1((2 * p - 1) * log_r) / (2 * p - 1)
            return Kick(np.exp(p * log_r), -np.expm1(p * log_r), p**2 * part / t1)
        if isinstance(memory, Exponential):
            a = memory.alpha
            kept = np.exp(-a * h) * np.expm1(-a * t0) / np.expm1(-a * t1)
            forgotten = np.expm1(-a * h) / np.expm1(-a * t1)
            return Kick(kept, forgotten, -a / 2 * np.expm1(-2 * a * h) / np.expm1(-a * t1) ** 2)
        if isinstance(memory, Logarithmic):
            log1 = np.log1p(t1)
            return Kick(np.log1p(t0) / log1, np.log1p(h / (1 + t0)) / log1, h / ((1 + t0) * (1 + t1) * log1**2))
    b = MemoryViscosity(memory).survival(t0, t1)
    w, v = _integrals(memory.influence, t0, t1)
    return Kick(b, np.where(b < 0.5, 1 - b, w), v)


def viscous_kick(viscosity: Viscosity, t0: Array, t1: Array) -> Kick:
    r"""The kick of a heavy ball, whose gradients are not weighted: $\phi(s) = e^{-\int_s^{t_1} a}$.

    Example:
        >>> from memgrad.dynamics.viscosity import as_viscosity
        >>> viscous_kick(as_viscosity("3/t"), np.array(0.0), np.array(4.0)).w
        np.float64(1.0)
    """
    h = t1 - t0
    if isinstance(viscosity, ConstantViscosity):
        a = viscosity.alpha
        return Kick(np.exp(-a * h), -np.expm1(-a * h) / a, -np.expm1(-2 * a * h) / (2 * a))
    if isinstance(viscosity, MemoryViscosity) and isinstance(viscosity.memory, Polynomial):
        q = viscosity.memory.p
        with np.errstate(divide="ignore"):
            log_r = np.log1p(-h / t1)
        return Kick(
            np.exp(q * log_r),
            -t1 * np.expm1((q + 1) * log_r) / (q + 1),
            -t1 * np.expm1((2 * q + 1) * log_r) / (2 * q + 1),
        )
    return Kick(viscosity.survival(t0, t1), *_integrals(viscosity.survival, t0, t1))


def _integrals(push: Push, t0: Array, t1: Array) -> tuple[Array, Array]:
    """The integrals of a push and of its square over each step."""
    s, ds = points(t0, t1)
    phi = push(s, t1[..., None])
    return np.sum(phi * ds, axis=-1), np.sum(phi**2 * ds, axis=-1)


class Glide(NamedTuple):
    r"""What a step does to the position, exactly, while the gradient is held constant.

    $X(t_1) = X(t_0) + A V(t_0) - B g - \zeta$, where
    $A = \int_{t_0}^{t_1} e^{-\int_{t_0}^s a}\, ds$ is how far the old velocity reaches, $B = \int \chi$, and
    $\zeta = \int \chi\, \sigma\, dB$ with the push of the position, $\chi(s) = c(s) \int_s^{t_1} e^{-\int_s^r a}\, dr$.
    """

    half: Array
    """How far the old velocity reaches in half the step."""
    a: Array
    """How far it reaches in the whole step."""
    w: Array
    """The weight of the gradient."""
    chi: Array
    """The push of the position at the points of `points`, shape (steps, points)."""


def glide(viscosity: Viscosity, gain: Callable[[Array], Array], t0: Array, t1: Array) -> Glide:
    """The glides of steps from t0 to t1, arrays of shape (steps,).

    Example:
        >>> step = glide(ConstantViscosity(1.0), np.ones_like, np.array([0.0]), np.array([1.0]))
        >>> step.a, step.w.round(12)  # 1 - 1/e and, in the long run h - 1, 1/e
        (array([0.63212056]), array([0.36787944]))
    """
    s, ds = points(t0, t1)
    middle = (t0 + t1) / 2
    chi = viscosity.reach(s, t1[:, None])
    if chi is None:
        half, a = (_reach(viscosity, t0, end) for end in (middle, t1))
        chi = _reaches(viscosity, s, t1)
    else:
        half, a = (np.asarray(viscosity.reach(t0, end)) for end in (middle, t1))
    with np.errstate(all="ignore"):
        # Where a memory function underflows, its rate is 0/0: within 1e-100 of time 0.
        chi = np.nan_to_num(chi * gain(s), nan=0.0, posinf=0.0)
    return Glide(half, a, np.sum(chi * ds, axis=1), chi)


def _reach(viscosity: Viscosity, t0: Array, t1: Array) -> Array:
    """How far a unit velocity at t0 goes until t1, by quadrature."""
    s, ds = points(t0, t1)
    with np.errstate(all="ignore"):
        return np.where(t0 > 0, np.sum(viscosity.survival(t0[:, None], s) * viscosity.speed(s) * ds, axis=1), 0.0)


def _reaches(viscosity: Viscosity, s: Array, t: Array) -> Array:
    """How far unit velocities at increasing times s, shape (steps, points), go until t: from the last point back."""
    u, du = legendre(8)
    later = np.append(s[:, 1:], t[:, None], axis=1)
    between = s[..., None] + (later - s)[..., None] * u
    with np.errstate(all="ignore"):
        moved = viscosity.survival(s[..., None], between) * viscosity.speed(between)
        reach = (later - s) * np.nan_to_num(moved @ du)
        kept = np.nan_to_num(viscosity.survival(s, later))
    for i in range(s.shape[1] - 2, -1, -1):
        reach[:, i] += kept[:, i] * reach[:, i + 1]
    return reach


def points(t0: Array, t1: Array) -> tuple[Array, Array]:
    """Points and weights of double-exponential quadrature on each step, clustered toward both of its ends.

    At time 0 a push may behave as a fractional power of s, down to s^(-1/2); before t1 it may grow from almost nothing
    within a small part of the step. Gauss-Legendre would miss either.
    """
    u, du = double_exponential()
    h = (t1 - t0)[..., None]
    return np.minimum(t0[..., None] + h * u, t1[..., None]), h * du
