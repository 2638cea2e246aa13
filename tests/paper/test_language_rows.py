"""The published rows behind L1 to L6 give the board that is published, and the page shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from memgrad.cli import app
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.storing.store import Store
from memgrad.experiments.storing.upkeep import copy_rows
from memgrad.paper.language.board import board, number_tables, verdict_table
from memgrad.paper.language.running import stored
from memgrad.paper.language.stages import Stages
from memgrad.paper.language.study import Study
from memgrad.paper.published import published_store

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "docs" / "results"


def published() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "language.json").read_text(encoding="utf-8"))
    return found


def same(one: Any, other: Any) -> bool:
    """Whether plain data is the same, numbers up to the rounding of other versions of numpy and scipy."""
    if isinstance(one, float) and isinstance(other, float | int):
        return one == pytest.approx(other, rel=1e-9, abs=1e-12)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def test_the_published_board_is_that_of_the_published_rows() -> None:
    rows = published_store(RESULTS, "language-laptop")
    found = json.loads(json.dumps(board(Study(Stages("laptop"), stored(rows)))))
    assert [each["id"] for each in found["verdicts"]] == ["L1", "L2", "L3", "L4", "L5", "L6"]
    assert same(found, published()), "docs/results/publish.py language publishes it"


def test_the_page_shows_the_tables_of_the_published_board() -> None:
    assert (RESULTS / "language.md").read_text(encoding="utf-8") == verdict_table(published())
    assert (RESULTS / "language_numbers.md").read_text(encoding="utf-8") == number_tables(published())
    page = (ROOT / "docs" / "where_memory_pays.md").read_text(encoding="utf-8")
    for name in ("language.md", "language_numbers.md", "language.svg"):
        assert f"results/{name}" in page
    # The page itself states no verdict: what is not in the tables is not said.
    assert not re.search(r"\b(confirmed|refuted)\b", page)


def test_published_rows_are_copied_into_a_store_and_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(spec: Spec, store: Store, *, workers: int, device: str | None) -> SimpleNamespace:
        return SimpleNamespace(title=spec.problem, left=3, runs=7, cost=SimpleNamespace(seconds=90.0))

    monkeypatch.setattr("memgrad.experiments.planning.preview.preview", fake)  # the real one trains for some seconds
    rows = published_store(RESULTS, "language-laptop")
    store = Store.open(tmp_path / "store")
    copy_rows(rows, store)
    assert set(store.digests()) == set(rows.digests())
    assert sum(path.stat().st_size for path in rows.path.rglob("*") if path.is_file()) < 5e6
    words = [
        "reproduce",
        "L1",
        "--scale",
        "laptop",
        "--plan",
        "--store",
        str(tmp_path / "other"),
        "--out",
        str(tmp_path),
    ]
    result = CliRunner().invoke(app, [*words, "--from", str(RESULTS)])
    assert result.exit_code == 0, result.output
    for name in ("lm-tune-short", "lm-tune-long", "lm-test-long"):
        assert re.search(rf"{name} .* 3 of 7 .* 1 min 30 s", result.output), result.output
    assert "About 4 min 30 s in total" in result.output
    assert set(Store.open(tmp_path / "other", create=False).digests()) == set(rows.digests())


def test_claims_of_the_paper_and_of_the_language_model_are_not_mixed(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", "L1", "R4", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "run by themselves" in " ".join(result.output.replace("│", " ").split())
