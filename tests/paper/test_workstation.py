"""The scale workstation: its cells are of the paper's data, and step sizes are tuned on seeds that are not compared."""

from __future__ import annotations

import pytest

from memgrad.paper.evidence import EXAMPLES, METHODS
from memgrad.paper.rules import LEAST_SHARE
from memgrad.paper.scales import EXPERIMENTS, GRID, HB_AT_SGDS, PROBLEMS, experiment, in_training_order

APART = [name for name in EXPERIMENTS if not name.startswith("covtype")]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_full_batches_speak_for_their_data_sets(problem: str) -> None:
    examples = experiment(f"{problem}-full", "workstation").examples
    assert examples is not None
    assert examples >= int(LEAST_SHARE[problem] * EXAMPLES[problem])
    assert experiment(f"{problem}-mini", "workstation").examples is None


@pytest.mark.parametrize("name", APART)
def test_step_sizes_are_tuned_on_other_seeds(name: str) -> None:
    spec, plain = experiment(name, "workstation"), experiment(name)
    compared = [method.name for method in plain.methods]
    assert spec.tuning_seeds
    for method in map(spec.method, compared):
        assert method.follows == ("SGD" if method.name.startswith("MemSGD") else None)
        assert method.is_tuned != (method.follows is not None)
        assert set(method.step_sizes or ()) <= set(GRID)
        assert not set(spec.tuning_seeds) & set(spec.seeds_of(method))
        assert method.recipe == plain.method(method.name).recipe
    extra = [method.name for method in spec.methods if method.name not in compared]
    assert extra == ([] if name == "polyadam" else [HB_AT_SGDS])
    assert len(spec.seed_numbers) >= 5


@pytest.mark.parametrize("problem", PROBLEMS)
def test_settings_share_their_first_seeds(problem: str) -> None:
    """Edges are compared across settings seed by seed, and the initial parameters of a seed are the same in both."""
    mini, full = (experiment(f"{problem}-{setting}", "workstation").seed_numbers for setting in ("mini", "full"))
    shared = min(len(mini), len(full))
    assert shared >= 5
    assert mini[:shared] == full[:shared] == tuple(range(shared))


@pytest.mark.parametrize("name", ["autoencoder-mini", "cnn-mini"])
def test_minibatch_runs_are_several_times_longer_than_before(name: str) -> None:
    now, before = experiment(name, "workstation"), experiment(name, "laptop")
    assert now.steps is not None
    assert before.steps is not None
    assert now.steps >= 5 * before.steps
    assert len(now.evaluate.steps(now.steps)) >= 21


@pytest.mark.parametrize("setting", ["mini", "full"])
def test_covtype_tries_the_whole_grid_with_ten_seeds_and_is_evaluated_when_its_claim_asks(setting: str) -> None:
    spec = experiment(f"covtype-{setting}", "workstation")
    assert spec.method("SGD").step_sizes == spec.method("HB").step_sizes == GRID
    assert [method.name for method in spec.methods] == list(METHODS)
    assert len(spec.seed_numbers) == 10
    assert spec.steps is not None
    assert {spec.steps * share // 100 for share in (10, 25, 50, 100)} <= set(spec.evaluate.steps(spec.steps))


def test_cheap_experiments_are_trained_first() -> None:
    assert in_training_order(EXPERIMENTS, "workstation")[:3] == ("covtype-mini", "covtype-full", "mlp-mini")
    assert in_training_order(EXPERIMENTS, "paper") == EXPERIMENTS
