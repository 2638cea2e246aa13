"""The update rules against closed forms and against torch.optim.

Nothing here is computed with the library's decays: they are what is tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from optimizer_table import random, same, some_gradients, some_params, train, values
from scipy.optimize import minimize
from scipy.special import expit, poch
from torch.nn import Parameter

from memgrad import ADana, HeavyBall, MemAdam, MemSGD, Nesterov, PolyAdam

Array = NDArray[np.float64]
Gradient = Callable[[Array], Array]
properties = settings(max_examples=25, deadline=None)
MODES: dict[str, dict[str, Any]] = {
    "fused": {"fused": True},
    "foreach": {"foreach": True},
    "single": {"fused": False, "foreach": False},
}
every_mode = pytest.mark.parametrize("mode", MODES)
MEMORIES = ("poly:1", "poly:2", "poly:3.7", "exp:0.9", "exp:0.5", "inst", "log", "stretch:1.5", "power:0.8")
every_memory = pytest.mark.parametrize("memory", MEMORIES)


def path(make: Callable[[list[Parameter]], torch.optim.Optimizer], gradient: Gradient, x0: Any, steps: int) -> Array:
    """The iterates x_0, ..., x_steps in double precision."""
    x = Parameter(torch.tensor(x0, dtype=torch.float64))
    optimizer = make([x])
    iterates = [x.detach().numpy().copy()]
    for _ in range(steps):
        x.grad = torch.from_numpy(np.array(gradient(iterates[-1])))
        optimizer.step()
        iterates.append(x.detach().numpy().copy())
    return np.stack(iterates)


# --- MemSGD ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.7, 10.0])
@every_mode
def test_memsgd_on_a_quadratic_is_a_laguerre_polynomial(p: float, mode: str) -> None:
    """C4: x_k = x_0 1F1(-k; p; p lr lambda), for every lr, also those that no theorem covers."""
    lr, curvature = 0.5, np.array([0.01, 0.2, 1.0, 2.5])
    found = path(lambda x: MemSGD(x, lr=lr, memory=f"poly:{p}", **MODES[mode]), lambda x: curvature * x, [1.0] * 4, 200)
    for k in (0, 1, 2, 3, 10, 57, 200):
        with mpmath.workdps(60):  # the terms of the polynomial cancel
            expected = [float(mpmath.hyp1f1(-k, p, mpmath.mpf(p) * lr * c)) for c in curvature]
        # Rounding of 200 steps, amplified at most by the bound e^{y/2} < 600 of the polynomial.
        assert np.allclose(found[k], expected, rtol=1e-10, atol=1e-11)


@every_memory
@every_mode
def test_a_constant_gradient_gives_the_step_minus_lr_g_with_any_memory(memory: str, mode: str) -> None:
    """D1, for every k: the weights sum to 1."""
    g = np.array([3.0, -0.1, 1e-5])
    found = path(lambda x: MemSGD(x, lr=0.5, memory=memory, **MODES[mode]), lambda x: g, [0.0] * 3, 60)
    # The fused kernel rounds b g + (1 - b) g at each step, the others nothing.
    assert np.allclose(found, -0.5 * g * np.arange(61)[:, None], rtol=1e-14)


@properties
@given(
    p=st.floats(0.2, 50),
    lr=st.floats(1e-3, 1.0),
    gradients=st.lists(st.floats(-100, 100), min_size=1, max_size=40),
)
def test_the_paper_s_form_is_the_form_with_a_buffer_for_a_constant_learning_rate(
    p: float, lr: float, gradients: list[float]
) -> None:
    """A1: x_{k+1} = x_k + k/(k+p) (x_k - x_{k-1}) - p/(k+p) lr g_k, x_{-1} = x_0."""
    before = now = 0.5
    expected = [now]
    for k, g in enumerate(gradients):
        before, now = now, now + k / (k + p) * (now - before) - p / (k + p) * lr * g
        expected.append(now)
    feed = iter(gradients)
    found = path(
        lambda x: MemSGD(x, lr=lr, memory=f"poly:{p!r}"), lambda x: np.array([next(feed)]), [0.5], len(gradients)
    )
    assert np.allclose(found[:, 0], expected, rtol=1e-11, atol=1e-9)  # |x| < 4000, 40 steps


@properties
@given(p=st.floats(0.2, 50), gradients=st.lists(st.floats(-100, 100), min_size=1, max_size=40))
def test_memsgd_follows_the_explicit_weighted_sum(p: float, gradients: list[float]) -> None:
    """C1: w(j,k) = p (j+1)_{p-1} / (k+1)_p, rising factorials by scipy."""
    k = len(gradients) - 1
    weights = p * poch(np.arange(k + 1) + 1.0, p - 1) / poch(k + 1.0, p)
    feed = iter(gradients)
    found = path(lambda x: MemSGD(x, lr=1.0, memory=f"poly:{p!r}"), lambda x: np.array([next(feed)]), [0.0], k + 1)
    assert found[-1, 0] - found[-2, 0] == pytest.approx(-weights @ gradients, abs=1e-9)  # sums of 40 terms below 100


@pytest.mark.parametrize("beta", [0.5, 0.9, 0.999])
def test_the_exponential_memory_is_adam_s_bias_corrected_average(beta: float) -> None:
    gradients, average = random(100).numpy(), 0.0
    feed = iter(gradients)
    found = path(lambda x: MemSGD(x, lr=1.0, memory=f"exp:{beta}"), lambda x: np.array([next(feed)]), [0.0], 100)
    for k, g in enumerate(gradients):
        average = beta * average + (1 - beta) * g
        expected = average / (1 - beta ** (k + 1))
        assert found[k + 1, 0] - found[k, 0] == pytest.approx(-expected, abs=1e-12)  # |x| < 100 ulps of 1


def test_the_degree_1_is_the_mean_and_a_large_degree_is_sgd() -> None:
    params, plain = some_params(), some_params()
    gradients = some_gradients(params, 20)
    train(MemSGD(params, lr=0.1, memory="poly:1e12"), params, gradients)
    train(torch.optim.SGD(plain, lr=0.1), plain, gradients)
    assert np.allclose(values(params), values(plain), atol=1e-10)  # they differ by k/p = 2e-11 of a step
    x = Parameter(torch.zeros(1, dtype=torch.float64))
    train(
        MemSGD([x], lr=1.0, memory="poly:1"), [x], [[torch.tensor([g], dtype=torch.float64)] for g in (6.0, 2.0, 1.0)]
    )
    assert x.item() == pytest.approx(-(6 + 4 + 3), rel=1e-15)


# --- MemAdam ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theirs", ["fused", "single"])
@every_mode
@pytest.mark.parametrize("decoupled", [True, False], ids=["AdamW", "Adam"])
def test_memadam_with_two_exponential_memories_is_torch_s_adam(decoupled: bool, mode: str, theirs: str) -> None:
    ours, expected = some_params(), some_params()
    gradients = some_gradients(ours, 100)
    options = {"memory": "exp:0.9", "second_memory": "exp:0.999", "decoupled_weight_decay": decoupled}
    train(MemAdam(ours, lr=0.01, weight_decay=0.1, **options, **MODES[mode]), ours, gradients)
    adam = torch.optim.AdamW if decoupled else torch.optim.Adam
    train(adam(expected, lr=0.01, betas=(0.9, 0.999), weight_decay=0.1, **MODES[theirs]), expected, gradients)
    # torch divides by 1 - 0.999^t, which loses 3 digits at first; 100 steps of 0.01 keep that error small.
    assert np.allclose(values(ours), values(expected), rtol=1e-12, atol=1e-12)


@every_mode
def test_a_second_memory_of_degree_1_is_adamnc(mode: str) -> None:
    """Reddi et al.: beta_2 = 1 - 1/t, so v is the mean of all squares."""
    gradients = [g.numpy() for g in random(50, 3)]
    feed = iter(gradients)
    found = path(lambda x: PolyAdam(x, lr=0.1, p=1, beta=0.9, **MODES[mode]), lambda x: next(feed), [0.0] * 3, 50)
    x, average, squares = np.zeros(3), np.zeros(3), np.zeros(3)
    for k, g in enumerate(gradients):
        average = 0.9 * average + 0.1 * g
        squares = squares + g**2
        x = x - 0.1 * average / (1 - 0.9 ** (k + 1)) / (np.sqrt(squares / (k + 1)) + 1e-8)
        assert np.allclose(found[k + 1], x, rtol=1e-12, atol=1e-13)


@every_mode
def test_with_no_first_memory_and_rate_over_root_k_it_is_adagrad(mode: str) -> None:
    ours, theirs = some_params(), some_params()
    gradients = some_gradients(ours, 60)
    adam = MemAdam(ours, memory="inst", second_memory="poly:1", eps=0.0, **MODES[mode])
    for k, step in enumerate(gradients):
        adam.param_groups[0]["lr"] = 0.1 / math.sqrt(k + 1)
        train(adam, ours, [step])
    train(torch.optim.Adagrad(theirs, lr=0.1, eps=0.0), theirs, gradients)
    assert np.allclose(values(ours), values(theirs), rtol=1e-13, atol=1e-13)


@every_mode
def test_the_steps_of_memadam_do_not_depend_on_the_scale_of_the_gradients(mode: str) -> None:
    small, large = some_params(), some_params()
    gradients = some_gradients(small, 20)
    train(MemAdam(small, lr=0.1, eps=0.0, **MODES[mode]), small, gradients)
    train(MemAdam(large, lr=0.1, eps=0.0, **MODES[mode]), large, [[1e6 * g for g in step] for step in gradients])
    assert np.allclose(values(small), values(large), rtol=1e-12, atol=1e-13)


# --- HeavyBall, Nesterov, ADana --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("nesterov", "momentum"), [(False, 0.0), (False, 0.5), (False, 0.9), (True, 0.5), (True, 0.9)])
@every_mode
def test_a_constant_momentum_is_torch_s_sgd_bit_for_bit(
    mode: str, nesterov: bool, momentum: float, dtype: torch.dtype
) -> None:
    ours, theirs = some_params(dtype=dtype), some_params(dtype=dtype)
    gradients = some_gradients(ours, 30)
    for maximize, decay in ((False, 0.0), (True, 0.1)):
        options = {"lr": 0.1, "momentum": momentum, "weight_decay": decay, "maximize": maximize, **MODES[mode]}
        train((Nesterov if nesterov else HeavyBall)(ours, **options), ours, gradients)
        train(torch.optim.SGD(theirs, nesterov=nesterov, **options), theirs, gradients)
        assert same(ours, theirs)


def valley(x: Array) -> Array:
    """The gradient of a convex function that is no quadratic: sum of log cosh and x^4/4."""
    return np.tanh(x) + x**3


@every_mode
@pytest.mark.parametrize("q", [1.0, 3.0, 7.5])
def test_heavy_ball_with_viscosity_is_the_paper_s_recursion(q: float, mode: str) -> None:
    """A1: x_{k+1} = x_k + k/(k+q) (x_k - x_{k-1}) - lr g_k, x_{-1} = x_0."""
    found = path(lambda x: HeavyBall(x, lr=0.05, viscosity=q, **MODES[mode]), valley, [1.0, -2.0], 100)
    before = now = np.array([1.0, -2.0])
    for k in range(100):
        before, now = now, now + k / (k + q) * (now - before) - 0.05 * valley(now)
        assert np.allclose(found[k + 1], now, rtol=1e-10, atol=1e-11)  # it oscillates and amplifies rounding


@every_mode
@pytest.mark.parametrize("q", [1.0, 3.0, 7.5])
def test_nesterov_with_viscosity_is_the_textbook_recursion(q: float, mode: str) -> None:
    """Su, Boyd, Candes: z_{k+1} = y_k - lr f'(y_k), y_k = z_k + k/(k+q) (z_k - z_{k-1}); the parameters are y."""
    found = path(lambda x: Nesterov(x, lr=0.05, viscosity=q, **MODES[mode]), valley, [1.0, -2.0], 100)
    z = y = np.array([1.0, -2.0])
    for k in range(100):
        z, old = y - 0.05 * valley(y), z
        y = z + (k + 1) / (k + 1 + q) * (z - old)
        assert np.allclose(found[k + 1], y, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("delta", [1.0, 4.5, 8.0])
def test_the_averages_of_adana_are_polynomial_memories_of_degree_delta(delta: float) -> None:
    steps = 40
    gradients = random(steps, 3)
    x = Parameter(torch.zeros(3, dtype=torch.float64))
    optimizer = ADana([x], lr=0.1, delta=delta)
    for k in range(steps):
        train(optimizer, [x], [[gradients[k]]])
        weights = torch.from_numpy(delta * poch(np.arange(k + 1) + 1.0, delta - 1) / poch(k + 1.0, delta))
        state = optimizer.state[x]
        assert torch.allclose(state["average"], weights @ gradients[: k + 1], rtol=1e-11, atol=1e-12)
        assert torch.allclose(state["square_average"], weights @ gradients[: k + 1] ** 2, rtol=1e-11, atol=1e-12)


def test_adana_takes_the_step_of_its_definition() -> None:
    """ADana is x - lr [(g + (1+k)^{1-kappa} u) / (sqrt v + eps) + omega/(k+1) x], all by hand for delta = 1."""
    gradients, lr, kappa, omega = [2.0, -1.0, 0.5, 3.0], 0.1, 0.6, 1.5
    feed = iter(gradients)
    options = {"delta": 1.0, "kappa": kappa, "omega": omega, "eps": 0.01, "through_lr": True}
    make = lambda x: ADana(x, lr=lr, **options)  # noqa: E731
    found = path(make, lambda x: np.array([next(feed)]), [1.0], 4)
    x = 1.0
    for k, g in enumerate(gradients):
        past = np.array(gradients[: k + 1])
        direction = (g + (1 + k) ** (1 - kappa) * past.mean()) / (math.sqrt((past**2).mean()) + 0.01)
        x = x - lr * (direction + omega / (k + 1) * x)
        assert found[k + 1, 0] == pytest.approx(x, rel=1e-13)


# --- symmetries (D6) -------------------------------------------------------------------------------------------------

LINEAR: dict[str, Callable[..., Any]] = {
    "MemSGD poly:2": lambda x, lr: MemSGD(x, lr=lr, memory="poly:2"),
    "MemSGD exp:0.9": lambda x, lr: MemSGD(x, lr=lr, memory="exp:0.9"),
    "MemSGD log": lambda x, lr: MemSGD(x, lr=lr, memory="log"),
    "HeavyBall": lambda x, lr: HeavyBall(x, lr=lr, viscosity=3.0),
    "Nesterov": lambda x, lr: Nesterov(x, lr=lr, momentum=0.9),
}
ALL = {**LINEAR, "MemAdam": lambda x, lr: MemAdam(x, lr=lr), "ADana": lambda x, lr: ADana(x, lr=lr, omega=0.0)}


@pytest.mark.parametrize("name", LINEAR)
def test_rotating_the_function_rotates_the_path(name: str) -> None:
    rotation, _ = np.linalg.qr(random(4, 4).numpy())
    start = random(4, seed=1).numpy()
    plain = path(lambda x: LINEAR[name](x, 0.05), valley, start, 60)
    rotated = path(lambda x: LINEAR[name](x, 0.05), lambda y: rotation.T @ valley(rotation @ y), rotation.T @ start, 60)
    assert np.allclose(rotated @ rotation.T, plain, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_moving_the_function_moves_the_path(name: str) -> None:
    shift, start = np.array([3.0, -1.0, 0.25]), np.array([1.0, -2.0, 0.5])
    plain = path(lambda x: ALL[name](x, 0.05), valley, start, 60)
    moved = path(lambda x: ALL[name](x, 0.05), lambda y: valley(y - shift), start + shift, 60)
    assert np.allclose(moved - shift, plain, atol=1e-10)


@properties
@given(c=st.floats(1e-3, 1e3), lr=st.floats(1e-3, 0.05))
@pytest.mark.parametrize("name", LINEAR)
def test_scaling_the_function_and_unscaling_the_learning_rate_changes_nothing(name: str, c: float, lr: float) -> None:
    plain = path(lambda x: LINEAR[name](x, lr), valley, [1.0, -2.0], 20)
    scaled = path(lambda x: LINEAR[name](x, lr / c), lambda x: c * valley(x), [1.0, -2.0], 20)
    assert np.allclose(scaled, plain, atol=1e-11)


# --- the Lyapunov function (D8) --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Convex:
    """A convex function with its gradient, smoothness L and minimizer."""

    f: Callable[[Array], float]
    gradient: Gradient
    smoothness: float
    minimizer: Array


def least_squares() -> Convex:
    a, b = random(8, 3).numpy(), random(8, seed=1).numpy()
    best = np.linalg.lstsq(a, b, rcond=None)[0]
    smoothness = float(np.linalg.eigvalsh(a.T @ a).max())
    return Convex(lambda x: float(((a @ x - b) ** 2).sum() / 2), lambda x: a.T @ (a @ x - b), smoothness, best)


def logistic() -> Convex:
    a = random(20, 3).numpy()
    y = np.where(a @ [1.0, -1.0, 0.5] + random(20, seed=1).numpy() > 0, 1.0, -1.0)  # noisy, so not separable
    rows = a * y[:, None]

    def f(x: Array) -> float:
        return float(np.logaddexp(0, -rows @ x).mean())

    def gradient(x: Array) -> Array:
        return np.asarray(-rows.T @ expit(-rows @ x) / len(rows))

    def hessian(x: Array) -> Array:
        s = expit(rows @ x)
        return np.asarray(rows.T @ (rows * (s * (1 - s))[:, None]) / len(rows))

    found = minimize(f, np.zeros(3), jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-13})
    return Convex(f, gradient, float(np.linalg.eigvalsh(rows.T @ rows).max()) / (4 * len(rows)), found.x)


def _huber(x: Array) -> float:
    return float(np.where(np.abs(x) <= 1, x**2 / 2, np.abs(x) - 0.5).sum())


CONVEX = {
    "Huber": Convex(_huber, lambda x: np.clip(x, -1, 1), 1.0, np.zeros(3)),
    "log cosh": Convex(lambda x: float(np.logaddexp(x, -x).sum() - 3 * math.log(2)), np.tanh, 1.0, np.zeros(3)),
    "least squares": least_squares(),
    "logistic": logistic(),
}


@properties
@given(
    p=st.one_of(st.just(2.0), st.floats(2, 40)),
    share=st.one_of(st.just(1.0), st.floats(0.01, 1)),
    start=st.tuples(*[st.floats(-20, 20)] * 3),
)
@pytest.mark.parametrize("name", CONVEX)
def test_the_lyapunov_function_of_memsgd_never_increases(
    name: str, p: float, share: float, start: tuple[float, ...]
) -> None:
    r"""The paper's App. E with errata 41-43, and the learning rate h = p lr / (p-1) <= 1/L of the master lemma.

    MemSGD-p is its method with $\lambda_k = k/(p-1)$: then $\lambda_k/(\lambda_{k+1}+1) = k/(k+p)$ and
    $h/(\lambda_{k+1}+1) = p\,lr/(k+p)$. With $m_{k+1} = x_{k+1} - x_k$,
    $E_k = h (\lambda_k + 1) (f(x_k) - f^*) + |x_{k+1} - x^* + \lambda_{k+1} m_{k+1}|^2 / 2$,
    and $E_0 \le |x_0 - x^*|^2/2$, which gives the rate.
    """
    problem = CONVEX[name]
    lr = share * (p - 1) / (p * problem.smoothness)
    x = path(lambda params: MemSGD(params, lr=lr, memory=f"poly:{p!r}"), problem.gradient, start, 60)
    rate, least, best = p * lr / (p - 1), problem.f(problem.minimizer), problem.minimizer
    half_distance = float(((x[0] - best) ** 2).sum() / 2)
    energies = [half_distance]
    for k in range(60):
        momentum = (k + 1) / (p - 1) * (x[k + 1] - x[k])
        excess = problem.f(x[k]) - least
        energies.append(rate * (k / (p - 1) + 1) * excess + float(((x[k + 1] - best + momentum) ** 2).sum() / 2))
        bound = half_distance / (rate * (k / (p - 1) + 1))
        assert excess <= bound + 1e-12 * (1 + half_distance)
    # Rounding: sums of terms as large as the first energy, and of f and its minimum, each to 1e-15 times a few.
    assert np.all(np.diff(energies) <= 1e-12 * (1 + half_distance))


@pytest.mark.parametrize(("p", "holds"), [(1.5, False), (2.0, True)])
def test_the_bound_needs_a_degree_of_2_at_least(p: float, holds: bool) -> None:
    """A control of the test above: lambda_k <= lambda_{k-1} + 1 says p >= 2, and below it Huber's function violates."""
    lr = (p - 1) / p
    x = path(lambda params: MemSGD(params, lr=lr, memory=f"poly:{p}"), CONVEX["Huber"].gradient, [20.0], 1000)
    k = np.arange(1001)
    bound = (p - 1) ** 2 * 20.0**2 / (2 * lr * p * (k + p - 1))
    excess = np.array([_huber(each) for each in x])
    assert bool(np.all(excess <= bound * (1 + 1e-12))) is holds
