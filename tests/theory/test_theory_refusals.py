"""A bound refuses numbers that its theorem says nothing about, and says which assumption, with the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from memgrad import Polynomial, theory
from memgrad.dynamics import Spectrum, exact_risk
from memgrad.theory import (
    AssumptionError,
    best_degree,
    best_lr,
    gamma_bounds,
    heavy_ball_bounded,
    heavy_ball_gradient,
    master,
    memsgd,
    polyak,
    polynomial,
)
from memgrad.theory.quantities import QUANTITIES, numbers

CONTINUOUS = {"t": 5.0, "distance": 2.0, "noise": 0.5, "dimension": 3}
CURVED = {**CONTINUOUS, "alpha": 2.0, "gap": 6.0}
DISCRETE = {"k": 10, "lr": 0.1, "distance": 2.0, "noise": 0.5, "dimension": 3}
HEAVY = {**DISCRETE, "momentum": 0.5, "gap": 3.0}
BUDGET = {"distance": 1.0, "noise": 1.0, "dimension": 1, "steps": 10}
MEMSGD = {**DISCRETE, "degree": 3.0, "smoothness": 2.0}
MASTER = {**CONTINUOUS, "memory": "poly:3"}

ASSUMPTIONS: list[tuple[Any, dict[str, Any], str]] = [
    (polynomial, {**CONTINUOUS, "degree": 1.5}, r"p >= 1 \+ 1/tau = 2, got p = 1.5: take a larger degree"),
    (polynomial, {**CONTINUOUS, "degree": 1.49, "tau": 2}, r"p >= 1 \+ 1/tau = 1.5, got p = 1.49"),
    (polynomial, {**CONTINUOUS, "degree": 2, "start": 6, "gap": 1}, "t >= start = 6, got t = 5: ask for later times"),
    (memsgd, {**MEMSGD, "degree": 1.9}, "memsgd needs p >= 2, got p = 1.9: take a larger degree"),
    (memsgd, {**MEMSGD, "lr": 0.34}, r"lr <= \(p-1\)/\(p L\) = 0.333333, got lr = 0.34: take a smaller lr"),
    (theory.discrete_master, {"lambdas": [0], "lr": 1.1, "smoothness": 1}, "lr <= 1/L = 1, got lr = 1.1"),
    (theory.discrete_master, {"lambdas": [1, 2], "lr": 1, "smoothness": 1}, "lambda_0 = 0 and .* got lambda_0 = 1:"),
    (
        theory.discrete_master,
        {"lambdas": [0, 0.5, 1.6], "lr": 1, "smoothness": 1},
        "lambda_2 = 1.6 after lambda_1 = 0.5",
    ),
    (theory.discrete_master, {"lambdas": [0, -0.1], "lr": 1, "smoothness": 1}, "got lambda_1 = -0.1"),
    (theory.discrete_master, {"lambdas": [0, np.nan], "lr": 1, "smoothness": 1}, "got lambda_1 = nan"),
    (theory.exponential_general, {**CURVED, "growth": 4}, "gap >= growth/2 distance\\^2 = 8, got gap = 6: no function"),
    (
        theory.exponential_strongly_convex,
        {**CURVED, "strong_convexity": 3.1},
        "gap >= mu/2 distance\\^2 = 6.2, got gap = 6",
    ),
    (theory.heavy_ball_strongly_convex, {**CURVED, "strong_convexity": 3.1}, "gap >= mu/2 distance.* or a smaller mu"),
    (theory.heavy_ball, {**HEAVY, "smoothness": 6}, r"lr <= \(1-beta\)/L = 0.0833333, got lr = 0.1"),
    (theory.heavy_ball, {**HEAVY, "smoothness": 1}, "gap <= L/2 distance\\^2 = 2, got gap = 3: .* larger smoothness"),
    (heavy_ball_bounded, {**HEAVY, "gradient": 1}, "gap <= G distance = 2, got gap = 3: .* larger gradient"),
    (
        heavy_ball_gradient,
        {"k": 1, "lr": 0.2, "momentum": 0.5, "smoothness": 2, "gradient": 1, "gap": 1, "noise": 1, "dimension": 1},
        r"lr <= \(1-beta\)/\(2L\) = 0.125, got lr = 0.2: take a smaller lr or momentum",
    ),
    (polyak, {"smoothness": 1, "strong_convexity": 2}, "mu <= L = 1, got mu = 2"),
    (
        master,
        {**MASTER, "memory": "poly:1.5"},
        "r' <= tau lambda a, and poly:1.5 violates it from t=5e-16.* up to 2, tau = 1",
    ),
    (master, {**MASTER, "memory": "exp:alpha=1"}, "violates it from t=5e-16 to t=0.0[0-9]+ .*: start after t=0.0"),
    (master, {**MASTER, "memory": "poly:1"}, "finite integral of 1/m.* poly:1 grows too slowly"),
    (master, {**MASTER, "memory": "log"}, "finite integral of 1/m.* log grows too slowly"),
    (master, {**MASTER, "lam": lambda t: t}, "lam' = a lam - 1, where a is the rate of poly:3"),
    (master, {**MASTER, "lam": lambda t: t / 2 - t**3}, "lam > 0 .* fails near t=0.7"),
    (master, {**MASTER, "lam": lambda t: t / 2 + t**3}, "r' <= tau lambda a, .* or another lam"),
    (master, {**MASTER, "start": 6, "gap": 1}, "t >= start = 6, got t = 5"),
    (best_degree, {**BUDGET, "lr": 0.5, "smoothness": 2}, "lr < 1/L = 0.5, got lr = 0.5: no degree admits it"),
    (best_lr, {**BUDGET, "degree": 1.5}, "best_lr needs p >= 2, got p = 1.5"),
]


@pytest.mark.parametrize(("function", "arguments", "message"), ASSUMPTIONS)
def test_a_violated_assumption_is_named(function: Any, arguments: dict[str, Any], message: str) -> None:
    missing = {name: 1 for name in ("distance", "noise", "dimension") if function is theory.discrete_master}
    with pytest.raises(AssumptionError, match=message) as caught:
        function(**{**missing, **arguments})
    assert str(caught.value).startswith(f"{function.__name__} needs ")


WRONG: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (polynomial, {**CONTINUOUS, "degree": 0}, ValueError, "degree .* to be finite and > 0, got degree=0"),
    (polynomial, {**CONTINUOUS, "degree": 2, "t": 0}, ValueError, "t .* to be finite and > 0, got t=0"),
    (polynomial, {**CONTINUOUS, "degree": 2, "t": [1, -2]}, ValueError, "got t=-2"),
    (polynomial, {**CONTINUOUS, "degree": 2, "t": []}, ValueError, "at least one t"),
    (polynomial, {**CONTINUOUS, "degree": 2, "t": "soon"}, TypeError, "a number t or an array of them, got t='soon'"),
    (polynomial, {**CONTINUOUS, "degree": 2, "t": True}, TypeError, "got t=True"),
    (
        polynomial,
        {**CONTINUOUS, "degree": 2, "distance": -1},
        ValueError,
        r"distance \(\|x0 - x\*\|\) to be finite and >= 0",
    ),
    (polynomial, {**CONTINUOUS, "degree": 2, "noise": np.nan}, ValueError, "noise .* got noise=nan"),
    (polynomial, {**CONTINUOUS, "degree": 2, "noise": np.inf}, ValueError, "noise .* got noise=inf"),
    (polynomial, {**CONTINUOUS, "degree": 2, "dimension": 2.5}, ValueError, "an integer >= 1, got dimension=2.5"),
    (polynomial, {**CONTINUOUS, "degree": 2, "dimension": True}, TypeError, "one number dimension"),
    (polynomial, {**CONTINUOUS, "degree": "2"}, TypeError, "one number degree .* got degree='2' of type str"),
    (polynomial, {**CONTINUOUS, "degree": 2, "start": 1}, ValueError, "started at 1 needs the gap"),
    (
        polynomial,
        {**CONTINUOUS, "degree": 2, "start": 1, "gap": 1, "tight": True},
        ValueError,
        "tight form only for start=0",
    ),
    (memsgd, {**MEMSGD, "k": 1.5}, ValueError, "an integer >= 0, got k=1.5"),
    (memsgd, {**MEMSGD, "k": [3, -1]}, ValueError, "got k=-1"),
    (memsgd, {**MEMSGD, "lr": 0}, ValueError, "lr .* > 0, got lr=0"),
    (
        theory.heavy_ball,
        {**HEAVY, "smoothness": 2, "momentum": 1},
        ValueError,
        "momentum .* >= 0 and < 1, got momentum=1",
    ),
    (theory.exponential_general, {**CURVED, "growth": 1, "tau": 0}, ValueError, "tau .* got tau=0"),
    (gamma_bounds, {"beta": [1, 0], "tau": 1, "mu": 1}, ValueError, "beta to be finite and > 0"),
    (
        theory.discrete_master,
        {"lambdas": [[0, 1]], "lr": 1, "smoothness": 1, "distance": 1, "noise": 1, "dimension": 1},
        ValueError,
        "one-dimensional array of lambdas",
    ),
    (master, {**MASTER, "memory": 3}, TypeError, "master needs a Memory or its text form"),
    (master, {**MASTER, "memory": "inst"}, NotImplementedError, "no memory function"),
    (master, {**MASTER, "memory": "exp:0.1", "t": 1e7}, ValueError, "forgets too fast"),
    (master, {**MASTER, "lam": lambda t: 1.0}, ValueError, "the same number of values"),
    (best_lr, {**BUDGET, "distance": 0.0}, ValueError, "distance > 0"),
    (best_lr, {**BUDGET, "noise": 0.0}, ValueError, "needs smoothness if noise=0"),
    (best_lr, {**BUDGET, "steps": 0}, ValueError, "steps .* an integer >= 1, got steps=0"),
]


@pytest.mark.parametrize(("function", "arguments", "error", "message"), WRONG)
def test_bad_input_is_refused(function: Any, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        function(**arguments)
    assert not isinstance(caught.value, AssumptionError)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (theory.instantaneous, CONTINUOUS),
        (theory.exponential, {**CONTINUOUS, "alpha": 2.0, "gap": 6.0}),
        (polynomial, {**CONTINUOUS, "degree": 2}),
        (master, MASTER),
    ],
)
def test_a_bound_that_divides_by_the_time_wants_one_after_zero(function: Any, arguments: dict[str, Any]) -> None:
    assert function(**arguments).value > 0
    for t in (0.0, [0.0, 1.0]):
        with pytest.raises(ValueError, match=r"t .* to be finite and > 0, got t=0"):
            function(**{**arguments, "t": t})


# The words of a domain, what it admits and what it does not.
DOMAINS = {
    "finite and > 0": ([5e-324, 0.5, 1.0, 1e308], [0.0, -1.0]),
    "finite and >= 0": ([0.0, 0.5, 1e308], [-5e-324, -1.0]),
    "an integer >= 0": ([0, 1, 10**9], [-1, 0.5]),
    "an integer >= 1": ([1, 2, 10**9], [0, -1, 1.5]),
    ">= 0 and < 1": ([0.0, 0.5, 0.9999], [-0.1, 1.0, 2.0]),
}


@pytest.mark.parametrize("name", QUANTITIES)
def test_a_quantity_admits_its_domain_and_nothing_else(name: str) -> None:
    inside, outside = DOMAINS[QUANTITIES[name].domain]
    assert numbers("bound", **dict.fromkeys([name], inside[0])) == (inside[0],)
    assert QUANTITIES[name].admits(np.array(inside, dtype=float)).all()
    for wrong in (*outside, np.inf, -np.inf, np.nan):
        with pytest.raises(ValueError, match=rf"^bound needs {name} .*{QUANTITIES[name].domain}, got {name}="):
            numbers("bound", **{name: wrong})


@pytest.mark.parametrize("name", ["t", "noise", "gap"])
def test_a_quantity_that_may_be_0_may_be_0(name: str) -> None:
    arguments = {**CURVED, "growth": 0.001, "distance": 0.0, name: 0.0}
    assert theory.exponential_general(**arguments).value >= 0


def test_numbers_at_the_limit_are_admitted_and_beyond_it_are_not() -> None:
    beyond = 1e-6
    for tau in (0.3, 0.7, 3.0):
        limit = 1 + 1 / tau
        assert 0 < polynomial(degree=limit, tau=tau, **CONTINUOUS).value < np.inf
        with pytest.raises(AssumptionError, match="p >= 1"):
            polynomial(degree=limit * (1 - beyond), tau=tau, **CONTINUOUS)
    for p in (2.0, 2.3, 7.7):
        limit = 0.5 * (1 - 1 / p)
        assert 0 < memsgd(**{**MEMSGD, "degree": p, "lr": limit}).value < np.inf
        with pytest.raises(AssumptionError, match="lr <="):
            memsgd(**{**MEMSGD, "degree": p, "lr": limit * (1 + beyond)})


def test_what_was_not_checked_is_said() -> None:
    bound = memsgd(**{**MEMSGD, "smoothness": None})
    assert any(re.search(r"L <= \(p-1\)/\(p lr\) = 6.66667, because L was not given", text) for text in bound.given)
    assert bound.value == memsgd(**MEMSGD).value


ASKED = {"degree": 2, "lr": 0.1, "smoothness": 1, "distance": 1, "noise": 0.5, "dimension": 10}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Polynomial(2) * np.sqrt, TypeError, r"written Gain\.of\(f\) \* memory"),
        (lambda: (lambda k: k) * Polynomial(2), TypeError, r"written Gain\.of\(f\) \* memory"),
        (lambda: Polynomial(2) * Polynomial(2), TypeError, "a gain is a number"),
        (lambda: theory.memsgd(**ASKED, k=["1"]), TypeError, "needs a number k"),
        (lambda: theory.gamma_bounds([np.inf, 1], 0.5, 10), ValueError, "got beta=inf"),
        (lambda: exact_risk([], Spectrum.of([1.0]), lr=0.1, steps=3), ValueError, "at least one method, got none"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=3, batch=np.nan), ValueError, "got batch=nan"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=3, batch=np.inf), ValueError, "got batch=inf"),
        (lambda: Spectrum.power_law(2, 20), ValueError, "not rounded to 0, got nu=2, zeta=20"),
    ],
)
def test_bad_input_is_answered_by_the_rule(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
