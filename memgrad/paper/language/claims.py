"""Our own claims about a language model, L1 to L6, with rules that were fixed before the runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Literal, final

import numpy as np

from memgrad.kinds import Array
from memgrad.paper.claims import BEYOND, Claim
from memgrad.paper.language.stages import ADAMW, MIXTURE, SECOND_TEXT, share_name
from memgrad.paper.language.study import Study, Unfinished, log_difference, p_below_zero, parts
from memgrad.paper.rules import corrected
from memgrad.statistics import Estimate, interval

Outcome = Literal["confirmed", "refuted", "undecided", "reported"]

CLAIMS: Mapping[str, Claim] = MappingProxyType(
    {
        claim.id: claim
        for claim in (
            Claim(
                "L1",
                BEYOND,
                "The mixture reaches tuned AdamW's loss in 20 % fewer steps.",
                "mixture trained for .8 T below AdamW trained for T, T = 6000; if so, .75, .7, .65 T in this fixed "
                "order until one fails: the last that holds is the saving",
            ),
            Claim(
                "L2",
                BEYOND,
                "The saving grows with the horizon.",
                "log loss difference at equal steps larger at T = 6000 than at T = 1500",
            ),
            Claim(
                "L3",
                BEYOND,
                "The memory carries it, not the second moment or the weight decay.",
                "the mixture in the numerator alone has at least 2/3 of the gain",
            ),
            Claim("L4", BEYOND, "It transfers.", "L1 on a second corpus with everything frozen from the first"),
            Claim(
                "L5",
                BEYOND,
                "Batch size.",
                "report the ratio at batch 16, 64, 256 (same tokens), each retuned in lr, with its sign; no rule, "
                "because theory and a pilot disagree",
            ),
            Claim(
                "L6",
                BEYOND,
                "Scale.",
                "report L1's comparison on a model of about eight times the parameters (4 layers, width 128, context "
                "64), kappa and delta as before, lr retuned on seed 100, 5 seeds",
            ),
        )
    }
)
"""The claims by their id; Holm over L1 to L4 at 1 %."""

LEVEL = 0.01
"""The probability with which any of L1 to L4 may be confirmed although none is true."""

TESTED = ("L1", "L2", "L3", "L4")
"""The claims with a rule, which are corrected together."""


@final
@dataclass(frozen=True)
class Finding:
    """What is known about a claim so far.

    Attributes:
        claim: The claim.
        numbers: What was measured, the decisive ones first; none if it is not measured yet.
        p_for: The p-value of the test for the claim, or None if it has no rule or is not measured.
        p_against: That of the test against it.
        remark: What else there is to say.
        shares: The p-values of the shares of the steps that were tested, in order, if any; the first is the claim's.
    """

    claim: Claim
    numbers: tuple[Estimate, ...] = ()
    p_for: float | None = None
    p_against: float | None = None
    remark: str = ""
    shares: Mapping[float, float] | None = None


def _ratio(name: str, differences: Array) -> Estimate:
    """The ratio of losses with its 95 % interval, from differences of log losses."""
    return interval(differences, name=name).exp()


def _found(name: str, numbers: Sequence[Estimate], differences: Array) -> Finding:
    """The finding of a claim that says that a mean lies below 0."""
    return Finding(CLAIMS[name], tuple(numbers), p_below_zero(differences), p_below_zero(-differences))


def l1(study: Study) -> Finding:
    """Fewer steps."""
    return _saving("L1", study.savings(LEVEL))


def _saving(name: str, found: Mapping[float, Array]) -> Finding:
    numbers = [_ratio(f"loss {share_name(share)} / {ADAMW}", each) for share, each in found.items()]
    shares = {share: p_below_zero(each) for share, each in found.items()}
    return replace(_found(name, numbers, found[next(iter(found))]), shares=shares)


def l2(study: Study) -> Finding:
    """The horizon."""
    short = log_difference(study.at_short, MIXTURE, ADAMW)
    long = log_difference(study.at_long((1.0,)), MIXTURE, ADAMW)
    numbers = [
        interval(long - short, name=f"log loss {MIXTURE} - {ADAMW}, long minus short horizon"),
        _ratio(f"loss {MIXTURE} / {ADAMW}, long", long),
        _ratio(f"loss {MIXTURE} / {ADAMW}, short", short),
    ]
    return _found("L2", numbers, long - short)


def l3(study: Study) -> Finding:
    """The memory alone."""
    gains = parts(study)
    excess = gains["memory alone"] - 2 / 3 * gains[MIXTURE]
    numbers = [interval(excess, name="log loss of the memory alone, minus 2/3 of the whole gain")]
    numbers += [_ratio(f"loss {name} / {ADAMW}", each) for name, each in gains.items()]
    found = _found("L3", numbers, excess)
    # Two thirds of a gain, if there is one: without it, the excess would say nothing.
    return replace(found, p_for=max(p_below_zero(excess), p_below_zero(gains[MIXTURE])))


def l4(study: Study) -> Finding:
    """A second text."""
    found = _saving("L4", study.savings(LEVEL, SECOND_TEXT))
    if study.stages.own.get("sample"):
        return replace(found, remark="on the same text: there is a sample of one only")
    return found


def l5(study: Study) -> Finding:
    """Batch sizes."""
    numbers = [_ratio("loss mixture / AdamW, batch 16", log_difference(study.at_long((1.0,)), MIXTURE, ADAMW))]
    for size in study.stages.own["batches"]:
        found = log_difference(study.with_batch(size), MIXTURE, ADAMW)
        numbers.append(_ratio(f"loss mixture / AdamW, batch {size}", found))
    return Finding(CLAIMS["L5"], tuple(numbers))


def l6(study: Study) -> Finding:
    """A larger model."""
    found = log_difference(study.large, MIXTURE, ADAMW)
    return Finding(CLAIMS["L6"], (_ratio("loss mixture 0.8 T / AdamW, larger model", found),))


RULES: Mapping[str, Callable[[Study], Finding]] = MappingProxyType(
    {"L1": l1, "L2": l2, "L3": l3, "L4": l4, "L5": l5, "L6": l6}
)
"""What is measured for each claim."""


@final
@dataclass(frozen=True)
class LanguageVerdict:
    """A finding with its outcome.

    Attributes:
        finding: What was measured.
        outcome: `confirmed`, `refuted` or `undecided`; `reported` for a claim without a rule.
        reason: Why.
        scale: The scale of the runs.
    """

    finding: Finding
    outcome: Outcome
    reason: str
    scale: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        claim = self.finding.claim
        return {
            "id": claim.id,
            "statement": claim.statement,
            "rule": claim.rule,
            "outcome": self.outcome,
            "reason": self.reason,
            "numbers": [each.to_dict() for each in self.finding.numbers],
            "scale": self.scale,
        }


def findings(study: Study, names: Sequence[str] = tuple(RULES)) -> dict[str, Finding]:
    """What is known about claims; without numbers where an experiment is not complete."""
    found = {}
    for name in names:
        try:
            found[name] = RULES[name](study)
        except Unfinished as error:
            found[name] = Finding(CLAIMS[name], remark=str(error))
    return found


def verdicts(known: Mapping[str, Finding], *, scale: str, decides: bool) -> tuple[LanguageVerdict, ...]:
    """The verdicts, with Holm's correction over L1 to L4. One that is not measured counts as a try without a number."""
    tests = [known.get(name, Finding(CLAIMS[name])) for name in TESTED]
    p_for, p_against = (
        corrected([np.nan if (p := getattr(each, side)) is None else p for each in tests])
        for side in ("p_for", "p_against")
    )
    places = {name: i for i, name in enumerate(TESTED)}
    made = []
    for name, each in known.items():
        outcome: Outcome = "undecided"
        if not each.numbers:
            reason = f"it is not measured yet: {each.remark}"
        elif name not in places:
            outcome, reason = "reported", "no rule was fixed; the numbers are reported"
        else:
            mine, other = float(p_for[places[name]]), float(p_against[places[name]])
            outcome = "confirmed" if mine <= LEVEL else "refuted" if other <= LEVEL else "undecided"
            reason = f"corrected p-values: {mine:.2g} for it, {other:.2g} against it"
            reason += "".join(f"; {more}" for more in (_last_share(each, mine), each.remark) if more)
        if not decides and each.numbers:
            outcome, reason = "undecided", f"a rehearsal decides nothing; {reason}"
        made.append(LanguageVerdict(each, outcome, reason, scale))
    return tuple(made)


def _last_share(found: Finding, corrected_p: float) -> str:
    """The last share of the steps that holds, each p-value corrected as the claim's own was."""
    if not found.shares or not found.p_for:
        return ""
    factor = corrected_p / found.p_for
    held = [share for share, _ in takewhile(lambda each: factor * each[1] <= LEVEL, found.shares.items())]
    return f"the last share of the steps that holds at {LEVEL:.0%} is {held[-1]:g}" if held else "no share holds"
