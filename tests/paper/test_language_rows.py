"""The published rows behind L1 to L6 give the verdicts that the page has."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from memgrad.cli import app
from memgrad.experiments.storing.store import Store
from memgrad.paper.language.running import judge, stored
from memgrad.paper.published import copy_rows, published_store

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "docs" / "results"


def told() -> dict[str, str]:
    """The verdict of each claim in the table of the page."""
    page = (ROOT / "docs" / "where_memory_pays.md").read_text(encoding="utf-8")
    return {name: verdict.strip() for name, verdict in re.findall(r"^\| (L\d) .*\|([^|]*)\|$", page, re.MULTILINE)}


def test_the_page_has_the_verdicts_that_the_published_rows_give() -> None:
    rows = published_store(RESULTS, "language-laptop")
    found = {
        each.finding.claim.id: each.outcome if each.finding.numbers else "not measured yet"
        for each in judge((), scale="laptop", find=stored(rows))
    }
    assert told() == found


def test_published_rows_are_copied_into_a_store_and_are_small(tmp_path: Path) -> None:
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
    assert set(Store.open(tmp_path / "other", create=False).digests()) == set(rows.digests())


def test_claims_of_the_paper_and_of_the_language_model_are_not_mixed(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", "L1", "R4", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "run by themselves" in " ".join(result.output.replace("│", " ").split())
