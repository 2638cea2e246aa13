"""The results in the documentation are those of the scoreboard beside them, and say what was run."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from memgrad.paper.claims import CLAIMS
from memgrad.paper.scales import EXPERIMENTS, experiment

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def publish() -> ModuleType:
    spec = importlib.util.spec_from_file_location("publish", FOLDER / "publish.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "scoreboard.json").read_text(encoding="utf-8"))
    return found


def test_the_table_is_that_of_the_scoreboard(publish: ModuleType, board: dict[str, Any]) -> None:
    assert (FOLDER / "scoreboard.md").read_text(encoding="utf-8") == publish.table(board)


def test_every_claim_has_a_verdict_by_the_rule_that_it_has_now(board: dict[str, Any]) -> None:
    assert [verdict["id"] for verdict in board["verdicts"]] == list(CLAIMS)
    assert {verdict["id"]: verdict["rule"] for verdict in board["verdicts"]} == {c.id: c.rule for c in CLAIMS.values()}
    assert board["scale"]["decides"]
    assert not board["skipped"]


def test_what_was_run_is_what_the_scale_asks_for_now(board: dict[str, Any]) -> None:
    assert list(board["experiments"]) == list(EXPERIMENTS)
    for name, made in board["experiments"].items():
        spec = experiment(name, board["scale"]["name"]).model_dump(mode="json", exclude_none=True)
        assert made["spec"] == spec, name


def test_the_pages_say_as_many_verdicts_as_there_are(board: dict[str, Any]) -> None:
    real = [verdict["outcome"] for verdict in board["verdicts"] if verdict["id"][0] in "RA"]
    said = ", ".join(f"{real.count(each)} {each}" for each in ("reproduced", "not reproduced", "undecided"))
    for page in (ROOT / "README.md", ROOT / "docs" / "results.md"):
        assert said in re.sub(r"\s+", " ", page.read_text(encoding="utf-8")), f"{page.name} must say: {said}"


def test_figures_are_small_and_there(publish: ModuleType) -> None:
    for name in publish.FIGURES:
        assert 1_000 < (FOLDER / f"{name}.png").stat().st_size < 400_000


def test_a_rehearsal_is_not_published(publish: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = {"host": "h", "cpu": "c"}
    rehearsed = {"scale": {"name": "quick", "decides": False}, "verdicts": [], "experiments": {}, "figures": {}}
    rehearsed |= {"skipped": {}, "interrupted": False, "about": {"machine": machine}}
    (tmp_path / "scoreboard.json").write_text(json.dumps(rehearsed))
    monkeypatch.setattr("sys.argv", ["publish.py", str(tmp_path)])
    monkeypatch.setattr(publish, "HERE", tmp_path / "nowhere")
    with pytest.raises(SystemExit):
        publish.main()
    assert not (tmp_path / "nowhere").exists()
