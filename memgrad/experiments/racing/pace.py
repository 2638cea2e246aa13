"""How long rounds of runs take, for budgets of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

LAST_ROUNDS = 8
"""How many rounds say how long the next takes."""


@final
@dataclass(frozen=True)
class Pace:
    """How long rounds of runs take: about `alone + (n - 1) * more` seconds for n runs.

    A run of its own takes longer than its share of a large round, in which all workers are busy and stacks are full.

    Attributes:
        alone: The seconds that a round of a single run takes; 0 if that is not known.
        more: The seconds that each further run adds.

    Example:
        >>> Pace(60.0, 15.0).seconds(9)
        180.0
    """

    alone: float = 0.0
    more: float = 0.0

    def seconds(self, runs: int) -> float:
        """The seconds that a round of this many runs takes."""
        return self.alone + (runs - 1) * self.more if runs else 0.0

    def after(self, rounds: Sequence[tuple[int, float]]) -> Pace:
        """The pace after these rounds, each with its runs and seconds; the first of them started the workers.

        Small rounds do not show what a run adds to a large one, and large ones not what a run takes alone: of the last
        rounds, the smallest of both counts. What was expected counts until then.

        Example:
            >>> Pace(50.0, 20.0).after([(6, 99.0), (2, 60.0), (24, 400.0)])
            Pace(alone=60.0, more=16.666666666666668)
        """
        seen = rounds[1:] if len(rounds) > 1 or self != Pace() else rounds
        if not seen:
            return self
        alone, more = zip(*((seconds, seconds / runs) for runs, seconds in seen[-LAST_ROUNDS:]), strict=True)
        return Pace(min(alone), min(more))
