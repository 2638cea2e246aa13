"""The kinds of numbers that a memory returns: Python, numpy, torch and JAX, from one formula.

A formula is written once, against a namespace `xp` with the Array API's names (`log1p`, `expm1`, `exp`, `pow`,
`where`). The namespace is found from the argument, so this module imports neither torch nor jax.
"""

from __future__ import annotations

import math
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from memgrad.kinds import is_real, is_torch


class Floats:
    """The namespace of Python floats: `math`, with IEEE limits in place of exceptions."""

    @staticmethod
    def exp(x: float) -> float:
        try:
            return math.exp(x)
        except OverflowError:
            return math.inf

    @staticmethod
    def expm1(x: float) -> float:
        try:
            return math.expm1(x)
        except OverflowError:
            return math.inf

    log = staticmethod(math.log)

    @staticmethod
    def log1p(x: float) -> float:
        return math.log1p(x) if x > -1.0 else -math.inf

    @staticmethod
    def pow(x: float, y: float) -> float:
        try:
            return float(x**y)
        except (OverflowError, ZeroDivisionError):
            return math.inf

    @staticmethod
    def where(condition: bool, x: float, y: float) -> float:
        return x if condition else y


def namespace_of(x: Any) -> Any:
    """The namespace whose functions take `x`: `Floats`, numpy, torch, jax.numpy or any other Array API library."""
    if isinstance(x, int | float) and not isinstance(x, np.generic):
        return Floats
    if is_torch(x):
        return sys.modules["torch"]
    if isinstance(x, np.ndarray | np.generic):
        return np
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    raise TypeError(f"expected a number, a numpy or JAX array or a torch tensor, got {x!r} of type {type(x).__name__}.")


def quietly(xp: Any) -> AbstractContextManager[Any]:
    """Let numpy reach its IEEE limits (inf at an overflow, 0 after it) without a warning, as the others do."""
    return np.errstate(all="ignore") if xp is np else nullcontext()


def as_steps(k: Any) -> Any:
    """The step count `k` as a float of its own kind, or an error that names the value and the rule.

    Values are checked for Python numbers and numpy arrays. For torch and JAX only the dtype is: reading a value
    would wait for the device and could not be traced.
    """
    xp = namespace_of(k)
    if isinstance(k, bool) or _is_boolean_array(k):
        raise TypeError(f"a step count k must be an integer >= 0, got the boolean k={k!r}.")
    if xp is Floats and not (0 <= k <= sys.float_info.max and k == math.floor(k)):
        raise ValueError(f"a step count k must be an integer >= 0, got k={k!r}.")
    if xp is np:
        values = np.asarray(k)
        if values.dtype.kind not in "iuf":
            raise TypeError(f"a step count k must be an integer >= 0, got an array of dtype {values.dtype}.")
        wrong = ~((values >= 0) & np.isfinite(values) & (values == np.floor(values)))
        if np.any(wrong):
            raise ValueError(f"step counts k must be integers >= 0, got k={values[wrong].flat[0]!r} among them.")
    # Multiplying by 1.0 turns integers into the library's default float and keeps a float's precision.
    return k * 1.0


def _is_boolean_array(x: Any) -> bool:
    dtype = getattr(x, "dtype", None)
    kind = getattr(dtype, "kind", None)  # numpy's and JAX's dtypes, which take long to print
    return str(dtype) == "torch.bool" if kind is None else kind == "b"


def as_step(k: Any) -> int:
    """One step count as a Python int."""
    as_steps(k)
    try:
        n = int(k)
    except (TypeError, ValueError):
        raise TypeError(f"expected one step count k, an integer >= 0, got {k!r}.") from None
    if n < 0 or n != k:
        raise ValueError(f"a step count k must be an integer >= 0, got k={k!r}.")
    return n


def as_times(name: str, t: Any, *, positive: bool = False) -> Any:
    """The time `t` as a float of its own kind; Python numbers and numpy arrays are checked to be >= 0 (or > 0)."""
    xp = namespace_of(t)
    if isinstance(t, bool) or _is_boolean_array(t):
        raise TypeError(f"a time {name} must be a real number, got the boolean {name}={t!r}.")
    if xp is Floats or xp is np:
        values = np.asarray(t)
        inside = (values > 0 if positive else values >= 0) & np.isfinite(values)
        if not np.all(inside):
            rule = "> 0 (m(0) = 0, so the ratio has no value there)" if positive else ">= 0"
            raise ValueError(f"a time {name} must be finite and {rule}, got {name}={values[~inside].flat[0].item()!r}.")
    return t * 1.0


def is_traced(value: Any) -> bool:
    """Whether JAX is tracing a number, which then has no value to check. JAX is not imported for it."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def without_jax(value: Any) -> Any:
    """A scalar JAX array as the Python number that it holds; anything else, and a traced number, as it is."""
    is_jax = hasattr(value, "__jax_array__") or type(value).__module__.split(".")[0] in ("jax", "jaxlib")
    return value.item() if is_jax and not is_traced(value) and value.ndim == 0 else value


def as_real(owner: str, name: str, value: Any, rule: str, *, below: float = math.inf) -> Any:
    """A real parameter as a float, or an error that names its owner, the `rule` 0 < value < `below`, and the value.

    A scalar JAX array becomes a float like any other; one that is being traced has no value to check, and is kept.
    """
    if is_traced(value):
        return value
    value = without_jax(value)
    if type(value).__module__.split(".")[0] in ("jax", "jaxlib"):
        raise TypeError(f"{owner} needs one number {name}, got an array of shape {value.shape}; jax.vmap over it.")
    if not is_real(value):
        raise TypeError(f"{owner} needs a real number {name}, got {name}={value!r} of type {type(value).__name__}.")
    if not (0 < value < below and value <= sys.float_info.max):
        raise ValueError(f"{owner} needs {rule}, got {name}={value!r}.")
    return float(value)
