"""The claims about step sizes: which is best, whether it is stable, and how long the steps are that come of it."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from memgrad.experiments.results import Results
from memgrad.paper.claims import Number, Verdict
from memgrad.paper.evidence import HB, SGD, Array, Case, Evidence
from memgrad.paper.scales import GRID, NETWORKS, PROBLEMS, SETTINGS
from memgrad.statistics import interval

COVTYPE_STEP = 1.0
"""The step size that the paper found best for both methods on covtype."""

SMALLER_ON_NETWORKS = 0.9
SMALLER_ON_COVTYPE = 0.5
"""The shares of evaluations at which heavy ball's step is the smaller one: at least and at most."""


def r4(evidence: Evidence) -> Verdict:
    """The selected step size of heavy ball is smaller than SGD's on the networks, and both are 1 on covtype.

    Where part of the paper's grid was tried, it is open if a step size that was not tried could change the answer: the
    selected one is then the last of those tried, on the side where there are more.
    """
    names, cases = [f"{problem}-{setting}" for problem in PROBLEMS for setting in SETTINGS], []
    for name in names:
        results = evidence[name]
        sgd, hb = (results.best_lr(method) for method in (SGD, HB))
        number = Number(f"best step size HB / SGD, {name} ({hb:g} / {sgd:g})", hb / sgd)
        if name.startswith("covtype"):
            holds = sgd == hb == COVTYPE_STEP
            is_open = any(_could_be(results, m, smaller=s) for m in (SGD, HB) for s in (True, False))
        else:
            holds = hb < sgd
            # A smaller one for SGD, or a larger one for HB, could turn hb < sgd; the other way round hb >= sgd.
            is_open = _could_be(results, SGD, smaller=holds) or _could_be(results, HB, smaller=not holds)
        cases.append(Case(number, holds and not is_open, not holds and not is_open))
    return evidence.verdict("R4", cases, names)


def r5(evidence: Evidence) -> Verdict:
    """Every run of MemSGD at SGD's best step size ends with a finite loss below that of its start."""
    names, cases = [f"{problem}-{setting}" for problem in PROBLEMS for setting in SETTINGS], []
    for name in names:
        results = evidence[name]
        for method in results.methods:
            if method in (SGD, HB):
                continue
            start, end = results.curve(method, "loss").values[0], evidence.final(name, method)
            worst = float(np.max(end / start))
            number = Number(f"final / initial loss, worst seed of {method}, {name}", worst)
            cases.append(Case(number, worst < 1, worst >= 1))
    return evidence.verdict("R5", cases, names)


def r6(evidence: Evidence) -> Verdict:
    """Heavy ball's step is the smaller one at 90 % of the evaluations or more on the networks, 50 % or less on covtype.

    Both methods are at their best step sizes. The share is taken for each seed; it holds where the interval of its mean
    is on the right side, and fails where it is on the wrong one.
    """
    names, cases = [f"{problem}-{setting}" for problem in PROBLEMS for setting in SETTINGS], []
    for problem, setting in product(PROBLEMS, SETTINGS):
        name = f"{problem}-{setting}"
        found = interval(_smaller_steps(evidence[name]))
        known = not math.isnan(found.low)
        ends = (max(0.0, found.low), min(1.0, found.high)) if known else (None, None)  # a share is within
        number = Number(f"share of evaluations with smaller steps of HB, {name}", found.mean, *ends)
        if problem in NETWORKS:
            held, failed = found.low >= SMALLER_ON_NETWORKS, found.high < SMALLER_ON_NETWORKS
        else:
            held, failed = found.high <= SMALLER_ON_COVTYPE, found.low > SMALLER_ON_COVTYPE
        cases.append(Case(number, known and held, known and failed))
    return evidence.verdict("R6", cases, names)


def _could_be(results: Results, method: str, *, smaller: bool) -> bool:
    """Whether a smaller (or larger) step size of the grid, not tried, could be the best: none that is was tried."""
    best, tried = results.best_lr(method), results.step_sizes(method)
    beyond = [lr for lr in GRID if (lr < best if smaller else lr > best)]
    return bool(beyond) and not set(beyond) & set(tried)


def _smaller_steps(results: Results) -> Array:
    """For each seed the share of evaluations at which heavy ball's step was smaller than SGD's."""
    sgd, hb = (results.curve(method, "step_norm") for method in (SGD, HB))
    shared = np.intersect1d(sgd.steps, hb.steps)
    mine, other = (each.values[np.isin(each.steps, shared)] for each in (hb, sgd))
    known = np.isfinite(mine) & np.isfinite(other)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, mine < other, False).sum(0) / known.sum(0), dtype=float)
