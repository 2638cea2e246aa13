"""The claim about exponents on power-law problems: its rule, and what it measures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memgrad.paper.power_laws import PROBLEMS, Slope, Slopes, measure
from memgrad.paper.verdicts import JUDGES
from memgrad.statistics import Estimate

DECIDED = JUDGES["M1"].decide


def slopes(family: str, off: float, steps: int = 60_000) -> Slopes:
    exact = [
        Slope(nu, zeta, name, Estimate(theory, name=name), theory)
        for nu, zeta in PROBLEMS
        for name, theory in (("SGD", zeta), ("exp", zeta), ("poly", zeta), ("mixture", zeta * (2 - 1 / nu)))
    ]
    moved = [
        replace(each, exponent=Estimate(each.theory + off, name=each.family)) if each.family == family else each
        for each in exact
    ]
    return Slopes(tuple(moved), steps)


@pytest.mark.parametrize(
    ("family", "off", "outcome"),
    [
        ("SGD", 0.019, "confirmed"),
        ("SGD", 0.021, "refuted"),
        ("exp", -0.021, "refuted"),
        ("poly", 0.021, "refuted"),
        ("mixture", -0.029, "confirmed"),
        ("mixture", -0.031, "refuted"),
        ("mixture", 0.031, "refuted"),
    ],
)
def test_each_family_has_its_margin(family: str, off: float, outcome: str) -> None:
    assert DECIDED(slopes(family, off)).outcome == outcome


def test_fewer_steps_than_the_rule_asks_for_decide_nothing() -> None:
    assert DECIDED(slopes("SGD", 0.0, steps=59_999)).outcome == "undecided"


def test_a_short_measurement_has_an_exponent_for_every_family_and_problem() -> None:
    found = measure(steps=200)
    assert [(each.nu, each.zeta, each.family) for each in found.slopes] == [
        (nu, zeta, family) for nu, zeta in PROBLEMS for family in ("SGD", "exp", "poly", "mixture")
    ]
    assert all(0.1 < each.exponent.value < 1 for each in found.slopes)
