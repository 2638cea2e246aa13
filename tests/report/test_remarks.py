"""What a report says beside its numbers is computed from the verdicts that there are."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from memgrad.paper.claims import Verdict
from memgrad.paper.rules import Finding
from memgrad.paper.verdicts import CLAIMS, JUDGES
from memgrad.report.remarks import (
    NOT_BY_SEEDS,
    headline,
    how_to_read,
    published,
    published_beside,
    seeds_needed,
    synthetic_state,
    to_decide,
)
from memgrad.statistics import Estimate


def verdict(claim: str, outcome: str = "undecided", **more: object) -> Verdict:
    numbers = more.pop("numbers", (Estimate(1.0, name="x"),))
    return Verdict(CLAIMS[claim], outcome, numbers, "", "", **more)  # type: ignore[arg-type]  # as the tests give them


def test_an_undecided_claim_is_not_called_decided() -> None:
    outcomes = {"S1": "reproduced", "S2": "undecided", "S3": "not reproduced"}
    assert synthetic_state(outcomes, "not run") == (
        "Of the claims that need no data, S1 and S3 are decided and S2 is undecided."
    )


@pytest.mark.parametrize(
    ("own", "said"),
    [("not run", ""), ("refuted", "; of our own, 0 of 1 confirmed"), ("confirmed", "; of our own, 1 of 1 confirmed")],
)
def test_a_claim_of_our_own_is_counted_apart_where_it_was_run(own: str, said: str) -> None:
    outcomes = {"S1": "reproduced", "S2": "not reproduced", "M1": own}
    text = f"1 of 2 claims reproduced, 1 not, 0 undecided{said}"
    assert headline(outcomes, decides=True, absent="not run") == text


def test_open_comparisons_say_how_many_seeds_would_decide_them() -> None:
    findings = (Finding("open", 0.2, 0.9, seeds=12), Finding("open", 1.0, 1.0), Finding("supported", 0.01, 1.0))
    text = to_decide(verdict("R3", findings=findings))
    assert text == (
        "If means and spreads stay, more seeds would decide 1 of 2 open comparisons. How many is said beside each."
    )
    two = (Finding("open", seeds=40), Finding("open", seeds=12), Finding("contradicted", seeds=5))
    assert to_decide(verdict("R3", findings=two)).endswith(
        "decide 2 of 2 open comparisons. How many is said beside each."
    )
    contrary = (*two, Finding("open", seeds=-7))
    assert to_decide(verdict("R3", findings=contrary)) == (
        "If means and spreads stay, more seeds would decide 3 of 3 open comparisons, 1 of them against the claim, and "
        "one is enough to contradict it. How many is said beside each."
    )
    assert "too near the borders" in to_decide(verdict("R3", findings=findings[1:]))
    assert to_decide(verdict("R4", findings=findings[1:])).endswith("more step sizes would decide it.")
    assert to_decide(verdict("R9", findings=findings[1:])).endswith("more steps would decide it.")
    assert to_decide(verdict("R9", findings=findings)) == f"{NOT_BY_SEEDS['R9']} {text}"
    assert to_decide(verdict("R3", "reproduced", findings=findings[2:])) == ""
    assert to_decide(verdict("R3", findings=findings, rehearsal=True)) == ""
    beside = [seeds_needed(each) for each in contrary]
    assert beside == ["40 seeds would support it", "12 seeds would support it", "", "7 seeds would contradict it"]


def test_a1_says_how_many_seeds_would_show_a_degree_to_be_below_both() -> None:
    """At the strictest of five levels: t of n - 1 degrees above the quantile 1 - 0.05/5."""

    def numbers(*ratios: float) -> tuple[Estimate, ...]:
        found = []
        for name, ratio in zip(("p=2 / Adam", "p=2 / Adagrad", "p=4 / Adam", "p=4 / Adagrad"), ratios, strict=True):
            half = 0.02 * stats.t.ppf(0.975, 4) / math.sqrt(5)  # five seeds, a standard deviation of 0.02
            ends = math.log(ratio) - half, math.log(ratio) + half
            found.append(Estimate(ratio, *map(math.exp, ends), name=f"loss {name}, last half"))
        return tuple(found)

    assert "No number of seeds" in to_decide(
        verdict("A1", numbers=numbers(1.01, 0.8, 1.02, 0.8), seeds=(0, 1, 2, 3, 4))
    )
    text = to_decide(verdict("A1", numbers=numbers(0.99, 0.8, 1.02, 0.8), seeds=(0, 1, 2, 3, 4)))
    mean = -math.log(0.99)
    needed = next(n for n in range(5, 99) if mean / 0.02 * math.sqrt(n) >= stats.t.ppf(1 - 0.05 / 5, n - 1))
    assert text == f"If means and spreads stay, {needed} seeds would show p=2 to be faster than both."


def test_s2_says_how_many_runs_would_decide_it() -> None:
    """The half-width of 150 runs is .26 and the distance to the border .141: (.26/.141)^2 150 is 510."""
    # Rounded up to tens: 520.
    ratio = Estimate(1.141, 0.881, 1.401, name="ratio")
    assert "about 520 runs would decide it, instead of 150" in to_decide(verdict("S2", numbers=(ratio,)))
    for hopeless in (Estimate(0.9, 0.8, 1.1), Estimate(1.0, 0.9, 1.1), Estimate(1.2)):
        assert to_decide(verdict("S2", numbers=(hopeless,))) == ""


def test_s5_is_told_by_letter_and_in_spirit_where_it_fails() -> None:
    text = how_to_read(verdict("S5", "not reproduced"))
    assert "By the letter it fails" in text
    assert "In spirit it holds" in text
    assert how_to_read(verdict("S5", "reproduced")) == ""
    assert "once in twenty times" in how_to_read(verdict("S3", "reproduced"))


@pytest.mark.parametrize("claim", [name for name, judge in JUDGES.items() if judge.needs])
def test_published_verdicts_stand_beside_a_rehearsals(claim: str) -> None:
    both = published()["verdicts"][claim]
    assert len(both) == 2
    assert published_beside(claim) == (both if both[0] != both[1] else both[:1])
