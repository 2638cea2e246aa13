"""What a memory amounts to after k steps: its passport."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Progress = Callable[[int, int], None]

# Cumulative weights carry rounding errors of this size. A tie with 1/2 must still count as reached.
HALF = 0.5 + 1e-12


@dataclass(frozen=True)
class Passport:
    r"""What a memory remembers at step k, in numbers a person can compare.

    With the weights $w(j,k)$ of the gradients $j = 0, \dots, k$, which sum to 1:

    Args:
        memory: Text form of the memory.
        k: The step, counted from 0.
        mean_age: $\sum_j w(j,k)\,(k-j)$, in steps.
        half_life: The smallest age $a$ such that the gradients older than $a$ steps weigh at most 1/2 together.
        effective_samples: $1/\sum_j w(j,k)^2$, the number of equally weighted gradients with the same variance.
        variance_factor: $\sum_j w(j,k)^2$, by which averaging multiplies the variance of independent gradient noise.
        newest_weight: $w(k,k) = 1 - b_k$.
        local_degree: The degree $p$ of the polynomial memory with the same $1 - b_k$; infinite where $b_k = 0$,
            `None` at $k = 0$, where all memories agree.
        equivalent_beta: The constant decay $\beta$ of the exponential average that is, in the long run, equally old:
            $\beta/(1-\beta)$ is the mean age.

    Example:
        >>> from memgrad import Polynomial
        >>> passport = Polynomial(2).passport(1000)
        >>> round(passport.mean_age, 1), passport.half_life
        (333.3, 293)
    """

    memory: str
    k: int
    mean_age: float
    half_life: int
    effective_samples: float
    variance_factor: float
    newest_weight: float
    local_degree: float | None
    equivalent_beta: float

    def to_dict(self) -> dict[str, str | int | float | None]:
        """The passport as plain data.

        Example:
            >>> from memgrad import Instantaneous
            >>> Instantaneous().passport(5).to_dict()["mean_age"]
            0.0
        """
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """Each entry as (what it is, its value), ready to print.

        Example:
            >>> from memgrad import Polynomial
            >>> Polynomial(2).passport(1000).rows()[2]
            ('mean age', '333.333 steps')
        """
        degree = "any" if self.local_degree is None else f"{self.local_degree:.6g}"
        return [
            ("memory", self.memory if len(self.memory) <= 40 else self.memory[:37] + "..."),
            ("step k", str(self.k)),
            ("mean age", f"{self.mean_age:.6g} steps"),
            ("half-life", f"{self.half_life} steps"),
            ("effective samples", f"{self.effective_samples:.6g}"),
            ("variance factor", f"{self.variance_factor:.6g}"),
            ("newest weight", f"{self.newest_weight:.6g}"),
            ("local degree p", degree),
            ("equivalent beta", f"{self.equivalent_beta:.6g}"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{what:<18} {value}" for what, value in self.rows())


class Statistics(NamedTuple):
    """The three numbers of a passport that need the whole past."""

    mean_age: float
    half_life: int
    sum_of_squares: float


class HasDecays(Protocol):
    def decay(self, k: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def fresh(self, k: NDArray[np.float64]) -> NDArray[np.float64]: ...


def statistics_from_decays(
    memory: HasDecays, k: int, progress: Progress | None = None, block: int = 1 << 16
) -> Statistics:
    """The statistics by recursion over the past, newest gradient first, in memory that does not grow with k.

    Walking backwards lets a memory that forgets fast stop early: what is left weighs too little to matter.
    `progress` is called with (steps done, steps in all) after each block.
    """
    left = 1.0  # the weight of all gradients not yet visited
    mean_age = sum_of_squares = 0.0
    half_life: int | None = None
    for newest in range(k, -1, -block):
        oldest = max(newest - block + 1, 0)
        j = np.arange(newest, oldest - 1, -1, dtype=np.float64)
        older = left * np.cumprod(memory.decay(j))  # older[i]: the weight of all gradients before j[i]
        w = np.concatenate(([left], older[:-1])) * memory.fresh(j)
        sum_of_squares += float(w @ w)
        mean_age += float(older.sum())  # the mean of an age is the sum over a of its chance to be above a
        if half_life is None and older[-1] <= HALF:
            half_life = k - newest + int(np.argmax(older <= HALF))
        left = float(older[-1])
        if progress is not None:
            progress(k - oldest + 1, k + 1)
        if half_life is not None and left * oldest <= 1e-17 * mean_age and left**2 <= 1e-17 * sum_of_squares:
            break
    assert half_life is not None  # b_0 = 0, so the walk ends with older = 0
    return Statistics(mean_age, half_life, sum_of_squares)


def half_life_from(older_than: Callable[[int], float], k: int) -> int:
    """The smallest age a with `older_than(a)` <= 1/2, by bisection of a nonincreasing function on 0..k."""
    low, high = -1, k  # older_than(k) = 0: nothing is older than the first gradient
    while high - low > 1:
        middle = (low + high) // 2
        if older_than(middle) <= HALF:
            high = middle
        else:
            low = middle
    return high


def issue_passport(memory: str, k: int, statistics: Statistics, decay: float, fresh: float) -> Passport:
    """Put the numbers of a passport together."""
    degree = None if k == 0 else math.inf if decay == 0 else k * fresh / decay
    return Passport(
        memory=memory,
        k=k,
        mean_age=statistics.mean_age,
        half_life=statistics.half_life,
        effective_samples=1 / statistics.sum_of_squares,
        variance_factor=statistics.sum_of_squares,
        newest_weight=fresh,
        local_degree=degree,
        equivalent_beta=statistics.mean_age / (1 + statistics.mean_age),
    )
