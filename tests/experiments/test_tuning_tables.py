"""The published tables of tuning beside an exhaustive grid are those of the published rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memgrad.experiments import Store

ROOT = Path(__file__).parent.parent.parent
ROWS = ROOT / "docs" / "results" / "rows" / "tuning"
TABLES = ROOT / "docs" / "benchmarks"

VALIDATIONS: dict[str, tuple[str, str]] = {
    "covtype, sample": ("tune_covtype.md", "covtype-softmax --sample --epochs 12 --nu 1.83"),
    "covtype": ("tune_covtype_complete.md", "covtype-softmax --steps 5000 --times 11 --loss-examples 20000"),
    "MLP": ("tune_mlp.md", "fashion-mlp --steps 2000 --times 11 --loss-examples 5000"),
    "CNN": ("tune_cnn.md", "cifar10-cnn --batch 32 --steps 200 --times 6 --loss-examples 2000"),
    "autoencoder, sample": ("tune_autoencoder.md", "mnist-autoencoder --sample --steps 200 --times 6"),
    "language model": ("tune_language.md", "benchmarks/tune_language.toml"),
}
"""The table of each problem, and how it is made."""


def benchmark(script: str, *words: str, folder: Path) -> None:
    """Run a script of benchmarks/ without data sets: they would be downloaded to train anything."""
    environment = {**os.environ, "MEMGRAD_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "benchmarks" / script), *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("which", VALIDATIONS)
def test_the_tables_of_tuning_are_made_again_from_the_published_rows(which: str, tmp_path: Path) -> None:
    name, words = VALIDATIONS[which]
    published = (TABLES / name).read_text(encoding="utf-8").splitlines()
    options = ("--from", str(ROWS), "--store", "store", "--out", "table.md")
    problem, *settings = words.split()
    problem = str(ROOT / problem) if problem.endswith(".toml") else problem
    benchmark("tune.py", "validate", problem, *settings, *options, folder=tmp_path)
    made = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    ours = [line for line in published if not line.startswith("| Optuna")]  # which is not installed here
    assert [line for line in made if not line.startswith("| Optuna")] == ours
    # Nothing was trained.
    assert set(Store.open(tmp_path / "store").digests()) == set(Store.open(ROWS).digests())


def test_a_summary_is_made_of_any_tables(tmp_path: Path) -> None:
    """The first has no Optuna, a pick of the second diverged, and there is a blank line at the end."""
    head = "| way to choose | runs | mean regret | largest regret | within 2 % |\n| --- | --- | --- | --- | --- |\n"
    rows = ["exhaustive grid | 100 | +0.0 % | +0.0 % | 1 of 1", "memgrad tune | 20 | +0.1 % | +0.3 % | 10 of 10"]
    more = ["Optuna, TPE, median pruner, one seed | 3 | +inf % | +inf % | 9 of 10"]
    for name, lines in (("one.md", rows), ("two.md", rows + more)):
        (tmp_path / name).write_text(head + "\n".join(f"| {line} |" for line in lines) + "\n\n")
    benchmark("tune_summary.py", "a=one.md", "b=two.md", "--out", "sum.md", "--figure", "sum.svg", folder=tmp_path)
    assert "9 of 10; +inf %; 3 runs" in (tmp_path / "sum.md").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "<!-- Optuna, TPE, median pruner, one seed -->" in (tmp_path / "sum.svg").read_text()
    with pytest.raises(AssertionError, match=r"PROBLEM=TABLE\.md, got 'one\.md'"):
        benchmark("tune_summary.py", "one.md", folder=tmp_path)


def test_the_summary_of_tuning_is_made_of_its_tables(tmp_path: Path) -> None:
    tables = [f"{problem}={TABLES / name}" for problem, (name, _) in VALIDATIONS.items()]
    benchmark("tune_summary.py", *tables, "--out", "summary.md", "--figure", "summary.svg", folder=tmp_path)
    assert (tmp_path / "summary.md").read_text() == (TABLES / "tune_summary.md").read_text()
    assert all(f"<!-- {problem} -->" in (tmp_path / "summary.svg").read_text() for problem in VALIDATIONS)
    page = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    assert all(f"benchmarks/tune.py validate {words}" in " ".join(page.split()) for _, words in VALIDATIONS.values())
