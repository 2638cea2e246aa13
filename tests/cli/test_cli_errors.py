"""Errors on the command line: what is printed, and the exit code."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from memgrad.cli import app
from memgrad.cli.terminal import refusing
from memgrad.problems.datasets.sources import named_folder
from memgrad.problems.datasets.texts import digest_of_text


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "Interrupted: no incomplete file is left."),
        (MemoryError("Unable to allocate 8 TiB"), 1, "Error: not enough memory (Unable to allocate 8 TiB)."),
        (MemoryError(), 1, "Error: not enough memory. Ask for less at a time."),
        (ImportError("memgrad.paper needs scipy: pip install 'memgrad[lab]'"), 1, "Error: memgrad.paper needs scipy"),
        (BrokenPipeError(32, "Broken pipe"), 1, ""),
        (PermissionError(13, "Permission denied", "rows.csv"), 1, "Error: Permission denied (rows.csv)."),
        (FileExistsError(17, "File exists", "runs"), 1, "Error: runs: a folder is needed here, and there is a file."),
        (NotADirectoryError(20, "Not a directory", "a/b"), 1, "Error: a/b: a folder is needed here"),
        (OSError("the disk is on fire"), 1, "Error: the disk is on fire"),
    ],
)
def test_an_error_is_a_line_and_an_exit_code(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as exit_, refusing():
        raise error
    assert exit_.value.exit_code == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert bool(printed.err) == bool(words)


@pytest.mark.parametrize("error", [ValueError("no"), TypeError("no"), NotImplementedError("no"), OverflowError("no")])
def test_bad_input_is_refused_as_a_parameter(error: Exception) -> None:
    with pytest.raises(typer.BadParameter, match="no"), refusing():
        raise error


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        ("degree", "arguments are written name=value"),
        ("degree=2,3", "degree is one number"),
        ("degree=two", "degree is a number"),
        ("lr=0.1", "lr is given twice"),
    ],
)
def test_an_argument_of_a_bound_that_cannot_be_read_is_refused(word: str, rule: str) -> None:
    found = CliRunner().invoke(app, ["bound", "memsgd", "lr=0.1", word], env={"COLUMNS": "200"})
    assert found.exit_code == 2
    assert rule in found.output


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        ("k=nan", "memsgd needs k (step, counted from 0, or an array of steps) to be an integer >= 0, got k=nan."),
        ("k=inf", "to be an integer >= 0, got k=inf."),
        ("dimension=nan", "to be an integer >= 1, got dimension=nan."),
    ],
)
def test_an_integer_of_a_bound_that_is_not_finite_is_refused_by_its_name(word: str, rule: str) -> None:
    given = {"degree": "2", "lr": "0.1", "smoothness": "1", "distance": "1", "noise": "0", "dimension": "1", "k": "9"}
    given |= dict([word.split("=")])
    words = [f"{name}={value}" for name, value in given.items()]
    found = CliRunner().invoke(app, ["bound", "memsgd", *words], env={"COLUMNS": "200"})
    assert found.exit_code == 2
    assert rule in found.output


@pytest.mark.parametrize("error", [ValueError("a fault"), KeyError("a fault"), OSError("a fault")])
def test_an_error_keeps_its_traceback_if_the_environment_asks_for_it(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMGRAD_TRACEBACK", "1")
    with pytest.raises(type(error), match="a fault"), refusing():
        raise error


def test_a_home_that_does_not_exist_is_answered_by_name() -> None:
    with pytest.raises(ValueError, match="existing folder with files of data sets, got '~nosuchuser/x'"):
        named_folder("~nosuchuser/x")
    with pytest.raises(ValueError, match=r"~nosuchuser/x\.txt"):
        digest_of_text("~nosuchuser/x.txt")
