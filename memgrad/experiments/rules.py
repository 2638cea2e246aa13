r"""Optimizers as numbers, so that runs of different methods can share one tensor program.

Every rule here is

$$u_k = b_k u_{k-1} + (1 - b_k) g_k, \qquad v_k = c_k v_{k-1} + (1 - c_k) g_k^2, \qquad
x_{k+1} = x_k - \eta \frac{\gamma_k u_k + \delta_k g_k}{\rho_k \sqrt{v_k} + \epsilon},$$

without the denominator where squared gradients are not remembered. A heavy ball sums what a memory averages, so its
gain $\gamma_k$ is the sum of its weights; Adagrad sums what a memory of degree 1 averages, so $\rho_k = \sqrt{k+1}$.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from memgrad.experiments.recipe import Recipe
from memgrad.memory import Exponential, Instantaneous, Memory, Polynomial

Array = NDArray[np.float64]
Sequence = Callable[[Array], Array]


def _constant(value: float) -> Sequence:
    return lambda k: np.full(k.shape, value)


ONE, ZERO = _constant(1.0), _constant(0.0)


@final
@dataclass(frozen=True)
class Rule:
    """An update rule.

    Attributes:
        memory: That of gradients, with the decays b_k.
        gain: gamma_k, a function of an array of steps k = 0, 1, ...
        direct: delta_k, the factor of the newest gradient beside the average.
        second_memory: That of squared gradients, with the decays c_k, or None.
        root: rho_k, the factor of the root of their average.
        eps: What is added to it.
        l2: The factor of the L2 term, which is added to the gradients.
        shrink: By how much x is shrunk at a step, over the step size.
    """

    memory: Memory
    gain: Sequence = ONE
    direct: Sequence = ZERO
    second_memory: Memory | None = None
    root: Sequence = ONE
    eps: float = 0.0
    l2: float = 0.0
    shrink: Sequence = ZERO

    @property
    def remembers(self) -> bool:
        """Whether it needs an average of gradients."""
        return not isinstance(self.memory, Instantaneous)


def rule_of(recipe: Recipe) -> Rule | None:
    """The rule of an optimizer with its options, or None if it has none of this form.

    Example:
        >>> rule_of(Recipe.of("HeavyBall", momentum=0.5)).gain(np.arange(3.0))
        array([1.  , 1.5 , 1.75])
        >>> rule_of(Recipe.of("Rprop")) is None
        True
    """
    write = _RULES.get(recipe.optimizer)
    return None if write is None or dict(recipe.options).get("state_dtype") is not None else write(recipe)


def _memsgd(recipe: Recipe) -> Rule:
    return Rule(Memory.parse(recipe["memory"]), **_weight_decay(recipe, decoupled=recipe["decoupled_weight_decay"]))


def _sgd(recipe: Recipe) -> Rule | None:
    if recipe["momentum"] and recipe["dampening"]:
        return None  # torch does not dampen the first gradient: no memory does that
    if recipe["momentum"] >= 1:
        return None  # torch allows it; no average has such weights
    return _momentum(recipe, recipe["momentum"], None, looks_ahead=recipe["nesterov"], decoupled=False)


def _heavy_ball(recipe: Recipe) -> Rule:
    return _momentum(recipe, recipe["momentum"], recipe["viscosity"], looks_ahead=False)


def _nesterov(recipe: Recipe) -> Rule:
    return _momentum(recipe, recipe["momentum"], recipe["viscosity"], looks_ahead=True)


def _momentum(
    recipe: Recipe, beta: float | None, q: float | None, *, looks_ahead: bool, decoupled: bool | None = None
) -> Rule:
    memory: Memory
    if q is not None:
        # k/(k+q) v + g sums with the weights that Polynomial(q + 1) has, times (k+q+1)/(q+1).
        memory = Polynomial(q + 1)
        summed: Sequence = lambda k: (k + q + 1) / (q + 1)  # noqa: E731
        ahead: Sequence = lambda k: (k + 1) / (k + 1 + q)  # noqa: E731
    elif beta:
        memory = Exponential(beta)
        summed = lambda k: -np.expm1((k + 1) * math.log(beta)) / (1 - beta)  # noqa: E731
        ahead = _constant(beta)
    else:
        memory, summed, ahead = Instantaneous(), ONE, ZERO
    options = _weight_decay(recipe, decoupled=recipe["decoupled_weight_decay"] if decoupled is None else decoupled)
    if looks_ahead:
        return Rule(memory, lambda k: ahead(k) * summed(k), ONE, **options)
    return Rule(memory, summed, **options)


def _memadam(recipe: Recipe) -> Rule:
    options = _weight_decay(recipe, decoupled=recipe["decoupled_weight_decay"])
    first, second = Memory.parse(recipe["memory"]), Memory.parse(recipe["second_memory"])
    return Rule(first, second_memory=second, eps=recipe["eps"], **options)


def _polyadam(recipe: Recipe) -> Rule:
    first = _exponential(recipe["beta"])
    options = _weight_decay(recipe, decoupled=True)
    return Rule(first, second_memory=Polynomial(recipe["p"]), eps=recipe["eps"], **options)


def _adam(recipe: Recipe) -> Rule | None:
    if recipe["amsgrad"]:
        return None
    decoupled = recipe.optimizer == "AdamW" or bool(dict(recipe.options).get("decoupled_weight_decay"))
    first, second = (_exponential(beta) for beta in recipe["betas"])
    return Rule(first, second_memory=second, eps=recipe["eps"], **_weight_decay(recipe, decoupled=decoupled))


def _adagrad(recipe: Recipe) -> Rule | None:
    if recipe["lr_decay"] or recipe["initial_accumulator_value"]:
        return None
    options = _weight_decay(recipe, decoupled=False)
    summed: Sequence = lambda k: np.sqrt(k + 1)  # noqa: E731
    return Rule(Instantaneous(), second_memory=Polynomial(1), root=summed, eps=recipe["eps"], **options)


def _exponential(beta: float) -> Memory:
    return Exponential(beta) if beta else Instantaneous()


def _adana(recipe: Recipe) -> Rule:
    memory, kappa, omega = Polynomial(recipe["delta"]), recipe["kappa"], recipe["omega"]
    return Rule(
        memory,
        gain=lambda k: (1 + k) ** (1 - kappa),
        direct=ONE,
        second_memory=memory,
        eps=recipe["eps"],
        shrink=lambda k: omega / (k + 1),
    )


def _weight_decay(recipe: Recipe, *, decoupled: bool) -> dict[str, Any]:
    return {"shrink": _constant(recipe["weight_decay"])} if decoupled else {"l2": recipe["weight_decay"]}


_RULES: Mapping[str, Callable[[Recipe], Rule | None]] = MappingProxyType(
    {
        "MemSGD": _memsgd,
        "SGD": _sgd,
        "HeavyBall": _heavy_ball,
        "Nesterov": _nesterov,
        "MemAdam": _memadam,
        "PolyAdam": _polyadam,
        "Adam": _adam,
        "AdamW": _adam,
        "Adagrad": _adagrad,
        "ADana": _adana,
    }
)
