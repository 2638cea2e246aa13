"""What a race comes to: answers, lines of words and settings, from standings that are written down here."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from known_losses import noisy, tuned

from memgrad.experiments.racing.answer import Answer, Contestant, Measured, answer_of, steps_to_stay_below
from memgrad.experiments.racing.candidates import Candidate, Configuration, checked
from memgrad.experiments.racing.course import Course, Trial
from memgrad.experiments.racing.learning_rates import Found
from memgrad.experiments.racing.portfolio import parse_candidate
from memgrad.experiments.racing.sequential import Dropped, Rules, Standing
from memgrad.experiments.racing.tuner import Tuner
from memgrad.experiments.racing.words import answer_in_words, course_in_words, dropped_in_words
from memgrad.statistics import Estimate

MINE = Contestant("mine", 0.1, Estimate(0.5, 0.4, 0.6, 10))
BASE = Contestant("base", 0.01, Estimate(1.0, 0.9, 1.1, 10))
BETTER = Answer("answered", "one method is left in the race", MINE, BASE, Estimate(0.8, 0.7, 0.9, 10), runs=70)

# --- the verdict -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "pick", "verdict"),
    [
        ({}, MINE, "Use mine at lr 0.1: its loss is 20.0 % lower than that of base at lr 0.01."),
        (
            {"steps_saved": Estimate(0.25, 0.1, 0.4)},
            MINE,
            "Use mine at lr 0.1: its loss is 20.0 % lower than that of base at lr 0.01, and it saves 25% of the steps.",
        ),
        (
            {"steps_saved": Estimate(0.25, 0.0, 0.5)},  # the interval touches 0
            MINE,
            "Use mine at lr 0.1: its loss is 20.0 % lower than that of base at lr 0.01.",
        ),
        (
            {"steps_saved": Estimate(0.25)},
            MINE,
            "Use mine at lr 0.1: its loss is 20.0 % lower than that of base at lr 0.01.",
        ),
        (
            {"ratio": Estimate(0.75, 0.5, 1.0, 10)},  # the interval touches 1
            BASE,
            "Stay with base at lr 0.01: the loss of mine at lr 0.1, the best other, is 25.0 % lower than its own, "
            "which is within the noise of 10 seeds.",
        ),
        (
            {"ratio": Estimate(1.5, 1.0, 2.0, 10)},
            BASE,
            "Stay with base at lr 0.01: the loss of mine at lr 0.1, the best other, is 50.0 % higher than its own, "
            "which is within the noise of 10 seeds.",
        ),
        (
            {"ratio": Estimate(1.5, 1.1, 2.0, 10)},
            BASE,
            "Stay with base at lr 0.01: the loss of mine at lr 0.1, the best other, is 50.0 % higher than its own.",
        ),
        (
            {"ratio_scale": "linear", "ratio": Estimate(-0.5, -0.6, -0.4, 10)},
            MINE,
            "Use mine at lr 0.1: its loss is 0.5 lower than that of base at lr 0.01.",
        ),
        (
            {"ratio_scale": "linear", "ratio": Estimate(0.5, -0.1, 1.1, 10)},
            BASE,
            "Stay with base at lr 0.01: the loss of mine at lr 0.1, the best other, is 0.5 higher than its own, which "
            "is within the noise of 10 seeds.",
        ),
        (
            {"ratio": Estimate(math.inf), "challenger": replace(MINE, diverged=2)},
            BASE,
            "Use base at lr 0.01: mine at lr 0.1 diverged on 2 of 10 fresh seeds.",
        ),
        (
            {"ratio": Estimate(0.0), "baseline": replace(BASE, diverged=3)},
            MINE,
            "Use mine at lr 0.1: base at lr 0.01 diverged on 3 of 10 fresh seeds.",
        ),
        (
            {
                "ratio": Estimate(math.nan),
                "challenger": replace(MINE, diverged=2),
                "baseline": replace(BASE, diverged=1),
            },
            None,
            "No answer: mine at lr 0.1 diverged on 2 of 10 fresh seeds and base at lr 0.01 diverged on 1 of 10 fresh "
            "seeds. Lower their learning rates.",
        ),
        ({"baseline": None, "ratio": None}, MINE, "Use mine at lr 0.1: every baseline diverged."),
        (
            {"challenger": None, "ratio": None},
            BASE,
            "Use base at lr 0.01: every other method than the baselines diverged.",
        ),
        (
            {"challenger": None, "baseline": None, "ratio": None, "reason": "no time"},
            None,
            "No answer: no time.",
        ),
    ],
)
def test_a_verdict_says_what_to_use_and_why(changes: dict[str, Any], pick: Contestant | None, verdict: str) -> None:
    answer = replace(BETTER, **changes)
    assert (answer.verdict, answer.pick) == (verdict, pick)
    assert answer.better == verdict.startswith("Use mine at lr 0.1: its")


def test_an_answer_is_plain_data() -> None:
    answer = replace(
        BETTER,
        challenger=replace(MINE, at_edge=True),
        steps_saved=Estimate(0.25, 0.1, 0.4),
        leader="mine, lr 0.1",
        undecided=("other, lr 1",),
        dropped=(Dropped("base, lr 0.01", 4, "mine, lr 0.1", 0.2), Dropped("bad, lr 1", 3)),
        seeds=4,
        raced={"mine, lr 0.1": (0.5, 0.4)},
        profiles={"mine": {0.1: 0.5}},
        found={"mine": 0.1},
        lines={"torch": "import"},
        problem="mlp",
        metric="validation_loss",
    )
    contestant = {"name": "mine", "lr": 0.1, "final": {"name": "", "value": 0.5, "low": 0.4, "high": 0.6}}
    assert answer.to_dict() == {
        "status": "answered",
        "reason": "one method is left in the race",
        "verdict": answer.verdict,
        "problem": "mlp",
        "metric": "validation_loss",
        "pick": {"name": "mine", "lr": 0.1},
        "better": True,
        "challenger": {**contestant, "diverged": 0, "at_edge": True},
        "baseline": BASE.to_dict(),
        "ratio": {"name": "", "value": 0.8, "low": 0.7, "high": 0.9},
        "steps_saved": {"name": "", "value": 0.25, "low": 0.1, "high": 0.4},
        "leader": "mine, lr 0.1",
        "undecided": ["other, lr 1"],
        "dropped": [
            {"name": "base, lr 0.01", "seeds": 4, "worse_than": "mine, lr 0.1", "by_at_least": 0.2},
            {"name": "bad, lr 1", "seeds": 3, "worse_than": None, "by_at_least": None},
        ],
        "seeds": 4,
        "runs": 70,
        "error_rate": 0.05,
        "tolerance": 0.01,
        "raced": {"mine, lr 0.1": [0.5, 0.4]},
        "found": {"mine": 0.1},
        "learning_rates": {"mine": [{"lr": 0.1, "loss": 0.5}]},
        "lines": {"torch": "import"},
    }
    empty = Answer("failed", "nothing").to_dict()
    unknown = ("pick", "challenger", "baseline", "ratio", "steps_saved")
    assert [empty[name] for name in unknown] == [None] * 5
    assert "difference" in Answer("failed", "nothing", ratio_scale="linear").to_dict()


def test_an_answer_names_the_loss_that_was_compared() -> None:
    answer = replace(BETTER, metric="validation_loss")
    assert answer.verdict.startswith("Use mine at lr 0.1: its validation loss is 20.0 % lower than that of ")
    assert answer_in_words(answer).splitlines()[1].startswith("Validation loss ratio on 10 fresh seeds: 0.8 ")
    stay = replace(answer, ratio=Estimate(1.1, 1.05, 1.15, n=10))
    assert "the validation loss of mine at lr 0.1, the best other, is 10.0 % higher than its own." in stay.verdict


def test_an_answer_in_words_has_a_line_for_each_fact() -> None:
    answer = replace(
        BETTER,
        challenger=replace(MINE, at_edge=True),
        steps_saved=Estimate(0.25, 0.1, 0.4),
        leader="mine, lr 0.1",
        undecided=("other, lr 1",),
        dropped=(Dropped("bad, lr 1", 3),),
        seeds=4,
        lines={"torch": "one\ntwo"},
    )
    assert answer_in_words(answer).splitlines() == [
        answer.verdict,
        "Loss ratio on 10 fresh seeds: 0.8 [0.7, 0.9] (95 % interval).",
        "Share of the steps saved: 0.25 [0.1, 0.4].",
        "Not told apart from mine, lr 0.1 by the 4 seeds of the race alone: other, lr 1.",
        "Dropped: bad, lr 1 diverged.",
        "The learning rate of mine is at the edge of what was tried.",
        "70 runs; one method is left in the race; all statements of the race together are wrong with probability at "
        "most 0.05.",
        "",
        "torch:",
        "    one",
        "    two",
    ]
    plain = answer_in_words(replace(BETTER, steps_saved=None)).splitlines()
    assert len(plain) == 3  # no steps saved are known, and nothing is undecided, dropped or at an edge
    difference = replace(BETTER, scale="linear", ratio_scale="linear", ratio=Estimate(-0.5, -0.6, -0.4, 7))
    assert answer_in_words(difference).splitlines()[1].startswith("Loss difference on 7 fresh seeds: -0.5 [-0.6, -0.4]")
    for status in ("failed", "interrupted"):
        text = answer_in_words(Answer(status, "why", runs=3))  # type: ignore[arg-type]
        assert text == f"{status.capitalize()} after judging 3 runs: why."


# --- the course in words ---------------------------------------------------------------------------------------------

TRIALS = (Trial("a", 0, 0, "search"), Trial("a", 0, 1, "search"))
SEARCHES = {"a": Found({}, frozenset({0}), 0), "b": Found({4: 1}, frozenset({0}), 0)}
RACE = Standing(
    4,
    ("a", "b", "c", "d", "e"),
    (Dropped("x", 4, "a", 0.1), Dropped("y", 3, "a", 0.1)),
    {"a": 0.0, "b": 0.0953, "c": 0.1823, "d": 0.2624},
    {"a": 6},
)


@pytest.mark.parametrize(
    ("course", "line"),
    [
        (
            Course("search", TRIALS, SEARCHES),
            "Search for learning rates: found a 1; 1 method to go, 2 runs next.",
        ),
        (
            Course("search", TRIALS, {"b": SEARCHES["b"]}),
            "Search for learning rates: 1 method to go, 2 runs next.",
        ),
        (
            Course("refine", TRIALS, {}, Standing(), Configuration("a", 0), Configuration("b", -4)),
            "Learning rates near a, lr 1 and b, lr 0.1, on more seeds: 2 runs next.",
        ),
        (Course("fresh", TRIALS, {}, Standing(), Configuration("a", 0)), "Fresh seeds for a, lr 1: 2 runs next."),
        (Course("race", TRIALS, {}, replace(RACE, seeds=0, means={})), "Race of 5 methods: 2 runs next."),
        (
            Course("race", TRIALS, {}, RACE),
            "Race after 4 seeds: a leads, then b (+10.0 %), c (+20.0 %), d (+30.0 %), e (new); 2 runs next. Dropped: "
            "x is worse than a by 10.5 % or more (4 seeds).",
        ),
        (
            Course("race", TRIALS, {}, replace(RACE, alive=("a", "e"), dropped=()), scale="linear"),
            "Race after 4 seeds: a leads, then e (new); 2 runs next.",
        ),
        (
            Course("race", TRIALS, {}, replace(RACE, alive=("a", "b", "c", "d"), dropped=()), scale="linear"),
            "Race after 4 seeds: a leads, then b (+0.0953), c (+0.1823), d (+0.2624); 2 runs next.",
        ),
        (Course("done", (), {}, reason="time is up", runs=12), "Done after 12 runs: time is up."),
    ],
)
def test_a_course_is_told_in_one_line(course: Course, line: str) -> None:
    assert course_in_words(course) == line


def test_a_difference_beyond_any_number_is_any_factor() -> None:
    assert "by any factor or more" in dropped_in_words(Dropped("x", 4, "a", 50.0))
    assert "by any factor" not in dropped_in_words(Dropped("x", 4, "a", 49.0))


# --- from runs to an answer ------------------------------------------------------------------------------------------

A, B, C = Configuration("a", 0), Configuration("b", 0), Configuration("c", 0)
FRESH = 1_000_000


def runs_of(configuration: Configuration, *finals: float, first: int = FRESH) -> dict[int, Measured]:
    return {first + i: Measured(loss, (0.0, 100.0), (2.0, loss)) for i, loss in enumerate(finals)}


def course_of(**changes: Any) -> Course:
    searches = {"a": Found({}, frozenset({0}), 0), "b": Found({4: 1}, frozenset({0}), 0)}
    standing = Standing(
        3, ("a, lr 1", "c, lr 1"), (Dropped("b, lr 1", 3, "a, lr 1"),), {"a, lr 1": 0.0, "c, lr 1": 0.1}, {}
    )
    ended = Course("done", (), searches, standing, A, B, frozenset({"a"}), status="answered", reason="so", runs=42)
    return replace(ended, **changes)


def test_an_answer_is_measured_on_fresh_seeds_paired_and_in_order() -> None:
    runs = {A: runs_of(A, 1.0, 2.0, 4.0) | runs_of(A, 99.0, first=1000), B: runs_of(B, 2.0, 4.0, 8.0, 16.0)}
    answer = answer_of(course_of(), runs, Rules(), problem="mlp")
    assert answer.challenger is not None
    assert (answer.challenger.final.value, answer.challenger.final.n) == (pytest.approx(2.0), 3)  # the geometric mean
    assert (answer.challenger.diverged, answer.challenger.at_edge) == (0, True)
    assert answer.ratio is not None
    assert (answer.ratio.value, answer.ratio.n) == (pytest.approx(0.5), 3)
    assert (answer.leader, answer.undecided, answer.seeds, answer.runs) == ("a, lr 1", ("c, lr 1",), 3, 42)
    assert (answer.found, answer.problem, answer.status, answer.reason) == ({"a": 1.0}, "mlp", "answered", "so")
    assert answer.raced == {"a, lr 1": (99.0,)}
    # From 2 at 0 to 1 at 100 it is at 2 at once, and so on: the target is the other's final loss.
    assert answer.steps_saved is not None
    assert answer.steps_saved.value == pytest.approx(1.0)


def test_an_answer_on_the_linear_scale_is_a_difference() -> None:
    runs = {A: runs_of(A, -1.0, 2.0, 5.0), B: runs_of(B, 1.0, 4.0, math.inf)}
    answer = answer_of(course_of(scale="linear"), runs, Rules())
    assert answer.challenger is not None
    assert answer.challenger.final.value == pytest.approx(2.0)
    assert answer.baseline is not None
    assert (answer.baseline.diverged, answer.baseline.at_edge) == (1, False)
    assert answer.ratio is not None
    assert answer.ratio.value == -math.inf
    assert answer.steps_saved is None  # a run diverged


def test_an_answer_without_fresh_runs_has_no_contestant() -> None:
    answer = answer_of(course_of(standing=Standing()), {A: runs_of(A, 1.0, first=1000)}, Rules())
    assert (answer.challenger, answer.ratio, answer.raced, answer.leader, answer.seeds) == (None, None, {}, "", 0)
    assert answer.dropped == ()
    early = answer_of(course_of(standing=Standing(0, ("a, lr 1",), (), {}, {})), {}, Rules())
    assert (early.leader, early.undecided) == ("", ())


def test_the_race_is_shown_best_first_without_what_refined_learning_rates() -> None:
    other = Configuration("a", 1)
    runs = {
        B: runs_of(B, 3.0, 4.0, first=1000),
        A: runs_of(A, 1.0, 2.0, first=1000) | runs_of(A, 9.0) | runs_of(A, 7.0, first=0),
        other: runs_of(other, 5.0, first=1000),
        C: {},
    }
    found = answer_of(course_of(), runs, Rules()).raced
    assert list(found.items()) == [("a, lr 1", (1.0, 2.0)), ("b, lr 1", (3.0, 4.0))]


def test_profiles_are_means_over_the_seeds_of_the_search() -> None:
    low = Configuration("a", -4)
    course = course_of(searches={"a": Found({}, frozenset({0, -4}), 0)})
    runs = {
        A: runs_of(A, 1.0, 3.0, first=0) | runs_of(A, 99.0, first=1000),
        low: runs_of(low, 1.0, math.inf, first=0),
        Configuration("a", 4): runs_of(A, 5.0, first=0),  # not compared by the search
        B: runs_of(B, 5.0, first=0),
    }
    assert answer_of(course, runs, Rules()).profiles == {"a": {0.1: math.inf, 1.0: 2.0}}
    assert list(answer_of(course, runs, Rules()).profiles["a"]) == [0.1, 1.0]


@pytest.mark.parametrize(
    ("losses", "target", "steps"),
    [
        ((4.0, 2.0, 1.0), 4.0, 0.0),  # at or below from the start
        ((4.0, 2.0, 1.0), 2.0, 10.0),  # at the target is enough
        ((4.0, 2.0, 1.0), 0.5, 30.0),  # never
        ((4.0, 2.0, 1.0), 1.25, 25.0),
        ((1.0, 4.0, 2.0), 2.0, 30.0),  # it does not stay before
        ((1.0, 4.0, 2.0), 3.0, 20.0),
        ((math.inf, 1.0, 1.0), 1.5, 10.0),  # nothing can be said about the way down
    ],
)
def test_steps_after_which_a_loss_stays_below(losses: tuple[float, ...], target: float, steps: float) -> None:
    assert steps_to_stay_below(Measured(0.0, (0.0, 10.0, 30.0), losses), target) == steps


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


# --- which two are compared ------------------------------------------------------------------------------------------


def tuned_with(loss: Callable[[Trial], Any], *candidates: Candidate, rules: Rules | None = None) -> Answer:
    tuner = Tuner(candidates, rules=rules)
    while trial := tuner.ask():
        tuner.tell(trial, loss(trial))
    return tuner.answer()


def away(trial: Trial) -> float:
    """What a learning rate other than 0.1 costs."""
    return 0.1 * math.log10(trial.lr / 0.1) ** 2


def noise(trial: Trial, spread: float, repetition: int = 0) -> float:
    return random.Random(f"{repetition} {trial}").gauss(0, spread)


def test_a_noisy_method_that_is_left_in_the_race_is_no_better_than_one_that_was_dropped() -> None:
    """B is shown to be 3 % worse than C and is dropped; A, 30 % worse, scatters too much to be dropped."""
    means = {"C": (0.0, 0.001), "B": (0.03, 0.001), "A": (0.3, 0.1)}

    def loss(trial: Trial) -> float:
        mean, spread = means[trial.name]
        return math.exp(mean + away(trial) + noise(trial, spread))

    found = tuned_with(loss, Candidate("A", baseline=True), Candidate("B", baseline=True), Candidate("C"))
    assert found.baseline is not None
    assert (found.baseline.name, found.better) == ("B", True)
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(math.exp(-0.03), abs=0.005)


def test_methods_dropped_at_one_look_are_ranked_by_the_leader() -> None:
    """A moves with X, B with the leader Y: A is nearer to what it was compared with, and B is nearer to Y."""
    means, groups = {"Y": 0.0, "X": 1.0, "A": 1.5, "B": 0.6}, {"Y": 1, "B": 1, "X": 2, "A": 2}

    def loss(trial: Trial) -> float:
        together = random.Random(f"{groups[trial.name]} {trial.seed}").gauss(0, 0.05)
        return math.exp(means[trial.name] + together + away(trial) + noise(trial, 0.002))

    baselines = (Candidate("A", baseline=True), Candidate("B", baseline=True))
    found = tuned_with(loss, *baselines, Candidate("X"), Candidate("Y"))
    assert found.baseline is not None
    assert found.baseline.name == "B"


def test_a_loss_of_0_on_a_seed_of_the_race_does_not_decide_it() -> None:
    def loss(trial: Trial) -> float:
        if trial.name == "lucky" and trial.stage != "search" and trial.seed % 5 == 0:
            return 0.0
        scale = {"AdamW": 1.0, "lucky": 0.97, "good": 0.5}[trial.name]
        return 1e-3 * scale * math.exp(away(trial) + noise(trial, 0.05))

    found = tuned_with(loss, Candidate("AdamW", baseline=True), Candidate("lucky"), Candidate("good"))
    assert found.pick is not None
    assert (found.pick.name, found.scale) == ("good", "log")


def test_losses_that_turn_negative_after_the_search_are_compared_as_they_are() -> None:
    def loss(trial: Trial) -> float:
        base = 0.1 if trial.stage == "search" else 0.0
        return base + {"AdamW": 0.0, "mine": -0.02}[trial.name] + away(trial) + noise(trial, 0.004)

    found = tuned_with(loss, Candidate("AdamW", baseline=True), Candidate("mine"))
    assert (found.scale, found.better) == ("linear", True)
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(-0.02, abs=0.005)


def test_equal_methods_save_no_steps() -> None:
    """Steps that are lost on a seed count against those that are saved on another: the mean over tunings is 0."""

    def saved(repetition: int) -> float:
        def curve(trial: Trial) -> list[float]:
            height = math.exp(noise(trial, 0.03, repetition) + 3 * away(trial))
            return [height * (1 + k) ** -0.5 for k in range(41)]

        rules = Rules(most=4, refine=2)
        found = tuned_with(curve, Candidate("AdamW", 0.1, baseline=True), Candidate("mine", 0.1), rules=rules)
        assert found.steps_saved is not None
        return found.steps_saved.value

    values = np.array([saved(repetition) for repetition in range(40)])
    assert abs(values.mean()) < 3 * values.std(ddof=1) / math.sqrt(len(values))
    assert values.min() < 0 < values.max()


def test_while_fresh_runs_are_missing_nothing_is_picked() -> None:
    tuner = Tuner([Candidate("AdamW", 0.1, baseline=True), Candidate("mine", 0.1)])
    while (trial := tuner.ask()) and trial.stage != "fresh":
        tuner.tell(trial, math.exp(away(trial) + noise(trial, 0.01)))
    assert trial is not None
    tuner.tell(trial, 1.0)
    assert tuner.answer().pick is None
    assert tuner.answer().to_dict()["pick"] is None
