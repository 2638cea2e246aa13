"""The example experiment that `memgrad init` writes."""

from __future__ import annotations

import json
from pathlib import Path

from memgrad import problems
from memgrad.experiments.planning.problem_choice import DATA, OF_TEXT
from memgrad.problems.datasets.texts import DEFAULT_TEXT


def example(problem: str = "fashion-mlp", data: str | None = None) -> str:
    """The text of a commented experiment on this problem.

    Args:
        problem: The problem.
        data: The text that a language model is trained on: a name or a path; by default the sample that comes with
            memgrad.

    Example:
        >>> from memgrad.experiments.planning.spec import Spec
        >>> Spec.parse(example()).problem
        'fashion-mlp'
    """
    if problem in OF_TEXT:
        text = (Path(__file__).parent / "example_text.toml").read_text(encoding="utf-8")
        sample = "# The beginning of it, which comes with memgrad; false for the complete text.\nsample = true\n"
        named = text.replace("PROBLEM", json.dumps(problem)).replace("DATA", json.dumps(data or DEFAULT_TEXT))
        return named.replace("SAMPLE", "" if data else sample)
    if data is not None:
        raise ValueError(f"problem {problem!r} takes no text; --data is for {', '.join(OF_TEXT)}, got {data!r}.")
    text = (Path(__file__).parent / "example.toml").read_text(encoding="utf-8")
    sample = "# A few hundred rows that come with memgrad; false for the complete data set.\nsample = true\n"
    has_sample = problem in problems.names() and problem in DATA
    return text.replace("PROBLEM", json.dumps(problem)).replace("SAMPLE", sample if has_sample else "")
