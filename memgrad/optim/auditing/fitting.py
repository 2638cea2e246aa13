"""Fits: the memory that is nearest to measured weights, its uncertainty, and the alternatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memgrad.kinds import Array
from memgrad.memory import Exponential, Instantaneous, Memory, Polynomial

EXACT = 1e-9  # relative error of float64 arithmetic over thousands of steps, with a margin
RESOLUTION = 1e-11  # total variations that differ by less are equal in float64
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Family:
    """A family of memories with one parameter, for searches over its logarithm z: log p, or log alpha of `exp`.

    Args:
        name: The name in text forms.
        make: The memory at z.
        shown: The parameter of the text form at z.
        named: The memory with a given parameter of the text form.
        bounds: The bounds of a search for one memory, so wide that the memories there equal the limits.
        limits: The limits of the memory at these bounds, where they are members of other families.
        inner_bounds: The bounds of a search for the memories of a mixture.
    """

    name: str
    make: Callable[[float], Memory]
    shown: Callable[[float], float]
    named: Callable[[float], Memory]
    bounds: tuple[float, float]
    limits: tuple[Memory | None, Memory]
    inner_bounds: tuple[float, float]


FAMILIES = (
    Family(
        "poly",
        make=lambda z: Polynomial(math.exp(z)),
        shown=math.exp,
        named=Polynomial,
        bounds=(math.log(1e-13), math.log(1e13)),
        limits=(None, Instantaneous()),
        inner_bounds=(math.log(0.02), math.log(1e5)),
    ),
    Family(
        "exp",
        make=lambda z: Exponential.from_alpha(math.exp(z)),
        shown=lambda z: math.exp(-math.exp(z)),
        named=Exponential,
        bounds=(math.log(1e-14), math.log(50.0)),
        limits=(Polynomial(1), Instantaneous()),
        inner_bounds=(math.log(1e-7), math.log(20.0)),
    ),
)


@dataclass(frozen=True)
class Fit:
    r"""A memory near measured weights.

    Args:
        memory: The nearest of its family.
        distance: The share of the weight that lies elsewhere (total variation), averaged over the steps.
        low: The smallest parameter, $p$ or $\beta$, with which it would be equally near, up to rounding.
        high: The largest such parameter.
        at_bound: `at most` or `at least` if the parameter is bounded from one side only, otherwise empty.
    """

    memory: Memory
    distance: float
    low: float = math.nan
    high: float = math.nan
    at_bound: str = ""

    def __str__(self) -> str:
        if isinstance(self.memory, Polynomial):
            name, value = "poly", self.memory.p
        elif isinstance(self.memory, Exponential):
            name, value = "exp", self.memory.beta
        else:
            return str(self.memory)
        if self.at_bound == "at most":
            return f"{name}:{self.high:.2g} or less"
        if self.at_bound == "at least":
            return f"{name}:{self.low:.2g} or more"
        text = f"{name}:{digits(value, self.low, self.high)}"
        known = self.high - self.low <= 1e-3 * min(value, 1 - value if name == "exp" else value)
        return text if known else f"{text} ({digits(self.low)} to {digits(self.high)})"


@dataclass(frozen=True)
class Nearest:
    """The result of a search: the nearest memory, and those of other families that are equally near.

    Args:
        fit: The nearest memory; `None` if the weights have both signs and so are not shares.
        others: The memories it cannot be distinguished from over the steps of the audit.
    """

    fit: Fit | None
    others: tuple[Fit, ...] = ()


def negative_share(weights: Array) -> float:
    """The share of the absolute weight, over all steps, whose sign is not that of its step's sum; 1/2 if it cancels."""
    total = np.abs(weights).sum()
    if total == 0:
        return 0.0
    positive, negative = np.maximum(weights, 0).sum(axis=-1), np.maximum(-weights, 0).sum(axis=-1)
    return float(np.minimum(positive, negative).sum() / total)


def has_both_signs(weights: Array, rounding: float = 0.0) -> bool:
    """Whether any row has weights of both signs, beyond rounding; then they have no mean age."""
    rows = np.atleast_2d(weights)
    return any(negative_share(row) > max(EXACT, rounding) for row in rows)


def nearest_memory(weights: Array, rounding: float = 0.0) -> Nearest:
    """The memory nearest to weights: of all families, the first that no other improves on by more than rounding.

    Args:
        weights: Row k holds the weights of the gradients 0 to k, then zeros.
        rounding: Relative error of the weights.
    """
    rows = np.flatnonzero(weights.any(axis=1))
    if len(rows) == 0 or has_both_signs(weights[rows], rounding):
        return Nearest(None)
    # Ten steps are enough to distinguish families.
    rows = np.unique(rows[np.geomspace(1, len(rows), 10).astype(int) - 1])
    measured = weights[rows] / weights[rows].sum(axis=1, keepdims=True)

    def distance(memory: Memory) -> float:
        theirs = rows_of(memory, rows, weights.shape[1])
        return min(1.0, float(np.abs(measured - theirs).sum(axis=1).mean() / 2))

    tolerance = max(RESOLUTION, 4 * rounding)
    newest = Fit(Instantaneous(), distance(Instantaneous()))
    fits = [(newest, None), *(_fit(family, distance, tolerance) for family in FAMILIES)]
    best = min(fit.distance for fit, _ in fits)
    near = [(fit, limit) for fit, limit in fits if fit.distance <= best + tolerance]
    # At its limit a family is another memory, which has a simpler name.
    first, *others = (
        fit for i, (fit, limit) in enumerate(near) if not any(_is(simpler, limit) for simpler, _ in near[:i])
    )
    return Nearest(first, tuple(others))


def rows_of(memory: Memory, rows: NDArray[np.int64], width: int) -> Array:
    """`memory.weights(k)` for some k, then zeros, with the decays computed once: a search spends its time here."""
    steps, k = np.arange(width), rows[:, None]
    weights = np.where(steps <= k, memory.fresh(steps), 0.0)
    later = np.where(steps[1:] <= k, memory.decay(steps)[1:], 1.0)  # what is still to come multiplies older weights
    weights[:, :-1] *= np.cumprod(later[:, ::-1], axis=1)[:, ::-1]
    return weights


def _is(fit: Fit, memory: Memory | None) -> bool:
    """Whether a fit cannot be distinguished from this memory."""
    if isinstance(memory, Polynomial):
        return isinstance(fit.memory, Polynomial) and fit.low <= memory.p <= fit.high
    return fit.memory == memory


def _fit(family: Family, distance: Callable[[Memory], float], tolerance: float) -> tuple[Fit, Memory | None]:
    """The nearest memory of a family, and its limit if it cannot be distinguished from that."""

    def at(z: float) -> float:
        return distance(family.make(z))

    low, high = family.bounds
    grid = np.linspace(low, high, 1 + math.ceil(high - low))
    i = int(np.argmin([at(float(z)) for z in grid]))
    z, least = _golden(at, float(grid[max(i - 1, 0)]), float(grid[min(i + 1, len(grid) - 1)]))
    ends = [_edge(at, z, bound, least + tolerance) for bound in (low, high)]
    touches = [end == bound for end, bound in zip(ends, (low, high), strict=True)]
    limit = next((limit for limit, touched in zip(family.limits, touches, strict=True) if touched), None)
    # Sorted, because a larger alpha is a smaller beta.
    (first, is_least), (last, is_most) = sorted(zip(map(family.shown, ends), touches, strict=True))
    one_sided = "" if is_least == is_most else "at most" if is_least else "at least"
    memory = family.make(z)
    short = float(digits(family.shown(z), first, last))
    if first <= short <= last:  # equally near, and what a person would have written
        memory = family.named(short)
        least = distance(memory)
    return Fit(memory, least, first, last, one_sided), limit


def _golden(at: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """The minimum of a unimodal function, which need not be smooth, by golden-section search."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    f_left, f_right = at(left), at(right)
    for _ in range(64):  # from a width of 2 to 1e-13
        if f_left <= f_right:
            high, right, f_right = right, left, f_left
            left = high - GOLDEN * (high - low)
            f_left = at(left)
        else:
            low, left, f_left = left, right, f_right
            right = low + GOLDEN * (high - low)
            f_right = at(right)
    return (left, f_left) if f_left <= f_right else (right, f_right)


def _edge(at: Callable[[float], float], z: float, bound: float, limit: float) -> float:
    """The point between z and a bound where the function first exceeds a limit; the bound itself if it never does."""
    inside, width = z, 1e-13
    direction = 1 if bound > z else -1
    while True:
        outside = z + direction * width
        if (outside - bound) * direction >= 0:
            outside = bound
        if at(outside) > limit:
            break
        if outside == bound:
            return bound
        inside, width = outside, 4 * width
    for _ in range(10):
        middle = (inside + outside) / 2
        if at(middle) <= limit:
            inside = middle
        else:
            outside = middle
    return outside


def digits(value: float, low: float = math.nan, high: float = math.nan, most: int | None = None) -> str:
    """The shortest decimal between two bounds, or `most` digits: by default four; near 1, four of the distance to 1."""
    if most is None:
        most = 4 + max(0, math.ceil(-math.log10(1 - value)) - 1) if 0.9 < value < 1 else 4
    shown = next((n for n in range(1, most) if low <= float(f"{value:.{n}g}") <= high), most)
    return repr(float(f"{value:.{shown}g}")).removesuffix(".0")
