"""The results behind L1 to L6, each made from those before it: trained when asked for, or read from a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, final

import numpy as np

from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.results import Results
from memgrad.kinds import Array
from memgrad.paper.language import stages as of
from memgrad.paper.language.stages import ADAMW, METRIC, MIXTURE, SAVINGS, Grid, Stages, Winners
from memgrad.paper.rules import mean_and_error, p_below

T = TypeVar("T")
Find = Callable[[Spec], Results]
"""The complete results of an experiment; raises `Unfinished` if there are none."""


class Unfinished(LookupError):  # noqa: N818  # it reports a state, not an error
    """An experiment is not complete."""


@final
@dataclass(frozen=True)
class Study:
    """The experiments at a scale, in the order in which they depend on each other.

    Args:
        stages: The experiments.
        find: Finds the results of one.
    """

    stages: Stages
    find: Find

    # --- tuning ------------------------------------------------------------------------------------------------------

    @cached_property
    def short(self) -> tuple[Grid, Winners]:
        """The grid of the short horizon, extended while an optimum is at its edge, and what it selects."""
        grid = of.first_grid(self.stages.scale)
        winners = self._winners("lm-tune-short", grid, long=False)
        for _ in range(of.EXTENSIONS if self.stages.own["decides"] else 0):
            wider = of.extended(grid, winners)
            if wider == grid:
                break
            grid = wider
            winners = self._winners("lm-tune-short", grid, long=False)
        return grid, winners

    @cached_property
    def long(self) -> Winners:
        """What is selected at the long horizon, near what was selected at the short one."""
        return self._winners("lm-tune-long", of.near(self.short[1]), long=True)

    def _winners(self, name: str, grid: Grid, *, long: bool) -> Winners:
        results = self.find(self.stages.tuning(name, grid, long=long))
        scores = {method: min(results.scores(method).values()) for method in results.methods}
        return of.winners_of(grid, scores)

    # --- tests -------------------------------------------------------------------------------------------------------

    @cached_property
    def at_short(self) -> Results:
        """Both methods at the short horizon, on fresh seeds."""
        return self.find(self.stages.tests(self.short[1], [1.0], long=False))

    def at_long(self, shares: tuple[float, ...], text: str | None = None) -> Results:
        """AdamW and the mixture with these shares of its steps at the long horizon, on fresh seeds."""
        return self.find(self.stages.tests(self.long, shares, text=text))

    @cached_property
    def ablations(self) -> Results:
        """One part of the mixture at a time in AdamW, at the long horizon."""
        return self.find(self.stages.ablations(self.long))

    def with_batch(self, size: int) -> Results:
        """Both methods with minibatches of another size."""
        return self.find(self.stages.batch(self.long, size))

    @cached_property
    def large(self) -> Results:
        """AdamW, and the mixture with fewer steps, on a larger model."""
        return self.find(self.stages.large(self.long))

    def savings(self, level: float, text: str | None = None) -> dict[float, Array]:
        """The log loss of the mixture with a share of the steps minus AdamW's, by the share: as far as the order goes.

        The shares are tested in a fixed order, until one fails at the level.
        """
        found: dict[float, Array] = {}
        for i, share in enumerate(SAVINGS):
            results = self.at_long(SAVINGS[: i + 1], text)
            found[share] = log_difference(results, of.share_name(share), ADAMW)
            if p_below_zero(found[share]) > level:
                break
        return found


def if_finished(find: Callable[[], T]) -> T | None:
    """What is found, or None if an experiment is not complete."""
    try:
        return find()
    except Unfinished:
        return None


def parts(study: Study) -> dict[str, Array]:
    """The log loss of the mixture, and of each part of it alone, minus AdamW's, at the long horizon."""
    whole = study.at_long((1.0,))
    adamw = final_logs(whole, ADAMW)
    alone = {name: final_logs(study.ablations, name) - adamw for name in study.ablations.methods}
    return {MIXTURE: log_difference(whole, MIXTURE, ADAMW), **alone}


def final_logs(results: Results, method: str) -> Array:
    """The logarithms of the final losses, one per seed; infinite for a run that diverged."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(results.final(method, METRIC)))


def log_difference(results: Results, method: str, reference: str) -> Array:
    """The log loss of a method minus that of another, seed by seed. A run that diverged has lost."""
    mine, other = final_logs(results, method), final_logs(results, reference)
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(mine), np.inf, mine - other)


def p_below_zero(differences: Array) -> float:
    """The p-value of the one-sided t-test that a mean lies below 0; 1 where there is none."""
    mean, error = mean_and_error(differences)
    found = float(p_below(mean, error, len(differences)))
    return 1.0 if np.isnan(found) else found
