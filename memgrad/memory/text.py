"""Memories as text (`poly:2`) and as plain data, in both directions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from memgrad.kinds import number_form
from memgrad.memory.base import Data, Memory
from memgrad.memory.custom import FromDecays, Sampled
from memgrad.memory.exponential import Exponential
from memgrad.memory.families import LINEAR, NAMED, Instantaneous, Logarithmic, Polynomial, PowerDecay, Stretched
from memgrad.memory.gain_factors import FACTORS, Factor, Power
from memgrad.memory.gains import Gain, Term
from memgrad.memory.mixture import Mixture, Part
from memgrad.memory.scheduled import Aged, Cooled, RampedExponential
from memgrad.suggestions import did_you_mean

FAMILIES: Mapping[str, type[Memory]] = {
    family.family: family
    for family in (
        Polynomial,
        Exponential,
        Instantaneous,
        Logarithmic,
        Stretched,
        PowerDecay,
        Aged,
        Cooled,
        RampedExponential,
        FromDecays,
        Sampled,
    )
}
"""All families by the name of their text form."""


def write(family: str, parameters: Data, unnamed: Sequence[str]) -> str:
    """The text form, with the parameters in `unnamed` given by position."""
    words = []
    for name, value in parameters.items():
        numbers = ",".join(map(number_form, value if isinstance(value, list) else [value]))
        words.append(numbers if name in unnamed else f"{name}={numbers}")
    return family if not words else f"{family}:{','.join(words)}"


def parse(text: str) -> Memory | Mixture:
    """The memory or mixture with this text form; see `Memory.parse`."""
    summands = _split(_as_text(text), "+")
    if len(summands) == 1 and len(_split(summands[0], "*")) == 1:
        return parse_memory(text)
    return parse_mixture(text)


def parse_mixture(text: str) -> Mixture:
    """The mixture with this text form, even if it is a single memory; see `Mixture.parse`."""
    summands = _split(_as_text(text), "+")
    if not all(summands):
        raise ValueError(f"mixture {text!r} has an empty part; write it as in 'inst + 5*exp:0.999'.")
    parts = tuple(_part(summand, text) for summand in summands)
    try:
        return Mixture(parts)
    except ValueError as error:
        raise ValueError(f"mixture {text!r}: {error}") from None


def parse_gain(text: str, source: object) -> Gain:
    """The gain with this text form, such as `2*(1+k)^0.5`; `source` is the whole text, for errors."""
    terms = [_term(_split(summand, "*"), summand, source) for summand in _split(_as_text(text), "+")]
    return Gain(tuple(terms))


def _part(summand: str, text: str) -> Part:
    *factors, memory = _split(summand, "*")
    term = _term(factors, summand, text)
    try:
        return Part(Gain((term,)), parse_memory(memory))
    except ValueError as error:
        if text.strip().lower() == memory:
            raise
        raise ValueError(f"mixture {text!r}: {error}") from None


def _term(words: list[str], summand: str, source: object) -> Term:
    scale, factors = 1.0, []
    for word in words:
        factor = _factor(word, summand, source)
        if isinstance(factor, Factor):
            factors.append(factor)
        else:
            scale *= factor
    try:
        return Term(scale, tuple(factors))
    except ValueError as error:
        raise ValueError(f"mixture {source!r}, part {summand!r}: {error}") from None


def _factor(word: str, summand: str, source: object) -> Factor | float:
    """A number, `(1+k)^a`, or a factor by its name with its numbers in parentheses."""
    try:
        power = re.fullmatch(r"\((?:1\s*\+\s*k|k\s*\+\s*1)\)(?:\^\(?([^()]+)\)?)?", word)
        if power:
            return Power(float(power[1]) if power[1] else 1.0)
        name, parenthesis, rest = word.partition("(")
        if name in FACTORS and (not parenthesis or rest.endswith(")")):
            numbers = [float(number) for number in rest[:-1].split(",")] if parenthesis else []
            return FACTORS[name](*numbers)
        return float(word)
    except (TypeError, ValueError) as error:
        known = ", ".join(["a number", "(1+k)^0.15", *FACTORS])
        raise ValueError(
            f"mixture {source!r} has the part {summand!r}, whose gain {word!r} cannot be read: a gain is a product of "
            f"{known}, such as '2*(1+k)^0.15*poly:8' or '5*ramp(1000)*exp:0.9999' ({error})."
        ) from None


def _split(text: str, sign: str) -> list[str]:
    """The pieces between signs, except for signs within parentheses and within numbers such as 1e+05."""
    pieces, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character != sign or depth:
            continue
        # Two characters decide: a form may list thousands of numbers, and is read in one pass.
        exponent = sign == "+" and re.fullmatch(r"[\d.]e", text[max(i - 2, 0) : i]) and text[i + 1 : i + 2].isdigit()
        if not exponent:
            pieces.append(text[start:i].strip())
            start = i + 1
    return [*pieces, text[start:].strip()]


def _as_text(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"the text form of a memory is a string such as 'poly:2', got {text!r}.")
    return text.strip().lower()


def parse_memory(text: str) -> Memory:
    """The memory with this text form, where a mixture is not allowed."""
    plain = _as_text(text)
    if plain in NAMED:
        return NAMED[plain]
    if plain.startswith("p=") and ":" not in plain:
        return _parse_as_in_the_paper(text, plain)
    name, _, rest = plain.partition(":")
    family = _family(name, text)
    unnamed: list[Any] = []
    named: Data = {}
    for word in rest.split(",") if rest else []:
        key, equals, number = word.rpartition("=")
        value = _parse_number(number, text, family)
        if not equals:
            unnamed.append(value)
        elif key.strip() in named:
            raise ValueError(f"memory {text!r} gives {key.strip()} twice; write it as in {family.example!r}.")
        else:
            named[key.strip()] = value
    if family is FromDecays:  # all its numbers are one parameter
        if named:
            raise ValueError(f"memory {text!r} gives {', '.join(named)}; write decays as in {family.example!r}.")
        unnamed = [unnamed] if unnamed else []
    return _build(family, unnamed, named, text)


def as_memory(owner: str, name: str, value: Memory | Mixture | str) -> Memory:
    """A memory given as an object or in its text form, or an error that names the owner and its parameter.

    A mixture is accepted if it is a single memory with gain 1.
    """
    read = parse(value) if isinstance(value, str) else value
    if isinstance(read, Mixture):
        if read.memory is None:
            raise ValueError(
                f"{owner} needs a memory, whose weights sum to 1, not a mixture with gain, got {name}={str(read)!r}."
            )
        return read.memory
    if not isinstance(read, Memory):
        raise TypeError(f"{owner} needs a Memory or its text form, such as 'poly:2', got {name}={value!r}.")
    return read


def from_dict(data: Mapping[str, Any]) -> Memory:
    """The memory that `Memory.to_dict` wrote; see `Memory.from_dict`."""
    if not isinstance(data, Mapping) or not isinstance(data.get("family"), str):
        raise ValueError(f"a memory as data is a table with a 'family', such as {LINEAR.to_dict()!r}, got {data!r}.")
    parameters = {name: value for name, value in data.items() if name != "family"}
    return _build(_family(data["family"], data), [], parameters, data)


def _parse_as_in_the_paper(text: str, plain: str) -> Memory:
    """p=2, p=inf, and p=e, whose beta is 0.9 unless given: p=e,beta=0.95."""
    degree, *rest = plain.removeprefix("p=").split(",")
    if degree == "e" and len(rest) <= 1:
        beta = rest[0].removeprefix("beta=") if rest else "0.9"
        return Exponential(_parse_number(beta, text, Exponential))
    if rest:
        raise ValueError(f"memory {text!r} is not one of the paper's: write p=2, p=inf, p=e or p=e,beta=0.95.")
    if degree in ("inf", "infinity", "oo"):
        return Instantaneous()
    return Polynomial(_parse_number(degree, text, Polynomial))


def _family(name: str, source: object) -> type[Memory]:
    if name == Sampled.family:
        raise ValueError(f"memory {source!r} is made of functions, which text cannot express; build it in code.")
    if name in FAMILIES:
        return FAMILIES[name]
    known = [*FAMILIES, *NAMED]
    hint = did_you_mean(name, known, written={name: family.example for name, family in FAMILIES.items()})
    raise ValueError(
        f"unknown memory {source!r}{hint} Known memories: {', '.join(known)}, or the paper's p=2, p=e, p=inf."
    )


def _parse_number(word: str, text: str, family: type[Memory]) -> float:
    try:
        return float(word)
    except ValueError:
        code = "; a function can only be given in code" if family is FromDecays else ""
        raise ValueError(
            f"memory {text!r} needs a number where it says {word!r}; write it as in {family.example!r}{code}."
        ) from None


def _build(family: type[Memory], unnamed: list[Any], named: Data, source: object) -> Memory:
    required, known = family._required(), family._parameter_names()
    given = dict(zip(required, unnamed, strict=False))
    twice = given.keys() & named.keys()
    wrong = [str(each) for each in (*(named.keys() - set(known)), *unnamed[len(required) :], *twice)]
    optional = [name for name in known if name not in required]
    if len(unnamed) > len(required) and optional:
        raise ValueError(
            f"memory {source!r} gives {', '.join(map(number_form, unnamed[len(required) :]))} without a name, but "
            f"{family.family} takes {', '.join(optional)} by name, as in {optional[0]}=0.5."
        )
    if wrong:
        takes = f"takes {', '.join(known)}" if known else "takes no parameter"
        raise ValueError(f"memory {source!r} gives {', '.join(wrong)}, but {family.family} {takes}.")
    parameters = given | named
    missing = [name for name in required if name not in parameters]
    if missing and not (family is Exponential and "alpha" in parameters):
        raise ValueError(f"memory {source!r} does not give {', '.join(missing)}; write it as in {family.example!r}.")
    return family._from_parameters(parameters)
