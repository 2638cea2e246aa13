"""What the transformations keep between steps, and the operations on trees of arrays that they share."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Tree = Any
Number = float | jax.Array


class MemoryState(NamedTuple):
    """State of `scale_by_memory` and `average_iterates`: the step count and the average."""

    count: jax.Array  # type: ignore[assignment]  # optax's name, which hides the method of tuples
    average: Tree


class MemoryAdamState(NamedTuple):
    """State of the adaptive transformations: the step count and the averages of gradients and of their squares."""

    count: jax.Array  # type: ignore[assignment]  # optax's name, which hides the method of tuples
    average: Tree
    square_average: Tree


class MethodState(NamedTuple):
    """State of `scale_by_method`: the step count, the average of each part, and that of squares (or `None`)."""

    count: jax.Array  # type: ignore[assignment]  # optax's name, which hides the method of tuples
    averages: tuple[Tree, ...]
    square_average: Tree | None


def as_array(leaf: Any) -> Any:
    """A leaf of a tree as an array: like optax, the transformations take Python numbers too."""
    return leaf if hasattr(leaf, "dtype") else jnp.asarray(leaf)


def loses_squares(dtype: Any) -> bool:
    """Whether squares of small gradients are 0 in this precision, as those of gradients below 2e-4 are in float16."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return False
    return float(jnp.finfo(dtype).tiny) > 1e-30  # type: ignore[no-untyped-call]  # jax's


def zeros_like(params: Tree, dtype: Any | None, *, beside_squares: bool = False) -> Tree:
    """Averages that hold nothing, in this precision or the parameters'; beside squares in one that can hold these."""

    def zeros(leaf: Any) -> jax.Array:
        x = as_array(leaf)
        if dtype is None and beside_squares and loses_squares(x.dtype):
            return jnp.zeros_like(x, dtype=jnp.float32)
        if dtype is not None and jnp.iscomplexobj(x):
            return jnp.zeros_like(x, dtype=jnp.promote_types(dtype, jnp.complex64))
        return jnp.zeros_like(x, dtype=dtype)

    return jax.tree.map(zeros, params)


def squares_of(gradients: Tree, like: Tree) -> Tree:
    """|g|^2, in the precision in which it is kept."""

    def square(leaf: Any, v: jax.Array) -> jax.Array:
        g = as_array(leaf)
        return jnp.abs(g.astype(jnp.promote_types(g.dtype, v.dtype))) ** 2

    return jax.tree.map(square, gradients, like)


def lerp(average: Tree, new: Tree, fresh: jax.Array) -> Tree:
    """Averages moved toward `new` by the share `fresh`, in the averages' dtype."""

    def lerp(u: jax.Array, g: jax.Array) -> jax.Array:
        g = as_array(g).astype(u.dtype)
        # From the nearer end, as in torch.lerp; otherwise b_k = 0 would give g rounded to the precision of u.
        return jnp.where(fresh < 0.5, u + fresh * (g - u), g - (1 - fresh) * (g - u)).astype(u.dtype)

    return jax.tree.map(lerp, average, new)


def cast_like(tree: Tree, like: Tree) -> Tree:
    return jax.tree.map(lambda x, y: as_array(x).astype(as_array(y).dtype), tree, like)


def divide(step: Tree, squares: Tree, eps: Number, root: Number = 1.0) -> Tree:
    r"""Adam's division, $n/(\rho \sqrt{v} + \epsilon)$, for every leaf."""
    return jax.tree.map(lambda n, v: n / (root * jnp.sqrt(v) + eps), step, squares)
