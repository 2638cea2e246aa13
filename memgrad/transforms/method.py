"""Any method as a transformation."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from memgrad.memory import Instantaneous
from memgrad.method import Method
from memgrad.transforms.options import as_dtype, as_mask, as_method, as_optimizer
from memgrad.transforms.state import MethodState, Number, Tree, cast_like, divide, lerp, squares_of, zeros_like


def scale_by_method(
    method: Method | str, *, accumulator_dtype: Any | None = None
) -> optax.GradientTransformationExtraArgs:
    r"""Replace gradients by the step of a method, $n_k/(\rho_k \sqrt{v_k} + \epsilon)$, for any mixture.

    It does not decay weights; `from_method` does.

    Args:
        method: A `Method` or its text form.
        accumulator_dtype: Precision of the averages, a floating dtype; the parameters' by default.

    Example:
        >>> transform = scale_by_method("inst + (1+k)*poly:1")
        >>> state = transform.init(jnp.zeros(1))
        >>> for g in (1.0, 2.0):
        ...     n, state = transform.update(jnp.array([g]), state)
        >>> float(n[0])  # the newest, 2, and twice the mean of 1 and 2
        5.0
    """
    method = as_method("scale_by_method", method)
    return scale_by_mixture(method, method.eps, accumulator_dtype)


def scale_by_mixture(
    method: Method, eps: Number, accumulator_dtype: Any | None
) -> optax.GradientTransformationExtraArgs:
    """The same with an epsilon beside the method, which may be traced."""
    parts, instant, second = method.mixture.averages, method.mixture.instant, method.second_memory
    accumulator_dtype = as_dtype("scale_by_method", accumulator_dtype, beside_squares=second is not None)

    def init(params: Tree) -> MethodState:
        zeros = partial(zeros_like, dtype=accumulator_dtype, beside_squares=second is not None)
        averages = tuple(zeros(params) for _ in parts)
        squares = None if second is None else zeros(jax.tree.map(jnp.real, params))
        return MethodState(jnp.zeros((), jnp.int32), averages, squares)

    def update(updates: Tree, state: MethodState, _params: Tree = None, **_: Any) -> tuple[Tree, MethodState]:
        k, squares = state.count, state.square_average
        averages = tuple(
            lerp(average, updates, part.memory.fresh(k)) for average, part in zip(state.averages, parts, strict=True)
        )
        gains = [part.gain(k, part.memory) for part in parts]

        def mixed(g: jax.Array, *each: jax.Array) -> jax.Array:
            terms = [gain * u for gain, u in zip(gains, each, strict=True)]
            if instant is not None:
                terms.append(instant(k, Instantaneous()) * g)
            total: jax.Array = sum(terms[1:], terms[0])
            return total

        step = jax.tree.map(mixed, updates, *averages)
        if second is not None:
            squares = lerp(squares, squares_of(updates, squares), second.fresh(k))
            step = divide(step, squares, eps, method.root(k, second))
        return cast_like(step, updates), MethodState(optax.safe_increment(k), averages, squares)

    return optax.GradientTransformationExtraArgs(init, update)


def from_method(
    learning_rate: optax.ScalarOrSchedule,
    method: Method | str,
    *,
    peak_learning_rate: Number | None = None,
    mask: Any | None = None,
    accumulator_dtype: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    r"""The optimizer of a method: its step, its weight decay and the learning rate.

    Args:
        learning_rate: $\eta$, or a schedule of it.
        method: A `Method` or its text form.
        peak_learning_rate: $\eta^*$, for an independent weight decay under a schedule; a constant learning rate is its
            own peak.
        mask: Which parameters decay: a tree of booleans or a function of the parameters that returns one, as in optax.
        accumulator_dtype: Precision of the averages; the parameters' by default.

    Example:
        >>> from memgrad.method import adamw
        >>> optimizer = from_method(0.1, adamw(weight_decay=0.5))
        >>> x = jnp.array(1.0)
        >>> updates, _ = optimizer.update(jnp.array(3.0), optimizer.init(x), x)
        >>> round(float(updates), 6)
        -0.15
    """
    method, mask = as_method("from_method", method), as_mask("from_method", mask)
    decay = method.weight_decay
    return as_optimizer(
        "from_method",
        learning_rate,
        scale_by_method(method, accumulator_dtype=accumulator_dtype),
        decay.at if decay.log_time else decay.amount,
        decay.kind,
        peak_learning_rate=peak_learning_rate,
        mask=mask,
    )
