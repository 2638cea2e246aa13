"""How many runs tuning takes, in how many rounds, and which of them a budget keeps back."""

from __future__ import annotations

from collections.abc import Sequence

from memgrad.experiments.racing.candidates import Candidate
from memgrad.experiments.racing.sequential import Rules, Standing


def expected_runs(candidates: Sequence[Candidate], rules: Rules) -> tuple[int, int]:
    """About how many runs tuning takes: if the race ends at its first look, and if it drops nothing before its last."""
    search = sum(8 if candidate.like else 11 for candidate in candidates)
    last = _refining(rules) + 2 * rules.fresh
    return search + len(candidates) * rules.first + last, search + len(candidates) * rules.most + last


def expected_rounds(rules: Rules) -> tuple[int, int]:
    """About how many rounds these runs take, each of which waits for the one before.

    The default portfolio searches in 12 to 17, because runs with different numbers of seeds are rounds of their own.
    """
    return 13 + 1 + 1 + 1, 13 + len(rules.looks) + 2 + 1


def _refining(rules: Rules) -> int:
    """About how many runs it takes to refine: those of two learning rates and of the neighbors of each."""
    return 6 * rules.refine


def reserved(stage: str, standing: Standing, rules: Rules) -> tuple[int, ...]:
    """The rounds of runs of a budget that are kept back in a stage for those after it.

    The search and the first look at the race come before everything else: without them there is no answer. Refining has
    a second round if a neighbor is better, which has one more neighbor.
    """
    fresh = 2 * rules.fresh
    if stage == "race" and standing.seeds:
        return _refining(rules), 2 * rules.refine, fresh
    return (fresh,) if stage in ("race", "refine") else ()
