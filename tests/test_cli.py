"""The command line, used as a person would use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import memgrad
from memgrad.cli import app
from memgrad.memory import FAMILIES


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "140", "NO_COLOR": "1", "TERM": "dumb"})


def test_memories_lists_every_family() -> None:
    result = run("memories")
    assert result.exit_code == 0
    assert all(
        family.example in result.stdout and family.decay_formula in result.stdout for family in FAMILIES.values()
    )
    assert {row["class"] for row in json.loads(run("memories", "--json").stdout)} == {
        family.__name__ for family in FAMILIES.values()
    }


def test_passport_prints_memories_side_by_side() -> None:
    result = run("passport", "poly:2", "p=e", "--at", "1000")
    assert result.exit_code == 0
    # k/(p+1) and beta/(1-beta)
    assert "333.333 steps" in result.stdout
    assert "9 steps" in result.stdout


def test_passport_as_json_is_strict_json() -> None:
    result = run("passport", "poly:1", "p=inf", "--at", "1e2", "--json")
    plain, none = json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert (plain["memory"], plain["k"], plain["mean_age"]) == ("poly:1", 100, 50.0)
    assert none["local_degree"] is None


def test_plot_memories_writes_the_figure_in_each_format(tmp_path: Path) -> None:
    for ending, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        out = tmp_path / "new" / f"figure.{ending}"
        result = run("plot", "memories", "--out", str(out))
        assert result.exit_code == 0, result.stderr
        assert out.read_bytes().startswith(start)
        assert list(out.parent.glob(".*")) == []


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"memgrad {memgrad.__version__}\n"


@pytest.mark.parametrize(
    "words", [["--help"], ["memories", "--help"], ["passport", "--help"], ["plot", "memories", "--help"]]
)
def test_help_shows_what_to_type(words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 0
    assert words == ["--help"] or f"memgrad {' '.join(words[:-1])}" in result.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["passport", "ploy:2"], "Did you mean 'poly:2'?"),
        (["passport", "poly:2", "--at", "-1"], "got k=-1"),
        (["passport", "poly:2", "--at", "1.5"], "got k=1.5"),
        (["passport", "poly:2", "--at", "x"], "got 'x'"),
        (["passport", "decays:0,0.5", "--at", "2"], "asked for step k=2"),
        (["plot", "memories", "--out", "figure.gif"], "png, svg, pdf"),
        (["plot", "memories", "power:0.8"], "discrete memory"),
        (["plot", "memories", "--time", "0"], "got t=0.0"),
    ],
)
def test_bad_input_is_refused_with_the_value_and_the_rule(words: list[str], complaint: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.output


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("plot", "memories", "--out", str(tmp_path / "file" / "figure.png"))
    assert result.exit_code == 1
    assert str(tmp_path / "file") in result.stderr.replace("\n", "")
