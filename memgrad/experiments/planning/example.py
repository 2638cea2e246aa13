"""The example experiment that `memgrad init` writes."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

from memgrad import problems
from memgrad.experiments.planning.problem_choice import DATA, OF_TEXT
from memgrad.problems.datasets.texts import DEFAULT_TEXT
from memgrad.suggestions import did_you_mean
from memgrad.user_code import Reference


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


def named_in(folder: Path, problem: str) -> str:
    """The problem as an experiment in this folder names it; a file or a name in it that is not there is refused."""
    reference = Reference.parse(problem)
    if not reference.is_file:
        return problem
    reference.check("a problem")
    # Not by running the file, which may load data for minutes.
    names = _names_in(Path(reference.place))
    if reference.attribute and not names & {reference.attribute, "*"}:
        raise ValueError(
            f"{reference.place} has no {reference.attribute!r}{did_you_mean(reference.attribute, names)} Write "
            f"{reference.place}:NAME with the name of a problem, or of a function that returns one."
        )
    place = os.path.relpath(Path(reference.place).resolve(), folder)  # paths in an experiment are relative to its file
    return f"{place}:{reference.attribute}" if reference.attribute else place


def _names_in(path: Path) -> set[str]:
    """The names that a file defines, imports or assigns, somewhere; `*` is among them if it imports all of a module."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        raise ValueError(f"{path}, line {error.lineno}, is not Python: {error.msg}.") from None
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name)
    return names
