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

VALIDATIONS: dict[str, str] = {
    "tune_covtype.md": "covtype-softmax --sample --epochs 12 --nu 1.83",
    "tune_covtype_complete.md": "covtype-softmax --steps 5000 --times 11 --loss-examples 20000",
    "tune_mlp.md": "fashion-mlp --steps 2000 --times 11 --loss-examples 5000",
}
"""How each table is made, by its file."""


@pytest.mark.slow
@pytest.mark.parametrize("name", VALIDATIONS)
def test_the_tables_of_tuning_are_made_again_from_the_published_rows(name: str, tmp_path: Path) -> None:
    published = (ROOT / "docs" / "benchmarks" / name).read_text(encoding="utf-8").splitlines()
    words = [*VALIDATIONS[name].split(), "--from", str(ROWS), "--store", "store", "--out", "table.md"]
    # No data set is in an empty cache: it would be downloaded to train anything, which the last line excludes.
    environment = {**os.environ, "MEMGRAD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "benchmarks" / "tune.py"), "validate", *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    ours = [line for line in published if not line.startswith("| Optuna")]  # which is not installed here
    assert [line for line in made if not line.startswith("| Optuna")] == ours
    assert set(Store.open(tmp_path / "store").digests()) == set(Store.open(ROWS).digests())
