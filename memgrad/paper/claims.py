"""The paper's claims with the rules that decide them, and verdicts.

A rule was written down before anything was measured. A claim that fails is a result: a rule, a seed or a grid is not
changed after the outcome was seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from memgrad.statistics import interval, t_quantile

Outcome = Literal["reproduced", "not reproduced", "undecided"]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""What a verdict can be. Undecided: the intervals do not tell, or it was run at a smaller scale than the rule asks."""


@dataclass(frozen=True)
class Claim:
    """What the paper says, and the rule that decides whether it is so.

    Attributes:
        id: A letter and a number, such as S1.
        where: The place in the paper.
        statement: What it says.
        rule: When it counts as reproduced, fixed in advance.
    """

    id: str
    where: str
    statement: str
    rule: str


@dataclass(frozen=True)
class Number:
    """A measured number, with its interval where it has one.

    Attributes:
        name: What it is.
        value: The number.
        low: The lower end of its 95 % interval, or None for an exact number.
        high: The upper end.
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError(f"{self.name} needs both ends of its interval or none, got {self.low} and {self.high}.")

    def below(self, other: Number) -> bool:
        """Whether the whole interval lies below that of the other.

        Example:
            >>> Number("a", 1.0, 0.9, 1.1).below(Number("b", 1.2, 1.15, 1.25))
            True
        """
        mine = self.value if self.high is None else self.high
        return mine < (other.value if other.low is None else other.low)

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.name} = {self.value:.4g}{interval}"


@dataclass(frozen=True)
class Verdict:
    """A claim, decided by numbers.

    Attributes:
        claim: What was decided.
        outcome: `reproduced`, `not reproduced` or `undecided`.
        numbers: What decided it, first the decisive ones.
        reason: Why, in one sentence.
        scale: What was run: runs, steps, share of the data.
        seeds: The seeds of the runs.
        rehearsal: Whether it was run at a scale that decides nothing, whatever the numbers are: it is undecided.
    """

    claim: Claim
    outcome: Outcome
    numbers: tuple[Number, ...]
    reason: str
    scale: str
    seeds: tuple[int, ...] = ()
    rehearsal: bool = False

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(f"a verdict is one of {', '.join(OUTCOMES)}, got {self.outcome!r}.")
        if self.rehearsal and self.outcome != "undecided":
            raise ValueError(f"a rehearsal leaves {self.claim.id} undecided, got {self.outcome!r}.")
        if not self.numbers:
            raise ValueError(f"a verdict on {self.claim.id} needs the numbers that decided it, got none.")

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data.

        Example:
            >>> verdict = Verdict(CLAIMS["S6"], "reproduced", (Number("distance", 1e-10),), "it is small.", "T = 50")
            >>> verdict.to_dict()["numbers"]
            [{'name': 'distance', 'value': 1e-10, 'low': None, 'high': None}]
        """
        return {
            "id": self.claim.id,
            "where": self.claim.where,
            "statement": self.claim.statement,
            "rule": self.claim.rule,
            "outcome": self.outcome,
            "numbers": [
                {"name": each.name, "value": each.value, "low": each.low, "high": each.high} for each in self.numbers
            ],
            "reason": self.reason,
            "scale": self.scale,
            "seeds": list(self.seeds),
            "rehearsal": self.rehearsal,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        """The verdict that `to_dict` made plain data of."""
        numbers = tuple(Number(**each) for each in data["numbers"])
        rest = {name: data[name] for name in ("outcome", "reason", "scale", "rehearsal")}
        return cls(CLAIMS[data["id"]], numbers=numbers, seeds=tuple(data["seeds"]), **rest)

    def __str__(self) -> str:
        numbers = "; ".join(map(str, self.numbers))
        return f"{self.claim.id} {self.outcome}: {self.reason} {numbers}. {self.scale}."


def decided(*, held: bool, failed: bool) -> Outcome:
    """The outcome of a rule that may hold, fail, or neither: an interval may contain the border.

    Example:
        >>> decided(held=False, failed=False)
        'undecided'
    """
    if held and failed:
        raise ValueError("a rule cannot both hold and fail: check its two conditions.")
    return "reproduced" if held else "not reproduced" if failed else "undecided"


def mean_over_runs(name: str, samples: ArrayLike, *, quantile: float | None = None) -> Number:
    """The mean of one number a run, with its 95 % interval.

    Args:
        name: What it is.
        samples: One number a run; at least 2.
        quantile: Standard errors to either side; Student's for the number of runs unless given.

    Example:
        >>> print(mean_over_runs("loss", [1.0, 2.0, 3.0]))
        loss = 2 [-0.4841, 4.484]
    """
    values = np.asarray(samples, dtype=float)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"{name} needs one number a run from at least 2 runs, got the shape {values.shape}.")
    found = interval(values, quantile=quantile)
    return Number(name, found.mean, found.low, found.high)


def ratio_of_means(name: str, above: ArrayLike, below: ArrayLike, *, quantile: float | None = None) -> Number:
    """The ratio of the means of paired numbers, one of each a run, with its 95 % interval (by linearisation).

    Args:
        name: What it is.
        above: The numerator's numbers, one a run.
        below: The denominator's numbers for the same runs.
        quantile: Standard errors to either side; Student's for the number of runs unless given.

    Example:
        >>> print(ratio_of_means("ratio", [2.0, 4.1, 6.0], [1.0, 2.0, 3.0]))
        ratio = 2.017 [1.942, 2.091]
    """
    a, b = np.asarray(above, dtype=float), np.asarray(below, dtype=float)
    if a.shape != b.shape or a.ndim != 1 or len(a) < 2:
        raise ValueError(f"{name} needs pairs from at least 2 runs, got the shapes {a.shape} and {b.shape}.")
    ratio = float(a.mean() / b.mean())
    error = float((a - ratio * b).std(ddof=1)) / math.sqrt(len(a)) / float(b.mean())
    half = (t_quantile(len(a)) if quantile is None else quantile) * error
    return Number(name, ratio, ratio - half, ratio + half)


_SYNTHETIC = (
    Claim(
        "S1",
        "Fig. p_verification",
        "Linear memory (p = 2) has a much smoother path than p = e and SGD.",
        "Mean squared second difference of the path: p = 2 < e < inf, each with disjoint CIs over 150 runs.",
    ),
    Claim(
        "S2",
        "Fig. p_verification",
        "The asymptotic noise of linear memory is slightly higher than SGD's.",
        "Tail loss ratio p = 2 / inf in (1, 2], CI above 1.",
    ),
    Claim(
        "S3",
        "Prop. var, Fig. verif_noise",
        "Nesterov amplifies: E V = -t/4, Var t/7; quadratic memory: E V = -1, Var 9/(5t) (times sigma^2).",
        "1000 runs, within 4 standard errors at 5 times.",
    ),
    Claim(
        "S4",
        "Figs. quadratic_variance, verif_noise_quadratic",
        "On x^2/2 Nesterov's velocity variance explodes, quadratic memory's converges.",
        "Simulation within 4 SE of the exact moments; Var V_N/t -> 1/8.",
    ),
    Claim(
        "S5",
        "Fig. HB_amplification",
        "Nesterov's SDE is faster first, then unstable; MG-SDE settles.",
        "Exact E f: one crossing; after it E f_N grows and E f_MG falls.",
    ),
    Claim(
        "S6",
        "Fig. timewarp, App. time",
        "t^2/8 maps linear memory onto Nesterov's ODE, the paths coincide.",
        "Max distance <= 1e-8 on the quadratic and on one nonquadratic.",
    ),
    Claim(
        "S7",
        "App. F",
        "Rates: 3/t viscosity aligned with 1/t^2 before the first inverse peak, linear memory with 1/t; p/t gives "
        "faster sublinear rates on quadratics.",
        "Fitted slopes within .05 of the exact envelopes: -q for momentum q/t, -(p - 1/2) for memory t^p.",
    ),
    Claim(
        "S8",
        "Thms",
        "Every bound of Tb. 3 and Thm. discretization holds (corrected forms); the printed forms of errata 38 and 41 "
        "fail.",
        "Random problems, exact moments; counterexamples pinned.",
    ),
)

# In the rules, the loss is the full training loss; "final" is the mean of the last 5 % of the evaluations; "A below B"
# means that the 95 % t-interval of the paired difference of log losses over seeds lies below 0, and "not below" that it
# does not. Where a rule names no setting it is asked of minibatches and of full batches.
_REAL = (
    Claim(
        "R1",
        "Sec. 5, Fig. results",
        "Convex: long memory, p = 2 especially, is faster than SGD.",
        "Covtype: p = 2 below SGD in loss at 10, 25, 50, 100 % of the steps (mini; full).",
    ),
    Claim(
        "R2",
        "Sec. 5, Fig. results",
        "Networks: long memory (p = 2, p = 4) brings no gain.",
        "On autoencoder, MLP, CNN: final loss of p = 2 and p = 4 not below SGD.",
    ),
    Claim(
        "R3",
        "Sec. 5, Fig. results",
        "Short memory (p = 100, e) is at least as good as SGD, except on the CNN.",
        "Final loss not above SGD on covtype, autoencoder, MLP; above or equal on the CNN.",
    ),
    Claim(
        "R4",
        "Sec. 5, App. G",
        "The best step size of HB is smaller than SGD's on the networks (about a tenth), equal (1) on covtype.",
        "Grid of the paper, selection by final loss.",
    ),
    Claim(
        "R5",
        "Sec. 5",
        "MemSGD is stable at SGD's best step size.",
        "No run diverges, final loss finite and below the initial loss.",
    ),
    Claim(
        "R6",
        "Sec. 5, Fig. exp_stepnorm",
        "HB at its best step size takes smaller steps than SGD on the networks in almost all iterations, larger ones "
        "on covtype.",
        "Share of evaluations with smaller step norm >= 90 % (networks), <= 50 % (covtype).",
    ),
    Claim(
        "R7",
        "Sec. 5",
        "Fast forgetting (p = 100, e) is as good as HB.",
        "Final loss ratio within 10 %.",
    ),
    Claim(
        "R8",
        "Sec. 5",
        "The edge of HB and fast forgetting over SGD is larger in full batch than in mini batch.",
        "Difference of log-loss differences, CI above 0.",
    ),
    Claim(
        "R9",
        "Sec. 5",
        "Noise is not needed: full-batch runs reach similar loss and leave the autoencoder's saddle.",
        "Full-batch loss at the end below the plateau loss; ratio to mini batch reported.",
    ),
    Claim(
        "R10",
        "App. G, Fig. exp_acc",
        "Covtype accuracy reaches about 70 % and no more.",
        "Best training accuracy in [.68, .74].",
    ),
    Claim(
        "A1",
        "Sec. 6, Fig. padam",
        "PolyAdam can be faster than Adam and Adagrad on the CNN.",
        "One p in {1, 2, 4, 10, 100} whose loss is below both over the last half of training, each method at its own "
        "best step size, corrected for the five tries (Holm).",
    ),
)

CLAIMS: Mapping[str, Claim] = MappingProxyType({each.id: each for each in (*_SYNTHETIC, *_REAL)})
"""The claims by their id."""
