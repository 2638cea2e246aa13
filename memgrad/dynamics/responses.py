r"""The response of one direction of a quadratic to a unit gradient at the start, and to unit noise.

In a direction of curvature $\lambda$ the mean is $y_0 - s_0 D(t)$, $s_0$ the gradient at the start and $D$ the
displacement that a unit of it makes: $\ddot D + a \dot D + c \lambda D = c$. These are the closed forms that are known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memgrad.dynamics.equations import Equation, ExponentialFlow, HeavyBallFlow, MemoryFlow
from memgrad.dynamics.first_order import AmplifiedFlow, GradientFlow
from memgrad.dynamics.quadrature import legendre
from memgrad.dynamics.viscosity import ConstantViscosity, MemoryViscosity
from memgrad.kinds import Array
from memgrad.memory import Exponential, Polynomial


class Response(NamedTuple):
    """Arrays of shape (times, directions)."""

    displacement: Array
    speed: Array
    var_x: Array
    cov_xv: Array
    var_v: Array


def closed_response(equation: Equation, t: Array, curvature: Array) -> Response | None:
    """The closed form, or None where none is known.

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
            case MemoryFlow(memory=Exponential() as memory) if _forgets_at_once(memory.alpha, t, lam):
                return _forgetting_at_once(memory.alpha, t, lam)
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
    z = np.asarray(z, dtype=float)
    with np.errstate(all="ignore"):
        # scipy multiplies Gamma(p) by powers of z and a Bessel function, which overflow or underflow for large p.
        large = _bessel_of_large_order(p - 1, np.maximum(z, 0)) if p > 170 else 0.0
        by_scipy = np.asarray(special.hyp0f1(p, -z))
    return np.where(np.abs(z) <= p, _power_series(p, z, 0), np.where((p > 170) & (z > 0), large, by_scipy))


def _power_series(p: float, z: Array, shift: int) -> Array:
    r"""$\sum_k \frac{(-z)^k}{(k+n)!/n! \, (p)_k}$ for $|z| \le p$, where nothing cancels, with the shift n."""
    total = np.ones(np.shape(z))
    for k in range(20, 0, -1):
        total = 1.0 - z / ((k + shift) * (p + k - 1)) * total
    return total


def _bessel_of_large_order(nu: float, z: Array) -> Array:
    r"""$\Gamma(\nu+1) z^{-\nu/2} J_\nu(2\sqrt z)$ in logarithms; before the turning point by Debye's expansion."""
    root = np.sqrt(z)
    s = np.minimum(2 * root / nu, 0.5)
    tanh = np.sqrt(1 - s**2)
    less, x = s**2 / (1 + tanh), 1 / tanh
    u = (
        (3 * x - 5 * x**3) / (24 * nu)
        + (81 * x**2 - 462 * x**4 + 385 * x**6) / (1152 * nu**2)
        + (30375 * x**3 - 369603 * x**5 + 765765 * x**7 - 425425 * x**9) / (414720 * nu**3)
    )
    stirling = 1 / (12 * nu) - 1 / (360 * nu**3)
    before = np.exp(-nu * (less + np.log1p(-less / 2)) + stirling) * np.sqrt(x) * (1 + u)
    j = special.jv(nu, 2 * root)
    after = np.sign(j) * np.exp(special.gammaln(nu + 1) - nu * np.log(root) + np.log(np.abs(j)))
    return np.asarray(np.where(2 * root < 0.5 * nu, before, after))


def _polynomial(p: float, t: Array, lam: Array) -> Response:
    # (c, 0, p lam c/t) with c = p/((2p-1) lam) solves the moment equations exactly; D and its speed keep 1/lam out.
    z = p * lam * t
    f, speed = bessel(p, z), bessel(p + 1, z)
    d = np.where(np.abs(lam * t) <= 1, t * _power_series(p + 1, z, 1), (1 - f) / np.where(lam == 0, 1, lam))
    # p <= 1/2 is refused with noise, whose share would be infinite.
    share = p / (2 * p - 1) if p > 0.5 else 0.0
    return Response(d, speed, share * d * (1 + f), share * f * speed, share * (p / t - lam * speed**2))


def _exponential_memory(a: float, t: Array, lam: Array) -> Response:
    at, zero = a * t, 0 * lam
    # The dilogarithm of 1 - e^(-at): the reflection formula takes pi^2/6 and a logarithm out, which would cancel.
    w = -np.expm1(-at)
    dilogarithm = np.where(w < 0.01, w * sum(w**k / (k + 1) ** 2 for k in range(8)), special.spence(np.exp(-at)))
    cov = (1 + at / np.expm1(at)) / 2
    return Response(
        t + zero,
        1 + zero * t,
        t + dilogarithm / a + zero,
        np.where(t == 0, 1, cov) + zero,
        a / 2 / np.tanh(at / 2) + zero,
    )


def _forgets_at_once(a: float, t: Array, lam: Array) -> bool:
    """Whether terms of the order of 1/(at) and of lambda/a do not reach the fourteenth digit."""
    return bool(a * t[t > 0].min(initial=np.inf) > 1e14 and a > 1e14 * np.abs(lam).max())


def _forgetting_at_once(a: float, t: Array, lam: Array) -> Response:
    """Gradient flow, with a velocity that is white noise beside its mean: the limit of fast exponential memory."""
    var_x = _over(-np.expm1(-2 * lam * t), 2 * lam, t)
    return Response(
        _over(-np.expm1(-lam * t), lam, t),
        np.exp(-lam * t),
        var_x,
        np.where(t == 0, 1, np.exp(-2 * lam * t) / 2),  # half the growth of Var X, which begins as t, not t/2
        a / 2 + 0 * var_x,
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


def _constant(alpha: float, gain: float, t: Array, lam: Array) -> Response:
    r"""From the response G to a unit velocity: $D = c\int G$, with the variances $c^2\int G^2$, $c^2\int \dot G^2$."""
    kappa = gain * lam
    root = np.sqrt((alpha**2 / 4 - kappa).astype(complex))  # G = (e^(-slow t) - e^(-fast t))/(2 root)
    fast = alpha / 2 + root
    slow = np.where(root.imag == 0, kappa / fast, alpha / 2 - root)
    g = np.exp(-slow * t) * t * _mean_exp(2 * root * t)
    # The integrals of the exponentials; they cancel where the two rates are close, and there Gauss-Legendre is exact.
    first, last, both = _integral(2 * slow, t), _integral(2 * fast, t), _integral(np.asarray(alpha + 0j), t)
    d = (_integral(slow, t) - _integral(fast, t)) / (2 * root)
    xx = ((first + last) / 2 - both) / (2 * root**2)
    vv = ((slow**2 * first + fast**2 * last) / 2 - kappa * both) / (2 * root**2)
    u, du = legendre(64)
    end = np.minimum(t, 80 / alpha)
    s, low, high = end[..., None] * u, slow[..., None], fast[..., None]
    g_s = np.exp(-low * s) * s * _mean_exp((high - low) * s)
    dg_s = np.exp(-high * s) - low * g_s
    alike = np.abs(root) * np.minimum(t, 1 / alpha) < 0.05
    d, xx, vv = (np.where(alike, end * (f @ du), x).real for f, x in ((g_s, d), (g_s**2, xx), (dg_s**2, vv)))
    return Response(gain * d, (gain * g).real, gain**2 * xx, (gain**2 * g**2 / 2).real, gain**2 * vv)


def _mean_exp(z: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """(1 - e^(-z))/z, also for z = 0."""
    return np.where(z == 0, 1, -np.expm1(-z) / np.where(z == 0, 1, z))


def _integral(z: NDArray[np.complex128], t: Array) -> NDArray[np.complex128]:
    """The integral of e^(-zs) for s from 0 to t."""
    return t * _mean_exp(z * t)


def _amplified(t: Array, lam: Array) -> Response:
    z = lam * t**2
    root = np.sqrt(np.abs(lam))
    series = t**3 / 3 * (1 - 2 * z / 5 * (1 - 2 * z / 7 * (1 - 2 * z / 9)))
    closed = (t - special.dawsn(root * t) / root) / (2 * lam)
    return _first_order(t, lam, -np.expm1(-z / 2), np.where(np.abs(z) < 1e-3, series, closed), t)


def _first_order(t: Array, lam: Array, forgotten: Array, var_x: Array, gain: float | Array) -> Response:
    """The position alone; its velocity means -c(t) times the gradient there."""
    displacement = _over(forgotten, lam, t if isinstance(gain, float) else t**2 / 2)
    slope = -gain * lam
    return Response(displacement, gain * (1 - forgotten), var_x, slope * var_x, slope**2 * var_x)


def _over(numerator: Array, denominator: Array, limit: Array) -> Array:
    """A quotient, and its limit where the denominator is 0."""
    return np.where(denominator == 0, limit, numerator / np.where(denominator == 0, 1, denominator))
