"""The commands of docs/getting_started.md can be typed as they stand there. Its snippets are doctests."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memgrad.cli import app

ROOT = Path(__file__).parent.parent
COMMANDS = re.findall(r"^\$ memgrad (.*)$", (ROOT / "docs" / "getting_started.md").read_text(), re.MULTILINE)


def memgrad(command: str) -> str:
    done = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "160", "NO_COLOR": "1", "TERM": "dumb"})
    assert done.exit_code == 0, f"memgrad {command}: {done.output}"
    return done.output


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(ROOT / "examples" / "my_problem.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("memgrad.experiments.planning.preview.SECONDS", 0.01)  # plans say the cost less precisely
    return tmp_path


def test_the_commands_that_do_not_train_work_and_show_what_is_said(folder: Path) -> None:
    shown = {command: memgrad(command) for command in COMMANDS if not command.startswith(("run", "compare"))}
    assert "333.333 steps" in shown["passport poly:2 exp:0.9 --at 1000"]
    assert "105 of 105 runs" in shown["plan first.toml"]
    assert (folder / "cloud.png").exists()
    assert (folder / "mine.toml").exists()


@pytest.mark.slow
def test_the_first_comparison_ends_as_is_said(folder: Path) -> None:
    shown = [memgrad(command) for command in COMMANDS if "first.toml" in command][-1]
    assert (folder / "first.svg").exists()
    # Only the column of ratios starts with these: losses are below 0.1.
    ratios = [float(found) for found in re.findall(r"\b(0\.9\d+|1\.0\d+) \[", shown)]
    assert len(ratios) == 3
    assert all(0.95 < ratio < 1.05 for ratio in ratios)
    assert min(ratios) == ratios[-1]  # AdamW
    assert "At the edge" not in shown
