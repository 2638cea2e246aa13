"""Methods as optax transformations, against the reference that sums over the whole past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from memgrad import transforms
from memgrad.method import METHODS, Method, adamw, adana, ademamix, memsgd
from memgrad.optim import reference

STEPS = 25
START = np.array([1.0, -2.0, 0.5])


def gradient(x: np.ndarray, k: int) -> np.ndarray:
    return np.array([1.0, 0.3, 3.0]) * x + np.sin(np.arange(1, 4) * (k + 1))


def run(optimizer: optax.GradientTransformation, steps: int = STEPS) -> np.ndarray:
    with jax.enable_x64(True):
        x = jnp.asarray(START)
        state = optimizer.init(x)
        update = jax.jit(optimizer.update)
        path = [np.asarray(x)]
        for k in range(steps):
            updates, state = update(jnp.asarray(gradient(np.asarray(x), k)), state, x)
            x = optax.apply_updates(x, updates)
            path.append(np.asarray(x))
        return np.stack(path)


METHODS_TO_TRY = [
    *(make() for make in METHODS.values()),
    ademamix(ramp=10, weight_decay=0.1),
    Method("poly:2 + 0.5*exp:0.9", "poly:4", eps=1e-8),
    Method.parse("inst + poly:3; l2=0.1"),
    Method.parse("exp:0.9 / (sqrt(exp:0.99) + 1e-08); l2=0.1/t"),
    Method.parse("poly:2; decay=0.3"),
    Method.parse("poly:2; independent=0.3"),
]


@pytest.mark.most(8)
@pytest.mark.parametrize("method", METHODS_TO_TRY, ids=str)
def test_every_method_is_followed_as_the_reference_does(method: Method) -> None:
    found = run(transforms.from_method(0.02, method))
    exact = reference.follow(method, gradient, START, lr=0.02, steps=STEPS)
    # gains and decays are computed from an int32 count, which x64 makes doubles: a few roundings per step
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-11)


def test_an_independent_decay_follows_the_schedule_and_not_the_peak() -> None:
    schedule = optax.linear_schedule(0.02, 0.01, STEPS)
    method = adana(omega=0.5)
    with pytest.raises(ValueError, match="needs peak_learning_rate"):
        transforms.from_method(schedule, method)
    found = run(transforms.from_method(schedule, method, peak_learning_rate=0.02))
    # optax computes schedules in float32
    line = lambda k: 0.02 - 0.01 * k / STEPS  # noqa: E731
    exact = reference.follow(method, gradient, START, lr=line, steps=STEPS, peak_lr=0.02)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-6)


LINE = lambda k: 0.02 - 0.01 * k / STEPS  # noqa: E731  # from the peak to half of it


@pytest.mark.parametrize("through_lr", [False, True])
@pytest.mark.parametrize("numbers", ["plain", "traced"])
@pytest.mark.parametrize("rate", [0.02, LINE], ids=["constant", "schedule"])
def test_adana_is_followed_as_the_reference_does(rate: Any, numbers: str, through_lr: bool) -> None:
    options = {"delta": 3.0, "kappa": 0.5, "omega": 0.7, "eps": 1e-3}
    peak = {} if through_lr or not callable(rate) else {"peak_learning_rate": 0.02}

    def make(values: Any) -> Any:
        return transforms.adana(rate, **values, **peak, through_lr=through_lr)

    found = run(make(options)) if numbers == "plain" else run_traced(make, options)
    method = adana(3.0, 0.5, omega=0.7, eps=1e-3, through_lr=through_lr)
    exact = reference.follow(method, gradient, START, lr=rate, steps=STEPS, peak_lr=0.02)
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-11)


def run_traced(make: Callable[[Any], Any], options: dict[str, float]) -> np.ndarray:
    """The iterates where the hyper-parameters are arguments of the compiled step."""

    def step(values: Any, g: Any, state: Any, x: Any) -> Any:
        return make(values).update(g, state, x)

    values = {name: np.float64(value) for name, value in options.items()}
    compiled = jax.jit(step)
    return run(optax.GradientTransformation(make(options).init, lambda g, state, x: compiled(values, g, state, x)))


def test_adana_at_a_constant_learning_rate_decays_whatever_that_is() -> None:
    for lr in (0.0, 1e-3, 1.0):
        optimizer, x = transforms.adana(lr, omega=0.25), jnp.array(8.0)
        updates, _ = optimizer.update(jnp.array(0.0), optimizer.init(x), x)
        assert float(updates) == -2.0


def test_adana_under_a_schedule_asks_for_its_peak() -> None:
    with pytest.raises(ValueError, match="adana with an independent weight decay and a schedule needs peak_learning_r"):
        transforms.adana(LINE, omega=0.5)
    with pytest.raises(ValueError, match="peak_learning_rate only if the weight decay is independent"):
        transforms.adana(LINE, omega=0.5, through_lr=True, peak_learning_rate=0.02)
    transforms.adana(LINE)
    transforms.adana(LINE, omega=0.5, through_lr=True)


def test_a_mask_says_what_decays() -> None:
    optimizer = transforms.from_method(0.1, adamw(weight_decay=0.5), mask={"weight": True, "bias": False})
    x = {"weight": jnp.ones(1), "bias": jnp.ones(1)}
    g = jax.tree.map(jnp.zeros_like, x)
    updates, _ = optimizer.update(g, optimizer.init(x), x)
    assert float(updates["weight"][0]) == pytest.approx(-0.05, rel=1e-6)
    assert float(updates["bias"][0]) == 0.0


def test_mixtures_go_into_memsgd_and_memadam() -> None:
    for optimizer, method in [
        (transforms.memsgd(0.02, "inst + 5*exp:0.9"), memsgd("inst + 5*exp:0.9")),
        (
            transforms.memadam(0.02, "inst + (1+k)^0.25*poly:8", "poly:8"),
            Method("inst + (1+k)^0.25*poly:8", "poly:8", eps=1e-8),
        ),
    ]:
        exact = reference.follow(method, gradient, START, lr=0.02, steps=STEPS)
        np.testing.assert_allclose(run(optimizer), exact, rtol=1e-9, atol=1e-11)


def test_averages_of_iterates_refuse_gain() -> None:
    with pytest.raises(ValueError, match="not a mixture with gain"):
        transforms.average_iterates("inst + poly:2")
