"""The results of an experiment: curves, final values, selected step sizes and comparisons, from rows alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from memgrad.deprecation import renamed
from memgrad.experiments.comparison import Comparison, Curve, first_at
from memgrad.experiments.planning.plan import Table, runs_in, settings_in
from memgrad.experiments.planning.runs import AT, Run
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.storing.chunk import Rows
from memgrad.experiments.storing.store import Store
from memgrad.kinds import Array
from memgrad.statistics import Estimate, holm, interval, paired_difference, paired_p_value


@final
class Results:
    """The results of an experiment so far.

    Settings (step sizes, and the variants of methods with a grid) are selected by the rule in the spec: the best mean
    over seeds of the final value, which is the mean over the last share of the evaluations. With tuning seeds, they are
    the seeds that select, and everything else is about the others. Unfinished runs are left out; `missing` lists them.

    A method is given by its name; one with a grid then means its selected variant. Other variants have names too.

    Args:
        spec: The experiment.
        table: Its runs, by the variant's name, the step size and the seed.
        rows: The rows of the finished runs.
    """

    def __init__(self, spec: Spec, table: Table, rows: Rows) -> None:
        self.spec = spec
        self.runs = table
        self.rows = rows

    @classmethod
    def read(cls, spec: Spec, store: Store, table: Table) -> Self:
        """The results that a store has for the runs of a table."""
        return cls(spec, table, store.read(run.digest for run in runs_in(table)))

    @property
    def finished(self) -> bool:
        """Whether every run of every method is known and finished."""
        return not self.missing() and len(self.methods) == len(self.spec.methods)

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods."""
        of_variant = {variant.name: method.name for method in self.spec.methods for variant in method.variants}
        return tuple(dict.fromkeys(of_variant.get(name, name) for name in self.runs))

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics."""
        return tuple(dict.fromkeys(metric for run in runs_in(self.runs) for metric in run.metrics))

    def step_sizes(self, method: str) -> tuple[float, ...]:
        """The step sizes of a method, in increasing order."""
        return tuple(sorted(self._of(method)))

    def seeds(self, method: str, lr: float, *, tuning: bool = False) -> tuple[int, ...]:
        """The seeds of a method's runs at a step size, in increasing order.

        With tuning seeds, they are the others, if the setting was trained with them, or the tuning seeds if not, or if
        they are asked for.
        """
        at, for_tuning = self._at(method, lr), set(self.spec.tuning_seeds or ())
        kept = [seed for seed in at if (seed in for_tuning) == tuning]
        return tuple(sorted(kept or at))

    def curve(self, method: str, metric: str, *, lr: float | None = None) -> Curve:
        """A metric over the steps of all seeds, at a step size; by default the selected one."""
        self._check(metric)
        lr = self.selected_lr(method) if lr is None else lr
        seeds = self.seeds(method, lr)
        at_lr = self._at(method, lr)
        series = [self.rows.series(at_lr[seed].digest, metric) for seed in seeds]
        steps = np.unique(np.concatenate([at for at, _ in series]))
        values = np.full((len(steps), len(seeds)), np.nan)
        for i, (at, numbers) in enumerate(series):
            values[np.searchsorted(steps, at), i] = numbers
        return Curve(steps, values, seeds, self.diverged(method, lr))

    def final(self, method: str, metric: str, *, lr: float | None = None, tuning: bool = False) -> Array:
        """The final value of each seed: the mean over the last `select.last` of the evaluations, at least one.

        It is nan for an unfinished run. For a run that diverged it is infinity, or minus infinity if more is better, in
        the metric that selects step sizes, and nan in the others. See `seeds` for `tuning`.
        """
        self._check(metric)
        lr = self.selected_lr(method) if lr is None else lr
        at = self._at(method, lr)
        return np.array([self._final(at[seed], metric) for seed in self.seeds(method, lr, tuning=tuning)])

    def steps_to_reach(self, method: str, metric: str, value: float) -> Estimate:
        """The number of steps after which a metric has reached a value, with its interval over seeds.

        Per seed it is where the straight line between two evaluations first meets the value; infinite if none does.
        With a schedule, a loss on the way is that of a run whose learning rate has not decayed yet: to compare numbers
        of steps, train a method with `steps_factor` instead.
        """
        if not math.isfinite(value):
            raise ValueError(f"the value of {metric} that is to be reached must be finite, got {value!r}.")
        curve, finished = self.curve(method, metric), self._finished_seeds(method, self.selected_lr(method))
        found = []
        for seed, values in zip(curve.seeds, curve.values.T, strict=True):
            if seed in finished:
                sign = -1.0 if self._grows(metric, values, value) else 1.0
                found.append(first_at(curve.steps, sign * values, sign * value))
        return interval(found, name=f"steps to {metric} {value:g}")

    def _grows(self, metric: str, values: Array, value: float) -> bool:
        """Whether a value of a metric is reached from below: by the goal, by its name, or from where it starts."""
        name, select = metric.partition(AT)[0], self.spec.select
        if name == select.metric.partition(AT)[0]:
            return select.goal == "max"
        if name.endswith(("loss", "norm")):
            return False
        return next((bool(first < value) for first in values if not math.isnan(first)), False)

    def final_interval(self, method: str, metric: str, *, lr: float | None = None) -> Estimate:
        """The mean of the final values over the finished seeds; nan or infinite if one of them diverged."""
        lr = self.selected_lr(method) if lr is None else lr
        at = self._at(method, lr)
        finals = self._by_seed(method, metric, lr)
        return interval([final for seed, final in finals.items() if at[seed].digest in self.rows.runs])

    def selectable(self, method: str) -> bool:
        """Whether a step size can be selected: at least one has all its runs finished."""
        return any(runs and self._are_finished(runs) for _, _, runs in self._settings(method))

    def tuned(self, method: str) -> bool:
        """Whether all runs that decide which setting is selected are finished."""
        settings = self._settings(method)
        return bool(settings) and all(self._are_finished(runs) for _, _, runs in settings)

    def selected_lr(self, method: str) -> float:
        """The selected step size, among those all of whose runs are finished.

        A step size at which a run diverged counts as infinitely bad; of equally good ones the smallest is selected.
        """
        return self.selected(method)[1]

    def selected(self, method: str) -> tuple[str, float]:
        """The name of the selected variant and its step size, by the same rule."""
        scores = self.scores(method)
        if not scores:
            raise ValueError(
                f"method {method!r} has no step size all of whose runs are finished, so that none can be selected; "
                "`memgrad run` trains the missing ones."
            )
        return min(scores, key=lambda setting: (scores[setting], setting[1]))

    def scores(self, method: str) -> dict[tuple[str, float], float]:
        """What settings are selected by, less being better: for each variant and step size that is finished."""
        metric, sign = self.spec.select.metric, 1 if self.spec.select.goal == "min" else -1
        self._check(metric)
        found: dict[tuple[str, float], float] = {}
        for variant, lr, runs in self._settings(method):
            if self._are_finished(runs):
                score = sign * interval([self._final(run, metric) for run in runs]).value
                found[variant, lr] = math.inf if math.isnan(score) else score
        return found

    def _settings(self, method: str) -> list[tuple[str, float, tuple[Run, ...]]]:
        """The variants and step sizes of a method, each with the runs that decide: of the tuning seeds, if any."""
        found = []
        for variant in self._variants(method):
            for lr in sorted(self.runs.get(variant, {})):
                at = self.runs[variant][lr]
                deciding = [at[seed] for seed in self.spec.tuning_seeds or () if seed in at] or list(at.values())
                found.append((variant, lr, tuple(deciding)))
        return found

    def _are_finished(self, runs: Sequence[Run]) -> bool:
        return all(run.digest in self.rows.runs for run in runs)

    def _variants(self, method: str) -> tuple[str, ...]:
        """The names of a method's variants; a variant's name stands for itself."""
        if method in self.runs:
            return (method,)
        return tuple(variant.name for variant in self.spec.method(method).variants)

    best_lr = renamed("best_lr", "selected_lr")

    def diverged(self, method: str, lr: float | None = None) -> dict[int, int]:
        """The seeds whose run diverged, and the step at which this was detected; by default at the selected lr."""
        lr = self.selected_lr(method) if lr is None else lr
        at = self._at(method, lr)
        return {s: self.rows.diverged[at[s].digest] for s in sorted(at) if at[s].digest in self.rows.diverged}

    def complete(self, method: str) -> bool:
        """Whether all runs of all its step sizes are finished."""
        _, finished, planned = self.counts(method)
        return 0 < finished == planned

    @cached_property
    def planned(self) -> Mapping[str, Run]:
        """All runs that are known so far, finished or not, by digest."""
        return {run.digest: run for run in runs_in(self.runs)}

    def missing(self) -> tuple[Run, ...]:
        """The runs that are not finished."""
        return tuple(run for digest, run in self.planned.items() if digest not in self.rows.runs)

    def compare(
        self, metric: str, reference: str | None = None, *, reach: float | None = None
    ) -> tuple[Comparison, ...]:
        """Compare each method with a reference, by default the first method, by the final values of a metric.

        Runs with the same seed start at the same point and see the same examples, so differences are taken seed by
        seed; of logarithms where all values are positive. Without tuning seeds, settings are selected on the same
        seeds, so a method with many of them looks slightly better than it is. A method without a selected setting is
        left out.

        Args:
            metric: The metric.
            reference: The name of the method that the others are compared with.
            reach: Also say after how many steps each method reaches this value of the metric.
        """
        self._check(metric)
        selected = {name: self.selected(name) for name in self.methods if self.selectable(name)}
        reference = self.methods[0] if reference is None else reference
        self.selected_lr(reference)  # raises if it has none
        reference = {variant: name for name, (variant, _) in selected.items()}.get(reference, reference)
        if reference not in selected:
            raise ValueError(
                f"{reference!r} is not what was selected for its method, and only that is compared; the methods are "
                f"{', '.join(selected)}."
            )
        finals = {name: self._by_seed(name, metric, lr) for name, (_, lr) in selected.items()}
        # A run that diverged is infinitely bad, whatever the sign, and says nothing about the kind of the values.
        logarithmic = all(value > 0 for each in finals.values() for value in each.values() if math.isfinite(value))
        differences: dict[str, Estimate] = {}
        p_values: dict[str, float] = {}
        for name in selected:
            if name != reference:
                finished = [self._finished_seeds(each, selected[each][1]) for each in (name, reference)]
                # Those that select a setting do not test it, also while they are all that is finished.
                shared = sorted(set.intersection(*finished) - set(self.spec.tuning_seeds or ()))
                pair = [np.array([finals[each][seed] for seed in shared]) for each in (name, reference)]
                if logarithmic:
                    with np.errstate(invalid="ignore"):
                        pair = [np.where(np.isneginf(values), values, np.log(values)) for values in pair]
                mine, other = pair
                differences[name], p_values[name] = paired_difference(mine, other), paired_p_value(mine, other)
        adjusted = dict(zip(p_values, holm(list(p_values.values())).tolist(), strict=True))
        return tuple(
            Comparison(
                name,
                lr,
                self.final_interval(name, metric, lr=lr),
                differences.get(name),
                logarithmic,
                p_values.get(name, math.nan),
                adjusted.get(name, math.nan),
                *self.counts(name),
                variant,
                next(iter(self.runs[variant][lr].values())).steps,
                None if reach is None else self.steps_to_reach(name, metric, reach),
                len(tried := self.runs[variant]) > 1 and lr in (min(tried), max(tried)),
            )
            for name, (variant, lr) in selected.items()
        )

    def table(self) -> dict[str, NDArray[Any]]:
        """All rows, of all seeds and step sizes, with the method and whether its step size was selected."""
        described = self.rows.described()
        selected = dict(self.selected(name) for name in self.methods if self.selectable(name))
        blocks = [
            (name, selected.get(name) == lr, self.rows.places(run.digest))
            for name, lr, _, run in settings_in(self.runs)
        ]
        sizes = [len(places) for *_, places in blocks]
        places = np.concatenate([np.empty(0, dtype=np.intp), *(places for *_, places in blocks)])
        return {
            "method": np.repeat(np.array([name for name, *_ in blocks], dtype=str), sizes),
            "selected": np.repeat(np.array([is_selected for _, is_selected, _ in blocks], dtype=bool), sizes),
            **{name: column[places] for name, column in described.items()},
        }

    def _final(self, run: Run, metric: str) -> float:
        select = self.spec.select
        if run.digest in self.rows.diverged:
            return math.nan if metric != select.metric else math.inf if select.goal == "min" else -math.inf
        steps, values = self.rows.series(run.digest, metric)
        times = run.evaluated_at(metric)
        last = values[steps >= times[-max(1, round(select.last * len(times)))]]
        return float(last.mean()) if len(last) else math.nan

    def _finished_seeds(self, method: str, lr: float) -> set[int]:
        return {seed for seed in self.seeds(method, lr) if self._at(method, lr)[seed].digest in self.rows.runs}

    def _by_seed(self, method: str, metric: str, lr: float) -> dict[int, float]:
        return dict(zip(self.seeds(method, lr), self.final(method, metric, lr=lr).tolist(), strict=True))

    def counts(self, method: str) -> tuple[int, int, int]:
        """How many of its runs diverged, are finished, and are planned, at all step sizes together."""
        runs = [seeds for name in self._variants(method) for seeds in self.runs.get(name, {}).values()]
        digests = [run.digest for seeds in runs for run in seeds.values()]
        diverged = sum(digest in self.rows.diverged for digest in digests)
        return diverged, sum(digest in self.rows.runs for digest in digests), len(digests)

    def _check(self, metric: str) -> None:
        if metric not in self.metrics:
            raise ValueError(
                f"experiment {self.spec.name!r} does not measure {metric!r}; it measures {', '.join(self.metrics)}."
            )

    def _of(self, method: str) -> Mapping[float, Mapping[int, Run]]:
        if method not in self.runs:
            self.spec.method(method)  # raises, with the nearest name, if the experiment has no such method
            return self.runs[self.selected(method)[0]] if self.selectable(method) else {}
        return self.runs[method]

    def _at(self, method: str, lr: float) -> Mapping[int, Run]:
        if lr not in self._of(method):
            known = ", ".join(f"{each:g}" for each in self.step_sizes(method)) or "none yet"
            raise ValueError(f"method {method!r} has no runs with the step size {lr!r}; its step sizes: {known}.")
        return self._of(method)[lr]
