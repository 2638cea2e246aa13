"""Experiments: from a spec to planned runs, to training, to rows in a store, on one machine or many."""

from memgrad.extras import require

require("memgrad.experiments", extra="lab", modules=("torch", "pydantic"))

from memgrad.deprecation import deprecated_modules  # noqa: E402  # after the check
from memgrad.experiments.comparison import Comparison, Curve  # noqa: E402
from memgrad.experiments.driver import Outcome, execute, results_of  # noqa: E402
from memgrad.experiments.planning.methods import Method  # noqa: E402
from memgrad.experiments.planning.recipe import Recipe  # noqa: E402
from memgrad.experiments.planning.runs import Run  # noqa: E402
from memgrad.experiments.planning.spec import Evaluate, Select, Spec  # noqa: E402
from memgrad.experiments.racing.answer import Answer, Contestant  # noqa: E402
from memgrad.experiments.racing.candidates import Candidate  # noqa: E402
from memgrad.experiments.racing.course import Trial  # noqa: E402
from memgrad.experiments.racing.portfolio import portfolio  # noqa: E402
from memgrad.experiments.racing.sequential import Rules  # noqa: E402
from memgrad.experiments.racing.tune import Budget, tune  # noqa: E402
from memgrad.experiments.racing.tuner import Tuner  # noqa: E402
from memgrad.experiments.results import Results  # noqa: E402
from memgrad.experiments.storing.store import Store  # noqa: E402
from memgrad.experiments.training.engines.local import LocalEngine  # noqa: E402

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
