"""Schedules, clipping and averages in stacks, alone and in a loop written by hand; grids, tuning seeds, factors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from memgrad import optim
from memgrad.experiments import Results, Spec
from memgrad.experiments.planning.plan import expand, run_groups_of, runs_in
from memgrad.experiments.planning.problem_choice import Facts
from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.storing.chunk import chunk_of
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.checkpoint import Checkpoint
from memgrad.experiments.training.minibatch_order import MinibatchOrder
from memgrad.experiments.training.train import Training
from memgrad.problems import Problem, get

STEPS, CLIP = 24, 0.5
METHODS: list[tuple[str, dict[str, Any], float]] = [
    ("SGD", {"momentum": 0.9}, 0.1),
    ("AdamW", {"betas": (0.8, 0.99), "weight_decay": 0.3}, 0.05),
    (
        "MemAdam",
        {"memory": "inst + (1+k)^0.25*poly:8", "second_memory": "poly:8", "weight_decay": "independent=1/t"},
        0.05,
    ),
    ("MemSGD", {"memory": "exp:0.8 + (1+k)^0.15*poly:8", "weight_decay": "independent=0.01"}, 0.1),
]
METRICS = ("loss", "loss@poly:2", "loss@exp:0.5")


def problem() -> Problem:
    return get("logistic", dtype=torch.float64)


def run_of(i: int, seed: int = 0, **changes: Any) -> Run:
    name, options, lr = METHODS[i]
    rest: dict[str, Any] = {"schedule": "cosine(warmup=0.25,floor=0.1)", "clip": CLIP, **changes}
    recipe = Recipe.of(name, **options)
    return Run("logistic", "f", 1000, None, 8, STEPS, (0, 12, STEPS), METRICS, recipe, lr, seed, **rest)


def by_hand(run: Run) -> tuple[Tensor, dict[str, Tensor]]:
    """The last iterate and two averages of iterates, with torch's own parts: LambdaLR, clip_grad_norm_, weights."""
    own = problem()
    x = torch.nn.Parameter(own.initial_parameters(_initial(run.seed))["layers.0.weight"])
    made_by = getattr(optim, run.recipe.optimizer, None) or getattr(torch.optim, run.recipe.optimizer)
    optimizer = made_by([x], lr=run.lr, **dict(run.recipe.options))

    def factor(k: int) -> float:  # a warm-up over 6 of 24 steps, then a cosine from 1 to 0.1
        return (k + 1) / 6 if k < 6 else 0.1 + 0.9 * (1 + math.cos(math.pi * (k - 6) / 18)) / 2

    order = MinibatchOrder("logistic", 1000, 8, [run.seed])
    iterates = []
    for k in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = run.lr * (factor(k) if run.schedule else 1.0)
        inputs, targets = (data[order.at(k)[0].long()] for data in own.train)
        optimizer.zero_grad()
        own.batch_loss({"layers.0.weight": x}, inputs, targets).backward()  # type: ignore[no-untyped-call]
        if run.clip is not None:
            torch.nn.utils.clip_grad_norm_([x], run.clip)
        optimizer.step()
        iterates.append(x.detach().clone())
    linear = torch.arange(1, STEPS + 1, dtype=torch.float64)  # the weights of poly:2 are proportional to j + 1
    powers = 0.5 ** torch.arange(STEPS - 1, -1, -1, dtype=torch.float64)
    stacked = torch.stack(iterates)
    averages = {
        "poly:2": (stacked * (linear / linear.sum()).view(-1, 1, 1)).sum(0),
        "exp:0.5": (stacked * (powers / powers.sum()).view(-1, 1, 1)).sum(0),
    }
    return iterates[-1], averages


def _initial(seed: int) -> int:
    from memgrad.experiments.digests import initial_seed

    return initial_seed("logistic", seed)


def trained(*runs: Run) -> Training:
    training = Training(problem(), runs)
    while training.k < STEPS:
        training.step()
    return training


def test_a_stacked_run_with_schedule_clipping_and_averages_is_the_run_alone_and_the_loop_by_hand() -> None:
    runs = [run_of(i, seed=i % 2) for i in range(4)]
    runs.append(run_of(1, schedule=None, clip=None))
    runs.append(run_of(2, clip=0.05))
    stack = trained(*runs)
    rows = {i: row for row, i in enumerate(stack._program.run_order)}
    own = problem()
    values = stack.evaluate(METRICS).values
    for i, run in enumerate(runs):
        last, averages = by_hand(run)
        alone = trained(run)
        (mine,) = (p[rows[i]] for p in stack._program.parameters.values())
        (single,) = (p[0] for p in alone._program.parameters.values())
        # Double precision: some roundings of 1e-16 per step, divided by the root of small squares.
        torch.testing.assert_close(mine, last, rtol=1e-11, atol=1e-12, msg=str(run))
        torch.testing.assert_close(single, last, rtol=1e-11, atol=1e-12, msg=str(run))
        for memory, average in averages.items():
            expected = own.evaluate({"layers.0.weight": average}, metrics=["loss"])["loss"]
            assert values[f"loss@{memory}"][i] == pytest.approx(expected, rel=1e-12)
            assert alone.evaluate([f"loss@{memory}"]).values[f"loss@{memory}"][0] == pytest.approx(expected, rel=1e-12)


def test_a_checkpoint_in_the_middle_of_a_schedule_continues_bit_for_bit() -> None:
    for runs in ([run_of(0), run_of(2, seed=1)], [run_of(1)]):
        straight = Training(problem(), tuple(runs))
        while straight.k < 11:
            straight.step()
        resumed = Training(problem(), tuple(runs), Checkpoint.from_bytes(straight.save()))
        for training in (straight, resumed):
            while training.k < STEPS:
                training.step()
        mine, other = straight.evaluate(METRICS).values, resumed.evaluate(METRICS).values
        assert all(np.array_equal(mine[metric], other[metric]) for metric in METRICS)


# --- specs -----------------------------------------------------------------------------------------------------------

FACTS = Facts("logistic", "f" * 32, 1000, 16, 4, ("loss", "gradient_norm", "step_norm"), 1000)
TUNED = """
problem = "logistic"
steps = 100
seeds = [200, 201]
tuning_seeds = [100, 101, 102]
schedule = "linear(warmup=0.1)"
clip = 1.0
metrics = ["loss", "loss@p=2"]
evaluate.times = 3
[[methods]]
name = "A"
optimizer = "AdamW"
lr = [0.1, 0.2]
grid = { betas = [[0.8, 0.99], [0.9, 0.999]], weight_decay = [0.0, 0.1] }
[[methods]]
name = "A short"
optimizer = "best of A"
steps_factor = 0.8
[[methods]]
name = "B"
optimizer = "SGD"
lr = 0.5
schedule = "constant"
"""


def test_a_grid_is_every_combination_at_every_step_size_on_the_tuning_seeds() -> None:
    table = expand(Spec.parse(TUNED), FACTS, {})
    assert len(table) == 4 + 1  # and B, which has nothing to tune
    first = table["A [betas=0.8 0.99, weight_decay=0.0]"]
    assert {lr: tuple(at) for lr, at in first.items()} == {0.1: (100, 101, 102), 0.2: (100, 101, 102)}
    run = first[0.2][100]
    assert (run.schedule, run.clip, run.metrics) == ("linear(warmup=0.1)", 1.0, ("loss", "loss@poly:2"))
    assert run.recipe["betas"] == (0.8, 0.99)
    assert tuple(table["B"][0.5]) == (200, 201)
    assert table["B"][0.5][200].schedule is None


def test_the_selected_setting_is_tested_and_copied_with_fewer_steps() -> None:
    spec = Spec.parse(TUNED)
    chosen = "A [betas=0.9 0.999, weight_decay=0.1]"
    table = expand(spec, FACTS, {chosen: 0.2})
    assert tuple(table[chosen][0.2]) == (100, 101, 102, 200, 201)
    assert tuple(table[chosen][0.1]) == (100, 101, 102)
    short = table["A short"][0.2]
    assert tuple(short) == (200, 201)
    run = short[200]
    assert (run.steps, run.evaluate_at, run.schedule) == (80, (0, 40, 80), "linear(warmup=0.1)")
    assert run.recipe == table[chosen][0.2][100].recipe
    # Groups have one length each, and those that were there before the selection are the same after it.
    before = run_groups_of(spec, expand(spec, FACTS, {}), FACTS)
    after = run_groups_of(spec, table, FACTS)
    assert {group.key for group in before} <= {group.key for group in after}
    assert all(len({each.steps for each in group.runs}) == 1 for group in after)


def test_settings_are_selected_on_the_tuning_seeds_alone(tmp_path: Path) -> None:
    spec = Spec.parse(TUNED)
    chosen = "A [betas=0.9 0.999, weight_decay=0.1]"
    table = expand(spec, FACTS, {chosen: 0.2})
    best = {run.digest for run in table[chosen][0.2].values()}
    store = Store.open(tmp_path / "store")
    with store.writing():
        for run in runs_in(table):
            is_test, is_best = run.seed >= 200, run.digest in best
            # On the test seeds the selected setting looks terrible: that must not matter.
            level = 50.0 + run.seed if is_test else 1.0 if is_best else 2.0
            losses = np.array([[8.0 * level], [2.0 * level], [level]])
            store.write(chunk_of([run], run.evaluate_at, dict.fromkeys(run.metrics, losses), {}, {}))
    results = Results.read(spec, store, table)
    assert results.selected("A") == (chosen, 0.2)
    assert results.seeds("A", 0.2) == (200, 201)
    assert results.seeds("A", 0.2, tuning=True) == (100, 101, 102)
    assert results.final("A", "loss").tolist() == [250.0, 251.0]
    assert results.final("A", "loss", tuning=True).tolist() == [1.0, 1.0, 1.0]
    rows = {row.method: row for row in results.compare("loss", "B", reach=375.0)}
    assert (rows["A"].variant, rows["A"].steps, rows["A short"].steps) == (chosen, 100, 80)
    # From 500 at half of the steps to 250 at the end: 375 is reached at three quarters of them, on average.
    reach = rows["A short"].reach
    assert reach is not None
    assert reach.value == pytest.approx(60.0, abs=0.2)
    assert rows["A"].ratio is not None
    assert rows["A"].ratio.value == pytest.approx(1.0)


REFUSED = [
    ("schedule = 'linear(warmup=500)'", "schedule: the schedule linear(warmup=500) is longer than the run", "got 50"),
    ("schedule = 'lin'", "schedule: unknown schedule 'lin'", "got 'lin'"),
    ("clip = 0", "clip: the largest norm of a gradient is a number > 0", "got 0"),
    ("tuning_seeds = [0]", "tuning_seeds: settings are selected on other seeds than they are tested on", "got 0"),
    ("metrics = ['loss@poly:x']", "metrics", "poly:x"),
    ("metrics = ['step_norm@poly:2']", "metrics", "step_norm"),
]
REFUSED_METHODS = [
    ("lr = 1\nsteps_factor = 0.001", "methods[0].steps_factor: a method needs at least one step", "0.001 of 50"),
    ("lr = 1\nsteps_factor = 0", "methods[0].steps_factor: the factor of the steps is a number > 0", "got 0"),
    ("lr = 1\ngrid = { momentum = [0.9, -1] }", "methods[0].grid: momentum=-1", "refuses"),
    ("lr = 1\ngrid = { momentumm = [0.9] }", "methods[0].grid: momentumm=0.9", "has no option 'momentumm'"),
    ("lr = 1\ngrid = { lr = [1] }", "methods[0].grid: a grid is over options", "'lr'"),
    ("lr = 1\ngrid = { momentum = [] }", "methods[0].grid: a grid is a table with a list of values", "got"),
    ("lr = 1\ngrid = { momentum = [0.9, 0.9] }", "methods[0].grid: each value of momentum may be listed only once", ""),
    ("lr = 1\nschedule = 'wsd(decay=60)'", "methods[0].schedule: the schedule wsd(decay=60) is longer", "50"),
]


@pytest.mark.parametrize(("key", "rule", "value"), REFUSED)
def test_bad_keys_are_refused_by_file_key_rule_and_value(key: str, rule: str, value: str) -> None:
    text = f"problem = 'logistic'\nsteps = 50\nseeds = 2\n{key}\n[[methods]]\noptimizer = 'SGD'\nlr = 1\n"
    with pytest.raises(ValueError, match=r"mine\.toml: ") as refused:
        Spec.parse(text, where="mine.toml")
    assert rule in str(refused.value)
    assert value in str(refused.value)


@pytest.mark.parametrize(("keys", "rule", "value"), REFUSED_METHODS)
def test_bad_methods_are_refused_by_file_key_rule_and_value(keys: str, rule: str, value: str) -> None:
    text = f"problem = 'logistic'\nsteps = 50\nseeds = 2\n[[methods]]\noptimizer = 'SGD'\n{keys}\n"
    with pytest.raises(ValueError, match=r"mine\.toml: ") as refused:
        Spec.parse(text, where="mine.toml")
    assert rule in str(refused.value)
    assert value in str(refused.value)


def test_a_method_that_copies_has_no_options_of_its_own() -> None:
    with pytest.raises(ValueError, match=r"methods\[1\].weight_decay: 'best of A' has options already"):
        Spec.parse(TUNED.replace("steps_factor = 0.8", "weight_decay = 0.5"))
