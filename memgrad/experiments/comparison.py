"""The parts of results: a metric over the steps, and a method compared with a reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from memgrad.deprecation import renamed
from memgrad.kinds import Array
from memgrad.statistics import Estimate, interval


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """A metric over the steps of a method's runs at one step size.

    Attributes:
        steps: The steps at which it was evaluated, (T,).
        values: Its values, (T, seeds); nan after a run diverged, and for a run that is not finished.
        seeds: The seeds.
        diverged: The seeds whose run diverged, and the step at which this was detected.
    """

    steps: NDArray[np.int64]
    values: Array
    seeds: tuple[int, ...]
    diverged: Mapping[int, int]

    def interval(self) -> tuple[Array, Array, Array]:
        """The mean over the finished seeds and the lower and upper end of its 95 % interval, (T,) each.

        They are nan from the step at which a seed diverged: the mean of the others would look better than the method
        is. The ends are nan if there is only one seed.
        """
        finished = [
            i for i, seed in enumerate(self.seeds) if seed in self.diverged or np.isfinite(self.values[:, i]).any()
        ]
        intervals = [interval(at[finished]) for at in self.values]
        mean, low, high = (np.array([getattr(each, end) for each in intervals]) for end in ("value", "low", "high"))
        return mean, low, high


@final
@dataclass(frozen=True)
class Comparison:
    """A method compared with a reference, both at their selected step sizes.

    Attributes:
        method: The name of the method.
        lr: Its selected step size.
        final: The mean of the final values over seeds.
        difference: The mean over seeds of the paired difference to the reference; None for the reference itself.
        logarithmic: Whether the difference is one of logarithms, so that its exponential is a ratio.
        p_value: The p-value of the paired t-test; nan where there is none.
        adjusted_p_value: The p-value with Holm's correction for the number of methods compared.
        diverged: How many of its runs diverged, at all step sizes together.
        finished: How many of its runs are finished.
        planned: How many runs it has.
        variant: The name of the selected variant, of a method with a grid; otherwise the method's.
        steps: The number of steps of its runs.
        reach: The number of steps after which a given value is reached, if one was asked for.
        at_edge: Whether its step size is the smallest or the largest of several, so that a better one may lie beyond.
    """

    method: str
    lr: float
    final: Estimate
    difference: Estimate | None
    logarithmic: bool
    p_value: float
    adjusted_p_value: float
    diverged: int
    finished: int
    planned: int
    variant: str = ""
    steps: int = 0
    reach: Estimate | None = None
    at_edge: bool = False

    @property
    def ratio(self) -> Estimate | None:
        """The final value as a multiple of the reference's: the geometric mean over seeds, if `logarithmic`."""
        if self.difference is None or not self.logarithmic:
            return None
        return self.difference.exp()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        estimates = {"final": self.final, "difference": self.difference, "ratio": self.ratio, "reach": self.reach}
        plain = {
            name: None if each is None else {"mean": each.value, "low": each.low, "high": each.high, "n": each.n}
            for name, each in estimates.items()
        }
        return {**asdict(self), **plain}

    as_dict = renamed("as_dict", "to_dict")


def first_at(steps: NDArray[np.int64], values: Array, target: float) -> float:
    """Where the line through the values first falls to the target; infinite if it does not, nan without values.

    Example:
        >>> first_at(np.array([0, 10, 20]), np.array([4.0, 2.0, 1.0]), 1.5)
        15.0
    """
    known = np.isfinite(values)
    if not known.any():
        return math.nan
    steps, values = steps[known], values[known]
    below = np.flatnonzero(values <= target)
    if not len(below):
        return math.inf
    i = int(below[0])
    if i == 0:
        return float(steps[0])
    share = (values[i - 1] - target) / (values[i - 1] - values[i])
    return float(steps[i - 1] + share * (steps[i] - steps[i - 1]))
