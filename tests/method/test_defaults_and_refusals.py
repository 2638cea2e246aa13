"""The defaults of the named methods, written out, and what methods and schedules refuse or accept at their borders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from memgrad.memory import COLD, FromDecays, Gain
from memgrad.method import METHODS, Method, Schedule, WeightDecay, adam, adana, heavy_ball, nadam, nesterov

# What the papers and torch take by default; `torch.optim` and the authors' tables have the same numbers.
DEFAULTS = {
    "sgd": "inst",
    "memsgd": "poly:2",
    "heavy_ball": "sum*exp:0.9",
    "nesterov": "inst + 0.9*sum*exp:0.9",
    "qhm": "0.3*inst + 0.7*cold*exp:0.999",
    "aggmo": f"{1 / 3!r}*inst + {1 / 3!r}*sum*exp:0.9 + {1 / 3!r}*sum*exp:0.99",
    "dana": "inst + (1+k)^0.15*poly:8",
    "memadam": "exp:0.9 / (sqrt(poly:4) + 1e-08)",
    "polyadam": "exp:0.9 / (sqrt(poly:4) + 1e-08)",
    "adam": "exp:0.9 / (sqrt(exp:0.999) + 1e-08)",
    "adamw": "exp:0.9 / (sqrt(exp:0.999) + 1e-08); decay=0.01",
    "nadam": "nadam(0.9,0.004)*inst + cold*nadam_ahead(0.9,0.004)*exp:0.9 / (sqrt(exp:0.999) + 1e-08)",
    "adagrad": "inst / ((1+k)^0.5*sqrt(poly:1) + 1e-10)",
    "ademamix": "exp:0.9 + 5*cold*exp:0.9999 / (sqrt(exp:0.999) + 1e-08)",
    "adana": "inst + (1+k)^0.15*poly:8 / (sqrt(poly:8) + 1e-08); independent=4/t",
}


@pytest.mark.parametrize("name", METHODS)
def test_the_defaults_of_a_named_method(name: str) -> None:
    assert str(METHODS[name]()) == DEFAULTS[name]


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (nadam(weight_decay=0.1), "; l2=0.1"),
        (nadam(weight_decay=0.1, decoupled=True), "; decay=0.1"),
        (adana(through_lr=True), "; decay=4/t"),
        (adam(weight_decay=0.1), "; l2=0.1"),
        (Method("inst", weight_decay=WeightDecay(0.1, "independent")), "; independent=0.1"),
    ],
)
def test_the_kind_of_a_weight_decay_is_written_after_the_semicolon(method: Method, words: str) -> None:
    assert str(method).endswith(words)
    assert method.to_dict()["weight_decay"] == words.removeprefix("; ")


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: WeightDecay(0.1, log_time=1), "log_time True or False, got log_time=1"),  # type: ignore[arg-type]
    (lambda: Method("inst", weight_decay=0.1), "needs a WeightDecay, got weight_decay=0.1"),  # type: ignore[arg-type]
    (lambda: Method("inst", root=2.0), "without a second memory has no root and no eps, got root='2'"),
    (lambda: Method("inst", "poly:2", root=COLD), "a cold start needs an exponential memory"),
    (lambda: Method("inst", "poly:2", eps=math.inf), "finite eps >= 0, got eps=inf"),
    (lambda: Method(2.0), "a method needs a Memory, a Mixture or a text form"),  # type: ignore[arg-type]
    (lambda: Method.parse(2), "text form of a method is a string"),  # type: ignore[arg-type]
    (lambda: Method.from_dict({"eps": 1e-8}), "a table with a 'memory'"),
    (lambda: Method.from_dict("poly:2"), "a table with a 'memory'"),  # type: ignore[arg-type]
    (lambda: adam((False, 0.999)), "real number beta1, got beta1=False"),
    (lambda: heavy_ball(-0.1), "0 <= momentum < 1, got momentum=-0.1"),
    (lambda: nesterov(1.0), "nesterov needs 0 <= momentum < 1"),
    (lambda: adana(omega=-1.0), "adana needs a finite omega >= 0, got omega=-1.0"),
    (lambda: Schedule.parse(3), "text form of a schedule is a string"),  # type: ignore[arg-type]
    (lambda: Schedule("linear", warmup=True), "needs a number warmup, got warmup=True"),
    (lambda: Schedule("linear", warmup=math.inf), "got warmup=inf"),
    (lambda: Schedule("linear", warmup=math.nan), "got warmup=nan"),
    (lambda: Schedule("linear", floor=-0.1), "0 <= floor <= 1, got floor=-0.1"),
    (lambda: Schedule("wsd", warmup=10, decay=20).check(29), "need at least 30 steps, got 29"),
    (lambda: Schedule("linear").check(0), "needs more than 0 steps, got 0"),
]


@pytest.mark.parametrize(("attempt", "words"), REFUSED, ids=[f"{i}: {words}" for i, (_, words) in enumerate(REFUSED)])
def test_what_is_no_method_and_no_schedule_is_refused(attempt: Callable[[], Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refusal:
        attempt()
    assert words in str(refusal.value)


def test_a_second_memory_of_the_newest_squares_needs_no_buffer() -> None:
    assert Method("poly:2", "inst").buffers == 1
    assert Method("poly:2", "poly:2").buffers == 2


@pytest.mark.parametrize(
    ("method", "is_code"),
    [
        (Method("poly:2", FromDecays(lambda k: k / (k + 1))), True),
        (Method("poly:2", "poly:2", root=Gain.of(lambda k: 1.0)), True),
        (Method(Gain.of(lambda k: 1.0) * FromDecays([0.0])), True),
        (Method("poly:2", "poly:2"), False),
        (Method("poly:2"), False),
    ],
)
def test_a_function_anywhere_in_a_method_makes_it_code(method: Method, is_code: bool) -> None:
    assert method.is_code is is_code


def test_schedules_at_their_borders() -> None:
    """A warm-up below 1 is a share of the steps, and takes one step at least; from 1 on it is a number of steps."""
    assert Schedule("linear", warmup=1).factors(3).tolist() == [1.0, 1.0, 0.5]
    assert Schedule("linear", warmup=0.001).factors(3).tolist() == [1.0, 1.0, 0.5]
    assert Schedule("wsd", warmup=1, decay=2).factors(3).tolist() == [1.0, 1.0, 0.5]  # they just fit
    assert Schedule("wsd", decay=0.001).factors(2).tolist() == [1.0, 1.0]
    assert Schedule("linear", floor=1).factors(3).tolist() == [1.0, 1.0, 1.0]
    assert Schedule("inverse-root").factors(4).tolist() == [1.0, 0.5**0.5, (1 / 3) ** 0.5, 0.5]
    assert type(Schedule("linear").factor(1, 4)) is float
    assert Schedule("linear").factor([1, 2], 4).tolist() == [0.75, 0.5]


@pytest.mark.parametrize(
    ("text", "is_constant"),
    [
        ("constant", True),
        ("cosine(floor=1)", True),
        ("cosine", False),
        ("constant(warmup=1)", False),
        ("cosine(warmup=1,floor=1)", False),
    ],
)
def test_a_schedule_without_warm_up_and_decay_is_constant(text: str, is_constant: bool) -> None:
    assert Schedule.parse(text).is_constant is is_constant
