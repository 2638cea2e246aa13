"""The results of an experiment: curves, final values, selected step sizes and comparisons, from rows alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from memgrad.deprecation import renamed
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.storing.chunk import Rows
from memgrad.experiments.storing.store import Store
from memgrad.statistics import Estimate, holm, interval, paired_difference, paired_p_value, t_quantile

Array = NDArray[np.float64]
RunTable = Mapping[str, Mapping[float, Mapping[int, Run]]]
"""The runs of an experiment, by the method's name, the step size and the seed."""


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """A metric over the steps of a method's runs at one step size.

    Attributes:
        steps: The steps at which it was evaluated, (T,).
        values: Its values, (T, seeds); nan after a run diverged, and for a run that is not finished.
        seeds: The seeds.
        diverged: The seeds whose run diverged, and the step at which this was detected.
    """

    steps: NDArray[np.int64]
    values: Array
    seeds: tuple[int, ...]
    diverged: Mapping[int, int]

    def interval(self) -> tuple[Array, Array, Array]:
        """The mean over the finished seeds and the lower and upper end of its 95 % interval, (T,) each.

        They are nan from the step at which a seed diverged: the mean of the others would look better than the method
        is. The ends are nan if there is only one seed.
        """
        finished = [
            i for i, seed in enumerate(self.seeds) if seed in self.diverged or np.isfinite(self.values[:, i]).any()
        ]
        quantile = t_quantile(len(finished)) if len(finished) > 1 else None
        intervals = [interval(at[finished], quantile=quantile) for at in self.values]
        mean, low, high = (np.array([getattr(each, end) for each in intervals]) for end in ("value", "low", "high"))
        return mean, low, high


@final
@dataclass(frozen=True)
class Comparison:
    """A method compared with a reference, both at their selected step sizes.

    Attributes:
        method: The name of the method.
        lr: Its selected step size.
        final: The mean of the final values over seeds.
        difference: The mean over seeds of the paired difference to the reference; None for the reference itself.
        logarithmic: Whether the difference is one of logarithms, so that its exponential is a ratio.
        p_value: The p-value of the paired t-test; nan where there is none.
        adjusted_p_value: The p-value with Holm's correction for the number of methods compared.
        diverged: How many of its runs diverged, at all step sizes together.
        finished: How many of its runs are finished.
        planned: How many runs it has.
    """

    method: str
    lr: float
    final: Estimate
    difference: Estimate | None
    logarithmic: bool
    p_value: float
    adjusted_p_value: float
    diverged: int
    finished: int
    planned: int

    @property
    def ratio(self) -> Estimate | None:
        """The final value as a multiple of the reference's: the geometric mean over seeds, if `logarithmic`."""
        if self.difference is None or not self.logarithmic:
            return None
        return self.difference.exp()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        estimates = {"final": self.final, "difference": self.difference, "ratio": self.ratio}
        plain = {
            name: None if each is None else {"mean": each.value, "low": each.low, "high": each.high, "n": each.n}
            for name, each in estimates.items()
        }
        return {**asdict(self), **plain}

    as_dict = renamed("as_dict", "to_dict")


@final
class Results:
    """The results of an experiment so far.

    Step sizes are selected by the rule in the spec: the best mean over seeds of the final value, which is the mean over
    the last share of the evaluations. Unfinished runs are left out; `missing` lists them.

    Args:
        spec: The experiment.
        table: Its runs, by the method's name, the step size and the seed.
        rows: The rows of the finished runs.
    """

    def __init__(self, spec: Spec, table: RunTable, rows: Rows) -> None:
        self.spec = spec
        self.runs = table
        self.rows = rows

    @classmethod
    def read(cls, spec: Spec, store: Store, table: RunTable) -> Self:
        """The results that a store has for the runs of a table."""
        return cls(spec, table, store.read(run.digest for *_, run in _each(table)))

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods."""
        return tuple(self.runs)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics."""
        return tuple(dict.fromkeys(metric for *_, run in _each(self.runs) for metric in run.metrics))

    def step_sizes(self, method: str) -> tuple[float, ...]:
        """The step sizes of a method, in increasing order."""
        return tuple(sorted(self._of(method)))

    def seeds(self, method: str, lr: float) -> tuple[int, ...]:
        """The seeds of a method's runs at a step size, in increasing order."""
        return tuple(sorted(self._at(method, lr)))

    def curve(self, method: str, metric: str, *, lr: float | None = None) -> Curve:
        """A metric over the steps of all seeds, at a step size; by default the selected one."""
        self._check(metric)
        lr = self.selected_lr(method) if lr is None else lr
        seeds = self.seeds(method, lr)
        series = [self.rows.series(self._at(method, lr)[seed].digest, metric) for seed in seeds]
        steps = np.unique(np.concatenate([at for at, _ in series]))
        values = np.full((len(steps), len(seeds)), np.nan)
        for i, (at, numbers) in enumerate(series):
            values[np.searchsorted(steps, at), i] = numbers
        return Curve(steps, values, seeds, self.diverged(method, lr))

    def final(self, method: str, metric: str, *, lr: float | None = None) -> Array:
        """The final value of each seed: the mean over the last `select.last` of the evaluations, at least one.

        It is nan for an unfinished run. For a run that diverged it is infinity, or minus infinity if more is better, in
        the metric that selects step sizes, and nan in the others.
        """
        self._check(metric)
        lr = self.selected_lr(method) if lr is None else lr
        return np.array([self._final(self._at(method, lr)[seed], metric) for seed in self.seeds(method, lr)])

    def final_interval(self, method: str, metric: str, *, lr: float | None = None) -> Estimate:
        """The mean of the final values over the finished seeds; nan or infinite if one of them diverged."""
        lr = self.selected_lr(method) if lr is None else lr
        finals = dict(zip(self.seeds(method, lr), self.final(method, metric, lr=lr).tolist(), strict=True))
        return interval([finals[seed] for seed, run in self._at(method, lr).items() if run.digest in self.rows.runs])

    def selectable(self, method: str) -> bool:
        """Whether a step size can be selected: at least one has all its runs finished."""
        return any(
            all(run.digest in self.rows.runs for run in seeds.values()) for seeds in self._of(method).values() if seeds
        )

    def selected_lr(self, method: str) -> float:
        """The selected step size, among those all of whose runs are finished.

        A step size at which a run diverged counts as infinitely bad; of equally good ones the smallest is selected.
        """
        metric, sign = self.spec.select.metric, 1 if self.spec.select.goal == "min" else -1
        self._check(metric)
        scores: dict[float, float] = {}
        for lr in self.step_sizes(method):
            if all(run.digest in self.rows.runs for run in self._at(method, lr).values()):
                score = sign * interval(self.final(method, metric, lr=lr)).value
                scores[lr] = math.inf if math.isnan(score) else score
        if not scores:
            raise ValueError(
                f"method {method!r} has no step size all of whose runs are finished, so that none can be selected; "
                "`memgrad run` trains the missing ones."
            )
        return min(scores, key=lambda lr: (scores[lr], lr))

    best_lr = renamed("best_lr", "selected_lr")

    def diverged(self, method: str, lr: float | None = None) -> dict[int, int]:
        """The seeds whose run diverged, and the step at which this was detected; by default at the selected lr."""
        lr = self.selected_lr(method) if lr is None else lr
        at = self._at(method, lr)
        return {s: self.rows.diverged[at[s].digest] for s in sorted(at) if at[s].digest in self.rows.diverged}

    def complete(self, method: str) -> bool:
        """Whether all runs of all its step sizes are finished."""
        runs = [run for lr in self._of(method).values() for run in lr.values()]
        return bool(runs) and all(run.digest in self.rows.runs for run in runs)

    def missing(self) -> tuple[Run, ...]:
        """The runs that are not finished."""
        runs = {run.digest: run for *_, run in _each(self.runs)}
        return tuple(run for digest, run in runs.items() if digest not in self.rows.runs)

    def compare(self, metric: str, reference: str | None = None) -> tuple[Comparison, ...]:
        """Compare each method with a reference, by default the first method, by the final values of a metric.

        Runs with the same seed start at the same point and see the same examples, so differences are taken seed by
        seed; of logarithms where all values are positive. Step sizes are selected on the same seeds, so a method with
        many of them looks slightly better than it is. A method without a selected step size is left out.
        """
        self._check(metric)
        names = [name for name in self.methods if self.selectable(name)]
        reference = self.methods[0] if reference is None else reference
        self.selected_lr(reference)  # raises if it has none
        finals = {name: self._by_seed(name, metric) for name in names}
        logarithmic = all(value > 0 for each in finals.values() for value in each.values() if not math.isnan(value))
        differences: dict[str, Estimate] = {}
        p_values: dict[str, float] = {}
        for name in names:
            if name != reference:
                shared = sorted(finals[name].keys() & finals[reference].keys())
                pair = [np.array([finals[each][seed] for seed in shared]) for each in (name, reference)]
                mine, other = map(np.log, pair) if logarithmic else pair
                differences[name], p_values[name] = paired_difference(mine, other), paired_p_value(mine, other)
        adjusted = dict(zip(p_values, holm(list(p_values.values())).tolist(), strict=True))
        return tuple(
            Comparison(
                name,
                self.selected_lr(name),
                self.final_interval(name, metric),
                differences.get(name),
                logarithmic,
                p_values.get(name, math.nan),
                adjusted.get(name, math.nan),
                *self._counts(name),
            )
            for name in names
        )

    def table(self) -> dict[str, NDArray[Any]]:
        """All rows, of all seeds and step sizes, with the method and whether its step size was selected."""
        described = self.rows.described()
        selected = {name: self.selected_lr(name) for name in self.methods if self.selectable(name)}
        blocks = [
            (name, selected.get(name) == lr, self.rows.places(run.digest)) for name, lr, _, run in _each(self.runs)
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

    def _by_seed(self, method: str, metric: str) -> dict[int, float]:
        """The final values of the finished runs at the selected step size; nan for one that diverged."""
        lr = self.selected_lr(method)
        return dict(zip(self.seeds(method, lr), self.final(method, metric, lr=lr).tolist(), strict=True))

    def _counts(self, method: str) -> tuple[int, int, int]:
        digests = [run.digest for seeds in self._of(method).values() for run in seeds.values()]
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
            return {}
        return self.runs[method]

    def _at(self, method: str, lr: float) -> Mapping[int, Run]:
        if lr not in self._of(method):
            known = ", ".join(f"{each:g}" for each in self.step_sizes(method)) or "none yet"
            raise ValueError(f"method {method!r} has no runs with the step size {lr!r}; its step sizes: {known}.")
        return self._of(method)[lr]


def _each(table: RunTable) -> Iterator[tuple[str, float, int, Run]]:
    for method, step_sizes in table.items():
        for lr, seeds in step_sizes.items():
            for seed, run in seeds.items():
                yield method, lr, seed, run
