"""Experiments: from a spec to a plan of runs, to rows in a store, on one machine or on many."""

from memgrad.extras import require

require("memgrad.experiments", extra="lab", modules=("torch", "pydantic"))

from memgrad.experiments.driver import Outcome, execute, results_of  # noqa: E402  # after the check
from memgrad.experiments.engines.local import LocalEngine  # noqa: E402
from memgrad.experiments.recipe import Recipe  # noqa: E402
from memgrad.experiments.results import Comparison, Curve, Results  # noqa: E402
from memgrad.experiments.runs import Run  # noqa: E402
from memgrad.experiments.spec import Evaluate, Method, Select, Spec  # noqa: E402
from memgrad.experiments.store import Store  # noqa: E402

__all__ = [
    "Comparison",
    "Curve",
    "Evaluate",
    "LocalEngine",
    "Method",
    "Outcome",
    "Recipe",
    "Results",
    "Run",
    "Select",
    "Spec",
    "Store",
    "execute",
    "results_of",
]
