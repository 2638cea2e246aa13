"""A ratio of means from the fewest samples."""

from __future__ import annotations

import pytest

from memgrad.statistics import ratio_of_means


def test_two_pairs_are_enough_for_a_ratio_and_one_is_not() -> None:
    """Residuals -1 and 1 have the standard error 1; Student's quantile for two samples is tan(0.475 pi)."""
    found = ratio_of_means([1.0, 3.0], [1.0, 1.0])
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0 - 12.7062047362, 2.0 + 12.7062047362))
    with pytest.raises(ValueError, match="at least 2 pairs of samples, got 1 and 1"):
        ratio_of_means([1.0], [1.0])
