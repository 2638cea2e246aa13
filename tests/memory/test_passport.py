"""Passports against sums over all exact weights, closed forms and asymptotics."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_table import (
    EXAMPLES,
    ROWS,
    Case,
    Row,
    assert_close,
    check_passport,
    check_statistics,
    log_uniform,
    mp,
    name_of,
    properties,
)

from memgrad.memory import (
    Exponential,
    FromDecays,
    Instantaneous,
    Logarithmic,
    Memory,
    Passport,
    Polynomial,
    PowerDecay,
    Sampled,
    Stretched,
    long_past,
)
from memgrad.memory.long_past import WALKED, sum_the_past

every_row = pytest.mark.parametrize("row", ROWS, ids=str)
every_example = pytest.mark.parametrize("case", EXAMPLES, ids=name_of)
FAMILY = {row.name: row for row in ROWS}
HUGE = 10**15


# --- against brute force ---------------------------------------------------------------------------------------------


@pytest.mark.most(15)
@every_example
def test_a_passport_sums_the_exact_weights(case: Case) -> None:
    for k in (0, 1, 2, 10, 1000):
        check_passport(case, min(k, case.row.last))


@every_row
@properties
@given(data=st.data())
def test_a_passport_sums_the_exact_weights_whatever_the_parameters(row: Row, data: st.DataObject) -> None:
    check_passport(data.draw(row.cases()), data.draw(st.integers(0, 40)))


@every_example
@pytest.mark.parametrize("block", [1, 2, 10, 11, 12])
def test_the_blocks_of_the_recursion_leave_no_seams(case: Case, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memgrad.memory.long_past._BLOCK", block)
    for k in (0, 1, 10, 23):
        mean_age, half_life, squares = case.statistics(k)
        statistics = sum_the_past("it", k, [(1.0, case.memory)]).statistics
        # 24 steps of three roundings; the recursion may leave out what weighs 1e-17 of the whole.
        assert_close(f"mean age of {case} at {k}", statistics.mean_age, mean_age, rtol=1e-13)
        assert_close(f"sum of squares of {case} at {k}", statistics.sum_of_squares, squares, rtol=1e-13)
        assert statistics.half_life == half_life


# --- properties ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [row for row in ROWS if row.newest_falls], ids=str)
@properties
@given(data=st.data())
def test_averaging_more_never_adds_variance_where_the_newest_weight_falls(row: Row, data: st.DataObject) -> None:
    # S_{k+1} = b^2 S_k + (1-b)^2 <= S_k follows by induction from S_k >= (1-b)/(1+b), true while 1 - b_k falls.
    memory, k = data.draw(row.cases()).memory, data.draw(st.integers(0, 300))
    now, next_ = memory.passport(k).variance_factor, memory.passport(k + 1).variance_factor
    # Two roundings: a short memory has reached its limit, and an unmoved S may round up.
    assert 1 / (k + 2) * (1 - 1e-14) <= next_ <= now * (1 + 4e-16) <= 1 + 4e-16


@properties
@given(p=log_uniform(0.1, 200), k=st.integers(1, 1000))
def test_the_local_degree_of_a_polynomial_memory_is_its_degree(p: float, k: int) -> None:
    assert Polynomial(p).passport(k).local_degree == pytest.approx(p, rel=1e-14)  # four roundings


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 2, 10**6, HUGE])
def test_the_local_degree_stays_the_degree_at_huge_steps(p: int, k: int) -> None:
    assert Polynomial(p).passport(k).local_degree == pytest.approx(p, rel=1e-14)  # four roundings


@properties
@given(beta=st.floats(0.01, 0.9999))
def test_the_equivalent_beta_of_an_exponential_memory_tends_to_its_own(beta: float) -> None:
    # The mean age b/(1-b) of b = 0.9999 is rounded with 1 - b, to 1e-12. What is left of the start is 1e-400.
    assert Exponential(beta).passport(10**7).equivalent_beta == pytest.approx(beta, rel=1e-12)
    assert Exponential(0.9).passport(1).equivalent_beta < 0.4  # mean age .9/1.9: tends, and is not equal


@pytest.mark.parametrize("p", [1, 4, 100, 949, 5000])
def test_a_tie_counts_as_reached(p: int) -> None:
    # b_k = k/(k+p) = 1/2 at k = p: the newest gradient weighs as much as all others.
    assert Polynomial(p).passport(p).half_life == 0


@pytest.mark.parametrize("k", [1, 3, 101, 10**6 + 1])
def test_half_of_an_even_number_of_equal_weights_is_a_tie(k: int) -> None:
    assert Polynomial(1).passport(k).half_life == (k - 1) // 2  # (k - a)/(k + 1) <= 1/2


def test_a_degree_beyond_measure_has_no_memory() -> None:
    for p in (1e20, 1e300):
        assert Polynomial(p).passport(5).half_life == 0  # b_5 = 5/(5 + p)
        assert Polynomial(p).passport(50).half_life == 0


# --- huge steps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 3])
def test_passports_of_polynomial_memories_at_a_huge_step(p: int) -> None:
    k, exactly = HUGE, mp.mpf(HUGE)
    squares = {
        1: 1 / (exactly + 1),
        2: 2 * (2 * exactly + 3) / (3 * (exactly + 1) * (exactly + 2)),
        3: 3 * (3 * exactly**2 + 12 * exactly + 10) / (5 * (exactly + 1) * (exactly + 2) * (exactly + 3)),
    }[p]
    check_statistics(FAMILY["Polynomial"].case(p), k, exactly / (p + 1), squares)
    passport = Polynomial(p).passport(k)
    assert passport.variance_factor == pytest.approx(p**2 / ((2 * p - 1) * k), rel=10 / k + 1e-15)

    def reached(age: int) -> bool:  # M_{k-age} <= M_{k+1}/2, in integers
        return 2 * math.prod(range(k - age, k - age + p)) <= math.prod(range(k + 1, k + 1 + p))

    # Steps cannot be told apart where the share of one is below the 1e-12 that counts as a tie: 1e-12/(p/k) of them.
    slack = math.ceil(3e-12 * k / p)
    assert reached(passport.half_life + slack)
    assert not reached(passport.half_life - slack)


@pytest.mark.parametrize("x", [1e-17, 1e-15, 1e-14, 1e-10, 0.2499, 0.25, 0.1, 3.0, 50.0])
@pytest.mark.parametrize("k", [1, 2, 1000, HUGE])
def test_passports_of_exponential_memories_short_and_long(x: float, k: int) -> None:
    beta, n = mp.exp(-mp.mpf(x)), mp.mpf(k) + 1
    mean_age = beta / (1 - beta) - n * beta**n / (1 - beta**n)
    squares = (1 - beta) * (1 + beta**n) / ((1 + beta) * (1 - beta**n))
    check_statistics(FAMILY["Exponential.from_alpha"].case(x, 1.0), k, mean_age, squares)
    # M_{k-a} <= M_{k+1}/2 solved for a, with M = e^{xk} - 1
    age = k - mp.log1p(mp.expm1(x * n) / 2) / x
    half_life = Exponential.from_alpha(x).passport(k).half_life
    assert abs(half_life - max(0, math.ceil(age - 1e-9))) <= 4e-12 * k  # a tie is 1e-12 of the weight


# --- the recursion at work -------------------------------------------------------------------------------------------


def test_a_long_recursion_reports_its_progress_block_by_block() -> None:
    calls: list[tuple[int, int]] = []
    k = 200_000
    memory = FromDecays(lambda k: math.log1p(k) / math.log1p(k + 1))
    passport = memory.passport(k, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(done, k + 1) for done in (1 << 16, 2 << 16, 3 << 16, k + 1)]
    j = np.arange(k + 1)
    w = np.log1p(1 / (j + 1)) / np.log1p(k + 1)  # log(2+j) - log(1+j), over log(2+k)
    # 200,000 roundings, which mostly cancel; and 1 - b is only as exact as b
    assert passport.mean_age == pytest.approx(float(w @ (k - j)), rel=1e-10)
    assert passport.variance_factor == pytest.approx(float(w @ w), rel=1e-9)


def test_the_recursion_stops_where_what_is_left_weighs_nothing() -> None:
    calls: list[int] = []
    k, case = 10**9, FAMILY["PowerDecay"].case(0.1)
    statistics = sum_the_past("it", k, [(1.0, case.memory)], lambda done, total: calls.append(done)).statistics
    assert len(calls) == 1
    share = case.up_to(k, range(k - 1500, k + 1))  # what is older weighs (1 - 1e9^-.1)^1500 = 1e-88
    for found in (statistics, case.memory.passport(k)):
        assert_close("mean age", found.mean_age, mp.fsum(share.values()) - 1, rtol=1e-12)
        assert found.half_life == next(age for age in range(99) if share[k - age - 1] <= 0.5)


# --- a long past, by panels ------------------------------------------------------------------------------------------

LONG = [
    *("poly:0.3", "poly:0.5", "poly:1.5", "poly:7", "poly:33.3", "poly:1000", "poly:12345.6", "poly:3e6"),
    *(
        "log",
        "log:h=1e-5",
        "log:h=1e200",
        "stretch:0.1,h=0.01",
        "stretch:0.3",
        "stretch:0.7",
        "stretch:1.5",
        "stretch:90",
    ),
    *("power:0.2", "power:0.5", "power:0.8", "power:0.95", "power:1", "power:1.5", "power:30"),
    *("exp:0.9", "exp:0.99999", "exp:alpha=1e-9", "inst"),
]


def summed(memory: Memory, k: int) -> tuple[float, int, float]:
    """Mean age, half-life and squares by the recursions A = b (1 + A), S = b^2 S + (1-b)^2, and a sum of logarithms."""
    j = np.arange(k + 1)
    b, fresh = memory.decay(j), memory.fresh(j)
    age = squares = 0.0
    for b_j, f_j in zip(b.tolist(), fresh.tolist(), strict=True):
        age, squares = b_j * (1 + age), b_j * b_j * squares + f_j * f_j
    with np.errstate(divide="ignore"):
        logs = np.where(fresh < 0.5, np.log1p(-fresh), np.log(b))[::-1]
    older = np.exp(np.cumsum(logs))
    return age, int(np.argmax(older <= 0.5 + 1e-11)), squares


@pytest.mark.most(15)
@pytest.mark.parametrize("k", [WALKED + 1, 300_001])
@pytest.mark.parametrize("text", LONG)
def test_a_long_past_is_summed_as_a_walk_sums_it(text: str, k: int) -> None:
    memory = Memory.parse(text)
    passport, (age, half_life, squares) = memory.passport(k), summed(memory, k)
    assert passport.mean_age == pytest.approx(age, rel=1e-9, abs=1e-300)
    assert passport.variance_factor == pytest.approx(squares, rel=1e-9)
    assert passport.half_life == half_life


@pytest.mark.parametrize("text", LONG)
def test_any_step_has_a_passport_from_some_thousand_decays(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, asked = Memory.parse(text), 0
    fresh = type(memory)._fresh

    def counting(self: Memory, k: Any, xp: Any) -> Any:
        nonlocal asked
        asked += np.size(k)
        return fresh(self, k, xp)

    monkeypatch.setattr(type(memory), "_fresh", counting)
    for k in (10**6, 10**9, 10**12, HUGE):
        passport = memory.passport(k)
        assert 0 <= passport.mean_age <= k * (1 + 1e-12)
        assert 1 / (k + 1) * (1 - 1e-9) <= passport.variance_factor <= 1 + 1e-12
    assert asked < 4 * 100_000  # a tenth of a second each


@pytest.mark.parametrize("k", [10**6, 10**12, HUGE])
@pytest.mark.parametrize("p", ["0.75", "1.5", "2.5", "7", "40.25"])
def test_the_passport_of_a_real_degree_at_a_huge_step(p: str, k: int) -> None:
    """Sum of squares: (p/M_k)^2 sum (Gamma(j+p)/Gamma(j+1))^2 by mpmath's integrals; half-life by Gamma."""
    passport, q, first = Polynomial(float(p)).passport(k), mp.mpf(p), 400
    with mp.workdps(40):

        def square(j: Any) -> Any:  # ((j+1)^(p-1) rising, over the same of k)^2
            return mp.exp(2 * (mp.loggamma(j + q) - mp.loggamma(j + 1) - mp.loggamma(k + q + 1) + mp.loggamma(k + 1)))

        head = mp.fsum(square(mp.mpf(j)) for j in range(first))
        cuts = [mp.mpf(first) * mp.mpf(10) ** i for i in range(30) if first * 10**i < k] + [mp.mpf(k)]
        between = sum(mp.quad(square, cuts[i : i + 2]) for i in range(len(cuts) - 1))
        ends = (square(mp.mpf(first)) + square(mp.mpf(k))) / 2
        slopes = (mp.diff(square, k, h=mp.mpf(k) / 10**9) - mp.diff(square, first)) / 12
        squares = q**2 * (head + between + ends + slopes)

        def older(age: int) -> Any:  # M_{k-age}/M_{k+1}
            n = mp.mpf(k - age)
            return mp.exp(mp.loggamma(n + q) - mp.loggamma(n) - mp.loggamma(k + 1 + q) + mp.loggamma(k + 1))

        assert passport.variance_factor == pytest.approx(float(squares), rel=1e-9)
        slack = 0 if k < 10**13 or q == int(q) else math.ceil(1e-13 * k)
        assert older(passport.half_life + slack) <= 0.5
        assert older(passport.half_life - 1 - slack) > 0.5
    assert passport.mean_age == pytest.approx(k / (float(p) + 1), rel=1e-15)


@pytest.mark.parametrize(
    "k", [10**6, 10**12, (3 * 10**7) ** 2 - 3, (3 * 10**7) ** 2 - 2, HUGE]
)  # on both sides of a tie
def test_the_passport_of_logarithmic_memory_at_a_huge_step(k: int) -> None:
    """Mean age: log((k+1)!)/log(k+2), by Stirling; the half-life is k - n, n the largest with (1+n)^2 <= 2 + k."""
    passport = Logarithmic().passport(k)
    with mp.workdps(40):
        mean_age = mp.loggamma(mp.mpf(k) + 2) / mp.log(k + 2)
        squares = mp.nsum(lambda j: mp.log1p(1 / (1 + j)) ** 2, [0, mp.inf]) - mp.mpf(1) / (k + 1.5)
        assert passport.mean_age == pytest.approx(float(mean_age), rel=1e-12)
        assert passport.variance_factor == pytest.approx(float(squares / mp.log(k + 2) ** 2), rel=1e-9)
    assert passport.half_life == k - (math.isqrt(k + 2) - 1)


@pytest.mark.parametrize(("alpha", "h", "k"), [(0.1, 0.01, HUGE), (0.3, 1.0, 10**9)])
def test_the_passport_of_stretched_memory_at_a_huge_step(alpha: float, h: float, k: int) -> None:
    """Sums of M_n/M_{k+1} and of (M_{n+1} - M_n)^2 by mpmath's integrals, with Euler and Maclaurin's ends."""
    passport, first = Stretched(alpha, h=h).passport(k), 1000
    with mp.workdps(30):
        end = (mp.mpf(k + 1) * h) ** mp.mpf(alpha)

        def share(n: Any) -> Any:
            t = (mp.mpf(n) * h) ** mp.mpf(alpha)
            return mp.exp(t - end) * mp.expm1(-t) / mp.expm1(-end)

        def total(f: Any, last: int) -> Any:
            cuts = [mp.mpf(first) * mp.mpf(10) ** i for i in range(12) if first * 10**i < k / 100]
            cuts += [mp.mpf(last) * (1 - mp.mpf(10) ** -i) for i in range(1, 9)] + [mp.mpf(last)]
            between = sum(mp.quad(f, cuts[i : i + 2]) for i in range(len(cuts) - 1))
            slopes = [
                (f(n + mp.mpf(n) / 10**9) - f(n - mp.mpf(n) / 10**9)) / (2 * mp.mpf(n) / 10**9) for n in (first, last)
            ]
            return (
                mp.fsum(f(n) for n in range(first)) + between + (f(first) + f(last)) / 2 + (slopes[1] - slopes[0]) / 12
            )

        assert passport.mean_age == pytest.approx(float(total(share, k)), rel=1e-9)
        squares = total(lambda n: (share(n + 1) - share(n)) ** 2, k)
        assert passport.variance_factor == pytest.approx(float(squares), rel=1e-9)
        slack = math.ceil(1e-13 * k) if k > 10**13 else 0
        assert share(k - passport.half_life - slack) <= 0.5
        assert share(k - passport.half_life + 1 + slack) > 0.5


@pytest.mark.parametrize("c", ["0.5", "0.8", "0.95"])
def test_the_passport_of_power_decay_at_a_huge_step(c: str) -> None:
    """R(a) = exp(-sum (log 1/b)) by mpmath's integral of the logarithm, and the sums over ages as integrals too."""
    k = HUGE
    passport = PowerDecay(float(c)).passport(k)
    with mp.workdps(25):
        e, n = mp.mpf(float(c)), mp.mpf(k + 1)

        # log 1/b_j = sum_i (j+1)^(-ci)/i. Euler-Maclaurin over j = k-a+1..k, whose ends' terms are those of slowly
        # varying functions: the sum is the integral between the middles, off by (slope)/24, 1e-25.
        def lost(a: Any) -> Any:
            terms = [n + mp.mpf(1) / 2, n - a + mp.mpf(1) / 2]
            return mp.fsum(
                (terms[0] ** (1 - e * i) - terms[1] ** (1 - e * i)) / (1 - e * i) / i for i in range(1, 7) if e * i != 1
            ) + mp.fsum(mp.log(terms[0] / terms[1]) / i for i in range(1, 7) if e * i == 1)

        scale = n**e
        cuts = [mp.mpf(1) / 2 + scale * x for x in (0, 1, 2, 4, 8, 16, 32, 45) if scale * x < n / 2] + [
            n * mp.mpf("0.5")
        ]
        cuts += [n * (1 - mp.mpf(10) ** -i) for i in range(1, 9)] if c == "0.95" else []
        mean_age = mp.quad(lambda a: mp.exp(-lost(a)), cuts)
    assert passport.mean_age == pytest.approx(float(mean_age), rel=1e-9)
    with mp.workdps(25):
        slack = math.ceil(1e-13 * passport.half_life)
        assert mp.exp(-lost(passport.half_life + 1 + slack)) <= 0.5
        assert mp.exp(-lost(passport.half_life - slack)) > 0.5


@pytest.mark.parametrize("k", [WALKED + 1, 10**6 + 1, 10**9 + 1, 10**12 + 1])
def test_a_tie_in_a_long_past_counts_as_reached(k: int) -> None:
    assert PowerDecay(1).passport(k).half_life == (k - 1) // 2  # equal weights, and an even number of them
    assert Polynomial(1).passport(k).half_life == (k - 1) // 2


@pytest.mark.parametrize("text", ["exp:0.5", "exp:0.999999", "exp:alpha=1e-14", "exp:alpha=1e-20"])
@pytest.mark.parametrize("k", [0, 1, 2, 1000, HUGE])
def test_the_half_life_of_exponential_memory_is_an_exact_integer(text: str, k: int) -> None:
    memory = Memory.parse(text)
    assert isinstance(memory, Exponential)
    with mp.workdps(400):  # 2^-1000 decides for exp:0.5
        x = -mp.log(memory.beta) if "alpha" not in text else mp.mpf(memory.alpha)

        def reached(age: int) -> bool:
            return age >= 0 and 2 * mp.expm1(x * (k - age)) <= mp.expm1(x * (k + 1))

        half_life = memory.passport(k).half_life
        assert reached(half_life)
        assert not reached(half_life - 1)


def test_a_memory_function_in_code_has_a_passport_at_once() -> None:
    """M_n = n^2: mean age sum n^2/(k+1)^2, weights (2j+1)/(k+1)^2."""
    memory, k = Sampled(lambda t: t**2, lambda t: 2 * t, h=0.5), 10**12
    passport = memory.passport(k)
    n = k + 1
    assert passport.mean_age == pytest.approx(k * (k + 1) * (2 * k + 1) / 6 / n**2, rel=1e-12)
    assert passport.variance_factor == pytest.approx((4 * n**3 - n) / 3 / n**4, rel=1e-9)  # sum of (2j+1)^2
    assert passport.half_life == k - math.isqrt(n * n // 2)


def test_a_memory_that_is_not_smooth_says_what_its_passport_would_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_past, "_PATIENCE", 1 << 16)
    jagged = Sampled(lambda t: t + np.sin(3 * t) / 9, lambda t: 1 + np.cos(3 * t) / 3, h=0.1)
    with pytest.raises(ValueError, match=r"at step k=10{12} would need.*not smooth in k: about 2\.\d days.*smaller k"):
        jagged.passport(10**12)


def test_a_step_beyond_the_floats_is_refused() -> None:
    assert Polynomial(1.5).passport(10**100).variance_factor == pytest.approx(1.125e-100, rel=1e-9)  # p^2/((2p-1) k)
    with pytest.raises(ValueError, match=r"passport of poly:1\.5 can be computed up to step k=1e100, got k=1e\+300"):
        Polynomial(1.5).passport(10**300)


def test_decays_in_code_say_what_a_long_walk_would_take() -> None:
    memory = FromDecays(lambda k: k / (k + 1))
    with pytest.raises(
        ValueError, match=r"passport of decays:<lambda> at step k=10{11} needs.*about 3\.5 days.*progress"
    ):
        memory.passport(10**11)
    short = FromDecays(lambda k: min(k / (k + 1), 0.9))
    assert short.passport(10**11).half_life == 6  # which forgets, and so ends soon


# --- the value -------------------------------------------------------------------------------------------------------


def test_a_passport_prints_as_a_table() -> None:
    assert str(Polynomial(1).passport(9)).splitlines() == [
        "memory             poly:1",
        "step k             9",
        "mean age           4.5 steps",
        "half-life          4 steps",
        "effective samples  10",
        "variance factor    0.1",
        "newest weight      0.1",
        "local degree p     1",
        "equivalent beta    0.818182",
    ]
    assert ("local degree p", "any") in Polynomial(1).passport(0).rows()
    assert ("local degree p", "inf") in Instantaneous().passport(7).rows()


def test_a_long_memory_does_not_break_the_table() -> None:
    lines = str(FromDecays([0, *[0.123456789] * 100]).passport(50)).splitlines()
    assert len(lines) == 9
    assert max(map(len, lines)) <= 60
    assert lines[0].endswith("...")


def test_a_passport_is_a_frozen_value_and_plain_data() -> None:
    passport = Polynomial(2).passport(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        passport.mean_age = 0.0
    assert passport == Polynomial(2.0).passport(3)
    assert Passport(**json.loads(json.dumps(passport.to_dict()))) == passport


@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("k", [0, 1, 2, 5, 12])
def test_integer_degrees_have_the_exact_variance_factor(p: int, k: int) -> None:
    weights = [Fraction(1)]
    for i in range(1, k + 1):
        b = Fraction(i, i + p)
        weights = [b * w for w in weights] + [1 - b]
    passport = Polynomial(p).passport(k)
    assert passport.variance_factor == pytest.approx(float(sum(w * w for w in weights)), rel=1e-14)
    assert passport.mean_age == pytest.approx(float(sum((k - i) * w for i, w in enumerate(weights))), rel=1e-14)


def test_a_long_ramp_has_the_passport_of_its_weights() -> None:
    memory = Memory.parse("expramp:0.99999,0.9,30000")
    weights = memory.weights(150_000)
    assert memory.passport(150_000).mean_age == pytest.approx(float(weights[::-1] @ np.arange(150_001)), rel=1e-9)
