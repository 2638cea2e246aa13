"""`memgrad risk`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memgrad.cli import app


def run(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["risk", *words])
    return found.exit_code, found.output


def test_it_prints_the_best_of_each_with_theory(tmp_path: Path) -> None:
    files = ["--figure", str(tmp_path / "risk.svg"), "--out", str(tmp_path / "risk.csv")]
    code, text = run("inst", "inst + 0.1*(1+k)^0.33*poly:4", "--steps", "500", *files)
    assert code == 0
    assert "0.665" in text  # zeta (2 - kappa) at kappa = 0.67
    assert "SGD converges for learning rates below 0.5223" in text
    assert (tmp_path / "risk.svg").stat().st_size > 1000
    assert (tmp_path / "risk.csv").read_text().startswith("k,inst,")


def test_numbers_as_json_and_divergence_with_its_step() -> None:
    code, text = run("inst", "sum*poly:4", "--steps", "2000", "--lr", "0.1", "--json")
    assert code == 1
    inst, nesterov = json.loads(text)["methods"]
    assert inst["diverged at step"] is None
    assert inst["exponent"] == pytest.approx(0.5, abs=0.05)
    assert nesterov["diverged at step"] > 0
    assert nesterov["final risk"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("inst", "--nu", "1"), "finite nu > 1, got nu=1.0"),
        (("inst", "--zeta", "0"), "finite zeta > 0, got zeta=0.0"),
        (("inst", "inst"), "each method is computed once"),
        (("exp:0.9 / (sqrt(exp:0.99))",), "without a second memory"),
        (("inst", "--lr", "a"), "learning rates are numbers"),
        (("inst", "--lr", "-1"), "finite learning rates lr > 0"),
        (("inst", "--batch", "0"), "integer batch >= 1"),
        (("inst", "--figure", "x.bmp"), "png, svg, pdf"),
        (("poly:x",), "poly:x"),
    ],
)
def test_bad_input_is_answered_by_name(words: tuple[str, ...], message: str) -> None:
    code, text = run(*words)
    assert code == 2
    assert message in " ".join(text.split())
