"""The command line, used as a person would use it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
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


def test_plot_memories_draws_weights_and_gains_at_a_step(tmp_path: Path) -> None:
    out = tmp_path / "weights.svg"
    result = run("plot", "memories", "inst + (1+k)^0.15*poly:8", "exp:0.9", "--at", "100", "--out", str(out))
    assert result.exit_code == 0, result.stderr
    assert f"gain {1 + 101**0.15:.4g}" in out.read_text()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("2*inst", "--time", "5"), "given by --at, not at a time, got --time 5"),
        (("--at", "5"), "got --at 5 and no memory"),
        (("inst", "--at", "1e6"), "of at most 100000, got 1000000"),
    ],
)
def test_plot_memories_refuses_what_has_no_weights_to_draw(
    words: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    result = run("plot", "memories", *words, "--out", str(tmp_path / "no.svg"))
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"memgrad {memgrad.__version__}\n"


def commands(group: Any, *before: str) -> Iterator[tuple[str, ...]]:
    """The words of all commands, also of groups of them."""
    for name, command in group.commands.items():
        yield from commands(command, *before, name) if hasattr(command, "commands") else [(*before, name)]


@pytest.mark.parametrize("words", [*commands(get_command(app))], ids=" ".join)
def test_help_of_each_command_shows_what_to_type_and_flags_as_flags(words: tuple[str, ...]) -> None:
    result = run(*words, "--help")
    assert result.exit_code == 0
    _, examples = result.stdout.split("For example:")
    assert f"memgrad {' '.join(words)}" in examples
    assert "<bool>" not in result.stdout
    assert "...}..." not in result.stdout
    assert "...]..." not in result.stdout


def test_help_groups_the_commands() -> None:
    text = run("--help").stdout
    assert "<bool>" not in text
    panels = [line.strip("╭─╮ ") for line in text.splitlines() if line.startswith("╭")]
    assert panels == ["Options", "Understand", "Train and compare", "Keep results", "The paper", "Data"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["passport", "ploy:2"], "did you mean 'poly:2'?"),
        (["passport", "poly:2", "--at", "-1"], "a count is an integer >= 0, such as 1000 or 1e6, got '-1'"),
        (["passport", "poly:2", "--at", "1.5"], "got '1.5'"),
        (["passport", "poly:2", "--at", "x"], "got 'x'"),
        (["passport", "poly:2", "--at", "inf"], "got 'inf'"),
        (["passport", "poly:2", "--at", "9" * 5000], "a count is an integer"),
        (["passport", "log:0"], "memory 'log:0' gives 0 without a name, but log takes h by name, as in h=0.5"),
        (["passport", "exp:0.9,3"], "gives 3 without a name, but exp takes "),
        (["passport", "decays:0,0.5", "--at", "2"], "asked for step k=2"),
        (["plot", "memories", "--out", "figure.gif"], "png, svg, pdf"),
        (["plot", "memories", "power:0.8"], "discrete memory"),
        (["plot", "memories", "--time", "0"], "got t=0.0"),
        (["risk", "inst", "--nu", "x", "--zeta", "0.5"], "Invalid value for '--nu': "),
        (["risk", "inst", "--nu", "x", "--zeta", "0.5"], "got 'x'."),
        (["explore", "--preset", "99"], "got '99'."),
        (["explore", "--port", "8000"], "--port is for --serve"),
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
    assert f"{tmp_path / 'file'}: a folder is needed here, and there is a file" in result.stderr.replace("\n", "")
