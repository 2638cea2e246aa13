"""The products and conversions of objectives, against the plain formula, on both sides of each switch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from memgrad.kinds import as_number
from memgrad.problems.kinds import as_count, as_points, as_vector, diagonal, repeated, scaled, weighted_sum


# Below and above a thousand rows; blocks of 1024 // d rows that come out even, or leave one row or all but one.
@pytest.mark.parametrize("rows", [1, 999, 1000, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("d", [1, 2, 3, 64, 65])
@pytest.mark.parametrize("kind", ["numpy", "float32", "strided", "torch"])
def test_a_fast_product_is_the_plain_one(rows: int, d: int, kind: str) -> None:
    rng = np.random.default_rng(0)
    x: Any = rng.normal(size=(rows, d))
    weights = rng.normal(size=d)
    x = {"numpy": x, "float32": x.astype(np.float32), "strided": np.asfortranarray(x), "torch": torch.tensor(x)}[kind]
    before = np.array(x.tolist(), np.float32 if kind == "float32" else np.float64)
    found = scaled(x, weights)
    assert found.dtype == x.dtype
    assert found.tolist() == (before * weights.astype(before.dtype)).tolist()
    assert x.tolist() == before.tolist()


def test_a_fast_product_keeps_the_shape_of_many_axes() -> None:
    x = np.random.default_rng(1).normal(size=(7, 300, 2))
    assert np.array_equal(scaled(x, np.array([3.0, -0.5])), x * [3.0, -0.5])


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_weighted_sum_is_the_sum_of_products(d: int) -> None:
    x, weights = np.random.default_rng(2).normal(size=(4, 3, d)), np.arange(2.0, 2.0 + d)
    np.testing.assert_allclose(weighted_sum(x, weights), (x * weights).sum(-1), rtol=1e-14)


def test_matrices_for_each_point() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert diagonal(x).tolist() == [[[1, 0], [0, 2]], [[3, 0], [0, 4]]]
    same = repeated(x, np.array([[5.0, 6.0], [7.0, 8.0]]))
    same[0] += 1
    assert same.tolist() == [[[6, 7], [8, 9]], [[5, 6], [7, 8]]]


def test_points_have_a_last_axis_of_real_numbers() -> None:
    assert as_points("f", [[1, 2]], 2).dtype == np.float64
    assert as_points("f", torch.tensor([1, 2]), 2).dtype == torch.float32
    with pytest.raises(ValueError, match=r"f has dimension 2: .* got the shape \(3,\)"):
        as_points("f", np.ones(3), 2)
    with pytest.raises(ValueError, match=r"got the shape \(\)"):
        as_points("f", np.array(1.0), 1)
    with pytest.raises(TypeError, match="dtype complex128"):
        as_points("f", np.array([1j]), 1)


def test_numbers_at_and_beyond_the_least() -> None:
    assert as_number("f", "a", 2, least=2) == 2.0
    with pytest.raises(ValueError, match="f needs a finite a > 2, got a=2"):
        as_number("f", "a", 2, least=2, excluded=True)
    with pytest.raises(ValueError, match=r"f needs a finite a >= 2, got a=1\.9"):
        as_number("f", "a", 1.9, least=2)
    for bad in (np.inf, np.nan):
        with pytest.raises(ValueError, match="finite"):
            as_number("f", "a", bad, least=0)
    with pytest.raises(TypeError, match="a=True of type bool"):
        as_number("f", "a", True, least=0)
    assert as_count("f", "n", np.int64(1)) == 1
    with pytest.raises(ValueError, match="n >= 1, got n=0"):
        as_count("f", "n", 0)
    with pytest.raises(ValueError, match=r"an integer n >= 1, got n=1\.5"):
        as_count("f", "n", 1.5)
    assert as_vector("f", "v", 3, least=0) == (3.0,)
    assert as_vector("f", "v", np.array([0, 1]), least=0) == (0.0, 1.0)
    with pytest.raises(ValueError, match=r"v\[1\] >= 0, got v\[1\]=-1"):
        as_vector("f", "v", [0, -1], least=0)
    with pytest.raises(TypeError, match="a sequence of numbers v, got v=\\[\\]"):
        as_vector("f", "v", [], least=0)
