"""The paper's experiments in continuous time give the numbers that the mathematics says."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from memgrad.paper.continuous import (
    contenders,
    exact_loss,
    hb_amplification,
    quadratic_variance,
    time_warping,
    velocities,
    velocity_variance,
    warped_solutions,
)
from memgrad.paper.odes import exact_position, fitted_slope, momentum_and_memory_odes
from memgrad.paper.progress import stage
from memgrad.paper.settings import (
    AmplificationSettings,
    ConstantNoiseSettings,
    OdesSettings,
    PairSettings,
    QuadraticNoiseSettings,
    SecondMomentsSettings,
    SmoothingSettings,
    TimeWarpSettings,
)
from memgrad.problems.objectives import SU, LogCosh, Objective

SHORT = {"end": 2.0, "dt": 0.01}


def su_losses(sigma: float, t: list[float]) -> tuple[Any, Any]:
    """Expected losses of memory and of Nesterov's SDE."""
    return tuple(exact_loss(each, np.array(t), (1.0, 1.0)) for each in contenders(PairSettings(), SU, sigma))


def test_the_expected_losses_of_amplification_are_the_known_ones() -> None:
    memory, nesterov = su_losses(0.02, [50.0, 100.0, 300.0])
    assert nesterov == pytest.approx([0.00247, 0.00494, 0.0150], rel=3e-3)
    assert memory[-1] == pytest.approx(2.55e-4, rel=2e-3)


@pytest.mark.parametrize(("sigma", "crossing"), [(0.01, 78.0), (0.02, 45.0), (0.05, 23.0)])
def test_nesterovs_expected_loss_overtakes_that_of_memory_when_it_should(sigma: float, crossing: float) -> None:
    t = np.linspace(12.0, 100.0, 881)  # later than the first crossing, before which memory is ahead
    memory, nesterov = su_losses(sigma, t.tolist())
    assert t[np.argmax(nesterov > memory)] == pytest.approx(crossing, abs=1.0)


def test_memory_is_ahead_until_about_8() -> None:
    """It starts with the velocity -grad f, and Nesterov's equation at rest: positions t against t^2/8 at first."""
    t = np.linspace(0.1, 12.0, 120)
    memory, nesterov = su_losses(0.02, t.tolist())
    assert t[np.argmax(nesterov < memory)] == pytest.approx(8, abs=0.5)


def test_the_mean_of_many_runs_is_the_exact_expected_loss() -> None:
    found = hb_amplification(AmplificationSettings(end=20.0, dt=0.05, paths=400))
    for each in (found.memory, found.nesterov):
        # Four standard errors, and the scheme's h * curvature; at the start all runs are at one point.
        late = found.t >= 2
        gap = np.abs(each.mean - each.exact)[late]
        assert np.all(gap <= 4 * each.error[late] + 2 * 0.05 * 0.04 * each.exact[late])
        assert each.loss == pytest.approx(SU.value(each.x))


def test_both_equations_of_amplification_are_pushed_by_the_same_noise() -> None:
    found = hb_amplification(AmplificationSettings(end=5.0, dt=0.01, paths=2, sigma=1.0))
    # Noise far above the gradients: the two paths wander together, weighted differently.
    together = np.corrcoef(np.diff(found.memory.x[:, 0]), np.diff(found.nesterov.x[:, 0]))[0, 1]
    assert together > 0.5


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others() -> None:
    settings = TimeWarpSettings(**SHORT)
    one, two = time_warping(settings), time_warping(settings)
    other = time_warping(dataclasses.replace(settings, seed=1))
    assert np.array_equal(one.nesterov_noisy, two.nesterov_noisy)
    assert not np.array_equal(one.nesterov_noisy, other.nesterov_noisy)
    assert np.array_equal(one.nesterov_x, other.nesterov_x)


@pytest.mark.parametrize("objective", [SU, LogCosh(dimension=2)], ids=str)
def test_linear_memory_warps_onto_nesterovs_path(objective: Objective) -> None:
    memory, warped, nesterov = warped_solutions(TimeWarpSettings(), objective, np.linspace(0, 20, 41))
    assert np.abs(warped - nesterov).max() <= 1e-8
    assert np.abs(memory - nesterov).max() > 0.1


def test_another_viscosity_is_another_path() -> None:
    _, warped, other = warped_solutions(TimeWarpSettings(viscosity=2.9), SU, np.linspace(0, 20, 41))
    assert np.abs(warped - other).max() > 1e-3


def test_the_exact_velocities_under_a_constant_gradient() -> None:
    found = velocities(ConstantNoiseSettings(runs=4, dt=0.01))
    t = found.t
    assert found.memory.exact_mean == pytest.approx(-1 + 0 * t)
    assert found.memory.exact_sd == pytest.approx(10 * np.sqrt(9 / (5 * t)))
    assert found.nesterov.exact_mean == pytest.approx(-t / 4)
    assert found.nesterov.exact_sd == pytest.approx(10 * np.sqrt(t / 7))
    one, five = np.searchsorted(t, [0.999, 4.999])
    assert found.memory.exact_sd[[one, five]] == pytest.approx([13.416, 6.000], abs=1e-3)
    assert found.nesterov.exact_sd[[one, five]] == pytest.approx([3.780, 8.452], abs=1e-3)


@pytest.mark.parametrize(
    "settings",
    [ConstantNoiseSettings(dt=0.01), QuadraticNoiseSettings(dt=0.01, end=10.0)],
    ids=["constant", "quadratic"],
)
def test_simulated_velocities_are_within_four_standard_errors(settings: Any) -> None:
    found, n = velocities(settings), 1000
    late = slice(
        found.t.size // 5, None, found.t.size // 5
    )  # where the step h = 0.01 of Milstein has no bias to speak of
    for each in (found.memory, found.nesterov):
        assert np.all(np.abs(each.mean - each.exact_mean)[late] <= 4 * each.exact_sd[late] / np.sqrt(n))
        assert np.all(np.abs(each.sd / each.exact_sd - 1)[late] <= 4 / np.sqrt(2 * n) + 0.01)


def test_the_second_moments_are_the_known_ones() -> None:
    found = quadratic_variance(SecondMomentsSettings())
    known = {5.0: (0.6002221373, -2.745992e-4, 0.3603394511), 20.0: (0.6000074637, 3.00506e-6, 0.0900012099)}
    for t, expected in known.items():
        row = int(np.argmin(np.abs(found.t - t)))
        assert found.memory[row] == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert found.memory == pytest.approx(found.memory_exact, rel=1e-7, abs=1e-9)
    variances = velocity_variance(SecondMomentsSettings(), np.array([5.0, 20.0]))
    assert variances == pytest.approx([0.6126409559, 2.4975628], rel=1e-7)


@pytest.mark.parametrize(
    ("kind", "power", "slope", "window"),
    [("momentum", q, -q, (1e2, 1e3)) for q in (1.0, 2.0, 3.0, 4.0)]
    + [("memory", p, 0.5 - p, (1e4, 1e6)) for p in (1.0, 2.0, 3.0, 4.0)],
)
def test_the_envelope_of_the_exact_loss_has_the_known_slope(
    kind: str, power: float, slope: float, window: tuple[float, float]
) -> None:
    z = np.linspace(
        window[0] ** (1 if kind == "momentum" else 0.5), window[1] ** (1 if kind == "momentum" else 0.5), 40_000
    )
    t = z if kind == "momentum" else z**2
    loss = SU.value(exact_position(kind, power, np.array([0.04, 0.01]), np.ones(2), t))
    found, _, peaks = fitted_slope(t, loss, window)
    assert peaks > 20
    assert found == pytest.approx(slope, abs=0.05)


def test_ode45_solves_the_equations_of_the_appendix() -> None:
    settings = OdesSettings(powers=(3.0,), heavy_ball_end=300.0, memory_end=1e4, loss_end=300.0)
    found = {each.label: each for each in momentum_and_memory_odes(settings).descents}
    assert list(found) == ["HB 3/t", "HB exponential", "MG t^3", "MG exponential"]
    for label in ("HB 3/t", "MG t^3"):
        each = found[label]
        exact = exact_position(each.kind, 3.0, np.array([0.04, 0.01]), np.ones(2), each.t)
        # The paper's tolerances: relative 1e-5 a step, over some hundred steps.
        assert np.abs(each.x - exact).max() < 1e-4
    # Constant viscosity from t = 1 on: for slow directions x ~ exp(-lambda t/alpha), or exp(-lambda t) for memory.
    slow = found["HB exponential"].x[-1, 1], found["MG exponential"].x[-1, 1]
    assert slow == pytest.approx((np.exp(-0.3), np.exp(-3.0)), rel=0.02)


def test_one_over_t_viscosity_has_the_path_of_constant_forgetting() -> None:
    """As the paper says: momentum (2p - 1)/t in time t is memory t^p in time t^2/(4p)."""
    t = np.linspace(0.1, 30, 50)
    momentum = exact_position("momentum", 1.0, np.array([0.04, 0.01]), np.ones(2), t)
    assert momentum == pytest.approx(exact_position("memory", 1.0, np.array([0.04, 0.01]), np.ones(2), t**2 / 4))


def test_a_slope_needs_three_peaks() -> None:
    t = np.geomspace(1, 100, 100)
    slope, _, peaks = fitted_slope(t, 1 / t, (1, 100))
    assert np.isnan(slope)
    assert peaks == 0


@pytest.mark.parametrize(
    "settings",
    [
        AmplificationSettings(),
        TimeWarpSettings(),
        ConstantNoiseSettings(),
        QuadraticNoiseSettings(),
        OdesSettings(),
        SmoothingSettings(),
    ],
    ids=lambda settings: type(settings).__name__,
)
def test_settings_say_which_choices_are_ours_and_why(settings: Any) -> None:
    caption = settings.caption()
    reasons = settings.own_choices()
    assert reasons
    assert caption.count("*") == len(reasons) + 1  # one each, and the explanation
    assert all(len(reason) > 10 for reason in reasons.values())
    assert set(settings.to_dict()) == {each.name for each in dataclasses.fields(settings)}


def test_a_changed_setting_is_marked() -> None:
    assert "$\\sigma$ = 0.05+" in AmplificationSettings(sigma=0.05).caption()
    assert "+ not the default" in AmplificationSettings(sigma=0.05).caption()
    assert "+" not in AmplificationSettings().caption()


def test_the_progress_of_stages_adds_up() -> None:
    seen: list[float] = []
    for i in range(3):
        report = stage(lambda done, total: seen.append(done / total), i, 3)
        assert report is not None
        report(0, 5)
        report(5, 5)
    assert seen == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3, 2 / 3, 1], abs=1e-3)
    assert stage(None, 0, 1) is None
