"""The numbers that claims are decided with: intervals side by side, and expected losses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memgrad.paper.claims import number
from memgrad.paper.guarantees import _expected_loss
from memgrad.statistics import Estimate


@pytest.mark.parametrize(
    ("one", "other", "below"),
    [
        (number("a", 1.0), number("b", 2.0), True),
        (number("a", 2.0), number("b", 2.0), False),
        (number("a", 1.0, 0.5, 1.5), number("b", 2.0), True),
        (number("a", 1.0, 0.5, 2.5), number("b", 2.0), False),
        (number("a", 1.0), number("b", 2.0, 1.5, 2.5), True),
        (number("a", 1.0), number("b", 2.0, 0.5, 3.5), False),
        (number("a", 1.0, 0.5, 1.5), number("b", 2.0, 1.5, 2.5), False),
        (number("a", 1.0, 0.5, 1.4), number("b", 2.0, 1.5, 2.5), True),
    ],
)
def test_one_is_below_the_other_where_their_intervals_do_not_meet(one: Estimate, other: Estimate, below: bool) -> None:
    assert one.below(other) is below


def test_an_interval_has_two_ends() -> None:
    for ends in ((0.5, None), (None, 1.5)):
        with pytest.raises(ValueError, match="both ends of its interval or none"):
            number("a", 1.0, *ends)


def test_the_expected_loss_has_the_spread_beside_the_mean() -> None:
    """E x^T H x / 2 = (m^T H m + tr(H C)) / 2: (2 + 4 + 2 + 2) / 2 and (8 + 0 + 0 + 12) / 2."""
    hessian = np.diag([2.0, 4.0])
    found: Any = SimpleNamespace(
        mean=np.array([[1.0, 1.0], [2.0, 0.0]]), cov=np.array([np.diag([1.0, 0.5]), np.diag([0.0, 3.0])])
    )
    assert _expected_loss(found, hessian).tolist() == [5.0, 10.0]
