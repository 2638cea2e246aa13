"""Audits: what any torch optimizer really remembers, found by feeding it impulses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.optimizer import Optimizer

from memgrad.memory import Exponential, Instantaneous, Memory, Polynomial

Make = Callable[[list[torch.nn.Parameter]], Optimizer]
Before = Callable[[Any, int], object]


@dataclass(frozen=True)
class Remembered:
    r"""One memory inside an optimizer, as it was measured.

    Args:
        name: Where it was found: `step` for the step itself, else the name of a buffer in the optimizer's state.
        power: 1 for a memory of gradients, 2 for one of their squares.
        weights: Row k holds the weights $w(0,k), \dots, w(k,k)$, then zeros.
    """

    name: str
    power: int
    weights: NDArray[np.float64]

    @property
    def gain(self) -> NDArray[np.float64]:
        """The sum of the weights at each step, 1 where they are normalised."""
        total: NDArray[np.float64] = self.weights.sum(axis=1)
        return total

    @property
    def mean_age(self) -> float:
        """The mean age of the gradients at the last step, in steps, by normalised weights."""
        w = self.weights[-1]
        return float(w @ np.arange(len(w) - 1, -1, -1) / w.sum())

    @cached_property
    def _nearest(self) -> tuple[Memory, float]:
        return _nearest_memory(self.weights)

    @property
    def nearest(self) -> Memory:
        """The polynomial, exponential or instantaneous memory whose weights are nearest, over all steps."""
        return self._nearest[0]

    @property
    def distance(self) -> float:
        """How far it is: the share of the weight that lies elsewhere (total variation), in the mean over the steps."""
        return self._nearest[1]

    def __str__(self) -> str:
        what = "gradients" if self.power == 1 else "squared gradients"
        return (
            f"{self.name} remembers {what} as {_rounded(self.nearest)}, off by {100 * self.distance:.2f} %\n"
            f"    gain {self.gain[-1]:.4g}, mean age {self.mean_age:.4g} steps, "
            f"weight of the first gradient {self.weights[-1, 0]:.2g}"
        )


@dataclass(frozen=True)
class Audit:
    r"""What an optimizer remembers.

    Args:
        optimizer: Name of its class.
        steps: How many steps it was watched.
        step: The memory in its steps, if these are linear in the gradients; `None` for an adaptive method.
        buffers: The memories in its state, by name.
        constant_gain: Entry k is the step, in units of the learning rate, after k steps with the gradient 1 before: 1
            for all k if the method is normalised.
    """

    optimizer: str
    steps: int
    step: Remembered | None
    buffers: Mapping[str, Remembered]
    constant_gain: NDArray[np.float64]

    def __str__(self) -> str:
        lines = [f"{self.optimizer} over {self.steps} steps"]
        found = [self.step] if self.step else list(self.buffers.values())
        lines += [f"  {each}" for each in found] or ["  nothing is remembered in tensors of the parameter's shape"]
        gain = self.constant_gain
        lines.append(f"  step for a constant gradient, in units of lr: {gain[0]:.4g} at first, {gain[-1]:.4g} at last")
        return "\n".join(lines)


def audit(make_optimizer: Make, steps: int = 100, *, before_step: Before | None = None) -> Audit:
    r"""Find out what a torch optimizer remembers.

    A parameter with one coordinate for each step gets an impulse: coordinate j has the gradient 1 at step j and 0 at
    all others, so its displacement at step k is the weight $w(j,k)$ times the learning rate. A method whose steps are
    not linear in the gradients, such as Adam, is audited through its buffers: one that doubles with the gradients
    remembers them, one that quadruples remembers their squares. Impulses must also add up to what a constant gradient
    gives: a maximum, as AMSGrad's, doubles too, but is no sum.

    Args:
        make_optimizer: Makes the optimizer for a list of parameters, without weight decay. It must update each
            coordinate by its own gradients alone.
        steps: How many steps to watch, >= 2.
        before_step: Called as `before_step(optimizer, k)` before each step, to change what a schedule would change.

    Example:
        >>> print(audit(lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.5), steps=50))  # doctest: +ELLIPSIS
        SGD over 50 steps
          step remembers gradients as exp:0.5, off by 0.00 %
            gain 2, mean age 1 steps, weight of the first gradient ...e-15
          step for a constant gradient, in units of lr: 1 at first, 2 at last
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 2:
        raise ValueError(f"an audit needs an integer steps >= 2, got steps={steps!r}.")
    if not callable(make_optimizer):
        raise TypeError(
            f"an audit needs a function that makes an optimizer for its parameters, got {make_optimizer!r}."
        )
    impulses = np.eye(steps)
    name, moved, states = _watch(make_optimizer, impulses, before_step)
    _, moved_twice, states_twice = _watch(make_optimizer, 2 * impulses, before_step)
    _, constant, states_constant = _watch(make_optimizer, np.ones((steps, 1)), before_step)
    doubles = np.allclose(moved_twice, 2 * moved, rtol=1e-6, atol=1e-12)
    step = Remembered("step", 1, moved) if doubles and _adds_up(moved, constant) else None
    buffers = {}
    for key, weights in states.items():
        if not (weights.any() and _adds_up(weights, states_constant[key])):
            continue
        for power in (1, 2):
            if np.allclose(states_twice[key], 2**power * weights, rtol=1e-6, atol=1e-300):
                buffers[key] = Remembered(key, power, weights)
    return Audit(name, steps, step, buffers, constant[:, 0])


def _adds_up(weights: NDArray[np.float64], constant: NDArray[np.float64]) -> bool:
    """Whether impulses at all steps, which are a constant gradient, have the sum of their effects."""
    return np.allclose(weights.sum(axis=1), constant[:, 0], rtol=1e-6, atol=1e-12)


def _watch(
    make: Make, gradients: NDArray[np.float64], before_step: Before | None
) -> tuple[str, NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Feed gradients; return the steps in units of the learning rate, and the state's tensors, step by step."""
    x = torch.nn.Parameter(torch.zeros(gradients.shape[1], dtype=torch.float64))
    optimizer = make([x])
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"an audit needs a function that makes a torch optimizer, got one that makes {optimizer!r}.")
    moved: list[NDArray[np.float64]] = []
    states: dict[str, list[NDArray[np.float64]]] = {}
    for k, g in enumerate(gradients):
        x.grad = torch.from_numpy(g.copy())
        if before_step is not None:
            before_step(optimizer, k)
        lr = float(optimizer.param_groups[0]["lr"])
        if lr <= 0:
            raise ValueError(
                f"an audit measures steps in units of the learning rate, which must be > 0, got lr={lr!r}."
            )
        before = x.detach().clone()
        optimizer.step()
        moved.append((before - x.detach()).numpy() / lr)
        for key, value in optimizer.state[x].items():
            if isinstance(value, torch.Tensor) and value.shape == x.shape:
                # A buffer that appears late held nothing before.
                rows = states.setdefault(key, [np.zeros(len(g)) for _ in range(k)])
                rows.append(value.detach().to(torch.float64).numpy().copy())
    return type(optimizer).__name__, np.stack(moved), {key: np.stack(rows) for key, rows in states.items()}


def _nearest_memory(weights: NDArray[np.float64]) -> tuple[Memory, float]:
    """The nearest memory of a family with one parameter, by three rounds of an ever finer grid."""
    rows = np.flatnonzero(np.abs(weights.sum(axis=1)) > 1e-12)
    if len(rows) == 0:
        return Instantaneous(), 1.0
    rows = np.unique(rows[np.geomspace(1, len(rows), 10).astype(int) - 1])  # ten steps tell families apart
    measured = weights[rows] / weights[rows].sum(axis=1, keepdims=True)

    def distance(memory: Memory) -> float:
        theirs = np.zeros_like(measured)
        for i, k in enumerate(rows):
            theirs[i, : k + 1] = memory.weights(int(k))
        return float(np.abs(measured - theirs).sum(axis=1).mean() / 2)

    def best(make: Callable[[float], Memory], low: float, high: float) -> tuple[Memory, float]:
        for _ in range(4):
            grid = np.linspace(low, high, 25)
            distances = [distance(make(float(z))) for z in grid]
            i = int(np.argmin(distances))
            low, high = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
        return make(float(grid[i])), distances[i]

    def exponential(z: float) -> Memory:
        return Exponential.from_alpha(float(np.exp(z)))

    def polynomial(z: float) -> Memory:
        return Polynomial(float(np.exp(z)))

    none: tuple[Memory, float] = (Instantaneous(), distance(Instantaneous()))
    candidates = [none, best(polynomial, -3.0, 6.0), best(exponential, -9.0, 3.0)]
    return min(candidates, key=lambda pair: pair[1])


def _rounded(memory: Memory) -> str:
    """The text form with the digits that a fit can know."""
    if isinstance(memory, Polynomial):
        return f"poly:{memory.p:.3g}"
    return f"exp:{memory.beta:.4g}" if isinstance(memory, Exponential) else str(memory)
