"""Methods as text (`exp:0.9 / (sqrt(exp:0.999) + 1e-08); decay=0.01`) and as plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memgrad.memory.gains import Gain
from memgrad.memory.text import parse_gain
from memgrad.method.method import NO_DECAY, ONE, WORDS, Method, WeightDecay

EXAMPLE = "exp:0.9 / (sqrt(exp:0.999) + 1e-08); decay=0.01"

_DENOMINATOR = re.compile(r"(?:(?P<root>.+?)\s*\*\s*)?sqrt\((?P<memory>[^()]+)\)\s*(?:\+\s*(?P<eps>[^\s()]+)\s*)?")
_DECAY = re.compile(r"(?P<kind>l2|decay|independent)\s*=\s*(?P<amount>[^/]+?)\s*(?P<log_time>/\s*t)?")
_KIND_OF_WORD = {word: kind for kind, word in WORDS.items()}


def parse(text: str) -> Method:
    """The method with this text form; see `Method.parse`."""
    if not isinstance(text, str):
        raise TypeError(f"the text form of a method is a string such as {EXAMPLE!r}, got {text!r}.")
    _refuse_name(text)
    step, semicolon, decay = text.partition(";")
    mixture, slash, denominator = step.partition("/")
    given: dict[str, Any] = {}
    if semicolon:
        given["weight_decay"] = parse_decay(decay, text)
    if slash:
        found = _DENOMINATOR.fullmatch(_unwrapped(denominator.strip().lower()))
        if found is None:
            raise ValueError(
                f"method {text!r} divides by {denominator.strip()!r}, which is not of the form 'sqrt(exp:0.999)' or "
                f"'(sqrt(exp:0.999) + 1e-08)'; write it as in {EXAMPLE!r}."
            )
        given["second_memory"] = found["memory"]
        given["root"] = parse_gain(found["root"], text) if found["root"] else ONE
        given["eps"] = _real(found["eps"], text, "eps") if found["eps"] else 0.0
    return Method(mixture, **given)


def _unwrapped(text: str) -> str:
    """The text without a pair of parentheses around all of it."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1].strip() if text.startswith("(") and depth == 0 else text


def _refuse_name(text: str) -> None:
    from memgrad.method.named import METHODS  # here, because they are made of methods

    make = METHODS.get(text.strip().lower())
    if make is not None:
        raise ValueError(f"{text!r} is the name of a method, not its text form, which is {str(make())!r} by default.")


def parse_decay(words: str, source: object) -> WeightDecay:
    """The weight decay with this text form, such as `l2=0.1`, `decay=0.01` or `independent=4/t`."""
    found = _DECAY.fullmatch(words.strip().lower())
    if found is None:
        raise ValueError(
            f"method {source!r} says {words.strip()!r} after its semicolon; weight decay is written l2=0.1, decay=0.1 "
            f"(decoupled) or independent=0.1, with /t after the number if it falls as 1/(1+k)."
        )
    return WeightDecay(
        _real(found["amount"], source, found["kind"]), _KIND_OF_WORD[found["kind"]], found["log_time"] is not None
    )


def from_dict(data: Mapping[str, Any]) -> Method:
    """The method that `Method.to_dict` wrote; see `Method.from_dict`."""
    known = ("memory", "second_memory", "root", "eps", "weight_decay")
    if not isinstance(data, Mapping) or not isinstance(data.get("memory"), str):
        raise ValueError(f"a method as data is a table with a 'memory', such as {{'memory': 'poly:2'}}, got {data!r}.")
    wrong = [name for name in data if name not in known]
    if wrong:
        raise ValueError(f"a method as data has {', '.join(known)}, got {', '.join(map(repr, wrong))} as well.")
    root: Gain = parse_gain(data["root"], data) if "root" in data else ONE
    decay = parse_decay(data["weight_decay"], data) if "weight_decay" in data else NO_DECAY
    return Method(data["memory"], data.get("second_memory"), root=root, eps=data.get("eps", 0.0), weight_decay=decay)


def _real(word: str, source: object, name: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"method {source!r} needs a number for {name}, got {word!r}.") from None
