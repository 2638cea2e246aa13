"""The parts of a report, each by itself: what was run and where, settings beside the paper's, and rows of methods."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from known_results import DECIDING, REHEARSAL

from memgrad.paper.claims import Verdict
from memgrad.paper.reproduction import Made, Reproduction
from memgrad.paper.scales import GRID
from memgrad.paper.verdicts import CLAIMS
from memgrad.report import content, methods, wording
from memgrad.report.wording import number_text
from memgrad.statistics import Estimate

ABOUT: dict[str, Any] = {"machine": {"host": "here", "cpu": "A CPU", "cores": 2, "system": "Linux"}, "commit": "c1"}


def made_of(name: str, *abouts: dict[str, Any], **spec: Any) -> Made:
    return Made(name, spec, 4, 1, abouts)


def verdict_of(claim: str, scale: str) -> Verdict:
    return Verdict(CLAIMS[claim], "undecided", (Estimate(1.0),), "so.", scale)


# --- the scoreboard --------------------------------------------------------------------------------------------------


def test_what_was_run_is_listed_by_experiment_for_claims_on_data_alone() -> None:
    said = "laptop: covtype-mini 4 seeds; covtype-full 4 seeds"
    assert content._what_ran(verdict_of("R1", said)) == ("laptop: covtype-mini 4 seeds", "covtype-full 4 seeds")
    assert content._what_ran(verdict_of("S8", "400 problems; two pinned")) == ("400 problems; two pinned",)


@pytest.mark.parametrize(
    ("claim", "decided", "scale", "shown"),
    [
        ("R1", True, DECIDING, False),
        ("R1", True, REHEARSAL, True),
        ("R1", False, DECIDING, True),
        ("S1", False, DECIDING, False),
    ],
)
def test_published_outcomes_stand_beside_claims_on_data_that_are_not_decided(
    claim: str, decided: bool, scale: Any, shown: bool
) -> None:
    reproduction = Reproduction(scale, (), {}, (), {}, {}, False, 1.0, {})
    verdict = verdict_of(claim, "") if decided else None
    assert bool(content._published_beside(CLAIMS[claim], verdict, reproduction)) is shown


@pytest.mark.parametrize(
    ("text", "sentence"), [(" it is so", "It is so."), ("Is it?", "Is it?"), ("stop!", "Stop!"), ("", ""), ("x.", "X.")]
)
def test_a_reason_becomes_a_sentence(text: str, sentence: str) -> None:
    assert wording.sentence(text) == sentence


def test_settings_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"settings": {"x0": [1.0, 0.5], "scheme": "milstein"}, "own_choices": {"x0": "y"}}'
    )
    (tmp_path / "b.json").write_text("not JSON")
    assert content._settings(tmp_path / "a.json") == (("x0", "1, 0.5", "y"), ("scheme", "milstein", ""))
    assert [content._settings(path) for path in (tmp_path / "b.json", tmp_path / "none.json", None)] == [()] * 3


# --- where it was made -----------------------------------------------------------------------------------------------


def test_a_machine_is_named_once_with_the_first_and_the_last_time() -> None:
    first, last = ({**ABOUT, "time": time} for time in ("2026-01-01", "2026-01-03"))
    other = {"machine": "elsewhere", "versions": {"torch": "2.13.0"}}
    experiments = {"a": made_of("a", last, first), "b": made_of("b", other)}
    found = content._makers(Reproduction(DECIDING, (), {}, (), experiments, {}, False, 1.0, {**ABOUT, "time": ""}))
    assert [(each.machine, each.versions, each.commit, each.when, each.made) for each in found] == [
        ("here, A CPU, 2 cores, Linux", "", "c1", "2026-01-01 to 2026-01-03", "a and figures, claims and this page"),
        ("elsewhere", "torch 2.13.0", "not in a repository", "unknown", "b"),
    ]


def test_the_time_of_an_experiment_is_that_of_all_its_chunks() -> None:
    made = made_of("a", {"wall_seconds": 60.0, "cpu_seconds": 50.0}, {"wall_seconds": 2.5}, {})
    assert (methods.seconds_of(made, "wall"), methods.seconds_of(made, "cpu")) == (62.5, 50.0)


# --- experiments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "run", "examples", "batch"),
    [
        ({}, None, "all", "the problem's own"),
        ({"examples": 50, "batch": "full"}, None, "50, a fixed random share of all", "full"),
        ({}, (60_000, 16), "all 60,000", "16 examples"),
        ({"examples": 6000}, (6000, None), "6,000, a fixed random share of all", "full"),
        ({"sample": True, "examples": 9}, (500, 4), "500 of the sample that comes with memgrad", "4 examples"),
    ],
)
def test_examples_and_batch_are_those_of_the_runs_or_of_the_specification(
    spec: dict[str, Any], run: tuple[int, int | None] | None, examples: str, batch: str
) -> None:
    given: Any = None if run is None else SimpleNamespace(examples=run[0], batch_size=run[1])
    assert (methods._examples(spec, given), methods._batch(spec, given)) == (examples, batch)


@pytest.mark.parametrize(
    ("method", "follows", "lr", "tried", "at_edge"),
    [
        ("MemSGD", "SGD", 0.4, "that of SGD", False),
        ("Adam", None, 0.2, "of 0.1, 0.2", False),  # two are no grid with an inside
        ("SGD", None, 0.4, "of 0.1, 0.2, 0.4", True),
        ("SGD", None, 0.1, "of 0.1, 0.2, 0.4", True),
        ("SGD", None, 0.2, "of 0.1, 0.2, 0.4", False),
    ],
)
def test_a_row_says_where_its_step_size_is_from_and_whether_a_better_one_may_lie_outside(
    method: str, follows: str | None, lr: float, tried: str, at_edge: bool
) -> None:
    sizes = {"SGD": (0.1, 0.2, 0.4), "MemSGD": (0.4,), "Adam": (0.1, 0.2)}
    results: Any = SimpleNamespace(
        spec=SimpleNamespace(method=lambda name: SimpleNamespace(follows=follows)),
        step_sizes=sizes.__getitem__,
        seeds=lambda name, lr: (0, 1, 2),
        counts=lambda name: (2, 9, 9),
        diverged=lambda name: {1: 7, 100: 3},  # the second has a seed for tuning
        final_interval=lambda name, metric: (name, metric),
    )
    found: Any = SimpleNamespace(method=method, lr=lr, final=Estimate(1.0), ratio=None)
    row = methods._row(results, found, has_accuracy=True)
    assert (row.lr, row.tried, row.at_edge) == (f"{lr:g}", tried, at_edge)
    assert (row.diverged, row.diverged_in_all, row.accuracy) == ("1 of 3", "2 of 9", (method, "accuracy"))
    assert methods._row(results, found, has_accuracy=False).accuracy is None


FACTS = {"training examples": "all 60,000", "batch": "b", "steps": "9", "seeds": "0 to 3"}
NOT_GIVEN = "not given"


@pytest.mark.parametrize(
    ("name", "batch", "minibatches", "grid"),
    [
        ("mlp-mini", "32 examples", "without replacement within an epoch", ", ".join(map(number_text, GRID))),
        ("mlp-full", "full", "none", ", ".join(map(number_text, GRID))),
        ("polyadam", NOT_GIVEN, "without replacement within an epoch", NOT_GIVEN),
    ],
)
def test_settings_stand_beside_those_that_the_paper_gives(name: str, batch: str, minibatches: str, grid: str) -> None:
    own = [{"name": "HB", "lr": [0.1, 0.2]}, {"name": "SGD", "lr": "best of HB"}]
    spec = {"evaluate": {"loss_examples": 5000}, "methods": own, "tuning_seeds": [100, 101]}
    found = {label: rest for label, *rest in methods.beside_the_papers(made_of(name, **spec), FACTS)}
    assert (found["batch"], found["minibatches"][1]) == ([batch, "b"], minibatches)
    assert found["step sizes, HB"] == [grid, "0.1, 0.2 (on seeds 100, 101)"]
    assert "step sizes, SGD" not in found
    assert found["loss over"] == [NOT_GIVEN, "5,000 training examples, always the same"]
    assert ("decay of p = e" in found) is ("gradient norm over" in found) is (name != "polyadam")
    assert ("PolyAdam" in found) is (name == "polyadam")
    assert found["pixels"][1].startswith("scaled to [-1, 1]" if name == "polyadam" else "scaled to [0, 1]")
    whole = {label: rest for label, *rest in methods.beside_the_papers(made_of(name), FACTS)}
    assert whole["loss over"][1] == "all training examples"


def test_an_experiment_of_ones_own_has_facts_and_no_paper_beside_it() -> None:
    part = methods.experiment_part(made_of("mine", {"device": "cpu"}, epochs=3, seeds=2, problem="quadratic"), None)
    assert (part.title, part.settings, part.rows, part.reference, part.has_accuracy) == ("mine", (), (), "", False)
    assert part.facts["steps"] == "3 epochs"
    assert part.facts["seeds"] == "0, 1"
    assert part.facts["evaluated"] == "? times, loss"
    assert (part.facts["device"], part.facts["runs"]) == ("cpu", "4, of which 1 were trained now")
    assert methods.experiment_part(made_of("mine", seeds=[3, 4, 5]), None).facts["seeds"] == "3 to 5"
