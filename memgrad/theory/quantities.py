"""The arguments of bounds: what each means, and its domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memgrad.kinds import Array, is_real


@dataclass(frozen=True)
class Quantity:
    """One argument of bounds; its name and meaning are the same in all of them.

    Args:
        meaning: What it is, in the paper's letters.
        domain: Its domain, in words.
        low: The smallest value.
        above_low: Whether the smallest value itself is excluded.
        below: The value that it must be below.
        is_count: Whether it must be an integer.
    """

    meaning: str
    domain: str
    low: float = 0.0
    above_low: bool = False
    below: float = math.inf
    is_count: bool = False

    def admits(self, values: Array) -> NDArray[np.bool_]:
        """Which values are finite and lie in the domain."""
        inside = (values < self.below) & (values > self.low if self.above_low else values >= self.low)
        return inside & (values == np.floor(values)) if self.is_count else inside


def _positive(meaning: str) -> Quantity:
    return Quantity(meaning, "finite and > 0", above_low=True)


def _nonnegative(meaning: str) -> Quantity:
    return Quantity(meaning, "finite and >= 0")


QUANTITIES: Mapping[str, Quantity] = {
    "t": _nonnegative("time, or an array of times"),
    "k": Quantity("step, counted from 0, or an array of steps", "an integer >= 0", is_count=True),
    "steps": Quantity("number of steps in the budget", "an integer >= 1", low=1, is_count=True),
    "start": _nonnegative("time at which the equation starts, with X = x0 and V = 0"),
    "distance": _nonnegative("|x0 - x*|"),
    "gap": _nonnegative("f(x0) - f*"),
    "noise": _nonnegative("sigma_*: the largest standard deviation of the gradient noise in any direction"),
    "dimension": Quantity("d, the number of parameters", "an integer >= 1", low=1, is_count=True),
    "degree": _positive("p, the degree of polynomial memory"),
    "alpha": _positive("rate of forgetting, or viscosity"),
    "tau": _positive("constant of weak quasi-convexity: 1 for convex functions, 2 for quadratics"),
    "lr": _positive("learning rate"),
    "momentum": Quantity("beta, the constant decay of heavy-ball", ">= 0 and < 1", below=1.0),
    "smoothness": _positive("L, the Lipschitz constant of the gradient"),
    "strong_convexity": _positive("mu, the constant of strong convexity"),
    "growth": _positive("mu-tilde: f-tilde(x) - f-tilde* >= growth/2 |x - x*|^2"),
    "gradient": _nonnegative("G, the largest norm of the exact gradient"),
    "beta": _positive("weight of the position in the Lyapunov function, or an array of them"),
    "mu": _positive("mu-tilde: f-tilde(x) - f-tilde* >= mu/2 |x - x*|^2"),
}
"""All numeric arguments of bounds, by name."""


def numbers(owner: str, **values: Any) -> tuple[float, ...]:
    """The values as floats, in order, or an error that names the owner, the quantity, its domain and the value."""
    return tuple(_number(owner, name, value) for name, value in values.items())


def _number(owner: str, name: str, value: Any) -> float:
    quantity = QUANTITIES[name]
    if not is_real(value):
        raise TypeError(
            f"{owner} needs one number {name} ({quantity.meaning}), "
            f"got {name}={value!r} of type {type(value).__name__}."
        )
    return float(_inside(owner, name, np.array(float(value)), quantity))


def times(owner: str, t: Any, *, positive: bool = False) -> Array:
    """The time or times as an array of floats, or an error that names the owner and the value."""
    time = QUANTITIES["t"]
    return _inside(owner, "t", series(owner, "t", t), _positive(time.meaning) if positive else time)


def steps(owner: str, k: Any) -> Array:
    """The step or steps as an array of floats, or an error that names the owner and the value."""
    return _inside(owner, "k", series(owner, "k", k), QUANTITIES["k"])


def series(owner: str, name: str, values: Any) -> Array:
    """Real numbers as an array of floats, or an error."""
    array = np.asarray(values)
    if array.dtype == object and all(type(value) is int for value in array.flat):  # integers beyond 64 bits
        array = array.astype(np.float64)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{owner} needs a number {name} or an array of them, got {name}={values!r}.")
    if array.size == 0:
        raise ValueError(f"{owner} needs at least one {name}, got an empty array.")
    return array.astype(np.float64)


def _inside(owner: str, name: str, values: Array, quantity: Quantity) -> Array:
    inside = quantity.admits(values)
    if not np.all(inside):
        wrong = values[~inside].flat[0]
        raise ValueError(f"{owner} needs {name} ({quantity.meaning}) to be {quantity.domain}, got {name}={wrong:g}.")
    return values
