"""From a spec to runs, and from runs to batches that are trained together."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

from memgrad.experiments.choice import Facts
from memgrad.experiments.rules import rule_of
from memgrad.experiments.runs import Run
from memgrad.experiments.spec import Spec

Table = dict[str, dict[float, dict[int, Run]]]
"""The run of each method, step size and seed."""

PARTS = 4
"""Runs that could all be one stack make so many of them, for as many cores."""


@final
@dataclass(frozen=True)
class Batch:
    """Runs that are trained together.

    Attributes:
        runs: The runs: any number whose optimizers have a rule, or one.
    """

    runs: tuple[Run, ...]

    @property
    def key(self) -> str:
        """32 hexadecimal digits that name the batch: its checkpoint has this name."""
        return hashlib.sha256("\n".join(run.digest for run in self.runs).encode()).hexdigest()[:32]


def steps_of(spec: Spec, facts: Facts) -> int:
    """How many steps a run takes."""
    if spec.steps is not None:
        return spec.steps
    assert spec.epochs is not None
    batch = batch_of(spec, facts)
    return spec.epochs * (1 if batch is None else facts.examples // batch)


def batch_of(spec: Spec, facts: Facts) -> int | None:
    """The size of a minibatch; None for the full batch."""
    if spec.batch == "full":
        return None
    batch = facts.batch_size if spec.batch is None else spec.batch
    if batch > facts.examples:
        raise ValueError(
            f"problem {facts.name!r} has {facts.examples:,} training examples; a minibatch has at most as many, got "
            f'batch={batch:,}. Write batch = "full" for all.'
        )
    return batch


def metrics_of(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """What is evaluated: all metrics of the problem unless the spec says otherwise, that of the selection included."""
    asked = tuple(dict.fromkeys(facts.metrics if spec.metrics is None else spec.metrics))
    for metric in (*asked, spec.select.metric):
        if metric not in facts.metrics:
            raise ValueError(f"problem {facts.name!r} has no metric {metric!r}; it has {', '.join(facts.metrics)}.")
    if spec.select.metric not in asked:
        raise ValueError(f"step sizes are selected by {spec.select.metric!r}, which is not in metrics={list(asked)}.")
    if not isinstance(spec.evaluate.times, int) and spec.evaluate.times.keys() != set(asked):
        raise ValueError(
            f"evaluate.times has {', '.join(spec.evaluate.times)}; a table there has each metric that is evaluated: "
            f"{', '.join(asked)}."
        )
    return asked


def expand(spec: Spec, facts: Facts, best: Mapping[str, float]) -> Table:
    """All runs of an experiment whose step sizes are known.

    Args:
        spec: The experiment.
        facts: What is known of its problem.
        best: The step sizes that were selected so far, by method. Methods that follow another are left out until its
            step size is among them.
    """
    steps = steps_of(spec, facts)
    batch, metrics = batch_of(spec, facts), metrics_of(spec, facts)
    times = {metric: spec.evaluate.steps(steps, metric) for metric in metrics}
    evaluate_at = tuple(sorted(set().union(*times.values())))
    seldom = tuple((metric, own) for metric, own in times.items() if own != evaluate_at)
    few = spec.evaluate.gradient_examples if "gradient_norm" in metrics else None
    gradient_examples = few if few is not None and few < facts.examples else None
    table: Table = {}
    for method in spec.methods:
        step_sizes = method.step_sizes
        if step_sizes is None:
            assert method.follows is not None
            if method.follows not in best:
                continue
            step_sizes = (best[method.follows],)
        recipe = method.recipe
        table[method.name] = {
            lr: {
                seed: Run(
                    facts.name,
                    facts.fingerprint,
                    facts.examples,
                    spec.dtype,
                    batch,
                    steps,
                    evaluate_at,
                    metrics,
                    recipe,
                    lr,
                    seed,
                    seldom,
                    gradient_examples,
                )
                for seed in spec.seed_numbers
            }
            for lr in step_sizes
        }
    return table


def runs_in(table: Table) -> tuple[Run, ...]:
    """All runs of a table, each once."""
    found = {run.digest: run for of_lr in table.values() for of_seed in of_lr.values() for run in of_seed.values()}
    return tuple(found.values())


def batches(runs: Iterable[Run], facts: Facts, *, width: int | None = None) -> tuple[Batch, ...]:
    """Runs in batches, as wide as pays for their problem; those without a rule are each alone.

    The same runs always make the same batches, on any machine: a run's last digits depend on its neighbours, because
    sums over a stack are rounded in another order.

    Args:
        runs: The runs.
        facts: What is known of their problem.
        width: At most so many in a batch, instead of what pays.
    """
    runs = tuple(runs)
    widest = facts.stack_width if width is None else width
    has_rule = {recipe: rule_of(recipe) is not None for recipe in {run.recipe for run in runs}}
    together = [run for run in runs if widest > 1 and has_rule[run.recipe]]
    alone = [run for run in runs if not (widest > 1 and has_rule[run.recipe])]
    if width is None:
        widest = min(widest, max(2, math.ceil(len(together) / PARTS)))
    return tuple(Batch(part) for part in (*_cut(together, widest), *((run,) for run in alone)))


def batches_of(spec: Spec, table: Table, facts: Facts, *, width: int | None = None) -> tuple[Batch, ...]:
    """The batches of an experiment, the same whether few or all of its step sizes are selected yet.

    Methods that take another's best step size are known when that is, so they are in batches of their own: else an
    interrupted experiment, which may know more when it goes on than it did when it began, would cut in other places.
    """
    cut: list[Batch] = []
    seen: set[str] = set()
    leaders = dict.fromkeys(method.follows for method in spec.methods)
    for leader in sorted(leaders, key=lambda name: name is not None):
        names = [method.name for method in spec.methods if method.follows == leader and method.name in table]
        runs = [run for run in runs_in({name: table[name] for name in names}) if run.digest not in seen]
        seen |= {run.digest for run in runs}
        cut += batches(runs, facts, width=width)
    return tuple(cut)


def _cut(runs: Sequence[Run], widest: int) -> list[tuple[Run, ...]]:
    """In as few parts as are needed, equally large but for one run."""
    parts = math.ceil(len(runs) / widest) if runs else 0
    edges = [round(i * len(runs) / parts) for i in range(parts + 1)] if parts else [0]
    return [tuple(runs[a:b]) for a, b in pairwise(edges)]


def remaining(
    planned: Sequence[Batch], finished: Iterable[str], resumable: Iterable[Sequence[Run]]
) -> tuple[Batch, ...]:
    """The batches that are left to train.

    Args:
        planned: All batches.
        finished: The digests of the runs that have their rows.
        resumable: The runs of each checkpoint. A checkpoint whose runs are all wanted is gone on with, also where
            the spec was changed so that its runs would be in other batches now.
    """
    done = set(finished)
    wanted = {run.digest for batch in planned for run in batch.runs} - done
    kept: list[Batch] = []
    for runs in resumable:
        digests = {run.digest for run in runs}
        if digests <= wanted:
            kept.append(Batch(tuple(runs)))
            wanted -= digests
    rest = [tuple(run for run in batch.runs if run.digest in wanted) for batch in planned]
    return (*kept, *(Batch(runs) for runs in rest if runs))
