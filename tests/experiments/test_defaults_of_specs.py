"""An experiment that says the least: what it means, and the ends of what it may say."""

from __future__ import annotations

from typing import Any

import pytest

from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.spec import Spec

LEAST: dict[str, Any] = {"problem": "logistic", "steps": 5, "methods": [{"optimizer": "SGD", "lr": 1.0}]}


def test_the_defaults_are_those_of_the_documentation() -> None:
    spec = Spec.of(LEAST)
    assert spec.model_dump(exclude={"methods", "name"}) == {
        "problem": "logistic",
        "steps": 5,
        "epochs": None,
        "batch": None,
        "seeds": 10,
        "tuning_seeds": None,
        "schedule": None,
        "clip": None,
        "metrics": None,
        "sample": False,
        "examples": None,
        "options": {},
        "evaluate": {"times": 41, "spacing": "even", "gradient_examples": None, "loss_examples": None},
        "select": {"metric": "loss", "goal": "min", "last": 0.05},
        "dtype": None,
        "note": "",
    }
    [method] = spec.methods
    assert (method.name, method.seeds, method.steps_factor, method.schedule, method.clip) == (
        "SGD",
        None,
        1.0,
        None,
        None,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 10**12},
        {"batch": 10**12},
        {"seeds": 100_000},
        {"seeds": [0, 2**63 - 1]},
        {"evaluate": {"times": 2}},
        {"evaluate": {"times": 100_000}},
        {"select": {"last": 1.0}},
        {"examples": 1},
        {"name": "n" * 80},
    ],
)
def test_the_ends_of_what_is_allowed_are_allowed(changes: dict[str, Any]) -> None:
    [(name, value)] = changes.items()
    found = getattr(Spec.of({**LEAST, **changes}), name)
    assert (found if not isinstance(value, dict) else found.model_dump(include=set(value))) == value


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 0},
        {"steps": 10**12 + 1},
        {"batch": 0},
        {"seeds": 0},
        {"seeds": 100_001},
        {"seeds": [2**63]},
        {"seeds": [-1]},
        {"seeds": [1, 1]},
        {"evaluate": {"times": 1}},
        {"evaluate": {"times": 100_001}},
        {"select": {"last": 0.0}},
        {"select": {"last": 1.1}},
        {"examples": 0},
        {"name": "n" * 81},
        {"name": "a\nb"},
        {"name": ""},
        {"clip": 0.0},
    ],
)
def test_what_is_beyond_them_is_refused_by_name(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes)).rstrip("s")):
        Spec.of({**LEAST, **changes})


@pytest.mark.parametrize(
    ("evaluate", "last", "steps"),
    [
        ({"times": 2}, 100, (0, 100)),
        ({"times": 3}, 100, (0, 50, 100)),
        ({"times": 2, "spacing": "log"}, 100, (0, 100)),
        ({"times": 3, "spacing": "log"}, 100, (0, 1, 100)),
        ({"times": 41}, 3, (0, 1, 2, 3)),
    ],
)
def test_evaluations_are_at_the_start_at_the_end_and_between(
    evaluate: dict[str, Any], last: int, steps: tuple[int, ...]
) -> None:
    assert Spec.of({**LEAST, "evaluate": evaluate}).evaluate.steps(last) == steps


def test_a_recipe_that_was_kept_is_the_same_whatever_the_order_of_its_options() -> None:
    recipe = Recipe.of("AdamW", weight_decay=0.1, betas=(0.8, 0.9))
    kept = recipe.to_dict()
    turned = {**kept, "options": dict(reversed(list(kept["options"].items())))}
    assert Recipe.from_dict(kept) == Recipe.from_dict(turned) == recipe
