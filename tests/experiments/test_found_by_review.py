"""Faults that a review of experiments and tuning found, each as the case that showed it."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from memgrad.cli import app
from memgrad.experiments import Candidate, LocalEngine, Results, Spec, Store, Tuner, execute, results_of
from memgrad.experiments.planning.plan import expand, settings_in
from memgrad.experiments.planning.problem_choice import (
    OtherProblemError,
    ProblemChoice,
    facts_about,
    refuse_other,
)
from memgrad.experiments.racing.answer import Answer, Contestant, Measured
from memgrad.experiments.racing.candidates import checked
from memgrad.experiments.racing.portfolio import candidates_of, parse_candidate
from memgrad.experiments.racing.sequential import Dropped
from memgrad.experiments.racing.tune import tune
from memgrad.experiments.racing.words import dropped_in_words, repeating
from memgrad.experiments.training.events import Finished
from memgrad.experiments.training.train import Training
from memgrad.statistics import Estimate, ratio_of_means

OWN = """
import torch
from functools import partial
from memgrad.problems import Problem

def problem(smoothing=0.0, data=""):
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    loss = partial(torch.nn.functional.cross_entropy, label_smoothing=smoothing)
    return Problem("own", (x, y), lambda: torch.nn.Linear(3, 2), loss)
"""

SMALL: dict[str, Any] = {
    "problem": "covtype-softmax",
    "sample": True,
    "steps": 20,
    "seeds": 2,
    "evaluate": {"times": 5},
}
SGD: dict[str, Any] = {"name": "A", "optimizer": "SGD", "lr": 0.3}


def spec_of(*methods: dict[str, Any], **more: Any) -> Spec:
    return Spec.of({**SMALL, **more, "methods": list(methods)})


def trained(spec: Spec, selected: dict[str, float] | None = None, without: tuple[str, int] | None = None) -> Results:
    """The results of an experiment that is trained here, without a worker; one run of a method may be left out."""
    problem = spec.problem_choice.load()
    table = expand(spec, facts_about(spec.problem_choice, problem), selected or {})
    with TemporaryDirectory() as folder:
        store = Store.open(folder)
        with store.writing():
            for name, _, seed, run in settings_in(table):
                if (name, seed) != without:
                    *_, end = Training(problem, (run,)).events()
                    assert isinstance(end, Finished)
                    store.write(end.chunk)
        return Results.read(spec, store, table)


def tuned(train: Any, *candidates: Candidate) -> Tuner:
    tuner = Tuner(candidates)
    while trial := tuner.ask():
        tuner.tell(trial, train(trial))
    return tuner


def noisy(trial: Any, losses: dict[str, float], spread: float = 0.01) -> float:
    noise = random.Random(f"{trial.name} {trial.seed}").gauss(0, spread)
    return losses[trial.name] * math.exp(noise + math.log10(trial.lr / 0.003) ** 2)


def test_an_option_of_a_users_problem_makes_other_runs(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    common = {**SMALL, "problem": "own.py:problem", "sample": False, "methods": [SGD]}
    found = {}
    for options in ({}, {"smoothing": 0.0}, {"smoothing": 0.9}):
        spec = Spec.of({**common, "options": options}, folder=tmp_path)
        facts = facts_about(spec.problem_choice, spec.problem_choice.load())
        found[str(options)] = facts.fingerprint
    assert len(set(found.values())) == 3


def test_the_folder_of_a_file_that_an_option_names_does_not_matter(tmp_path: Path) -> None:
    found = set()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "own.py").write_text(OWN)
        (tmp_path / name / "x.txt").write_text("abc")
        own = {"problem": "own.py:problem", "sample": False, "methods": [SGD], "options": {"data": "x.txt"}}
        spec = Spec.of({**SMALL, **own}, folder=tmp_path / name)
        assert Path(str(dict(spec.problem_choice.options)["data"])).is_absolute()
        found.add(facts_about(spec.problem_choice, spec.problem_choice.load()).fingerprint)
    assert len(found) == 1


def test_if_all_methods_are_baselines_the_first_is_and_the_best_other_is_compared_with_it() -> None:
    assert [each.baseline for each in checked([parse_candidate("SGD"), parse_candidate("AdamW")])] == [True, False]
    answer = tuned(
        lambda trial: noisy(trial, {"A": 1.0, "B": 0.9}),
        Candidate("A", 3e-3, baseline=True),
        Candidate("B", 3e-3, baseline=True),
    ).answer()
    assert "diverged" not in answer.verdict
    assert answer.better
    assert answer.baseline is not None
    assert answer.baseline.name == "A"


def test_a_metric_that_grows_is_reached_from_below() -> None:
    results = trained(spec_of(SGD, metrics=["loss", "accuracy"]))
    curve = results.curve("A", "accuracy")
    target = float(curve.values[[0, -1]].mean())  # between the first and the last, for each seed
    expected = []
    for values in curve.values.T:
        k = next(k for k in range(1, len(values)) if values[k] >= target)
        share = (target - values[k - 1]) / (values[k] - values[k - 1])
        expected.append(curve.steps[k - 1] + share * (curve.steps[k] - curve.steps[k - 1]))
    assert results.steps_to_reach("A", "accuracy", target).value == pytest.approx(np.mean(expected))
    assert results.steps_to_reach("A", "accuracy", 2.0).value == math.inf
    assert results.steps_to_reach("A", "loss", 1e9).value == 0


def test_fresh_runs_are_paired_by_seed_in_whatever_order_they_are_told() -> None:
    tuner = Tuner([Candidate("A", 3e-3, baseline=True), Candidate("B", 3e-3)])
    while not tuner.done and tuner.course.stage != "fresh":
        tuner.tell_all({trial: Measured(noisy(trial, {"A": 1.0, "B": 0.9})) for trial in tuner.wanted()})
    trials = tuner.wanted()
    first = min(trial.seed for trial in trials)
    for trial in trials:  # half of the seeds of each, no seed of both
        if (trial.name == "A") == (trial.seed < first + 5):
            tuner.tell(trial, noisy(trial, {"A": 1.0, "B": 0.9}, spread=0.5))
    assert tuner.answer().ratio is None
    assert tuner.answer().verdict == "No answer yet: not all runs have been told."


def test_a_method_is_tested_on_its_own_seeds_where_settings_are_tuned_on_others() -> None:
    own = {**SGD, "lr": [0.3, 0.1], "seeds": [5, 6, 7]}
    spec = spec_of(own, tuning_seeds=[100])
    facts = facts_about(spec.problem_choice, spec.problem_choice.load())
    assert sorted(expand(spec, facts, {"A": 0.3})["A"][0.3]) == [5, 6, 7, 100]
    with pytest.raises(ValueError, match=r"got 100 in methods\[0\]\.seeds as well"):
        spec_of({**SGD, "seeds": [5, 100]}, tuning_seeds=[100])


def test_the_gradient_of_an_average_is_evaluated_on_the_examples_asked_for() -> None:
    evaluate = {"times": 3, "gradient_examples": 20, "loss_examples": 30}
    few, both = (
        trained(spec_of(SGD, metrics=metrics, evaluate=evaluate, seeds=1))
        for metrics in (["loss", "gradient_norm@poly:8"], ["loss", "gradient_norm", "gradient_norm@poly:8"])
    )
    series = [each.curve("A", "gradient_norm@poly:8").values.tolist() for each in (few, both)]
    assert series[0] == series[1]
    metrics = ["test_loss", "gradient_norm@poly:8"]
    alone = spec_of(SGD, metrics=metrics, select={"metric": "test_loss"}, evaluate=evaluate)
    facts = facts_about(alone.problem_choice, alone.problem_choice.load())
    assert {run.loss_examples for *_, run in settings_in(expand(alone, facts, {}))} == {None}  # nothing needs them


def test_a_bound_on_the_linear_scale_has_its_unit() -> None:
    dropped = Dropped("A", 4, "B", by=0.427)
    assert "by 0.427 times the median size of the losses or more" in dropped_in_words(dropped, "linear")
    assert "by 53.3 % or more" in dropped_in_words(dropped)


def test_all_that_a_tuner_is_told_is_in_its_file_and_a_second_tuner_does_not_overwrite_it(tmp_path: Path) -> None:
    pair = [Candidate("A", 3e-3, baseline=True), Candidate("B", 3e-3)]
    file = tmp_path / "t.json"
    first, second = (Tuner(pair, file=file) for _ in range(2))
    told = first.wanted()[:2]
    first.tell_all({trial: Measured(1.0) for trial in told})
    assert len(json.loads(file.read_text())["told"]) == 2
    with pytest.raises(ValueError, match=r"t\.json was written by another tuner"):
        second.tell(second.wanted()[0], 1.0)
    assert len(json.loads(file.read_text())["told"]) == 2
    with pytest.raises(ValueError, match="was told before"):
        first.tell_all({told[0]: Measured(1.0)})


def test_a_run_that_was_asked_for_before_the_time_was_up_may_still_be_told() -> None:
    tuner = Tuner([Candidate("A", 3e-3, baseline=True), Candidate("B", 3e-3)])
    trial = tuner.ask()
    assert trial is not None
    tuner.close()
    tuner.tell(trial, 1.0)
    assert tuner.done


def test_what_a_race_shows_are_the_runs_of_the_race() -> None:
    answer = tuned(
        lambda trial: noisy(trial, {"A": 1.0, "B": 0.5}, spread=0.001),
        Candidate("A", 3e-3, baseline=True),
        Candidate("B", 3e-3),
    ).answer()
    assert {len(losses) for losses in answer.raced.values()} == {answer.seeds}


def test_a_ratio_to_a_negative_mean_has_its_interval_the_right_way_round() -> None:
    found, mirrored = ratio_of_means([2, 4.1, 6], [-1, -2, -3]), ratio_of_means([2, 4.1, 6], [1, 2, 3])
    assert found.low < found.value < found.high
    assert (found.low, found.high) == pytest.approx((-mirrored.high, -mirrored.low))


def test_an_experiment_with_tuning_seeds_can_be_tuned(tmp_path: Path) -> None:
    methods = [{**SGD, "lr": [0.3, 0.1]}, {"name": "B", "optimizer": "MemSGD", "memory": "poly:2", "lr": 0.3}]
    spec = spec_of(*methods, tuning_seeds=[100], steps=5)
    from memgrad.experiments.racing.tune import Budget

    answer = tune(spec, Store.open(tmp_path), LocalEngine(1), budget=Budget(runs=8))
    assert answer.status == "exhausted"


def test_a_search_may_start_like_a_method_with_a_grid() -> None:
    grid = {**SGD, "grid": {"momentum": [0.0, 0.9]}}
    spec = spec_of(grid, {"name": "B", "optimizer": "MemSGD", "memory": "poly:2", "lr": "best of A"})
    assert [each.like for each in candidates_of(spec)] == ["", "", "A [momentum=0.0]"]


def test_the_reference_of_a_comparison_may_have_the_name_that_the_table_shows() -> None:
    grid = {**SGD, "grid": {"momentum": [0.0, 0.9]}}
    results = trained(spec_of(grid, {"name": "B", "optimizer": "AdamW", "lr": 0.01}))
    variant, _ = results.selected("A")
    by_variant, by_method = (results.compare("loss", name) for name in (variant, "A"))
    assert [each.difference for each in by_variant] == [each.difference for each in by_method]
    other = next(each.name for each in results.spec.methods[0].variants if each.name != variant)
    with pytest.raises(ValueError, match=r"is not what was selected for its method"):
        results.compare("loss", other)


def test_a_copy_of_a_copy_and_a_copied_schedule_that_is_too_long_are_refused_before_training() -> None:
    copies = [{"name": "B", "optimizer": "best of A", "lr": [0.1]}, {"name": "C", "optimizer": "best of B", "lr": 0.1}]
    with pytest.raises(ValueError, match="'C' has the optimizer of 'B', which has that of 'A' itself; name that one"):
        spec_of(SGD, *copies)
    long = {**SGD, "schedule": "linear(warmup=15)"}
    with pytest.raises(ValueError, match=r"methods\[0\]\.schedule"):
        spec_of(long, {"name": "B", "optimizer": "best of A", "steps_factor": 0.5})


def test_the_metric_that_selects_and_the_times_of_metrics_are_read_as_metrics_are() -> None:
    spec = spec_of(
        SGD,
        metrics=["loss", "loss@p=2"],
        select={"metric": "loss@p=2"},
        evaluate={"times": {"loss": 3, "loss@p=2": 2}},
    )
    assert spec.select.metric == "loss@poly:2"
    assert trained(spec).final("A", "loss@poly:2").shape == (2,)


def test_a_seed_that_is_not_finished_is_left_out_of_a_comparison() -> None:
    methods = [{**SGD, "lr": [0.3, 0.1]}, {"name": "B", "optimizer": "AdamW", "lr": [0.01, 0.02]}]
    spec = spec_of(*methods, seeds=3, tuning_seeds=[100])
    tuning = trained(spec)
    selected = {name: tuning.selected_lr(name) for name in ("A", "B")}
    partly = trained(spec, selected, without=("B", 2))
    finals = [partly.final(name, "loss")[:2] for name in ("B", "A")]
    [found] = [each for each in partly.compare("loss", reach=2.0) if each.difference is not None]
    assert found.difference is not None
    assert found.difference.value == pytest.approx(np.mean(np.log(finals[0]) - np.log(finals[1])))
    assert found.reach is not None
    assert (found.difference.n, found.reach.n) == (2, 2)


def test_exported_runs_have_their_schedule_and_their_clip() -> None:
    methods = [SGD, {**SGD, "name": "B", "schedule": "linear"}, {**SGD, "name": "C", "clip": 0.01}]
    table = trained(spec_of(*methods, seeds=1)).table()
    pairs = zip(table["schedule"], table["clip"], strict=True)
    settings = {(str(schedule), None if math.isnan(clip) else float(clip)) for schedule, clip in pairs}
    assert settings == {("constant", None), ("linear", None), ("constant", 0.01)}


def test_event_files_of_methods_that_differ_in_schedule_or_clip_are_apart(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from memgrad.experiments.driver import Silent
    from memgrad.experiments.storing.tensorboard import EventFiles

    methods = [SGD, {**SGD, "name": "B", "schedule": "linear"}, {**SGD, "name": "C", "clip": 0.01}]
    methods += [{"name": "D", "optimizer": "best of A", "steps_factor": 0.5}]
    spec = spec_of(*methods, seeds=1)
    facts = facts_about(spec.problem_choice, spec.problem_choice.load())
    table = expand(spec, facts, {"A": 0.3})
    files = EventFiles(tmp_path, spec, Silent())
    names = {name: files._name(next(iter(of_lr[0.3].values()))) for name, of_lr in table.items()}
    assert names == {"A": "A", "B": "B", "C": "C", "D": "A steps=10"}


def test_compare_names_the_methods_that_can_be_the_reference(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text(
        'problem = "covtype-softmax"\nsample = true\nsteps = 5\nseeds = 1\nevaluate.times = 2\n[[methods]]\n'
        'name = "A"\noptimizer = "SGD"\nlr = 0.1\ngrid = { momentum = [0.0, 0.9] }\n'
    )
    spec, store = Spec.load(tmp_path / "e.toml"), Store.open(tmp_path / "store")
    execute(spec, store, LocalEngine(1))
    variant = next(v.name for v in spec.methods[0].variants if v.name != results_of(spec, store).selected("A")[0])
    words = ["compare", str(tmp_path / "e.toml"), "--store", str(tmp_path / "store"), "--reference", variant]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 2
    assert "is not what was selected" in result.output


def test_while_settings_are_being_tuned_nothing_is_tested() -> None:
    methods = [{**SGD, "lr": [0.3, 0.1]}, {"name": "B", "optimizer": "AdamW", "lr": [0.01, 0.02]}]
    tuning = trained(spec_of(*methods, seeds=3, tuning_seeds=[100, 101, 102]))
    sgd, adamw = tuning.compare("loss")
    assert math.isfinite(sgd.final.value)  # what is known so far is shown
    assert adamw.difference is not None
    assert adamw.difference.n == 0
    assert math.isnan(adamw.p_value)


def test_a_tuned_variant_of_a_grid_can_be_repeated() -> None:
    memories = ["poly:2", "inst + 0.5*poly:8 + 0.25*poly:16 + 0.125*poly:32 + 0.0625*poly:64 + 0.03125*poly:128"]
    spec = spec_of(SGD, {"name": "mem", "optimizer": "MemSGD", "lr": 1.0, "grid": {"memory": memories}})
    name = candidates_of(spec)[2].name
    assert len(name) > 80
    one = Contestant("A", 0.3, Estimate(1.0, 0.9, 1.1, 10))
    text = repeating(spec, Answer("answered", "", challenger=replace(one, name=name), baseline=one))
    _, second = Spec.parse(text).methods
    assert second.recipe.to_dict() == spec.method("mem").variants[1].recipe.to_dict()
    assert second.name == name[:77] + "..."


def test_a_method_may_not_have_the_name_of_a_variant() -> None:
    grid = {"name": "A", "optimizer": "MemSGD", "lr": 1.0, "grid": {"memory": ["poly:2", "poly:4"]}}
    with pytest.raises(ValueError, match=r"two methods are called 'A \[memory=poly:2\]'; give them different names"):
        spec_of(grid, {**SGD, "name": "A [memory=poly:2]"})


def test_the_file_of_a_tuner_is_about_candidates_with_the_same_options(tmp_path: Path) -> None:
    def of(memory: str) -> Tuner:
        mine = Candidate("mine", options={"memory": memory, "code": print})
        return Tuner([Candidate("SGD", baseline=True), mine], file=tmp_path / "tuning.json")

    first = of("poly:2")
    trial = first.ask()
    assert trial is not None
    first.tell(trial, 1.0)
    assert of("poly:2").course == first.course
    with pytest.raises(ValueError, match=r"is about 'mine' with the options .*poly:2.*, got .*poly:9.*another file"):
        of("poly:9")


def test_methods_in_words_have_names_that_tell_them_apart() -> None:
    names = [parse_candidate(text).name for text in ("AdamW(weight_decay=0.1)", "AdamW(eps=0.1)")]
    assert names == ["AdamW weight_decay 0.1", "AdamW eps 0.1"]
    assert parse_candidate(f"/{90 * 'a'}/mine.py:Mine").name == "mine.py:Mine"
    assert len(parse_candidate(f"MemSGD(memory='inst + {30 * 'poly:2 + '}poly:3')").name) == 80


def test_a_text_file_that_changes_after_planning_is_refused_by_a_worker(tmp_path: Path) -> None:
    text = tmp_path / "mine.txt"
    text.write_text(400 * "hello, world. ")
    choice = ProblemChoice("char-transformer", options=(("context", 8), ("data", str(text)), ("width", 16)))
    facts = facts_about(choice, choice.load())
    refuse_other(choice.load(), facts.parts)
    text.write_text(400 * "something else. ")
    with pytest.raises(OtherProblemError, match="or its file has changed since"):
        refuse_other(choice.load(), facts.parts)
    assert not facts_about(ProblemChoice("logistic"), ProblemChoice("logistic").load()).parts
