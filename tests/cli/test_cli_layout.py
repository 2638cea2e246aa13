"""What is printed is complete at any width: no number, formula or name is cut or broken."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memgrad.cli import app
from memgrad.cli.layout import show

WIDTHS = (40, 60, 80, 100, 160, None)
COMMANDS = {
    "memories": ("memories",),
    "passport": ("passport", "poly:2", "exp:0.9", "stretch:1.5", "log", "p=inf", "power:0.8"),
    "simulate": ("simulate", "poly:3", "3/t", "--until", "1", "--paths", "10"),
    "bound": ("bound", "polynomial", "degree=3", "distance=1", "noise=0.1", "dimension=2", "t=1,10,100"),
    "bound memsgd": ("bound", "memsgd"),
    "bounds": ("bound",),
    "data": ("data", "list"),
}


def printed(*words: str, width: int | None) -> str:
    """What a command prints; into a pipe whose width nobody knows, if there is none."""
    env = {"COLUMNS": None if width is None else str(width), "NO_COLOR": "1", "TERM": "dumb"}
    env |= {"MEMGRAD_CACHE": str(Path(__file__).parent / "nothing"), "MEMGRAD_DATA": None}  # others fill the real one
    result = CliRunner().invoke(app, list(words), env=env)
    assert result.exit_code == 0, result.output
    return result.stdout


@cache
def wide(name: str) -> str:
    """What a command prints where it has all the room it needs."""
    return printed(*COMMANDS[name], width=500)


def cells(table: str) -> set[str]:
    """The cells of a table that has all the room it needs."""
    found = {cell.strip() for line in table.splitlines() if line[:1] == "│" for cell in line.split("│")}
    assert found
    return found


@pytest.mark.most(10)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_number_and_formula_is_there_unbroken(name: str, width: int | None) -> None:
    text, found = printed(*COMMANDS[name], width=width), cells(wide(name))
    lines = text.splitlines()
    prose = name in ("bounds", "bound memsgd")  # words may be on different lines, but each is whole
    for cell in found:
        for part in cell.split() if prose else [cell]:
            assert any(part in line for line in lines), part
    assert "…" not in text
    if width is not None and name != "data":  # which ends with a path
        assert max(map(len, lines)) <= max(width, 4 + max(map(len, found)))


@pytest.mark.parametrize("width", WIDTHS)
def test_cells_of_any_kind_survive(
    width: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if width is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", str(width))
    long = "1" * 60
    rows = [("[bold]name[/]", "-1.234e-300 [-2.5e+100, nan]", "", "a few words " * 5), ("b" * 50, long, "x\ny", "")]
    show(("one", "a rather long heading of it", "three", "words"), rows, title="[title]", prose={"words"})
    lines = capsys.readouterr().out.splitlines()
    for whole in ("[title]", "[bold]name[/]", "-1.234e-300 [-2.5e+100, nan]", "b" * 50, long):
        assert any(whole in line for line in lines), whole
    assert sum(line.count("few") for line in lines) == 5


def test_a_pipe_without_a_width_gets_one_line_for_each_row() -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}
    found = subprocess.run(
        [sys.executable, "-m", "memgrad", *COMMANDS["passport"]], env=env, capture_output=True, text=True, check=True
    )
    (line,) = [line for line in found.stdout.splitlines() if "mean age" in line]
    assert len(re.findall(r"[\d.e-]+ steps", line)) == 6
