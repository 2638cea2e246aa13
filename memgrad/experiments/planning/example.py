"""The example experiment that `memgrad init` writes."""

from __future__ import annotations

import json
from pathlib import Path

from memgrad import problems
from memgrad.experiments.planning.problem_choice import DATA


def example(problem: str = "fashion-mlp") -> str:
    """The text of a commented experiment on this problem.

    Example:
        >>> from memgrad.experiments.planning.spec import Spec
        >>> Spec.parse(example()).problem
        'fashion-mlp'
    """
    text = (Path(__file__).parent / "example.toml").read_text(encoding="utf-8")
    sample = "# A few hundred rows that come with memgrad; false for the complete data set.\nsample = true\n"
    has_sample = problem in problems.names() and problem in DATA
    return text.replace("PROBLEM", json.dumps(problem)).replace("SAMPLE", sample if has_sample else "")
