"""Runs and chunks with numbers that are known, for tests of what is kept and read: nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.storing.chunk import Chunk, chunk_of

STEPS = (0, 10, 20, 30)


def run_of(
    optimizer: str = "SGD", *, lr: float = 0.1, seed: int = 0, steps: Sequence[int] = STEPS, problem: str = "logistic"
) -> Run:
    options = {"memory": "poly:2"} if optimizer == "MemSGD" else {}
    recipe = Recipe.of(optimizer, **options)
    return Run(problem, "f" * 32, 100, None, 16, steps[-1], tuple(steps), ("loss", "accuracy"), recipe, float(lr), seed)


def chunk_from(
    runs: Sequence[Run],
    loss: Callable[[Run, int], float] = lambda run, step: 1.0 + run.seed + step,
    diverged: Mapping[str, int] | None = None,
) -> Chunk:
    """A chunk whose loss is a function of run and step, and whose accuracy is a fourth of it."""
    steps = runs[0].evaluate_at
    losses = np.array([[loss(run, step) for run in runs] for step in steps])
    return chunk_of(runs, steps, {"loss": losses, "accuracy": losses / 4}, diverged or {}, {"machine": "tiny"})
