"""How the command line reads its arguments: values, borders and refusals, without running a command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from memgrad.cli import dynamics, memories, theory, tune
from memgrad.cli.options import as_count, chosen_engine
from memgrad.cli.plots import _as_seed
from memgrad.cli.spectrum import _file_name
from memgrad.experiments.racing.candidates import Candidate
from memgrad.memory import Mixture


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("1000", 1000), ("+5", 5), ("1e6", 10**6), ("2.0", 2), ("9007199254740993", 2**53 + 1), (7, 7)],
)
def test_a_count_is_read_with_all_its_digits(text: str | int, number: int) -> None:
    assert as_count(text) == number
    assert isinstance(as_count(text), int)


@pytest.mark.parametrize("text", ["-1", "-0.5", "1.5", "nan", "inf", "", "1e999", "one"])
def test_what_is_no_count_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"a count is an integer >= 0, such as 1000 or 1e6, got '{text}'"):
        as_count(text)


@pytest.mark.parametrize(("text", "seed"), [("0", 0), ("12", 12), ("-1", None), ("1.0", None), ("²", None), ("", None)])
def test_a_seed_has_plain_digits(text: str, seed: int | None) -> None:
    if seed is not None:
        assert _as_seed(text) == seed
        return
    with pytest.raises(typer.BadParameter, match="a seed is an integer >= 0"):
        _as_seed(text)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("1.5h", 5400), ("2min", 120), ("1h 2m 3s", 3723)])
def test_a_time_is_the_sum_of_its_parts(text: str, seconds: float) -> None:
    assert tune.as_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "h", "5 x", "1h and", "-5s"])
def test_a_time_without_units_or_with_more_than_a_time_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="a time is written as 90s, 30m or 1h30m"):
        tune.as_seconds(text)


@pytest.mark.parametrize(("value", "allowed"), [(0.99, False), (1.0, False), (1.01, True)])
def test_a_measured_nu_is_larger_than_1(value: float, allowed: bool, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"nu": {"value": value}}))
    if allowed:
        assert tune.as_nu(str(path)) == value
        return
    with pytest.raises(typer.BadParameter, match="a gain needs nu > 1"):
        tune.as_nu(str(path))


@pytest.mark.parametrize(
    ("density", "nu"),
    [
        ({"value": 1.8, "low": 1.5, "high": 2.1}, 1.8),
        ({"value": 1.7, "low": -4.0, "high": 7.0}, 1.4),
        ({"value": 1.7, "low": None, "high": None}, 1.4),
        ({"value": None, "low": None, "high": None}, 1.4),
    ],
)
def test_of_two_values_of_nu_the_one_with_the_narrower_interval_is_taken(
    density: dict[str, float | None], nu: float, tmp_path: Path
) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"nu": {"value": 1.4, "low": 1.0, "high": 1.9}, "nu_density": density}))
    assert tune.as_nu(str(path)) == nu


@pytest.mark.parametrize(
    ("name", "kind", "text", "value"),
    [
        ("memory", "memory", "poly:2", "poly:2"),
        ("tight", "flag", "true", True),
        ("tight", "flag", "false", False),
        ("lr", "number", "2", 2.0),
        ("dimension", "count", "2", 2),
        ("dimension", "count", "2.5", 2.5),  # the bound refuses it, with its rule
        ("t", "numbers", "1,10", [1.0, 10.0]),
        ("k", "numbers", "1,2.5", [1, 2.5]),
        ("until", "number", "none", None),
    ],
)
def test_an_argument_of_a_bound_is_read_by_its_kind(name: str, kind: str, text: str, value: Any) -> None:
    found = theory._value(name, kind, text)
    assert found == value
    assert type(found) is type(value)
    if name == "k":
        assert [type(each) for each in found] == [int, float]


@pytest.mark.parametrize(
    ("kind", "text", "rule"),
    [("flag", "yes", "true or false, got 'yes'"), ("code", "abs", "a function: give it in Python")],
)
def test_an_argument_of_a_bound_of_another_kind_is_refused(kind: str, text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        theory._value("it", kind, text)


@pytest.mark.parametrize(("text", "d", "found"), [("2", 1, [2.0]), ("2", 3, [2.0, 2.0, 2.0]), ("1,-2", 2, [1.0, -2.0])])
def test_a_position_is_one_number_for_all_coordinates_or_one_for_each(text: str, d: int, found: list[float]) -> None:
    assert dynamics._coordinates(text, d) == found


@pytest.mark.parametrize(("dt", "until", "seconds", "refused"), [
    (0.1, 1.0, 3600.0, False), (0.1, 1.0, 3601.0, True), (0.0, 1.0, 3601.0, False), (0.1, 0.0, 3601.0, False),
])  # fmt: skip
def test_a_simulation_may_take_an_hour(
    dt: float, until: float, seconds: float, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr("memgrad.dynamics.flows.expected_seconds", lambda flows, **size: asked.append(size) or seconds)
    if refused:
        with pytest.raises(ValueError, match=r"10 steps of 7 paths, about 1 h 0 min, and the limit is one hour"):
            dynamics._refuse_more_than_an_hour(2, 3, 7, until, dt)
    else:
        dynamics._refuse_more_than_an_hour(2, 3, 7, until, dt)
    # Zeros are left to the simulation, which has a better error for them.
    assert asked == ([{"steps": 10.0, "paths": 7, "dimension": 3}] if dt and until else [])


def test_weights_are_drawn_up_to_a_hundred_thousand_steps() -> None:
    chosen = {"inst": Mixture.parse("inst")}
    assert memories._check_weights(chosen, None, 100_000) is None  # type: ignore[func-returns-value]  # it did not raise
    with pytest.raises(ValueError, match="at most 100000, got 100001"):
        memories._check_weights(chosen, None, 100_001)


@pytest.mark.parametrize(("runs", "allowed"), [(None, True), (6, True), (5, False)])
def test_a_budget_has_room_for_three_learning_rates_of_each_method_that_follows_no_other(
    runs: int | None, allowed: bool
) -> None:
    candidates = [Candidate("a"), Candidate("b"), Candidate("c", like="a")]
    if allowed:
        assert tune._refuse_too_few(candidates, runs) is None  # type: ignore[func-returns-value]  # it did not raise
        return
    with pytest.raises(ValueError, match="the first learning rates to compare take 6 runs"):
        tune._refuse_too_few(candidates, runs)


SPEC = """
problem = "logistic"
steps = 60
[[methods]]
optimizer = "SGD"
lr = 1.0
[[methods]]
optimizer = "AdamW"
lr = 0.1
"""


def test_tuning_has_ten_epochs_unless_a_length_is_given_or_an_experiment_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(SPEC)
    for problem, settings, length in (
        ("logistic", {}, (None, 10)),
        ("logistic", {"steps": 5}, (5, None)),
        ("logistic", {"epochs": 3}, (None, 3)),
        ("mine.toml", {}, (60, None)),
        ("mine.toml", {"steps": 5}, (5, None)),
        ("mine.toml", {"epochs": 3}, (None, 3)),
    ):
        spec, candidates = tune.asked(problem, ["SGD", "AdamW"], None, None, {"batch": None, **settings})
        assert (spec.steps, spec.epochs) == length
        assert [each.name for each in candidates] == [method.name for method in spec.methods] == ["SGD", "AdamW"]
    spec, candidates = tune.asked("least-squares", None, Path("mine.toml"), None, {"batch": 4})
    assert (spec.problem, spec.batch, [each.lr for each in candidates]) == ("least-squares", 4, [1.0, 0.1])


@pytest.mark.parametrize(("methods", "like"), [(["SGD", "AdamW"], None), (None, "mine.toml")])
def test_a_nu_beside_methods_that_are_given_is_refused(
    methods: list[str] | None, like: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SPEC)
    with pytest.raises(
        ValueError, match=r"--nu is for the default portfolio, and other methods were given, got --nu 1\.5"
    ):
        tune.asked("logistic", methods, path if like else None, 1.5, {})


def test_an_engine_has_as_many_workers_as_are_asked_for() -> None:
    engine = chosen_engine("local", 3, None)
    try:
        assert engine.slots == 3
    finally:
        engine.close()


def test_a_file_is_named_after_its_problem_in_characters_that_every_disk_has() -> None:
    assert _file_name("a b/c:d-e_f.1") == "a-b-c-d-e_f.1"
    assert _file_name("") == "problem"
