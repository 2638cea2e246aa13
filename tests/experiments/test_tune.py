"""Tuning through the engine and the store: nothing is trained twice, and an interruption changes nothing."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from engine_trials import Here
from tiny_runs import SGD, small_spec

from memgrad.experiments import LocalEngine
from memgrad.experiments.driver import Silent, execute
from memgrad.experiments.planning.plan import RunGroup
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing.answer import Answer, Contestant
from memgrad.experiments.racing.course import Course
from memgrad.experiments.racing.portfolio import candidates_of, parse_candidate
from memgrad.experiments.racing.sequential import Rules
from memgrad.experiments.racing.tune import Budget, tune
from memgrad.experiments.racing.words import repeating
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.events import Event
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
