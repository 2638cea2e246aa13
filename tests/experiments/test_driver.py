"""The driver with an engine that follows a script: what it is given, what is counted, kept and said. No training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import chunk_from

from memgrad.experiments import driver
from memgrad.experiments.driver import Outcome, execute, results_of
from memgrad.experiments.planning.plan import RunGroup
from memgrad.experiments.planning.problem_choice import Facts
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing import tune as tuning
from memgrad.experiments.racing.candidates import Candidate
from memgrad.experiments.racing.course import Trial
from memgrad.experiments.racing.pace import Pace
from memgrad.experiments.racing.sequential import Rules
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.events import Event, Failed, Finished, Lost, Refused, Saved
from memgrad.experiments.training.train import Assignment

FACTS = Facts("logistic", "f" * 32, 100, 16, 2, ("loss", "accuracy"), 0, (("data", "a" * 32),))
SPEC = Spec.of(
    {
        "problem": "logistic",
        "steps": 30,
        "seeds": 2,
        "metrics": ["loss"],
        "evaluate": {"times": 4},
        "methods": [
            {"name": "S", "optimizer": "SGD", "lr": [0.1, 1.0]},
            {"name": "M", "optimizer": "MemSGD", "memory": "poly:2", "lr": "best of S"},
        ],
    }
)


def finished(group: RunGroup, diverged: Sequence[int] = ()) -> Finished:
    """Losses that are smaller for the larger step size; runs of some seeds have diverged."""
    gone = {run.digest: 10 for run in group.runs if run.seed in diverged}
    return Finished(chunk_from(group.runs, lambda run, step: 1.0 / run.lr + step, gone))


class Scripted:
    """An engine that answers each run group with events at once.

    Args:
        script: The events of a run group, given the group and how often it was started.
        slots: How many groups it takes at once.
    """

    def __init__(self, script: Any = None, slots: int = 1) -> None:
        self.script = script or (lambda group, tries: [finished(group)])
        self.slots, self.most = slots, 0
        self.assignments: list[Assignment] = []
        self.waiting: list[tuple[str, Event]] = []
        self.closed = 0

    def start(self, assignment: Assignment) -> None:
        self.assignments.append(assignment)
        key = assignment.group.key
        tries = sum(each.group.key == key for each in self.assignments)
        self.waiting += [(key, event) for event in self.script(assignment.group, tries)]
        self.most = max(self.most, len({key for key, _ in self.waiting}))

    def wait(self, seconds: float) -> list[tuple[str, Event]]:
        assert 0 < seconds <= 0.5
        found, self.waiting = self.waiting, []
        return found

    def stop(self) -> None: ...

    def close(self) -> None:
        self.closed += 1


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.starts: list[int] = []
        self.events: list[str] = []
        self.messages: list[str] = []

    def began(self, groups: Sequence[RunGroup], finished: int) -> None:
        self.begun.append((sum(len(group.runs) for group in groups), finished))

    def started(self, group: RunGroup, k: int) -> None:
        self.starts.append(k)

    def happened(self, group: RunGroup, event: Event) -> None:
        self.events.append(type(event).__name__)

    def said(self, message: str) -> None:
        self.messages.append(message)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def test_runs_are_trained_once_then_those_that_follow_and_all_are_counted(store: Store) -> None:
    engine, heard = Scripted(slots=2), Heard()
    outcome = execute(SPEC, store, engine, listener=heard, facts=FACTS)
    assert (outcome.trained, outcome.there, outcome.diverged, len(outcome.runs)) == (6, 0, 0, 6)
    assert (outcome.failed, outcome.waiting, outcome.interrupted, outcome.complete) == ({}, (), False, True)
    assert heard.begun == [(4, 0), (2, 4)]  # the two of M once the step size of S is known
    assert set(heard.starts) == {0}
    assert heard.events == ["Finished"] * 3
    assert (engine.closed, engine.most) == (1, 2)
    assert outcome.seconds >= 0
    again = Scripted()
    outcome = execute(SPEC, store, again, listener=heard, facts=FACTS, close=False)
    assert (outcome.trained, outcome.there, again.assignments, again.closed) == (0, 6, [], 0)
    results = results_of(SPEC, store, facts=FACTS)
    assert (results.selected_lr("S"), results.step_sizes("M")) == (1.0, (1.0,))


def test_a_worker_is_given_the_problem_the_device_and_when_to_save(store: Store) -> None:
    engine = Scripted()
    execute(SPEC, store, engine, device="cpu", save_every=7.0, width=1, facts=FACTS)
    assert {(each.device, each.save_every, each.parts, each.checkpoint) for each in engine.assignments} == {
        ("cpu", 7.0, FACTS.parts, None)
    }
    assert {each.problem_choice for each in engine.assignments} == {SPEC.problem_choice}
    assert [len(each.group.runs) for each in engine.assignments] == [1] * 6
    usual = Scripted()
    execute(SPEC, Store.open(store.path.parent / "other"), usual, facts=FACTS)
    assert {(each.device, each.save_every) for each in usual.assignments} == {(None, 120.0)}
    assert [len(each.group.runs) for each in usual.assignments] == [2, 2, 2]


def test_diverged_runs_are_counted_also_those_that_were_there(store: Store) -> None:
    execute(SPEC, store, Scripted(lambda group, _: [finished(group, diverged=[1])]), facts=FACTS)
    outcome = execute(SPEC, store, Scripted(), facts=FACTS)
    assert (outcome.diverged, outcome.there) == (3, 6)


@pytest.mark.parametrize(("losses", "tries", "failed"), [(1, 2, 0), (2, 3, 0), (3, 3, 2)])
def test_a_group_whose_worker_dies_is_tried_twice_more(store: Store, losses: int, tries: int, failed: int) -> None:
    def script(group: RunGroup, number: int) -> list[Event]:
        unlucky = group.runs[0].lr == 0.1
        return [Lost("no memory") if unlucky and number <= losses else finished(group)]

    engine, heard = Scripted(script), Heard()
    outcome = execute(SPEC, store, engine, listener=heard, facts=FACTS)
    assert sum(each.group.runs[0].lr == 0.1 for each in engine.assignments) == tries
    assert len(outcome.failed) == failed
    assert set(outcome.failed.values()) == ({"tried 3 times: no memory"} if failed else set())
    assert outcome.waiting == (("M",) if failed else ())
    assert outcome.complete is not bool(failed)


def test_an_error_of_the_problem_is_not_tried_again_and_the_rest_goes_on(store: Store) -> None:
    engine = Scripted(lambda group, _: [Failed("nan") if group.runs[0].lr == 0.1 else finished(group)])
    outcome = execute(SPEC, store, engine, facts=FACTS)
    assert (outcome.trained, len(outcome.failed), set(outcome.failed.values())) == (2, 2, {"nan"})
    assert len(engine.assignments) == 2


def test_an_error_of_one_run_ends_no_other(store: Store) -> None:
    """In a stack it ends all of them; halves are trained until the runs that raise it are alone."""

    def script(group: RunGroup, _: int) -> list[Event]:
        if any(run.lr == 0.1 and run.seed == 1 for run in group.runs):
            return [Saved(3, b"a checkpoint"), Failed("nan", in_training=True)]
        return [finished(group)]

    engine = Scripted(script)
    spec = SPEC.model_copy(update={"seeds": 5})
    outcome = execute(spec, store, engine, facts=FACTS, width=10)
    [bad] = [run.digest for run in outcome.runs if run.lr == 0.1 and run.seed == 1]
    assert outcome.failed == {bad: "nan"}
    assert (outcome.trained, outcome.waiting) == (9, ("M",))
    assert [len(each.group.runs) for each in engine.assignments] == [10, 5, 2, 1, 1, 3, 5]
    assert store.checkpoints() == (engine.assignments[4].group.key,)  # a run alone may resume, if it can be mended
    store.drop_checkpoint(engine.assignments[4].group.key)
    again = execute(spec, store, Scripted(), facts=FACTS, width=10)
    assert (again.there, again.trained, again.complete) == (9, 6, True)


def test_an_error_of_loading_the_problem_is_that_of_all_runs(store: Store) -> None:
    engine = Scripted(lambda group, _: [Failed("no such file")])
    outcome = execute(SPEC, store, engine, facts=FACTS, width=4)
    assert (len(engine.assignments), len(outcome.failed)) == (1, 4)


def test_another_problem_at_the_worker_ends_the_experiment(store: Store) -> None:
    with pytest.raises(ValueError, match="data differ"):
        execute(SPEC, store, Scripted(lambda group, _: [Refused("data differ")]), facts=FACTS)
    assert not store.digests()


def test_a_checkpoint_that_cannot_be_read_is_dropped_with_a_word(store: Store) -> None:
    heard = Heard()
    execute(SPEC, store, Scripted(lambda group, _: [Saved(9, b"rubbish"), Failed("x")]), listener=heard, facts=FACTS)
    [one, *_] = store.checkpoints()
    assert store.checkpoint(one) == b"rubbish"
    outcome = execute(SPEC, store, Scripted(), listener=heard, facts=FACTS)
    assert (outcome.trained, outcome.complete) == (6, True)
    assert all(message.startswith("The checkpoint ") for message in heard.messages)
    assert heard.messages[0].endswith("; its runs start again.")
    assert store.checkpoints() == ()


def test_an_outcome_is_complete_if_nothing_is_left() -> None:
    assert Outcome().complete
    for changes in ({"failed": {"a": "x"}}, {"waiting": ("M",)}, {"interrupted": True}):
        assert not Outcome(**changes).complete  # type: ignore[arg-type]


def test_a_device_that_torch_does_not_know_is_refused_and_the_engine_closed(store: Store) -> None:
    engine = Scripted()
    with pytest.raises(ValueError, match="the device must be one that torch knows"):
        execute(SPEC, store, engine, device="gpu", facts=FACTS)
    assert (engine.closed, engine.assignments) == (1, [])


# --- tuning through the driver ---------------------------------------------------------------------------------------


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "facts_of", lambda *_, **__: FACTS)


def script_of(loss: Any) -> Any:
    return lambda group, _: [Finished(chunk_from(group.runs, loss))]


def race_loss(run: Run, step: int) -> float:
    """M is half of S at each step size; 1 is the best."""
    away = abs(run.lr - 1.0) if run.lr >= 1 else 1 / run.lr - 1
    wobble = 1 + 0.001 * ((run.seed * 7919 + (run.recipe.optimizer == "SGD")) % 13)
    return (1 + away) * wobble * (0.5 if run.recipe.optimizer == "MemSGD" else 1.0) * 100 / (100 + step)


@pytest.mark.usefixtures("known")
def test_tuning_hands_on_what_it_is_given_and_counts_what_it_trains(store: Store) -> None:
    engine, heard = Scripted(script_of(race_loss)), Heard()
    rules, courses = Rules(most=3, refine=1, fresh=2), []
    answer = tuning.tune(
        SPEC,
        store,
        engine,
        rules=rules,
        listener=heard,
        watcher=courses.append,
        seed=2,
        device="cpu",
        save_every=9.0,
        width=1,
    )
    assert answer.status == "answered"
    assert answer.pick is not None
    assert (answer.pick.name, answer.pick.lr, answer.problem) == ("M", 1.0, "logistic")
    assert {(each.device, each.save_every, len(each.group.runs)) for each in engine.assignments} == {("cpu", 9.0, 1)}
    seeds = {run.seed for each in engine.assignments for run in each.group.runs}
    assert min(seeds) == 20_000_000
    assert max(seeds) == answer.first_seed + 1 == 21_000_001
    assert answer.runs == len(engine.assignments) == len(store.digests())
    assert engine.closed == 1
    assert courses[-1].status == "answered"
    assert heard.messages[0].startswith("Search for learning rates:")
    assert heard.messages[-1].startswith("Fresh seeds for")
    assert answer.steps_saved is not None  # the losses on the way are known


@pytest.mark.usefixtures("known")
def test_tuning_that_fails_says_how_many_runs_and_why(store: Store) -> None:
    answer = tuning.tune(SPEC, store, Scripted(lambda group, _: [Failed("nan")]), rules=Rules())
    assert answer.status == "failed"
    assert answer.reason == "no run could be trained: nan"


@pytest.mark.usefixtures("known")
def test_a_worker_that_is_lost_is_no_divergence(store: Store) -> None:
    script = script_of(race_loss)
    lost = lambda group, tries: [Lost("killed")] if group.runs[0].lr > 0.5 else script(group, tries)  # noqa: E731
    answer = tuning.tune(SPEC, store, Scripted(lost), rules=Rules())
    assert answer.status == "failed"
    assert answer.reason.endswith("1 run could not be trained: tried 3 times: killed")


@pytest.mark.usefixtures("known")
def test_a_budget_of_time_leaves_what_the_answer_needs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    trains = tuning._Training(SPEC, store, Scripted(script_of(race_loss)), Heard(), 0, {})
    assert trains.pace == Pace()
    trials = [Trial("S", 0, seed, "search") for seed in (0, 1)]
    assert trains.missing(trials) == [2]
    assert trains.train(trials) is None
    assert trains.missing(trials) == [0]
    [(runs, seconds)] = trains._rounds_trained
    assert trains.pace == Pace(seconds, seconds / 2)
    assert runs == 2
    found = trains.results(trials)
    assert [found[trial].steps for trial in trials] == [(0, 10, 20, 30)] * 2
    assert found[trials[0]].final == pytest.approx(race_loss_at_the_end(0))


def race_loss_at_the_end(seed: int) -> float:
    return (1 + 0.001 * ((seed * 7919 + 1) % 13)) * 100 / 130


def test_candidates_must_be_methods_of_the_experiment(store: Store) -> None:
    with pytest.raises(ValueError, match="no method 'X'"):
        tuning.tune(SPEC, store, Scripted(), candidates=[Candidate("X"), Candidate("S")])
    with pytest.raises(ValueError, match="seed from 0 to 1e9"):
        tuning.tune(SPEC, store, Scripted(), seed=10**9 + 1)
    assert driver.RETRIES == 2
