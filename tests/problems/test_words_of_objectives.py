"""Objectives in words, exactly; arguments at the border of what is taken."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from memgrad.problems.objectives import (
    SU,
    ConstantGradient,
    Huber,
    LeastSquares,
    LogCosh,
    Logistic,
    Objective,
    PowerLaw,
    Quadratic,
    Quartic,
)

MATRIX = ((1.0, 0.0), (0.0, 2.0))


@pytest.mark.parametrize(
    ("objective", "text"),
    [
        (SU, "quadratic:0.04,0.01"),
        (Quadratic((1.0, 0.1), rotation=7, sigma=2.0), "quadratic:1,0.1,rotation=7,sigma=2"),
        (Quadratic((1.0, 1.0), sigma=MATRIX), "quadratic:1,1,sigma=matrix"),
        (Quartic(), "quartic:0.8,0.4"),
        (Huber(), "huber:1"),
        (Huber(0.5, dimension=3), "huber:0.5,dimension=3"),
        (LogCosh(2, sigma=0.5), "logcosh:dimension=2,sigma=0.5"),
        (ConstantGradient((1.0, -2.0), sigma=10.0), "constant:1,-2,sigma=10"),
        (PowerLaw(1.0, 0.5), "powerlaw:1,0.5,ambient=100"),
        (
            PowerLaw(1.0, 0.5, dimension=4, seed=3, batch_size=2),
            "powerlaw:1,0.5,dimension=4,ambient=40,seed=3,batch_size=2",
        ),
        (LeastSquares(np.ones((3, 2)), np.ones(3)), "least-squares(3 x 2)"),
    ],
    ids=str,
)
def test_an_objective_is_written_with_what_defines_it(objective: Objective, text: str) -> None:
    assert str(objective) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("powerlaw:1", "'powerlaw:1' does not give beta; write it as in 'powerlaw:1,0.5'"),
        ("powerlaw:1,2,3", "gives 3 numbers without a name; powerlaw takes 2, alpha, beta"),
        ("logcosh:2", "gives 1 numbers without a name; logcosh takes none"),
        ("su:rotation=1", "su takes no parameter but sigma"),
        ("quadratic:1,rotation=-1", "rotation >= 0, got rotation=-1.0"),
        ("powerlaw:0,1", "alpha > 0, got alpha=0.0"),
        ("powerlaw:1,-1", "beta >= 0, got beta=-1.0"),
        ("powerlaw:1,1,seed=-1", "seed >= 0, got seed=-1.0"),
        ("powerlaw:1,1,batch_size=0", "batch_size >= 1, got batch_size=0.0"),
        ("least-squares", r"is defined by data.*LeastSquares\(inputs, targets\)"),
    ],
)
def test_text_that_gives_too_little_or_too_much_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Objective.parse(text)


def test_the_least_of_every_argument_is_taken() -> None:
    law = PowerLaw(1e-3, 0.0, dimension=2, ambient=2, seed=0, batch_size=1)
    assert (law.beta, law.ambient, law.seed, law.batch_size) == (0.0, 2, 0, 1)
    assert Quadratic((0.0,), rotation=0).rotation == 0
    assert LeastSquares(np.ones((1, 1)), np.ones(1), l2=0.0, batch_size=1).batch_size == 1
    with pytest.raises(ValueError, match=r"l2 >= 0, got l2=-0\.1"):
        LeastSquares(np.ones((1, 1)), np.ones(1), l2=-0.1)


@pytest.mark.parametrize("angle", [1e-10, 1e-3])
def test_a_rotation_is_orthogonal_up_to_rounding(angle: float) -> None:
    nearly: Any = np.array([[1.0, angle], [0.0, 1.0]])  # a shear: Q Q^T differs from 1 by the angle
    if angle < 1e-8:
        assert Quadratic((3.0, 1.0), rotation=nearly).dimension == 2
        return
    with pytest.raises(ValueError, match=r"differs from the identity by 0\.001; numpy\.linalg\.qr makes one"):
        Quadratic((3.0, 1.0), rotation=nearly)


@pytest.mark.parametrize("objective", [SU, Huber(), LogCosh(), PowerLaw(1.0, 0.5, dimension=2)], ids=str)
def test_every_box_has_a_radius_above_zero(objective: Objective) -> None:
    for radius in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="radius > 0"):
            objective.local_L(radius)
    assert objective.local_L(1e-9) == objective.L


@pytest.mark.parametrize(
    ("inputs", "targets"), [(np.ones(3), np.ones(3)), (np.ones((3, 0)), np.ones(3)), (np.ones((2, 2)), np.ones((2, 1)))]
)
def test_data_are_a_matrix_and_a_number_per_row(inputs: Any, targets: Any) -> None:
    for family in (LeastSquares, Logistic):
        with pytest.raises(ValueError, match=f"{family.__name__} needs inputs of shape"):
            family(inputs, targets)
    with pytest.raises(ValueError, match="needs finite inputs and targets"):
        LeastSquares(np.ones((2, 1)), np.array([1.0, math.inf]))


def test_a_plane_without_a_slope_has_a_minimizer() -> None:
    flat = ConstantGradient((0.0, 0.0))
    assert (flat.minimum, flat.tau) == (0.0, 1.0)
    assert flat.minimizer is not None
    assert flat.minimizer.tolist() == [0.0, 0.0]
    tilted = ConstantGradient((0.0, 1.0))
    assert (tilted.minimizer, tilted.minimum, tilted.tau) == (None, -math.inf, None)


def test_at_its_border_the_hessian_of_huber_is_that_of_the_inside() -> None:
    found = Huber(0.5).hessian(np.array([[0.5], [-0.5], [0.5 + 1e-12]]))
    assert found.ravel().tolist() == [1.0, 1.0, 0.0]


def test_numbers_in_any_spelling_are_the_same_value() -> None:
    given: list[Any] = [np.diag([1.0, 2.0]), [[1, 0], [0, 2]], MATRIX]
    made = [Quadratic((1.0, 1.0), sigma=sigma) for sigma in given]
    assert len({hash(each) for each in made}) == 1
    assert [each.sigma for each in made] == [MATRIX] * 3
    spectrum: Any = np.array([3, 1])
    assert Quadratic(spectrum) == Quadratic((3.0, 1.0))
    law = PowerLaw(1, 2, dimension=np.int64(3), batch_size=2)
    found = (Huber(sigma=2).sigma, law.alpha, law.beta, law.dimension, law.batch_size)
    assert [type(each) for each in found] == [float, float, float, int, int]
    size: Any = 2.0
    assert type(LeastSquares(np.ones((2, 1)), np.ones(2), batch_size=size).batch_size) is int
    for wrong in (-1.0, math.nan):
        with pytest.raises(ValueError, match="Huber needs a finite sigma >= 0"):
            Huber(sigma=wrong)


def test_data_become_floats_and_one_bad_number_is_enough() -> None:
    whole: Any = [[1], [2]]
    objective = LeastSquares(whole, np.array([1, 0]))
    assert (objective.inputs.dtype, objective.targets.dtype) == (np.float64, np.float64)
    assert objective.gradient(np.array([1.0])).tolist() == [2.0]  # (1 (1 - 1) + 2 (2 - 0)) / 2
    for inputs, targets in (([[1.0], [math.nan]], [1.0, 0.0]), ([[1.0], [2.0]], [math.inf, 0.0])):
        with pytest.raises(ValueError, match="needs finite inputs and targets"):
            LeastSquares(np.array(inputs), np.array(targets))
