"""Results of the paper's experiments whose numbers are known, for tests of what is read from them; none is trained."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from memgrad.experiments.planning.plan import expand, runs_in
from memgrad.experiments.planning.problem_choice import Facts
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.results import Results
from memgrad.experiments.storing.chunk import Rows, chunk_of
from memgrad.paper.evidence import EXAMPLES, Evidence
from memgrad.paper.scales import EXPERIMENTS, POLYADAM, Scale, experiment

Number = Callable[[str, str, float, int, float], float]
"""Of the experiment, the method, the step size, the seed and the share of the steps that were taken."""

DECIDING = Scale("laptop", "a scale that decides", decides=True)
REHEARSAL = Scale("quick", "a rehearsal", decides=False)
BEST = {"SGD": 0.05, "HB": 0.005}
PLATEAU = 200.0


def jitter(seed: int, *words: object) -> float:
    """A small number that differs from seed to seed, so that intervals have a width, with the mean 0 over even many."""
    return 0.002 * (-1.0) ** seed * (1 + zlib.crc32(repr(words).encode()) / 2**32)


def usual_loss(name: str, method: str, lr: float, seed: int, share: float) -> float:
    """All methods alike, with their best step sizes where the paper found them; 10 at the start, near 1 at the end."""
    best = 1.0 if name.startswith("covtype") else BEST.get(method, 0.05)
    away = abs(math.log10(lr / best)) if name != "polyadam" else abs(math.log10(lr / 0.001))
    return (1 + 9 * (1 - share) + 0.3 * away) * (1 + 0.05 * seed) * math.exp(jitter(seed, name, method, share))


def scaled(factors: Mapping[tuple[str, str], float], loss: Number = usual_loss) -> Number:
    """The loss times a factor for some experiments and methods, once training has begun; "" stands for all."""

    def changed(name: str, method: str, lr: float, seed: int, share: float) -> float:
        found = 1.0
        for (where, who), factor in factors.items():
            if name.startswith(where) and method.startswith(who) and share > 0:
                found *= factor
        return found * loss(name, method, lr, seed, share)

    return changed


def results_of(
    name: str,
    *,
    loss: Number = usual_loss,
    step_norm: Number = lambda name, method, *_: 0.5 if (method == "HB") != name.startswith("covtype") else 1.0,
    accuracy: Number = lambda name, method, lr, seed, share: 0.4 + 0.3 * share + jitter(seed, name),
    diverged: Callable[[str, str, float, int], bool] = lambda *_: False,
    seeds: int = 4,
    step_sizes: Mapping[str, list[float]] | None = None,
    steps: int = 200,
    metrics: list[str] | None = None,
    examples: int | None = None,
) -> Results:
    spec = _smaller(experiment(name), seeds, step_sizes or {}, steps)
    spec = spec if metrics is None else spec.model_copy(update={"metrics": metrics})
    examples = examples or EXAMPLES["cnn" if name == POLYADAM else name.rpartition("-")[0]]
    facts = Facts(spec.problem, "f" * 32, examples, 16, 1, ("loss", "gradient_norm", "accuracy", "step_norm"), 0)
    own = _results(name, spec, facts, {}, loss, step_norm, accuracy, diverged)
    best = {method.name: own.selected_lr(method.name) for method in spec.methods if method.follows is None}
    return _results(name, spec, facts, best, loss, step_norm, accuracy, diverged)


def evidence_of(scale: Scale = DECIDING, names: Iterable[str] = EXPERIMENTS, **options: Any) -> Evidence:
    return Evidence(
        scale, {name: results_of(name, **options) for name in names}, lambda: PLATEAU, lambda: np.zeros((10, 28, 28))
    )


def _smaller(spec: Spec, seeds: int, step_sizes: Mapping[str, list[float]], steps: int) -> Spec:
    tried = {"SGD": [1.0, 0.1, 0.05, 0.01], "HB": [1.0, 0.05, 0.005, 0.001], **step_sizes}
    methods = [
        method.model_copy(update={"lr": tried.get(method.name, [0.01, 0.001])}) if method.follows is None else method
        for method in spec.methods
    ]
    evaluate = spec.evaluate.model_copy(update={"times": 21})
    return spec.model_copy(update={"seeds": seeds, "steps": steps, "methods": methods, "evaluate": evaluate})


def _results(
    name: str,
    spec: Spec,
    facts: Facts,
    best: Mapping[str, float],
    loss: Number,
    step_norm: Number,
    accuracy: Number,
    diverged: Callable[[str, str, float, int], bool],
) -> Results:
    table = expand(spec, facts, best)
    runs = runs_in(table)
    method_of = {run.digest: m for m, of_lr in table.items() for of_seed in of_lr.values() for run in of_seed.values()}
    at = runs[0].evaluate_at
    numbers: dict[str, Number] = {"loss": loss, "gradient_norm": loss, "step_norm": step_norm, "accuracy": accuracy}

    def measured(metric: str, run: Run, step: int) -> float:
        if metric == "step_norm" and step == 0:
            return math.nan
        return numbers[metric](name, method_of[run.digest], run.lr, run.seed, step / run.steps)

    values = {
        metric: np.array([[measured(metric, run, step) for run in runs] for step in at])
        for metric in numbers
        if metric in (spec.metrics or ()) and (best or metric == "loss")  # which is enough to select a step size
    }
    gone = {run.digest: at[-1] // 2 for run in runs if diverged(name, method_of[run.digest], run.lr, run.seed)}
    chunk = chunk_of(runs, at, values, gone, {})
    rows = Rows(
        chunk.digest, chunk.step, chunk.metric, chunk.value, {run.digest: run for run in runs}, dict(chunk.diverged)
    )
    return Results(spec, table, rows)
