"""Methods as values: each named method against its authors' own rule or torch's, and its text and data forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from memgrad.dynamics import method_moments
from memgrad.memory import Gain, Mixture, Polynomial
from memgrad.method import (
    METHODS,
    Method,
    WeightDecay,
    adagrad,
    adam,
    adamw,
    adana,
    ademamix,
    aggmo,
    dana,
    heavy_ball,
    memadam,
    memsgd,
    nadam,
    nesterov,
    polyadam,
    qhm,
    sgd,
)
from memgrad.optim import reference

STEPS = 60
START = np.array([1.0, -2.0, 0.5])


def gradient(x: np.ndarray, k: int) -> np.ndarray:
    """A gradient that depends on x and changes its sign and size from step to step."""
    return np.array([1.0, 0.3, 3.0]) * x + np.sin(np.arange(1, 4) * (k + 1))


def of_torch(make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]) -> np.ndarray:
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # NAdam keeps the product of its momenta in the default dtype
    try:
        x = torch.nn.Parameter(torch.tensor(START))
        optimizer = make([x])
        path = [START]
        for k in range(STEPS):
            x.grad = torch.from_numpy(gradient(x.detach().numpy(), k))
            optimizer.step()
            path.append(x.detach().numpy().copy())
        return np.stack(path)
    finally:
        torch.set_default_dtype(default)


TORCH: dict[str, tuple[Method, Callable[..., torch.optim.Optimizer]]] = {
    "sgd": (sgd(), lambda p: torch.optim.SGD(p, lr=0.02)),
    "heavy ball": (heavy_ball(0.8), lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.8)),
    "nesterov": (nesterov(0.8), lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.8, nesterov=True)),
    "adam": (adam(weight_decay=0.1), lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.1)),
    "adamw": (adamw((0.8, 0.99), eps=1e-3), lambda p: torch.optim.AdamW(p, lr=0.02, betas=(0.8, 0.99), eps=1e-3)),
    "nadam": (nadam(weight_decay=0.1), lambda p: torch.optim.NAdam(p, lr=0.02, weight_decay=0.1)),
    "nadam, decoupled": (
        nadam((0.7, 0.9), psi=0.1, weight_decay=0.1, decoupled=True),
        lambda p: torch.optim.NAdam(
            p, lr=0.02, betas=(0.7, 0.9), momentum_decay=0.1, weight_decay=0.1, decoupled_weight_decay=True
        ),
    ),
    "adagrad": (adagrad(weight_decay=0.1), lambda p: torch.optim.Adagrad(p, lr=0.02, weight_decay=0.1)),
}


@pytest.mark.parametrize("name", TORCH)
def test_named_methods_are_those_of_torch(name: str) -> None:
    method, make = TORCH[name]
    found = reference.follow(method, gradient, START, lr=0.02, steps=STEPS)
    # double precision on both sides, a few roundings per step
    np.testing.assert_allclose(found, of_torch(make), rtol=1e-11, atol=1e-13)


# --- the rules of authors that torch does not have, written down from their papers -----------------------------------


def path_of(rule: Callable[[np.ndarray, np.ndarray, int], np.ndarray]) -> np.ndarray:
    path = [START]
    for k in range(STEPS):
        path.append(rule(path[-1], gradient(path[-1], k), k))
    return np.stack(path)


def qhm_rule(nu: float, beta: float, lr: float) -> Callable[..., np.ndarray]:
    m = np.zeros(3)

    def rule(x: np.ndarray, g: np.ndarray, k: int) -> np.ndarray:
        nonlocal m
        m = beta * m + (1 - beta) * g
        return x - lr * ((1 - nu) * g + nu * m)

    return rule


def aggmo_rule(betas: tuple[float, ...], lr: float) -> Callable[..., np.ndarray]:
    v = [np.zeros(3) for _ in betas]

    def rule(x: np.ndarray, g: np.ndarray, k: int) -> np.ndarray:
        for i, beta in enumerate(betas):
            v[i] = beta * v[i] - g
        return x + lr / len(betas) * sum(v)

    return rule


def nesterov_rule(q: float, lr: float) -> Callable[..., np.ndarray]:
    """z_{k+1} = y_k - lr g(y_k), y_{k+1} = z_{k+1} + (k+1)/(k+1+q) (z_{k+1} - z_k): the points y."""
    z = START

    def rule(y: np.ndarray, g: np.ndarray, k: int) -> np.ndarray:
        nonlocal z
        before, z = z, y - lr * g
        return z + (k + 1) / (k + 1 + q) * (z - before)

    return rule


def ademamix_rule(alpha: float, ramp: int | None, lr: float, decay: float) -> Callable[..., np.ndarray]:
    """Algorithm 1 of arXiv 2409.03137 with betas 0.9, 0.999, 0.9999."""
    b1, b2, b3 = 0.9, 0.999, 0.9999
    m1 = m2 = nu = np.zeros(3)

    def rule(x: np.ndarray, g: np.ndarray, k: int) -> np.ndarray:
        nonlocal m1, m2, nu
        t, a, slow = k + 1, alpha, b3
        if ramp is not None:
            a = min(t * alpha / ramp, alpha)
            line = (1 - t / ramp) * math.log(b3) + t / ramp * math.log(b1)
            slow = min(math.exp(math.log(b1) * math.log(b3) / line), b3) if t < ramp else b3
        m1, m2, nu = b1 * m1 + (1 - b1) * g, slow * m2 + (1 - slow) * g, b2 * nu + (1 - b2) * g * g
        step = (m1 / (1 - b1**t) + a * m2) / (np.sqrt(nu / (1 - b2**t)) + 1e-8)
        return x - lr * (step + decay * x)

    return rule


def adana_rule(delta: float, kappa: float, omega: float, lr: float) -> Callable[..., np.ndarray]:
    """x - gamma(t) (gamma* (g + t^{1-kappa} u)/(sqrt v + eps) + omega/t x), here with gamma(t) = 1; t counts from 1."""
    u = v = np.zeros(3)

    def rule(x: np.ndarray, g: np.ndarray, k: int) -> np.ndarray:
        nonlocal u, v
        b = k / (k + delta)
        u, v = b * u + (1 - b) * g, b * v + (1 - b) * g * g
        return x - lr * (g + (k + 1) ** (1 - kappa) * u) / (np.sqrt(v) + 1e-8) - omega / (k + 1) * x

    return rule


AUTHORS: dict[str, tuple[Method, Callable[[], Callable[..., np.ndarray]]]] = {
    "qhm": (qhm(0.7, 0.95), lambda: qhm_rule(0.7, 0.95, 0.02)),
    "aggmo": (aggmo((0.0, 0.9, 0.99)), lambda: aggmo_rule((0.0, 0.9, 0.99), 0.02)),
    "nesterov, viscosity": (nesterov(viscosity=3), lambda: nesterov_rule(3, 0.02)),
    "ademamix": (ademamix(weight_decay=0.1), lambda: ademamix_rule(5.0, None, 0.02, 0.1)),
    "ademamix, ramped": (ademamix(alpha=8.0, ramp=40), lambda: ademamix_rule(8.0, 40, 0.02, 0.0)),
    "adana": (adana(8.0, 0.85, omega=0.5), lambda: adana_rule(8.0, 0.85, 0.5, 0.02)),
}


@pytest.mark.parametrize("name", AUTHORS)
def test_named_methods_are_those_of_their_authors(name: str) -> None:
    method, rule = AUTHORS[name]
    found = reference.follow(method, gradient, START, lr=0.02, steps=STEPS)
    np.testing.assert_allclose(found, path_of(rule()), rtol=1e-10, atol=1e-13)


def test_adana_decays_by_the_schedule_and_not_by_the_peak() -> None:
    """gamma(t) = 1 - t/100 of the peak 0.02: the decay is gamma(t) omega/t, whatever the peak."""
    schedule = lambda k: 0.02 * (1 - (k + 1) / 100)  # noqa: E731
    flat = reference.follow(adana(omega=0.5), lambda x, k: 0 * x, START, lr=schedule, steps=30, peak_lr=0.02)
    expected = START * np.prod([1 - (1 - t / 100) * 0.5 / t for t in range(1, 31)])
    np.testing.assert_allclose(flat[-1], expected, rtol=1e-12)
    through = reference.follow(adana(omega=0.5, through_lr=True), lambda x, k: 0 * x, START, lr=0.02, steps=30)
    np.testing.assert_allclose(through[-1], START * np.prod([1 - 0.02 * 0.5 / t for t in range(1, 31)]), rtol=1e-12)


# --- text and data ---------------------------------------------------------------------------------------------------

NAMED = [make() for make in METHODS.values()]
OTHERS = [
    nadam(psi=0.1, weight_decay=0.1, decoupled=True),
    ademamix(ramp=1000, weight_decay=0.1),
    adana(through_lr=True),
    adam(weight_decay=0.1),
    memadam("poly:8 + inst + (1+k)^0.15*poly:8", "age:58,to=26,start=10,end=100"),
    Method("poly:2", weight_decay=WeightDecay(0.1, "independent")),
    Method("poly:2", "inst", root=2 * Gain.power(0.5) + 1),
]


@pytest.mark.parametrize("method", [*NAMED, *OTHERS], ids=str)
def test_methods_are_written_and_read_back(method: Method) -> None:
    assert Method.parse(str(method)) == method
    assert Method.from_dict(method.to_dict()) == method
    assert hash(Method.parse(str(method))) == hash(method)


def test_there_is_a_function_for_every_named_method() -> None:
    asked = "memsgd sgd heavy_ball nesterov qhm aggmo adam adamw nadam adagrad polyadam ademamix dana adana"
    assert set(asked.split()) <= set(METHODS)


def test_equal_methods_are_equal_however_they_are_made() -> None:
    assert memadam("exp:0.9", "exp:0.999", weight_decay=0.01) == adamw()
    assert polyadam(1.0, 0.0, eps=0.0) == Method("inst", "poly:1")
    assert dana(4, 1.0) == memsgd("inst + poly:4")
    assert Method("poly:2", weight_decay=WeightDecay(0.0, "l2")) == memsgd("poly:2")


def test_a_method_says_what_it_needs() -> None:
    assert sgd().buffers == 0
    assert memsgd().buffers == heavy_ball().buffers == nesterov().buffers == 1
    assert adana().buffers == 2
    assert ademamix().buffers == 3
    assert memsgd().is_linear
    assert not adam().is_linear


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "eps without a denominator": (lambda: Method("poly:2", eps=1e-8), "without a second memory"),
    "negative eps": (lambda: adam(eps=-1.0), "finite eps >= 0, got eps=-1.0"),
    "a mixture of squares": (lambda: Method("inst", "inst + 5*poly:2"), "not a mixture with gain"),
    "an unknown kind": (lambda: WeightDecay(0.1, "l3"), "l2, decoupled, independent, got kind='l3'"),  # type: ignore[arg-type]
    "negative decay": (lambda: adamw(weight_decay=-0.1), "finite amount >= 0, got amount=-0.1"),
    "momentum 1": (lambda: heavy_ball(1.0), "0 <= momentum < 1, got momentum=1.0"),
    "viscosity 0": (lambda: nesterov(viscosity=0), "finite viscosity > 0"),
    "nu": (lambda: qhm(1.5), "0 <= nu <= 1, got nu=1.5"),
    "no betas": (lambda: aggmo(()), "at least one beta"),
    "kappa": (lambda: adana(kappa=2.0), "0 <= kappa <= 1, got kappa=2.0"),
    "two betas": (lambda: adam((0.9,)), "two betas, got betas=(0.9,)"),
    "three betas": (lambda: ademamix((0.9, 0.99)), "three betas"),
    "a divisor": (lambda: Method.parse("inst / poly:2"), "divides by 'poly:2'"),
    "a decay": (lambda: Method.parse("inst; wd=3"), "says 'wd=3' after its semicolon"),
    "a number": (lambda: Method.parse("inst; l2=x"), "number for l2, got 'x'"),
    "data": (lambda: Method.from_dict({"memory": "inst", "lr": 1}), "got 'lr' as well"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_methods_are_refused_with_the_value_and_the_rule(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises((TypeError, ValueError)) as refusal:
        make()
    assert words in str(refusal.value)


def test_a_method_of_functions_is_not_data() -> None:
    method = memsgd(Gain.of(lambda k: 1.0) * Polynomial(2))
    with pytest.raises(ValueError, match="functions, which are code, not data"):
        method.to_dict()


# --- exact moments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["inst + 0.25*(1+k)*poly:4", "sum*exp:0.9", "exp:0.9 + 2*cold*exp:0.99 + 0.5*inst"])
def test_exact_moments_of_mixtures_are_those_of_many_runs(text: str) -> None:
    lam, lr, steps, runs = np.array([1.0, 0.2]), 0.05, 30, 20_000
    exact = method_moments(text, lr=lr, hessian=np.diag(lam), x0=[1.0, -1.0], noise=0.3, steps=steps)
    rng = np.random.default_rng(7)
    x, history = np.broadcast_to([1.0, -1.0], (runs, 2)), []
    mixture = Mixture.parse(text)
    for k in range(steps):
        history.append(lam * x + 0.3 * rng.standard_normal((runs, 2)))
        x = x - lr * np.tensordot(mixture.weights(k), history, axes=1)
    error = np.sqrt(exact.var[-1] / runs)
    assert np.all(np.abs(x.mean(axis=0) - exact.mean[-1]) < 4 * error)
    # the standard error of a variance of normal numbers is var sqrt(2/n)
    assert np.all(np.abs(x.var(axis=0) / exact.var[-1] - 1) < 4 * math.sqrt(2 / runs))


@pytest.mark.parametrize(
    "text",
    ["inst / (sqrt(exp:0.9)", "inst / sqrt(exp:0.9))", "inst / ((sqrt(exp:0.9))", "inst / (sqrt(exp:0.9)) + 1e-08"],
)
def test_parentheses_of_a_denominator_are_balanced(text: str) -> None:
    with pytest.raises(ValueError, match="which is not of the form"):
        Method.parse(text)


@pytest.mark.parametrize(
    "text", ["(1+k)^0.5*sqrt(poly:1)", "((1+k)^0.5*sqrt(poly:1) + 1e-08)", "2*sqrt(poly:1)", "( sqrt(exp:0.9) )"]
)
def test_roots_of_a_denominator_may_have_parentheses_of_their_own(text: str) -> None:
    method = Method.parse(f"inst / {text}")
    assert Method.parse(str(method)) == method
    assert method.second_memory is not None


def test_a_peak_learning_rate_without_an_independent_decay_is_refused() -> None:
    transforms = pytest.importorskip("memgrad.transforms")
    with pytest.raises(ValueError, match="peak_learning_rate for an independent weight decay only; its kind is"):
        transforms.from_method(0.1, "poly:2; decay=0.3", peak_learning_rate=5.0)
