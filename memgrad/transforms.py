r"""The same memories for JAX, as optax gradient transformations.

They compose with optax's own: `optax.chain`, `inject_hyperparams`, `multi_transform`, `MultiSteps`. The step count $k$
is an array in the state, so nothing is compiled again as it grows; it stops at the largest int32 instead of wrapping
around. Averages are kept in the parameters' dtype, or in `accumulator_dtype` if one is given. Updates keep the dtype of
the gradients.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple

from memgrad.extras import require
from memgrad.memory import Exponential, Instantaneous, Memory, Polynomial
from memgrad.memory.kinds import as_real
from memgrad.memory.text import as_memory

require("memgrad.transforms", extra="jax", modules=("jax", "optax"))

import jax  # noqa: E402  # after the check, so that a missing jax is named
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

__all__ = [
    "MemoryAdamState",
    "MemoryState",
    "adana",
    "memadam",
    "memory_average",
    "memsgd",
    "polyadam",
    "scale_by_memory",
    "scale_by_memory_adam",
]

Tree = Any
Number = float | jax.Array


class MemoryState(NamedTuple):
    """State of `scale_by_memory` and `memory_average`: the step count and the average."""

    count: jax.Array  # type: ignore[assignment]  # optax's name, which hides the method of tuples
    average: Tree


class MemoryAdamState(NamedTuple):
    """State of the adaptive transformations: the step count and the averages of gradients and of their squares."""

    count: jax.Array  # type: ignore[assignment]  # optax's name, which hides the method of tuples
    average: Tree
    square_average: Tree


def scale_by_memory(
    memory: Memory | str, *, accumulator_dtype: Any | None = None
) -> optax.GradientTransformationExtraArgs:
    r"""Replace gradients by their weighted average: $u_k = b_k u_{k-1} + (1-b_k)\, g_k$, $k = 0, 1, \dots$

    Args:
        memory: A `Memory` or its text form.
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
    memory = as_memory("scale_by_memory", "memory", memory)
    accumulator_dtype = _as_dtype("scale_by_memory", accumulator_dtype)

    def init(params: Tree) -> MemoryState:
        return MemoryState(jnp.zeros((), jnp.int32), _zeros_like(params, accumulator_dtype))

    def update(updates: Tree, state: MemoryState, _params: Tree = None, **_: Any) -> tuple[Tree, MemoryState]:
        average = _lerp(state.average, updates, memory.fresh(state.count))
        return _cast_like(average, updates), MemoryState(optax.safe_increment(state.count), average)

    return optax.GradientTransformationExtraArgs(init, update)


def scale_by_memory_adam(
    memory: Memory | str,
    second_memory: Memory | str,
    eps: Number = 1e-8,
    *,
    accumulator_dtype: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    r"""Scale gradients as Adam does, $u_k/(\sqrt{v_k} + \epsilon)$, with any memory of gradients and of their squares.

    Both averages are normalised, so there is no bias to correct and the decays may change from step to step.

    Args:
        memory: Memory of gradients; a `Memory` or its text form.
        second_memory: Memory of squared gradients.
        eps: Added to the root, finite and > 0.
        accumulator_dtype: Precision of the averages; the parameters' by default.

    Example:
        >>> transform = scale_by_memory_adam("poly:2", "poly:4")
        >>> updates, _ = transform.update(jnp.array([3.0]), transform.init(jnp.zeros(1)))
        >>> round(float(updates[0]), 6)
        1.0

    Reference:
        UAI 2019, Sec. 6 and App. B.2 with errata 18 and 19.
    """
    memory = as_memory("scale_by_memory_adam", "memory", memory)
    second_memory = as_memory("scale_by_memory_adam", "second_memory", second_memory)
    eps = _as_number("scale_by_memory_adam", "eps", eps)
    accumulator_dtype = _as_dtype("scale_by_memory_adam", accumulator_dtype)

    def init(params: Tree) -> MemoryAdamState:
        return _adam_state(params, accumulator_dtype)

    def update(updates: Tree, state: MemoryAdamState, _params: Tree = None, **_: Any) -> tuple[Tree, MemoryAdamState]:
        state = _remember(state, updates, memory, second_memory)
        scaled = jax.tree.map(lambda u, v: u / (jnp.sqrt(v) + eps), state.average, state.square_average)
        return _cast_like(scaled, updates), state

    return optax.GradientTransformationExtraArgs(init, update)


def memsgd(
    learning_rate: optax.ScalarOrSchedule,
    memory: Memory | str = "poly:2",
    *,
    weight_decay: Number = 0.0,
    accumulator_dtype: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    r"""MemSGD: $x_{k+1} = x_k - \eta\, u_k$. See `memgrad.MemSGD`.

    Args:
        learning_rate: $\eta$, or a schedule of it.
        memory: A `Memory` or its text form.
        weight_decay: Factor of the L2 term that is added to the gradients, finite and >= 0.
        accumulator_dtype: Precision of the average; the parameters' by default.

    Example:
        >>> optimizer = memsgd(0.1)
        >>> x = jnp.array(1.0)
        >>> state = optimizer.init(x)
        >>> for _ in range(2):
        ...     updates, state = optimizer.update(x, state, x)  # the gradient of x^2/2 is x
        ...     x = optax.apply_updates(x, updates)
        >>> round(float(x), 4)
        0.8067

    Reference:
        UAI 2019, Sec. 4.2 (MemSGD-p).
    """
    parts = [scale_by_memory(memory, accumulator_dtype=accumulator_dtype), _descend("memsgd", learning_rate)]
    return _chain("memsgd", parts, weight_decay, before=True)


def memadam(
    learning_rate: optax.ScalarOrSchedule,
    memory: Memory | str = "exp:0.9",
    second_memory: Memory | str = "poly:4",
    *,
    eps: Number = 1e-8,
    weight_decay: Number = 0.0,
    accumulator_dtype: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    r"""MemAdam: $x_{k+1} = x_k - \eta\, [u_k/(\sqrt{v_k} + \epsilon) + \lambda x_k]$. See `memgrad.MemAdam`.

    With `exp:0.9` and `exp:0.999` it is `optax.adamw`.

    Args:
        learning_rate: $\eta$, or a schedule of it.
        memory: Memory of gradients; a `Memory` or its text form.
        second_memory: Memory of squared gradients.
        eps: Added to the root, finite and > 0.
        weight_decay: Factor $\lambda$ of the decoupled weight decay, finite and >= 0.
        accumulator_dtype: Precision of the averages; the parameters' by default.

    Example:
        >>> optimizer = memadam(0.1)
        >>> updates, _ = optimizer.update(jnp.array(3.0), optimizer.init(jnp.array(1.0)))
        >>> round(float(updates), 6)
        -0.1

    Reference:
        UAI 2019, Sec. 6.
    """
    scaled = scale_by_memory_adam(memory, second_memory, eps, accumulator_dtype=accumulator_dtype)
    return _chain("memadam", [scaled, _descend("memadam", learning_rate)], weight_decay, before=False)


def polyadam(
    learning_rate: optax.ScalarOrSchedule,
    *,
    p: Number = 4.0,
    beta: Number = 0.9,
    eps: Number = 1e-8,
    weight_decay: Number = 0.0,
    accumulator_dtype: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    """PolyAdam, the paper's Adam with polynomial memory of squared gradients. See `memgrad.PolyAdam`.

    Args:
        learning_rate: Learning rate, or a schedule of it.
        p: Degree of the memory of squared gradients, finite and > 0; it may be traced.
        beta: Decay of the memory of gradients, 0 <= beta < 1; it may be traced.
        eps: Added to the root, finite and > 0.
        weight_decay: Factor of the decoupled weight decay, finite and >= 0.
        accumulator_dtype: Precision of the averages; the parameters' by default.

    Example:
        >>> degrees = jnp.array([1.0, 2.0, 4.0])
        >>> def first_step(p):
        ...     optimizer = polyadam(0.1, p=p)
        ...     return optimizer.update(jnp.array(3.0), optimizer.init(jnp.array(1.0)))[0]
        >>> jax.vmap(first_step)(degrees).round(6).tolist() == [jnp.float32(-0.1).item()] * 3
        True

    Reference:
        UAI 2019, Sec. 6.
    """
    memory = Instantaneous() if _is_zero(beta) else Exponential(beta)  # type: ignore[arg-type]  # may be traced
    return memadam(
        learning_rate,
        memory,
        Polynomial(p),  # type: ignore[arg-type]  # may be traced
        eps=eps,
        weight_decay=weight_decay,
        accumulator_dtype=accumulator_dtype,
    )


def adana(
    learning_rate: optax.ScalarOrSchedule,
    *,
    delta: Number = 8.0,
    kappa: Number = 0.85,
    omega: Number = 4.0,
    eps: Number = 1e-8,
    accumulator_dtype: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    r"""ADana: polynomial memory of both moments, a growing gain, weight decay $\omega/(k+1)$. See `memgrad.ADana`.

    Args:
        learning_rate: $\eta$, or a schedule of it.
        delta: Degree of both memories, finite and > 0; it may be traced.
        kappa: Exponent of the gain $(1+k)^{1-\kappa}$, 0 <= kappa <= 1.
        omega: Factor of the weight decay, finite and >= 0; 0 needs no parameters in `update`.
        eps: Added to the root, finite and > 0.
        accumulator_dtype: Precision of the averages; the parameters' by default.

    Example:
        >>> optimizer = adana(0.1, omega=0.0)
        >>> updates, _ = optimizer.update(jnp.array(3.0), optimizer.init(jnp.array(1.0)))
        >>> round(float(updates), 6)
        -0.2

    Reference:
        arXiv 2602.05298 (2026).
    """
    memory = Polynomial(_as_number("adana", "delta", delta))  # type: ignore[arg-type]  # may be traced
    eps = _as_number("adana", "eps", eps)
    omega = _as_number("adana", "omega", omega, or_zero=True)
    kappa = _as_number("adana", "kappa", kappa, or_zero=True, most=1.0)
    accumulator_dtype = _as_dtype("adana", accumulator_dtype)

    def init(params: Tree) -> MemoryAdamState:
        return _adam_state(params, accumulator_dtype)

    def update(updates: Tree, state: MemoryAdamState, params: Tree = None, **_: Any) -> tuple[Tree, MemoryAdamState]:
        k = state.count
        state = _remember(state, updates, memory, memory)
        gain = (1.0 + k) ** (1 - kappa)

        def direction(g: jax.Array, u: jax.Array, v: jax.Array) -> jax.Array:
            return (g + gain * u) / (jnp.sqrt(v) + eps)

        scaled = jax.tree.map(direction, updates, state.average, state.square_average)
        if not (isinstance(omega, float) and omega == 0):
            if params is None:
                raise ValueError("adana with omega != 0 decays weights: call update(updates, state, params).")
            scaled = jax.tree.map(lambda s, x: s + omega / (k + 1.0) * x, scaled, params)
        return _cast_like(scaled, updates), state

    return _chain(
        "adana",
        [optax.GradientTransformationExtraArgs(init, update), _descend("adana", learning_rate)],
        0.0,
        before=False,
    )


def memory_average(
    memory: Memory | str, *, accumulator_dtype: Any | None = None
) -> optax.GradientTransformationExtraArgs:
    r"""Keep an average of the parameters, $\bar x_k = b_k \bar x_{k-1} + (1-b_k)\, x_k$, and let updates pass.

    Put it last in a chain; the average of the parameters *after* each update is `average` in its state.
    `Polynomial(p)` is polynomial-decay averaging, `Exponential` a bias-corrected moving average. See
    `memgrad.memory_average`.

    Args:
        memory: A `Memory` or its text form.
        accumulator_dtype: Precision of the average; the parameters' by default.

    Example:
        >>> optimizer = optax.chain(optax.sgd(1.0), memory_average("poly:1"))
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
    memory = as_memory("memory_average", "memory", memory)
    accumulator_dtype = _as_dtype("memory_average", accumulator_dtype)

    def init(params: Tree) -> MemoryState:
        return MemoryState(jnp.zeros((), jnp.int32), _zeros_like(params, accumulator_dtype))

    def update(updates: Tree, state: MemoryState, params: Tree = None, **_: Any) -> tuple[Tree, MemoryState]:
        if params is None:
            raise ValueError("memory_average averages parameters: call update(updates, state, params).")
        average = _lerp(state.average, optax.apply_updates(params, updates), memory.fresh(state.count))
        return updates, MemoryState(optax.safe_increment(state.count), average)

    return optax.GradientTransformationExtraArgs(init, update)


def _as_number(owner: str, name: str, value: Number, *, or_zero: bool = False, most: float = math.inf) -> Number:
    """A number that is refused unless finite, > 0 (or >= 0) and <= `most`; a traced one cannot be checked.

    An array stays one, so that what is built does not depend on its value: a state that `inject_hyperparams` has made
    of arrays must fit the update that is traced.
    """
    rule = f"a finite {name} {'>=' if or_zero else '>'} 0" + ("" if most == math.inf else f" and <= {most:g}")
    checked: Number = 0.0 if or_zero and _is_zero(value) else as_real(owner, name, value, rule)
    if isinstance(checked, float) and checked > most:
        raise ValueError(f"{owner} needs {rule}, got {name}={value!r}.")
    return value if isinstance(value, jax.Array) else checked


def _is_zero(value: Any) -> bool:
    """Whether a number, or an array whose value is known, is 0."""
    known = isinstance(value, Real) or (
        isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and value.ndim == 0
    )
    return known and not isinstance(value, bool) and bool(value == 0)


def _as_dtype(owner: str, dtype: Any | None) -> Any | None:
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
    return known


def _descend(owner: str, learning_rate: optax.ScalarOrSchedule) -> optax.GradientTransformation:
    if not callable(learning_rate):
        _as_number(owner, "learning_rate", learning_rate, or_zero=True)
    return optax.scale_by_learning_rate(learning_rate)


def _chain(
    owner: str, parts: list[optax.GradientTransformation], weight_decay: Number, *, before: bool
) -> optax.GradientTransformationExtraArgs:
    """The parts in turn, with the weight decay before them (L2) or before the last (decoupled)."""
    weight_decay = _as_number(owner, "weight_decay", weight_decay, or_zero=True)
    if not (isinstance(weight_decay, float) and weight_decay == 0):
        parts.insert(0 if before else -1, optax.add_decayed_weights(weight_decay))
    return optax.with_extra_args_support(optax.chain(*parts))


def _zeros_like(params: Tree, dtype: Any | None) -> Tree:
    def zeros(x: jax.Array) -> jax.Array:
        if dtype is not None and jnp.iscomplexobj(x):
            return jnp.zeros_like(x, dtype=jnp.promote_types(dtype, jnp.complex64))
        return jnp.zeros_like(x, dtype=dtype)

    return jax.tree.map(zeros, params)


def _adam_state(params: Tree, dtype: Any | None) -> MemoryAdamState:
    real = jax.tree.map(jnp.real, params)  # |g|^2 of a complex gradient is real
    return MemoryAdamState(jnp.zeros((), jnp.int32), _zeros_like(params, dtype), _zeros_like(real, dtype))


def _remember(state: MemoryAdamState, gradients: Tree, memory: Memory, second_memory: Memory) -> MemoryAdamState:
    """The state with these gradients in both averages."""
    k = state.count

    def square(g: jax.Array, v: jax.Array) -> jax.Array:  # in the precision in which it is kept
        return jnp.abs(g.astype(jnp.promote_types(g.dtype, v.dtype))) ** 2

    squares = jax.tree.map(square, gradients, state.square_average)
    return MemoryAdamState(
        optax.safe_increment(k),
        _lerp(state.average, gradients, memory.fresh(k)),
        _lerp(state.square_average, squares, second_memory.fresh(k)),
    )


def _lerp(average: Tree, new: Tree, fresh: jax.Array) -> Tree:
    """Averages moved towards `new` by the share `fresh`, in the averages' dtype."""

    def lerp(u: jax.Array, g: jax.Array) -> jax.Array:
        g = g.astype(u.dtype)
        # From the nearer end, as torch.lerp: else b_k = 0 would give a g that is rounded to the precision of u.
        return jnp.where(fresh < 0.5, u + fresh * (g - u), g - (1 - fresh) * (g - u)).astype(u.dtype)

    return jax.tree.map(lerp, average, new)


def _cast_like(tree: Tree, like: Tree) -> Tree:
    return jax.tree.map(lambda x, y: x.astype(y.dtype), tree, like)
