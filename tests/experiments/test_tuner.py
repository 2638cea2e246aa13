"""Tuning as a whole, with losses that are known: what is asked, what is answered, and what is refused."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing.answer import Answer, Measured, steps_to_stay_below
from memgrad.experiments.racing.candidates import Candidate, Configuration, checked
from memgrad.experiments.racing.course import FIRST_SEED, Trial
from memgrad.experiments.racing.learning_rates import place_of
from memgrad.experiments.racing.portfolio import candidates_of, parse_candidate, portfolio
from memgrad.experiments.racing.sequential import Rules
from memgrad.experiments.racing.tuner import Tuner, measured
from memgrad.experiments.racing.words import answer_in_words, course_in_words

Loss = Callable[[Trial], float]

THREE = (Candidate("base", lr=0.01, baseline=True), Candidate("good", lr=0.01), Candidate("bad", lr=0.01, like="good"))
GAPS = {"base": 0.0, "good": -0.2, "bad": 0.5}


def parabola(trial: Trial, *, spread: float = 0.02, best: float = 0.1) -> float:
    """A loss with its optimum at a known learning rate; the noise has a part that all methods share with a seed."""
    shared = np.random.default_rng(trial.seed).normal()
    # Not hash(): it differs from process to process.
    own = np.random.default_rng([trial.seed, trial.place + 100, *trial.name.encode()]).normal()
    curve = 0.01 * (trial.place - place_of(best)) ** 2
    return math.exp(GAPS[trial.name] + curve + 0.1 * shared + spread * own)


def finished(tuner: Tuner, loss: Loss = parabola) -> Answer:
    while trial := tuner.ask():
        tuner.tell(trial, loss(trial))
    assert tuner.done
    return tuner.answer()


def test_the_better_method_is_found_at_its_learning_rate_with_its_gain() -> None:
    answer = finished(Tuner(THREE))
    assert answer.status == "answered"
    assert answer.better
    assert answer.pick is not None
    assert (answer.pick.name, answer.pick.lr) == ("good", 0.1)
    assert answer.ratio is not None
    error = 0.02 * math.sqrt(2 / answer.ratio.n)  # of the mean difference of logarithms
    assert math.log(answer.ratio.value) == pytest.approx(-0.2, abs=4 * error)
    assert {each.name for each in answer.dropped} >= {"bad, lr 0.1"}
    assert len(answer.raced) == 3  # without the neighbors that refine learning rates
    assert "Use good at lr 0.1: its loss is" in answer.verdict
    assert json.loads(json.dumps(answer.to_dict()))["pick"] == {"name": "good", "lr": 0.1}


def test_nothing_is_chosen_on_the_seeds_of_the_answer_and_stages_have_their_own() -> None:
    asked: list[Trial] = []
    finished(Tuner(THREE), lambda trial: asked.append(trial) or parabola(trial))  # type: ignore[func-returns-value]
    seeds = {stage: {trial.seed for trial in asked if trial.stage == stage} for stage in FIRST_SEED}
    assert not seeds["fresh"] & (seeds["search"] | seeds["race"] | seeds["refine"])
    assert not seeds["search"] & seeds["race"]
    assert len(asked) == len({(trial.name, trial.place, trial.seed) for trial in asked})  # nothing twice


def test_the_course_depends_on_the_losses_and_not_on_their_order() -> None:
    """All that is wanted is told backward, and with gaps: the runs and the answer are the same."""
    in_order = Tuner(THREE)
    expected = finished(in_order)
    backward = Tuner(THREE)
    while wants := backward.wanted():
        for trial in reversed(wants):
            backward.tell(trial, parabola(trial))
    assert backward.answer() == expected


def test_a_tuner_that_was_killed_continues_from_its_file_to_the_same_answer(tmp_path: Path) -> None:
    expected = finished(Tuner(THREE))
    file = tmp_path / "tuning.json"
    for _ in range(12):  # dies after every few runs
        tuner = Tuner(THREE, file=file)
        for _ in range(7):
            if trial := tuner.ask():
                tuner.tell(trial, parabola(trial))
    answer = finished(Tuner(THREE, file=file))
    assert answer == expected
    with pytest.raises(ValueError, match="is about others"):
        Tuner(THREE[:2], file=file)
    file.write_text("{}")
    with pytest.raises(ValueError, match="is not a file of a tuner"):
        Tuner(THREE, file=file)


def test_equal_methods_are_recommended_no_more_often_than_the_interval_allows() -> None:
    """The challenger is the best of two by luck; on fresh seeds it is shown to be better in 2.5 % of the cases."""
    names, better, races = "abc", 0, 60
    for number in range(races):
        rng = np.random.default_rng(number)
        tuner = Tuner([Candidate(name, lr=0.1) for name in names], rules=Rules(most=6, refine=2))
        while trials := tuner.wanted():
            tuner.tell_all(
                {trial: Measured(math.exp(0.02 * rng.normal() + 0.01 * (trial.place + 4) ** 2)) for trial in trials}
            )
        better += tuner.answer().better
    # Refined on 2 seeds only, the learning rates of the two differ somewhat: so not the 2.5 % of a t-interval.
    assert better <= stats.binom.ppf(0.999, races, 0.05)


def test_a_budget_that_ends_early_says_so_and_a_larger_one_continues() -> None:
    small = Tuner(THREE, runs=20)
    answer = finished(small)
    assert (answer.status, answer.pick) == ("exhausted", None)
    assert "before the search for learning rates was complete" in answer.reason
    enough = finished(Tuner(THREE, runs=95))
    assert enough.runs <= 95
    middle = finished(Tuner(THREE, runs=75))
    assert middle.runs <= 75
    whole = finished(Tuner(THREE))
    assert finished(Tuner(THREE, runs=whole.runs + 100)) == whole
    with pytest.raises(ValueError, match="at least 1 run, got runs=0"):
        Tuner(THREE, runs=0)


def test_when_the_time_is_up_only_fresh_runs_are_asked_for() -> None:
    tuner = Tuner(THREE)
    while not tuner.course.standing.seeds:
        trial = tuner.ask()
        assert trial is not None
        tuner.tell(trial, parabola(trial))
    tuner.close()
    assert [trial.stage for trial in tuner.wanted()] == ["fresh"] * 20
    early = Tuner(THREE)
    early.close()
    assert early.done
    assert early.answer().status == "exhausted"


def test_divergence_everywhere_is_a_failure_and_of_one_method_is_not() -> None:
    answer = finished(Tuner(THREE), lambda _: math.nan)
    assert answer.status == "failed"
    assert "every run diverged: base at learning rates from 1e-06 to 0.1" in answer.reason
    answer = finished(Tuner(THREE), lambda trial: math.inf if trial.name == "good" else parabola(trial))
    assert answer.status == "answered"
    assert answer.pick is not None
    assert answer.pick.name == "base"


def test_a_learning_rate_that_diverges_on_a_seed_of_the_race_gives_way_to_a_smaller_one() -> None:
    def loss(trial: Trial) -> float:
        unlucky = trial.name == "good" and trial.lr >= 0.1 and trial.seed == FIRST_SEED["race"] + 1
        return math.inf if unlucky else parabola(trial)

    answer = finished(Tuner(THREE), loss)
    assert answer.pick is not None
    assert (answer.pick.name, answer.pick.lr) == ("good", 0.056)


def test_losses_that_are_not_positive_are_compared_as_they_are() -> None:
    answer = finished(Tuner(THREE), lambda trial: 10 * math.log(parabola(trial)))
    assert answer.scale == "linear"
    assert answer.pick is not None
    assert answer.pick.name == "good"
    assert "difference" in answer.to_dict()


def test_steps_saved_come_from_the_losses_on_the_way() -> None:
    def curve(trial: Trial) -> list[float]:
        # 1/k, twice as fast for the better one: it is at the other's final loss after half of the steps.
        speed = 2.0 if trial.name == "good" else 1.0
        noise = 1 + 1e-3 * np.random.default_rng([trial.seed, len(trial.name)]).normal()
        return [noise * (1 + abs(trial.place + 4)) / (1 + speed * k) for k in range(0, 1001, 10)]

    tuner = Tuner(THREE[:2])
    while trial := tuner.ask():
        tuner.tell(trial, curve(trial), steps=range(0, 1001, 10))
    saved = tuner.answer().steps_saved
    assert saved is not None
    assert saved.value == pytest.approx(0.5, abs=0.05)  # the final loss is a mean over the last evaluations


def test_a_run_reaches_its_own_final_loss_only_at_its_end() -> None:
    noise = np.random.default_rng(0).normal(size=100)
    run = Measured(0.0, tuple(range(100)), tuple(noise.tolist()))
    assert steps_to_stay_below(run, 0.0) > 90  # the first passage would be at one of the first steps


@pytest.mark.parametrize(
    ("losses", "complaint"),
    [("much", "which are numbers, got 'much'"), ([], "at least one loss"), (None, "which are numbers, got None")],
)
def test_what_is_not_a_loss_is_refused(losses: object, complaint: str) -> None:
    tuner = Tuner(THREE)
    trial = tuner.ask()
    assert trial is not None
    with pytest.raises(ValueError, match=complaint):
        tuner.tell(trial, losses)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValueError, match="increasing, one for each of the 2 losses"):
        tuner.tell(trial, [1.0, 2.0], steps=[1, 1])
    tuner.tell(trial, 1.0)
    with pytest.raises(ValueError, match="was told before"):
        tuner.tell(trial, 1.0)
    with pytest.raises(ValueError, match="is not needed now"):
        tuner.tell(Trial("base", 99, 0, "search"), 1.0)


def test_a_run_that_was_asked_for_is_not_offered_again_unless_it_is_forgotten() -> None:
    tuner = Tuner(THREE)
    trials = []
    while trial := tuner.ask():
        trials.append(trial)
    assert len(trials) == 6  # three learning rates of two methods; the third waits for one of them
    assert not tuner.done
    tuner.forget(trials[0])
    assert tuner.ask() == trials[0]


# --- candidates ------------------------------------------------------------------------------------------------------


def test_a_portfolio_of_one_is_refused_and_so_are_names_that_repeat() -> None:
    with pytest.raises(ValueError, match="at least two methods to compare, got AdamW"):
        checked([Candidate("AdamW")])
    with pytest.raises(ValueError, match="two candidates are called 'a'"):
        checked([Candidate("a"), Candidate("a")])
    with pytest.raises(ValueError, match="starts like 'c', which is not in the race"):
        checked([Candidate("a"), Candidate("b", like="c")])
    with pytest.raises(ValueError, match="starts like itself"):
        checked([Candidate("a", like="b"), Candidate("b", like="a")])
    with pytest.raises(ValueError, match="needs a finite lr > 0, got lr=0"):
        Candidate("a", lr=0)
    assert checked([Candidate("a"), Candidate("b")])[0].baseline


def test_the_portfolio_can_be_trained_and_has_the_gain_of_a_known_spectrum() -> None:
    for nu in (None, 2.0):
        methods = [{"name": each.name, "lr": each.lr, **each.options} for each in portfolio(nu=nu)]
        spec = Spec.of({"problem": "logistic", "steps": 5, "methods": methods})
        assert all(method.recipe.method is not None for method in spec.methods)  # so that they are stacked
    assert sum("(1+k)^0.5*poly:8" in each.name for each in portfolio(nu=2.0)) == 2
    with pytest.raises(ValueError, match="finite nu > 1"):
        portfolio(nu=1.0)


@pytest.mark.parametrize(
    "text", ["MemSGD(memory=", "MemSGD('poly:2')", "(lr=1)", "MemSGD(**x)", "MemSGD(memory=open('x'))", ""]
)
def test_a_method_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a method is OPTIMIZER or OPTIMIZER"):
        parse_candidate(text)


def test_the_methods_of_an_experiment_start_where_it_looked() -> None:
    spec = Spec.of(
        {
            "problem": "logistic",
            "steps": 5,
            "methods": [
                {"optimizer": "SGD", "lr": [1.0, 0.1, 0.01]},
                {"optimizer": "MemSGD", "memory": "poly:2", "lr": "best of SGD"},
            ],
        }
    )
    first, second = candidates_of(spec)
    assert (first.lr, first.baseline, second.like, second.baseline) == (0.1, True, "SGD", False)


def test_a_grid_over_options_makes_a_candidate_for_each_combination_and_other_lengths_are_refused() -> None:
    grid = {"optimizer": "MemSGD", "lr": 1.0, "grid": {"memory": ["poly:2", "poly:8"]}}
    spec = Spec.of({"problem": "logistic", "steps": 5, "methods": [{"optimizer": "SGD", "lr": 1.0}, grid]})
    names = [candidate.name for candidate in candidates_of(spec)]
    assert names == ["SGD", "MemSGD [memory=poly:2]", "MemSGD [memory=poly:8]"]
    longer = {"name": "longer", "optimizer": "SGD", "lr": 1.0, "steps_factor": 2.0}
    spec = Spec.of({"problem": "logistic", "steps": 5, "methods": [{"optimizer": "SGD", "lr": 1.0}, longer]})
    with pytest.raises(ValueError, match=r"method 'longer' cannot race: .* steps_factor=2"):
        candidates_of(spec)


def test_words_name_the_leader_what_was_dropped_and_the_error_rate() -> None:
    tuner = Tuner(THREE)
    said = []
    while wants := tuner.wanted():
        said.append(course_in_words(tuner.course))
        for trial in wants:
            tuner.tell(trial, parabola(trial))
    assert any(line.startswith("Search for learning rates: 2 methods to go, 6 runs next") for line in said)
    assert any("leads, then" in line for line in said)
    text = answer_in_words(tuner.answer())
    assert "bad, lr 0.1 is worse than good, lr 0.1 by" in text
    assert "wrong with probability at most 0.05" in text
    assert str(Configuration("good", -4)) == "good, lr 0.1"


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


def test_a_file_knows_options_that_are_functions_in_another_process(tmp_path: Path) -> None:
    script = (
        "import functools, sys\n"
        "from memgrad.experiments import Candidate, Tuner\n"
        "def make(): pass\n"
        "options = {'a': make, 'b': functools.partial(make), 'c': object()}\n"
        "tuner = Tuner([Candidate('A'), Candidate('B', options=options)], file=sys.argv[1])\n"
        "tuner.tell(tuner.ask(), 1.0)\n"
        "print(sum(map(len, tuner._measured.values())))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "t.json")]
    told = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert told == ["1\n", "2\n"]


def test_the_file_of_another_problem_is_refused_and_the_order_of_candidates_does_not_matter(tmp_path: Path) -> None:
    pair, file = [Candidate("A"), Candidate("B")], tmp_path / "t.json"
    first = Tuner(pair, file=file, problem="resnet, 100 steps")
    trial = first.ask()
    assert trial is not None
    first.tell(trial, 1.0)
    with pytest.raises(ValueError, match=r"is about the problem 'resnet, 100 steps', got problem='other'"):
        Tuner(pair, file=file, problem="other")
    assert Tuner(pair[::-1], file=file).course.runs == 1
    with pytest.raises(ValueError, match="is not a file of a tuner"):
        Tuner(pair, file=tmp_path)
    file.write_text(file.read_text().replace(f'"place": {trial.place}', '"place": 1e999'))
    with pytest.raises(ValueError, match="is not a file of a tuner"):
        Tuner(pair, file=file)


@pytest.mark.parametrize(
    "loss", [np.float32(2), np.array(2.0), torch.tensor(2.0), np.int64(2), [3, 2], torch.ones(3) * 2]
)
def test_all_kinds_of_numbers_may_be_told(loss: Any) -> None:
    assert measured(loss).final == 2


@pytest.mark.parametrize("losses", ["12", b"0.5", {0.5: 1}, None])
def test_texts_and_tables_are_no_losses(losses: Any) -> None:
    with pytest.raises(ValueError, match="which are numbers, got"):
        measured(losses)


def test_steps_must_be_finite() -> None:
    for steps in ([0, math.nan], [0, math.inf], [math.nan, 1], [-5, 0]):
        with pytest.raises(ValueError, match="steps must be finite, at least 0 and increasing"):
            measured([1.0, 0.5], steps)


def test_a_file_with_steps_below_0_is_read_without_them(tmp_path: Path) -> None:
    """They were not refused before; no share of steps follows from them."""
    file = tmp_path / "tuning.json"
    expected = finished(Tuner(THREE, file=file))
    whole = json.loads(file.read_text())
    for row in whole["told"]:
        row |= {"steps": [-10.0, -5.0, 0.0], "losses": [2.0, 1.0, row["final"]]}
    file.write_text(json.dumps(whole))
    answer = Tuner(THREE, file=file).answer()
    assert (answer.verdict, answer.steps_saved) == (expected.verdict, None)


def test_a_method_in_words_may_be_given_a_name_and_no_settings_of_files() -> None:
    named = parse_candidate("AdamW(name='x', weight_decay=0.1)")
    assert (named.name, named.options) == ("x", {"optimizer": "AdamW", "weight_decay": 0.1})
    for setting in ("grid={'lr': [1]}", "seeds=3", "steps_factor=0.5"):
        with pytest.raises(ValueError, match="is of an experiment's file, which --like takes"):
            parse_candidate(f"AdamW({setting})")


def test_a_smaller_budget_than_before_says_that_fresh_seeds_are_missing_and_nothing_about_divergence(
    tmp_path: Path,
) -> None:
    """The first tuner is stopped at every moment of measuring the answer; the second may not use one run more."""
    first = Tuner(THREE, file=tmp_path / "tuner.json")
    told = 0
    while trial := first.ask():
        first.tell(trial, parabola(trial))
        told += 1
        if trial.stage != "fresh" or first.done:
            continue
        answer = Tuner(THREE, file=tmp_path / "tuner.json", runs=told).answer()
        assert (answer.status, answer.pick) == ("exhausted", None)
        assert answer.verdict.startswith("No answer: the budget ended before fresh seeds were complete")
    assert first.answer().pick is not None
