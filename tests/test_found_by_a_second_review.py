"""Faults that reviewers found in dynamics, memory, theory and statistics, each as the case that showed it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from memgrad import Gain, Memory, Polynomial, theory
from memgrad.cli import app
from memgrad.dynamics import (
    GradientFlow,
    HeavyBallFlow,
    MemoryFlow,
    MixtureFlow,
    Spectrum,
    exact_risk,
    kappa_of,
    moments,
    predicted_exponent,
    simulate,
    time_warp,
)
from memgrad.dynamics.flows import parse_flow
from memgrad.memory import Mixture
from memgrad.statistics import interval, ratio_of_means
from memgrad.theory.design import named_methods


def same(x: Any) -> Any:
    return x


def constant(x: Any) -> Any:
    return 0 * x + 1.0


@pytest.mark.parametrize("memory", ["poly:100", "exp:alpha=100", "poly:3"])
@pytest.mark.parametrize(("growth", "instant"), [(0.0, 0.0), (0.5, 1.0)])
def test_paths_of_a_mixture_that_forgets_fast_have_the_exact_variances(
    memory: str, growth: float, instant: float
) -> None:
    flow = MixtureFlow(memory, growth=growth, instant=instant, gradient=constant, noise=1.0, hessian=0.0)
    paths = 4000
    found, exact = simulate(flow, [2.0], 0.0, paths=paths, dt=0.1, seed=0), moments(flow, [2.0], 0.0)
    for ours, theirs in ((found.var_x, exact.var_x), (found.var_v, exact.var_v)):
        assert ours.item() / theirs.item() == pytest.approx(1, abs=4 * np.sqrt(2 / paths))


def test_a_flow_or_density_for_steps_of_length_h_refuses_a_memory_with_other_steps() -> None:
    mixture = Mixture.parse("2*exp:0.9,h=0.1")
    assert mixture.influence(4.55, 5.05, h=0.1) == pytest.approx(mixture.weights(50)[45] / 0.1, rel=0.06)
    for call in (
        lambda: MixtureFlow.of("exp:0.9", h=0.1, gradient=same),
        lambda: Mixture.parse("2*exp:0.9").influence(4.55, 5.05, h=0.1),
        lambda: Mixture.parse("log").influence(4.55, 5.05, h=0.1),
    ):
        with pytest.raises(ValueError, match=r"h=0\.1 .* whose steps have the length 1\.0: .*exp:0\.9,h=0\.1"):
            call()
    with pytest.raises(ValueError, match="h > 0, got h=0"):
        Mixture.parse("(1+k)^0.5*poly:2").influence(1.0, 2.0, h=0)


def test_a_run_that_starts_at_the_minimizer_is_not_called_diverged() -> None:
    lr, noise = 0.1, 1.0
    found = exact_risk("inst", Spectrum.of([1.0], x0=0.0), lr=lr, noise=noise, steps=400, record=[0, 1, 400])
    # E x^2 is multiplied by 1 - 2 lr + 3 lr^2 (Gaussian features, one direction), and lr^2 noise^2 is added.
    floor = (lr * noise) ** 2 / (2 * lr - 3 * lr**2) / 2
    assert found.diverged_at.item() == -1
    assert found.risk[0, 0] == pytest.approx([0.0, (lr * noise) ** 2 / 2, floor], rel=1e-9)


@pytest.mark.parametrize(
    ("memory", "tau"),
    [("stretch:20", 1.8), ("stretch:20", 2.0), ("stretch:6", 30.0), ("stretch:3", 1e5), ("log", 1e9), ("log", 1e-12)],
)
def test_time_warps_of_fast_memories_are_inverted(memory: str, tau: float) -> None:
    warp = time_warp(memory)
    assert warp.memory_time(warp.heavy_ball_time(tau)) == pytest.approx(tau, rel=1e-10)


@pytest.mark.parametrize("flow", [GradientFlow(gradient=same), HeavyBallFlow(1.0, gradient=same)])
def test_regular_equations_have_no_later_start(flow: Any) -> None:
    with pytest.raises(ValueError, match=r"is regular at 0, so it starts there, got start=1\.0"):
        simulate(flow, [1.0, 2.0], 1.0, paths=2, dt=0.01, seed=0, scheme="euler-maruyama", start=1.0)


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


def test_time_0_alone_can_be_asked_for() -> None:
    flow = MemoryFlow("poly:2", gradient=same, noise=1.0)
    assert simulate(flow, [0.0], 1.5, paths=10, dt=0.1, seed=0).mean_x.item() == 1.5


def test_the_average_of_a_mixture_has_infinite_variance_at_0() -> None:
    both = [make("poly:2", gradient=same, noise=1.0, hessian=1.0) for make in (MixtureFlow, MemoryFlow)]
    ours, theirs = (moments(flow, [0.0, 1.0], 1.0).cov_vv.ravel() for flow in both)
    assert ours[0] == theirs[0] == np.inf
    assert ours[1] == pytest.approx(theirs[1], rel=1e-6)
    assert moments(MixtureFlow("poly:2", gradient=same, hessian=1.0), [0.0], 1.0).cov_vv.item() == 0


def test_intervals_of_tiny_and_huge_numbers() -> None:
    tiny, plain = interval([1e-200, 3e-200, 2e-200]), interval([1.0, 3.0, 2.0])
    assert tiny.value == pytest.approx(plain.value * 1e-200)
    assert (tiny.low, tiny.high) == pytest.approx((plain.low * 1e-200, plain.high * 1e-200))
    assert interval([1e308, 1.5e308]).value == pytest.approx(1.25e308)
    with pytest.raises(ValueError, match="mean is not 0"):
        ratio_of_means([1.0, 2.0], [1.0, -1.0])


def test_a_long_ramp_has_the_passport_of_its_weights() -> None:
    memory = Memory.parse("expramp:0.99999,0.9,30000")
    weights = memory.weights(150_000)
    assert memory.passport(150_000).mean_age == pytest.approx(float(weights[::-1] @ np.arange(150_001)), rel=1e-9)


def test_flows_by_name() -> None:
    assert isinstance(parse_flow("1e-3", same), HeavyBallFlow)
    with pytest.raises(ValueError, match=r"unknown memory 'nesterov'.*\(Nesterov's is 3/t\), gd or amplified"):
        parse_flow("nesterov", same)


ASKED = {"degree": 2, "lr": 0.1, "smoothness": 1, "distance": 1, "noise": 0.5, "dimension": 10}


def test_bounds_take_steps_beyond_64_bits() -> None:
    assert theory.memsgd(**ASKED, k=10**20).value == theory.memsgd(**ASKED, k=1e20).value


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


def test_named_methods_are_not_left_at_the_smallest_learning_rate_that_was_tried() -> None:
    spectrum = Spectrum.power_law(1.5, 0.5)
    for noise in (0.0, 30.0, 1e4):
        for each in named_methods(spectrum, 1.5, noise=noise, batch=1, steps=16):
            rates = [each.lr / 2, each.lr, 2 * each.lr]
            schedule = None if each.schedule == "constant" else 1 - np.arange(16) / 16
            found = exact_risk(each.method, spectrum, lr=rates, noise=noise, steps=16, schedule=schedule)
            assert found.final[0, 1] == pytest.approx(each.risk, rel=1e-12)
            assert found.final[0, 0] >= found.final[0, 1]
    words = ["design", "--noise", "1e4", "--steps", "16", "--iterations", "2"]
    said = CliRunner().invoke(app, words).stdout
    assert "not below the best named method, " in said
    assert "recipe keeps" not in said


def test_a_function_is_a_gain_through_gain_of() -> None:
    assert (Gain.of(lambda k: k + 2.0) * Polynomial(2)).gain(3) == 5.0


def test_a_peak_learning_rate_without_an_independent_decay_is_refused() -> None:
    transforms = pytest.importorskip("memgrad.transforms")
    with pytest.raises(ValueError, match="peak_learning_rate for an independent weight decay only; its kind is"):
        transforms.from_method(0.1, "poly:2; decay=0.3", peak_learning_rate=5.0)
