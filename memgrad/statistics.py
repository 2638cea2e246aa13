"""What a few seeds tell: means with their intervals, paired comparisons, and p-values that many comparisons allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

LEVEL = 0.95
"""How often an interval contains the mean."""


@final
@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval.

    Attributes:
        mean: The mean; nan of no numbers.
        low: The lower end; nan where one number, or one that is not finite, tells nothing about the spread.
        high: The upper end.
        n: How many numbers there were.
    """

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        known = "" if math.isnan(self.low) else f" [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.mean:.4g}{known}"


def t_quantile(n: int) -> float:
    """How many standard errors an interval of n numbers reaches to either side: Student's, of n - 1 degrees.

    Example:
        >>> round(t_quantile(10), 3)
        2.262
    """
    from scipy.special import stdtrit  # as scipy.stats does, which takes seconds to load

    return float(stdtrit(n - 1, (1 + LEVEL) / 2))


def interval(samples: ArrayLike, *, quantile: float | None = None) -> Interval:
    r"""The mean of independent numbers with its 95 % interval, $\bar x \pm t_{n-1} s/\sqrt n$.

    Args:
        samples: The numbers, one a seed.
        quantile: Standard errors to either side; Student's for their number unless given.

    Example:
        >>> print(interval([1.0, 2.0, 3.0]))
        2 [-0.4841, 4.484]
        >>> print(interval([1.0]))
        1
    """
    x = _vector(samples)
    n = len(x)
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, 0)
    if n == 1 or not np.isfinite(x).all():
        return Interval(_mean(x), math.nan, math.nan, n)
    if (x == x[0]).all():  # the mean of equal numbers is rounded, and its spread would not be 0
        return Interval(float(x[0]), float(x[0]), float(x[0]), n)
    mean = float(x.mean())
    half = (t_quantile(n) if quantile is None else quantile) * float(x.std(ddof=1)) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n)


def paired_difference(a: ArrayLike, b: ArrayLike) -> Interval:
    """The mean of a - b with its interval, where both have one number for each seed.

    What a seed does to both cancels, so that the interval is often far narrower than those of `a` and `b`.

    Example:
        >>> print(paired_difference([1.0, 2.0, 3.1], [0.5, 1.5, 2.5]))
        0.5333 [0.3899, 0.6768]
    """
    return interval(_difference(a, b))


def paired_p_value(a: ArrayLike, b: ArrayLike) -> float:
    """The two-sided p-value of the paired t-test: how likely a mean difference this large is if there is none.

    It is nan where nothing can be said: fewer than two pairs, or numbers that are not finite. If all differences are
    the same it is what the test tends to: 1 for no difference, 0 for any other.

    Example:
        >>> round(paired_p_value([1.0, 2.0, 3.1], [0.5, 1.5, 2.5]), 4)
        0.0039
    """
    d = _difference(a, b)
    if len(d) < 2 or not np.isfinite(d).all():
        return math.nan
    if (d == d[0]).all():
        return 1.0 if d[0] == 0 else 0.0
    from scipy.special import stdtr

    statistic = float(d.mean()) / (float(d.std(ddof=1)) / math.sqrt(len(d)))
    return float(2 * stdtr(len(d) - 1, -abs(statistic)))


def holm(p_values: ArrayLike) -> Array:
    r"""P-values that stay honest when there are several: Holm's, $\max_{j \le i} \min(1, (m - j) p_{(j)})$ from j = 0.

    Whoever rejects where they are below 0.05 errs anywhere in the family with a probability of at most 0.05. A nan is
    a comparison that was not made: it stays nan and does not count.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])

    Reference:
        S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979).
    """
    p = _vector(p_values)
    if ((p < 0) | (p > 1)).any():
        raise ValueError(f"p-values are from 0 to 1, got {p[(p < 0) | (p > 1)][0]}.")
    adjusted = p.copy()
    made = np.flatnonzero(~np.isnan(p))
    order = made[np.argsort(p[made], kind="stable")]
    scaled = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


def _difference(a: ArrayLike, b: ArrayLike) -> Array:
    x, y = _vector(a), _vector(b)
    if x.shape != y.shape:
        raise ValueError(f"paired numbers come in equal number, got {len(x)} and {len(y)}.")
    with np.errstate(invalid="ignore"):  # inf - inf is nan, as it should be
        return np.asarray(x - y)


def _mean(x: Array) -> float:
    with np.errstate(invalid="ignore"):
        return float(x.mean())


def _vector(samples: ArrayLike) -> Array:
    x = np.asarray(samples, dtype=float)
    if x.ndim != 1:
        raise ValueError(f"a list of numbers is needed, one a seed, got the shape {x.shape}.")
    return x
