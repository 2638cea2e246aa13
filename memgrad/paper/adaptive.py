"""The claim about adaptive methods: PolyAdam beside Adam and Adagrad."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from memgrad.experiments.results import Results
from memgrad.kinds import Array
from memgrad.paper.claims import Claim, FirstVersion, Verdict, judge_of
from memgrad.paper.evidence import Evidence, any_run, log_ratio
from memgrad.paper.rules import FAMILY_ERROR, Case, compare, corrected
from memgrad.paper.scales import POLYADAM
from memgrad.statistics import LEVEL, Estimate, holm

DEGREES, RIVALS = (1, 2, 4, 10, 100), ("Adam", "Adagrad")
"""The degrees of PolyAdam that are tried, and the methods that it must be faster than."""


@judge_of(
    "A1",
    "Sec. 6, Fig. padam",
    "PolyAdam can be faster than Adam and Adagrad on the CNN.",
    "One p in {1, 2, 4, 10, 100} whose loss is below both over the last half of training, each method at its own "
    "best step size, corrected for the five tries (Holm).",
    needs=(POLYADAM,),
)
def a1(claim: Claim, evidence: Evidence) -> Verdict:
    """There is a degree whose mean loss over the last half of training is below Adam's and below Adagrad's.

    For each degree the p-value is the larger one of its two one-sided paired t-tests: it must be below both. Holm's
    correction counts all five degrees, also one that diverged. The claim fails if each degree is shown to be above one
    of the two, and is open otherwise: above either is two tries for a degree, and all degrees must be, which needs no
    further correction.
    """
    losses = {name: _last_half(evidence[POLYADAM], name) for name in (*RIVALS, *map(_named, DEGREES))}
    tests = {
        (p, rival): compare("less", f"loss p={p} / {rival}, last half", log_ratio(losses[_named(p)], losses[rival]))
        for p in DEGREES
        for rival in RIVALS
    }
    return evidence.decided(claim, **weighed_degrees(tests), first=_first(tests))


def weighed_degrees(tests: Mapping[tuple[int, str], Case]) -> dict[str, Any]:
    """What the tests of all degrees say about the claim, as arguments of a verdict."""
    found = degrees_below_both(tests)
    p_values = [Estimate(p, name=f"p-value p={degree}, corrected") for degree, p in found.items()]
    held = min(found.values()) <= FAMILY_ERROR
    return {
        "numbers": [*p_values, *(case.number for case in tests.values())],
        "held": held,
        "failed": not held and all_above_one(tests),
        "reason": f"the smallest corrected p-value is {min(found.values()):.3g}.",
    }


def degrees_below_both(tests: Mapping[tuple[int, str], Case]) -> dict[int, float]:
    """The corrected p-value of each degree for being below both rivals."""
    worst = [np.max([tests[p, rival].p_for for rival in RIVALS]) for p in DEGREES]  # nan if either is
    return dict(zip(DEGREES, corrected(worst).tolist(), strict=True))


def all_above_one(tests: Mapping[tuple[int, str], Case]) -> bool:
    """Whether each degree is shown to be above one of its rivals."""
    least = [np.nanmin([1.0, *(len(RIVALS) * tests[p, rival].p_against for rival in RIVALS)]) for p in DEGREES]
    return bool(max(least) <= FAMILY_ERROR)


def _first(tests: Mapping[tuple[int, str], Case]) -> FirstVersion:
    """Version 1: two-sided tests, corrected for the degrees that gave a number; fails by intervals of 95 %."""
    both = [[_two_sided(tests[p, rival]) for rival in RIVALS] for p in DEGREES]
    adjusted = holm([math.nan if any(map(math.isnan, each)) else max(each) for each in both])
    known = adjusted[~np.isnan(adjusted)]
    held = bool((known < 1 - LEVEL).any())
    failed = not held and all(any(tests[p, rival].failed for rival in RIVALS) for p in DEGREES)
    smallest = f"{known.min():.3g}" if len(known) else "not known"
    return FirstVersion.of(held, failed, f"the smallest corrected p-value is {smallest}.")


def _two_sided(case: Case) -> float:
    """The two-sided p-value if the first is below; 1 if it is not; nan if there is no interval and it is not above."""
    if not case.number.has_interval:
        return 1.0 if case.number.value == math.inf else math.nan
    return 2 * case.p_for if case.number.value < 1 else 1.0


def _named(degree: int) -> str:
    return f"PolyAdam p={degree}"


def _last_half(results: Results, method: str) -> Array:
    """The mean loss over the evaluations of the last half of the steps, one per seed; infinite if the run diverged."""
    curve = results.curve(method, "loss")
    late = curve.values[2 * curve.steps >= any_run(results).steps]
    kept = [seed not in curve.diverged for seed in curve.seeds]
    mean = np.full(len(kept), np.inf)
    if any(kept):  # the curve ends where all seeds have diverged, which may be before half-way
        mean[kept] = late[:, kept].mean(axis=0)
    return mean
