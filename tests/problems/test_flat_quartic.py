"""A quartic without any quartic part."""

from __future__ import annotations

import math

from memgrad.problems.objectives import Quartic


def test_the_hessian_of_a_quartic_is_bounded_if_it_is_flat_alone() -> None:
    assert Quartic((0.0, 0.0)).L == 0
    assert math.isinf(Quartic((0.0, 1.0)).L)
