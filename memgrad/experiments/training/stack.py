r"""Many runs as one tensor program: a leading run axis, and one coefficient per run where methods differ.

Every step is that of a `Method`, $x_{k+1} = (1-s_k) x_k - \eta n_k/(\rho_k \sqrt{v_k} + \epsilon)$, without the
denominator where squared gradients are not remembered. A schedule makes $\eta$ and $s_k$ depend on the step, and
gradients whose norm over all parameters of a run is above its limit are scaled down to it first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from memgrad.experiments.digests import initial_seed
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.training.minibatch_order import MinibatchOrder
from memgrad.memory import Instantaneous
from memgrad.method import Method
from memgrad.problems import Problem
from memgrad.problems.passes import squared_norm

BLOCK = 256
"""The number of steps whose coefficients are computed at once."""

SMALL = 1e-6
"""Added to the norm, as `torch.nn.utils.clip_grad_norm_` does, which runs alone use."""


@final
class Stack:
    """The tensor program that trains a run group at once.

    Up to rounding, each run gets the numbers it would get alone with its own optimizer.

    Args:
        problem: The problem.
        runs: Runs on it whose optimizers are methods, all with the same batch size.
    """

    def __init__(self, problem: Problem, runs: Sequence[Run]) -> None:
        written = {run.recipe: _method(run) for run in runs}
        methods = [written[run.recipe] for run in runs]
        # Linear methods by their number of averages, ascending; then those with squares, descending. So the runs with
        # an i-th average, and those with squares, are each a slice. Those with the newest gradient are a few slices.
        self.run_order = sorted(range(len(runs)), key=lambda i: _place(methods[i]))
        self._runs = [runs[i] for i in self.run_order]
        self._methods = [methods[i] for i in self.run_order]
        self._problem = problem
        seeds = [run.seed for run in self._runs]
        size = runs[0].batch_size
        self._minibatches = None if size is None else MinibatchOrder(problem.name, problem.examples, size, seeds)
        self._share_minibatches = len(seeds) > 1 and len(set(seeds)) == 1
        x = problem.stacked_initial_parameters([initial_seed(problem.name, seed) for seed in seeds])
        self._x = {name: p.contiguous() for name, p in x.items()}
        counts = [len(method.mixture.averages) for method in self._methods]
        self._with_average = [_slice([count > i for count in counts]) for i in range(max(counts))]
        self._with_squares = _slice([not method.is_linear for method in self._methods])
        self._with_instant = _slices([method.mixture.instant is not None for method in self._methods])
        self._u = [{name: torch.zeros_like(p[having]) for name, p in self._x.items()} for having in self._with_average]
        self._v = {name: torch.zeros_like(p[self._with_squares]) for name, p in self._x.items()}
        self._numbers = _Numbers(self._methods, self._runs, next(iter(x.values())))
        self._clip = _clip_of(self._runs, next(iter(x.values())))

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The parameters of all runs, in run order."""
        return self._x

    evaluated = parameters  # what metrics are about

    def step(self, k: int) -> None:
        """Take step k = 0, 1, ..."""
        g = self._gradients(k)
        if self._clip is not None:
            clipped(g, self._clip)
        number = self._numbers.at(k)
        for name, x in self._x.items():
            self._update(number, x, g[name], [u[name] for u in self._u], self._v[name])

    def _gradients(self, k: int) -> dict[str, Tensor]:
        if self._minibatches is None:
            return self._problem.stacked_full_gradient(self._x)
        rows = self._minibatches.at(k).to(self._problem.device)
        if self._share_minibatches:
            rows = rows[0]
        inputs, targets = (
            data.index_select(0, rows.flatten()).view(*rows.shape, *data.shape[1:]) for data in self._problem.train
        )
        return self._problem.stacked_gradient(self._x, inputs, targets)

    def _update(
        self, number: Callable[[str, Tensor], Tensor], x: Tensor, g: Tensor, averages: Sequence[Tensor], v: Tensor
    ) -> None:
        """One step of one parameter."""
        if self._numbers.any_l2:
            g = g.addcmul(x, number("l2", x))
        if self._numbers.any_shrink:
            x.mul_(number("keep", x))
        for i, (having, u) in enumerate(zip(self._with_average, averages, strict=True)):
            u.lerp_(g[having], number(f"fresh{i}", x)[having])
        parts = [
            *((having, g[having], "instant") for having in self._with_instant),
            *((having, u, f"gain{i}") for i, (having, u) in enumerate(zip(self._with_average, averages, strict=True))),
        ]
        linear, squares = slice(0, self._with_squares.start), self._with_squares
        if linear.stop:
            _add_mixture(number, parts, linear, x[linear])
        if len(v):
            v.lerp_(g[squares].square(), number("fresh_squares", x)[squares])
            along = torch.zeros_like(v)
            _add_mixture(number, parts, squares, along)
            root = v.sqrt().mul_(number("root", x)[squares]).add_(number("eps", x)[squares])
            x[squares].addcdiv_(along, root)

    def evaluate(self, metrics: Sequence[str], parameters: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """The metrics of all runs, in run order; of other parameters than the current ones if they are given."""
        run = self._runs[0]
        few = {"gradient_examples": run.gradient_examples, "loss_examples": run.loss_examples}
        return self._problem.stacked_evaluate(parameters or self._x, metrics=metrics, **few)

    def state(self) -> dict[str, Tensor]:
        """All tensors that the next steps depend on, by name."""
        averages = {f"u{i}": tensors for i, tensors in enumerate(self._u)}
        kinds = {"x": self._x, **averages, "v": self._v}
        return {f"{kind}/{name}": p for kind, tensors in kinds.items() for name, p in tensors.items()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Continue from a state."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


def _add_mixture(
    number: Callable[[str, Tensor], Tensor], parts: Sequence[tuple[slice, Tensor, str]], block: slice, total: Tensor
) -> None:
    """Add -lr n_k of the runs in a block to `total`, which has their rows.

    Args:
        number: The coefficients of all runs, by name.
        parts: What is added: the runs that have it, its rows, and the name of its coefficient.
        block: The runs.
        total: The rows of these runs.
    """
    for having, rows, name in parts:
        start, stop = max(block.start, having.start), min(block.stop, having.stop)
        if start < stop:
            added = rows[start - having.start : stop - having.start]
            total[start - block.start : stop - block.start].addcmul_(added, number(name, rows)[start:stop])


def _clip_of(runs: Sequence[Run], like: Tensor) -> Tensor | None:
    """The largest norm of each run's gradient, infinite where it is not clipped; None if no run is clipped."""
    if all(run.clip is None for run in runs):
        return None
    return like.new_tensor([math.inf if run.clip is None else run.clip for run in runs])


def clipped(gradients: Mapping[str, Tensor], clip: Tensor) -> None:
    r"""Multiply the gradients of each run, in place, by $\min(1, c / (|g| + 10^{-6}))$.

    Example:
        >>> g = {"a": torch.tensor([[3.0], [0.3]]), "b": torch.tensor([[4.0], [0.4]])}  # norms 5 and 0.5
        >>> clipped(g, torch.tensor([1.0, 1.0]))
        >>> g["b"].flatten()
        tensor([0.8000, 0.4000])
    """
    norms = squared_norm(gradients, (len(clip),)).sqrt()
    factors = (clip / (norms + SMALL)).clamp_(max=1.0)
    for g in gradients.values():
        g.mul_(factors.view(-1, *(1,) * (g.ndim - 1)))


def _method(run: Run) -> Method:
    method = run.recipe.method
    assert method is not None  # the plan puts no others into a stack
    return method


def _place(method: Method) -> tuple[bool, int, bool]:
    count = len(method.mixture.averages)
    return not method.is_linear, count if method.is_linear else -count, method.mixture.instant is None


def _slice(having: Sequence[bool]) -> slice:
    """The runs that have something, which are contiguous, as a slice; an empty one at the end if there are none."""
    rows = np.flatnonzero(having)
    found = slice(int(rows[0]), int(rows[-1]) + 1) if len(rows) else slice(len(having), len(having))
    assert found.stop - found.start == len(rows)
    return found


def _slices(having: Sequence[bool]) -> list[slice]:
    """The runs that have something, as the fewest slices.

    Example:
        >>> _slices([True, True, False, True])
        [slice(0, 2, None), slice(3, 4, None)]
    """
    ends = np.flatnonzero(np.diff([0, *having, 0]))
    return [slice(int(start), int(stop)) for start, stop in ends.reshape(-1, 2)]


class _Numbers:
    """The coefficients of all methods for a block of steps, each a tensor (runs,) with the parameters' precision."""

    def __init__(self, methods: Sequence[Method], runs: Sequence[Run], like: Tensor) -> None:
        self._methods, self._lr, self._like = methods, np.array([run.lr for run in runs]), like
        self._factors = _factors(runs)
        self._first = -1
        self._block: dict[str, Tensor] = {}
        decays = [method.weight_decay for method in methods]
        self.any_l2 = any(decay.amount and decay.kind == "l2" for decay in decays)
        self.any_shrink = any(decay.amount and decay.kind != "l2" for decay in decays)

    def at(self, k: int) -> Callable[[str, Tensor], Tensor]:
        """The coefficients at step k: a function of their name and of the tensor they are multiplied with."""
        first = k - k % BLOCK
        if first != self._first:
            self._block, self._first = self._compute(np.arange(first, first + BLOCK, dtype=np.float64)), first
        row = k - first

        def number(name: str, x: Tensor) -> Tensor:
            return self._block[name][row].view(-1, *(1,) * (x.ndim - 1))

        return number

    def _compute(self, k: NDArray[np.float64]) -> dict[str, Tensor]:
        # Runs differ mostly in seed and learning rate: each method's coefficients are computed once.
        methods = list(dict.fromkeys(self._methods))
        of_run = [methods.index(method) for method in self._methods]
        averages = max(len(method.mixture.averages) for method in methods)
        columns = [_columns(method, averages, k) for method in methods]
        table = {name: np.stack([column[name] for column in columns], axis=1)[:, of_run] for name in columns[0]}
        factors = self._factors[k.astype(int).clip(max=len(self._factors) - 1)]  # the last block may go beyond the end
        for name in ("instant", *(f"gain{i}" for i in range(averages))):
            table[name] *= -(self._lr * factors)
        # An independent decay is multiplied by the schedule, not by its peak.
        decoupled = np.array([m.weight_decay.kind == "decoupled" for m in self._methods])
        table["keep"] = 1 - np.where(decoupled, self._lr * factors, factors) * table["keep"]
        # A run alone is refused for the same decays; AdamW's own takes any, and diverges where it is too large.
        own = np.array([m.weight_decay.kind == "independent" or m.weight_decay.log_time for m in self._methods])
        if (overshoots := (table["keep"] < 0) & own).any():
            method = self._methods[int(np.argwhere(overshoots)[0, 1])]
            raise ValueError(
                f"the weight decay of {method} would take away more than all of the weights at its learning rate; "
                f"choose a smaller one."
            )
        return {name: self._like.new_tensor(values) for name, values in table.items()}


def _factors(runs: Sequence[Run]) -> NDArray[np.float64]:
    """The factors of the step sizes, (steps, runs); one row of ones if they are constant."""
    if all(run.factors is None for run in runs):
        return np.ones((1, len(runs)))
    return np.stack([np.ones(run.steps) if run.factors is None else run.factors for run in runs], axis=1)


def _columns(method: Method, averages: int, k: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The coefficients of one method at the steps k, with columns for this many averages."""
    instant, decay, second = method.mixture.instant, method.weight_decay, method.second_memory
    zero = np.zeros_like(k)
    columns = {
        "instant": zero if instant is None else instant(k, Instantaneous()),
        "fresh_squares": zero if second is None else second.fresh(k),
        "root": zero if second is None else method.root(k, second),
        "eps": np.full_like(k, method.eps),
        "l2": decay.l2(k),
        "keep": zero if decay.kind == "l2" else decay.at(k),
    }
    for i in range(averages):
        part = method.mixture.averages[i] if i < len(method.mixture.averages) else None
        columns[f"fresh{i}"] = zero if part is None else part.memory.fresh(k)
        columns[f"gain{i}"] = zero if part is None else part.gain(k, part.memory)
    return columns
