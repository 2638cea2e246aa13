"""The runs of an experiment and their cost, measured by training a little of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

import torch

from memgrad.amounts import counted
from memgrad.experiments.driver import selected_step_sizes
from memgrad.experiments.planning.methods import Method
from memgrad.experiments.planning.plan import RunGroup, expand, remaining, run_groups_of, runs_in
from memgrad.experiments.planning.problem_choice import Facts, facts_about
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.train import Training
from memgrad.problems import Problem
from memgrad.user_code import contained, described

SECONDS = 1.0
"""How long one run group of each size is trained."""

BARE = 350_000_000
"""Bytes of a worker without data: Python and torch, as measured on Linux."""

COPIES = 5
"""A run group holds its parameters, their gradients, two averages and one temporary copy."""


@final
@dataclass(frozen=True)
class Cost:
    """The expected cost of run groups.

    Attributes:
        seconds: The time of all workers together, from the start of the first to the end of the last.
        run_steps: One worker's run-steps per second.
        nbytes: The memory of all workers.
        longest: The seconds of the longest run group.
    """

    seconds: float
    run_steps: float
    nbytes: int
    longest: float


@final
@dataclass(frozen=True)
class PlannedMethod:
    """A method of an experiment: how many runs it has, and how many of them are finished."""

    name: str
    optimizer: str
    step_sizes: str
    runs: int
    finished: int


@final
@dataclass(frozen=True)
class Preview:
    """An experiment before it is run.

    Attributes:
        title: Problem, size of the minibatches, steps and seeds.
        methods: The methods.
        runs: The number of runs.
        left: How many of them are not finished.
        run_groups: The number of run groups in which those are trained.
        workers: The number of workers.
        cost: What they would cost, or None if nothing is left.
    """

    title: str
    methods: tuple[PlannedMethod, ...]
    runs: int
    left: int
    run_groups: int
    workers: int
    cost: Cost | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; readers know the number of run groups as `batches`."""
        return {"batches" if name == "run_groups" else name: value for name, value in asdict(self).items()}


def preview(spec: Spec, store: Store | None, *, workers: int, device: str | None = None) -> Preview:
    """Plan an experiment, given the rows so far, and train a little of it, on this machine."""
    problem = spec.problem_choice.load(device)
    facts = facts_about(spec.problem_choice, problem)
    # The cost does not depend on which step size will be selected: any stands in until it is known.
    found = selected_step_sizes(spec, facts, store) if store is not None else {}
    undecided = [m for m in spec.methods if not any(variant.name in found for variant in m.variants)]
    assumed = {m.variants[0].name: m.step_sizes[0] for m in undecided if m.step_sizes is not None}
    table = expand(spec, facts, assumed | found)
    known = set(store.digests()) if store is not None else set()
    runs_of = {m.name: runs_in({each.name: table[each.name] for each in m.variants}) for m in spec.methods}
    finished = {name: sum(run.digest in known for run in own) for name, own in runs_of.items()}
    runs = runs_in(table)
    left = remaining(run_groups_of(spec, table, facts), known, [])
    longest = max(run.steps for run in runs)
    size = "full batch" if runs[0].batch_size is None else f"minibatches of {runs[0].batch_size}"
    seeds = counted(len(spec.seed_numbers), "seed")
    tuning = "" if spec.tuning_seeds is None else f" and {len(spec.tuning_seeds)} for tuning"
    return Preview(
        f"{facts.name}, {facts.examples:,} examples, {size}, {counted(longest, 'step')}, {seeds}{tuning}",
        tuple(
            PlannedMethod(m.name, m.optimizer, _step_sizes(m), len(runs_of[m.name]), finished[m.name])
            for m in spec.methods
        ),
        len(runs),
        sum(len(group.runs) for group in left),
        len(left),
        workers,
        cost_of(problem, facts, left, workers=workers) if left else None,
    )


def _step_sizes(method: Method) -> str:
    lrs = str(method.lr) if method.step_sizes is None else ", ".join(f"{lr:g}" for lr in method.step_sizes)
    return lrs if len(method.variants) == 1 else f"{lrs} x {len(method.variants)} variants"


def cost_of(problem: Problem, facts: Facts, groups: Sequence[RunGroup], *, workers: int) -> Cost:
    """The cost of at least one run group, measured: one of each size is trained for a second, on one thread."""
    sizes = [(len(group.runs), group.runs[0].steps) for group in groups]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with contained():
            one_of_each = dict(zip(sizes, groups, strict=True))
            speeds = {size: _measured(problem, group) for size, group in one_of_each.items()}
    except Exception as error:  # whatever a user's model or loss raises
        raise ValueError(
            f"problem {problem.name!r} cannot be trained: {described(error)}. `memgrad check` says more."
        ) from error
    finally:
        torch.set_num_threads(threads)
    busy = [0.0] * min(workers, len(groups))
    stepping = [steps * speeds[runs, steps].step for runs, steps in sizes]
    whole = [seconds + speeds[size].evaluations for size, seconds in zip(sizes, stepping, strict=True)]
    for seconds in whole:  # the first free worker takes the next group
        busy[busy.index(min(busy))] += seconds
    run_steps = sum(runs * steps for runs, steps in sizes)
    state = max(speed.nbytes for speed in speeds.values())
    return Cost(max(busy), run_steps / sum(stepping), len(busy) * (BARE + facts.nbytes + state), max(whole))


@dataclass(frozen=True)
class _Speed:
    """Seconds per step and for all evaluations of a run group, and the bytes of its state."""

    step: float
    evaluations: float
    nbytes: int


def _measured(problem: Problem, group: RunGroup) -> _Speed:
    training = Training(problem, group.runs)
    training.step()  # the first step allocates buffers
    began, taken = time.perf_counter(), 0
    while taken == 0 or time.perf_counter() - began < SECONDS:
        training.step()
        if torch.accelerator.is_available():  # whose work a call only starts
            torch.accelerator.synchronize()
        taken += 1
    step = (time.perf_counter() - began) / taken
    run = group.runs[0]
    own = {metric: frozenset(run.evaluated_at(metric)) for metric in run.metrics}
    together = Counter(tuple(metric for metric in own if k in own[metric]) for k in run.evaluate_at)
    evaluations = 0.0
    for metrics, times in together.items():
        for _ in range(min(times, 2)):  # the first evaluation may import what the others only use
            began = time.perf_counter()
            training.evaluate(metrics)
            last = time.perf_counter() - began
        evaluations += times * last
    return _Speed(step, evaluations, COPIES * training.nbytes)
