"""The paper's experiments on real data: what they are, at each scale. Expected values are the paper's own."""

from __future__ import annotations

import re
import tomllib
from itertools import product
from pathlib import Path

import pytest

from memgrad.experiments.planning.plan import expand
from memgrad.experiments.planning.problem_choice import facts_about
from memgrad.paper import scales
from memgrad.paper.scales import EXPERIMENTS, PROBLEMS, experiment

# Appendix G of the paper.
GRID = [1, 0.1, 0.05, 0.01, 0.005, 0.001, 0.0005, 0.0001, 0.00005, 0.00001]
BATCHES = {"covtype": 16, "autoencoder": 16, "mlp": 32, "cnn": 128}
MEMORIES = {"MemSGD p=2": "poly:2", "MemSGD p=4": "poly:4", "MemSGD p=100": "poly:100", "MemSGD p=e": "exp:0.9"}
EVERY = list(product(EXPERIMENTS, ("quick", "laptop", "paper")))


def text_of(file: str) -> str:
    return (Path(scales.__file__).parent / file).read_text(encoding="utf-8")


def test_the_file_has_each_experiment_and_no_other() -> None:
    assert set(tomllib.loads(text_of("experiments.toml"))) == {"common", *PROBLEMS, "polyadam"}
    assert len(EXPERIMENTS) == 2 * 4 + 1


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("setting", ["mini", "full"])
def test_the_papers_scale_is_the_papers(problem: str, setting: str) -> None:
    spec = experiment(f"{problem}-{setting}")
    assert spec.batch == (BATCHES[problem] if setting == "mini" else "full")
    assert spec.seed_numbers == tuple(range(10))
    assert not spec.sample
    assert spec.examples is None
    assert spec.method("SGD").lr == GRID
    assert spec.method("HB").lr == GRID
    assert spec.method("HB").recipe["momentum"] == 0.9
    assert {m.name: m.recipe["memory"] for m in spec.methods if m.optimizer == "MemSGD"} == MEMORIES
    assert {m.lr for m in spec.methods if m.optimizer == "MemSGD"} == {"best of SGD"}
    assert set(spec.metrics or ()) >= {"loss", "gradient_norm", "step_norm"}
    assert ("accuracy" in (spec.metrics or ())) == (problem != "autoencoder")


def test_adaptive_methods_try_the_same_step_sizes() -> None:
    spec = experiment("polyadam")
    assert [m.recipe["p"] for m in spec.methods if m.optimizer == "PolyAdam"] == [1, 2, 4, 10, 100]
    assert {"Adam", "Adagrad"} <= {m.name for m in spec.methods}
    assert all(m.lr == GRID for m in spec.methods)
    assert spec.seed_numbers == tuple(range(10))


@pytest.mark.parametrize(("name", "scale"), EVERY)
def test_scales_take_part_of_the_papers_grid_and_change_nothing_else(name: str, scale: str) -> None:
    full, spec = experiment(name), experiment(name, scale)
    assert [m.name for m in spec.methods] == [m.name for m in full.methods]
    assert [m.recipe for m in spec.methods] == [m.recipe for m in full.methods]
    for mine, whole in zip(spec.methods, full.methods, strict=True):
        assert set(mine.step_sizes or ()) <= set(whole.step_sizes or ())
    assert (spec.select, spec.batch, spec.problem, spec.dtype) == (full.select, full.batch, full.problem, full.dtype)
    assert set(spec.metrics or ()) <= set(full.metrics or ())
    assert len(spec.seed_numbers) >= 2  # one seed has no interval
    assert spec.sample == (scale == "quick")


@pytest.mark.parametrize("scale", ["quick", "laptop", "paper"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_minibatches_and_full_batches_have_the_same_seeds(problem: str, scale: str) -> None:
    mini, full = (experiment(f"{problem}-{setting}", scale) for setting in ("mini", "full"))
    assert mini.seed_numbers == full.seed_numbers


@pytest.mark.parametrize("scale", ["quick", "laptop", "paper"])
@pytest.mark.parametrize("setting", ["mini", "full"])
def test_covtype_is_evaluated_when_its_claim_asks(setting: str, scale: str) -> None:
    spec = experiment(f"covtype-{setting}", scale)
    assert spec.steps is not None
    times = spec.evaluate.steps(spec.steps)
    assert {spec.steps * share // 100 for share in (10, 25, 50, 100)} <= set(times)
    assert len(times) >= 41  # so that the last 5 % are more than one


@pytest.mark.parametrize("scale", ["quick", "laptop", "paper"])
def test_adaptive_methods_are_evaluated_in_the_last_half(scale: str) -> None:
    spec = experiment("polyadam", scale)
    assert spec.steps is not None
    assert sum(2 * step >= spec.steps for step in spec.evaluate.steps(spec.steps)) >= 2


def test_runs_of_a_seed_are_paired_across_methods_and_settings() -> None:
    """What decides the start and the order of the minibatches is the problem and the seed: the same for all."""
    tables = []
    for setting in ("mini", "full"):
        spec = experiment(f"mlp-{setting}", "quick")
        tables.append(expand(spec, facts_about(spec.problem_choice, spec.problem_choice.load()), {"SGD": 0.1}))
    for table in tables:
        assert {tuple(of_seed) for of_lr in table.values() for of_seed in of_lr.values()} == {(0, 1, 2)}
        assert {run.problem for of_lr in table.values() for s in of_lr.values() for run in s.values()} == {
            "fashion-mlp"
        }


def test_only_the_rehearsal_decides_nothing() -> None:
    assert [scale.name for scale in scales.scales().values() if not scale.decides] == ["quick"]


@pytest.mark.parametrize("problem", [*PROBLEMS, "polyadam"])
def test_what_the_paper_leaves_open_is_said_in_the_file(problem: str) -> None:
    (section,) = re.findall(rf"((?:^#.*\n)+\[{problem}\]\n(?:.+\n)+)", text_of("experiments.toml"), re.MULTILINE)
    assert len(re.findall(r"(The paper|It) does not say", section)) >= 2


def test_scales_name_experiments_and_methods_that_exist() -> None:
    table = tomllib.loads(text_of("scales.toml"))
    for scale in table.values():
        assert {name for name, value in scale.items() if isinstance(value, dict)} <= set(EXPERIMENTS)


@pytest.mark.parametrize(
    ("name", "scale", "complaint"),
    [
        (
            "covtypes-mini",
            "paper",
            r"unknown experiment 'covtypes-mini'; did you mean 'covtype-mini'\? Known",
        ),
        ("mlp-mini", "lap", r"unknown scale 'lap'; did you mean 'laptop'\? Known: quick, laptop, workstation, paper"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(name: str, scale: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        experiment(name, scale)
