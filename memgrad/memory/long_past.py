r"""Sums over the past of a memory or a mixture: every statistic of a passport, at any step.

A short past is summed gradient by gradient. In a long one, ages $a = 0, 1, \dots$ are summed one by one among the
newest and the oldest gradients, and by panels in between, each a quarter as long as its distance to either end. In a
panel $-\log b_{k-a}$ is a polynomial in $a$ up to rounding, and the Euler-Maclaurin formula sums a polynomial over
integers exactly. This gives $R(a) = M_{k+1-a}/M_{k+1}$, the share of the weights that is at least $a$ steps old, for
each memory everywhere, and with it the sums of $\sum_i \gamma_i R_i$ and of its squared differences from some thousand
decays. All terms are positive, so nothing cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from memgrad.amounts import duration
from memgrad.memory.passport import Progress, Statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memgrad.memory.base import Memory

    Numbers = NDArray[np.float64]

WALKED = 1 << 17
"""Up to this step, the past is summed gradient by gradient."""

_BLOCK = 1 << 16  # gradients per array where they are summed one by one
_ENDS = 4096  # gradients at either end that are summed one by one
_SHORTEST = 512  # a panel with fewer is summed one by one
_DEGREE = 24
_PATIENCE = 1 << 24  # gradients that are summed one by one before a memory counts as not smooth: a few seconds
_TOLERANCE = 1e-12
# Shares are known to less than this. A tie with 1/2 must still count as reached.
_TIE_IN_A_WALK = 1e-12
_TIE_IN_PANELS = 2e-14


def sum_the_past(
    name: str,
    k: int,
    parts: Sequence[tuple[float, Memory]],
    progress: Progress | None = None,
    *,
    to_the_first: bool = False,
) -> Past:
    """The sums over all gradients up to step k, to about 1e-12, in memory that does not grow with k.

    The half-life is that of the weights as they are known: by panels to 2e-14, exact up to about 1e12 steps.

    Args:
        name: What the passport is of, for errors.
        k: The step.
        parts: The gains at step k, finite and >= 0, with their memories; a memory is one part with gain 1.
        progress: Called with (gradients done, total number of gradients) during the summation.
        to_the_first: Whether to compute the first gradient's weight too; otherwise the sums end once the remaining
            weights are negligible.
    """
    if k > 10**100:  # squares of weights would underflow
        raise ValueError(
            f"the passport of {name} can be computed up to step k=1e100, got k={k:.3g}; ask for a smaller k."
        )
    past = Past(name, k, parts, progress, to_the_first)
    while not past.is_complete:
        rest = k + 1 - past.age
        if past.is_walked:
            past.walk(min(_BLOCK, rest))
            continue
        between = rest - _ENDS
        length = min(past.age // 4, rest // 4, between)
        while length >= _SHORTEST and not past.leap(length):
            length //= 2
        if length < _SHORTEST:
            past.walk(min(_ENDS, between if between > 0 else rest))
    return past


class Past:
    """The sums over the gradients of ages 0, ..., age - 1."""

    def __init__(
        self, name: str, k: int, parts: Sequence[tuple[float, Memory]], progress: Progress | None, to_the_first: bool
    ) -> None:
        self.name, self.k, self.progress, self.to_the_first = name, k, progress, to_the_first
        self.memories = [memory for _, memory in parts]
        self.gains = np.array([gain for gain, _ in parts])
        self.gain = float(self.gains.sum())
        self.in_code = next((memory for memory in self.memories if memory._takes_integers_only), None)
        self.is_walked = k <= WALKED or self.in_code is not None
        self.half = (0.5 + (_TIE_IN_A_WALK if self.is_walked else _TIE_IN_PANELS)) * self.gain
        self.left = np.ones(len(parts))  # R_i(age): for each part, the share of the weight not yet summed
        self.age = self.walked = 0
        self.ages = self.squares = self.newest_weight = self.first_weight = 0.0
        self.half_life: int | None = None if self.gain else 0
        self._drop_what_is_forgotten()

    @property
    def statistics(self) -> Statistics:
        assert self.half_life is not None  # b_0 = 0, so the past ends with nothing older
        return Statistics(self.ages / (self.gain or 1.0), self.half_life, self.squares)

    @property
    def is_complete(self) -> bool:
        """Whether all gradients are summed, or the weights of the rest are negligible."""
        if self.half_life is None or self.to_the_first:
            return not self.memories
        weight = float(self.gains @ self.left)
        return weight * (self.k + 1 - self.age) <= 1e-17 * self.ages and weight**2 <= 1e-17 * self.squares

    def walk(self, count: int) -> None:
        """Add this many gradients one by one."""
        self._refuse_a_long_walk(count)
        loss, fresh = self._at(np.arange(count, dtype=float))
        after = self.left[:, None] * np.exp(-np.cumsum(loss, axis=1))  # R_i(a + 1)
        before = np.concatenate([self.left[:, None], after[:, :-1]], axis=1)
        older, weights = self.gains @ after, self.gains @ (before * fresh)
        if self.half_life is None and older[-1] <= self.half:
            self.half_life = self.age + int(np.argmax(older <= self.half))
        if self.age == 0:
            self.newest_weight = float(weights[0])
        if self.age + count == self.k + 1:
            self.first_weight = float(weights[-1])
        self._add(float(older.sum()), float(weights @ weights), after[:, -1], count)

    def leap(self, count: int) -> bool:
        """Add this many gradients as a panel, and return whether that was possible."""
        rule = _rule()
        loss, fresh = self._at(count * (rule.nodes + 1) / 2)
        lost = rule.sums(loss, count)  # from the panel's beginning to each node
        shares = self.left[:, None] * np.exp(-lost)
        older, squared = self.gains @ (shares * np.exp(-loss)), (self.gains @ (shares * fresh)) ** 2
        ages, squares = (float(rule.sums(values, count)[-1]) for values in (older, squared))
        allowed = ((loss, 1.0), (older, self.ages + ages), (squared, self.squares + squares))
        if not all(count * rule.error(values) <= _TOLERANCE * whole for values, whole in allowed):
            return False
        if self.half_life is None and self.gains @ shares[:, -1] <= self.half:
            lost_at = rule.interpolant(lost)
            # The shares at the panel's end are R(age): the age before it has R(age + 1) <= 1/2 already.
            self.half_life = self.age + first_true(
                lambda a: bool((self.gains * self.left) @ np.exp(-lost_at(2 * (a + 1) / count - 1)) <= self.half),
                count - 1,
            )
        self._add(ages, squares, shares[:, -1], count)
        return True

    def _add(self, ages: float, squares: float, left: Numbers, count: int) -> None:
        self.ages += ages  # the mean age is the sum over a of the share older than a
        self.squares += squares
        self.left = left
        self.age += count
        self._drop_what_is_forgotten()
        if self.progress is not None:
            self.progress(self.age, self.k + 1)

    def _drop_what_is_forgotten(self) -> None:
        """Drop the parts without remaining weight; `inst` has none beyond age 0."""
        alive = self.left * self.gains > 0
        self.memories = [memory for memory, is_alive in zip(self.memories, alive, strict=True) if is_alive]
        self.gains, self.left = self.gains[alive], self.left[alive]

    def _at(self, older: Numbers) -> tuple[Numbers, Numbers]:
        """-log b and 1 - b of each part, for gradients this much older than the newest one not yet summed."""
        with np.errstate(all="ignore"):
            j = np.maximum(float(self.k - self.age) - older, 0.0)  # first k - age: sums near 1e15 are not exact
            fresh, decay = (
                np.array([getattr(memory, formula)(j, np) + 0 * j for memory in self.memories])
                for formula in ("_fresh", "_decay")
            )
            return np.where(fresh < 0.5, -np.log1p(-fresh), -np.log(decay)), fresh

    def _refuse_a_long_walk(self, count: int) -> None:
        """Raise an error with the expected time if a sum would take long and nothing shows its progress."""
        self.walked += count
        rest = self.k + 1 - self.age
        if self.in_code is None and self.walked > _PATIENCE:
            raise ValueError(
                f"the passport of {self.name} at step k={self.k} would need its decay at {rest} more steps one by one, "
                f"because it is not smooth in k: about {duration(rest * 2e-7)}. Ask for a smaller k."
            )
        if self.in_code is not None and self.progress is None and self.age >= 1 << 20 and self.k >= 1 << 24:
            raise ValueError(  # raised after some seconds if the whole sum would take about a minute or more
                f"the passport of {self.name} at step k={self.k} needs the decay of {self.in_code} at every step, "
                f"because it is a function in code that takes integers: about {duration((self.k + 1) * 3e-6)}. Ask "
                f"for a smaller k; give Sampled(m, dm, h) a memory function, whose passport takes no time; or pass "
                f"progress=... and wait."
            )


class _Rule:
    """Sums of polynomials over the integers of a panel, from their values at Chebyshev's points in [-1, 1]."""

    def __init__(self) -> None:
        from numpy.polynomial import chebyshev  # a tenth of the time that importing memgrad takes

        self.chebyshev = chebyshev
        self.nodes = nodes = -np.cos(np.pi * np.arange(_DEGREE + 1) / _DEGREE)
        self.coefficients = np.linalg.inv(chebyshev.chebvander(nodes, _DEGREE))
        eye = np.eye(_DEGREE + 1)
        # Euler and Maclaurin, f at the lower end but not at the upper: int f/d - f/2 + d f'/12 - d^3 f'''/720 + ...
        parts = [chebyshev.chebint(eye), eye, *(chebyshev.chebder(eye, m) for m in (1, 3, 5))]
        values = [chebyshev.chebval(nodes, part).T for part in parts]
        self.parts = [(each - each[0]) @ self.coefficients for each in values]

    def sums(self, values: Numbers, count: int) -> Numbers:
        """The sums over the integers from the panel's beginning up to, but excluding, each point."""
        d = 2 / count
        factors = (1 / d, -1 / 2, d / 12, -(d**3) / 720, d**5 / 30240)
        return np.asarray(sum(factor * (values @ part.T) for factor, part in zip(factors, self.parts, strict=True)))

    def error(self, values: Numbers) -> float:
        """How far the values are from a polynomial, by its last coefficients; infinite if they are not finite."""
        last = np.abs(values @ self.coefficients[-2:].T).max()
        return float(last) if np.isfinite(last) else math.inf

    def interpolant(self, values: Numbers) -> Callable[[float], Numbers]:
        """The polynomials through the rows of values."""
        coefficients = self.coefficients @ values.T
        return lambda x: np.asarray(self.chebyshev.chebval(x, coefficients))


_rule = cache(_Rule)  # made when it is first needed


def first_true(reached: Callable[[int], bool], last: int) -> int:
    """The smallest number in 0..last that satisfies a condition; so must all larger numbers."""
    low, high = -1, last
    while high - low > 1:
        middle = (low + high) // 2
        if reached(middle):
            high = middle
        else:
            low = middle
    return high
