"""Tuning through the engine and the store: nothing is trained twice, and an interruption changes nothing."""

from __future__ import annotations

import math
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_trials import Here
from tiny_runs import SGD, small_spec

from memgrad.experiments import LocalEngine
from memgrad.experiments.driver import Silent, execute
from memgrad.experiments.planning.methods import Method
from memgrad.experiments.planning.plan import RunGroup
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing.answer import Answer, Contestant
from memgrad.experiments.racing.course import Course
from memgrad.experiments.racing.pace import Pace
from memgrad.experiments.racing.portfolio import candidates_of, parse_candidate
from memgrad.experiments.racing.sequential import Rules
from memgrad.experiments.racing.tune import Budget, tune
from memgrad.experiments.racing.words import is_repeating, lines_of, repeating
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.events import Event
from memgrad.method import Schedule
from memgrad.statistics import Estimate

SPEC = Spec.parse(
    """
    problem = "logistic"
    examples = 64
    batch = 8
    steps = 30
    metrics = ["loss"]
    evaluate.times = 6
    [[methods]]
    name = "S"
    optimizer = "SGD"
    lr = 1.0
    [[methods]]
    name = "M"
    optimizer = "MemSGD"
    memory = "poly:8"
    lr = "best of S"
    """
)
RULES = Rules(most=4, refine=2, fresh=3)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("tuned") / "store")


@pytest.fixture(scope="module")
def answer(store: Store) -> Answer:
    return tune(SPEC, store, Here(), rules=RULES)


class Dies(Silent):
    """Raises like a lost machine after some finished run groups."""

    def __init__(self, after: int) -> None:
        self.left = after

    def happened(self, group: RunGroup, event: Event) -> None:
        from memgrad.experiments.training.events import Finished

        self.left -= isinstance(event, Finished)
        if not self.left:
            raise SystemError("power cut")


def test_tuning_answers_and_all_its_runs_are_in_the_store(answer: Answer, store: Store) -> None:
    assert answer.status == "answered"
    assert answer.runs == len(store.digests())
    assert answer.pick is not None
    assert set(answer.found) == {"S", "M"}
    assert answer.lines["torch"].splitlines()[1].startswith("optimizer = ")
    assert answer.ratio is not None
    assert answer.ratio.n == RULES.fresh


def test_the_same_tuning_again_trains_nothing(answer: Answer, store: Store) -> None:
    class Refuses(Here):
        def start(self, task: object) -> None:
            raise AssertionError("a run was trained again")

    assert tune(SPEC, store, Refuses(), rules=RULES) == answer


@pytest.mark.parametrize("after", [2, 9])
def test_tuning_that_was_cut_off_comes_to_the_same_answer(answer: Answer, tmp_path: Path, after: int) -> None:
    other = Store.open(tmp_path / "store")
    with pytest.raises(SystemError, match="power cut"):
        tune(SPEC, other, Here(), rules=RULES, listener=Dies(after))
    assert 0 < len(other.digests()) < answer.runs
    assert tune(SPEC, other, Here(), rules=RULES) == answer


def test_a_budget_of_runs_is_kept_and_can_be_raised(answer: Answer, tmp_path: Path) -> None:
    other = Store.open(tmp_path / "store")
    seen: list[Course] = []
    few = tune(SPEC, other, Here(), rules=RULES, budget=Budget(runs=10), watcher=seen.append)
    assert few.status == "exhausted"
    assert len(other.digests()) == few.runs <= 10
    assert seen[0].stage == "search"
    assert tune(SPEC, other, Here(), rules=RULES) == answer


def test_a_budget_of_time_that_is_used_up_asks_for_nothing_new(tmp_path: Path) -> None:
    other = Store.open(tmp_path / "store")
    short = tune(SPEC, other, Here(), rules=RULES, budget=Budget(seconds=1e-9))
    assert short.status == "exhausted"
    assert not other.digests()
    for bad in ({"runs": 0}, {"seconds": 0.0}):
        with pytest.raises(ValueError, match="a budget"):
            Budget(**bad)  # type: ignore[arg-type]


def test_another_seed_is_an_independent_repetition(answer: Answer, store: Store, tmp_path: Path) -> None:
    shutil.copytree(store.path, tmp_path / "store")
    other = Store.open(tmp_path / "store")
    before = set(other.digests())
    again = tune(SPEC, other, Here(), rules=RULES, seed=1)
    assert again.first_seed == answer.first_seed + 10_000_000
    assert len(set(other.digests()) - before) == again.runs


def test_the_repeated_experiment_is_in_the_store_and_gives_the_same_ratio(answer: Answer, store: Store) -> None:
    text = repeating(SPEC, answer)
    assert is_repeating(text)
    assert not is_repeating('name = "mine"\n')
    spec = Spec.parse(text)
    assert tomllib.loads(text)["seeds"][0] == answer.first_seed
    assert execute(spec, store, Here()).trained == 0
    assert answer.challenger is not None
    assert answer.baseline is not None
    from memgrad.experiments.driver import results_of

    rows = results_of(spec, store).compare("loss", reference=answer.baseline.name)
    ratio = next(row.ratio for row in rows if row.method == answer.challenger.name)
    assert ratio is not None
    assert answer.ratio is not None
    assert ratio.value == pytest.approx(answer.ratio.value, rel=1e-12)
    with pytest.raises(ValueError, match="no answer to repeat: budget"):
        repeating(SPEC, replace(answer, challenger=None, baseline=None, reason="budget"))


def test_more_of_a_metric_cannot_be_tuned_for(tmp_path: Path) -> None:
    best = SPEC.model_copy(update={"select": SPEC.select.model_copy(update={"goal": "max"})})
    with pytest.raises(ValueError, match=r"tuning makes a loss small, got select.goal='max'"):
        tune(best, Store.open(tmp_path / "store"), Here())
    with pytest.raises(ValueError, match="seed from 0 to 1e9"):
        tune(SPEC, Store.open(tmp_path / "store"), Here(), seed=-1)


def test_an_experiment_with_tuning_seeds_can_be_tuned(tmp_path: Path) -> None:
    methods = [{**SGD, "lr": [0.3, 0.1]}, {"name": "B", "optimizer": "MemSGD", "memory": "poly:2", "lr": 0.3}]
    spec = small_spec(*methods, tuning_seeds=[100], steps=5)
    from memgrad.experiments.racing.tune import Budget

    answer = tune(spec, Store.open(tmp_path), LocalEngine(1), budget=Budget(runs=8))
    assert answer.status == "exhausted"


def test_a_search_may_start_like_a_method_with_a_grid() -> None:
    grid = {**SGD, "grid": {"momentum": [0.0, 0.9]}}
    spec = small_spec(grid, {"name": "B", "optimizer": "MemSGD", "memory": "poly:2", "lr": "best of A"})
    assert [each.like for each in candidates_of(spec)] == ["", "", "A [momentum=0.0]"]


@pytest.mark.parametrize("select", [{"metric": "error", "goal": "min"}, {"metric": "test_loss"}, {"last": 0.5}])
def test_a_repeated_experiment_selects_as_the_one_that_was_tuned(select: dict[str, Any], answer: Answer) -> None:
    """The goal is the default, and yet has to be stated for a metric that is no loss."""
    methods = [{"name": method.name, "optimizer": method.optimizer, "lr": 1.0} for method in SPEC.methods]
    spec = Spec.of({"problem": "logistic", "steps": 3, "methods": methods, "select": select})
    assert Spec.parse(repeating(spec, answer)).select == spec.select


def test_a_tuned_variant_of_a_grid_can_be_repeated() -> None:
    memories = ["poly:2", "inst + 0.5*poly:8 + 0.25*poly:16 + 0.125*poly:32 + 0.0625*poly:64 + 0.03125*poly:128"]
    spec = small_spec(SGD, {"name": "mem", "optimizer": "MemSGD", "lr": 1.0, "grid": {"memory": memories}})
    name = candidates_of(spec)[2].name
    assert len(name) > 80
    one = Contestant("A", 0.3, Estimate(1.0, 0.9, 1.1, 10))
    text = repeating(spec, Answer("answered", "", challenger=replace(one, name=name), baseline=one))
    _, second = Spec.parse(text).methods
    assert second.recipe.to_dict() == spec.method("mem").variants[1].recipe.to_dict()
    assert second.name == name[:77] + "..."


def test_methods_in_words_have_names_that_tell_them_apart() -> None:
    names = [parse_candidate(text).name for text in ("AdamW(weight_decay=0.1)", "AdamW(eps=0.1)")]
    assert names == ["AdamW weight_decay 0.1", "AdamW eps 0.1"]
    assert parse_candidate(f"/{90 * 'a'}/mine.py:Mine").name == "mine.py:Mine"
    assert len(parse_candidate(f"MemSGD(memory='inst + {30 * 'poly:2 + '}poly:3')").name) == 80


RAISES = """
import torch
from memgrad.problems import Problem

def loss(outputs, targets):
    if outputs.abs().max() > {limit}:
        raise ValueError("too large: " + 1000 * "9 ")
    return (outputs[:, 0] - targets).square().mean()

def problem():
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    return Problem("raises", (x, x.sum(1)), lambda: torch.nn.Linear(3, 1), loss, batch_size=8, stack_width={width})
"""


def raising(folder: Path, limit: float, width: int) -> Spec:
    (folder / "raises.py").write_text(RAISES.format(limit=limit, width=width))
    methods = [{"optimizer": "SGD", "lr": 0.1}, {"optimizer": "MemSGD", "memory": "poly:2", "lr": 0.1}]
    whole = {"problem": "raises.py:problem", "steps": 20, "metrics": ["loss"], "evaluate": {"times": 3}}
    return Spec.of({**whole, "methods": methods}, folder=folder)


class Words(Silent):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def said(self, text: str) -> None:
        self.words.append(text)


@pytest.mark.parametrize("width", [1, 2])
def test_a_run_that_raises_an_error_counts_as_diverged(tmp_path: Path, width: int) -> None:
    listener = Words()
    spec, other = raising(tmp_path, 100.0, width), Store.open(tmp_path / "store")
    found = tune(spec, other, Here(), rules=RULES, listener=listener)
    assert found.status == "answered"
    assert any(math.isinf(loss) for profile in found.profiles.values() for loss in profile.values())
    words = "raised an error, which counts as diverged: ValueError: too large"
    said = [text for text in listener.words if words in text]
    assert said
    assert max(map(len, said)) < 500
    assert tune(spec, other, Here(), rules=RULES) == found


def test_a_method_none_of_whose_runs_can_be_trained_is_a_failure(tmp_path: Path) -> None:
    found = tune(raising(tmp_path, 0.0, 1), Store.open(tmp_path / "store"), Here(), rules=RULES)
    assert found.status == "failed"
    assert "no run could be trained: ValueError: too large" in found.reason


# Outputs of 0.003 times the gradients are small, and those of 30 times them are not.
@pytest.mark.parametrize(("lrs", "limit"), [((0.03, 30.0), 100.0), ((0.003, 0.003), 60.0)])
def test_errors_at_some_learning_rates_end_nothing_and_change_nothing_when_called_again(
    tmp_path: Path, lrs: tuple[float, float], limit: float
) -> None:
    spec, other = raising(tmp_path, limit, 2), Store.open(tmp_path / "store")
    methods = [method.model_copy(update={"lr": lr}) for method, lr in zip(spec.methods, lrs, strict=True)]
    spec = spec.model_copy(update={"methods": methods})
    listener = Words()
    found = tune(spec, other, Here(), rules=RULES, listener=listener)
    assert any("raised an error" in text for text in listener.words)
    assert found.status == "answered"
    assert tune(spec, other, Here(), rules=RULES) == found


def test_a_method_that_raises_at_every_learning_rate_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from memgrad import MemSGD\n"
        "class Broken(MemSGD):\n"
        "    def step(self, closure=None):\n"
        "        raise RuntimeError('it is broken')\n"
    )
    spec = raising(tmp_path, 1e9, 2)
    data = [{"optimizer": "SGD", "lr": 0.1}, {"name": "own", "optimizer": "own.py:Broken", "lr": 0.1}]
    whole = {"problem": spec.problem, "steps": 20, "metrics": ["loss"], "evaluate": {"times": 3}, "methods": data}
    found = tune(Spec.of(whole, folder=tmp_path), Store.open(tmp_path / "store"), Here(), rules=RULES)
    assert found.status == "failed"
    assert found.reason.startswith("no run of own could be trained: RuntimeError: it is broken")


def test_a_search_starts_at_what_was_found_for_a_method_with_a_grid(tmp_path: Path) -> None:
    first = {"name": "A", "optimizer": "SGD", "lr": 1.0, "grid": {"momentum": [0.0, 0.5]}}
    follower = {"name": "B", "optimizer": "MemSGD", "memory": "poly:2", "lr": "best of A"}
    whole = {"problem": raising(tmp_path, 1e9, 2).problem, "steps": 20, "metrics": ["loss"], "evaluate": {"times": 3}}
    spec, courses = Spec.of({**whole, "methods": [first, follower]}, folder=tmp_path), list[Course]()
    tune(spec, Store.open(tmp_path / "store"), Here(), rules=RULES, watcher=courses.append)
    begun = [set(course.searches) for course in courses]
    assert begun[0] == {"A [momentum=0.0]", "A [momentum=0.5]"}  # B waits for the first of these
    assert "B" in begun[-1]


def test_the_store_is_locked_from_the_first_round_to_the_last(tmp_path: Path) -> None:
    other, locked = Store.open(tmp_path / "store"), []
    tune(SPEC, other, Here(), rules=RULES, watcher=lambda _: locked.append((other.path / "holder.json").exists()))
    assert locked
    assert all(locked)
    assert not (other.path / "holder.json").exists()


def test_a_round_that_would_not_fit_is_not_started_if_the_pace_is_known(tmp_path: Path) -> None:
    other = Store.open(tmp_path / "store")
    short = tune(SPEC, other, Here(), rules=RULES, budget=Budget(seconds=60.0), pace=Pace(61.0, 1.0))
    assert (short.status, len(other.digests())) == ("exhausted", 0)


# --- lines to paste --------------------------------------------------------------------------------------------------

WINDOW = (
    "from memgrad import Memory, Polynomial\nwindow = Polynomial(3)\ndef made():\n    return Memory.parse('poly:3')\n"
)


def test_lines_have_the_schedule_and_the_clip_and_take_the_steps_that_were_trained(tmp_path: Path) -> None:
    """As pasted, both libraries take the steps of the definition: lr times factor times clipped gradient."""
    import jax.numpy as jnp

    method = Method(optimizer="MemSGD", lr=0.1, memory="inst")
    schedule = Schedule.parse("linear(warmup=0.25)")
    lines = lines_of(method, 0.5, schedule=schedule, steps=8, clip=2.0)
    model = torch.nn.Linear(1, 1, bias=False)
    start = model.weight.item()
    names: dict[str, Any] = {"model": model}
    exec(lines["torch"], names)  # lines of our own
    assert "# before each step: torch.nn.utils.clip_grad_norm_(model.parameters(), 2)" in lines["torch"]
    expected = [start]
    for k in range(8):
        expected.append(expected[-1] - 0.5 * schedule.factor(k, 8) * 2.0)
        model.weight.grad = torch.full((1, 1), 10.0)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2)
        names["optimizer"].step()
        names["scheduler"].step()
        assert model.weight.item() == pytest.approx(expected[-1], rel=1e-5)
    names = {}
    exec(lines["optax"], names)
    x = jnp.array(start)
    state = names["optimizer"].init(x)
    for k in range(8):
        updates, state = names["optimizer"].update(jnp.array(10.0), state, x)
        x = x + updates
        assert float(x) == pytest.approx(expected[k + 1], rel=1e-5)
    assert lines_of(method, 0.5, schedule=Schedule()) == lines_of(method, 0.5)
    averaged = lines_of(method, 0.5, averaged="poly:8")
    assert 'AveragedModel(model, avg_fn=memgrad.memory_average("poly:8"))' in averaged["torch"].splitlines()[-1]
    assert 'memgrad.transforms.average_iterates("poly:8")' in averaged["optax"].splitlines()[-1]


@pytest.mark.parametrize(("name", "given"), [("window", "memory=window"), ("made", "memory=made()")])
def test_the_line_for_a_memory_of_ones_own_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, given: str
) -> None:
    (tmp_path / "window_of_mine.py").write_text(WINDOW)
    options = {"optimizer": "MemSGD", "lr": 0.1, "memory": f"window_of_mine.py:{name}"}
    spec = Spec.of({"problem": "logistic", "steps": 2, "methods": [options]}, folder=tmp_path)
    line = lines_of(spec.methods[0], 0.1)["torch"]
    assert given in line
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {"model": torch.nn.Linear(1, 1)}
    exec(line, names)
    assert str(names["optimizer"].param_groups[0]["memory"]) == "poly:3"


def test_a_tuned_answer_has_the_schedule_in_its_lines(tmp_path: Path) -> None:
    spec = SPEC.model_copy(update={"schedule": "linear", "clip": 1.5})
    found = tune(spec, Store.open(tmp_path / "store"), Here(), rules=RULES)
    assert 'Schedule.parse("linear").over(30)' in found.lines["torch"]
    assert "optax.clip_by_global_norm(1.5)" in found.lines["optax"]
