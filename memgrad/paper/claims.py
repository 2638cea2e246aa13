"""What a claim, a judge and a verdict are. `memgrad.paper` lists the files with the claims and their thresholds.

A rule was written down before anything was measured. A claim that fails is a result: no rule, seed or grid is changed
after the outcome was seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, final, get_args

from memgrad.deprecation import deprecated_names
from memgrad.memory.passport import Progress
from memgrad.paper.rules import Finding
from memgrad.statistics import Estimate

Outcome = Literal["reproduced", "not reproduced", "confirmed", "refuted", "undecided"]

BEYOND = "beyond the paper"
"""The place of our own claims, which are confirmed or refuted rather than reproduced."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""The possible verdicts. Undecided: the intervals contain the border, or the run was smaller than the rule asks for."""


@final
@dataclass(frozen=True)
class Claim:
    """What the paper says, and the rule that decides whether it is true.

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

    def verdict(
        self,
        numbers: Iterable[Estimate],
        *,
        held: bool,
        failed: bool,
        reason: str,
        scale: str,
        seeds: Iterable[int] = (),
        enough: bool = True,
    ) -> Verdict:
        """The verdict on this claim: undecided if the rule neither holds nor fails, or not `enough` was run.

        Example:
            >>> claim = Claim("S0", "nowhere", "x is small.", "x < 1.")
            >>> print(claim.verdict([Estimate(0.5, name="x")], held=True, failed=False, reason="it is.", scale="1 run"))
            S0 reproduced: it is. x = 0.5. 1 run.
        """
        if held and failed:
            raise ValueError(f"the rule of {self.id} cannot both hold and fail: check its two conditions.")
        yes: Outcome = "confirmed" if self.where == BEYOND else "reproduced"
        no: Outcome = "refuted" if self.where == BEYOND else "not reproduced"
        outcome = yes if held and enough else no if failed and enough else "undecided"
        reason = reason if enough else f"fewer runs than the rule asks for; {reason}"
        return Verdict(self, outcome, tuple(numbers), reason, scale, tuple(seeds))


@final
@dataclass(frozen=True)
class FirstVersion:
    """What version 1 of the rules says about a claim: an outcome and a reason, as in a `Verdict`."""

    outcome: Outcome
    reason: str

    @classmethod
    def of(cls, held: bool, failed: bool, reason: str) -> FirstVersion:
        """What it says about a claim of the paper that was shown to hold, or to fail, or neither."""
        return cls("reproduced" if held else "not reproduced" if failed else "undecided", reason)


@final
@dataclass(frozen=True)
class Verdict:
    """A claim, decided by numbers.

    Attributes:
        claim: What was decided.
        outcome: `reproduced`, `not reproduced` or `undecided`; `confirmed` or `refuted` for our own claims.
        numbers: The estimates that decided it, the decisive ones first.
        reason: Why, in one sentence.
        scale: What was run: runs, steps, share of the data.
        seeds: The seeds of the runs.
        rehearsal: Whether it was run at a scale that decides nothing, whatever the numbers are: it is undecided.
        findings: What version 2 of the rules says about the comparisons, which are the first of the numbers; empty for
            claims that have one rule.
        first: What version 1 of the rules says, if there are two.
    """

    claim: Claim
    outcome: Outcome
    numbers: tuple[Estimate, ...]
    reason: str
    scale: str
    seeds: tuple[int, ...] = ()
    rehearsal: bool = False
    findings: tuple[Finding, ...] = ()
    first: FirstVersion | None = None

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
            >>> claim = Claim("S0", "nowhere", "x is small.", "x < 1.")
            >>> Verdict(claim, "reproduced", (Estimate(0.5, name="x"),), "it is.", "1 run").to_dict()["numbers"]
            [{'name': 'x', 'value': 0.5, 'low': None, 'high': None}]
        """
        return {
            **asdict(self.claim),
            "outcome": self.outcome,
            "numbers": [each.to_dict() for each in self.numbers],
            "reason": self.reason,
            "scale": self.scale,
            "seeds": list(self.seeds),
            "rehearsal": self.rehearsal,
            "findings": [each.to_dict() for each in self.findings],
            "first": None if self.first is None else asdict(self.first),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        """The verdict with this plain data, as `to_dict` returns it."""
        claim = Claim(*(data[name] for name in ("id", "where", "statement", "rule")))
        rest = {name: data[name] for name in ("outcome", "reason", "scale", "rehearsal")}
        first = data.get("first")
        return cls(
            claim,
            numbers=tuple(number(**each) for each in data["numbers"]),
            seeds=tuple(data["seeds"]),
            findings=tuple(Finding.from_dict(each) for each in data.get("findings", ())),
            first=None if first is None else FirstVersion(**first),
            **rest,
        )

    def __str__(self) -> str:
        numbers = "; ".join(map(str, self.numbers))
        return f"{self.claim.id} {self.outcome}: {self.reason} {numbers}. {self.scale}."


def number(name: str, value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    """A named estimate; without ends it is exact, or its interval is unknown. None is a value that is not finite."""
    value, low, high = (math.nan if each is None else each for each in (value, low, high))
    return Estimate(value, low, high, name=name)


__getattr__ = deprecated_names(__name__, {"Number": "memgrad.paper.claims.number"})


@final
@dataclass(frozen=True)
class Judge:
    """A claim with the function that decides it. The result comes from exactly one of `figure`, `run` and `needs`.

    Attributes:
        claim: The claim.
        function: Takes the claim and a result, and returns the verdict.
        figure: The figure whose experiment gives the result.
        run: Computes the result, given a seed or None, and a progress callback or None.
        needs: The experiments on real data whose `Evidence` is the result.
    """

    claim: Claim
    function: Callable[[Claim, Any], Verdict]
    figure: str = ""
    run: Callable[[int | None, Progress | None], Any] | None = None
    needs: tuple[str, ...] = ()

    def decide(self, result: Any) -> Verdict:
        """The verdict, given the result of the figure or of `run`, or the evidence."""
        return self.function(self.claim, result.only(self.needs) if self.needs else result)


def judge_of(
    name: str,
    where: str,
    statement: str,
    rule: str,
    *,
    figure: str = "",
    run: Callable[[int | None, Progress | None], Any] | None = None,
    needs: tuple[str, ...] = (),
) -> Callable[[Callable[[Claim, Any], Verdict]], Judge]:
    """Make the function below a judge: the claim, its rule and the thresholds in the function stand in one place.

    Args:
        name: The claim's id, such as S1.
        where: The place in the paper.
        statement: What it says.
        rule: When it counts as reproduced.
        figure: See `Judge`, as for the other arguments.
        run: Computes the result.
        needs: The experiments on real data.
    """
    return lambda function: Judge(Claim(name, where, statement, rule), function, figure, run, needs)
