"""Forward and backward passes, for one run or a stack of runs, and means over all examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

if TYPE_CHECKING:
    from memgrad.problems.problem import Problem

Parameters = Mapping[str, Tensor]
Gradient = dict[str, Tensor]
Pair = tuple[Tensor, Tensor]
Score = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Passes:
    """The forward and backward passes of a model with given parameters.

    Args:
        runs: The run axis, (runs,); () for a run without one.
        outputs: The outputs for inputs, without a graph.
        gradient: The gradient of the mean loss, without the L2 term, for inputs and targets.
        outputs_and_gradient: Both at once.
        each: Turns a function of one run's outputs and targets into one of all runs.
    """

    runs: tuple[int, ...]
    outputs: Callable[[Tensor], Tensor]
    gradient: Callable[[Tensor, Tensor], Gradient]
    outputs_and_gradient: Callable[[Tensor, Tensor], tuple[Tensor, Gradient]]
    each: Callable[[Score], Score]


def one_run(problem: Problem, parameters: Parameters) -> Passes:
    """One run, by autograd."""

    def both(inputs: Tensor, targets: Tensor) -> tuple[Tensor, Gradient]:
        leaves = {name: p.detach().requires_grad_() for name, p in parameters.items()}
        with torch.enable_grad():
            outputs = problem.outputs(leaves, inputs)
            found = torch.autograd.grad(
                problem.loss(outputs, targets), tuple(leaves.values()), allow_unused=True, materialize_grads=True
            )
        return outputs.detach(), dict(zip(leaves, found, strict=True))

    outputs = torch.no_grad()(partial(problem.outputs, parameters))
    return Passes((), outputs, lambda x, y: both(x, y)[1], both, lambda score: score)


def many_runs(problem: Problem, parameters: Parameters) -> Passes:
    """A stack of runs: by the problem's own `stacked`, by `vmap` if stacking is faster, else one after another."""
    runs = _count_runs(problem, parameters)
    if problem.stacked is not None:
        return _by_hand(problem, parameters, runs)
    return _by_vmap(problem, parameters, runs) if problem.stack_width > 1 else _one_by_one(problem, parameters, runs)


def _by_hand(problem: Problem, parameters: Parameters, runs: int) -> Passes:
    assert problem.stacked is not None
    own = {name: p.detach() for name, p in parameters.items()}
    return _stacked(runs, partial(problem.stacked.outputs, own), partial(problem.stacked.gradient, own))


def _by_vmap(problem: Problem, parameters: Parameters, runs: int) -> Passes:
    # The model is made here, because making it draws random numbers, which vmap refuses.
    model, own = problem._template, {name: p.detach() for name, p in parameters.items()}

    def outputs(theta: Any, inputs: Tensor) -> Any:
        return functional_call(model, theta, (inputs,))

    def loss(theta: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        return problem.loss(outputs(theta, inputs), targets)

    def of_each_run(function: Callable[..., Any], *batch: Tensor) -> Any:
        axis = None if _are_shared(problem, batch[0]) else 0
        return vmap(function, in_dims=(0, *[axis] * len(batch)))(own, *batch)

    return _stacked(runs, partial(of_each_run, outputs), partial(of_each_run, grad(loss)))


def _one_by_one(problem: Problem, parameters: Parameters, runs: int) -> Passes:
    each = [one_run(problem, {name: p[run] for name, p in parameters.items()}) for run in range(runs)]

    def batch(data: Tensor, inputs: Tensor, run: int) -> Tensor:
        return data if _are_shared(problem, inputs) else data[run]

    return _stacked(
        runs,
        lambda inputs: torch.stack([one.outputs(batch(inputs, inputs, i)) for i, one in enumerate(each)]),
        lambda inputs, targets: stack(
            [one.gradient(batch(inputs, inputs, i), batch(targets, inputs, i)) for i, one in enumerate(each)]
        ),
        lambda score: lambda outputs, targets: torch.stack([score(of_one, targets) for of_one in outputs]),
    )


def _for_each_by_vmap(score: Score) -> Score:
    return vmap(score, in_dims=(0, None))


def _stacked(
    runs: int,
    outputs: Callable[[Tensor], Tensor],
    gradient: Callable[[Tensor, Tensor], Gradient],
    each: Callable[[Score], Score] = _for_each_by_vmap,
) -> Passes:
    outputs = torch.no_grad()(outputs)
    return Passes((runs,), outputs, gradient, lambda x, y: (outputs(x), gradient(x, y)), each)


# --- over all examples -----------------------------------------------------------------------------------------------


def full_gradient(problem: Problem, parameters: Parameters, through: Passes, pair: Pair | None = None) -> Gradient:
    """The gradient over all training examples, or over those in `pair`."""
    total: Gradient = {}
    for share, inputs, targets in chunks(problem, problem.train if pair is None else pair, through):
        _accumulate(total, through.gradient(inputs, targets), share)
    return with_l2(problem, parameters, total)


def evaluate(
    problem: Problem,
    parameters: Parameters,
    wanted: Sequence[str],
    through: Passes,
    gradient_examples: int | None = None,
    loss_examples: int | None = None,
) -> dict[str, Tensor]:
    """The metrics in `wanted`, over all training examples or a share of them; others over all held-out ones."""
    found: dict[str, Tensor] = {}
    if gradient_examples != loss_examples and "gradient_norm" in wanted:  # otherwise one pass gives both
        gradient = full_gradient(problem, parameters, through, drawn(problem, gradient_examples))
        found["gradient_norm"] = squared_norm(gradient, through.runs).sqrt()
    penalty = problem.l2 / 2 * squared_norm(parameters, through.runs)
    parts = {"": drawn(problem, loss_examples), "test_": problem.test, "validation_": problem.validation}
    for prefix, pair in parts.items():
        scores = {name: score for name, score in _scores(problem).items() if prefix + name in wanted}
        slope = not prefix and "gradient_norm" in wanted and "gradient_norm" not in found
        if pair is None or not (scores or slope):
            continue
        sums = {name: torch.zeros_like(penalty) for name in scores}
        total: Gradient = {}
        for share, inputs, targets in chunks(problem, pair, through):
            if slope:
                outputs, gradient = through.outputs_and_gradient(inputs, targets)
                _accumulate(total, gradient, share)
            else:
                outputs = through.outputs(inputs)
            for name, score in scores.items():
                sums[name] += share * through.each(score)(outputs, targets)
        if "loss" in sums:
            sums["loss"] += penalty
        found |= {prefix + name: value for name, value in sums.items()}
        if slope:
            found["gradient_norm"] = squared_norm(with_l2(problem, parameters, total), through.runs).sqrt()
    return {name: found[name] for name in wanted}


def drawn(problem: Problem, examples: int | None) -> Pair:
    """This number of training examples, drawn without replacement, the same ones each time; all of them for None."""
    if examples is None:
        return problem.train
    order = torch.randperm(problem.examples, generator=torch.Generator().manual_seed(0))
    places = order[:examples].to(problem.device)
    return problem.train[0][places], problem.train[1][places]


def _scores(problem: Problem) -> dict[str, Score]:
    def mean_of(metric: Score) -> Score:
        return lambda outputs, targets: metric(outputs, targets).mean()

    return {"loss": problem.loss} | {name: mean_of(metric) for name, metric in problem.metrics.items()}


def chunks(problem: Problem, pair: Pair, through: Passes) -> Iterator[tuple[float, Tensor, Tensor]]:
    """The rows in pieces, each with its share of all; smaller ones where many runs go through the model at once."""
    rows, n = max(1, problem.full_chunk // (through.runs or (1,))[0]), len(pair[0])
    for start in range(0, n, rows):
        inputs, targets = pair[0][start : start + rows], pair[1][start : start + rows]
        yield len(inputs) / n, inputs, targets


# --- dictionaries of tensors -----------------------------------------------------------------------------------------


def stack(runs: Sequence[Parameters]) -> dict[str, Tensor]:
    """Several runs as one dictionary, with a leading run axis."""
    if len(runs) == 1:  # an axis costs nothing; copying millions of numbers costs as much as half a gradient
        return {name: p[None] for name, p in runs[0].items()}
    return {name: torch.stack([run[name] for run in runs]) for name in runs[0]}


def squared_norm(parameters: Parameters, runs: tuple[int, ...] = ()) -> Tensor:
    """The sum of all squares, for each run of the run axis."""
    squares = [p.reshape(*runs, -1).square().sum(-1) for p in parameters.values()]
    return torch.stack(squares).sum(0)


def with_l2(problem: Problem, parameters: Parameters, gradient: Gradient) -> Gradient:
    """The gradient with that of the L2 term."""
    if not problem.l2:
        return gradient
    return {name: g.add(parameters[name].detach(), alpha=problem.l2) for name, g in gradient.items()}


def _accumulate(total: Gradient, part: Gradient, share: float) -> None:
    """Add a part to the total, which is empty at first. It is never the part itself, whose tensors may be shared."""
    for name, g in part.items():
        if name in total:
            total[name].add_(g, alpha=share)
        else:
            total[name] = g * share


def _count_runs(problem: Problem, parameters: Parameters) -> int:
    lengths = {len(p) if p.ndim else 0 for p in parameters.values()}
    if len(lengths) != 1:
        raise ValueError(
            f"problem {problem.name!r}: stacked parameters need a leading axis with as many runs in every tensor, got "
            f"the lengths {sorted(lengths)}; stacked_initial_parameters makes them."
        )
    return lengths.pop()


def _are_shared(problem: Problem, inputs: Tensor) -> bool:
    return inputs.ndim == problem.train[0].ndim
