"""The checks catch what they are for: each runs green on the library and red on a mutant of it.

A check that shares b_k with the code under test stays green when k is shifted by one; these do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from memory_table import (
    ROWS,
    Case,
    check_constant_gradient,
    check_decay,
    check_influence,
    check_influence_is_a_density,
    check_memory_function,
    check_passport,
    check_rate,
    check_weights,
    name_of,
)

import memgrad.memory.base
import memgrad.memory.long_past
from memgrad.memory import Memory

Check = Callable[[Case], None]
Method = Callable[..., Any]

FAMILY = {row.name: row for row in ROWS}
CASES = [row.case(*row.examples[:2][-1]) for row in ROWS]  # the second: the first is often a special one
# A shift cannot be seen where b_k does not depend on k.
SHIFTABLE = [case for case in CASES if case.decay(1) != case.decay(0)]


def decays_are_exact(case: Case) -> None:
    for k in (0, 1, 2, 10, 50):
        check_decay(case, k)


def weights_are_exact(case: Case) -> None:
    for k in (1, 10, 50):
        check_weights(case, k)


def constants_are_kept(case: Case) -> None:
    check_constant_gradient(case, 20, 0.7)


def passports_are_exact(case: Case) -> None:
    for k in (1, 2, 10, 50):
        check_passport(case, k)


def assert_caught(patch: pytest.MonkeyPatch, check: Check, case: Case, **mutants: Method) -> None:
    """`check` passes, and no longer does when these methods of the memory's class are replaced."""
    check(case)
    for name, mutant in mutants.items():
        patch.setattr(type(case.memory), name, mutant)
    with pytest.raises(AssertionError):
        check(case)


def later(method: Method) -> Method:
    return lambda self, k, other: method(self, k + 1, other)


def earlier(method: Method) -> Method:
    return lambda self, k, other: method(self, k - (k > 0), other)  # b_0 = 0 stays, so the weights still sum to 1


# --- discrete time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", SHIFTABLE, ids=name_of)
@pytest.mark.parametrize("shift", [later, earlier])
@pytest.mark.parametrize("methods", [("_decay", "_fresh"), ("_decay",), ("_fresh",)], ids="+".join)
@pytest.mark.parametrize("check", [decays_are_exact, weights_are_exact])
def test_a_step_count_shifted_by_one_is_caught(
    monkeypatch: pytest.MonkeyPatch, case: Case, shift: Any, methods: tuple[str, ...], check: Check
) -> None:
    mutants = {name: shift(getattr(type(case.memory), name)) for name in methods}
    assert_caught(monkeypatch, check, case, **mutants)


@pytest.mark.parametrize("case", SHIFTABLE, ids=name_of)
@pytest.mark.parametrize("shift", [later, earlier])
def test_a_passport_of_the_step_before_or_after_is_caught(
    monkeypatch: pytest.MonkeyPatch, case: Case, shift: Any
) -> None:
    assert_caught(monkeypatch, passports_are_exact, case, _statistics=shift(type(case.memory)._statistics))


@pytest.mark.parametrize("case", CASES, ids=name_of)
@pytest.mark.parametrize("check", [decays_are_exact, weights_are_exact])
def test_b_and_1_minus_b_swapped_are_caught(monkeypatch: pytest.MonkeyPatch, case: Case, check: Check) -> None:
    family = type(case.memory)
    assert_caught(monkeypatch, check, case, _decay=family._fresh, _fresh=family._decay)


@pytest.mark.parametrize("case", SHIFTABLE, ids=name_of)
def test_shares_that_do_not_sum_to_one_are_caught_by_a_constant_gradient(
    monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    assert_caught(monkeypatch, constants_are_kept, case, _decay=later(type(case.memory)._decay))


LONG = [
    ("Polynomial", (2.0,)),
    ("Exponential.from_alpha", (1e-12, 1.0)),
    ("Logarithmic", (1.0,)),
    ("Stretched, alpha <= 1", (0.5, 1.0)),
    ("PowerDecay", (0.8,)),
    ("Sampled t^p", (2.0, 0.1)),
]


@pytest.mark.parametrize("case", [FAMILY[name].case(*parameters) for name, parameters in LONG], ids=name_of)
def test_the_cancellation_of_a_naive_1_minus_b_is_caught(monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    def at_large_steps(case: Case) -> None:
        for k in (10**12, 123_456_789_012):
            check_decay(case, k)

    assert_caught(monkeypatch, at_large_steps, case, _fresh=lambda self, k, xp: 1 - self._decay(k, xp))


def backwards(weights: Method) -> Method:
    return lambda self, k: weights(self, k)[::-1]


def with_one_decay_too_many(weights: Method) -> Method:
    def mutant(self: Memory, k: int) -> Any:
        w = weights(self, k) * np.maximum(self.decay(np.arange(k + 1)), 1e-9)
        return w / w.sum()

    return mutant


@pytest.mark.parametrize("case", SHIFTABLE, ids=name_of)
@pytest.mark.parametrize("mutate", [backwards, with_one_decay_too_many])
def test_wrong_weights_that_sum_to_one_are_caught(monkeypatch: pytest.MonkeyPatch, case: Case, mutate: Any) -> None:
    assert_caught(monkeypatch, weights_are_exact, case, weights=mutate(Memory.weights))


@pytest.mark.parametrize("case", SHIFTABLE, ids=name_of)
@pytest.mark.parametrize(
    "mistake",
    [
        lambda s: s._replace(mean_age=s.mean_age + 1),
        lambda s: s._replace(half_life=s.half_life + 1),
        lambda s: s._replace(sum_of_squares=s.sum_of_squares**0.5),
    ],
    ids=["ages from one", "half-life of one more", "root of the squares"],
)
def test_a_wrong_statistic_is_caught(monkeypatch: pytest.MonkeyPatch, case: Case, mistake: Any) -> None:
    statistics = type(case.memory)._statistics
    mutant = {"_statistics": lambda self, k, progress: mistake(statistics(self, k, progress))}
    assert_caught(monkeypatch, passports_are_exact, case, **mutant)


def test_a_tie_that_does_not_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    case = FAMILY["PowerDecay"].case(1.0)
    check_passport(case, 9)  # five of ten equal weights are older than age 4
    monkeypatch.setattr(memgrad.memory.long_past, "_TIE_IN_A_WALK", -1e-12)
    with pytest.raises(AssertionError, match="half-life"):
        check_passport(case, 9)


def test_a_local_degree_from_the_next_step_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    case, issue = FAMILY["Polynomial"].case(2.0), memgrad.memory.base.Passport
    check_passport(case, 9)

    def mutant(memory: str, k: int, *numbers: Any) -> Any:
        return replace(issue(memory, k, *numbers), local_degree=k * case.memory.fresh(k) / case.memory.decay(k + 1))

    monkeypatch.setattr(memgrad.memory.base, "Passport", mutant)
    with pytest.raises(AssertionError, match="degree"):
        check_passport(case, 9)


# --- continuous time -------------------------------------------------------------------------------------------------

CONTINUOUS_MUTANTS: list[tuple[str, str, tuple[float, ...], Check, dict[str, Method]]] = [
    (
        "the printed logarithmic row (erratum 4) in the rate",
        "Logarithmic",
        (1.0,),
        lambda case: check_rate(case, 0.5),
        {"_rate": lambda self, t, xp: 1 / (t * xp.log1p(t))},
    ),
    (
        "the printed logarithmic row as a derivative",
        "Logarithmic",
        (1.0,),
        lambda case: check_memory_function(case, 0.5),
        {"_dm": lambda self, t, xp: 1 / t},
    ),
    (
        "the printed logarithmic row as an influence",
        "Logarithmic",
        (1.0,),
        lambda case: check_influence_is_a_density(case, 2.0),
        {"_influence": lambda self, s, t, xp: 1 / (s * xp.log1p(t))},
    ),
    (
        "the printed sign of the exponential weight (erratum 2)",
        "Exponential.from_alpha",
        (0.3, 1.0),
        lambda case: check_influence(case, 1.0, 2.0),
        {"_influence": lambda self, s, t, xp: xp.exp(self.alpha * (t - s)) * self._rate(t, xp)},
    ),
    (
        "an exponential weight without its normalization",
        "Exponential.from_alpha",
        (0.3, 1.0),
        lambda case: check_influence_is_a_density(case, 2.0),
        {"_influence": lambda self, s, t, xp: self.alpha * xp.exp(-self.alpha * (t - s))},
    ),
    (
        "a memory function that cancels near 0",
        "Exponential.from_alpha",
        (0.3, 1.0),
        lambda case: check_memory_function(case, 1e-6),
        {"_m": lambda self, t, xp: xp.exp(self.alpha * t) - 1},
    ),
    (
        "a rate without its limit near 0",
        "Exponential.from_alpha",
        (0.3, 1.0),
        lambda case: check_rate(case, 1e-6),
        {"_rate": lambda self, t, xp: self.alpha},
    ),
    *(
        (
            f"a rate of {name} as a ratio of infinities",
            name,
            parameters,
            lambda case: check_rate(case, 1e6),
            {"_rate": lambda self, t, xp: self._dm(t, xp) / self._m(t, xp)},
        )
        for name, parameters in (
            ("Polynomial", (200.0,)),
            ("Exponential", (0.9, 1.0)),
            ("Stretched, alpha > 1", (1.5, 1.0)),
        )
    ),
    (
        "an influence that overflows",
        "Stretched, alpha > 1",
        (1.5, 1.0),
        lambda case: check_influence(case, 999_999.0, 1e6),
        {"_influence": lambda self, s, t, xp: self._dm(s, xp) / self._m(t, xp)},
    ),
    (
        "an influence that cancels",
        "Stretched, alpha > 1",
        (1.5, 1.0),
        lambda case: check_influence(case, 999_999.999, 1e6),
        {
            "_influence": lambda self, s, t, xp: (
                self._rate(t, xp) * (s / t) ** (self.alpha - 1) * xp.exp(s**self.alpha - t**self.alpha)
            )
        },
    ),
    (
        "a polynomial of the next degree",
        "Polynomial",
        (2.0,),
        lambda case: check_memory_function(case, 3.0),
        {"_dm": lambda self, t, xp: self.p * t**self.p},
    ),
]


@pytest.mark.parametrize(
    ("name", "parameters", "check", "mutants"),
    [row[1:] for row in CONTINUOUS_MUTANTS],
    ids=[row[0] for row in CONTINUOUS_MUTANTS],
)
def test_a_wrong_continuous_side_is_caught(
    monkeypatch: pytest.MonkeyPatch, name: str, parameters: tuple[float, ...], check: Check, mutants: dict[str, Method]
) -> None:
    assert_caught(monkeypatch, check, FAMILY[name].case(*parameters), **mutants)
