"""Options at the ends of their ranges, where a method becomes a simpler one."""

from __future__ import annotations

import pytest

from memgrad import method
from memgrad.method import Method

CASES = [
    (method.qhm(nu=0), "inst"),
    (method.qhm(nu=0.0, beta=0), "inst"),
    (method.qhm(nu=1), "cold*exp:0.999"),
    (method.qhm(nu=1.0, beta=0), "inst"),
    (method.qhm(nu=0.3, beta=0), "inst"),
    (method.dana(scale=0), "inst"),
    (method.dana(kappa=0), "inst + (1+k)*poly:8"),
    (method.dana(kappa=1), "inst + poly:8"),
    (method.ademamix(alpha=0), "exp:0.9 / (sqrt(exp:0.999) + 1e-08)"),
    (method.ademamix(alpha=0.0, ramp=10), "exp:0.9 / (sqrt(exp:0.999) + 1e-08)"),
    (method.aggmo((0, 0)), "inst"),
    (method.heavy_ball(0), "inst"),
    (method.nesterov(0), "inst"),
]


@pytest.mark.parametrize(("made", "expected"), CASES, ids=[text for _, text in CASES])
def test_a_part_with_gain_0_is_left_out(made: Method, expected: str) -> None:
    assert made == Method.parse(expected)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), True])
def test_what_is_out_of_range_is_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match="qhm needs 0 <= nu <= 1, got nu="):
        method.qhm(nu=value)
