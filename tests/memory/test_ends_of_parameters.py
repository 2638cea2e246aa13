"""Parameters of memories at the ends of what is allowed: the last that is accepted and the first that is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from memgrad.memory import (
    Aged,
    Cooled,
    FromDecays,
    Logarithmic,
    Memory,
    Polynomial,
    RampedExponential,
    Sampled,
)


def square(t: Any) -> Any:
    return t**2


def twice(t: Any) -> Any:
    return 2 * t


ACCEPTED: dict[str, Callable[[], Memory]] = {
    "the largest float": lambda: Polynomial(sys.float_info.max),
    "a long time step": lambda: Logarithmic(h=9.9e289),
    "an age that rises by less than 1 per step": lambda: Aged(5.0, to=14.9, end=10.0),
    "cooled in one step": lambda: Cooled(1.5, steps=1),
    "a ramp of one step to where it is": lambda: RampedExponential(0.9, start=0.9, steps=1),
    "finite up to the last step that is checked": lambda: Sampled(np.expm1, np.exp, 1.0, steps=709),
    "one step that is checked": lambda: Sampled(square, twice, 1.0, steps=1),
    "ages of 0": lambda: Memory.from_age([0.0, 0.0, 0.5]),
    "the largest decay": lambda: FromDecays([0.0, 1 - 2**-53]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_last_value_that_makes_sense_is_accepted(name: str) -> None:
    memory = ACCEPTED[name]()
    assert (memory.decay(0), memory.fresh(0)) == (0.0, 1.0)
    assert 0 <= memory.decay(1) < 1


REFUSED: list[tuple[Callable[[], Memory], str]] = [
    (lambda: Polynomial(10**400), "finite degree p > 0"),
    (lambda: Logarithmic(h=1e290), "h < 1e290"),
    (lambda: Aged(5.0, to=3.0, start=4.0, end=4.0), "start < end"),
    (lambda: Aged(5.0, to=15.0, end=10.0), "1 or more per step"),
    (lambda: Aged(5.0, to=3.0, start=-1.0, end=10.0), "finite start >= 0"),
    (lambda: Aged(5.0, to=3.0, start=False, end=10.0), "real number start"),
    (lambda: Aged(5.0, end=10.0), "both to and end"),
    (lambda: Memory.from_age([0.0, 0.5], end=10.0), "with a single age"),
    (lambda: Memory.from_age([0.0, 0.5], start=1.0), "with a single age"),
    (lambda: Memory.from_age([0.0, -0.1]), "0 <= a_1"),
    (lambda: Memory.from_age([0.0, False]), "0 <= a_1"),
    (lambda: RampedExponential(0.9, start=0.95, steps=10), "start <= beta, got start=0.95, beta=0.9"),
    (lambda: RampedExponential(0.9, start=0.5, steps=1.5), "integer number of steps >= 1, got steps=1.5"),
    (lambda: Sampled(square, twice, 1.0, steps=True), "integer steps >= 1"),
    (lambda: Sampled(square, twice, 1.0, steps=2.0), "integer steps >= 1"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("build", "rule"), REFUSED, ids=[f"{i}: {rule}" for i, (_, rule) in enumerate(REFUSED)])
def test_the_first_value_that_makes_no_sense_is_refused(build: Callable[[], Memory], rule: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refusal:
        build()
    assert rule in str(refusal.value)
