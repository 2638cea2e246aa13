"""Solutions of the ordinary equations against Bessel, Legendre and elementary functions."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.special import hyp0f1

from memgrad.dynamics import (
    AmplifiedFlow,
    Equation,
    ExponentialFlow,
    GradientFlow,
    HeavyBallFlow,
    MemoryFlow,
    solve,
)
from memgrad.dynamics.viscosity import HyperbolicViscosity
from memgrad.memory import Sampled

DEGREES = [1.0, 1.5, 2.0, 3.0, 4.0, 100.0]
PAPER = {"rtol": 1e-5, "atol": 1e-10}
LAM = np.array([0.04, 0.01])  # the paper's quadratic, f = 0.02 x1^2 + 0.005 x2^2


def same(x: np.ndarray) -> np.ndarray:
    return x


def quartic(x: np.ndarray) -> np.ndarray:
    return np.array([3.2, 1.6]) * x**3  # f = 0.8 x1^4 + 0.4 x2^4


def uphill(x: np.ndarray) -> np.ndarray:
    return -(x**3)


def memory_mean(p: float, t: np.ndarray, lam: Any = 1.0) -> np.ndarray:
    """X/x0 of MG-ODE with t^p on lam x^2/2: 0F1(; p; -p lam t)."""
    return np.asarray(hyp0f1(p, -p * lam * t))


# --- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["RK45", "DOP853"])
@pytest.mark.parametrize("p", DEGREES)
def test_the_paper_s_tolerances_are_enough_for_explicit_methods(method: str, p: float) -> None:
    end = 100.0 if p == 100 else 300.0  # stiff, and slow for that: steps of 3/p t at most
    found = solve(MemoryFlow(f"poly:{p}", gradient=same), end, 1.0, method=method, tolerances="paper")
    assert found.success, found.message
    assert found.start == 2.220446049250313e-16
    assert (found.rtol, found.atol) == (1e-5, 1e-10)
    np.testing.assert_allclose(found.x[:, 0], memory_mean(p, found.t), rtol=0, atol=1e-5)
    # V = X': -0F1(; p + 1; -p t)
    np.testing.assert_allclose(found.v[:, 0], -hyp0f1(p + 1, -p * found.t), rtol=0, atol=1e-4)


@pytest.mark.parametrize("p", [0.6, 1.5, 3.0])
def test_tight_tolerances_are_tight(p: float) -> None:
    found = solve(MemoryFlow(f"poly:{p}", gradient=same), np.linspace(0, 20, 20), 1.0)
    np.testing.assert_allclose(found.x[:, 0], memory_mean(p, found.t), rtol=0, atol=1e-8)


def test_a_vector_is_solved_coordinate_by_coordinate() -> None:
    found = solve(
        MemoryFlow("poly:3", gradient=lambda x: LAM * x), np.linspace(0, 300, 31), [1.0, -2.0], method="DOP853"
    )
    assert found.x.shape == found.v.shape == (31, 2)
    exact = np.array([1.0, -2.0]) * memory_mean(3.0, found.t[:, None], LAM)
    np.testing.assert_allclose(found.x, exact, rtol=0, atol=1e-8)


def test_radau_from_the_machine_epsilon_reports_success_with_wrong_numbers() -> None:
    """What the library protects from, straight from scipy."""
    t0 = 2.220446049250313e-16
    for p in (1.0, 2.0, 3.0):
        raw = solve_ivp(
            lambda t, y, p=p: [y[1], -p / t * (y[1] + y[0])], (t0, 300.0), [1.0, -1.0], method="Radau", **PAPER
        )
        assert raw.success
        error = np.abs(raw.y[0] - memory_mean(p, raw.t)).max()
        assert error > 0.05  # 5,000 times the tolerance; 0.43, 0.18 and 0.10 were seen elsewhere
        equation = MemoryFlow(f"poly:{p}", gradient=same)
        with pytest.raises(ValueError, match=r"Radau from start=2\.2.*success with wrong numbers.*RK45 or DOP853"):
            solve(equation, 300.0, 1.0, method="Radau", tolerances="paper", start=t0)


@pytest.mark.parametrize("method", ["Radau", "LSODA"])
@pytest.mark.parametrize("p", [1.0, 3.0, 100.0])
def test_implicit_methods_are_right_from_where_they_begin(method: str, p: float) -> None:
    equation, t = MemoryFlow(f"poly:{p}", gradient=same), np.linspace(0, 30, 50)
    found = solve(equation, t, 1.0, method=method, tolerances="paper")
    assert found.success
    assert found.start >= 1e-6
    # 30 time units of steps that err by 1e-5 each.
    np.testing.assert_allclose(found.x[:, 0], memory_mean(p, found.t), rtol=0, atol=5e-4)


def test_a_start_may_be_chosen() -> None:
    found = solve(MemoryFlow("poly:3", gradient=same), [0.0, 1e-4, 1.0], 1.0, start=1e-4)
    assert found.start == 1e-4
    # The start is right to first order: an error of t0^2 in the position.
    np.testing.assert_allclose(found.x[:, 0], memory_mean(3.0, found.t), rtol=0, atol=1e-8)
    assert found.x[0, 0] == 1
    assert found.v[0, 0] == -1


@pytest.mark.parametrize(("alpha", "lam"), [(10.0, 1.0), (0.7, 1.0), (4.0, 1.0)])
def test_exponential_memory_is_a_legendre_function(alpha: float, lam: float) -> None:
    """X = x0 2F1(r, 1-r; 1; 1 - e^(alpha t)) with r (1-r) = lam/alpha; r is complex where lam > alpha/4."""
    found = solve(MemoryFlow(f"exp:alpha={alpha}", gradient=lambda x: lam * x), [0.0, 0.1, 0.5, 1.0, 3.0], 2.0)
    with mpmath.workdps(30):
        r = (1 + mpmath.sqrt(mpmath.mpc(1 - 4 * lam / alpha))) / 2
        exact = [2 * mpmath.hyp2f1(r, 1 - r, 1, 1 - mpmath.exp(alpha * mpmath.mpf(t))).real for t in found.t]
    np.testing.assert_allclose(found.x[:, 0], np.array(exact, float), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("equation", "m", "dm"),
    [
        (MemoryFlow("log", gradient=quartic), np.log1p, lambda s: 1 / (1 + s)),
        (MemoryFlow("poly:3", gradient=quartic), lambda t: t**3, lambda s: 3 * s**2),
        (MemoryFlow("exp:alpha=2", gradient=quartic), lambda t: np.expm1(2 * t), lambda s: 2 * np.exp(2 * s)),
        (
            MemoryFlow("stretch:1.5", gradient=quartic),
            lambda t: np.expm1(t**1.5),
            lambda s: 1.5 * s**0.5 * np.exp(s**1.5),
        ),
        (
            MemoryFlow(Sampled(lambda t: t + t**2, lambda t: 1 + 2 * t, h=0.1), gradient=quartic),
            lambda t: t + t**2,
            lambda s: 1 + 2 * s,
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Equation) else "",
)
def test_the_velocity_is_minus_the_average_of_past_gradients(equation: Equation, m: Any, dm: Any) -> None:
    """MG-ODE-INT: V(t) = -int_0^t m'(s)/m(t) grad f(X(s)) ds, from the solution between its times (D18)."""
    found = solve(equation, [0.0, 0.5, 3.0], [1.0, 1.0])
    assert found.at is not None
    for i, t in ((1, 0.5), (2, 3.0)):
        for j in range(2):
            average, _ = quad(lambda s: dm(s) * quartic(found.at(s)[0])[0, j], 0, t, epsabs=1e-10, limit=200)  # noqa: B023
            assert found.v[i, j] == pytest.approx(-average / m(t), abs=1e-6)


# --- heavy balls and flows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("q", "method"), [(0.5, "DOP853"), (1.0, "DOP853"), (3.0, "RK45"), (7.0, "DOP853")])
def test_a_heavy_ball_with_viscosity_over_time_is_a_bessel_function(q: float, method: str) -> None:
    lam, t = 2.0, np.linspace(0, 10, 30)
    found = solve(HeavyBallFlow(f"{q}/t", gradient=lambda x: lam * x), t, 1.5, method=method)
    z = -lam * t**2 / 4
    np.testing.assert_allclose(found.x[:, 0], 1.5 * hyp0f1((q + 1) / 2, z), rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.v[:, 0], -1.5 * lam * t / (q + 1) * hyp0f1((q + 3) / 2, z), rtol=0, atol=1e-7)


@pytest.mark.parametrize(("alpha", "lam"), [(0.5, 3.0), (4.0, 3.0)])
@pytest.mark.parametrize("v0", [None, -2.0])
def test_a_constant_viscosity_is_a_damped_oscillator(alpha: float, lam: float, v0: float | None) -> None:
    t = np.linspace(0, 6, 25)
    found = solve(HeavyBallFlow(alpha, gradient=lambda x: lam * x), t, 1.0, v0=v0)
    one, two = np.roots([1, alpha, lam]).astype(complex)  # x'' + alpha x' + lam x = 0
    c = np.linalg.solve([[1, 1], [one, two]], [1.0, v0 or 0.0])
    exact = c[0] * np.exp(one * t) + c[1] * np.exp(two * t)
    np.testing.assert_allclose(found.x[:, 0], exact.real, rtol=0, atol=1e-9)
    speed = c[0] * one * np.exp(one * t) + c[1] * two * np.exp(two * t)
    np.testing.assert_allclose(found.v[:, 0], speed.real, rtol=0, atol=1e-8)
    assert found.start == 0


def test_the_exponential_form_is_the_same_oscillator_with_a_scaled_force() -> None:
    alpha, t = 2.0, np.linspace(0, 5, 11)
    plain = solve(ExponentialFlow(alpha, gradient=same), t, 1.0)  # x'' + 2 x' + 2 x = 0: e^-t (cos t + sin t)
    np.testing.assert_allclose(plain.x[:, 0], np.exp(-t) * (np.cos(t) + np.sin(t)), rtol=0, atol=1e-9)
    scaled = solve(ExponentialFlow(alpha, scale=1.0, gradient=same), t, 1.0)  # double root -1: e^-t (1 + t)
    np.testing.assert_allclose(scaled.x[:, 0], np.exp(-t) * (1 + t), rtol=0, atol=1e-9)


def test_gradient_flows_are_exponentials() -> None:
    t = np.linspace(0, 3, 7)
    flow = solve(GradientFlow(gradient=lambda x: 2 * x), t, 3.0)
    np.testing.assert_allclose(flow.x[:, 0], 3 * np.exp(-2 * t), rtol=0, atol=1e-9)
    np.testing.assert_allclose(flow.v[:, 0], -6 * np.exp(-2 * t), rtol=0, atol=1e-8)
    amplified = solve(AmplifiedFlow(gradient=lambda x: 2 * x), t, 3.0)
    np.testing.assert_allclose(amplified.x[:, 0], 3 * np.exp(-(t**2)), rtol=0, atol=1e-9)
    np.testing.assert_allclose(amplified.v[:, 0], -6 * t * np.exp(-(t**2)), rtol=0, atol=1e-8)


# --- time warps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.75, 1.0, 3.0, 7.0])
def test_polynomial_memory_is_a_heavy_ball_in_warped_time(p: float) -> None:
    """X(s^2/(4p)) solves HB-ODE with viscosity (2p-1)/s, on any f (C5)."""
    s = np.linspace(0, 6, 21)
    ball = solve(HeavyBallFlow(f"{2 * p - 1}/t", gradient=quartic), s, [1.0, -0.5], method="DOP853")
    memory = solve(MemoryFlow(f"poly:{p}", gradient=quartic), s**2 / (4 * p), [1.0, -0.5], method="DOP853")
    np.testing.assert_allclose(memory.x, ball.x, rtol=0, atol=1e-8)


def test_exponential_memory_is_a_heavy_ball_in_warped_time() -> None:
    """Erratum 11: tau = (2/a) log cosh(sqrt(a) s/2) and viscosity sqrt(a) coth(sqrt(a) s)."""
    a, s = 3.0, np.linspace(0, 4, 21)
    ball = solve(HeavyBallFlow(HyperbolicViscosity(np.sqrt(a)), gradient=quartic), s, [1.0, -0.5], method="DOP853")
    tau = 2 / a * np.log(np.cosh(np.sqrt(a) * s / 2))
    memory = solve(MemoryFlow(f"exp:alpha={a}", gradient=quartic), tau, [1.0, -0.5], method="DOP853")
    np.testing.assert_allclose(memory.x, ball.x, rtol=0, atol=1e-8)


# --- the result ------------------------------------------------------------------------------------------------------


def test_the_solution_is_known_between_its_times() -> None:
    found = solve(MemoryFlow("poly:3", gradient=same), [0.0, 10.0], 1.0)
    assert found.at is not None
    t = np.array([0.0, 1e-17, 1e-3, 0.7, 5.3, 10.0])
    x, v = found.at(t)
    assert x.shape == v.shape == (6, 1)
    np.testing.assert_allclose(x[:, 0], memory_mean(3.0, t), rtol=0, atol=1e-8)
    np.testing.assert_allclose(v[:, 0], -hyp0f1(4.0, -3 * t), rtol=0, atol=1e-7)
    assert found.at(0.7)[0].shape == (1, 1)
    np.testing.assert_allclose(found.at(0.7)[0][0], x[3], rtol=0, atol=0)


def test_a_number_is_the_end_of_201_even_times() -> None:
    found = solve(GradientFlow(gradient=same), 2.0, 1.0)
    np.testing.assert_allclose(found.t, np.linspace(0, 2, 201), rtol=0, atol=1e-15)


def test_time_zero_alone_can_be_asked_for() -> None:
    found = solve(MemoryFlow("poly:3", gradient=same), [0.0], 2.0)
    assert found.success
    assert (found.x[0, 0], found.v[0, 0]) == (2.0, -2.0)


def test_a_table_of_the_solution() -> None:
    found = solve(HeavyBallFlow(1.0, gradient=same), [0.0, 1.0], [1.0, 2.0])
    columns = found.columns()
    assert list(columns) == ["t", "x0", "x1", "v0", "v1"]
    np.testing.assert_array_equal(columns["x1"], found.x[:, 1])


def test_the_noise_of_an_equation_does_not_change_its_solution() -> None:
    calm, noisy = (solve(MemoryFlow("poly:2", gradient=same, noise=sigma), [1.0], 1.0) for sigma in (0.0, 3.0))
    np.testing.assert_array_equal(calm.x, noisy.x)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "LSODA", "Radau"])
@pytest.mark.parametrize(
    "equation", [GradientFlow(gradient=uphill), HeavyBallFlow(1.0, gradient=uphill)], ids=["GD", "HB"]
)
def test_a_solution_that_leaves_is_not_a_success(method: str, equation: Equation) -> None:
    """x' = x^3 from 1 is infinite at t = 1/2."""
    found = solve(equation, [0.0, 0.1, 10.0], 1.0, method=method, tolerances=(1e-4, 1e-6))
    assert not found.success
    assert found.status < 0
    assert found.at is None
    assert np.isnan(found.x).all()  # not a trace of numbers that could be taken for a solution
    assert "step size" in found.message or "finite" in found.message


def test_a_gradient_that_stops_being_a_number_is_not_a_success() -> None:
    found = solve(GradientFlow(gradient=lambda x: 1 / np.sqrt(x)), [0.0, 5.0], 1.0, tolerances="paper")
    assert not found.success  # x' = -1/sqrt(x) reaches 0 at t = 2/3
    assert found.status < 0


def test_solving_is_given_up_after_so_many_gradients() -> None:
    found = solve(MemoryFlow("poly:3", gradient=same), 100.0, 1.0, max_evaluations=50)
    assert (found.success, found.status) == (False, -3)
    assert "max_evaluations=50" in found.message
    assert found.evaluations == 51
    assert found.at is None


def test_evaluations_are_counted() -> None:
    asked = 0

    def gradient(x: np.ndarray) -> np.ndarray:
        nonlocal asked
        asked += 1
        return x

    found = solve(MemoryFlow("poly:3", gradient=gradient), [5.0], 1.0)
    assert abs(asked - found.evaluations) <= 2  # the start asks too
