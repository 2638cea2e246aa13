"""`memgrad data`, used as a person would use it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_datasets import IDX_FILES, digits, serving, write_files
from typer.testing import CliRunner, Result

from memgrad.cli import app
from memgrad.problems.datasets import cache, catalogue


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["data", *words], env={"COLUMNS": "140", "NO_COLOR": "1", "TERM": "dumb"})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty cache; the catalogue has one small data set that no server has."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("MEMGRAD_DATA", raising=False)
    monkeypatch.setenv("MEMGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(catalogue, "CATALOGUE", {"digits": digits()})
    monkeypatch.setattr(catalogue, "TEXTS", {})
    return tmp_path / "cache" / "datasets"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write_files(tmp_path / "files", IDX_FILES)


def test_list_says_what_there_is_and_what_is_cached(folder: Path, files: Path) -> None:
    assert "no, 0 MB" in run("list").stdout
    cache.obtain(digits(), folder=files)
    result = run("list")
    assert "yes, 0 MB" in result.stdout
    assert str(folder) in result.stdout
    (row,) = json.loads(run("list", "--json").stdout)
    assert (row["name"], row["rows"], row["input_shape"], row["classes"]) == ("digits", 5, [2, 2], 10)
    assert (row["cached"], row["path"]) == (True, str(folder / "digits.npz"))


def test_the_list_names_the_papers_four_sets_and_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    rows = json.loads(run("list", "--json").stdout)
    assert {row["name"]: row["rows"] for row in rows} == {
        "covtype": 581_012, "mnist": 70_000, "fashion-mnist": 70_000, "cifar-10": 60_000,
        "sotu": 10_761_645, "shakespeare": 5_057_239,
    }  # fmt: skip


def test_get_takes_a_folder_and_says_where_the_set_is(folder: Path, files: Path) -> None:
    result = run("get", "digits", "--from", str(files))
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"digits: complete, 0 MB, {folder / 'digits.npz'}\n"
    assert (folder / "digits.npz").exists()


def test_get_takes_the_folder_of_the_variable(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMGRAD_DATA", str(files))
    assert run("get", "digits").exit_code == 0


def test_get_tells_which_sources_failed_before_the_one_that_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    with serving() as server:
        monkeypatch.setattr(catalogue, "CATALOGUE", {"digits": digits(server.base)})
        result = run("get", "digits", "--from", str(tmp_path / "empty"))
    assert result.exit_code == 0
    assert "no file of Five digits is there" in result.stderr


def test_get_without_any_source_tells_the_ways_out_and_goes_on_with_the_next(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(digits(), name="other", title="Other digits", digest="0" * 64)
    monkeypatch.setattr(catalogue, "CATALOGUE", {"other": other, "digits": digits()})
    result = run("get", "other", "digits", "--from", str(files))
    assert result.exit_code == 1
    assert "Error: Other digits is not in the cache, and no source has it" in result.stderr
    assert "What you can do" in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout.startswith("digits: complete")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["get", "digit"], "did you mean 'digits'?"),
        (["path", "digit"], "did you mean 'digits'?"),
        (["verify", "digit"], "did you mean 'digits'?"),
        (["get", "digits", "--from", "/no/such/folder"], "must be an existing folder"),
        (["get"], "Missing argument"),
    ],
)
def test_bad_words_are_refused_with_the_rule(words: list[str], complaint: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.replace("│", " ").split())


def test_a_name_that_is_like_no_other_is_answered_by_the_known_ones_alone() -> None:
    result = run("get", "nope")
    assert result.exit_code == 2
    assert "unknown data set 'nope'. Known data sets: digits." in " ".join(result.stderr.replace("│", " ").split())
    assert "did you mean" not in result.stderr


def test_path_prints_the_file_and_tells_if_it_is_not_there(folder: Path, files: Path) -> None:
    result = run("path", "digits")
    assert (result.exit_code, result.stdout) == (1, f"{folder / 'digits.npz'}\n")
    assert "`memgrad data get digits` downloads it" in result.stderr
    cache.obtain(digits(), folder=files)
    result = run("path", "digits")
    assert (result.exit_code, result.stderr) == (0, "")


def test_verify_tells_complete_damaged_and_missing_apart(folder: Path, files: Path) -> None:
    assert (run("verify").exit_code, run("verify", "digits").exit_code) == (1, 1)
    assert run("verify").stdout.startswith("digits: missing")
    cache.obtain(digits(), folder=files)
    assert run("verify", "digits").stdout == "digits: complete\n"
    assert run("verify").exit_code == 0
    (folder / "digits.npz").write_bytes(b"no")
    result = run("verify")
    assert result.exit_code == 1
    assert result.stdout == "digits: damaged; `memgrad data get digits` downloads it\n"


def test_a_cache_that_cannot_be_written_is_told(folder: Path, files: Path) -> None:
    folder.parent.write_text("a file")
    result = run("get", "digits", "--from", str(files))
    assert result.exit_code == 1
    assert "set MEMGRAD_CACHE to a folder that can be written" in result.stderr
