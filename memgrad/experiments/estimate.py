"""What an experiment would cost, from training a little of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from memgrad.experiments.choice import Facts
from memgrad.experiments.plan import Batch
from memgrad.experiments.train import Training
from memgrad.problems import Problem

SECONDS = 1.0
"""How long each kind of batch is tried."""

BARE = 350_000_000
"""Bytes of a worker before it has any data: Python and torch, as measured on Linux."""

COPIES = 5
"""A batch holds its parameters, their gradients, two averages and one more of them in passing."""


@final
@dataclass(frozen=True)
class Estimate:
    """The expected cost of some batches.

    Attributes:
        seconds: The time they take on all workers.
        run_steps: Steps of single runs a second, on one worker.
        nbytes: The memory of all workers together.
    """

    seconds: float
    run_steps: float
    nbytes: int


@dataclass(frozen=True)
class _Cost:
    step: float
    evaluations: float
    nbytes: int

    def of(self, batch: Batch) -> float:
        """Seconds for all of a batch."""
        return batch.runs[0].steps * self.step + self.evaluations


def estimate(problem: Problem, facts: Facts, batches: Sequence[Batch], *, workers: int) -> Estimate:
    """The cost of batches: one of each width is trained for a second and each of its metrics evaluated, on one thread.

    Args:
        problem: The problem.
        facts: What is known of it.
        batches: The batches, at least one.
        workers: How many are trained at once.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        costs = {width: _cost(problem, batch) for width, batch in {len(b.runs): b for b in batches}.items()}
    except Exception as error:  # whatever a user's model or loss raises
        raise ValueError(
            f"problem {problem.name!r} cannot be trained: {type(error).__name__}: {error}. `memgrad check` says more."
        ) from error
    finally:
        torch.set_num_threads(threads)
    busy = [0.0] * min(workers, len(batches))
    for batch in batches:  # whoever is free first takes the next
        busy[busy.index(min(busy))] += costs[len(batch.runs)].of(batch)
    run_steps = sum(batch.runs[0].steps * len(batch.runs) for batch in batches)
    stepping = sum(batch.runs[0].steps * costs[len(batch.runs)].step for batch in batches)
    state = max(cost.nbytes for cost in costs.values())
    return Estimate(max(busy), run_steps / stepping, len(busy) * (BARE + facts.nbytes + state))


def _cost(problem: Problem, batch: Batch) -> _Cost:
    training = Training(problem, batch.runs)
    training.step()  # the first one makes buffers
    began, taken = time.perf_counter(), 0
    while taken == 0 or time.perf_counter() - began < SECONDS:
        training.step()
        taken += 1
    step = (time.perf_counter() - began) / taken
    run = batch.runs[0]
    own = {metric: frozenset(run.evaluated_at(metric)) for metric in run.metrics}
    together = Counter(tuple(metric for metric in own if k in own[metric]) for k in run.evaluate_at)
    evaluations = 0.0
    for metrics, times in together.items():
        began = time.perf_counter()
        training.evaluate(metrics)
        evaluations += times * (time.perf_counter() - began)
    return _Cost(step, evaluations, COPIES * training.nbytes)
