"""The laboratory's commands, used as a person would use them."""

from __future__ import annotations

import csv
import json
import math
import re
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


def test_a_long_simulation_names_its_time_and_its_limit() -> None:
    result = run("simulate", "poly:2", "--until", "1e9")
    assert result.exit_code == 2
    words = " ".join(result.output.replace("│", " ").split())
    assert (
        "--until 1e+09 with --dt 0.01 is 1e+11 steps of 1000 paths, about 69.4 days, and the limit is one hour" in words
    )


@pytest.mark.parametrize(
    "memory", ["power:0.8", "log", "poly:1.5", "poly:7", "stretch:0.3", "exp:0.999", "inst + (1+k)^0.15*poly:8"]
)
@pytest.mark.parametrize("k", ["1e12", "1e15"])
def test_a_passport_answers_at_any_step(memory: str, k: str) -> None:
    result = run("passport", memory, "--at", k, "--json")
    assert result.exit_code == 0, result.output
    (passport,) = json.loads(result.stdout)
    assert passport["k"] == int(float(k))
    assert 0 < passport["mean_age"] < passport["k"]


def test_a_simulation_in_a_pipe_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("simulate", "poly:2", "--until", "2", "--paths", "10")
    assert run(*words).stderr == ""  # it is over before there is something to tell
    monkeypatch.setattr("memgrad.cli.terminal.LINES_EVERY", 0.0)
    lines = run(*words).stderr.splitlines()
    assert re.fullmatch(r"10 paths: \d+ %(, [\d.]+ s left)?", lines[0])
    assert lines[-1] == "10 paths: 100 %, 0 s left"


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
        (("poly:2", "--paths", "1.5"), "a count is an integer >= 0, such as 1000 or 1e6, got '1.5'"),
        (("0/t",), "a viscosity q/t needs a finite q > 0, got q=0.0"),
        (("nan/t",), "a viscosity q/t needs a finite q > 0, got q=nan"),
        (("log:0",), "log takes h by name"),
        (("pol:2",), "pol"),
        (("poly:2", "--out", "run.txt"), "run.txt"),
        (("poly:2", "--figure", "run.txt"), "run.txt"),
        (("poly:2", "--scheme", "magic"), "magic"),
        (("poly:2", "--noise", "1e308"), "at most 1e150 so that its variance is finite too, got 1e+308"),
        (("poly:2", "--noise", "nan"), "noise must be finite"),
        (("poly:2", "--until", "1e9"), "1e+11 steps of 1000 paths, about"),
        (("poly:2", "--until", "1e300"), "or pass --yes"),
        (("poly:2", "--until", "1e300", "--yes"), "1e+302 steps, more than can be counted"),
        (("poly:2", "--dt", "1e-320", "--yes"), "more than can be counted"),
        (("0.5", "--scheme", "euler-maruyama", "--dt", "4"), "is unstable for"),
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
