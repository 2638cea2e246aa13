"""The claims about step sizes: which is best, whether it is stable, and how long the resulting steps are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memgrad.experiments.results import Results
from memgrad.kinds import Array
from memgrad.paper.claims import Claim, Verdict, judge_of
from memgrad.paper.evidence import FAST, HB, LONG, SGD, Evidence
from memgrad.paper.rules import Case, mean_and_error, p_above, p_below
from memgrad.paper.scales import GRID, PROBLEMS, in_both_settings
from memgrad.statistics import Estimate, interval


@judge_of(
    "R4",
    "Sec. 5, App. G",
    "The best step size of HB is smaller than SGD's on the networks (about a tenth), equal (1) on covtype.",
    "Grid of the paper, selection by final loss.",
    needs=in_both_settings(*PROBLEMS),
)
def r4(claim: Claim, evidence: Evidence) -> Verdict:
    """The selected step size of heavy ball is smaller than SGD's on the networks, and both are 1 on covtype.

    Where only part of the paper's grid was tried, it is open if a step size that was not tried could change the answer:
    the selected one is then the last of those tried, on the side where there are more.
    """
    covtype_step = 1.0
    cases = []
    for name, results in evidence.results.items():
        sgd, hb = (results.selected_lr(method) for method in (SGD, HB))
        found = Estimate(hb / sgd, name=f"best step size HB / SGD, {name} ({hb:g} / {sgd:g})")
        if name.startswith("covtype"):
            holds = sgd == hb == covtype_step
            is_open = any(_could_be(results, m, smaller=s) for m in (SGD, HB) for s in (True, False))
        else:
            holds = hb < sgd
            # A smaller one for SGD, or a larger one for HB, could turn hb < sgd; the other way round hb >= sgd.
            is_open = _could_be(results, SGD, smaller=holds) or _could_be(results, HB, smaller=not holds)
        cases.append(evidence.of(name, Case(found, holds and not is_open, not holds and not is_open)))
    return evidence.verdict(claim, cases)


@judge_of(
    "R5",
    "Sec. 5",
    "MemSGD is stable at SGD's best step size.",
    "No run diverges, final loss finite and below the initial loss.",
    needs=in_both_settings(*PROBLEMS),
)
def r5(claim: Claim, evidence: Evidence) -> Verdict:
    """Every run of MemSGD at SGD's best step size ends with a finite loss below that of its start."""
    cases = []
    for name, results in evidence.results.items():
        for method in (*LONG, *FAST):
            start, end = results.curve(method, "loss").values[0], evidence.final(name, method)
            worst = float(np.max(end / start))
            found = Estimate(worst, name=f"final / initial loss, worst seed of {method}, {name}")
            cases.append(evidence.of(name, Case(found, worst < 1, worst >= 1)))
    return evidence.verdict(claim, cases)


@judge_of(
    "R6",
    "Sec. 5, Fig. exp_stepnorm",
    "HB at its best step size takes smaller steps than SGD on the networks in almost all iterations, larger ones "
    "on covtype.",
    "Share of evaluations with smaller step norm >= 90 % (networks), <= 50 % (covtype).",
    needs=in_both_settings(*PROBLEMS),
)
def r6(claim: Claim, evidence: Evidence) -> Verdict:
    """Heavy ball's step is the smaller one at 90 % of the evaluations or more on the networks, 50 % or less on covtype.

    Both methods are at their best step sizes. The share is taken for each seed; it holds where the interval of its mean
    is on the right side, and fails where it is on the wrong one. In version 2 the interval is that at Holm's level:
    two-sided tests, corrected.
    """
    cases = []
    for name, results in evidence.results.items():
        shares = _smaller_steps(results)
        found = interval(shares, name=f"share of evaluations with smaller steps of HB, {name}")
        if found.has_interval:  # a share is within 0 and 1
            found = replace(found, low=max(0.0, found.low), high=min(1.0, found.high))
        cases.append(evidence.of(name, share_case(found, *mean_and_error(shares), len(shares))))
    return evidence.verdict(claim, cases)


def share_case(found: Estimate, mean: Array, error: Array, n: int) -> Case:
    """A share of evaluations against the border of its problem, which the estimate's name says."""
    least_on_networks, most_on_covtype = 0.9, 0.5
    covtype = "covtype" in found.name
    if covtype:
        tests = p_below(mean, error, n, most_on_covtype), p_above(mean, error, n, most_on_covtype)
        first = found.high <= most_on_covtype, found.low > most_on_covtype
    else:
        tests = p_above(mean, error, n, least_on_networks), p_below(mean, error, n, least_on_networks)
        first = found.low >= least_on_networks, found.high < least_on_networks
    p_for, p_against = (min(1.0, 2 * float(p)) for p in tests)
    if float(error) == 0:  # no spread: the share itself, of which the border is a part
        holds = mean <= most_on_covtype if covtype else mean >= least_on_networks
        p_for, p_against = (0.0, 1.0) if holds else (1.0, 0.0)
    return Case(found, *first, p_for=p_for, p_against=p_against, tested=True, sides=(2, 2))


def _could_be(results: Results, method: str, *, smaller: bool) -> bool:
    """Whether a smaller (or larger) step size of the grid could be the best: none on that side was tried."""
    best = results.selected_lr(method)
    beyond = [lr for lr in GRID if (lr < best if smaller else lr > best)]
    return bool(beyond) and not set(beyond) & set(results.step_sizes(method))


def _smaller_steps(results: Results) -> Array:
    """For each seed the share of evaluations at which heavy ball's step was smaller than SGD's."""
    sgd, hb = (results.curve(method, "step_norm") for method in (SGD, HB))
    shared = np.intersect1d(sgd.steps, hb.steps)
    mine, other = (each.values[np.isin(each.steps, shared)] for each in (hb, sgd))
    known = np.isfinite(mine) & np.isfinite(other)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, mine < other, False).sum(0) / known.sum(0), dtype=float)
