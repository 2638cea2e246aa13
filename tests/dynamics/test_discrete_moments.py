"""The methods step by step on a quadratic: against plain recursions, mpmath, brute force and the slow reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_table import log_uniform, properties
from mpmath import MPContext

from memgrad.dynamics import laguerre_mean, limit_variance, method_moments
from memgrad.memory import Exponential, FromDecays, Memory, Polynomial
from memgrad.optim import reference

mp = MPContext()
mp.dps = 40

degrees = log_uniform(0.3, 200)


def memsgd_mean(p: float, y: float, steps: int) -> list[float]:
    """x_{k+1} = x_k + k/(k+p) (x_k - x_{k-1}) - y/(k+p) x_k with x_0 = 1, as the paper writes MemSGD-p."""
    old = x = 1.0
    path = [x]
    for k in range(steps):
        old, x = x, x + k / (k + p) * (x - old) - y / (k + p) * x
        path.append(x)
    return path


# --- the mean -----------------------------------------------------------------------------------------------------


@given(degrees, st.floats(0, 20), st.integers(1, 400))
@properties
def test_the_mean_is_a_laguerre_polynomial(p: float, y: float, k: int) -> None:
    exact = float(mp.hyp1f1(-k, mp.mpf(p), mp.mpf(y)))
    # Rounding in the plain recursion is of the size of the path so far.
    path = memsgd_mean(p, y, k)
    bound = max(map(abs, path))
    assert float(laguerre_mean(p, y, k)) == pytest.approx(exact, rel=1e-11, abs=1e-12 * bound)
    assert path[-1] == pytest.approx(exact, rel=1e-9, abs=1e-10 * bound)
    found = method_moments(Polynomial(p), lr=1.0, hessian=y / p, x0=1.0, steps=k)
    assert found.mean[-1, 0] == pytest.approx(exact, rel=1e-10, abs=1e-11 * bound)


@given(st.floats(1, 200), log_uniform(1e-3, 200), st.integers(0, 2000))
@properties
def test_the_mean_is_bounded_at_every_step_size(p: float, y: float, k: int) -> None:
    assert abs(float(laguerre_mean(p, y, k))) <= math.exp(y / 2) * (1 + 1e-12)


def test_the_bound_needs_degree_1() -> None:
    # The inequality needs p >= 1: it fails for p = 0.3.
    assert np.abs(laguerre_mean(0.3, 1.0, np.arange(2000))).max() > math.exp(0.5)


@pytest.mark.parametrize(("p", "y", "k"), [(1.0, 1e-8, 30_000), (2.0, 0.1, 20_000), (200.0, 0.1, 20_000)])
def test_many_steps_do_not_wear_the_mean_out(p: float, y: float, k: int) -> None:
    exact = float(mp.hyp1f1(-k, mp.mpf(p), mp.mpf(y), maxprec=100_000))
    assert float(laguerre_mean(p, y, k)) == pytest.approx(exact, rel=1e-11)


def test_all_steps_at_once() -> None:
    y = np.array([[0.0], [0.3], [4.0]])
    table = laguerre_mean(2.5, y, np.arange(50))
    assert table.shape == (3, 50)
    np.testing.assert_allclose(table, [memsgd_mean(2.5, float(row[0]), 49) for row in y], atol=1e-13)
    assert laguerre_mean(2.5, [0.3, 4.0], [7, 3]) == pytest.approx([table[1, 7], table[2, 3]], rel=1e-14)
    assert laguerre_mean(2.5, 0.3, np.uint64(40)) == pytest.approx(table[1, 40], rel=1e-14)


# --- the covariance -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.7, 1.0, 2.0, 10.0])
def test_the_variance_follows_its_recursion(p: float) -> None:
    """With al = (2k+p-y)/(k+p), b = k/(k+p), for A = E x_k^2 and B = E x_k x_{k-1}."""
    lr, lam, sigma, steps = 0.2, 1.5, 0.7, 300
    y = p * lr * lam
    a = a_old = b_now = 0.0
    exact = [a]
    for k in range(steps):
        al, b = (2 * k + p - y) / (k + p), k / (k + p)
        new = al**2 * a + b**2 * a_old - 2 * al * b * b_now + (p * lr / (k + p)) ** 2 * sigma**2
        a_old, a, b_now = a, new, al * a - b * b_now
        exact.append(a)
    found = method_moments(Polynomial(p), lr=lr, hessian=lam, x0=0.0, noise=sigma, steps=steps)
    np.testing.assert_allclose(found.var[:, 0], exact, rtol=1e-10)
    np.testing.assert_array_equal(found.k, np.arange(steps + 1))


HESSIAN = np.array([[2.0, 0.7, 0.0], [0.7, 1.0, -0.2], [0.0, -0.2, 0.5]])
MIXING = np.array([[1.0, 0.3], [0.0, 0.8], [0.5, -0.4]])
DECAYS: dict[str, tuple[Memory, Callable[[int], float]]] = {
    "poly:2.5": (Polynomial(2.5), lambda k: k / (k + 2.5)),
    "exp:0.8": (Exponential(0.8), lambda k: 0.8 * (1 - 0.8**k) / (1 - 0.8 ** (k + 1))),
    "inst": (Memory.parse("inst"), lambda k: 0.0),
    "log": (Memory.parse("log"), lambda k: math.log(1 + k) / math.log(2 + k)),
    "decays": (FromDecays(lambda k: k % 3 / 4), lambda k: k % 3 / 4),
}


@pytest.mark.parametrize("name", DECAYS)
@pytest.mark.parametrize("noise", [MIXING, 0.4])
def test_any_memory_against_the_whole_linear_system(name: str, noise: Any) -> None:
    """Propagate mean and covariance of (x, u) in six dimensions, with b_k written out here."""
    memory, decay = DECAYS[name]
    lr, steps, x0, d = 0.3, 40, np.array([1.0, -2.0, 0.5]), 3
    one = np.eye(d)
    sigma = noise if isinstance(noise, np.ndarray) else noise * one
    mean, cov = np.concatenate([x0, np.zeros(d)]), np.zeros((2 * d, 2 * d))
    means, covs = [x0], [np.zeros((d, d))]
    for k in range(steps):
        b = decay(k)
        # u+ = b u + (1-b)(H x + xi), x+ = x - lr u+.
        turn = np.block([[one - lr * (1 - b) * HESSIAN, -lr * b * one], [(1 - b) * HESSIAN, b * one]])
        kick = np.vstack([-lr * (1 - b) * sigma, (1 - b) * sigma])
        mean, cov = turn @ mean, turn @ cov @ turn.T + kick @ kick.T
        means.append(mean[:d])
        covs.append(cov[:d, :d])
    found = method_moments(memory, lr=lr, hessian=HESSIAN, x0=x0, noise=noise, steps=steps)
    np.testing.assert_allclose(found.mean, means, atol=1e-13)
    np.testing.assert_allclose(found.cov, covs, atol=1e-13)


@pytest.mark.parametrize("memory", ["poly:2", "exp:0.8", "inst"])
def test_the_slow_reference_has_these_moments(memory: str) -> None:
    """Monte Carlo over the public reference, which sums all past gradients: within 4 standard errors."""
    runs, steps, lr = 20_000, 25, 0.4
    rng = np.random.default_rng(5)
    x0 = np.array([1.0, -1.0])
    h, sigma = np.array([[1.0, 0.4], [0.4, 0.6]]), np.array([[0.5, 0.0], [0.3, 0.2]])

    def gradient(x: np.ndarray, k: int) -> np.ndarray:  # all runs at once, flattened
        x = x.reshape(runs, 2)
        return (x @ h + rng.standard_normal((runs, 2)) @ sigma.T).ravel()

    path = reference.memsgd(gradient, np.tile(x0, runs), lr=lr, memory=Memory.parse(memory), steps=steps)
    found = method_moments(memory, lr=lr, hessian=h, x0=x0, noise=sigma, steps=steps)
    for k in (1, 5, steps):
        x = path[k].reshape(runs, 2)
        away = x - found.mean[k]
        se = np.sqrt(np.diagonal(found.cov[k]) / runs)
        assert np.all(np.abs(away.mean(axis=0)) <= 4 * se)
        products = np.einsum("ni,nj->nij", away, away)
        assert np.all(np.abs(products.mean(axis=0) - found.cov[k]) <= 4 * products.std(axis=0) / math.sqrt(runs))


def test_noise_is_not_felt_before_the_first_step() -> None:
    found = method_moments("poly:2", lr=0.1, hessian=2.0, x0=3.0, noise=0.5, steps=1)
    assert found.var[:, 0] == pytest.approx([0.0, (0.1 * 0.5) ** 2], rel=1e-14)
    assert method_moments("poly:2", lr=0.1, hessian=2.0, x0=3.0, steps=0).mean == pytest.approx(3.0)


# --- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "y"), [(1.0, 0.5), (2.0, 0.3), (3.0, 6.0), (10.0, 2.0)])
def test_the_variance_of_memsgd_has_its_limit(p: float, y: float) -> None:
    lr, lam = 0.1, y / (p * 0.1)
    limit = p * lr / ((2 * p - 1) * lam)
    assert limit_variance(Polynomial(p), lr=lr, curvature=lam) == pytest.approx(limit, rel=1e-14)
    found = method_moments(Polynomial(p), lr=lr, hessian=lam, x0=0.0, noise=1.0, steps=20_000)
    assert found.var[-1, 0] == pytest.approx(limit, rel=0.01)  # an average over the last wave, not proved


@pytest.mark.parametrize("lr_lam", [0.01, 1.0, 1.9])
@pytest.mark.parametrize("beta", [0.0, 0.3, 0.9])
def test_the_variance_of_sgd_and_of_exponential_memory_has_its_limit(beta: float, lr_lam: float) -> None:
    memory: Any = Exponential(beta) if beta else "inst"
    lam, sigma = 2.0, 0.3
    lr = lr_lam / lam
    limit = lr * (1 + beta) * sigma**2 / (lam * (2 * (1 + beta) - (1 - beta) * lr * lam))
    assert limit_variance(memory, lr=lr, curvature=lam, noise=sigma) == pytest.approx(limit, rel=1e-13)
    found = method_moments(memory, lr=lr, hessian=lam, x0=0.0, noise=sigma, steps=1500)
    assert found.var[-1, 0] == pytest.approx(limit, rel=1e-9)


def test_sgd_and_exponential_memory_diverge_just_beyond_the_stated_step_size() -> None:
    for memory, limit in (("inst", 2.0), ("exp:0.5", 6.0)):
        for share in (1.0, 1.001):
            with pytest.raises(ValueError, match=f"lr must be below {limit:g}"):
                limit_variance(memory, lr=limit * share, curvature=1.0)
        outside, inside = (
            method_moments(memory, lr=limit * f, hessian=1.0, x0=1.0, steps=800).mean[-1, 0] for f in (1.05, 0.95)
        )
        assert abs(outside) > 1e6
        assert abs(inside) < 1e-6


# --- bad input ----------------------------------------------------------------------------------------------------

METHOD: dict[str, Any] = {"lr": 0.1, "hessian": 1.0, "x0": 1.0, "steps": 2}
REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("lr", lambda: method_moments("poly:2", **METHOD | {"lr": 0.0}), "learning rate lr > 0, got lr=0.0"),
    ("steps", lambda: method_moments("poly:2", **METHOD | {"steps": -1}), "integer >= 0"),
    ("steps not whole", lambda: method_moments("poly:2", **METHOD | {"steps": 1.5}), "integer >= 0"),
    (
        "hessian",
        lambda: method_moments("poly:2", **METHOD | {"x0": [1.0, 2.0]}),
        r"shape \(2, 2\) for x0, got \(1, 1\)",
    ),
    ("not symmetric", lambda: method_moments("poly:2", **METHOD | {"hessian": [[1.0, 2], [0, 1]]}), "symmetric"),
    ("x0", lambda: method_moments("poly:2", **METHOD | {"x0": math.nan}), "position x0 is a finite number"),
    ("noise", lambda: method_moments("poly:2", **METHOD, noise=-1.0), "sigma >= 0"),
    ("noise of x", lambda: method_moments("poly:2", **METHOD, noise=lambda x: x), "constant noise"),
    ("noise shape", lambda: method_moments("poly:2", **METHOD, noise=np.eye(2)), "one row per coordinate"),
    ("memory", lambda: method_moments("polly:2", **METHOD), "polly"),
    ("p of the mean", lambda: laguerre_mean(0.0, 1.0, 1), "degree p > 0"),
    ("k of the mean", lambda: laguerre_mean(1.0, 1.0, -1), "integers >= 0"),
    ("k not whole", lambda: laguerre_mean(1.0, 1.0, 1.5), "integers >= 0"),
    ("no limit", lambda: limit_variance("poly:0.5", lr=0.1, curvature=1.0), "p > 1/2 only, got p=0.5"),
    ("unknown limit", lambda: limit_variance("log", lr=0.1, curvature=1.0), "known for poly, exp and inst, got log"),
    ("flat", lambda: limit_variance("poly:2", lr=0.1, curvature=0.0), "curvature > 0"),
    ("noise of the limit", lambda: limit_variance("poly:2", lr=0.1, curvature=1.0, noise=-1.0), "sigma >= 0"),
]


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
