"""Gains and mixtures: what they weight, how they are written, and what they refuse."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrad.memory import (
    COLD,
    SUM,
    Aged,
    Exponential,
    FromDecays,
    Gain,
    Instantaneous,
    Memory,
    Mixture,
    Part,
    Polynomial,
)
from memgrad.memory.text import as_memory

properties = settings(max_examples=30, deadline=None, derandomize=True)


def impulse_response(step: Callable[[np.ndarray, int], np.ndarray], k: int) -> np.ndarray:
    """The weights that a recursion gives to the gradients 0, ..., k, by feeding it one impulse per coordinate."""
    direction = np.zeros(k + 1)
    for i in range(k + 1):
        direction = step(np.eye(k + 1)[i], i)
    return direction


def heavy_ball(beta: Callable[[int], float]) -> Callable[[np.ndarray, int], np.ndarray]:
    v = np.zeros(1)

    def step(g: np.ndarray, k: int) -> np.ndarray:
        nonlocal v
        v = beta(k) * v + g
        return v

    return step


def nesterov(beta: Callable[[int], float]) -> Callable[[np.ndarray, int], np.ndarray]:
    ball = heavy_ball(beta)
    return lambda g, k: g + beta(k + 1) * ball(g, k)


def qhm(beta: float, nu: float) -> Callable[[np.ndarray, int], np.ndarray]:
    u = np.zeros(1)

    def step(g: np.ndarray, k: int) -> np.ndarray:
        nonlocal u
        u = beta * u + (1 - beta) * g
        return (1 - nu) * g + nu * u

    return step


def aggmo(betas: list[float]) -> Callable[[np.ndarray, int], np.ndarray]:
    balls = [heavy_ball(lambda k, beta=beta: beta) for beta in betas]
    return lambda g, k: sum(ball(g, k) for ball in balls) / len(balls)


def ademamix(beta1: float, beta3: float, alpha: float, ramp: int) -> Callable[[np.ndarray, int], np.ndarray]:
    """Algorithm 1 of arXiv 2409.03137, with its schedules; t counts from 1."""
    m1 = m2 = np.zeros(1)

    def step(g: np.ndarray, k: int) -> np.ndarray:
        nonlocal m1, m2
        t = k + 1
        if t < ramp:
            slow = math.exp(
                math.log(beta1) * math.log(beta3) / ((1 - t / ramp) * math.log(beta3) + t / ramp * math.log(beta1))
            )
        else:
            slow = beta3
        m1 = beta1 * m1 + (1 - beta1) * g
        m2 = slow * m2 + (1 - slow) * g
        return m1 / (1 - beta1**t) + min(t * alpha / ramp, alpha) * m2

    return step


def nadam(beta: float, psi: float) -> Callable[[np.ndarray, int], np.ndarray]:
    """The numerator of torch.optim.NAdam, from its documentation; t counts from 1."""
    m, product = np.zeros(1), 1.0

    def mu(t: int) -> float:
        return beta * (1 - 0.5 * 0.96 ** (t * psi))

    def step(g: np.ndarray, k: int) -> np.ndarray:
        nonlocal m, product
        t = k + 1
        m = beta * m + (1 - beta) * g
        product *= mu(t)
        return mu(t + 1) * m / (1 - product * mu(t + 1)) + (1 - mu(t)) * g / (1 - product)

    return step


# The rows of the table of methods: text form, and the recursion as its authors write it.
RECURSIONS = {
    "sum*exp:0.9": lambda: heavy_ball(lambda k: 0.9),
    "sum*poly:4": lambda: heavy_ball(lambda k: k / (k + 3)),
    "inst + 0.9*sum*exp:0.9": lambda: nesterov(lambda k: 0.9),
    "inst + 0.25*(1+k)*poly:4": lambda: nesterov(lambda k: k / (k + 3)),
    "0.3*inst + 0.7*cold*exp:0.9": lambda: qhm(0.9, 0.7),
    "0.25*inst + 0.25*sum*exp:0.5 + 0.25*sum*exp:0.9 + 0.25*sum*exp:0.99": lambda: aggmo([0.0, 0.5, 0.9, 0.99]),
    "exp:0.9 + 5*cold*ramp(40)*expramp:0.999,start=0.9,steps=40": lambda: ademamix(0.9, 0.999, 5.0, 40),
    "nadam(0.9,0.004)*inst + nadam_ahead(0.9,0.004)*cold*exp:0.9": lambda: nadam(0.9, 0.004),
}


@pytest.mark.parametrize("text", RECURSIONS)
@pytest.mark.parametrize("k", [0, 1, 2, 17, 60, 300])
def test_the_weights_are_the_impulse_response_of_the_recursion(text: str, k: int) -> None:
    exact = impulse_response(RECURSIONS[text](), k)
    mixture = Mixture.parse(text)
    # A relative 1e-12 of the largest weight: 300 steps of three roundings each.
    np.testing.assert_allclose(mixture.weights(k), exact, rtol=1e-10, atol=1e-12 * exact.max())
    assert mixture.gain(k) == pytest.approx(exact.sum(), rel=1e-12)


def test_the_growing_gain_of_adana_is_written_as_in_its_paper() -> None:
    k, kappa = 9, 0.85
    weights = Mixture.parse("inst + (1+k)^0.15*poly:8").weights(k)
    average = np.array([math.comb(j + 7, 7) for j in range(k + 1)]) / math.comb(k + 8, 8)  # of degree 8
    expected = (1 + k) ** (1 - kappa) * average
    expected[-1] += 1
    np.testing.assert_allclose(weights, expected, rtol=1e-13)


@pytest.mark.parametrize("text", [*RECURSIONS, "poly:2", "inst + (1+k)^0.15*poly:8", "exp:0.9 + 5*exp:0.9999"])
def test_text_forms_are_read_and_written_back(text: str) -> None:
    mixture = Mixture.parse(text)
    assert Mixture.parse(str(mixture)) == mixture
    assert str(Mixture.parse(str(mixture))) == str(mixture)
    assert Mixture.from_dict(mixture.to_dict()) == mixture


def test_what_is_written_is_what_was_read() -> None:
    for text in ("inst + (1+k)^0.15*poly:8", "exp:0.9 + 5*exp:0.9999", "sum*exp:0.9", "2*(1+k)^-0.5*poly:1e+20"):
        assert str(Mixture.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("inst+5*exp:0.9", "inst + 5*exp:0.9"),
        (" INST  +  5 * EXP:0.9 ", "inst + 5*exp:0.9"),
        ("(k+1)^0.5*poly:8", "(1+k)^0.5*poly:8"),
        ("(1 + k)^(0.5)*poly:8", "(1+k)^0.5*poly:8"),
        ("2*3*exp:0.9", "6*exp:0.9"),
        ("(1+k)^0.5*(1+k)^0.25*poly:8", "(1+k)^0.75*poly:8"),
        ("ramp(10)*5*exp:0.9", "5*ramp(10)*exp:0.9"),
        ("5*p=2 + p=inf", "5*poly:2 + inst"),
        ("1e+1*poly:1e+05", "10*poly:100000"),
        ("exp:0.9 + exp:0.9", "2*exp:0.9"),
        ("inst + 0*exp:0.9", "inst"),
        ("poly:8 + (1+k)^0.15*poly:8", "poly:8 + (1+k)^0.15*poly:8"),
    ],
)
def test_equal_mixtures_have_one_text_form(text: str, same: str) -> None:
    assert str(Mixture.parse(text)) == same


def test_parts_of_one_memory_share_a_buffer() -> None:
    mixture = Mixture.parse("poly:8 + inst + (1+k)^0.15*poly:8")
    assert [part.memory for part in mixture.averages] == [Polynomial(8)]
    assert mixture.averages[0].gain(3, Polynomial(8)) == pytest.approx(1 + 4**0.15, rel=1e-15)


def test_code_writes_mixtures_as_text_does() -> None:
    assert Instantaneous() + Gain.power(0.15) * Polynomial(8) == Mixture.parse("inst + (1+k)^0.15*poly:8")
    assert Exponential(0.9) + 5 * Exponential(0.9999) == Mixture.parse("exp:0.9 + 5*exp:0.9999")
    assert SUM * Exponential(0.9) == Mixture.parse("sum*exp:0.9")
    assert 0.7 * COLD * Exponential(0.9) == Mixture.parse("0.7*cold*exp:0.9")
    assert np.float64(2) * Polynomial(3) == Mixture.parse("2*poly:3")
    assert (Polynomial(2) + Polynomial(3)) * 0.5 == Mixture.parse("0.5*poly:2 + 0.5*poly:3")


def test_memory_parse_gives_memories_and_mixtures() -> None:
    assert Memory.parse("poly:2") == Polynomial(2)
    assert Memory.parse("inst + 5*exp:0.9") == Mixture.parse("inst + 5*exp:0.9")
    assert Mixture.parse("poly:2").memory == Polynomial(2)
    assert Mixture.parse("2*poly:2").memory is None


@given(st.floats(0.05, 3), st.floats(0, 0.999), st.integers(0, 400), st.floats(-1, 1))
@properties
def test_the_passport_is_that_of_the_weights(scale: float, beta: float, k: int, exponent: float) -> None:
    mixture = Instantaneous() + scale * Gain.power(exponent) * Polynomial(3) + Exponential(max(beta, 1e-3))
    passport, w = mixture.passport(k), mixture.weights(k)
    age = np.arange(k, -1, -1)
    assert passport.gain == pytest.approx(w.sum(), rel=1e-12)
    assert passport.mean_age == pytest.approx(w @ age / w.sum(), rel=1e-9, abs=1e-12)
    assert passport.variance_factor == pytest.approx(w @ w, rel=1e-12)
    with pytest.warns(DeprecationWarning, match=r"noise_factor is deprecated; use variance_factor\.$"):
        assert passport.noise_factor == passport.variance_factor
    assert passport.newest_weight == pytest.approx(w[-1], rel=1e-12)
    assert passport.first_weight == pytest.approx(w[0], rel=1e-9)
    older = [w[: k - a].sum() for a in range(k + 1)]
    exact = next(a for a in range(k + 1) if older[a] <= (0.5 + 1e-12) * w.sum())
    assert passport.half_life == exact


LONG = [
    "inst + (1+k)^0.15*poly:8",
    "poly:1 + poly:2",
    "exp:0.9 + 5*exp:0.9999",
    "inst + 0.9*sum*exp:0.9",
    "log + 2*stretch:0.3 + power:0.8",
    "stretch:1.5 + 3*poly:2.5",
    "exp:0.9 + 5*cold*ramp(1000)*expramp:0.9999,0.9,1000",
    "poly:2 + age:58,to=26,start=1000,end=300000",
]


@pytest.mark.parametrize("text", LONG)
@pytest.mark.parametrize("k", [40_000, 131_073, 300_001])
def test_a_long_past_is_summed_as_the_weights_are(text: str, k: int) -> None:
    mixture = Mixture.parse(text)
    passport, w = mixture.passport(k), mixture.weights(k)
    older = np.cumsum(w)[::-1][1:]  # entry a: the weight of all gradients older than a steps
    assert passport.gain == pytest.approx(w.sum(), rel=1e-9)
    assert passport.mean_age == pytest.approx(older.sum() / w.sum(), rel=1e-9)
    assert passport.variance_factor == pytest.approx(w @ w, rel=1e-9)
    assert passport.newest_weight == pytest.approx(w[-1], rel=1e-12)
    assert passport.first_weight == pytest.approx(w[0], rel=1e-9, abs=1e-300)
    assert passport.half_life == np.argmax(older <= (0.5 + 1e-11) * w.sum())


@pytest.mark.parametrize("k", [10**6, 10**12, 10**15])
def test_adanas_mixture_has_a_passport_at_any_step(k: int) -> None:
    """Mean age k/9 and first weight 8! k!/(k+8)! of poly:8, and nothing but the newest gradient in `inst`."""
    passport, gain = Mixture.parse("inst + (1+k)^0.15*poly:8").passport(k), (k + 1) ** 0.15
    assert passport.gain == pytest.approx(1 + gain, rel=1e-14)
    assert passport.mean_age == pytest.approx(gain * k / 9 / (1 + gain), rel=1e-9)
    assert passport.newest_weight == pytest.approx(1 + gain * 8 / (k + 8), rel=1e-14)
    assert passport.first_weight == pytest.approx(gain * 40320 / math.prod(range(k + 1, k + 9)), rel=1e-9)
    # The weights of poly:8 are 8 (j+1)...(j+7)/((k+1)...(k+8)). Newton's differences sum their squares in integers.
    differences = [math.prod(range(j + 1, j + 8)) ** 2 for j in range(15)]
    squares = 0
    for i in range(15):
        squares += differences[0] * math.comb(k + 1, i + 1)
        differences = [after - before for before, after in pairwise(differences)]
    poly = float(Fraction(64 * squares, math.prod(range(k + 1, k + 9)) ** 2))
    assert passport.variance_factor - 1 == pytest.approx(2 * gain * 8 / (k + 8) + gain**2 * poly, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("k", [10**6, 10**9, 10**12])
def test_two_degrees_at_once_have_their_closed_form_at_any_step(k: int) -> None:
    """The weights 1/(k+1) + 2(j+1)/((k+1)(k+2)): sums of squares, and the half-life in integers."""
    passport = Mixture.parse("poly:1 + poly:2").passport(k)
    assert passport.mean_age == pytest.approx((k / 2 + k / 3) / 2, rel=1e-12)
    squares = 1 / (k + 1) + 2 / (k + 1) + 2 * (2 * k + 3) / (3 * (k + 1) * (k + 2))
    assert passport.variance_factor == pytest.approx(squares, rel=1e-11)
    assert passport.first_weight == pytest.approx(1 / (k + 1) + 2 / ((k + 1) * (k + 2)), rel=1e-11)

    def reached(age: int) -> bool:  # n/(k+1) + n(n+1)/((k+1)(k+2)) <= 1 for the n = k - age gradients that are older
        n = k - age
        return n * (k + 2) + n * (n + 1) <= (k + 1) * (k + 2)

    assert reached(passport.half_life)
    assert not reached(passport.half_life - 1)


def test_a_part_that_forgets_leaves_the_rest_to_the_panels() -> None:
    """exp:0.5 is over after 1100 steps. Ages 1 and k/3; noise 1/3 + 4/(3k), and 2 (2/k) where both meet."""
    k = 10**9
    passport = Mixture.parse("exp:0.5 + poly:2").passport(k)
    assert passport.mean_age == pytest.approx((1 + k / 3) / 2, rel=1e-9)
    assert passport.variance_factor == pytest.approx(1 / 3 + 4 / (3 * k) + 4 / k, rel=1e-12)
    assert passport.half_life == 24  # the first with 2^-n <= 2n/k, n = age + 1: what is left and what poly:2 has lost


def test_decays_in_code_say_what_the_walk_of_a_mixture_would_take() -> None:
    mixture = Instantaneous() + FromDecays(lambda k: k / (k + 1))
    with pytest.raises(ValueError, match=r"passport of inst \+ decays:<lambda> at step k=10{11} needs.*3\.5 days"):
        mixture.passport(10**11)
    assert (Instantaneous() + FromDecays(lambda k: min(k / (k + 1), 0.9))).passport(10**11).half_life == 0


def test_a_mixture_without_gain_at_a_step_has_a_passport() -> None:
    passport = Mixture((Part(Gain.of(lambda k: 0.0 * k), Polynomial(2)),)).passport(10**6)
    assert (passport.gain, passport.mean_age, passport.half_life, passport.variance_factor) == (0, 0, 0, 0)


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("text", [*RECURSIONS, "inst + (1+k)^0.15*poly:8"])
def test_gains_answer_in_kind(kind: str, text: str) -> None:
    mixture = Mixture.parse(text)
    steps = [0, 1, 5, 39, 40, 1000]
    exact = [mixture.gain(k) for k in steps]
    assert all(type(value) is float for value in exact)
    if kind == "numpy":
        found = mixture.gain(np.array(steps))
        assert found.dtype == np.float64
    elif kind == "torch":
        torch = pytest.importorskip("torch")
        found = mixture.gain(torch.tensor(steps, dtype=torch.float64))
        assert found.dtype == torch.float64
    else:
        jnp = pytest.importorskip("jax.numpy")
        found = mixture.gain(jnp.asarray(steps, dtype=jnp.float32))
    # float32 for JAX: the gain of exp:0.999 is known to 1e-7/(1-beta) there
    np.testing.assert_allclose(np.asarray(found), exact, rtol=1e-12 if kind != "jax" else 2e-4)


def test_continuous_limit_of_the_weights() -> None:
    mixture = Mixture.parse("inst + 3*poly:3")
    # w(j,k)/h -> 3 * 3 s^2/t^3 for h -> 0; poly:p differs from t^p sampled by O(h)
    h, t = 1e-4, 2.0
    weights = mixture.weights(round(t / h))
    for s in (0.5, 1.0, 1.9):
        assert mixture.influence(s, t) == pytest.approx(9 * s**2 / t**3, rel=1e-14)
        assert weights[round(s / h)] / h == pytest.approx(9 * s**2 / t**3, rel=1e-3)


def test_a_mixture_is_normalized_where_its_gain_is_one() -> None:
    assert Mixture.parse("0.25*inst + 0.75*poly:2").is_normalized
    assert not Mixture.parse("inst + poly:2").is_normalized
    assert not Mixture.parse("(1+k)^0.1*poly:2").is_normalized


# --- ages ------------------------------------------------------------------------------------------------------------


def mean_age(memory: Memory, k: int) -> float:
    return float(memory.weights(k) @ np.arange(k, -1, -1))


@given(st.lists(st.floats(0, 0.99), min_size=1, max_size=30))
@properties
def test_ages_that_are_asked_for_are_the_ages_there_are(rises: list[float]) -> None:
    ages = [0.0]
    for rise in rises:
        ages.append(rise * (1 + ages[-1]))
    memory = Memory.from_age(ages)
    for k, asked in enumerate(ages):
        assert mean_age(memory, k) == pytest.approx(asked, rel=1e-9, abs=1e-12)


def test_an_age_may_be_annealed() -> None:
    memory = Memory.from_age(58, to=26, start=200, end=600)
    assert memory == Aged(58.0, to=26.0, start=200.0, end=600.0)
    assert str(memory) == "age:58,to=26,start=200,end=600"
    for k, age in [(0, 0), (1, 0.5), (60, 30), (116, 58), (200, 58), (400, 42), (600, 26), (900, 26)]:
        assert mean_age(memory, k) == pytest.approx(age, rel=1e-9)


def test_polynomial_memory_is_a_schedule_of_ages() -> None:
    memory = Memory.from_age(lambda k: k / 9)
    np.testing.assert_allclose(memory.weights(50), Polynomial(8).weights(50), rtol=1e-10)


def test_a_constant_age_is_an_average_and_then_an_exponential_memory() -> None:
    memory = Memory.from_age(9.0)
    np.testing.assert_allclose(memory.weights(17), 1 / 18)
    assert memory.decay(10_000) == 0.9


# --- what is refused -------------------------------------------------------------------------------------------------

REFUSED = {
    "": "empty part",
    "inst +": "empty part",
    "inst + nope:2": "unknown memory 'nope:2'",
    "inst + 5*polly:2": "did you mean",
    "-1*inst": "finite and >= 0, got -1.0",
    "nan*inst": "finite and >= 0, got nan",
    "inf*inst": "finite and >= 0, got inf",
    "1e200*1e200*inst": "finite and >= 0, got inf",
    "(1+k)^40*poly:2": "overflows within",
    "(1+k)^nan*poly:2": "finite a",
    "(1+k)^x*poly:2": "'(1+k)^x'",
    "k*poly:2": "'k'",
    "ramp(0)*poly:2": "steps >= 1, got steps=0",
    "ramp(a)*poly:2": "'ramp(a)'",
    "ramp*poly:2": "'ramp'",
    "cold*poly:2": "exponential memory",
    "5*": "unknown memory ''",
    "0*inst": "at least one part",
    "nadam(1,0)*inst": "0 <= beta < 1",
    "sum(3)*exp:0.9": "'sum(3)'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_bad_mixtures_are_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(REFUSED[text])) as refusal:
        Mixture.parse(text)
    assert text in str(refusal.value) or text == "0*inst"


def test_an_empty_mixture_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one part"):
        Mixture(())


@pytest.mark.parametrize("gain", [-0.5, math.nan, math.inf])
def test_bad_gains_are_refused(gain: float) -> None:
    with pytest.raises(ValueError, match=f"finite and >= 0, got {gain!r}"):
        Gain.constant(gain)
    with pytest.raises(ValueError, match=f"finite and >= 0, got {gain!r}"):
        gain * Polynomial(2)


@pytest.mark.parametrize("gain", ["5", True, None])
def test_gains_of_other_types_are_refused(gain: object) -> None:
    with pytest.raises(TypeError, match="a gain is a number >= 0"):
        Gain.of(gain)  # type: ignore[arg-type]


def test_a_function_that_gives_a_bad_gain_is_named_with_its_step() -> None:
    def falling(k: int) -> float:
        return 2.0 - k

    mixture = Instantaneous() + Gain.of(falling) * Polynomial(2)
    assert str(mixture) == "inst + falling(k)*poly:2"
    assert mixture.is_code
    assert mixture.gain(1) == 2.0
    with pytest.raises(ValueError, match=r"falling\(k\) must be finite and >= 0 .* got -1.0 at step k=3"):
        mixture.gain(3)
    with pytest.raises(ValueError, match="cannot be serialized"):
        mixture.to_dict()


def test_a_mixture_is_refused_where_a_memory_is_required() -> None:
    with pytest.raises(
        ValueError, match=r"time_warp needs a memory.*not a mixture with gain, got memory='inst \+ 5\*poly:2'"
    ):
        as_memory("time_warp", "memory", "inst + 5*poly:2")
    assert as_memory("time_warp", "memory", Mixture.parse("poly:2")) == Polynomial(2)


@pytest.mark.parametrize(
    ("build", "rule"),
    [
        (lambda: Aged(0.0), "finite mean age > 0"),
        (lambda: Aged(5.0, to=3.0), "both to and end"),
        (lambda: Aged(5.0, start=3.0), "takes start only together with to and end"),
        (lambda: Aged(5.0, to=3.0, start=9.0, end=4.0), "start < end"),
        (lambda: Aged(5.0, to=100.0, end=10.0), "1 or more per step"),
        (lambda: Memory.from_age([1.0]), "a_0 = 0, got a_0=1.0"),
        (lambda: Memory.from_age([0.0, 1.0]), r"0 <= a_1 < 1 \+ a_0 = 1.0, got a_1=1.0"),
        (lambda: Memory.from_age([0.0], to=3.0), "with a single age"),
        (lambda: Memory.from_age([]), "empty sequence"),
    ],
)
def test_ages_that_cannot_be_are_refused(build: Callable[[], Memory], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        build()


def test_a_part_needs_a_memory() -> None:
    with pytest.raises(TypeError, match="needs a Memory, got 'poly:2'"):
        Part(Gain.constant(1), "poly:2")  # type: ignore[arg-type]


def test_gains_beside_decays_of_a_sequence() -> None:
    mixture = SUM * FromDecays([0.0, 0.5, 0.75])
    assert mixture.gain(2) == 4.0


def test_a_mixture_without_gain_is_refused_by_its_text() -> None:
    with pytest.raises(ValueError, match=r"mixture '0\*inst': a mixture needs at least one part with a gain above 0"):
        Mixture.parse("0*inst")


def test_a_mixture_of_something_else_than_parts_is_refused() -> None:
    with pytest.raises(TypeError, match=r"consists of Parts, got 'poly:2'; Mixture\.parse reads"):
        Mixture(("poly:2",))  # type: ignore[arg-type]  # it is refused


def test_a_function_is_a_gain_through_gain_of() -> None:
    assert (Gain.of(lambda k: k + 2.0) * Polynomial(2)).gain(3) == 5.0
