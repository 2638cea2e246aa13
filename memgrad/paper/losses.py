"""The claims about training losses: which memory is faster, and whether noise is needed."""

from __future__ import annotations

from itertools import product

import numpy as np

from memgrad.experiments.results import Results
from memgrad.paper.claims import Number, Verdict
from memgrad.paper.evidence import (
    FAST,
    HB,
    LONG,
    SGD,
    Array,
    Case,
    Evidence,
    is_above,
    is_below,
    is_known,
    ratio,
)
from memgrad.paper.scales import NETWORKS, PROBLEMS, SETTINGS, experiment
from memgrad.problems import Problem
from memgrad.statistics import interval, paired_difference

SHARES = (0.10, 0.25, 0.50, 1.00)
"""The shares of the steps at which R1 compares."""

WITHIN = (0.9, 1.1)
"""Ratios within 10 %."""

ACCURACY = (0.68, 0.74)


def r1(evidence: Evidence) -> Verdict:
    """On covtype p = 2 is below SGD at each of the four times, in both settings.

    It fails where p = 2 is shown to be above SGD; an interval that contains 1 leaves it open.
    """
    names, cases = [f"covtype-{setting}" for setting in SETTINGS], []
    for name, share in product(names, SHARES):
        at = f"loss p=2 / SGD, {name} at {share:.0%}"
        number = ratio(at, *(_loss_at(evidence[name], method, share) for method in (LONG[0], SGD)))
        cases.append(Case(number, is_below(number), is_above(number)))
    return evidence.verdict("R1", cases, names)


def r2(evidence: Evidence) -> Verdict:
    """On no network, in no setting, is the final loss of p = 2 or p = 4 below SGD's.

    "Not below" is the negation of "below": an interval that contains 1 holds, and is shown.
    """
    names, cases = [f"{problem}-{setting}" for problem in NETWORKS for setting in SETTINGS], []
    for name, method in product(names, LONG):
        number = evidence.ratio(f"final loss {method} / SGD, {name}", name, method, SGD)
        cases.append(_not(number, is_below(number)))
    return evidence.verdict("R2", cases, names, reason="An interval that contains 1 counts as not below.")


def r3(evidence: Evidence) -> Verdict:
    """The final loss of p = 100 and p = e is not above SGD's on three problems, and not below it on the CNN.

    "Above or equal" is "not below": what cannot be told from SGD counts as equal to it, and the interval is shown.
    """
    names, cases = [f"{problem}-{setting}" for problem in PROBLEMS for setting in SETTINGS], []
    for name, method in product(names, FAST):
        number = evidence.ratio(f"final loss {method} / SGD, {name}", name, method, SGD)
        cases.append(_not(number, (is_below if name.startswith("cnn") else is_above)(number)))
    return evidence.verdict("R3", cases, names, reason="An interval that contains 1 counts as equal.")


def r7(evidence: Evidence) -> Verdict:
    """The final loss of p = 100 and p = e over that of heavy ball at its best step size is in [.9, 1.1].

    It holds where the whole interval is inside, and fails where all of it is outside, on either side.
    """
    names, cases = [f"{problem}-{setting}" for problem in PROBLEMS for setting in SETTINGS], []
    for name, method in product(names, FAST):
        number = evidence.ratio(f"final loss {method} / HB, {name}", name, method, HB)
        cases.append(_inside(number, *WITHIN))
    return evidence.verdict("R7", cases, names)


def r8(evidence: Evidence) -> Verdict:
    """The edge over SGD, log SGD's final loss - log the method's, is larger in full batch than in minibatches.

    The two differences are taken seed by seed: the initial parameters of a seed are the same in both settings. It
    fails where the interval lies below 0.
    """
    names, cases = [f"{problem}-{setting}" for problem in PROBLEMS for setting in SETTINGS], []
    for problem, method in product(PROBLEMS, (HB, *FAST)):
        mini, full = (_edge(evidence, f"{problem}-{setting}", method) for setting in SETTINGS)
        found = paired_difference(full, mini)
        known = not np.isnan(found.low)
        ends = (found.low, found.high) if known else (None, None)
        number = Number(f"edge of {method} in full - mini batch, {problem}", found.mean, *ends)
        cases.append(Case(number, known and found.low > 0, known and found.high < 0))
    return evidence.verdict("R8", cases, names)


def r9(evidence: Evidence) -> Verdict:
    """In full batch all methods, at their step sizes, end below the loss of the autoencoder's plateau.

    The plateau is that of an output which does not depend on the input. Whoever has not left it after fewer steps than
    the paper's scale has might still do so, which leaves the claim open. The ratios to minibatches do not decide.
    """
    name, plateau = "autoencoder-full", evidence.plateau()
    results = evidence[name]
    asked = experiment(name)
    enough = results.spec.steps is not None and asked.steps is not None and results.spec.steps >= asked.steps
    cases = []
    for method in results.methods:
        final = evidence.final(name, method)
        number = ratio(f"final loss {method} / plateau, {name}", final, np.full(len(final), plateau))
        cases.append(Case(number, is_below(number), enough and is_above(number)))
    reported = [
        ratio(
            f"final loss of SGD, full / mini batch, {problem} (does not decide)",
            *(evidence.final(f"{problem}-{setting}", SGD) for setting in reversed(SETTINGS)),
        )
        for problem in NETWORKS
    ]
    both = [f"{problem}-{setting}" for problem in NETWORKS for setting in SETTINGS]
    return evidence.verdict("R9", cases, both, reason=f"The plateau is at {plateau:.4g}.", reported=reported)


def r10(evidence: Evidence) -> Verdict:
    """The best training accuracy on covtype, over methods and evaluations of both settings, is in [.68, .74].

    It is the largest mean over seeds; it holds where the whole interval is inside, and fails where all of it is
    outside.
    """
    names = [f"covtype-{setting}" for setting in SETTINGS]
    found = [_best_accuracy(evidence[name], method, name) for name in names for method in evidence[name].methods]
    best = max(found, key=lambda number: -1.0 if np.isnan(number.value) else number.value)
    case = _inside(best, *ACCURACY)
    others = [number for number in found if number is not best]
    return evidence.decided(
        "R10",
        held=case.held,
        failed=case.failed,
        numbers=[best, *others],
        experiments=names,
        reason=f"the best accuracy is {best.value:.3f}.",
    )


def plateau_loss(problem: Problem) -> float:
    r"""The smallest loss of an autoencoder whose output does not depend on its input.

    With the pixelwise cross entropy it is $\sum_j H(\bar y_j)$, where $\bar y_j$ is the mean of pixel j over the
    training examples and H the binary entropy.

    Example:
        >>> import torch
        >>> halves = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
        >>> round(plateau_loss(Problem("two", (halves, halves), lambda: torch.nn.Linear(2, 2), torch.dist)), 6)
        0.693147
    """
    mean = problem.train[1].double().mean(0).cpu().numpy()
    inside = mean[(mean > 0) & (mean < 1)]
    return float(-(inside * np.log(inside) + (1 - inside) * np.log1p(-inside)).sum())


def _loss_at(results: Results, method: str, share: float) -> Array:
    """The losses after a share of the steps, one a seed; infinite where a run diverged before."""
    curve = results.curve(method, "loss")
    steps = next(iter(next(iter(results.runs[method].values())).values())).steps
    place = np.flatnonzero(curve.steps == round(share * steps))
    values = curve.values[place[0]] if len(place) else np.full(len(curve.seeds), np.nan)
    gone = [curve.diverged.get(seed, steps + 1) <= share * steps for seed in curve.seeds]
    return np.where(gone, np.inf, values)


def _edge(evidence: Evidence, name: str, method: str) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.log(evidence.final(name, SGD)) - np.log(evidence.final(name, method)))


def _best_accuracy(results: Results, method: str, name: str) -> Number:
    curve = results.curve(method, "accuracy")
    means = curve.values.mean(axis=1)
    if np.isnan(means).all():
        return Number(f"best accuracy {method}, {name}", float("nan"))
    found = interval(curve.values[np.nanargmax(means)])
    ends = (None, None) if np.isnan(found.low) else (found.low, found.high)
    return Number(f"best accuracy {method}, {name}", found.mean, *ends)


def _not(number: Number, fails: bool) -> Case:
    """A case that holds unless it is shown to fail; open if nothing can be said."""
    return Case(number, is_known(number) and not fails, fails)


def _inside(number: Number, low: float, high: float) -> Case:
    inside = number.low is not None and number.high is not None and number.low >= low and number.high <= high
    return Case(number, inside, is_below(number, low) or is_above(number, high))
