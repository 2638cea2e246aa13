"""The bounds of methods hold, the printed forms of errata 41 and 42 fail, and the conditions are sharp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exact_moments import ROUNDING, Array, a_quadratic, known, linear_recursion, ratio
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_table import properties

from memgrad import theory
from memgrad.theory import discrete_master, heavy_ball, heavy_ball_bounded, heavy_ball_gradient, memsgd, polyak


def test_memsgd_keeps_its_bound() -> None:
    rng = np.random.default_rng(4)
    worst = 0.0
    for _ in range(200):
        lam, x0, sigma = a_quadratic(rng)
        p, big = 2 + rng.choice([0.0, rng.exponential(3.0)]), float(lam.max())
        lr = (p - 1) / (p * big) * rng.choice([1.0, 0.3, 0.01])
        squares = linear_recursion(
            lam, x0, sigma, 200, decay=lambda k, p=p: k / (k + p), step=lambda k, p=p, e=lr: e * p / (k + p)
        )
        bound = memsgd(k=np.arange(201), degree=p, lr=lr, smoothness=big, **known(lam, x0, sigma))
        worst = max(worst, ratio((squares * lam / 2).sum(-1), bound))
    assert worst <= ROUNDING


@settings(properties, max_examples=100)
@given(st.floats(2, 50), st.floats(1e-3, 1e3))
def test_at_step_0_the_memsgd_bound_is_an_equality(p: float, big: float) -> None:
    lr = (p - 1) / (p * big)
    bound = memsgd(k=0, degree=p, lr=lr, smoothness=big, distance=1, noise=3, dimension=2)
    assert bound.value == pytest.approx(big / 2)  # f(x0) of f = L x^2/2: the first step has seen no noise


@settings(properties, max_examples=100)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(1e-2, 1), st.sampled_from([0.0, 0.3, 2.0]))
def test_the_discrete_master_inequality_holds(shares: list[float], lr: float, sigma: float) -> None:
    """For every admissible lambda, on f = x^2/2 and a flatter direction: exact moments."""
    lambdas = [0.0]
    for share in shares:
        lambdas.append(share * (lambdas[-1] + 1))
    lam, x0 = np.array([1.0, 0.03]), np.array([1.0, 1.0])
    squares = family_moments(lambdas, lr, lam, x0, np.full(2, sigma))
    bound = discrete_master(lambdas=lambdas, lr=lr, smoothness=1, **known(lam, x0, np.full(2, sigma)))
    assert ratio((squares * lam / 2).sum(-1), bound) <= ROUNDING


def family_moments(lambdas: list[float], lr: float, lam: Array, x0: Array, sigma: Array) -> Array:
    return linear_recursion(
        lam,
        x0,
        sigma,
        len(lambdas) - 1,
        decay=lambda k: lambdas[k] / (lambdas[k + 1] + 1),
        step=lambda k: lr / (lambdas[k + 1] + 1),
    )


def test_the_printed_condition_of_the_discrete_master_inequality_is_too_weak() -> None:
    """Erratum 41: lambda_k <= k admits this sequence, which violates the bound 5.67 times."""
    lambdas = [0.0, 1, 2, 3, 0, 5, 6, 0, 8]
    assert all(value <= k for k, value in enumerate(lambdas))
    f = family_moments(lambdas, 1.0, np.ones(1), np.ones(1), np.zeros(1))[-1, 0] / 2
    printed_bound = 1 / (2 * (lambdas[8] + 1))
    assert f / printed_bound == pytest.approx(5.67, abs=0.005)
    with pytest.raises(ValueError, match="lambda_5 = 5 after lambda_4 = 0"):
        discrete_master(lambdas=lambdas, lr=1, smoothness=1, distance=1, noise=0, dimension=1)


def test_the_noise_term_of_the_discrete_master_inequality_is_sharp() -> None:
    # One step of SGD from the minimizer of x^2/2 with lr = 1: E f(x_1) = 1/2, and so is the bound.
    true = family_moments([0.0, 0.0], 1.0, np.ones(1), np.zeros(1), np.ones(1))[1, 0] / 2
    bound = discrete_master(lambdas=[0, 0], lr=1, smoothness=1, distance=0, noise=1, dimension=1)
    assert bound.value[1] == pytest.approx(true)


# --- deterministic runs on functions that are not quadratic ---------------------------------------------------------


def huber(width: float) -> tuple[Any, Any, float, Array]:
    def f(x: Array) -> float:
        a = np.abs(x)
        return float(np.where(a <= width, a**2 / (2 * width), a - width / 2).sum())

    return f, lambda x: np.clip(x / width, -1, 1), 1 / width, np.zeros(2)


def log_cosh() -> tuple[Any, Any, float, Array]:
    return lambda x: float(np.logaddexp(x, -x).sum() - len(x) * np.log(2)), np.tanh, 1.0, np.zeros(2)


def least_squares() -> tuple[Any, Any, float, Array]:
    a = np.random.default_rng(5).normal(size=(7, 2))
    y = np.random.default_rng(6).normal(size=7)
    best = np.linalg.lstsq(a, y)[0]
    return (
        lambda x: float(((a @ x - y) ** 2).sum() - ((a @ best - y) ** 2).sum()) / 2,
        lambda x: a.T @ (a @ x - y),
        float(np.linalg.norm(a, 2) ** 2),
        best,
    )


def logistic() -> tuple[Any, Any, float, Array]:
    rng = np.random.default_rng(7)
    a, y = rng.normal(size=(30, 2)), rng.choice([-1.0, 1.0], 30)

    def gradient(x: Array) -> Array:
        return -(a.T @ (y / (1 + np.exp(y * (a @ x))))) / 30

    def f(x: Array) -> float:
        return float(np.logaddexp(0, -y * (a @ x)).mean())

    best = np.zeros(2)
    for _ in range(30):  # Newton
        s = 1 / (1 + np.exp(a @ best))
        best = best - np.linalg.solve(a.T @ (a * (s * (1 - s))[:, None]) / 30, gradient(best))
    return lambda x: f(x) - f(best), gradient, float(np.linalg.norm(a, 2) ** 2 / 120), best


FUNCTIONS = {"huber": huber(0.1), "log-cosh": log_cosh(), "least squares": least_squares(), "logistic": logistic()}


def memsgd_run(gradient: Any, x0: Array, p: float, lr: float, steps: int) -> Array:
    """x_0, ..., x_{steps+1} of MemSGD-p."""
    path = [x0, x0]
    for k in range(steps + 1):
        path.append(path[-1] + k / (k + p) * (path[-1] - path[-2]) - p / (k + p) * lr * gradient(path[-1]))
    return np.array(path[1:])


def lyapunov(f: Any, path: Array, best: Array, *, p: float, lr: float, shift: int) -> Array:
    """E_k = r_k (f(x_k) - f*) + |x_{k+1} - x* + lambda_{k+shift} (x_{k+1} - x_k)|^2/2, lambda_k = k/(p-1)."""
    k = np.arange(len(path) - 1)
    r = lr * p / (p - 1) * (k / (p - 1) + 1)
    moved = path[1:] - best + ((k + shift) / (p - 1))[:, None] * np.diff(path, axis=0)
    return r * np.array([f(x) for x in path[:-1]]) + (moved**2).sum(1) / 2


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("p", [2.0, 2.7, 5.0, 40.0])
def test_the_lyapunov_function_never_increases(name: str, p: float) -> None:
    f, gradient, big, best = FUNCTIONS[name]
    for share in (1.0, 0.2):
        lr = share * (p - 1) / (p * big)
        for x0 in (best + np.array([3.0, -2.0]), best + np.array([0.05, 0.01])):
            path = memsgd_run(gradient, x0, p, lr, 400)
            energy = lyapunov(f, path, best, p=p, lr=lr, shift=1)
            # Values of f near its minimum carry rounding errors of the size of f* itself, times r_k.
            rounding = 1e-15 * lr * p / (p - 1) * (400 / (p - 1) + 1)
            assert np.all(np.diff(energy) <= 1e-11 * energy[0] + rounding)
            bound = memsgd(
                k=np.arange(401),
                degree=p,
                lr=lr,
                smoothness=big,
                distance=float(np.linalg.norm(x0 - best)),
                noise=0,
                dimension=2,
            )
            assert ratio(np.array([f(x) for x in path[:-1]]), bound) <= ROUNDING


def test_the_printed_lyapunov_function_increases() -> None:
    """Erratum 42: lambda_k in the place of lambda_{k+1}, on f = x^2/2."""
    path = memsgd_run(lambda x: x, np.ones(1), 2.0, 0.5, 30)
    printed, corrected = (
        lyapunov(lambda x: float(x @ x) / 2, path, np.zeros(1), p=2.0, lr=0.5, shift=shift) for shift in (0, 1)
    )
    assert np.max(np.diff(printed)) > 1e-3
    assert np.max(np.diff(corrected)) <= 0


def test_the_degree_2_of_memsgd_is_sharp() -> None:
    f, gradient, big, _ = huber(1e-3)
    worst = {}
    for p in (1.8, 2.0):
        lr = (p - 1) / (p * big)
        path = memsgd_run(gradient, np.array([1.0, 0.0]), p, lr, 6_000)
        values = np.array([f(x) for x in path[:-1]])
        worst[p] = np.max(values * 2 * lr * p * (np.arange(len(values)) + p - 1) / (p - 1) ** 2)
    assert worst[2.0] <= ROUNDING
    assert worst[1.8] > 1.7


# --- heavy-ball ------------------------------------------------------------------------------------------------------


def test_heavy_ball_keeps_its_bounds_on_quadratics() -> None:
    rng = np.random.default_rng(8)
    k = np.arange(201)
    for _ in range(150):
        lam, x0, sigma = a_quadratic(rng)
        beta, big = float(rng.choice([0.0, 0.5, 0.9])), float(lam.max())
        lr = (1 - beta) / big * rng.choice([0.5, 0.05])
        squares = linear_recursion(lam, x0, sigma, 200, decay=lambda _, b=beta: b, step=lambda _, e=lr: e)
        f, g = (squares * lam / 2).sum(-1), (squares * lam**2).sum(-1)
        slope = float(np.sqrt(g.max()))
        facts = {"k": k, "lr": lr, "momentum": beta, "gap": float(f[0]), **known(lam, x0, sigma)}
        mean = np.cumsum(f) / (k + 1)
        assert ratio(mean, heavy_ball(smoothness=big, **facts)) <= ROUNDING
        # A bound on the gradients is used along the path only, in the mean.
        if facts["distance"] > 0:
            assert ratio(mean, heavy_ball_bounded(gradient=slope, **facts)) <= ROUNDING
        facts.pop("distance")
        least = np.minimum.accumulate(g)
        assert ratio(least, heavy_ball_gradient(smoothness=big, gradient=slope, **facts)) <= ROUNDING


def test_heavy_ball_keeps_its_bound_on_a_function_that_is_not_convex() -> None:
    for lr, beta in ((0.02, 0.9), (0.1, 0.5), (0.25, 0.0)):
        x = last = 4.0  # f = log(1 + x^2): |f'| <= 1, |f''| <= 2
        squares = []
        for _ in range(300):
            g = 2 * x / (1 + x * x)
            squares.append(g * g)
            x, last = x + beta * (x - last) - lr * g, x
        bound = heavy_ball_gradient(
            k=np.arange(300), lr=lr, momentum=beta, smoothness=2, gradient=1, gap=np.log(17.0), noise=0, dimension=1
        )
        assert ratio(np.minimum.accumulate(np.array(squares)), bound) <= ROUNDING


@settings(properties, max_examples=100)
@given(st.floats(1e-3, 1e3), st.floats(1.5, 1e4))
def test_polyaks_parameters_give_the_rate_q(mu: float, kappa: float) -> None:
    """For each eigenvalue in [mu, L] both roots of z^2 - (1 + beta - lr lam) z + beta have modulus sqrt(beta) = q."""
    best = polyak(smoothness=kappa * mu, strong_convexity=mu)
    q = (np.sqrt(kappa) - 1) / (np.sqrt(kappa) + 1)
    assert best.q == pytest.approx(q, rel=1e-9)
    for lam in np.linspace(mu, kappa * mu, 7)[1:-1]:
        roots = np.roots([1, -(1 + best.momentum - best.lr * lam), best.momentum])
        assert np.abs(roots) == pytest.approx(q, rel=1e-6)
    # Erratum 39: x += h v with v += -h alpha (v + g), and with v += -h (alpha v + g).
    assert 1 - best.memory_step * best.memory_alpha == pytest.approx(best.momentum, abs=1e-12)
    assert best.memory_alpha * best.memory_step**2 == pytest.approx(best.lr)
    assert 1 - best.heavy_ball_step * best.heavy_ball_alpha == pytest.approx(best.momentum, abs=1e-12)
    assert best.heavy_ball_step**2 == pytest.approx(best.lr)


def test_polyaks_rate_is_seen_in_a_run() -> None:
    best = polyak(smoothness=100, strong_convexity=1)
    squares = linear_recursion(
        np.array([1.0, 7.0, 60.0, 100.0]),
        np.ones(4),
        np.zeros(4),
        400,
        decay=lambda _: best.momentum,
        step=lambda _: best.lr,
    )
    distance = np.sqrt(squares.sum(-1))
    # A double root at both ends of the spectrum: k q^k, so the rate of the last 200 steps is still 1/k above q.
    assert (distance[400] / distance[200]) ** (1 / 200) == pytest.approx(9 / 11, rel=0.006)


ASKED = {"degree": 2, "lr": 0.1, "smoothness": 1, "distance": 1, "noise": 0.5, "dimension": 10}


def test_bounds_take_steps_beyond_64_bits() -> None:
    assert theory.memsgd(**ASKED, k=10**20).value == theory.memsgd(**ASKED, k=1e20).value
