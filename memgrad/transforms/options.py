"""The options that the transformations share: numbers, dtypes, learning rates and weight decay."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import optax

from memgrad.memory import Memory, Mixture
from memgrad.memory.kinds import as_real
from memgrad.method import Method
from memgrad.method.method import Kind
from memgrad.transforms.state import Number, Tree, cast_like, loses_squares


def as_number(owner: str, name: str, value: Any, *, or_zero: bool = False, most: float = math.inf) -> Number:
    """A number, checked to be finite, > 0 (or >= 0) and <= `most`; a traced number cannot be checked.

    A number in a numpy array becomes a float. A JAX array stays an array, so that what is built does not depend on its
    value: a state that `inject_hyperparams` made of arrays must fit the traced update.
    """
    if type(value).__module__ == "numpy" and value.ndim == 0:
        value = value.item()
    rule = f"a finite {name} {'>=' if or_zero else '>'} 0" + ("" if most == math.inf else f" and <= {most:g}")
    checked: Number = 0.0 if or_zero and is_zero(value) else as_real(owner, name, value, rule)
    if isinstance(checked, float) and checked > most:
        raise ValueError(f"{owner} needs {rule}, got {name}={value!r}.")
    return value if isinstance(value, jax.Array) else checked


def is_zero(value: Any) -> bool:
    """Whether a number, or an array whose value is known, is 0."""
    known = isinstance(value, Real) or (
        isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and value.ndim == 0
    )
    return known and not isinstance(value, bool) and bool(value == 0)


def as_recalled(owner: str, memory: Memory | Mixture | str) -> Memory | Mixture:
    """The memory, or the mixture if it has a gain. The numbers of a memory may be traced."""
    read = Memory.parse(memory) if isinstance(memory, str) else memory
    if isinstance(read, Memory):
        return read  # not through Mixture, which compares memories: a traced number has no value to compare
    mixture = Mixture.of(read, owner)
    return mixture if mixture.memory is None else mixture.memory


def as_method(owner: str, method: Method | str) -> Method:
    """A method, given as one or in its text form."""
    read = Method.parse(method) if isinstance(method, str) else method
    if not isinstance(read, Method):
        raise TypeError(f"{owner} needs a Method or its text form, such as 'poly:2; decay=0.1', got method={method!r}.")
    return read


def as_mask(owner: str, mask: Any | None) -> Any | None:
    """Which parameters decay, in the form that optax accepts."""
    leaves = [] if mask is None or callable(mask) else jax.tree.leaves(mask)
    wrong = [leaf for leaf in leaves if not (isinstance(leaf, bool) or getattr(leaf, "dtype", None) == jnp.bool_)]
    if wrong:
        raise TypeError(f"{owner} needs a mask of booleans, or a function that returns one, got {wrong[0]!r} in mask.")
    return mask


def as_dtype(owner: str, dtype: Any | None, *, beside_squares: bool = False) -> Any | None:
    if dtype is None:
        return None
    try:
        known = jnp.dtype(dtype)
    except TypeError:
        known = jnp.dtype(bool)
    if not jnp.issubdtype(known, jnp.floating):
        raise ValueError(
            f"{owner} needs accumulator_dtype None or a floating dtype such as jnp.float32, "
            f"got accumulator_dtype={dtype!r}."
        )
    if beside_squares and loses_squares(known):
        raise ValueError(
            f"{owner} keeps squares of gradients, and those of small gradients are 0 in {known.name} (in float16 those "
            f"below 2e-4), got accumulator_dtype={dtype!r}; use jnp.float32, or jnp.bfloat16, which has its range."
        )
    return known


def decay_weights(amount: optax.ScalarOrSchedule, mask: Any | None) -> optax.GradientTransformation:
    """Add the parameters, times an amount or a schedule of it, to the updates, which keep their dtype."""
    added = optax.add_decayed_weights(amount, mask=mask)

    def update(updates: Tree, state: Any, params: Tree = None) -> tuple[Tree, Any]:
        decayed, state = added.update(updates, state, params)
        return cast_like(decayed, updates), state

    return optax.GradientTransformation(added.init, update)


def as_optimizer(
    owner: str,
    learning_rate: optax.ScalarOrSchedule,
    step: optax.GradientTransformation,
    amount: optax.ScalarOrSchedule,
    kind: Kind,
    *,
    peak_learning_rate: Number | None = None,
    mask: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    """A step with a learning rate and a weight decay, whose kinds are those of `memgrad.method.WeightDecay`."""
    if not callable(learning_rate):
        as_number(owner, "learning_rate", learning_rate, or_zero=True)
    if peak_learning_rate is not None:
        peak_learning_rate = as_number(owner, "peak_learning_rate", peak_learning_rate)
        if kind != "independent":
            raise ValueError(
                f"{owner} uses a peak_learning_rate for an independent weight decay only; its kind is {kind!r}, "
                f"which is multiplied by the learning rate itself: leave it out."
            )
    descent = optax.scale_by_learning_rate(learning_rate)

    def shrink(k: jax.Array) -> Any:
        # A constant learning rate is its own peak, even if it is 0.
        rate = learning_rate(k) if callable(learning_rate) else learning_rate
        share = 1.0 if peak_learning_rate is None else rate / peak_learning_rate
        return -(amount(k) if callable(amount) else amount) * share

    if isinstance(amount, float) and amount == 0:
        parts = [step, descent]
    elif kind == "l2":
        parts = [decay_weights(amount, mask), step, descent]
    elif kind == "decoupled":
        parts = [step, decay_weights(amount, mask), descent]
    elif peak_learning_rate is None and callable(learning_rate):
        raise ValueError(
            f"{owner} with an independent weight decay and a schedule needs peak_learning_rate, the largest "
            f"learning rate of the schedule, by which the decay is not multiplied."
        )
    else:
        parts = [step, descent, decay_weights(shrink, mask)]
    return optax.with_extra_args_support(optax.chain(*parts))
