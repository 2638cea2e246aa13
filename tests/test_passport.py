"""Passports against sums over all exact weights, closed forms and asymptotics."""

from __future__ import annotations

import dataclasses
import json
import math

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

from memgrad.memory import Exponential, FromDecays, Instantaneous, Logarithmic, Passport, Polynomial
from memgrad.memory.passport import statistics_from_decays

every_row = pytest.mark.parametrize("row", ROWS, ids=str)
every_example = pytest.mark.parametrize("case", EXAMPLES, ids=name_of)
FAMILY = {row.name: row for row in ROWS}
HUGE = 10**15


# --- against brute force ---------------------------------------------------------------------------------------------


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
def test_the_blocks_of_the_recursion_leave_no_seams(case: Case, block: int) -> None:
    for k in (0, 1, 10, 23):
        mean_age, half_life, squares = case.statistics(k)
        statistics = statistics_from_decays(case.memory, k, block=block)
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
    passport = Logarithmic().passport(k, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(done, k + 1) for done in (1 << 16, 2 << 16, 3 << 16, k + 1)]
    j = np.arange(k + 1)
    w = np.log1p(1 / (j + 1)) / np.log1p(k + 1)  # log(2+j) - log(1+j), over log(2+k)
    # 200,000 roundings, which mostly cancel
    assert passport.mean_age == pytest.approx(float(w @ (k - j)), rel=1e-12)
    assert passport.variance_factor == pytest.approx(float(w @ w), rel=1e-12)


def test_the_recursion_stops_where_what_is_left_weighs_nothing() -> None:
    calls: list[int] = []
    k, case = 10**9, FAMILY["PowerDecay"].case(0.1)
    passport = case.memory.passport(k, progress=lambda done, total: calls.append(done))
    assert len(calls) == 1
    share = case.up_to(k, range(k - 1500, k + 1))  # what is older weighs (1 - 1e9^-.1)^1500 = 1e-88
    assert_close("mean age", passport.mean_age, mp.fsum(share.values()) - 1, rtol=1e-12)
    assert passport.half_life == next(age for age in range(99) if share[k - age - 1] <= 0.5)


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
