"""A store that memgrad 0.2.0 wrote before `memgrad.experiments` had folders: every later version must read it.

`pinned_store/experiment.toml` was trained to its end, and the same with `steps = 40` stopped after 25 steps.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from engine_trials import Here

from memgrad.experiments import Spec, Store, execute, results_of
from memgrad.experiments.driver import known_facts
from memgrad.experiments.planning.plan import RunGroup
from memgrad.experiments.training.checkpoint import Checkpoint

PINNED = Path(__file__).parents[1] / "pinned_store"
SPEC = (PINNED / "experiment.toml").read_text()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    shutil.copytree(PINNED, tmp_path / "store")
    return Store.open(tmp_path / "store", create=False)


def test_every_stored_digest_is_that_of_its_run(store: Store) -> None:
    stored = store.digests()
    assert len(stored) == 8
    assert {digest: run.digest for digest, run in stored.items()} == {digest: digest for digest in stored}
    assert store.damaged == ()


def test_a_stored_experiment_is_not_trained_again(store: Store) -> None:
    engine = Here()
    outcome = execute(Spec.parse(SPEC), store, engine)
    assert engine.assignments == []
    assert (outcome.there, outcome.trained, outcome.diverged, outcome.complete) == (8, 0, 2, True)


def test_stored_rows_make_results(store: Store) -> None:
    results = results_of(Spec.parse(SPEC), store)
    assert results.selected_lr("SGD") == results.selected_lr("MemSGD") == 0.1  # at 1e9 it diverged
    curve = results.curve("MemSGD", "loss")
    assert curve.steps.tolist() == [0, 10, 20]
    assert (curve.values[-1] < curve.values[0]).all()
    assert results.curve("NAdam", "step_norm").steps.tolist() == [5, 10, 15, 20]


def test_stored_facts_are_found_by_their_problem(store: Store) -> None:
    facts = known_facts(Spec.parse(SPEC).problem_choice, store)
    assert facts is not None
    assert (facts.name, facts.examples) == ("least-squares", 1000)


def test_a_stored_checkpoint_is_resumed(store: Store) -> None:
    (key,) = store.checkpoints()
    checkpoint = Checkpoint.from_bytes(store.checkpoint(key) or b"")
    assert (checkpoint.k, RunGroup(checkpoint.runs).key) == (25, key)
    assert tuple(run.digest for run in checkpoint.runs) == store.checkpoint_runs(key)
    engine = Here()
    outcome = execute(Spec.parse(SPEC.replace("steps = 20", "steps = 40")), store, engine)
    assert outcome.complete
    resumed = [each for each in engine.assignments if each.checkpoint is not None]
    assert [each.group.runs for each in resumed] == [checkpoint.runs]
