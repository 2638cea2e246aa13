"""What can be reproduced, by name, and which experiments it needs."""

from __future__ import annotations

from collections.abc import Iterable

from memgrad.paper.catalogue import FIGURES
from memgrad.paper.scales import EXPERIMENTS
from memgrad.paper.verdicts import JUDGES
from memgrad.suggestions import did_you_mean

NAMES = (*FIGURES, *JUDGES)
"""All that can be reproduced, by name: figures, then claims."""


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """The figures and claims with these names, or all if no name is given; case does not matter.

    Example:
        >>> chosen(["results", "r4"])
        ('results', 'R4')
        >>> chosen(["result"])
        Traceback (most recent call last):
        ...
        ValueError: unknown figure or claim 'result'; did you mean 'results'? All figures: memories, hb-amplification, \
time-warp, verif-noise, quadratic-variance, verif-noise-quadratic, bound-beta, bound-beta-2, odes, p-verification, \
results, gradnorm, acc, stepnorm, padam, rec, step-sizes, ratios. All claims: S1, S2, S3, S4, S5, S6, S7, S8, R1, R2, \
R3, R4, R5, R6, R7, R8, R9, R10, A1, M1.
    """
    found, by_lower = [], {name.lower(): name for name in NAMES}
    for name in names:
        if name.lower() not in by_lower:
            raise ValueError(
                f"unknown figure or claim {name!r}{did_you_mean(name, NAMES)} All figures: {', '.join(FIGURES)}. "
                f"All claims: {', '.join(JUDGES)}."
            )
        found.append(by_lower[name.lower()])
    return tuple(name for name in NAMES if name in found) or NAMES


def needed(names: Iterable[str]) -> tuple[str, ...]:
    """The experiments on real data that figures and claims need.

    Example:
        >>> needed(["R10", "padam", "S3"])
        ('covtype-mini', 'covtype-full', 'polyadam')
    """
    asked = {each for name in names for each in needs_of(name)}
    return tuple(name for name in EXPERIMENTS if name in asked)


def needs_of(name: str) -> tuple[str, ...]:
    """The experiments on real data that a figure or a claim needs."""
    return FIGURES[name].needs if name in FIGURES else JUDGES[name].needs
