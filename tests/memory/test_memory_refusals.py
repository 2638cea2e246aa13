"""Memories of one's own that are refused: each rule on its own, with its words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from memgrad.memory import Logarithmic, Polynomial, Sampled


def test_a_derivative_that_is_infinite_at_a_step_is_named_though_the_quadrature_does_not_meet_it() -> None:
    def dm(t: Any) -> Any:
        return np.where(np.asarray(t) == 5.0, np.inf, 1.0)

    with pytest.raises(ValueError, match=r"dm\(t\) must be finite for t > 0"):
        Sampled(lambda t: t, dm, 1.0)


@pytest.mark.parametrize("t", [np.inf, np.nan, [1.0, np.inf], -1.0])
def test_a_time_is_finite_and_not_negative(t: Any) -> None:
    memory = Polynomial(2.0)
    for function in (memory.m, memory.dm, memory.rate):
        with pytest.raises(ValueError, match="a time t must be finite and >"):
            function(np.asarray(t))


def test_the_step_of_a_logarithmic_memory_is_given_by_name() -> None:
    """It is no degree: `Logarithmic(2)` beside `Polynomial(2)` would be read as one."""
    assert Logarithmic(h=2.0).h == 2.0
    with pytest.raises(TypeError, match="positional"):
        Logarithmic(2.0)  # type: ignore[misc]


def test_one_number_is_wanted_and_an_array_of_jax_is_not_one() -> None:
    jnp = pytest.importorskip("jax.numpy")
    assert Polynomial(jnp.array(2.0)) == Polynomial(2.0)
    with pytest.raises(TypeError, match=r"needs one number p, got an array of shape \(2,\); jax.vmap over it"):
        Polynomial(jnp.array([1.0, 2.0]))


def test_a_truth_value_is_no_step() -> None:
    for k in (np.array([True, False]), np.True_, torch.tensor([True])):
        with pytest.raises(TypeError, match="bool"):
            Polynomial(2.0).decay(k)
