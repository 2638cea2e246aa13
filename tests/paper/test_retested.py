"""Published verdicts whose rows are lost, tested again from their numbers: seeds, regimes and kinds of comparison."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from known_results import results_of

from memgrad.paper import loss_claims
from memgrad.paper.claims import FirstVersion, Verdict, number
from memgrad.paper.evidence import Evidence, log_ratio
from memgrad.paper.published import _Retest, retested
from memgrad.paper.rules import Kind, compare
from memgrad.paper.scales import scales
from memgrad.paper.step_size_claims import _smaller_steps
from memgrad.paper.training_figures import PUBLISHED_STEPS
from memgrad.paper.verdicts import JUDGES
from memgrad.statistics import interval

LOGS = np.array([-0.02, 0.03, 0.01, 0.05])
YES, NO, OPEN = "reproduced", "not reproduced", "undecided"


def board(
    claim: str, numbers: list[dict[str, Any]], *, reason: str = "", examples: int | None = None
) -> dict[str, Any]:
    """A scoreboard of version 1 with one verdict."""
    names = ("covtype-mini", "covtype-full", "mlp-mini", "mlp-full", "cnn-mini", "cnn-full", "polyadam")
    spec = {"seeds": 4, **({} if examples is None else {"examples": examples})}
    verdict = {
        **dict.fromkeys(("where", "statement", "rule"), ""),
        "id": claim,
        "outcome": OPEN,
        "reason": reason,
        "scale": "laptop",
        "seeds": [0, 1, 2, 3],
        "numbers": numbers,
    }
    return {"experiments": {name: {"spec": spec} for name in names}, "verdicts": [verdict]}


def retest(claim: str, *numbers: dict[str, Any], **options: Any) -> Verdict:
    (found,) = retested(board(claim, list(numbers), **options))
    return found


@pytest.mark.parametrize(
    ("claim", "name", "kind"),
    [
        ("R1", "loss p=2 / SGD, covtype-mini at 10%", "less"),
        ("R2", "final loss MemSGD p=2 / SGD, mlp-mini", "not less"),
        ("R3", "final loss MemSGD p=e / SGD, mlp-mini", "not more"),
        ("R3", "final loss MemSGD p=e / SGD, cnn-mini", "not less"),
        ("R7", "final loss MemSGD p=e / HB, mlp-mini", "equal"),
        ("R8", "edge of HB in full - mini batch, mlp", "more"),
        ("R9", "final loss SGD / plateau, mlp-full", "less"),
    ],
)
def test_a_published_number_is_tested_as_its_claim_says(claim: str, name: str, kind: Kind) -> None:
    case = compare(kind, name, LOGS, ratio=claim != "R8")
    other = {**case.number.to_dict(), "name": "ratio (does not decide)"}
    found = retest(claim, other, case.number.to_dict())
    assert [each.name for each in found.numbers] == [name, "ratio (does not decide)"]
    assert (found.findings[0].p_for, found.findings[0].p_against) == pytest.approx((case.p_for, case.p_against))
    assert (found.seeds, found.scale, found.first) == ((0, 1, 2, 3), "laptop", FirstVersion(OPEN, ""))


def test_a_share_that_was_cut_at_one_has_the_spread_of_its_other_side() -> None:
    shares = interval([0.9, 0.95, 1.0, 1.0], name="share of evaluations with smaller steps of HB, mlp-mini")
    found = retest("R6", {**shares.to_dict(), "high": 1.0})
    t = (shares.value - 0.9) / (np.std([0.9, 0.95, 1.0, 1.0], ddof=1) / 2)
    a = math.atan(t / math.sqrt(3))  # Student's distribution with 3 degrees of freedom, in two tries
    assert found.findings[0].p_for == pytest.approx(1 - 2 / math.pi * (a + math.sin(a) * math.cos(a)))


def test_what_is_not_tested_keeps_its_published_place() -> None:
    names = [f"best step size HB / SGD, {name}" for name in ("mlp-mini", "mlp-full", "cnn-mini", "cnn-full")]
    numbers = [{"name": name, "value": 0.1, "low": None, "high": None} for name in names]
    found = retest("R4", *numbers, reason="1 of 4 comparisons hold, 1 fails, 2 are open.")
    assert [each.status for each in found.findings] == ["contradicted", "open", "open", "supported"]
    assert [each.name for each in found.numbers] == names
    diverged = retest("R7", {"name": f"final loss, {names[0]}", "value": None, "low": None, "high": None})
    assert (diverged.findings[0].status, diverged.findings[0].p_for) == ("open", 1.0)  # a try without a number


@pytest.mark.parametrize(
    ("name", "examples", "regime"),
    [
        ("final loss, mlp-full", 5_999, "5,999 of 60,000 examples"),
        ("final loss, mlp-full", 6_000, ""),
        ("final loss, mlp-full", None, ""),
        ("final loss, mlp-mini", 10, ""),
        ("edge of HB in full - mini batch, mlp", 5_999, "5,999 of 60,000 examples"),
    ],
)
def test_full_batches_of_few_examples_are_of_another_regime(name: str, examples: int | None, regime: str) -> None:
    found = retest("R7", {"name": name, "value": 1.0, "low": 0.99, "high": 1.01}, examples=examples)
    assert found.findings[0].regime == regime


def test_seeds_are_counted_or_listed() -> None:
    given: dict[str, Any] = board("A1", [])
    given["experiments"]["polyadam"]["spec"] = {"seeds": [3, 4, 5]}
    one = _Retest(given, given["verdicts"][0])
    assert [one._seeds(name) for name in ("loss p=4 / Adam, last half", "loss, mlp-full")] == [3, 4]


@pytest.mark.parametrize(
    ("accuracies", "outcome", "best"),
    [
        ({"covtype-mini": 0.70, "covtype-full": 0.72}, YES, "covtype-full"),
        ({"covtype-mini": 0.70, "covtype-full": 0.65}, YES, "covtype-mini"),
        ({"covtype-mini": 0.67, "covtype-full": 0.66}, NO, "covtype-mini"),
        ({"covtype-mini": 0.68, "covtype-full": math.nan}, YES, "covtype-mini"),
    ],
)
def test_the_best_published_accuracy_decides(accuracies: dict[str, float], outcome: str, best: str) -> None:
    numbers = [number(f"best accuracy HB, {name}", at, at, at).to_dict() for name, at in accuracies.items()]
    found = retest("R10", *numbers)
    assert (found.outcome, found.numbers[0].name) == (outcome, f"best accuracy HB, {best}")
    assert len(found.numbers) == 2
    few = retest("R10", *numbers, examples=46_479)  # a full batch of too few does not speak
    assert few.numbers[0].name == "best accuracy HB, covtype-mini"


# --- numbers of claims -----------------------------------------------------------------------------------------------


def test_a_value_that_is_not_finite_is_none_in_plain_data_and_nan_again() -> None:
    assert math.isnan(number("a", None).value)
    assert (number("a", 1.0, 0.5, 2.0).low, number("a", 1.0, 0.5, 2.0).high) == (0.5, 2.0)


def test_version_1_says_yes_no_or_neither() -> None:
    said = [FirstVersion.of(held, failed, "so.") for held, failed in ((True, False), (False, True), (False, False))]
    assert said == [FirstVersion(outcome, "so.") for outcome in (YES, NO, OPEN)]  # type: ignore[arg-type]


def test_a_run_that_diverged_makes_its_ratio_infinite_and_two_leave_none() -> None:
    found = log_ratio([1.0, math.inf, 1.0, math.inf, 0.0], [2.0, 1.0, math.inf, math.inf, 1.0])
    assert found.tolist() == pytest.approx([-math.log(2), math.inf, -math.inf, math.nan, -math.inf], nan_ok=True)


def test_settings_with_different_numbers_of_seeds_are_compared_on_those_of_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loss_claims, "PROBLEMS", ("mlp",))
    results = {"mlp-mini": results_of("mlp-mini", seeds=3), "mlp-full": results_of("mlp-full", seeds=4)}
    evidence = Evidence(scales()["laptop"], results, lambda: 1.0, lambda: np.zeros(1))
    found = JUDGES["R8"].function(JUDGES["R8"].claim, evidence)
    assert ([each.n for each in found.numbers], found.seeds) == ([3, 3, 3], (0, 1, 2, 3))
    for changes, share in (({"sample": True}, "sample of "), ({"examples": 60_000}, ""), ({}, "all ")):
        results["mlp-mini"].spec = results["mlp-mini"].spec.model_copy(
            update={"sample": False, "examples": None, **changes}
        )
        assert evidence.described("mlp-mini") == f"mlp-mini 3 seeds, 200 steps, {share}60,000 examples"


def test_steps_are_compared_where_both_methods_have_finite_ones() -> None:
    class Curves:
        """Heavy ball is evaluated one step later; its first seed has lost a number, the second one of SGD's."""

        def curve(self, method: str, metric: str) -> Any:
            assert metric == "step_norm"
            found = {
                "SGD": ([0, 1, 2, 3], [[9, 9], [2, math.inf], [2, 2], [2, 2]]),
                "HB": ([1, 2, 3, 4], [[1, 1], [math.nan, 2], [3, 1], [0, 0]]),
            }[method]
            return type("Curve", (), {"steps": np.array(found[0]), "values": np.array(found[1])})

    assert _smaller_steps(Curves()).tolist() == [0.5, 0.5]  # type: ignore[arg-type]


def test_the_step_sizes_of_the_paper_are_those_that_it_prints() -> None:
    assert {name: dict(each) for name, each in PUBLISHED_STEPS.items()} == {
        "covtype": {"SGD": 1.0, "HB": 1.0},
        "autoencoder": {"SGD": 0.05, "HB": 0.005},
    }
