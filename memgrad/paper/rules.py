r"""The rules for comparisons, version 2: each is tested, and the family of a claim's comparisons is controlled.

A comparison asks whether a mean over seeds, such as that of a paired difference of log losses, lies where the claim
says. Two one-sided t-tests answer it, one for the claim and one against it. Holm's correction over the comparisons of a
claim keeps the probability of any false alarm among them at 5 %. Version 1 read one 95 % interval per comparison,
without a correction: with all methods equal in law, a claim of 12 to 16 comparisons failed in 20 to 35 % of the cases.
`FIRST` has it, because both versions' verdicts are published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike

from memgrad.kinds import Array
from memgrad.statistics import Estimate, interval, step_down, t_quantile

Kind = Literal["less", "more", "not less", "not more", "equal"]
Status = Literal["contradicted", "open", "supported", "another regime"]

FAMILY_ERROR = 0.05
"""The probability with which a claim may have any significant test although none should be."""

MARGIN = (0.9, 1.1)
"""The ratios of losses that count as equal: 10 % on either side."""

LEAST_SHARE: Mapping[str, float] = MappingProxyType({"covtype": 0.1, "autoencoder": 0.01, "mlp": 0.1, "cnn": 0.1})
"""The share of its training set that a full batch needs to speak for it."""

BY_HEART = 0.01
"""Full-batch runs whose loss ends below this share of the initial one have memorized their examples."""

MOST_SEEDS = 1000
"""More seeds than this are not asked for: it would be another experiment."""

_LOW, _HIGH = (math.log(end) for end in MARGIN)
_LARGE = 1e6


# --- tests -----------------------------------------------------------------------------------------------------------


def mean_and_error(differences: ArrayLike) -> tuple[Array, Array]:
    """The mean over the last axis, the seeds, and its standard error; nan for fewer than two seeds.

    A run that diverged makes a difference infinite. It enters as the limit of ever larger losses: beside a difference
    that grows without bound, all finite ones are 0 and no border matters.

    Example:
        >>> mean, error = mean_and_error([[1.0, 2.0, 3.0], [0.1, 0.2, float("inf")]])
        >>> mean / error  # sqrt(k (n - 1) / (n - k)) where k of n seeds diverged
        array([3.46410162, 1.        ])
    """
    d = np.asarray(differences, dtype=float)
    infinite = np.isinf(d)
    limit = np.where(np.isnan(d), np.nan, np.where(infinite, np.sign(d) * _LARGE, 0.0))
    d = np.where(infinite.any(axis=-1, keepdims=True), limit, d)
    n = d.shape[-1]
    if n < 2:
        return np.full(d.shape[:-1], np.nan), np.full(d.shape[:-1], np.nan)
    same = (d == d[..., :1]).all(axis=-1)  # the mean of equal numbers is rounded, and its spread would not be 0
    mean = np.where(same, d[..., 0], d.mean(axis=-1))
    return mean, np.where(same, 0.0, d.std(axis=-1, ddof=1) / math.sqrt(n))


def p_below(mean: ArrayLike, error: ArrayLike, n: int, border: float = 0.0) -> Array:
    """The p-value of the one-sided t-test that a mean of n samples lies below a border; nan if the mean is.

    Without any spread it is the limit of the test: 0 below the border, and 1 on it or above it.

    Example:
        >>> p_below([-1.0, 0.0, -1.0], [0.25, 0.25, 0.0], n=3).round(4)
        array([0.0286, 0.5   , 0.    ])
    """
    from scipy.special import stdtr  # as scipy.stats does, which takes seconds to load

    above, spread = np.asarray(mean, dtype=float) - border, np.asarray(error, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        tested = stdtr(n - 1, above / spread)
    return np.where(spread == 0, np.where(above < 0, 0.0, 1.0), tested)


def p_above(mean: ArrayLike, error: ArrayLike, n: int, border: float = 0.0) -> Array:
    """The p-value of the one-sided t-test that a mean of n samples lies above a border."""
    return p_below(-np.asarray(mean, dtype=float), error, n, -border)


def p_values(kind: Kind, mean: ArrayLike, error: ArrayLike, n: int) -> tuple[Array, Array]:
    """The p-values of the tests for a claim and against it, given the mean of log ratios, its standard error and n.

    "not less" and "not more" are supported by a ratio within the margin on the side that matters, and "equal" by one
    within it on both sides. "equal" is contradicted on either side, which is two tries: its p-value is doubled.
    """
    below, above = partial(p_below, mean, error, n), partial(p_above, mean, error, n)
    if kind == "less":
        return below(), above()
    if kind == "more":
        return above(), below()
    if kind == "not less":
        return above(_LOW), below()
    if kind == "not more":
        return below(_HIGH), above()
    outside = np.minimum(1.0, 2 * np.minimum(below(_LOW), above(_HIGH)))
    return np.maximum(above(_LOW), below(_HIGH)), outside


def corrected(p: ArrayLike) -> Array:
    r"""Holm's correction along the last axis, $\max_{j \le i} \min(1, (m - j) p_{(j)})$ from j = 0.

    All m tries count, also those that gave no number: a nan becomes 1, unlike in `memgrad.statistics.holm`, where it
    marks a comparison that nobody planned.

    Example:
        >>> corrected([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])
        >>> corrected([0.01, float("nan"), 0.03])
        array([0.03, 1.  , 0.06])
    """
    return step_down(np.nan_to_num(np.asarray(p, dtype=float), nan=1.0))


# --- version 1 -------------------------------------------------------------------------------------------------------


def is_below(number: Estimate, border: float = 1.0) -> bool:
    """Whether the 95 % interval of a ratio lies below a border, or the reference alone diverged."""
    return number.high < border if number.has_interval else number.value == 0


def is_above(number: Estimate, border: float = 1.0) -> bool:
    """Whether the 95 % interval of a ratio lies above a border, or the method alone diverged."""
    return number.low > border if number.has_interval else number.value == math.inf


def _unless(fails: Callable[[Estimate], bool]) -> Callable[[Estimate], tuple[bool, bool]]:
    """It holds unless it is shown to fail; neither if nothing is known."""

    def decide(ratio: Estimate) -> tuple[bool, bool]:
        known = ratio.has_interval or ratio.value in (0.0, math.inf)
        return known and not fails(ratio), fails(ratio)

    return decide


def inside(number: Estimate, low: float, high: float) -> tuple[bool, bool]:
    """Whether the whole interval is within two borders, and whether all of it is outside them."""
    return number.low >= low and number.high <= high, is_below(number, low) or is_above(number, high)


FIRST: Mapping[Kind, Callable[[Estimate], tuple[bool, bool]]] = MappingProxyType(
    {
        "less": lambda ratio: (is_below(ratio), is_above(ratio)),
        "more": lambda ratio: (is_above(ratio), is_below(ratio)),
        "not less": _unless(is_below),
        "not more": _unless(is_above),
        "equal": lambda ratio: inside(ratio, *MARGIN),
    }
)
"""Version 1 of the rules: whether a ratio with its 95 % interval holds, and whether it fails."""


# --- comparisons -----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Case:
    """One of the comparisons that a rule asks for.

    Attributes:
        number: What was measured, with its 95 % interval.
        held: Whether version 1 shows the rule to hold in it.
        failed: Whether version 1 shows the rule to fail in it.
        p_for: The p-value of the test for the claim, not corrected; nan if there is no number.
        p_against: That of the test against it.
        tested: Whether version 2 tests it; otherwise, for what compares no losses, it keeps the rule of version 1.
        regime: Why it does not speak for its data set; empty if it does.
        planned: Whether it counts as a try although it is of another regime, because that was seen only in its runs.
        sides: By how much the two p-values were multiplied: 2 for a two-sided test.
    """

    number: Estimate
    held: bool
    failed: bool
    p_for: float = math.nan
    p_against: float = math.nan
    tested: bool = False
    regime: str = ""
    planned: bool = False
    sides: tuple[int, int] = (1, 1)


@final
@dataclass(frozen=True)
class Finding:
    """What version 2 says about a comparison.

    Attributes:
        status: `contradicted`, `open`, `supported` or `another regime`.
        p_for: The corrected p-value of the test for the claim; nan where nothing is tested.
        p_against: That of the test against it.
        regime: Why it is of another regime; empty if it is not.
        seeds: How many seeds would decide an open one, if its mean and spread stay: negative if against the claim, 0 if
            it is not open, or no number up to `MOST_SEEDS` would.
    """

    status: Status
    p_for: float = math.nan
    p_against: float = math.nan
    regime: str = ""
    seeds: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data; None for p-values that are not known."""
        known = {name: None if math.isnan(p := getattr(self, name)) else p for name in ("p_for", "p_against")}
        return {"status": self.status, **known, "regime": self.regime, "seeds": self.seeds}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Finding:
        """The inverse of `to_dict`."""
        known = {name: math.nan if data[name] is None else data[name] for name in ("p_for", "p_against")}
        return cls(data["status"], **known, regime=data["regime"], seeds=data["seeds"])


def compare(kind: Kind, name: str, differences: ArrayLike, *, ratio: bool = True) -> Case:
    """A comparison of paired logarithms.

    Args:
        kind: What the claim says about it.
        name: What is compared.
        differences: The differences of logarithms, one per seed.
        ratio: Whether the number that is shown is a ratio, the exponential of their mean; otherwise it is their mean.

    Example:
        >>> case = compare("less", "loss A / B", [-0.1, -0.12, -0.09])
        >>> print(case.number, case.held, round(case.p_for, 4))
        loss A / B = 0.9018 [0.8682, 0.9367] True 0.0036
    """
    d = np.asarray(differences, dtype=float)
    found = interval(d, name=name)
    mean, error = mean_and_error(d)
    p_for, p_against = p_values(kind, mean, error, len(d))
    number = found.exp() if ratio else found
    return Case(number, *FIRST[kind](found.exp()), float(p_for), float(p_against), tested=True, sides=_sides(kind))


def recompare(kind: Kind, number: Estimate, *, ratio: bool = True) -> Case:
    """The comparison behind a published number, from its 95 % interval and its number of seeds `n` alone.

    Example:
        >>> case = compare("less", "loss A / B", [-0.1, -0.12, -0.09])
        >>> again = recompare("less", case.number)
        >>> round(again.p_for - case.p_for, 12)
        0.0
    """
    if not number.has_interval:
        raise ValueError(f"{number.name}: without an interval there is nothing to test again, got {number}.")
    low, mid, high = (math.log(x) if ratio else x for x in (number.low, number.value, number.high))
    error = (high - low) / 2 / t_quantile(number.n)
    p_for, p_against = p_values(kind, mid, error, number.n)
    shown = number if ratio else number.exp()
    return Case(number, *FIRST[kind](shown), float(p_for), float(p_against), tested=True, sides=_sides(kind))


def _sides(kind: Kind) -> tuple[int, int]:
    return (1, 2) if kind == "equal" else (1, 1)


def decided(cases: Sequence[Case]) -> tuple[Finding, ...]:
    """What version 2 says about each comparison of a claim."""
    family = [i for i, case in enumerate(cases) if case.tested and (case.planned or not case.regime)]
    p_for = dict(zip(family, corrected([cases[i].p_for for i in family]).tolist(), strict=True))
    p_against = dict(zip(family, corrected([cases[i].p_against for i in family]).tolist(), strict=True))
    found = []
    for i, case in enumerate(cases):
        if case.regime:
            found.append(Finding("another regime", regime=case.regime))
        elif not case.tested:
            found.append(Finding("contradicted" if case.failed else "supported" if case.held else "open"))
        else:
            against, in_favor = p_against[i] <= FAMILY_ERROR, p_for[i] <= FAMILY_ERROR
            status: Status = "contradicted" if against else "supported" if in_favor else "open"
            seeds = seeds_to_decide(case, len(family)) if status == "open" else 0
            found.append(Finding(status, p_for[i], p_against[i], seeds=seeds))
    return tuple(found)


def seeds_to_decide(case: Case, tries: int) -> int:
    """The number of seeds with which one of the tests would be significant, if the mean and the spread stay.

    It is negative if that test is the one against the claim, and 0 if there is no such number, or a run diverged.

    Args:
        case: An open comparison.
        tries: The number of comparisons of its claim: the strictest of Holm's levels is asked for.

    Example:
        >>> seeds_to_decide(compare("less", "", [-0.1, -0.01, 0.02, -0.09]), tries=4)
        12
    """
    from scipy.special import stdtrit

    if not case.number.has_interval:
        return 0
    n = case.number.n
    counts = np.arange(n, MOST_SEEDS + 1)
    found = []
    for sign, p, sides in ((1, case.p_for, case.sides[0]), (-1, case.p_against, case.sides[1])):
        if 0 < p / sides < 0.5:
            t = stdtrit(n - 1, 1 - p / sides)
            enough = t * np.sqrt(counts / n) >= stdtrit(counts - 1, 1 - FAMILY_ERROR / tries / sides)
            found += [sign * int(counts[enough.argmax()])] if enough.any() else []
    return min(found, key=abs, default=0)
