"""Arguments of objectives: other spellings of the same, and the first value that is refused."""

from __future__ import annotations

import numpy as np
import pytest

from memgrad.problems.objectives import Quadratic, Quartic


def test_a_rotation_in_any_spelling_is_the_same_value() -> None:
    given = (np.array([[0.0, 1.0], [-1.0, 0.0]]), [[0, 1], [-1, 0]], ((0.0, 1.0), (-1.0, 0.0)))
    made = [Quadratic((3.0, 1.0), rotation=rotation) for rotation in given]  # type: ignore[arg-type]
    assert made[0] == made[1] == made[2]
    assert len({hash(each) for each in made}) == 1
    assert made[0].rotation == ((0.0, 1.0), (-1.0, 0.0))
    with pytest.raises(ValueError, match=r"needs rotation to be a finite 2 x 2 matrix, got the shape \(3, 3\)"):
        Quadratic((3.0, 1.0), rotation=np.eye(3))  # type: ignore[arg-type]


def test_a_ball_has_a_radius_above_zero() -> None:
    assert Quartic().local_L(1e-9) > 0
    for radius in (0.0, -1.0):
        with pytest.raises(ValueError, match="radius > 0"):
            Quartic().local_L(radius)
