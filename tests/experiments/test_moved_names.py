"""Names of `memgrad.experiments` that moved: the old ones still work, and warn."""

from __future__ import annotations

import importlib
import re

import pytest
from tiny_runs import run_of

from memgrad.experiments import Comparison, Recipe, Spec
from memgrad.experiments.planning.plan import RunGroup
from memgrad.experiments.planning.problem_choice import ProblemChoice
from memgrad.experiments.training.train import Assignment
from memgrad.statistics import Estimate

PACKAGE = "memgrad.experiments"
MOVED = {
    "choice.ProblemChoice": "planning.problem_choice.ProblemChoice",
    "choice.Facts": "planning.problem_choice.Facts",
    "chunk.Chunk": "storing.chunk.Chunk",
    "engines.engine.Engine": "training.engines.engine.Engine",
    "engines.engine.Task": "training.train.Assignment",
    "events.Finished": "training.events.Finished",
    "parquet.Header": "storing.chunk.Header",
    "plan.Batch": "planning.plan.RunGroup",
    "rows.Rows": "storing.chunk.Rows",
    "store.Damage": "storing.store.Damage",
    "store.Store": "storing.store.Store",
}


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_place_gives_the_same_thing_and_names_the_new_one(old: str, new: str) -> None:
    (was, name), (module, renamed) = (f"{PACKAGE}.{path}".rsplit(".", 1) for path in (old, new))
    with pytest.warns(DeprecationWarning, match=re.escape(f"{PACKAGE}.{old} is deprecated; use {PACKAGE}.{new}.")):
        found = getattr(importlib.import_module(was), name)
    assert found is getattr(importlib.import_module(module), renamed)


def test_what_never_was_at_an_old_place_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"'memgrad.experiments.choice' has no attribute 'Choice'"):
        _ = importlib.import_module(f"{PACKAGE}.choice").Choice


def test_old_attributes_still_work_and_warn() -> None:
    run, choice = run_of(), ProblemChoice("logistic")
    spec = Spec.parse('problem = "logistic"\nsteps = 1\n[[methods]]\noptimizer = "SGD"\nlr = 1.0\n')
    assignment = Assignment(RunGroup((run,)), choice)
    estimate = Estimate(1.0, 0.5, 1.5, 3)
    comparison = Comparison("SGD", 0.1, estimate, None, True, 1.0, 1.0, 0, 3, 3)
    for owner, old, expected in [
        (run, "batch", run.batch_size),
        (spec, "choice", choice),
        (assignment, "batch", assignment.group),
        (assignment, "choice", choice),
    ]:
        with pytest.warns(DeprecationWarning, match=rf"^{type(owner).__name__}\.{old} is deprecated; use \w+\.$"):
            assert getattr(owner, old) == expected
    for plain in (run, Recipe.of("SGD"), choice, comparison):
        with pytest.warns(DeprecationWarning, match=r"as_dict is deprecated; use to_dict\.$"):
            assert plain.as_dict() == plain.to_dict()
