"""The claims about training losses: which memory is faster, and whether noise is needed.

In the rules, the loss is the training loss; "final" is the mean of the last 5 % of the evaluations; comparisons are of
paired differences of log losses over seeds, tested as `memgrad.paper.rules` says. Where a rule names no setting it
applies to minibatches and to full batches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from memgrad.experiments.results import Results
from memgrad.kinds import Array
from memgrad.paper.claims import Claim, FirstVersion, Verdict, judge_of
from memgrad.paper.evidence import FAST, HB, LONG, METHODS, SGD, Evidence, any_run, log_ratio, ratio
from memgrad.paper.rules import Case, Kind, compare, inside
from memgrad.paper.scales import NETWORKS, PROBLEMS, SETTINGS, experiment, in_both_settings
from memgrad.problems import Problem
from memgrad.statistics import Estimate, interval


@judge_of(
    "R1",
    "Sec. 5, Fig. results",
    "Convex: long memory, p = 2 especially, is faster than SGD.",
    "Covtype: p = 2 below SGD in loss at 10, 25, 50, 100 % of the steps (mini; full).",
    needs=in_both_settings("covtype"),
)
def r1(claim: Claim, evidence: Evidence) -> Verdict:
    """On covtype p = 2 is below SGD at each of the four times, in both settings."""
    cases = []
    for name, share in product(evidence.results, (0.10, 0.25, 0.50, 1.00)):
        ahead, behind = (_loss_at(evidence[name], method, share) for method in (LONG[0], SGD))
        found = compare("less", f"loss p=2 / SGD, {name} at {share:.0%}", log_ratio(ahead, behind))
        cases.append(evidence.of(name, found))
    return evidence.verdict(claim, cases)


@judge_of(
    "R2",
    "Sec. 5, Fig. results",
    "Networks: long memory (p = 2, p = 4) brings no gain.",
    "On autoencoder, MLP, CNN: final loss of p = 2 and p = 4 not below SGD.",
    needs=in_both_settings(*NETWORKS),
)
def r2(claim: Claim, evidence: Evidence) -> Verdict:
    """On no network, in no setting, is the final loss of p = 2 or p = 4 below SGD's."""
    return evidence.verdict(
        claim, [_to_sgd(evidence, "not less", name, method) for name, method in product(evidence.results, LONG)]
    )


@judge_of(
    "R3",
    "Sec. 5, Fig. results",
    "Short memory (p = 100, e) is at least as good as SGD, except on the CNN.",
    "Final loss not above SGD on covtype, autoencoder, MLP; above or equal on the CNN.",
    needs=in_both_settings(*PROBLEMS),
)
def r3(claim: Claim, evidence: Evidence) -> Verdict:
    """The final loss of p = 100 and p = e is not above SGD's on three problems, and not below it on the CNN."""
    cases = []
    for name, method in product(evidence.results, FAST):
        kind: Kind = "not less" if name.startswith("cnn") else "not more"
        cases.append(_to_sgd(evidence, kind, name, method))
    return evidence.verdict(claim, cases)


@judge_of(
    "R7",
    "Sec. 5",
    "Fast forgetting (p = 100, e) is as good as HB.",
    "Final loss ratio within 10 %.",
    needs=in_both_settings(*PROBLEMS),
)
def r7(claim: Claim, evidence: Evidence) -> Verdict:
    """The final loss of p = 100 and p = e over that of heavy ball at its best step size is in [.9, 1.1]."""
    cases = [
        evidence.compared("equal", f"final loss {method} / HB, {name}", name, method, HB)
        for name, method in product(evidence.results, FAST)
    ]
    return evidence.verdict(claim, cases)


@judge_of(
    "R8",
    "Sec. 5",
    "The edge of HB and fast forgetting over SGD is larger in full batch than in mini batch.",
    "Difference of log-loss differences, CI above 0.",
    needs=in_both_settings(*PROBLEMS),
)
def r8(claim: Claim, evidence: Evidence) -> Verdict:
    """The edge over SGD is larger in full batch than in minibatches.

    The edge is the log final loss of SGD minus that of the method. The two settings are compared seed by seed: the
    initial parameters of a seed are the same in both.
    """
    cases = []
    for problem, method in product(PROBLEMS, (HB, *FAST)):
        names = [f"{problem}-{setting}" for setting in SETTINGS]
        mini, full = (log_ratio(evidence.final(name, SGD), evidence.final(name, method)) for name in names)
        seeds = min(len(mini), len(full))  # both count from 0, and one setting may have more
        with np.errstate(invalid="ignore"):  # inf - inf is nan, as it should be
            larger = full[:seeds] - mini[:seeds]
        found = compare("more", f"edge of {method} in full - mini batch, {problem}", larger, ratio=False)
        cases.append(evidence.of(f"{problem}-full", found))
    return evidence.verdict(claim, cases)


@judge_of(
    "R9",
    "Sec. 5",
    "Noise is not needed: full-batch runs reach similar loss and leave the autoencoder's saddle.",
    "Full-batch loss at the end below the plateau loss; ratio to mini batch reported.",
    needs=in_both_settings(*NETWORKS),
)
def r9(claim: Claim, evidence: Evidence) -> Verdict:
    """In full batch all methods, at their step sizes, end below the loss of the autoencoder's plateau.

    The plateau is the loss of an output that does not depend on the input. A method that has not left it after fewer
    steps than the paper's scale has might still do so, which leaves the claim open, unless a run diverged. The ratios
    to minibatches do not decide.
    """
    name, plateau = "autoencoder-full", evidence.plateau()
    steps, asked = evidence[name].spec.steps, experiment(name).steps
    enough = steps is not None and asked is not None and steps >= asked
    cases = []
    for method in METHODS:
        label = f"final loss {method} / plateau, {name}"
        final = evidence.final(name, method)
        found = compare("less", label, log_ratio(final, plateau))
        if not enough and np.isfinite(final).all():
            found = replace(found, failed=False, p_against=1.0)
        cases.append(evidence.of(name, found))
    reported = []
    for problem in NETWORKS:
        full, mini = (evidence.final(f"{problem}-{setting}", SGD) for setting in reversed(SETTINGS))
        seeds = min(len(full), len(mini))
        label = f"final loss of SGD, full / mini batch, {problem} (does not decide)"
        reported.append(ratio(label, full[:seeds], mini[:seeds]))
    return evidence.verdict(claim, cases, reason=f"The plateau is at {plateau:.4g}.", reported=reported)


@judge_of(
    "R10",
    "App. G, Fig. exp_acc",
    "Covtype accuracy reaches about 70 % and no more.",
    "Best training accuracy in [.68, .74].",
    needs=in_both_settings("covtype"),
)
def r10(claim: Claim, evidence: Evidence) -> Verdict:
    """The best training accuracy on covtype, over methods and evaluations of both settings, is in [.68, .74].

    It is the largest mean over seeds; it holds where the whole interval is inside, and fails where all of it is
    outside. Experiments of another regime do not decide it, but by version 1 they do.
    """
    found = {
        (name, method): _best_accuracy(evidence[name], method, name)
        for name, method in product(evidence.results, METHODS)
    }
    speaking = [number for (name, _), number in found.items() if not evidence.regime(name)]
    every = weighed_accuracies(found.values(), speaking=found.values())
    first = FirstVersion.of(every["held"], every["failed"], every["reason"])
    return evidence.decided(claim, **weighed_accuracies(found.values(), speaking=speaking), first=first)


def weighed_accuracies(numbers: Iterable[Estimate], *, speaking: Iterable[Estimate]) -> dict[str, Any]:
    """What accuracies say about R10, as arguments of a verdict: the largest that speaks for its data set decides."""
    best = max(speaking, key=lambda each: -1.0 if np.isnan(each.value) else each.value)
    held, failed = inside(best, 0.68, 0.74)
    return {
        "numbers": [best, *(each for each in numbers if each is not best)],
        "held": held,
        "failed": failed,
        "reason": f"the best accuracy is {best.value:.3f}.",
    }


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


def _to_sgd(evidence: Evidence, kind: Kind, name: str, method: str) -> Case:
    return evidence.compared(kind, f"final loss {method} / SGD, {name}", name, method, SGD)


def _loss_at(results: Results, method: str, share: float) -> Array:
    """The losses after a share of the steps, one per seed; infinite where a run diverged before."""
    curve, steps = results.curve(method, "loss"), any_run(results).steps
    place = np.flatnonzero(curve.steps == round(share * steps))
    values = curve.values[place[0]] if len(place) else np.full(len(curve.seeds), np.nan)
    gone = [curve.diverged.get(seed, steps + 1) <= share * steps for seed in curve.seeds]
    return np.where(gone, np.inf, values)


def _best_accuracy(results: Results, method: str, name: str) -> Estimate:
    curve, label = results.curve(method, "accuracy"), f"best accuracy {method}, {name}"
    means = curve.values.mean(axis=1)
    if np.isnan(means).all():
        return Estimate(np.nan, name=label)
    return interval(curve.values[np.nanargmax(means)], name=label)
