"""Results of experiments on real data in the form that rules ask for: paired ratios of losses, case by case.

Runs of one seed start alike and see the same minibatches, so methods are compared seed by seed. A ratio of losses is
the geometric mean over seeds, and its interval the exponential of the 95 % t-interval of the mean difference of log
losses: "A below B" is a ratio whose interval lies below 1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrad.experiments.planning.runs import Run
from memgrad.experiments.results import Results
from memgrad.paper.claims import Claim, Verdict
from memgrad.paper.scales import Scale
from memgrad.statistics import Estimate, paired_difference

Array = NDArray[np.float64]

SGD, HB = "SGD", "HB"
LONG = ("MemSGD p=2", "MemSGD p=4")
FAST = ("MemSGD p=100", "MemSGD p=e")
"""The methods with long memory, and those that forget fast."""


@final
@dataclass(frozen=True)
class Case:
    """One of the comparisons that a rule asks for.

    Attributes:
        number: What was measured.
        held: Whether the rule is shown to hold in it.
        failed: Whether the rule is shown to fail in it. Neither: its interval contains the border.
    """

    number: Estimate
    held: bool
    failed: bool


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """The results of experiments on real data.

    Attributes:
        scale: The scale they were run at.
        results: The results of each experiment, by its name.
        plateau: Computes the loss of the autoencoder's plateau on the examples of its full batch; see `plateau_loss`.
            Only one claim asks for it, and it needs the data.
        originals: Loads the first test pictures, (pictures, height, width), for the figure of reconstructions.
    """

    scale: Scale
    results: Mapping[str, Results]
    plateau: Callable[[], float]
    originals: Callable[[], NDArray[Any]]

    def __getitem__(self, experiment: str) -> Results:
        return self.results[experiment]

    def only(self, names: Iterable[str]) -> Evidence:
        """The evidence of these experiments alone, in this order."""
        return replace(self, results={name: self[name] for name in names})

    def about(self) -> dict[str, Any]:
        """The scale and the experiments as plain data."""
        specs = {
            name: results.spec.model_dump(mode="json", exclude_none=True) for name, results in self.results.items()
        }
        return {"scale": dataclasses.asdict(self.scale), "experiments": specs}

    def final(self, experiment: str, method: str) -> Array:
        """The final losses of a method at its selected step size, one per seed; infinite if the run diverged."""
        return self[experiment].final(method, "loss")

    def ratio(self, name: str, experiment: str, method: str, reference: str) -> Estimate:
        """The final loss of a method as a multiple of the reference's."""
        return ratio(name, self.final(experiment, method), self.final(experiment, reference))

    def verdict(
        self, claim: Claim, cases: Sequence[Case], *, reason: str = "", reported: Sequence[Estimate] = ()
    ) -> Verdict:
        """The verdict of a rule that asks for several comparisons: all must hold, and one failure is enough.

        Args:
            claim: What is decided.
            cases: The comparisons.
            reason: A remark to add.
            reported: Further numbers, which do not decide.
        """
        order = sorted(cases, key=lambda case: (not case.failed, case.held))  # the decisive ones first
        return self.decided(
            claim,
            [*(case.number for case in order), *reported],
            held=all(case.held for case in cases),
            failed=any(case.failed for case in cases),
            reason=" ".join(filter(None, [_counted(cases), reason])),
        )

    def decided(self, claim: Claim, numbers: Iterable[Estimate], *, held: bool, failed: bool, reason: str) -> Verdict:
        """A verdict, left undecided if the scale decides nothing."""
        scale = f"{self.scale.name}: " + "; ".join(map(self.described, self.results))
        seeds = sorted(set.intersection(*(set(each.spec.seed_numbers) for each in self.results.values())))
        verdict = claim.verdict(numbers, held=held, failed=failed, reason=reason, scale=scale, seeds=seeds)
        if self.scale.decides:
            return verdict
        return replace(verdict, outcome="undecided", reason=f"a rehearsal decides nothing; {reason}", rehearsal=True)

    def described(self, experiment: str) -> str:
        """What was run: seeds, steps and share of the data."""
        spec, run = self[experiment].spec, any_run(self[experiment])
        share = "sample of " if spec.sample else "" if spec.examples is not None else "all "
        return f"{experiment} {len(spec.seed_numbers)} seeds, {run.steps:,} steps, {share}{run.examples:,} examples"


def any_run(results: Results) -> Run:
    """Any of the runs of an experiment: they all have the same batch size, steps and examples."""
    return next(run for step_sizes in results.runs.values() for seeds in step_sizes.values() for run in seeds.values())


def ratio(name: str, above: ArrayLike, below: ArrayLike) -> Estimate:
    """The ratio of paired positive numbers, with the interval of the mean of its logarithm.

    It is infinite, without an interval, if a run of the first diverged, 0 if one of the second did, and nan if both
    did.

    Example:
        >>> print(ratio("loss A / B", [1.0, 2.0, 4.1], [2.0, 4.0, 8.0]))
        loss A / B = 0.5041 [0.4866, 0.5223]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return paired_difference(np.log(above), np.log(below), name=name).exp()


def is_below(number: Estimate, border: float = 1.0) -> bool:
    """Whether a ratio is shown to lie below a border: its interval does, or the reference alone diverged."""
    return number.high < border if number.has_interval else number.value == 0


def is_above(number: Estimate, border: float = 1.0) -> bool:
    """Whether a ratio is shown to lie above a border: its interval does, or the method alone diverged."""
    return number.low > border if number.has_interval else number.value == math.inf


def is_known(number: Estimate) -> bool:
    """Whether anything is known: there is an interval, or exactly one side diverged."""
    return number.has_interval or number.value in (0.0, math.inf)


def _counted(cases: Sequence[Case]) -> str:
    held, failed = sum(case.held for case in cases), sum(case.failed for case in cases)
    open_ = len(cases) - held - failed
    parts = [f"{held} of {len(cases)} comparisons hold"]
    parts += [f"{failed} {'fails' if failed == 1 else 'fail'}"] if failed else []
    parts += [f"{open_} {'is' if open_ == 1 else 'are'} open"] if open_ else []
    return ", ".join(parts) + "."
