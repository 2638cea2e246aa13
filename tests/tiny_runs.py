"""Runs and chunks with known numbers, and small experiments that are trained within the test's process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from memgrad.experiments import Results, Spec, Store
from memgrad.experiments.planning.plan import expand, settings_in
from memgrad.experiments.planning.problem_choice import facts_about
from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.storing.chunk import Chunk, chunk_of
from memgrad.experiments.training.events import Finished
from memgrad.experiments.training.train import Training

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


SMALL: dict[str, Any] = {
    "problem": "covtype-softmax",
    "sample": True,
    "steps": 20,
    "seeds": 2,
    "evaluate": {"times": 5},
}
SGD: dict[str, Any] = {"name": "A", "optimizer": "SGD", "lr": 0.3}


def small_spec(*methods: dict[str, Any], **more: Any) -> Spec:
    return Spec.of({**SMALL, **more, "methods": list(methods)})


def trained_here(
    spec: Spec, selected: dict[str, float] | None = None, without: tuple[str, int] | None = None
) -> Results:
    """The results of an experiment that is trained here, without a worker; one run of a method may be left out."""
    problem = spec.problem_choice.load()
    table = expand(spec, facts_about(spec.problem_choice, problem), selected or {})
    with TemporaryDirectory() as folder:
        store = Store.open(folder)
        with store.writing():
            for name, _, seed, run in settings_in(table):
                if (name, seed) != without:
                    *_, end = Training(problem, (run,)).events()
                    assert isinstance(end, Finished)
                    store.write(end.chunk)
        return Results.read(spec, store, table)
