"""An experiment that repeats the answer: the two contestants, at their learning rates, on the fresh seeds."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing.answer import Answer
from memgrad.user_code import Reference, names_code


def repeating(spec: Spec, answer: Answer, folder: str | os.PathLike[str] = ".") -> str:
    """The text of a spec with the challenger and the baseline; `memgrad run` finds their rows in the store.

    Args:
        spec: The experiment that was tuned.
        answer: The answer, with at least one contestant.
        folder: Where the text will be stored: the user's own files are named as seen from there.
    """
    contestants = [each for each in (answer.baseline, answer.challenger) if each is not None]
    if not contestants:
        raise ValueError(f"there is no answer to repeat: {answer.reason}.")
    first = answer.first_seed
    whole = spec.model_dump(exclude_defaults=True, exclude={"methods", "seeds", "name", "note"})
    whole["problem"] = _seen_from(folder, spec.problem)
    methods = []
    for each in contestants:
        method = spec.method(each.name)
        options = method.model_dump(exclude_defaults=True, exclude={"seeds"})
        own = {
            code.option: _seen_from(folder, f"{code.place}:{code.reference.attribute}") for code in method.recipe.code
        }
        methods.append({"name": each.name, **options, "lr": each.lr, **own})
    settings = {"name": "tuned", **whole, "seeds": list(range(first, first + answer.rules.fresh))}
    return f"# {answer.verdict}\n" + to_toml(settings, methods)


def _seen_from(folder: str | os.PathLike[str], name: str) -> str:
    """The name of user code with its file as seen from a folder; other names as they are."""
    if not names_code(name) or not (reference := Reference.parse(name)).is_file:
        return name
    colon = f":{reference.attribute}" if reference.attribute else ""
    return f"{os.path.relpath(reference.place, folder)}{colon}"


def to_toml(settings: Mapping[str, Any], methods: list[dict[str, Any]]) -> str:
    """Settings as TOML: plain keys, then tables, then the methods.

    Example:
        >>> print(to_toml({"steps": 9, "evaluate": {"times": 3}}, [{"optimizer": "SGD", "lr": 0.5}]))
        steps = 9
        <BLANKLINE>
        [evaluate]
        times = 3
        <BLANKLINE>
        [[methods]]
        optimizer = "SGD"
        lr = 0.5
        <BLANKLINE>
    """
    plain = {name: value for name, value in settings.items() if not isinstance(value, Mapping)}
    tables = {name: value for name, value in settings.items() if isinstance(value, Mapping)}
    blocks = [_lines(plain), *(f"[{name}]\n{_lines(table)}" for name, table in tables.items() if table)]
    blocks += [f"[[methods]]\n{_lines(method)}" for method in methods]
    return "\n".join(blocks)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in table.items() if value is not None)


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    return str(value) if isinstance(value, int) else json.dumps(str(value))
