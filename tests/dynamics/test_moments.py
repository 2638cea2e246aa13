"""Exact moments against closed forms in mpmath, quadrature of Green functions, and values known before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_table import log_uniform, properties
from mpmath import MPContext
from scipy.integrate import dblquad, quad
from scipy.special import jv, yv

from memgrad.dynamics import (
    AmplifiedFlow,
    Equation,
    ExponentialFlow,
    GradientFlow,
    HeavyBallFlow,
    MemoryFlow,
    moments,
)
from memgrad.dynamics.responses import bessel
from memgrad.memory import Exponential, Polynomial

mp = MPContext()
mp.dps = 50
mpf = mp.mpf

PARTS = ("mean_x", "mean_v", "cov_xx", "cov_xv", "cov_vv")
few = settings(properties, max_examples=3)  # each solves a differential equation to eleven digits
curvatures = st.one_of(st.just(0.0), log_uniform(1e-12, 10), log_uniform(1e-12, 1e-1).map(lambda x: -x))


def on(kind: Any, *parameters: Any, lam: float = 1.0, noise: Any = 1.0, **options: Any) -> Equation:
    """An equation on lam x^2/2 in one dimension."""
    return kind(*parameters, gradient=lambda x: lam * x, hessian=lam, noise=noise, **options)


def constant(kind: Any, *parameters: Any, g: float = 1.0, noise: Any = 1.0, **options: Any) -> Equation:
    return kind(*parameters, gradient=lambda x: np.full_like(x, g), hessian=0.0, noise=noise, **options)


def numbers(equation: Equation, t: float, x0: float = 1.0, **options: Any) -> list[float]:
    found = moments(equation, [t], x0, **options)
    return [float(np.squeeze(getattr(found, part))) for part in PARTS]


def f_p(p: float, z: Any) -> Any:
    """F_p(z) = 0F1(; p; -z)."""
    return mp.hyp0f1(p, -mpf(z))


# --- constant gradients (C3) --------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [1e-9, 0.3, 5.0, 1e6])
@pytest.mark.parametrize("p", [0.6, 1.0, 1.5, 3.0, 100.0])
def test_polynomial_memory_under_a_constant_gradient(p: float, t: float) -> None:
    share = p / (2 * p - 1)
    found = numbers(constant(MemoryFlow, Polynomial(p), g=2.0, noise=0.5), t)
    exact = [1 - 2 * t, -2.0, 0.25 * 2 * share * t, 0.25 * share, 0.25 * share * p / t]
    assert found == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("p", [0.6, 3.0])
def test_polynomial_memory_agrees_with_the_covariance_of_its_velocities(p: float) -> None:
    """Var X is the double integral of Cov(V_s, V_t) = p^2 s^(p-1)/((2p-1) t^p), s < t."""

    def kernel(s: float, t: float) -> float:
        return p**2 * s ** (p - 1) / ((2 * p - 1) * t**p)

    # Over s < t first, in s = t u^(1/p), which makes the inner integral that of a constant.
    var_x = 2 * quad(lambda t: quad(lambda u: kernel(t * u ** (1 / p), t) * t / p * u ** (1 / p - 1), 0, 1)[0], 0, 2)[0]
    assert numbers(constant(MemoryFlow, Polynomial(p)), 2.0)[2] == pytest.approx(var_x, rel=1e-7)


@pytest.mark.parametrize("t", [1e-9, 1e-4, 0.02, 1.0, 7.0, 1e4])
@pytest.mark.parametrize("alpha", [1e-6, 0.1, 1.0, 30.0])
def test_exponential_memory_under_a_constant_gradient(alpha: float, t: float) -> None:
    found = numbers(constant(MemoryFlow, Exponential.from_alpha(alpha)), t)
    a, at = mpf(alpha), mpf(alpha) * mpf(t)
    var_x = t + (at * mp.log(-mp.expm1(-at)) - mp.polylog(2, mp.exp(-at)) + mp.pi**2 / 6) / a
    exact = [1 - t, -1.0, var_x, (1 + at / mp.expm1(at)) / 2, a / 2 * mp.coth(at / 2)]
    # The dilogarithm form of C3 cancels all of its digits for small alpha t; the library's must not.
    assert found == pytest.approx([float(x) for x in exact], rel=1e-12, abs=0)


def test_the_dilogarithm_is_the_double_integral_of_the_covariance() -> None:
    a, end = 0.7, 3.0

    def kernel(s: float, t: float) -> float:  # Cov(V_s, V_t), s < t: int_0^s m'(r)^2 dr/(m(s) m(t))
        return a / 2 * math.expm1(2 * a * s) / (math.expm1(a * s) * math.expm1(a * t))

    var_x = 2 * dblquad(kernel, 0, end, 0, lambda t: t, epsabs=1e-11)[0]
    assert numbers(constant(MemoryFlow, Exponential.from_alpha(a)), end)[2] == pytest.approx(var_x, rel=1e-8)


@pytest.mark.parametrize("t", [1e-9, 0.3, 5.0, 1e6])
@pytest.mark.parametrize("q", [0.5, 1.0, 2.0, 3.0, 50.0])
def test_viscosity_q_over_t_under_a_constant_gradient(q: float, t: float) -> None:
    found = numbers(constant(HeavyBallFlow, f"{q}/t", g=2.0, noise=0.5), t)
    per_unit = [2 * t**3 / (3 * (2 * q + 1) * (q + 2)), t**2 / ((2 * q + 1) * (q + 2)), t / (2 * q + 1)]
    exact = [1 - 2 * t**2 / (2 * (q + 1)), -2 * t / (q + 1), *(0.25 * part for part in per_unit)]
    assert found == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("t", [1e-9, 1e-3, 0.3, 5.0, 1e6])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_constant_viscosity_under_a_constant_gradient(alpha: float, t: float) -> None:
    found = numbers(constant(HeavyBallFlow, alpha), t)
    a, s = mpf(alpha), mpf(t)
    one, two = -mp.expm1(-a * s), -mp.expm1(-2 * a * s)
    exact = [1 - (s - one / a) / a, -one / a, (s - 2 * one / a + two / (2 * a)) / a**2, one**2 / (2 * a**2)]
    assert found == pytest.approx([float(x) for x in [*exact, two / (2 * a)]], rel=1e-12, abs=0)


# --- quadratics (C4) ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["closed form", "moment equations"])
def test_quadratic_memory_meets_the_checkpoints(method: str) -> None:
    found = moments(on(MemoryFlow, "poly:3"), [5.0, 20.0], 1.0, method=method)
    p1 = (found.var_x + found.mean_x**2).ravel()
    p2 = (found.cov_xv[:, 0] + found.mean_x * found.mean_v).ravel()
    p3 = (found.var_v + found.mean_v**2).ravel()
    assert p1 == pytest.approx([0.6002221373, 0.6000074637], rel=1e-8)
    assert p2 == pytest.approx([-2.745992e-4, 3.00506e-6], rel=2e-6)  # as many digits as were known
    assert p3 == pytest.approx([0.3603394511, 0.0900012099], rel=1e-8)


def test_nesterov_meets_the_checkpoints() -> None:
    found = moments(on(HeavyBallFlow, "3/t"), [5.0, 20.0], 1.0)
    assert found.var_x[0, 0] == pytest.approx(0.5765684767, rel=1e-8)
    assert found.var_v[0, 0] == pytest.approx(0.6126409559, rel=1e-9)
    assert found.var_v[1, 0] == pytest.approx(2.4975628, abs=5e-8)  # as many digits as were known


def test_the_velocity_of_nesterov_gets_noisier_for_ever() -> None:
    found = moments(on(HeavyBallFlow, "3/t"), [20.0, 100.0], 1.0)
    assert found.var_v[:, 0] / found.t == pytest.approx([1 / 8, 1 / 8], rel=2e-3)
    assert abs(found.var_v[1, 0] / 100 - 1 / 8) < abs(found.var_v[0, 0] / 20 - 1 / 8) / 10


@given(st.floats(0.55, 120), curvatures, log_uniform(1e-9, 1e2), st.floats(-3, 3))
@properties
def test_polynomial_memory_on_a_quadratic(p: float, lam: float, t: float, x0: float) -> None:
    """E X^2 = c + (x0^2 - c) F^2, c = p/((2p-1) lam), and its relatives, in 50 digits."""
    if lam * t < -20:
        t = -20 / lam  # e^20 is growth enough
    found = numbers(on(MemoryFlow, Polynomial(p), lam=lam), t, x0)
    lam_, z = mpf(lam or 1e-30), mpf(p) * mpf(lam or 1e-30) * mpf(t)
    f, df = f_p(p, z), -lam_ * f_p(p + 1, z)
    c = mpf(p) / ((2 * mpf(p) - 1) * lam_)
    exact = [x0 * f, x0 * df, c * (1 - f**2), -c * f * df, p * lam_ * c / t - c * df**2]
    size = [max(1, abs(f)), abs(lam) * max(1, abs(f)), exact[2], abs(c * df), exact[4]]
    for got, want, scale in zip(found, exact, size, strict=True):
        # hyp0f1 has an error of a few 1e-12 for p < 1.
        assert abs(got - want) <= 1e-11 * scale + 1e-29


def test_degree_three_halves_is_a_sine() -> None:
    for t in (0.9, 1e6):
        z = math.sqrt(6 * 2.0 * t)
        f, c = math.sin(z) / z, 0.375
        found = numbers(on(MemoryFlow, "poly:1.5", lam=2.0), t)
        assert found[0] == pytest.approx(f, rel=1e-12, abs=1e-15)
        assert found[2] == pytest.approx(c * (1 - f**2), rel=1e-13)


@pytest.mark.parametrize("p", [0.6, 1.0, 50.0, 100.0, 160.0, 171.0, 200.0, 3000.0])
def test_the_bessel_function_of_large_degrees_stays_a_number(p: float) -> None:
    """scipy's hyp0f1 is nan where Gamma(p) or a power of z leaves the floats: p = 100 near 0, p > 171 everywhere."""
    for lam_t in (-5.0, 1e-9, 1.5e-6, 1e-4, 0.9, 1.1, 8.0, 40.0, 300.0):
        exact = mp.hyp0f1(p, -mpf(p * lam_t), maxprec=20_000)
        assert float(bessel(p, np.array(p * lam_t))) == pytest.approx(float(exact), rel=1e-10, abs=5e-12)


@pytest.mark.parametrize("q", [0.5, 1.0, 2.0, 3.0, 7.5])
@pytest.mark.parametrize("t", [0.1, 6.0])
def test_viscosity_q_over_t_on_a_quadratic_is_a_2f3(q: float, t: float) -> None:
    lam, x0 = 1.7, 0.8
    found = numbers(on(HeavyBallFlow, f"{q}/t", lam=lam), t, x0)
    z = mpf(lam) * mpf(t) ** 2
    mean_x = x0 * f_p((q + 1) / 2, z / 4)
    mean_v = -lam * t / (q + 1) * x0 * f_p((q + 3) / 2, z / 4)
    scale = mpf(t) ** 2 / ((2 * q + 1) * (q + 2))

    def cov(s: Any) -> Any:
        a = [1, mpf(q + 3) / 2], [mpf(3) / 2, 2 + mpf(q) / 2, q + mpf(3) / 2]
        return s**2 / ((2 * q + 1) * (q + 2)) * mp.hyper(*a, -lam * s**2)

    var_x = 2 * t * scale / 3 * mp.hyper([1, mpf(q + 3) / 2], [mpf(5) / 2, 2 + mpf(q) / 2, q + mpf(3) / 2], -z)
    var_v = mp.diff(cov, mpf(t)) + lam * var_x + q / mpf(t) * cov(mpf(t))
    assert found == pytest.approx([float(x) for x in (mean_x, mean_v, var_x, cov(mpf(t)), var_v)], rel=1e-8, abs=1e-11)


def test_viscosity_2_over_t_is_elementary() -> None:
    w, t = 1.3, 4.0
    var_x = (t**3 / 6 - t / (4 * w**2) + math.sin(2 * w * t) / (8 * w**3)) / (w * t) ** 2
    assert numbers(on(HeavyBallFlow, "2/t", lam=w**2), t)[2] == pytest.approx(var_x, rel=1e-9)


def test_exponential_memory_on_a_quadratic_has_a_hypergeometric_mean() -> None:
    for alpha, lam, t in ((1.0, 0.2, 3.0), (1.0, 3.0, 2.0), (0.5, 1.0, 6.0)):
        r = (1 + mp.sqrt(mp.mpc(1 - 4 * mpf(lam) / alpha))) / 2
        exact = 1.5 * mp.hyp2f1(r, 1 - r, 1, 1 - mp.exp(mpf(alpha) * t))
        found = numbers(on(MemoryFlow, Exponential.from_alpha(alpha), lam=lam), t, 1.5)
        assert found[0] == pytest.approx(float(exact.real), rel=1e-9)


def of_constant_viscosity(alpha: float, gain: float, lam: float, t: float, x0: float) -> list[Any]:
    """Moments of x'' + alpha x' + gain lam x = gain noise from rest, by the exponentials of its two roots."""
    a, t_ = mpf(alpha), mpf(t)
    root = mp.sqrt(mp.mpc(a**2 / 4 - mpf(gain) * mpf(lam))) or mp.mpc("1e-15")
    slow, fast = a / 2 - root, a / 2 + root

    def integral(z: Any) -> Any:
        return t_ if abs(z) < 1e-45 else -mp.expm1(-z * t_) / z

    first, last, both = integral(2 * slow), integral(2 * fast), integral(a)
    g = (mp.exp(-slow * t_) - mp.exp(-fast * t_)) / (2 * root)
    d = (integral(slow) - integral(fast)) / (2 * root)
    var_x = (first + last - 2 * both) / (4 * root**2)
    var_v = (slow**2 * first + fast**2 * last - 2 * slow * fast * both) / (4 * root**2)
    exact = x0 * (1 - gain * lam * d), -x0 * gain * lam * g, gain**2 * var_x, gain**2 * g**2 / 2, gain**2 * var_v
    return [mp.re(x) for x in exact]


@given(
    log_uniform(1e-4, 1e4),
    log_uniform(1e-9, 1e6),
    st.sampled_from([0.0, 1e-9, -1e-9, 1e-3, -1e-3, 1.0, 1 + 1e-9, 50.0]),
)
@settings(properties, max_examples=100)
def test_constant_viscosity_on_a_quadratic(alpha: float, t: float, damped: float) -> None:
    """From overdamped to oscillating, through the double root at 1, from t = 1e-9 to 1e6."""
    lam = damped * alpha**2 / 4
    t = min(t, 100 / math.sqrt(-lam)) if lam < 0 else t
    found = numbers(on(HeavyBallFlow, alpha, lam=lam), t, 1.5)
    exact = of_constant_viscosity(alpha, 1.0, lam, t, 1.5)
    size = [max(1, abs(exact[0])), abs(lam) * 1.5 / alpha, exact[2], max(exact[3], exact[2] / t * 1e-3), exact[4]]
    for got, want, scale in zip(found, exact, size, strict=True):
        assert abs(got - want) <= 2e-11 * max(abs(want), scale)


@pytest.mark.parametrize("scale", [None, 0.5])
def test_exponential_flow_on_a_quadratic(scale: float | None) -> None:
    alpha, lam, t, x0 = 0.8, 1.1, 2.3, 1.5
    gain = alpha if scale is None else scale
    c = gain**2 / (2 * alpha * gain * lam)
    kappa, w = gain * lam, math.sqrt(gain * lam - alpha**2 / 4)
    cos, sin = (math.exp(-alpha * t / 2) * f(w * t) for f in (math.cos, math.sin))
    f, g = cos + alpha / (2 * w) * sin, sin / w
    found = numbers(on(ExponentialFlow, alpha, lam=lam, scale=scale), t, x0)
    assert found == pytest.approx([float(x) for x in of_constant_viscosity(alpha, gain, lam, t, x0)], rel=1e-12)
    assert found[2] + found[0] ** 2 == pytest.approx(c + (x0**2 - c) * f**2 - kappa * c * g**2, rel=1e-12)  # C4
    late = numbers(on(ExponentialFlow, alpha, lam=lam, scale=scale), 1e5, x0)
    assert late[2] == pytest.approx(gain / (2 * alpha * lam), rel=1e-12)


@pytest.mark.parametrize("lam", [-0.3, 0.0, 1e-13, 1e-3, 2.0])
@pytest.mark.parametrize("t", [1e-6, 0.5, 5.0])
def test_flows_without_a_velocity_on_a_quadratic(lam: float, t: float) -> None:
    x0, lam_, t_ = 1.5, mpf(lam or 1e-30), mpf(t)
    var = (1 - mp.exp(-2 * lam_ * t_)) / (2 * lam_)
    plain = [x0 * mp.exp(-lam_ * t), -lam * x0 * mp.exp(-lam_ * t), var, -lam * var, lam**2 * var]
    assert numbers(on(GradientFlow, lam=lam), t, x0) == pytest.approx([float(x) for x in plain], rel=1e-12)
    var = mp.quad(lambda s: s**2 * mp.exp(-lam_ * (t_**2 - s**2)), [0, t_])
    mean = x0 * mp.exp(-lam_ * t_**2 / 2)
    amplified = [mean, -lam * t * mean, var, -lam * t * var, (lam * t) ** 2 * var]
    assert numbers(on(AmplifiedFlow, lam=lam), t, x0) == pytest.approx([float(x) for x in amplified], rel=1e-9)


BOTH: dict[str, Callable[[float], Equation]] = {
    "poly:0.75": lambda lam: on(MemoryFlow, "poly:0.75", lam=lam),
    "poly:3": lambda lam: on(MemoryFlow, "poly:3", lam=lam),
    "HB(1)": lambda lam: on(HeavyBallFlow, 1.0, lam=lam),
    "exp-G": lambda lam: on(ExponentialFlow, 2.0, lam=lam, scale=0.5),
    "GD": lambda lam: on(GradientFlow, lam=lam),
    "amplified": lambda lam: on(AmplifiedFlow, lam=max(lam, 0.0)),
    "exp": lambda lam: constant(MemoryFlow, "exp:0.6"),
    "HB(3/t)": lambda lam: constant(HeavyBallFlow, "3/t"),
}


def agree(equation: Equation, t: float, rel: float = 1e-9) -> None:
    """The two ways of the library agree, in the units of each moment."""
    one, two = (numbers(equation, t, 1.5, method=method) for method in ("closed form", "moment equations"))
    spread = math.sqrt(one[2] * one[4])
    size = [max(1.5, abs(one[0])), max(abs(one[1]), 1.5 * abs(equation.curvature[0, 0])), one[2], spread, one[4]]
    for got, want, scale in zip(two, one, size, strict=True):
        assert abs(got - want) <= rel * max(scale, 1e-290)


@pytest.mark.parametrize("name", BOTH)
@given(curvatures, log_uniform(1e-9, 10))
@few
def test_the_closed_form_solves_the_moment_equations(name: str, lam: float, t: float) -> None:
    agree(BOTH[name](lam), t)


def test_stiff_moment_equations_are_solved_all_the_same() -> None:
    agree(on(MemoryFlow, "poly:30"), 1.0)
    # Without an implicit method this takes a quarter of an hour.
    late = moments(on(MemoryFlow, Exponential.from_alpha(1e4)), [1.0, 100.0], 1.0)
    assert late.var_x[1, 0] == pytest.approx(0.5, rel=1e-9)
    assert late.mean_x[0, 0] == pytest.approx(of_constant_viscosity(1e4, 1e4, 1.0, 1.0, 1.0)[0], rel=1e-3)


@pytest.mark.parametrize("sigma", [1e-9, 1e9])
def test_small_noise_is_resolved_as_well_as_large(sigma: float) -> None:
    unit = numbers(on(HeavyBallFlow, "3/t"), 5.0)
    found = numbers(on(HeavyBallFlow, "3/t", noise=sigma), 5.0)
    assert found[2:] == pytest.approx([sigma**2 * x for x in unit[2:]], rel=1e-10, abs=0)


def test_early_times_are_resolved_as_well_as_late_ones() -> None:
    for t in (1e-8, 1e-3):
        found = numbers(on(HeavyBallFlow, "3/t"), t)
        assert found[2:] == pytest.approx([2 * t**3 / 105, t**2 / 35, t / 7], rel=2e-6, abs=0)


# --- several directions -------------------------------------------------------------------------------------------

HESSIAN = np.array([[2.0, 0.7, 0.0], [0.7, 1.0, -0.2], [0.0, -0.2, 0.5]])
MIXING = np.array([[1.0, 0.3], [0.0, 0.8], [0.5, -0.4]])


def quadratic(kind: Any, *parameters: Any, h: Any, noise: Any, minimizer: Any = 0.0, **options: Any) -> Equation:
    return kind(*parameters, gradient=lambda x: (x - minimizer) @ h, hessian=h, noise=noise, **options)


def rotation(d: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(3).standard_normal((d, d)))[0]


def test_noise_that_mixes_directions_against_the_green_function() -> None:
    """Cov(X_i, X_j) = S_ij int_0^t (p/s)^2 G_i G_j ds, G by Bessel functions of order p - 1 (C4)."""
    p, t, lam = 2.5, 3.0, np.array([0.5, 2.0])
    sigma = np.array([[1.0, 0.0], [0.6, 0.9]])

    def g(s: float, i: int) -> float:
        u, w = 2 * math.sqrt(p * lam[i] * s), 2 * math.sqrt(p * lam[i] * t)
        return math.pi * s * (s / t) ** ((p - 1) / 2) * (jv(p - 1, u) * yv(p - 1, w) - yv(p - 1, u) * jv(p - 1, w))

    def overlap(i: int, j: int) -> float:
        return quad(lambda s: (p / s) ** 2 * g(s, i) * g(s, j), 0, t, epsabs=1e-12)[0]

    exact = np.array([[overlap(i, j) for j in (0, 1)] for i in (0, 1)])
    found = moments(quadratic(MemoryFlow, Polynomial(p), h=np.diag(lam), noise=sigma), [t], [1.0, 1.0])
    assert found.method == "moment equations"
    np.testing.assert_allclose(found.cov_xx[0], exact * (sigma @ sigma.T), rtol=1e-8)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (MemoryFlow, ("poly:2",)),
        (MemoryFlow, ("log",)),
        (HeavyBallFlow, (0.7,)),
        (AmplifiedFlow, ()),
        (GradientFlow, ()),
    ],
)
def test_moments_rotate_with_the_coordinates(kind: Any, parameters: tuple[Any, ...]) -> None:
    q, x0, t = rotation(3), np.array([1.0, -2.0, 0.5]), [0.0, 0.3, 2.0]
    for noise in (0.4 * np.eye(3), MIXING):
        one = moments(quadratic(kind, *parameters, h=HESSIAN, noise=noise), t, x0)
        two = moments(quadratic(kind, *parameters, h=q @ HESSIAN @ q.T, noise=q @ noise), t, q @ x0)
        late = slice(1, None)  # at 0 the variance of the velocity is infinite
        np.testing.assert_allclose(two.mean_x, one.mean_x @ q.T, atol=1e-10)
        np.testing.assert_allclose(two.mean_v, one.mean_v @ q.T, atol=1e-10)
        for part in PARTS[2:]:
            turned = q @ getattr(one, part)[late] @ q.T
            np.testing.assert_allclose(getattr(two, part)[late], turned, atol=1e-9, err_msg=part)


def test_directions_do_not_disturb_each_other() -> None:
    lam = [0.0, 0.4, 3.0]
    whole = moments(quadratic(MemoryFlow, "poly:2", h=np.diag(lam), noise=np.diag([1.0, 2.0, 0.0])), [0.7], np.ones(3))
    for i, (curvature, sigma) in enumerate(zip(lam, (1.0, 2.0, 0.0), strict=True)):
        alone = numbers(on(MemoryFlow, "poly:2", lam=curvature, noise=sigma), 0.7)
        assert [whole.mean_x[0, i], whole.mean_v[0, i]] == pytest.approx(alone[:2], rel=1e-13)
        found = [whole.cov_xx[0, i, i], whole.cov_xv[0, i, i], whole.cov_vv[0, i, i]]
        assert found == pytest.approx(alone[2:], rel=1e-13)


@pytest.mark.parametrize("memory", ["poly:2", "exp:0.5"])
def test_a_singular_hessian_and_a_shifted_minimizer(memory: str) -> None:
    """In a flat direction the gradient is constant; elsewhere the path is that of the shifted coordinate."""
    h, minimizer = np.diag([0.0, 1.5]), np.array([0.0, 4.0])
    slope = np.array([0.3, 0.0])
    equation = MemoryFlow(memory, gradient=lambda x: (x - minimizer) @ h + slope, hessian=h, noise=0.6)
    found = moments(equation, [2.0], [1.0, 5.0])
    flat = numbers(constant(MemoryFlow, memory, g=0.3, noise=0.6), 2.0)
    curved = numbers(on(MemoryFlow, memory, lam=1.5, noise=0.6), 2.0, 1.0)
    assert found.mean_x[0] == pytest.approx([flat[0], 4 + curved[0]], rel=1e-10)
    assert found.var_x[0] == pytest.approx([flat[2], curved[2]], rel=1e-9)


def test_expected_loss() -> None:
    minimizer, h = np.array([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    found = moments(quadratic(MemoryFlow, "poly:2", h=h, noise=0.3, minimizer=minimizer), [0.0, 1.0], [2.0, 0.0])
    draws = np.random.default_rng(0).multivariate_normal(found.mean_x[1], found.cov_xx[1], 200_000) - minimizer
    losses = np.einsum("ni,ij,nj->n", draws, h, draws) / 2
    expected = found.expected_loss(h, minimizer)
    with pytest.warns(DeprecationWarning, match=r"minimiser of expected_loss is deprecated; use minimizer\.$"):
        assert np.array_equal(found.expected_loss(h, minimiser=minimizer), expected)
    assert expected[0] == pytest.approx(2.0)  # (1, 1) H (1, 1)/2
    assert abs(expected[1] - losses.mean()) < 4 * losses.std() / math.sqrt(len(losses))


def test_expected_loss_needs_the_whole_hessian() -> None:
    found = moments(quadratic(GradientFlow, h=np.eye(2), noise=0.3), [1.0], [2.0, 0.0])
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        found.expected_loss(1.0)


# --- time 0 and bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["poly:0.6", "poly:3", "exp:0.9", "log", "stretch:1.5"])
def test_memory_at_time_0(memory: str) -> None:
    degree = {"poly:0.6": 0.6, "poly:3": 3.0, "stretch:1.5": 1.5}.get(memory, 1.0)
    for equation in (on(MemoryFlow, memory, lam=2.0), constant(MemoryFlow, memory, g=3.0)):
        found = [float(np.squeeze(getattr(moments(equation, [0.0], 1.5), part))) for part in PARTS]
        # V(0+) is minus the gradient; Cov(X, V) has the limit p/(2p-1).
        assert found == pytest.approx([1.5, -3.0, 0.0, degree / (2 * degree - 1), math.inf], rel=1e-8)


def test_infinities_at_time_0_stay_where_they_belong() -> None:
    q = rotation(3)
    h = q @ np.diag([0.0, 1.0, 2.0]) @ q.T
    for memory in ("poly:2", "log"):
        still = moments(quadratic(MemoryFlow, memory, h=(h + h.T) / 2, noise=0.0), [0.0, 1.0], np.ones(3))
        assert not np.any(still.cov_vv)
        found = moments(quadratic(MemoryFlow, memory, h=(h + h.T) / 2, noise=0.5), [0.0, 1.0], np.ones(3))
        np.testing.assert_array_equal(found.cov_vv[0], np.where(np.eye(3) == 1, math.inf, 0.0))
        assert not any(np.isnan(getattr(found, part)).any() for part in PARTS)
    one_sided = np.array([[1.0, 0.0], [-0.5, 0.0]])
    found = moments(quadratic(MemoryFlow, "poly:2", h=np.eye(2), noise=one_sided), [0.0], np.ones(2))
    np.testing.assert_array_equal(found.cov_vv[0], [[math.inf, -math.inf], [-math.inf, math.inf]])


@pytest.mark.parametrize(
    "equation", [on(HeavyBallFlow, "3/t"), on(HeavyBallFlow, 1.0), on(GradientFlow), on(AmplifiedFlow)]
)
def test_others_at_time_0(equation: Equation) -> None:
    found = numbers(equation, 0.0)
    assert found == [1.0, -1.0 if isinstance(equation, GradientFlow) else 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("p", [0.3, 0.5])
def test_short_degrees_are_fine_without_noise(p: float) -> None:
    found = numbers(on(MemoryFlow, Polynomial(p), noise=0.0), 2.0)
    assert found[0] == pytest.approx(float(f_p(p, p * mpf(2))), rel=1e-12)
    assert found[2:] == [0, 0, 0]


def test_one_number_is_the_end_of_even_times() -> None:
    found = moments(on(GradientFlow), 2.0, 1.0)
    assert found.t.shape == (201,)
    assert found.var_v.shape == (201, 1)


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("no Hessian", lambda: moments(MemoryFlow("poly:2", gradient=lambda x: x), 1.0, 1.0), "give hessian=H"),
    (
        "wrong shape",
        lambda: moments(GradientFlow(gradient=lambda x: x, hessian=np.eye(3)), 1.0, [1.0, 2.0]),
        r"needs the shape \(2, 2\) for x0, got \(3, 3\)",
    ),
    ("not symmetric", lambda: GradientFlow(gradient=lambda x: x, hessian=[[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
    ("not square", lambda: GradientFlow(gradient=lambda x: x, hessian=[[1.0, 2.0]]), "square"),
    ("not affine", lambda: moments(GradientFlow(gradient=np.sin, hessian=1.0), 1.0, 0.0), "affine with the given Hess"),
    ("another Hessian", lambda: moments(GradientFlow(gradient=lambda x: x, hessian=1.1), 1.0, 0.0), "affine"),
    ("noise of x", lambda: moments(on(GradientFlow, noise=lambda x: x[:, 0]), 1.0, 1.0), "constant noise"),
    (
        "noise of another shape",
        lambda: moments(quadratic(GradientFlow, h=np.eye(2), noise=np.eye(3)), 1.0, [1.0, 1.0]),
        r"one row per coordinate, 2 of them, got the shape \(3, 3\)",
    ),
    ("p <= 1/2", lambda: on(MemoryFlow, "poly:0.5"), "p > 1/2"),
    ("method", lambda: moments(on(GradientFlow), 1.0, 1.0, method="exact"), "unknown method 'exact'; known: auto"),
    ("no closed form", lambda: moments(on(MemoryFlow, "log"), 1.0, 1.0, method="closed form"), "none is known"),
    (
        "no closed form of 3/t",
        lambda: moments(on(HeavyBallFlow, "3/t"), 1.0, 1.0, method="closed form"),
        "no closed form for HB-SDE.3/t., noise 1 here: none is known",
    ),
    (
        "noise that mixes",
        lambda: moments(
            quadratic(GradientFlow, h=np.diag([1.0, 2.0]), noise=[[1.0, 0], [1, 1]]), 1.0, [1, 1], method="closed form"
        ),
        "mixes the directions",
    ),
    ("time", lambda: moments(on(GradientFlow), [-1.0, 1.0], 1.0), ">= 0, got t=-1.0"),
    ("unsorted", lambda: moments(on(GradientFlow), [2.0, 1.0], 1.0), "increase"),
]


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
