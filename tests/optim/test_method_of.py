"""The methods of optimizers with their options against the closed forms of the methods they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from memgrad import optim
from memgrad.experiments.planning.recipe import Recipe
from memgrad.memory import Memory
from memgrad.method import Method
from memgrad.optim.methods import METHOD_OF, method_of

Array = NDArray[np.float64]
K = 40


def rule(optimizer: str, **options: Any) -> Method:
    found = Recipe.of(optimizer, **options).method
    assert found is not None
    return found


def weights(found: Method, k: int, *, second: bool = False) -> Array:
    """The weights of g_0, ..., g_k in the step (or of their squares under the root), by the recursion as it is run."""
    if second:
        assert found.second_memory is not None
        return recursion(found.second_memory, k) * found.root(k, found.second_memory) ** 2
    parts = [part.gain(k, part.memory) * recursion(part.memory, k) for part in found.mixture]
    return np.asarray(sum(parts))


def recursion(memory: Memory, k: int) -> Array:
    w = np.zeros(k + 1)
    for j, fresh in enumerate(memory.fresh(np.arange(k + 1.0))):
        w[:j] *= 1 - fresh
        w[j] = fresh
    return w


def powers(beta: float, k: int) -> Array:
    return beta ** np.arange(k, -1.0, -1.0)


def products(q: float, k: int) -> Array:
    """The weights of a sum with the factors j/(j+q): the product of those from j + 1 to k."""
    return np.array([np.prod([i / (i + q) for i in range(j + 1, k + 1)]) for j in range(k + 1)])


@pytest.mark.parametrize("k", [0, 1, 2, 7, K])
@pytest.mark.parametrize("name", ["HeavyBall", "SGD"])
def test_a_heavy_ball_sums_gradients_with_powers_of_its_momentum(name: str, k: int) -> None:
    found = rule(name, momentum=0.9)
    assert weights(found, k) == pytest.approx(powers(0.9, k), rel=1e-12)
    assert weights(found, k).sum() == pytest.approx((1 - 0.9 ** (k + 1)) / (1 - 0.9), rel=1e-12)


@pytest.mark.parametrize("name", ["HeavyBall", "Nesterov"])
def test_without_momentum_and_viscosity_the_momentum_is_that_of_the_optimizer(name: str) -> None:
    options = {"momentum": None, "viscosity": None, "weight_decay": 0.0, "decoupled_weight_decay": False}
    assert method_of(name, options) == rule(name, momentum=0.9)


@pytest.mark.parametrize("k", [0, 1, 2, 7, K])
@pytest.mark.parametrize("q", [0.5, 2.0, 3.0])
def test_a_vanishing_viscosity_sums_gradients_with_products_of_its_momenta(q: float, k: int) -> None:
    found = rule("HeavyBall", viscosity=q)
    assert weights(found, k) == pytest.approx(products(q, k), rel=1e-11)
    assert weights(found, k).sum() == pytest.approx((k + q + 1) / (q + 1), rel=1e-12)


@pytest.mark.parametrize("k", [0, 1, 2, 7, K])
def test_nesterov_looks_ahead_with_the_next_momentum(k: int) -> None:
    newest = np.eye(k + 1)[k]
    for found in (rule("Nesterov", momentum=0.8), rule("SGD", momentum=0.8, nesterov=True)):
        assert weights(found, k) == pytest.approx(newest + 0.8 * powers(0.8, k), rel=1e-12)
    ahead = (k + 1) / (k + 1 + 3.0)
    assert weights(rule("Nesterov", viscosity=3.0), k) == pytest.approx(newest + ahead * products(3.0, k), rel=1e-11)


@pytest.mark.parametrize("k", [0, 1, 2, 7, K])
def test_adam_divides_its_averages_by_the_weights_they_have_so_far(k: int) -> None:
    for found in (rule("Adam", betas=(0.9, 0.99)), rule("AdamW", betas=(0.9, 0.99))):
        assert weights(found, k) == pytest.approx(0.1 * powers(0.9, k) / (1 - 0.9 ** (k + 1)), rel=1e-11)
        expected = 0.01 * powers(0.99, k) / (1 - 0.99 ** (k + 1))
        assert weights(found, k, second=True) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("k", [0, 1, 2, 7, K])
def test_adagrad_sums_all_squares_alike(k: int) -> None:
    found = rule("Adagrad")
    assert weights(found, k, second=True) == pytest.approx(np.ones(k + 1), rel=1e-11)
    assert weights(found, k) == pytest.approx(np.eye(k + 1)[k])


@pytest.mark.parametrize("squares", ["sum*poly:1", "poly:1", "4*poly:2"])
def test_the_eps_of_memadam_is_that_of_its_method(squares: str) -> None:
    found = rule("MemAdam", second_memory=squares, eps=0.3)
    assert found.eps == 0.3


@pytest.mark.parametrize("k", [0, 1, 7, K])
def test_degree_one_averages_all_gradients_alike(k: int) -> None:
    assert weights(rule("MemSGD", memory="poly:1"), k) == pytest.approx(np.full(k + 1, 1 / (k + 1)), rel=1e-11)
    found = rule("PolyAdam", p=1.0, beta=0.5)
    assert weights(found, k, second=True) == pytest.approx(np.full(k + 1, 1 / (k + 1)), rel=1e-11)
    assert weights(found, k) == pytest.approx(0.5 * powers(0.5, k) / (1 - 0.5 ** (k + 1)), rel=1e-11)


@pytest.mark.parametrize("k", [0, 1, 7, K])
def test_adana_adds_a_growing_multiple_of_its_average(k: int) -> None:
    found = rule("ADana", delta=1.0, kappa=0.75, omega=2.0, through_lr=True)
    expected = np.full(k + 1, (1 + k) ** 0.25 / (k + 1)) + np.eye(k + 1)[k]
    assert weights(found, k) == pytest.approx(expected, rel=1e-11)
    assert found.weight_decay.shrink(k, 0.1, 0.3) == pytest.approx(0.1 * 2.0 / (k + 1))


@pytest.mark.parametrize(
    ("optimizer", "options", "l2", "shrink"),
    [
        ("SGD", {}, 0.1, 0.0),
        ("MemSGD", {}, 0.1, 0.0),
        ("MemSGD", {"decoupled_weight_decay": True}, 0.0, 0.1),
        ("HeavyBall", {"decoupled_weight_decay": True}, 0.0, 0.1),
        ("Nesterov", {}, 0.1, 0.0),
        ("MemAdam", {}, 0.0, 0.1),
        ("MemAdam", {"decoupled_weight_decay": False}, 0.1, 0.0),
        ("PolyAdam", {}, 0.0, 0.1),
        ("Adam", {}, 0.1, 0.0),
        ("AdamW", {}, 0.0, 0.1),
        ("Adagrad", {}, 0.1, 0.0),
    ],
)
def test_weight_decay_is_an_l2_term_or_a_shrinking(
    optimizer: str, options: dict[str, Any], l2: float, shrink: float
) -> None:
    found = rule(optimizer, weight_decay=0.1, **options)
    decay, k = found.weight_decay, np.arange(3.0)
    assert (decay.l2(k).tolist(), decay.shrink(k, 1.0, 1.0).tolist()) == ([l2] * 3, [shrink] * 3)


@pytest.mark.parametrize(
    ("second_memory", "root"),
    [
        ("poly:3", [1.0] * 3),
        ("4*poly:3", [2.0] * 3),
        ("sum*poly:1", [1.0, 2**0.5, 3**0.5]),
        ("sum*poly:2", None),
        ("sum*exp:0.9", None),
        ("(1+k)*poly:1", None),
    ],
)
def test_the_root_of_the_gain_of_squares_is_that_of_the_method(second_memory: str, root: list[float] | None) -> None:
    found = Recipe.of("MemAdam", second_memory=second_memory).method
    assert (found is None) == (root is None)
    if found is not None and found.second_memory is not None:
        assert [float(found.root(k, found.second_memory)) for k in range(3)] == pytest.approx(root)


def test_methods_without_memory_need_no_average() -> None:
    assert rule("SGD").buffers == 0
    assert rule("HeavyBall", momentum=0.0).buffers == 0
    assert rule("MemSGD", memory="p=inf").buffers == 0
    assert rule("MemSGD").buffers == 1


# Optimizers of torch whose steps are none of ours, and why.
NOT_METHODS = {
    "ASGD": "averages iterates, and its learning rate falls",
    "Adadelta": "multiplies by the root of an average of its own steps",
    "Adafactor": "factors the squares of matrices",
    "Adamax": "divides by a maximum",
    "LBFGS": "uses the gradients of several points in one step",
    "Muon": "orthogonalizes matrices",
    "RAdam": "leaves its denominator out at first",
    "RMSprop": "starts its squares from 0, uncorrected",
    "Rprop": "uses the signs of gradients",
    "SparseAdam": "is Adam of sparse gradients",
}


def test_every_optimizer_is_a_method_or_says_why_not() -> None:
    def classes(module: Any) -> set[str]:
        found = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
        return {
            name for name, each in found.items() if isinstance(each, type) and issubclass(each, torch.optim.Optimizer)
        } - {"Optimizer"}

    assert classes(optim) <= METHOD_OF.keys(), "an optimizer of ours without a method"
    assert classes(torch.optim) - METHOD_OF.keys() == NOT_METHODS.keys()
