"""What an experiment would do and cost, before anything is spent."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

from memgrad.experiments.choice import facts_about
from memgrad.experiments.driver import selected
from memgrad.experiments.estimate import Estimate, estimate
from memgrad.experiments.plan import batches_of, expand, remaining, runs_in
from memgrad.experiments.spec import Method, Spec
from memgrad.experiments.store import Store


@final
@dataclass(frozen=True)
class PlannedMethod:
    """A method of an experiment: how many runs it has, and how many of them have their rows."""

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
        runs: How many runs there are.
        left: How many have no rows yet.
        batches: In how many batches those are trained.
        workers: On how many workers.
        cost: What they would cost, or None if nothing is left.
    """

    title: str
    methods: tuple[PlannedMethod, ...]
    runs: int
    left: int
    batches: int
    workers: int
    cost: Estimate | None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


def preview(spec: Spec, store: Store | None, *, workers: int) -> Preview:
    """Plan an experiment and train a little of it.

    Args:
        spec: The experiment.
        store: The rows that are there, if any.
        workers: How many batches are trained at once.
    """
    problem = spec.choice.load()
    facts = facts_about(spec.choice, problem)
    # Which step size will be selected does not matter to the cost: any stands for it until it is known.
    best = {m.name: m.step_sizes[0] for m in spec.methods if m.step_sizes is not None}
    if store is not None:
        best |= selected(spec, facts, store)
    table = expand(spec, facts, best)
    known = set(store.digests()) if store is not None else set()
    finished = {
        name: sum(run.digest in known for of_seed in of_lr.values() for run in of_seed.values())
        for name, of_lr in table.items()
    }
    runs = runs_in(table)
    left = remaining(batches_of(spec, table, facts), known, [])
    run = runs[0]
    batch = "full batch" if run.batch is None else f"minibatches of {run.batch}"
    title = f"{facts.name}, {facts.examples:,} examples, {batch}, {run.steps:,} steps, {len(spec.seed_numbers)} seeds"
    return Preview(
        title,
        tuple(
            PlannedMethod(m.name, m.optimizer, _step_sizes(m), sum(map(len, table[m.name].values())), finished[m.name])
            for m in spec.methods
        ),
        len(runs),
        sum(len(each.runs) for each in left),
        len(left),
        workers,
        estimate(problem, facts, left, workers=workers) if left else None,
    )


def _step_sizes(method: Method) -> str:
    return str(method.lr) if method.step_sizes is None else ", ".join(f"{lr:g}" for lr in method.step_sizes)
