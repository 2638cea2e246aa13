r"""How one direction of a quadratic answers: to a unit gradient at the start, and to unit noise.

In a direction of curvature $\lambda$ the mean is $y_0 - s_0 D(t)$, $s_0$ the gradient at the start and $D$ the
displacement that a unit of it makes: $\ddot D + a \dot D + c \lambda D = c$. These are the closed forms that are known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memgrad.dynamics.equations import (
    AmplifiedFlow,
    Equation,
    ExponentialFlow,
    GradientFlow,
    HeavyBallFlow,
    MemoryFlow,
)
from memgrad.dynamics.viscosity import ConstantViscosity, MemoryViscosity
from memgrad.memory import Exponential, Polynomial

Array = NDArray[np.float64]


class Response(NamedTuple):
    """Arrays of shape (times, directions)."""

    displacement: Array
    speed: Array
    var_x: Array
    cov_xv: Array
    var_v: Array


def closed_response(equation: Equation, t: Array, curvature: Array) -> Response | None:
    """The closed form, or None where none is known, or where it would cancel.

    Example:
        >>> nesterov = HeavyBallFlow("3/t", gradient=np.ones_like, noise=1.0)
        >>> closed_response(nesterov, np.array([7.0]), np.array([0.0])).var_v  # t/7
        array([[1.]])
    """
    t, lam = t[:, None], curvature[None, :]
    with np.errstate(all="ignore"):
        match equation:
            case MemoryFlow(memory=Polynomial(p=p)):
                return _polynomial(p, t, lam)
            case MemoryFlow(memory=Exponential() as memory) if not np.any(lam):
                return _exponential_memory(memory.alpha, t, lam)
            case HeavyBallFlow(viscosity=MemoryViscosity(memory=Polynomial(p=q))) if not np.any(lam):
                return _inverse_time(q, t, lam)
            case HeavyBallFlow(viscosity=ConstantViscosity(alpha=alpha)):
                return _constant(alpha, 1.0, t, lam)
            case ExponentialFlow(alpha=alpha):
                return _constant(alpha, equation.strength, t, lam)
            case GradientFlow():
                return _first_order(t, lam, -np.expm1(-lam * t), _over(-np.expm1(-2 * lam * t), 2 * lam, t), 1.0)
            case AmplifiedFlow() if np.all(lam >= 0):
                return _amplified(t, lam)
    return None


def bessel(p: float, z: Array) -> Array:
    r"""$F_p(z) = {}_0F_1(; p; -z)$, the mean of MG-ODE with $m = t^p$ on a quadratic, at $z = p \lambda t$.

    Example:
        >>> float(bessel(1.5, np.array(np.pi**2 / 16)).round(12))  # sin(s)/s at s = 2 sqrt z = pi/2
        0.636619772368
    """
    return np.asarray(special.hyp0f1(p, -z))


def _polynomial(p: float, t: Array, lam: Array) -> Response:
    # (c, 0, p lam c/t) with c = p/((2p-1) lam) solves the moment equations exactly; D and its speed keep 1/lam out.
    z = p * lam * t
    f, speed = bessel(p, z), bessel(p + 1, z)
    series = t * (1 - z / (2 * (p + 1)) * (1 - z / (3 * (p + 2)) * (1 - z / (4 * (p + 3)))))
    d = np.where(np.abs(z) < 1e-3, series, (1 - f) / np.where(lam == 0, 1, lam))
    share = p / (2 * p - 1)
    return Response(d, speed, share * d * (1 + f), share * f * speed, share * (p / t - lam * speed**2))


def _exponential_memory(a: float, t: Array, lam: Array) -> Response:
    at, zero = a * t, 0 * lam
    var_x = t + (at * np.log(-np.expm1(-at)) - special.spence(-np.expm1(-at)) + np.pi**2 / 6) / a
    cov = (1 + at / np.expm1(at)) / 2
    return Response(
        t + zero,
        1 + zero * t,
        np.where(t == 0, 0, var_x) + zero,
        np.where(t == 0, 1, cov) + zero,
        a / 2 / np.tanh(at / 2) + zero,
    )


def _inverse_time(q: float, t: Array, lam: Array) -> Response:
    zero = 0 * lam
    return Response(
        t**2 / (2 * (q + 1)) + zero,
        t / (q + 1) + zero,
        2 * t**3 / (3 * (2 * q + 1) * (q + 2)) + zero,
        t**2 / ((2 * q + 1) * (q + 2)) + zero,
        t / (2 * q + 1) + zero,
    )


def _constant(alpha: float, gain: float, t: Array, lam: Array) -> Response | None:
    kappa = gain * lam
    # F and G: the answers to a unit position and a unit velocity at rest otherwise, for x'' + alpha x' + kappa x = 0.
    root = np.sqrt((alpha**2 / 4 - kappa).astype(complex))
    half = np.exp(-alpha * t / 2)
    cosh, sinh = (half * np.cosh(root * t)).real, (half * _sinhc(root * t) * t).real
    grown, g = cosh + alpha / 2 * sinh, sinh
    c = gain**2 / (2 * alpha * kappa)
    # 1 - F^2 - kappa G^2 is about 2 alpha kappa t^3/3 at first: below this it would be noise.
    if np.any((np.abs(2 * alpha * kappa * t**3) < 1e-5) & (t > 0)):
        return None
    df, dg = -kappa * g, cosh - alpha / 2 * sinh
    return Response(
        (1 - grown) / lam,
        gain * g,
        c * (1 - grown**2 - kappa * g**2),
        -c * (grown * df + kappa * g * dg),
        c * (kappa - df**2 - kappa * dg**2),
    )


def _sinhc(z: NDArray[np.complex128]) -> NDArray[np.complex128]:
    return np.where(np.abs(z) < 1e-8, 1 + z**2 / 6, np.sinh(z) / np.where(z == 0, 1, z))


def _amplified(t: Array, lam: Array) -> Response:
    z = lam * t**2
    root = np.sqrt(np.abs(lam))
    series = t**3 / 3 * (1 - 2 * z / 5 * (1 - 2 * z / 7 * (1 - 2 * z / 9)))
    closed = (t - special.dawsn(root * t) / root) / (2 * lam)
    return _first_order(t, lam, -np.expm1(-z / 2), np.where(np.abs(z) < 1e-3, series, closed), t)


def _first_order(t: Array, lam: Array, forgotten: Array, var_x: Array, gain: float | Array) -> Response:
    """A position alone; what is called its velocity is -c(t) times the gradient there."""
    displacement = _over(forgotten, lam, t if isinstance(gain, float) else t**2 / 2)
    slope = -gain * lam
    return Response(displacement, gain * (1 - forgotten), var_x, slope * var_x, slope**2 * var_x)


def _over(numerator: Array, denominator: Array, limit: Array) -> Array:
    """A quotient, and its limit where the denominator is 0."""
    return np.where(denominator == 0, limit, numerator / np.where(denominator == 0, 1, denominator))
