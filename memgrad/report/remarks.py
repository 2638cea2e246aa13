"""What a report says beside its numbers: its headline, how far a verdict is from decided, and how to read it."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memgrad.paper.adaptive import DEGREES
from memgrad.paper.claims import BEYOND, Verdict
from memgrad.paper.rules import MOST_SEEDS, Finding, recompare, seeds_to_decide
from memgrad.paper.settings import SmoothingSettings
from memgrad.paper.verdicts import CLAIMS
from memgrad.report.wording import listed


def headline(outcomes: Mapping[str, str], *, decides: bool, absent: str) -> str:
    """The title of a report, from the outcomes of all claims by id.

    Example:
        >>> headline({"S1": "reproduced", "R1": "undecided"}, decides=True, absent="not run")
        '1 of 2 claims reproduced, 0 not, 1 undecided'
        >>> headline({"S1": "reproduced", "R1": "not run"}, decides=True, absent="not run")
        'in part: 1 of 1 claims that were run reproduced, 0 not, 0 undecided'
        >>> headline({"S1": "reproduced", "R1": "undecided"}, decides=False, absent="not run")
        'a rehearsal'
        >>> headline({"S1": "not run"}, decides=True, absent="not run")
        'nothing was run'
        >>> headline({"S1": "reproduced", "M1": "confirmed"}, decides=True, absent="not run")
        '1 of 1 claims reproduced, 0 not, 0 undecided; of our own, 1 of 1 confirmed'
    """
    own = [outcomes[each] for each in outcomes if CLAIMS[each].where == BEYOND and outcomes[each] != absent]
    outcomes = {each: outcome for each, outcome in outcomes.items() if CLAIMS[each].where != BEYOND}
    run = [outcome for outcome in outcomes.values() if outcome != absent]
    if not run:
        return "nothing was run"
    if not decides:
        return "a rehearsal"
    partial = len(run) < len(outcomes)
    held, failed, undecided = (run.count(each) for each in ("reproduced", "not reproduced", "undecided"))
    which = f"{len(run)} claims that were run" if partial else f"{len(run)} claims"
    ours = f"; of our own, {own.count('confirmed')} of {len(own)} confirmed" if own else ""
    return f"{'in part: ' if partial else ''}{held} of {which} reproduced, {failed} not, {undecided} undecided{ours}"


def synthetic_state(outcomes: Mapping[str, str], absent: str) -> str:
    """Which of the claims without data are decided, which are not and which were not run, as a sentence.

    Example:
        >>> synthetic_state({"S1": "reproduced", "S2": "undecided", "S3": "not run"}, "not run")
        'Of the claims that need no data, S1 is decided, S2 is undecided and S3 was not run.'
    """
    parts = []
    for ids, one, several in (
        ([k for k, v in outcomes.items() if v not in ("undecided", absent)], "is decided", "are decided"),
        ([k for k, v in outcomes.items() if v == "undecided"], "is undecided", "are undecided"),
        ([k for k, v in outcomes.items() if v == absent], "was not run", "were not run"),
    ):
        if ids:
            parts.append(f"{listed(ids)} {one if len(ids) == 1 else several}")
    return f"Of the claims that need no data, {listed(parts)}."


NOT_BY_SEEDS = {
    "R4": "A step size that was not tried may be the best: more step sizes would decide it.",
    "R9": "A method that is still on the plateau may leave it later: more steps would decide it.",
}
"""What would decide open comparisons of a claim that seeds may not decide."""


def to_decide(verdict: Verdict) -> str:
    """How many seeds or runs would decide what is open, if means and spreads stay; empty if nothing is open."""
    if verdict.outcome != "undecided" or verdict.rehearsal:
        return ""
    if verdict.claim.id == "S2":
        return _runs_of_s2(verdict)
    if verdict.claim.id == "A1":
        return _seeds_of_a1(verdict)
    open_ = [each for each in verdict.findings if each.status == "open"]
    if not open_:
        return ""
    said = [NOT_BY_SEEDS[verdict.claim.id]] if verdict.claim.id in NOT_BY_SEEDS else []
    counted = [each.seeds for each in open_ if each.seeds]
    if counted:
        against = sum(seeds < 0 for seeds in counted)
        sides = f", {against} of them against the claim, and one is enough to contradict it" if against else ""
        more = f"more seeds would decide {len(counted)} of {len(open_)} open comparisons{sides}"
        said.append(f"If means and spreads stay, {more}. How many is said beside each.")
    elif not said:
        said.append(
            f"If means and spreads stay, no number of seeds up to {MOST_SEEDS:,} would decide any of {len(open_)} open "
            "comparisons, because the means are too near the borders."
        )
    return " ".join(said)


def seeds_needed(finding: Finding) -> str:
    """How many seeds would decide an open comparison, and how; empty if no number would, or it is not open.

    Example:
        >>> seeds_needed(Finding("open", seeds=-12)), seeds_needed(Finding("supported"))
        ('12 seeds would contradict it', '')
    """
    if finding.status != "open" or not finding.seeds:
        return ""
    return f"{abs(finding.seeds)} seeds would {'support' if finding.seeds > 0 else 'contradict'} it"


def _seeds_of_a1(verdict: Verdict) -> str:
    """The claim asks for one degree that is below both of its rivals, corrected for all degrees."""
    needed: dict[str, list[int]] = {}
    for number in verdict.numbers:
        if found := re.fullmatch(r"loss (p=\d+) / .*, last half", number.name):
            below = number.has_interval and number.value < 1
            known = replace(number, n=len(verdict.seeds))  # a verdict that was kept does not say it by number
            seeds = seeds_to_decide(recompare("less", known), len(DEGREES)) if below else 0
            needed.setdefault(found[1], []).append(seeds)
    degrees = {degree: max(seeds) for degree, seeds in needed.items() if all(seeds)}
    if not degrees:
        return (
            "No number of seeds would show a degree to be faster: each is above one of its rivals in the mean, or too "
            "near it. Other step sizes or longer runs may."
        )
    degree, seeds = min(degrees.items(), key=lambda pair: pair[1])
    return f"If means and spreads stay, {seeds} seeds would show {degree} to be faster than both."


def _runs_of_s2(verdict: Verdict) -> str:
    """The border of the rule is a ratio of 1, and the width of an interval falls as the root of the number of runs."""
    ratio, runs = verdict.numbers[0], SmoothingSettings().runs
    if not ratio.has_interval or ratio.value <= 1:
        return ""
    half = (ratio.high - ratio.low) / 2
    needed = 10 * math.ceil(runs / 10 * (half / (ratio.value - 1)) ** 2)
    return f"If the ratio and its spread stay, about {needed} runs would decide it, instead of {runs}."


def how_to_read(verdict: Verdict) -> str:
    """A remark on a claim whose numbers may be misread."""
    if verdict.claim.id == "S5" and verdict.outcome != "not reproduced":
        return ""
    return str(texts()["how_to_read"].get(verdict.claim.id, ""))


@cache
def texts() -> Mapping[str, Any]:
    """The texts of errata_and_remarks.toml.

    Example:
        >>> texts()["errata"][-1]["title"]
        'Labels of figures'
    """
    return MappingProxyType(
        tomllib.loads((Path(__file__).parent / "errata_and_remarks.toml").read_text(encoding="utf-8"))
    )


@cache
def published() -> Mapping[str, Any]:
    """The published verdicts: `scale`, and for each claim the outcome by version 2 and by version 1 of the rules."""
    text = (Path(__file__).parent / "published.json").read_text(encoding="utf-8")
    return MappingProxyType(json.loads(text))


def published_beside(claim: str) -> Sequence[str]:
    """The published outcomes of a claim: by version 2, and by version 1 if that is another."""
    return list(dict.fromkeys(published()["verdicts"].get(claim, ())))
