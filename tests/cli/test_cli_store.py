"""`memgrad ls`, `export`, `gc` and `compare`, used as a person would use them."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
from pyarrow import parquet
from tiny_runs import chunk_from, run_of
from typer.testing import CliRunner, Result

from memgrad.cli import app
from memgrad.experiments.driver import results_of
from memgrad.experiments.planning.plan import Table, runs_in
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.storing.store import Store

SPEC = """
name = "tiny"
problem = "logistic"
steps = 30
seeds = 3
metrics = ["loss"]
evaluate.times = 4
[[methods]]
optimizer = "SGD"
lr = [0.1, 1]
[[methods]]
name = "memory"
optimizer = "MemSGD"
memory = "poly:2"
lr = "best of SGD"
"""


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def said(result: Result) -> str:
    return " ".join(result.stderr.replace("│", " ").split())


def loss(run: Run, step: int) -> float:
    """SGD is best at 1, and memory is a third lower for each seed but for a little."""
    level = (1.0 + run.seed) * (2.0 if run.lr == 0.1 else 1.0)
    return level if run.recipe.optimizer == "SGD" else level * math.exp(-0.4 + 0.01 * run.seed)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def folder(tmp_path: Path, spec: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store with all runs of the experiment, the first of which, at 0.1, diverged."""
    monkeypatch.setenv("MEMGRAD_STORE", str(tmp_path / "store"))
    store = Store.open(tmp_path / "store")
    for _ in range(2):  # memory's runs are known when SGD's are there
        runs = [*results_of(Spec.load(spec), store).missing()]
        store.write(chunk_from(runs, loss, {run.digest: 20 for run in runs if run.lr == 0.1 and run.seed == 0}))
    return tmp_path / "store"


def table_of(spec: Path, folder: Path) -> Table:
    return results_of(Spec.load(spec), Store.open(folder)).runs  # type: ignore[return-value]  # as it was made


def test_ls_counts_what_is_there(folder: Path) -> None:
    found = json.loads(run("ls", "--json").stdout)
    assert (found["runs"], found["chunks"], found["checkpoints"], found["damaged"]) == (9, 2, [], [])
    assert found["rows"] == 9 * 4 * 2 - 4  # without the last two of both metrics of the one that diverged
    assert found["bytes"] == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert found["holdings"] == [
        {"problem": "logistic", "optimizer": "MemSGD", "memory": "poly:2", "runs": 3, "step_sizes": 1, "seeds": 3,
         "diverged": 0},
        {"problem": "logistic", "optimizer": "SGD", "memory": "", "runs": 6, "step_sizes": 2, "seeds": 3,
         "diverged": 1},
    ]  # fmt: skip
    result = run("ls")
    assert "poly:2" in result.stdout
    assert f"{folder}: 9 runs, 68 rows in 2 chunks, 0 checkpoints" in result.stdout


def test_ls_names_damaged_files(folder: Path) -> None:
    path = next((folder / "chunks").iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    result = run("ls")
    assert f"damaged: {path}" in result.stderr
    assert "`memgrad run` trains its runs again" in result.stderr


def test_an_empty_store_is_listed(tmp_path: Path) -> None:
    Store.open(tmp_path / "empty")
    result = run("ls", "--store", tmp_path / "empty")
    assert result.exit_code == 0
    assert "0 runs, 0 rows" in result.stdout


def test_export_joins_rows_with_their_runs(folder: Path, tmp_path: Path) -> None:
    result = run("export", tmp_path / "rows.csv")
    assert result.stdout == f"wrote {tmp_path / 'rows.csv'}: 68 rows\n"
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    (row,) = (r for r in rows if (r["optimizer"], r["seed"], r["step"], r["metric"]) == ("MemSGD", "2", "30", "loss"))
    assert (row["problem"], row["memory"], row["lr"], row["diverged_at"]) == ("logistic", "poly:2", "1.0", "nan")
    assert float(row["value"]) == 3 * math.exp(-0.38)
    assert json.loads(row["options"])["weight_decay"] == 0
    assert run("export", "--csv").stdout == (tmp_path / "rows.csv").read_text()
    assert run("export", tmp_path / "again.csv", "--csv").exit_code == 0


def test_export_of_an_experiment_names_its_methods(folder: Path, spec: Path, tmp_path: Path) -> None:
    other = Spec.parse(SPEC.replace("poly:2", "poly:9"))
    store = Store.open(folder)
    store.write(chunk_from(results_of(other, store).missing(), loss))
    run("export", tmp_path / "rows.parquet", "--spec", spec)
    rows = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    assert len(rows) == 68
    assert {(row["method"], row["lr"], row["selected"]) for row in rows} == {
        ("SGD", 0.1, False), ("SGD", 1.0, True), ("memory", 1.0, True)
    }  # fmt: skip
    assert "68 rows" not in run("export", tmp_path / "all.csv").stdout


def test_gc_removes_what_is_not_needed_and_nothing_else(folder: Path, spec: Path) -> None:
    store = Store.open(folder)
    runs = runs_in(table_of(spec, folder))
    copy = Store.open(folder.parent / "copy").write(chunk_from(runs[:2], loss))
    (folder / "chunks" / copy.name).write_bytes(copy.read_bytes())
    store.save_checkpoint("done", b"x" * 2000, runs=[run.digest for run in runs[:2]])
    store.save_checkpoint("going", b"x", runs=[runs[0].digest, "0" * 32])
    store.save_checkpoint("unknown", b"x")
    (folder / "chunks" / ".abc.parquet.123.tmp").write_text("half")
    (folder / "chunks" / ("0" * 32 + ".parquet")).write_text("damaged")
    (folder / "chunks" / "mine.txt").write_text("precious")
    before = set(folder.rglob("*"))
    would = run("gc", "--dry-run")
    assert set(folder.rglob("*")) == before
    result = run("gc")
    assert result.exit_code == 0, result.stderr
    for words in (would.stdout, result.stdout):
        assert "checkpoints/done.npz: its runs are finished" in words
        assert ".abc.parquet.123.tmp: unfinished" in words
        assert "damaged" in words
        assert "in other chunks too" in words
        assert "5 files" in words
    left = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"going.npz", "unknown.npz", "mine.txt"} <= left
    assert not {"done.npz", "done.json", ".abc.parquet.123.tmp", "0" * 32 + ".parquet"} & left
    assert Store.open(folder).digests().keys() == {run.digest for run in runs}
    assert run("gc").stdout == "0 files, 0.0 kB, were removed\n"


def test_gc_removes_rows_only_if_told_twice(folder: Path, spec: Path, tmp_path: Path) -> None:
    (tmp_path / "less.toml").write_text(SPEC.split("[[methods]]\nname", maxsplit=1)[0])
    result = run("gc", "--keep", tmp_path / "less.toml")
    assert result.exit_code == 2
    assert "--keep removes rows permanently: add --yes to confirm" in said(result)
    assert "1 files" in run("gc", "--keep", tmp_path / "less.toml", "--dry-run").stdout
    assert len(Store.open(folder).digests()) == 9
    assert run("gc", "--keep", spec, "--yes").stdout.startswith("0 files")
    assert "none of its runs is to be kept" in run("gc", "--keep", tmp_path / "less.toml", "--yes").stdout
    assert len(Store.open(folder).digests()) == 6


def test_gc_merges_small_files_if_asked(folder: Path) -> None:
    store = Store.open(folder)
    for seed in (100, 101, 102):
        store.write(chunk_from([run_of(seed=seed)]))
    rows, files = len(store.read()), len(store.headers())
    refused = run("gc", "--merge", "--dry-run")
    assert refused.exit_code == 2
    assert "--merge rewrites files: leave out --dry-run" in said(refused)
    result = run("gc", "--merge")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("files of rows were merged into 2\n")
    assert len(store.headers()) < files
    assert len(store.read()) == rows
    assert run("gc", "--merge").stdout.endswith("0 files of rows were merged into 0\n")


def test_gc_does_not_guess_which_runs_belong_to_an_unfinished_experiment(tmp_path: Path, spec: Path) -> None:
    Store.open(tmp_path / "empty")
    result = run("gc", "--store", tmp_path / "empty", "--keep", spec, "--yes")
    assert "are known only after their step size is selected" in said(result)


def test_gc_waits_for_no_one(folder: Path) -> None:
    with Store.open(folder).writing():
        result = run("gc")
        assert run("gc", "--dry-run").exit_code == 0
    assert result.exit_code == 1
    assert "is being written by process" in result.stderr


def test_compare_shows_ratios_with_intervals_and_draws_them(folder: Path, spec: Path, tmp_path: Path) -> None:
    result = run("compare", spec, "--out", tmp_path / "figure.svg")
    assert result.exit_code == 0, result.stderr
    found = json.loads(run("compare", spec, "--json").stdout)
    sgd, memory = found["methods"]
    assert (sgd["method"], sgd["lr"], sgd["final"]["mean"], sgd["diverged"]) == ("SGD", 1.0, 2.0, 1)
    assert memory["ratio"]["mean"] == pytest.approx(math.exp(-0.39))
    # Differences of logarithms -0.40, -0.39 and -0.38: a standard error of 0.01/sqrt(3), and t = 4.3027 of 2 degrees.
    half = 4.302652729749464 * 0.01 / math.sqrt(3)
    assert memory["difference"]["high"] == pytest.approx(-0.39 + half)
    assert (sgd["p_value"], found["missing"], found["reference"]) == (None, 0, "SGD")
    assert f"{math.exp(-0.39):.4g} [" in result.stdout
    assert "ratio to SGD" in result.stdout
    drawing = (tmp_path / "figure.svg").read_text()
    assert "<svg" in drawing


def test_compare_says_what_is_missing(folder: Path, spec: Path) -> None:
    spec.write_text(SPEC.replace("lr = [0.1, 1]", "lr = [0.1, 1, 7]"))
    result = run("compare", spec)
    assert result.exit_code == 0, result.stderr
    assert "3 runs not finished: `memgrad run" in result.stderr
    assert "Left out, because no step size is selected: memory" in result.stderr
    assert "6 of 9" in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["ls", "--store", "nowhere"], 1, "there is no store; name one with --store or MEMGRAD_STORE"),
        (["ls", "--store", "SPEC"], 1, "a store is a folder and this is a file"),
        (["export", "rows.xlsx"], 2, "a table is written as .csv or .parquet"),
        (["export"], 2, "name a file ending in .csv or .parquet, or pass --csv"),
        (["export", "rows.parquet", "--csv"], 2, "--csv writes a file ending in .csv"),
        (["export", "rows.csv", "--spec", "nowhere.toml"], 1, "No such file"),
        (["compare", "SPEC", "--metric", "lost"], 2, "does not measure 'lost'; it measures loss"),
        (["compare", "SPEC", "--reference", "SDG"], 2, "did you mean 'SGD'?"),
        (["compare", "SPEC", "--out", "figure.gif"], 2, "a figure is saved as png, svg, pdf"),
        (["compare", "nowhere.toml"], 1, "No such file"),
        (["gc", "--keep", "nowhere.toml"], 1, "No such file"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_bad_words_are_answered_with_the_rule(spec: Path, words: list[str], code: int, complaint: str) -> None:
    result = run(*(str(spec) if word == "SPEC" else word for word in words))
    assert result.exit_code == code
    assert complaint in said(result)
    assert "Traceback" not in result.output


def test_nothing_finished_yet_is_told(tmp_path: Path, spec: Path) -> None:
    Store.open(tmp_path / "empty")
    result = run("compare", spec, "--store", tmp_path / "empty")
    assert result.exit_code == 2
    assert "'SGD' has no step size all of whose runs are finished" in said(result)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160, None])
def test_compare_and_ls_never_cut_a_number(folder: Path, spec: Path, width: int | None) -> None:
    env = {"COLUMNS": None if width is None else str(width), "NO_COLOR": "1", "TERM": "dumb"}
    found = json.loads(run("compare", spec, "--json").stdout)["methods"]
    text = CliRunner().invoke(app, ["compare", str(spec)], env=env).stdout
    lines = text.splitlines()
    for row in found:
        for each in filter(None, (row["final"], row["ratio"])):
            assert any(f"{each['mean']:.4g} [{each['low']:.4g}, {each['high']:.4g}]" in line for line in lines)
        assert any(row["method"] in line for line in lines)
        for p in ("p_value", "adjusted_p_value"):
            assert row[p] is None or any(f"{row[p]:.4f}" in line for line in lines)
    assert "…" not in text
    listed = CliRunner().invoke(app, ["ls"], env=env).stdout
    assert "…" not in listed
    assert all(any(word in line for line in listed.splitlines()) for word in ("MemSGD", "poly:2", "logistic"))
