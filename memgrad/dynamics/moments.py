"""Exact means and covariances of positions and velocities, on quadratics and for constant gradients."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from memgrad.dynamics.equations import Equation, MemoryFlow, SecondOrder, symmetric
from memgrad.dynamics.first_order import FirstOrder
from memgrad.dynamics.mixture_flow import MixtureFlow
from memgrad.dynamics.ordinary import position, times_wanted
from memgrad.dynamics.responses import closed_response
from memgrad.kinds import Array

STIFFEST = 1e18
"""The largest rate times time: beyond it no solver resolves the velocity within 16 digits of the time."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and covariance of position and velocity, at chosen times.

    Attributes:
        t: The times, shape (n,).
        mean_x: Means of the position, shape (n, d).
        mean_v: Means of the velocity, shape (n, d).
        cov_xx: Covariance of the position, shape (n, d, d).
        cov_xv: Covariance of the position (rows) with the velocity (columns).
        cov_vv: Covariance of the velocity; infinite at t = 0 for memory with noise (0 there for a `MixtureFlow`).
        equation: The text of the equation.
        method: `closed form` or `moment equations`.
    """

    t: Array
    mean_x: Array
    mean_v: Array
    cov_xx: Array
    cov_xv: Array
    cov_vv: Array
    equation: str
    method: str

    @property
    def var_x(self) -> Array:
        """Variances of the position, shape (n, d)."""
        return np.diagonal(self.cov_xx, axis1=1, axis2=2)

    @property
    def var_v(self) -> Array:
        """Variances of the velocity, shape (n, d)."""
        return np.diagonal(self.cov_vv, axis1=1, axis2=2)

    def expected_loss(
        self, hessian: ArrayLike, minimizer: ArrayLike = 0.0, *, minimiser: ArrayLike | None = None
    ) -> Array:
        r"""$E f(X(t)) - f^*$ for $f = \frac12 (x-x^*)^T H (x-x^*) + f^*$, shape (n,).

        Args:
            hessian: $H$, shape (d, d).
            minimizer: $x^*$, shape (d,), or a number for all coordinates.
            minimiser: Deprecated name of `minimizer`.
        """
        if minimiser is not None:
            message = "the argument minimiser of expected_loss is deprecated; use minimizer."
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            minimizer = minimiser
        h, d = symmetric(hessian), self.mean_x.shape[1]
        if h.shape != (d, d):
            raise ValueError(f"the Hessian needs the shape ({d}, {d}) of the moments, got {h.shape}.")
        away = self.mean_x - np.asarray(minimizer, dtype=float)
        return np.asarray(np.einsum("ni,ij,nj->n", away, h, away) + np.einsum("ij,nij->n", h, self.cov_xx)) / 2


def moments(equation: Equation, t: ArrayLike, x0: ArrayLike, *, method: str = "auto") -> Moments:
    r"""The exact moments of an equation whose gradient is affine: a quadratic, or with Hessian 0 a constant gradient.

    Directions of the Hessian are treated one by one. Closed forms are used where they are known and the noise does not
    mix directions: polynomial memory (any curvature), constant viscosity, gradient flow and the amplified flow (any),
    exponential memory and viscosity $q/t$ (constant gradients). Otherwise, the moment equations

    $$\dot C_{xx} = C_{xv} + C_{xv}^T, \quad
      \dot C_{xv} = C_{vv} - a C_{xv} - c\, C_{xx} H, \quad
      \dot C_{vv} = -2a C_{vv} - c\,(H C_{xv} + C_{xv}^T H) + c^2 \sigma\sigma^T$$

    are solved, from the correct initial data near 0, to about ten digits.

    Args:
        equation: The equation. It needs its `hessian`, and constant noise.
        t: Increasing times >= 0; or the end time alone, for 201 evenly spaced times.
        x0: The position at time 0.
        method: `auto`, or `closed form` or `moment equations` to require that one.

    Example:
        >>> from memgrad.dynamics import MemoryFlow, moments
        >>> quadratic = MemoryFlow("poly:3", gradient=lambda x: x, noise=1.0, hessian=1.0)
        >>> found = moments(quadratic, [5.0, 20.0], 1.0)
        >>> (found.var_x + found.mean_x**2).round(10)[:, 0]
        array([0.60022214, 0.60000746])

    Reference:
        UAI 2019, App. C, the moment equations of quadratic forgetting. *Differs*: p1' = 2 p2 and noise (p/t)^2 sigma^2
        (errata 24, 25), and the right start (erratum 26); the closed form is not in the paper.
    """
    if method not in ("auto", "closed form", "moment equations"):
        raise ValueError(f"unknown method {method!r}; known: auto, closed form, moment equations.")
    times, x = times_wanted(t), position(x0)
    hessian, slope = _affine(equation, x)
    curvature, directions = np.linalg.eigh(hessian)
    covariance = equation.volatility.covariance(x.shape[1])
    noise = directions.T @ covariance @ directions
    mixes = np.abs(noise - np.diag(np.diagonal(noise))).max() > 1e-14 * max(np.abs(noise).max(), 1e-300)
    response = None if method == "moment equations" or mixes else closed_response(equation, times, curvature)
    if response is None and method == "closed form":
        why = "its noise mixes the directions of the Hessian" if mixes else "none is known"
        raise ValueError(f"no closed form for {equation} here: {why}. Use the moment equations.")
    if response is not None:
        variances = np.diagonal(noise)
        covariances = [_diagonal(np.where(variances == 0, 0, part) * variances) for part in response[2:]]
        displacement, speed = response[:2]
    else:
        displacement, speed, *covariances = by_moment_equations(equation, times, curvature, noise)
    start = (slope @ directions)[0]
    endless = isinstance(equation, MemoryFlow | MixtureFlow) and equation.is_stochastic and times[0] == 0
    if endless:
        covariances[2][0] = 0
    xx, xv, vv = (directions @ each @ directions.T if len(x[0]) > 1 else each for each in covariances)
    if endless:
        # Var V grows as 1/t times the noise, whose own zeros stay: rotating infinities would make them NaN.
        vv[0] = np.where(covariance == 0, 0.0, np.copysign(np.inf, covariance))
    return Moments(
        t=times,
        mean_x=x - (start * displacement) @ directions.T,
        mean_v=-(start * speed) @ directions.T,
        cov_xx=xx,
        cov_xv=xv,
        cov_vv=vv,
        equation=str(equation),
        method="moment equations" if response is None else "closed form",
    )


def _affine(equation: Equation, x0: Array) -> tuple[Array, Array]:
    """The Hessian and the gradient at the start, after checking that the gradient is affine."""
    hessian, d = equation.curvature, x0.shape[1]
    if hessian.shape != (d, d):
        raise ValueError(f"the Hessian of {equation} needs the shape ({d}, {d}) for x0, got {hessian.shape}.")
    away = np.random.default_rng(0).standard_normal((4, d)) * (1 + np.abs(x0))
    slope = equation.slope(x0)
    found, expected = equation.slope(x0 + away), slope + away @ hessian
    if not np.allclose(found, expected, rtol=1e-6, atol=1e-9 * (1 + np.abs(expected).max())):
        raise ValueError(
            f"exact moments need a gradient that is affine with the given Hessian; that of {equation} is not: the "
            f"gradient differs from it by {np.abs(found - expected).max():.2g} near x0. Simulate instead."
        )
    return hessian, slope


def _diagonal(values: Array) -> Array:
    """The diagonal matrices (n, d, d) with the given diagonals (n, d)."""
    # Not values * eye: infinity times 0 would turn the other entries into NaN.
    matrices = np.zeros((*values.shape, values.shape[1]))
    np.einsum("nii->ni", matrices)[...] = values
    return matrices


def by_moment_equations(equation: Equation, times: Array, curvature: Array, noise: Array) -> tuple[Array, ...]:
    r"""Displacement, speed and covariances along the directions of a Hessian, by integration.

    With $\dot X = \gamma V - \gamma_0 G$, $\dot V = -a V - c\,G$ and $G = \nabla f + \sigma\dot B$, the covariances of
    directions with the curvatures $\lambda_i$ and $\lambda_j$ obey, for $S = \sigma\sigma^T$,

    $$\dot C_{xx} = \gamma (C_{xv} + C_{xv}^T) - \gamma_0 (\lambda_i + \lambda_j) C_{xx} + \gamma_0^2 S, \quad
      \dot C_{xv} = \gamma C_{vv} - (a + \gamma_0 \lambda_i) C_{xv} - c \lambda_j C_{xx} + \gamma_0 c S,$$

    $$\dot C_{vv} = -2 a C_{vv} - c\,(\lambda_i C_{xv} + \lambda_j C_{xv}^T) + c^2 S.$$
    """
    d = len(curvature)
    shapes = ((d,), (d,), (d, d), (d, d), (d, d))
    ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()

    def unpack(y: Array) -> list[Array]:
        return [y[end - math.prod(shape) : end].reshape(shape) for end, shape in zip(ends, shapes, strict=True)]

    def derivative(t: float, y: Array, driven: float = 1.0) -> Array:
        x, v, xx, xv, vv = unpack(y)
        now, gain, a, c = _coefficients(equation, np.asarray(t))
        pulled = curvature[:, None] * xv
        return np.concatenate(
            [
                gain * v + now * (driven - curvature * x),
                -a * v + c * (driven - curvature * x),
                (gain * (xv + xv.T) - now * (curvature[:, None] + curvature) * xx + driven * now**2 * noise).ravel(),
                (gain * vv - a * xv - c * xx * curvature - now * pulled + driven * now * c * noise).ravel(),
                (-2 * a * vv - c * (pulled + pulled.T) + driven * c**2 * noise).ravel(),
            ]
        )

    def jacobian(t: float, y: Array) -> Array:
        return np.stack([derivative(t, unit, driven=0.0) for unit in np.eye(len(y))], axis=1)

    positive = times[times > 0]
    if positive.size and isinstance(equation, SecondOrder):
        fastest = float(equation.damping.rate(positive[-1:])[0])
        if not fastest * positive[-1] < STIFFEST:
            raise ValueError(
                f"exact moments of {equation} need a rate below {STIFFEST / positive[-1]:.3g} until "
                f"t={positive[-1]:g}, got {fastest:.3g}. The position of a memory that forgets so fast is that of "
                f"gradient flow (gd)."
            )
    # The equations are linear: in units of the noise and of the initial values, no tolerance is too coarse.
    unit = np.abs(noise).max() or 1.0
    noise = noise / unit
    found = [_near_zero(equation, 0.0, d, noise) for _ in times[times <= 0]]
    if positive.size:
        # The start is right to first order in time over the time scale 1/lambda of memory.
        begin = min(1e-8, 1e-5 * positive[0], 1e-7 / max(np.abs(curvature).max(), 1e-300))
        begin = begin if equation.is_singular else 0.0
        state = np.concatenate([part.ravel() for part in _near_zero(equation, begin, d, noise)])
        early = np.float64(min(1.0, positive[0]))
        powers = (1, 0, 1, 0, -1) if isinstance(equation, MemoryFlow | MixtureFlow) else (2, 1, 3, 2, 1)
        atol = [np.full(math.prod(s), 1e-14 * min(1.0, early**k)) for s, k in zip(shapes, powers, strict=True)]
        # An explicit method would take steps of 1/a: p = 100, or long after exponential memory has settled, are stiff.
        stiff = isinstance(equation, SecondOrder) and equation.damping.rate(positive[-1:])[0] * positive[-1] > 20
        implicit = stiff or isinstance(equation, MixtureFlow)  # the newest gradient pulls at the rate of the curvature
        solver: dict[str, Any] = {"method": "LSODA", "jac": jacobian} if implicit else {"method": "DOP853"}
        solver |= {"rtol": 1e-11, "atol": np.concatenate(atol)}
        solution = solve_ivp(derivative, (begin, positive[-1]), state, t_eval=positive, **solver)
        if not solution.success:
            raise ArithmeticError(f"the moment equations of {equation} could not be solved: {solution.message}")
        found += [unpack(y) for y in solution.y.T]
    x, v, xx, xv, vv = (np.stack(parts) for parts in zip(*found, strict=True))
    if isinstance(equation, FirstOrder):
        c = equation.gain(times)[:, None]
        v, xv = c * (1 - curvature * x), -c[..., None] * xx * curvature
        vv = c[..., None] ** 2 * curvature[:, None] * xx * curvature
    return x, v, unit * xx, unit * xv, unit * vv


def _coefficients(equation: Equation, t: Array) -> tuple[Any, Any, Any, Any]:
    r"""$\gamma_0, \gamma, a, c$ in `by_moment_equations`."""
    if isinstance(equation, FirstOrder):
        return equation.gain(t), 0.0, 0.0, 0.0
    if isinstance(equation, MixtureFlow):
        a = equation.memory.rate(t)
        return equation.instant, equation.gain(t), a, a
    assert isinstance(equation, SecondOrder)
    a = equation.damping.rate(t)
    return 0.0, 1.0, a, a if isinstance(equation, MemoryFlow) else equation.gain(t)


def _near_zero(equation: Equation, t: float, d: int, noise: Array) -> list[Array]:
    """Displacement, speed and covariances at a small time, to first order in it."""
    if isinstance(equation, MixtureFlow):
        return equation._near_zero(t, d, noise)
    one, zero = np.ones(d), np.zeros((d, d))
    if isinstance(equation, FirstOrder) or not equation.is_singular:
        return [0 * one, 0 * one, zero, zero, zero]
    assert isinstance(equation, SecondOrder)
    # Near 0 every memory function is a power of t, with this degree.
    p = float(equation.damping.rate(np.asarray(t or 1e-12)) * (t or 1e-12))
    if isinstance(equation, MemoryFlow):
        share = p / (2 * p - 1) if np.any(noise) else 0.0
        return [t * one, one, 2 * share * t * noise, share * noise, share * p / (t or np.inf) * noise]
    scale = 1 / (2 * p + 1)
    xv = t**2 * scale / (p + 2)
    return [t**2 / (2 * (p + 1)) * one, t / (p + 1) * one, 2 / 3 * t * xv * noise, xv * noise, t * scale * noise]
