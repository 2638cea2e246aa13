"""Mixtures in audits: found with their gains, within the error that is stated, and claimed only where they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrad import HeavyBall, MemAdam, Memory, MemSGD, Mixture, audit
from memgrad.memory import Exponential, Gain, Instantaneous, Polynomial
from memgrad.memory.mixture import Part
from memgrad.optim import Nesterov, Remembered
from memgrad.optim.auditing import free_gains
from memgrad.optim.auditing.fitting import FAMILIES
from memgrad.optim.auditing.mixing import ROWS, MixtureFit, mixture_of

SGD = torch.optim.SGD


def weights_of(parts: list[tuple[Callable[[int], float], Callable[[int], float]]], steps: int) -> Any:
    """Weights by recursion, u = b u + (1 - b) g for each (decay, gain), without the library."""
    total = np.zeros((steps, steps))
    for decay, gain in parts:
        u = np.zeros(steps)
        for k in range(steps):
            b = decay(k)
            u *= b
            u[k] += 1 - b
            total[k] += gain(k) * u
    return total


# --- what optimizers are, by their definitions -----------------------------------------------------------------------

KNOWN: dict[str, tuple[Callable[..., Any], str]] = {
    "SGD": (lambda params: SGD(params, lr=0.1), "inst"),
    "Nesterov of torch": (lambda params: SGD(params, lr=0.1, momentum=0.9, nesterov=True), "inst + 0.9*sum*exp:0.9"),
    "momentum of torch": (lambda params: SGD(params, lr=0.1, momentum=0.9), "sum*exp:0.9"),
    "heavy ball": (lambda params: HeavyBall(params, lr=0.1, momentum=0.9), "sum*exp:0.9"),
    "heavy ball, viscosity": (lambda params: HeavyBall(params, lr=0.1, viscosity=3), "sum*poly:4"),
    "Nesterov, viscosity": (lambda params: Nesterov(params, lr=0.1, viscosity=3), "inst + 0.25*(1+k)*poly:4"),
    **{
        text: (lambda params, text=text: MemSGD(params, lr=0.1, memory=text), text)
        for text in (
            "inst + 9*exp:0.9",
            "inst + (1+k)^0.25*poly:8",
            "0.3*inst + 0.7*cold*exp:0.9",  # QHM
            "0.5*sum*exp:0.9 + 0.5*sum*exp:0.99",  # AggMo
            "exp:0.9 + 5*cold*exp:0.999",  # the numerator of AdEMAMix
            "exp:0.9 + 5*ramp(20)*exp:0.99",
            "exp:0.9 + 5*exp:0.9999",
            "3*inst",
        )
    },
}


@pytest.mark.most(5)
@pytest.mark.parametrize("name", KNOWN)
def test_a_step_is_the_mixture_of_its_definition(name: str) -> None:
    make, text = KNOWN[name]
    found = audit(make, 60).step
    assert found is not None
    assert found.mixture is not None
    assert str(found.mixture) == text
    assert found.mixture.mixture == Mixture.parse(text)
    assert found.mixture.distance < 1e-9
    assert not found.mixture.others
    assert text in str(found)
    assert "unlike poly" not in str(found)


@pytest.mark.parametrize("beta", [0.9, 0.999])
def test_the_buffers_of_adam_start_cold(beta: float) -> None:
    found = audit(lambda params: torch.optim.Adam(params, betas=(beta, beta)), 50).buffers
    assert {str(each.mixture) for each in found.values()} == {f"cold*exp:{beta}"}


def test_the_sum_of_adagrad_is_a_sum() -> None:
    found = audit(lambda params: torch.optim.Adagrad(params, lr=0.1), 30).buffers["sum"]
    assert str(found.mixture) == "sum*poly:1"


def test_the_buffer_of_a_growing_mixture_in_memadam_is_its_average() -> None:
    found = audit(lambda params: MemAdam(params, lr=0.1, memory="inst + (1+k)^0.25*poly:8"), 60)
    assert str(found.buffers["average"].mixture) == "poly:8"
    k = np.arange(60)
    assert np.allclose(found.constant_gain, 1 + (1 + k) ** 0.25, rtol=1e-6)  # eps beside a root of 1


def test_a_single_memory_is_answered_as_before_with_its_gain_beside() -> None:
    found = audit(lambda params: SGD(params, lr=0.1, momentum=0.9)).step
    assert found is not None
    assert found.nearest == Exponential(0.9)
    assert str(found).splitlines()[:2] == [
        "step remembers gradients as exp:0.9, off by 0.00 %",
        "    with its gain: sum*exp:0.9",
    ]


# --- random mixtures -------------------------------------------------------------------------------------------------

factors = st.floats(0.2, 5.0)
exponents = st.floats(0.1, 1.0)


@st.composite
def gains(draw: Any) -> Gain:
    kind = draw(st.sampled_from(["constant", "sum", "power", "ramp"]))
    law = {
        "constant": lambda: Gain.constant(1.0),
        "sum": lambda: Mixture.parse("sum*poly:2").parts[0].gain,
        "power": lambda: Gain.power(draw(exponents)),
        "ramp": lambda: Gain.ramp(draw(st.integers(10, 30))),
    }[kind]()
    return draw(factors) * law


short_memories = st.one_of(st.floats(0.3, 0.7).map(Exponential), st.floats(20.0, 60.0).map(Polynomial))
long_memories = st.one_of(st.floats(0.9, 0.99).map(Exponential), st.floats(1.0, 4.0).map(Polynomial))


@st.composite
def mixtures(draw: Any) -> Mixture:
    """`inst` or not, a short memory or a long one or both: averages of one age are no two averages to anyone."""
    memories = draw(st.sampled_from([(short_memories,), (long_memories,), (short_memories, long_memories)]))
    parts = [Part(draw(gains()), draw(memory)) for memory in memories]
    if draw(st.booleans()):
        parts.append(Part(Gain.constant(draw(factors)), Instantaneous()))
    return Mixture(tuple(parts))


def parameters_of(mixture: Mixture) -> list[float]:
    """Degrees and decays, in order."""
    return sorted(getattr(part.memory, "p", None) or part.memory.beta for part in mixture.averages)  # type: ignore[attr-defined]  # one of two


@pytest.mark.slow
@settings(max_examples=6, deadline=None)  # seconds each
@given(mixtures())
def test_a_random_mixture_in_memsgd_is_found_within_its_stated_error(mixture: Mixture) -> None:
    found = audit(lambda params: MemSGD(params, lr=0.1, memory=mixture), 60).step
    assert found is not None
    fit = found.mixture
    assert fit is not None, str(mixture)
    assert len(fit.mixture.averages) == len(mixture.averages)
    known = sorted((each.low, each.high) for each in fit.parameters if each.name in ("poly", "exp"))
    for value, (low, high) in zip(parameters_of(mixture), known, strict=True):
        assert low <= value <= high
    for k in (0, 7, 59):
        assert np.allclose(fit.mixture.weights(k), mixture.weights(k), atol=1e-9 * mixture.gain(k))


def test_the_lower_of_two_peaks_of_the_grid_is_a_starting_point_too() -> None:
    """The best points of the grid lie on one ridge, which leads to memories that do not fit."""
    beta, p = 0.3486, 2.2933
    short = (lambda k: beta * (1 - beta**k) / (1 - beta ** (k + 1)), lambda k: 0.9632 * (1 + k))
    weights = weights_of([short, (lambda k: k / (k + p), lambda k: 0.85 * (1 + k) ** 0.2024)], 60)
    starts = free_gains._starts(free_gains.Measured.of(weights, ROWS), FAMILIES)
    found = np.array([math.log(p), math.log(-math.log(beta))])
    assert min(np.abs(start - found).max() for start in starts) < 2 * free_gains.SPACING


# --- what is not claimed ---------------------------------------------------------------------------------------------


@pytest.mark.most(2)
@pytest.mark.parametrize("text", ["log", "stretch:1.5", "power:0.8", "age:5,to=2,start=10,end=30", "inst + log"])
def test_what_no_mixture_of_these_families_is_is_not_called_one(text: str) -> None:
    found = audit(lambda params: MemSGD(params, lr=0.1, memory=text), 50).step
    assert found is not None
    assert found.mixture is None
    assert "unlike poly, exp, inst and their mixtures; nearest is" in str(found)


def test_three_averages_are_not_called_two() -> None:
    text = "exp:0.5 + exp:0.9 + exp:0.99"
    found = audit(lambda params: MemSGD(params, lr=0.1, memory=text), 100).step
    assert found is not None
    assert found.mixture is None


@pytest.mark.slow
def test_torchs_dampening_is_no_mixture() -> None:
    """Its first gradient enters undamped, which no average has."""
    found = audit(lambda params: SGD(params, lr=0.1, momentum=0.9, dampening=0.9), 60).step
    assert found is not None
    assert found.mixture is None


def test_a_gain_of_no_known_law_is_not_named() -> None:
    """The memory is answered, and its gain is not: it alternates."""
    weights = weights_of([(lambda k: k / (k + 2), lambda k: 1.0 + k % 2)], 40)
    assert mixture_of(weights) is None


@pytest.mark.slow
def test_random_weights_are_no_mixture() -> None:
    generator = np.random.default_rng(3)
    for _ in range(3):
        assert mixture_of(np.tril(generator.exponential(size=(30, 30)))) is None


@pytest.mark.parametrize("sign", [-1.0, 0.0])
def test_weights_against_the_gradient_or_none_are_no_mixture(sign: float) -> None:
    """Gains are not negative."""
    assert mixture_of(sign * weights_of([(lambda k: k / (k + 2), lambda k: 1.0)], 20)) is None


def test_a_ramp_whose_end_was_not_seen_is_not_called_a_ramp() -> None:
    text = "inst + 2*ramp(100)*poly:3"
    early, late = (audit(lambda params: MemSGD(params, lr=0.1, memory=text), steps).step for steps in (40, 120))
    assert early is not None
    assert late is not None
    assert str(early.mixture) == "inst + 0.02*(1+k)*poly:3"
    assert str(late.mixture) == text


def test_too_few_steps_name_no_mixture() -> None:
    """Three steps have six weights; a mixture may have as many parameters."""
    found = audit(lambda params: SGD(params, lr=0.1, momentum=0.9, nesterov=True), 3).step
    assert found is not None
    assert found.mixture is None


def test_coarse_weights_name_no_mixture_and_rounded_ones_widen_the_bounds() -> None:
    generator = np.random.default_rng(4)
    weights = weights_of([(lambda k: 0.0, lambda k: 1.0), (lambda k: k / (k + 8), lambda k: (1 + k) ** 0.25)], 60)
    noise = generator.uniform(-1, 1, weights.shape)
    assert mixture_of(weights * (1 + 1e-2 * noise), rounding=1e-2) is None
    fits = [mixture_of(weights * (1 + size * noise), rounding=size) for size in (1e-12, 1e-6)]
    assert all(isinstance(fit, MixtureFit) for fit in fits)
    widths = []
    for fit in fits:
        assert fit is not None
        degree = next(each for each in fit.parameters if each.name == "poly")
        assert degree.low <= 8 <= degree.high
        assert str(fit) == "inst + (1+k)^0.25*poly:8"
        widths.append(degree.high - degree.low)
    assert widths[1] > 1e3 * widths[0]


def test_memory_texts_are_read_back() -> None:
    fit = mixture_of(weights_of([(lambda k: 0.0, lambda k: 1.0), (lambda k: k / (k + 3), lambda k: 2.0)], 30))
    assert fit is not None
    assert Memory.parse(str(fit)) == fit.mixture


def test_mixtures_that_fit_as_well_are_named_beside() -> None:
    weights = weights_of([(lambda k: 0.0, lambda k: 1.0), (lambda k: k / (k + 3), lambda k: 2.0)], 30)
    found = Remembered("step", 1, weights)
    assert found.mixture is not None
    vars(found)["mixture"] = replace(found.mixture, others=(Mixture.parse("inst + 2*exp:0.5"),))
    line = str(found).splitlines()[0]
    assert "as inst + 2*poly:3, off by 0.00 %; cannot be distinguished from inst + 2*exp:0.5 over 30 steps" in line
