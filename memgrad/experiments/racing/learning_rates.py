"""Learning rates, coarse to fine: decades, then halves, then quarters of one, extended where the best is at an edge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

QUARTERS = (1.0, 1.8, 3.2, 5.6)
"""The learning rates of a decade: quarters of it, to two digits."""

DECADE, HALF, QUARTER = 4, 2, 1
"""Spacings of the grid."""

REACH = 16
"""How far a search goes from its start, in quarters of a decade."""


def learning_rate(k: int) -> float:
    """The learning rate at place k of the grid, which has 1 at place 0.

    Example:
        >>> [learning_rate(k) for k in (-10, -1, 0, 1, 6)]
        [0.0032, 0.56, 1.0, 1.8, 32.0]
    """
    return float(f"{QUARTERS[k % DECADE]}e{k // DECADE}")


def place_of(lr: float) -> int:
    """The place on the grid that is nearest to a learning rate.

    Example:
        >>> place_of(0.003), place_of(1.8)
        (-10, 1)
    """
    return round(DECADE * math.log10(lr))


@final
@dataclass(frozen=True)
class Found:
    """Where a search is.

    Attributes:
        wants: The places of the grid that need values, and of how many seeds; empty if the search is over.
        tried: The places it has compared so far.
        best: The best place; that of the start until anything is known.
        reserve: The next smaller learning rate whose runs did not diverge, or None.
        at_edge: Whether the best place is as far from the start as a search goes, so that a better one may lie beyond.
        diverged: Whether the runs at the best place diverged: then they did everywhere.
    """

    wants: Mapping[int, int]
    tried: frozenset[int]
    best: int
    reserve: int | None = None
    at_edge: bool = False
    diverged: bool = False


@final
@dataclass(frozen=True)
class Search:
    """The search for a method's learning rate.

    It steps to the best neighbor until there is none, first at its widest spacing. So an optimum at the edge of what
    was tried extends the grid, and a learning rate is compared on the same seeds as its neighbors.

    Attributes:
        start: The place of the grid where it starts.
        spacing: The widest spacing: `DECADE`, or `HALF` where the start is a good guess.
        seeds: The number of seeds at the spacings of a decade, half and a quarter of one.

    Example:
        >>> def loss(k):
        ...     return 1 + 0.01 * (k - 3) ** 2
        >>> search, told = Search(start=-8, spacing=DECADE), {}
        >>> while wants := (found := search.advance(told)).wants:
        ...     told |= {k: [loss(k)] * seeds for k, seeds in wants.items()}
        >>> found.best, sorted(told), sum(map(len, told.values()))
        (3, [-12, -8, -4, 0, 2, 3, 4, 5, 6, 8], 14)
    """

    start: int
    spacing: int = DECADE
    seeds: tuple[int, int, int] = (1, 1, 2)

    def advance(self, told: Mapping[int, Sequence[float]]) -> Found:
        """The search as far as the values go; it depends on nothing but them.

        Args:
            told: The values at each place by seed, in the order of the seeds; infinite or nan where a run diverged.
        """
        best, tried, here = self.start, set[int](), set[int]()
        for spacing, n in zip((DECADE, HALF, QUARTER), self.seeds, strict=True):
            if spacing > self.spacing:
                continue
            here = set()
            while True:
                here |= {k for k in (best - spacing, best, best + spacing) if abs(k - self.start) <= REACH}
                tried |= here
                wants = {k: n for k in sorted(here) if len(told.get(k, ())) < n}
                if wants:
                    return Found(wants, frozenset(tried), best)
                means = {k: _mean(told[k][:n]) for k in sorted(here)}
                least = min(means, key=lambda k: means[k])  # the smallest of equally good ones
                # It moves to what is better, and to what is smaller where all diverge.
                if best == least or (means[best] == means[least] and math.isfinite(means[best])):
                    break
                best = least
        lower = [k for k in here if k < best and math.isfinite(_mean(told[k][: self.seeds[-1]]))]
        return Found(
            {},
            frozenset(tried),
            best,
            reserve=max(lower, default=None),
            at_edge=abs(best - self.start) == REACH,
            diverged=math.isinf(_mean(told[best][: self.seeds[-1]])),
        )


def _mean(values: Sequence[float]) -> float:
    """The mean; infinite if any of the values is not finite."""
    return sum(values) / len(values) if all(map(math.isfinite, values)) else math.inf
