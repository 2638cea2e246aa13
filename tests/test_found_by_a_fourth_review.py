"""Faults that a reviewer found in design, plans, comparisons, text forms and audits: the cases that showed them."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import chunk_from
from typer.testing import CliRunner

from memgrad import audit
from memgrad.cli import app
from memgrad.dynamics import Spectrum, exact_risk, sgd_limit
from memgrad.experiments import Results, Spec, Store
from memgrad.experiments.driver import facts_of
from memgrad.experiments.planning.plan import expand, runs_in
from memgrad.method import Method, Schedule
from memgrad.tables import write_table
from memgrad.theory import design
from memgrad.theory.design import named_methods


def run(*words: str) -> str:
    found = CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    return re.sub(r"[\s│]+", " ", found.output)


def test_named_methods_go_beyond_the_limit_of_sgd() -> None:
    spectrum, steps, batch = Spectrum.power_law(1.5, 0.5), 64, 100_000
    limit = sgd_limit(spectrum, batch=batch)
    for each in named_methods(spectrum, 1.5, noise=0.0, batch=batch, steps=steps):
        schedule = None if each.schedule == "constant" else 1 - np.arange(steps) / steps
        rates = each.lr * np.array([0.5, 1, 2, 4])
        found = exact_risk(each.method, spectrum, lr=rates, steps=steps, batch=batch, schedule=schedule).final[0]
        assert found.min() == pytest.approx(each.risk, rel=1e-12), each.name
        if each.name == "exp":
            assert each.lr > 1.5 * limit


def test_a_design_takes_numbers_of_numpy_and_much_noise() -> None:
    found = design(np.float64(1.5), np.float64(0.5), steps=16, iterations=3)
    assert found.nu == 1.5
    noisy = design(1.5, 0.5, noise=1e4, steps=16, iterations=100)
    assert noisy.best.risk <= 1.001 * noisy.named[0].risk


SHORT = """
problem = "least-squares"
steps = {steps}
seeds = 1
schedule = "linear"
[[methods]]
optimizer = "RMSprop"
lr = 0.01
"""


@pytest.mark.parametrize("steps", [1, 3])
def test_a_plan_may_take_longer_than_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr("memgrad.experiments.planning.preview.SECONDS", 0.05)
    (tmp_path / "short.toml").write_text(SHORT.format(steps=steps))
    assert "1 of 1 runs are left" in run("plan", str(tmp_path / "short.toml"), "--store", str(tmp_path / "store"))


TABLE: dict[str, Any] = {
    "problem": "covtype-softmax",
    "sample": True,
    "steps": 10,
    "seeds": 3,
    "evaluate": {"times": 2},
    "metrics": ["loss", "accuracy"],
}
METHODS = [{"name": name, "optimizer": "SGD", "lr": lr} for name, lr in (("A", 0.1), ("B", 0.2), ("C", 0.3))]


def test_what_selects_by_no_loss_says_whether_more_is_better() -> None:
    with pytest.raises(ValueError, match="say whether less or more of 'accuracy' is better: goal = \"min\" or"):
        Spec.of({**TABLE, "select": {"metric": "accuracy"}, "methods": METHODS})
    for select in ({"metric": "accuracy", "goal": "max"}, {"metric": "loss"}, {"metric": "loss@poly:2"}):
        metrics = ["loss", "accuracy", "loss@poly:2"]
        Spec.of({**TABLE, "metrics": metrics, "select": select, "methods": METHODS})


def results(folder: Path, methods: list[dict[str, Any]], *, diverged: bool) -> Results:
    spec = Spec.of({**TABLE, "select": {"metric": "accuracy", "goal": "max"}, "methods": methods})
    store = Store.open(folder)
    table = expand(spec, facts_of(spec.problem_choice, store, keep=True), {})
    lost = {table["C"][0.3][0].digest: 5} if diverged else {}
    loss = lambda run, step: 1 + 0.1 * run.seed + run.lr * (1 + run.seed % 2)  # noqa: E731
    store.write(chunk_from(runs_in(table), loss, lost))
    return Results.read(spec, store, table)


def test_a_run_that_diverged_changes_no_other_comparison(tmp_path: Path) -> None:
    for reference in ("A", "C"):
        whole, part = (
            {
                row.method: row
                for row in results(tmp_path / f"{reference}{d}", METHODS, diverged=d).compare("accuracy", reference)
            }
            for d in (False, True)
        )
        assert whole["A"].logarithmic
        assert part["A"].logarithmic
        if reference == "A":
            assert whole["B"].difference == part["B"].difference


def test_methods_without_a_common_seed_are_named(tmp_path: Path) -> None:
    lines = [f"{name} = {json.dumps(value)}" for name, value in TABLE.items() if name != "evaluate"]
    text = "\n".join([*lines, "[evaluate]", "times = 2"])
    for method in ({**METHODS[0], "seeds": [7, 8]}, METHODS[1]):
        text += "\n[[methods]]\n" + "\n".join(f"{name} = {json.dumps(value)}" for name, value in method.items())
    path, store = tmp_path / "apart.toml", Store.open(tmp_path / "store")
    path.write_text(text)
    spec = Spec.load(path)
    store.write(chunk_from(runs_in(expand(spec, facts_of(spec.problem_choice, store, keep=True), {}))))
    assert "No finished seed in common with A: B. Pass --reference" in run(
        "compare", str(path), "--store", str(store.path)
    )


def test_settings_beside_a_table_do_not_replace_another_file(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text("precious")
    write_table({"k": [1]}, tmp_path / "d.csv", about={"nu": 1})
    assert (tmp_path / "d.json").read_text() == "precious"
    assert json.loads((tmp_path / "d.csv.json").read_text()) == {"nu": 1}
    write_table({"k": [1]}, tmp_path / "e.csv", about={"nu": 1})
    write_table({"k": [1]}, tmp_path / "e.csv", about={"nu": 2})
    assert json.loads((tmp_path / "e.json").read_text()) == {"nu": 2}


def test_an_option_of_a_schedule_is_given_once() -> None:
    with pytest.raises(ValueError, match="gives warmup twice"):
        Schedule.parse("linear(warmup=0.05,warmup=0.5)")


@pytest.mark.parametrize(
    "text",
    ["inst / (sqrt(exp:0.9)", "inst / sqrt(exp:0.9))", "inst / ((sqrt(exp:0.9))", "inst / (sqrt(exp:0.9)) + 1e-08"],
)
def test_parentheses_of_a_denominator_are_balanced(text: str) -> None:
    with pytest.raises(ValueError, match="which is not of the form"):
        Method.parse(text)


@pytest.mark.parametrize(
    "text", ["(1+k)^0.5*sqrt(poly:1)", "((1+k)^0.5*sqrt(poly:1) + 1e-08)", "2*sqrt(poly:1)", "( sqrt(exp:0.9) )"]
)
def test_roots_of_a_denominator_may_have_parentheses_of_their_own(text: str) -> None:
    method = Method.parse(f"inst / {text}")
    assert Method.parse(str(method)) == method
    assert method.second_memory is not None


def test_decay_of_the_gradients_is_not_called_either_with_momentum() -> None:
    words = str(audit(lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9, weight_decay=5), 40))
    assert "the same here" not in words
    assert "weight decay: found, 5 x is added to the gradients (L2)" in words
    assert "the same here" in str(audit(lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1), 40))


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = run("explore", "--serve", "--no-browser", "--port", str(port))
    assert f"port {port} cannot be used: Address already in use. Pass another --port, or 0 for any." in said
