"""What is wrong with an experiment's file, in words: file, key, rule and value, one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from memgrad.experiments.planning.recipe import OptionError
from memgrad.suggestions import nearest

RULES = {
    "lr": "a step size is a number > 0, a list of them, each once, or 'best of NAME' with another method's name",
    "batch": "the size of a minibatch is an integer from 1 to 1e12, or 'full'",
    "seeds": "seeds are a number of them from 1 to 100,000, or a list of integers from 0 to 2^63 - 1, each once",
    "tuning_seeds": "tuning seeds are a list of integers from 0 to 2^63 - 1, each once",
    "steps": "the number of steps is an integer from 1 to 1e12",
    "epochs": "the number of epochs is an integer from 1 to 1e9",
    "metrics": "metrics are a list of names",
    "dtype": "the precision is 'float32' or 'float64'",
    "examples": "the number of training examples is an integer from 1 to 1e12",
    "grid": "a grid is a table with a list of values for each option",
    "steps_factor": "the factor of the steps is a number > 0",
    "clip": "the largest norm of a gradient is a number > 0",
    "times": "the number of evaluations is an integer from 2 to 100,000, or a table of them by the metric's name",
}
"""The rules of keys with several types; pydantic's own messages are clear for the others."""


def in_words(where: str, data: Mapping[str, Any], error: ValidationError, parts: Mapping[str, type[BaseModel]]) -> str:
    """All errors, one per line: file, key, rule and value.

    Args:
        where: The file.
        data: What it says.
        error: What pydantic found.
        parts: The model of each table in it, and of the file itself under the empty name, for names that are similar.
    """
    lines = []
    for complaint in error.errors(include_url=False):
        refused = complaint.get("ctx", {}).get("error")
        at = (*complaint["loc"], refused.option) if isinstance(refused, OptionError) else complaint["loc"]
        place, value = _place(at, data)
        if complaint["type"] == "extra_forbidden":
            rule = "unknown key" + _nearest(complaint["loc"], parts)
        elif complaint["type"] == "missing":
            rule = "is missing"
        elif complaint["type"] == "list_type" and place == ("methods",):
            rule = "each method is a table of its own: write [[methods]], with two brackets"
        elif place and place[-1] in RULES and complaint["type"] != "value_error":
            rule = RULES[str(place[-1])]
        else:
            rule = complaint["msg"].removeprefix("Value error, ").rstrip(".")
        says_itself = isinstance(refused, OptionError) or complaint["type"] == "missing"
        is_table = isinstance(value, Mapping) and not (place and place[-1] in RULES)
        got = "" if is_table or says_itself else f", got {_short(value)}"
        line = f"{where}: {_written(place)}: {rule}{got}." if place else f"{where}: {rule}."
        if line not in lines:
            lines.append(line)
    return "\n".join(lines)


def _place(location: Sequence[str | int], data: Any) -> tuple[tuple[str | int, ...], Any]:
    """The key that is meant and its value, without the branches of a union that pydantic adds."""
    place: list[str | int] = []
    for part in location:
        inside = isinstance(data, Mapping) and part in data
        if not (inside or (isinstance(data, list) and isinstance(part, int)) or part == location[0]):
            if isinstance(data, Mapping):  # a key that is missing
                place.append(part)
            break
        place.append(part)
        data = data[part] if not isinstance(data, Mapping) or part in data else None
        if part in RULES:  # the rule is about the whole value
            break
    return tuple(place), data


def _written(place: Sequence[str | int]) -> str:
    """The key in the usual notation, such as methods[2].lr."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def _nearest(location: Sequence[str | int], parts: Mapping[str, type[BaseModel]]) -> str:
    owner = parts.get(str(location[0]), parts[""])
    near = nearest(location[-1], owner.model_fields)
    return f"; did you mean {near!r}?" if near else f"; known: {', '.join(owner.model_fields)}"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists in lists in lists
        return "a value too long to show"
    return text if len(text) <= 80 else text[:77] + "..."
