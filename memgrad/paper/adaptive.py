"""The claim about adaptive methods: PolyAdam beside Adam and Adagrad."""

from __future__ import annotations

import math

import numpy as np

from memgrad.experiments.results import Results
from memgrad.paper.claims import Claim, Verdict, judge_of
from memgrad.paper.evidence import Array, Evidence, any_run, is_above, ratio
from memgrad.paper.scales import POLYADAM
from memgrad.statistics import LEVEL, Estimate, holm, paired_p_value


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

    For each degree the p-value is the larger one of its two paired t-tests, or 1 if it is not below both: it must be
    below both. Holm's correction is over the five degrees. The claim fails if each degree is shown to be above one of
    the two, and is open otherwise.
    """
    degrees, rivals = (1, 2, 4, 10, 100), ("Adam", "Adagrad")
    results = evidence[POLYADAM]
    losses = {name: _last_half(results, name) for name in rivals}
    ratios: list[Estimate] = []
    p_values, slower = [], []
    for p in degrees:
        mine = _last_half(results, f"PolyAdam p={p}")
        found = [ratio(f"loss p={p} / {name}, last half", mine, loss) for name, loss in losses.items()]
        tests = [_p_value_below(mine, loss) for loss in losses.values()]
        ratios += found
        p_values.append(math.nan if any(map(math.isnan, tests)) else max(tests))
        slower.append(any(is_above(each) for each in found))
    adjusted = holm(p_values)
    known = adjusted[~np.isnan(adjusted)]
    held = bool((known < 1 - LEVEL).any())
    tested = [
        Estimate(float(each), name=f"p-value p={p}, corrected") for p, each in zip(degrees, adjusted, strict=True)
    ]
    smallest = f"{known.min():.3g}" if len(known) else "not known"
    return evidence.decided(
        claim,
        [*tested, *ratios],
        held=held,
        failed=not held and all(slower),
        reason=f"the smallest corrected p-value is {smallest}.",
    )


def _last_half(results: Results, method: str) -> Array:
    """The mean loss over the evaluations of the last half of the steps, one per seed; infinite if the run diverged."""
    curve = results.curve(method, "loss")
    mean = curve.values[2 * curve.steps >= any_run(results).steps].mean(axis=0)
    return np.where([seed in curve.diverged for seed in curve.seeds], np.inf, mean)


def _p_value_below(mine: Array, other: Array) -> float:
    """The two-sided p-value of the paired t-test of log losses if the first is below; 1 if it is not."""
    if np.isinf(mine).any() and not np.isinf(other).any():
        return 1.0
    a, b = np.log(mine), np.log(other)
    p = paired_p_value(a, b)
    return p if math.isnan(p) or (a - b).mean() < 0 else 1.0
