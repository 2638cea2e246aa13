"""The answer of tuning in words and as a file."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import numpy as np
import pytest

from memgrad.experiments.comparison import first_at
from memgrad.experiments.planning.example import example
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing.answer import Answer, Contestant
from memgrad.experiments.racing.sequential import Dropped
from memgrad.experiments.racing.words import answer_in_words, percent, to_toml
from memgrad.memory import Polynomial
from memgrad.statistics import Estimate

LOSS = Estimate(0.5, 0.4, 0.6, 10)


def test_the_answer_in_words_names_edges_and_what_diverged() -> None:
    dropped = (Dropped("mine, lr 1", 4), Dropped("AdamW, lr 1", 6, "mine, lr 0.1", 0.0953))
    answer = Answer("answered", "one method is left in the race", Contestant("mine", 0.1, LOSS, at_edge=True), runs=90)
    lines = answer_in_words(Answer(**{**vars(answer), "dropped": dropped})).splitlines()
    assert lines[1:] == [
        "Dropped: mine, lr 1 diverged.",
        "Dropped: AdamW, lr 1 is worse than mine, lr 0.1 by 10.0 % or more (6 seeds).",
        "The learning rate of mine is at the edge of what was tried.",
        "90 runs; one method is left in the race; all statements of the race together are wrong with probability at "
        "most 0.05.",
    ]
    stopped = Answer("interrupted", "stopped", runs=7)
    assert answer_in_words(stopped) == "Interrupted after judging 7 runs: stopped."
    assert percent(60.0) == "any factor"


def test_settings_as_toml_read_back() -> None:
    settings = {
        "name": 'a "name"\nof two lines, 🚀 and \x7f',
        "sample": True,
        "note": None,
        "seeds": [1, 2],
        "steps": 9,
        "two words": "ü",
        "share": np.float64(0.5),
        "clip": math.inf,
        "least": -math.inf,
        "select": {"metric": "loss", "last": 0.05},
        "evaluate": {"times": {"loss": 3, "test loss": 5}},
        "options": {},
    }
    methods: list[dict[str, Any]] = [
        {"optimizer": "MemSGD", "grid": {"memory": ["poly:2", "inst"], "nesterov": [False]}, "lr": 1e-9},
        {"optimizer": "Adam"},
    ]
    read = tomllib.loads(to_toml(settings, methods))
    assert read.pop("methods") == methods
    assert read == {name: value for name, value in settings.items() if value not in (None, {})}
    assert math.isnan(tomllib.loads(to_toml({"x": math.nan}, []))["x"])
    assert tomllib.loads(to_toml({"memory": Polynomial(8.0)}, []))["memory"] == "poly:8"


@pytest.mark.parametrize(
    ("values", "target", "step"),
    [([1.0, 2.0], 3.0, 0.0), ([4.0, 2.0], 1.0, math.inf), ([math.nan, math.nan], 1.0, math.nan), ([4, math.nan], 4, 0)],
)
def test_a_target_may_be_reached_at_once_or_never(values: list[float], target: float, step: float) -> None:
    assert first_at(np.array([0, 10]), np.array(values, dtype=float), target) == pytest.approx(step, nan_ok=True)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"tuning_seeds": [100, 100]}, "tuning_seeds: each seed may be listed only once"),
        ({"methods": {"memory": "inst", "grid": {"memory": ["poly:2"]}}}, "memory has a value beside the grid"),
        ({"methods": {"grid": {"memory": ["poly:2", "poly:2"]}}}, "each value of memory may be listed only once"),
        ({"methods": {"grid": {"memory": [f"poly:{p + 1}" for p in range(10_001)]}}}, "at most 10,000"),
        ({"methods": {"grid": {"lr": [1.0]}}}, "a grid is over options of the optimizer"),
    ],
)
def test_what_a_grid_or_tuning_seeds_cannot_be_is_refused(changes: dict[str, Any], rule: str) -> None:
    method = {"optimizer": "MemSGD", "lr": 0.1, **changes.pop("methods", {})}
    with pytest.raises(ValueError, match=rule):
        Spec.of({"problem": "logistic", "steps": 9, "seeds": 2, "methods": [method], **changes})


def test_the_example_on_a_text_names_it() -> None:
    spec = Spec.parse(example("char-transformer"))
    assert (spec.problem, spec.sample, spec.options["data"]) == ("char-transformer", True, "sotu")
    own = Spec.parse(example("char-transformer", "shakespeare"))
    assert (own.sample, own.options["data"]) == (False, "shakespeare")
    with pytest.raises(ValueError, match="takes no text; --data is for char-transformer"):
        example("fashion-mlp", "shakespeare")
