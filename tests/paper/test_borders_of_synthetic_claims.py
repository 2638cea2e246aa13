"""Claims without data exactly at their borders, where "at most" and "less than" differ, and on both sides of them."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memgrad.paper import synthetic_claims
from memgrad.paper.continuous import Velocities, VelocityNoise
from memgrad.paper.guarantees import Guarantee, _ratio, family_loss
from memgrad.paper.odes import HEAVY_BALL_WINDOW, MEMORY_WINDOW, Descent, Odes
from memgrad.paper.power_laws import Slope
from memgrad.paper.settings import ConstantNoiseSettings, OdesSettings, QuadraticNoiseSettings, SmoothingSettings
from memgrad.paper.synthetic_claims import ExpectedLosses
from memgrad.paper.verdicts import JUDGES
from memgrad.statistics import Estimate

YES, NO, OPEN = "reproduced", "not reproduced", "undecided"


@pytest.mark.parametrize(("ratio", "outcome"), [(1.0, OPEN), (1.5, YES), (2.0, YES), (0.5, NO), (3.0, NO)])
def test_s2_takes_a_ratio_of_2_and_not_of_1(ratio: float, outcome: str) -> None:
    losses = np.array([[ratio] * 150, [1.0] * 150, [1.0] * 150])
    result: Any = SimpleNamespace(settings=SmoothingSettings(), final_loss=losses, tail_loss=losses)
    verdict = JUDGES["S2"].decide(result)
    assert verdict.outcome == outcome
    assert verdict.reason == f"the ratio is {'in' if outcome == YES else 'not shown to be in'} (1, 2]."
    assert [(each.value, each.n) for each in verdict.numbers] == [(ratio, 150), (ratio, 150), (1.0, 150), (ratio, 150)]


def test_s2_compares_the_last_steps_and_reports_the_last_half() -> None:
    final, tail = np.array([[1.5] * 150, [9.0] * 150, [1.0] * 150]), np.array([[3.0] * 150, [9.0] * 150, [1.0] * 150])
    result: Any = SimpleNamespace(settings=SmoothingSettings(), final_loss=final, tail_loss=tail)
    assert [each.value for each in JUDGES["S2"].decide(result).numbers] == [1.5, 1.5, 1.0, 3.0]


def velocities(settings: Any, off: float) -> Velocities:
    """Exact moments, but for means that are off by so many standard errors, in numbers without rounding."""
    one, times = np.ones(10), np.arange(1.0, 11.0)
    exact = VelocityNoise(one, one, one, one)
    return Velocities(settings, times, exact, VelocityNoise(one + off / 32, one, one, one))


@pytest.mark.parametrize(("claim", "settings"), [("S3", ConstantNoiseSettings), ("S4", QuadraticNoiseSettings)])
@pytest.mark.parametrize(("off", "outcome"), [(0.0, YES), (4.0, YES), (-4.0, YES), (4.25, NO), (-4.25, NO)])
def test_four_standard_errors_are_allowed(
    claim: str, settings: Any, off: float, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic_claims, "velocity_variance", lambda _, t: t / 8)
    verdict = JUDGES[claim].decide(velocities(settings(runs=1024), off))
    assert verdict.outcome == outcome
    [farthest] = [each for each in verdict.numbers if each.name == "farthest, in standard errors"]
    assert farthest.value == abs(off)
    [last] = [each for each in verdict.numbers if each.name == "E V_N at t=10 (exact 1)"]
    assert (last.value, last.low, last.high) == pytest.approx(
        (1 + off / 32, 1 + (off - 1.96) / 32, 1 + (off + 1.96) / 32)
    )
    [spread] = [each for each in verdict.numbers if each.name == "Var V_MG at t=2 (exact 1)"]
    half = 1.96 * math.sqrt(2 / 1023)  # Var of a sample variance of normal numbers: 2 sigma^4/(n - 1)
    assert (spread.value, spread.low, spread.high) == pytest.approx((1, 1 - half, 1 + half))


@pytest.mark.parametrize(("claim", "settings"), [("S3", ConstantNoiseSettings), ("S4", QuadraticNoiseSettings)])
def test_a_thousand_runs_are_enough(claim: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_claims, "velocity_variance", lambda _, t: t / 8)
    assert [JUDGES[claim].decide(velocities(settings(runs=n), 0.0)).outcome for n in (1000, 999)] == [YES, OPEN]


@pytest.mark.parametrize(("share", "outcome"), [(1.009, YES), (0.991, YES), (1.011, NO), (0.989, NO)])
def test_s4_allows_one_percent_on_either_side(share: float, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_claims, "velocity_variance", lambda _, t: share * t / 8)
    verdict = JUDGES["S4"].decide(velocities(QuadraticNoiseSettings(), 0.0))
    assert verdict.outcome == outcome
    assert ("not within 1 % of 1/8" in verdict.reason) == (outcome == NO)
    assert [each.value for each in verdict.numbers[:3]] == pytest.approx([share / 8] * 3)


@pytest.mark.parametrize(
    ("memory", "nesterov", "outcome", "crossings"),
    [
        ([4, 3, 2, 2], [3, 2, 3, 3], YES, [1]),  # flat is neither growth nor fall: it breaks neither
        ([4, 3, 2, 1], [4, 2, 3, 4], NO, [0, 1]),  # equal is not ahead: two crossings
        ([4, 3, 2, 1], [3, 3, 3, 4], YES, [0]),  # equal is not ahead: one crossing
    ],
)
def test_s5_where_losses_are_equal(
    memory: list[float], nesterov: list[float], outcome: str, crossings: list[int]
) -> None:
    result = ExpectedLosses(np.arange(4.0), np.array(memory), np.array(nesterov), scale="here")
    verdict = JUDGES["S5"].decide(result)
    assert (verdict.outcome, verdict.scale) == (outcome, "here")
    assert [each.value for each in verdict.numbers if each.name.startswith("crossing ")] == crossings


def test_s5_reads_its_numbers_from_the_last_crossing_on() -> None:
    result = ExpectedLosses(np.arange(5.0), np.array([9, 8, 4, 2, 3.0]), np.array([5, 6, 8, 12, 16.0]), scale="")
    assert {each.name: each.value for each in JUDGES["S5"].decide(result).numbers} == {
        "crossings": 1,
        "crossing 1, t": 1,
        "E f_N, end / last crossing": 2,
        "E f_MG, end / last crossing": 0.75,
        "E f_MG lowest at t": 3,
        "E f_MG, end / lowest": 1.5,
    }


def test_s6_allows_a_distance_of_1e_8() -> None:
    for distance, outcome in ((1e-8, YES), (1.1e-8, NO)):
        assert JUDGES["S6"].decide({"quadratic": 0.0, "quartic": distance}).outcome == outcome


@pytest.mark.parametrize(
    ("slope", "peaks", "outcome"),
    [(0.05, 3, YES), (-0.05, 3, YES), (0.06, 3, NO), (-0.06, 3, NO), (0.0, 2, OPEN)],
)
@pytest.mark.parametrize(("kind", "power"), [("momentum", 0.0), ("memory", 0.5)])
def test_s7_allows_slopes_that_are_off_by_005_and_needs_three_peaks(
    slope: float, peaks: int, outcome: str, kind: str, power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = []

    def fitted(t: Any, loss: Any, window: tuple[float, float]) -> tuple[float, float, int]:
        windows.append(window)
        return slope, 0.1, peaks

    monkeypatch.setattr(synthetic_claims, "fitted_slope", fitted)
    x = np.ones(1)
    flat = Descent("a", kind, "", power, x, x, x, x, x, x)
    verdict = JUDGES["S7"].decide(Odes(OdesSettings(), (flat, dataclasses.replace(flat, power=None))))
    assert verdict.outcome == outcome
    assert windows == [HEAVY_BALL_WINDOW if kind == "momentum" else MEMORY_WINDOW]
    [number] = verdict.numbers  # none for the exponential one
    assert (number.low, number.high) == pytest.approx((slope - 0.196, slope + 0.196))


def test_s7_without_slopes_is_open() -> None:
    verdict = JUDGES["S7"].decide(Odes(OdesSettings(), ()))
    assert (verdict.outcome, verdict.numbers[0].value) == (OPEN, 0.0)


def test_a_bound_may_be_reached_and_exceeded_by_rounding_alone() -> None:
    assert [Guarantee("a", ratio).holds for ratio in (1.0, 1 + 1e-10, 1 + 1e-8)] == [True, True, False]


def test_the_ratio_to_a_bound_is_the_largest_one_above_rounding() -> None:
    true = np.array([1.0, 0.5, 1e-27])  # the last is a rounding error of the first
    bound: Any = SimpleNamespace(value=np.array([2.0, 0.625, 1e-40]))
    assert _ratio(true, bound) == pytest.approx(0.8)
    assert _ratio(np.array([1.0, 1e-25]), SimpleNamespace(value=np.array([2.0, 1e-25]))) == pytest.approx(1.0)  # type: ignore[arg-type]


def test_the_family_of_the_master_lemma_is_the_iteration_in_its_definition() -> None:
    """x+ = x + b (x - x_before) - s g with b = lambda_k/(lambda_+ + 1), s = lr/(lambda_+ + 1), as a linear map."""
    lambdas, lr, sigma = [0.0, 0.7, 1.2, 2.0], 0.3, 0.5
    spectrum, x0 = np.array([1.0, 0.2]), np.array([1.0, -2.0])
    expected = np.zeros(4)
    for h, start in zip(spectrum, x0, strict=True):
        mean, second = np.array([start, start]), np.full((2, 2), start**2)  # of (x, x before)
        expected[0] += h * second[0, 0] / 2
        for k in range(3):
            b, step = lambdas[k] / (lambdas[k + 1] + 1), lr / (lambdas[k + 1] + 1)
            matrix = np.array([[1 + b - step * h, -b], [1.0, 0.0]])
            mean = matrix @ mean
            second = matrix @ second @ matrix.T + np.diag([(step * sigma) ** 2, 0.0])
            expected[k + 1] += h * second[0, 0] / 2
    assert family_loss(lambdas, lr, spectrum, x0, sigma) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("family", "exponent", "fits"),
    [
        ("SGD", 0.02, True),
        ("SGD", -0.02, True),
        ("SGD", 0.025, False),
        ("SGD", -0.025, False),
        ("mixture", 0.03, True),
        ("mixture", -0.03, True),
        ("mixture", 0.035, False),
        ("mixture", -0.035, False),
    ],
)
def test_an_exponent_may_be_off_by_its_margin(family: str, exponent: float, fits: bool) -> None:
    assert Slope(1.5, 0.5, family, Estimate(exponent), 0.0).fits is fits
