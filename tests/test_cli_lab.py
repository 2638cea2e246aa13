"""The laboratory's commands, used as a person would use them."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from memgrad.cli import app


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "160", "NO_COLOR": "1", "TERM": "dumb"})


def test_simulate_writes_a_table_a_figure_and_the_exact_numbers(tmp_path: Path) -> None:
    out, figure = tmp_path / "run.csv", tmp_path / "run.png"
    words = ("--objective", "quadratic:1", "--noise", "1", "--until", "5", "--dt", "0.05", "--paths", "400")
    result = run("simulate", "poly:3", "3/t", *words, "--out", str(out), "--figure", str(figure))
    assert result.exit_code == 0, result.output
    # f = x^2/2. At t = 5 the closed forms give E x^2 = .6002221373 for t^3, and Var V = .6126409559 for 3/t.
    assert "0.3001" in result.stdout
    assert f"{math.sqrt(0.6126409559):.4g}" in result.stdout
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["flow"] for row in rows} == {"poly:3", "3/t"}
    last = [row for row in rows if row["flow"] == "3/t"][-1]
    # The sample standard deviation of 400 normal numbers is off by 1/sqrt(800) = 3.5 %; four of these.
    assert float(last["sd_v0"]) == pytest.approx(math.sqrt(0.6126409559), rel=0.15)
    about = json.loads(out.with_suffix(".json").read_text())
    assert about["flows"]["3/t"]["seed"] == 0
    assert figure.stat().st_size > 10_000


def test_simulate_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    words = ("simulate", "gd", "amplified", "0.5", "--objective", "quartic", "--until", "1", "--paths", "50", "--out")
    one, two, other = (tmp_path / f"{name}.csv" for name in ("one", "two", "other"))
    assert [run(*words, str(path)).exit_code for path in (one, two)] == [0, 0]
    assert run(*words, str(other), "--seed", "1").exit_code == 0
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes() != other.read_bytes()


def test_a_simulation_that_diverges_is_not_a_success() -> None:
    result = run(
        "simulate", "gd", "--objective", "quartic", "--start", "30", "--until", "5", "--dt", "0.1", "--paths", "4"
    )
    assert result.exit_code == 1
    assert "did not stay finite" in result.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("3/t", "--dt", "0"), "dt must be finite and > 0"),
        (("poly:2", "--paths", "0"), "paths must be an integer >= 1"),
        (("poly:0.4",), "p > 1/2"),
        (("poly:2", "--objective", "nonsense"), "nonsense"),
        (("poly:2", "--start", "1,2,3"), "got 3"),
        (("poly:2", "--start", "one"), "'one'"),
        (("poly:2", "poly:2"), "once"),
        (("pol:2",), "pol"),
        (("poly:2", "--out", "run.txt"), "run.txt"),
        (("poly:2", "--figure", "run.txt"), "run.txt"),
        (("poly:2", "--scheme", "magic"), "magic"),
    ],
)
def test_simulate_refuses_by_name(words: tuple[str, ...], complaint: str) -> None:
    result = run("simulate", *words)
    assert result.exit_code == 2
    assert complaint in result.output


def test_bound_lists_describes_and_computes() -> None:
    assert "memsgd" in run("bound").stdout
    assert "Lipschitz" in run("bound", "memsgd").stdout
    result = run(
        "bound",
        "memsgd",
        "degree=2",
        "lr=0.5",
        "smoothness=1",
        "distance=1",
        "noise=0",
        "dimension=1",
        "k=0,9",
        "--json",
    )
    assert result.exit_code == 0, result.output
    # (p-1)^2 |x0-x*|^2 / (2 eta p (k+p-1))
    assert json.loads(result.stdout)["value"] == [0.5, 0.05]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("mesgd",), "memsgd"),
        (("memsgd", "degree"), "name=value"),
        (("memsgd", "degree=two"), "'two'"),
        (("memsgd", "degree=2", "degree=3"), "twice"),
        (("memsgd", "degree=2"), "needs"),
        (("polynomial", "t=1", "degree=1.5", "distance=1", "noise=0", "dimension=1"), "p >= 1 + 1/tau"),
    ],
)
def test_bound_refuses_by_name(words: tuple[str, ...], complaint: str) -> None:
    result = run("bound", *words)
    assert result.exit_code == 2
    assert complaint in result.output


def test_ctrl_c_is_answered_by_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memgrad.dynamics.simulate_together", interrupted)
    result = run("simulate", "poly:2", "--out", str(tmp_path / "run.csv"))
    assert result.exit_code == 130
    assert "Interrupted" in result.output
    assert list(tmp_path.iterdir()) == []
