"""Squares of gradients in float16, in JAX: those of gradients below 2e-4 are 0 there, and a step would divide by 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from memgrad import transforms
from memgrad.method import adamw

GRADIENT = (0.0, 1e-5, 1e-3, 1.0)
OF_SQUARES = {
    "memadam": lambda **options: transforms.memadam(1e-3, **options),
    "polyadam": lambda **options: transforms.polyadam(1e-3, **options),
    "adana": lambda **options: transforms.adana(1e-3, **options),
    "from_method": lambda **options: transforms.from_method(1e-3, adamw(), **options),
    "scale_by_memory_adam": lambda **options: transforms.scale_by_memory_adam("exp:0.9", "poly:4", **options),
}
Make = Callable[..., optax.GradientTransformation]
every_one = pytest.mark.parametrize("make", OF_SQUARES.values(), ids=OF_SQUARES)


def last_update(make: Make, dtype: Any) -> Any:
    optimizer, gradient = make(), jnp.array(GRADIENT, dtype)
    x = jnp.zeros_like(gradient)
    state = optimizer.init(x)
    for _ in range(3):
        update, state = jax.jit(optimizer.update)(gradient, state, x)
    assert update.dtype == dtype
    return np.asarray(update, dtype=float)


@every_one
def test_small_gradients_of_float16_get_the_updates_of_single_precision(make: Make) -> None:
    # A gradient of 1e-5 is off by 2 % in float16; an update rounds by 2^-11, or by 6e-8 where it is subnormal.
    np.testing.assert_allclose(last_update(make, jnp.float16), last_update(make, jnp.float32), rtol=0.03, atol=1e-7)


@every_one
def test_averages_of_float16_are_refused_beside_squares(make: Make) -> None:
    with pytest.raises(ValueError, match=r"squares of gradients.*use jnp\.float32"):
        make(accumulator_dtype=jnp.float16)


def test_averages_of_gradients_alone_may_be_of_float16() -> None:
    state = transforms.memsgd(0.1, accumulator_dtype=jnp.float16).init(jnp.zeros(2))
    assert {leaf.dtype for leaf in jax.tree.leaves(state) if leaf.ndim} == {jnp.dtype("float16")}
