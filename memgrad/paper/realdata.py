"""The claims on real data, decided: what experiments left in a store in, verdicts out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

from memgrad.paper.adaptive import a1
from memgrad.paper.claims import Verdict
from memgrad.paper.evidence import Evidence
from memgrad.paper.losses import r1, r2, r3, r7, r8, r9, r10
from memgrad.paper.scales import NETWORKS, POLYADAM, PROBLEMS, SETTINGS
from memgrad.paper.step_sizes import r4, r5, r6


@final
@dataclass(frozen=True)
class Judge:
    """What decides a claim on real data.

    Attributes:
        decide: The function from evidence to a verdict.
        needs: The names of the experiments it reads.
    """

    decide: Callable[[Evidence], Verdict]
    needs: tuple[str, ...]


def _both(*problems: str) -> tuple[str, ...]:
    return tuple(f"{problem}-{setting}" for problem in problems for setting in SETTINGS)


JUDGES: Mapping[str, Judge] = MappingProxyType(
    {
        "R1": Judge(r1, _both("covtype")),
        "R2": Judge(r2, _both(*NETWORKS)),
        "R3": Judge(r3, _both(*PROBLEMS)),
        "R4": Judge(r4, _both(*PROBLEMS)),
        "R5": Judge(r5, _both(*PROBLEMS)),
        "R6": Judge(r6, _both(*PROBLEMS)),
        "R7": Judge(r7, _both(*PROBLEMS)),
        "R8": Judge(r8, _both(*PROBLEMS)),
        "R9": Judge(r9, _both(*NETWORKS)),
        "R10": Judge(r10, _both("covtype")),
        "A1": Judge(a1, (POLYADAM,)),
    }
)
"""What decides each claim on real data, by the claim's id."""
