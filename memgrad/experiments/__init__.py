"""Experiments: from a spec to planned runs, to training, to rows in a store, on one machine or many.

A folder for each stage::

    planning     the TOML file, the runs it asks for, their groups and their cost
    training     the loop, its programs and checkpoints, and the engines that host it
    storing      rows, checkpoints, provenance and upkeep of a store
    racing       `memgrad tune`: learning rates, the race and its answer
    measuring    `memgrad spectrum`: curvature, noise and the loss curve of a problem

`driver` leads an experiment through the stages and answers Ctrl-C, and `results` reads the rows and compares methods
(`comparison` has the values it returns). `digests` hashes what it is given; what the digest of a run depends on is
decided by `planning.runs` and, for options of optimizers, by `planning.recipe`.
"""

from memgrad.extras import require

require("memgrad.experiments", extra="lab", modules=("torch", "pydantic"))

from memgrad.deprecation import deprecated_modules
from memgrad.experiments.comparison import Comparison, Curve
from memgrad.experiments.driver import Outcome, execute, results_of
from memgrad.experiments.planning.methods import Method
from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.planning.spec import Evaluate, Select, Spec
from memgrad.experiments.racing.answer import Answer, Contestant
from memgrad.experiments.racing.candidates import Candidate
from memgrad.experiments.racing.course import Trial
from memgrad.experiments.racing.portfolio import portfolio
from memgrad.experiments.racing.sequential import Rules
from memgrad.experiments.racing.tune import Budget, tune
from memgrad.experiments.racing.tuner import Tuner
from memgrad.experiments.results import Results
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.engines.local import LocalEngine

__all__ = [
    "Answer",
    "Budget",
    "Candidate",
    "Comparison",
    "Contestant",
    "Curve",
    "Evaluate",
    "LocalEngine",
    "Method",
    "Outcome",
    "Recipe",
    "Results",
    "Rules",
    "Run",
    "Select",
    "Spec",
    "Store",
    "Trial",
    "Tuner",
    "execute",
    "portfolio",
    "results_of",
    "tune",
]

_CHUNK, _CHOICE = "memgrad.experiments.storing.chunk", "memgrad.experiments.planning.problem_choice"
_EVENTS = ("Event", "Progressed", "Evaluated", "Saved", "Stopped", "Finished", "Failed", "Lost", "Refused")
deprecated_modules(
    {
        "memgrad.experiments.choice": {name: f"{_CHOICE}.{name}" for name in ("ProblemChoice", "Facts")},
        "memgrad.experiments.chunk": {"Chunk": f"{_CHUNK}.Chunk"},
        "memgrad.experiments.engines": {},
        "memgrad.experiments.engines.engine": {
            "Engine": "memgrad.experiments.training.engines.engine.Engine",
            "Task": "memgrad.experiments.training.train.Assignment",
        },
        "memgrad.experiments.events": {name: f"memgrad.experiments.training.events.{name}" for name in _EVENTS},
        "memgrad.experiments.parquet": {"Header": f"{_CHUNK}.Header"},
        "memgrad.experiments.plan": {"Batch": "memgrad.experiments.planning.plan.RunGroup"},
        "memgrad.experiments.rows": {"Rows": f"{_CHUNK}.Rows"},
        "memgrad.experiments.store": {
            "Damage": "memgrad.experiments.storing.store.Damage",
            "Store": "memgrad.experiments.storing.store.Store",
        },
    }
)
