"""Exponents of curves and of theory."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from memgrad.cli import app
from memgrad.dynamics import Spectrum, exact_risk, fit_exponent, kappa_of, predicted_exponent, sgd_limit
from memgrad.memory import Mixture


def test_a_pure_power_is_found_on_any_grid() -> None:
    for k in (np.arange(1, 2001), np.unique(np.geomspace(1, 1e6, 100).astype(int))):
        found = fit_exponent(k, 7.0 * k**-0.65)
        assert found.value == pytest.approx(0.65, abs=1e-12)
        assert found.low == pytest.approx(found.high, abs=1e-12)


def test_the_interval_shows_a_slope_that_still_changes() -> None:
    k = np.arange(1, 10_001)
    found = fit_exponent(k, k**-0.5 + 1e-3)  # a floor: the slope at the end is 0.5 k^-0.5/(k^-0.5 + 1e-3) = 0.4545
    assert found.low < found.value < found.high
    assert found.low == pytest.approx(0.46, abs=0.01)


def test_the_stretch_has_the_requested_decades_and_the_estimate_its_name() -> None:
    k = np.arange(1, 10_001)
    risk = np.where(k < 1000, 1000.0 * k**-1.0, 1.0)  # a slope of 1, then a floor over the last decade
    assert fit_exponent(k, risk).value == pytest.approx(0.0, abs=1e-12)
    assert fit_exponent(k, risk, decades=0.5, name="theta").name == "theta"
    # Two straight halves, slopes 1 and 0, over two decades: the least-squares line has the mean slope.
    assert fit_exponent(k, risk, decades=2.0).value == pytest.approx(0.5, abs=1e-3)
    assert fit_exponent(k, risk, decades=2.0).high == pytest.approx(1.0, abs=1e-9)


def test_points_count_by_their_share_of_the_logarithmic_axis() -> None:
    """-log risk = (log k)^2: the least-squares line over [a, b] has the slope a + b, however the points are spread."""
    k = np.arange(100, 1001)  # nine tenths of the points are in the upper half of the axis
    found = fit_exponent(k, np.exp(-(np.log(k) ** 2)))
    assert found.value == pytest.approx(np.log(100) + np.log(1000), abs=0.01)  # unweighted: 0.35 above it


def test_nine_points_are_enough() -> None:
    k = np.geomspace(100, 1000, 9)
    assert fit_exponent(k, k**-0.5).value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("k", "risk", "message"),
    [
        (np.arange(1, 5), np.ones(4), "at least 9 increasing steps in the last 1 decades, got 4"),
        (np.geomspace(100, 999, 8), np.ones(8), "at least 9 increasing steps in the last 1 decades, got 8"),
        (np.repeat(np.arange(50, 60), 2), np.ones(20), "at least 9 increasing steps"),
        (np.arange(1, 101), np.full(100, np.inf), "finite and > 0, got .*inf.* at step 10"),
        (np.arange(1, 101), np.zeros(100), "finite and > 0, got .*0.0"),
        (np.arange(1, 101), np.ones(99), "one risk per step"),
    ],
)
def test_curves_without_a_slope_are_refused(k: np.ndarray, risk: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_exponent(k, risk)


@pytest.mark.parametrize(
    ("text", "kappa"),
    [("inst", 1.0), ("poly:8", 1.0), ("sum*exp:0.9", 1.0), ("sum*poly:4", 0.0), ("2*inst + 0.1*(1+k)^0.3*poly:4", 0.7)],
)
def test_the_growth_of_gains(text: str, kappa: float) -> None:
    assert kappa_of(Mixture.parse(text)) == pytest.approx(kappa, abs=1e-6)


def test_predictions_and_their_limits() -> None:
    assert predicted_exponent(2.0, 0.5) == 0.5
    assert predicted_exponent(1.5, 0.5, kappa=2 / 3) == pytest.approx(2 / 3)
    assert predicted_exponent(2.0, 1.8) == 1.5  # the noise of the steep directions decides
    with pytest.raises(ValueError, match=r"1/nu = 0.5 <= kappa <= 1, got kappa=0.4"):
        predicted_exponent(2.0, 0.5, kappa=0.4)
    with pytest.raises(ValueError, match=r"<= kappa <= 1, got kappa=1.01"):
        predicted_exponent(2.0, 0.5, kappa=1.01)
    with pytest.raises(ValueError, match=r"finite nu > 1, got nu=1"):
        predicted_exponent(1.0, 0.5)
    with pytest.raises(ValueError, match=r"finite zeta > 0, got zeta=-1"):
        predicted_exponent(2.0, -1.0)


@pytest.mark.parametrize(("nu", "zeta"), [(2.0, 0.5), (2.0, 1.2), (2.0, 2.2)])
def test_sgd_has_the_predicted_exponent_in_both_regimes(nu: float, zeta: float) -> None:
    """Within 0.06: beyond zeta = 2 - 1/nu the approach to the noise's exponent is slow."""
    spectrum = Spectrum.power_law(nu, zeta)
    found = exact_risk("inst", spectrum, lr=sgd_limit(spectrum) / 4, steps=20_000)
    assert fit_exponent(found.k, found.risk[0, 0]).value == pytest.approx(predicted_exponent(nu, zeta), abs=0.06)


def test_the_exponent_of_a_gain_written_in_six_digits_is_known() -> None:
    mixture = Mixture.parse("inst + 0.1*(1+k)^0.6666666666666666*poly:4")
    kappa = kappa_of(mixture)
    assert kappa is not None
    assert predicted_exponent(3.0, 0.4, kappa=kappa) == pytest.approx(0.4 * (2 - 1 / 3), abs=1e-6)
    assert kappa_of(Mixture.parse("sum*decays:0,0.5,0.5")) is None
    assert kappa_of(Mixture.parse("cool(20)*inst")) is None
    words = ["risk", str(mixture), "--nu", "3", "--zeta", "0.4", "--steps", "100", "--lr", "0.1", "--json"]
    [row] = json.loads(CliRunner().invoke(app, words).stdout)["methods"]
    assert row["theory"] == pytest.approx(2 / 3, abs=1e-5)
