"""From specs to runs: what names their numbers, what they share, and how they are trained together."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import SGD, small_spec, trained_here
from torch import Tensor, nn

from memgrad.experiments.planning.plan import RunGroup, expand, remaining, run_groups, run_groups_of, runs_in
from memgrad.experiments.planning.problem_choice import Facts, ProblemChoice, facts_about, share_of
from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.training.minibatch_order import MinibatchOrder
from memgrad.experiments.training.train import Training
from memgrad.problems import Problem

FACTS = Facts("p", "f", examples=100, batch_size=8, stack_width=6, metrics=("loss", "step_norm"), nbytes=0)
TEXT = """
problem = "logistic"
steps = 20
batch = 10
seeds = 2
evaluate.times = 3
[[methods]]
name = "a"
optimizer = "HeavyBall"
lr = [0.1, 0.2]
[[methods]]
name = "b"
optimizer = "AdamW"
lr = 0.1
"""


def spec_of(text: str = TEXT) -> Spec:
    return Spec.parse(text)


def digests(text: str, facts: Facts = FACTS) -> set[str]:
    return {run.digest for run in runs_in(expand(Spec.parse(text), facts, {}))}


def some_run(**changes: Any) -> Run:
    base = Run("p", "f", 100, None, 8, 20, (0, 10, 20), ("loss",), Recipe.of("HeavyBall"), 0.1, 0)
    return replace(base, **changes)


# --- digests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"problem": "q"},
        {"fingerprint": "g"},
        {"examples": 99},
        {"dtype": "float64"},
        {"batch_size": 9},
        {"batch_size": None},
        {"steps": 21},
        {"evaluate_at": (0, 9, 20)},
        {"metrics": ("loss", "step_norm")},
        {"recipe": Recipe.of("Nesterov")},
        {"recipe": Recipe.of("HeavyBall", momentum=0.8)},
        {"recipe": Recipe.of("HeavyBall", viscosity=3.0)},
        {"recipe": Recipe.of("HeavyBall", weight_decay=0.1)},
        {"lr": 0.1 + 1e-16},
        {"seed": 1},
        {"seldom": (("loss", (0, 20)),)},
        {"gradient_examples": 50},
        {"loss_examples": 50},
    ],
    ids=str,
)
def test_whatever_decides_the_numbers_is_in_the_digest(change: dict[str, Any]) -> None:
    assert (some_run(**change).digest == some_run().digest) is (some_run(**change) == some_run())
    assert some_run(**change) != some_run()


def test_a_digest_is_that_of_plain_data_and_survives_a_round_trip() -> None:
    run = some_run(recipe=Recipe.of("AdamW", betas=[0.8, 0.9]), seldom=(("loss", (0, 20)),), gradient_examples=7)
    run = replace(run, loss_examples=9)
    again = Run.from_dict(json.loads(json.dumps(run.to_dict())))
    assert (again, again.digest) == (run, run.digest)
    assert len(run.digest) == 32


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ('problem = "logistic"', 'problem = "logistic"\nname = "other"\nnote = "whatever"'),
        ('name = "a"', 'name = "another"'),
        ("lr = [0.1, 0.2]", "lr = [0.2, 0.1]"),
        ("seeds = 2", "seeds = [1, 0]"),
        ('optimizer = "HeavyBall"', 'optimizer = "HeavyBall"\nmomentum = 0.9\nweight_decay = 0'),
        ('optimizer = "AdamW"', 'optimizer = "AdamW"\nbetas = [0.9, 0.999]\neps = 1e-8\namsgrad = false'),
        ("evaluate.times = 3", 'evaluate.times = 3\nselect.goal = "max"\nselect.last = 1.0'),
    ],
)
def test_names_order_notes_and_defaults_spelled_out_do_not_change_digests(written: str, instead: str) -> None:
    assert written in TEXT
    assert digests(TEXT.replace(written, instead)) == digests(TEXT)


@pytest.mark.parametrize(
    ("optimizer", "integer", "number"),
    [("SGD", {"momentum": 0}, {"momentum": 0.0}), ("HeavyBall", {"viscosity": 3}, {"viscosity": 3.0})]
    + [(name, {"weight_decay": 1}, {"weight_decay": 1.0}) for name in ("SGD", "Adam", "AdamW", "MemSGD", "RMSprop")],
)
def test_an_integer_and_the_same_number_with_a_point_have_one_digest(
    optimizer: str, integer: dict[str, Any], number: dict[str, Any]
) -> None:
    one, other = (some_run(recipe=Recipe.of(optimizer, **options)) for options in (integer, number))
    assert one.digest == other.digest


def test_metrics_have_the_times_the_spec_gives_them() -> None:
    text = TEXT.replace("evaluate.times = 3", "evaluate.times = { loss = 3, step_norm = 5 }")
    run = runs_in(expand(Spec.parse(text), FACTS, {}))[0]
    assert run.evaluate_at == run.evaluated_at("step_norm") == (0, 5, 10, 15, 20)
    assert run.evaluated_at("loss") == (0, 10, 20)
    equal = TEXT.replace("evaluate.times = 3", "evaluate.times = { loss = 3, step_norm = 3 }")
    assert digests(equal) == digests(TEXT)


@pytest.mark.parametrize("times", ["{ loss = 3 }", "{ loss = 3, step_norm = 5, accuracy = 2 }"])
def test_a_table_of_times_has_exactly_the_metrics(times: str) -> None:
    with pytest.raises(
        ValueError, match=r"evaluate\.times has .*; as a table it needs each metric .*: loss, step_norm\."
    ):
        digests(TEXT.replace("evaluate.times = 3", f"evaluate.times = {times}"))


def test_gradients_of_as_many_examples_as_there_are_or_that_nobody_asks_for_change_nothing() -> None:
    facts = replace(FACTS, metrics=("loss", "gradient_norm"))
    share = "evaluate.times = 3\nevaluate.gradient_examples = {}"
    written = {n: digests(TEXT.replace("evaluate.times = 3", share.format(n)), facts) for n in (99, 100, 101)}
    assert written[100] == written[101] == digests(TEXT, facts)
    assert not written[99] & digests(TEXT, facts)
    assert digests(TEXT.replace("evaluate.times = 3", share.format(50))) == digests(TEXT)


def test_losses_of_as_many_examples_as_there_are_or_that_nobody_asks_for_change_nothing() -> None:
    share = "evaluate.times = 3\nevaluate.loss_examples = {}"
    written = {n: digests(TEXT.replace("evaluate.times = 3", share.format(n))) for n in (99, 100, 101)}
    assert written[100] == written[101] == digests(TEXT)
    assert not written[99] & digests(TEXT)
    facts = replace(FACTS, metrics=("test_loss", "step_norm"))
    text = TEXT.replace("evaluate.times = 3", 'evaluate.times = 3\nselect.metric = "test_loss"')
    assert digests(text.replace("evaluate.times = 3", share.format(50)), facts) == digests(text, facts)


def test_a_different_order_of_methods_makes_the_same_runs() -> None:
    head, first, second = TEXT.split("[[methods]]")
    assert digests("[[methods]]".join([head, second, first])) == digests(TEXT)


def test_two_methods_with_the_same_numbers_share_their_runs() -> None:
    text = TEXT + '[[methods]]\nname = "c"\noptimizer = "HeavyBall"\nmomentum = 0.9\nlr = 0.1\n'
    assert digests(text) == digests(TEXT)


USERS = """
import torch
from memgrad.problems import Problem

def problem():
    data = torch.load("{data}")
    return Problem("mine", (data, data[:, 0]), lambda: torch.nn.Linear(3, 1), loss, l2={l2})

def loss(outputs, targets):
    return (outputs[:, 0] - targets).square().mean() * {factor}
"""


def test_a_users_problem_has_another_fingerprint_with_other_data_source_or_l2(tmp_path: Path) -> None:
    def fingerprint(number: float = 1.0, factor: int = 1, l2: float = 0.0, dtype: str | None = None) -> str:
        torch.save(torch.full((4, 3), number), tmp_path / "data.pt")
        (tmp_path / "mine.py").write_text(USERS.format(data=tmp_path / "data.pt", factor=factor, l2=l2))
        choice = ProblemChoice(f"{tmp_path / 'mine.py'}:problem", dtype=dtype)
        return facts_about(choice, choice.load()).fingerprint

    assert fingerprint() == fingerprint()
    different = [fingerprint(), fingerprint(number=2.0), fingerprint(factor=2), fingerprint(l2=0.1)]
    assert len({*different, fingerprint(dtype="float64")}) == 5


def test_a_users_problem_may_be_moved_to_another_folder(tmp_path: Path) -> None:
    torch.save(torch.ones(4, 3), tmp_path / "data.pt")
    found = set()
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "mine.py"
        path.write_text(USERS.format(data=tmp_path / "data.pt", factor=1, l2=0))
        choice = ProblemChoice(f"{path}:problem")
        found.add(facts_about(choice, choice.load()).fingerprint)
    assert len(found) == 1


class Scaled(nn.Module):
    """A model with a parameter that is one number, without an axis."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.scale


def test_a_parameter_without_an_axis_is_planned_and_trained(tmp_path: Path) -> None:
    problem = Problem("scaled", (torch.ones(4), torch.ones(4)), Scaled, nn.functional.mse_loss, stack_width=2)
    (tmp_path / "mine.py").write_text("")
    facts = facts_about(ProblemChoice(str(tmp_path / "mine.py")), problem)
    spec = spec_of(TEXT.replace("batch = 10", "batch = 4"))
    runs = runs_in(expand(spec, facts, {}))
    for group in (runs, runs[:1]):
        *_, last = Training(problem, group).events()
        assert len(last.chunk.value) > 0  # type: ignore[union-attr]  # the last event is Finished


# --- steps, minibatches and what is paired ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "steps", "batch"),
    [
        ("epochs = 3\nbatch = 10", 30, 10),
        ("epochs = 3\nbatch = 30", 9, 30),  # 100 // 30 steps an epoch: what is left over is not used
        ("epochs = 3", 36, 8),
        ('epochs = 3\nbatch = "full"', 3, None),
        ("steps = 7", 7, 8),
        ("steps = 7\nbatch = 100", 7, 100),
    ],
)
def test_an_epoch_has_as_many_steps_as_whole_minibatches(written: str, steps: int, batch: int | None) -> None:
    runs = runs_in(expand(spec_of(TEXT.replace("steps = 20\nbatch = 10", written)), FACTS, {}))
    assert {(run.steps, run.batch_size) for run in runs} == {(steps, batch)}


@given(st.integers(1, 40), st.data(), st.integers(0, 3))
def test_minibatches_are_drawn_without_replacement_in_each_epoch(n: int, data: st.DataObject, epoch: int) -> None:
    size = data.draw(st.integers(1, n))
    order = MinibatchOrder("p", n, size, [5])
    steps = n // size
    assert order.steps_per_epoch == steps
    seen = torch.cat([order.at(epoch * steps + i)[0] for i in range(steps)]).tolist()
    assert len(set(seen)) == len(seen) == steps * size
    assert set(seen) <= set(range(n))


def test_every_epoch_seed_and_problem_has_an_order_of_its_own() -> None:
    def epoch(problem: str = "p", seed: int = 0, number: int = 0) -> tuple[int, ...]:
        return tuple(MinibatchOrder(problem, 50, 50, [seed]).at(number)[0].tolist())

    different = [epoch(), epoch(problem="q"), epoch(seed=1), epoch(number=1), tuple(range(50))]
    assert len(set(different)) == len(different)
    assert epoch() == epoch()


def test_an_order_can_begin_anywhere_and_does_not_depend_on_the_other_runs() -> None:
    together, alone = MinibatchOrder("p", 10, 3, [4, 2, 4]), MinibatchOrder("p", 10, 3, [2])
    for k in (7, 0, 5, 100):
        assert together.at(k)[1].equal(alone.at(k)[0])
        assert together.at(k)[0].equal(together.at(k)[2])
        assert not together.at(k)[0].equal(together.at(k)[1])


def observed(
    recipes: Sequence[Recipe], seed: int, batch_size: int | None = 5
) -> tuple[list[Tensor], list[list[float]]]:
    """The initial parameters of the runs, and the examples that their losses were asked for, in their order."""
    seen: list[float] = []

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        seen.extend(targets.tolist())  # targets are the numbers of the examples
        return outputs.square().mean()

    starts, examples = [], []
    for recipe in recipes:
        problem = Problem("seen", (torch.ones(20, 3), torch.arange(20.0)), lambda: nn.Linear(3, 1), loss)
        run = some_run(problem="seen", examples=20, batch_size=batch_size, steps=8, recipe=recipe, seed=seed)
        training = Training(problem, (run,))
        starts.append(training._program.parameters["weight"].clone())
        seen.clear()
        for _ in range(8):
            training.step()
        examples.append(list(seen))
    return starts, examples


def test_runs_with_one_seed_start_alike_and_see_the_same_examples_whatever_their_method() -> None:
    recipes = [Recipe.of("SGD"), Recipe.of("MemSGD"), Recipe.of("AdamW"), Recipe.of("Rprop")]
    starts, examples = observed(recipes, seed=3)
    assert all(start.equal(starts[0]) for start in starts)
    assert all(each == examples[0] for each in examples)
    assert len(examples[0]) == 8 * 5
    assert sorted(examples[0][:20]) == sorted(examples[0][20:]) == list(range(20))  # two epochs, all examples each
    assert examples[0][:20] != examples[0][20:]
    (other_start,), (other_examples,) = observed(recipes[:1], seed=4)
    assert not other_start.equal(starts[0])
    assert other_examples != examples[0]


def test_a_full_batch_is_all_examples_at_every_step() -> None:
    _, (examples,) = observed([Recipe.of("SGD")], seed=3, batch_size=None)
    assert examples == list(range(20)) * 8


def test_a_share_of_the_examples_is_always_the_same_and_has_each_once() -> None:
    problem = Problem("p", (torch.arange(50.0)[:, None], torch.arange(50.0)), lambda: nn.Linear(1, 1), nn.MSELoss())
    inputs, targets = share_of(problem, 20).train
    assert inputs[:, 0].equal(targets)
    assert len(set(targets.tolist())) == 20
    assert share_of(problem, 20).train[0].equal(inputs)
    with pytest.raises(ValueError, match=r"'p' has 50 training examples; .* 1 to that, got 51"):
        share_of(problem, 51)


# --- run groups -------------------------------------------------------------------------------------------------------

stackable = [Recipe.of("HeavyBall"), Recipe.of("AdamW"), Recipe.of("MemSGD")]
lone = [Recipe.of("Rprop"), Recipe.of("Adam", amsgrad=True)]
run_lists = st.lists(st.tuples(st.sampled_from([*stackable, *lone]), st.integers(0, 9)), max_size=40, unique=True).map(
    lambda pairs: [some_run(recipe=recipe, seed=seed) for recipe, seed in pairs]
)


@settings(deadline=None)
@given(run_lists, st.none() | st.integers(1, 7), st.integers(1, 9))
def test_batches_hold_every_run_once_and_are_no_wider_than_pays(
    runs: list[Run], width: int | None, stack_width: int
) -> None:
    cut = run_groups(runs, replace(FACTS, stack_width=stack_width), width=width)
    assert sorted(run.digest for group in cut for run in group.runs) == sorted(run.digest for run in runs)
    for group in cut:
        assert 1 <= len(group.runs) <= (stack_width if width is None else width)
        assert len(group.runs) == 1 or all(run.recipe in stackable for run in group.runs)
    assert cut == run_groups(list(runs), replace(FACTS, stack_width=stack_width), width=width)


def test_runs_that_could_be_one_stack_make_four_for_as_many_cores() -> None:
    runs = [some_run(seed=seed) for seed in range(40)]
    assert [len(group.runs) for group in run_groups(runs, replace(FACTS, stack_width=350))] == [10] * 4
    assert [len(group.runs) for group in run_groups(runs, replace(FACTS, stack_width=350), width=350)] == [40]


@pytest.mark.parametrize(
    ("lrs", "seeds", "width", "sizes", "by_seed"),
    [
        (4, 3, 8, [4, 4, 4], True),  # half a group per seed
        (3, 4, 4, [4] * 3, False),  # too few of a seed for a group of their own
        (4, 4, 9, [8, 8], False),  # less than half a group
        (10, 2, 8, [5] * 4, True),
    ],
)
def test_groups_are_of_one_seed_where_a_seed_has_enough_runs(
    lrs: int, seeds: int, width: int, sizes: list[int], by_seed: bool
) -> None:
    runs = [some_run(lr=float(i + 1), seed=seed) for i in range(lrs) for seed in range(seeds)]
    groups = run_groups(runs, FACTS, width=width)
    assert [len(group.runs) for group in groups] == sizes
    assert all(len({run.seed for run in group.runs}) == 1 for group in groups) is by_seed


def test_a_batch_is_named_by_its_runs_and_their_order() -> None:
    one, two = some_run(seed=1), some_run(seed=2)
    assert len({RunGroup((one, two)).key, RunGroup((two, one)).key, RunGroup((one,)).key}) == 3


def followers(best: dict[str, float]) -> list[set[str]]:
    """The run groups, as sets of runs, of an experiment of which so much is known."""
    text = TEXT.replace("seeds = 2", "seeds = 5")
    text += '[[methods]]\nname = "c"\noptimizer = "MemSGD"\nlr = "best of a"\n'
    text += '[[methods]]\nname = "d"\noptimizer = "MemSGD"\nlr = "best of b"\n'
    spec = Spec.parse(text.replace("lr = 0.1\n", "lr = 0.3\n"))
    return [{run.digest for run in group.runs} for group in run_groups_of(spec, expand(spec, FACTS, best), FACTS)]


def test_batches_do_not_depend_on_which_step_sizes_are_selected_already() -> None:
    # A run's last digits depend on its neighbours, so an experiment that was interrupted must cut as it did before.
    known = {"a": 0.1, "b": 0.3}
    everything = followers(known)
    for some in itertools.chain.from_iterable(itertools.combinations(known, r) for r in range(2)):
        assert all(group in everything for group in followers({name: known[name] for name in some}))


def test_few_runs_of_a_large_experiment_make_one_group() -> None:
    runs = [some_run(seed=seed) for seed in range(5)]
    assert [len(group.runs) for group in run_groups(runs, replace(FACTS, stack_width=8))] == [2, 1, 2]
    assert [len(group.runs) for group in run_groups(runs, replace(FACTS, stack_width=8), planned=77)] == [5]
    # 20 runs in all: methods with two, one and one settings, with 5 seeds each. A quarter of them is a group.
    text = TEXT.replace("seeds = 2", "seeds = 5") + '[[methods]]\nname = "c"\noptimizer = "MemSGD"\nlr = "best of a"\n'
    spec = Spec.parse(text)
    facts = replace(FACTS, stack_width=8)
    cut = run_groups_of(spec, expand(spec, facts, {"a": 0.1}), facts)
    assert [len(group.runs) for group in cut if group.runs[0].recipe == Recipe.of("MemSGD")] == [5]


def test_a_follower_whose_runs_are_another_methods_is_not_trained_again() -> None:
    text = TEXT + '[[methods]]\nname = "c"\noptimizer = "HeavyBall"\nlr = "best of b"\n'
    spec = Spec.parse(text)
    cut = run_groups_of(spec, expand(spec, FACTS, {"b": 0.1}), FACTS)
    trained = [run.digest for group in cut for run in group.runs]
    assert sorted(trained) == sorted(digests(TEXT))


# --- what is left to do ----------------------------------------------------------------------------------------------


def test_what_has_its_rows_is_not_trained_again() -> None:
    runs = [some_run(seed=seed) for seed in range(12)]
    planned = run_groups(runs, FACTS)
    first = {run.digest for run in planned[0].runs}
    assert remaining(planned, first, []) == planned[1:]
    assert remaining(planned, {run.digest for run in runs}, []) == ()
    (left, *_) = remaining(planned, {planned[0].runs[0].digest}, [])
    assert left.runs == planned[0].runs[1:]


def test_a_checkpoint_is_gone_on_with_as_it_was_made_if_all_its_runs_are_wanted() -> None:
    runs = [some_run(seed=seed) for seed in range(12)]
    planned = run_groups(runs, FACTS)
    saved = (runs[5], runs[2])  # in an order, and in a run group, of an earlier plan
    left = remaining(planned, [], [saved])
    assert left[0].runs == saved
    assert sorted(run.digest for group in left for run in group.runs) == sorted(run.digest for run in runs)
    for finished, checkpoint in (({runs[5].digest}, saved), (set(), (runs[5], some_run(seed=99)))):
        left = remaining(planned, finished, [checkpoint])
        assert len([run for group in left for run in group.runs]) == 12 - len(finished)
        assert all(group.runs != checkpoint for group in left)


def test_of_two_checkpoints_with_a_run_in_common_one_is_gone_on_with() -> None:
    runs = [some_run(seed=seed) for seed in range(6)]
    left = remaining(run_groups(runs, FACTS), [], [(runs[0], runs[1]), (runs[1], runs[2])])
    trained = [run.seed for group in left for run in group.runs]
    assert sorted(trained) == list(range(6))
    assert left[0].runs == (runs[0], runs[1])


def test_step_sizes_that_are_not_selected_yet_are_left_out() -> None:
    spec = Spec.parse(TEXT + '[[methods]]\nname = "c"\noptimizer = "MemSGD"\nlr = "best of a"\n')
    assert list(expand(spec, FACTS, {})) == ["a", "b"]
    table = expand(spec, FACTS, {"a": 0.2})
    assert list(table["c"]) == [0.2]
    assert np.unique([run.seed for run in table["c"][0.2].values()]).tolist() == [0, 1]


def test_a_method_is_tested_on_its_own_seeds_where_settings_are_tuned_on_others() -> None:
    own = {**SGD, "lr": [0.3, 0.1], "seeds": [5, 6, 7]}
    spec = small_spec(own, tuning_seeds=[100])
    facts = facts_about(spec.problem_choice, spec.problem_choice.load())
    assert sorted(expand(spec, facts, {"A": 0.3})["A"][0.3]) == [5, 6, 7, 100]
    with pytest.raises(ValueError, match=r"got 100 in methods\[0\]\.seeds as well"):
        small_spec({**SGD, "seeds": [5, 100]}, tuning_seeds=[100])


def test_while_settings_are_being_tuned_nothing_is_tested() -> None:
    methods = [{**SGD, "lr": [0.3, 0.1]}, {"name": "B", "optimizer": "AdamW", "lr": [0.01, 0.02]}]
    tuning = trained_here(small_spec(*methods, seeds=3, tuning_seeds=[100, 101, 102]))
    sgd, adamw = tuning.compare("loss")
    assert math.isfinite(sgd.final.value)  # what is known so far is shown
    assert adamw.difference is not None
    assert adamw.difference.n == 0
    assert math.isnan(adamw.p_value)
