"""Memories as text (`poly:2`) and as plain data, in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memgrad.memory.base import Data, Memory
from memgrad.memory.custom import FromDecays, Sampled
from memgrad.memory.families import (
    CONSTANT,
    CUBIC,
    LINEAR,
    QUADRATIC,
    SQUARE_ROOT,
    Exponential,
    Instantaneous,
    Logarithmic,
    Polynomial,
    PowerDecay,
    Stretched,
)

FAMILIES: Mapping[str, type[Memory]] = {
    family.family: family
    for family in (
        Polynomial,
        Exponential,
        Instantaneous,
        Logarithmic,
        Stretched,
        PowerDecay,
        FromDecays,
        Sampled,
    )
}
"""All families by the name of their text form."""

NAMED: Mapping[str, Memory] = {
    "constant": CONSTANT,
    "square-root": SQUARE_ROOT,
    "linear": LINEAR,
    "quadratic": QUADRATIC,
    "cubic": CUBIC,
}
"""The paper's named rows of Table 2."""


def write(family: str, parameters: Data, unnamed: Sequence[str]) -> str:
    """The text form, with the parameters in `unnamed` given by their place."""
    words = []
    for name, value in parameters.items():
        numbers = ",".join(map(_number, value if isinstance(value, list) else [value]))
        words.append(numbers if name in unnamed else f"{name}={numbers}")
    return family if not words else f"{family}:{','.join(words)}"


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def parse(text: str) -> Memory:
    """The memory with this text form; see `Memory.parse`."""
    if not isinstance(text, str):
        raise TypeError(f"the text form of a memory is a string such as 'poly:2', got {text!r}.")
    plain = text.strip().lower()
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


def as_memory(owner: str, name: str, value: Memory | str) -> Memory:
    """A memory given as an object or in its text form, or an error that names the owner and its parameter."""
    if isinstance(value, str):
        return parse(value)
    if not isinstance(value, Memory):
        raise TypeError(f"{owner} needs a Memory or its text form, such as 'poly:2', got {name}={value!r}.")
    return value


def from_dict(data: Mapping[str, Any]) -> Memory:
    """The memory that `Memory.to_dict` wrote; see `Memory.from_dict`."""
    if not isinstance(data, Mapping) or not isinstance(data.get("family"), str):
        raise ValueError(f"a memory as data is a table with a 'family', such as {LINEAR.to_dict()!r}, got {data!r}.")
    parameters = {name: value for name, value in data.items() if name != "family"}
    return _build(_family(data["family"], data), [], parameters, data)


def _parse_as_in_the_paper(text: str, plain: str) -> Memory:
    """p=2, p=inf, and p=e with the beta 0.9 unless another is said: p=e,beta=0.95."""
    degree, *rest = plain.removeprefix("p=").split(",")
    if degree == "e" and len(rest) <= 1:
        beta = rest[0].removeprefix("beta=") if rest else "0.9"
        return Exponential(_parse_number(beta, text, Exponential))
    if rest:
        raise ValueError(f"memory {text!r} is none of the paper's: write p=2, p=inf, p=e or p=e,beta=0.95.")
    if degree in ("inf", "infinity", "oo"):
        return Instantaneous()
    return Polynomial(_parse_number(degree, text, Polynomial))


def _family(name: str, source: object) -> type[Memory]:
    if name == Sampled.family:
        raise ValueError(f"memory {source!r} is made of functions, so text and data cannot give it; build it in code.")
    if name in FAMILIES:
        return FAMILIES[name]
    import difflib  # only an error needs it

    known = [*FAMILIES, *NAMED]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {FAMILIES[near[0]].example if near[0] in FAMILIES else near[0]!r}?" if near else ""
    raise ValueError(
        f"unknown memory {source!r}; known memories: {', '.join(known)}, or the paper's p=2, p=e, p=inf.{hint}"
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
    if wrong:
        takes = f"takes {', '.join(known)}" if known else "takes no parameter"
        raise ValueError(f"memory {source!r} gives {', '.join(wrong)}, but {family.family} {takes}.")
    parameters = given | named
    missing = [name for name in required if name not in parameters]
    if missing and not (family is Exponential and "alpha" in parameters):
        raise ValueError(f"memory {source!r} does not give {', '.join(missing)}; write it as in {family.example!r}.")
    return family._from_parameters(parameters)
