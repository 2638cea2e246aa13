"""Intervals, paired tests and Holm's correction, against tables, scipy and brute force."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import memgrad.statistics
from memgrad.statistics import (
    NORMAL_QUANTILE,
    Estimate,
    holm,
    interval,
    log_interval,
    of_mean,
    paired_difference,
    paired_p_value,
    ratio_of_means,
    t_quantile,
)

few = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12).filter(lambda x: np.std(x) > 1e-6)


def test_quantiles_are_those_of_printed_tables() -> None:
    # Student's two-sided 95 % points for 1, 2, 9 and 29 degrees of freedom.
    assert [round(t_quantile(n), 3) for n in (2, 3, 10, 30)] == [12.706, 4.303, 2.262, 2.045]


def test_the_normal_quantile_is_students_in_the_limit() -> None:
    assert pytest.approx(stats.norm.ppf(0.975), abs=5e-5) == NORMAL_QUANTILE
    assert t_quantile(10**6) == pytest.approx(NORMAL_QUANTILE, abs=5e-5)


def test_an_estimate_needs_both_ends_or_none() -> None:
    with pytest.raises(ValueError, match=r"'loss' needs both ends of its interval or none, got 0\.5 and nan"):
        Estimate(1.0, low=0.5, name="loss")
    assert not Estimate(1.0).has_interval
    assert Estimate(1.0, 0.5, 2.0).has_interval


def test_estimates_are_equal_if_their_numbers_are_also_where_they_are_nan() -> None:
    again = pickle.loads(pickle.dumps(Estimate(math.nan, name="a")))  # its nan is another object
    assert again == Estimate(math.nan, name="a")
    assert hash(again) == hash(Estimate(math.nan, name="a"))
    assert Estimate(1.0) != Estimate(1.0, 0.5, 2.0)
    assert Estimate(1.0) != Estimate(1.0, name="a")


def test_an_estimate_lies_below_another_if_its_whole_interval_does() -> None:
    assert Estimate(1.0, 0.9, 1.1).below(Estimate(1.2, 1.11, 1.3))
    assert not Estimate(1.0, 0.9, 1.1).below(Estimate(1.2, 1.1, 1.3))
    assert Estimate(1.0).below(Estimate(1.2, 1.1, 1.3))
    assert not Estimate(1.0, 0.9, 1.2).below(Estimate(1.2))


def test_an_estimate_is_plain_data_and_unknown_ends_are_none() -> None:
    assert Estimate(1.0, 0.5, 2.0, 3, "a").to_dict() == {"name": "a", "value": 1.0, "low": 0.5, "high": 2.0}
    assert Estimate(math.inf).to_dict() == {"name": "", "value": math.inf, "low": None, "high": None}


def test_a_difference_of_logarithms_becomes_a_ratio() -> None:
    found = Estimate(math.log(2), 0.0, math.log(8), 5, "r").exp()
    assert (found.value, found.low, found.high) == pytest.approx((2, 1, 8))
    assert (found.n, found.name) == (5, "r")
    assert [Estimate(each).exp().value for each in (math.inf, -math.inf, 1e4)] == [math.inf, 0.0, math.inf]
    assert log_interval([1.0, 4.0, 16.0]).value == pytest.approx(stats.gmean([1.0, 4.0, 16.0]))


def test_the_former_name_still_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="use memgrad.statistics.Estimate"):
        assert memgrad.statistics.Interval is Estimate  # type: ignore[attr-defined]
    assert Estimate(3.0).mean == 3.0
    with pytest.raises(AttributeError, match="no attribute 'Intervall'"):
        memgrad.statistics.Intervall  # type: ignore[attr-defined]  # noqa: B018


def test_the_interval_of_three_numbers_by_hand() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert (found.value, found.n) == (2.0, 3)
    assert found.high - found.value == pytest.approx(4.302652729749464 / math.sqrt(3), rel=1e-12)
    assert found.value - found.low == pytest.approx(found.high - found.value)


@given(few)
def test_intervals_are_scipys(x: list[float]) -> None:
    found = interval(x)
    low, high = stats.ttest_1samp(x, 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9, abs=1e-9)


def test_intervals_contain_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    inside = [(found := interval(rng.normal(3.0, 2.0, 5))).low <= 3.0 <= found.high for _ in range(1000)]
    assert abs(np.mean(inside) - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 1000)  # four standard errors


def test_one_number_has_a_mean_and_no_interval() -> None:
    found = interval([0.7])
    assert (found.value, found.n, str(found)) == (0.7, 1, "0.7")
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert math.isnan(interval([]).value)


def test_equal_numbers_have_an_interval_without_width() -> None:
    found = interval([0.1] * 3)  # whose mean in floating point is not 0.1
    assert (found.value, found.low, found.high) == (0.1, 0.1, 0.1)


@pytest.mark.parametrize(("x", "mean"), [([1.0, math.inf], math.inf), ([1.0, -math.inf], -math.inf)])
def test_an_infinite_number_makes_the_mean_infinite_and_the_interval_unknown(x: list[float], mean: float) -> None:
    found = interval(x)
    assert found.value == mean
    assert math.isnan(found.low)
    assert math.isnan(interval([math.inf, -math.inf]).value)
    assert math.isnan(interval([1.0, math.nan]).value)


@given(few, st.integers(0, 2**32 - 1))
def test_paired_tests_are_scipys(x: list[float], seed: int) -> None:
    y = np.array(x) + np.random.default_rng(seed).normal(0.3, 1.0, len(x))
    theirs = stats.ttest_rel(x, y)
    assert paired_p_value(x, y) == pytest.approx(theirs.pvalue, rel=1e-6)
    found = paired_difference(x, y)
    low, high = theirs.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6, abs=1e-9)


def test_pairing_removes_what_seeds_share() -> None:
    seeds = np.array([1.0, 100.0, 10_000.0])
    apart = paired_difference(seeds + np.array([0.9, 1.0, 1.1]), seeds)
    assert apart.low > 0
    assert interval(seeds + 1).low < 0


def test_p_values_where_the_formula_has_none() -> None:
    assert paired_p_value([1.0, 2.0], [1.0, 2.0]) == 1.0
    assert paired_p_value([2.0, 3.0], [1.0, 2.0]) == 0.0
    for pair in (([1.0], [2.0]), ([], []), ([math.inf, 1.0], [1.0, 1.0]), ([math.inf] * 2, [math.inf] * 2)):
        assert math.isnan(paired_p_value(*pair))


def test_unpaired_or_nested_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="same length, got 2 and 1"):
        paired_difference([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match=r"got the shape \(1, 2\)"):
        interval([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"\[0, 1\], got 1.5"):
        holm([0.5, 1.5])


def test_holms_example_by_hand() -> None:
    # 4 x 0.01 = 0.04; 3 x 0.0125 = 0.0375, not below it; 2 x 0.03 = 0.06; 0.05, not below it.
    assert holm([0.05, 0.01, 0.03, 0.0125]) == pytest.approx([0.06, 0.04, 0.06, 0.04])
    assert holm([]).tolist() == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_an_adjusted_value_is_the_level_at_which_the_procedure_first_rejects(p: list[float]) -> None:
    def rejected(level: float) -> set[int]:
        """Holm's procedure as it was published: step down, and stop at the first that is not small enough."""
        found: set[int] = set()
        for done, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
            if p[i] * (len(p) - done) > level:
                break
            found.add(i)
        return found

    adjusted = holm(p)
    for i, each in enumerate(adjusted):
        assert i in rejected(each) or each == 1.0
        assert each == 0 or i not in rejected(each * (1 - 1e-9) - 1e-300)


def test_a_comparison_that_was_not_made_does_not_count() -> None:
    adjusted = holm([0.01, math.nan, 0.04])
    assert adjusted[[0, 2]] == pytest.approx([0.02, 0.04])
    assert math.isnan(adjusted[1])


def test_equal_differences_have_the_value_that_the_test_tends_to() -> None:
    assert paired_p_value([1.0, 2.0, 5.0], [1.0, 2.0, 5.0]) == 1.0
    assert paired_p_value([2.0, 3.0, 6.0], [1.0, 2.0, 5.0]) == 0.0
    assert paired_p_value([0.0, 0.0], [0.5, 0.5]) == 0.0


def test_two_pairs_are_enough_and_one_is_not() -> None:
    # One degree of freedom is Cauchy's law: t = 2 for the differences 1 and 3, and p = 1 - 2 arctan(2)/pi.
    assert paired_p_value([1.0, 3.0], [0.0, 0.0]) == pytest.approx(1 - 2 * math.atan(2.0) / math.pi, rel=1e-12)
    assert math.isnan(paired_p_value([1.0], [0.0]))


def test_no_numbers_have_no_mean_and_are_none() -> None:
    found = interval([])
    assert found.n == 0
    assert all(map(math.isnan, (found.mean, found.low, found.high)))


def test_equal_numbers_have_themselves_as_their_interval() -> None:
    found = interval([0.1] * 3)  # whose mean is not 0.1 in floats
    assert (found.mean, found.low, found.high, found.n) == (0.1, 0.1, 0.1, 3)


def test_logarithms_of_what_is_not_positive_are_told_without_a_warning() -> None:
    assert log_interval([0.0, 1.0]).value == 0.0
    assert math.isnan(log_interval([-1.0, 1.0]).value)
    assert not log_interval([0.0, 1.0]).has_interval
    assert log_interval([1.0, 4.0], name="a").name == "a"


def test_a_mean_of_many_has_the_normal_interval() -> None:
    found = of_mean(2.0, 3.0, 36, name="a")
    assert (found.value, found.low, found.high, found.n, found.name) == pytest.approx((2.0, 1.02, 2.98, 36, "a"))


def test_intervals_of_tiny_and_huge_numbers() -> None:
    tiny, plain = interval([1e-200, 3e-200, 2e-200]), interval([1.0, 3.0, 2.0])
    assert tiny.value == pytest.approx(plain.value * 1e-200)
    assert (tiny.low, tiny.high) == pytest.approx((plain.low * 1e-200, plain.high * 1e-200))
    assert interval([1e308, 1.5e308]).value == pytest.approx(1.25e308)
    with pytest.raises(ValueError, match="mean is not 0"):
        ratio_of_means([1.0, 2.0], [1.0, -1.0])


def test_a_ratio_to_a_negative_mean_has_its_interval_the_right_way_round() -> None:
    found, mirrored = ratio_of_means([2, 4.1, 6], [-1, -2, -3]), ratio_of_means([2, 4.1, 6], [1, 2, 3])
    assert found.low < found.value < found.high
    assert (found.low, found.high) == pytest.approx((-mirrored.high, -mirrored.low))
