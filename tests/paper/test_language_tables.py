"""The tables of the language model from boards with known numbers, and what is found, trained and left to train."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from memgrad.experiments.planning.spec import Spec
from memgrad.paper.language import board as tables
from memgrad.paper.language import running
from memgrad.paper.language.board import comparison_cells, finish, verdict_table
from memgrad.paper.language.costs import experiments
from memgrad.paper.language.pictures import _ratios
from memgrad.paper.language.stages import Stages
from memgrad.paper.language.study import Study, Unfinished, if_finished


def estimate(value: float | None, *ends: float) -> dict[str, Any]:
    low, high = ends or (None, None)
    return {"value": value, "low": low, "high": high}


def row(method: str, p: float | None, mean: float | None = 0.9, **changes: Any) -> dict[str, Any]:
    ratio = {"mean": mean, "low": None, "high": None}
    usual = {"method": method, "variant": method, "lr": 0.001, "final": ratio, "difference": ratio, "ratio": ratio}
    return {**usual, "adjusted_p_value": p, "at_edge": False, **changes}


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "shown"), [(None, ""), (0.5, "0.5000"), (1e-4, "0.0001"), (0.99e-4, "< 0.0001"), (0.0, "< 0.0001")]
)
def test_p_values_below_one_in_ten_thousand_are_not_written_out(p: float | None, shown: str) -> None:
    assert comparison_cells([row("NAdam", p)]) == [("NAdam", "0.001", "0.9", "0.9", shown)]


def test_a_comparison_names_the_selected_variant_and_a_reference_has_no_ratio() -> None:
    variant = row("NAdam", 0.5, variant="NAdam [beta=0.9]")
    assert comparison_cells([variant])[0][0] == "NAdam (beta=0.9)"
    assert comparison_cells([row("AdamW", None, difference=None, ratio=None)])[0][2:] == ("0.9", "", "")
    assert comparison_cells([row("SGD", 0.5, at_edge=True)])[0][1] == "0.001 (at the end of what was tried)"
    gone = row("SGD", 1.0, None, final={"mean": 2.5, "low": 2.0, "high": 3.0})
    assert comparison_cells([gone])[0][2:4] == ("2.5 [2, 3]", "not finite: a run diverged")
    assert comparison_cells([]) == comparison_cells(None) == [("not measured yet", "", "", "", "")]


def test_a_saving_is_listed_once_and_in_percent() -> None:
    at_long = {
        "steps": 6000,
        "batch": 16,
        "loss": estimate(1.586),
        "ratio": estimate(0.98, 0.97, 0.99),
        "saved": estimate(0.123, 0.1, 0.15),
    }
    larger = {"steps": 1500, "batch": 64, "loss": estimate(1.6), "ratio": estimate(1.01), "saved": estimate(-0.02)}
    unknown = {"steps": 375, "batch": 256, "loss": estimate(None), "ratio": estimate(None), "saved": estimate(None)}
    saved = {"horizon": [at_long], "batch": [at_long, larger, unknown], "exponent": estimate(0.25, 0.2, 0.3)}
    assert tables._savings(saved)[2:] == [
        "| 6,000 | 16 | 1.586 | 0.98 [0.97, 0.99] | 12.3 [10, 15] % |",
        "| 1,500 | 64 | 1.6 | 1.01 | -2 % |",
        "| 375 | 256 | not finite: a run diverged | not finite: a run diverged | - |",
        "",
        "AdamW's final loss falls as T^-a with a = 0.25 [0.2, 0.3].",
    ]
    nothing = {"horizon": None, "batch": None, "exponent": None}
    assert tables._savings(nothing)[2:] == ["| not measured yet |  |  |  |  |"]


def test_selected_settings_are_listed_without_the_name() -> None:
    selected = {"short": {"AdamW": {"name": "AdamW", "betas": [0.9, 0.99], "lr": 0.004}}, "long": None}
    assert tables._settings(selected)[2:] == [
        "| short | AdamW | betas 0.9 0.99, lr 0.004 |",
        "| long |  | not measured yet |",
    ]


def test_a_rehearsal_says_so_in_the_place_of_the_headline() -> None:
    measured = {"id": "L1", "statement": "a|b.", "outcome": "undecided", "reason": "so", "numbers": [estimate(1.5)]}
    measured["numbers"][0]["name"] = "x"
    open_ = {"id": "L2", "statement": "c.", "outcome": "undecided", "reason": "not yet", "numbers": []}
    found = {"scale": {"decides": True, "about": "all"}, "verdicts": [measured, open_]}
    rows = ["| **L1** a\\|b. | **undecided** | x = 1.5 |", "| **L2** c. | **not measured yet** | - |", "", "- L1: so."]
    assert verdict_table(found).splitlines()[0] == "**Undecided: L1; not measured yet: L2.**"
    assert verdict_table(found).splitlines()[4:] == rows
    rehearsal = {**found, "scale": {"decides": False, "about": "a rehearsal"}, "verdicts": []}
    assert verdict_table(rehearsal).splitlines()[:2] == ["**A rehearsal.**", ""]
    assert tables.headline({"verdicts": []}) == "**No claim was asked for.**"


def test_a_figure_shows_a_run_that_diverged_as_infinite_and_no_reference() -> None:
    known = {"mean": 0.9, "low": 0.8, "high": 1.0, "n": 5}
    rows = [row("AdamW", None, difference=None), row("a", 0.5, ratio=known), row("b", 0.5, None)]
    found = _ratios(rows)
    assert list(found) == ["a", "b"]
    assert (found["a"].value, found["a"].low, found["a"].high) == (0.9, 0.8, 1.0)
    assert (found["b"].value, found["b"].has_interval) == (math.inf, False)
    assert _ratios(None) == {}


# --- what is found, trained and left ---------------------------------------------------------------------------------


def unfinished(spec: Spec) -> Any:
    raise Unfinished(spec.name)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("L1", ["tune-short", "tune-long", "test-long"]),
        ("L2", ["tune-short", "tune-long", "test-long", "test-short"]),
        ("L3", ["tune-short", "tune-long", "test-long", "ablations"]),
        ("L4", ["tune-short", "tune-long", "test-long-shakespeare"]),
        ("L5", ["tune-short", "tune-long", "test-long", "batch-64", "batch-256"]),
        ("L6", ["tune-short", "tune-long", "large"]),
        ("workloads", [f"workload-{each}" for each in tables.WORKLOADS]),
    ],
)
def test_a_claim_costs_the_experiments_that_it_needs(wanted: str, names: list[str]) -> None:
    found = experiments(Study(Stages("laptop"), unfinished), [wanted])
    assert [spec.name for spec in found] == [f"lm-{name}" for name in names]


def test_results_in_a_store_are_complete_or_say_how_many_runs_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    spec: Any = SimpleNamespace(name="lm-large")
    half: Any = SimpleNamespace(finished=False, planned=range(5), missing=lambda: [3, 4])
    for results, said in ((None, "lm-large has 0 of its runs"), (half, "lm-large has 3 of 5 runs")):
        monkeypatch.setattr(running, "stored_results", lambda *_, found=results: found)
        with pytest.raises(Unfinished, match=said):
            running.stored(None)(spec)  # type: ignore[arg-type]  # no store is asked
    whole = SimpleNamespace(finished=True)
    monkeypatch.setattr(running, "stored_results", lambda *_: whole)
    assert running.stored(None)(spec) is whole  # type: ignore[arg-type, comparison-overlap]


def test_only_what_is_missing_is_trained_and_an_interruption_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[str] = []
    asked: list[tuple[str, Any]] = []

    def stored_results(spec: Any, store: Any) -> Any:
        return SimpleNamespace(finished=True) if spec.name in there else None

    def execute(spec: Any, store: Any, engine: Any, **options: Any) -> Any:
        asked.append((spec.name, options))
        there.append(spec.name)
        return SimpleNamespace(interrupted=spec.name == "stopped", failed={})

    monkeypatch.setattr(running, "stored_results", stored_results)
    monkeypatch.setattr(running, "execute", execute)
    find: Any = running.trained(None, None, listening=lambda name: nullcontext(name), device="cpu")  # type: ignore[arg-type]
    for _ in range(2):
        assert find(SimpleNamespace(name="a")).finished
    with pytest.raises(running.Interrupted, match="stopped"):
        find(SimpleNamespace(name="stopped"))
    options = {"device": "cpu", "close": False}  # the caller closes the engine
    assert asked == [(name, {"listener": name, **options}) for name in ("a", "stopped")]


def test_all_comparisons_are_tried_although_one_is_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def find(spec: Spec) -> Any:
        asked.append(spec.name)
        raise Unfinished(spec.name)

    finish(Study(Stages("quick"), find), ["others", "workloads"])
    assert asked == ["lm-tune-short", *(f"lm-workload-{each}" for each in tables.WORKLOADS)]
    assert if_finished(lambda: 7) == 7
