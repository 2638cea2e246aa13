"""What experiments on real data say, in the form that rules ask for: paired ratios of losses, case by case.

Runs of one seed start alike and see the same minibatches, so methods are compared seed by seed. A ratio of losses is
the geometric mean over seeds, its interval the exponential of the 95 % t-interval of the mean difference of log losses:
"A below B" is a ratio whose interval lies below 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrad.experiments.results import Results
from memgrad.paper.claims import CLAIMS, Number, Verdict, decided
from memgrad.paper.scales import Scale
from memgrad.statistics import Interval, paired_difference

Array = NDArray[np.float64]

SGD, HB = "SGD", "HB"
LONG = ("MemSGD p=2", "MemSGD p=4")
FAST = ("MemSGD p=100", "MemSGD p=e")
"""The methods of long memory, and those that forget fast."""


@final
@dataclass(frozen=True)
class Case:
    """One of the comparisons that a rule asks for.

    Attributes:
        number: What was measured.
        held: Whether the rule is shown to hold in it.
        failed: Whether the rule is shown to fail in it. Neither: its interval contains the border.
    """

    number: Number
    held: bool
    failed: bool


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """The results of experiments on real data.

    Attributes:
        scale: The scale they were run at.
        results: What each experiment found, by its name.
        plateau: A function that gives the loss of the autoencoder's plateau on the examples of its full batch; see
            `plateau_loss`. Only one claim asks for it, and it needs the data.
    """

    scale: Scale
    results: Mapping[str, Results]
    plateau: Callable[[], float]

    def __getitem__(self, experiment: str) -> Results:
        return self.results[experiment]

    def final(self, experiment: str, method: str) -> Array:
        """The final losses of a method at its selected step size, one a seed; infinite where a run diverged."""
        return self[experiment].final(method, "loss")

    def ratio(self, name: str, experiment: str, method: str, reference: str) -> Number:
        """The final loss of a method as a multiple of the reference's."""
        return ratio(name, self.final(experiment, method), self.final(experiment, reference))

    def verdict(
        self,
        claim: str,
        cases: Sequence[Case],
        experiments: Sequence[str],
        *,
        reason: str = "",
        reported: Sequence[Number] = (),
    ) -> Verdict:
        """The verdict of a rule that asks for several comparisons: all must hold, and one that fails is enough.

        Args:
            claim: Its id.
            cases: The comparisons.
            experiments: Where they are from.
            reason: What else there is to say.
            reported: Further numbers, which do not decide.
        """
        held, failed = all(case.held for case in cases), any(case.failed for case in cases)
        # What decides comes first.
        order = sorted(cases, key=lambda case: (not case.failed, case.held))
        return self.decided(
            claim,
            held=held,
            failed=failed,
            numbers=[*(case.number for case in order), *reported],
            experiments=experiments,
            reason=" ".join(filter(None, [_counted(cases), reason])),
        )

    def decided(
        self,
        claim: str,
        *,
        held: bool,
        failed: bool,
        numbers: Sequence[Number],
        experiments: Sequence[str],
        reason: str,
    ) -> Verdict:
        """A verdict, left undecided if the scale decides nothing."""
        seeds = [set(self[name].spec.seed_numbers) for name in experiments]
        verdict = Verdict(
            CLAIMS[claim],
            decided(held=held, failed=failed),
            tuple(numbers),
            reason,
            f"{self.scale.name}: " + "; ".join(self.described(name) for name in experiments),
            tuple(sorted(set.intersection(*seeds))),
        )
        if self.scale.decides:
            return verdict
        reason = f"a rehearsal decides nothing; {reason}"
        return replace(verdict, outcome="undecided", reason=reason, rehearsal=True)

    def described(self, experiment: str) -> str:
        """What was run: seeds, steps, and share of the data."""
        spec = self[experiment].spec
        runs = next(iter(next(iter(self[experiment].runs.values())).values()))
        run = next(iter(runs.values()))
        share = "sample of " if spec.sample else "" if spec.examples is not None else "all "
        return f"{experiment} {len(spec.seed_numbers)} seeds, {run.steps:,} steps, {share}{run.examples:,} examples"


def ratio(name: str, above: ArrayLike, below: ArrayLike) -> Number:
    """The ratio of paired positive numbers, with the interval of its logarithm's mean.

    It is infinite, without an interval, if a run of the first diverged, 0 if one of the second did, and not a number
    if both did.

    Example:
        >>> print(ratio("loss A / B", [1.0, 2.0, 4.1], [2.0, 4.0, 8.0]))
        loss A / B = 0.5041 [0.4866, 0.5223]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return exponential(name, paired_difference(np.log(above), np.log(below)))


def exponential(name: str, difference: Interval) -> Number:
    """The ratio that a mean difference of logarithms is."""
    value = math.nan if math.isnan(difference.mean) else float(np.exp(difference.mean))
    if math.isnan(difference.low):
        return Number(name, value)
    return Number(name, value, float(np.exp(difference.low)), float(np.exp(difference.high)))


def is_below(number: Number, border: float = 1.0) -> bool:
    """Whether a ratio is shown to lie below a border: its interval does, or the reference alone diverged."""
    return number.value == 0 if number.high is None else number.high < border


def is_above(number: Number, border: float = 1.0) -> bool:
    """Whether a ratio is shown to lie above a border: its interval does, or the method alone diverged."""
    return number.value == math.inf if number.low is None else number.low > border


def is_known(number: Number) -> bool:
    """Whether anything can be said: there is an interval, or exactly one side diverged."""
    return number.low is not None or number.value in (0.0, math.inf)


def _counted(cases: Sequence[Case]) -> str:
    held, failed = sum(case.held for case in cases), sum(case.failed for case in cases)
    open_ = len(cases) - held - failed
    parts = [f"{held} of {len(cases)} comparisons hold"]
    parts += [f"{failed} {'fails' if failed == 1 else 'fail'}"] if failed else []
    parts += [f"{open_} {'is' if open_ == 1 else 'are'} open"] if open_ else []
    return ", ".join(parts) + "."
