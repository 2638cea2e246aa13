"""From a spec to runs, and from runs to run groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, final

import numpy as np

from memgrad.experiments.digests import digest_of_runs
from memgrad.experiments.planning.methods import Method
from memgrad.experiments.planning.problem_choice import Facts
from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.runs import AT, Run
from memgrad.experiments.planning.spec import Spec
from memgrad.method import Method as Rule
from memgrad.problems.problem import STEP_NORM

Table = Mapping[str, Mapping[float, Mapping[int, Run]]]
"""The run of each variant of a method, step size and seed."""

PARTS = 4
"""Runs that would fit into one stack are split into this many run groups, so that several cores can share them."""

SHARING = 4
"""The smallest number of runs of a seed for which a group of their own is worth smaller groups."""


@final
@dataclass(frozen=True)
class RunGroup:
    """Runs that one worker trains together.

    Attributes:
        runs: The runs: any number whose optimizers are methods, or one of any optimizer.
        done: The number of steps already taken, according to their checkpoint.
    """

    runs: tuple[Run, ...]
    done: int = field(default=0, compare=False)

    @property
    def key(self) -> str:
        """32 hexadecimal digits that identify the run group and name its checkpoint."""
        return digest_of_runs(run.digest for run in self.runs)

    @property
    def halves(self) -> tuple[RunGroup, RunGroup]:
        """Two run groups, which start from the beginning, instead of this one of at least two runs."""
        middle = len(self.runs) // 2
        return RunGroup(self.runs[:middle]), RunGroup(self.runs[middle:])


def steps_of(spec: Spec, facts: Facts) -> int:
    """The number of steps of a run."""
    if spec.steps is not None:
        return spec.steps
    assert spec.epochs is not None
    size = batch_size_of(spec, facts)
    return spec.epochs * (1 if size is None else facts.examples // size)


def batch_size_of(spec: Spec, facts: Facts) -> int | None:
    """The size of a minibatch; None for the full batch."""
    if spec.batch == "full":
        return None
    size = facts.batch_size if spec.batch is None else spec.batch
    if size > facts.examples:
        raise ValueError(
            f"problem {facts.name!r} has {facts.examples:,} training examples; a minibatch has at most as many, got "
            f'batch={size:,}. Write batch = "full" for all.'
        )
    return size


def metrics_of(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """The evaluated metrics: those of the spec, or all of the problem's; the one that selects step sizes among them."""
    asked = tuple(dict.fromkeys(facts.metrics if spec.metrics is None else spec.metrics))
    for metric in (*asked, spec.select.metric):
        if metric.partition(AT)[0] not in facts.metrics:
            raise ValueError(f"problem {facts.name!r} has no metric {metric!r}; it has {', '.join(facts.metrics)}.")
    if spec.select.metric not in asked:
        raise ValueError(f"step sizes are selected by {spec.select.metric!r}, which is not in metrics={list(asked)}.")
    if not isinstance(spec.evaluate.times, int) and spec.evaluate.times.keys() != set(asked):
        raise ValueError(
            f"evaluate.times has {', '.join(spec.evaluate.times)}; as a table it needs each metric that is evaluated: "
            f"{', '.join(asked)}."
        )
    return asked


def expand(spec: Spec, facts: Facts, selected: Mapping[str, float]) -> Table:
    """All runs of an experiment whose settings are known, by the variant of a method, the step size and the seed.

    Args:
        spec: The experiment.
        facts: What is known about its problem.
        selected: What is selected so far: the variant of a method, which is the method itself if it has no grid, and
            its step size. Methods that follow another are left out until its variant is among them; with tuning seeds,
            the selected setting is trained with the other seeds too.
    """
    steps = steps_of(spec, facts)
    spec.check_steps(steps)
    variants = {each.name: each for method in spec.methods for each in method.variants}
    leading = {method.name: each.name for method in spec.methods for each in method.variants if each.name in selected}
    table = {}
    for method in spec.methods:
        if not leading.keys() >= set(method.leaders):
            continue
        make = _maker(spec, facts, spec.steps_of(method, steps))
        step_sizes = (selected[leading[method.follows]],) if method.follows is not None else method.step_sizes or ()
        for variant in method.variants:
            source = variant if method.copies is None else variants[leading[method.copies]]
            table[variant.name] = {
                lr: {
                    seed: make(variant, source, lr, seed)
                    for seed in _seeds(spec, method, selected.get(variant.name), lr)
                }
                for lr in step_sizes
            }
    return table


def _seeds(spec: Spec, method: Method, selected: float | None, lr: float) -> tuple[int, ...]:
    """The seeds of a setting: those for tuning, if there are any, and the others if it is selected."""
    if spec.tuning_seeds is None or not method.is_tuned:
        return spec.seeds_of(method)
    return (*spec.tuning_seeds, *(spec.seeds_of(method) if selected == lr else ()))


def _maker(spec: Spec, facts: Facts, steps: int) -> Callable[[Method, Method, float, int], Run]:
    """A function of a method, the method whose optimizer it has, step size and seed that makes the run."""
    batch_size, metrics = batch_size_of(spec, facts), metrics_of(spec, facts)
    times = {metric: spec.evaluate.steps(steps, metric) for metric in metrics}
    evaluate_at = tuple(sorted(set().union(*times.values())))
    seldom = tuple((metric, own) for metric, own in times.items() if own != evaluate_at)
    plain = {metric.partition(AT)[0] for metric in metrics}  # an average of iterates is evaluated on the same examples
    of_loss = any(
        name not in ("gradient_norm", STEP_NORM) and not name.startswith(("test_", "validation_")) for name in plain
    )
    gradient_examples = _share(spec.evaluate.gradient_examples, facts, asked="gradient_norm" in plain)
    loss_examples = _share(spec.evaluate.loss_examples, facts, asked=of_loss)
    recipes: dict[str, Recipe] = {}

    def make(method: Method, source: Method, lr: float, seed: int) -> Run:
        if source.name not in recipes:
            recipes[source.name] = source.recipe
        schedule = spec.schedule_of(source if method.schedule is None else method)
        clip = next((each for each in (method.clip, source.clip, spec.clip) if each is not None), None)
        return Run(
            facts.name,
            facts.fingerprint,
            facts.examples,
            spec.dtype,
            batch_size,
            steps,
            evaluate_at,
            metrics,
            recipes[source.name],
            lr,
            seed,
            seldom,
            gradient_examples,
            loss_examples,
            None if schedule.is_constant else str(schedule),
            clip,
        )

    return make


def _share(few: int | None, facts: Facts, *, asked: bool) -> int | None:
    """The number of examples if it is fewer than all and something is evaluated on them; otherwise None."""
    return few if few is not None and asked and few < facts.examples else None


def settings_in(table: Table) -> Iterator[tuple[str, float, int, Run]]:
    """The runs of a table, each with its variant, step size and seed."""
    for variant, of_lr in table.items():
        for lr, of_seed in of_lr.items():
            for seed, run in of_seed.items():
                yield variant, lr, seed, run


def runs_in(table: Table) -> tuple[Run, ...]:
    """All distinct runs of a table."""
    return tuple({run.digest: run for *_, run in settings_in(table)}.values())


def run_groups(
    runs: Iterable[Run], facts: Facts, *, width: int | None = None, planned: int = 0
) -> tuple[RunGroup, ...]:
    """Runs in groups, as large as is efficient for their problem; a run without a method is a group of its own.

    The same runs always make the same groups, on any machine: a run's last digits depend on its neighbors, because
    sums over a stack are rounded in a different order.

    Args:
        runs: The runs.
        facts: What is known about their problem.
        width: The maximum size of a group; set by the problem unless given.
        planned: The number of runs of the experiment that these are part of, whose other runs keep the cores busy too.
    """
    by_length = groupby(sorted(runs, key=lambda run: run.steps), key=lambda run: run.steps)
    return tuple(group for _, each in by_length for group in _of_one_length(tuple(each), facts, width, planned))


def _of_one_length(runs: tuple[Run, ...], facts: Facts, width: int | None, planned: int) -> tuple[RunGroup, ...]:
    widest = facts.stack_width if width is None else width
    methods = {recipe: recipe.method for recipe in {run.recipe for run in runs}}
    stacks = {
        run.digest: widest > 1 and (method := methods[run.recipe]) is not None and not _overshoots(run, method)
        for run in runs
    }
    together = [run for run in runs if stacks[run.digest]]
    alone = [run for run in runs if not stacks[run.digest]]
    if width is None:
        widest = min(widest, max(2, math.ceil(max(len(together), planned) / PARTS)))
    return tuple(RunGroup(part) for part in (*_parts(together, widest), *((run,) for run in alone)))


def _overshoots(run: Run, method: Rule) -> bool:
    """Whether its weight decay takes away more than all of the weights at a step: it is refused, but its group is not.

    AdamW's own decay takes any amount, and diverges where it is too large.
    """
    decay = method.weight_decay
    if decay.kind != "independent" and not decay.log_time:
        return False
    k = np.arange(run.steps, dtype=float)
    factors = np.ones(run.steps) if run.factors is None else run.factors
    return bool((decay.shrink(k, run.lr * factors, run.lr) > 1).any())


def run_groups_of(spec: Spec, table: Table, facts: Facts, *, width: int | None = None) -> tuple[RunGroup, ...]:
    """The run groups of an experiment, the same whether few or all of its step sizes are selected yet.

    Methods that follow the same other method form groups of their own, and so do the runs that test a selected setting:
    they are known only when the selection is, and a resumed experiment, which may know more step sizes than it did at
    its start, must not group its runs differently.
    """
    planned = sum(_settings(method) * len(spec.seeds_of(method)) for method in spec.methods)
    groups: list[RunGroup] = []
    seen: set[str] = set()
    for runs in _known_together(spec, table):
        new = [run for run in runs if run.digest not in seen]
        seen |= {run.digest for run in new}
        groups += run_groups(new, facts, width=width, planned=planned)
    return tuple(groups)


def _settings(method: Method) -> int:
    """The number of settings of a method; one that follows another has one step size, known or not."""
    return len(method.variants) * (1 if method.step_sizes is None else len(method.step_sizes))


def _known_together(spec: Spec, table: Table) -> list[tuple[Run, ...]]:
    """The runs of a table in sets that become known at the same time: those that need no selection first."""
    sets: dict[tuple[Any, ...], list[Run]] = {(): []}
    for method in spec.methods:
        needs: tuple[Any, ...] = method.leaders
        for variant in method.variants:
            for of_seed in table.get(variant.name, {}).values():
                for seed, run in of_seed.items():
                    # The selected setting of a tuned method is tested once all of its settings have been tried.
                    is_test = spec.tuning_seeds is not None and method.is_tuned and seed not in spec.tuning_seeds
                    sets.setdefault((method.name, "tested") if is_test else needs, []).append(run)
    return [tuple({run.digest: run for run in runs}.values()) for runs in sets.values()]


def _parts(runs: Sequence[Run], widest: int) -> list[tuple[Run, ...]]:
    """Runs in parts of at most this size.

    Runs of a seed see the same minibatches, which a stack of them reads once: if each seed has at least `SHARING` runs,
    and enough for half a part, parts have one seed.
    """
    by_seed: dict[int, list[Run]] = {}
    for run in runs:
        by_seed.setdefault(run.seed, []).append(run)
    if any(len(each) < max(SHARING, widest / 2) for each in by_seed.values()):
        return _cut(runs, widest)
    return [part for each in by_seed.values() for part in _cut(each, widest)]


def _cut(runs: Sequence[Run], widest: int) -> list[tuple[Run, ...]]:
    """As few parts as possible, whose sizes differ by at most one."""
    parts = math.ceil(len(runs) / widest) if runs else 0
    edges = [round(i * len(runs) / parts) for i in range(parts + 1)] if parts else []
    return [tuple(runs[a:b]) for a, b in pairwise(edges)]


def remaining(
    planned: Sequence[RunGroup], finished: Iterable[str], resumable: Iterable[Sequence[Run]]
) -> tuple[RunGroup, ...]:
    """The run groups that are left to train.

    Args:
        planned: All run groups.
        finished: The digests of the finished runs.
        resumable: The runs of each checkpoint. A checkpoint whose runs are all wanted is resumed, even if the spec was
            changed so that its runs would be in other groups now.
    """
    done = set(finished)
    wanted = {run.digest for group in planned for run in group.runs} - done
    kept: list[RunGroup] = []
    for runs in resumable:
        digests = {run.digest for run in runs}
        if digests <= wanted:
            kept.append(RunGroup(tuple(runs)))
            wanted -= digests
    rest = [tuple(run for run in group.runs if run.digest in wanted) for group in planned]
    return (*kept, *(RunGroup(runs) for runs in rest if runs))
