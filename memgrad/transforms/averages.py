"""Averages: of gradients, alone and over the root of an average of their squares, and of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from memgrad.memory import Memory, Mixture
from memgrad.memory.text import as_memory
from memgrad.method import Method
from memgrad.transforms.method import scale_by_method, scale_by_mixture
from memgrad.transforms.options import as_dtype, as_number, as_recalled
from memgrad.transforms.state import (
    MemoryAdamState,
    MemoryState,
    Number,
    Tree,
    cast_like,
    divide,
    lerp,
    squares_of,
    zeros_like,
)


def scale_by_memory(
    memory: Memory | Mixture | str, *, accumulator_dtype: Any | None = None
) -> optax.GradientTransformationExtraArgs:
    r"""Replace gradients by their weighted average: $u_k = b_k u_{k-1} + (1-b_k)\, g_k$, $k = 0, 1, \dots$

    Args:
        memory: A `Memory`, a `Mixture`, or a text form.
        accumulator_dtype: Precision of the average, a floating dtype; the parameters' by default. Give `jnp.float32`
            for bfloat16 parameters: the small updates of a long memory are lost in 8 bits. A complex average has parts
            of this precision, or of float32 if that is more.

    Example:
        >>> transform = scale_by_memory("poly:1")  # the plain average
        >>> state = transform.init(jnp.zeros(1))
        >>> for g in (1.0, 2.0, 6.0):
        ...     u, state = transform.update(jnp.array([g]), state)
        >>> round(float(u[0]), 6)
        3.0

    Reference:
        UAI 2019, Sec. 4.2 (MemSGD-p).
    """
    recalled = as_recalled("scale_by_memory", memory)
    if isinstance(recalled, Mixture):
        return scale_by_method(Method(recalled), accumulator_dtype=accumulator_dtype)
    accumulator_dtype = as_dtype("scale_by_memory", accumulator_dtype)

    def init(params: Tree) -> MemoryState:
        return MemoryState(jnp.zeros((), jnp.int32), zeros_like(params, accumulator_dtype))

    def update(updates: Tree, state: MemoryState, _params: Tree = None, **_: Any) -> tuple[Tree, MemoryState]:
        average = lerp(state.average, updates, recalled.fresh(state.count))
        return cast_like(average, updates), MemoryState(optax.safe_increment(state.count), average)

    return optax.GradientTransformationExtraArgs(init, update)


def scale_by_memory_adam(
    memory: Memory | Mixture | str,
    second_memory: Memory | str,
    eps: Number = 1e-8,
    *,
    accumulator_dtype: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    r"""Scale gradients as Adam does, $u_k/(\sqrt{v_k} + \epsilon)$, with any memory of gradients and of their squares.

    Both averages are normalized, so there is no bias to correct and the decays may change from step to step.

    Args:
        memory: Memory of gradients; a `Memory`, a `Mixture`, or a text form.
        second_memory: Memory of squared gradients.
        eps: Added to the root, finite and > 0.
        accumulator_dtype: Precision of the averages; the parameters' by default, for float16 that of float32: squares
            of gradients below 2e-4 are 0 in float16.

    Example:
        >>> transform = scale_by_memory_adam("poly:2", "poly:4")
        >>> updates, _ = transform.update(jnp.array([3.0]), transform.init(jnp.zeros(1)))
        >>> round(float(updates[0]), 6)
        1.0

    Reference:
        UAI 2019, Sec. 6 and App. B.2 with errata 18 and 19.
    """
    recalled = as_recalled("scale_by_memory_adam", memory)
    second_memory = as_memory("scale_by_memory_adam", "second_memory", second_memory)
    if isinstance(recalled, Mixture):
        return scale_by_mixture(
            Method(recalled, second_memory), as_number("scale_by_memory_adam", "eps", eps), accumulator_dtype
        )
    return scale_by_averages("scale_by_memory_adam", recalled, second_memory, eps, accumulator_dtype)


def scale_by_averages(
    owner: str,
    memory: Memory,
    second_memory: Memory,
    eps: Number,
    accumulator_dtype: Any | None,
    gain: Callable[[jax.Array], Any] | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Divide averages u of gradients g, or g + gain(k) u if a gain is given, by the root of averages of squares."""
    eps = as_number(owner, "eps", eps)
    accumulator_dtype = as_dtype(owner, accumulator_dtype, beside_squares=True)

    def init(params: Tree) -> MemoryAdamState:
        real = jax.tree.map(jnp.real, params)  # |g|^2 of a complex gradient is real
        averages = (zeros_like(each, accumulator_dtype, beside_squares=True) for each in (params, real))
        return MemoryAdamState(jnp.zeros((), jnp.int32), *averages)

    def update(updates: Tree, state: MemoryAdamState, _params: Tree = None, **_: Any) -> tuple[Tree, MemoryAdamState]:
        k = state.count
        average = lerp(state.average, updates, memory.fresh(k))
        squares = lerp(state.square_average, squares_of(updates, state.square_average), second_memory.fresh(k))
        step = average if gain is None else jax.tree.map(lambda g, u: g + gain(k) * u, updates, average)
        scaled = cast_like(divide(step, squares, eps), updates)
        return scaled, MemoryAdamState(optax.safe_increment(k), average, squares)

    return optax.GradientTransformationExtraArgs(init, update)


def average_iterates(
    memory: Memory | str, *, accumulator_dtype: Any | None = None
) -> optax.GradientTransformationExtraArgs:
    r"""Keep an average of the parameters, $\bar x_k = b_k \bar x_{k-1} + (1-b_k)\, x_k$, and let updates pass.

    Put it last in a chain; the average of the parameters *after* each update is `average` in its state.
    `Polynomial(p)` is polynomial-decay averaging, `Exponential` a bias-corrected moving average. See
    `memgrad.memory_average` for PyTorch.

    Args:
        memory: A `Memory` or its text form.
        accumulator_dtype: Precision of the average; the parameters' by default.

    Example:
        >>> optimizer = optax.chain(optax.sgd(1.0), average_iterates("poly:1"))
        >>> x = jnp.array(0.0)
        >>> state = optimizer.init(x)
        >>> for g in (-3.0, -3.0):  # x is 3, then 6
        ...     updates, state = optimizer.update(jnp.array(g), state, x)
        ...     x = optax.apply_updates(x, updates)
        >>> float(state[-1].average)
        4.5

    Reference:
        Shamir and Zhang, *Stochastic gradient descent for non-smooth optimization*, ICML 2013.
    """
    memory = as_memory("average_iterates", "memory", memory)
    accumulator_dtype = as_dtype("average_iterates", accumulator_dtype)

    def init(params: Tree) -> MemoryState:
        return MemoryState(jnp.zeros((), jnp.int32), zeros_like(params, accumulator_dtype))

    def update(updates: Tree, state: MemoryState, params: Tree = None, **_: Any) -> tuple[Tree, MemoryState]:
        if params is None:
            raise ValueError("average_iterates averages parameters: call update(updates, state, params).")
        average = lerp(state.average, optax.apply_updates(params, updates), memory.fresh(state.count))
        return updates, MemoryState(optax.safe_increment(state.count), average)

    return optax.GradientTransformationExtraArgs(init, update)
