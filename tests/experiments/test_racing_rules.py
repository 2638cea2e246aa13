"""What goes into a race: what is told, the rules and the candidates, at the ends of what is allowed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing.answer import Measured
from memgrad.experiments.racing.candidates import Candidate, Configuration, checked
from memgrad.experiments.racing.course import Course, Trial, follow
from memgrad.experiments.racing.learning_rates import Search
from memgrad.experiments.racing.portfolio import candidates_of, parse_candidate, portfolio
from memgrad.experiments.racing.sequential import Dropped, Entrant, Rules, race
from memgrad.experiments.racing.tuner import FORMAT, Tuner, measured

# --- what is told ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "steps", "expected"),
    [
        (2, None, Measured(2.0)),
        ([2.0], None, Measured(2.0)),
        (math.nan, None, Measured(math.inf)),
        ([1.0, math.inf], None, Measured(math.inf)),
        ([3.0, 1.0], None, Measured(1.0, (0.0, 1.0), (3.0, 1.0))),
        ([3.0, 1.0], [5, 9], Measured(1.0, (5.0, 9.0), (3.0, 1.0))),
        ([float(x) for x in range(20)], range(20), Measured(19.0, tuple(range(20)), tuple(range(20)))),
        ([float(x) for x in range(40)], range(40), Measured(38.5, tuple(range(40)), tuple(range(40)))),
        ([float(x) for x in range(30)], range(30), Measured(28.5, tuple(range(30)), tuple(range(30)))),  # 1.5 is 2
    ],
)
def test_the_final_loss_is_the_mean_of_the_last_twentieth(losses: Any, steps: Any, expected: Measured) -> None:
    assert measured(losses, steps) == expected


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tuning.json"
    file.write_text(f'{{"format": {FORMAT + 1}, "candidates": {{"a": "", "b": ""}}, "told": []}}')
    with pytest.raises(ValueError, match="has format 2, and this version reads 1"):
        Tuner([Candidate("a"), Candidate("b")], file=file)


# --- rules and candidates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules",
    [{"error_rate": 0.999}, {"first": 2}, {"first": 5, "most": 5}, {"refine": 1}, {"fresh": 2}, {"search": (1, 1, 1)}],
)
def test_rules_at_the_ends_of_their_ranges_are_accepted(rules: dict[str, Any]) -> None:
    assert {name: getattr(Rules(**rules), name) for name in rules} == rules


@pytest.mark.parametrize(
    "rules",
    [
        {"error_rate": 1.0},
        {"tolerance": math.inf},
        {"refine": 0},
        {"search": (1, 1)},
        {"search": (0, 1, 1)},
        {"search": (1, 2, 1)},
    ],
)
def test_rules_beyond_them_are_refused(rules: dict[str, Any]) -> None:
    [name] = rules
    with pytest.raises(ValueError, match=f"the rules of a race need {name} to be"):
        Rules(**rules)


def test_the_default_rules_are_those_of_the_documentation() -> None:
    rules = Rules()
    assert (rules.error_rate, rules.tolerance, rules.first, rules.most) == (0.05, 0.01, 3, 15)
    assert (rules.refine, rules.fresh, rules.search) == (8, 10, (1, 1, 2))
    assert rules.looks == (3, 4, 6, 8, 11, 15)


def test_a_race_at_its_last_look_is_undecided() -> None:
    values = {"A": [0.0, 1.0, 0.0], "B": [1.0, 0.0, 0.5]}
    standing = race([Entrant("A"), Entrant("B")], values, Rules(first=3, most=3))
    assert (standing.end, standing.alive, standing.leader, standing.wants) == ("undecided", ("A", "B"), "A", {})
    assert standing.means == pytest.approx({"A": 1 / 3, "B": 1 / 2})


def test_what_is_dropped_says_by_how_much() -> None:
    values = {"A": [0.0, 1.0, 2.0], "B": [5.0, 6.0, 7.0], "C": [9.0, 10.0, 11.0]}  # differences without spread
    standing = race([Entrant(name) for name in values], values, Rules())
    assert standing.dropped == (Dropped("B", 3, "A", 5.0), Dropped("C", 3, "A", 9.0))
    assert (standing.end, standing.seeds) == ("one left", 3)


def test_names_of_candidates_and_guesses() -> None:
    for name in ("", "a\nb"):
        with pytest.raises(ValueError, match="needs a name of printable characters"):
            Candidate(name)
    for key, value in (("lr", math.inf), ("lr", "x"), ("factor", 0), ("factor", math.inf)):
        with pytest.raises(ValueError, match=f"needs a finite {key} > 0"):
            Candidate("a", **{key: value})
    given = [Candidate("a", 0.5, factor=2.0, options={"x": 1}), Candidate("b")]
    assert checked(given) == (replace(given[0], baseline=True), given[1])
    marked = [Candidate("a"), Candidate("b", baseline=True)]
    assert checked(marked) == tuple(marked)


def test_the_default_portfolio_is_the_documented_one() -> None:
    mem = {"optimizer": "MemSGD"}
    adam = {"optimizer": "MemAdam", "second_memory": "poly:8", "weight_decay": 0.01}
    sgd, adamw, fourth = "SGD momentum 0.9", "AdamW", "inst + (1+k)^0.25*poly:8"
    expected = [
        (0.03, "", 1.0, True, {"optimizer": "SGD", "momentum": 0.9}),
        (0.003, "", 1.0, True, {"optimizer": "AdamW", "weight_decay": 0.01}),
        (0.01, adamw, 1.0, True, {"optimizer": "AdamW", "weight_decay": 0.01, "betas": [0.6, 0.99]}),
        (0.01, sgd, 10.0, False, {**mem, "memory": "poly:8"}),
        (0.01, sgd, 10.0, False, {**mem, "memory": "poly:32"}),
        (0.01, sgd, 3.0, False, {**mem, "memory": fourth}),
        (0.01, adamw, 1.0, False, {**adam, "memory": "poly:8"}),
        (0.01, adamw, 0.5, False, {**adam, "memory": "inst + (1+k)^0.15*poly:8"}),
        (0.01, adamw, 0.3, False, {**adam, "memory": fourth}),
    ]
    assert [(c.lr, c.like, c.factor, c.baseline, c.options) for c in portfolio()] == expected
    assert portfolio(nu=3.0)[5].options["memory"] == "inst + (1+k)^0.667*poly:8"


@pytest.mark.parametrize(
    ("text", "name", "lr", "baseline", "options"),
    [
        ("SGD", "SGD", 0.03, True, {}),
        (" MemSGD (memory='poly:8') ", "MemSGD poly:8", 0.3, False, {"memory": "poly:8"}),
        ("AdamW(lr=0.5, betas=[0.8, 0.9])", "AdamW betas [0.8, 0.9]", 0.5, True, {"betas": [0.8, 0.9]}),
        ("Rprop", "Rprop", 0.003, False, {}),
        ("AdamW(eps=0.1)", "AdamW eps 0.1", 0.003, True, {"eps": 0.1}),
    ],
)
def test_a_method_in_words_is_a_candidate(
    text: str, name: str, lr: float, baseline: bool, options: dict[str, Any]
) -> None:
    found = parse_candidate(text)
    assert (found.name, found.lr, found.baseline) == (name, lr, baseline)
    assert found.options == {"optimizer": name.split(maxsplit=1)[0], **options}


def test_a_search_starts_at_its_guess_and_goes_down_to_its_reach() -> None:
    assert dict(Search(3, 4).advance({}).wants) == {-1: 1, 3: 1, 7: 1}
    assert dict(Search(3, 2).advance({}).wants) == {1: 1, 3: 1, 5: 1}
    assert dict(Search(0, 1).advance({}).wants) == {-1: 2, 0: 2, 1: 2}
    course = follow([Candidate("a", 0.1, baseline=True), Candidate("b", like="a", factor=10.0)], {}, Rules())
    assert [(trial.name, trial.place, trial.seed, trial.stage) for trial in course.wants] == [
        ("a", place, 0, "search") for place in (-8, -4, 0)
    ]


# --- budgets ---------------------------------------------------------------------------------------------------------


def loss_of(trial: Trial) -> float:
    """B is better than A; 1 is the best learning rate; seeds differ a little."""
    return (0.5 if trial.name == "B" else 1.0) * (1 + 0.1 * abs(trial.place)) * (1 + 0.01 * (trial.seed % 7))


def followed(budget: int | None, stage: str) -> Course:
    """The course when a stage begins, or when it ends because the budget does."""
    candidates = checked([Candidate("A", 1.0), Candidate("B", 1.0)])
    rules, told = Rules(first=2, most=2, refine=3, fresh=4), dict[Configuration, dict[int, float]]()
    while (course := follow(candidates, told, rules, runs=budget)).wants and course.stage != stage:
        for trial in course.wants:
            told.setdefault(trial.configuration, {})[trial.seed] = loss_of(trial)
    return course


@pytest.mark.parametrize(("stage", "reserve"), [("search", 0), ("race", 2 * 4), ("refine", 2 * 4)])
def test_a_stage_begins_if_the_budget_has_what_the_answer_needs_too(stage: str, reserve: int) -> None:
    """Two contestants on four fresh seeds; the first look at the race comes before refining."""
    free = followed(None, stage)
    assert free.stage == stage
    enough = free.runs + len(free.wants) + reserve
    assert followed(enough, stage).stage == stage
    assert followed(enough - 1, stage).stage != stage


def test_a_race_that_the_budget_ends_before_it_was_judged_says_so() -> None:
    free = followed(None, "race")
    ended = followed(free.runs + len(free.wants) + 2 * 4 - 1, "done")
    assert ended.status == "exhausted"
    assert "before the first look at the race was complete, with 4 runs to go next" in ended.reason


def test_candidates_of_an_experiment_have_its_options() -> None:
    methods = [{"optimizer": "SGD", "lr": [1.0, 0.1], "momentum": 0.5}]
    methods += [{"optimizer": "MemSGD", "memory": "poly:2", "lr": "best of SGD"}]
    first, second = candidates_of(Spec.of({"problem": "logistic", "steps": 5, "methods": methods}))
    assert first.options == {"optimizer": "SGD", "momentum": 0.5}
    assert second.options == {"optimizer": "MemSGD", "memory": "poly:2"}
    assert first.lr == 1.0  # the upper one of the middle
