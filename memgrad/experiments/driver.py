"""Carry out an experiment: plan, train what is not there yet, keep what comes back, select step sizes, go on."""

from __future__ import annotations

import hashlib
import json
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

from memgrad.experiments.checkpoint import Checkpoint
from memgrad.experiments.choice import Facts, ProblemChoice, facts_about, fingerprint_of_ours
from memgrad.experiments.engines.engine import Engine, Task
from memgrad.experiments.events import Event, Failed, Finished, Lost, Saved, Stopped
from memgrad.experiments.plan import Batch, batches_of, expand, remaining, runs_in
from memgrad.experiments.results import Results
from memgrad.experiments.runs import Run
from memgrad.experiments.spec import Spec
from memgrad.experiments.store import Store

RETRIES = 2
"""How often a batch is tried again when whoever trained it is gone."""

PATIENCE = 30.0
"""Seconds that batches have to stop with a checkpoint when they are asked to."""


class Listener(Protocol):
    """Told what happens, to show it."""

    def began(self, batches: Sequence[Batch], finished: int) -> None:
        """These batches are going to be trained; so many runs have their rows already."""

    def started(self, batch: Batch, k: int) -> None:
        """A batch is on its way, from step k on."""

    def happened(self, batch: Batch, event: Event) -> None:
        """An event of a batch."""

    def said(self, message: str) -> None:
        """Something to be told."""


class Silent:
    """A listener that shows nothing."""

    def began(self, batches: Sequence[Batch], finished: int) -> None:
        """Nothing."""

    def started(self, batch: Batch, k: int) -> None:
        """Nothing."""

    def happened(self, batch: Batch, event: Event) -> None:
        """Nothing."""

    def said(self, message: str) -> None:
        """Nothing."""


@final
@dataclass
class Outcome:
    """What became of an experiment.

    Attributes:
        runs: All runs that were planned.
        trained: How many were trained now.
        there: How many had been trained before.
        failed: Runs that could not be trained, and why, by digest.
        waiting: Methods that could not be planned, because those whose step sizes they take are not complete.
        interrupted: Whether it was stopped before its end.
        seconds: How long it took.
    """

    runs: tuple[Run, ...] = ()
    trained: int = 0
    there: int = 0
    failed: dict[str, str] = field(default_factory=dict)
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
) -> Outcome:
    """Train what a spec asks for and the store does not have, and keep it there.

    Ctrl-C and SIGTERM are answered by checkpoints: called again, it goes on from them. A second Ctrl-C does not wait.

    Args:
        spec: The experiment.
        store: Where rows and checkpoints are kept.
        engine: What trains.
        listener: Told what happens.
        device: Where to train, such as cuda.
        save_every: Seconds between the checkpoints of a batch.
        width: At most so many runs in a stack, instead of what pays.
        close: Whether to close the engine in the end. If not, its workers are there for the next experiment, and
            whoever made it closes it, also after an interruption.
    """
    driver = _Driver(spec, store, engine, listener or Silent(), device, save_every, width)
    try:
        return driver.drive()
    finally:
        if close:
            engine.close()


def facts_of(choice: ProblemChoice, store: Store, *, keep: bool) -> Facts:
    """The facts about a problem: from the store if it is one of ours and was seen before, else by loading it.

    Args:
        choice: The problem.
        store: Where facts may be.
        keep: Whether to keep them there, which needs a store that can be written.
    """
    known = known_facts(choice, store)
    if known is not None:
        return known
    facts = facts_about(choice, choice.load())
    if keep and choice.is_ours:
        store.save_facts(_key(choice), facts)
    return facts


def known_facts(choice: ProblemChoice, store: Store) -> Facts | None:
    """The facts about a problem that is one of ours and was seen before, from the store: nothing is loaded."""
    known = store.facts(_key(choice)) if choice.is_ours else None
    return known if known is not None and known.fingerprint == fingerprint_of_ours(choice) else None


def _key(choice: ProblemChoice) -> str:
    return hashlib.sha256(json.dumps(choice.as_dict(), sort_keys=True).encode()).hexdigest()[:32]


def results_of(spec: Spec, store: Store, *, facts: Facts | None = None) -> Results:
    """What the store has of an experiment. Methods whose step size is not selected yet are left out."""
    facts = facts or facts_of(spec.choice, store, keep=False)
    table = expand(spec, facts, selected(spec, facts, store))
    return Results(spec, table, store.read(run.digest for run in runs_in(table)))


def selected(spec: Spec, facts: Facts, store: Store) -> dict[str, float]:
    """The best step sizes of the methods that others follow, where all their runs are there."""
    followed = {method.follows for method in spec.methods if method.follows is not None}
    if not followed:
        return {}
    own = expand(spec, facts, {})
    results = Results(spec, own, store.read(run.digest for run in runs_in(own)))
    return {name: results.best_lr(name) for name in followed if results.complete(name)}


class _Driver:
    def __init__(
        self,
        spec: Spec,
        store: Store,
        engine: Engine,
        listener: Listener,
        device: str | None,
        save_every: float,
        width: int | None,
    ) -> None:
        self._spec, self._store, self._engine, self._listener = spec, store, engine, listener
        self._device, self._save_every, self._width = device, save_every, width
        self._outcome = Outcome()
        self._under_way: dict[str, Batch] = {}
        self._tries: dict[str, int] = {}
        self._signals = StopSignals()

    def drive(self) -> Outcome:
        began = time.monotonic()
        with self._store.writing():
            facts = facts_of(self._spec.choice, self._store, keep=True)
            try:
                with self._signals:
                    # Methods that take another's best step size follow when that is known.
                    while not self._signals.stop and (todo := self._planned(facts)):
                        self._train(todo)
                    if self._signals.stop:
                        self._interrupt()
            except KeyboardInterrupt:  # the second
                self._outcome.interrupted = True
        self._outcome.seconds = time.monotonic() - began
        return self._outcome

    def _planned(self, facts: Facts) -> tuple[Batch, ...]:
        """The batches that are to be trained next; none when nothing more can be done."""
        table = expand(self._spec, facts, selected(self._spec, facts, self._store))
        runs = runs_in(table)
        names = [method.name for method in self._spec.methods]
        finished = self._store.digests().keys() & {run.digest for run in runs}
        self._outcome.runs = runs
        self._outcome.waiting = tuple(name for name in names if name not in table)
        self._outcome.there = len(finished) - self._outcome.trained
        by_digest = {run.digest: run for run in runs}
        saved = [self._store.checkpoint_runs(key) for key in self._store.checkpoints()]
        resumable = [
            [by_digest[d] for d in digests] for digests in saved if digests and by_digest.keys() >= set(digests)
        ]
        left = remaining(batches_of(self._spec, table, facts, width=self._width), finished, resumable)
        left = tuple(batch for batch in left if not any(run.digest in self._outcome.failed for run in batch.runs))
        if left:
            self._listener.began(left, len(finished))
        return left

    def _train(self, todo: Sequence[Batch]) -> None:
        waiting = list(todo)
        while (waiting or self._under_way) and not self._signals.stop:
            while waiting and len(self._under_way) < self._engine.slots:
                self._start(waiting.pop(0))
            for key, event in self._engine.wait(0.5):
                batch = self._under_way[key]
                self._keep(batch, event)
                self._listener.happened(batch, event)
                if isinstance(event, Lost) and self._tries[key] <= RETRIES:
                    waiting.insert(0, self._under_way.pop(key))
                elif isinstance(event, Finished | Failed | Lost):
                    del self._under_way[key]

    def _start(self, batch: Batch) -> None:
        self._tries[batch.key] = self._tries.get(batch.key, 0) + 1
        checkpoint, k = self._checkpoint(batch)
        task = Task(batch, self._spec.choice, self._device, checkpoint, self._save_every)
        self._under_way[batch.key] = batch
        self._engine.start(task)
        self._listener.started(batch, k)

    def _checkpoint(self, batch: Batch) -> tuple[bytes | None, int]:
        data = self._store.checkpoint(batch.key)
        if data is None:
            return None, 0
        try:
            return data, Checkpoint.from_bytes(data).k
        except ValueError as error:
            self._listener.said(f"The checkpoint {batch.key} is of no use ({error}); its runs start again.")
            self._store.drop_checkpoint(batch.key)
            return None, 0

    def _keep(self, batch: Batch, event: Event) -> None:
        if isinstance(event, Saved):
            self._store.save_checkpoint(batch.key, event.checkpoint, runs=[run.digest for run in batch.runs])
        elif isinstance(event, Finished):
            self._store.write(event.chunk)
            self._store.drop_checkpoint(batch.key)
            self._outcome.trained += len(batch.runs)
        elif isinstance(event, Failed):
            self._give_up(batch, event.message)
        elif isinstance(event, Lost) and self._tries[batch.key] > RETRIES:
            self._give_up(batch, f"tried {self._tries[batch.key]} times: {event.reason}")

    def _give_up(self, batch: Batch, reason: str) -> None:
        self._outcome.failed |= {run.digest: reason for run in batch.runs}

    def _interrupt(self) -> None:
        """Stop with checkpoints."""
        self._outcome.interrupted = True
        if self._under_way:
            self._listener.said("Stopping: keeping what was done (Ctrl-C again does not wait).")
        self._engine.stop()
        deadline = time.monotonic() + PATIENCE
        while self._under_way and time.monotonic() < deadline:
            for key, event in self._engine.wait(0.5):
                batch = self._under_way[key]
                self._keep(batch, event)
                self._listener.happened(batch, event)
                if isinstance(event, Finished | Failed | Lost | Stopped):
                    del self._under_way[key]


class StopSignals:
    """While it is entered, Ctrl-C and SIGTERM set `stop` and do nothing else; a second one interrupts.

    So nothing is interrupted while it is being written. Outside the main thread signals are left alone.
    """

    def __init__(self) -> None:
        self.stop = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, *_: object) -> None:
        if self.stop:
            raise KeyboardInterrupt
        self.stop = True
