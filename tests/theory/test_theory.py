"""Bounds as values: their numbers by hand, tables, list and advice.

That the bounds are true is tested in test_theory_continuous.py and test_theory_discrete.py.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_table import properties

from memgrad import theory
from memgrad.memory import Polynomial, Sampled
from memgrad.theory import (
    TABLE_1,
    TABLE_3,
    AssumptionError,
    Bound,
    best_degree,
    best_gamma,
    best_lr,
    bounds,
    gamma_bounds,
    master,
    memsgd,
    polynomial,
)

CONTINUOUS = {"t": 5.0, "distance": 2.0, "noise": 0.5, "dimension": 3}
CURVED = {**CONTINUOUS, "alpha": 2.0, "gap": 6.0}
DISCRETE = {"k": 10, "lr": 0.1, "distance": 2.0, "noise": 0.5, "dimension": 3}
HEAVY = {**DISCRETE, "momentum": 0.5, "gap": 3.0}

# name -> arguments, rate and ball worked out by hand from the formulas of the paper and its errata.
# distance^2 = 4, noise^2 d = 3/4.
BY_HAND: dict[str, tuple[dict[str, Any], float, float]] = {
    "instantaneous": ({**CONTINUOUS, "tau": 0.5}, 2 / 0.5 / 5, 0.75 / 2 / 0.5),
    "exponential": ({**CURVED, "tau": 0.5}, (6 / 2 + 2) / 0.5 / 5, 0.75 / 2 / 0.5),
    "polynomial": ({**CONTINUOUS, "degree": 3}, 4 * 4 / (6 * 5), 3 * 0.75 / 2),
    "master": ({**CONTINUOUS, "memory": "poly:3"}, 4 * 4 / (6 * 5), 3 * 0.75 / 2),
    # alpha = 2 <= 3/2 sqrt(3) = 2.6, so gamma = 2/3 and alpha - gamma = 4/3.
    "exponential_general": (
        {**CURVED, "growth": 3, "tau": 1},
        np.exp(-10 / 3) * (6 + 16 / 18 * 4),
        0.75 / 2 * 1.5 * (1 - np.exp(-10 / 3)),
    ),
    # alpha = 2 > 9/4 mu = 9/8, so gamma = (2 - sqrt(4 - 2))/2 = 1 - 1/sqrt 2.
    "exponential_strongly_convex": (
        {**CURVED, "strong_convexity": 0.5},
        np.exp(-5 * (1 - 0.5**0.5)) * (6 + (1 + 0.5**0.5) ** 2),
        2 * 0.75 / (2 * (1 - 0.5**0.5)) * (1 - np.exp(-5 * (1 - 0.5**0.5))),
    ),
    # alpha = 2 > 3/2 sqrt(mu), so gamma = (2 - sqrt(4 - 1))/2.
    "heavy_ball_strongly_convex": (
        {**CURVED, "strong_convexity": 0.5},
        np.exp(-5 * (1 - 0.75**0.5)) * (6 + 2 * (1 + 0.75**0.5) ** 2),
        0.75 / (2 * (1 - 0.75**0.5)) * (1 - np.exp(-5 * (1 - 0.75**0.5))),
    ),
    "memsgd": ({**DISCRETE, "degree": 3, "smoothness": 2}, 4 * 4 / (0.6 * 12), 3 * 0.1 * 0.75 / 2 * 10 / 12),
    "discrete_master": (
        {"lambdas": [0, 0.5], "lr": 0.2, "smoothness": 5, "distance": 2.0, "noise": 0.5, "dimension": 3},
        2 / 0.3,
        0.75 / 2 * 0.04 / 0.3,
    ),
    "heavy_ball": ({**HEAVY, "smoothness": 2}, (3 + 0.5 * 2 / 0.1) / 11, 0.1 * 0.75 / 2 / 0.5),
    # Not 2 or 1/2, whose squares are their doubles and whose complements are themselves.
    "heavy_ball_bounded": ({**HEAVY, "gradient": 3}, (3 + 0.5 * 2 / 0.1) / 11, 0.1 * 9.75 / 2 / 0.5),
    "heavy_ball_gradient": (
        {
            **{name: value for name, value in HEAVY.items() if name != "distance"},
            "smoothness": 2,
            "gradient": 3,
            "momentum": 0.6,
        },
        2 * 3 / 0.25 / 11,
        2 * 0.25 * (0.75 + 0.36 / 0.16 * 9.75),
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_bound_has_the_numbers_worked_out_by_hand(name: str) -> None:
    arguments, rate, ball = BY_HAND[name]
    bound = bounds()[name].compute(arguments)
    at_end = [np.atleast_1d(part)[-1] for part in (bound.rate, bound.ball, bound.value)]
    assert at_end == pytest.approx([rate, ball, rate + ball])
    assert bound.name == name


@pytest.mark.parametrize("name", BY_HAND)
def test_a_bound_grows_with_the_square_of_the_scale(name: str) -> None:
    """Distance, noise and gradients times 3 and f times 9 are the same problem in other units: the bound is times 9."""
    arguments = BY_HAND[name][0]
    powers = {"distance": 3, "noise": 3, "gradient": 3, "gap": 9}
    scaled = {key: value * powers.get(key, 1) for key, value in arguments.items()}
    small, large = (bounds()[name].compute(each) for each in (arguments, scaled))
    assert large.rate == pytest.approx(9 * np.asarray(small.rate), rel=1e-9)
    assert large.ball == pytest.approx(9 * np.asarray(small.ball), rel=1e-9)


def test_what_is_not_given_is_the_plain_convex_case_from_time_0() -> None:
    defaults = {"tau": 1.0, "start": 0.0, "gap": None, "tight": False, "lam": None}
    optional = [each for entry in bounds().values() for each in entry.parameters if not each.required]
    assert {each.name for each in optional} == set(defaults)
    for each in optional:
        assert each.default == defaults[each.name]
        assert type(each.default) is type(defaults[each.name])


@pytest.mark.parametrize("name", BY_HAND)
def test_a_bound_is_plain_data_and_readable_text(name: str) -> None:
    bound = bounds()[name].compute(BY_HAND[name][0])
    data = json.loads(json.dumps(bound.to_dict()))
    assert data["value"] == pytest.approx(bound.value)
    assert set(data) == {field.name for field in dataclasses.fields(Bound)}
    text = str(bound)
    assert text.startswith(f"{bound.about} <= ")
    assert all(statement in text for statement in (*bound.assumptions, *bound.given, bound.theorem))


@pytest.mark.parametrize("name", [name for name in BY_HAND if name != "discrete_master"])
def test_a_bound_of_an_array_is_the_array_of_the_bounds(name: str) -> None:
    arguments = BY_HAND[name][0]
    variable = "t" if "t" in arguments else "k"
    at = [[1, 2, 8], [3, 9, 40]]
    many = bounds()[name].compute({**arguments, variable: at})
    assert np.shape(many.value) == np.shape(many.rate) == np.shape(many.ball) == np.shape(many.at) == (2, 3)
    one = [[bounds()[name].compute({**arguments, variable: each}).value for each in row] for row in at]
    assert many.value == pytest.approx(np.array(one), rel=1e-9)
    assert isinstance(one[0][0], float)
    with pytest.raises(ValueError, match="read-only"):
        many.value[0, 0] = 0.0


def test_a_long_array_is_shortened_in_text() -> None:
    text = str(memsgd(k=np.arange(100), degree=2, lr=0.5, smoothness=1, distance=1, noise=0, dimension=1))
    assert text.splitlines()[0] == (
        "E f(x_k) - f* <= 0.5, 0.25, 0.166667, ..., 0.00505051, 0.005 at k = 0, 1, 2, ..., 98, 99"
    )


@pytest.mark.parametrize(("count", "shown"), [(6, "0, 1, 2, 3, 4, 5"), (7, "0, 1, 2, ..., 5, 6")])
def test_up_to_six_numbers_are_shown(count: int, shown: str) -> None:
    text = str(memsgd(k=np.arange(count), degree=2, lr=0.5, smoothness=1, distance=1, noise=0, dimension=1))
    assert text.splitlines()[0].endswith(f"at k = {shown}")


# --- the list --------------------------------------------------------------------------------------------------------


def test_the_list_holds_every_function_that_returns_a_bound() -> None:
    functions = [getattr(theory, name) for name in theory.__all__]
    returning = {each.__name__ for each in functions if inspect.isfunction(each) and returns_a_bound(each)}
    assert set(bounds()) == returning == set(BY_HAND)
    for name, entry in bounds().items():
        assert entry.name == name
        assert "\n" not in entry.summary
        assert all(parameter.meaning for parameter in entry.parameters)


def returns_a_bound(function: Any) -> bool:
    return inspect.signature(function).return_annotation == "Bound"


def test_the_list_says_what_is_required() -> None:
    parameters = {each.name: each for each in bounds()["polynomial"].parameters}
    assert [name for name, each in parameters.items() if each.required] == [
        "t",
        "degree",
        "distance",
        "noise",
        "dimension",
    ]
    assert (parameters["tau"].default, parameters["dimension"].kind, parameters["t"].kind) == (1.0, "count", "numbers")
    with pytest.raises(
        ValueError, match=r"memsgd does not take speed and needs degree and needs lr and .*; it takes k, "
    ):
        bounds()["memsgd"].compute({"k": 1, "speed": 3})


# --- tables ----------------------------------------------------------------------------------------------------------


def test_table_3_says_what_its_functions_compute() -> None:
    at = {"t": 4.0, "distance": 3.0, "noise": 0.5, "dimension": 2}
    rows = {row.method: row for row in TABLE_3}
    assert rows["instantaneous"].function(**at).value == pytest.approx(9 / 2 / 4 + 2 * 0.25 / 2)
    assert rows["exponential"].function(**at, alpha=0.5, gap=2.0).value == pytest.approx((2 / 0.5 + 9 / 2) / 4 + 0.25)
    assert rows["polynomial"].function(**at, degree=5).value == pytest.approx(16 * 9 / 10 / 4 + 5 * 0.25)
    assert [row.ball for row in TABLE_3] == ["d sigma_*^2/2", "d sigma_*^2/2", "p d sigma_*^2/2"]


def test_table_1_says_what_its_functions_compute() -> None:
    linear, smooth, convex, rough = TABLE_1
    assert linear.function(smoothness=9, strong_convexity=1).q == pytest.approx(1 / 2)
    k = 10.0 ** np.arange(3, 7)
    start = {"momentum": 0.9, "distance": 1.0, "gap": 0.4, "noise": 0.0, "dimension": 5}
    value = smooth.function(k=k, lr=0.05, smoothness=1, **start).value
    assert slope(k + 1, value) == pytest.approx(-1)
    noisy = {**start, "noise": 1.0, "gradient": 1.0}
    value = np.array([convex.function(k=i, lr=1 / np.sqrt(i + 1), **noisy).value for i in k])
    assert slope(k, value) == pytest.approx(-0.5, abs=0.02)
    noisy.pop("distance")
    value = np.array([rough.function(k=i, lr=1 / np.sqrt(i + 1), smoothness=1, **noisy).value for i in k])
    assert slope(k, value) == pytest.approx(-0.5, abs=0.02)


def slope(x: Any, y: Any) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def test_rows_are_plain_data() -> None:
    for row in (*TABLE_1, *TABLE_3):
        data = json.loads(json.dumps(row.to_dict()))
        assert getattr(theory, data["function"]) is row.function


# --- gamma -----------------------------------------------------------------------------------------------------------


@settings(properties, max_examples=200)
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(0.01, 20))
def test_gamma_is_admissible_and_the_tight_one_is_the_largest(alpha: float, mu: float, tau: float) -> None:
    simple, tight = (best_gamma(alpha=alpha, growth=mu, tau=tau, tight=tight) for tight in (False, True))

    def slack(g: float) -> float:
        """The coefficient of f - f* in the generator, which must not be positive, in units of the terms."""
        b = alpha - g
        return (g * (1 + b * b / mu) - tau * b) / (tau * b + g)

    assert 0 < simple <= tight * (1 + 1e-12)
    assert tight < alpha
    assert slack(simple) <= 1e-9
    assert abs(slack(tight)) <= 1e-9
    larger = tight + (alpha - tight) * np.linspace(1e-6, 1, 200)
    assert min(slack(float(g)) for g in larger) > 0


def test_the_best_viscosity_gives_the_largest_gamma() -> None:
    # Theorems D.7 and D.8 with mu = 0.3: at 9/4 mu and 3/2 sqrt(mu).
    for best, growth, expected in ((0.675, 0.675 * 0.3, 0.225), (1.5 * 0.3**0.5, 0.3, 0.3**0.5 / 2)):
        assert best_gamma(alpha=best, growth=growth) == pytest.approx(expected)
    grid = np.linspace(0.01, 3, 3000)
    memory = [best_gamma(alpha=a, growth=a * 0.3) for a in grid]
    momentum = [best_gamma(alpha=a, growth=0.3) for a in grid]
    assert grid[np.argmax(memory)] == pytest.approx(0.675, abs=2e-3)
    assert grid[np.argmax(momentum)] == pytest.approx(1.5 * 0.3**0.5, abs=2e-3)


def test_gamma_keeps_its_digits_where_the_viscosity_is_large() -> None:
    # gamma = mu tau/(2 alpha) (1 + ...) there, and tau mu/alpha (1 + ...) for the tight one.
    assert best_gamma(alpha=1e9, growth=1.0) == pytest.approx(0.5e-9, rel=1e-12)
    assert best_gamma(alpha=1e9, growth=1.0, tight=True) == pytest.approx(1e-9, rel=1e-12)


def test_the_lower_bounds_of_the_figure_touch_the_curve_at_its_peak() -> None:
    figure = gamma_bounds(np.linspace(0.01, 20, 2000), tau=0.5, mu=10)
    assert np.all(figure.lower <= figure.curve)
    assert figure.peak == pytest.approx((3.16228, 0.790569), abs=1e-5)
    peak = gamma_bounds(figure.peak[0], tau=0.5, mu=10)
    assert peak.curve == pytest.approx(figure.peak[1])
    assert peak.linear == pytest.approx(peak.hyperbola) == pytest.approx(figure.peak[1])
    for alpha in (1.0, 3.9, 12.0):
        beta, gamma = figure.solution(alpha, tight=True)
        assert (beta + gamma, gamma) == pytest.approx((alpha, 0.5 * beta / (1 + beta**2 / 10)))
        beta, gamma = figure.solution(alpha, tight=False)
        assert (beta + gamma, gamma) == pytest.approx((alpha, min(0.25 * beta, 2.5 / beta)))


# --- the master inequality -------------------------------------------------------------------------------------------


@properties
@given(st.floats(0.3, 4), st.floats(0, 20), st.sampled_from([0.0, 0.7]))
def test_the_master_inequality_of_a_power_is_the_polynomial_bound(tau: float, excess: float, start: float) -> None:
    facts = {"t": [1.0, 30.0], "distance": 1.3, "noise": 0.7, "dimension": 2, "tau": tau, "start": start, "gap": 0.9}
    p = 1 + 1 / tau + excess
    general, special = master(Polynomial(p), **facts), polynomial(degree=p, **facts)
    assert general.rate == pytest.approx(special.rate, rel=1e-8)
    assert general.ball == pytest.approx(special.ball, rel=1e-8)


@pytest.mark.parametrize(("p", "tau"), [(2.0, 1.0), (3.5, 1.0), (12.0, 1.0), (2.0, 2.0), (6.0, 0.5)])
def test_the_tight_polynomial_bound_is_a_master_inequality(p: float, tau: float) -> None:
    facts = {"distance": 1.3, "noise": 0.7, "dimension": 2, "tau": tau}
    for t in (0.4, 20.0):
        c = ((tau + 2) / (2 * p - 1) - 1 / (p - 1)) * t ** (1 - p)
        tight = polynomial(t=t, degree=p, tight=True, **facts)
        general = master(Polynomial(p), t=t, lam=lambda s, c=c: s / (p - 1) + c * s**p, **facts)
        assert (tight.rate, tight.ball) == pytest.approx((general.rate, general.ball), rel=1e-8)
        assert tight.value <= polynomial(t=t, degree=p, **facts).value * (1 + 1e-12)
        if c > 0:
            with pytest.raises(AssumptionError, match="r' <= tau lambda a"):
                master(Polynomial(p), t=t, lam=lambda s, c=c: s / (p - 1) + 1.01 * c * s**p, **facts)


def test_the_master_inequality_of_exponential_memory_has_a_closed_form() -> None:
    # lambda = (e^t - 1) (-log(1 - e^-t)) for m = e^t - 1, r = lambda^2 e^t/(e^t - 1).
    t, start = 6.0, 2.0
    lam = [np.expm1(s) * -np.log(-np.expm1(-s)) for s in (start, t)]
    r_start, r = (value**2 / -np.expm1(-s) for value, s in zip(lam, (start, t), strict=True))
    bound = master("exp:alpha=1", t=t, distance=2, noise=0, dimension=1, start=start, gap=3)
    assert bound.value == pytest.approx((3 * r_start + 2) / r, rel=1e-9)


def test_a_memory_of_the_users_own_has_a_master_inequality() -> None:
    memory = Sampled(lambda t: t**3, lambda t: 3 * t**2, h=0.1)
    facts = {"t": 5.0, "distance": 1, "noise": 1, "dimension": 1}
    assert master(memory, **facts).value == pytest.approx(polynomial(degree=3, **facts).value, rel=1e-8)


def test_a_memory_function_that_is_1_at_time_0_needs_a_later_start() -> None:
    """m = e^t after 0: a = 1 and lambda = 1, so r = 1 at all times, and the noise adds up."""
    memory = Sampled(lambda t: np.where(np.asarray(t) > 0, np.exp(t), 0.0), np.exp, h=0.1, steps=100)
    facts = {"t": [2.0, 5.0], "distance": 3.0, "noise": 0.5, "dimension": 4, "lam": np.ones_like}
    with pytest.raises(AssumptionError, match=r"needs r\(0\) = 0, and .* has r = 1 near 0: give a start > 0"):
        master(memory, **facts)
    bound = master(memory, **facts, start=0.5, gap=2.0)
    assert bound.rate == pytest.approx([2 + 4.5, 2 + 4.5], rel=1e-9)
    assert bound.ball == pytest.approx([0.5 * 1.5, 0.5 * 4.5], rel=1e-9)


# --- advice ----------------------------------------------------------------------------------------------------------

budgets = st.fixed_dictionaries(
    {
        "distance": st.floats(0.01, 100),
        "noise": st.floats(0, 10),
        "dimension": st.integers(1, 1000),
        "steps": st.integers(1, 10**6),
    }
)


def memsgd_formula(p: Any, lr: Any, *, distance: float, noise: float, dimension: int, steps: int) -> Any:
    rate = (p - 1) ** 2 * distance**2 / (2 * lr * p * (steps + p - 1))
    return rate + dimension * lr * noise**2 * p / 2 * steps / (steps + p - 1)


@settings(properties, max_examples=100)
@given(budgets, st.floats(1e-3, 0.999))
def test_no_degree_beats_the_best_one(budget: dict[str, Any], share: float) -> None:
    big = 3.0
    lr = share / big
    advice = best_degree(lr=lr, smoothness=big, **budget)
    degrees = np.geomspace(2, 1e5, 4000)
    allowed = degrees[lr <= (degrees - 1) / (degrees * big)]
    assert lr <= (advice.degree - 1) / (advice.degree * big) * (1 + 1e-9)
    assert advice.bound.value == pytest.approx(memsgd_formula(advice.degree, lr, **budget))
    assert np.all(memsgd_formula(allowed, lr, **budget) >= advice.bound.value * (1 - 1e-9))


@settings(properties, max_examples=100)
@given(budgets, st.floats(2, 50))
def test_no_learning_rate_beats_the_best_one(budget: dict[str, Any], p: float) -> None:
    big = 3.0
    advice = best_lr(degree=p, smoothness=big, **budget)
    rates = (p - 1) / (p * big) * np.geomspace(1e-9, 1, 4000)
    assert advice.lr <= rates[-1] * (1 + 1e-12)
    assert np.all(memsgd_formula(p, rates, **budget) >= advice.bound.value * (1 - 1e-9))


@settings(properties, max_examples=100)
@given(budgets)
def test_no_pair_beats_the_best_one(budget: dict[str, Any]) -> None:
    big = 3.0
    advice = best_lr(smoothness=big, **budget)
    p = np.geomspace(2, 200, 80)[:, None]
    rates = (p - 1) / (p * big) * np.geomspace(1e-6, 1, 300)
    assert np.all(memsgd_formula(p, rates, **budget) >= advice.bound.value * (1 - 1e-9))


def test_advice_without_smoothness_says_for_which_it_holds() -> None:
    advice = best_lr(distance=1, noise=1, dimension=4, steps=100)
    assert advice.lr == pytest.approx(1 / 40)
    assert "L <= (p-1)/(p lr) = 20, because L was not given" in advice.why
    assert "L <= (p-1)/(p lr) = 5, because" in str(best_degree(lr=0.1, distance=1, noise=1, dimension=4, steps=100))
    assert json.loads(json.dumps(advice.to_dict()))["bound"]["value"] == pytest.approx(advice.bound.value)


def test_advice_at_the_border_of_two_reasons_gives_the_simpler_one() -> None:
    budget = {"distance": 1.0, "noise": 1.0, "dimension": 1, "steps": 4, "smoothness": 2.0}
    advice = best_lr(**budget)  # distance/(noise sqrt(d steps)) = 1/L = 1/2
    assert advice.lr == 0.25
    assert advice.bound.rate == advice.bound.ball
    assert "where rate and ball are equal" in advice.why
    assert best_degree(lr=0.25, **budget).why.startswith("p = 2 is the smallest degree of the theorem")  # 1/(1 - lr L)
