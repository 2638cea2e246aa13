"""The optax transformations take the steps of the PyTorch optimizers, of closed forms and of optax's own methods.

What optax asks of any transformation is in test_transforms_contract.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from mpmath import MPContext
from scipy.special import poch
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel

import memgrad
from memgrad import ADana, FromDecays, MemAdam, Memory, MemSGD, PolyAdam, Polynomial, Sampled, transforms
from memgrad.memory import Stretched
from memgrad.transforms import adana, average_iterates, memadam, memsgd, polyadam, scale_by_memory, scale_by_memory_adam

STEPS = 60
# Promised. Rounding is far below: 60 steps of a few errors of 1e-16, on iterates of size 1 to 10.
AGREES = 1e-12

mp = MPContext()  # our own context: nobody else's precision changes
mp.dps = 50


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    """JAX computes in float64 in this file."""
    enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with enable_x64(True):
        yield


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def run(optimizer: Any, x0: Any, gradients: Any, state: Any = None) -> tuple[Any, Any]:
    """The iterates x_1, x_2, ... on these gradients, and the state after the last."""

    def step(carry: Any, g: Any) -> Any:
        x, state = carry
        updates, state = optimizer.update(g, state, x)
        x = optax.apply_updates(x, updates)
        return (x, state), x

    x0 = jnp.asarray(x0)
    (_, state), xs = jax.lax.scan(step, (x0, optimizer.init(x0) if state is None else state), jnp.asarray(gradients))
    return np.asarray(xs), state


def descend(optimizer: Any, loss: Callable[[Any], Any], start: Any, steps: int) -> tuple[Any, Any]:
    """The iterates x_1, x_2, ... on the gradients of a loss, and the state after the last."""

    def step(carry: Any, _: Any) -> Any:
        x, state = carry
        updates, state = optimizer.update(jax.grad(loss)(x), state, x)
        x = optax.apply_updates(x, updates)
        return (x, state), x

    x0 = jnp.array(start)
    (_, state), xs = jax.lax.scan(step, (x0, optimizer.init(x0)), length=steps)
    return xs, state


def averages(transform: Any, gradients: Any) -> Any:
    """What a transformation makes of each gradient: u_0, u_1, ..."""
    gradients = jnp.asarray(gradients)
    first = transform.init(gradients[0])
    _, us = jax.lax.scan(lambda state, g: transform.update(g, state)[::-1], first, gradients)
    return np.asarray(us)


def run_torch(make: Callable[..., torch.optim.Optimizer], x0: Any, gradients: Any, start: int = 0) -> Any:
    """The same iterates by a PyTorch optimizer, from step `start` on."""
    x = torch.nn.Parameter(torch.tensor(x0))
    optimizer = make([x])
    path = []
    for g in gradients:
        x.grad = torch.tensor(g)
        if start and not path:
            optimizer.state[x].update(step=start, **{name: torch.zeros_like(x) for name in optimizer.buffers})
        optimizer.step()
        path.append(x.detach().numpy().copy())
    return np.array(path)


# --- the exact weights, from the definitions; nothing here asks the library -----------------------------------------

LISTED = [0.0, *(round(0.95 - 0.9 / k, 3) for k in range(1, STEPS))]


def of_totals(total: Callable[[Any], Any]) -> Callable[[int, int], Any]:
    """w(j,k) = (M_{j+1} - M_j) / M_{k+1}."""
    return lambda j, k: (total(mp.mpf(j + 1)) - total(mp.mpf(j))) / total(mp.mpf(k + 1))


def of_decays(b: list[float]) -> Callable[[int, int], Any]:
    """w(j,k) = (1 - b_j) b_{j+1} ... b_k."""
    return lambda j, k: (1 - b[j]) * math.prod(b[j + 1 : k + 1])


def polynomial(p: float) -> Callable[[int, int], Any]:
    """w(j,k) = p Gamma(j+p) Gamma(k+1) / (Gamma(j+1) Gamma(k+p+1))."""
    return lambda j, k: p * poch(j + 1, p - 1) / poch(k + 1, p)


WEIGHTS: Mapping[str, Callable[[int, int], Any]] = {
    "poly:1": lambda j, k: 1 / (k + 1),
    "poly:2": polynomial(2.0),
    "poly:0.3": polynomial(0.3),
    "poly:7.5": polynomial(7.5),
    "exp:0.9": of_totals(lambda k: mp.mpf(0.9) ** -k - 1),
    "exp:0.999": of_totals(lambda k: mp.mpf(0.999) ** -k - 1),
    "inst": lambda j, k: float(j == k),
    "log": of_totals(mp.log1p),
    "stretch:0.5": of_totals(lambda k: mp.expm1(mp.sqrt(k))),
    "stretch:1.5": of_totals(lambda k: mp.expm1(k ** mp.mpf(1.5))),
    "power:0.8": of_decays([1 - (k + 1) ** -0.8 for k in range(STEPS)]),
    "decays:" + ",".join(map(str, LISTED)): of_decays(LISTED),
}
MEMORIES = list(WEIGHTS)
CODE = {
    "a function": FromDecays(lambda k: k / (k + 2)),
    "t^2, sampled": Sampled(lambda t: t * t, lambda t: 2 * t, h=0.1),
}
every_memory = pytest.mark.parametrize("memory", [pytest.param(text, id=text[:12]) for text in MEMORIES])


@cache
def weights(memory: str, steps: int) -> Any:
    """The matrix of w(j,k), row k."""
    return np.array([[float(WEIGHTS[memory](j, k)) if j <= k else 0.0 for j in range(steps)] for k in range(steps)])


# --- PyTorch ---------------------------------------------------------------------------------------------------------

SAME = {
    **{f"memsgd {text[:12]}": (memsgd, MemSGD, {"memory": text}) for text in MEMORIES},
    **{f"memsgd {name}": (memsgd, MemSGD, {"memory": memory}) for name, memory in CODE.items()},
    "memsgd, its default": (memsgd, MemSGD, {}),
    "memsgd, L2": (memsgd, MemSGD, {"memory": "poly:3", "weight_decay": 0.3}),
    **{
        f"memadam {first[:12]} {second[:12]}": (memadam, MemAdam, {"memory": first, "second_memory": second})
        for first, second in zip(MEMORIES[::2], MEMORIES[1::2], strict=True)
    },
    "memadam, its default": (memadam, MemAdam, {}),
    "memadam, decoupled decay": (memadam, MemAdam, {"eps": 0.1, "weight_decay": 0.3}),
    "polyadam, its default": (polyadam, PolyAdam, {}),
    "polyadam": (polyadam, PolyAdam, {"p": 1.5, "beta": 0.5, "eps": 1e-3, "weight_decay": 0.3}),
    "polyadam without a first memory": (polyadam, PolyAdam, {"p": 1, "beta": 0}),
    "adana, its default": (adana, ADana, {}),
    "adana": (adana, ADana, {"delta": 2.5, "kappa": 0.5, "omega": 1.0, "eps": 1e-3}),
    "adana, decay through lr": (adana, ADana, {"kappa": 0.5, "omega": 4.0, "through_lr": True}),
    "adana without decay": (adana, ADana, {"kappa": 0, "omega": 0.0}),
}


@pytest.mark.parametrize("name", SAME)
def test_every_step_is_that_of_the_pytorch_optimizer(name: str) -> None:
    transform, optimizer, options = SAME[name]
    x0, gradients = random(7, seed=1), random(STEPS, 7, seed=2)
    ours, _ = run(transform(0.05, **options), x0, gradients)
    theirs = run_torch(lambda params: optimizer(params, lr=0.05, **options), x0, gradients)
    np.testing.assert_allclose(ours, theirs, rtol=AGREES, atol=AGREES)


@pytest.mark.parametrize("memory", ["poly:2", "exp:0.9", "power:0.8"])
def test_steps_agree_with_pytorch_after_a_million(memory: str) -> None:
    start, x0, gradients = 1_000_000, random(7, seed=1), 1000 * random(20, 7, seed=2)
    options = {"memory": memory, "second_memory": memory}
    optimizer = memadam(0.05, **options)
    state = optimizer.init(jnp.asarray(x0))
    late = (state[0]._replace(count=jnp.asarray(start, jnp.int32)), *state[1:])
    ours, last = run(optimizer, x0, gradients, late)
    theirs = run_torch(lambda params: MemAdam(params, lr=0.05, **options), x0, gradients, start)
    np.testing.assert_allclose(ours, theirs, rtol=AGREES, atol=AGREES)
    assert last[0].count == start + len(gradients)


def test_steps_agree_with_pytorch_under_a_schedule_of_the_learning_rate() -> None:
    x0, gradients = random(7, seed=1), random(STEPS, 7, seed=2)
    ours, _ = run(memsgd(lambda k: 0.1 / (1.0 + k), "poly:3"), x0, gradients)

    x = torch.nn.Parameter(torch.tensor(x0))
    optimizer = MemSGD([x], lr=0.1, memory="poly:3")
    schedule = LambdaLR(optimizer, lambda k: 1 / (1 + k))
    for ours_k, g in zip(ours, gradients, strict=True):
        x.grad = torch.tensor(g)
        optimizer.step()
        schedule.step()
        np.testing.assert_allclose(ours_k, x.detach().numpy(), rtol=AGREES, atol=AGREES)


@every_memory
def test_the_average_of_iterates_is_that_of_pytorch(memory: str) -> None:
    x0, gradients = random(7, seed=1), random(STEPS, 7, seed=2)
    _, state = run(optax.chain(optax.sgd(0.1), average_iterates(memory)), x0, gradients)

    model = torch.nn.ParameterList([torch.nn.Parameter(torch.tensor(x0))])
    averaged = AveragedModel(model, avg_fn=memgrad.memory_average(memory))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for g in gradients:
        model[0].grad = torch.tensor(g)
        optimizer.step()
        averaged.update_parameters(model)
    np.testing.assert_allclose(state[-1].average, averaged.module[0].detach().numpy(), rtol=AGREES, atol=AGREES)


# --- closed forms ----------------------------------------------------------------------------------------------------

CONSTANTS = [3.0, -0.1, 1e-9, 1e9]


@cache
def responses(memory: Memory | str) -> tuple[Any, Any]:
    """What a memory makes of impulses, one at each step and each in a coordinate of its own, and of constants."""
    u = averages(scale_by_memory(memory), np.hstack([np.eye(STEPS), np.tile(CONSTANTS, (STEPS, 1))]))
    return u[:, :STEPS], u[:, STEPS:]


@every_memory
def test_an_impulse_at_step_j_has_the_exact_weight_ever_after(memory: str) -> None:
    # The gradient at step j is the unit vector e_j, so u_k lists the weights w(0,k), ..., w(k,k), and then zeros. They
    # sum to 1, and each of 60 steps rounds them by 1e-16.
    np.testing.assert_allclose(responses(memory)[0], weights(memory, STEPS), rtol=AGREES, atol=1e-14)


@pytest.mark.parametrize("memory", ["poly:0.3", "exp:0.9", "log"])
def test_the_average_of_iterates_has_the_exact_weights(memory: str) -> None:
    xs, state = run(optax.chain(optax.sgd(1.0), average_iterates(memory)), np.zeros(STEPS), -np.eye(STEPS))
    np.testing.assert_array_equal(xs, np.tri(STEPS))  # x_{k+1} is a sum of k + 1 unit vectors
    np.testing.assert_allclose(state[-1].average, weights(memory, STEPS)[-1] @ xs, rtol=AGREES, atol=1e-14)


def test_adana_is_its_formula_with_explicit_weights() -> None:
    lr, delta, kappa, omega, eps = 0.05, 3.0, 0.6, 2.0, 1e-3
    x, g = random(7, seed=1), random(STEPS, 7, seed=2)
    ours, _ = run(adana(lr, delta=delta, kappa=kappa, omega=omega, eps=eps, through_lr=True), x, g)
    for k in range(STEPS):
        w = polynomial(delta)(np.arange(k + 1), k)
        u, v = w @ g[: k + 1], w @ g[: k + 1] ** 2
        x = x - lr * ((g[k] + (1 + k) ** (1 - kappa) * u) / (np.sqrt(v) + eps) + omega / (k + 1) * x)
        np.testing.assert_allclose(ours[k], x, rtol=AGREES, atol=AGREES)


@pytest.mark.parametrize(("first", "second"), [("poly:2", "exp:0.9"), ("log", "poly:0.3")])
def test_memadam_is_its_formula_with_explicit_weights(first: str, second: str) -> None:
    lr, eps, decay = 0.05, 1e-3, 0.1
    x, g = random(7, seed=1), random(STEPS, 7, seed=2)
    ours, _ = run(memadam(lr, first, second, eps=eps, weight_decay=decay), x, g)
    w, c = weights(first, STEPS), weights(second, STEPS)
    for k in range(STEPS):
        x = x - lr * ((w[k] @ g) / (np.sqrt(c[k] @ g**2) + eps) + decay * x)
        np.testing.assert_allclose(ours[k], x, rtol=AGREES, atol=AGREES)


DEGREES = np.array([0.5, 1.0, 2.0, 3.7, 10.0])


def quadratic_path(p: Any, lr: Any, steps: int) -> Any:
    """MemSGD-p on f(x) = x^2/2 from x_0 = 1: x_1, x_2, ..."""
    return descend(memsgd(lr, Polynomial(p)), lambda x: x**2 / 2, 1.0, steps)[0]


def laguerre(p: Any, lr: float, k: int) -> Any:
    """x_k = L_k^{(p-1)}(y) / L_k^{(p-1)}(0) = 1F1(-k; p; y), y = p lr."""
    return mp.hyp1f1(-k, p, p * mp.mpf(lr))


@pytest.mark.parametrize("lr", [0.01, 0.3, 2.0])
def test_on_a_quadratic_memsgd_is_a_laguerre_polynomial_in_every_degree_at_once(lr: float) -> None:
    xs = jax.vmap(lambda p: quadratic_path(p, lr, 100))(DEGREES)
    for p, path in zip(DEGREES, np.asarray(xs), strict=True):
        exact = np.array([float(laguerre(mp.mpf(p), lr, k)) for k in range(1, 101)])
        # Iterates are up to e^{y/2} for p >= 1, and 100 steps of 1e-16 each relative to that.
        np.testing.assert_allclose(path, exact, rtol=0, atol=1e-13 * np.exp(max(p, 2) * lr / 2))


def test_the_derivative_in_the_degree_flows_through_the_optimizer() -> None:
    slope = jax.vmap(jax.grad(lambda p: quadratic_path(p, 0.3, 30)[-1]))(DEGREES)
    exact = [float(mp.diff(lambda p: laguerre(p, 0.3, 30), mp.mpf(p))) for p in DEGREES]
    np.testing.assert_allclose(slope, exact, rtol=1e-10, atol=1e-13)  # sums of 30 terms of either sign


@pytest.mark.parametrize("memory", [*[pytest.param(text, id=text[:12]) for text in MEMORIES], *CODE.values()])
def test_a_constant_gradient_is_followed_as_it_is_at_every_step(memory: Memory | str) -> None:
    # Each step rounds by 1e-16 towards a fixed point, so the errors do not add up.
    np.testing.assert_allclose(responses(memory)[1], np.tile(CONSTANTS, (STEPS, 1)), rtol=1e-14)


def test_on_a_constant_gradient_a_step_is_the_learning_rate_times_it_or_its_sign() -> None:
    g = np.tile(CONSTANTS, (STEPS, 1))
    for memory in ("poly:2", "exp:0.9", "log"):
        np.testing.assert_allclose(averages(memsgd(0.1, memory), g), -0.1 * g, rtol=1e-14)
        scaled = averages(scale_by_memory_adam("poly:3", memory, eps=1e-6), g)
        np.testing.assert_allclose(scaled, g / (np.abs(g) + 1e-6), rtol=1e-14)


@pytest.mark.parametrize("memory", ["poly:2", "exp:0.9", "inst", "log", "stretch:0.5", "stretch:1.5", "power:0.8"])
def test_a_constant_gradient_is_followed_to_the_last_step_that_can_be_counted(memory: str) -> None:
    transform = scale_by_memory(memory)
    for k in (10**3, 10**6, 2**31 - 1):
        state = transforms.MemoryState(jnp.asarray(k, jnp.int32), jnp.array([0.7]))
        u, _ = transform.update(jnp.array([0.7]), state)
        np.testing.assert_allclose(u, 0.7, rtol=1e-15)


def test_the_newest_gradient_has_its_exact_weight_where_that_is_tiny() -> None:
    k = 2**31 - 1
    exact = {
        "poly:2": 2 / (k + 2),
        "log": mp.log1p(mp.mpf(1) / (k + 1)) / mp.log1p(k + 1),
        "power:0.8": (k + 1) ** -0.8,
    }
    for memory, weight in exact.items():
        state = transforms.MemoryState(jnp.asarray(k, jnp.int32), jnp.zeros(1))
        u, _ = scale_by_memory(memory).update(jnp.ones(1), state)
        np.testing.assert_allclose(u, float(weight), rtol=1e-14)  # 1 - b_k would have an error of 1e-16 / 1e-9


@pytest.mark.parametrize("memory", ["inst", "decays:0,0,0,0"])
def test_a_gradient_that_is_forgotten_at_once_leaves_no_rounding_behind(memory: str) -> None:
    # b_k = 0: the average is the new gradient, bit for bit. u + 1 (g - u) is 0 after a u of 1e20.
    gradients = np.array([1e20, 1.0, -3e-5, 1e20])
    np.testing.assert_array_equal(averages(scale_by_memory(memory), gradients), gradients)


# --- optax -----------------------------------------------------------------------------------------------------------


def steps_on_ones(optimizer: Any, steps: int) -> Any:
    """The lengths of the steps on a constant gradient, in units of the learning rate 0.1."""
    xs, _ = run(optimizer, 0.0, np.ones(steps))
    return -np.diff(xs, prepend=0.0) / 0.1


def test_adam_with_a_changing_decay_is_16_percent_off_for_ever_and_ours_is_not() -> None:
    k = np.arange(2000)
    adam = optax.inject_hyperparams(optax.adam)(0.1, b1=lambda k: k / (k + 2.0), b2=0.999, eps=1e-30)
    length = steps_on_ones(adam, len(k))
    # Its average has the weight 1, and is divided by 1 - b_k^{k+1} all the same.
    np.testing.assert_allclose(length, 1 / (1 - (k / (k + 2)) ** (k + 1)), rtol=1e-9)  # its 1 - 0.999^k rounds
    np.testing.assert_allclose(length[-1], 1 / (1 - np.exp(-2)), rtol=1e-6)  # 1.1565, up to 1/k^2
    for memory in ("poly:2", FromDecays(lambda k: k / (k + 2))):
        ours = memadam(0.1, memory, "exp:0.999", eps=1e-30)
        np.testing.assert_allclose(steps_on_ones(ours, len(k)), 1.0, rtol=1e-11)  # differences of iterates up to 200


def test_memories_that_change_from_step_to_step_stay_normalized() -> None:
    def wandering(low: float, high: float, period: float) -> Callable[[Any], Any]:
        return lambda k: low + (high - low) * (0.5 + 0.5 * jnp.sin(k / period))

    optimizer = optax.inject_hyperparams(polyadam)(
        0.1, p=wandering(0.5, 50, 3), beta=wandering(0.01, 0.999, 5), eps=1e-30
    )
    np.testing.assert_allclose(steps_on_ones(optimizer, 300), 1.0, rtol=1e-12)


def test_memadam_with_exponential_memories_is_adamw() -> None:
    x0, gradients = random(7, seed=1), random(STEPS, 7, seed=2)
    for eps, weight_decay in ((1e-8, 0.0), (1e-3, 0.3)):
        options = {"eps": eps, "weight_decay": weight_decay}
        ours, _ = run(memadam(0.05, "exp:0.9", "exp:0.999", **options), x0, gradients)
        theirs, _ = run(optax.adamw(0.05, b1=0.9, b2=0.999, **options), x0, gradients)
        np.testing.assert_allclose(ours, theirs, rtol=AGREES, atol=AGREES)


def test_a_plain_average_of_squares_and_a_falling_learning_rate_is_adagrad() -> None:
    x0, gradients = random(7, seed=1), random(STEPS, 7, seed=2)
    ours, _ = run(polyadam(lambda k: 0.1 / jnp.sqrt(k + 1.0), p=1, beta=0, eps=1e-30), x0, gradients)
    theirs, _ = run(optax.adagrad(0.1, initial_accumulator_value=0.0, eps=1e-60), x0, gradients)
    np.testing.assert_allclose(ours, theirs, rtol=AGREES, atol=AGREES)


def test_an_exponential_memory_is_the_debiased_moving_average() -> None:
    gradients = random(STEPS, 7, seed=2)
    ours, theirs = (averages(t, gradients) for t in (scale_by_memory("exp:0.8"), optax.ema(0.8, debias=True)))
    np.testing.assert_allclose(ours, theirs, rtol=AGREES, atol=AGREES)


# --- convergence on optax's two problems -----------------------------------------------------------------------------

PROBLEMS: dict[str, tuple[Callable[[Any], Any], list[float], list[float]]] = {
    "parabola": (lambda x: jnp.sum((x - jnp.array([1.0, -1.0, 1.0])) ** 2), [-1.0, 10.0, 1.0], [1.0, -1.0, 1.0]),
    "rosenbrock": (lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, [0.0, 0.0], [1.0, 1.0]),
}
LEARN: dict[str, Callable[[str], Any]] = {
    "memsgd poly": lambda problem: memsgd(0.1 if problem == "parabola" else 2e-3, "poly:20"),
    "memsgd exp": lambda problem: memsgd(0.1 if problem == "parabola" else 2e-3, "exp:0.9"),
    "memadam": lambda _: memadam(0.1),
    "polyadam": lambda _: polyadam(0.1, p=2.0),
    "adana": lambda _: adana(0.01),
    "averaged": lambda _: optax.chain(memadam(0.1), average_iterates("poly:20")),
}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", LEARN)
def test_the_minimum_is_found(name: str, problem: str) -> None:
    loss, start, minimum = PROBLEMS[problem]
    xs, state = descend(LEARN[name](problem), loss, start, steps=10_000)
    for x in [xs[-1], state[-1].average] if name == "averaged" else [xs[-1]]:
        np.testing.assert_allclose(x, minimum, rtol=0.03, atol=0.03)  # optax's own number of steps and tolerances


def test_the_old_name_of_average_iterates_warns_and_gives_the_same() -> None:
    """It was also the name of the averaging function for PyTorch, whose arguments and result are others."""
    with pytest.warns(DeprecationWarning, match="average_iterates"):
        old = transforms.memory_average("poly:2")
    x0, gradients = np.zeros(3), np.arange(12.0).reshape(4, 3)
    states = [run(optax.chain(optax.sgd(0.1), t), x0, gradients)[1] for t in (old, average_iterates("poly:2"))]
    np.testing.assert_array_equal(states[0][-1].average, states[1][-1].average)
    assert "memory_average" not in transforms.__all__


GRADIENTS = (1.0, 2.0, 3.0)


def third_step(optimizer: optax.GradientTransformation) -> jax.Array:
    """The length of the third step along the gradients 1, 2 and 3."""
    x = jnp.ones(())
    state = optimizer.init(x)
    for g in GRADIENTS:
        updates, state = optimizer.update(jnp.asarray(g), state, x)
    return -updates


@pytest.mark.parametrize(("alpha", "h"), [(8.0, 1e-5), (4.0, 1e-10), (20.0, 0.01), (1.5, 1e-26)])
@pytest.mark.parametrize(
    "steps", [jnp.arange(5), np.arange(5, dtype=np.float32), torch.arange(5)], ids=lambda k: type(k)
)
def test_a_stretched_memory_of_tiny_time_steps_is_polynomial_in_single_precision(
    steps: Any, alpha: float, h: float
) -> None:
    """For t^alpha = 1e-39, m(t) = t^alpha (1 + O(1e-39)), so b_k = (k/(k+1))^alpha; but t^alpha is 0 in float32."""
    memory = Stretched(alpha, h=h)
    decays = (np.arange(5) / np.arange(1, 6)) ** alpha
    # some roundings of float32, of which the power amplifies one by alpha
    np.testing.assert_allclose(np.asarray(memory.decay(steps)), decays, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(memory.fresh(steps)), 1 - decays, rtol=1e-5)


def test_a_step_along_a_stretched_memory_of_tiny_time_steps_is_finite() -> None:
    found = third_step(transforms.memsgd(1.0, "stretch:8,h=1e-5"))
    weights = np.diff(np.arange(4.0) ** 8) / 3.0**8
    assert float(found) == pytest.approx(weights @ GRADIENTS, rel=1e-6)
