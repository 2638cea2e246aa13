"""Many runs as one tensor program: a leading run axis, and one number a run where methods differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from memgrad.experiments.choice import seed_from
from memgrad.experiments.order import Order
from memgrad.experiments.rules import Rule, rule_of
from memgrad.experiments.runs import Run
from memgrad.problems import Problem

BLOCK = 256
"""For how many steps the numbers are computed at once."""


@final
class Stack:
    """Runs that are trained together.

    Each run gets, up to rounding, what it would get alone with its own optimizer.

    Args:
        problem: The problem.
        runs: Runs on it whose optimizers have a rule, of one batch size.
    """

    def __init__(self, problem: Problem, runs: Sequence[Run]) -> None:
        # One rule for all runs of a recipe: rules are compared by their functions.
        written = {run.recipe: rule_of(run.recipe) for run in runs}
        rules = [written[run.recipe] for run in runs]
        assert all(rule is not None for rule in rules)
        # In the order of what they need: nothing, an average, that of squares too. Each need is then that of a slice.
        self.order = sorted(range(len(runs)), key=lambda i: _needs(rules[i]))
        self._runs = [runs[i] for i in self.order]
        self._rules: list[Rule] = [rules[i] for i in self.order]  # type: ignore[misc]  # none is None
        self._problem = problem
        seeds = [run.seed for run in self._runs]
        batch = runs[0].batch
        self._order = None if batch is None else Order(problem.name, problem.examples, batch, seeds)
        x = problem.stacked_initial_parameters([seed_from("initial", problem.name, seed) for seed in seeds])
        self._x = {name: p.contiguous() for name, p in x.items()}
        needs = [_needs(rule) for rule in self._rules]
        self._plain, self._squared = needs.count(0), needs.count(0) + needs.count(1)
        self._u = {name: torch.zeros_like(p[self._plain :]) for name, p in self._x.items()}
        self._v = {name: torch.zeros_like(p[self._squared :]) for name, p in self._x.items()}
        self._numbers = _Numbers(self._rules, [run.lr for run in self._runs], next(iter(x.values())))

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Those of all runs, in the order of `order`."""
        return self._x

    def step(self, k: int) -> None:
        """Take step k = 0, 1, ..."""
        g = self._gradients(k)
        number = self._numbers.at(k)
        i, j = self._plain, self._squared
        for name, x in self._x.items():
            self._update(number, x, g[name], self._u[name], self._v[name], i, j)

    def _gradients(self, k: int) -> dict[str, Tensor]:
        if self._order is None:
            return self._problem.stacked_full_gradient(self._x)
        rows = self._order.at(k).to(self._problem.device)
        inputs, targets = (
            data.index_select(0, rows.flatten()).view(*rows.shape, *data.shape[1:]) for data in self._problem.train
        )
        return self._problem.stacked_gradient(self._x, inputs, targets)

    def _update(
        self, number: Callable[[str, Tensor], Tensor], x: Tensor, g: Tensor, u: Tensor, v: Tensor, i: int, j: int
    ) -> None:
        """One step of one parameter: `i` runs need no average, those from `j` on need that of squares too."""
        if self._numbers.any_l2:
            g = g.addcmul(x, number("l2", x))
        if self._numbers.any_shrink:
            x.mul_(number("keep", x))
        if len(u):
            u.lerp_(g[i:], number("fresh", x)[i:])
        if j > 0:
            if i > 0:
                x[:i].addcmul_(g[:i], number("gain", x)[:i])
            if j > i:
                x[i:j].addcmul_(u[: j - i], number("gain", x)[i:j])
            if self._numbers.any_direct:
                x[:j].addcmul_(g[:j], number("direct", x)[:j])
        if len(v):
            v.lerp_(g[j:].square(), number("fresh2", x)[j:])
            along = u[j - i :] * number("gain", x)[j:]
            if self._numbers.any_direct:
                along.addcmul_(g[j:], number("direct", x)[j:])
            x[j:].addcdiv_(along, v.sqrt().mul_(number("root", x)[j:]).add_(number("eps", x)[j:]))

    def evaluate(self, metrics: Sequence[str]) -> dict[str, Tensor]:
        """The metrics of all runs, in the order of `order`."""
        return self._problem.stacked_evaluate(
            self._x, metrics=metrics, gradient_examples=self._runs[0].gradient_examples
        )

    def state(self) -> dict[str, Tensor]:
        """All tensors that the next steps depend on, by name."""
        kinds = {"x": self._x, "u": self._u, "v": self._v}
        return {f"{kind}/{name}": p for kind, tensors in kinds.items() for name, p in tensors.items()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Continue from a state."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


def _needs(rule: Rule | None) -> int:
    assert rule is not None
    return 2 if rule.second_memory is not None else int(rule.remembers)


class _Numbers:
    """The numbers of all rules for a block of steps, each a tensor (runs,) in the precision of the parameters."""

    def __init__(self, rules: Sequence[Rule], lrs: Sequence[float], like: Tensor) -> None:
        self._rules, self._lr, self._like = rules, np.array(lrs), like
        self._first = -1
        self._block: dict[str, Tensor] = {}
        self.any_l2 = any(rule.l2 for rule in rules)
        self.any_shrink = any(rule.shrink(np.zeros(1))[0] for rule in rules)
        self.any_direct = any(rule.direct(np.zeros(1))[0] for rule in rules)

    def at(self, k: int) -> Callable[[str, Tensor], Tensor]:
        """The numbers at step k: a function of their name and of the tensor they are to be multiplied with."""
        first = k - k % BLOCK
        if first != self._first:
            self._block, self._first = self._compute(np.arange(first, first + BLOCK, dtype=np.float64)), first
        row = k - first

        def number(name: str, x: Tensor) -> Tensor:
            return self._block[name][row].view(-1, *(1,) * (x.ndim - 1))

        return number

    def _compute(self, k: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, Tensor]:
        # Runs differ mostly in seed and step size: each rule's numbers are computed once.
        rules = list(dict.fromkeys(self._rules))
        columns = {
            "fresh": [rule.memory.fresh(k) for rule in rules],
            "gain": [rule.gain(k) for rule in rules],
            "direct": [rule.direct(k) for rule in rules],
            "fresh2": [np.ones_like(k) if (m := rule.second_memory) is None else m.fresh(k) for rule in rules],
            "root": [rule.root(k) for rule in rules],
            "eps": [np.full_like(k, rule.eps) for rule in rules],
            "l2": [np.full_like(k, rule.l2) for rule in rules],
            "keep": [rule.shrink(k) for rule in rules],
        }
        of_run = [rules.index(rule) for rule in self._rules]
        table = {name: np.stack(column, axis=1)[:, of_run] for name, column in columns.items()}
        table["gain"] *= -self._lr
        table["direct"] *= -self._lr
        table["keep"] = 1 - self._lr * table["keep"]
        return {name: self._like.new_tensor(values) for name, values in table.items()}
