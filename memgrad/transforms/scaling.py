"""A memory of gradients, alone and over the root of a memory of their squares."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import optax

from memgrad.memory import Memory, Mixture
from memgrad.memory.text import as_memory
from memgrad.method import Method
from memgrad.transforms.method import scale_by_method
from memgrad.transforms.options import as_dtype, as_number, as_recalled
from memgrad.transforms.state import (
    MemoryAdamState,
    MemoryState,
    Number,
    Tree,
    adam_state,
    cast_like,
    divide,
    lerp,
    remember,
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
        return scale_by_method(Method(recalled, second_memory, eps=float(eps)), accumulator_dtype=accumulator_dtype)
    eps = as_number("scale_by_memory_adam", "eps", eps)
    accumulator_dtype = as_dtype("scale_by_memory_adam", accumulator_dtype, beside_squares=True)

    def init(params: Tree) -> MemoryAdamState:
        return adam_state(params, accumulator_dtype)

    def update(updates: Tree, state: MemoryAdamState, _params: Tree = None, **_: Any) -> tuple[Tree, MemoryAdamState]:
        state = remember(state, updates, recalled, second_memory)
        scaled = divide(state.average, state.square_average, eps)
        return cast_like(scaled, updates), state

    return optax.GradientTransformationExtraArgs(init, update)
