"""Memory as a heavy ball in another time, on random convex functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_table import properties
from scipy.integrate import quad

from memgrad.dynamics import HeavyBallFlow, MemoryFlow, Trajectory, integral_residual, simulate, solve, time_warp
from memgrad.dynamics.timewarp import ExponentialWarp, PolynomialWarp, QuadratureWarp, TimeWarp
from memgrad.memory import Exponential, Memory, Polynomial, Sampled

few = settings(properties, max_examples=2)  # each solves two differential equations to ten digits
Gradient = Callable[[np.ndarray], np.ndarray]

GRADIENTS: dict[str, Callable[[np.ndarray], Gradient]] = {
    "quadratic": lambda a: lambda x: x @ (a.T @ a),
    "quartic": lambda a: lambda x: (x @ a.T) ** 3 @ a,
    "log-cosh": lambda a: lambda x: np.tanh(x @ a.T) @ a,
}


def of(kind: str, seed: int) -> Gradient:
    """The gradient of a random convex function of A x in two dimensions."""
    return GRADIENTS[kind](np.random.default_rng(seed).standard_normal((3, 2)) * 0.7)


def exactly(equation: Any, t: Any, x0: Any) -> Trajectory:
    found = solve(equation, t, x0, method="DOP853", tolerances=(1e-10, 1e-12))
    assert found.success
    return found


X0 = [1.0, -0.5]


@cache
def paths_in_both_times(memory: Memory | str, kind: str, end: float) -> tuple[TimeWarp, Trajectory, Trajectory]:
    """MG-ODE and the heavy ball of its warp, solved on their own, at times of the heavy ball up to `end`."""
    warp, gradient = time_warp(memory), of(kind, 3)
    s = np.linspace(0, end, 60)
    slow = exactly(MemoryFlow(memory, gradient=gradient), warp.memory_time(s), X0)
    return warp, slow, exactly(HeavyBallFlow(warp.viscosity, gradient=gradient), s, X0)


# --- the paths are the same ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GRADIENTS)
@given(st.floats(0.75, 8), st.integers(0, 99))
@few
def test_polynomial_memory_is_a_heavy_ball(kind: str, p: float, seed: int) -> None:
    gradient, s = of(kind, seed), np.linspace(0, 8, 60)
    memory = exactly(MemoryFlow(Polynomial(p), gradient=gradient), s**2 / (4 * p), X0)
    # (2p-1)/t as the text of a viscosity, not as the warp's own value.
    ball = exactly(HeavyBallFlow(f"{2 * p - 1!r}/t", gradient=gradient), s, X0)
    np.testing.assert_allclose(memory.x, ball.x, atol=1e-8)
    np.testing.assert_allclose(time_warp(Polynomial(p)).to_heavy_ball(memory).v, ball.v, atol=1e-7)


@pytest.mark.parametrize("kind", ["quadratic", "log-cosh"])
def test_linear_memory_is_nesterov_at_t_squared_over_8(kind: str) -> None:
    """Claim S6."""
    gradient, s = of(kind, 1), np.linspace(0, 20, 80)
    memory = exactly(MemoryFlow("linear", gradient=gradient), s**2 / 8, X0)
    nesterov = exactly(HeavyBallFlow("3/t", gradient=gradient), s, X0)
    assert np.abs(memory.x - nesterov.x).max() <= 1e-8
    assert str(time_warp("linear").viscosity) == "3/t"


@pytest.mark.parametrize(("kind", "alpha"), [("quadratic", 4.0), ("quartic", 0.3), ("log-cosh", 1.0)])
def test_exponential_memory_is_a_heavy_ball_too(kind: str, alpha: float) -> None:
    """Erratum 11: the paper says that no other change of time exists."""
    gradient, s, root = of(kind, 3), np.linspace(0, 8, 60), math.sqrt(alpha)
    memory = exactly(
        MemoryFlow(Exponential.from_alpha(alpha), gradient=gradient), 2 / alpha * np.log(np.cosh(root * s / 2)), X0
    )
    warp, slow, ball = paths_in_both_times(Exponential.from_alpha(alpha), kind, 8.0)
    np.testing.assert_allclose(memory.x, ball.x, atol=1e-8)
    np.testing.assert_allclose(slow.x, ball.x, atol=1e-8)
    t = np.array([0.1, 1.0, 30.0])
    np.testing.assert_allclose(warp.viscosity.rate(t), root / np.tanh(root * t), rtol=1e-14)


@pytest.mark.parametrize("memory", ["log", "stretch:1.5", "stretch:0.8"])
def test_any_memory_is_a_heavy_ball(memory: str) -> None:
    _, slow, ball = paths_in_both_times(memory, "log-cosh", 5.0)
    np.testing.assert_allclose(slow.x, ball.x, atol=1e-8)


@pytest.mark.parametrize("memory", ["stretch:2", "log"])
def test_the_heavy_ball_of_any_memory_can_be_simulated(memory: str) -> None:
    """The points of a step come so close to its end that rounding in the change of time may exchange the two."""
    equation = HeavyBallFlow(time_warp(memory).viscosity, gradient=lambda x: x)
    found = simulate(equation, [0.5, 2.0], 1.0, paths=1, dt=0.05, seed=0)
    assert found.mean_x == pytest.approx(solve(equation, [0.5, 2.0], 1.0).x, abs=1e-3)


def test_another_viscosity_is_another_path() -> None:
    _, slow, _ = paths_in_both_times("poly:2", "quadratic", 8.0)
    other = exactly(HeavyBallFlow("2/t", gradient=of("quadratic", 3)), np.linspace(0, 8, 60), X0)
    assert np.abs(slow.x - other.x).max() > 0.05


# --- the change of time -------------------------------------------------------------------------------------------

TAUS = np.array([1e-6, 0.03, 1.0, 40.0, 1e4, 1e6])


@pytest.mark.parametrize(
    "memory", [Polynomial(0.6), Polynomial(3), Exponential(0.9), Exponential.from_alpha(5.0)], ids=str
)
def test_quadrature_agrees_with_the_closed_forms(memory: Memory) -> None:
    closed, quadrature = time_warp(memory), QuadratureWarp(memory)
    assert isinstance(closed, PolynomialWarp | ExponentialWarp)
    t = closed.heavy_ball_time(TAUS)
    np.testing.assert_allclose(quadrature.heavy_ball_time(TAUS), t, rtol=1e-9)
    np.testing.assert_allclose(quadrature.memory_time(t), TAUS, rtol=1e-9)
    np.testing.assert_allclose(quadrature.speed(t), closed.speed(t), rtol=1e-9)
    np.testing.assert_allclose(quadrature.viscosity.rate(t), closed.viscosity.rate(t), rtol=1e-8)
    s = t / 3
    np.testing.assert_allclose(
        quadrature.viscosity.survival(s, t), closed.viscosity.survival(s, t), rtol=1e-8, atol=1e-300
    )


@pytest.mark.parametrize("memory", ["log", "stretch:1.5", "stretch:0.8"])
def test_quadrature_is_the_integral_of_the_root_of_the_rate(memory: str) -> None:
    rates: dict[str, Callable[[float], float]] = {
        "log": lambda s: 1 / ((1 + s) * math.log1p(s)),
        "stretch:1.5": lambda s: 1.5 * s**0.5 / -math.expm1(-(s**1.5)),
        "stretch:0.8": lambda s: 0.8 * s**-0.2 / -math.expm1(-(s**0.8)),
    }
    for tau in (1e-4, 0.5, 3.0, 100.0):
        exact = quad(lambda u: 2 * u * math.sqrt(rates[memory](u**2)), 0, math.sqrt(tau), epsabs=0, epsrel=1e-12)[0]
        assert float(time_warp(memory).heavy_ball_time(tau)) == pytest.approx(exact, rel=1e-10)


ALL = ["poly:0.75", "poly:3", "exp:0.9", "log", "stretch:1.5", "stretch:0.8"]


@pytest.mark.parametrize("memory", ALL)
def test_the_two_times_are_inverse_to_each_other(memory: str) -> None:
    warp = time_warp(memory)
    np.testing.assert_allclose(warp.memory_time(warp.heavy_ball_time(TAUS)), TAUS, rtol=1e-12)
    assert warp.memory_time(0.0) == warp.heavy_ball_time(0.0) == warp.speed(0.0) == 0
    assert np.all(np.diff(warp.heavy_ball_time(np.linspace(0, 50, 100))) > 0)


@pytest.mark.parametrize("memory", ALL)
def test_speed_and_viscosity_are_derivatives(memory: str) -> None:
    """tau' by differences of tau, and the viscosity by differences of log(m(tau)/tau')."""
    warp, m = time_warp(memory), Memory.parse(memory).m
    t = np.array([0.2, 1.0, 4.0])
    e = 1e-4 * t
    speed = (warp.memory_time(t + e) - warp.memory_time(t - e)) / (2 * e)
    np.testing.assert_allclose(warp.speed(t), speed, rtol=1e-6)
    high, low = (np.log(m(warp.memory_time(s)) / warp.speed(s)) for s in (t + e, t - e))
    np.testing.assert_allclose(warp.viscosity.rate(t), (high - low) / (2 * e), rtol=1e-6)
    np.testing.assert_allclose(warp.speed(t) ** 2 * Memory.parse(memory).rate(warp.memory_time(t)), 1, rtol=1e-12)


@pytest.mark.parametrize("memory", ALL)
def test_survival_is_the_integral_of_the_viscosity(memory: str) -> None:
    a = time_warp(memory).viscosity
    exact = math.exp(-quad(lambda t: float(a.rate(np.array(t))), 0.5, 3.0, epsrel=1e-10)[0])
    assert float(a.survival(np.array(0.5), np.array(3.0))) == pytest.approx(exact, rel=1e-8)
    assert float(a.survival(np.array(0.0), np.array(3.0))) == 0


def test_the_warp_of_logarithmic_memory_pushes_in_the_end() -> None:
    """By hand: r = 1/((1+tau) L), L = log(1+tau), so r'/(2 r^2) = -(L+1)/2 and the viscosity is sqrt(r) (1-L)/2.

    It changes its sign at L = 1, that is at tau = e - 1.
    """
    warp = time_warp("log")
    tau = np.array([1e-3, 0.5, math.e - 1, 10.0, 1e6])
    level = np.log1p(tau)
    found = warp.viscosity.rate(warp.heavy_ball_time(tau))
    np.testing.assert_allclose(found, (1 - level) / (2 * np.sqrt((1 + tau) * level)), rtol=1e-8, atol=1e-10)
    assert found[1] > 0 > found[3]
    late = warp.heavy_ball_time(np.array([10.0, 100.0]))
    assert float(warp.viscosity.survival(late[0], late[1])) > 1  # velocities grow there
    assert float(warp.viscosity.survival(late[0], late[1])) == pytest.approx(
        math.sqrt(math.log(11) / 11) / math.sqrt(math.log(101) / 101), rel=1e-9
    )


# --- trajectories there and back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ALL)
def test_a_trajectory_there_and_back_is_the_same(memory: str) -> None:
    warp, slow, ball = paths_in_both_times(memory, "log-cosh", 5.0)
    there = warp.to_heavy_ball(slow)
    np.testing.assert_allclose(there.t, ball.t, rtol=1e-10)
    np.testing.assert_allclose(there.x, ball.x, atol=1e-8)
    np.testing.assert_allclose(there.v, ball.v, atol=1e-7)
    back = warp.to_memory(there)
    np.testing.assert_allclose(back.t, slow.t, rtol=1e-10)
    np.testing.assert_allclose(back.x, slow.x, atol=1e-12)
    np.testing.assert_allclose(back.v, slow.v, atol=1e-8)
    assert "warped" in there.equation


@pytest.mark.parametrize("memory", ALL)
def test_a_warped_trajectory_can_be_read_between_its_times(memory: str) -> None:
    warp, slow, ball = paths_in_both_times(memory, "log-cosh", 5.0)
    s = np.array([0.0, 0.37, 2.2, 4.9])
    there, back = warp.to_heavy_ball(slow), warp.to_memory(ball)
    assert there.at is not None
    assert ball.at is not None
    assert back.at is not None
    assert slow.at is not None
    for one, two in zip(
        (*there.at(s), *back.at(warp.memory_time(s))), (*ball.at(s), *slow.at(warp.memory_time(s))), strict=True
    ):
        np.testing.assert_allclose(one, two, atol=1e-7)


def test_a_warped_solution_has_the_integral_form_of_the_other_equation() -> None:
    warp, slow, _ = paths_in_both_times("poly:2", "quartic", 8.0)
    residual = integral_residual(HeavyBallFlow("3/t", gradient=of("quartic", 3)), warp.to_heavy_ball(slow))
    assert np.abs(residual).max() < 1e-7


@pytest.mark.parametrize("memory", ALL)
@pytest.mark.parametrize("t", [[0.0, 2.0], [0.0]])
def test_the_first_velocity_is_minus_the_gradient(memory: str, t: list[float]) -> None:
    """0/0 for the heavy ball, however far apart the times are that were asked for."""
    warp, gradient = time_warp(memory), of("quartic", 3)
    ball = exactly(HeavyBallFlow(warp.viscosity, gradient=gradient), t, X0)
    np.testing.assert_allclose(warp.to_memory(ball).v[0], -gradient(np.array([X0]))[0], rtol=1e-7)


def test_memories_without_a_warp_are_refused() -> None:
    with pytest.raises(ValueError, match=r"p > 1/2 only, got p=0\.5"):
        _ = time_warp("poly:0.5").viscosity
    for memory in (Memory.parse("stretch:0.4"), Sampled(lambda t: t**0.45, lambda t: 0.45 * t**-0.55, 0.1)):
        with pytest.raises(ValueError, match="p > 1/2 only"):
            _ = time_warp(memory).viscosity
    with pytest.raises(NotImplementedError, match="no memory function"):
        time_warp("inst")
    with pytest.raises(TypeError, match="Memory or its text form"):
        time_warp(2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "memory", [Polynomial(2), Exponential(0.9), Memory.parse("log"), Memory.parse("stretch:0.8")], ids=str
)
def test_the_earliest_times_are_times_like_others(memory: Memory) -> None:
    """The first step of an integration asks for 1e-250 of it, where tau = t^2/(4p) is 0 in floats."""
    warp, degree = QuadratureWarp(memory), {"poly:2": 2.0, "stretch:0.8": 0.8}.get(str(memory), 1.0)
    t = np.array([0.0, 1e-300, 1e-120, 1e-16, 1e-9, 1e-7])
    np.testing.assert_allclose(warp.memory_time(t), t**2 / (4 * degree), rtol=1e-9, atol=1e-320)
    np.testing.assert_allclose(warp.heavy_ball_time(t**2), 2 * math.sqrt(degree) * t, rtol=1e-9, atol=1e-160)
    kept = warp.viscosity.survival(t[:-1], np.array(1e-7))
    np.testing.assert_allclose(kept, (t[:-1] / 1e-7) ** (2 * degree - 1), rtol=1e-4, atol=1e-200)


@pytest.mark.parametrize(
    ("memory", "tau"),
    [("stretch:20", 1.8), ("stretch:20", 2.0), ("stretch:6", 30.0), ("stretch:3", 1e5), ("log", 1e9), ("log", 1e-12)],
)
def test_time_warps_of_fast_memories_are_inverted(memory: str, tau: float) -> None:
    warp = time_warp(memory)
    assert warp.memory_time(warp.heavy_ball_time(tau)) == pytest.approx(tau, rel=1e-10)
