"""Tuning through the engine: every run is trained by it and kept in the store."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, final

from memgrad.amounts import counted
from memgrad.experiments.driver import Listener, Outcome, Silent, execute, facts_of
from memgrad.experiments.planning.plan import Table, expand, runs_in, settings_in, steps_of
from memgrad.experiments.planning.problem_choice import Facts
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing.answer import Answer, Measured
from memgrad.experiments.racing.candidates import Candidate
from memgrad.experiments.racing.costs import reserved
from memgrad.experiments.racing.course import FIRST_SEED, Course, Status, Trial
from memgrad.experiments.racing.learning_rates import Found
from memgrad.experiments.racing.pace import Pace
from memgrad.experiments.racing.portfolio import candidates_of, racing_methods
from memgrad.experiments.racing.sequential import Rules
from memgrad.experiments.racing.tuner import Tuner
from memgrad.experiments.racing.words import course_in_words, lines_of
from memgrad.experiments.results import Results
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.engines.engine import Engine

SEEDS_APART = 10_000_000
"""The distance between the seeds of one repetition and the next."""

MOST_LETTERS = 300
"""How much of an error is shown: one that prints a tensor has thousands of letters."""


class Watcher(Protocol):
    """Called with the course of tuning after every round of runs."""

    def __call__(self, course: Course, /) -> None:
        """Tuning has come this far."""


@final
@dataclass(frozen=True)
class Budget:
    """What tuning may cost; None for no limit.

    Attributes:
        runs: The maximum number of runs in all, those in the store included, at least 1. Those that measured the answer
            of a smaller budget do not count.
        seconds: The time for this call, > 0. A round of runs that would not fit is not started; fresh seeds are
            trained to their end.
    """

    runs: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.runs is not None and self.runs < 1:
            raise ValueError(f"a budget is at least 1 run, got runs={self.runs!r}.")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"a budget of time is a number of seconds > 0, got seconds={self.seconds!r}.")


def tune(
    spec: Spec,
    store: Store,
    engine: Engine,
    *,
    candidates: Sequence[Candidate] | None = None,
    rules: Rules | None = None,
    budget: Budget | None = None,
    listener: Listener | None = None,
    watcher: Watcher | None = None,
    seed: int = 0,
    device: str | None = None,
    save_every: float = 120.0,
    width: int | None = None,
    pace: Pace | None = None,
) -> Answer:
    """Which method of an experiment, at which learning rate, and is it worth it?

    Learning rates are searched coarse to fine, the methods race on paired seeds, and the best challenger and the best
    baseline are trained on fresh seeds; see [the guide](../tuning.md). Called again, it continues: a run that is in the
    store is not trained again, and the answer is the same as without the interruption. The store is locked until it
    returns. A run that raises an error counts as diverged; tuning fails if all runs of a method do.

    Args:
        spec: The experiment: problem, length of the runs, metric, and the methods. Its seeds are not used, and its
            learning rates are where the searches start.
        store: Where rows and checkpoints are stored.
        engine: What trains; it is closed at the end.
        candidates: The methods as candidates, which say more about the start of their searches; by their names.
        rules: The rules of the race.
        budget: What it may cost.
        listener: Shows what is being trained.
        watcher: Called with the course of tuning after every round.
        seed: Another number >= 0 takes other seeds throughout: an independent repetition.
        device: Where to train, such as cuda.
        save_every: Seconds between the checkpoints of a run group.
        width: The maximum number of runs trained together; set by the problem unless given.
        pace: How long rounds take, as far as that is known beforehand: none is started that would not fit into a
            budget of time.
    """
    budget = budget or Budget()
    if spec.select.goal != "min":
        raise ValueError(f"tuning makes a loss small, got select.goal={spec.select.goal!r}; select by a loss.")
    if not 0 <= seed <= 10**9:
        raise ValueError(f"tuning needs a seed from 0 to 1e9, got seed={seed!r}.")
    racing = candidates_of(spec) if candidates is None else candidates
    # Tuning has seeds of its own: those of the spec, also those for tuning, are not used.
    spec = spec.model_copy(update={"methods": list(racing_methods(spec)), "tuning_seeds": None})
    for candidate in racing:
        spec.method(candidate.name)  # raises, with the nearest name, if the experiment has no such method
    tuner = Tuner(racing, rules=rules, runs=budget.runs, problem=spec.problem)
    options = {"device": device, "save_every": save_every, "width": width}
    trains = _Training(spec, store, engine, listener or Silent(), seed * SEEDS_APART, options, pace or Pace())
    try:
        with store.writing():  # all the time, so that no other command ends it between two rounds
            ended = _drive(tuner, trains, budget.seconds, watcher)
    finally:
        engine.close()
    answer = tuner.answer()
    pick = answer.pick
    lines = {}
    if pick is not None:
        method = spec.method(pick.name)
        clip = spec.clip if method.clip is None else method.clip
        steps = steps_of(spec, trains.facts)
        schedule, averaged = spec.schedule_of(method), spec.select.metric.partition("@")[2]
        lines = lines_of(method, pick.lr, schedule=schedule, steps=steps, clip=clip, averaged=averaged)
    first = FIRST_SEED["fresh"] + seed * SEEDS_APART
    answer = replace(answer, lines=lines, metric=spec.select.metric, first_seed=first)
    return answer if ended is None else replace(answer, status=ended[0], reason=ended[1])


def _drive(
    tuner: Tuner, trains: _Training, seconds: float | None, watcher: Watcher | None
) -> tuple[Status, str] | None:
    """Train what the tuner wants until it wants nothing more; a status and a reason if something else ends it."""
    watch, began = watcher or (lambda _: None), time.monotonic()
    while wants := tuner.wanted():
        if seconds is not None and tuner.course.stage != "fresh":
            kept = reserved(tuner.course.stage, tuner.course.standing, tuner.rules)
            rounds = (*trains.missing(wants), *kept)  # it may load the problem
            if sum(map(trains.pace.seconds, rounds)) > seconds - (time.monotonic() - began):
                tuner.close(tuner.course.stage)
                continue
        watch(tuner.course)
        trains.listener.said(course_in_words(tuner.course))
        if (ended := trains.train(wants)) is not None:
            return ended
        tuner.tell_all(trains.results(wants))
        if hopeless := trains.hopeless(tuner.course.searches):
            return "failed", hopeless
    watch(tuner.course)
    return None


@final
@dataclass
class _Training:
    """Trains runs through the engine and reads them from the store."""

    _spec: Spec
    _store: Store
    _engine: Engine
    listener: Listener
    _beyond: int
    """What is added to the seeds of trials."""
    _options: Mapping[str, Any]
    """Further arguments of `execute`."""
    _expected: Pace = Pace()  # noqa: RUF009  # a frozen value
    """The pace that was measured beforehand."""

    def __post_init__(self) -> None:
        self._rounds_trained: list[tuple[int, float]] = []  # runs and seconds
        self._raised: dict[str, str] = {}  # why a run raised an error, which counts as diverged
        self._errors: dict[str, str] = {}  # the last such reason, by method
        self._well: set[str] = set()  # the methods of which a run was trained to its end

    @cached_property
    def facts(self) -> Facts:
        """The facts about the problem: it is loaded once."""
        with self._store.writing():
            return facts_of(self._spec.problem_choice, self._store, keep=True)

    @property
    def pace(self) -> Pace:
        """How long rounds take, by those so far."""
        return self._expected.after(self._rounds_trained)

    def missing(self, trials: Sequence[Trial]) -> list[int]:
        """How many of these runs are not in the store, by the rounds in which they are trained."""
        known = self._store.digests()
        return [
            sum(table[trial.name][trial.lr][trial.seed + self._beyond].digest not in known for trial in group)
            for _, table, group in self._rounds(trials)
        ]

    def train(self, trials: Sequence[Trial]) -> tuple[Status, str] | None:
        """Train the runs that are not in the store; a status and a reason if that did not succeed."""
        for spec, table, _ in self._rounds(trials):
            if not {run.digest for run in runs_in(table)} <= self._store.digests().keys() | self._raised.keys():
                outcome = self._execute(spec)
                if outcome.interrupted:
                    return "interrupted", "stopped; what was trained is in the store, and the same call continues"
                if outcome.lost:
                    reasons = "; ".join(dict.fromkeys(_short(outcome.failed[digest]) for digest in outcome.lost))
                    return "failed", f"{counted(len(outcome.lost), 'run')} could not be trained: {reasons}"
                self._take(outcome.failed, table)
            known = self._store.digests()
            self._well |= {name for name, *_, run in settings_in(table) if run.digest in known}
        if self._errors and not self._well:
            return "failed", f"no run could be trained: {'; '.join(dict.fromkeys(self._errors.values()))}"
        return None

    def hopeless(self, searches: Mapping[str, Found]) -> str:
        """Of which methods no run could be trained at any learning rate, and why; empty if there is none."""
        names = [name for name, found in searches.items() if found.diverged and name not in self._well]
        reasons = dict.fromkeys(self._errors[name] for name in names if name in self._errors)
        return f"no run of {', '.join(sorted(names))} could be trained: {'; '.join(reasons)}" if reasons else ""

    def _execute(self, spec: Spec) -> Outcome:
        outcome = execute(
            spec, self._store, self._engine, listener=self.listener, close=False, facts=self.facts, **self._options
        )
        if outcome.trained:
            self._rounds_trained.append((outcome.trained, outcome.seconds))
        return outcome

    def _take(self, failed: Mapping[str, str], table: Table) -> None:
        """Take runs that raised an error as diverged."""
        if not failed:
            return
        self._raised |= {digest: _short(reason) for digest, reason in failed.items()}
        self._errors |= {name: self._raised[run.digest] for name, *_, run in settings_in(table) if run.digest in failed}
        reasons = "; ".join(dict.fromkeys(map(_short, failed.values())))
        self.listener.said(f"{counted(len(failed), 'run')} raised an error, which counts as diverged: {reasons}")

    def results(self, trials: Sequence[Trial]) -> Mapping[Trial, Measured]:
        """The results of runs that are in the store."""
        metric = self._spec.select.metric
        measured: dict[Trial, Measured] = {}
        for spec, table, group in self._rounds(trials):
            results = Results.read(spec, self._store, table)
            for trial in group:
                seeds, seed = results.seeds(trial.name, trial.lr), trial.seed + self._beyond
                if table[trial.name][trial.lr][seed].digest in self._raised:
                    measured[trial] = Measured(math.inf)
                    continue
                final = float(results.final(trial.name, metric, lr=trial.lr)[seeds.index(seed)])
                steps, losses = results.rows.series(table[trial.name][trial.lr][seed].digest, metric)
                measured[trial] = Measured(final, tuple(steps.tolist()), tuple(losses.tolist()))
        return measured

    def _rounds(self, trials: Sequence[Trial]) -> list[tuple[Spec, Table, list[Trial]]]:
        """The runs as experiments, one for each last seed: the seeds before it are in the store, or wanted as well."""
        last = {trial.configuration: trial.seed for trial in sorted(trials, key=lambda trial: trial.seed)}
        by_last: dict[tuple[str, int], list[Trial]] = {}
        for trial in trials:
            by_last.setdefault((trial.stage, last[trial.configuration]), []).append(trial)
        rounds = []
        for (stage, seed), group in by_last.items():
            spec = self._spec_of(group, range(FIRST_SEED[stage] + self._beyond, seed + self._beyond + 1))
            rounds.append((spec, expand(spec, self.facts, {}), group))
        return rounds

    def _spec_of(self, trials: Sequence[Trial], seeds: Iterable[int]) -> Spec:
        methods = [
            method.model_copy(update={"lr": sorted(lrs), "seeds": None})
            for method in self._spec.methods
            if (lrs := {trial.lr for trial in trials if trial.name == method.name})
        ]
        return self._spec.model_copy(update={"methods": methods, "seeds": list(seeds)})


def _short(reason: str) -> str:
    """The beginning of an error, on one line."""
    line = " ".join(reason.split())
    return line if len(line) <= MOST_LETTERS else f"{line[:MOST_LETTERS]} ..."
