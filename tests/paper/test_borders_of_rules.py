"""Rules exactly at their borders, where "at most" and "less than" differ, and on both sides of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from known_results import evidence_of, results_of, usual_loss
from scipy import stats

from memgrad.paper.adaptive import DEGREES, RIVALS, _first, all_above_one, degrees_below_both
from memgrad.paper.claims import FirstVersion, Verdict
from memgrad.paper.evidence import counted, regime_of
from memgrad.paper.rules import (
    FIRST,
    Case,
    Finding,
    Kind,
    compare,
    decided,
    inside,
    mean_and_error,
    p_below,
    seeds_to_decide,
)
from memgrad.paper.step_size_claims import share_case
from memgrad.paper.verdicts import JUDGES
from memgrad.statistics import Estimate

YES, NO, OPEN = "reproduced", "not reproduced", "undecided"

# --- rules for comparisons -------------------------------------------------------------------------------------------

BELOW, TOUCHES_BELOW = Estimate(0.5, 0.25, 0.75), Estimate(0.5, 0.25, 1.0)
ABOVE, TOUCHES_ABOVE = Estimate(2.0, 1.5, 2.5), Estimate(2.0, 1.0, 2.5)
REFERENCE_DIVERGED, DIVERGED, UNKNOWN = Estimate(0.0), Estimate(math.inf), Estimate(math.nan)
ALL = (BELOW, TOUCHES_BELOW, ABOVE, TOUCHES_ABOVE, REFERENCE_DIVERGED, DIVERGED, UNKNOWN)
HOLDS, FAILS, NEITHER = (True, False), (False, True), (False, False)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("less", (HOLDS, NEITHER, FAILS, NEITHER, HOLDS, FAILS, NEITHER)),
        ("more", (FAILS, NEITHER, HOLDS, NEITHER, FAILS, HOLDS, NEITHER)),
        ("not less", (FAILS, HOLDS, HOLDS, HOLDS, FAILS, HOLDS, NEITHER)),
        ("not more", (HOLDS, HOLDS, FAILS, HOLDS, HOLDS, FAILS, NEITHER)),
        ("equal", (FAILS, NEITHER, FAILS, NEITHER, FAILS, FAILS, NEITHER)),
    ],
)
def test_version_1_at_the_ends_of_intervals(kind: Kind, expected: tuple[tuple[bool, bool], ...]) -> None:
    assert tuple(FIRST[kind](ratio) for ratio in ALL) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.9, 1.1, HOLDS),
        (0.875, 1.0, NEITHER),
        (1.0, 1.125, NEITHER),
        (0.5, 0.875, FAILS),
        (1.125, 2.0, FAILS),
        (0.5, 0.9, NEITHER),
        (1.1, 1.5, NEITHER),
    ],
)
def test_equal_is_within_ten_percent_with_the_ends(low: float, high: float, expected: tuple[bool, bool]) -> None:
    ratio = Estimate((low + high) / 2, low, high)
    assert FIRST["equal"](ratio) == inside(ratio, 0.9, 1.1) == expected


def test_a_test_without_spread_is_decided_by_the_side() -> None:
    assert p_below([-1.0, 0.0, 1.0], [0.0, 0.0, 0.0], n=3).tolist() == [0.0, 1.0, 1.0]
    mean, error = mean_and_error([0.1] * 3)  # whose mean in floating point is not 0.1
    assert (float(mean), float(error)) == (0.1, 0.0)
    assert [each.shape for each in mean_and_error(np.zeros((2, 3, 4)))] == [(2, 3), (2, 3)]


def test_a_comparison_of_means_shows_the_mean_and_that_of_ratios_the_ratio() -> None:
    logs = [0.5, 0.75, 1.0]
    assert compare("more", "a", logs, ratio=False).number.value == 0.75
    assert compare("more", "a", logs).number.value == pytest.approx(math.exp(0.75))
    assert compare("more", "a", logs, ratio=False).held is compare("more", "a", logs).held is True


def case_of(p_for: float, p_against: float, **facts: Any) -> Case:
    return Case(Estimate(1.0, n=4), False, False, p_for, p_against, tested=True, **facts)


def test_five_percent_are_significant_and_what_contradicts_comes_first() -> None:
    statuses = [decided([case_of(*p)])[0].status for p in ((0.05, 1.0), (0.051, 1.0), (1.0, 0.05), (0.01, 0.01))]
    assert statuses == ["supported", "open", "contradicted", "contradicted"]


def test_a_family_counts_planned_cases_of_another_regime_and_no_others() -> None:
    plain, other = case_of(0.02, 1.0), case_of(0.02, 1.0, regime="few examples")
    counted_too = case_of(0.02, 1.0, regime="by heart", planned=True)
    by_first_version = Case(Estimate(1.0), held=True, failed=False)
    assert decided([plain, other, by_first_version])[0].p_for == pytest.approx(0.02)
    found = decided([plain, counted_too])
    assert found[0].p_for == pytest.approx(0.04)
    assert [each.status for each in found] == ["supported", "another regime"]
    assert found[1].regime == "by heart"
    # It is counted with its own p-value: a small one leaves a factor less for the next.
    small = case_of(0.001, 1.0, regime="by heart", planned=True)
    assert [each.p_for for each in decided([plain, small])] == [
        pytest.approx(0.02),
        pytest.approx(math.nan, nan_ok=True),
    ]


def test_what_is_not_tested_keeps_the_first_version() -> None:
    cases = [Case(Estimate(1.0), held, failed) for held, failed in (HOLDS, FAILS, NEITHER)]
    assert [each.status for each in decided(cases)] == ["supported", "contradicted", "open"]


@pytest.mark.parametrize("tries", [1, 4, 12])
@pytest.mark.parametrize("kind", ["less", "more"])
def test_the_seeds_that_would_decide_are_the_first_that_do(kind: Kind, tries: int) -> None:
    d = np.array([-0.1, -0.01, 0.02, -0.09])
    mean, spread = d.mean(), d.std(ddof=1)
    needed = next(n for n in range(4, 1001) if stats.t.sf(abs(mean) / spread * math.sqrt(n), n - 1) <= 0.05 / tries)
    case, sign = compare(kind, "", d), 1 if kind == "less" else -1  # negative: against the claim
    assert seeds_to_decide(case, tries) == sign * needed
    finding = decided([case] + [case_of(0.9, 0.9)] * (tries - 1))[0]
    assert finding.seeds == (sign * needed if needed > 4 else 0)


@pytest.mark.parametrize("tries", [1, 4, 12])
def test_the_seeds_of_two_sided_tests_are_the_first_that_decide(tries: int) -> None:
    """A share against its border, and a ratio outside the margin of equality: their p-values are doubled."""
    shares = np.array([0.95, 0.88, 0.93, 0.96, 0.91])
    error = shares.std(ddof=1) / math.sqrt(5)
    found = share_case(Estimate(0.0, -1.0, 1.0, name="share, mlp-mini", n=5), shares.mean(), error, 5)
    ratios = np.log([1.3, 1.05, 1.25, 1.1, 1.4])
    for case, sign, mean, spread in (
        (found, 1, shares.mean() - 0.9, shares.std(ddof=1)),
        (compare("equal", "", ratios), -1, ratios.mean() - math.log(1.1), ratios.std(ddof=1)),
    ):
        level = 0.05 / tries / 2
        needed = next(n for n in range(5, 1001) if stats.t.sf(mean / spread * math.sqrt(n), n - 1) <= level)
        assert seeds_to_decide(case, tries) == sign * needed


def test_no_number_of_seeds_is_asked_for_where_none_would_do() -> None:
    flat = compare("less", "", [-1.0, 1.0, 1e-3, 0.0])
    assert seeds_to_decide(flat, 1) == 0  # more than a thousand
    assert seeds_to_decide(compare("less", "", [-1.0]), 1) == 0
    assert seeds_to_decide(case_of(0.5, 0.5), 1) == 0
    assert seeds_to_decide(case_of(0.0, 1.0), 1) == 0
    assert seeds_to_decide(compare("less", "", [-0.1, -0.2, math.inf]), 1) == 0  # a run diverged


def test_a_finding_is_plain_data_and_back() -> None:
    for finding in (Finding("open", 0.5, 0.25, seeds=7), Finding("another regime", regime="few")):
        data = finding.to_dict()
        assert str(Finding.from_dict(data)) == str(finding)
        assert (data["p_for"] is None) == math.isnan(finding.p_for)
    assert Finding("open", 0.5, 0.25, seeds=7).to_dict() == {
        "status": "open",
        "p_for": 0.5,
        "p_against": 0.25,
        "regime": "",
        "seeds": 7,
    }


def test_a_count_names_what_there_is() -> None:
    def said(*statuses: str) -> str:
        return counted([Finding(each) for each in statuses])  # type: ignore[arg-type]

    assert said("supported", "supported") == "2 of 2 comparisons are supported."
    assert said("supported", "open", "contradicted") == "1 of 3 comparisons are supported, 1 contradicted, 1 open."
    assert said("supported", "another regime") == (
        "1 of 1 comparisons are supported; 1 of another regime decide nothing."
    )
    assert said("another regime") == "no comparison speaks for its data set: 1 of another regime decide nothing."


# --- claims on data --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mean", "first"),
    [
        ("covtype", 0.5, HOLDS),
        ("covtype", 0.75, FAILS),
        ("covtype", 0.25, HOLDS),
        ("mlp", 0.9, HOLDS),
        ("mlp", 0.75, FAILS),
        ("mlp", 0.95, HOLDS),
    ],
)
def test_a_share_is_compared_with_the_border_of_its_problem(name: str, mean: float, first: tuple[bool, bool]) -> None:
    case = share_case(Estimate(mean, mean, mean, 4, name), np.array(mean), np.array(0.1), 4)
    assert (case.held, case.failed, case.tested) == (*first, True)
    border, sign = (0.5, 1) if name == "covtype" else (0.9, -1)
    one = stats.t.cdf(sign * (mean - border) / 0.1, 3)
    assert (case.p_for, case.p_against) == pytest.approx((min(1, 2 * one), min(1, 2 * (1 - one))))
    exact = share_case(Estimate(mean, mean, mean, 4, name), np.array(mean), np.array(0.0), 4)
    assert (exact.p_for, exact.p_against) == ((0, 1) if first == HOLDS else (1, 0))  # the border belongs to the claim


def judged(claim: str, **options: Any) -> Verdict:
    judge = JUDGES[claim]
    return judge.decide(evidence_of(names=judge.needs, **options))


def test_a_run_that_ends_where_it_began_is_not_stable() -> None:
    def flat(name: str, method: str, lr: float, seed: int, share: float) -> float:
        return 2.0 if method == "MemSGD p=4" else usual_loss(name, method, lr, seed, share)

    assert judged("R5", loss=flat).outcome == NO


@pytest.mark.parametrize(
    ("accuracy", "outcome"), [(0.68, YES), (0.74, YES), (0.6796875, NO), (0.7421875, NO), (0.703125, YES)]
)
def test_r10_includes_both_ends(accuracy: float, outcome: str) -> None:
    verdict = judged("R10", accuracy=lambda *_: accuracy)
    assert verdict.outcome == outcome
    assert verdict.first == FirstVersion(outcome, f"the best accuracy is {accuracy:.3f}.")  # type: ignore[arg-type]
    assert verdict.reason == f"the best accuracy is {accuracy:.3f}."
    assert len(verdict.numbers) == 12  # six methods in two settings


def test_r10_takes_the_best_evaluation_of_the_mean_over_seeds() -> None:
    def late_peak(name: str, method: str, lr: float, seed: int, share: float) -> float:
        return 0.7 if share == 0.5 else 0.9 if seed == 0 and share == 0.25 else 0.5

    verdict = judged("R10", accuracy=late_peak)
    assert verdict.numbers[0].value == pytest.approx(0.7)  # not the mean of .9, .5, .5, .5


def test_a_method_that_ends_at_one_percent_has_not_learnt_by_heart() -> None:
    def ending(at: float) -> Any:
        return lambda name, method, lr, seed, share: 1.0 if share == 0 else at

    assert regime_of(results_of("mlp-full", loss=ending(0.0101)), "mlp-full") == ("", False)
    assert regime_of(results_of("mlp-full", loss=ending(0.0099)), "mlp-full") == (
        "SGD ends at 1.0 % of its initial loss",
        True,
    )


def polyadam_tests(p_for: float, p_against: float, **special: tuple[float, float]) -> dict[tuple[int, str], Case]:
    """The same p-values for all pairs, but for those of some degrees against Adagrad."""
    found = {}
    for degree in DEGREES:
        for rival in RIVALS:
            own = special.get(f"p{degree}", (p_for, p_against)) if rival == "Adagrad" else (p_for, p_against)
            found[degree, rival] = case_of(*own)
    return found


def test_a_degree_must_be_below_both_rivals() -> None:
    assert degrees_below_both(polyadam_tests(0.5, 0.5, p4=(0.001, 1.0)))[4] == 1.0
    found = degrees_below_both(polyadam_tests(0.001, 1.0, p4=(0.01, 1.0)))
    assert found == pytest.approx({1: 0.005, 2: 0.005, 4: 0.01, 10: 0.005, 100: 0.005})


def test_all_degrees_must_be_above_one_rival() -> None:
    """Either of two rivals: the p-value counts twice, and 2.5 % are enough."""
    above = dict.fromkeys((f"p{each}" for each in DEGREES), (1.0, 0.025))
    assert all_above_one(polyadam_tests(1.0, 0.5, **above))
    assert not all_above_one(polyadam_tests(1.0, 0.5, **{**above, "p10": (1.0, 0.026)}))
    assert not all_above_one(polyadam_tests(1.0, 0.5, **{**above, "p10": (math.nan, math.nan)}))


def test_version_1_of_a1_doubles_the_p_values_of_degrees_that_are_below() -> None:
    def case(value: float, p: float, interval: bool = True) -> Case:
        ends = (value * 0.9, value * 1.1) if interval else (math.nan, math.nan)
        return Case(Estimate(value, *ends, n=4), False, value > 1, p, 1 - p, tested=True)

    def all_alike(one: Case) -> dict[tuple[int, str], Case]:
        return {(degree, rival): one for degree in DEGREES for rival in RIVALS}

    assert _first(all_alike(case(0.5, 0.001))) == FirstVersion(YES, "the smallest corrected p-value is 0.01.")
    assert _first(all_alike(case(0.5, 0.01))) == FirstVersion(OPEN, "the smallest corrected p-value is 0.1.")
    assert _first(all_alike(case(2.0, 0.99))) == FirstVersion(NO, "the smallest corrected p-value is 1.")
    assert _first(all_alike(case(1.5, 0.001))).outcome == NO  # above is above, however small the p-value
    assert _first(all_alike(case(math.nan, 0.5, interval=False))) == FirstVersion(
        OPEN, "the smallest corrected p-value is not known."
    )
    one_known = all_alike(case(math.nan, 0.5, interval=False)) | {(4, rival): case(0.5, 0.01) for rival in RIVALS}
    assert _first(one_known) == FirstVersion(YES, "the smallest corrected p-value is 0.02.")  # one try
