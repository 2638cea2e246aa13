"""Options and parameters as traced numbers, numpy arrays and Python numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from memgrad import method, transforms
from memgrad.memory import COLD, SUM, Exponential, Memory, Polynomial, RampedExponential, Stretched

GRADIENTS = (1.0, 2.0, 3.0)


def third_step(optimizer: optax.GradientTransformation) -> jax.Array:
    """The length of the third step along the gradients 1, 2 and 3."""
    x = jnp.ones(())
    state = optimizer.init(x)
    for g in GRADIENTS:
        updates, state = optimizer.update(jnp.asarray(g), state, x)
    return -updates


def averaged(memory: Memory) -> jax.Array:
    return third_step(transforms.memsgd(1.0, memory))


def followed(of: method.Method) -> jax.Array:
    return third_step(transforms.from_method(1.0, of))


def summed(b1: float, b2: float) -> float:
    """Heavy ball's third velocity, with the momenta of the second and the third step."""
    return b2 * (b1 * 1 + 2) + 3


def stretched(alpha: float) -> float:
    m = [math.expm1(k**alpha) for k in range(4)]
    return sum(g * (m[j + 1] - m[j]) for j, g in enumerate(GRADIENTS)) / m[3]


def ramped(beta: float, start: float) -> float:
    """AdEMAMix's slow average over three of ten steps, divided by the sum of its weights."""
    average = total = 0.0
    for t, g in enumerate(GRADIENTS, start=1):
        b = math.exp(1 / ((1 - t / 10) / math.log(start) + t / 10 / math.log(beta)))
        average, total = b * average + (1 - b) * g, b * total + (1 - b)
    return average / total


# By name: the step as a function of one number that JAX traces, and its closed form.
TRACED: dict[str, tuple[Callable[[Any], jax.Array], Callable[[float], float]]] = {
    "heavy ball": (lambda b: followed(method.heavy_ball(b)), lambda b: summed(b, b)),
    "heavy ball, viscosity": (
        lambda q: followed(method.heavy_ball(viscosity=q)),
        lambda q: summed(1 / (1 + q), 2 / (2 + q)),
    ),
    "Nesterov": (lambda b: followed(method.nesterov(b)), lambda b: 3 + b * summed(b, b)),
    "Nesterov, viscosity": (
        lambda q: followed(method.nesterov(viscosity=q)),
        lambda q: 3 + 3 / (3 + q) * summed(1 / (1 + q), 2 / (2 + q)),
    ),
    "QHM": (lambda b: followed(method.qhm(0.7, b)), lambda b: 0.3 * 3 + 0.7 * (1 - b) * summed(b, b)),
    "AggMo": (lambda b: followed(method.aggmo((0.0, b))), lambda b: 0.5 * 3 + 0.5 * summed(b, b)),
    "sum of a degree": (lambda p: averaged(SUM * Polynomial(p)), lambda p: summed(1 / p, 2 / (1 + p))),
    "sum of a decay": (lambda b: averaged(SUM * Exponential(b)), lambda b: summed(b, b)),
    "cold": (lambda b: averaged(COLD * Exponential(b)), lambda b: (1 - b) * summed(b, b)),
    "a gain": (lambda c: averaged(c * Polynomial(1)), lambda c: c * 2),
    "stretched": (lambda a: averaged(Stretched(a)), stretched),
    "ramped, beta": (
        lambda b: averaged(RampedExponential(b, start=0.4, steps=10)),
        lambda b: ramped(b, 0.4),
    ),
    "ramped, start": (
        lambda b: averaged(RampedExponential(0.95, start=b, steps=10)),
        lambda b: ramped(0.95, b),
    ),
    # u_1 = b_1 + 2 (1 - b_1) with b_1 = a, and b_2 = a/(1 + a), for an age a <= 1/2
    "an age": (lambda a: averaged(Memory.from_age(0.5 * a)), lambda a: 3 - (1 + 0.5 * a) * 0.5 * a / (1 + 0.5 * a)),
}


@pytest.mark.parametrize("name", TRACED)
def test_decays_and_degrees_may_be_traced(name: str) -> None:
    step, exact = TRACED[name]
    numbers = [0.5, 0.9]
    with jax.enable_x64(True):
        mapped = jax.vmap(step)(jnp.array(numbers))
        slope = jax.jit(jax.grad(step))(0.7)
    # some roundings of doubles
    np.testing.assert_allclose(mapped, [exact(number) for number in numbers], rtol=1e-12)
    # a central difference with an error of order 1e-5^2
    assert float(slope) == pytest.approx((exact(0.7 + 1e-5) - exact(0.7 - 1e-5)) / 2e-5, rel=1e-8)


@pytest.mark.parametrize("name", ["heavy ball", "Nesterov", "a gain", "stretched", "ramped, beta", "an age"])
def test_numbers_in_known_arrays_are_still_accepted(name: str) -> None:
    step, exact = TRACED[name]
    with jax.enable_x64(True):
        np.testing.assert_allclose(step(jnp.array(0.7)), exact(0.7), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: method.heavy_ball(jnp.array(1.5)), "0 <= momentum < 1"),
        (lambda: jnp.array(-1.0) * Polynomial(1), "finite and >= 0"),
        (lambda: Stretched(20.0, h=jnp.array(1e-30)), "1e-300 < h"),
        (lambda: RampedExponential(jnp.array(0.5), start=0.9, steps=10), "start <= beta"),
        (lambda: Memory.from_age(jnp.array(-1.0)), "a finite mean age > 0"),
    ],
)
def test_numbers_in_known_arrays_are_still_checked(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_ramp_of_unknown_length_is_refused() -> None:
    with pytest.raises(TypeError, match="steps must be known"):
        jax.jit(lambda steps: averaged(RampedExponential(0.9, start=0.5, steps=steps)))(10.0)


@pytest.mark.parametrize(
    ("make", "twin"),
    [
        (
            lambda: transforms.memsgd(0.1, "inst", weight_decay=0.5),
            lambda: optax.chain(optax.add_decayed_weights(0.5), optax.sgd(0.1)),
        ),
        (
            lambda: transforms.memadam(0.1, "exp:0.9", "exp:0.999", weight_decay=0.5),
            lambda: optax.adamw(0.1, weight_decay=0.5),
        ),
        (
            lambda: transforms.from_method(0.1, method.adamw(weight_decay=0.5)),
            lambda: optax.adamw(0.1, weight_decay=0.5),
        ),
    ],
    ids=["memsgd", "memadam", "from_method"],
)
def test_python_numbers_may_be_parameters_as_in_optax(
    make: Callable[[], optax.GradientTransformation], twin: Callable[[], optax.GradientTransformation]
) -> None:
    steps = []
    for optimizer in (make(), twin()):
        x, state = {"x": 2.0}, optimizer.init({"x": 2.0})
        for g in GRADIENTS:
            updates, state = optimizer.update({"x": g}, state, x)
            steps.append(float(updates["x"]))
    # optax corrects the bias of its averages in float32
    assert steps[:3] == pytest.approx(steps[3:], rel=1e-5)


def test_python_numbers_may_be_parameters_that_are_averaged() -> None:
    average = transforms.average_iterates("poly:1")
    state = average.init(0.0)
    for x in (3.0, 6.0):
        _, state = average.update(0.0, state, x)
    assert float(state.average) == 4.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_numbers_in_numpy_arrays_may_be_options(dtype: Any) -> None:
    one = np.array(1, dtype=dtype)
    optimizer = transforms.memsgd(one, "inst", weight_decay=one)
    updates, _ = optimizer.update(jnp.array(3.0), optimizer.init(jnp.array(2.0)), jnp.array(2.0))
    assert float(updates) == -5.0  # the gradient and the parameter


@pytest.mark.parametrize(
    ("value", "error"), [(np.array(-0.1), ValueError), (np.array(True), TypeError), (np.ones(2), TypeError)]
)
def test_wrong_learning_rates_in_numpy_arrays_are_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="learning_rate"):
        transforms.memsgd(value)
