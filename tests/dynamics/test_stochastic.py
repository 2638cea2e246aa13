"""Simulated paths against exact laws: within 4 standard errors and the stated order of the step.

Expected values are closed forms or quadrature. Seeds are fixed, so a failure is a change and not luck.
"""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scheme_moments import Held, constant, exact_scheme, over_time, polynomial
from scipy.integrate import quad, solve_ivp
from scipy.special import hyp0f1, spence
from scipy.stats import norm

from memgrad.dynamics import (
    AmplifiedFlow,
    Ensemble,
    Equation,
    ExponentialFlow,
    GradientFlow,
    HeavyBallFlow,
    MemoryFlow,
    SecondOrder,
    integrators,
    simulate,
    simulate_together,
    stochastic,
)
from memgrad.dynamics.flows import joint_columns

SIGMA = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])  # d = 2, r = 3
ONE = np.ones_like


def zero(x: np.ndarray) -> np.ndarray:
    return np.zeros_like(x)


def same(x: np.ndarray) -> np.ndarray:
    return x


def within(found: Any, exact: Any, error: Any, allowed: float = 0.0) -> None:
    """Within 4 standard errors, and what is allowed to the step."""
    excess = np.abs(np.asarray(found) - exact) - 4 * np.asarray(error) - allowed
    assert np.all(excess <= 0), f"{found} is not {exact} within 4 x {error} + {allowed}"


def check_moments(found: Ensemble, i: int, mean: Any, var_v: float, cov: float, var_x: float, bias: float) -> None:
    """Mean velocity, Var V, Cov(X, V) and Var X of the first coordinate of many paths, X biased by the step."""
    n = found.paths
    c = found.covariance[i]
    d = found.mean_x.shape[1]
    within(found.mean_v[i, 0], mean, np.sqrt(var_v / n), 1e-12)
    within(c[d, d], var_v, var_v * np.sqrt(2 / n), 1e-12)
    within(c[0, d], cov, np.sqrt((var_x * var_v + cov**2) / n), bias * abs(cov))
    within(c[0, 0], var_x, var_x * np.sqrt(2 / n), bias * var_x)


# --- constant gradients (C3) -----------------------------------------------------------------------------------------


def polynomial_law(p: float, t: float) -> tuple[float, float, float, float]:
    return -1.0, p**2 / ((2 * p - 1) * t), p / (2 * p - 1), 2 * p * t / (2 * p - 1)


def exponential_law(a: float, t: float) -> tuple[float, float, float, float]:
    z = np.exp(-a * t)
    var_x = t + (a * t * np.log1p(-z) - spence(1 - z) + np.pi**2 / 6) / a
    return -1.0, a / 2 / np.tanh(a * t / 2), (1 + a * t / np.expm1(a * t)) / 2, var_x


def logarithmic_law(t: float) -> tuple[float, float, float, float]:
    def cov(s: float) -> float:  # int_0^s Cov(V_u, V_s) du with Cov(V_u, V_s) = Var V_u log(1+u)/log(1+s)
        return quad(lambda u: u / ((1 + u) * np.log1p(u)), 0, s)[0] / np.log1p(s)

    return -1.0, t / ((1 + t) * np.log1p(t) ** 2), cov(t), 2 * quad(cov, 0, t)[0]


def over_time_law(q: float, t: float) -> tuple[float, float, float, float]:
    n = (2 * q + 1) * (q + 2)
    return -t / (q + 1), t / (2 * q + 1), t**2 / n, 2 * t**3 / (3 * n)


def constant_law(a: float, t: float) -> tuple[float, float, float, float]:
    one, two = -np.expm1(-a * t) / a, -np.expm1(-2 * a * t) / (2 * a)
    return -one, two, one**2 / 2, (t - 2 * one + two) / a**2


LAWS: list[tuple[SecondOrder, Callable[[float], tuple[float, float, float, float]]]] = [
    (MemoryFlow("poly:0.7", gradient=ONE, noise=1.0), lambda t: polynomial_law(0.7, t)),
    (MemoryFlow("poly:3", gradient=ONE, noise=1.0), lambda t: polynomial_law(3, t)),
    (MemoryFlow("exp:alpha=2", gradient=ONE, noise=1.0), lambda t: exponential_law(2, t)),
    (MemoryFlow("log", gradient=ONE, noise=1.0), logarithmic_law),
    (HeavyBallFlow("3/t", gradient=ONE, noise=1.0), lambda t: over_time_law(3, t)),
    (HeavyBallFlow(0.5, gradient=ONE, noise=1.0), lambda t: constant_law(0.5, t)),
]


@pytest.mark.parametrize(("equation", "law"), LAWS, ids=[str(equation) for equation, _ in LAWS])
@pytest.mark.parametrize("scheme", ["exact", "splitting"])
def test_moments_under_a_constant_gradient_are_exact(equation: SecondOrder, law: Any, scheme: str) -> None:
    t, dt = [0.5, 2.0], 0.005
    found = simulate(equation, t, 0.0, paths=8000, dt=dt, seed=1, scheme=scheme)
    assert found.success
    assert found.scheme == scheme
    for i in range(2):
        # The velocity has its exact law at any step. So has the position, but for the early plain steps: 1e-4 here.
        check_moments(found, i, *law(t[i]), bias=1e-3)


def test_the_exponential_form_is_a_scaled_oscillator() -> None:
    found = simulate(ExponentialFlow(2.0, gradient=ONE, noise=1.0), [2.0], 0.0, paths=8000, dt=0.01, seed=2)
    mean, *second = constant_law(2.0, 2.0)
    check_moments(found, 0, 2 * mean, *(4 * each for each in second), bias=1e-3)


@pytest.mark.parametrize(("flow", "mean", "var"), [(GradientFlow, -2.0, 2.0), (AmplifiedFlow, -2.0, 8 / 3)])
@pytest.mark.parametrize("dt", [0.05, 1.0])
def test_a_flow_under_a_constant_gradient_is_exact_at_any_step(flow: Any, mean: float, var: float, dt: float) -> None:
    found = simulate(flow(gradient=ONE, noise=1.0), [2.0], 0.0, paths=8000, dt=dt, seed=3)
    within(found.mean_x[0, 0], mean, np.sqrt(var / 8000))
    within(found.var_x[0, 0], var, var * np.sqrt(2 / 8000))
    assert found.mean_v[0, 0] == {GradientFlow: -1.0, AmplifiedFlow: -2.0}[flow]  # the drift at t = 2


@pytest.mark.parametrize("scheme", ["exact", "euler-maruyama"])
def test_the_paper_s_figure_of_the_noise(scheme: str) -> None:
    """verif_noise: gradient 1, sigma = 10, 1000 runs, h = 1e-3: mean and sd of V for t^3 and for Nesterov."""
    for equation, published in (
        (MemoryFlow("poly:3", gradient=ONE, noise=10.0), [(-1.0, 13.416), (-1.0, 6.000)]),
        (HeavyBallFlow("3/t", gradient=ONE, noise=10.0), [(-0.25, 3.780), (-1.25, 8.452)]),
    ):
        found = simulate(equation, [1.0, 5.0], 0.0, paths=1000, dt=1e-3, seed=4, scheme=scheme)
        for i, (mean, sd) in enumerate(published):
            bias = 0.0 if scheme == "exact" else 0.005 * sd  # p h/t
            within(found.mean_v[i, 0], mean, sd / np.sqrt(1000), bias + 1e-9)
            within(np.sqrt(found.var_v[i, 0]), sd, sd / np.sqrt(2000), bias + 5e-4)


def test_velocities_at_two_times_are_correlated_as_memory_says() -> None:
    """Cov(V_s, V_t) = p^2 s^(p-1)/((2p-1) t^p)."""
    found = simulate(
        MemoryFlow("poly:2", gradient=zero, noise=1.0), [1.0, 3.0], 0.0, paths=8000, dt=0.25, seed=5, keep_paths=True
    )
    s, t = found.v[:, :, 0]
    exact = 4 * 1 / (3 * 9)
    within(np.mean(s * t), exact, np.sqrt((4 / 3 * 4 / 9 + exact**2) / 8000))


# --- quadratics (C4) -------------------------------------------------------------------------------------------------


def quadratic_law(p: float, t: float, s: float = 1.0, lam: float = 1.0, x0: float = 1.0) -> np.ndarray:
    """Means of X and V, Var X, Cov(X, V), Var V of MG-SDE with t^p on lam x^2/2: Var X = c (1 - F^2)."""
    f, df, c = hyp0f1(p, -p * lam * t), -lam * hyp0f1(p + 1, -p * lam * t), p * s**2 / ((2 * p - 1) * lam)
    return np.array([x0 * f, x0 * df, c * (1 - f**2), -c * f * df, p * lam * c / t - c * df**2])


@pytest.mark.parametrize("scheme", ["exact", "splitting", "euler-maruyama"])
@pytest.mark.parametrize("p", [1.5, 3.0])
def test_a_quadratic_has_its_exact_moments(p: float, scheme: str) -> None:
    t, dt, n = 3.0, 0.01, 8000
    equation = MemoryFlow(f"poly:{p}", gradient=same, noise=0.5)
    start = 0.03 if scheme == "euler-maruyama" else None
    found = simulate(equation, [t], 1.0, paths=n, dt=dt, seed=6, scheme=scheme, start=start)
    mean_x, mean_v, xx, xv, vv = quadratic_law(p, t, 0.5)
    bias = 3 * dt  # of first order
    within(found.mean_x[0, 0], mean_x, np.sqrt(xx / n), bias)
    within(found.mean_v[0, 0], mean_v, np.sqrt(vv / n), bias)
    within(found.var_x[0, 0], xx, xx * np.sqrt(2 / n), bias * xx)
    within(found.var_v[0, 0], vv, vv * np.sqrt(2 / n), bias * vv)
    within(found.covariance[0, 0, 1], xv, np.sqrt((xx * vv + xv**2) / n), bias * np.sqrt(xx * vv))


# --- orders, without Monte Carlo (D17) -------------------------------------------------------------------------------


Scheme = Callable[[float, float], Held]


def euler(equation: SecondOrder, steps: int, t: float, begin: int) -> np.ndarray:
    """Euler-Maruyama's own means of X and V, Var X, Cov, Var V on x^2/2 after this many steps to t."""
    h = t / steps
    n = np.arange(begin, steps, dtype=float)
    lost, c = equation.damping.rate(n * h) * h, equation.gain(n * h)
    mean = np.concatenate(equation.start(1.0, begin * h)).ravel()
    covariance = np.zeros((2, 2))
    for lost_n, c_n in zip(lost.tolist(), c.tolist(), strict=True):
        step = np.array([[1.0, h], [-c_n * h, 1 - lost_n]])
        mean, covariance = step @ mean, step @ covariance @ step.T + np.diag([0.0, c_n**2 * h])
    return np.array([*mean, covariance[0, 0], covariance[0, 1], covariance[1, 1]])


def propagated(equation: SecondOrder, held: Scheme, scheme: str, steps: int, t: float, begin: int = 0) -> np.ndarray:
    """The scheme's own means of X and V, Var X, Cov, Var V on x^2/2 after this many steps to t: it is linear."""
    if scheme == "euler-maruyama":
        return euler(equation, steps, t, begin)
    return exact_scheme(held, t / steps, steps, 1.0)[-1]


def heavy_ball_law(a: Callable[[float], float], q: float, t: float) -> np.ndarray:
    """The moment equations of a heavy ball on x^2/2, by scipy from their series at 1e-6."""

    def moments(s: float, y: np.ndarray) -> list[float]:
        x, v, xx, xv, vv = y
        return [v, -a(s) * v - x, 2 * xv, vv - xx - a(s) * xv, -2 * xv - 2 * a(s) * vv + 1]

    s = 1e-6
    first = [1 - s**2 / (2 * (q + 1)), -s / (q + 1), 0.0, s**2 / ((2 * q + 1) * (q + 2)), s / (2 * q + 1)]
    return solve_ivp(moments, (s, t), first, method="DOP853", rtol=1e-12, atol=1e-14).y[:, -1]


def orders(
    equation: SecondOrder, held: Scheme, scheme: str, exact: np.ndarray, t: float, begin: int, *, steps: int = 400
) -> np.ndarray:
    """How often errors halve as the step does: once at order 1, twice at order 2."""
    coarse, fine = (np.abs(propagated(equation, held, scheme, n, t, begin) - exact) for n in (steps, 2 * steps))
    return np.log2(coarse / fine)


@pytest.mark.parametrize(("scheme", "order"), [("euler-maruyama", 1), ("exact", 2)])
@pytest.mark.parametrize("kind", ["3/t", "constant"])
def test_the_order_of_a_scheme_for_a_heavy_ball(kind: str, scheme: str, order: int) -> None:
    if kind == "3/t":
        equation, held = HeavyBallFlow("3/t", gradient=same), over_time(3.0)
        exact = heavy_ball_law(lambda s: 3 / s, 3.0, 2.0)
    else:
        equation, held = HeavyBallFlow(0.5, gradient=same), constant(0.5)
        exact = heavy_ball_law(lambda s: 0.5, 0.0, 2.0)
    begin = 3 if (kind, scheme) == ("3/t", "euler-maruyama") else 0
    found = orders(equation, held, scheme, exact, 2.0, begin)
    assert found.min() == pytest.approx(order, abs=0.1)  # the slowest of the moments


@pytest.mark.parametrize(("scheme", "order"), [("euler-maruyama", 1), ("exact", 2)])
@pytest.mark.parametrize("t", [0.5, 3.0])
def test_the_order_of_a_scheme_for_the_mean_under_memory(scheme: str, order: int, t: float) -> None:
    equation, begin = MemoryFlow("poly:3", gradient=same), 3 if scheme == "euler-maruyama" else 0
    found = orders(equation, polynomial(3.0), scheme, quadratic_law(3.0, t), t, begin)[:2]
    np.testing.assert_allclose(found, order, atol=0.2)


@pytest.mark.parametrize("scheme", ["euler-maruyama", "exact"])
def test_the_covariance_under_memory_is_of_first_order_whatever_the_scheme(scheme: str) -> None:
    """The variance of V is infinite at 0+, so each early step misses O(h/n^2) of the position's, and that remains.

    The covariance looks of second order too at a time by which F^2 = 0.003 hides it.
    """
    equation, begin = MemoryFlow("poly:3", gradient=same), 3 if scheme == "euler-maruyama" else 0
    # Many steps: most of what early steps miss is gone where they are joint, and then h^2 hides the rest for long.
    found = orders(equation, polynomial(3.0), scheme, quadratic_law(3.0, 0.5), 0.5, begin, steps=3200)[2:]
    np.testing.assert_allclose(found, 1, atol=0.1)


def test_the_errors_of_the_schemes_are_those_of_the_specification() -> None:
    """p = 3, h = 1e-3, T = 3: errors known before, to their digit."""
    equation, exact = MemoryFlow("poly:3", gradient=same), quadratic_law(3.0, 3.0)
    error = np.abs(propagated(equation, polynomial(3.0), "euler-maruyama", 3000, 3.0, 3) - exact)
    assert error[:2].max() == pytest.approx(1e-4, rel=0.4)
    assert error[2] == pytest.approx(7e-4, rel=0.15)
    error = np.abs(propagated(equation, polynomial(3.0), "exact", 3000, 3.0) - exact)
    assert error[:2].max() == pytest.approx(1e-7, rel=0.4)  # that of half a step, the kick, half a step
    assert error[2] < 6e-7  # what it is without joint steps, for the scheme that reads X one half-step late


@pytest.mark.parametrize("scheme", ["exact", "splitting", "euler-maruyama"])
@pytest.mark.parametrize(
    ("equation", "held", "begin"),
    [
        (MemoryFlow("poly:3", gradient=same), polynomial(3.0), 3),
        (HeavyBallFlow(0.5, gradient=same), constant(0.5), 0),
        (HeavyBallFlow(50.0, gradient=same), constant(50.0), 0),
        (HeavyBallFlow("3/t", gradient=same), over_time(3.0), 3),
    ],
    ids=["MG", "HB", "stiff HB", "Nesterov"],
)
def test_without_noise_the_library_steps_as_the_propagated_scheme(
    equation: Any, held: Scheme, begin: int, scheme: str
) -> None:
    begin = begin if scheme == "euler-maruyama" else 0
    found = simulate(equation, [2.0], 1.0, paths=2, dt=0.01, seed=0, scheme=scheme)
    assert found.start == pytest.approx(begin * 0.01)
    assert found.normals == 0
    mean = propagated(equation, held, scheme, 200, 2.0, begin)[:2]
    np.testing.assert_allclose([found.mean_x[0, 0], found.mean_v[0, 0]], mean, rtol=0, atol=1e-13)
    assert found.var_x[0, 0] == 0


@pytest.mark.parametrize("scheme", ["exact", "splitting", "euler-maruyama"])
@pytest.mark.parametrize("steps", [10, 40])
def test_with_noise_the_library_steps_as_the_propagated_scheme(scheme: str, steps: int) -> None:
    """Large steps, so that a scheme is told from the truth; 6 of them are joint, and the rest plain."""
    equation, n = MemoryFlow("poly:2", gradient=same, noise=1.0), 16_000
    found = simulate(equation, [2.0], 1.0, paths=n, dt=2.0 / steps, seed=8, scheme=scheme)
    begin = 2 if scheme == "euler-maruyama" else 0
    assert found.normals == n * (steps - begin if begin else steps + 6)
    x, v, xx, xv, vv = propagated(equation, polynomial(2.0), scheme, steps, 2.0, begin)
    within(found.mean_x[0, 0], x, np.sqrt(xx / n))
    within(found.mean_v[0, 0], v, np.sqrt(vv / n))
    within(found.var_x[0, 0], xx, xx * np.sqrt(2 / n))
    within(found.var_v[0, 0], vv, vv * np.sqrt(2 / n))
    within(found.covariance[0, 0, 1], xv, np.sqrt((xx * vv + xv**2) / n))


# --- noise -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["exact", "euler-maruyama"])
def test_a_noise_matrix_gives_its_covariance(scheme: str) -> None:
    n, p, t = 8000, 2.0, 2.0
    found = simulate(
        MemoryFlow("poly:2", gradient=zero, noise=SIGMA), [t], [0.0, 0.0], paths=n, dt=0.01, seed=9, scheme=scheme
    )
    exact = SIGMA @ SIGMA.T * p**2 / ((2 * p - 1) * t)
    diagonal = np.diag(exact)
    error = np.sqrt((np.outer(diagonal, diagonal) + exact**2) / n)
    within(found.covariance[0, 2:, 2:], exact, error, 0.0 if scheme == "exact" else 0.02 * exact.max())
    assert found.normals == 3 * n * (200 + 6 if scheme == "exact" else 198)  # 6 steps are joint


def test_a_matrix_and_a_function_that_returns_it_are_the_same_noise() -> None:
    noises = [SIGMA, lambda x: SIGMA, lambda x: np.broadcast_to(SIGMA, (len(x), 2, 3))]
    found = [
        simulate(
            MemoryFlow("exp:alpha=1", gradient=same, noise=noise),
            [1.0],
            [1.0, 2.0],
            paths=50,
            dt=0.1,
            seed=1,
            keep_paths=True,
        )
        for noise in noises
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other.x, found[0].x, rtol=0, atol=1e-13)


def test_a_number_and_a_function_that_returns_it_are_the_same_noise() -> None:
    noises = [0.5, lambda x: np.full(len(x), 0.5), lambda x: 0.5, 0.5 * np.eye(2)]
    found = [
        simulate(
            MemoryFlow("poly:2", gradient=same, noise=noise),
            [1.0],
            [1.0, 2.0],
            paths=50,
            dt=0.1,
            seed=1,
            keep_paths=True,
        )
        for noise in noises
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other.x, found[0].x, rtol=0, atol=1e-13)


def test_noise_that_grows_with_the_position_of_a_flow_is_geometric_motion() -> None:
    s, n, steps, dt = 0.4, 16_000, 20, 0.05
    found = simulate(
        GradientFlow(gradient=zero, noise=lambda x: s * x[:, 0]), [1.0], 2.0, paths=n, dt=dt, seed=10, keep_paths=True
    )
    square = found.x[0, :, 0] ** 2
    within(found.mean_x[0, 0], 2.0, found.x[0].std() / np.sqrt(n))
    # Each step multiplies E X^2 by 1 + s^2 dt, which is e^(s^2 dt) to first order.
    within(square.mean(), 4 * (1 + s**2 * dt) ** steps, square.std() / np.sqrt(n))


def test_noise_that_grows_with_the_position_under_memory_follows_its_moments() -> None:
    """The noise of a step is s times the position at which its gradient is held: second moments obey a recursion."""
    s, n, steps, dt = 0.4, 16_000, 20, 0.1  # not more noise: tails so heavy that 16,000 paths do not know their spread
    found = simulate(
        MemoryFlow("poly:3", gradient=zero, noise=lambda x: s * x[:, 0]),
        [2.0],
        1.0,
        paths=n,
        dt=dt,
        seed=11,
        keep_paths=True,
    )
    second, held = np.diag([1.0, 0.0]), polynomial(3.0)
    for k in range(steps):
        step = held(k * dt, (k + 1) * dt)
        joint = step.b < np.exp(-1 / 3)
        reached = np.array([1.0, step.half if joint else dt / 2])
        noise = s**2 * reached @ second @ reached
        if joint:
            move, push = np.array([[1.0, step.a], [0.0, step.b]]), np.array([[step.xx, step.xv], [step.xv, step.vv]])
        else:
            half = np.array([[1.0, dt / 2], [0.0, 1.0]])
            move, push = half @ np.diag([1.0, step.b]) @ half, step.vv * half @ np.diag([0.0, 1.0]) @ half.T
        second = move @ second @ move.T + noise * push
    x, v = found.x[0], found.v[0]
    for values, exact in ((x**2, second[0, 0]), (x * v, second[0, 1]), (v**2, second[1, 1])):
        within(values.mean(), exact, values.std() / np.sqrt(n))


# --- one motion, several equations -----------------------------------------------------------------------------------

PUSHES: dict[str, tuple[Equation, Callable[[float, float], float]]] = {
    "MG t^3": (MemoryFlow("poly:3", gradient=ONE, noise=1.0), lambda s, t: 3 * s**2 / t**3),
    "MG t^0.7": (MemoryFlow("poly:0.7", gradient=ONE, noise=1.0), lambda s, t: 0.7 * s**-0.3 / t**0.7),
    "MG exp": (MemoryFlow("exp:alpha=2", gradient=ONE, noise=1.0), lambda s, t: 2 * np.exp(2 * s) / np.expm1(2 * t)),
    "Nesterov": (HeavyBallFlow("3/t", gradient=ONE, noise=1.0), lambda s, t: s**3 / t**3),
    "constant": (HeavyBallFlow(0.5, gradient=ONE, noise=1.0), lambda s, t: np.exp(0.5 * (s - t))),
}
PAIRS = [("MG t^3", "Nesterov"), ("MG t^0.7", "MG t^3"), ("MG exp", "Nesterov"), ("constant", "MG t^0.7")]


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize("dt", [0.05, 1.0])
def test_two_equations_share_one_motion(one: str, other: str, dt: float) -> None:
    """Cov(V_1, V_2) = int phi_1 phi_2 at any step, and each variance is int phi^2, as when alone."""
    n, t = 10_000, 2.0
    (first, phi), (second, psi) = PUSHES[one], PUSHES[other]
    found = simulate_together([first, second], [t], 0.0, paths=n, dt=dt, seed=12, keep_paths=True)
    both = np.cov(found[0].v[0, :, 0], found[1].v[0, :, 0])
    exact = np.array(
        [[quad(lambda s: f(s, t) * g(s, t), 0, t)[0] for f in (phi, psi)] for g in (phi, psi)]  # noqa: B023
    )
    within(np.diag(both), np.diag(exact), np.diag(exact) * np.sqrt(2 / n))
    rho = exact[0, 1] / np.sqrt(exact[0, 0] * exact[1, 1])
    assert rho > 0.5
    within(both[0, 1] / np.sqrt(both[0, 0] * both[1, 1]), rho, (1 - rho**2) / np.sqrt(n))


def test_the_correlation_of_nesterov_and_quadratic_memory_is_that_by_hand() -> None:
    pair = [PUSHES[name][0] for name in ("MG t^3", "Nesterov")]
    found = simulate_together(pair, [1.0], 0.0, paths=10_000, dt=0.1, seed=13, keep_paths=True)
    rho = (1 / 2) / np.sqrt(9 / 5 * 1 / 7)  # int 3 s^5 = 1/2
    within(np.corrcoef(found[0].v[0, :, 0], found[1].v[0, :, 0])[0, 1], rho, (1 - rho**2) / 100)


def test_three_equations_and_one_without_noise() -> None:
    trio = [*(PUSHES[name][0] for name in ("MG t^3", "Nesterov", "MG exp")), MemoryFlow("poly:3", gradient=ONE)]
    found = simulate_together(trio, [2.0], 0.0, paths=8000, dt=0.1, seed=14)
    for each, law in zip(found, (polynomial_law(3, 2.0), over_time_law(3, 2.0), exponential_law(2, 2.0)), strict=False):
        within(each.mean_v[0, 0], law[0], np.sqrt(law[1] / 8000))
        within(each.var_v[0, 0], law[1], law[1] * np.sqrt(2 / 8000))
    assert found[3].var_v[0, 0] == 0
    assert found[3].mean_v[0, 0] == pytest.approx(-1, abs=1e-14)
    assert [each.equation for each in found] == [str(equation) for equation in trio]


def test_a_flow_moves_by_the_motion_that_drives_a_memory() -> None:
    """X = -B and V = -int 3 s^2/t^3 dB: Cov = 1."""
    pair = [GradientFlow(gradient=zero, noise=1.0), MemoryFlow("poly:3", gradient=zero, noise=1.0)]
    motion, memory = simulate_together(pair, [2.0], 0.0, paths=10_000, dt=0.5, seed=15, keep_paths=True)
    rho = 1 / np.sqrt(2.0 * 9 / 10)
    within(np.corrcoef(motion.x[0, :, 0], memory.v[0, :, 0])[0, 1], rho, (1 - rho**2) / 100)


@pytest.mark.parametrize("p", [1, 3, 11, 20])
def test_euler_maruyama_from_step_p_is_memsgd(p: int) -> None:
    """V = b_k V - (1 - b_k)(g + sigma dB/h), b_k = k/(k+p), k = n - p: MemSGD's average of noisy gradients (C6)."""
    dt, sigma = 0.001, 0.3
    pair = [
        GradientFlow(gradient=zero, noise=sigma),  # X = -sigma B: the increments themselves
        MemoryFlow(f"poly:{p}", gradient=lambda x: x**3, noise=sigma),
    ]
    times = np.arange(p, p + 41) * dt
    motion, memory = simulate_together(
        pair, times, 1.5, paths=5, dt=dt, seed=16, scheme="euler-maruyama", keep_paths=True
    )
    assert memory.start == pytest.approx(p * dt, rel=1e-12)  # also where (p/(p dt)) dt rounds above 1: p = 11
    u = np.full((5, 1), np.nan)  # b_0 = 0: what was there before never matters
    for k in range(40):
        noise = -(motion.x[k + 1] - motion.x[k]) / dt
        b = k / (k + p)
        u = (0 if k == 0 else b * u) + p / (k + p) * (memory.x[k] ** 3 + noise)
        # Rounding: the noise is about 10, and is recovered from differences of numbers near 1.5, divided by dt.
        np.testing.assert_allclose(-memory.v[k + 1], u, rtol=0, atol=1e-11)
        np.testing.assert_allclose(memory.x[k + 1], memory.x[k] + dt * memory.v[k], rtol=1e-15)


def test_milstein_is_euler_maruyama_where_noise_enters_the_velocity_alone() -> None:
    equation = MemoryFlow("poly:3", gradient=same, noise=lambda x: 1 + x[:, 0] ** 2)
    euler, milstein = (
        simulate(equation, [0.5, 1.0], 1.0, paths=20, dt=0.01, seed=17, scheme=scheme, keep_paths=True)
        for scheme in ("euler-maruyama", "milstein")
    )
    np.testing.assert_array_equal(euler.x, milstein.x)
    np.testing.assert_array_equal(euler.v, milstein.v)
    assert (euler.scheme, milstein.scheme) == ("euler-maruyama", "milstein")


def geometric(s: float, mu: float, shape: str) -> GradientFlow:
    """dX = -mu X dt - s X dB, coordinate by coordinate, or with one motion for two coordinates."""
    noises = {
        "one coordinate": lambda x: s * x[:, 0],
        "diagonal": lambda x: s * x[:, :, None] * np.eye(2),
        "one motion": lambda x: s * x[:, :, None],
    }
    return GradientFlow(gradient=lambda x: mu * x, noise=noises[shape])


def strong_error(shape: str, scheme: str, steps: int) -> float:
    """The mean distance to geometric Brownian motion at time 1, driven by the same motion path by path."""
    s, mu, n = 0.8, 0.3, 4000
    ones = {"one motion": np.ones((2, 1)), "diagonal": np.eye(2), "one coordinate": 1.0}[shape]
    x0 = [1.0] if shape == "one coordinate" else [1.0, 1.0]
    pair = [geometric(s, mu, shape), GradientFlow(gradient=zero, noise=ones)]  # the second is 1 - B
    found, motion = simulate_together(pair, [1.0], x0, paths=n, dt=1 / steps, seed=40, scheme=scheme, keep_paths=True)
    b = 1 - motion.x[0]
    return float(np.abs(found.x[0] - np.exp(-mu - s**2 / 2 - s * b)).mean())


@pytest.mark.parametrize("shape", ["one coordinate", "diagonal", "one motion"])
@pytest.mark.parametrize(("scheme", "order"), [("euler-maruyama", 0.5), ("milstein", 1.0)])
def test_the_strong_order_on_geometric_motion(shape: str, scheme: str, order: float) -> None:
    errors = [strong_error(shape, scheme, steps) for steps in (16, 64, 256)]
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])) / 2, order, atol=0.15)
    if scheme == "milstein":
        assert errors[-1] < strong_error(shape, "euler-maruyama", 256) / 5


def test_milstein_under_a_growing_gain_and_additive_noise() -> None:
    """Where sigma is constant the correction is 0; under amplified flow it takes the gain with it."""
    constant_noise = GradientFlow(gradient=same, noise=lambda x: np.full(len(x), 0.5))
    one, two = (
        simulate(constant_noise, [1.0], 1.0, paths=10, dt=0.1, seed=41, scheme=scheme).mean_x
        for scheme in ("euler-maruyama", "milstein")
    )
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-15)
    errors = {}
    for scheme in ("euler-maruyama", "milstein"):
        # dX = -t s X dB, and as a motion W with dW = -t dB: X = exp(s W - s^2 t^3/6)
        pair = [AmplifiedFlow(gradient=zero, noise=lambda x: 0.8 * x[:, 0]), AmplifiedFlow(gradient=zero, noise=1.0)]
        found, motion = simulate_together(
            pair, [1.0], 1.0, paths=2000, dt=1 / 256, seed=42, scheme=scheme, keep_paths=True
        )
        errors[scheme] = np.abs(found.x[0] - np.exp(0.8 * (motion.x[0] - 1) - 0.64 / 6)).mean()
    assert errors["milstein"] < errors["euler-maruyama"] / 5


@pytest.mark.parametrize(
    "noise",
    [
        lambda x: 1 + x[:, 0] ** 2,  # one number for two motions, of one coordinate
        lambda x: np.stack([1 + x[:, ::-1] ** 2] * 2, axis=2) * np.eye(2),  # a diagonal of the other coordinate
        lambda x: 1 + x[:, :, None] * np.ones((1, 1, 2)),  # a full matrix
    ],
)
def test_milstein_refuses_noise_that_needs_areas(noise: Any) -> None:
    equation = GradientFlow(gradient=same, noise=noise)
    with pytest.raises(
        ValueError, match=r"'milstein' needs noise sigma\(x\) from one Brownian motion.*Use scheme 'exact'"
    ):
        simulate(equation, [1.0], [1.0, 2.0], paths=2, dt=0.1, seed=0, scheme="milstein")
    assert simulate(equation, [0.1], [1.0, 2.0], paths=2, dt=0.1, seed=0).success


@pytest.mark.parametrize("p", [1, 2, 3, 7, 11, 22, 44, 73, 88, 100])
@pytest.mark.parametrize("dt", [0.1, 1e-3])
def test_euler_maruyama_starts_where_no_factor_is_negative(p: int, dt: float) -> None:
    found = simulate(
        MemoryFlow(f"poly:{p}", gradient=same, noise=1.0), [p * dt], 1.0, paths=1, dt=dt, seed=0, scheme="milstein"
    )
    assert found.start == pytest.approx(p * dt, rel=1e-12)
    assert found.normals == 0
    assert found.mean_v[0, 0] == -1  # the starting data


# --- divergence ------------------------------------------------------------------------------------------------------


def test_an_early_start_of_euler_maruyama_overshoots_and_a_default_one_does_not() -> None:
    equation, times, dt = MemoryFlow("poly:100", gradient=same, noise=1.0), np.arange(1, 300) * 1e-3, 1e-3
    early = simulate(equation, times, 1.0, paths=20, dt=dt, seed=18, scheme="euler-maruyama", start=dt, keep_paths=True)
    assert np.abs(early.v).max() > 1e28  # binomial coefficients of 99
    assert early.success  # large, but finite
    default = simulate(equation, times, 1.0, paths=20, dt=dt, seed=18, scheme="euler-maruyama", keep_paths=True)
    # sd of V at t = 0.1: p/sqrt((2p-1) t) = 22
    assert np.abs(default.v).max() < 6 * 25


@pytest.mark.parametrize("threads", [1, 2])
def test_paths_that_do_not_stay_finite_are_no_success(threads: int) -> None:
    equation = MemoryFlow("poly:100", gradient=lambda x: x**3, noise=1.0)
    found = simulate(
        equation,
        [0.0, 0.01, 0.3],
        1.0,
        paths=20,
        dt=1e-3,
        seed=19,
        scheme="euler-maruyama",
        start=1e-3,
        threads=threads,
        quantiles=[0.5],
        observe={"f": lambda x, v: x[:, 0] ** 4},
    )
    assert not found.success
    assert (found.diverged, found.diverged_at) == (20, pytest.approx(0.3))
    assert found.message == "20 of 20 paths did not stay finite, first seen at t=0.3."
    assert not np.isfinite(found.mean_x[2]).any()
    assert np.isfinite(found.mean_x[0]).all()


def test_a_few_paths_that_leave_are_counted() -> None:
    """On the right of 0 the flow is x' = x^3, which explodes; noise sends some paths there and keeps others."""
    equation = GradientFlow(gradient=lambda x: np.where(x > 0, -(x**3), x), noise=1.0)
    found = simulate(equation, [0.5, 2.0], 0.0, paths=200, dt=0.01, seed=20, keep_paths=True)
    lost = np.count_nonzero(~np.isfinite(found.x[-1, :, 0] + found.v[-1, :, 0]))
    assert 0 < lost < 200
    assert found.diverged == lost
    assert not found.success
    assert found.message.startswith(f"{lost} of 200 paths did not stay finite")


def test_a_noise_that_is_not_a_number_is_no_success() -> None:
    equation = GradientFlow(gradient=same, noise=lambda x: np.where(x[:, 0] < 0.9, np.nan, 0.1))
    found = simulate(equation, [1.0], 1.0, paths=10, dt=0.1, seed=21)
    assert not found.success
    assert found.diverged == 10


# --- the same numbers, however computed ------------------------------------------------------------------------------

NOISES = {"number": 0.5, "matrix": SIGMA, "function": lambda x: 0.1 + x[:, 0] ** 2}
MANY = 2 * stochastic.LANE + 37  # three lanes, the last of them short


def numbers(found: Ensemble) -> list[np.ndarray]:
    return [found.mean_x, found.mean_v, found.covariance]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scheme", ["exact", "splitting", "euler-maruyama"])
def test_threads_blocks_and_reports_do_not_change_a_bit(
    noise: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    equation, x0 = MemoryFlow("poly:2", gradient=same, noise=NOISES[noise]), [1.0, 0.5]

    def run(threads: int, **changed: Any) -> Ensemble:
        options = {"paths": MANY, "dt": 0.1, "seed": 22, "scheme": scheme, "threads": threads}
        return simulate(equation, [0.0, 0.3, 0.9], x0, **options, **changed)

    plain = run(1)
    others = [run(2), run(7), run(1, keep_paths=True, quantiles=[0.5], observe={"f": lambda x, v: v[:, 0]})]
    monkeypatch.setattr(integrators, "_BLOCK_BYTES", 1)
    others += [run(1)]
    monkeypatch.setattr(integrators, "_BLOCK_BYTES", 1 << 28)
    monkeypatch.setattr(stochastic, "_STEPS_AT_ONCE", 2)
    others += [run(2, progress=lambda done, total: None)]
    for other in others:
        for one, two in zip(numbers(plain), numbers(other), strict=True):
            np.testing.assert_array_equal(one, two)


def test_times_wanted_do_not_change_a_bit() -> None:
    equation = MemoryFlow("stretch:1.5", gradient=same, noise=0.5)
    few, many = (
        simulate(equation, times, 1.0, paths=20, dt=0.05, seed=23, keep_paths=True)
        for times in ([2.0], np.arange(1, 41) * 0.05)
    )
    np.testing.assert_array_equal(few.x[-1], many.x[-1])


def test_together_blocks_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = [MemoryFlow("poly:2", gradient=same, noise=1.0), HeavyBallFlow("3/t", gradient=same, noise=1.0)]
    one = simulate_together(pair, [1.0], 1.0, paths=MANY, dt=0.1, seed=24, threads=1)
    monkeypatch.setattr(integrators, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(stochastic, "_STEPS_AT_ONCE", 3)
    two = simulate_together(pair, [1.0], 1.0, paths=MANY, dt=0.1, seed=24, threads=3)
    for a, b in zip(one, two, strict=True):
        for left, right in zip(numbers(a), numbers(b), strict=True):
            np.testing.assert_array_equal(left, right)


def test_a_seed_repeats_and_another_does_not() -> None:
    equation = MemoryFlow("poly:2", gradient=same, noise=1.0)
    one, again, other = (simulate(equation, [1.0], 1.0, paths=10, dt=0.1, seed=seed) for seed in (1, 1, 2))
    assert one.mean_x == again.mean_x
    assert one.mean_x != other.mean_x


def test_lanes_have_streams_of_their_own() -> None:
    found = simulate(
        MemoryFlow("poly:2", gradient=zero, noise=1.0), [0.1], 0.0, paths=MANY, dt=0.1, seed=25, keep_paths=True
    )
    assert len(np.unique(found.v)) == MANY


def test_a_gradient_is_not_written_into() -> None:
    """A gradient may return its argument, or an array it keeps."""
    kept = np.full((10, 1), 2.0)
    found = simulate(
        MemoryFlow("poly:2", gradient=lambda x: kept[: len(x)], noise=1.0), [1.0], 1.0, paths=10, dt=0.1, seed=26
    )
    assert found.success
    assert np.all(kept == 2)


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_statistics_are_those_of_the_paths() -> None:
    found = simulate(
        MemoryFlow("poly:2", gradient=same, noise=SIGMA),
        [0.0, 0.5, 1.0],
        [1.0, -1.0],
        paths=101,
        dt=0.1,
        seed=27,
        quantiles=[0.1, 0.9],
        observe={"f": lambda x, v: (x**2).sum(axis=1) / 2, "speed": lambda x, v: np.abs(v[:, 1])},
        keep_paths=True,
    )
    assert found.x.shape == found.v.shape == (3, 101, 2)
    np.testing.assert_array_equal(found.x[0], np.tile([1.0, -1.0], (101, 1)))
    np.testing.assert_array_equal(found.v[0], -found.x[0])  # V(0+) = -gradient
    np.testing.assert_allclose(found.mean_x, found.x.mean(axis=1), rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.var_v, found.v.var(axis=1, ddof=1), rtol=1e-12)
    state = np.hstack([found.x[2], found.v[2]])
    np.testing.assert_allclose(found.covariance[2], np.cov(state.T), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(found.quantiles_v, np.quantile(found.v, [0.1, 0.9], axis=1).swapaxes(0, 1))
    loss = (found.x**2).sum(axis=2) / 2
    np.testing.assert_allclose(found.observed["f"].mean, loss.mean(axis=1), rtol=1e-14)
    np.testing.assert_allclose(found.observed["f"].sd, loss.std(axis=1, ddof=1), rtol=1e-12, atol=1e-15)
    speed = np.quantile(np.abs(found.v[:, :, 1]), [0.1, 0.9], axis=1)
    np.testing.assert_allclose(found.observed["speed"].quantiles.T, speed, rtol=1e-15)
    columns = found.columns()
    assert list(columns)[:5] == ["t", "mean_x0", "mean_x1", "sd_x0", "sd_x1"]
    assert {"q0.1_x0", "q0.9_v1", "mean_f", "sd_f", "q0.9_speed"} <= set(columns)
    assert all(column.shape == (3,) for column in columns.values())
    np.testing.assert_array_equal(columns["sd_v1"], np.sqrt(found.var_v[:, 1]))
    np.testing.assert_array_equal(columns["q0.9_x0"], found.quantiles_x[:, 1, 0])
    np.testing.assert_array_equal(columns["q0.9_speed"], found.observed["speed"].quantiles[:, 1])
    both = joint_columns({"one": found, "other": found})
    assert both["flow"].tolist() == ["one"] * 3 + ["other"] * 3
    np.testing.assert_array_equal(both["mean_x1"], np.tile(columns["mean_x1"], 2))


def test_quantiles_are_those_of_the_normal_law() -> None:
    levels, n = [0.05, 0.5, 0.95], 16_000
    equation = MemoryFlow("poly:3", gradient=ONE, noise=1.0)
    found = simulate(equation, [1.0], 0.0, paths=n, dt=0.1, seed=28, quantiles=levels)
    sd = np.sqrt(9 / 5)
    z = norm.ppf(levels)
    error = sd * np.sqrt(np.multiply(levels, np.subtract(1, levels)) / n) / norm.pdf(z)
    within(found.quantiles_v[0, :, 0], -1 + sd * z, error)


def test_provenance_says_how_the_numbers_were_obtained() -> None:
    equation = MemoryFlow("poly:3", gradient=same, noise=1.0)
    found = simulate(equation, [0.5, 1.0], 1.0, paths=7, dt=0.1, seed=29, scheme="milstein")
    assert found.provenance() == {
        "equation": "MG-SDE(poly:3), noise 1",
        "scheme": "milstein",
        "dt": 0.1,
        "start": pytest.approx(0.3),
        "seed": 29,
        "paths": 7,
        "steps": 10,
        "normals": 7 * 7,
        "success": True,
        "message": "all 7 paths stayed finite.",
    }
    assert found.x is None
    assert found.v is None


def test_a_number_is_the_end_of_even_times() -> None:
    found = simulate(MemoryFlow("poly:3", gradient=same, noise=1.0), 5.0, 1.0, paths=2, dt=0.01, seed=0)
    assert len(found.t) == 201
    assert (found.t[0], found.t[-1]) == (0.0, pytest.approx(5.0))
    np.testing.assert_allclose(np.rint(found.t / 0.01), found.t / 0.01, rtol=0, atol=1e-9)
    few = simulate(MemoryFlow("poly:3", gradient=same, noise=1.0), 0.5, 1.0, paths=2, dt=0.1, seed=0)
    np.testing.assert_allclose(few.t, [0, 0.1, 0.2, 0.3, 0.4, 0.5], rtol=0, atol=1e-15)


def test_one_path_has_no_spread() -> None:
    equation, observe = MemoryFlow("poly:3", gradient=same, noise=1.0), {"f": lambda x, v: x[:, 0]}
    found = simulate(equation, [1.0], 1.0, paths=1, dt=0.1, seed=0, observe=observe)
    assert found.success
    assert found.var_x[0, 0] == found.observed["f"].sd[0] == 0


# --- progress, interruption, memory ----------------------------------------------------------------------------------


def test_progress_counts_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stochastic, "_STEPS_AT_ONCE", 4)
    seen: list[tuple[int, int]] = []
    simulate(
        MemoryFlow("poly:3", gradient=same, noise=1.0),
        [0.5, 1.0],
        1.0,
        paths=3,
        dt=0.1,
        seed=0,
        progress=lambda *each: seen.append(each),
    )
    assert seen == [(4, 10), (5, 10), (9, 10), (10, 10)]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interruption_leaves_no_thread_behind(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stochastic, "_STEPS_AT_ONCE", 1)
    before, seen = threading.active_count(), []

    def interrupt(done: int, total: int) -> None:
        seen.append(done)
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(
            MemoryFlow("poly:3", gradient=same, noise=1.0),
            [5.0],
            1.0,
            paths=MANY,
            dt=0.1,
            seed=0,
            threads=threads,
            progress=interrupt,
        )
    assert seen == [1, 2, 3]
    assert threading.active_count() == before


def test_an_error_in_a_gradient_comes_out_as_it_is() -> None:
    calls = 0

    def gradient(x: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise ZeroDivisionError("mine")
        return x

    with pytest.raises(ZeroDivisionError, match="mine"):
        simulate(MemoryFlow("poly:3", gradient=gradient, noise=1.0), [5.0], 1.0, paths=3, dt=0.1, seed=0)


def test_a_million_paths_fit_in_what_is_announced() -> None:
    n = 10**6
    announced = 8 * n * 2 * 3  # a position and a velocity a path, and two copies while they are summed up
    equation = MemoryFlow("poly:3", gradient=same, noise=1.0)
    tracemalloc.start()
    try:
        found = simulate(equation, [0.5, 1.0], 1.0, paths=n, dt=0.25, seed=30, threads=1, memory_limit=announced)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.success
    assert peak <= announced + 20e6  # and the noise of one lane
    xx, xv, vv = exact_scheme(polynomial(3.0), 0.25, 4, 1.0)[-1, 2:]
    within(found.covariance[1], [[xx, xv], [xv, vv]], np.sqrt(2 / n) * np.array([[xx, vv], [vv, vv]]))
    with pytest.raises(ValueError, match="raise memory_limit"):
        simulate(equation, [0.5, 1.0], 1.0, paths=n, dt=0.25, seed=30, memory_limit=announced - 1)


def test_kept_paths_and_every_equation_count_as_memory() -> None:
    """Eight bytes for each position and velocity of d = 2: three copies of the state, and one per kept time."""
    equation = GradientFlow(gradient=same, noise=1.0)
    options: dict[str, Any] = {"paths": 10, "dt": 0.5, "seed": 0, "keep_paths": True}
    for equations in (1, 3):
        need = equations * 8 * 10 * 2 * 2 * (3 + 4)
        times, x0 = [0.0, 0.5, 1.0, 1.5], [1.0, 2.0]
        assert simulate_together([equation] * equations, times, x0, **options, memory_limit=need)[0].success
        with pytest.raises(ValueError, match="10 paths at 4 times need"):
            simulate_together([equation] * equations, times, x0, **options, memory_limit=need - 1)


def test_steps_are_counted_up_to_where_floats_can_tell_them_apart() -> None:
    def begun(done: int, total: int) -> None:
        pytest.fail("a simulation of 1e16 steps has begun")

    with pytest.raises(ValueError, match=r"1e\+16 steps, more than can be counted \(9e15\)"):
        simulate(GradientFlow(gradient=same), [1e16], 1.0, paths=1, dt=1.0, seed=0, progress=begun)


def test_what_has_not_begun_is_given_up_after_an_error() -> None:
    calls = []

    def gradient(x: np.ndarray) -> np.ndarray:
        calls.append(len(x))
        if len(x) > 3:  # not while the equation is looked at
            raise KeyboardInterrupt
        return x

    with pytest.raises(KeyboardInterrupt):
        simulate(GradientFlow(gradient=gradient, noise=1.0), [1.0], 1.0, paths=100 * 8192, dt=0.1, seed=0, threads=1)
    assert sum(paths > 3 for paths in calls) < 10


@pytest.mark.parametrize(
    ("options", "noise", "complaint"),
    [
        ({"quantiles": 0.5}, 1.0, r"sequence of levels.*got 0\.5"),
        ({}, "a", r"noise is a number.*got 'a'"),
    ],
)
def test_what_is_of_the_wrong_type_is_named(options: dict[str, Any], noise: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        simulate(GradientFlow(gradient=same, noise=noise), [1.0], 1.0, paths=2, dt=0.5, seed=0, **options)


def test_a_limit_that_is_no_number_lets_nothing_through() -> None:
    with pytest.raises(ValueError, match="memory_limit"):
        simulate(GradientFlow(gradient=same), [1.0], 1.0, paths=2, dt=0.5, seed=0, memory_limit=float("nan"))
