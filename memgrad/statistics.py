"""Statistics of a few seeds: estimates with intervals, paired comparisons, and p-values corrected for their number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from memgrad.deprecation import deprecated_names
from memgrad.kinds import Array

LEVEL = 0.95
"""The probability with which an interval contains the true value."""

NORMAL_QUANTILE = 1.96
"""The number of standard errors on either side in a 95 % interval of many samples, to the usual three digits."""


@final
@dataclass(frozen=True, eq=False)
class Estimate:
    """A value with its 95 % interval.

    Attributes:
        value: The value, such as a mean; nan if there is none.
        low: The lower end of the interval; nan for an exact value, and where the spread is unknown because there is
            only one sample or a sample is not finite.
        high: The upper end.
        n: The number of samples; 0 if it is not the mean of samples.
        name: What the value is, such as `final loss p=2 / SGD`; may be empty.

    Example:
        >>> print(Estimate(0.5, 0.4, 0.6, name="ratio"), Estimate(2.0), sep="; ")
        ratio = 0.5 [0.4, 0.6]; 2
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        if math.isnan(self.low) != math.isnan(self.high):
            who = f"the estimate {self.name!r}" if self.name else "an estimate"
            raise ValueError(f"{who} needs both ends of its interval or none, got {self.low} and {self.high}.")

    @property
    def has_interval(self) -> bool:
        """Whether the ends of the interval are known."""
        return not math.isnan(self.low)

    def below(self, other: Estimate) -> bool:
        """Whether the whole interval lies below that of the other; an exact value is its own interval.

        Example:
            >>> Estimate(1.0, 0.9, 1.1).below(Estimate(1.2, 1.15, 1.25))
            True
        """
        return (self.high if self.has_interval else self.value) < (other.low if other.has_interval else other.value)

    def exp(self) -> Estimate:
        """The exponential of value and interval: a mean difference of logarithms becomes a ratio.

        Example:
            >>> print(Estimate(0.0, -1.0, 1.0).exp())
            1 [0.3679, 2.718]
        """
        with np.errstate(over="ignore"):
            value, low, high = np.exp([self.value, self.low, self.high]).tolist()
        return Estimate(value, low, high, self.n, self.name)

    def to_dict(self) -> dict[str, Any]:
        """The name, the value and the ends as plain data; None for ends that are not known."""
        low, high = (self.low, self.high) if self.has_interval else (None, None)
        return {"name": self.name, "value": self.value, "low": low, "high": high}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Estimate) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        """A key for comparisons, in which nan is equal to itself."""
        return (*(None if math.isnan(x) else x for x in (self.value, self.low, self.high)), self.n, self.name)

    @property
    def mean(self) -> float:
        """The value, by its former name."""
        return self.value

    def __str__(self) -> str:
        name = f"{self.name} = " if self.name else ""
        ends = f" [{self.low:.4g}, {self.high:.4g}]" if self.has_interval else ""
        return f"{name}{self.value:.4g}{ends}"


__getattr__ = deprecated_names(__name__, {"Interval": "memgrad.statistics.Estimate"})


def t_quantile(n: int) -> float:
    """The number of standard errors on either side in an interval of n samples: Student's t, n - 1 degrees of freedom.

    Example:
        >>> round(t_quantile(10), 3)
        2.262
    """
    from scipy.special import stdtrit  # as scipy.stats does, which takes seconds to load

    return float(stdtrit(n - 1, (1 + LEVEL) / 2))


def interval(samples: ArrayLike, *, quantile: float | None = None, name: str = "") -> Estimate:
    r"""The mean of independent samples with its 95 % interval, $\bar x \pm t_{n-1} s/\sqrt n$.

    Args:
        samples: The samples, one per seed.
        quantile: The number of standard errors on either side; Student's for the number of samples by default.
        name: What the mean is of.

    Example:
        >>> print(interval([1.0, 2.0, 3.0]))
        2 [-0.4841, 4.484]
        >>> print(interval([1.0], name="loss"))
        loss = 1
    """
    x = _vector(samples)
    n = len(x)
    if n == 0:
        return Estimate(math.nan, name=name)
    if n == 1 or not np.isfinite(x).all():
        with np.errstate(invalid="ignore"):
            return Estimate(float(x.mean()), n=n, name=name)
    if (x == x[0]).all():  # the mean of equal numbers is rounded, and its spread would not be 0
        same = float(x[0])
        return Estimate(same, same, same, n, name)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = float(x.mean()), float(x.std(ddof=1))
        if not 0 < spread < math.inf:  # squares of very small or large numbers are 0 or infinite
            largest = float(abs(x).max())
            mean, spread = float((x / largest).mean()) * largest, float((x / largest).std(ddof=1)) * largest
    half = (t_quantile(n) if quantile is None else quantile) * spread / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n, name)


def of_mean(mean: float, sd: float, n: int, *, name: str = "") -> Estimate:
    """The mean of many samples with its 95 % interval, from their standard deviation and their number.

    Example:
        >>> print(of_mean(1.0, 0.5, 100))
        1 [0.902, 1.098]
    """
    half = NORMAL_QUANTILE * float(sd) / math.sqrt(n)
    return Estimate(float(mean), float(mean) - half, float(mean) + half, n, name)


def log_interval(samples: ArrayLike, *, name: str = "") -> Estimate:
    """The geometric mean of positive samples, with the exponential of the interval of the mean logarithm.

    Example:
        >>> print(log_interval([1.0, 2.0, 4.0]))
        2 [0.3575, 11.19]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return interval(np.log(_vector(samples)), name=name).exp()


def paired_difference(a: ArrayLike, b: ArrayLike, *, name: str = "") -> Estimate:
    """The mean of a - b with its interval, for samples that are paired by seed.

    The effect of a seed on both cancels, so the interval is often far narrower than those of `a` and `b`.

    Example:
        >>> print(paired_difference([1.0, 2.0, 3.1], [0.5, 1.5, 2.5]))
        0.5333 [0.3899, 0.6768]
    """
    return interval(_difference(a, b), name=name)


def ratio_of_means(a: ArrayLike, b: ArrayLike, *, quantile: float | None = None, name: str = "") -> Estimate:
    """The ratio of the means of paired samples, with its 95 % interval by linearization.

    Args:
        a: The samples of the numerator.
        b: The samples of the denominator, in the same order; at least 2.
        quantile: The number of standard errors on either side; Student's for the number of samples by default.
        name: What the ratio is of.

    Example:
        >>> print(ratio_of_means([2.0, 4.1, 6.0], [1.0, 2.0, 3.0]))
        2.017 [1.942, 2.091]
    """
    x, y = _vector(a), _vector(b)
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(f"a ratio of means needs at least 2 pairs of samples, got {len(x)} and {len(y)} samples.")
    if y.mean() == 0:
        raise ValueError("a ratio of means needs samples b whose mean is not 0, got a mean of 0.")
    ratio = float(x.mean() / y.mean())
    error = float((x - ratio * y).std(ddof=1)) / math.sqrt(len(x)) / abs(float(y.mean()))
    half = (t_quantile(len(x)) if quantile is None else quantile) * error
    return Estimate(ratio, ratio - half, ratio + half, len(x), name)


def paired_p_value(a: ArrayLike, b: ArrayLike) -> float:
    """The two-sided p-value of the paired t-test: the probability of a mean difference this large if there is none.

    It is nan for fewer than two pairs or samples that are not finite. If all differences are equal it is the limit of
    the test: 1 if they are 0, and 0 otherwise.

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

    d = d / np.abs(d).max()  # squares of tiny differences would be 0
    statistic = float(d.mean()) / (float(d.std(ddof=1)) / math.sqrt(len(d)))
    return float(2 * stdtr(len(d) - 1, -abs(statistic)))


def holm(p_values: ArrayLike) -> Array:
    r"""Holm's correction of several p-values, $\max_{j \le i} \min(1, (m - j) p_{(j)})$ from j = 0.

    Rejecting where the corrected p-value is below 0.05 makes any error in the family with probability at most 0.05. A
    nan marks a comparison that was not made: it stays nan and does not count.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])

    Reference:
        S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979).
    """
    p = _vector(p_values)
    if ((p < 0) | (p > 1)).any():
        raise ValueError(f"p-values must lie in [0, 1], got {p[(p < 0) | (p > 1)][0]}.")
    adjusted, made = p.copy(), ~np.isnan(p)
    adjusted[made] = step_down(p[made])
    return adjusted


def step_down(p: Array) -> Array:
    """Holm's correction of p-values along the last axis, all of which count."""
    order = np.argsort(p, axis=-1)
    scaled = np.take_along_axis(p, order, axis=-1) * np.arange(p.shape[-1], 0, -1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(np.maximum.accumulate(scaled, axis=-1), 1.0), axis=-1)
    return adjusted


def _difference(a: ArrayLike, b: ArrayLike) -> Array:
    x, y = _vector(a), _vector(b)
    if x.shape != y.shape:
        raise ValueError(f"paired samples must have the same length, got {len(x)} and {len(y)}.")
    with np.errstate(invalid="ignore"):  # inf - inf is nan, as it should be
        return np.asarray(x - y)


def _vector(samples: ArrayLike) -> Array:
    x = np.asarray(samples, dtype=float)
    if x.ndim != 1:
        raise ValueError(f"samples must be a one-dimensional list, one number per seed, got the shape {x.shape}.")
    return x
