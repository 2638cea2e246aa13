"""Memories that forget within a tiny part of a step: their velocity is huge, and the position must not drown in it."""

from __future__ import annotations

import numpy as np
import pytest
from scheme_moments import constant, polynomial

from memgrad.dynamics import HeavyBallFlow, MemoryFlow, integrators, moments, simulate, simulate_together
from memgrad.memory import Exponential, Polynomial

H = 0.01
PATHS = 4000
BEYOND = 4 * np.sqrt(2 / PATHS)  # four standard errors of a variance, relative


def flow(memory: Exponential | Polynomial, curvature: float = 1.0) -> MemoryFlow:
    return MemoryFlow(memory, gradient=lambda x: curvature * x, noise=1.0, hessian=curvature)


def noise_of_x(equation: MemoryFlow | HeavyBallFlow, n: int) -> float:
    """The variance that step n adds to the position, X = Y - hV/2, by the library's own coefficients."""
    every = integrators.together((equation,), np.ones((1, 1)), H, "exact", None)
    (steps,) = every.steps(n, n + 1)
    of_velocity, of_point = steps.mix[0]
    return float(np.sum((of_point - of_velocity / 2) ** 2))


@pytest.mark.parametrize("n", [100, 10_000])
@pytest.mark.parametrize("alpha", 10.0 ** np.arange(2, 22, 2))
def test_the_noise_of_the_position_is_exact_however_fast_the_velocity_forgets(alpha: float, n: int) -> None:
    expected = alpha**2 * constant(alpha)(0.0, H).xx  # long after the start the rate is alpha, and so is the gain
    # The length of a step is known to the spacing of times, 100 * 2^-52 of 0.01 at the last.
    assert noise_of_x(flow(Exponential.from_alpha(alpha)), n) == pytest.approx(expected, rel=1e-9)
    assert noise_of_x(HeavyBallFlow(alpha, gradient=lambda x: x, noise=1.0), n) == pytest.approx(
        expected / alpha**2, rel=1e-9
    )


@pytest.mark.parametrize("p", [1e3, 1e6, 1e9, 1e12])
def test_so_is_that_of_polynomial_memory(p: float) -> None:
    for n in (1, 10):
        assert noise_of_x(flow(Polynomial(p)), n) == pytest.approx(polynomial(p)(n * H, (n + 1) * H).xx, rel=1e-8)


@pytest.mark.parametrize("memory", [*map(Exponential.from_alpha, (1e7, 1e10, 1e20)), Polynomial(1e7), Polynomial(1e15)])
def test_paths_are_those_of_gradient_flow(memory: Exponential | Polynomial) -> None:
    """X is an Ornstein-Uhlenbeck process: its variance is (1 - e^(-2t))/2."""
    found = simulate(flow(memory), [1.0, 3.0], 1.0, paths=PATHS, dt=H, seed=1)
    expected = (1 - np.exp(-2 * found.t)) / 2
    assert np.abs(found.var_x[:, 0] / expected - 1).max() < BEYOND
    assert np.abs(found.mean_x[:, 0] - np.exp(-found.t)).max() < 4 * np.sqrt(0.5 / PATHS) + H**2
    assert moments(flow(memory), found.t, 1.0).var_x[:, 0] == pytest.approx(expected, rel=1e-6)


def test_a_fast_memory_shares_its_noise_with_a_slow_one() -> None:
    equations = [flow(Exponential.from_alpha(1e12)), flow(Polynomial(2.0))]
    fast, slow = simulate_together(equations, [1.0], 1.0, paths=PATHS, dt=H, seed=2)
    for found, equation in zip((fast, slow), equations, strict=True):
        exact = moments(equation, [1.0], 1.0)
        assert abs(found.var_x[0, 0] / exact.var_x[0, 0] - 1) < BEYOND
        assert abs(found.var_v[0, 0] / exact.var_v[0, 0] - 1) < BEYOND


@pytest.mark.parametrize("curvature", [0.0, 0.3, -0.2])
def test_the_limit_of_fast_memory_solves_the_moment_equations(curvature: float) -> None:
    equation, times = flow(Exponential.from_alpha(1e16), curvature), [0.5, 1.0, 4.0]
    limit, solved = (moments(equation, times, 1.0, method=way) for way in ("closed form", "moment equations"))
    for name in ("mean_x", "mean_v", "cov_xx", "cov_xv", "cov_vv"):
        np.testing.assert_allclose(getattr(limit, name), getattr(solved, name), rtol=2e-9, err_msg=name)


def test_what_cannot_be_resolved_is_refused_with_a_way_out() -> None:
    with pytest.raises(ValueError, match=r"rate 1e\+300 at t=0\.01.*dt <= 1e-280, or gradient flow"):
        simulate(flow(Exponential.from_alpha(1e300)), [1.0], 1.0, paths=2, dt=H, seed=0)
    with pytest.raises(ValueError, match=r"rate 1e\+27 at t=0\.01.*Take gradient flow"):  # p/t: no step is small enough
        simulate(flow(Polynomial(1e25)), [1.0], 1.0, paths=2, dt=H, seed=0)
    with pytest.raises(ValueError, match=r"exact moments .* need a rate below 1e\+09 until t=1e\+09, got 1e\+10"):
        moments(flow(Exponential.from_alpha(1e10)), [1e-6, 1e9], 1.0)
