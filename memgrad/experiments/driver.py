"""Run an experiment: plan, train what the store does not have, store the results, select step sizes, continue."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, final

from memgrad.experiments.digests import digest_of_data
from memgrad.experiments.planning.plan import RunGroup, expand, remaining, run_groups_of, runs_in
from memgrad.experiments.planning.problem_choice import Facts, ProblemChoice, facts_about, fingerprint_of_ours
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.results import Results
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.checkpoint import Checkpoint
from memgrad.experiments.training.engines.engine import Engine, check_device, handler_kept
from memgrad.experiments.training.events import Event, Failed, Finished, Lost, Refused, Saved, Stopped
from memgrad.experiments.training.train import Assignment

RETRIES = 2
"""How often a run group is tried again after its worker died."""

PATIENCE = 30.0
"""Seconds that run groups have to stop with a checkpoint when they are asked to."""


class Listener(Protocol):
    """Shows what happens while an experiment runs."""

    def began(self, groups: Sequence[RunGroup], finished: int) -> None:
        """These run groups are about to be trained; this many runs are finished already."""

    def started(self, group: RunGroup, k: int) -> None:
        """A run group is being trained, from step k on."""

    def happened(self, group: RunGroup, event: Event) -> None:
        """An event of a run group."""

    def said(self, message: str) -> None:
        """A message for the user."""


class Silent:
    """A listener that shows nothing."""

    def began(self, *_: object, **__: object) -> None:
        """Nothing."""

    started = happened = said = began


@final
@dataclass
class Outcome:
    """The outcome of running an experiment.

    Attributes:
        runs: All runs that were planned.
        trained: The number of runs trained by this call.
        there: The number of runs that were finished before.
        diverged: The number of finished runs that diverged: a loss or a parameter was not finite.
        failed: Runs that could not be trained, and why, by digest.
        lost: Those of them whose workers died: another machine may be able to train them.
        waiting: Methods that could not be planned, because those whose step sizes they take are not complete.
        interrupted: Whether it was stopped before its end.
        seconds: How long it took.
    """

    runs: tuple[Run, ...] = ()
    trained: int = 0
    there: int = 0
    diverged: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every run has its rows."""
        return not (self.failed or self.waiting or self.interrupted)


def execute(
    spec: Spec,
    store: Store,
    engine: Engine,
    *,
    listener: Listener | None = None,
    device: str | None = None,
    save_every: float = 120.0,
    width: int | None = None,
    close: bool = True,
    facts: Facts | None = None,
) -> Outcome:
    """Train the runs of a spec that the store does not have, and store their rows.

    On Ctrl-C and SIGTERM it saves checkpoints; called again, it resumes from them. A second Ctrl-C does not wait.

    Args:
        spec: The experiment.
        store: Where rows and checkpoints are stored.
        engine: What trains.
        listener: Shows what happens.
        device: Where to train, such as cuda.
        save_every: Seconds between the checkpoints of a run group.
        width: The maximum number of runs trained together; set by the problem unless given.
        close: Whether to close the engine at the end. If not, its workers are kept for the next experiment, and the
            caller closes it, also after an interruption.
        facts: What is known about the problem, if it was loaded before.
    """
    driver = _Driver(spec, store, engine, listener or Silent(), device, save_every, width, facts)
    try:
        check_device(device, here=False)
        return driver.drive()
    finally:
        if close:
            engine.close()


def facts_of(problem_choice: ProblemChoice, store: Store, *, keep: bool) -> Facts:
    """The facts about a problem: from the store if its data are pinned and it was loaded before, else by loading it.

    With `keep` they are stored too, which needs a writable store.
    """
    known = known_facts(problem_choice, store)
    if known is not None:
        return known
    facts = facts_about(problem_choice, problem_choice.load())
    if keep and problem_choice.is_pinned:
        store.save_facts(digest_of_data(problem_choice.to_dict()), facts)
    return facts


def known_facts(problem_choice: ProblemChoice, store: Store) -> Facts | None:
    """The facts about a built-in problem that was loaded before, from the store: nothing is loaded."""
    known = store.facts(digest_of_data(problem_choice.to_dict())) if problem_choice.is_pinned else None
    return known if known is not None and known.fingerprint == fingerprint_of_ours(problem_choice) else None


def results_of(spec: Spec, store: Store, *, facts: Facts | None = None) -> Results:
    """The results of an experiment so far. Methods whose step size is not selected yet are left out."""
    facts = facts or facts_of(spec.problem_choice, store, keep=False)
    table = expand(spec, facts, selected_step_sizes(spec, facts, store))
    return Results.read(spec, store, table)


def stored_results(spec: Spec, store: Store) -> Results | None:
    """The results of an experiment on a built-in problem that was loaded before: nothing is loaded. Otherwise None."""
    facts = known_facts(spec.problem_choice, store)
    return None if facts is None else results_of(spec, store, facts=facts)


def selected_step_sizes(spec: Spec, facts: Facts, store: Store) -> dict[str, float]:
    """The selected variants of methods, with their step sizes, where all runs that decide are finished.

    They are those of the methods that others follow; with tuning seeds, of all methods that are tuned.
    """
    wanted = {name for method in spec.methods for name in method.leaders}
    if spec.tuning_seeds is not None:
        wanted |= {method.name for method in spec.methods if method.is_tuned}
    selected: dict[str, float] = {}
    while wanted:
        own = expand(spec, facts, selected)  # a method that follows another may have others that follow it
        results = Results.read(spec, store, own)
        found = dict(results.selected(name) for name in wanted if results.tuned(name))
        if found == selected:
            break
        selected = found
    return selected


@dataclass
class _Driver:
    """A call of `execute`: its arguments, and what it has done so far."""

    _spec: Spec
    _store: Store
    _engine: Engine
    _listener: Listener
    _device: str | None
    _save_every: float
    _width: int | None
    _facts: Facts | None

    def __post_init__(self) -> None:
        self._outcome = Outcome()
        self._under_way: dict[str, RunGroup] = {}
        self._tries: dict[str, int] = {}
        self._parts: tuple[tuple[str, str], ...] = ()
        self._stop = False

    def drive(self) -> Outcome:
        began = time.monotonic()
        with self._store.writing():
            facts = self._facts or facts_of(self._spec.problem_choice, self._store, keep=True)
            self._parts = facts.parts
            try:
                with handler_kept(signal.SIGINT, self._hear), handler_kept(signal.SIGTERM, self._hear):
                    # Methods that follow another are planned once its step size is selected.
                    while not self._stop and (todo := self._planned(facts)):
                        self._train_all(todo)
                    if self._stop:
                        self._interrupt()
            except KeyboardInterrupt:  # the second Ctrl-C
                self._outcome.interrupted = True
        diverged = {digest for header in self._store.headers().values() for digest in header.diverged}
        self._outcome.diverged = sum(run.digest in diverged for run in self._outcome.runs)
        self._outcome.seconds = time.monotonic() - began
        return self._outcome

    def _hear(self, *_: object) -> None:
        """The first Ctrl-C or SIGTERM only asks to stop, so that no write is interrupted; the second one interrupts."""
        if self._stop:
            raise KeyboardInterrupt
        self._stop = True

    def _planned(self, facts: Facts) -> tuple[RunGroup, ...]:
        """The run groups to train next; none when nothing more can be done."""
        table = expand(self._spec, facts, selected_step_sizes(self._spec, facts, self._store))
        by_digest = {run.digest: run for run in runs_in(table)}
        finished = self._store.digests().keys() & by_digest.keys()
        self._outcome.runs = tuple(by_digest.values())
        self._outcome.waiting = tuple(m.name for m in self._spec.methods if m.variants[0].name not in table)
        self._outcome.there = len(finished) - self._outcome.trained
        saved = [self._store.checkpoint_runs(key) for key in self._store.checkpoints()]
        resumable = [
            [by_digest[d] for d in digests] for digests in saved if digests and by_digest.keys() >= set(digests)
        ]
        left = remaining(run_groups_of(self._spec, table, facts, width=self._width), finished, resumable)
        left = tuple(group for group in left if not any(run.digest in self._outcome.failed for run in group.runs))
        left = tuple(replace(group, done=self._steps_taken(group)) for group in left)
        if left:
            self._listener.began(left, len(finished))
        return left

    def _steps_taken(self, group: RunGroup) -> int:
        data = self._store.checkpoint(group.key)
        return 0 if data is None else Checkpoint.steps_in(data)

    def _train_all(self, todo: Sequence[RunGroup]) -> None:
        waiting = list(todo)
        while (waiting or self._under_way) and not self._stop:
            while waiting and len(self._under_way) < self._engine.slots:
                self._start(waiting.pop(0))
            for key, event in self._events():
                if isinstance(event, Lost) and self._tries[key] <= RETRIES:
                    waiting.insert(0, self._under_way.pop(key))
                elif ended_by_one(self._under_way[key], event):
                    waiting[:0] = self._under_way.pop(key).halves
                elif isinstance(event, Finished | Failed | Lost):
                    del self._under_way[key]

    def _events(self) -> Iterator[tuple[str, Event]]:
        """The next events, once what they bring is stored and the listener has heard of them."""
        for key, event in self._engine.wait(0.5):
            self._keep(self._under_way[key], event)
            self._listener.happened(self._under_way[key], event)
            yield key, event

    def _start(self, group: RunGroup) -> None:
        self._tries[group.key] = self._tries.get(group.key, 0) + 1
        checkpoint, k = self._checkpoint(group)
        choice = self._spec.problem_choice
        self._under_way[group.key] = group
        self._engine.start(Assignment(group, choice, self._device, checkpoint, self._save_every, self._parts))
        self._listener.started(group, k)

    def _checkpoint(self, group: RunGroup) -> tuple[bytes | None, int]:
        data = self._store.checkpoint(group.key)
        if data is None:
            return None, 0
        try:
            return data, Checkpoint.from_bytes(data).k
        except ValueError as error:
            self._listener.said(f"The checkpoint {group.key} cannot be used ({error}); its runs start again.")
            self._store.drop_checkpoint(group.key)
            return None, 0

    def _keep(self, group: RunGroup, event: Event) -> None:
        if isinstance(event, Saved):
            self._store.save_checkpoint(group.key, event.checkpoint, runs=[run.digest for run in group.runs])
        elif isinstance(event, Finished):
            self._store.write(event.chunk)
            self._store.drop_checkpoint(group.key)
            self._outcome.trained += len(group.runs)
        elif ended_by_one(group, event):
            self._store.drop_checkpoint(group.key)  # its halves start again
        elif isinstance(event, Failed):
            self._give_up(group, event.message)
        elif isinstance(event, Refused):  # before any of its rows is stored
            raise ValueError(event.message)
        elif isinstance(event, Lost) and self._tries[group.key] > RETRIES:
            self._outcome.lost += tuple(run.digest for run in group.runs)
            self._give_up(group, f"tried {self._tries[group.key]} times: {event.reason}")

    def _give_up(self, group: RunGroup, reason: str) -> None:
        self._outcome.failed |= {run.digest: reason for run in group.runs}

    def _interrupt(self) -> None:
        """Stop all run groups with checkpoints."""
        self._outcome.interrupted = True
        if self._under_way:
            self._listener.said("Stopping: saving checkpoints (press Ctrl-C again to stop at once).")
        self._engine.stop()
        deadline = time.monotonic() + PATIENCE
        while self._under_way and time.monotonic() < deadline:
            for key, event in self._events():
                if isinstance(event, Finished | Failed | Lost | Stopped):
                    del self._under_way[key]


def ended_by_one(group: RunGroup, event: Event) -> bool:
    """Whether runs may have been ended by the error of another: in a stack it ends all. Halves of the group tell."""
    return isinstance(event, Failed) and event.in_training and len(group.runs) > 1
