"""Gains and mixtures at the ends of what is allowed, and what is refused where they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from memgrad.memory import Gain, Instantaneous, Memory, Mixture, Polynomial
from memgrad.memory.text import as_memory


def test_the_density_of_a_growing_gain_counts_steps_of_length_h() -> None:
    """At t = 2 the density of poly:1 is 1/2, and the gain 1 + t/h."""
    mixture = Mixture.parse("(1+k)*poly:1")
    assert mixture.influence(1.0, 2.0) == 1.5
    assert mixture.influence(1.0, 2.0, h=0.5) == 2.5
    assert Mixture.parse("poly:1 + poly:2").influence(1.0, 2.0) == 1.0  # 1/t + 2 s/t^2


def test_the_newest_gradient_alone_has_no_density() -> None:
    with pytest.raises(NotImplementedError, match="inst has no density"):
        Mixture.of("inst").influence(1.0, 2.0)


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("0.25*inst + 0.25*poly:2", False),
        ("0.7*inst + 0.2*poly:2 + 0.1*exp:0.9", True),  # which sum to 0.9999999999999999
        ("0.5*inst + 0.5*(1+k)*poly:2", False),
        ("poly:2", True),
    ],
)
def test_gains_that_are_constant_and_sum_to_one_are_normalized(text: str, normalized: bool) -> None:
    assert Mixture.parse(text).is_normalized is normalized


def test_a_gain_may_fall_to_zero_at_any_kind_of_step() -> None:
    mixture = Mixture.parse("inst + cool(10)*poly:2")
    assert mixture.gain(10) == 1.0
    assert mixture.gain(np.array([5, 10, 11])).tolist() == [1.5, 1.0, 1.0]
    assert mixture.gain(np.array([10, 0])).tolist() == [1.0, 2.0]


def test_a_function_is_tried_at_step_0_and_no_further() -> None:
    asked = []

    def gain(k: int) -> float:
        asked.append(k)
        return 1.0

    assert str(Gain.of(gain) * Polynomial(2)) == "gain(k)*poly:2"
    assert set(asked) == {0}


def never_positive(k: int) -> float:
    return -1.0


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: Gain.of(never_positive) * Polynomial(2), "'never_positive(k)*poly:2' of a mixture is refused: the gain"),
    (lambda: Mixture.parse("inst + (1+k)*poly:2").gain(-1), "integer >= 0, got k=-1"),
    (lambda: (Instantaneous() + Gain.of(lambda k: 1.0 - k) * Polynomial(2)).gain(np.arange(3)), "got -1.0 at step k=2"),
    (lambda: Mixture.of(3, "MemSGD", "memory"), "MemSGD needs a Memory, a Mixture or a text form"),  # type: ignore[arg-type]
    (lambda: as_memory("MemAdam", "second_memory", 3), "MemAdam needs a Memory or its text form"),  # type: ignore[arg-type]
    (lambda: Mixture.from_dict({"mixture": "inst", "k": 1}), "a mixture as data is a table"),
    (lambda: Mixture.from_dict("inst"), "a mixture as data is a table"),  # type: ignore[arg-type]
    (lambda: Polynomial(2) + 3, "unsupported operand"),  # type: ignore[operator]
    (lambda: Polynomial(2) * never_positive, "written Gain.of(f) * memory"),  # type: ignore[operator]
]


@pytest.mark.parametrize(("attempt", "words"), REFUSED, ids=[f"{i}: {words}" for i, (_, words) in enumerate(REFUSED)])
def test_what_is_no_gain_or_no_mixture_is_refused(attempt: Callable[[], Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refusal:
        attempt()
    assert words in str(refusal.value)


@pytest.mark.parametrize(("passport", "width"), [(Polynomial(2).passport(3), 40), (Mixture.of("inst").passport(3), 60)])
def test_a_text_form_is_cut_only_where_it_is_wider_than_its_column(passport: Any, width: int) -> None:
    name = "memory" if width == 40 else "mixture"
    fits, wider = ("".join(str(i % 10) for i in range(n)) for n in (width, width + 1))
    assert replace(passport, **{name: fits}).rows()[0] == (name, fits)
    assert replace(passport, **{name: wider}).rows()[0] == (name, fits[:-3] + "...")


def test_the_passport_of_a_mixture_prints_every_number_beside_its_name() -> None:
    """Twice the plain average of four gradients: weights of 1/2."""
    assert str(Memory.parse("2*poly:1").passport(3)).splitlines() == [
        "mixture                  2*poly:1",
        "step k                   3",
        "gain                     2",
        "mean age                 1.5 steps",
        "half-life                1 steps",
        "variance factor          1",
        "newest weight            0.5",
        "first gradient's weight  0.5",
    ]
