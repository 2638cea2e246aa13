"""What is optimized, separate from how: objectives, models, data sets. Nothing here depends on memory.

Objectives and data sets need only numpy; torch is loaded when a `Problem` is.

Where to find what::

    objectives              test functions with their gradients and constants
    datasets                data sets; the table is in `datasets.catalogue`
    workloads, lookup       the problems by name, and how a name is looked up, the user's own included
    models, metrics         networks; accuracy and other metrics of their outputs
    problem, passes         `Problem`, and its losses and gradients for one run or many
    dense, transformer      many dense networks, or small language models, at once, by hand-written gradients
    convolutional           many convolutional networks at once, as channels of one
    check, report, rebuild  `memgrad check`: the checks, their results, and building a problem twice to compare
    kinds                   arrays of numpy and torch, from one formula
"""

from typing import TYPE_CHECKING

from memgrad.problems.lookup import get, names
from memgrad.problems.objectives import Objective

if TYPE_CHECKING:
    from memgrad.problems.check import check_problem
    from memgrad.problems.problem import Problem
    from memgrad.problems.report import Finding, Report

__all__ = ["Finding", "Objective", "Problem", "Report", "check_problem", "get", "names"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'memgrad.problems' has no attribute {name!r}")
    from memgrad.extras import require

    require(f"memgrad.problems.{name}", extra="torch", modules=("torch",))
    from memgrad.problems import check, problem, report

    owner = {"Problem": problem, "check_problem": check}.get(name, report)
    return getattr(owner, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
