"""Whole tunings of methods with known losses, at their borders: budgets, divergence, ties, losses of 0 and below."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from memgrad.experiments.racing.answer import Answer, Measured
from memgrad.experiments.racing.candidates import Candidate
from memgrad.experiments.racing.course import ENDS, FIRST_SEED, Trial
from memgrad.experiments.racing.learning_rates import HALF, Search, learning_rate
from memgrad.experiments.racing.sequential import Rules
from memgrad.experiments.racing.tuner import Tuner
from memgrad.experiments.racing.words import course_in_words
from memgrad.figures import race

Loss = Callable[[Trial], float]
RULES = Rules(first=3, most=6, refine=4, fresh=4)


def noise(trial: Trial) -> float:
    return random.Random(str(trial)).gauss(0, 1)


def tuned(loss: Loss, *names: str, runs: int | None = None, rules: Rules = RULES) -> tuple[Answer, list[list[Trial]]]:
    """The answer, and the runs that were trained, round by round; the first name is the baseline."""
    tuner = Tuner([Candidate(name, lr=0.1, baseline=name == names[0]) for name in names], rules=rules, runs=runs)
    rounds = []
    while wants := tuner.wanted():
        rounds.append([*wants])
        tuner.tell_all({trial: Measured(loss(trial)) for trial in wants})
    return tuner.answer(), rounds


def nearly_equal(trial: Trial) -> float:
    """Methods that differ less than seeds, best at learning rate 0.1: the race goes on as long as it may."""
    return math.exp(0.01 * "abcd".index(trial.name) + 0.01 * (trial.place + 4) ** 2 + 0.03 * noise(trial))


# --- budgets ---------------------------------------------------------------------------------------------------------


def test_a_budget_that_ends_a_race_says_after_how_many_seeds() -> None:
    """There are looks after 3, 4 and 6 seeds; equal methods all stay in the race."""
    whole, _ = tuned(nearly_equal, *"abcd")
    reasons = [tuned(nearly_equal, *"abcd", runs=runs)[0].reason for runs in range(1, whole.runs + 1)]
    unrefined = "; the learning rates of the last two were not refined"
    judged = dict.fromkeys(reason.removesuffix(unrefined) for reason in reasons if "seeds, with" in reason)
    assert list(judged) == [f"the budget ended after {n} seeds, with 4 methods in the race" for n in (3, 4)]
    assert reasons[-1] == whole.reason == ENDS["undecided"]


def test_a_budget_that_ends_when_all_learning_rates_have_just_given_way_speaks_of_the_next_look() -> None:
    def loss(trial: Trial) -> float:
        late = (trial.place, trial.seed) == (-4, FIRST_SEED["race"] + 3)
        return math.inf if late else math.exp(0.1 * (trial.place + 4) ** 2 + 0.01 * noise(trial))

    tuner = Tuner([Candidate("a", lr=0.1, baseline=True), Candidate("b", lr=0.1)], rules=RULES)
    while (wants := tuner.wanted()) and (not tuner.course.standing.seeds or tuner.course.standing.leader):
        tuner.tell_all({trial: Measured(loss(trial)) for trial in wants})
    tuner.close()
    assert tuner.answer().reason.startswith("the budget ended before the next look at the race was complete, with ")


# --- what decides ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(20))
def test_a_negative_loss_on_a_fresh_seed_changes_nothing_that_was_chosen(number: int) -> None:
    """c scatters so much that means of losses and of their logarithms rank it differently."""

    def loss(trial: Trial, first_fresh: float | None) -> float:
        if first_fresh is not None and trial.seed == FIRST_SEED["fresh"]:
            return first_fresh
        best = 0.03 * (trial.place + 4) ** 2 + 0.02 * random.Random(f"{number} {trial}").gauss(0, 1)
        lucky = random.Random(f"{number} {trial.seed}").random() < 0.5
        return {"a": 1.0, "b": 0.85, "c": 0.225 if lucky else 1.62}[trial.name] * math.exp(best)

    usual, rounds = tuned(lambda trial: loss(trial, None), *"abc")
    negative, others = tuned(lambda trial: loss(trial, -0.01), *"abc")
    assert rounds == others
    assert (usual.scale, usual.ratio_scale) == ("log", "log")
    assert (negative.scale, negative.ratio_scale) == ("log", "linear")
    assert usual.dropped == negative.dropped
    for one, other in ((usual.challenger, negative.challenger), (usual.baseline, negative.baseline)):
        assert one is not None
        assert other is not None
        assert (one.name, one.lr) == (other.name, other.lr)


# --- budgets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", range(56, 132, 3))
def test_a_budget_is_kept_and_stages_follow_each_other_once(runs: int) -> None:
    answer, rounds = tuned(nearly_equal, *"abcd", runs=runs)
    trained = sum(map(len, rounds))
    assert trained == answer.runs <= runs
    stages = [each[0].stage for each in rounds]
    assert stages == sorted(stages, key=["search", "race", "refine", "fresh"].index)
    # 40 runs of the search, 12 of the first look and 8 fresh ones: from then on there is an answer.
    assert (answer.pick is not None) == (runs >= 60) == (stages[-1] == "fresh")


@pytest.mark.parametrize("runs", range(70, 132, 3))
def test_with_a_budget_the_last_two_are_both_refined_or_neither_is(runs: int) -> None:
    def steep(trial: Trial) -> float:  # the search finds 0.1, and more seeds say 0.18 for all
        best = -4 if trial.seed < FIRST_SEED["refine"] else -3
        return math.exp(0.01 * "abcd".index(trial.name) + (trial.place - best) ** 2 + 0.001 * noise(trial))

    answer, _ = tuned(steep, *"abcd", runs=runs)
    assert answer.challenger is not None
    assert answer.baseline is not None
    lrs = {answer.challenger.lr, answer.baseline.lr}
    assert len(lrs) == 1
    unrefined = lrs == {0.1}
    assert unrefined == ("not refined" in answer.reason)
    if unrefined:
        assert answer.status == "exhausted"  # a larger budget may give another answer


@pytest.mark.parametrize("runs", range(84, 96))
def test_a_budget_may_end_when_another_learning_rate_has_just_stepped_in(runs: int) -> None:
    def loss(trial: Trial) -> float:  # b diverges at the learning rate found, on the fourth seed of the race
        late = (trial.name, trial.place, trial.seed) == ("b", -4, FIRST_SEED["race"] + 3)
        return math.inf if late else nearly_equal(trial)

    answer, rounds = tuned(loss, *"abcd", runs=runs)
    assert sum(map(len, rounds)) == answer.runs <= runs
    assert answer.pick is not None
    assert set(answer.undecided) <= answer.raced.keys()


@pytest.mark.parametrize("runs", range(64, 132, 3))
def test_a_baseline_that_a_budget_left_without_seeds_in_the_race_is_measured_on_fresh_ones(runs: int) -> None:
    def loss(trial: Trial) -> float:  # a, the only baseline, diverges at its learning rate on the fourth seed
        late = (trial.name, trial.place, trial.seed) == ("a", -3, FIRST_SEED["race"] + 3)
        return math.inf if late else nearly_equal(trial)

    answer, rounds = tuned(loss, *"abcd", runs=runs)
    assert answer.found["a"] == 0.18
    assert sum(map(len, rounds)) == answer.runs <= runs
    assert answer.baseline is not None
    assert "every baseline diverged" not in answer.verdict


@pytest.mark.parametrize("number", range(20))
def test_a_budget_is_kept_also_if_four_workers_finish_in_any_order(number: int) -> None:
    rng = random.Random(number)
    for runs in range(5, 50, 4):
        tuner = Tuner([Candidate(name, lr=0.1) for name in "ab"], rules=RULES, runs=runs)
        running, told = list[Trial](), 0
        while True:
            while len(running) < 4 and (trial := tuner.ask()):
                running.append(trial)
            if not running:
                break
            trial = running.pop(rng.randrange(len(running)))
            tuner.tell(trial, math.exp(0.02 * (trial.place + number % 7) ** 2 + 0.05 * noise(trial)))
            told += 1
        assert told == tuner.answer().runs <= runs


@pytest.mark.parametrize("workers", [4, 12])
def test_a_budget_is_kept_also_if_runs_under_way_become_needless(workers: int) -> None:
    """In refining, smaller learning rates are better and larger ones diverge, whose other seeds are then needless."""

    def loss(trial: Trial) -> float:
        draw, late = random.Random(f"3 {trial.name} {trial.place} {trial.seed}"), trial.seed >= FIRST_SEED["refine"]
        if late and trial.seed < FIRST_SEED["fresh"] and trial.place > -4 and draw.random() < 0.6:
            return math.nan
        return math.exp(0.02 * (trial.place + 4 + 3 * late) ** 2 + 0.01 * draw.gauss(0, 1))

    for runs in range(70, 115, 3):
        rng = random.Random(f"3 {runs}")
        tuner = Tuner([Candidate(name, lr=0.1) for name in "ab"], rules=Rules(first=2, most=2, fresh=2), runs=runs)
        running, told = list[Trial](), 0
        while True:
            while len(running) < workers and (trial := tuner.ask()):
                running.append(trial)
            if not running:
                break
            trial = running.pop(rng.randrange(len(running)))
            tuner.tell(trial, loss(trial))
            told += 1
        assert told == tuner.answer().runs <= runs


@pytest.mark.parametrize(("small", "large"), [(90, 120), (110, 115), (110, 120), (110, 140), (110, 160)])
def test_a_larger_budget_leads_to_what_it_would_have_led_to_at_once(small: int, large: int, tmp_path: Path) -> None:
    def answer(runs: int, file: Path | None = None) -> Answer:
        tuner = Tuner([Candidate(name, lr=0.1) for name in "abc"], runs=runs, file=file)
        while wants := tuner.wanted():
            tuner.tell_all(
                {trial: Measured(math.exp(0.02 * (trial.place + 4) ** 2 + 0.03 * noise(trial))) for trial in wants}
            )
        return tuner.answer()

    file = tmp_path / "tuning.json"
    first = answer(small, file)
    assert (first.status, first.challenger is not None) == ("exhausted", True)
    at_once, later = answer(large), answer(large, file)
    assert later == at_once
    assert later.runs >= first.runs


@pytest.mark.parametrize("runs", [48, 53, 80, None])
def test_runs_that_another_scale_makes_needless_count_too(runs: int | None) -> None:
    def loss(trial: Trial) -> float:  # by logarithms 0.18 is best; the first loss below 0, of the race, changes that
        if trial.seed < FIRST_SEED["race"]:
            return (0.5, 1.7)[trial.seed] if trial.place == -3 else 1 + 0.3 * abs(trial.place + 4)
        return -0.05 if trial.seed == FIRST_SEED["race"] + 2 else 0.3 + 0.1 * abs(trial.place + 4)

    answer, rounds = tuned(loss, "a", "b", runs=runs, rules=Rules())
    assert answer.scale == "linear"
    assert sum(map(len, rounds)) == answer.runs <= (runs or 1000)


def test_runs_that_were_wanted_together_may_be_told_one_by_one() -> None:
    def loss(
        trial: Trial,
    ) -> float:  # a neighbor diverges when learning rates are refined: its other seeds are needless
        return math.nan if trial.seed >= FIRST_SEED["refine"] and trial.place == -3 else nearly_equal(trial)

    tuner = Tuner([Candidate(name, lr=0.1) for name in "ab"], rules=RULES)
    while wants := tuner.wanted():
        for trial in wants:
            tuner.tell(trial, loss(trial))
    assert tuner.answer().status == "answered"


def test_a_race_whose_learning_rates_have_all_just_given_way_has_no_leader() -> None:
    def loss(trial: Trial) -> float:
        late = (trial.place, trial.seed) == (-4, FIRST_SEED["race"] + 3)
        best = 0.1 * (trial.place + 4) ** 2
        return math.inf if late else math.exp(0.01 * "ab".index(trial.name) + best + 0.01 * noise(trial))

    tuner = Tuner([Candidate(name, lr=0.1, baseline=name == "a") for name in "ab"], rules=RULES)
    between = []
    while wants := tuner.wanted():
        tuner.tell_all({trial: Measured(loss(trial)) for trial in wants})
        standing = tuner.course.standing
        if standing is not None and standing.seeds and not standing.leader:
            between.append((tuner.answer(), course_in_words(tuner.course)))
    [(answer, line)] = between
    assert (answer.leader, answer.undecided) == ("", ())
    assert line.startswith("Race of 2 methods: ")
    assert len(race(answer).axes) == 1  # only the search is drawn
    assert tuner.answer().status == "answered"


def test_when_the_time_is_up_after_refining_the_refined_learning_rates_stay() -> None:
    tuner = Tuner([Candidate("a", lr=0.1, baseline=True), Candidate("b", lr=0.1)], rules=RULES)

    def loss(trial: Trial) -> float:
        best = -4 if trial.seed < FIRST_SEED["refine"] else -3
        return math.exp((trial.place - best) ** 2 + 0.001 * noise(trial))

    while tuner.course.stage != "fresh":
        tuner.tell_all({trial: Measured(loss(trial)) for trial in tuner.wanted()})
    before = tuner.wanted()
    tuner.close()
    assert tuner.wanted() == before
    assert {trial.place for trial in before} == {-3}


# --- divergence ------------------------------------------------------------------------------------------------------


def test_refining_does_not_return_to_a_learning_rate_that_diverged_in_the_race() -> None:
    def loss(trial: Trial) -> float:
        if (trial.name, trial.lr, trial.seed) == ("b", 0.1, FIRST_SEED["race"] + 5):
            return math.nan
        return nearly_equal(trial)

    answer, rounds = tuned(loss, *"abc")
    assert "b, lr 0.1" in {each.name for each in answer.dropped}
    refined = {(trial.name, trial.lr) for each in rounds for trial in each if trial.stage in ("refine", "fresh")}
    assert ("b", 0.056) in refined
    assert ("b", 0.1) not in refined  # nothing is trained there again


@pytest.mark.parametrize("others", [0.5, math.inf])
def test_if_all_that_is_left_diverges_on_fresh_seeds_tuning_has_failed(others: float) -> None:
    def loss(trial: Trial) -> float:
        if trial.name == "a" and math.isinf(others):
            return math.inf
        return math.inf if trial.seed == FIRST_SEED["fresh"] + 1 else nearly_equal(trial)

    answer, _ = tuned(loss, "a", "b")
    assert answer.status == "failed"
    assert answer.pick is None
    assert "diverged on fresh seeds; try smaller learning rates or clipping" in answer.reason
    assert answer.verdict.startswith("No answer: ")


# --- ties, zeros and negative losses ---------------------------------------------------------------------------------


def test_a_search_on_a_plateau_stays_where_it_is() -> None:
    search, told = Search(-4, HALF), {}
    while wants := (found := search.advance(told)).wants:
        told |= {k: [0.25 if -16 <= k <= 0 else 1.0] * n for k, n in wants.items()}
    assert learning_rate(found.best) == 0.1
    assert len(told) == 5  # the start, and two neighbors at each of two spacings


@pytest.mark.parametrize("zeros", [1, 4])
def test_a_loss_of_0_on_fresh_seeds_counts_for_the_method_that_has_it(zeros: int) -> None:
    def loss(trial: Trial) -> float:
        if trial.name == "b" and FIRST_SEED["fresh"] <= trial.seed < FIRST_SEED["fresh"] + zeros:
            return 0.0
        return nearly_equal(trial) * (0.01 if trial.name == "b" else 1.0)

    answer, _ = tuned(loss, "a", "b")
    assert answer.verdict.startswith("Use b at lr 0.1: its loss is ")
    assert (answer.scale, answer.ratio_scale) == ("log", "linear")  # there is no ratio to 0
    assert answer.ratio is not None
    assert -1.1 < answer.ratio.value < -0.9


def test_losses_of_0_on_half_of_the_seeds_do_not_count_against_a_method() -> None:
    """b has 0 and 0.11 in turn, a 0.1: no factor leads to 0, and the smallest other loss in its place would be a's."""

    def loss(trial: Trial) -> float:
        worse = 0.01 * (trial.place + 4) ** 2
        if trial.seed < FIRST_SEED["race"]:
            return 0.1 + worse
        return 0.1 + worse if trial.name == "a" else (0.0, 0.11 + worse)[trial.seed % 2]

    answer, _ = tuned(loss, "a", "b")
    assert answer.ratio is not None
    assert answer.ratio.value == pytest.approx(0.055 - 0.1)
    assert "4.8 % higher" not in answer.verdict


def test_an_edge_of_the_search_beyond_which_refining_went_is_none() -> None:
    """The best learning rate is 10 times larger than the search goes, or what refining finds is smaller."""

    def beyond(trial: Trial, best: int) -> float:
        return math.exp(0.05 * (trial.place - (20 if trial.seed < FIRST_SEED["refine"] else best)) ** 2 / 10)

    answers = {best: tuned(lambda trial, best=best: beyond(trial, best), "a", "b")[0] for best in (9, 14, 12)}  # type: ignore[misc]
    for best, answer in answers.items():
        assert answer.baseline is not None
        assert answer.baseline.lr == learning_rate(best)
        assert not answer.baseline.at_edge
    unrefined, _ = tuned(lambda trial: beyond(trial, 20), "a", "b", runs=50)
    assert unrefined.baseline is not None
    assert unrefined.baseline.at_edge


def test_a_loss_of_0_on_one_seed_beyond_an_edge_makes_it_no_edge_again() -> None:
    """Refining compared the next learning rate, which is far worse on the others: 0 counts as the smallest loss."""

    def loss(trial: Trial) -> float:
        refining, beyond = trial.seed >= FIRST_SEED["refine"], trial.place == 13
        if beyond and trial.seed == FIRST_SEED["refine"]:
            return 0.0
        best = 12 if refining else 30
        return math.exp(0.02 * abs(trial.place - best) + 0.5 * beyond + 0.01 * noise(trial))

    answer, _ = tuned(loss, "a", "b", rules=replace(RULES, refine=8))
    assert answer.challenger is not None
    assert answer.baseline is not None
    assert answer.challenger.lr == answer.baseline.lr == learning_rate(12)
    assert not answer.challenger.at_edge
    assert not answer.baseline.at_edge


def test_an_edge_is_named_until_refining_is_complete() -> None:
    """The smaller the learning rate the better, so that refining ends only where it may not go on."""

    def loss(trial: Trial) -> float:
        return math.exp(0.1 * trial.place + 0.01 * noise(trial))

    whole, rounds = tuned(loss, "a", "b")
    assert whole.status == "answered"
    assert len([1 for wants in rounds if wants[0].stage == "refine"]) > 3
    for runs in range(whole.runs - 60, whole.runs):
        answer, _ = tuned(loss, "a", "b", runs=runs)
        for each in (answer.challenger, answer.baseline):
            assert each is None or each.at_edge


@pytest.mark.parametrize("huge", [3.0, 1e4])
def test_a_nearly_diverged_learning_rate_does_not_set_the_unit_of_negative_losses(huge: float) -> None:
    def loss(trial: Trial) -> float:
        if trial.place > 0:
            return huge
        better = 0.5 if trial.name == "b" else 0.0
        return -1 - better + 0.05 * (trial.place + 4) ** 2 + 0.2 * noise(trial)

    answer, _ = tuned(loss, "a", "b", rules=Rules())
    assert answer.scale == "linear"
    assert answer.better
    assert "less than the tolerance" not in answer.reason


def test_a_fresh_loss_that_is_no_number_counts_as_diverged_and_changes_no_scale() -> None:
    def loss(trial: Trial, bad: float) -> float:
        return bad if (trial.name, trial.seed) == ("b", FIRST_SEED["fresh"]) else nearly_equal(trial)

    nan, infinite = (tuned(lambda trial, bad=bad: loss(trial, bad), "a", "b")[0] for bad in (math.nan, math.inf))  # type: ignore[misc]
    assert nan.ratio_scale == infinite.ratio_scale == "log"
    assert nan.verdict == infinite.verdict
    assert nan.challenger is not None
    assert nan.challenger.diverged == 1
