"""Averages of parameters."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import optax

from memgrad.memory import Memory
from memgrad.memory.text import as_memory
from memgrad.transforms.options import as_dtype
from memgrad.transforms.state import MemoryState, Tree, lerp, zeros_like


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
