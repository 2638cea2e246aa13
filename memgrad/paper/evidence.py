"""Results of experiments on real data in the form that rules ask for: paired ratios of losses, case by case.

Runs of one seed start alike and see the same minibatches, so methods are compared seed by seed. A ratio of losses is
the geometric mean over seeds, and its interval the exponential of the 95 % t-interval of the mean difference of log
losses.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, final, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrad.experiments.planning.runs import Run
from memgrad.experiments.results import Results
from memgrad.kinds import Array
from memgrad.paper.claims import Claim, FirstVersion, Verdict
from memgrad.paper.rules import BY_HEART, LEAST_SHARE, Case, Finding, Kind, Status, compare, decided
from memgrad.paper.scales import Scale
from memgrad.statistics import Estimate, interval

SGD, HB = "SGD", "HB"
LONG = ("MemSGD p=2", "MemSGD p=4")
FAST = ("MemSGD p=100", "MemSGD p=e")
"""The methods with long memory, and those that forget fast."""


METHODS = (SGD, HB, *LONG, *FAST)
"""The methods that are compared. An experiment may have further ones, for tuning and for figures."""

EXAMPLES: Mapping[str, int] = MappingProxyType(
    {"covtype": 464_809, "autoencoder": 60_000, "mlp": 60_000, "cnn": 50_000}
)
"""The number of examples in the complete training set of each problem."""


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
        absent: Experiments that are asked for and are not complete.
    """

    scale: Scale
    results: Mapping[str, Results]
    plateau: Callable[[], float]
    originals: Callable[[], NDArray[Any]]
    absent: tuple[str, ...] = ()

    def __getitem__(self, experiment: str) -> Results:
        return self.results[experiment]

    def only(self, names: Iterable[str]) -> Evidence:
        """The evidence of these experiments alone, in this order."""
        return replace(self, results={name: self[name] for name in names}, absent=())

    def available(self, names: Sequence[str]) -> Evidence:
        """The evidence of those of these experiments that have results; the others are `absent`."""
        absent = tuple(name for name in names if name not in self.results)
        return replace(self.only(name for name in names if name not in absent), absent=absent)

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

    @cached_property
    def _regimes(self) -> dict[str, tuple[str, bool]]:
        return {name: regime_of(results, name) for name, results in self.results.items()}

    def regime(self, experiment: str) -> str:
        """Why an experiment does not speak for its data set; empty if it does. See `regime_of`."""
        return self._regimes[experiment][0]

    def compared(self, kind: Kind, name: str, experiment: str, method: str, reference: str) -> Case:
        """A comparison of the final losses of two methods in one experiment."""
        differences = log_ratio(self.final(experiment, method), self.final(experiment, reference))
        return self.of(experiment, compare(kind, name, differences))

    def of(self, experiment: str, case: Case) -> Case:
        """A case, marked if its experiment is of another regime."""
        regime, planned = self._regimes[experiment]
        return replace(case, regime=regime, planned=planned)

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
        found = weighed(cases, reported)
        found["reason"] = " ".join(filter(None, [found["reason"], reason]))
        return self.decided(claim, first=first_version(cases), **found)

    def decided(
        self,
        claim: Claim,
        numbers: Iterable[Estimate],
        *,
        held: bool,
        failed: bool,
        reason: str,
        first: FirstVersion,
        findings: Iterable[Finding] = (),
    ) -> Verdict:
        """A verdict, left undecided if the scale decides nothing."""
        scale = f"{self.scale.name}: " + "; ".join(map(self.described, self.results))
        seeds = sorted(set[int]().union(*(each.spec.seed_numbers for each in self.results.values())))
        verdict = claim.verdict(numbers, held=held, failed=failed, reason=reason, scale=scale, seeds=seeds)
        verdict = replace(verdict, findings=tuple(findings), first=first)
        if self.scale.decides:
            return verdict
        reason, first = f"a rehearsal decides nothing; {reason}", replace(first, outcome="undecided")
        return replace(verdict, outcome="undecided", reason=reason, first=first, rehearsal=True)

    def described(self, experiment: str) -> str:
        """What was run: seeds, steps and share of the data."""
        spec, run = self[experiment].spec, any_run(self[experiment])
        share = "sample of " if spec.sample else "" if spec.examples is not None else "all "
        few = "" if run.loss_examples is None else f" (loss over {run.loss_examples:,} of them)"
        return (
            f"{experiment} {len(spec.seed_numbers)} seeds, {run.steps:,} steps, {share}{run.examples:,} examples{few}"
        )


def any_run(results: Results) -> Run:
    """Any of the runs of an experiment: they all have the same batch size, steps and examples."""
    return next(iter(results.planned.values()))


def log_ratio(above: ArrayLike, below: ArrayLike) -> Array:
    """The logarithms of ratios of losses; infinite where one of the two runs diverged, and nan where both did."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(above) - np.log(below))


def ratio(name: str, above: ArrayLike, below: ArrayLike) -> Estimate:
    """The ratio of paired positive numbers, with the interval of the mean of its logarithm.

    It is infinite, without an interval, if a run of the first diverged, 0 if one of the second did, and nan if both
    did.

    Example:
        >>> print(ratio("loss A / B", [1.0, 2.0, 4.1], [2.0, 4.0, 8.0]))
        loss A / B = 0.5041 [0.4866, 0.5223]
    """
    return interval(log_ratio(above, below), name=name).exp()


def regime_of(results: Results, experiment: str) -> tuple[str, bool]:
    """Why an experiment does not speak for its data set, and whether that was seen only in its runs.

    Minibatches always speak. A full batch does not if it has fewer examples than `LEAST_SHARE` of the training set, or
    if any compared method ends, in the geometric mean over seeds, below `BY_HEART` of its initial loss.
    """
    problem, _, setting = experiment.rpartition("-")
    if setting != "full":
        return "", False
    examples, least = any_run(results).examples, LEAST_SHARE[problem] * EXAMPLES[problem]
    if examples < math.floor(least):
        return f"{examples:,} of {EXAMPLES[problem]:,} examples", False
    for method in (each for each in METHODS if each in results.methods):
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.log(results.final(method, "loss") / results.curve(method, "loss").values[0]).mean()
        if left < math.log(BY_HEART):
            return f"{method} ends at {100 * math.exp(left):.1f} % of its initial loss", True
    return "", False


ORDER: tuple[Status, ...] = get_args(Status)


def weighed(cases: Sequence[Case], reported: Sequence[Estimate] = ()) -> dict[str, Any]:
    """What comparisons say about a claim, as arguments of a verdict; the decisive ones come first.

    All that speak for their data sets must be supported, and one that is contradicted is enough to fail. What is only
    `reported` comes last.
    """
    findings = decided(cases)
    order = sorted(range(len(cases)), key=lambda i: ORDER.index(findings[i].status))
    statuses = {each.status for each in findings} - {"another regime"}
    return {
        "numbers": [*(cases[i].number for i in order), *reported],
        "held": statuses == {"supported"},
        "failed": "contradicted" in statuses,
        "reason": counted(findings),
        "findings": [findings[i] for i in order],
    }


def counted(findings: Sequence[Finding]) -> str:
    """How many comparisons support a claim, contradict it, are open, or speak for another regime."""
    number = {status: sum(each.status == status for each in findings) for status in ORDER}
    speaking = len(findings) - number["another regime"]
    other = f"{number['another regime']} of another regime decide nothing"
    if not speaking:
        return f"no comparison speaks for its data set: {other}."
    parts = [f"{number['supported']} of {speaking} comparisons are supported"]
    parts += [f"{number[each]} {each}" for each in ("contradicted", "open") if number[each]]
    return ", ".join(parts) + (f"; {other}." if number["another regime"] else ".")


def first_version(cases: Sequence[Case]) -> FirstVersion:
    """What version 1 of the rules says: all comparisons must hold, in every regime, and one failure is enough."""
    held, failed = sum(case.held for case in cases), sum(case.failed for case in cases)
    open_ = len(cases) - held - failed
    parts = [f"{held} of {len(cases)} comparisons hold"]
    parts += [f"{failed} {'fails' if failed == 1 else 'fail'}"] if failed else []
    parts += [f"{open_} {'is' if open_ == 1 else 'are'} open"] if open_ else []
    return FirstVersion.of(held == len(cases), failed > 0, ", ".join(parts) + ".")
