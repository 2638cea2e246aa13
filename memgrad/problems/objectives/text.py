"""Objectives as text (`huber:1`), in both directions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from memgrad.kinds import number_form
from memgrad.problems.objectives.base import Objective
from memgrad.problems.objectives.formulas import SU, ConstantGradient, Huber, LogCosh, Quadratic, Quartic
from memgrad.problems.objectives.regression import LeastSquares, Logistic, PowerLaw
from memgrad.suggestions import did_you_mean

FAMILIES: Mapping[str, type[Objective]] = {
    family.family: family
    for family in (Quadratic, Quartic, Huber, LogCosh, ConstantGradient, PowerLaw, LeastSquares, Logistic)
}
"""All families by the name of their text form."""

NAMED: Mapping[str, Objective] = {"su": SU}
"""Single objectives by name."""

HOLD_DATA = (LeastSquares, Logistic)
# Their first parameter takes all numbers that are given without a name.
OF_ONE_SEQUENCE = (Quadratic, Quartic, ConstantGradient)


def write(objective: Objective) -> str:
    """The text form; a matrix is written as the word `matrix`, which `parse` refuses."""
    words = []
    for i, field in enumerate(_fields(type(objective))):
        value = getattr(objective, field.name)
        if i > 0 and value == field.default:
            continue
        if i == 0 and isinstance(objective, OF_ONE_SEQUENCE):
            words += [number_form(each) for each in value]
        else:
            number = "matrix" if isinstance(value, tuple) else number_form(value)
            words.append(number if field.name in _unnamed(type(objective)) else f"{field.name}={number}")
    return f"{objective.family}:{','.join(words)}" if words else objective.family


def parse(text: str) -> Objective:
    """The objective with this text form; see `Objective.parse`."""
    if not isinstance(text, str):
        raise TypeError(f"the text form of an objective is a string such as 'huber:1', got {text!r}.")
    name, _, rest = text.strip().lower().partition(":")
    if name in NAMED:
        noise = _parameters(type(NAMED[name]), rest, text)
        if noise.keys() - {"sigma"}:
            raise ValueError(f"objective {text!r}: {name} takes no parameter but sigma, as in '{name}:sigma=0.02'.")
        return dataclasses.replace(NAMED[name], **noise)  # type: ignore[type-var]  # each is a dataclass
    family = _family(name, text)
    parameters = _parameters(family, rest, text)
    missing = [f.name for f in _fields(family) if f.default is dataclasses.MISSING and f.name not in parameters]
    if missing:
        raise ValueError(f"objective {text!r} does not give {', '.join(missing)}; write it as in {family.example!r}.")
    return family(**parameters)


def _parameters(family: type[Objective], rest: str, text: str) -> dict[str, Any]:
    names, places = [field.name for field in _fields(family)], _unnamed(family)
    unnamed: list[float] = []
    named: dict[str, Any] = {}
    for word in rest.split(",") if rest else []:
        key, equals, number = (part.strip() for part in word.rpartition("="))
        value = _parse_number(number, text, family)
        if not equals:
            unnamed.append(value)
        elif key not in names:
            raise ValueError(f"objective {text!r} gives {key}, but {family.family} takes {', '.join(names)}.")
        elif key in named:
            raise ValueError(f"objective {text!r} gives {key} twice; write it as in {family.example!r}.")
        else:
            named[key] = value
    if family in OF_ONE_SEQUENCE:
        given: dict[str, Any] = {names[0]: tuple(unnamed)} if unnamed else {}
    else:
        given = dict(zip(places, unnamed, strict=False))
        if len(unnamed) > len(places):
            takes = f"takes {len(places)}, {', '.join(places)}" if places else "takes none"
            raise ValueError(
                f"objective {text!r} gives {len(unnamed)} numbers without a name; {family.family} {takes}."
            )
    if given.keys() & named.keys():
        raise ValueError(f"objective {text!r} gives {', '.join(given.keys() & named.keys())} twice.")
    return given | named


def _family(name: str, text: str) -> type[Objective]:
    if name in FAMILIES and FAMILIES[name] in HOLD_DATA:
        raise ValueError(
            f"objective {text!r} is defined by data and has no text form; write {FAMILIES[name].example} in code."
        )
    if name in FAMILIES:
        return FAMILIES[name]
    examples = {known: family.example for known, family in FAMILIES.items() if family not in HOLD_DATA}
    known = [*NAMED, *examples]
    hint = did_you_mean(name, known, written=examples)
    raise ValueError(f"unknown objective {text!r}{hint} Known objectives: {', '.join(known)}.")


def _fields(family: type[Objective]) -> list[dataclasses.Field[Any]]:
    """The fields in the order of the text form: sigma, which all synthetic objectives have, comes last."""
    fields = dataclasses.fields(family)  # type: ignore[arg-type]  # each family is a dataclass
    return sorted(fields, key=lambda field: field.name == "sigma")


def _unnamed(family: type[Objective]) -> list[str]:
    """The parameters that may be given by position: the required ones, and Huber's delta."""
    required = [field.name for field in _fields(family) if field.default is dataclasses.MISSING]
    return ["delta"] if family is Huber else required


def _parse_number(word: str, text: str, family: type[Objective]) -> float:
    try:
        return float(word)
    except ValueError:
        code = "; a matrix can only be given in code" if word == "matrix" else ""
        raise ValueError(
            f"objective {text!r} needs a number where it says {word!r}; write it as in {family.example!r}{code}."
        ) from None
